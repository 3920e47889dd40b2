"""Webhooks: the endpoints of companies, the events that were captured for them, their deliveries, each attempt."""

from datetime import datetime
from uuid import UUID

from sqlalchemy import BigInteger, CheckConstraint, Column, ForeignKey, Identity, Index, Text, text
from sqlalchemy.dialects.postgresql import ARRAY
from sqlmodel import Field, SQLModel

from domain.lifecycle import Environment
from domain.tables.columns import is_one_of, time_column, with_default


class WebhookEndpoints(SQLModel, table=True):
    """A URL of a company that receives events of one environment."""

    __tablename__ = "webhook_endpoints"
    __table_args__ = (
        CheckConstraint(is_one_of("environment", Environment), name="environment"),
        Index("webhook_endpoints_by_company", "company_id", "environment"),
    )

    id: UUID = Field(primary_key=True)
    company_id: UUID = Field(foreign_key="companies.id")
    environment: str
    url: str
    description: str = with_default("''")
    event_types: list[str] | None = Field(default=None, sa_column=Column(ARRAY(Text)))
    """The types that it wants; NULL for all."""
    secret: str
    """Sealed like contacts; see `accounts/contacts.py`."""
    former_secret: str | None = None
    """The secrets before the last rotations, divided by spaces, the latest first. They sign along with the new one
    until `former_secret_until`."""
    former_secret_until: datetime | None = time_column(null=True)
    created_at: datetime = time_column(now=True)
    disabled_at: datetime | None = time_column(null=True)
    """When it was disabled: no event is captured for it any more."""
    disabled_reason: str | None = None
    failing_since: datetime | None = time_column(null=True)
    """The first failed attempt since the last delivery. It stays when the endpoint is disabled because of the
    failures."""


class WebhookEvents(SQLModel, table=True):
    """A change of a route, captured because an enabled endpoint wants to know of it. A trigger on `routes` writes it in
    the transaction that changes the route."""

    __tablename__ = "webhook_events"

    id: UUID = Field(primary_key=True)
    """A UUIDv7, which holds the event's time."""
    company_id: UUID = Field(index=True)
    environment: str
    route_id: UUID | None = Field(default=None, index=True)
    """The route; NULL for an event that a person sent as a test."""
    type: str
    at: datetime = time_column()
    payload: str | None = None
    """The body as it is sent; NULL if it is not prepared yet, or erased. The next attempt then prepares it."""
    answer_id: UUID | None = None
    """The driver's answer that it tells of; NULL for a change of the route."""
    stop: int | None = None
    """The stop of the route that it tells of, from 0; see `dwells`."""


class WebhookDeliveries(SQLModel, table=True):
    """An event for one endpoint, on its way or delivered."""

    __tablename__ = "webhook_deliveries"
    __table_args__ = (
        CheckConstraint("status IN ('pending', 'delivered', 'failed')", name="status"),
        Index("webhook_deliveries_by_endpoint", "endpoint_id", "number"),
        Index(
            "webhook_deliveries_due",
            "endpoint_id",
            "retry_at",
            "number",
            postgresql_where=text("status = 'pending'"),
        ),
        Index(
            "webhook_deliveries_in_order",
            "endpoint_id",
            "route_id",
            "number",
            postgresql_where=text("status = 'pending'"),
        ),
    )

    event_id: UUID = Field(
        sa_column=Column(ForeignKey("webhook_events.id", ondelete="CASCADE"), primary_key=True, nullable=False)
    )
    endpoint_id: UUID = Field(primary_key=True)
    number: int | None = Field(default=None, sa_column=Column(BigInteger, Identity(always=True), nullable=False))
    """Ascends with the changes of a route: the order in which an endpoint receives them."""
    company_id: UUID
    environment: str
    route_id: UUID | None = None
    status: str = with_default("'pending'")
    attempts: int = with_default("0")
    failures: int = with_default("0")
    """Failed attempts since `queued_at`: they decide the wait before the next one."""
    queued_at: datetime = time_column()
    """When its attempts began: when the event happened, or was replayed."""
    retry_at: datetime = time_column()
    """When its next attempt is due; for an attempt under way, when it counts as lost."""
    claimed_until: datetime | None = time_column(null=True)
    """A worker may be sending it until then. The value also identifies the worker's claim."""
    ended_at: datetime | None = time_column(null=True)
    error: str | None = None
    """Why the last attempt failed, or why it was given up."""


class WebhookAttempts(SQLModel, table=True):
    """One attempt to deliver, and the endpoint's answer."""

    __tablename__ = "webhook_attempts"

    event_id: UUID = Field(
        sa_column=Column(ForeignKey("webhook_events.id", ondelete="CASCADE"), primary_key=True, nullable=False)
    )
    endpoint_id: UUID = Field(primary_key=True)
    attempt: int = Field(primary_key=True)
    company_id: UUID
    environment: str
    at: datetime = time_column()
    milliseconds: float
    status: int | None = None
    """The HTTP status; NULL without an answer."""
    error: str | None = None
    answer: str | None = None
    """The beginning of the answer's body; NULL if it was empty, or named an erased driver."""
