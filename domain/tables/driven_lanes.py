"""The roads that trucks took on completed routes, and what they teach for routes of the same stops."""

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Column, Float, Index, LargeBinary, text
from sqlalchemy.dialects.postgresql import ARRAY
from sqlmodel import Field, SQLModel

from domain.tables.columns import json_column, time_column


class DrivenLanes(SQLModel, table=True):
    """The stops of some routes in order, and the road that trucks of the company take between them; see
    `driven_lanes`."""

    __tablename__ = "driven_lanes"
    __table_args__ = (Index("driven_lanes_by_start", "company_id", "environment", "start_latitude"),)

    id: UUID = Field(primary_key=True)
    company_id: UUID
    environment: str
    start_latitude: float
    """The first stop's latitude, by which lanes are found."""
    places: list[float] = Field(sa_column=Column(ARRAY(Float), nullable=False))
    """Latitude and longitude of each stop, in order."""
    names: list[str] = json_column()
    """The names of the first and the last stop, as the lane's first route had them."""
    road: bytes | None = Field(default=None, sa_column=Column(LargeBinary))
    """The agreed road, packed; NULL while too few trips agree."""
    agreeing: list[dict[str, Any]] = json_column()
    """The trips that agree on the road, the newest first: routeId, vehicleId, endedAt."""
    newest_at: datetime = time_column()
    """The end of the newest trip. The lanes with the oldest trips are deleted first."""


class DrivenRoads(SQLModel, table=True):
    """The road of one completed route. While `road` is empty it waits to be read from the positions."""

    __tablename__ = "driven_roads"
    __table_args__ = (
        Index("driven_roads_waiting", "completed_at", postgresql_where=text("road IS NULL")),
        Index("driven_roads_by_lane", "lane_id"),
        Index("driven_roads_by_company", "company_id", "environment"),
    )

    route_id: UUID = Field(primary_key=True, foreign_key="routes.id")
    company_id: UUID
    environment: str
    vehicle_id: UUID
    completed_at: datetime = time_column(now=True)
    """When the service completed the route, by its own clock."""
    ended_at: datetime = time_column()
    """When the truck reached the last stop, by the time of its fixes."""
    lane_id: UUID | None = Field(default=None, foreign_key="driven_lanes.id")
    road: bytes | None = Field(default=None, sa_column=Column(LargeBinary))
