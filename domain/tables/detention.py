"""Stops at which trucks were kept beyond the free time."""

from datetime import datetime
from uuid import UUID

from sqlalchemy import CheckConstraint
from sqlmodel import Field, SQLModel

from domain.lifecycle import Environment
from domain.tables.columns import is_one_of, time_column


class Dwells(SQLModel, table=True):
    """A stop whose free time has ended, and whether the truck was still there then; see `detention/detained.py`."""

    __tablename__ = "dwells"
    __table_args__ = (CheckConstraint(is_one_of("environment", Environment), name="environment"),)

    company_id: UUID
    environment: str
    route_id: UUID = Field(foreign_key="routes.id", primary_key=True)
    stop: int = Field(primary_key=True)
    """Position in `routes.stops`, from 0."""
    arrived_at: datetime = time_column()
    """The arrival that was judged."""
    free_minutes: float
    """The free time by the company's policy when the stop was judged, or when its statement was signed."""
    free_until: datetime = time_column()
    is_detained: bool
    judged_at: datetime = time_column()
    told_at: datetime | None = time_column(null=True)
    """When the truck was first found detained here, which is told once; NULL if it never was, and where an earlier
    release found it: then `is_detained` tells."""
    signed_at: datetime | None = time_column(null=True)
    """When a statement of the stop was first signed: its free time stays. NULL where none was."""
