"""The migrations and the tables are one schema, and bringing a database up to date disturbs nobody."""

from concurrent.futures import ThreadPoolExecutor
from uuid import UUID

import psycopg
import pytest
from alembic import command

from domain.database.connections import DatabaseProblem
from domain.ids import new_id
from domain.migrations import alembic_config, engine, migrate
from domain.settings import Settings
from tests.conftest import make_database


def test_the_migrations_make_exactly_the_tables(settings: Settings) -> None:
    with engine(settings.require_database_url()).connect() as connection:
        command.check(alembic_config(connection))


def test_every_change_of_routes_is_counted_by_a_trigger(settings: Settings) -> None:
    """The comparison above knows nothing of triggers."""
    with psycopg.connect(settings.require_database_url()) as connection:
        assert connection.execute(
            "SELECT tgname, tgenabled FROM pg_trigger WHERE tgrelid = 'routes'::regclass AND NOT tgisinternal"
            " AND tgname LIKE 'count_routes_on_%' ORDER BY tgname"
        ).fetchall() == [(f"count_routes_on_{event}", "O") for event in ("delete", "insert", "truncate", "update")]


def test_runs_at_the_same_time_wait_for_one_another() -> None:
    url = make_database("migrated", template="template1")

    with ThreadPoolExecutor(3) as threads:
        revisions = list(threads.map(migrate, [url] * 3))

    assert len(set(revisions)) == 1
    with engine(url).connect() as migrated:
        command.check(alembic_config(migrated))


def test_an_upgrade_stores_which_vehicle_made_each_visit() -> None:
    url = make_database("visited", template="template1")
    with engine(url).connect() as connection:
        command.upgrade(alembic_config(connection), "20261122b")
    names = {name: new_id() for name in ("company", "vehicle", "matched", "held")}
    with psycopg.connect(url) as connection:
        connection.execute("INSERT INTO companies (id, name) VALUES (%(company)s, 'Acme')", names)
        for name, vehicle in (("matched", "%(vehicle)s"), ("held", "NULL")):
            connection.execute(
                "INSERT INTO routes (id, company_id, environment, external_id, scheduled_start, stops, status,"
                f" vehicle_id) VALUES (%({name})s, %(company)s, 'live', '{name}', now(), '[]', 'error', {vehicle})",
                names,
            )
            connection.execute(
                "INSERT INTO visits (company_id, environment, route_id, stop, arrived_at)"
                f" VALUES (%(company)s, 'live', %({name})s, 0, now())",
                names,
            )

    migrate(url)

    with psycopg.connect(url) as connection:
        made: dict[UUID, UUID | None] = dict(connection.execute("SELECT route_id, vehicle_id FROM visits").fetchall())
    assert made == {names["matched"]: names["vehicle"], names["held"]: None}


def test_routes_stored_before_attempts_had_an_end_keep_working() -> None:
    url = make_database("upgraded", template="template1")
    with engine(url).connect() as connection:
        command.upgrade(alembic_config(connection), "20261122b")
        connection.commit()
    with psycopg.connect(url) as connection:
        connection.execute("INSERT INTO sign_in_attempts (subject, attempts, last_at) VALUES ('x', 7, '2026-11-20Z')")

    migrate(url)

    with psycopg.connect(url, options="-c timezone=UTC") as connection:
        row = connection.execute("SELECT attempts, forgotten_at = '2026-11-23Z' FROM sign_in_attempts").fetchone()
    assert row == (7, True)


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1", "EUC_JP"])
def test_a_database_that_does_not_store_unicode_is_refused(encoding: str) -> None:
    url = make_database("encoded", template=f"template0 ENCODING '{encoding}' LOCALE 'C'")
    with pytest.raises(DatabaseProblem, match=r"createdb .*--encoding=UTF8"):
        migrate(url)


@pytest.mark.parametrize("revision", ["0001", "0005", "20991231"])
def test_a_database_of_another_release_is_reported_and_left_unchanged(revision: str) -> None:
    url = make_database("earlier", template="template1")
    with psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE alembic_version (version_num varchar(32) NOT NULL)")
        connection.execute("INSERT INTO alembic_version VALUES (%s)", (revision,))

    with pytest.raises(DatabaseProblem, match=f"of another release \\(revision {revision}\\)"):
        migrate(url)

    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").fetchone() == (1,)
