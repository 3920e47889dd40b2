"""The burn of completed trips, and what it teaches of each truck."""

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Column, Index, LargeBinary, text
from sqlmodel import Field, SQLModel

from domain.tables.columns import json_column, time_column, with_default


class TripBurns(SQLModel, table=True):
    """The burn of one completed route. While `measured_at` is empty it waits to be measured, once more if fills came
    later."""

    __tablename__ = "trip_burns"
    __table_args__ = (
        Index("trip_burns_waiting", "completed_at", postgresql_where=text("measured_at IS NULL")),
        Index("trip_burns_unseen", "completed_at", postgresql_where=text("stops_seen_at IS NULL")),
        Index("trip_burns_by_truck", "company_id", "environment", "vehicle_id", text("ended_at DESC")),
    )

    route_id: UUID = Field(primary_key=True, foreign_key="routes.id")
    company_id: UUID
    environment: str
    vehicle_id: UUID
    completed_at: datetime = time_column(now=True)
    """When the service completed the route, by its own clock."""
    started_at: datetime = time_column()
    """When the truck left the first stop, by the time of its fixes."""
    ended_at: datetime = time_column()
    levels: bytes | None = Field(default=None, sa_column=Column(LargeBinary))
    """The fuel levels over the miles, packed; NULL until they are read from the positions."""
    measured_at: datetime | None = time_column(null=True)
    stops_seen_at: datetime | None = time_column(null=True)
    """When its fixes were compared with its fuel stops; see `compliance`."""
    miles: float | None = None
    gallons: float | None = None
    spread_gallons: float | None = None
    """One standard deviation of the gallons, by the noise of the gauge."""
    by_card: bool = with_default("false")
    """True if gallons of fuel cards took part."""
    doubt: str | None = None
    """The reason why the trip does not count; see `burn/learned.py`."""


class LearnedBurns(SQLModel, table=True):
    """A truck's mileage and its tank, as its believed trips teach them."""

    __tablename__ = "learned_burns"
    __table_args__ = (Index("learned_burns_newest", "company_id", "environment", text("learned_at DESC")),)

    company_id: UUID = Field(primary_key=True)
    environment: str = Field(primary_key=True)
    vehicle_id: UUID = Field(primary_key=True)
    learned_at: datetime = time_column(now=True)
    capacity_gallons: float
    """The tank by which levels became gallons. Another tank of the vehicle's record makes the truck learn again."""
    mpg: float | None = None
    """NULL while no trip is believed."""
    spread_percent: float | None = None
    """One standard deviation from trip to trip, in percent of `mpg`."""
    miles: float = with_default("0")
    trips: list[dict[str, Any]] = json_column()
    """The believed trips, the newest first: routeId, endedAt, miles, mpg."""
    tank_gallons: float | None = None
    """The usable tank by the fills of cards; NULL while they do not agree on one."""
    tank_fills: int = with_default("0")
    tank_kept_gallons: float | None = None
    """The tank that was proposed when a person decided to keep the declared one."""
