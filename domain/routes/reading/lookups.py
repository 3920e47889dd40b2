"""Reads routes for the API: by id, by externalId, and in lists."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar
from uuid import UUID

import msgspec

from domain.accounts.keys import VALID
from domain.contract.shapes import Route, RouteList, RouteQuery
from domain.database.connections import Connection, Tenant, as_array
from domain.database.statements import Query, Scalar, Statement
from domain.ids import read_id
from domain.lifecycle import Environment
from domain.routes.reading.answers import DRIVER_NAME, ROUTE_COLUMNS, UNIT_NUMBER, RouteRow, route_answer
from domain.routes.reading.counts import COUNTED_COLUMNS

_VERSION = f"md5(ROW(r.id, r.updated_at, {UNIT_NUMBER}, {DRIVER_NAME})::text)"
"""A text that changes with the answer, because each change of a route, its visits or its plan sets `updated_at`. An
erasure takes the driver's name away and leaves `updated_at`, which tells the age of a finished route."""

_PLAN = "p.document::text AS plan, p.timeline::text AS timeline, r.fuel_visits::text AS fuel_visits"
_VISITS = "jsonb_object_agg(visit.stop, jsonb_build_array(visit.arrived_at, visit.departed_at))::text"
_NAMES = """
    LEFT JOIN vehicles v ON v.id = r.vehicle_id
    LEFT JOIN drivers d ON d.id = r.driver_id
"""
_JOINED = f"{_NAMES} LEFT JOIN plans p ON p.id = r.plan_id"
_ROUTES = f"""
    SELECT {ROUTE_COLUMNS}, {_PLAN},
           CASE WHEN r.arrived_at IS NOT NULL THEN (
               SELECT {_VISITS} FROM visits visit WHERE visit.route_id = r.id) END AS visits,
           {_VERSION} AS version, 0 AS total,
"""
_ASKED = f"""
    FROM unnest(%(key_ids)s::uuid[], %(asked)s::{{type}}[]) WITH ORDINALITY AS asked (key_id, {{name}}, position)
    CROSS JOIN LATERAL (SELECT k.company_id, k.environment {VALID} AND k.id = asked.key_id LIMIT 1) AS w
"""
"""The questions whose key is valid at this moment, with the tenant `w` of the key."""

_ASKED_BY_ID = f"""
    {_ASKED.format(type="uuid", name="id")}
    JOIN routes r ON r.id = asked.id AND r.company_id = w.company_id AND r.environment = w.environment
"""


class Versioned(NamedTuple):
    """A route in the API's form."""

    version: str
    """A text that changes with the answer."""
    route: Route


class _VersionRow(NamedTuple):
    version: str
    position: int


_OF_TENANTS = Statement(RouteRow, f"{_ROUTES} 0 AS position FROM routes r {_JOINED} WHERE r.id = ANY(%s::uuid[])")
_OF_KEYS = Statement(RouteRow, f"{_ROUTES} asked.position::int AS position {_ASKED_BY_ID} {_JOINED}")
_VERSIONS = Statement(
    _VersionRow, f"SELECT {_VERSION} AS version, asked.position::int AS position {_ASKED_BY_ID} {_NAMES}"
)

_NEWEST = """coalesce(
    (SELECT living.id FROM routes living
     WHERE (living.company_id, living.environment, living.external_id)
         = (w.company_id, w.environment, {external_id}) AND living.status <> 'canceled'),
    (SELECT canceled.id FROM routes canceled
     WHERE (canceled.company_id, canceled.environment, canceled.external_id)
         = (w.company_id, w.environment, {external_id}) AND canceled.status = 'canceled'
     ORDER BY canceled.created_at DESC, canceled.id DESC LIMIT 1))"""
"""The newest route of tenant `w` with an externalId: the one that is not canceled, or else the one that was created
last. A push creates another route only after the one before was canceled."""

_FIND = Statement(
    RouteRow,
    f"""
    {_ROUTES} asked.position::int AS position
    {_ASKED.format(type="text", name="external_id")}
    CROSS JOIN LATERAL (SELECT {_NEWEST.format(external_id="asked.external_id")} AS id OFFSET 0) AS newest
    JOIN routes r ON r.id = newest.id
    {_JOINED}
    """,
)


def read_routes(wanted: Sequence[tuple[Tenant, UUID]]) -> Query[list[Versioned | None]]:
    """One query for all wanted routes, in order; None where the tenant has no such route."""

    def read(rows: list[RouteRow]) -> list[Versioned | None]:
        found = {row.id: row for row in rows}
        return [
            _versioned(row)
            if (row := found.get(route_id)) is not None and (row.company_id, row.environment) == tenant
            else None
            for tenant, route_id in wanted
        ]

    return Query(_OF_TENANTS, (as_array(route_id for _, route_id in wanted),), read)


def read_any_route(connection: Connection, route_id: UUID) -> tuple[Tenant, Route] | None:
    """A route of any company, for operators."""
    row = _OF_TENANTS.first(connection, (as_array([route_id]),))
    return None if row is None else (Tenant(row.company_id, Environment(row.environment)), route_answer(row))


def ask_routes(asked: Sequence[tuple[UUID, UUID]]) -> Query[list[Versioned | None]]:
    """One query for routes by a key and the route's id, in order. None if the key is no longer valid, or its tenant has
    no such route."""
    return _asked(_OF_KEYS, asked, as_array(route_id for _, route_id in asked), _versioned)


def ask_versions(asked: Sequence[tuple[UUID, UUID]]) -> Query[list[str | None]]:
    """The version of each route, in order, for a client that may have the answer already. Stops and plan are not
    loaded. None as in `ask_routes`."""
    return _asked(_VERSIONS, asked, as_array(route_id for _, route_id in asked), lambda row: row.version)


def ask_external_ids(asked: Sequence[tuple[UUID, str]]) -> Query[list[Route | None]]:
    """The newest route with each externalId, in order, by a key. None as in `ask_routes`."""
    return _asked(_FIND, asked, [external_id for _, external_id in asked], route_answer)


_Row = TypeVar("_Row", RouteRow, _VersionRow)
_Answer = TypeVar("_Answer")


def _asked(
    statement: Statement[_Row],
    asked: Sequence[tuple[UUID, object]],
    values: str | list[str],
    answer: Callable[[_Row], _Answer],
) -> Query[list[_Answer | None]]:
    def read(rows: list[_Row]) -> list[_Answer | None]:
        answers: list[_Answer | None] = [None] * len(asked)
        for row in rows:
            answers[row.position - 1] = answer(row)
        return answers

    return Query(statement, {"key_ids": as_array(key_id for key_id, _ in asked), "asked": values}, read)


def _versioned(row: RouteRow) -> Versioned:
    return Versioned(row.version, route_answer(row))


_TENANTS_ROUTES = "routes r WHERE r.company_id = %(company_id)s AND r.environment = %(environment)s"
_BETWEEN = """
    AND r.scheduled_start >= (SELECT coalesce(%(start_from)s::timestamptz, '-infinity'))
    AND r.scheduled_start < (SELECT coalesce(%(start_to)s::timestamptz, 'infinity'))"""
_ANY_STATUS = " AND (%(status)s::text IS NULL OR r.status = %(status)s)"
_OF_VEHICLE = f"{_TENANTS_ROUTES}{_ANY_STATUS}{_BETWEEN} AND r.vehicle_id = %(vehicle_id)s"
_OF_EXTERNAL_ID = f"""{_TENANTS_ROUTES}{_ANY_STATUS}{_BETWEEN}
    AND (%(vehicle_id)s::uuid IS NULL OR r.vehicle_id = %(vehicle_id)s)
    AND r.id = (SELECT {_NEWEST.format(external_id="w.external_id")}
                FROM (SELECT %(company_id)s::uuid, %(environment)s::text, %(external_id)s::text)
                     AS w (company_id, environment, external_id))"""
"""The plan of a list by key is made before its parameters are known (`BY_KEY`). So a filter that an index serves stands
in the text without `OR`: `from` and `to` always, with infinity where they are not given, and the status where it is.
`coalesce` stands in a SELECT of its own, because behind the second wall no index serves it
(`domain.database.visibility`). `IS NULL OR` is for filters that narrow few routes further. An `externalId` names one
route, to which the others apply."""

_DAY_OF_START = "date_bin('1 day', %(start_{end})s::timestamptz, timestamptz 'epoch')"
_FIRST_DAY, _LAST_DAY = _DAY_OF_START.format(end="from"), _DAY_OF_START.format(end="to")
_DAY = "interval '24 hours'"


def _counted(status: str) -> str:
    """The number of listed routes that start on each day."""
    return f"""
        SELECT day, sum(routes)::int AS routes FROM {COUNTED_COLUMNS} AS parts
        WHERE company_id = %(company_id)s AND environment = %(environment)s{status} GROUP BY day
    """


def _counted_between(status: str) -> str:
    """The number of listed routes that start on each day, between `from` and `to`. On the days that these cut through,
    perhaps one day, the wanted part is counted. For example, from Monday 08:00 to Thursday 17:00 Tuesday and Wednesday
    need no counting."""
    listed = f"{_TENANTS_ROUTES}{status}{_BETWEEN}"
    return f"""
    SELECT day, sum(routes)::int AS routes FROM (
        SELECT day, routes FROM {COUNTED_COLUMNS} AS parts
        WHERE company_id = %(company_id)s AND environment = %(environment)s{status}
          AND day > (SELECT coalesce({_FIRST_DAY}, '-infinity'))
          AND day < (SELECT coalesce({_LAST_DAY}, 'infinity'))
        UNION ALL
        SELECT {_FIRST_DAY}, count(*) FROM {listed}
          AND %(start_from)s::timestamptz IS NOT NULL AND r.scheduled_start < {_FIRST_DAY} + {_DAY}
        UNION ALL
        SELECT {_LAST_DAY}, count(*) FROM {listed}
          AND %(start_to)s::timestamptz IS NOT NULL
          AND r.scheduled_start >= greatest({_LAST_DAY}, {_FIRST_DAY} + {_DAY})
    ) AS counted WHERE day IS NOT NULL GROUP BY day
    """


class _List(NamedTuple):
    """The two statements of a list: a page with the total in each row, and the total for an empty page."""

    page: Statement[RouteRow]
    total: Scalar[int]


def _page(listed: str, skipped: str, total: str, days: str = "") -> str:
    return f"""
        WITH {days} page AS MATERIALIZED (
            SELECT r.id FROM {listed} ORDER BY r.scheduled_start DESC, r.id LIMIT %(limit)s OFFSET {skipped}
        ), reached AS MATERIALIZED (
            SELECT visit.route_id, {_VISITS} AS visits FROM visits visit
            WHERE visit.route_id = ANY(ARRAY(SELECT id FROM page)) GROUP BY visit.route_id)
        SELECT {ROUTE_COLUMNS}, {_PLAN}, reached.visits, '' AS version, ({total}) AS total, 0 AS position
        FROM routes r {_JOINED} LEFT JOIN reached ON reached.route_id = r.id
        WHERE r.id = ANY(ARRAY(SELECT id FROM page)) ORDER BY r.scheduled_start DESC, r.id
    """


def _short_total(listed: str) -> str:
    return f"SELECT count(*) AS total FROM {listed}"


def _short_page(listed: str) -> str:
    """A page from a list of few routes, which are counted."""
    return _page(listed, "%(offset)s::int", _short_total(listed))


def _long_total(counted: str) -> str:
    return f"SELECT coalesce(sum(routes), 0) AS total FROM ({counted}) AS days"


def _long_page(listed: str, counted: str) -> str:
    """A page from a list of routes that `counts` has counted by day. The skipped routes are searched in an index, and
    only from the day on which the page begins: the days before are skipped by their counts."""
    days = f"""
        days AS MATERIALIZED ({counted}),
        first AS MATERIALIZED (
            SELECT day + {_DAY} AS before, %(offset)s::int - (through - routes) AS skipped
            FROM (SELECT day, routes, sum(routes) OVER (ORDER BY day DESC) AS through FROM days) AS running
            WHERE through > %(offset)s::int ORDER BY day DESC LIMIT 1),"""
    return _page(
        f"{listed} AND r.scheduled_start < (SELECT before FROM first)",
        "(SELECT skipped FROM first)",
        "SELECT sum(routes) FROM days",
        days,
    )


_STATUS = {False: "", True: " AND status = %(status)s"}
_ALL_ROUTES = {
    given: _List(
        Statement(RouteRow, _long_page(f"{_TENANTS_ROUTES}{status}", _counted(status))),
        Scalar(int, _long_total(_counted(status))),
    )
    for given, status in _STATUS.items()
}
_BY_START = {
    given: _List(
        Statement(RouteRow, _long_page(f"{_TENANTS_ROUTES}{status}{_BETWEEN}", _counted_between(status))),
        Scalar(int, _long_total(_counted_between(status))),
    )
    for given, status in _STATUS.items()
}
_BY_VEHICLE = _List(
    Statement(RouteRow, _short_page(_OF_VEHICLE)),
    Scalar(int, _short_total(_OF_VEHICLE)),
)
_BY_EXTERNAL_ID = _List(
    Statement(RouteRow, _short_page(_OF_EXTERNAL_ID)),
    Scalar(int, _short_total(_OF_EXTERNAL_ID)),
)


def _list_for(query: RouteQuery) -> _List:
    if query.external_id is not None:
        return _BY_EXTERNAL_ID
    if query.vehicle_id is not None:
        return _BY_VEHICLE
    of_kind = _ALL_ROUTES if query.start_from is None and query.start_to is None else _BY_START
    return of_kind[query.status is not None]


_FURTHEST = 2**31 - 1
"""Largest offset that is used; no list has more entries."""


_NO_VEHICLE = UUID(int=0)


def list_routes(connection: Connection, tenant: Tenant, query: RouteQuery) -> RouteList:
    """One page, newest scheduled start first, ties by id, with the total of routes as of the same moment."""
    parameters = {
        **tenant._asdict(),
        **msgspec.structs.asdict(query),
        "vehicle_id": None if query.vehicle_id is None else read_id("veh", query.vehicle_id) or _NO_VEHICLE,
        "offset": min(query.offset, _FURTHEST),
    }
    listed = _list_for(query)
    rows = listed.page.all(connection, parameters)
    total = rows[0].total if rows else listed.total.one(connection, parameters)
    return RouteList(data=[route_answer(row) for row in rows], total=total, limit=query.limit, offset=query.offset)
