"""The schema's history, and how a database is brought up to date. Alone in importing Alembic."""

from pathlib import Path

import sqlalchemy
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory

from domain.database import MIGRATION_LOCKS, DatabaseProblem, check_server, open_session
from domain.database_options import TimeLimits

_LOCK = f"{MIGRATION_LOCKS}, 0"
_LIMITS = TimeLimits(statement_seconds=0, lock_seconds=0)  # a migration takes its time, and the next one waits for it


def migrate(url: str) -> str:
    """Brings the schema up to date. Safe to run twice and at the same time: runs wait for one another.

    Returns the revision it is at. Raises DatabaseProblem.
    """
    check_server(url)
    with engine(url).connect() as connection:
        connection.execute(sqlalchemy.text(f"SELECT pg_advisory_lock({_LOCK})"))
        connection.commit()  # the lock belongs to the session; the migration has transactions of its own
        try:
            config = alembic_config(connection)
            _check_release(config, connection)
            command.upgrade(config, "head")
            revision = MigrationContext.configure(connection).get_current_revision()
        finally:
            connection.rollback()
            connection.execute(sqlalchemy.text(f"SELECT pg_advisory_unlock({_LOCK})"))
            connection.commit()
    return str(revision)


def _check_release(config: Config, connection: sqlalchemy.Connection) -> None:
    """Raises DatabaseProblem for a schema that these migrations know nothing of."""
    revision = MigrationContext.configure(connection).get_current_revision()
    connection.commit()
    known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    if revision is not None and revision not in known:
        raise DatabaseProblem(
            f"the schema of the database is of another release (revision {revision}): use a database of this release,"
            " or the release that made this one"
        )


def engine(url: str) -> sqlalchemy.Engine:
    """SQLAlchemy's view of the same server, for Alembic."""
    return sqlalchemy.create_engine(
        "postgresql+psycopg://", creator=lambda: open_session(url, _LIMITS), poolclass=sqlalchemy.NullPool
    )


def alembic_config(connection: sqlalchemy.Connection) -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent))
    config.attributes["connection"] = connection
    return config
