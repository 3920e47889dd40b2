"""Pushed and canceled routes: what a push or a DELETE does to the table, in batches and inside one transaction."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal, NamedTuple

from domain.contract.shapes import RouteInput, RouteStopInput
from domain.database import SUPERSEDING_LOCKS, Connection, Tenant, as_json
from domain.ids import new_id
from domain.jobs import JOB_TRUCKS, Job, in_batches, process_positions
from domain.lifecycle import (
    CANCELABLE,
    CANCELED_VIA_API,
    CancelEffect,
    PushEffect,
    RouteStatus,
    effect_of_cancel,
    effect_of_push,
    superseded_by,
)

SWEEP_GRACE = timedelta(seconds=10)
"""How long a job may take to do its work before the sweep asks again."""

STANDING_MINUTES = 15
"""A fix not older than this says where a truck stands now."""


NOT_ATTEMPTED = "Accepted and stored; the import has not been attempted yet. Nothing needs to be resent."


class Push(NamedTuple):
    """A pushed route. `may_supersede` is False where the company is known to have superseding off: it saves a look."""

    tenant: Tenant
    route: RouteInput
    may_supersede: bool = True
    key_id: str = ""
    """Of the key that it came with, for whoever looks at that again."""


class Pushed(NamedTuple):
    """What became of a push; when it was created, and its stops as they are stored, of a route that it created."""

    route_id: str
    effect: PushEffect
    created_at: datetime | None = None
    stops: list[dict[str, Any]] | None = None
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
        "stops": [_stop(stop) for stop in route.stops],
    }


def _stop(stop: RouteStopInput) -> dict[str, Any]:
    kept: dict[str, Any] = {"name": stop.name, "latitude": stop.latitude, "longitude": stop.longitude}
    if stop.address is not None:
        kept["address"] = stop.address
    if stop.arrival_window is not None:
        window = stop.arrival_window
        kept["arrivalWindow"] = {
            end: moment.isoformat()
            for end, moment in (("start", window.start), ("end", window.end))
            if moment is not None
        }
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
    return [
        Pushed(route["id"], "create", created[route["id"]], route["stops"]) if route["id"] in created else None
        for route in routes
    ]


_START_OVER = f"""
    revision = r.revision + 1,
    status = 'pending', pending_reason = 'not_attempted', pending_detail = '{NOT_ATTEMPTED}',
    closed_reason = NULL, attempts = 0, retry_at = %s,
    vehicle_id = NULL, driver_id = NULL, imported_at = NULL, plan_id = NULL, correction_id = NULL,
    distance_miles = NULL,
    arrived_at = (SELECT min(arrived_at) FROM visits WHERE route_id = r.id), updated_at = clock_timestamp()
"""  # noqa: S608 (constants of this module)
"""The assignments that bring a route `r` back to before its import. Its one parameter is when that is due."""


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
            stops = pushed.stops, {_START_OVER}
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
        _close(connection, [route_id], superseded_by(external_id))
    return list(by_whom)


def cancel_route(
    connection: Connection, tenant: Tenant, route_id: str, *, now: datetime
) -> tuple[CancelEffect | None, list[Job]]:
    """DELETE of one route; the effect is None when the tenant has no such route. The jobs are for after the commit."""
    row = connection.execute(
        "SELECT status FROM routes WHERE company_id = %s AND environment = %s AND id = %s FOR UPDATE",
        (*tenant, route_id),
    ).fetchone()
    if row is None:
        return None, []
    effect = effect_of_cancel(RouteStatus(row.status))
    if effect != "cancel":
        return effect, []
    _close(connection, [route_id], CANCELED_VIA_API)
    return effect, recheck_trucks(connection, [route_id], now=now)


def _close(connection: Connection, route_ids: Sequence[str], reason: str) -> None:
    connection.execute(
        "UPDATE routes SET status = 'canceled', closed_reason = %s, pending_reason = NULL, pending_detail = NULL,"
        " retry_at = NULL, updated_at = clock_timestamp() WHERE id = ANY(%s) AND status = ANY(%s)",
        (reason, list(route_ids), sorted(CANCELABLE)),
    )
    discard_messages(connection, route_ids, f"The route was canceled before delivery: {reason}")


_UNFINISHED = sorted(CANCELABLE | {RouteStatus.ACTIVE})

Matched = Literal["vehicle", "driver"]
"""What a route is matched to: a record of `vehicles` or of `drivers`."""


def _lock(wait: bool) -> str:
    """What a pass does not wait for is found by the next one."""
    return "FOR UPDATE" if wait else "FOR UPDATE SKIP LOCKED"


def lock_unfinished(
    connection: Connection, kind: Matched, record_ids: Sequence[str], *, wait: bool = True
) -> list[Any]:
    """The routes of these vehicles or drivers that may still move: id, environment, status. They are locked, all in
    the order of their ids; those that somebody else has locked are left out unless told to `wait` for them."""
    return connection.execute(
        f"SELECT id, environment, status FROM routes WHERE {kind}_id = ANY(%s) AND status = ANY(%s)"  # noqa: S608
        f" ORDER BY id {_lock(wait)}",
        (list(record_ids), _UNFINISHED),
    ).fetchall()


def match_again(connection: Connection, kind: Matched, route_ids: Sequence[str], *, now: datetime) -> None:
    """Locked routes of a retired vehicle or driver that are not active are to be imported again, by the caller:
    another record may fit, else they wait for a mapping."""
    ids = list(route_ids)
    if kind == "vehicle":  # another truck's visits are no visits
        connection.execute("DELETE FROM visits WHERE route_id = ANY(%s)", (ids,))
    connection.execute(f"UPDATE routes r SET {_START_OVER} WHERE id = ANY(%s)", (now + SWEEP_GRACE, ids))  # noqa: S608
    discard_messages(connection, ids, f"The {kind} was retired before delivery")


def end_routes(connection: Connection, route_ids: Sequence[str], reason: str) -> None:
    """Whatever is not finished: what has not started is `canceled`, what is active becomes `error`."""
    _close(connection, route_ids, reason)
    connection.execute(
        "UPDATE routes SET status = 'error', closed_reason = %s, retry_at = NULL, updated_at = clock_timestamp()"
        " WHERE id = ANY(%s) AND status = 'active'",
        (reason, list(route_ids)),
    )


def unfinished_routes(connection: Connection, company_id: str, *, limit: int, wait: bool = True) -> list[str]:
    """Some of a company's routes that may still move, in both environments. They are locked; `wait` as above."""
    rows = connection.execute(
        "SELECT id FROM routes WHERE company_id = %s AND environment IN ('live', 'sandbox')"  # noqa: S608
        f" AND status = ANY(%s) ORDER BY id LIMIT %s {_lock(wait)}",
        (company_id, _UNFINISHED, limit),
    ).fetchall()
    return [row.id for row in rows]


def discard_messages(connection: Connection, route_ids: Sequence[str], why: str) -> None:
    """Undelivered messages fail. One that a worker hands over at this moment is past recall: it stores what came of
    it, and the next message to the driver tells that it takes its place."""
    connection.execute(
        "UPDATE messages SET status = 'failed', error = %s, retry_at = NULL"
        " WHERE route_id = ANY(%s) AND status = 'pending' AND (claimed_until IS NULL OR claimed_until < now())",
        (why, list(route_ids)),
    )


def recheck_trucks(connection: Connection, route_ids: Iterable[str], *, now: datetime) -> list[Job]:
    """The trucks of these routes may stand at a stop that counts from now on: their last minutes are processed again.

    Returns the jobs for it, to enqueue after the commit.
    """
    ids = list(route_ids)
    if not ids:
        return []
    rows = connection.execute(
        """
        WITH locked AS MATERIALIZED (
            SELECT vehicle_id, environment FROM tracks t
            JOIN (SELECT DISTINCT vehicle_id, environment FROM routes WHERE id = ANY(%(ids)s)) AS moved
                 USING (vehicle_id, environment)
            WHERE t.newest_at >= %(since)s OR t.unjudged_from IS NOT NULL
            ORDER BY vehicle_id, environment FOR UPDATE OF t)  -- as the feed: no two transactions wait for each other
        UPDATE tracks t SET unjudged_from = least(t.unjudged_from, %(since)s),
                            unjudged_since = coalesce(t.unjudged_since, %(now)s)
        FROM locked WHERE t.vehicle_id = locked.vehicle_id AND t.environment = locked.environment
        RETURNING t.environment, t.vehicle_id
        """,
        {"since": now - timedelta(minutes=STANDING_MINUTES), "now": now, "ids": ids},
    ).fetchall()
    return process_trucks(rows)


def process_trucks(rows: Iterable[Any]) -> list[Job]:
    """The jobs that process these trucks, given as rows of environment and vehicle_id."""
    by_environment: dict[str, list[str]] = {}
    for row in rows:
        by_environment.setdefault(row.environment, []).append(row.vehicle_id)
    return [
        process_positions(environment, batch)
        for environment, vehicles in by_environment.items()
        for batch in in_batches(vehicles, JOB_TRUCKS)
    ]
