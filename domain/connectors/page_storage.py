"""Stores a page in one transaction: the positions, by the rules of the feed, and the cursor after them.

So a process that is killed anywhere loses nothing and stores nothing twice: positions and cursor are stored together,
or the same page is asked for again."""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from domain.connectors.fixes import positions_of
from domain.connectors.kept_levels import fixes_with_levels
from domain.connectors.leases import CONNECTOR_COLUMNS, ConnectorRow, LeaseLost
from domain.connectors.vendor import VendorPage
from domain.connectors.vendor_vehicles import match_vehicles
from domain.contract.shapes import MAX_POSITIONS, Position
from domain.database.connections import Connection, Tenant, as_json
from domain.database.statements import Command, Query, Scalar, Statement
from domain.lifecycle import Environment
from domain.telematics.arrivals import FURTHEST_AHEAD
from domain.telematics.feed import store_positions


class FeedRules(NamedTuple):
    """The settings that decide which positions make a truck due."""

    near_meters: float
    early: timedelta


class StoredPage(NamedTuple):
    """The outcome of a page."""

    stored: int
    left_out: Counter[str]
    """Fixes and readings left out, counted by reason; `repeated` are fixes that were stored before."""
    newest_at: datetime | None


_HOLD = Scalar(
    UUID,
    "SELECT id FROM connectors WHERE company_id = %s AND id = %s AND lease_number = %s AND paused_at IS NULL"
    " FOR NO KEY UPDATE",
)
_TOOK = Command(
    """
    UPDATE connectors SET cursor = %(cursor)s, answered_at = %(now)s, due_at = %(due_at)s, fixes = fixes + %(stored)s,
        failures = CASE WHEN %(ends_fault)s THEN 0 ELSE failures END,
        failing_since = CASE WHEN %(ends_fault)s THEN NULL ELSE failing_since END,
        last_error = CASE WHEN %(ends_fault)s THEN NULL ELSE last_error END,
        what_to_do = CASE WHEN %(ends_fault)s THEN NULL ELSE what_to_do END,
        newest_at = greatest(newest_at, %(newest_at)s::timestamptz),
        cursor_doubted = cursor_doubted AND NOT %(is_fruitful)s,
        remark = coalesce(%(remark)s, remark),
        remarked_at = CASE WHEN %(remark)s::text IS NULL THEN remarked_at ELSE %(now)s END,
        left_out = CASE WHEN %(left_out)s::jsonb = '{}' THEN left_out ELSE left_out || (
            SELECT jsonb_object_agg(key, value::bigint + coalesce((left_out ->> key)::bigint, 0))
            FROM jsonb_each_text(%(left_out)s::jsonb)) END
    WHERE id = %(id)s
    """
)


def store_page(
    connection: Connection,
    leased: ConnectorRow,
    page: VendorPage,
    *,
    ends_fault: bool = True,
    due_at: datetime,
    rules: FeedRules,
    now: datetime,
) -> StoredPage:
    """Stores a page that a poll brought. `ends_fault`: the connector works again if it has failed. Raises LeaseLost,
    and stores nothing, if another process has the lease."""
    _require_lease(connection, leased)
    taken = _store(connection, leased.tenant, leased.id, page, rules, now)
    _TOOK.execute(
        connection,
        {
            "id": leased.id,
            "cursor": page.cursor,
            "now": now,
            "ends_fault": ends_fault,
            "due_at": due_at,
            "stored": taken.stored,
            "newest_at": taken.newest_at,
            "left_out": as_json(taken.left_out),
            "is_fruitful": bool(page.fixes or page.cursor is None),
            "remark": page.remark if taken.stored else None,  # else nothing came of it
        },
    )
    return taken


_FAILED = Command(
    "UPDATE connectors SET failures = failures + 1, failing_since = coalesce(failing_since, %s), last_error = %s,"
    " what_to_do = %s, due_at = %s, cursor = CASE WHEN %s THEN NULL ELSE cursor END,"
    " remark = CASE WHEN %s THEN %s ELSE remark END, remarked_at = CASE WHEN %s THEN %s ELSE remarked_at END"
    " WHERE id = %s"
)


def note_failure(
    connection: Connection,
    leased: ConnectorRow,
    error: str,
    what_to_do: str,
    *,
    due_at: datetime,
    forgets_cursor: bool = False,
    now: datetime,
) -> None:
    """Stores why a poll failed, and when the next one is due. Raises LeaseLost if another process has the lease."""
    _require_lease(connection, leased)
    remark = (forgets_cursor, error, forgets_cursor, now)
    _FAILED.execute(connection, (now, error, what_to_do, due_at, forgets_cursor, *remark, leased.id))


def _require_lease(connection: Connection, leased: ConnectorRow) -> None:
    """Locks the connector. A lease that has run out is still ours until another process takes it. Raises LeaseLost if
    one has."""
    if _HOLD.first(connection, (leased.company_id, leased.id, leased.lease_number)) is None:
        raise LeaseLost


def _store(
    connection: Connection,
    tenant: Tenant,
    connector_id: UUID,
    page: VendorPage,
    rules: FeedRules,
    now: datetime,
    *,
    names_parts: bool = False,
) -> StoredPage:
    vehicles = match_vehicles(
        connection, tenant.company_id, connector_id, page.vehicles, names_parts=names_parts, now=now
    )
    fixes = fixes_with_levels(connection, tenant, connector_id, page, vehicles, now=now)
    positions, left_out = positions_of(fixes, vehicles, now=now)
    left_out.update(page.refused)
    stored = 0
    for portion in _portions(positions):
        feed = store_positions(
            connection,
            tenant,
            list(enumerate(portion)),
            now=now,
            near_meters=rules.near_meters,
            early=rules.early,
        )
        left_out["unmatched"] += len(feed.rejected)  # a vehicle that was retired since it was compared
        left_out.update(feed.dropped)
        stored += feed.accepted - sum(feed.dropped.values())
    live = tenant.environment is Environment.LIVE
    # Otherwise a tracker's clock that runs ahead would hide for ever that the connector has fallen silent.
    times = [one.recorded_at for one in positions if not live or one.recorded_at <= now + FURTHEST_AHEAD]
    newest_at = max(times, default=None)
    return StoredPage(stored, +left_out, newest_at)


def _portions(positions: Sequence[Position]) -> list[Sequence[Position]]:
    """Portions in the size of the feed's statements."""
    return [positions[start : start + MAX_POSITIONS] for start in range(0, len(positions), MAX_POSITIONS)]


# --- What vendors send ---------------------------------------------------------------------------------------------


_FIND_RECEIVER = Statement(
    ConnectorRow,
    f"SELECT {CONNECTOR_COLUMNS} FROM connectors WHERE id = %s AND NOT EXISTS ("
    "SELECT FROM companies WHERE companies.id = connectors.company_id AND companies.retired_at IS NOT NULL)",
)


def find_receiver(connector_id: UUID) -> Query[ConnectorRow | None]:
    """The connector with this id, of any company that is not retired: a request names nothing else."""
    return Query(_FIND_RECEIVER, (connector_id,), lambda rows: rows[0] if rows else None)


_KEEP = Scalar(UUID, "SELECT id FROM connectors WHERE company_id = %s AND id = %s AND paused_at IS NULL FOR KEY SHARE")


def store_inbound_page(
    connection: Connection, receiver: ConnectorRow, page: VendorPage, *, rules: FeedRules, now: datetime
) -> StoredPage | None:
    """Stores a page that a vendor sent. A request that comes twice brings repeats. None if the connector was paused or
    removed meanwhile. Many requests of one connector are stored side by side: its row is locked against removal, and
    not changed."""
    if _KEEP.first(connection, (receiver.company_id, receiver.id)) is None:
        return None
    return _store(connection, receiver.tenant, receiver.id, page, rules, now, names_parts=True)


_NOTE_RECEIVED = Command(
    """
    UPDATE connectors SET answered_at = greatest(answered_at, %(now)s::timestamptz), fixes = fixes + %(stored)s,
        newest_at = greatest(newest_at, %(newest_at)s::timestamptz),
        left_out = CASE WHEN %(left_out)s::jsonb = '{}' THEN left_out ELSE left_out || (
            SELECT jsonb_object_agg(key, value::bigint + coalesce((left_out ->> key)::bigint, 0))
            FROM jsonb_each_text(%(left_out)s::jsonb)) END
    WHERE company_id = %(company_id)s AND id = %(id)s
    """
)


def note_received(connection: Connection, receiver: ConnectorRow, taken: StoredPage, *, now: datetime) -> None:
    """Adds to the counts that people see. It runs in a transaction of its own, because the one that stores positions
    holds tracks."""
    _NOTE_RECEIVED.execute(
        connection,
        {
            "company_id": receiver.company_id,
            "id": receiver.id,
            "now": now,
            "stored": taken.stored,
            "newest_at": taken.newest_at,
            "left_out": as_json(taken.left_out),
        },
    )
