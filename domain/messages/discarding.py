"""Discards messages whose route has changed or ended."""

from collections.abc import Sequence
from uuid import UUID

from domain.database.connections import Connection
from domain.database.statements import Command

_DISCARD = Command(
    "UPDATE messages SET status = 'failed', error = %s, retry_at = NULL"
    " WHERE route_id = ANY(%s) AND status = 'pending' AND (claimed_until IS NULL OR claimed_until <= clock_timestamp())"
)


def discard_messages(connection: Connection, route_ids: Sequence[UUID], why: str) -> None:
    """Make undelivered messages fail. A message that a worker is handing over now cannot be stopped: the worker stores
    its outcome, and the driver's next message says that it is a correction."""
    _DISCARD.execute(connection, (why, list(route_ids)))
