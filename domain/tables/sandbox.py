"""Drives of simulated trucks in the sandbox, and the living fleet of the demo."""

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Index, text
from sqlmodel import Field, SQLModel

from domain.tables.columns import json_column, time_column


class SandboxDrives(SQLModel, table=True):
    """A route of the sandbox that a simulated truck drives by itself, and how far it is."""

    __tablename__ = "sandbox_drives"
    __table_args__ = (
        Index("sandbox_drives_under_way", "vehicle_id", unique=True, postgresql_where=text("ended_at IS NULL")),
    )

    route_id: UUID = Field(primary_key=True, foreign_key="routes.id")
    company_id: UUID
    environment: str
    vehicle_id: UUID
    """The truck, which drives one route at a time."""
    revision: int
    """The revision of the route when the drive began. A drive that has ended begins again only with another one."""
    own_speedup: int | None = None
    """Simulated seconds in one second, where the route itself asks for a speed; NULL if the company's setting
    counts."""
    plan_id: UUID | None = None
    """The plan whose road the truck drives; NULL while it stands at the first stop."""
    simulated_at: datetime = time_column()
    """The simulated time of the truck's next fix."""
    moves_at: datetime = time_column()
    """When that fix is due by our clock."""
    truck: dict[str, Any] = json_column()
    """The truck's place and fuel; see `StoredTruck` in `sandbox/turns.py`."""
    began_at: datetime = time_column()
    ended_at: datetime | None = time_column(null=True)


class DemoFleets(SQLModel, table=True):
    """The company of the demo, whose trucks `fuelroute up --demo` drives; see `sandbox/demo_fleet.py`."""

    __tablename__ = "demo_fleets"

    company_id: UUID = Field(primary_key=True)
    speed: int
    """The trucks are so many times as fast as real ones; 0 while they stand."""
    slows_at: datetime | None = time_column(null=True)
    """When a fast fleet drives at the usual speed again; NULL for one that is not fast."""
