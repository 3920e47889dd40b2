"""The answers of drivers to the fuel stops of their plans, and what came of the stops."""

from datetime import datetime
from uuid import UUID

from sqlalchemy import BigInteger, CheckConstraint, Column, Index, text
from sqlmodel import Field, SQLModel

from domain.lifecycle import AnswerKind, Environment, RefusalReason, SeenStop
from domain.tables.columns import is_one_of, time_column


class DriverAnswers(SQLModel, table=True):
    """A driver's answer to one fuel stop of his plan; see `driver_page/answers.py`."""

    __tablename__ = "driver_answers"
    __table_args__ = (
        CheckConstraint(is_one_of("environment", Environment), name="environment"),
        CheckConstraint(is_one_of("kind", AnswerKind), name="kind"),
        CheckConstraint(is_one_of("reason", RefusalReason), name="reason"),
        Index("driver_answers_once", "route_id", "key", unique=True),
        Index("driver_answers_by_time", "company_id", "environment", "answered_at"),
        Index("driver_answers_by_driver", "driver_id"),
        Index("driver_answers_leaving_out", "left_out_until", postgresql_where=text("left_out_until IS NOT NULL")),
        Index("driver_answers_with_place", "route_id", postgresql_where=text("latitude IS NOT NULL")),
    )

    id: UUID = Field(primary_key=True)
    company_id: UUID
    environment: str
    route_id: UUID = Field(foreign_key="routes.id")
    driver_id: UUID
    plan_id: UUID
    """The plan that he answers. It may have been replaced by then."""
    sequence: int
    """The number of the fuel stop in that plan, from 0."""
    key: str
    """Made by the page for each answer: one that is sent twice is one answer."""
    kind: str
    reason: str | None = None
    """Why he cannot fuel there."""
    station_id: str | None = None
    """The station; NULL where a plan of an older release names none."""
    place: str
    """The station's name in the plan."""
    answered_at: datetime = time_column()
    """When it was stored, by our clock."""
    told_at: datetime | None = time_column(null=True)
    """When he answered by the clock of his phone; NULL where that cannot be."""
    is_late: bool
    """True for an answer after the trip, which changed nothing."""
    latitude: float | None = None
    """The place of his phone, or else of his truck; NULL where neither is known, and once deleted by retention."""
    longitude: float | None = None
    gallons: float | None = None
    fill_percent: float | None = None
    """The level that he says he filled to."""
    price_per_gallon: float | None = None
    """The price that he says he paid, in US dollars."""
    left_out_until: datetime | None = time_column(null=True)
    """Plans of this route leave the station out until then; NULL where they do not."""


class ToldStops(SQLModel, table=True):
    """A fuel stop that a driver was told on a completed route; see `compliance`."""

    __tablename__ = "told_stops"
    __table_args__ = (
        CheckConstraint(is_one_of("seen", SeenStop), name="seen"),
        Index("told_stops_by_time", "company_id", "environment", "planned_at"),
        Index("told_stops_by_driver", "driver_id"),
    )

    route_id: UUID = Field(foreign_key="routes.id", primary_key=True)
    number: int = Field(primary_key=True)
    """Counts from 1 in driving order, as `stop_verdicts` does."""
    company_id: UUID
    environment: str
    planned_at: datetime = time_column()
    """When the driver's plan was made: the time by which reports place it, as in `savings`."""
    driver_id: UUID
    plan_id: UUID
    station_id: str | None = None
    place: str
    planned_gallons: float
    planned_cents: int = Field(sa_column=Column(BigInteger, nullable=False))
    seen: str | None = None
    """Its outcome by the truck's fixes; NULL where it sent none."""
