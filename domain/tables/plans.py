"""Fuel plans, their messages to drivers, and their savings."""

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import BigInteger, CheckConstraint, Column, Index, LargeBinary, text
from sqlmodel import Field, SQLModel

from domain.tables.columns import json_column, time_column, with_default


class Plans(SQLModel, table=True):
    """A computed fuel plan, with everything that explains it. A route's current one is `routes.plan_id`."""

    __tablename__ = "plans"
    __table_args__ = (Index("plans_explained", "route_id", postgresql_where=text("explanation IS NOT NULL")),)

    id: UUID = Field(primary_key=True)
    company_id: UUID
    environment: str
    route_id: UUID = Field(foreign_key="routes.id", index=True)
    revision: int
    generated_at: datetime = time_column()
    document: dict[str, Any] | None = json_column(null=True)
    """The contract's FuelPlan without its status; NULL where no plan is feasible."""
    explanation: bytes | None = Field(default=None, sa_column=Column(LargeBinary))
    """Inputs, candidates, objective and line, from which `fuelroute explain` tells why: `planning/explanation.py` packs
    them. NULL once it was forgotten."""
    fuel_percent: float
    """The level that it was made with, or for which a review found nothing better."""
    fuel_at: datetime | None = time_column(null=True)
    """When the truck read the level that it was made with; NULL: none was known."""
    price_set: int | None = Field(default=None, sa_column=Column(BigInteger))
    """The newest of `price_sets` that it was made or reviewed with."""
    timeline: list[dict[str, Any]] = json_column()
    """Planned arrival and mile of each stop that was left: stop, mile, plannedArrival."""
    as_of: datetime | None = time_column(null=True)
    """The moment of which it was made: now, or in the sandbox the time of a fix."""
    cause: dict[str, Any] | None = json_column(null=True)
    """Why it was made where the route had a plan already; see `domain/documents.py`."""


class Messages(SQLModel, table=True):
    """A plan's message to the driver."""

    __tablename__ = "messages"
    __table_args__ = (
        Index("messages_due", "retry_at", postgresql_where=text("status = 'pending'")),
        Index("messages_by_company", "company_id", "created_at"),
        Index("messages_by_driver", "driver_id"),
        Index(
            "messages_withheld",
            "created_at",
            postgresql_where=text("status = 'pending' AND withheld_since IS NOT NULL"),
        ),
        Index("messages_with_text", "route_id", postgresql_where=text("text IS NOT NULL")),
        CheckConstraint("status IN ('pending', 'sent', 'suppressed', 'failed')", name="status"),
        # only a gateway needs a claim
        CheckConstraint("environment = 'live' OR claimed_until IS NULL", name="no_gateway_for_sandbox"),
    )

    id: UUID = Field(primary_key=True)
    company_id: UUID = Field(foreign_key="companies.id")
    environment: str
    route_id: UUID = Field(foreign_key="routes.id", index=True)
    plan_id: UUID = Field(foreign_key="plans.id", unique=True)
    driver_id: UUID = Field(foreign_key="drivers.id")
    status: str = with_default("'pending'")
    channel: str | None = None
    """The way it is sent: `outbox`, `sandbox`, or a gateway's schema such as `mailtos`. Never its secrets."""
    text: str | None = None
    """NULL once it was forgotten."""
    attempts: int = with_default("0")
    error: str | None = None
    created_at: datetime = time_column(now=True)
    queued_at: datetime = time_column(now=True)
    """Since when it is tried: since it was created, or sent again by hand."""
    retry_at: datetime | None = time_column(now=True, null=True)
    claimed_until: datetime | None = time_column(null=True)
    """Until then a worker may be handing it over. Once that time is past, the result of the attempt is not known."""
    sent_at: datetime | None = time_column(null=True)
    withheld_since: datetime | None = time_column(null=True)
    """Since when it is withheld, while it is pending: a person decides whether it goes out. See
    `messages/withholding.py`."""
    read_at: datetime | None = time_column(null=True)
    """When the vendor of the app in the cab was first seen to say that the driver had read it."""
    read_asked_at: datetime | None = time_column(null=True)
    """When that was last asked for."""


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
    """`generated_at` of the plan: the span that it counts in."""
    vehicle_id: UUID
    driver_id: UUID
    origin: str
    destination: str
    """The ends of its lane."""
    gallons: float
    cost_cents: int = Field(sa_column=Column(BigInteger, nullable=False))
    saved_cents: int | None = Field(default=None, sa_column=Column(BigInteger))
    """NULL for a plan without a purchase."""
    bought_gallons: float | None = None
    """Tractor diesel that fuel cards tell of. NULL: the route has no fills, or some wait for a person."""
    paid_cents: int | None = Field(default=None, sa_column=Column(BigInteger))
    at_average_cents: int | None = Field(default=None, sa_column=Column(BigInteger))
    """The cost of these gallons at the average price of the plan's corridor. NULL too where the plan knows none."""
