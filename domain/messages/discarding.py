"""Messages that are not to go out any more, because their route has changed or ended."""

from collections.abc import Sequence
from uuid import UUID

from domain.database import Connection
from domain.statements import Command

_DISCARD = Command(
    "UPDATE messages SET status = 'failed', error = %s, retry_at = NULL"
    " WHERE route_id = ANY(%s) AND status = 'pending' AND (claimed_until IS NULL OR claimed_until < now())"
)


def discard_messages(connection: Connection, route_ids: Sequence[UUID], why: str) -> None:
    """Undelivered messages fail. One that a worker hands over at this moment is past recall: it stores what came of
    it, and the next message to the driver tells that it takes its place."""
    _DISCARD.execute(connection, (why, list(route_ids)))
