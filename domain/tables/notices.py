"""Notices: the subscriptions of people to needs, and each text that was sent to one."""

from datetime import date, datetime
from uuid import UUID

from sqlalchemy import CheckConstraint, Column, ForeignKey, Index, Text, text
from sqlalchemy.dialects.postgresql import ARRAY, JSONB
from sqlmodel import Field, SQLModel

from domain.tables.columns import time_column, with_default


class NoticeSubscriptions(SQLModel, table=True):
    """A wish to be told about some kinds of needs, by one channel. Needs of the sandbox are never told."""

    __tablename__ = "notice_subscriptions"

    id: UUID = Field(primary_key=True)
    company_id: UUID = Field(index=True)
    """The company; subscriptions of the operators belong to none, see `OPERATORS`. There is no foreign key: a migration
    that locks both companies and users would stand in the way of requests. Subscriptions are added under the lock of
    their company."""
    user_id: UUID | None = Field(
        default=None, sa_column=Column(ForeignKey("users.id", ondelete="CASCADE"), index=True, nullable=True)
    )
    """The person who subscribed, with whom the subscription is removed; NULL for the company's own."""
    name: str
    kinds: list[str] = Field(sa_column=Column(ARRAY(Text), nullable=False))
    url: str
    """An Apprise URL, sealed like contacts; see `accounts/contacts.py`."""
    channel: str
    """The kind of gateway in the URL, such as `slack`: the only part of it that is shown."""
    after_minutes: int
    """Minutes that a need must last before it is told."""
    minutes_by_kind: dict[str, int] = Field(sa_column=Column(JSONB, nullable=False, server_default=text("'{}'")))
    """Kinds of needs that are told after another number of minutes."""
    quiet_from: int | None = None
    """The minute of the day at which quiet hours begin, in `time_zone`; NULL if there are none."""
    quiet_until: int | None = None
    time_zone: str
    created_at: datetime = time_column(now=True)
    disabled_at: datetime | None = time_column(null=True)


class Notices(SQLModel, table=True):
    """One text to a subscription: that a need began, that it ended, or a test."""

    __tablename__ = "notices"
    __table_args__ = (
        CheckConstraint("status IN ('waiting', 'pending', 'sent', 'failed', 'doubtful', 'dropped')", name="status"),
        Index(
            "notices_open",
            "subscription_id",
            "kind",
            unique=True,
            postgresql_where=text("ended_at IS NULL"),
        ),
        Index("notices_by_company", "company_id", "id"),
        Index("notices_under_way", "company_id", postgresql_where=text("ended_at IS NULL OR settled_at IS NULL")),
    )

    id: UUID = Field(primary_key=True)
    company_id: UUID
    subscription_id: UUID
    """The subscription, which may have been removed since."""
    kind: str
    """The kind of the need, `savings_statement`, `driver_answers`, or `test`."""
    part: str
    """`beginning`, `end`, `statement`, `answers` or `test`."""
    opened_at: datetime = time_column()
    """When the need was first seen, when somebody asked for the test, or the time of the first of the answers."""
    ended_at: datetime | None = time_column(null=True)
    """When the need was last seen, for a test `opened_at`, or the time of the last of the answers; NULL while the need
    lasts."""
    gone_at: datetime | None = time_column(null=True)
    """First time the need was missing; NULL while it is present."""
    routes: int | None = None
    """The number of routes in the text."""
    text: str | None = None
    """The text; NULL before it is due."""
    statement_month: date | None = None
    """The month whose statement of savings goes out with the text; NULL for any other text."""
    status: str = with_default("'waiting'")
    attempts: int = with_default("0")
    due_at: datetime | None = time_column(null=True)
    """When it became due; NULL before."""
    retry_at: datetime | None = time_column(null=True)
    """When its next attempt is due; NULL if there is none."""
    claimed_until: datetime | None = time_column(null=True)
    """A worker may be sending it until then. The value also identifies the worker's claim."""
    settled_at: datetime | None = time_column(null=True)
    """When it became sent, failed, doubtful or dropped."""
    error: str | None = None
    """Why the last attempt failed, or why it was dropped."""
    taken_by: list[str] | None = Field(default=None, sa_column=Column(ARRAY(Text), nullable=True))
    """Fingerprints of the recipients that took the text in an attempt that others refused, as `messages/recipients.py`
    makes them."""
