"""Rows by name, and how they were found, for what tests look up themselves."""

from collections.abc import Iterator
from typing import Any
from uuid import UUID

import psycopg
from psycopg.rows import namedtuple_row


def named(connection: psycopg.Connection[Any]) -> psycopg.Cursor[Any]:
    """A cursor whose rows have the columns as attributes. The service's own statements have typed rows instead."""
    return connection.cursor(row_factory=namedtuple_row)


def stored_id(shown: str) -> UUID:
    """The id that the API shows, as it is stored."""
    return UUID(shown[4:])


def rows_read(connection: psycopg.Connection[Any]) -> dict[str, int]:
    """The number of rows of each table that this transaction has read so far, by an index or without. A partition's
    count as those of its table."""
    rows = connection.execute(
        "SELECT coalesce(pg_partition_root(relid), relid)::regclass::text,"
        " sum(coalesce(idx_tup_fetch, 0) + seq_tup_read)::int FROM pg_stat_xact_user_tables GROUP BY 1"
    ).fetchall()
    return dict(rows)


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The nodes of a plan of PostgreSQL, from above."""
    yield plan
    for below in plan.get("Plans", ()):
        yield from nodes(below)


def blocked_by(connection: psycopg.Connection[Any]) -> list[int]:
    """The processes that wait for what this transaction holds. It would see pg_stat_activity as at its first look,
    without the sessions that began later."""
    waiting = "SELECT pid FROM pg_locks WHERE NOT granted AND pg_backend_pid() = ANY(pg_blocking_pids(pid))"
    return [pid for (pid,) in connection.execute(waiting).fetchall()]
