"""The console's list of routes: the filters of the API, and the words that people know a route by.

With the API's filters alone, the list is the API's, with its exact totals. Words have no index, because every push
would pay for it. So they are searched among a bounded number of routes, those with the latest start. A truck's and a
driver's routes are found by their index, and so are a whole `externalId`, however old its route is, and the whole
reference of a route whose truck has not started it."""

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

import msgspec

from domain.contract.shapes import Route, RouteList, RouteQuery
from domain.database.connections import Connection, Tenant
from domain.database.index_order import in_index_order
from domain.database.statements import Scalar, Statement
from domain.ids import read_id
from domain.lifecycle import PendingReason, RouteStatus
from domain.routes.reading.lookups import list_routes, read_routes

MOST_ROUTES_SEARCHED = 10_000
"""Most routes in which words are searched."""
MOST_RECORDS = 20
"""Most vehicles, or drivers, that a word may mean."""


class RouteSearch(NamedTuple):
    """A search by a user of the console. Empty filters match everything."""

    status: RouteStatus | None = None
    start_from: datetime | None = None
    start_to: datetime | None = None
    held: PendingReason | None = None
    unit: str = ""
    """Part of a unit number, or the whole of one."""
    driver: str = ""
    """Part of a driver's name, or the whole of one."""
    text: str = ""
    """Part of the `externalId`, of the reference or of a stop's name; or a route's id."""


class FoundRoutes(NamedTuple):
    routes: list[Route]
    """One page in the asked order of the scheduled start, ties by id."""
    total: int
    is_partial: bool
    """True if others may fit too: the search stopped at MOST_ROUTES_SEARCHED routes, or at MOST_RECORDS vehicles or
    drivers."""


def search_routes(
    connection: Connection,
    tenant: Tenant,
    wanted: RouteSearch,
    *,
    limit: int,
    offset: int,
    earliest_first: bool = False,
) -> FoundRoutes:
    """One page, the latest scheduled start first, or the earliest. The routes in which words are looked for are the
    same in both orders."""
    if not (wanted.held or wanted.unit or wanted.driver or wanted.text):
        query = RouteQuery(
            limit=limit,
            offset=offset,
            status=wanted.status,
            start_from=wanted.start_from,
            start_to=wanted.start_to,
        )
        listed = _from_the_end(connection, tenant, query) if earliest_first else list_routes(connection, tenant, query)
        return FoundRoutes(listed.data, listed.total, is_partial=False)
    found = _search_ids(connection, tenant, wanted, limit=limit, offset=offset, earliest_first=earliest_first)
    routes = _routes_of(connection, tenant, found.ids)
    return FoundRoutes(routes, found.total, is_partial=found.searched >= MOST_ROUTES_SEARCHED or found.has_most_records)


def every_route(
    connection: Connection,
    tenant: Tenant,
    wanted: RouteSearch,
    *,
    earliest_first: bool = False,
    portion: int = 1_000,
) -> Iterator[Route]:
    """The routes of all pages of a list of MOST_ROUTES_SEARCHED routes at most. One statement says which they are, so
    that a push between two portions repeats none, and a route that leaves the list takes no other one with it."""
    found = _search_ids(connection, tenant, wanted, limit=MOST_ROUTES_SEARCHED, offset=0, earliest_first=earliest_first)
    for begin in range(0, len(found.ids), portion):
        yield from _routes_of(connection, tenant, found.ids[begin : begin + portion])


def _routes_of(connection: Connection, tenant: Tenant, ids: Sequence[UUID]) -> list[Route]:
    """The routes in the order of their ids, without those that are gone."""
    routes = read_routes([(tenant, route_id) for route_id in ids]).on(connection)
    return [one.route for one in routes if one is not None]


class _FoundIds(NamedTuple):
    ids: Sequence[UUID]
    total: int
    searched: int
    has_most_records: bool


def _search_ids(
    connection: Connection, tenant: Tenant, wanted: RouteSearch, *, limit: int, offset: int, earliest_first: bool
) -> _FoundIds:
    unit, driver = wanted.unit.lower(), wanted.driver.lower()
    vehicle_ids = _records(_VEHICLES, connection, tenant, unit)
    driver_ids = _records(_DRIVERS, connection, tenant, driver)
    parameters = {
        **tenant._asdict(),
        **wanted._asdict(),
        "status": _status(wanted),
        "unit": unit,
        "driver": driver,
        "text": wanted.text.lower(),
        "whole_text": wanted.text,
        "route_id": read_id("rte", wanted.text),
        "vehicle_ids": vehicle_ids,
        "driver_ids": driver_ids,
        "limit": limit,
        "offset": offset,
        "most": MOST_ROUTES_SEARCHED,
        "earliest_first": earliest_first,
    }
    source = _source(wanted)
    with in_index_order(connection) if source != "driver" else nullcontext():  # its index has no order
        found = _SEARCH[source].one(connection, parameters)
    return _FoundIds(*found, has_most_records=max(len(vehicle_ids), len(driver_ids)) >= MOST_RECORDS)


def _from_the_end(connection: Connection, tenant: Tenant, query: RouteQuery) -> RouteList:
    """A page counted from the list's end, in the opposite order. The total is exact, so the place of that page is
    known."""
    total = list_routes(connection, tenant, msgspec.structs.replace(query, limit=1, offset=0)).total
    end = max(0, total - query.offset)
    begin = max(0, end - query.limit)
    if begin == end:
        return RouteList(data=[], total=total, limit=query.limit, offset=query.offset)
    listed = list_routes(connection, tenant, msgspec.structs.replace(query, limit=end - begin, offset=begin))
    return RouteList(data=listed.data[::-1], total=listed.total, limit=query.limit, offset=query.offset)


def _status(wanted: RouteSearch) -> RouteStatus | None:
    """The wanted status. Each reason for a hold belongs to one status, which has an index."""
    match wanted.held:
        case None:
            return wanted.status
        case PendingReason.VEHICLE_UNMAPPED | PendingReason.DRIVER_UNMAPPED:
            held = RouteStatus.PENDING_MAPPING
        case PendingReason.OUTSIDE_IMPORT_WINDOW:
            held = RouteStatus.PENDING_WINDOW
        case PendingReason.NOT_ATTEMPTED | PendingReason.ERROR:
            held = RouteStatus.PENDING
    return wanted.status or held


def _source(wanted: RouteSearch) -> str:
    """The source that leaves the fewest routes to read; a key of `_SOURCES`."""
    if wanted.unit:
        return "vehicle"
    if wanted.driver:
        return "driver"
    return "status" if _status(wanted) else "start"


def _named(table: str, column: str) -> str:
    """SQL for the records whose name contains a word. If the word is some records' whole name, only those."""
    return f"""
        SELECT id FROM {table} WHERE company_id = %(company_id)s AND position(%(word)s::text IN lower({column})) > 0
            AND (lower({column}) = %(word)s::text OR NOT EXISTS (
                SELECT FROM {table} whole
                WHERE whole.company_id = %(company_id)s AND lower(whole.{column}) = %(word)s::text))
        ORDER BY retired_at IS NULL DESC, {column}, id LIMIT {MOST_RECORDS}
    """


_VEHICLES = Scalar(UUID, _named("vehicles", "unit_number"))
_DRIVERS = Scalar(UUID, _named("drivers", "name"))


def _records(statement: Scalar[UUID], connection: Connection, tenant: Tenant, word: str) -> Sequence[UUID]:
    if not word:
        return []
    return statement.all(connection, {"company_id": tenant.company_id, "word": word})


class _Search(NamedTuple):
    ids: list[UUID]
    total: int
    searched: int


_OF_TENANT = "r.company_id = %(company_id)s AND r.environment = %(environment)s"
_IN_TIME = (
    "r.scheduled_start >= coalesce(%(start_from)s::timestamptz, '-infinity')"
    " AND r.scheduled_start < coalesce(%(start_to)s::timestamptz, 'infinity')"
)
_FITS = f"""(
    {_IN_TIME}
    AND (%(status)s::text IS NULL OR r.status = %(status)s)
    AND (%(held)s::text IS NULL OR r.pending_reason = %(held)s)
    AND (%(unit)s::text = '' OR r.vehicle_id = ANY(%(vehicle_ids)s::uuid[])
         OR r.vehicle_id IS NULL AND position(%(unit)s IN lower(r.vehicle_unit_number)) > 0)
    AND (%(driver)s::text = '' OR r.driver_id = ANY(%(driver_ids)s::uuid[])
         OR r.driver_id IS NULL AND position(%(driver)s IN lower(r.driver_name)) > 0)
    AND (%(text)s::text = '' OR r.id = %(route_id)s::uuid OR position(%(text)s IN lower(r.external_id)) > 0
         OR position(%(text)s IN lower(r.reference)) > 0
         OR EXISTS (SELECT FROM jsonb_array_elements(r.stops) AS stop
                    WHERE position(%(text)s IN lower(stop->>'name')) > 0))
)"""
"""NULL counts as false."""
_READ = f"SELECT r.id, r.scheduled_start, {_FITS} AS fits FROM routes r WHERE {_OF_TENANT}"
_LATEST = "ORDER BY r.scheduled_start DESC, r.id LIMIT %(most)s::int"


def _of_records(kind: str) -> list[str]:
    """The routes of these vehicles or drivers, and those that wait until it is clear which one is meant."""
    return [
        f"SELECT theirs.* FROM unnest(%({kind}_ids)s::uuid[]) AS record (id)"
        f" CROSS JOIN LATERAL ({_READ} AND r.{kind}_id = record.id {_LATEST}) AS theirs",
        f"{_READ} AND r.status = 'pending_mapping' {_LATEST}",
    ]


_SOURCES = {
    "start": [f"{_READ} AND {_IN_TIME} {_LATEST}"],
    "status": [f"{_READ} AND {_IN_TIME} AND r.status = %(status)s {_LATEST}"],
    "vehicle": _of_records("vehicle"),
    "driver": _of_records("driver"),
}
_NAMED = [
    f"{_READ} AND r.id = %(route_id)s::uuid",
    f"{_READ} AND r.external_id = %(whole_text)s::text AND r.status <> 'canceled'",
    f"{_READ} AND r.external_id = %(whole_text)s::text AND r.status = 'canceled'",
    f"{_READ} AND r.reference = %(whole_text)s::text AND r.reference <> ''"
    " AND r.status IN ('pending', 'pending_mapping', 'pending_window', 'draft', 'planned') LIMIT %(most)s::int",
]
"""Routes that an index finds at any age."""


def _search(sources: Sequence[str]) -> str:
    arms = [
        f"SELECT {number} AS arm, one.* FROM ({source}) AS one" for number, source in enumerate([*sources, *_NAMED])
    ]
    return f"""
        WITH searched AS MATERIALIZED ({" UNION ALL ".join(arms)}),
        found AS MATERIALIZED (SELECT DISTINCT id, scheduled_start FROM searched WHERE fits)
        SELECT ARRAY(SELECT id FROM found
                     ORDER BY CASE WHEN %(earliest_first)s::bool THEN scheduled_start END,
                              CASE WHEN %(earliest_first)s::bool THEN NULL ELSE scheduled_start END DESC, id
                     LIMIT %(limit)s OFFSET %(offset)s) AS ids,
               (SELECT count(*) FROM found)::int AS total,
               (SELECT coalesce(max(routes), 0) FROM (
                    SELECT count(*) AS routes FROM searched GROUP BY arm) AS arms)::int AS searched
    """


_SEARCH = {name: Statement(_Search, _search(sources)) for name, sources in _SOURCES.items()}
