"""Overdue work by the database: each figure counts its rows, and only those that are late."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest

from domain.database.connections import Connection, Database
from domain.ids import shown_id
from domain.needs import overdue
from domain.needs.figures import FIGURES
from domain.stations.price_sources import pause_source, read_source
from tests.conftest import own_database
from tests.domain.helpers import imported, late_source, planned_by_hand, pushed
from tests.factories import DOT, Fleet, make_fleet


@pytest.fixture(scope="module")
def empty() -> Iterator[Database]:
    """The figures are of all companies: no other test's rows may stand in them."""
    with own_database("overdue") as one:
        yield one


@pytest.fixture
def connection(empty: Database, now: datetime) -> Iterator[Connection]:
    with empty.transaction() as connection:
        yield connection
        raise psycopg.Rollback


def change(connection: Connection, route_id: UUID, **values: Any) -> None:
    for name, value in values.items():
        connection.execute(f"UPDATE routes SET {name} = %s WHERE id = %s", (value, route_id))


def counted(connection: Connection, now: datetime) -> dict[str, int]:
    """The figures that are not zero; each is what its rows are."""
    found = overdue.count(connection, now=now)
    for figure in FIGURES:
        rows = overdue.rows(connection, figure, limit=100, now=now)
        assert len(rows) == found[figure].rows
        assert found[figure].since == min((row.since for row in rows if row.since is not None), default=None)
    return {figure: one.rows for figure, one in found.items() if one.rows}


def test_nothing_is_overdue_where_all_is_fresh(connection: Connection, fleet: Fleet, now: datetime) -> None:
    pushed(connection, fleet.live, now=now, start=now)
    imported(connection, fleet.live, now=now)
    planned_by_hand(connection, imported(connection, fleet.sandbox, now=now), now=now)
    assert counted(connection, now) == {}


def test_a_route_that_waits_for_its_import_is_overdue_once_it_was_due_for_a_minute(
    connection: Connection, fleet: Fleet, now: datetime
) -> None:
    route_id = pushed(connection, fleet.live, now=now, start=now)
    change(connection, route_id, retry_at=now - timedelta(seconds=59))
    assert counted(connection, now) == {}

    change(connection, route_id, retry_at=now - timedelta(seconds=61))

    assert counted(connection, now) == {"pending": 1}
    (row,) = overdue.rows(connection, "pending", limit=10, now=now)
    assert (row.id, row.company_id, row.since) == (str(route_id), fleet.company_id, now - timedelta(seconds=61))


def test_routes_that_are_due_since_one_moment_are_named_in_the_order_of_their_ids(
    connection: Connection, fleet: Fleet, now: datetime
) -> None:
    ids = [str(pushed(connection, fleet.live, now=now, start=now, externalId=f"L-{number}")) for number in range(3)]
    for route_id in reversed(ids):  # each is stored anew, behind the others
        change(connection, UUID(route_id), retry_at=now - timedelta(hours=1))
    assert [row.id for row in overdue.rows(connection, "pending", limit=2, now=now)] == ids[:2]


def test_a_truck_that_arrived_without_a_plan_is_overdue_and_silent_until_it_sends_positions(
    connection: Connection, fleet: Fleet, now: datetime
) -> None:
    route_id = imported(connection, fleet.live, now=now)
    change(connection, route_id, arrived_at=now - timedelta(minutes=11), attempts=3)
    assert counted(connection, now) == {"unplanned": 1, "silent-trucks": 1}

    connection.execute(
        "INSERT INTO tracks (company_id, vehicle_id, environment, oldest_at, newest_at, latitude, longitude)"
        " VALUES (%s, %s, 'live', %s, %s, 41, -88)",
        (fleet.company_id, fleet.trucks[0], now, now),
    )
    assert counted(connection, now) == {"unplanned": 1}
    assert counted(connection, now + timedelta(minutes=61)) == {"unplanned": 1, "silent-trucks": 1}


def test_what_the_sandbox_rehearses_calls_no_operator(connection: Connection, fleet: Fleet, now: datetime) -> None:
    imported(connection, fleet.sandbox, now=now, start=now, vehicle={"unitNumber": "SANDBOX-UNMAPPED"})
    route_id = imported(connection, fleet.sandbox, now=now, externalId="NEVER-DRIVEN")
    change(connection, route_id, arrived_at=now - timedelta(minutes=9))

    assert counted(connection, now + timedelta(seconds=50)) == {}


def test_a_message_is_overdue_while_it_waits_and_shown_for_a_day_when_it_failed(
    connection: Connection, fleet: Fleet, now: datetime
) -> None:
    message_id = planned_by_hand(connection, imported(connection, fleet.live, now=now), now=now)
    connection.execute("UPDATE messages SET created_at = %s WHERE id = %s", (now - timedelta(minutes=11), message_id))
    assert counted(connection, now) == {"unsent": 1, "silent-trucks": 1}

    fail(connection, message_id)
    assert counted(connection, now) == {"failed-messages": 1, "silent-trucks": 1}
    (row,) = overdue.rows(connection, "failed-messages", limit=10, now=now)
    assert row.detail == "no such number"
    assert "failed-messages" not in counted(connection, now + timedelta(hours=25))


def fail(connection: Connection, message_id: UUID, *, attempts: int = 1) -> None:
    connection.execute(
        "UPDATE messages SET status = 'failed', error = 'no such number', attempts = %s WHERE id = %s",
        (attempts, message_id),
    )


def test_a_message_that_no_driver_misses_is_not_shown(connection: Connection, fleet: Fleet, now: datetime) -> None:
    """Nobody tried to send it, a newer one took its place, or its route was canceled."""
    route_id = imported(connection, fleet.live, now=now)
    message_id = planned_by_hand(connection, route_id, now=now)
    fail(connection, message_id, attempts=0)
    assert "failed-messages" not in counted(connection, now)

    fail(connection, message_id)
    change(connection, route_id, status="canceled")
    assert "failed-messages" not in counted(connection, now)

    change(connection, route_id, status="planned")
    assert counted(connection, now)["failed-messages"] == 1
    change(connection, route_id, status="draft", plan_id=None)
    newer = planned_by_hand(connection, route_id, now=now)
    assert "failed-messages" not in counted(connection, now)
    fail(connection, newer)
    assert counted(connection, now)["failed-messages"] == 1, "the newer one alone"
    fail(connection, newer, attempts=0)
    assert counted(connection, now)["failed-messages"] == 1, "the older one, for nobody tried to send the newer one"


def test_held_routes_are_overdue_after_their_start_and_counted_by_reason(
    connection: Connection, fleet: Fleet, now: datetime
) -> None:
    for _ in range(2):
        imported(connection, fleet.live, now=now, vehicle={"unitNumber": "999"})
    imported(connection, fleet.live, now=now, driver={"name": "Nobody"})
    assert counted(connection, now) == {}

    later = now + timedelta(hours=2)

    assert counted(connection, later) == {"held": 3}
    assert overdue.held_by_reason(connection, now=later) == [("vehicle_unmapped", 2), ("driver_unmapped", 1)]
    for reason, routes in (("vehicle_unmapped", 2), ("driver_unmapped", 1), ("nonsense", 0)):
        assert len(overdue.rows(connection, "held", limit=100, now=later, detail=reason)) == routes
    assert len(overdue.rows(connection, "held", limit=1, now=later, detail="vehicle_unmapped")) == 1


def test_prices_older_than_a_week_are_stale(connection: Connection, now: datetime) -> None:
    make_fleet(connection)
    for station, days in (("fresh", 6), ("stale", 8)):
        connection.execute(
            "INSERT INTO stations (station_id, name, latitude, longitude, retail_price, priced_at)"
            " VALUES (%s, %s, 41, -88, 3.9, %s)",
            (station, station, now - timedelta(days=days)),
        )
    assert counted(connection, now) == {"stale-prices": 1}
    assert [row.id for row in overdue.rows(connection, "stale-prices", limit=10, now=now)] == ["stale"]


def test_a_source_of_price_files_is_late_after_its_hours_unless_it_is_paused(
    connection: Connection, fleet: Fleet, now: datetime
) -> None:
    source_id = late_source(connection, fleet.company_id, now=now)

    assert counted(connection, now) == {"late-price-files": 1}
    (row,) = overdue.rows(connection, "late-price-files", limit=10, now=now)
    assert overdue.shown_row_id("late-price-files", row) == shown_id("src", source_id)
    assert row.since == read_source(connection, fleet.company_id, "daily").late_since(now) == now - timedelta(hours=1)

    pause_source(connection, read_source(connection, fleet.company_id, "daily"), DOT, now=now)
    assert counted(connection, now) == {}
