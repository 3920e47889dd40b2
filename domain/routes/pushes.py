"""Pushed routes: what a push does to the table, in batches and inside one transaction."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from domain.contract.shapes import RouteInput, RouteStopInput
from domain.database import SUPERSEDING_LOCKS, Connection, Tenant, as_json
from domain.documents import StopDocument
from domain.ids import new_id
from domain.jobs import SWEEP_GRACE, Job
from domain.lifecycle import PushEffect, RouteStatus, effect_of_push, superseded_by
from domain.messages.discarding import discard_messages
from domain.routes.progress import NOT_ATTEMPTED, START_OVER, cancel_routes
from domain.telematics.rechecks import recheck_trucks


class Push(NamedTuple):
    """A pushed route. `may_supersede` is False where the company is known to have superseding off: it saves a look."""

    tenant: Tenant
    route: RouteInput
    may_supersede: bool = True
    key_id: str = ""
    """Of the key that it came with, for whoever looks at that again."""


class Pushed(NamedTuple):
    """What became of a push."""

    route_id: str
    effect: PushEffect
    created_at: datetime | None = None
    """Of a route that it created."""
    revision: int = 1
    """Of the route's input, once the push was stored."""


@dataclass(frozen=True, slots=True)
class _Current:
    """The route that an externalId names now, as far as a push has to know it."""

    id: str
    status: RouteStatus
    revision: int
    content: dict[str, Any]


def store_pushes(connection: Connection, pushes: Sequence[Push], *, now: datetime) -> tuple[list[Pushed], list[Job]]:
    """Stores all pushes, those of one externalId in the order given. Returns what became of each, and jobs to
    enqueue after the commit (the import of the routes themselves is the caller's to enqueue).
    """
    results: dict[int, Pushed] = {}
    superseded: list[str] = []
    waiting = list(enumerate(pushes))
    _take_references(connection, pushes)
    while waiting:
        turn: dict[tuple[Tenant, str], tuple[int, Push]] = {}
        later = []
        for index, push in waiting:
            key = (push.tenant, push.route.external_id)
            if key in turn:
                later.append((index, push))
            else:
                turn[key] = (index, push)
        done = _store_turn(connection, [push for _, push in turn.values()], now=now)
        for (index, push), pushed in zip(turn.values(), done, strict=True):
            if pushed is None:
                later.append((index, push))
            else:
                results[index] = pushed
        superseded += _supersede(
            connection,
            [
                pushed.route_id
                for (_, push), pushed in zip(turn.values(), done, strict=True)
                if push.may_supersede and pushed and pushed.effect in ("create", "replace")
            ],
        )
        waiting = sorted(later, key=lambda entry: entry[0])
    return [results[index] for index in range(len(pushes))], recheck_trucks(connection, superseded, now=now)


def create_routes(connection: Connection, pushes: Sequence[Push], *, now: datetime) -> list[Pushed | None]:
    """Stores what is new, in one statement: it needs no transaction around it. None is for `store_pushes`: there is
    such a route already, or a push before it in this list creates it, or it may supersede others.

    The statement does not wait for its commit to be on disk, so whoever answers the push has to know that it is: the
    worker's commit of the import writes it along, and so does `database.flush`.
    """
    quick = [position for position, push in enumerate(pushes) if not push.may_supersede]
    created = _create(connection, [pushes[position] for position in quick], now=now, flushed=False)
    results: list[Pushed | None] = [None] * len(pushes)
    for position, pushed in zip(quick, created, strict=True):
        results[position] = pushed
    return results


def _store_turn(connection: Connection, pushes: Sequence[Push], *, now: datetime) -> list[Pushed | None]:
    """One push for each externalId. None: what was there when it should have been created is gone by now."""
    results = _create(connection, pushes, now=now)  # the others are looked at afterwards
    known = [position for position, pushed in enumerate(results) if pushed is None]
    current = _lock_current(connection, [pushes[position] for position in known])
    replacements: list[tuple[_Current, dict[str, Any]]] = []
    for position, route in zip(known, current, strict=True):
        if route is not None:
            content = _content(pushes[position].route)
            effect = effect_of_push(route.status, same_input=route.content == content)
            if effect == "replace":
                replacements.append((route, content))
            results[position] = Pushed(route.id, effect, revision=route.revision + (effect == "replace"))
    _replace(connection, replacements, now=now)
    return results


def _take_references(connection: Connection, pushes: Sequence[Push]) -> None:
    """Pushes of one reference wait for one another where superseding is on, so that each sees the one before it.

    All are taken in one order before anything else is locked, so that no two batches wait for each other. References
    with the same hash, which a caller can make, wait for one another for nothing, and for no more than a batch.
    """
    with_reference = [push for push in pushes if push.may_supersede and push.route.reference]
    if not with_reference:
        return
    connection.execute(
        """
        SELECT pg_advisory_xact_lock(%s, key) FROM (
            SELECT DISTINCT hashtext(concat_ws(' ', pushed.company_id, environment, reference)) AS key
            FROM unnest(%s::text[], %s::text[], %s::text[]) AS pushed (company_id, environment, reference)
            ORDER BY key
        ) AS keys
        """,
        (
            SUPERSEDING_LOCKS,
            [push.tenant.company_id for push in with_reference],
            [push.tenant.environment for push in with_reference],
            [push.route.reference for push in with_reference],
        ),
    )


def _content(route: RouteInput) -> dict[str, Any]:
    """What of a body is stored and compared, by column."""
    return {
        "external_id": route.external_id,
        "reference": route.reference,
        "vehicle_unit_number": route.vehicle.unit_number,
        "vehicle_vin": route.vehicle.vin,
        "driver_name": route.driver.name,
        "driver_external_id": route.driver.external_id,
        "scheduled_start": route.scheduled_start.isoformat(),
        "stops": [stop_document(stop) for stop in route.stops],
    }


def stop_document(stop: RouteStopInput) -> StopDocument:
    """A stop as it is stored."""
    kept: StopDocument = {"name": stop.name, "latitude": stop.latitude, "longitude": stop.longitude}
    if stop.address is not None:
        kept["address"] = stop.address
    if stop.arrival_window is not None:
        window = stop.arrival_window
        kept["arrivalWindow"] = {}
        if window.start is not None:
            kept["arrivalWindow"]["start"] = window.start.isoformat()
        if window.end is not None:
            kept["arrivalWindow"]["end"] = window.end.isoformat()
    return kept


_COLUMNS = """company_id text, environment text, external_id text, reference text, vehicle_unit_number text,
    vehicle_vin text, driver_name text, driver_external_id text, scheduled_start timestamptz, stops jsonb"""


def _lock_current(connection: Connection, pushes: Sequence[Push]) -> list[_Current | None]:
    if not pushes:
        return []
    rows = connection.execute(
        """
        SELECT wanted.position, r.id, r.status, r.revision, r.external_id, r.reference, r.vehicle_unit_number,
               r.vehicle_vin, r.driver_name, r.driver_external_id, r.scheduled_start, r.stops
        FROM unnest(%s::text[], %s::text[], %s::text[])
             WITH ORDINALITY AS wanted (company_id, environment, external_id, position)
        JOIN routes r USING (company_id, environment, external_id)
        WHERE r.status <> 'canceled'
        ORDER BY r.id
        FOR UPDATE OF r
        """,
        (
            [push.tenant.company_id for push in pushes],
            [push.tenant.environment for push in pushes],
            [push.route.external_id for push in pushes],
        ),
    ).fetchall()
    found: list[_Current | None] = [None] * len(pushes)
    for row in rows:
        content = {
            "external_id": row.external_id,
            "reference": row.reference,
            "vehicle_unit_number": row.vehicle_unit_number,
            "vehicle_vin": row.vehicle_vin,
            "driver_name": row.driver_name,
            "driver_external_id": row.driver_external_id,
            "scheduled_start": row.scheduled_start.isoformat(),
            "stops": row.stops,
        }
        found[row.position - 1] = _Current(row.id, RouteStatus(row.status), row.revision, content)
    return found


_INSERT = f"""
    INSERT INTO routes (id, company_id, environment, external_id, reference, vehicle_unit_number, vehicle_vin,
                        driver_name, driver_external_id, scheduled_start, stops,
                        status, pending_reason, pending_detail, retry_at, created_at)
    SELECT id, company_id, environment, external_id, reference, vehicle_unit_number, vehicle_vin,
           driver_name, driver_external_id, scheduled_start, stops,
           'pending', 'not_attempted', '{NOT_ATTEMPTED}', %s,
           statement_timestamp() + ordinal * interval '1 microsecond'
    FROM jsonb_to_recordset(%s) AS pushed (id text, ordinal int, {_COLUMNS}){{more}}
    ON CONFLICT (company_id, environment, external_id) WHERE status <> 'canceled' DO NOTHING
    RETURNING id, created_at
"""  # noqa: S608 (constants of this module)
_INSERT_FLUSHED = _INSERT.format(more="")
_INSERT_UNFLUSHED = _INSERT.format(more=", (SELECT set_config('synchronous_commit', 'off', true)) AS this_commit_alone")


def _create(
    connection: Connection, pushes: Sequence[Push], *, now: datetime, flushed: bool = True
) -> list[Pushed | None]:
    """None: there is such a route already, created by another process or by a push before it in this list."""
    if not pushes:
        return []
    routes = [
        {"id": new_id("rte"), "ordinal": ordinal, **push.tenant._asdict(), **_content(push.route)}
        for ordinal, push in enumerate(pushes)
    ]
    # in the order of the unique index, so that two processes that create the same routes wait, never deadlock
    ordered = sorted(routes, key=lambda route: (route["company_id"], route["environment"], route["external_id"]))
    insert = _INSERT_FLUSHED if flushed else _INSERT_UNFLUSHED
    rows = connection.execute(insert, (now + SWEEP_GRACE, as_json(ordered))).fetchall()
    created = {row.id: row.created_at for row in rows}
    return [Pushed(route["id"], "create", created[route["id"]]) if route["id"] in created else None for route in routes]


def _replace(connection: Connection, replacements: Sequence[tuple[_Current, dict[str, Any]]], *, now: datetime) -> None:
    """New input for existing routes: any plan is discarded and the import starts again."""
    if not replacements:
        return
    for route, content in replacements:
        _keep_visits(connection, route, content)
    connection.execute(
        f"""
        UPDATE routes r SET
            reference = pushed.reference, vehicle_unit_number = pushed.vehicle_unit_number,
            vehicle_vin = pushed.vehicle_vin, driver_name = pushed.driver_name,
            driver_external_id = pushed.driver_external_id, scheduled_start = pushed.scheduled_start,
            stops = pushed.stops, {START_OVER}
        FROM jsonb_to_recordset(%s) AS pushed (id text, {_COLUMNS})
        WHERE r.id = pushed.id
        """,  # noqa: S608 (constants of this module)
        (now + SWEEP_GRACE, as_json([{"id": route.id, **content} for route, content in replacements])),
    )
    discard_messages(connection, [route.id for route, _ in replacements], "The route was updated before delivery")


def _keep_visits(connection: Connection, route: _Current, content: dict[str, Any]) -> None:
    """The visits of the stops that stay move to their new places; another truck's visits are no visits."""
    visits = connection.execute("SELECT stop FROM visits WHERE route_id = %s ORDER BY stop", (route.id,)).fetchall()
    if not visits:
        return
    same_truck = all(route.content[name] == content[name] for name in ("vehicle_unit_number", "vehicle_vin"))
    moves = stops_that_stay(route.content["stops"], content["stops"]) if same_truck else {}
    connection.execute("DELETE FROM visits WHERE route_id = %s AND stop <> ALL(%s)", (route.id, list(moves)))
    connection.execute(  # through negative numbers, so that no two rows meet on the way
        "UPDATE visits SET stop = -1 - moved.target FROM unnest(%s::int[], %s::int[]) AS moved (source, target)"
        " WHERE route_id = %s AND stop = moved.source",
        (list(moves), list(moves.values()), route.id),
    )
    connection.execute("UPDATE visits SET stop = -1 - stop WHERE route_id = %s AND stop < 0", (route.id,))


def stops_that_stay(old: Sequence[dict[str, Any]], new: Sequence[dict[str, Any]]) -> dict[int, int]:
    """Position before -> position after, of the stops whose place is still on the route, in the same order.

    What was not the destination does not become it: having been there before is not having arrived.
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


def _supersede(connection: Connection, route_ids: Sequence[str]) -> list[str]:
    """Cancels what these routes supersede (decision 5). Returns the ids that were canceled."""
    if not route_ids:
        return []
    rows = connection.execute(
        """
        SELECT old.id, new.external_id
        FROM routes new
        JOIN companies c ON c.id = new.company_id AND c.superseding
        JOIN routes old ON old.company_id = new.company_id AND old.environment = new.environment
             AND old.reference = new.reference AND old.external_id <> new.external_id
             AND (old.created_at, old.id) < (new.created_at, new.id)
        WHERE new.id = ANY(%s) AND new.reference <> '' AND new.status <> 'canceled'
          AND old.reference <> '' AND old.status IN ('pending','pending_mapping','pending_window','draft','planned')
        ORDER BY old.id, new.created_at
        FOR UPDATE OF old
        """,
        (list(route_ids),),
    ).fetchall()
    by_whom = {row.id: row.external_id for row in rows}
    for route_id, external_id in by_whom.items():
        cancel_routes(connection, [route_id], superseded_by(external_id))
    return list(by_whom)
