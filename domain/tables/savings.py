"""Savings: what plans saved, and what habits of fueling would have paid for the same trips."""

from datetime import date, datetime
from typing import Any
from uuid import UUID

from sqlalchemy import BigInteger, CheckConstraint, Column, Index, LargeBinary, text
from sqlmodel import Field, SQLModel

from domain.lifecycle import Environment
from domain.tables.columns import is_one_of, json_column, time_column


class Savings(SQLModel, table=True):
    """The savings of the plan that a driver has, one row for each route that is `active` or `completed`; see
    `savings`."""

    __tablename__ = "savings"
    __table_args__ = (Index("savings_by_time", "company_id", "environment", "planned_at"),)

    route_id: UUID = Field(foreign_key="routes.id", primary_key=True)
    company_id: UUID
    environment: str
    plan_id: UUID
    planned_at: datetime = time_column()
    """`generated_at` of the plan, by which reports place it in a span."""
    vehicle_id: UUID
    driver_id: UUID
    origin: str
    destination: str
    """The far end of its lane."""
    gallons: float
    cost_cents: int = Field(sa_column=Column(BigInteger, nullable=False))
    saved_cents: int | None = Field(default=None, sa_column=Column(BigInteger))
    """Cents saved; NULL for a plan without a purchase."""
    bought_gallons: float | None = None
    """Tractor diesel on the fuel cards' files; NULL if the route has no fills, or some wait for a person."""
    paid_cents: int | None = Field(default=None, sa_column=Column(BigInteger))
    at_average_cents: int | None = Field(default=None, sa_column=Column(BigInteger))
    """The cost of these gallons at the average price of the plan's corridor. NULL without gallons, and where the plan
    has no average."""
    chosen_cents: int | None = Field(default=None, sa_column=Column(BigInteger))
    """The extra cost of the choices that were made on the route; NULL where there were none."""


class HabitCosts(SQLModel, table=True):
    """The cost of habits of fueling for the trip of a plan in `savings`; see `savings/habit_costs.py`."""

    __tablename__ = "habit_costs"
    __table_args__ = (
        CheckConstraint(is_one_of("environment", Environment), name="environment"),
        Index("habit_costs_waiting", "planned_at", postgresql_where=text("driven_at IS NULL")),
    )

    route_id: UUID = Field(foreign_key="routes.id", primary_key=True)
    company_id: UUID
    environment: str
    plan_id: UUID
    """The plan over whose trip the habits are driven."""
    planned_at: datetime = time_column()
    driven_at: datetime | None = time_column(null=True)
    """When the habits were driven over the trip; NULL while it waits."""
    left_out: str | None = None
    """Why no habit was driven, as a `LeftOut`; NULL where they were."""
    below_30_cents: int | None = Field(default=None, sa_column=Column(BigInteger))
    """Cents paid at the pumps by a driver who fills up below 30 % of the tank; NULL where that is no way."""
    cheapest_cents: int | None = Field(default=None, sa_column=Column(BigInteger))
    """Cents paid by one who fills up at the cheapest pump in reach."""
    usual_cents: int | None = Field(default=None, sa_column=Column(BigInteger))
    """Cents paid by one who fuels as in the quarter before."""
    usual_of: str | None = None
    """The owner of the fills that told how: `truck` or `company`; NULL where there were too few."""


class SavingsStatements(SQLModel, table=True):
    """The statement of a month's savings, as it was sent; see `savings/statements.py`. Nothing changes it any more. It
    names no person, so no erasure of a driver concerns it."""

    __tablename__ = "savings_statements"

    company_id: UUID = Field(primary_key=True)
    month: date = Field(primary_key=True)
    """The first day of the month."""
    time_zone: str
    """The company's time zone when it was made, by which the month began and ended."""
    made_at: datetime = time_column()
    figures: dict[str, Any] = json_column()
    pdf: bytes = Field(sa_column=Column(LargeBinary, nullable=False))


class StatementTrips(SQLModel, table=True):
    """A trip in a statement of savings, with its figures as they were then; columns as in `savings` and
    `habit_costs`."""

    __tablename__ = "statement_trips"

    company_id: UUID = Field(primary_key=True)
    month: date = Field(primary_key=True)
    route_id: UUID = Field(primary_key=True)
    """The route, without a foreign key: the statement outlasts it."""
    planned_at: datetime = time_column()
    unit_number: str | None = None
    gallons: float
    cost_cents: int = Field(sa_column=Column(BigInteger, nullable=False))
    saved_cents: int | None = Field(default=None, sa_column=Column(BigInteger))
    bought_gallons: float | None = None
    paid_cents: int | None = Field(default=None, sa_column=Column(BigInteger))
    at_average_cents: int | None = Field(default=None, sa_column=Column(BigInteger))
    driven_at: datetime | None = time_column(null=True)
    left_out: str | None = None
    below_30_cents: int | None = Field(default=None, sa_column=Column(BigInteger))
    cheapest_cents: int | None = Field(default=None, sa_column=Column(BigInteger))
    usual_cents: int | None = Field(default=None, sa_column=Column(BigInteger))
    usual_of: str | None = None
