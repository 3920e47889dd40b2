"""How routes are read: by id, by externalId, and in lists."""

from collections.abc import Callable, Iterable, Sequence
from itertools import combinations
from typing import Any, NamedTuple, TypeVar
from uuid import UUID

import msgspec

from domain.contract.shapes import Route, RouteList, RouteQuery
from domain.database import Connection, Tenant, as_ids
from domain.ids import read_id
from domain.routes.answers import RouteRow, route_answer
from domain.routes.counts import COUNTED
from domain.statements import Query, Statement

_VERSION = "md5(ROW(r.id, r.updated_at, v.unit_number, d.name)::text)"
"""Differs whenever the answer does: whatever changes a route, its visits or its plan sets `updated_at`."""

_ROUTE = """
    r.id, r.company_id, r.environment, r.external_id, r.reference, r.status, r.pending_reason, r.pending_detail,
    r.vehicle_id, r.driver_id, r.scheduled_start, r.stops::text AS stops, r.distance_miles, r.created_at,
    CASE WHEN v.id IS NULL THEN r.vehicle_unit_number ELSE v.unit_number END AS unit_number,
    CASE WHEN d.id IS NULL THEN r.driver_name ELSE d.name END AS driver_name
"""
_PLAN = "p.document::text AS plan, p.timeline::text AS timeline"
_VISITS = "jsonb_object_agg(visit.stop, jsonb_build_array(visit.arrived_at, visit.departed_at))::text"
_JOINED = """
    FROM routes r
    LEFT JOIN vehicles v ON v.id = r.vehicle_id
    LEFT JOIN drivers d ON d.id = r.driver_id
    LEFT JOIN plans p ON p.id = r.plan_id
"""
_ROUTES = f"""
    SELECT {_ROUTE}, {_PLAN},
           CASE WHEN r.arrived_at IS NOT NULL THEN (
               SELECT {_VISITS} FROM visits visit WHERE visit.route_id = r.id) END AS visits,
           {_VERSION} AS version, 0 AS total
    {_JOINED}
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
_BY_ID = Statement(RouteRow, _ROUTES + "WHERE r.id = ANY(%s::uuid[])")
_VERSIONS_BY_ID = Statement(
    _VersionRow,
    f"""
    SELECT {_VERSION} AS version, r.id, r.company_id, r.environment
    FROM routes r
    LEFT JOIN vehicles v ON v.id = r.vehicle_id
    LEFT JOIN drivers d ON d.id = r.driver_id
    WHERE r.id = ANY(%s::uuid[])
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
        found = {row.id: row for row in rows}
        return [
            answer(row)
            if (row := found.get(route_id)) is not None and (row.company_id, row.environment) == tenant
            else None
            for tenant, route_id in wanted
        ]

    return Query(by_id, (as_ids(route_id for _, route_id in wanted),), read)


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


def _newest(wanted: Sequence[tuple[Tenant, str]]) -> dict[str, Any]:
    """The parameters of `_NEWEST`."""
    return {
        "company_ids": as_ids(tenant.company_id for tenant, _ in wanted),
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
_SELECTIVE = {"vehicle_id", "external_id"}
"""What they leave is few, and counted. With the other filters, `counts` tells how many routes there are."""

_DAY_OF_START = "date_bin('1 day', %(start_{end})s::timestamptz, timestamptz 'epoch')"
_FIRST_DAY, _LAST_DAY = _DAY_OF_START.format(end="from"), _DAY_OF_START.format(end="to")
_DAY = "interval '24 hours'"


def _source(filters: Iterable[str]) -> str:
    clauses = ["r.company_id = %(company_id)s AND r.environment = %(environment)s"]
    clauses += [_FILTERS[name] for name in filters]
    return "routes r WHERE " + " AND ".join(clauses)


def _counted(filters: frozenset[str]) -> str:
    """How many of these routes start on each day. Of the days that `from` and `to` cut through, the part that is wanted
    is counted. Example: from Monday 08:00 to Thursday 17:00; Tuesday and Wednesday need no counting.
    """
    whole = ["company_id = %(company_id)s AND environment = %(environment)s"]
    parts = []
    if "status" in filters:
        whole.append("status = %(status)s")
    if "start_from" in filters:
        whole.append(f"day > {_FIRST_DAY}")
        parts.append((_FIRST_DAY, f"r.scheduled_start < {_FIRST_DAY} + {_DAY}"))
    if "start_to" in filters:
        whole.append(f"day < {_LAST_DAY}")
        parts.append((_LAST_DAY, f"r.scheduled_start >= {_LAST_DAY}"))
    if len(parts) == 2:  # both may cut through the same day
        parts[1] = (_LAST_DAY, f"r.scheduled_start >= greatest({_LAST_DAY}, {_FIRST_DAY} + {_DAY})")
    counted = [f"SELECT day, routes FROM {COUNTED} AS parts WHERE {' AND '.join(whole)}"]  # noqa: S608
    counted += [f"SELECT {day}, count(*) FROM {_source(filters)} AND {bound}" for day, bound in parts]  # noqa: S608
    return f"SELECT day, sum(routes)::int AS routes FROM ({' UNION ALL '.join(counted)}) AS counted GROUP BY day"  # noqa: S608


def _total(filters: frozenset[str]) -> str:
    if filters & _SELECTIVE:
        return f"SELECT count(*) AS total FROM {_source(filters)}"  # noqa: S608
    return f"SELECT coalesce(sum(routes), 0) AS total FROM ({_counted(filters)}) AS days"  # noqa: S608


def _page(filters: frozenset[str]) -> str:
    """The routes of a page, in order, each with the total. What is skipped is looked for in an index, and only from the
    day on which the page begins: the days before it are skipped by their counts."""
    source, skipped, days = _source(filters), "%(offset)s::int", ""
    if not filters & _SELECTIVE:
        days = f"""
            days AS MATERIALIZED ({_counted(filters)}),
            first AS MATERIALIZED (
                SELECT day + {_DAY} AS before, %(offset)s::int - (through - routes) AS skipped
                FROM (SELECT day, routes, sum(routes) OVER (ORDER BY day DESC) AS through FROM days) AS running
                WHERE through > %(offset)s::int ORDER BY day DESC LIMIT 1),"""  # noqa: S608
        source += " AND r.scheduled_start < (SELECT before FROM first)"
        skipped = "(SELECT skipped FROM first)"
    total = "SELECT sum(routes) FROM days" if days else _total(filters)
    return f"""
        WITH {days} page AS MATERIALIZED (
            SELECT r.id FROM {source} ORDER BY r.scheduled_start DESC, r.id LIMIT %(limit)s OFFSET {skipped}
        ), reached AS MATERIALIZED (
            SELECT visit.route_id, {_VISITS} AS visits FROM visits visit
            WHERE visit.route_id = ANY(ARRAY(SELECT id FROM page)) GROUP BY visit.route_id)
        SELECT {_ROUTE}, {_PLAN}, reached.visits, '' AS version, ({total}) AS total
        {_JOINED} LEFT JOIN reached ON reached.route_id = r.id
        WHERE r.id = ANY(ARRAY(SELECT id FROM page)) ORDER BY r.scheduled_start DESC, r.id
    """  # noqa: S608


_COMBINATIONS = [frozenset(filters) for size in range(len(_FILTERS) + 1) for filters in combinations(_FILTERS, size)]
_TOTALS = {filters: Statement(_Total, _total(filters)) for filters in _COMBINATIONS}
_PAGES = {filters: Statement(RouteRow, _page(filters)) for filters in _COMBINATIONS}
"""By the names of the filters that a query gives."""

_FURTHEST = 2**31 - 1
"""No list has more entries: an offset beyond is as good as this one."""


_NO_VEHICLE = UUID(int=0)


def list_routes(connection: Connection, tenant: Tenant, query: RouteQuery) -> RouteList:
    """One page, newest scheduled start first, ties by id, and how many routes there are in all, as of one moment."""
    filters = frozenset(name for name in _FILTERS if getattr(query, name) is not None)
    parameters = {
        **tenant._asdict(),
        **msgspec.structs.asdict(query),
        **_newest([(tenant, query.external_id or "")]),
        "vehicle_id": read_id("veh", query.vehicle_id or "") or _NO_VEHICLE,
        "offset": min(query.offset, _FURTHEST),
    }
    rows = _PAGES[filters].all(connection, parameters)
    total = rows[0].total if rows else _TOTALS[filters].one(connection, parameters).total
    return RouteList(data=[route_answer(row) for row in rows], total=total, limit=query.limit, offset=query.offset)
