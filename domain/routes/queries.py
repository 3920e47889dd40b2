"""How routes are read: by id, by externalId, and in lists."""

from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import NamedTuple, TypeVar

import msgspec

from domain.contract.shapes import Route, RouteList, RouteQuery
from domain.database import Connection, Tenant
from domain.routes.answers import RouteRow, route_answer
from domain.statements import Statement

NEAR = 1_000
"""Up to this offset a page is read first: where it is not full, it tells the total. From there on the total is counted
first: it tells which end is nearer."""

_VERSION = "md5(ROW(r.id, r.updated_at, v.unit_number, d.name)::text)"
"""Differs whenever the answer does: every change of a route, its visits and its plan renews `updated_at`."""

_ROUTES = f"""
    SELECT r.id, r.company_id, r.environment, r.external_id, r.reference, r.status, r.pending_reason, r.pending_detail,
           r.vehicle_id, r.driver_id, r.scheduled_start, r.stops, r.distance_miles, r.created_at,
           CASE WHEN v.id IS NULL THEN r.vehicle_unit_number ELSE v.unit_number END AS unit_number,
           CASE WHEN d.id IS NULL THEN r.driver_name ELSE d.name END AS driver_name,
           p.document AS plan, p.timeline,
           CASE WHEN r.arrived_at IS NOT NULL THEN (
               SELECT jsonb_object_agg(visit.stop, jsonb_build_array(visit.arrived_at, visit.departed_at))
               FROM visits visit WHERE visit.route_id = r.id) END AS visits,
           {_VERSION} AS version
    FROM routes r
    LEFT JOIN vehicles v ON v.id = r.vehicle_id
    LEFT JOIN drivers d ON d.id = r.driver_id
    LEFT JOIN plans p ON p.id = r.plan_id
"""  # noqa: S608 (constants of this module)


class Versioned(NamedTuple):
    """A route as the API answers it, and what tells this answer from any other of the route."""

    version: str
    route: Route


class _VersionRow(NamedTuple):
    version: str
    id: str
    company_id: str
    environment: str


# the tenant is compared afterwards, each with its own
_BY_ID = Statement(RouteRow, _ROUTES + "WHERE r.id = ANY(%s)")
_VERSIONS_BY_ID = Statement(
    _VersionRow,
    f"""
    SELECT {_VERSION} AS version, r.id, r.company_id, r.environment
    FROM routes r
    LEFT JOIN vehicles v ON v.id = r.vehicle_id
    LEFT JOIN drivers d ON d.id = r.driver_id
    WHERE r.id = ANY(%s)
    """,  # noqa: S608 (constants of this module)
)


def read_routes(connection: Connection, wanted: Sequence[tuple[Tenant, str]]) -> list[Versioned | None]:
    """Each wanted route, in order; None where that tenant has no such route. One query for all."""
    return [
        Versioned(row.version, route_answer(row)) if row is not None else None
        for row in _wanted(_BY_ID, connection, wanted)
    ]


def read_versions(connection: Connection, wanted: Sequence[tuple[Tenant, str]]) -> list[str | None]:
    """Only the version of each, for a client that may have it already: neither stops nor plan are loaded."""
    return [row.version if row is not None else None for row in _wanted(_VERSIONS_BY_ID, connection, wanted)]


_Row = TypeVar("_Row", RouteRow, _VersionRow)


def _wanted(by_id: Statement[_Row], connection: Connection, wanted: Sequence[tuple[Tenant, str]]) -> list[_Row | None]:
    rows = by_id.all(connection, (list({route_id for _, route_id in wanted}),))
    by_key = {(row.company_id, row.environment, row.id): row for row in rows}
    return [by_key.get((tenant.company_id, tenant.environment, route_id)) for tenant, route_id in wanted]


_NEWEST = """r.id = ANY(ARRAY(
    SELECT coalesce(
        (SELECT living.id FROM routes living
         WHERE (living.company_id, living.environment, living.external_id)
             = (w.company_id, w.environment, w.external_id) AND living.status <> 'canceled'),
        (SELECT canceled.id FROM routes canceled
         WHERE (canceled.company_id, canceled.environment, canceled.external_id)
             = (w.company_id, w.environment, w.external_id) AND canceled.status = 'canceled'
         ORDER BY canceled.created_at DESC, canceled.id DESC LIMIT 1))
    FROM unnest(%(company_ids)s::text[], %(environments)s::text[], %(external_ids)s::text[])
         AS w (company_id, environment, external_id)))"""
"""The newest route with each externalId. One that is not canceled is the newest: a push makes another only after it."""

_FIND = Statement(RouteRow, f"{_ROUTES} WHERE {_NEWEST}")


def find_by_external_id(connection: Connection, wanted: Sequence[tuple[Tenant, str]]) -> list[Route | None]:
    """The newest route with each externalId, in order; None where that tenant has no such route. One query for all."""
    rows = _FIND.all(connection, _newest(wanted))
    by_key = {(row.company_id, row.environment, row.external_id): route_answer(row) for row in rows}
    return [by_key.get((*tenant, external_id)) for tenant, external_id in wanted]


def _newest(wanted: Sequence[tuple[Tenant, str]]) -> dict[str, list[str]]:
    """The parameters of `_NEWEST`."""
    return {
        "company_ids": [tenant.company_id for tenant, _ in wanted],
        "environments": [tenant.environment for tenant, _ in wanted],
        "external_ids": [external_id for _, external_id in wanted],
    }


class _Total(NamedTuple):
    total: int


_FILTERS = {
    "status": "r.status = %(status)s",
    "vehicle_id": "r.vehicle_id = %(vehicle_id)s",
    "start_from": "r.scheduled_start >= %(start_from)s",
    "start_to": "r.scheduled_start < %(start_to)s",
    "external_id": _NEWEST,  # the other filters then apply to that one
}


def _source(filters: Iterable[str]) -> str:
    clauses = ["r.company_id = %(company_id)s AND r.environment = %(environment)s"]
    clauses += [_FILTERS[name] for name in filters]
    return "routes r WHERE " + " AND ".join(clauses)


def _page_of(source: str, order: str) -> str:
    """In the order of the list whatever the `order` that the page is looked for in. An index alone leads to the page:
    of what is skipped no row is read."""
    ids = f"SELECT r.id FROM {source} ORDER BY {order} LIMIT %(limit)s OFFSET %(offset)s"  # noqa: S608
    return f"{_ROUTES}WHERE r.id = ANY(ARRAY({ids})) ORDER BY r.scheduled_start DESC, r.id"


_SOURCES = {
    frozenset(filters): _source(filters)
    for size in range(len(_FILTERS) + 1)
    for filters in combinations(_FILTERS, size)
}
"""The routes that a query asks for, by the names of the filters that it gives: 32 combinations."""

_COUNT = {
    filters: Statement(_Total, "SELECT count(*) AS total FROM " + source)  # noqa: S608
    for filters, source in _SOURCES.items()
}
_PAGE = {
    filters: Statement(RouteRow, _page_of(source, "r.scheduled_start DESC, r.id"))
    for filters, source in _SOURCES.items()
}
_PAGE_FROM_END = {
    filters: Statement(RouteRow, _page_of(source, "r.scheduled_start, r.id DESC"))
    for filters, source in _SOURCES.items()
}


def list_routes(connection: Connection, tenant: Tenant, query: RouteQuery) -> RouteList:
    """One page, newest scheduled start first, ties by id, and how many routes there are in all.

    PostgreSQL walks over every entry that is skipped, so a page in the second half of the list is looked for from the
    end. Of 10,000 routes, the 50 from offset 9,900 on are those after the last 10,000 - 9,900 - 50 = 50: 50 are skipped
    instead of 9,900. That takes the total, which is counted anyway; only near the beginning a page that is not full
    tells it without counting.
    """
    filters = frozenset(name for name in _FILTERS if getattr(query, name) is not None)
    parameters = {**tenant._asdict(), **msgspec.structs.asdict(query), **_newest([(tenant, query.external_id or "")])}

    def count() -> int:
        return _COUNT[filters].one(connection, parameters).total

    def page(pages: dict[frozenset[str], Statement[RouteRow]], offset: int, limit: int) -> list[Route]:
        rows = pages[filters].all(connection, {**parameters, "offset": offset, "limit": limit})
        return [route_answer(row) for row in rows]

    offset, limit = query.offset, query.limit
    if offset <= NEAR:
        data = page(_PAGE, offset, limit)
        is_last = len(data) < limit and (data or offset == 0)
        total = offset + len(data) if is_last else count()
    else:
        total = count()
        behind = total - offset - limit  # how many follow the page; negative where the list ends before the page does
        if offset <= behind:
            data = page(_PAGE, offset, limit)
        else:
            data = page(_PAGE_FROM_END, max(0, behind), max(0, min(limit, total - offset)))
    return RouteList(data=data, total=total, limit=limit, offset=offset)
