"""The schema's history, and how a database is brought up to date. Alone in importing Alembic."""

from pathlib import Path

import psycopg
import sqlalchemy
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext

from domain.database import check_server

_MIGRATION_LOCK = 0x66756C_01  # any constant; it only has to differ from the scheduler's


def migrate(url: str) -> str:
    """Brings the schema up to date. Safe to run twice and at the same time: runs wait for one another.

    Returns the revision it is at. Raises DatabaseProblem.
    """
    check_server(url)
    with engine(url).connect() as connection:
        connection.execute(sqlalchemy.text(f"SELECT pg_advisory_lock({_MIGRATION_LOCK})"))
        connection.commit()  # the lock belongs to the session; the migration has transactions of its own
        try:
            command.upgrade(alembic_config(connection), "head")
            revision = MigrationContext.configure(connection).get_current_revision()
        finally:
            connection.rollback()
            connection.execute(sqlalchemy.text(f"SELECT pg_advisory_unlock({_MIGRATION_LOCK})"))
            connection.commit()
    return str(revision)


def engine(url: str) -> sqlalchemy.Engine:
    """SQLAlchemy's view of the same server, for Alembic."""
    return sqlalchemy.create_engine(
        "postgresql+psycopg://", creator=lambda: psycopg.connect(url), poolclass=sqlalchemy.NullPool
    )


def alembic_config(connection: sqlalchemy.Connection) -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent))
    config.attributes["connection"] = connection
    return config
