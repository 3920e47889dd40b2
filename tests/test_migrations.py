"""The migrations and the tables are one schema, and bringing a database up to date disturbs nobody."""

from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from alembic import command

from domain.database import DatabaseProblem
from domain.migrations import alembic_config, engine, migrate
from domain.settings import Settings
from tests.conftest import make_database


def test_the_migrations_make_exactly_the_tables(settings: Settings) -> None:
    with engine(settings.require_database_url()).connect() as connection:
        command.check(alembic_config(connection))


def test_runs_at_the_same_time_wait_for_one_another() -> None:
    url = make_database("migrated", template="template1")

    with ThreadPoolExecutor(3) as threads:
        revisions = list(threads.map(migrate, [url] * 3))

    assert len(set(revisions)) == 1
    with engine(url).connect() as migrated:
        command.check(alembic_config(migrated))


def test_a_database_of_another_release_is_told_and_left_alone() -> None:
    url = make_database("earlier", template="template1")
    with psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE alembic_version (version_num varchar(32) NOT NULL)")
        connection.execute("INSERT INTO alembic_version VALUES ('0009')")

    with pytest.raises(DatabaseProblem, match="of another release \\(revision 0009\\)"):
        migrate(url)

    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").fetchone() == (1,)
