"""Lists messages: those being sent, those due, a driver's next ones, a company's."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from domain.database.connections import Connection
from domain.database.statements import Command, OwnedRow, Statement, in_turns
from domain.queue.jobs import after_commit, send_message_job

_BEING_SENT = Command("SELECT FROM messages WHERE plan_id = %s AND status = 'pending' AND claimed_until > %s")


def is_being_sent(connection: Connection, plan_id: UUID, *, now: datetime) -> bool:
    """Tell if a worker is handing over the message of this plan."""
    return _BEING_SENT.first(connection, (plan_id, now)) is not None


_NEXT = Statement(
    OwnedRow,
    "SELECT id, company_id FROM messages WHERE driver_id = %s AND environment = %s AND status = 'pending'"
    " AND attempts = 0 AND claimed_until IS NULL AND withheld_since IS NULL ORDER BY created_at, id",
)


def send_next_messages(connection: Connection, driver_id: UUID, environment: str) -> None:
    """Sends a driver's messages without an attempt so far: they may have waited for the message before them."""
    rows = _NEXT.all(connection, (driver_id, environment))
    after_commit(connection, *(send_message_job(row.id, row.company_id) for row in rows))


_OVERDUE = Statement(
    OwnedRow,
    in_turns(
        "id, company_id",
        "SELECT id, company_id, retry_at AS since FROM messages WHERE status = 'pending' AND retry_at <= %s",
    ),
)


def due_messages(connection: Connection, *, now: datetime, limit: int = 10_000) -> dict[UUID, UUID]:
    """Pending messages that are due, each with its company: the job of a first attempt was lost, or a next attempt is
    due."""
    return dict(_OVERDUE.all(connection, (now, limit)))


_WAIT_NO_LONGER = Statement(
    OwnedRow,
    """
    UPDATE messages SET retry_at = clock_timestamp() WHERE id = ANY(ARRAY(
        SELECT m.id FROM messages m JOIN drivers d ON d.id = m.driver_id
        WHERE m.company_id = %(company_id)s AND m.status = 'pending' AND m.attempts > 0
          AND m.claimed_until IS NULL AND m.withheld_since IS NULL
          AND (d.id = ANY(%(driver_ids)s::uuid[]) OR %(driver_ids)s::uuid[] IS NULL AND coalesce(d.contact, '') = '')
        FOR UPDATE OF m SKIP LOCKED))
    RETURNING id, company_id
    """,
)


def send_refused_messages(connection: Connection, company_id: UUID, driver_ids: Sequence[UUID] | None) -> None:
    """Sends messages at once that a gateway refused and that wait for their next attempt, because the contacts of these
    drivers were changed; None: because the message URL of drivers without a contact was. A message that may have
    arrived goes on waiting."""
    drivers = list(driver_ids) if driver_ids is not None else None
    waiting = _WAIT_NO_LONGER.all(connection, {"company_id": company_id, "driver_ids": drivers})
    after_commit(connection, *(send_message_job(row.id, row.company_id) for row in waiting))


class Message(NamedTuple):
    """A message as it is listed."""

    id: UUID
    environment: str
    route_id: UUID
    driver_id: UUID
    status: str
    channel: str | None
    text: str | None
    """The text; None after retention has deleted it."""
    attempts: int
    error: str | None
    created_at: datetime
    retry_at: datetime | None
    sent_at: datetime | None
    read_at: datetime | None
    """When the driver was known to have read it; None if not read, or the gateway does not tell."""
    request_id: str | None
    """The request that brought the present input of its route; None if it did not come by the API."""


_LIST = Statement(
    Message,
    "SELECT m.id, m.environment, m.route_id, m.driver_id, m.status, m.channel, m.text, m.attempts, m.error,"
    " m.created_at, m.retry_at, m.sent_at, m.read_at, r.request_id FROM messages m JOIN routes r ON r.id = m.route_id"
    " WHERE m.company_id = %s ORDER BY m.created_at, m.id",
)


def list_messages(connection: Connection, company_id: UUID) -> list[Message]:
    """A company's messages, oldest first."""
    return _LIST.all(connection, (company_id,))
