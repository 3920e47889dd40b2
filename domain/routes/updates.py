"""A push of an `externalId` that names a route already: the route as it is, and how new input replaces the old one."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from domain.database import Connection, Tenant, as_json
from domain.documents import StopDocument
from domain.jobs import SWEEP_GRACE
from domain.lifecycle import RouteStatus
from domain.messages.discarding import discard_messages
from domain.routes.content import COLUMNS, RouteContent
from domain.routes.progress import START_OVER
from domain.statements import Command, Statement


class CurrentRoute(NamedTuple):
    """The route that an `externalId` names now, as far as a push has to know it."""

    id: UUID
    status: RouteStatus
    revision: int
    content: RouteContent


class Update(NamedTuple):
    """A locked route and its new content."""

    route: CurrentRoute
    content: RouteContent


class _LockedRow(NamedTuple):
    position: int
    """Among the wanted ones, from 1."""
    id: UUID
    status: str
    revision: int
    external_id: str
    reference: str | None
    vehicle_unit_number: str | None
    vehicle_vin: str | None
    driver_name: str | None
    driver_external_id: str | None
    scheduled_start: datetime
    stops: list[StopDocument]


_LOCK = Statement(
    _LockedRow,
    """
    SELECT wanted.position, r.id, r.status, r.revision, r.external_id, r.reference, r.vehicle_unit_number,
           r.vehicle_vin, r.driver_name, r.driver_external_id, r.scheduled_start, r.stops
    FROM unnest(%s::uuid[], %s::text[], %s::text[])
         WITH ORDINALITY AS wanted (company_id, environment, external_id, position)
    JOIN routes r USING (company_id, environment, external_id)
    WHERE r.status <> 'canceled'
    ORDER BY r.id
    FOR UPDATE OF r
    """,
)


def lock_current(connection: Connection, wanted: Sequence[tuple[Tenant, str]]) -> list[CurrentRoute | None]:
    """The route that each tenant's `externalId` names, in order; None where there is none, or only canceled ones."""
    if not wanted:
        return []
    rows = _LOCK.all(
        connection,
        (
            [tenant.company_id for tenant, _ in wanted],
            [tenant.environment for tenant, _ in wanted],
            [external_id for _, external_id in wanted],
        ),
    )
    found: list[CurrentRoute | None] = [None] * len(wanted)
    for row in rows:
        content: RouteContent = {
            "external_id": row.external_id,
            "reference": row.reference,
            "vehicle_unit_number": row.vehicle_unit_number,
            "vehicle_vin": row.vehicle_vin,
            "driver_name": row.driver_name,
            "driver_external_id": row.driver_external_id,
            "scheduled_start": row.scheduled_start.isoformat(),
            "stops": row.stops,
        }
        found[row.position - 1] = CurrentRoute(row.id, RouteStatus(row.status), row.revision, content)
    return found


_REPLACE = Command(
    f"""
    UPDATE routes r SET
        reference = pushed.reference, vehicle_unit_number = pushed.vehicle_unit_number,
        vehicle_vin = pushed.vehicle_vin, driver_name = pushed.driver_name,
        driver_external_id = pushed.driver_external_id, scheduled_start = pushed.scheduled_start,
        stops = pushed.stops, {START_OVER}
    FROM jsonb_to_recordset(%s) AS pushed (id uuid, {COLUMNS})
    WHERE r.id = pushed.id
    """  # noqa: S608 (constants)
)


def store_updates(connection: Connection, updates: Sequence[Update], *, now: datetime) -> None:
    """Replaces the input of these routes: any plan is discarded, and the import starts again."""
    if not updates:
        return
    for update in updates:
        _keep_visits(connection, update)
    replaced = [{"id": route.id, **content} for route, content in updates]
    _REPLACE.execute(connection, (now + SWEEP_GRACE, as_json(replaced)))
    discard_messages(connection, [route.id for route, _ in updates], "The route was updated before delivery")


class _VisitedStop(NamedTuple):
    stop: int


_VISITED = Statement(_VisitedStop, "SELECT stop FROM visits WHERE route_id = %s ORDER BY stop")
_FORGET_OTHERS = Command("DELETE FROM visits WHERE route_id = %s AND stop <> ALL(%s)")
# a visit moves by way of a negative number, so that no two rows meet on the way
_MOVE_ASIDE = Command(
    "UPDATE visits SET stop = -1 - moved.target FROM unnest(%s::int[], %s::int[]) AS moved (source, target)"
    " WHERE route_id = %s AND stop = moved.source"
)
_MOVE_BACK = Command("UPDATE visits SET stop = -1 - stop WHERE route_id = %s AND stop < 0")


def _keep_visits(connection: Connection, update: Update) -> None:
    """The visits of the stops that stay move to the stops' new positions. The others are forgotten: all of them when
    the route has another truck now."""
    old, new = update.route.content, update.content
    route_id = update.route.id
    if not _VISITED.all(connection, (route_id,)):
        return
    same_truck = (old["vehicle_unit_number"], old["vehicle_vin"]) == (new["vehicle_unit_number"], new["vehicle_vin"])
    moves = stops_that_stay(old["stops"], new["stops"]) if same_truck else {}
    _FORGET_OTHERS.execute(connection, (route_id, list(moves)))
    _MOVE_ASIDE.execute(connection, (list(moves), list(moves.values()), route_id))
    _MOVE_BACK.execute(connection, (route_id,))


def stops_that_stay(old: Sequence[Mapping[str, object]], new: Sequence[Mapping[str, object]]) -> dict[int, int]:
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
            same_place = (new[target]["latitude"], new[target]["longitude"]) == (stop["latitude"], stop["longitude"])
            if same_place and not becomes_destination:
                moves[source] = target
                free = target + 1
                break
    return moves
