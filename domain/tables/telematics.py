"""Positions of trucks, and how far they are processed."""

from datetime import date, datetime
from uuid import UUID

from sqlalchemy import Column, DateTime, Index, text
from sqlmodel import Field, SQLModel

from domain.tables.columns import time_column, with_default


class Positions(SQLModel, table=True):
    """One GPS fix. Live ones are kept in a partition for each day, which is dropped as a whole; see `feed`."""

    __tablename__ = "positions"
    __table_args__ = {"postgresql_partition_by": "LIST (environment)"}

    company_id: UUID
    vehicle_id: UUID = Field(primary_key=True)
    environment: str = Field(primary_key=True)
    recorded_at: datetime = Field(sa_column=Column(DateTime(timezone=True), primary_key=True))
    latitude: float
    longitude: float
    speed_mph: float | None = None
    fuel_percent: float | None = None
    accuracy_meters: float | None = None
    received_at: datetime = time_column(now=True)
    implausible: bool = with_default("false")
    """True for a wild fix, too fast from its neighbours to be true."""


class Tracks(SQLModel, table=True):
    """A vehicle in one environment: how far its positions have been processed. The sweep finds lost processing here."""

    __tablename__ = "tracks"
    __table_args__ = (
        Index("tracks_unprocessed", "unprocessed_since", postgresql_where=text("unprocessed_from IS NOT NULL")),
        # Each report changes every truck's row. The room left beside it keeps the index entries as they are.
        {"postgresql_with": {"fillfactor": 70}},
    )

    company_id: UUID
    vehicle_id: UUID = Field(primary_key=True, foreign_key="vehicles.id")
    environment: str = Field(primary_key=True)
    oldest_at: datetime = time_column()
    newest_at: datetime = time_column()
    latitude: float
    longitude: float
    """The position of `newest_at`."""
    unprocessed_from: datetime | None = time_column(null=True)
    """`recorded_at` of the earliest fix that has not been compared with the stops; NULL if there is none."""
    unprocessed_since: datetime | None = time_column(null=True)
    """When it began to wait. Fixes that come in meanwhile do not change it."""
    free_since: datetime | None = time_column(null=True)
    """When the truck completed its last route, by its fixes' time. Earlier fixes belong to that route."""
    freed_at: datetime | None = time_column(null=True)
    """When that was decided, by our clock."""
    watch_from: datetime | None = time_column(null=True)
    """Fixes recorded from then on are compared with the road of the plan; see `watches`."""
    watch_at: datetime | None = time_column(null=True)
    """Fixes recorded from then on may show that the truck has left that road; NULL if it is not watched."""
    fuel_stops_passed: int = with_default("0")
    """Number of the driver's fuel stops behind the truck, while it is watched."""
    look_from: datetime | None = time_column(null=True)
    """A fix recorded from then on with less than `look_below_percent` has the truck's fuel looked at; 0 where the truck
    has sent no level. See `looks`."""
    look_below_percent: float | None = None
    look_by: datetime | None = time_column(null=True)
    """A fix recorded from then on has the truck's fuel looked at, whatever its level; NULL if nothing is looked at."""
    low_since: datetime | None = time_column(null=True)
    """Time of the fix that showed that the fuel does not bring the truck to its next purchase, or to the plan's end,
    above the floor; NULL while it does."""


class DroppedFixes(SQLModel, table=True):
    """Dropped fixes by day and reason: the feed accepted them, and nothing uses them."""

    __tablename__ = "dropped_fixes"

    company_id: UUID = Field(primary_key=True, foreign_key="companies.id")
    environment: str = Field(primary_key=True)
    day: date = Field(primary_key=True)
    reason: str = Field(primary_key=True)
    count: int = with_default("0")
