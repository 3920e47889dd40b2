"""Queues a failed message again when a dispatcher asks for it, after the driver's contact was corrected.

It stays one message with its row and the id in its text. The driver can get it twice only if an earlier attempt may
have arrived, and then the dispatcher must have asked the driver first."""

from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from domain.database.connections import Connection, Tenant
from domain.database.statements import Command, Statement
from domain.errors import FuelrouteError
from domain.messages.message_life import WANTED, MessageStatus
from domain.messages.new_messages import MAY_HAVE_ARRIVED


class CannotResend(FuelrouteError):
    """A message cannot be sent again; the text says why."""


class _Ended(NamedTuple):
    status: str
    is_withheld: bool
    has_text: bool
    in_doubt: bool
    """True if an attempt may have reached the driver."""
    wanted: bool | None


_LOCK = Statement(
    _Ended,
    f"""
    SELECT m.status, m.withheld_since IS NOT NULL AS is_withheld, m.text IS NOT NULL AS has_text,
           {MAY_HAVE_ARRIVED} AS in_doubt, {WANTED}
    FROM messages m JOIN routes r ON r.id = m.route_id
    WHERE m.company_id = %s AND m.environment = %s AND m.route_id = %s AND m.id = %s FOR UPDATE OF m
    """,
)
_REQUEUE = Command(
    "UPDATE messages SET status = 'pending', attempts = 0, error = NULL, withheld_since = NULL, queued_at = %s,"
    " retry_at = %s WHERE id = %s"
)


def requeue(
    connection: Connection,
    tenant: Tenant,
    route_id: UUID,
    message_id: UUID,
    *,
    even_if_in_doubt: bool,
    now: datetime,
) -> None:
    """Give a failed message a fresh set of attempts. The caller has locked the route. Raises CannotResend, with the
    reason for the dispatcher, if it has not failed, or may have arrived."""
    message = _LOCK.first(connection, (*tenant, route_id, message_id))
    if message is None:
        raise CannotResend("the route has no such message")
    if message.status == MessageStatus.PENDING and message.is_withheld:
        raise CannotResend(
            "the message is withheld after a restore: an operator releases it, `fuelroute messages release`"
        )
    if message.status == MessageStatus.PENDING:
        raise CannotResend("the message is on its way already, and goes out once")
    if message.status != MessageStatus.FAILED:
        raise CannotResend("the message was sent: copy its text if the driver needs it once more")
    if not message.wanted:
        raise CannotResend("its plan is not the one that the driver should get now; have the plan made again instead")
    if not message.has_text:
        raise CannotResend("its text is no longer kept")
    if message.in_doubt and not even_if_in_doubt:
        raise CannotResend(
            "one of its attempts may have reached the driver: ask the driver first, and say that you did"
        )
    _REQUEUE.execute(connection, (now, now, message_id))
