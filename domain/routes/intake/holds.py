"""Finds held routes that can be imported now, wait for a certain value, are due again, or are too old."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from domain.database.connections import Connection
from domain.database.fence import is_at_work
from domain.database.statements import NotNull, OwnedRow, Scalar, Statement
from domain.fleet.matching import MappingKind
from domain.fleet.spelling_rules import SpellingRule
from domain.lifecycle import PendingReason
from domain.queue.jobs import JOB_ITEMS
from domain.routes.intake.route_matching import REFERENCES
from domain.routes.transitions import end

_REASON = {"vehicles": PendingReason.VEHICLE_UNMAPPED, "drivers": PendingReason.DRIVER_UNMAPPED}
"""The reason of a hold for a reference that fits no record of the table."""

# There may be very many held routes, so the pass does not read them all. It starts from what lets a route move (each
# company's window, each vehicle and driver, each mapping) and finds the routes by an index.
_ENTERED_THE_WINDOW = """
    SELECT r.id, r.company_id FROM companies c CROSS JOIN LATERAL (
        SELECT id, company_id FROM routes
        WHERE company_id = c.id AND environment IN ('live', 'sandbox') AND status = 'pending_window'
          AND scheduled_start <= %(now)s::timestamptz + c.import_window_days * interval '1 day'
        OFFSET 0) AS r
    WHERE c.retired_at IS NULL
"""
_FOUND_ITS_RECORD = """
    SELECT r.id, r.company_id FROM routes r JOIN {table} t ON t.company_id = r.company_id AND t.{stored} = r.{column}
    WHERE r.status = 'pending_mapping' AND r.pending_reason = '{reason}' AND r.{column} IS NOT NULL
      AND t.retired_at IS NULL
    UNION
    SELECT r.id, r.company_id FROM routes r JOIN mappings m ON m.company_id = r.company_id AND m.value = r.{column}
    WHERE r.status = 'pending_mapping' AND r.pending_reason = '{reason}' AND r.{column} IS NOT NULL
      AND m.kind = '{kind}'
"""
_SPELLED_BY_RULE = f"""
    SELECT r.id, r.company_id FROM spelling_rules s
    JOIN vehicles t ON t.company_id = s.company_id AND t.retired_at IS NULL AND t.unit_number IS NOT NULL
    JOIN routes r ON r.company_id = t.company_id
                 AND r.vehicle_unit_number = s.written_before || t.unit_number || s.written_after
    WHERE r.status = 'pending_mapping' AND r.pending_reason = '{PendingReason.VEHICLE_UNMAPPED}'
"""
_ANY_HELD = Scalar(
    NotNull[bool], "SELECT EXISTS (SELECT FROM routes WHERE status IN ('pending_mapping', 'pending_window'))"
)
_MOVABLE = Statement(
    OwnedRow,
    " UNION ".join(
        (
            _ENTERED_THE_WINDOW,
            _SPELLED_BY_RULE,
            *(_FOUND_ITS_RECORD.format(**one._asdict(), reason=_REASON[one.table]) for one in REFERENCES),
        )
    ),
)


def routes_that_can_move(connection: Connection, *, now: datetime) -> dict[UUID, UUID]:
    """Held routes whose start has entered the window, or whose missing record now exists, each with its company; for
    the five-minute pass. Nothing is looked for where no route is held: PostgreSQL plans that for 3 ms."""
    return dict(_MOVABLE.all(connection, {"now": now})) if _ANY_HELD.one(connection) else {}


_WAITING = {
    kind: Scalar(
        UUID,
        f"SELECT id FROM routes WHERE company_id = %s AND {column} = ANY(%s)"
        f" AND status = 'pending_mapping' AND pending_reason = '{_REASON[table]}' ORDER BY scheduled_start",
    )
    for kind, column, table, _ in REFERENCES
}


def routes_waiting_for(
    connection: Connection, company_id: UUID, kind: MappingKind, values: Sequence[str]
) -> list[UUID]:
    """A company's held routes that name one of these values. When a mapping or a record is made for a value, the caller
    has them imported at once."""
    return _WAITING[kind].all(connection, (company_id, list(values)))


_WAITING_FOR_RULE = Statement(
    OwnedRow,
    f"{_SPELLED_BY_RULE} AND s.company_id = %s AND s.written_before = %s AND s.written_after = %s"
    " ORDER BY r.scheduled_start",
)


def routes_spelled_by(connection: Connection, company_id: UUID, rule: SpellingRule) -> list[UUID]:
    """A company's held routes whose unit number means a vehicle, or several, by this stored rule."""
    return [row.id for row in _WAITING_FOR_RULE.all(connection, (company_id, rule.before, rule.after))]


_EXPIRE = Scalar(
    UUID,
    f"""
    UPDATE routes SET status = 'error', pending_reason = NULL, pending_detail = NULL, retry_at = NULL,
        closed_reason = 'Held until ' || %(days)s::float8 || ' days past its start: ' || coalesce(pending_detail, ''),
        updated_at = clock_timestamp()
    WHERE id IN (
        SELECT id FROM routes
        WHERE status IN ('pending_mapping', 'pending_window')
          AND scheduled_start < %(now)s::timestamptz - %(days)s::float8 * interval '1 day'
          AND {is_at_work("routes.company_id")}
        FOR UPDATE SKIP LOCKED)
    RETURNING id
    """,
)


def expire_held_routes(connection: Connection, *, expiry_days: float, now: datetime) -> int:
    """Routes held for a mapping or their window become `error` when their start is long past. Returns how many."""
    parameters = {"days": expiry_days, "now": now}
    return len(end(connection, _EXPIRE, parameters, "The route was closed before delivery: it was held", now=now))


class _Count(NamedTuple):
    company_id: UUID
    due: int


_COUNT_DUE = Statement(
    _Count,
    "SELECT company_id, least(count(*), %s) AS due FROM routes WHERE status = 'pending' AND retry_at <= %s"
    " GROUP BY company_id",
)
_TAKE_DUE = Scalar(
    UUID,
    "SELECT id FROM routes WHERE status = 'pending' AND retry_at <= %(now)s"
    " AND (%(company_id)s::uuid IS NULL OR company_id = %(company_id)s)"
    " ORDER BY retry_at LIMIT %(limit)s FOR UPDATE SKIP LOCKED",
)


def count_due_imports(connection: Connection, *, now: datetime, maximum: int) -> dict[UUID, int]:
    """Each company's number of pending routes that are due for an import attempt, counted up to `maximum`. Their job
    seems lost, or the pause after a failed attempt is over."""
    return dict(_COUNT_DUE.all(connection, (maximum, now)))


def take_due_imports(
    connection: Connection, *, now: datetime, company_id: UUID | None = None, limit: int = JOB_ITEMS
) -> list[UUID]:
    """Pending routes that are due, longest waiting first; with `company_id` only that company's. They stay locked for
    an import attempt in this transaction."""
    return _TAKE_DUE.all(connection, {"now": now, "company_id": company_id, "limit": limit})
