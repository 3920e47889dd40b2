"""The locks that a transaction holds and the work that PostgreSQL reports, in the words of the plan."""

import re
from collections.abc import Iterable
from typing import Any

import psycopg

from domain.migrations.effects import Catalog, Lock, Work, effects_on

Connection = psycopg.Connection[tuple[Any, ...]]

_MODES = {
    "RowExclusiveLock": Lock.ROW_EXCLUSIVE,
    "ShareUpdateExclusiveLock": Lock.SHARE_UPDATE_EXCLUSIVE,
    "ShareLock": Lock.SHARE,
    "ShareRowExclusiveLock": Lock.SHARE_ROW_EXCLUSIVE,
    "AccessExclusiveLock": Lock.ACCESS_EXCLUSIVE,
}
_STRENGTH = list(Lock)

_REPORTED = (
    (re.compile(r'rewriting table "(\w+)"'), Work.REWRITE),
    (re.compile(r'verifying table "(\w+)"'), Work.SCAN),
    (re.compile(r'building index "\w+" on table "(\w+)"'), Work.INDEX),
    (re.compile(r"validating foreign key constraint"), Work.SCAN),
)
"""PostgreSQL's messages at DEBUG1."""


def tables(connection: Connection) -> dict[int, str]:
    """The tables of the service by their oids."""
    rows = connection.execute(
        "SELECT oid::int8, relname::text FROM pg_class"
        " WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') AND relname <> 'alembic_version'"
    )
    return dict(rows.fetchall())


def held_locks(connection: Connection, known: dict[int, str]) -> dict[str, Lock]:
    """The strongest lock of each table that blocks more than the catalog's changes."""
    rows = connection.execute(
        "SELECT relation::int8, mode FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'relation'"
    ).fetchall()
    found = [(known[oid], _MODES[mode]) for oid, mode in rows if oid in known and mode in _MODES]
    return strongest(found)


def told_locks(statements: Iterable[str], catalog: Catalog) -> dict[str, Lock]:
    """The strongest lock of each table that the effects tell."""
    return strongest(
        (str(effect.table), effect.lock) for statement in statements for effect in effects_on(catalog, statement)
    )


def strongest(found: Iterable[tuple[str, Lock]]) -> dict[str, Lock]:
    held: dict[str, Lock] = {}
    for table, lock in found:
        held[table] = max(held.get(table, Lock.NONE), lock, key=_STRENGTH.index)
    return held


def reported_work(notices: Iterable[str]) -> set[Work]:
    return {work for notice in notices for pattern, work in _REPORTED if pattern.search(notice)}
