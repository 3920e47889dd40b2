"""Counts the needs of a company by one statement, for the navigation of the console."""

from datetime import datetime
from typing import NamedTuple

from psycopg.errors import QueryCanceled

from domain.database.connections import Connection, Tenant
from domain.database.statements import Scalar, Statement
from domain.needs.company_needs import COMPANY_NEEDS
from domain.needs.route_needs import asked_of

MOST_CASES = 100
"""The highest number that is counted; people read `99+`."""


class _NeedCount(NamedTuple):
    kind: str
    cases: int


_COUNT_EACH = " UNION ALL ".join(
    f"SELECT '{need.kind}' AS kind, (SELECT count(*) FROM (SELECT {need.source} LIMIT {MOST_CASES}) AS _) AS cases"
    for need in COMPANY_NEEDS
)
_COUNTS = Statement(_NeedCount, f"SELECT kind, cases FROM ({_COUNT_EACH}) AS counted WHERE cases > 0")
_LIMIT = Scalar(str, "SELECT set_config('statement_timeout', %s, true)")


def count_needs(connection: Connection, tenant: Tenant, *, now: datetime) -> dict[str, int]:
    """The number of cases of each need that there is, at most MOST_CASES, by the kind of the need."""
    return {row.kind: row.cases for row in _COUNTS.all(connection, asked_of(tenant, now))}


def count_needs_briefly(
    connection: Connection, tenant: Tenant, *, now: datetime, milliseconds: int
) -> dict[str, int] | None:
    """The counts of `count_needs`, inside another transaction; None if PostgreSQL needs longer than that."""
    try:
        with connection.transaction(force_rollback=True):  # takes the limit back
            _LIMIT.one(connection, (f"{milliseconds}ms",))
            return count_needs(connection, tenant, now=now)
    except QueryCanceled:
        return None
