"""Shared by the tests of trucks on their way: their positions come in and are processed."""

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from domain.contract.shapes import Position
from domain.database.connections import Connection
from domain.lifecycle import Environment
from domain.queue.jobs import Job
from domain.routes.progress.tracking import process_vehicles
from domain.settings import Settings
from tests.domain.helpers import deliver, imported, place_of, planned_by_hand, positions_at, post
from tests.factories import JOLIET, Fleet
from tests.jobs import jobs_after
from tests.rows import named

HOME = place_of(JOLIET)


def minutes(number: float) -> timedelta:
    return timedelta(minutes=number)


def hours(number: float) -> timedelta:
    return timedelta(hours=number)


def position(recorded_at: datetime, **names: Any) -> Position:
    """A position at Joliet of whatever vehicle the names mean."""
    return Position(
        latitude=HOME.latitude,
        longitude=HOME.longitude,
        recorded_at=recorded_at,
        **names,
    )


def process(connection: Connection, settings: Settings, fleet: Fleet, *, now: datetime, live: bool = True) -> list[Job]:
    """One run of the arrivals worker over the fleet's trucks."""
    environment = Environment.LIVE if live else Environment.SANDBOX
    return jobs_after(
        connection, lambda: process_vehicles(connection, environment, fleet.trucks, settings=settings, now=now)
    )


def stand_at(
    connection: Connection, settings: Settings, fleet: Fleet, stop: dict[str, Any], first: datetime
) -> list[Job]:
    """Truck 101 sends three slow fixes from a stop as they are recorded, and they are processed."""
    now = first + minutes(2)
    post(connection, fleet.live, positions_at(stop, first), now=now)
    return process(connection, settings, fleet, now=now)


def activate(connection: Connection, settings: Settings, route_id: UUID, *, now: datetime) -> None:
    """A draft whose truck has arrived becomes planned and active: its message goes to the outbox."""
    deliver(connection, planned_by_hand(connection, route_id, now=now), settings=settings, now=now)


def active_route(connection: Connection, settings: Settings, fleet: Fleet, *, now: datetime) -> UUID:
    """A live route of truck 101 that is active 3 minutes after the truck has come to its first stop, Joliet."""
    route_id = imported(connection, fleet.live, now=now)
    stand_at(connection, settings, fleet, JOLIET, now)
    activate(connection, settings, route_id, now=now + minutes(3))
    return route_id


def dropped(connection: Connection, fleet: Fleet) -> dict[str, int]:
    rows = (
        named(connection)
        .execute(
            "SELECT reason, sum(count)::int AS count FROM dropped_fixes WHERE company_id = %s GROUP BY reason",
            (fleet.company_id,),
        )
        .fetchall()
    )
    return {row.reason: row.count for row in rows}


def stored_fixes(connection: Connection, fleet: Fleet) -> int:
    row = (
        named(connection)
        .execute("SELECT count(*) AS count FROM positions WHERE vehicle_id = ANY(%s)", (list(fleet.trucks),))
        .fetchone()
    )
    assert row is not None
    return int(row.count)
