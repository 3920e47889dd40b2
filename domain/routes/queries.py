"""How routes are read: by id, by externalId, and in lists."""

from collections.abc import Callable, Iterable, Sequence
from itertools import combinations
from typing import Any, NamedTuple, TypeVar
from uuid import UUID

import msgspec

from domain.contract.shapes import Route, RouteList, RouteQuery
from domain.database import Connection, Tenant
from domain.ids import read_id
from domain.routes.answers import RouteRow, route_answer
from domain.statements import Query, Statement

NEAR = 1_000
"""Up to this offset the page is read before the total is counted; see `list_routes`."""

_VERSION = "md5(ROW(r.id, r.updated_at, v.unit_number, d.name)::text)"
"""Differs whenever the answer does: whatever changes a route, its visits or its plan sets `updated_at`."""

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
    """A route as the API answers it."""

    version: str
    """Another answer about the same route has another version."""
    route: Route


class _VersionRow(NamedTuple):
    version: str
    id: UUID
    company_id: UUID
    environment: str


# the rows of other tenants are left out in `_wanted`
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


def read_routes(wanted: Sequence[tuple[Tenant, UUID]]) -> Query[list[Versioned | None]]:
    """Each wanted route, in order; None where that tenant has no such route. One query for all."""
    return _wanted(_BY_ID, wanted, lambda row: Versioned(row.version, route_answer(row)))


def read_versions(wanted: Sequence[tuple[Tenant, UUID]]) -> Query[list[str | None]]:
    """Only the version of each, for a client that may have the answer already. Stops and plan are not loaded."""
    return _wanted(_VERSIONS_BY_ID, wanted, lambda row: row.version)


_Row = TypeVar("_Row", RouteRow, _VersionRow)
_Answer = TypeVar("_Answer")


def _wanted(
    by_id: Statement[_Row], wanted: Sequence[tuple[Tenant, UUID]], answer: Callable[[_Row], _Answer]
) -> Query[list[_Answer | None]]:
    def read(rows: list[_Row]) -> list[_Answer | None]:
        by_key = {(row.company_id, row.environment, row.id): row for row in rows}
        found = [by_key.get((tenant.company_id, tenant.environment, route_id)) for tenant, route_id in wanted]
        return [answer(row) if row is not None else None for row in found]

    return Query(by_id, (list({route_id for _, route_id in wanted}),), read)


_NEWEST = """r.id = ANY(ARRAY(
    SELECT coalesce(
        (SELECT living.id FROM routes living
         WHERE (living.company_id, living.environment, living.external_id)
             = (w.company_id, w.environment, w.external_id) AND living.status <> 'canceled'),
        (SELECT canceled.id FROM routes canceled
         WHERE (canceled.company_id, canceled.environment, canceled.external_id)
             = (w.company_id, w.environment, w.external_id) AND canceled.status = 'canceled'
         ORDER BY canceled.created_at DESC, canceled.id DESC LIMIT 1))
    FROM unnest(%(company_ids)s::uuid[], %(environments)s::text[], %(external_ids)s::text[])
         AS w (company_id, environment, external_id)))"""
"""The newest route with each externalId: the one that is not canceled, else the one that was created last. A push
creates another route only after the one before it was canceled."""

_FIND = Statement(RouteRow, f"{_ROUTES} WHERE {_NEWEST}")


def find_by_external_id(wanted: Sequence[tuple[Tenant, str]]) -> Query[list[Route | None]]:
    """The newest route with each externalId, in order; None where that tenant has no such route. One query for all."""

    def read(rows: list[RouteRow]) -> list[Route | None]:
        by_key = {(row.company_id, row.environment, row.external_id): route_answer(row) for row in rows}
        return [by_key.get((*tenant, external_id)) for tenant, external_id in wanted]

    return Query(_FIND, _newest(wanted), read)


def _newest(wanted: Sequence[tuple[Tenant, str]]) -> dict[str, list[Any]]:
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
    "external_id": _NEWEST,  # the other filters apply to that one route
}


def _source(filters: Iterable[str]) -> str:
    clauses = ["r.company_id = %(company_id)s AND r.environment = %(environment)s"]
    clauses += [_FILTERS[name] for name in filters]
    return "routes r WHERE " + " AND ".join(clauses)


def _page_of(source: str, order: str) -> str:
    """The inner query finds the ids of a page, with the entries to skip counted in the given `order`. It needs nothing
    but an index. The outer query reads those routes, and sorts them as lists are sorted."""
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


_NO_VEHICLE = UUID(int=0)


def list_routes(connection: Connection, tenant: Tenant, query: RouteQuery) -> RouteList:
    """One page, newest scheduled start first, ties by id, and how many routes there are in all.

    PostgreSQL passes through every entry that is skipped. So a page in the second half is looked for from the end of
    the list. Example: 10,000 routes, offset 9,900, limit 50. From the start 9,900 entries are skipped; from the end
    only the 10,000 - 9,900 - 50 = 50 that follow the page.

    Which end is nearer is known only after counting. Up to an offset of `NEAR` the page is read first, from the start:
    when it is not full, it is the last one, and the total is known without counting.
    """
    filters = frozenset(name for name in _FILTERS if getattr(query, name) is not None)
    parameters = {
        **tenant._asdict(),
        **msgspec.structs.asdict(query),
        **_newest([(tenant, query.external_id or "")]),
        "vehicle_id": read_id("veh", query.vehicle_id or "") or _NO_VEHICLE,
    }

    def count() -> int:
        return _COUNT[filters].one(connection, parameters).total

    def page(pages: dict[frozenset[str], Statement[RouteRow]], offset: int, limit: int) -> list[Route]:
        rows = pages[filters].all(connection, {**parameters, "offset": offset, "limit": limit})
        return [route_answer(row) for row in rows]

    offset, limit = query.offset, query.limit
    if offset <= NEAR:
        data = page(_PAGE, offset, limit)
        is_last = len(data) < limit and (data or offset == 0)  # an empty page may lie beyond the end
        total = offset + len(data) if is_last else count()
    else:
        total = count()
        following = total - offset - limit  # negative when the list ends before the page does
        if offset <= following:
            data = page(_PAGE, offset, limit)
        else:
            data = page(_PAGE_FROM_END, max(0, following), max(0, min(limit, total - offset)))
    return RouteList(data=data, total=total, limit=limit, offset=offset)
