"""Tables with a partition for each day. The next days' partitions are made in advance; old ones are dropped whole."""

from collections.abc import Callable
from datetime import date, datetime, timedelta

from psycopg import sql

from domain.database.connections import Connection
from domain.database.statements import Scalar

DAYS_AHEAD = 7
"""Days ahead for which partitions are made, in case housekeeping does not run for a while."""


_PARTITIONS = Scalar(
    str,
    "SELECT relname FROM pg_inherits JOIN pg_class c ON c.oid = inhrelid"
    " WHERE inhparent = %(table)s::text::regclass AND relname <> %(table)s::text || '_other'",
)


def partition_days(connection: Connection, table: str) -> dict[date, str]:
    """The days that have a partition of the table, each with the partition's name."""
    return {date.fromisoformat(name[-8:]): name for name in _PARTITIONS.all(connection, {"table": table})}


def maintain_daily_partitions(
    connection: Connection,
    table: str,
    make: Callable[[Connection, str, date], object],
    *,
    days: float,
    now: datetime,
    days_before_first: int = 0,
) -> int:
    """Has `make` add the partitions of the next days, from today or `days_before_first` days later on; removes those
    older than `days`. Returns how many were removed.

    The partition of a day is called `TABLE_20260131`. Rows of all other days are in `TABLE_other`."""
    there = partition_days(connection, table)
    for ahead in range(days_before_first, DAYS_AHEAD + 1):
        day = now.date() + timedelta(days=ahead)
        if day not in there:
            make(connection, f"{table}_{day:%Y%m%d}", day)
    oldest = (now - timedelta(days=days)).date()
    old = [name for day, name in there.items() if day < oldest]
    for name in old:
        connection.execute(sql.SQL("DROP TABLE {}").format(sql.Identifier(name)))
    return len(old)
