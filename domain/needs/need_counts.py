"""Counts the needs of a company, for the navigation of the console."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from psycopg.errors import QueryCanceled

from domain.database.connections import Connection, Tenant, planned_by_key
from domain.database.statements import NotNull, Scalar, Statement
from domain.needs.company_needs import COMPANY_NEEDS, CompanyNeed
from domain.needs.route_needs import RoutesInNeed, asked_of, find_routes_in_need

MOST_CASES = 100
"""The highest number that is counted; people read `99+`."""


class _Count(NamedTuple):
    kind: str
    cases: int


_EACH_OTHER = " UNION ALL ".join(
    f"SELECT '{need.kind}' AS kind, (SELECT count(*) FROM (SELECT {need.source} LIMIT {MOST_CASES}) AS _) AS cases"
    for need in COMPANY_NEEDS
    if isinstance(need, CompanyNeed)
)
_COUNT_OTHERS = Statement(_Count, f"SELECT kind, cases FROM ({_EACH_OTHER}) AS counted WHERE cases > 0")

_LIMIT = Scalar(NotNull[str], "SELECT current_setting('statement_timeout')")
_SET_LIMIT = Scalar(NotNull[str], "SELECT set_config('statement_timeout', %s, true)")


def count_needs(
    connection: Connection, tenant: Tenant, found: Sequence[RoutesInNeed] | None = None, *, now: datetime
) -> dict[str, int]:
    """The number of cases of each need that there is, at most MOST_CASES, by the kind of the need. `found` are the
    needs of routes, if the caller has found them already."""
    if found is None:
        found = find_routes_in_need(connection, tenant, now=now)
    routes = {one.need.kind: min(one.routes, MOST_CASES) for one in found}
    with planned_by_key(connection):
        return routes | dict(_COUNT_OTHERS.all(connection, asked_of(tenant, now)))


def count_needs_briefly(
    connection: Connection,
    tenant: Tenant,
    found: Sequence[RoutesInNeed] | None = None,
    *,
    now: datetime,
    milliseconds: int,
) -> dict[str, int] | None:
    """The counts of `count_needs`, inside another transaction; None if PostgreSQL needs longer than that for one of its
    statements. The limit is taken back by hand: after a rollback psycopg has PostgreSQL forget every statement that
    the connection has prepared."""
    try:
        with connection.transaction():
            limit = _LIMIT.one(connection)
            _SET_LIMIT.one(connection, (f"{milliseconds}ms",))
            counts = count_needs(connection, tenant, found, now=now)
            _SET_LIMIT.one(connection, (limit,))
            return counts
    except QueryCanceled:
        return None
