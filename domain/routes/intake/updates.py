"""A push of an `externalId` that names a route already: reads the route, and replaces its input."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

import msgspec

from domain.contract.shapes import RouteInput, RouteStopInput
from domain.database.connections import Connection, Tenant, as_json
from domain.database.statements import Command, Scalar, Statement
from domain.lifecycle import RouteStatus
from domain.messages.discarding import discard_messages
from domain.planning.stored_plans import move_stops
from domain.queue.jobs import SWEEP_GRACE
from domain.routes.intake.pushed_columns import (
    NAMED_ROUTE,
    PUSHED_COLUMNS,
    PUSHED_VALUES,
    SAME_INPUT,
    TRACE_COLUMNS,
    TRACE_VALUES,
)
from domain.routes.transitions import START_OVER
from domain.telemetry.tracing import NO_TRACE, Trace


class CurrentRoute(NamedTuple):
    """The route that an `externalId` names now, with the fields that a push needs."""

    id: UUID
    status: RouteStatus
    revision: int
    same_input: bool
    """True if the push brings the stored input again."""


class Update(NamedTuple):
    """A locked route and its new input."""

    route_id: UUID
    body: RouteInput
    trace: Trace = NO_TRACE


class _LockedRow(NamedTuple):
    position: int
    id: UUID
    status: str
    revision: int
    same_input: bool


_LOCK = Statement(
    _LockedRow,
    f"""
    SELECT pushed.position, r.id, r.status, r.revision, {SAME_INPUT} AS same_input
    FROM jsonb_to_recordset(%s)
         AS pushed (position int, company_id uuid, environment text, "externalId" text, body jsonb)
    JOIN {NAMED_ROUTE}
    ORDER BY r.id
    FOR UPDATE OF r
    """,
)


def lock_current(connection: Connection, pushed: Sequence[tuple[Tenant, RouteInput]]) -> list[CurrentRoute | None]:
    """The route that each push names, in order; None where there is none, or only canceled ones."""
    if not pushed:
        return []
    wanted = [
        {"position": position, **tenant._asdict(), "externalId": body.external_id, "body": body}
        for position, (tenant, body) in enumerate(pushed)
    ]
    found: list[CurrentRoute | None] = [None] * len(pushed)
    for row in _LOCK.all(connection, (as_json(wanted),)):
        found[row.position] = CurrentRoute(row.id, RouteStatus(row.status), row.revision, row.same_input)
    return found


_REPLACE = Command(
    f"""
    UPDATE routes r SET ({PUSHED_COLUMNS}, {TRACE_COLUMNS}) = ROW ({PUSHED_VALUES}, {TRACE_VALUES}),
                        {START_OVER}
    FROM jsonb_to_recordset(%s) AS pushed (id uuid, request_id text, traceparent text, body jsonb)
    WHERE r.id = pushed.id
    """
)


def store_updates(connection: Connection, updates: Sequence[Update], *, now: datetime) -> None:
    """Replaces the input of these routes: any plan is discarded, and the import starts again."""
    if not updates:
        return
    for update in updates:
        _keep_visits(connection, update)
    replaced = [{"id": one.route_id, **one.trace._asdict(), "body": one.body} for one in updates]
    _REPLACE.execute(connection, (now + SWEEP_GRACE, as_json(replaced)))
    discard_messages(connection, [update.route_id for update in updates], "The route was updated before delivery")


_VISITED = Scalar(
    list[dict[str, Any]],
    "SELECT stops FROM routes WHERE id = %s AND EXISTS (SELECT FROM visits WHERE route_id = routes.id)",
)
_FORGET_OTHERS = Command("DELETE FROM visits WHERE route_id = %s AND stop <> ALL(%s)")
# A visit moves by way of a negative number, so that no two rows collide on the way.
_MOVE_ASIDE = Command(
    "UPDATE visits SET stop = -1 - moved.target FROM unnest(%s::int[], %s::int[]) AS moved (source, target)"
    " WHERE route_id = %s AND stop = moved.source"
)
_JUDGE_AGAIN = Command("UPDATE visits SET is_to_judge = true WHERE route_id = %s AND NOT is_to_judge")
"""The push may bring another appointment, from which the free time counts."""
_MOVE_BACK = Command("UPDATE visits SET stop = -1 - stop WHERE route_id = %s AND stop < 0")


def _keep_visits(connection: Connection, update: Update) -> None:
    """Moves the visits of the stops that stay to the stops' new positions, and forgets the others. The import decides
    later which of the remaining visits could have begun the present route, because it knows the truck."""
    route_id, new = update.route_id, update.body
    old = _VISITED.first(connection, (route_id,))
    if old is None:
        return
    _JUDGE_AGAIN.execute(connection, (route_id,))
    stops = msgspec.convert(old, list[RouteStopInput])
    moves = stops_that_stay(stops, new.stops)
    if moves == {position: position for position in range(len(stops))}:
        return
    _FORGET_OTHERS.execute(connection, (route_id, list(moves)))
    _MOVE_ASIDE.execute(connection, (list(moves), list(moves.values()), route_id))
    _MOVE_BACK.execute(connection, (route_id,))
    move_stops(connection, route_id, moves)


def stops_that_stay(old: Sequence[RouteStopInput], new: Sequence[RouteStopInput]) -> dict[int, int]:
    """Position before -> position after, of the stops whose coordinates are still on the route, in the same order.

    When Joliet, Toledo, Newark becomes Joliet, Gary, Toledo, Newark, all three stay: {0: 0, 1: 2, 2: 3}. When it
    becomes Joliet, Toledo, only Joliet stays: {0: 0}. Toledo is the destination now, and a visit there from before does
    not complete the route.
    """
    moves: dict[int, int] = {}
    free = 0
    for source, stop in enumerate(old):
        for target in range(free, len(new)):
            becomes_destination = target == len(new) - 1 and source != len(old) - 1
            same_place = (new[target].latitude, new[target].longitude) == (stop.latitude, stop.longitude)
            if same_place and not becomes_destination:
                moves[source] = target
                free = target + 1
                break
    return moves
