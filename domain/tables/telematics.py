"""Positions of trucks, and how far they are processed."""

from datetime import date, datetime
from uuid import UUID

from sqlalchemy import Column, DateTime, Index, text
from sqlmodel import Field, SQLModel

from domain.tables.columns import time_column, with_default


class Positions(SQLModel, table=True):
    """One GPS fix. The live ones are kept in one partition for each day, which go as a whole; see `feed`."""

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
    """Judged to be a wild fix: too fast from its neighbours to be true."""


class Tracks(SQLModel, table=True):
    """A vehicle in one environment: how far its positions have been processed. The sweep finds lost processing here."""

    __tablename__ = "tracks"
    __table_args__ = (
        Index("tracks_unprocessed", "unprocessed_since", postgresql_where=text("unprocessed_from IS NOT NULL")),
        # each report changes every truck's row: with room beside it, its index entries stay as they are
        {"postgresql_with": {"fillfactor": 70}},
    )

    company_id: UUID
    vehicle_id: UUID = Field(primary_key=True, foreign_key="vehicles.id")
    environment: str = Field(primary_key=True)
    oldest_at: datetime = time_column()
    newest_at: datetime = time_column()
    latitude: float
    longitude: float
    """The last position: that of `newest_at`."""
    unprocessed_from: datetime | None = time_column(null=True)
    """`recorded_at` of the earliest fix that has not been compared with the stops; NULL: none."""
    unprocessed_since: datetime | None = time_column(null=True)
    """The time since when it waits to be processed. Fixes that come in meanwhile do not renew it."""
    free_since: datetime | None = time_column(null=True)
    """Fix time at which the truck completed its last route. Fixes that were recorded before belong to that route."""
    freed_at: datetime | None = time_column(null=True)
    """When that was decided."""
    watch_from: datetime | None = time_column(null=True)
    """`recorded_at` of the fix from which on those to come are compared with the road of the plan; see `watches`."""
    watch_at: datetime | None = time_column(null=True)
    """Fixes recorded from then on may show that the truck has left that road. NULL: it is not watched."""
    fuel_stops_passed: int = with_default("0")
    """The number of the driver's fuel stops that are behind the truck, while it is watched."""


class DroppedFixes(SQLModel, table=True):
    """The number of fixes that were dropped, by day and reason: accepted by the feed, used for nothing."""

    __tablename__ = "dropped_fixes"

    company_id: UUID = Field(primary_key=True, foreign_key="companies.id")
    environment: str = Field(primary_key=True)
    day: date = Field(primary_key=True)
    reason: str = Field(primary_key=True)
    count: int = with_default("0")
