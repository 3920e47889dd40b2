"""From pushed to held or draft: matching, the import window, the pass over held routes, and what waits for a mapping.

`decide` is the rule; the rest moves batches of routes through it, each in one transaction.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from msgspec import Struct
from psycopg import Cursor

from domain.database import Connection, as_json
from domain.fleet.matching import MappingKind, Match, Reference, match
from domain.jobs import JOB_ITEMS, SWEEP_GRACE, Job, build_plan
from domain.lifecycle import HELD, PendingReason, RouteStatus
from domain.statements import Command, IdRow, Statement
from domain.telematics.rechecks import recheck_trucks


class Decision(NamedTuple):
    """What an import attempt makes of a route."""

    status: RouteStatus
    reason: PendingReason | None = None
    detail: str | None = None


def decide(vehicle: Match, driver: Match, scheduled_start: datetime, window_days: float, now: datetime) -> Decision:
    """Vehicle first, then driver, then the window; a start in the past is inside it."""
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


class _Held(NamedTuple):
    """A held route. Of each reference that was pushed, the candidates are the records that it can mean."""

    id: str
    revision: int
    scheduled_start: datetime
    arrived_at: datetime | None
    import_window_days: float
    vehicle_unit_number: str | None
    vehicle_vin: str | None
    driver_name: str | None
    driver_external_id: str | None
    unit_number_candidates: list[str] | None
    vin_candidates: list[str] | None
    driver_name_candidates: list[str] | None
    driver_external_id_candidates: list[str] | None


# For each reference: a mapping made for the value, else the records that store it (two are enough to know better).
_CANDIDATES = """
    CASE WHEN r.{column} IS NOT NULL THEN coalesce(
        (SELECT ARRAY[m.target_id] FROM mappings m
         WHERE m.company_id = r.company_id AND m.kind = '{kind}' AND m.value = r.{column}),
        ARRAY(SELECT t.id FROM {table} t
              WHERE t.company_id = r.company_id AND t.{stored} = r.{column} AND t.retired_at IS NULL
              ORDER BY t.id LIMIT 2)
    ) END AS {kind}_candidates
"""
_REFERENCES: tuple[tuple[MappingKind, str, str, str], ...] = (
    ("unit_number", "vehicle_unit_number", "vehicles", "unit_number"),
    ("vin", "vehicle_vin", "vehicles", "vin"),
    ("driver_name", "driver_name", "drivers", "name"),
    ("driver_external_id", "driver_external_id", "drivers", "external_id"),
)
_LOAD = f"""
    WITH locked AS MATERIALIZED (
        SELECT id, company_id, status, revision, scheduled_start, arrived_at, vehicle_unit_number, vehicle_vin,
               driver_name, driver_external_id
        FROM routes WHERE id = ANY(%s) ORDER BY id {{lock}})
    SELECT r.id, r.revision, r.scheduled_start, r.arrived_at, c.import_window_days,
           r.vehicle_unit_number, r.vehicle_vin, r.driver_name, r.driver_external_id,
           {
    ", ".join(
        _CANDIDATES.format(kind=kind, column=column, table=table, stored=stored)
        for kind, column, table, stored in _REFERENCES
    )
}
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
    vehicle_id: str | None
    unit_number: str | None
    driver_id: str | None
    driver_name: str | None
    revision: int = 0
    """Of the input that was imported; 0 from a worker of an earlier release."""


def import_routes(
    connection: Connection, route_ids: Sequence[str], *, now: datetime, wait: bool = False
) -> tuple[dict[str, Outcome], list[Job]]:
    """One import attempt of each held route among `route_ids`, as one batch.

    Returns the outcome of each, and the jobs to enqueue after the commit. Routes that are not held are left alone,
    so that the same job may run twice, and so are those that another transaction has locked at this moment, unless told
    to `wait` for it.
    """
    held = (_LOAD_ALL if wait else _LOAD_FREE).all(connection, (list(route_ids),))
    if not held:
        return {}, []
    decided = [_decided(route, now) for route in held]
    stored = _store(connection, decided, now=now)  # looked at after the next statement: pipelined, they go together
    drafts = [route.id for route in decided if route.status is RouteStatus.DRAFT]
    jobs = recheck_trucks(connection, drafts, now=now)
    arrived = {route.id for route in held if route.arrived_at is not None}
    jobs += [build_plan(route_id) for route_id in drafts if route_id in arrived]
    return {row.id: _outcome(row) for row in stored}, jobs


class _Decided(Struct, frozen=True):
    """What is to be stored of a route."""

    id: str
    revision: int
    status: RouteStatus
    reason: PendingReason | None
    detail: str | None
    vehicle_id: str | None
    driver_id: str | None


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


def _references(*given: tuple[str, str | None, Sequence[str] | None]) -> list[Reference]:
    """Those that were pushed."""
    return [
        Reference(kind, value, candidates)
        for kind, value, candidates in given
        if value is not None and candidates is not None
    ]


class _Stored(NamedTuple):
    id: str
    revision: int
    status: str
    reason: str | None
    detail: str | None
    vehicle_id: str | None
    driver_id: str | None
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
                 AS o (id text, revision int, status text, reason text, detail text, vehicle_id text, driver_id text)
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
    """What has changed is written; all is returned, with what the vehicles and drivers are called."""
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


def record_failed_import(connection: Connection, route_id: str, *, most_attempts: int, now: datetime) -> Outcome | None:
    """An attempt failed unexpectedly: the route waits for the next one, or becomes `error` after the last.

    None: it was no longer held.
    """
    row = _FAIL.first(connection, {"most": most_attempts, "now": now, "id": route_id})
    if row is None:
        return None
    reason = PendingReason(row.pending_reason) if row.pending_reason is not None else None
    return Outcome(RouteStatus(row.status), reason, row.pending_detail, None, None, None, None, row.revision)


class _Revision(NamedTuple):
    id: str
    revision: int


_SETTLED = Statement(_Revision, "SELECT id, revision FROM routes WHERE id = ANY(%s) AND status <> ALL(%s)")


def revisions_settled(connection: Connection, route_ids: Iterable[str]) -> dict[str, int]:
    """The revision that each of these routes is at, without those that are still held."""
    return {row.id: row.revision for row in _SETTLED.all(connection, (list(route_ids), sorted(HELD)))}


_REASON = {"vehicles": PendingReason.VEHICLE_UNMAPPED, "drivers": PendingReason.DRIVER_UNMAPPED}
"""What a route waits for that names a record of the table in vain."""

# Asked for from the side of what lets them move: each company's window, each record and each mapping.
_ENTERED_THE_WINDOW = """
    SELECT r.id FROM companies c CROSS JOIN LATERAL (
        SELECT id FROM routes
        WHERE company_id = c.id AND environment IN ('live', 'sandbox') AND status = 'pending_window'
          AND scheduled_start <= %(now)s::timestamptz + c.import_window_days * interval '1 day'
        OFFSET 0) AS r
    WHERE c.retired_at IS NULL
"""
_FOUND_ITS_RECORD = """
    SELECT r.id FROM routes r JOIN {table} t ON t.company_id = r.company_id AND t.{stored} = r.{column}
    WHERE r.status = 'pending_mapping' AND r.pending_reason = '{reason}' AND r.{column} IS NOT NULL
      AND t.retired_at IS NULL
    UNION
    SELECT r.id FROM routes r JOIN mappings m ON m.company_id = r.company_id AND m.value = r.{column}
    WHERE r.status = 'pending_mapping' AND r.pending_reason = '{reason}' AND r.{column} IS NOT NULL
      AND m.kind = '{kind}'
"""
_MOVABLE = Statement(
    IdRow,
    " UNION ".join(
        (
            _ENTERED_THE_WINDOW,
            *(
                _FOUND_ITS_RECORD.format(kind=kind, column=column, table=table, stored=stored, reason=_REASON[table])
                for kind, column, table, stored in _REFERENCES
            ),
        )
    ),
)


def routes_that_can_move(connection: Connection, *, now: datetime) -> list[str]:
    """The five-minute pass: held routes whose start entered the window, or whose missing record now exists."""
    return [row.id for row in _MOVABLE.all(connection, {"now": now})]


_WAITING = {
    kind: Statement(
        IdRow,
        f"SELECT id FROM routes WHERE company_id = %s AND {column} = ANY(%s)"  # noqa: S608
        f" AND status = 'pending_mapping' AND pending_reason = '{_REASON[table]}' ORDER BY scheduled_start",
    )
    for kind, column, table, _ in _REFERENCES
}


def routes_waiting_for(connection: Connection, company_id: str, kind: MappingKind, values: Sequence[str]) -> list[str]:
    """Held routes of a company that name one of these values: one mapping made, and they are imported at once."""
    return [row.id for row in _WAITING[kind].all(connection, (company_id, list(values)))]


_EXPIRE = Command(
    """
    UPDATE routes SET status = 'error', pending_reason = NULL, pending_detail = NULL, retry_at = NULL,
        closed_reason = 'Held until ' || %(days)s::float8 || ' days past its start: ' || coalesce(pending_detail, ''),
        updated_at = clock_timestamp()
    WHERE id IN (
        SELECT id FROM routes
        WHERE status IN ('pending_mapping', 'pending_window')
          AND scheduled_start < %(now)s::timestamptz - %(days)s::float8 * interval '1 day'
        FOR UPDATE SKIP LOCKED)
    """
)


def expire_held_routes(connection: Connection, *, expiry_days: float, now: datetime) -> int:
    """Held routes whose start is long past become `error`, but for those not attempted yet. Returns how many."""
    return _EXPIRE.execute(connection, {"days": expiry_days, "now": now}).rowcount


class _Count(NamedTuple):
    due: int


_COUNT_DUE = Statement(
    _Count,
    "SELECT count(*) AS due FROM"
    " (SELECT FROM routes WHERE status = 'pending' AND retry_at <= %s ORDER BY retry_at LIMIT %s) AS due",
)
_TAKE_DUE = Statement(
    IdRow,
    "SELECT id FROM routes WHERE status = 'pending' AND retry_at <= %s"
    " ORDER BY retry_at LIMIT %s FOR UPDATE SKIP LOCKED",
)


def count_due_imports(connection: Connection, *, now: datetime, maximum: int) -> int:
    """How many pending routes are due for an import attempt, up to `maximum`: their job seems lost."""
    return _COUNT_DUE.one(connection, (now, maximum)).due


def take_due_imports(connection: Connection, *, now: datetime, limit: int = JOB_ITEMS) -> list[str]:
    """Pending routes that are due, longest first, for an import attempt in this transaction: nobody else takes them
    meanwhile."""
    return [row.id for row in _TAKE_DUE.all(connection, (now, limit))]
