"""Imports that fail unexpectedly: the route is tried again after growing pauses, then becomes `error`."""

from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from domain.backoff import RETRY_WAIT
from domain.database.connections import Connection
from domain.database.statements import Command, Scalar, Statement
from domain.lifecycle import PendingReason, RouteStatus
from domain.routes import events
from domain.routes.intake.imports import ImportOutcome
from domain.routes.transitions import end


class _Failed(NamedTuple):
    attempts: int
    revision: int
    request_id: str | None


_FAIL = Statement(
    _Failed,
    f"""
    UPDATE routes SET attempts = attempts + 1, status = 'pending', pending_reason = 'error', pending_detail = NULL,
        retry_at = %(now)s::timestamptz + {RETRY_WAIT},
        updated_at = clock_timestamp()
    WHERE id = %(id)s AND status IN ('pending', 'pending_mapping', 'pending_window')
    RETURNING attempts, revision, request_id
    """,
)
_RETRY = Command("UPDATE routes SET pending_detail = %s WHERE id = %s")
_GIVE_UP = Scalar(
    UUID,
    "UPDATE routes SET status = 'error', closed_reason = %s, pending_reason = NULL, pending_detail = NULL,"
    " retry_at = NULL, updated_at = clock_timestamp() WHERE id = %s RETURNING id",
)


MAGIC_ATTEMPTS = 2
"""Attempts at an import that fails by a magic value, few so that it soon ends."""

_LOGGED = "it failed on our side; see the log"


def record_failed_import(
    connection: Connection, route_id: UUID, *, max_attempts: int, now: datetime, detail: str = _LOGGED
) -> ImportOutcome | None:
    """An attempt failed unexpectedly: the route waits for the next one, or becomes `error` after the last. The route's
    timeline shows the `detail`.

    Returns the outcome; None: the route was not held any more.
    """
    row = _FAIL.first(connection, {"now": now, "id": route_id})
    if row is None:
        return None
    events.record_event(connection, route_id, "import_failed", detail, now=now)
    if row.attempts >= max_attempts:
        reason = f"The import failed {row.attempts} times; see the log. Push the route again to retry."
        end(connection, _GIVE_UP, (reason, route_id), "The route ended before delivery", now=now)
        return _failed(RouteStatus.ERROR, None, None, row)
    waiting = (
        f"Import attempt {row.attempts} of {max_attempts} failed on our side; it is retried by itself. Nothing needs to"
        " be resent."
    )
    _RETRY.execute(connection, (waiting, route_id))
    return _failed(RouteStatus.PENDING, PendingReason.ERROR, waiting, row)


def _failed(status: RouteStatus, reason: PendingReason | None, detail: str | None, row: _Failed) -> ImportOutcome:
    return ImportOutcome(status, reason, detail, None, None, None, None, row.revision, row.request_id)
