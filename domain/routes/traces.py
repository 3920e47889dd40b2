"""The traces of routes, for jobs: the request of the push that brought a route's input, and its trace context."""

from collections.abc import Iterable
from typing import NamedTuple
from uuid import UUID

from domain.database.connections import Connection, as_array
from domain.database.statements import Statement
from domain.telemetry.tracing import Trace


class _RouteTrace(NamedTuple):
    id: UUID
    request_id: str | None
    traceparent: str | None


_OF_ROUTES = Statement(_RouteTrace, "SELECT id, request_id, traceparent FROM routes WHERE id = ANY(%s::uuid[])")
_OF_MESSAGE = Statement(
    _RouteTrace,
    "SELECT r.id, r.request_id, r.traceparent FROM messages m JOIN routes r ON r.id = m.route_id WHERE m.id = %s",
)


def traces_of(connection: Connection, route_ids: Iterable[UUID]) -> dict[UUID, Trace]:
    """The trace of each of the routes that exist."""
    rows = _OF_ROUTES.all(connection, (as_array(route_ids),))
    return {row.id: Trace(row.request_id, row.traceparent) for row in rows}


def trace_of_message(connection: Connection, message_id: UUID) -> tuple[UUID, Trace] | None:
    """The route of a message, and its trace."""
    row = _OF_MESSAGE.first(connection, (message_id,))
    return (row.id, Trace(row.request_id, row.traceparent)) if row is not None else None
