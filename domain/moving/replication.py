"""PostgreSQL's logical replication of one company's rows: a subscription in the cell that the company comes to, and two
publications in the cell that it leaves, with row filters. The first holds the tables that only grow and asks nothing of
the source. For the second, PostgreSQL needs whole old rows in the log (REPLICA IDENTITY FULL), because keys by id do
not hold the company: all writers of these tables pay for that until the move is over.

Each step may be given again after a crash.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple
from uuid import UUID

import psycopg
from psycopg import sql

from domain.database.connections import Connection
from domain.database.statements import NotNull, Scalar, Statement
from domain.errors import FuelrouteError
from domain.moving.moved_tables import MovedTable

POLL_SECONDS = 0.05
_PATIENCE_SECONDS = 60.0
_LOCK_MILLISECONDS = 200
_MOST_ERRORS = 3
_PREFIX = "fuelroute_move_"


class CopyFailed(FuelrouteError):
    """The rows of a move do not arrive at the target. The text says where an operator finds the cause."""


_HAS_PUBLICATION = Scalar(NotNull[bool], "SELECT EXISTS (SELECT FROM pg_publication WHERE pubname = %s)")
_OTHER_PUBLICATIONS = Scalar(
    NotNull[bool], "SELECT EXISTS (SELECT FROM pg_publication WHERE starts_with(pubname::text, %s))"
)
_HAS_SUBSCRIPTION = Scalar(
    NotNull[bool],
    "SELECT EXISTS (SELECT FROM pg_subscription s JOIN pg_database d ON d.oid = s.subdbid"
    " WHERE subname = %s AND datname = current_database())",
)
_HAS_SUBSCRIBED_TO = Scalar(
    NotNull[bool], "SELECT EXISTS (SELECT FROM pg_subscription WHERE subname = %s AND %s = ANY (subpublications))"
)
_HAS_FULL_ROWS = Scalar(NotNull[bool], "SELECT relreplident = 'f' FROM pg_class WHERE oid = %s::text::regclass")
_HAS_SLOT = Scalar(
    NotNull[bool], "SELECT EXISTS (SELECT FROM pg_replication_slots WHERE slot_name = %s AND NOT active)"
)


def name_of(company_id: UUID) -> str:
    """The name of the subscription and of its slot; publications add what they are for."""
    return f"{_PREFIX}{company_id.hex}"


def publish_growing(source: Connection, company_id: UUID, tables: Sequence[MovedTable]) -> None:
    """Publishes the rows of tables that only grow: those that are there, and those to come."""
    _publish(source, f"{name_of(company_id)}_rows", company_id, tables, "insert")


def publish_changing(source: Connection, company_id: UUID, tables: Sequence[MovedTable]) -> None:
    """Publishes the rows of the other tables, and their changes."""
    for table in tables:
        if not _HAS_FULL_ROWS.one(source, (table.name,)):
            _alter_gently(source, table.name, "REPLICA IDENTITY FULL")
    _publish(source, f"{name_of(company_id)}_changes", company_id, tables, "insert, update, delete")


def end_publishing(source: Connection, company_id: UUID, tables: Sequence[MovedTable]) -> None:
    """Removes the publications. Old rows are no longer logged as a whole, unless another company is on its way."""
    for kind in ("rows", "changes"):
        publication = sql.Identifier(f"{name_of(company_id)}_{kind}")
        source.execute(sql.SQL("DROP PUBLICATION IF EXISTS {}").format(publication))
    if _OTHER_PUBLICATIONS.one(source, (_PREFIX,)):
        return
    for table in tables:
        if not table.only_grows and _HAS_FULL_ROWS.one(source, (table.name,)):
            _alter_gently(source, table.name, "REPLICA IDENTITY DEFAULT")


def subscribe(source: Connection, target: Connection, company_id: UUID, replication_url: str) -> None:
    """Begins to copy the tables that only grow. Raises psycopg.Error when a cell refuses or cannot reach the other; a
    repetition does no harm."""
    name = name_of(company_id)
    if _HAS_SUBSCRIPTION.one(target, (name,)):
        return
    _drop_slot(source, name)  # of an attempt that was cut short
    statement = "CREATE SUBSCRIPTION {} CONNECTION {} PUBLICATION {}"
    rows = sql.Identifier(f"{name}_rows")
    target.execute(sql.SQL(statement).format(sql.Identifier(name), sql.Literal(replication_url), rows))


def subscribe_to_changes(target: Connection, company_id: UUID) -> None:
    """Begins to copy the other tables."""
    name = name_of(company_id)
    if not _HAS_SUBSCRIBED_TO.one(target, (name, f"{name}_changes")):
        changes = sql.Identifier(f"{name}_changes")
        target.execute(sql.SQL("ALTER SUBSCRIPTION {} ADD PUBLICATION {}").format(sql.Identifier(name), changes))


def unsubscribe(source: Connection, target: Connection, company_id: UUID) -> None:
    """Ends the replication. The rows stay."""
    name = name_of(company_id)
    if _HAS_SUBSCRIPTION.one(target, (name,)):
        target.execute(sql.SQL("DROP SUBSCRIPTION {}").format(sql.Identifier(name)))
    _drop_slot(source, name)


def _drop_slot(source: Connection, name: str) -> None:
    if _HAS_SLOT.one(source, (name,)):
        source.execute("SELECT pg_drop_replication_slot(%s)", (name,))


class _Copied(NamedTuple):
    ready: int
    tables: int
    errors: int


_COPIED = Statement(
    _Copied,
    """
    SELECT count(*) FILTER (WHERE r.srsubstate = 'r') AS ready, count(*) AS tables,
           coalesce(max(stats.apply_error_count + stats.sync_error_count), 0) AS errors
    FROM pg_subscription s JOIN pg_subscription_rel r ON r.srsubid = s.oid
    LEFT JOIN pg_stat_subscription_stats stats ON stats.subid = s.oid
    WHERE s.subname = %s
    """,
)


class _Slot(NamedTuple):
    lost: NotNull[bool]
    behind_bytes: NotNull[int]


_SLOT = Statement(
    _Slot,
    """
    SELECT coalesce(wal_status = 'lost', true) AS lost,
           coalesce(pg_wal_lsn_diff(pg_current_wal_lsn(), confirmed_flush_lsn), 0)::int8 AS behind_bytes
    FROM pg_replication_slots WHERE slot_name = %s
    """,
)


def wait_until_copied(
    source: Connection, target: Connection, company_id: UUID, progress: Callable[[int], object]
) -> None:
    """Waits until the rows of every table are there, and their changes follow. `progress` is called with the number of
    tables. Raises CopyFailed when the replication has stopped."""
    name, told, errors, since = name_of(company_id), 0, 0, time.monotonic()
    while True:
        copied = _COPIED.one(target, (name,))
        progress(copied.ready - told)
        if copied.ready == copied.tables:
            return
        if copied.ready != told:
            told, errors, since = copied.ready, copied.errors, time.monotonic()
        if copied.errors - errors >= _MOST_ERRORS and time.monotonic() > since + _PATIENCE_SECONDS:
            raise CopyFailed(
                "PostgreSQL of the other cell cannot store the rows: its log says why; mend that and give the command"
                " again, or give it with --cancel"
            )
        _require_slot(source, name)
        time.sleep(POLL_SECONDS)


def bytes_behind(source: Connection, company_id: UUID) -> int:
    """Bytes of the source's log that the other cell has not confirmed yet. Raises CopyFailed when nothing reads the log
    any more."""
    return _require_slot(source, name_of(company_id)).behind_bytes


def _require_slot(source: Connection, name: str) -> _Slot:
    slot = _SLOT.first(source, (name,))
    if slot is None or slot.lost:
        raise CopyFailed(
            "the other cell fell too far behind, and PostgreSQL has given up its replication slot: give the command"
            " with --cancel, raise max_slot_wal_keep_size, and begin again"
        )
    return slot


def _publish(source: Connection, name: str, company_id: UUID, tables: Sequence[MovedTable], kinds: str) -> None:
    if _HAS_PUBLICATION.one(source, (name,)):
        return
    filtered = sql.SQL(", ").join(
        sql.SQL("TABLE {} WHERE ({} = {})").format(
            sql.Identifier(table.name), sql.Identifier(table.company_column), sql.Literal(str(company_id))
        )
        for table in tables
    )
    options = sql.SQL("publish = {}, publish_via_partition_root = true").format(sql.Literal(kinds))
    source.execute(sql.SQL("CREATE PUBLICATION {} FOR {} WITH ({})").format(sql.Identifier(name), filtered, options))


def _alter_gently(source: Connection, table: str, change: str) -> None:
    """Alters a table. It waits only briefly for the lock, because requests stand in line behind it, and tries again.
    Raises CopyFailed when the table stays locked."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    statement = sql.SQL("ALTER TABLE {} {}").format(sql.Identifier(table), sql.SQL(change))
    while True:
        try:
            with briefly_locking(source):
                source.execute(statement)
            return
        except (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected):
            if time.monotonic() > deadline:
                raise CopyFailed(
                    f"others held the lock of the table {table} for {_PATIENCE_SECONDS:.0f} s: give the command again"
                ) from None
        time.sleep(_LOCK_MILLISECONDS / 1000)


@contextmanager
def briefly_locking(connection: psycopg.Connection[Any]) -> Iterator[None]:
    """A transaction that gives up quickly when it meets a lock."""
    with connection.transaction():
        connection.execute(f"SET LOCAL lock_timeout = {_LOCK_MILLISECONDS}")
        yield
