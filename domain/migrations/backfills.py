"""Back-fills: columns of rows that were stored before the column was there, filled in batches while the service runs.

A migration that needs one names it beside `upgrade`:

    backfill = Backfill(
        table="routes",
        fill="UPDATE visits v SET vehicle_id = r.vehicle_id FROM routes r"
        " WHERE r.id = v.route_id AND r.id = ANY(%(keys)s) AND v.vehicle_id IS NULL",
    )

`migrate` runs it after the migration has been committed, and before the next migration. Each batch is a transaction: it
locks the next rows of `table` in the order of their key, fills, and stores how far it came. So a back-fill that was
stopped, or killed, goes on where it was; `fill` sees each key in one committed batch.
"""

import time
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import psycopg
from psycopg import sql
from psycopg.errors import DeadlockDetected, LockNotAvailable

from domain.database.connections import Connection
from domain.database.statements import Command, NotNull, Scalar, Statement

BATCH_SECONDS = 0.2
"""Target time of a batch, which grows or shrinks accordingly: a request that waits for one of its rows notices
little."""

FIRST_BATCH_ROWS = 1_000
MOST_BATCH_ROWS = 10_000
_FEWEST_BATCH_ROWS = 50

_RETRY_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Backfill:
    """Rows to go through, and what to do with each batch of them."""

    table: str
    """The table whose rows are gone through. Where a route has several rows in a table, go through `routes`: a
    transaction that changes them locks the route first."""
    fill: str
    """The SQL of a batch. `%(keys)s` are the keys of its rows, which are locked. It must leave filled rows alone,
    because both releases write while it runs."""
    key: str = "id"
    """A unique column that is never NULL."""
    key_type: str = "uuid"


class BackfillState(NamedTuple):
    """The stored progress of a back-fill."""

    last_key: str | None
    rows_filled: NotNull[int]
    is_finished: NotNull[bool]


class Report(Protocol):
    """Follows a migration on a terminal, or ignores it."""

    def tell(self, sentence: str) -> None: ...

    def count(self, revision: str, rows_filled: int, rows_total: int) -> None:
        """Called after a batch is committed. `rows_total` is PostgreSQL's estimate."""


class SilentReport:
    """Ignores the progress."""

    def tell(self, sentence: str) -> None: ...

    def count(self, revision: str, rows_filled: int, rows_total: int) -> None: ...


_FIND = Statement(
    BackfillState,
    "SELECT last_key, rows_filled, finished_at IS NOT NULL AS is_finished FROM backfills WHERE revision = %s",
)
_BEGIN = Command("INSERT INTO backfills (revision, started_at) VALUES (%s, clock_timestamp()) ON CONFLICT DO NOTHING")
_STORE = Command("UPDATE backfills SET last_key = %s, rows_filled = rows_filled + %s WHERE revision = %s")
_FINISH = Command("UPDATE backfills SET finished_at = clock_timestamp() WHERE revision = %s")


_ESTIMATE = Scalar(NotNull[int], "SELECT greatest(reltuples, 0)::bigint FROM pg_class WHERE oid = %s::text::regclass")


def find_state(session: psycopg.Connection[tuple[object, ...]], revision: str) -> BackfillState | None:
    """The progress of a back-fill; None before it has begun."""
    return _FIND.first(session, (revision,))


def run_backfill(
    session: Connection, revision: str, backfill: Backfill, report: Report, *, patience_seconds: float
) -> None:
    """Fills from where the last run stopped to the end. `session` commits by itself and has a short limit for locks.
    Raises psycopg.errors.LockNotAvailable when a batch finds its rows locked for all of `patience_seconds`."""
    _BEGIN.execute(session, (revision,))
    state = find_state(session, revision)
    if state is None or state.is_finished:
        return
    rows_filled, total = state.rows_filled, _ESTIMATE.one(session, (backfill.table,))
    size, last_progress = FIRST_BATCH_ROWS, time.monotonic()
    report.count(revision, rows_filled, max(total, rows_filled))
    while True:
        started = time.monotonic()
        try:
            filled = _fill_batch(session, revision, backfill, size)
        except (LockNotAvailable, DeadlockDetected):
            if time.monotonic() - last_progress > patience_seconds:
                raise
            size = max(size // 2, _FEWEST_BATCH_ROWS)
            time.sleep(_RETRY_SECONDS)
            continue
        if not filled:
            return
        last_progress = time.monotonic()
        rows_filled += filled
        report.count(revision, rows_filled, max(total, rows_filled))
        wanted = size * BATCH_SECONDS / (last_progress - started)
        size = round(min(max(wanted, size / 2, _FEWEST_BATCH_ROWS), size * 2, MOST_BATCH_ROWS))


def _fill_batch(session: Connection, revision: str, backfill: Backfill, size: int) -> int:
    """Fills one batch. Returns how many rows it went through; 0 when the back-fill is finished."""
    pick = sql.SQL(
        "SELECT {key} FROM {table} WHERE (%(after)s::text IS NULL OR {key} > %(after)s::{type}) ORDER BY {key}"
        " LIMIT %(size)s FOR NO KEY UPDATE"
    ).format(key=sql.Identifier(backfill.key), table=sql.Identifier(backfill.table), type=sql.SQL(backfill.key_type))
    with session.transaction():
        state = _FIND.one(session, (revision,))
        keys = [row[0] for row in session.execute(pick, {"after": state.last_key, "size": size})]
        if keys:
            session.execute(backfill.fill.encode(), {"keys": keys})
            _STORE.execute(session, (str(keys[-1]), len(keys), revision))
        else:
            _FINISH.execute(session, (revision,))
    return len(keys)
