"""The migrations and the tables are one schema, and bringing a database up to date disturbs nobody."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
from alembic import command

from domain.migrations import alembic_config, engine, migrate
from domain.routes.counts import mend
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


def test_a_doubled_fleet_is_one_again() -> None:
    """Of two vehicles with one unit number the one that is used stays, with the mappings and routes of both."""
    url = make_database("doubled", template="template1")
    with engine(url).connect() as before:
        command.upgrade(alembic_config(before), "0005")
    with psycopg.connect(url) as connection:
        connection.execute("INSERT INTO companies (id, name) VALUES ('a', 'A'), ('b', 'B')")
        connection.execute(
            "INSERT INTO vehicles (id, company_id, unit_number) VALUES ('v1', 'a', '101'), ('v2', 'a', '101'),"
            " ('v3', 'a', '102'), ('v4', 'b', '101'), ('v5', 'a', NULL), ('v6', 'a', NULL)"
        )
        connection.execute(
            "INSERT INTO drivers (id, company_id, external_id)"
            " VALUES ('d1', 'a', 'D'), ('d2', 'a', 'D'), ('d3', 'b', 'D')"
        )
        connection.execute("INSERT INTO mappings (company_id, kind, value, target_id) VALUES ('a', 'vin', 'X', 'v1')")
        connection.execute(
            "INSERT INTO routes (id, company_id, environment, external_id, scheduled_start, stops, vehicle_id, status)"
            " SELECT id, 'a', 'live', id, now(), '[]', vehicle_id, status FROM (VALUES"
            " ('r1', 'v1', 'draft'), ('r2', 'v2', 'draft'), ('r3', 'v2', 'completed'), ('r4', 'v1', 'canceled'),"
            " ('r5', 'v2', 'error')) AS route (id, vehicle_id, status)"
        )

    migrate(url)

    with psycopg.connect(url) as connection:

        def look(query: str) -> list[Any]:
            return connection.execute(query).fetchall()

        assert mend(connection) == []
        assert look("SELECT id FROM vehicles WHERE retired_at IS NOT NULL") == [("v1",)]
        assert look("SELECT id FROM drivers WHERE retired_at IS NOT NULL") == [("d2",)]
        assert look("SELECT target_id FROM mappings") == [("v2",)]
        assert look("SELECT id, vehicle_id FROM routes ORDER BY id") == [
            ("r1", "v2"),
            ("r2", "v2"),
            ("r3", "v2"),
            ("r4", "v1"),
            ("r5", "v2"),
        ]


def test_a_correction_that_waits_or_failed_leaves_the_plan_that_the_driver_has() -> None:
    """The release before made it the route's plan at once; what is shown from now on is what was sent."""
    url = make_database("corrected", template="template1")
    with engine(url).connect() as before:
        command.upgrade(alembic_config(before), "0005")
    with psycopg.connect(url) as connection:
        connection.execute("INSERT INTO companies (id, name) VALUES ('a', 'A')")
        connection.execute("INSERT INTO drivers (id, company_id) VALUES ('d', 'a')")
        connection.execute(
            "INSERT INTO routes (id, company_id, environment, external_id, scheduled_start, stops, status, plan_id,"
            " corrected_at) SELECT id, 'a', 'live', id, now(), '[]', status, id || plan, now() FROM (VALUES"
            " ('waits', 'active', '2'), ('failed', 'completed', '2'), ('sent', 'active', '2'),"
            " ('first', 'planned', '1')) AS route (id, status, plan)"
        )
        connection.execute(
            "INSERT INTO plans (id, route_id, revision, generated_at, document, explanation, timeline, fuel_percent)"
            " SELECT r.id || n, r.id, 1, now(), jsonb_build_object('totalDistanceMiles', 100 * n), '{}', '[]', 50"
            " FROM routes r, generate_series(1, 2) n WHERE r.id <> 'first' OR n = 1"
        )
        connection.execute(
            "INSERT INTO messages (id, company_id, environment, route_id, plan_id, driver_id, status, text)"
            " SELECT plan, 'a', 'live', left(plan, -1), plan, 'd', status, '' FROM (VALUES"
            " ('waits1', 'sent'), ('waits2', 'pending'), ('failed1', 'sent'), ('failed2', 'failed'),"
            " ('sent1', 'sent'), ('sent2', 'sent'), ('first1', 'pending')) AS message (plan, status)"
        )

    migrate(url)

    with psycopg.connect(url) as connection:
        assert connection.execute(
            "SELECT id, plan_id, correction_id, corrected_at IS NULL, distance_miles FROM routes ORDER BY id"
        ).fetchall() == [
            ("failed", "failed1", None, True, 100),
            ("first", "first1", None, False, None),
            ("sent", "sent2", None, False, None),
            ("waits", "waits1", "waits2", True, 100),
        ]
