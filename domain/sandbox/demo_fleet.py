"""The living fleet of the demo: which company has it, and how fast it drives. Nothing else in `domain` knows
the demo."""

from datetime import datetime, timedelta
from typing import Literal, NamedTuple, get_args
from uuid import UUID

from domain.audit.entries import Actor, record_action
from domain.database.connections import Connection
from domain.database.statements import Command, Statement

FleetSpeed = Literal[0, 1, 20, 60]
FLEET_SPEEDS: tuple[int, ...] = get_args(FleetSpeed)
"""The trucks are so many times as fast as real ones; at 0 they stand."""
USUAL_SPEED = 1
FAST_FOR = timedelta(minutes=30)
"""A fast fleet slows down by itself after this time, so that one who forgets it does not fill a disk."""


class DemoFleet(NamedTuple):
    company_id: UUID
    speed: int
    slows_at: datetime | None

    def speed_at(self, now: datetime) -> int:
        return USUAL_SPEED if self.slows_at is not None and self.slows_at <= now else self.speed


_READ = Statement(DemoFleet, "SELECT company_id, speed, slows_at FROM demo_fleets WHERE company_id = %s")
_START = Command("INSERT INTO demo_fleets (company_id, speed) VALUES (%s, %s) ON CONFLICT DO NOTHING")
_CHANGE = Command("UPDATE demo_fleets SET speed = %s, slows_at = %s WHERE company_id = %s")


def read_demo_fleet(connection: Connection, company_id: UUID) -> DemoFleet | None:
    """The demo's fleet; None for every other company."""
    return _READ.first(connection, (company_id,))


def start_demo_fleet(connection: Connection, company_id: UUID) -> None:
    """Makes a company the demo's."""
    _START.execute(connection, (company_id, USUAL_SPEED))


def set_fleet_speed(connection: Connection, company_id: UUID, speed: int, by: Actor, *, now: datetime) -> bool:
    """Lets the demo's trucks drive at another speed. False for a company without the demo's fleet."""
    slows_at = now + FAST_FOR if speed > USUAL_SPEED else None
    if _CHANGE.execute(connection, (speed, slows_at, company_id)).rowcount == 0:
        return False
    words = f"{speed}x" if speed else "pause"
    record_action(connection, by.with_reason(words), "change", "demo fleet", company_id=company_id)
    return True
