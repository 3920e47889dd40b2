"""From pushed to held or draft: vehicle, driver and import window.

`decide` is the rule, `import_routes` applies it to a batch of routes in one transaction. Which routes are tried, and
when, is in `holds`.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from msgspec import Struct
from psycopg import Cursor

from domain.database import Connection, as_json
from domain.fleet.matching import MappingKind, Match, Reference, match
from domain.jobs import SWEEP_GRACE, Job, build_plan
from domain.lifecycle import HELD, PendingReason, RouteStatus
from domain.statements import Statement
from domain.telematics.rechecks import recheck_trucks


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


class _Held(NamedTuple):
    """A held route. Of each reference that was pushed, the candidates are the records that it can mean."""

    id: UUID
    revision: int
    scheduled_start: datetime
    arrived_at: datetime | None
    import_window_days: float
    vehicle_unit_number: str | None
    vehicle_vin: str | None
    driver_name: str | None
    driver_external_id: str | None
    unit_number_candidates: list[UUID] | None
    vin_candidates: list[UUID] | None
    driver_name_candidates: list[UUID] | None
    driver_external_id_candidates: list[UUID] | None


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

_LOAD = f"""
    WITH locked AS MATERIALIZED (
        SELECT id, company_id, status, revision, scheduled_start, arrived_at, vehicle_unit_number, vehicle_vin,
               driver_name, driver_external_id
        FROM routes WHERE id = ANY(%s) ORDER BY id {{lock}})
    SELECT r.id, r.revision, r.scheduled_start, r.arrived_at, c.import_window_days,
           r.vehicle_unit_number, r.vehicle_vin, r.driver_name, r.driver_external_id,
           {", ".join(_CANDIDATES.format(**reference._asdict()) for reference in REFERENCES)}
    FROM locked r JOIN companies c ON c.id = r.company_id
    WHERE c.retired_at IS NULL AND r.status IN ('pending', 'pending_mapping', 'pending_window')
"""  # noqa: S608 (constants of this module)
_LOAD_FREE = Statement(_Held, _LOAD.format(lock="FOR UPDATE SKIP LOCKED"))
_LOAD_ALL = Statement(_Held, _LOAD.format(lock="FOR UPDATE"))


class Outcome(Struct, frozen=True, array_like=True):
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
    connection: Connection, route_ids: Sequence[UUID], *, now: datetime, wait: bool = False
) -> tuple[dict[UUID, Outcome], list[Job]]:
    """One import attempt of each held route among `route_ids`, as one batch.

    Returns the outcome of each, and the jobs to enqueue after the commit. Routes that are not held are left alone, so
    the same job may run twice. Routes that another transaction has locked are left alone too, unless told to `wait`.
    """
    held = (_LOAD_ALL if wait else _LOAD_FREE).all(connection, (list(route_ids),))
    if not held:
        return {}, []
    decided = [_decided(route, now) for route in held]
    stored = _store(connection, decided, now=now)  # read after the next statement, so that the two go out together
    drafts = [route.id for route in decided if route.status is RouteStatus.DRAFT]
    jobs = recheck_trucks(connection, drafts, now=now)
    arrived = {route.id for route in held if route.arrived_at is not None}
    jobs += [build_plan(route_id) for route_id in drafts if route_id in arrived]
    return {row.id: _outcome(row) for row in stored}, jobs


class _Decided(Struct, frozen=True):
    """What is to be stored of a route."""

    id: UUID
    revision: int
    status: RouteStatus
    reason: PendingReason | None
    detail: str | None
    vehicle_id: UUID | None
    driver_id: UUID | None


def _decided(route: _Held, now: datetime) -> _Decided:
    vehicle = match(
        "vehicle",
        _references(
            ("unit number", route.vehicle_unit_number, route.unit_number_candidates),
            ("VIN", route.vehicle_vin, route.vin_candidates),
        ),
    )
    driver = match(
        "driver",
        _references(
            ("name", route.driver_name, route.driver_name_candidates),
            ("external id", route.driver_external_id, route.driver_external_id_candidates),
        ),
    )
    status, reason, detail = decide(vehicle, driver, route.scheduled_start, route.import_window_days, now)
    return _Decided(route.id, route.revision, status, reason, detail, vehicle.id, driver.id)


def _references(*given: tuple[str, str | None, Sequence[UUID] | None]) -> list[Reference]:
    """Those that were pushed."""
    return [
        Reference(kind, value, candidates)
        for kind, value, candidates in given
        if value is not None and candidates is not None
    ]


class _Stored(NamedTuple):
    id: UUID
    revision: int
    status: str
    reason: str | None
    detail: str | None
    vehicle_id: UUID | None
    driver_id: UUID | None
    unit_number: str | None
    driver_name: str | None


_STORE = Statement(
    _Stored,
    """
        WITH decided AS (
            SELECT o.*,
                   -- one at a time: joined, a batch would read a small fleet from end to end
                   (SELECT unit_number FROM vehicles WHERE id = o.vehicle_id) AS unit_number,
                   (SELECT name FROM drivers WHERE id = o.driver_id) AS driver_name
            FROM jsonb_to_recordset(%(decisions)s)
                 AS o (id uuid, revision int, status text, reason text, detail text, vehicle_id uuid, driver_id uuid)
        ), stored AS (
            UPDATE routes r SET
                status = o.status, pending_reason = o.reason, pending_detail = o.detail,
                vehicle_id = o.vehicle_id, driver_id = o.driver_id, attempts = 0,
                imported_at = CASE WHEN o.status = 'draft' THEN %(now)s::timestamptz END,
                retry_at = CASE WHEN o.status = 'draft' AND r.arrived_at IS NOT NULL THEN %(retry_at)s::timestamptz END,
                updated_at = clock_timestamp()
            FROM decided o
            WHERE r.id = ANY(%(ids)s) AND r.id = o.id
              AND (r.status, r.pending_reason, r.pending_detail, r.vehicle_id, r.driver_id)
                  IS DISTINCT FROM (o.status, o.reason, o.detail, o.vehicle_id, o.driver_id)
        )
        SELECT id, revision, status, reason, detail, vehicle_id, driver_id, unit_number, driver_name FROM decided
        """,
)


def _store(connection: Connection, decided: Sequence[_Decided], *, now: datetime) -> Cursor[_Stored]:
    """Writes the routes that change. Gives all of them, with the names of their vehicles and drivers."""
    parameters = {
        "now": now,
        "retry_at": now + SWEEP_GRACE,
        "ids": [route.id for route in decided],
        "decisions": as_json(decided),
    }
    return _STORE.execute(connection, parameters)


def _outcome(row: _Stored) -> Outcome:
    reason = PendingReason(row.reason) if row.reason is not None else None
    return Outcome(
        RouteStatus(row.status),
        reason,
        row.detail,
        row.vehicle_id,
        row.unit_number,
        row.driver_id,
        row.driver_name,
        row.revision,
    )


class _Failed(NamedTuple):
    status: str
    pending_reason: str | None
    pending_detail: str | None
    revision: int


_FAIL = Statement(
    _Failed,
    """
        UPDATE routes SET
            attempts = attempts + 1,
            status = CASE WHEN attempts + 1 >= %(most)s THEN 'error' ELSE 'pending' END,
            closed_reason = CASE WHEN attempts + 1 >= %(most)s
                THEN 'The import failed ' || %(most)s || ' times; see the log. Push the route again to retry.' END,
            pending_reason = CASE WHEN attempts + 1 < %(most)s THEN 'error' END,
            pending_detail = CASE WHEN attempts + 1 < %(most)s
                THEN 'Import attempt ' || attempts + 1 || ' of ' || %(most)s || ' failed on our side; it is retried '
                     'by itself. Nothing needs to be resent.' END,
            retry_at = CASE WHEN attempts + 1 < %(most)s
                THEN %(now)s::timestamptz + least(interval '10 s' * 2 ^ least(attempts, 10), interval '15 min') END,
            updated_at = clock_timestamp()
        WHERE id = %(id)s AND status IN ('pending', 'pending_mapping', 'pending_window')
        RETURNING status, pending_reason, pending_detail, revision
        """,
)


def record_failed_import(connection: Connection, route_id: UUID, *, max_attempts: int, now: datetime) -> Outcome | None:
    """An attempt failed unexpectedly: the route waits for the next one, or becomes `error` after the last.

    Returns None when the route was not held any more.
    """
    row = _FAIL.first(connection, {"most": max_attempts, "now": now, "id": route_id})
    if row is None:
        return None
    reason = PendingReason(row.pending_reason) if row.pending_reason is not None else None
    return Outcome(RouteStatus(row.status), reason, row.pending_detail, None, None, None, None, row.revision)


class _Revision(NamedTuple):
    id: UUID
    revision: int


_SETTLED = Statement(_Revision, "SELECT id, revision FROM routes WHERE id = ANY(%s) AND status <> ALL(%s)")


def revisions_settled(connection: Connection, route_ids: Iterable[UUID]) -> dict[UUID, int]:
    """The current revision of each of these routes, without those that are still held."""
    return {row.id: row.revision for row in _SETTLED.all(connection, (list(route_ids), sorted(HELD)))}
