"""Checks of the PostgreSQL server: its version, room for connections, old transactions, waits for locks, vacuum,
indexes, and the order of texts."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import NamedTuple

from domain.database.checks import FOLDS_ACCENTS, MADE_SO, MIN_VERSION
from domain.database.connections import LEADER_LOCKS
from domain.database.statements import NotNull, Scalar, Statement
from domain.operations.archives import BACKUP_OLD_AFTER, newest_backup_at, read_archive
from domain.operations.doctor.checks import Examined, Finding, problem, warning
from domain.settings import Settings
from domain.wording import counted

OLD_TRANSACTION = timedelta(minutes=10)
LONG_LOCK = timedelta(seconds=10)
MOST_TRANSACTION_AGE = 1_000_000_000
"""PostgreSQL stops taking writes at 2 billion, and clears up by itself from 200 million on."""
MOST_DEAD_PERCENT = 30
_MANY_DEAD_ROWS = 500_000
_HELD_WAL_BYTES = 4 << 30


def check_version(seen: Examined) -> Iterator[Finding]:
    version = seen.connection.info.server_version
    if version < MIN_VERSION:
        yield problem(
            f"PostgreSQL {version // 10000} is too old",
            "Move the database to PostgreSQL 15 or later",
        )


# --- Connections -------------------------------------------------------------------------------------------------


class _Room(NamedTuple):
    most: int
    reserved: int
    used: int


class _Processes(NamedTuple):
    kind: str
    processes: int


_ROOM = Statement(
    _Room,
    """
    SELECT current_setting('max_connections')::int AS most,
           current_setting('superuser_reserved_connections')::int
           + coalesce(current_setting('reserved_connections', true), '0')::int AS reserved,
           (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend') AS used
    """,
)
_PROCESSES = Statement(
    _Processes,
    """
    SELECT split_part(application_name, ' ', 2) AS kind, count(DISTINCT (application_name, client_addr)) AS processes
    FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE 'fuelroute %%' GROUP BY 1
    """,
)


def connections_of(kind: str, settings: Settings) -> int:
    """The most connections that one process of that kind opens: for its pools, its health checks and others, with those
    of its preview processes, which have its name."""
    size, previewing = settings.database_pool_size, 2 * settings.preview_processes
    return {
        "ingress": 3 * size + 2 + previewing,  # two pools, one of the event loop, one for the request log
        "console": 2 * max(size + 3, 9) + 1 + previewing,  # three large imports wait with theirs
        "workers": 2 * size + 1,
        "scheduler": 2 * size + 2,  # one holds the lead
        "connectors": 2 * 2 + 2 * 4 + 1,  # two pools for leases, two for storing
    }.get(kind, 1)


def check_connections(seen: Examined) -> Iterator[Finding]:
    """Checks that all running processes could fill their pools at the same time."""
    room = _ROOM.one(seen.connection)
    running = {row.kind: row.processes for row in _PROCESSES.all(seen.connection)}
    needed = sum(count * connections_of(kind, seen.settings) for kind, count in running.items())
    free = room.most - room.reserved
    if needed > free:
        named = ", ".join(f"{count} {kind}" for kind, count in sorted(running.items()))
        yield problem(
            f"PostgreSQL takes {free} connections, and the pools of the processes ({named}) may open {needed}",
            f"Set max_connections to {needed + room.reserved + 10} or more and restart PostgreSQL, or lower"
            " FUELROUTE_DATABASE_POOL_SIZE",
        )
    elif room.used > 0.8 * free:
        yield warning(
            f"{room.used} of PostgreSQL's {free} connections are in use",
            "Look in pg_stat_activity for programs that hold many; raise max_connections if all are needed",
        )


def check_processes(seen: Examined) -> Iterator[Finding]:
    """Checks that an ingress and a console run, by their connections. Workers and the scheduler's passes are among the
    alerts."""
    running = {row.kind for row in _PROCESSES.all(seen.connection)}
    for kind, what in (("ingress", "takes routes and positions"), ("console", "serves the pages for people")):
        if kind not in running:
            yield warning(f"No process {what}: none has a connection as {kind}", f"Start one: fuelroute {kind}")
    if _LEADERS.one(seen.connection, (LEADER_LOCKS,)) == 0:
        yield problem("No scheduler leads", "Start one: fuelroute scheduler")


_LEADERS = Scalar(
    int,
    "SELECT count(*) FROM pg_locks JOIN pg_database d ON d.oid = database AND datname = current_database()"
    " WHERE locktype = 'advisory' AND granted AND objsubid = 2 AND classid = %s",
)


# --- Transactions and locks --------------------------------------------------------------------------------------


class _Session(NamedTuple):
    pid: NotNull[int]
    application: str
    since: datetime | None


_OLD_TRANSACTIONS = Statement(
    _Session,
    """
    SELECT pid, coalesce(application_name, '') AS application, xact_start AS since FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
      AND xact_start < clock_timestamp() - %s::interval
    ORDER BY xact_start, pid
    """,
)
# For how long others wait is no sign: requests give up after some seconds, and the next ones wait in their place. The
# start of another role's transaction is hidden from us.
_BLOCKING = Statement(
    _Session,
    """
    SELECT pid, coalesce(application_name, '') AS application, xact_start AS since FROM pg_stat_activity
    WHERE datname = current_database() AND coalesce(xact_start, '-infinity') < clock_timestamp() - %s::interval
      AND pid IN (SELECT unnest(pg_blocking_pids(pid)) FROM pg_stat_activity WHERE wait_event_type = 'Lock')
    ORDER BY xact_start, pid
    """,
)
_PREPARED = Scalar(
    NotNull[str],
    "SELECT gid FROM pg_prepared_xacts WHERE database = current_database()"
    " AND prepared < clock_timestamp() - %s::interval ORDER BY prepared, gid",
)


def check_transactions(seen: Examined) -> Iterator[Finding]:
    old = _OLD_TRANSACTIONS.all(seen.connection, (OLD_TRANSACTION,))
    if old:
        yield problem(
            f"{counted(len(old), 'transaction')} open for more than 10 minutes: the dead rows of all tables pile up",
            "End what opened it; if nobody needs it: SELECT pg_terminate_backend(PID)",
            _sessions(old, seen),
        )
    blocking = _BLOCKING.all(seen.connection, (LONG_LOCK,))
    if blocking:
        yield problem(
            f"Others wait for locks of {counted(len(blocking), 'transaction')} open for more than 10 seconds",
            "End what opened it; if nobody needs it: SELECT pg_terminate_backend(PID)",
            _sessions(blocking, seen),
        )
    prepared = _PREPARED.all(seen.connection, (OLD_TRANSACTION,))
    if prepared:
        yield problem(
            f"{counted(len(prepared), 'prepared transaction')} older than 10 minutes: Fuelroute makes none",
            "Ask whose it is, then ROLLBACK PREPARED",
            tuple(prepared[: seen.most_examples]),
        )


def _sessions(rows: list[_Session], seen: Examined) -> tuple[str, ...]:
    shown = rows[: seen.most_examples]
    return tuple(
        f"pid {row.pid} {row.application or '(no name)'}"
        f" {f'since {row.since:%Y-%m-%d %H:%M:%SZ}' if row.since is not None else 'of another role'}"
        for row in shown
    )


# --- Vacuum ------------------------------------------------------------------------------------------------------


class _Vacuum(NamedTuple):
    is_on: bool
    age: int


class _DeadRows(NamedTuple):
    name: NotNull[str]
    dead: NotNull[int]
    live: NotNull[int]


_VACUUM = Statement(
    _Vacuum,
    "SELECT current_setting('autovacuum')::bool AND current_setting('track_counts')::bool AS is_on,"
    " greatest(age(datfrozenxid), mxid_age(datminmxid)) AS age FROM pg_database WHERE datname = current_database()",
)
_UNVACUUMED = Scalar(
    NotNull[str],
    "SELECT relname FROM pg_class WHERE relkind IN ('r', 'p') AND relnamespace = 'public'::regnamespace"
    " AND reloptions && ARRAY['autovacuum_enabled=false', 'autovacuum_enabled=off'] ORDER BY relname",
)
_BLOATED = Statement(
    _DeadRows,
    "SELECT relname AS name, n_dead_tup AS dead, n_live_tup AS live FROM pg_stat_user_tables"
    " WHERE n_dead_tup > %s AND n_dead_tup > (n_live_tup + n_dead_tup) * %s::float8 / 100"
    " ORDER BY n_dead_tup DESC, relname",
)


def check_vacuum(seen: Examined) -> Iterator[Finding]:
    state = _VACUUM.one(seen.connection)
    if not state.is_on:
        yield problem("Autovacuum is off", "Set autovacuum and track_counts to on, and reload PostgreSQL")
    if state.age > MOST_TRANSACTION_AGE:
        yield problem(
            f"The oldest transaction id is {state.age:,} transactions old; PostgreSQL refuses writes at 2 billion",
            "End old transactions and unused replication slots, then VACUUM FREEZE the database",
        )
    off = _UNVACUUMED.all(seen.connection)
    if off:
        yield problem("Autovacuum is off for tables", "ALTER TABLE ... RESET (autovacuum_enabled)", tuple(off))
    bloated = _BLOATED.all(seen.connection, (_MANY_DEAD_ROWS, MOST_DEAD_PERCENT))
    if bloated:
        yield warning(
            f"More than {MOST_DEAD_PERCENT} % of the rows of tables are dead",
            "See whether an old transaction keeps them, then VACUUM the tables",
            tuple(f"{row.name}: {row.dead:,} dead, {row.live:,} live" for row in bloated[: seen.most_examples]),
        )


# --- Indexes, extensions, the order of texts ---------------------------------------------------------------------

_INVALID_INDEXES = Scalar(
    NotNull[str],
    """
    SELECT c.relname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
    WHERE (NOT i.indisvalid OR NOT i.indisready) AND c.relnamespace = 'public'::regnamespace
      AND NOT EXISTS (SELECT FROM pg_stat_progress_create_index p WHERE p.index_relid = i.indexrelid)
    ORDER BY c.relname
    """,
)
_CHANGED_COLLATIONS = Scalar(
    NotNull[str],
    """
    SELECT 'database ' || datname FROM pg_database
    WHERE datname = current_database() AND datcollversion <> pg_database_collation_actual_version(oid)
    UNION ALL
    SELECT DISTINCT 'collation ' || l.collname FROM pg_collation l JOIN pg_attribute a ON a.attcollation = l.oid
    WHERE collversion <> pg_collation_actual_version(l.oid) ORDER BY 1
    """,
)
_FOLDS_ACCENTS = Scalar(bool, f"SELECT {FOLDS_ACCENTS}")
_OLD_EXTENSIONS = Scalar(
    NotNull[str],
    "SELECT name || ' ' || installed_version || ', available is ' || default_version"
    " FROM pg_available_extensions WHERE installed_version <> default_version ORDER BY 1",
)


def check_indexes(seen: Examined) -> Iterator[Finding]:
    invalid = _INVALID_INDEXES.all(seen.connection)
    if invalid:
        yield problem(
            "Indexes are invalid: they are kept up to date and not used, and a unique one does not hold for old rows",
            "REINDEX INDEX CONCURRENTLY each of them",
            tuple(invalid[: seen.most_examples]),
        )
    changed = _CHANGED_COLLATIONS.all(seen.connection)
    if changed:
        yield problem(
            "The order of texts has changed under the indexes, as after an update of the operating system: lookups may"
            " miss rows, and unique indexes may let copies in",
            "REINDEX DATABASE, then ALTER DATABASE ... REFRESH COLLATION VERSION",
            tuple(changed[: seen.most_examples]),
        )
    if not _FOLDS_ACCENTS.one(seen.connection):
        yield problem(
            "The database has the locale C: searches, `GET /v1/drivers?name=` too, ignore case in ASCII letters alone",
            f"Make another one with `{MADE_SO}`, and restore a dump of this one into it",
        )
    old = _OLD_EXTENSIONS.all(seen.connection)
    if old:
        yield warning(
            "Extensions are older than the server's", "ALTER EXTENSION ... UPDATE", tuple(old[: seen.most_examples])
        )


# --- The write-ahead log -----------------------------------------------------------------------------------------


class _Archiver(NamedTuple):
    is_failing: bool
    last_failed: str


class _Slot(NamedTuple):
    name: NotNull[str]
    bytes: int


_ARCHIVER = Statement(
    _Archiver,
    """
    SELECT coalesce(last_failed_time > coalesce(last_archived_time, '-infinity'), false)
           AND current_setting('archive_mode') <> 'off' AS is_failing,
           coalesce(last_failed_wal, '') AS last_failed FROM pg_stat_archiver
    """,
)
_SLOTS = Statement(
    _Slot,
    """
    SELECT slot_name AS name, bytes FROM (
        SELECT slot_name, pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn)::int8 AS bytes FROM pg_replication_slots
        WHERE NOT pg_is_in_recovery()) AS slots
    WHERE bytes > %s ORDER BY bytes DESC, slot_name
    """,
)


def check_log(seen: Examined) -> Iterator[Finding]:
    archiver = _ARCHIVER.one(seen.connection)
    if archiver.is_failing:
        yield problem(
            f"PostgreSQL cannot archive its log since {archiver.last_failed}: backups end there, and the disk fills",
            "Run the archive_command by hand with that file, and mend what it says",
        )
    elif (archive := read_archive(seen.connection)) is not None and not archive.works:
        yield problem(
            "The archive of `fuelroute up` does not run: a restore would end there, and the disk fills",
            "Read archive.log in the folder of logs; the archive goes on by itself when its folder can be written to",
        )
    if seen.settings.archive is not None:
        newest = newest_backup_at(seen.settings.archive)
        if newest is None or seen.now - newest > BACKUP_OLD_AFTER:
            yield problem(
                f"The newest backup is of {newest:%Y-%m-%d %H:%M}Z" if newest is not None else "There is no backup",
                f"Make one: fuelroute backup --to {seen.settings.archive}",
            )
    slots = _SLOTS.all(seen.connection, (_HELD_WAL_BYTES,))
    if slots:
        yield problem(
            "Replication slots hold back the log: the disk fills",
            "Start the standby that reads the slot, or SELECT pg_drop_replication_slot(NAME)",
            tuple(f"{slot.name}: {slot.bytes >> 30} GiB" for slot in slots[: seen.most_examples]),
        )
