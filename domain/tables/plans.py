"""Fuel plans, and their messages to drivers with their links."""

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import BigInteger, CheckConstraint, Column, Index, LargeBinary, Text, text
from sqlalchemy.dialects.postgresql import ARRAY
from sqlmodel import Field, SQLModel

from domain.lifecycle import ChoiceStatus
from domain.tables.columns import is_one_of, json_column, time_column, with_default


class Plans(SQLModel, table=True):
    """A computed fuel plan, with everything that explains it. A route's current one is `routes.plan_id`."""

    __tablename__ = "plans"
    __table_args__ = (
        Index("plans_explained", "route_id", postgresql_where=text("explanation IS NOT NULL")),
        Index("plans_menu_due", "menu_due_at", postgresql_where=text("menu_due_at IS NOT NULL")),
    )

    id: UUID = Field(primary_key=True)
    company_id: UUID
    environment: str
    route_id: UUID = Field(foreign_key="routes.id", index=True)
    revision: int
    generated_at: datetime = time_column()
    document: dict[str, Any] | None = json_column(null=True)
    """The contract's FuelPlan without its status; NULL where no plan is feasible."""
    explanation: bytes | None = Field(default=None, sa_column=Column(LargeBinary))
    """Inputs, candidates, objective and line, packed by `planning/explanation.py`, from which `fuelroute explain`
    answers. NULL once deleted by retention."""
    fuel_percent: float
    """The level by which it was made, or at which a review found nothing better."""
    fuel_at: datetime | None = time_column(null=True)
    """When the truck measured the level by which it was made; NULL if no level was known."""
    price_set: int | None = Field(default=None, sa_column=Column(BigInteger))
    """The newest of `price_sets` by which it was made or reviewed."""
    timeline: list[dict[str, Any]] = json_column()
    """Planned arrival and mile of each stop that was left: stop, mile, plannedArrival."""
    as_of: datetime | None = time_column(null=True)
    """The moment for which it was made: now, or in the sandbox the time of a fix."""
    coarse_way: bytes | None = Field(default=None, sa_column=Column(LargeBinary))
    """A point of the plan's road every few miles, and the burn that it was made with, by which the fuel of the truck is
    looked at; see `planning/coarse_ways.py`. NULL where no road is known."""
    cause: dict[str, Any] | None = json_column(null=True)
    """Why it was made for a route that had a plan already; see `domain/documents.py`."""
    driver_facts: dict[str, Any] | None = json_column(null=True)
    """Facts for the driver's page beside the plan; see `domain/documents.py`. NULL where no plan is feasible, and for
    a plan that an older release stored."""
    station_ids: list[str] | None = Field(default=None, sa_column=Column(ARRAY(Text)))
    """The stations of its fuel stops, in driving order. NULL for a plan that an older release stored."""
    menu_due_at: datetime | None = time_column(null=True)
    """From then on the sweep asks again for the job that makes its menu; NULL once there is one, or none is wanted."""
    menu_attempts: int = with_default("0")
    """Attempts at the menu that were begun."""


class PlanChoices(SQLModel, table=True):
    """A choice: another plan that the driver may take in place of his; see `routes/plans/made_choices.py`."""

    __tablename__ = "plan_choices"
    __table_args__ = (
        Index("plan_choices_by_plan", "plan_id"),
        Index("plan_choices_by_route", "route_id"),
        Index("plan_choices_asked", "company_id", "environment", postgresql_where=text("status = 'asked'")),
        CheckConstraint(is_one_of("status", ChoiceStatus), name="status"),
    )

    id: UUID = Field(primary_key=True)
    company_id: UUID
    environment: str
    route_id: UUID
    plan_id: UUID
    """The plan with whose menu it came."""
    kind: str
    place: int
    """Its place in the menu, from 0."""
    document: dict[str, Any] = json_column()
    """The contract's FuelPlan as the plan would be, as of the plan with whose menu it came."""
    station_ids: list[str] = Field(sa_column=Column(ARRAY(Text), nullable=False))
    extra_cents: int = Field(sa_column=Column(BigInteger, nullable=False))
    """Its cost beyond the cheapest plan: as of the menu, and once its plan is made, as of then."""
    pump_cents: int = Field(sa_column=Column(BigInteger, nullable=False))
    """The part of it that is paid at the pumps."""
    status: str = with_default("'open'")
    asked_at: datetime | None = time_column(null=True)
    """When the driver asked for it, or a dispatcher chose it."""
    asked_by: str | None = None
    """The e-mail address of the dispatcher who chose it; NULL for the driver."""
    decided_at: datetime | None = time_column(null=True)
    decided_by: str | None = None
    """The e-mail address of the dispatcher who decided; NULL where the allowance did."""
    reason: str | None = None
    """Why it was refused."""
    made_plan_id: UUID | None = None
    """The plan that was made for it."""


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
        # Only a gateway needs a claim.
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
    begins_low: bool = with_default("false")
    """True if the truck has to use some of its reserve by this plan."""
    text: str | None = None
    """The text; NULL once deleted by retention."""
    attempts: int = with_default("0")
    error: str | None = None
    created_at: datetime = time_column(now=True)
    queued_at: datetime = time_column(now=True)
    """When its attempts began: when it was created, or sent again by hand."""
    retry_at: datetime | None = time_column(now=True, null=True)
    claimed_until: datetime | None = time_column(null=True)
    """A worker may be handing it over until then. After that time the result of the attempt is unknown."""
    sent_at: datetime | None = time_column(null=True)
    withheld_since: datetime | None = time_column(null=True)
    """When it was withheld, while it is pending and a person decides whether it goes out; see
    `messages/withholding.py`."""
    read_at: datetime | None = time_column(null=True)
    """When the vendor of the app in the cab first reported that the driver had read it."""
    read_asked_at: datetime | None = time_column(null=True)
    """When the vendor was last asked whether it was read."""
    taken_by: list[str] | None = Field(default=None, sa_column=Column(ARRAY(Text), nullable=True))
    """Fingerprints of the recipients that took it in an attempt that others refused, as `messages/recipients.py` makes
    them."""


class DriverLinks(SQLModel, table=True):
    """A link to the page of a driver's trip; see `messages/driver_links.py`."""

    __tablename__ = "driver_links"
    __table_args__ = (
        Index("driver_links_by_token", "token_hash", unique=True),
        Index("driver_links_by_route", "route_id"),
        Index("driver_links_by_driver", "driver_id"),
        Index("driver_links_by_expiry", "expires_at"),
    )

    id: UUID = Field(primary_key=True)
    company_id: UUID
    environment: str
    route_id: UUID
    driver_id: UUID
    token_hash: bytes
    created_at: datetime = time_column()
    expires_at: datetime = time_column()
    """When it has expired, whatever its trip does; it expires earlier when the trip has ended."""
