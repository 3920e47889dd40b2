"""From pushed to held or draft: matching, the import window, the pass over held routes, and what waits for a mapping.

`decide` is the rule; the rest moves batches of routes through it, each in one transaction.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from msgspec import Struct
from psycopg import Cursor

from domain.database import Connection, as_json
from domain.fleet.matching import MappingKind, Match, Reference, match
from domain.jobs import JOB_ITEMS, SWEEP_GRACE, Job, build_plan
from domain.lifecycle import HELD, PendingReason, RouteStatus
from domain.telematics.rechecks import recheck_trucks


@dataclass(frozen=True, slots=True)
class Decision:
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
        SELECT id, company_id, environment, status, revision, scheduled_start, arrived_at, vehicle_unit_number,
               vehicle_vin, driver_name, driver_external_id
        FROM routes WHERE id = ANY(%s) ORDER BY id {{lock}})
    SELECT r.id, r.environment, r.status, r.revision, r.scheduled_start, r.arrived_at, c.import_window_days,
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


_LOAD_FREE = _LOAD.format(lock="FOR UPDATE SKIP LOCKED")
_LOAD_ALL = _LOAD.format(lock="FOR UPDATE")


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
    rows = connection.execute(_LOAD_ALL if wait else _LOAD_FREE, (list(route_ids),)).fetchall()
    decisions = []
    for row in rows:
        vehicle = _match_vehicle(row)
        driver = _match_driver(row)
        decision = decide(vehicle, driver, row.scheduled_start, row.import_window_days, now)
        decisions.append(
            {
                "id": row.id,
                "revision": row.revision,
                "status": decision.status,
                "reason": decision.reason,
                "detail": decision.detail,
                "vehicle_id": vehicle.id,
                "driver_id": driver.id,
            }
        )
    if not decisions:
        return {}, []
    stored = _store(connection, decisions, now=now)  # looked at after the next statement: pipelined, they go together
    drafts = [decision["id"] for decision in decisions if decision["status"] is RouteStatus.DRAFT]
    jobs = recheck_trucks(connection, drafts, now=now)
    arrived = {row.id for row in rows if row.arrived_at is not None}
    jobs += [build_plan(route_id) for route_id in drafts if route_id in arrived]
    return {row.id: _outcome(row) for row in stored}, jobs


def _store(connection: Connection, decisions: Sequence[dict[str, Any]], *, now: datetime) -> Cursor[Any]:
    """What has changed is written; all is returned, with what the vehicles and drivers are called."""
    return connection.execute(
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
                imported_at = CASE WHEN o.status = 'draft' THEN %(now)s END,
                retry_at = CASE WHEN o.status = 'draft' AND r.arrived_at IS NOT NULL THEN %(retry_at)s END,
                updated_at = clock_timestamp()
            FROM decided o
            WHERE r.id = ANY(%(ids)s) AND r.id = o.id
              AND (r.status, r.pending_reason, r.pending_detail, r.vehicle_id, r.driver_id)
                  IS DISTINCT FROM (o.status, o.reason, o.detail, o.vehicle_id, o.driver_id)
        )
        SELECT * FROM decided
        """,
        {
            "now": now,
            "retry_at": now + SWEEP_GRACE,
            "ids": [decision["id"] for decision in decisions],
            "decisions": as_json(decisions),
        },
    )


def _outcome(row: Any) -> Outcome:
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


def _match_vehicle(row: Any) -> Match:
    references = (
        ("unit number", row.vehicle_unit_number, row.unit_number_candidates),
        ("VIN", row.vehicle_vin, row.vin_candidates),
    )
    return match("vehicle", [Reference(*given) for given in references if given[1] is not None])


def _match_driver(row: Any) -> Match:
    references = (
        ("name", row.driver_name, row.driver_name_candidates),
        ("external id", row.driver_external_id, row.driver_external_id_candidates),
    )
    return match("driver", [Reference(*given) for given in references if given[1] is not None])


def record_failed_import(connection: Connection, route_id: str, *, most_attempts: int, now: datetime) -> Outcome | None:
    """An attempt failed unexpectedly: the route waits for the next one, or becomes `error` after the last.

    None: it was no longer held.
    """
    row = connection.execute(
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
                THEN %(now)s + least(interval '10 s' * 2 ^ least(attempts, 10), interval '15 min') END,
            updated_at = clock_timestamp()
        WHERE id = %(id)s AND status IN ('pending', 'pending_mapping', 'pending_window')
        RETURNING status, pending_reason, pending_detail, revision
        """,
        {"most": most_attempts, "now": now, "id": route_id},
    ).fetchone()
    if row is None:
        return None
    reason = PendingReason(row.pending_reason) if row.pending_reason is not None else None
    return Outcome(RouteStatus(row.status), reason, row.pending_detail, None, None, None, None, row.revision)


def revisions_settled(connection: Connection, route_ids: Iterable[str]) -> dict[str, int]:
    """The revision that each of these routes is at, without those that are still held."""
    rows = connection.execute(
        "SELECT id, revision FROM routes WHERE id = ANY(%s) AND status <> ALL(%s)", (list(route_ids), sorted(HELD))
    ).fetchall()
    return {row.id: row.revision for row in rows}


_REASON = {"vehicles": PendingReason.VEHICLE_UNMAPPED, "drivers": PendingReason.DRIVER_UNMAPPED}
"""What a route waits for that names a record of the table in vain."""

# Asked for from the side of what lets them move: each company's window, each record and each mapping.
_ENTERED_THE_WINDOW = """
    SELECT r.id FROM companies c CROSS JOIN LATERAL (
        SELECT id FROM routes
        WHERE company_id = c.id AND environment IN ('live', 'sandbox') AND status = 'pending_window'
          AND scheduled_start <= %(now)s + c.import_window_days * interval '1 day'
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
_MOVABLE = " UNION ".join(
    (
        _ENTERED_THE_WINDOW,
        *(
            _FOUND_ITS_RECORD.format(kind=kind, column=column, table=table, stored=stored, reason=_REASON[table])
            for kind, column, table, stored in _REFERENCES
        ),
    )
)


def routes_that_can_move(connection: Connection, *, now: datetime) -> list[str]:
    """The five-minute pass: held routes whose start entered the window, or whose missing record now exists."""
    return [row.id for row in connection.execute(_MOVABLE, {"now": now}).fetchall()]


def routes_waiting_for(connection: Connection, company_id: str, kind: MappingKind, values: Sequence[str]) -> list[str]:
    """Held routes of a company that name one of these values: one mapping made, and they are imported at once."""
    column, reason = next((column, _REASON[table]) for given, column, table, _ in _REFERENCES if given == kind)
    rows = connection.execute(
        f"SELECT id FROM routes WHERE company_id = %s AND {column} = ANY(%s)"  # noqa: S608
        f" AND status = 'pending_mapping' AND pending_reason = '{reason}' ORDER BY scheduled_start",
        (company_id, list(values)),
    ).fetchall()
    return [row.id for row in rows]


def expire_held_routes(connection: Connection, *, expiry_days: float, now: datetime) -> int:
    """Held routes whose start is long past become `error`, but for those not attempted yet. Returns how many."""
    return connection.execute(
        """
        UPDATE routes SET status = 'error', pending_reason = NULL, pending_detail = NULL, retry_at = NULL,
            closed_reason = 'Held until ' || %(days)s || ' days past its start: ' || coalesce(pending_detail, ''),
            updated_at = clock_timestamp()
        WHERE id IN (
            SELECT id FROM routes
            WHERE status IN ('pending_mapping', 'pending_window')
              AND scheduled_start < %(now)s - %(days)s * interval '1 day'
            FOR UPDATE SKIP LOCKED)
        """,
        {"days": expiry_days, "now": now},
    ).rowcount


def count_due_imports(connection: Connection, *, now: datetime, maximum: int) -> int:
    """How many pending routes are due for an import attempt, up to `maximum`: their job seems lost."""
    row = connection.execute(
        "SELECT count(*) AS due FROM"
        " (SELECT FROM routes WHERE status = 'pending' AND retry_at <= %s ORDER BY retry_at LIMIT %s) AS due",
        (now, maximum),
    ).fetchone()
    return int(row.due) if row is not None else 0


def take_due_imports(connection: Connection, *, now: datetime, limit: int = JOB_ITEMS) -> list[str]:
    """Pending routes that are due, longest first, for an import attempt in this transaction: nobody else takes them
    meanwhile."""
    rows = connection.execute(
        "SELECT id FROM routes WHERE status = 'pending' AND retry_at <= %s"
        " ORDER BY retry_at LIMIT %s FOR UPDATE SKIP LOCKED",
        (now, limit),
    ).fetchall()
    return [row.id for row in rows]
