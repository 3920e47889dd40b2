"""From pushed to held or draft: vehicle, driver and import window.

`import_routes` makes one attempt at a batch of routes. One statement imports those whose references are clear and whose
window is open. `match` and `decide` are the rules: they tell what the others wait for, and a test compares the
statement with them. Which routes are tried, and when, is in `holds`.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
from msgspec import Struct

from domain.database import Connection, as_array, as_json, together
from domain.fleet.matching import GivenReference, MappingKind, Match, match
from domain.lifecycle import HELD, PendingReason, RouteStatus
from domain.queue.jobs import Job, build_plan_job
from domain.routes.visits import keep_what_could_begin
from domain.statements import IdRow, Statement
from domain.telematics.rechecks import process_trucks, recheck_imported, recheck_left


class Decision(NamedTuple):
    """What an import attempt makes of a route."""

    status: RouteStatus
    reason: PendingReason | None = None
    detail: str | None = None


def decide(vehicle: Match, driver: Match, scheduled_start: datetime, window_days: float, now: datetime) -> Decision:
    """Vehicle first, then driver, then the window; a start in the past is inside it.

    A route of an unknown truck that starts in 20 days waits for the mapping of the truck. Once that is made, it waits
    for its window.
    """
    if vehicle.id is None:
        return Decision(RouteStatus.PENDING_MAPPING, PendingReason.VEHICLE_UNMAPPED, vehicle.detail)
    if driver.id is None:
        return Decision(RouteStatus.PENDING_MAPPING, PendingReason.DRIVER_UNMAPPED, driver.detail)
    if (scheduled_start - now) > timedelta(days=window_days):
        return Decision(
            RouteStatus.PENDING_WINDOW,
            PendingReason.OUTSIDE_IMPORT_WINDOW,
            f"The scheduled start is more than {window_days:g} days ahead. The route is imported by itself when its "
            "start enters the import window.",
        )
    return Decision(RouteStatus.DRAFT)


class RouteReference(NamedTuple):
    """A pushed value that leads to a vehicle or driver."""

    kind: MappingKind
    column: str
    """Of `routes`: what was pushed."""
    table: str
    stored: str
    """The table's column that is compared with it."""


REFERENCES = (
    RouteReference("unit_number", "vehicle_unit_number", "vehicles", "unit_number"),
    RouteReference("vin", "vehicle_vin", "vehicles", "vin"),
    RouteReference("driver_name", "driver_name", "drivers", "name"),
    RouteReference("driver_external_id", "driver_external_id", "drivers", "external_id"),
)


_CANDIDATES = """
    CASE WHEN r.{column} IS NOT NULL THEN coalesce(
        (SELECT ARRAY[m.target_id] FROM mappings m
         WHERE m.company_id = r.company_id AND m.kind = '{kind}' AND m.value = r.{column}),
        ARRAY(SELECT t.id FROM {table} t
              WHERE t.company_id = r.company_id AND t.{stored} = r.{column} AND t.retired_at IS NULL
              ORDER BY t.id LIMIT 2)
    ) END AS {kind}_candidates
"""
"""What a pushed value can mean: the target of its mapping, else the records that store it. Two of these are enough to
know that it is not clear."""


def _clear(one: str, other: str) -> str:
    """All of these two references that were pushed lead to one record, and to no other. Where this is false, `match`
    says why."""
    one, other = f"{one}_candidates", f"{other}_candidates"
    return f"coalesce({one}, {other}) = coalesce({other}, {one}) AND cardinality(coalesce({one}, {other})) = 1"


class _Attempted(NamedTuple):
    """A held route after its attempt. Vehicle and driver are the first candidates."""

    id: UUID
    company_id: UUID
    revision: int
    clear: bool
    """Its references are clear and its window is open."""
    imported: bool
    """And it was imported by this attempt."""
    vehicle_id: UUID | None
    unit_number: str | None
    driver_id: UUID | None
    driver_name: str | None
    held: dict[str, Any] | None
    """A `_Held`; NULL of one that was imported."""


# What is looked up for one route is a subquery: joined, a batch would read a small table from end to end.
_ATTEMPT = f"""
    WITH held AS MATERIALIZED (
        SELECT r.id, r.company_id, r.revision, r.updated_at, r.status, r.pending_reason, r.pending_detail,
               r.vehicle_id, r.driver_id, r.scheduled_start, r.arrived_at, r.vehicle_unit_number, r.vehicle_vin,
               r.driver_name, r.driver_external_id,
               (SELECT c.import_window_days FROM companies c WHERE c.id = r.company_id AND c.retired_at IS NULL)
                   AS import_window_days,
               {", ".join(_CANDIDATES.format(**reference._asdict()) for reference in REFERENCES)}
        FROM routes r
        WHERE r.id = ANY(%(ids)s::uuid[]) AND r.status IN ('pending', 'pending_mapping', 'pending_window')
        ORDER BY r.id {{lock}}
    ), attempted AS MATERIALIZED (
        SELECT held.*,
               (coalesce(unit_number_candidates, vin_candidates))[1] AS vehicle,
               (coalesce(driver_name_candidates, driver_external_id_candidates))[1] AS driver,
               ({_clear("unit_number", "vin")}
                AND {_clear("driver_name", "driver_external_id")}
                AND scheduled_start <= %(now)s::timestamptz + import_window_days * interval '1 day') IS TRUE AS clear
        FROM held WHERE import_window_days IS NOT NULL
    ), stored AS (
        UPDATE routes r SET
            status = 'draft', pending_reason = NULL, pending_detail = NULL, vehicle_id = a.vehicle,
            driver_id = a.driver, attempts = 0, imported_at = %(now)s, retry_at = NULL,
            updated_at = clock_timestamp()
        FROM attempted a WHERE r.id = a.id AND a.clear AND (a.arrived_at IS NOT NULL) = {{visited}}
    )
    SELECT id, company_id, revision, clear, clear AND (arrived_at IS NOT NULL) = {{visited}} AS imported,
           vehicle AS vehicle_id, (SELECT v.unit_number FROM vehicles v WHERE v.id = vehicle) AS unit_number,
           driver AS driver_id, (SELECT d.name FROM drivers d WHERE d.id = driver) AS driver_name,
           CASE WHEN NOT clear THEN to_jsonb(attempted) END AS held
    FROM attempted
"""  # noqa: S608 (constants of this module)
_SKIPPING, _WAITING = "FOR UPDATE SKIP LOCKED", "FOR UPDATE"
_ATTEMPT_FREE = Statement(_Attempted, _ATTEMPT.format(lock=_SKIPPING, visited="false"))
_ATTEMPT_ALL = Statement(_Attempted, _ATTEMPT.format(lock=_WAITING, visited="false"))
_ATTEMPT_FREE_VISITED = Statement(_Attempted, _ATTEMPT.format(lock=_SKIPPING, visited="true"))
_ATTEMPT_ALL_VISITED = Statement(_Attempted, _ATTEMPT.format(lock=_WAITING, visited="true"))
"""Routes with visits from before are imported apart: hardly any have one."""


class ImportOutcome(Struct, frozen=True, array_like=True):
    """What an import attempt made of a route, with what an answer shows of its vehicle and driver."""

    status: RouteStatus
    reason: PendingReason | None
    detail: str | None
    vehicle_id: UUID | None
    unit_number: str | None
    driver_id: UUID | None
    driver_name: str | None
    revision: int = 0
    """Of the input that was imported; 0 from a worker of an earlier release."""


def import_routes(
    connection: Connection,
    route_ids: Sequence[UUID],
    *,
    now: datetime,
    early: timedelta = timedelta(hours=12),
    wait: bool = False,
) -> tuple[dict[UUID, ImportOutcome], list[Job]]:
    """One import attempt of each held route among `route_ids`, as one batch.

    Returns the outcome of each, and the jobs to enqueue after the commit. Routes that are not held are left alone, so
    the same job may run twice. Routes that another transaction has locked are left alone too, unless told to `wait`.

    It needs no transaction around it. The first two statements go out together, which makes them one transaction: what
    plainly matches is a draft, and its truck is looked at again. Routes that had started before follow in a second one.
    For the rest, the rules say what they wait for; that is stored unless the route has changed meanwhile.
    """
    with together(connection):
        parameters = {"ids": as_array(route_ids), "now": now}
        attempt = (_ATTEMPT_ALL if wait else _ATTEMPT_FREE).execute(connection, parameters)
        trucks = recheck_imported(connection, route_ids, now=now)
    routes, jobs = attempt.fetchall(), process_trucks(trucks)
    visited = [route.id for route in routes if route.clear and not route.imported]
    if visited:
        again, more_jobs = _import_visited(connection, visited, early=early, now=now, wait=wait)
        routes = [route for route in routes if route.id not in visited] + again
        jobs += more_jobs
    outcomes = {route.id: _imported(route) for route in routes if route.imported}
    held = [route for route in routes if not route.clear]
    if held:
        more_outcomes, more_jobs = _hold(connection, held, now=now)
        outcomes |= more_outcomes
        jobs += more_jobs
    return outcomes, jobs


def _import_visited(
    connection: Connection, route_ids: Sequence[UUID], *, early: timedelta, now: datetime, wait: bool
) -> tuple[list[_Attempted], list[Job]]:
    """The attempt at routes with visits, in one transaction. Only visits that could have begun the route as it is now
    stay: such a route has arrived, and its plan is due. To look at the trucks again locks them, so that none of their
    other routes starts before the visits are judged."""
    with together(connection):
        parameters = {"ids": as_array(route_ids), "now": now}
        attempt = (_ATTEMPT_ALL_VISITED if wait else _ATTEMPT_FREE_VISITED).execute(connection, parameters)
        trucks = recheck_imported(connection, route_ids, now=now)
        judged = keep_what_could_begin(connection, route_ids, early=early, now=now)
    due = [build_plan_job(route.route_id, route.company_id) for route in judged.fetchall() if route.has_arrived]
    return attempt.fetchall(), process_trucks(trucks) + due


def _imported(route: _Attempted) -> ImportOutcome:
    return ImportOutcome(
        RouteStatus.DRAFT,
        None,
        None,
        route.vehicle_id,
        route.unit_number,
        route.driver_id,
        route.driver_name,
        route.revision,
    )


class _Held(Struct):
    """A held route. Of each reference that was pushed, the candidates are the records that it can mean."""

    updated_at: str
    status: str
    pending_reason: str | None
    pending_detail: str | None
    vehicle_id: UUID | None
    driver_id: UUID | None
    scheduled_start: datetime
    import_window_days: float
    vehicle_unit_number: str | None
    vehicle_vin: str | None
    driver_name: str | None
    driver_external_id: str | None
    unit_number_candidates: list[UUID] | None
    vin_candidates: list[UUID] | None
    driver_name_candidates: list[UUID] | None
    driver_external_id_candidates: list[UUID] | None

    @property
    def state(self) -> tuple[str | UUID | None, ...]:
        """What an attempt decides of it, as it was stored before."""
        return self.status, self.pending_reason, self.pending_detail, self.vehicle_id, self.driver_id


class _Change(Struct):
    """What a route waits for, which is not what it waited for before."""

    id: UUID
    updated_at: str
    """Of the route that was looked at."""
    status: RouteStatus
    reason: PendingReason | None
    detail: str | None
    vehicle_id: UUID | None
    driver_id: UUID | None


class RulesDiffer(Exception):
    """The statement that imports what plainly matches, and the rules, do not agree about a route."""


_HOLD = Statement(
    IdRow,
    """
    WITH unchanged AS MATERIALIZED (
        SELECT o.* FROM jsonb_to_recordset(%s)
             AS o (id uuid, updated_at timestamptz, status text, reason text, detail text, vehicle_id uuid,
                   driver_id uuid)
        JOIN routes r ON r.id = o.id AND r.updated_at = o.updated_at
        ORDER BY r.id FOR UPDATE OF r SKIP LOCKED)
    UPDATE routes r SET
        status = o.status, pending_reason = o.reason, pending_detail = o.detail, vehicle_id = o.vehicle_id,
        driver_id = o.driver_id, attempts = 0, imported_at = NULL, retry_at = NULL, updated_at = clock_timestamp()
    FROM unchanged o WHERE r.id = o.id
    RETURNING r.id
    """,
)


def _hold(
    connection: Connection, routes: Sequence[_Attempted], *, now: datetime
) -> tuple[dict[UUID, ImportOutcome], list[Job]]:
    """Stores what these routes wait for, and has the trucks looked at again that they had before. Those that have
    changed since the attempt, or are locked, are left out."""
    outcomes: dict[UUID, ImportOutcome] = {}
    changes: list[_Change] = []
    for route in routes:
        held = msgspec.convert(route.held, _Held)
        vehicle, driver = _matches(held)
        decision = decide(vehicle, driver, held.scheduled_start, held.import_window_days, now)
        if decision.status is RouteStatus.DRAFT:
            raise RulesDiffer(f"{route.id} was not imported, though the rules find nothing that it waits for")
        outcomes[route.id] = ImportOutcome(
            *decision,
            vehicle.id,
            route.unit_number if vehicle.id is not None else None,
            driver.id,
            route.driver_name if driver.id is not None else None,
            route.revision,
        )
        if (*decision, vehicle.id, driver.id) != held.state:
            changes.append(_Change(route.id, held.updated_at, *decision, vehicle.id, driver.id))
    jobs: list[Job] = []
    if changes:
        ids = [change.id for change in changes]
        with together(connection):
            holding = _HOLD.execute(connection, (as_json(changes),))
            trucks = recheck_left(connection, ids, now=now)
        jobs = process_trucks(trucks)
        for missed in set(ids) - {row.id for row in holding.fetchall()}:
            del outcomes[missed]
    return outcomes, jobs


def _matches(held: _Held) -> tuple[Match, Match]:
    """Its vehicle and its driver."""
    return (
        match(
            "vehicle",
            _references(
                ("unit number", held.vehicle_unit_number, held.unit_number_candidates),
                ("VIN", held.vehicle_vin, held.vin_candidates),
            ),
        ),
        match(
            "driver",
            _references(
                ("name", held.driver_name, held.driver_name_candidates),
                ("external id", held.driver_external_id, held.driver_external_id_candidates),
            ),
        ),
    )


def _references(*given: tuple[str, str | None, Sequence[UUID] | None]) -> list[GivenReference]:
    """Those that were pushed."""
    return [
        GivenReference(kind, value, candidates)
        for kind, value, candidates in given
        if value is not None and candidates is not None
    ]


class _Revision(NamedTuple):
    id: UUID
    revision: int


_SETTLED = Statement(_Revision, "SELECT id, revision FROM routes WHERE id = ANY(%s) AND status <> ALL(%s)")


def revisions_settled(connection: Connection, route_ids: Iterable[UUID]) -> dict[UUID, int]:
    """The current revision of each of these routes, without those that are still held."""
    return {row.id: row.revision for row in _SETTLED.all(connection, (list(route_ids), sorted(HELD)))}
