"""Drives of simulated trucks in the sandbox."""

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Index, text
from sqlmodel import Field, SQLModel

from domain.tables.columns import json_column, time_column


class SandboxDrives(SQLModel, table=True):
    """A route of the sandbox that a simulated truck drives by itself: how far it is."""

    __tablename__ = "sandbox_drives"
    __table_args__ = (
        Index("sandbox_drives_under_way", "vehicle_id", unique=True, postgresql_where=text("ended_at IS NULL")),
    )

    route_id: UUID = Field(primary_key=True, foreign_key="routes.id")
    company_id: UUID
    environment: str
    vehicle_id: UUID
    """A truck drives one route at a time."""
    revision: int
    """The revision of the route as the drive began. A drive that has ended begins again with another one only."""
    own_speedup: int | None = None
    """Seconds of simulated time in a second, where the route itself asks for it. NULL: the company's setting counts."""
    plan_id: UUID | None = None
    """The plan whose road it drives. NULL: it stands at the first stop."""
    simulated_at: datetime = time_column()
    """The truck's own time, that of its next fix."""
    moves_at: datetime = time_column()
    """The time by our clock at which that fix is due."""
    truck: dict[str, Any] = json_column()
    """Its place and its fuel; see `StoredTruck` in `sandbox/turns.py`."""
    began_at: datetime = time_column()
    ended_at: datetime | None = time_column(null=True)
