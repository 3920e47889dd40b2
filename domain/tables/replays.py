"""Replays of a company's driven trips, and the packed inputs that they read once explanations are forgotten."""

from datetime import date, datetime
from typing import Any
from uuid import UUID

from sqlalchemy import CheckConstraint, Column, Index, LargeBinary, Uuid, text
from sqlalchemy.dialects.postgresql import ARRAY
from sqlmodel import Field, SQLModel

from domain.lifecycle import Environment
from domain.tables.columns import is_one_of, json_column, time_column


class TripInputs(SQLModel, table=True):
    """The inputs of a driven trip, written when its explanation is forgotten; see `replay/packed_inputs.py`."""

    __tablename__ = "trip_inputs"
    __table_args__ = (CheckConstraint(is_one_of("environment", Environment), name="environment"),)

    route_id: UUID = Field(foreign_key="routes.id", primary_key=True)
    company_id: UUID
    environment: str
    plan_id: UUID
    """The plan whose inputs they are."""
    packed: bytes = Field(sa_column=Column(LargeBinary, nullable=False))


class Replays(SQLModel, table=True):
    """A replay that a person has asked for; see `replay/replays.py`."""

    __tablename__ = "replays"
    __table_args__ = (
        Index("replays_by_company", "company_id", "environment", "created_at"),
        Index(
            "replays_due",
            "created_at",
            postgresql_where=text("by_workers AND finished_at IS NULL AND stopped_at IS NULL"),
        ),
        CheckConstraint(is_one_of("environment", Environment), name="environment"),
    )

    id: UUID = Field(primary_key=True)
    company_id: UUID = Field(foreign_key="companies.id")
    environment: str
    first_day: date
    last_day: date
    time_zone: str
    terms: dict[str, Any] = json_column()
    """Both sides; see `replay/terms.py`."""
    trips: int
    """The trips found when it was asked for."""
    by_workers: bool
    """False while a command works on it."""
    asked_by: str
    created_at: datetime = time_column()
    stopped_at: datetime | None = time_column(null=True)
    finished_at: datetime | None = time_column(null=True)
    summary: dict[str, Any] | None = json_column(null=True)
    """The totals and lines, once it is finished."""


class ReplayPortions(SQLModel, table=True):
    """Some trips of a replay, solved together. They are a stretch of the order by the plans' time and the route."""

    __tablename__ = "replay_portions"
    __table_args__ = (
        Index("replay_portions_by_company", "company_id"),
        CheckConstraint(is_one_of("environment", Environment), name="environment"),
    )

    replay_id: UUID = Field(foreign_key="replays.id", primary_key=True)
    number: int = Field(primary_key=True)
    company_id: UUID
    environment: str
    first_at: datetime = time_column()
    first_id: UUID
    last_at: datetime = time_column()
    last_id: UUID
    trips: int
    route_ids: list[UUID] | None = Field(default=None, sa_column=Column(ARRAY(Uuid), nullable=True))
    """Its trips: a correction that moves the time of a plan meanwhile moves no trip to another portion. NULL for
    portions of the release before, which are found by their first and last trip."""
    taken_until: datetime | None = time_column(null=True)
    """Somebody may be solving it until then."""
    results: bytes | None = Field(default=None, sa_column=Column(LargeBinary))
    """The outcome of each trip, packed by `replay/results.py`."""
