"""The housekeeping pass deletes old data, compares counts with the routes and seals contacts."""

import base64
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from psycopg.errors import LockNotAvailable
from pydantic import SecretStr

from domain.audit.entries import record_action
from domain.database.connections import Connection, Database
from domain.database.options import SERVING
from domain.lifecycle import RouteStatus
from domain.settings import Settings
from domain.telematics.position_partitions import maintain_partitions
from scheduler.passes import Passes
from tests.domain.helpers import imported, planned_by_hand, positions_at, post, status_of
from tests.domain.requests.entries import entry_of, new_caller, store
from tests.factories import DOT, JOLIET, make_fleet
from tests.rows import named
from tests.scheduler.jobs import in_transaction
from tests.service import eventually


def test_housekeeping_deletes_old_positions_and_frees_trucks_of_dead_routes(
    passes: Passes, now: datetime, quiet: Settings
) -> None:
    with passes.database.transaction() as connection:
        fleet = make_fleet(connection)
        post(connection, fleet.live, positions_at(JOLIET, now - timedelta(days=31)), now=now)
        post(connection, fleet.live, positions_at(JOLIET, now - timedelta(days=1)), now=now)
        dead, living = (imported(connection, fleet.live, now=now) for _ in range(2))
        for route_id, days in ((dead, 15), (living, 13)):
            connection.execute(
                "UPDATE routes SET status = 'active', imported_at = %s WHERE id = %s",
                (now - timedelta(days=days), route_id),
            )

    passes.housekeeping()

    with passes.database.transaction() as connection:
        assert status_of(connection, dead) is RouteStatus.ERROR
        assert status_of(connection, living) is RouteStatus.ACTIVE
        (row,) = named(connection).execute("SELECT count(*) AS count FROM positions").fetchall()
    assert row.count == 3


def test_housekeeping_drops_old_partitions_of_requests_and_creates_the_next(
    passes: Passes, now: datetime, quiet: Settings
) -> None:
    with passes.database.transaction() as connection:
        caller = new_caller(connection, make_fleet(connection).company_id)
        moments = [now - timedelta(days=8), now - timedelta(days=6), now]
        store(connection, [entry_of(caller=caller, at=moment) for moment in moments])

    passes.housekeeping()

    with passes.database.transaction() as connection:
        tomorrow = entry_of(caller=caller, at=now + timedelta(days=1))
        store(connection, [tomorrow])
        rows = connection.execute(
            "SELECT id, tableoid::regclass::text FROM request_log WHERE key_id = %s ORDER BY id", (caller.key_id,)
        ).fetchall()
    assert len(rows) == 3
    assert (rows[-1][0].hex, rows[-1][1]) == (tomorrow.id, f"request_log_{now + timedelta(days=1):%Y%m%d}")


def test_positions_are_stored_while_housekeeping_waits_for_their_table(
    passes: Passes, quiet: Settings, now: datetime
) -> None:
    with passes.database.transaction() as connection:
        fleet = make_fleet(connection)
        long_ago = now - timedelta(days=40)
        maintain_partitions(connection, retention_days=30, now=long_ago)
        post(connection, fleet.sandbox, positions_at(JOLIET, long_ago), now=long_ago)

    with (
        Database.of(quiet, SERVING) as serving,
        ThreadPoolExecutor(1) as threads,
        passes.database.transaction() as observer,
        passes.database.transaction() as reader,
    ):
        reader.execute("SELECT FROM positions")
        housekeeping = threads.submit(passes.housekeeping)
        eventually(lambda: observer.execute("SELECT FROM pg_locks WHERE NOT granted").rowcount, bool)
        with serving.transaction() as connection:
            assert post(connection, fleet.live, positions_at(JOLIET, now), now=now).accepted == 3
        with pytest.raises(LockNotAvailable):
            housekeeping.result()
    with passes.database.transaction() as connection:
        old = named(connection).execute("SELECT FROM positions WHERE environment = 'sandbox'").rowcount
    assert old == 0  # what needs no such lock is done all the same


def test_a_part_of_housekeeping_that_fails_keeps_no_other_from_its_turn(
    passes: Passes, quiet: Settings, now: datetime
) -> None:
    """Rows of one kind that another transaction holds for long: the days of positions and requests go on."""
    today = f"{now:%Y%m%d}"
    with passes.database.transaction() as connection:
        fleet = make_fleet(connection)
        fill_id = UUID(int=1)
        connection.execute(
            "INSERT INTO fills (id, company_id, environment, profile, key, bought_at, time_zone, has_time, fuel,"
            " gallons, paid_cents, currency, score) VALUES (%s, %s, 'live', 'x', 'x', %s, 'UTC', true, 'tractor',"
            " 1, 1, 'USD', 0)",
            (fill_id, fleet.company_id, now - timedelta(days=4000)),
        )
        record_action(connection, DOT, "change", "policy", company_id=fleet.company_id)
        connection.execute("UPDATE audit_log SET id = %s WHERE company_id = %s", (UUID(int=2), fleet.company_id))
        connection.execute(f"DROP TABLE IF EXISTS positions_live_{today}, request_log_{today}")
    with Database.of(quiet) as other, other.transaction() as holder:
        holder.execute("SELECT FROM fills WHERE id = %s FOR UPDATE", (fill_id,))
        keeping = passes.settings.model_copy(update={"fill_retention_days": 365})
        with pytest.raises(LockNotAvailable):
            Passes(keeping, passes.database, passes.jobs).housekeeping()

    assert in_transaction(passes, count_of("fills", "true")) == 1
    assert in_transaction(passes, count_of("audit_log", f"id = '{UUID(int=2)}'")) == 0
    made = f"to_regclass('positions_live_{today}') IS NOT NULL"
    assert in_transaction(passes, count_of("(VALUES (1)) AS it", made)) == 1
    in_transaction(passes, lambda connection: connection.execute("DELETE FROM fills"))


def test_housekeeping_deletes_old_data_of_finished_routes_in_portions(
    passes: Passes, now: datetime, quiet: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scheduler.passes._PORTION", 2)
    with passes.database.transaction() as connection:
        fleet = make_fleet(connection)
        for days_ago in (91, 91, 91, 366, 0):
            recent = imported(connection, fleet.live, now=now)
            ended = now - timedelta(days=days_ago)
            route_id = UUID(f"{int(ended.timestamp() * 1000):012x}{recent.hex[12:]}")  # as if it was pushed then
            connection.execute("UPDATE routes SET id = %s WHERE id = %s", (route_id, recent))
            planned_by_hand(connection, route_id, now=now)
            connection.execute("UPDATE messages SET status = 'sent' WHERE route_id = %s", (route_id,))
            connection.execute("UPDATE plans SET explanation = %s WHERE route_id = %s", (b"packed", route_id))
            connection.execute(
                "UPDATE routes SET status = 'completed', updated_at = %s WHERE id = %s", (ended, route_id)
            )

    passes.housekeeping()
    assert in_transaction(passes, count_of("messages", "text IS NOT NULL")) == 1
    assert in_transaction(passes, count_of("plans", "explanation IS NOT NULL")) == 1
    assert in_transaction(passes, count_of("routes", "true")) == 5

    keeping_a_year = passes.settings.model_copy(update={"route_retention_days": 365})
    Passes(keeping_a_year, passes.database, passes.jobs).housekeeping()
    assert in_transaction(passes, count_of("routes", "true")) == 4


def count_of(table: str, condition: str) -> Callable[[Connection], int]:
    return lambda connection: named(connection).execute(f"SELECT FROM {table} WHERE {condition}").rowcount


def test_the_sweep_sums_up_counts_and_housekeeping_compares_them_with_the_routes(
    passes: Passes, now: datetime, capsys: pytest.CaptureFixture[str]
) -> None:
    with passes.database.transaction() as connection:
        fleet = make_fleet(connection)
        for _ in range(2):
            imported(connection, fleet.live, now=now)

    def counted(connection: Connection) -> list[tuple[Any, ...]]:
        return connection.execute("SELECT company_id, environment, status, routes FROM route_counts").fetchall()

    assert in_transaction(passes, counted) == []
    passes.sweep()
    assert in_transaction(passes, counted) == [(*fleet.live, "draft", 2)]

    in_transaction(passes, lambda connection: connection.execute("UPDATE route_counts SET routes = 5"))
    passes.housekeeping()
    passes.sweep()

    assert in_transaction(passes, counted) == [(*fleet.live, "draft", 2)]
    assert "counts.corrected" in capsys.readouterr().err


def test_housekeeping_encrypts_contacts_that_were_stored_in_the_clear(passes: Passes) -> None:
    with passes.database.transaction() as connection:
        fleet = make_fleet(connection)
        connection.execute("UPDATE drivers SET contact = 'mailto://a:secret@example.org'")
    key = SecretStr(base64.urlsafe_b64encode(os.urandom(32)).decode())
    with_key = passes.settings.model_copy(update={"contact_key": key})

    Passes(with_key, passes.database, passes.jobs).housekeeping()

    assert in_transaction(passes, count_of("drivers", "starts_with(contact, 'sealed:')")) == len(fleet.drivers)
