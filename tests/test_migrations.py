"""The migrations and the tables are one schema, and bringing a database up to date disturbs nobody."""

import os
from concurrent.futures import ThreadPoolExecutor

import psycopg
from alembic import command

from domain.migrations import alembic_config, engine, migrate
from domain.settings import Settings


def test_the_migrations_make_exactly_the_tables(settings: Settings) -> None:
    with engine(settings.require_database_url()).connect() as connection:
        command.check(alembic_config(connection))


def test_runs_at_the_same_time_wait_for_one_another(settings: Settings) -> None:
    template = settings.require_database_url()
    name = f"migrated_{os.getpid()}"
    with psycopg.connect(template, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    url = template.replace(f"/{psycopg.conninfo.conninfo_to_dict(template)['dbname']}?", f"/{name}?")

    with ThreadPoolExecutor(3) as threads:
        revisions = list(threads.map(migrate, [url] * 3))

    assert len(set(revisions)) == 1
    with engine(url).connect() as migrated:
        command.check(alembic_config(migrated))
