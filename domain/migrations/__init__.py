"""The schema's history, and how a database is brought up to date while the service runs.

No other package imports Alembic. README.md says how to write a migration."""

import time
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import psycopg
import sqlalchemy
from alembic.runtime.environment import EnvironmentContext
from alembic.runtime.migration import MigrationContext, MigrationStep
from alembic.script import ScriptDirectory
from psycopg.errors import DeadlockDetected, LockNotAvailable

from domain.backoff import backoff
from domain.database.checks import check_server
from domain.database.connections import MIGRATION_LOCKS, DatabaseProblem, open_session
from domain.database.options import MIGRATING
from domain.database.statements import NotNull, Statement
from domain.migrations.backfills import Report, SilentReport, run_backfill
from domain.migrations.rendering import Migration, alembic_config, migration_scripts, migrations

__all__ = ["LaterSchema", "alembic_config", "current_revision", "engine", "migrate", "pending"]

PATIENCE_SECONDS = 600.0
"""Seconds without a lock that it needs after which `migrate` gives up. Committed migrations stay."""

_TURN_SECONDS = 0.2
_FIRST_RETRY_SECONDS = 0.2
_LONGEST_RETRY_SECONDS = 5.0
_LOCK = f"{MIGRATION_LOCKS}, 0"
_DIGITS_OF_DAY = len("20261128")
"""A revision begins with the day on which its migration was written."""


class LaterSchema(DatabaseProblem):
    """The schema is of a later release. This one serves with it and leaves it as it is, as after a step back."""

    def __init__(self, revision: str) -> None:
        self.revision = revision
        super().__init__(
            f"the schema of the database is of another release (revision {revision}), a later one: processes of this"
            " release serve with it, so start them; there is nothing to migrate (--or-later takes that for success)"
        )


class _OldestTransaction(NamedTuple):
    pid: NotNull[int]
    role: str | None
    seconds: float


_OLDEST_TRANSACTION = Statement(
    _OldestTransaction,
    "SELECT pid, usename::text AS role, extract(epoch FROM clock_timestamp() - xact_start)::float8 AS seconds"
    " FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND xact_start IS NOT NULL"
    " ORDER BY xact_start, pid LIMIT 1",
)


def migrate(url: str, report: Report | None = None, *, patience_seconds: float = PATIENCE_SECONDS) -> str:
    """Brings the schema up to date, and returns its revision. Runs may repeat or overlap (they wait for one another)
    and may be stopped: the next run goes on from what is committed. Raises DatabaseProblem if PostgreSQL cannot be
    reached, its schema is unknown, or a lock stays taken, and LaterSchema for that of a later release."""
    report = report or SilentReport()
    check_server(url)
    with engine(url).connect() as connection:
        _wait_for_turn(connection, report)
        try:
            scripts = migration_scripts()
            everything = migrations(scripts)
            lacking = pending(_current_revision(connection, everything), everything)
            for migration in everything:
                if migration in lacking:
                    _retry(url, report, patience_seconds, partial(_upgrade, connection, scripts, migration))
                if migration.backfill is not None:  # also of an applied one: it may have been stopped
                    with open_session(url, MIGRATING, autocommit=True) as session:
                        run_backfill(
                            session, migration.revision, migration.backfill, report, patience_seconds=patience_seconds
                        )
            return str(_current_revision(connection, everything))
        except (LockNotAvailable, DeadlockDetected):
            raise DatabaseProblem(
                f"others held the lock of a table for more than {patience_seconds:.0f} s{_oldest_transaction(url)}: end"
                " that session, or run migrate again when it is done"
            ) from None
        finally:
            connection.rollback()
            connection.execute(sqlalchemy.text(f"SELECT pg_advisory_unlock({_LOCK})"))
            connection.commit()


def current_revision(url: str) -> str | None:
    """The revision of the schema; None for an empty database. Raises DatabaseProblem if PostgreSQL cannot be reached,
    or for a schema that these migrations do not know."""
    check_server(url)
    with engine(url).connect() as connection:
        return _current_revision(connection, migrations())


def pending(revision: str | None, everything: list[Migration]) -> list[Migration]:
    """The migrations that a schema at `revision` lacks, in their order."""
    return everything[[None, *(migration.revision for migration in everything)].index(revision) :]


def engine(url: str) -> sqlalchemy.Engine:
    """SQLAlchemy's engine for the server, as Alembic needs it."""
    return sqlalchemy.create_engine(
        "postgresql+psycopg://", creator=lambda: open_session(url, MIGRATING), poolclass=sqlalchemy.NullPool
    )


def _wait_for_turn(connection: sqlalchemy.Connection, report: Report) -> None:
    """Take the lock of migrations, which belongs to the session. Asks the server again and again: a session that waits
    inside of a statement would keep the `CREATE INDEX CONCURRENTLY` of the run before it waiting, and both would
    fail."""
    told = False
    while True:
        taken = connection.execute(sqlalchemy.text(f"SELECT pg_try_advisory_lock({_LOCK})")).scalar_one()
        connection.commit()
        if taken:
            return
        if not told:
            report.tell("another run of migrate is at work: this one waits for it")
            told = True
        time.sleep(_TURN_SECONDS)


def _current_revision(connection: sqlalchemy.Connection, everything: list[Migration]) -> str | None:
    revision = MigrationContext.configure(connection).get_current_revision()
    connection.commit()
    if revision is not None and revision not in {migration.revision for migration in everything}:
        if revision[:_DIGITS_OF_DAY] >= everything[-1].revision[:_DIGITS_OF_DAY]:
            raise LaterSchema(revision)
        raise DatabaseProblem(
            f"the schema of the database is of another release (revision {revision}): use a database of this release,"
            " or the release that made this one"
        )
    return revision


def _upgrade(connection: sqlalchemy.Connection, scripts: ScriptDirectory, migration: Migration) -> None:
    """Runs one migration as `alembic upgrade` does, which would load the modules of all of them each time."""
    step = MigrationStep.upgrade_from_script(scripts.revision_map, scripts.get_revision(migration.revision))
    try:
        with EnvironmentContext(alembic_config(connection), scripts, fn=lambda *_: [step]):
            scripts.run_env()
    except sqlalchemy.exc.DBAPIError as error:
        connection.rollback()
        if isinstance(error.orig, psycopg.Error):
            raise error.orig from None
        raise


def _retry(url: str, report: Report, patience_seconds: float, attempt: Callable[[], None]) -> None:
    """Attempts again while others hold a lock that it needs. Requests that stand behind it wait for one attempt at
    most."""
    began = time.monotonic()
    failures = 0
    while True:
        try:
            return attempt()
        except (LockNotAvailable, DeadlockDetected):
            if time.monotonic() - began > patience_seconds:
                raise
            who = _oldest_transaction(url)
            report.tell(f"others use the table, so this attempt gave way to them{who}; the next one follows")
        time.sleep(backoff(_FIRST_RETRY_SECONDS, failures, longest=_LONGEST_RETRY_SECONDS))
        failures += 1


def _oldest_transaction(url: str) -> str:
    with open_session(url, MIGRATING, autocommit=True) as session:
        found = _OLDEST_TRANSACTION.first(session)
    if found is None:
        return ""
    return f" (the oldest transaction: process {found.pid} of PostgreSQL, role {found.role}, for {found.seconds:.0f} s)"
