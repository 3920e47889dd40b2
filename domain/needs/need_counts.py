"""Counts the needs of a company, for the navigation of the console."""

from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

from psycopg.errors import QueryCanceled

from domain.database.connections import Connection, Tenant
from domain.database.statements import NotNull, Scalar, Statement
from domain.needs.company_needs import COMPANY_NEEDS
from domain.needs.route_needs import ROUTE_NEEDS, ROUTES_ON_THEIR_WAY, asked_of

MOST_CASES = 100
"""The highest number that is counted; people read `99+`."""


class _Count(NamedTuple):
    kind: str
    cases: int


def _count_each(sources: Iterable[tuple[str, str]]) -> str:
    each = " UNION ALL ".join(
        f"SELECT '{kind}' AS kind, (SELECT count(*) FROM (SELECT {source} LIMIT {MOST_CASES}) AS _) AS cases"
        for kind, source in sources
    )
    return f"SELECT kind, cases FROM ({each}) AS counted WHERE cases > 0"


_ON_THEIR_WAY = {need.kind: need.source for need in ROUTE_NEEDS if need.only_on_their_way}
_OTHERS = {need.kind: need.source for need in COMPANY_NEEDS if need.kind not in _ON_THEIR_WAY}

_COUNT_OTHERS = Statement(_Count, _count_each([*_OTHERS.items(), ("on_their_way", ROUTES_ON_THEIR_WAY)]))
_COUNT_ON_THEIR_WAY = Statement(_Count, _count_each(_ON_THEIR_WAY.items()))
"""PostgreSQL plans this one for 10 to 15 ms, more than all else that a page asks."""

_LIMIT = Scalar(NotNull[str], "SELECT current_setting('statement_timeout')")
_SET_LIMIT = Scalar(NotNull[str], "SELECT set_config('statement_timeout', %s, true)")


def count_needs(connection: Connection, tenant: Tenant, *, now: datetime) -> dict[str, int]:
    """The number of cases of each need that there is, at most MOST_CASES, by the kind of the need."""
    asked = asked_of(tenant, now)
    counts = dict(_COUNT_OTHERS.all(connection, asked))
    if counts.pop("on_their_way", 0):
        counts |= dict(_COUNT_ON_THEIR_WAY.all(connection, asked))
    return counts


def count_needs_briefly(
    connection: Connection, tenant: Tenant, *, now: datetime, milliseconds: int
) -> dict[str, int] | None:
    """The counts of `count_needs`, inside another transaction; None if PostgreSQL needs longer than that for one of the
    two statements. The limit is taken back by hand: after a rollback psycopg has PostgreSQL forget every statement that
    the connection has prepared."""
    try:
        with connection.transaction():
            limit = _LIMIT.one(connection)
            _SET_LIMIT.one(connection, (f"{milliseconds}ms",))
            counts = count_needs(connection, tenant, now=now)
            _SET_LIMIT.one(connection, (limit,))
            return counts
    except QueryCanceled:
        return None
