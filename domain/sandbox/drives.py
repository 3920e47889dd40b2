"""Drives: simulated trucks drive routes of the sandbox by themselves, from draft to completed.

A drive is a row. Each turn of a drive is a step of `turns.take_turn`, stored in one transaction with the positions that
it posts, so a turn that is cut off or taken twice does no harm. Positions go through the feed as a tracker's do;
nothing here plans, sends or changes a route. This module alone writes `sandbox_drives`."""

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

import msgspec
from psycopg.errors import UniqueViolation

from domain.accounts.policy import AUTODRIVE_OFF
from domain.burn.figures import DEFAULT_CAPACITY_GALLONS, DEFAULT_MPG
from domain.contract.shapes import Position
from domain.database.connections import Connection, Tenant, as_json
from domain.database.fence import is_at_work
from domain.database.statements import Command, NotNull, OwnedRow, Scalar, Statement, in_turns
from domain.documents import FuelPlanDocument, StopDocument, TimelineEntry
from domain.lifecycle import Environment, RouteStatus
from domain.magic_values import DEFAULT_SPEEDUP, DRAFT_TO_DRIVE, DriveWish, drive_wish
from domain.sandbox.turns import RouteToDrive, StoredTruck, Turn, first_fuel_percent, take_turn
from domain.telematics.arrivals import STALE_DRAFT_AFTER
from domain.telematics.feed import store_positions
from domain.telemetry.logs import get_logger

log = get_logger(__name__)

BEFORE_START = timedelta(minutes=5)
"""A truck comes to its first stop this long before the scheduled start."""
_FAILED_WAIT = timedelta(minutes=1)

# --- Begun -----------------------------------------------------------------------------------------------------

_DRAFT = """
    (SELECT r.id, r.company_id, r.vehicle_id, r.reference, r.external_id, r.revision, r.scheduled_start, r.imported_at,
            {is_stale} AS is_stale
     FROM routes r WHERE r.vehicle_id = truck.id AND {condition}
       AND r.scheduled_start {compared} truck.free_at - %(stale)s::interval
     ORDER BY r.scheduled_start, r.id LIMIT 1)
"""


def _next_draft(condition: str) -> str:
    """SQL of the next draft of a `truck`. A draft more than a day past its start gives way to the others."""
    timely = _DRAFT.format(condition=condition, is_stale="false", compared=">=")
    stale = _DRAFT.format(condition=condition, is_stale="true", compared="<")
    return f"SELECT * FROM ({timely} UNION ALL {stale}) AS next ORDER BY is_stale LIMIT 1"


_TRUCKS = """
    SELECT v.id, greatest(%(now)s::timestamptz, t.newest_at + interval '30 seconds') AS free_at
    FROM vehicles v LEFT JOIN tracks t ON t.vehicle_id = v.id AND t.environment = 'sandbox'
    WHERE {condition} AND v.retired_at IS NULL AND coalesce(t.newest_at, '-infinity') < '9000-01-01'
      AND NOT EXISTS (SELECT FROM sandbox_drives d WHERE d.vehicle_id = v.id AND d.ended_at IS NULL)
      AND NOT EXISTS (SELECT FROM routes r WHERE r.vehicle_id = v.id AND r.environment = 'sandbox'
                      AND (r.status IN ('planned','active') OR r.status = 'draft' AND r.arrived_at IS NOT NULL))
"""
"""Trucks without a drive under way in the sandbox, and the earliest simulated time of their next fix."""

_EVERY_DRAFT = "r.environment = 'sandbox' AND r.status = 'draft' AND r.arrived_at IS NULL"
_DRIVEN_COMPANIES = "FROM companies WHERE sandbox_autodrive <> 'off' AND retired_at IS NULL"
_TRUCKS_OF_DRIVEN_COMPANIES = _TRUCKS.format(condition=f"v.company_id IN (SELECT id {_DRIVEN_COMPANIES})")
_TRUCKS_WITH_DRAFT_TO_DRIVE = _TRUCKS.format(
    condition=f"v.id IN (SELECT vehicle_id FROM routes WHERE {DRAFT_TO_DRIVE})"
)


_ANY_STARTABLE = Scalar(
    NotNull[bool],
    f"SELECT EXISTS (SELECT {_DRIVEN_COMPANIES}) OR EXISTS (SELECT FROM routes WHERE {DRAFT_TO_DRIVE})",
)
"""Says whether there may be a draft that can be driven. PostgreSQL plans the statement that finds them for 6 ms, and a
scheduler asks every few seconds."""


class _Startable(NamedTuple):
    """A draft that can be driven now."""

    id: UUID
    company_id: UUID
    vehicle_id: UUID
    reference: str | None
    external_id: str
    revision: int
    simulated_at: datetime
    reserve_percent: float
    sandbox_autodrive: str


_STARTABLE = Statement(
    _Startable,
    f"""
    WITH next AS (
        SELECT draft.*, greatest(truck.free_at, draft.scheduled_start - %(before)s::interval) AS simulated_at
        FROM ({_TRUCKS_OF_DRIVEN_COMPANIES}) AS truck CROSS JOIN LATERAL ({_next_draft(_EVERY_DRAFT)}) AS draft
        UNION
        SELECT draft.*, greatest(truck.free_at, draft.scheduled_start - %(before)s::interval)
        FROM ({_TRUCKS_WITH_DRAFT_TO_DRIVE}) AS truck CROSS JOIN LATERAL ({_next_draft(DRAFT_TO_DRIVE)}) AS draft
    ), free AS (
        SELECT DISTINCT ON (next.vehicle_id) next.*, next.imported_at AS since FROM next
        WHERE next.scheduled_start < '9000-01-01'
          AND NOT EXISTS (SELECT FROM sandbox_drives d WHERE d.route_id = next.id AND d.revision = next.revision)
          AND NOT EXISTS (
            SELECT FROM routes r WHERE r.vehicle_id = next.vehicle_id AND {_EVERY_DRAFT} AND r.id <> next.id
              AND r.scheduled_start >= next.simulated_at - %(stale)s::interval
              AND r.scheduled_start <= next.simulated_at + %(early)s::interval
              AND (next.is_stale OR (r.scheduled_start, r.id) < (next.scheduled_start, next.id)))
          AND NOT (next.is_stale AND EXISTS (
            SELECT FROM routes r WHERE r.vehicle_id = next.vehicle_id AND {_EVERY_DRAFT}
              AND (r.scheduled_start, r.id) < (next.scheduled_start, next.id)))
        ORDER BY next.vehicle_id, next.is_stale, next.scheduled_start, next.id
    )
    SELECT due.id, due.company_id, due.vehicle_id, due.reference, due.external_id, due.revision, due.simulated_at,
           c.reserve_percent, c.sandbox_autodrive
    FROM (SELECT free.*, row_number() OVER (PARTITION BY company_id ORDER BY since) AS turn FROM free) AS due
    JOIN companies c ON c.id = due.company_id AND c.retired_at IS NULL AND {is_at_work("c.id")}
    ORDER BY due.turn, due.since LIMIT %(limit)s
    """,
)
"""Drafts that are the next of their truck, the companies in turn."""

_BEGIN = Command(
    """
    INSERT INTO sandbox_drives AS d (route_id, company_id, environment, vehicle_id, revision, own_speedup,
                                     simulated_at, moves_at, truck, began_at)
    SELECT r.id, r.company_id, r.environment, r.vehicle_id, r.revision, %(speedup)s, %(simulated_at)s, %(now)s,
           %(truck)s, %(now)s
    FROM (SELECT * FROM routes WHERE id = %(id)s AND environment = 'sandbox' AND status = 'draft'
          AND arrived_at IS NULL AND vehicle_id = %(vehicle_id)s AND revision = %(revision)s
          FOR KEY SHARE SKIP LOCKED) AS r
    WHERE NOT EXISTS (SELECT FROM sandbox_drives o WHERE o.vehicle_id = r.vehicle_id AND o.ended_at IS NULL)
    ON CONFLICT (route_id) DO UPDATE SET
        vehicle_id = excluded.vehicle_id, revision = excluded.revision, own_speedup = excluded.own_speedup,
        simulated_at = excluded.simulated_at, moves_at = excluded.moves_at, truck = excluded.truck,
        began_at = excluded.began_at, plan_id = NULL, ended_at = NULL
    WHERE d.ended_at IS NOT NULL AND d.revision <> excluded.revision
    """
)


def begin_drives(connection: Connection, *, early: timedelta, limit: int, now: datetime) -> int:
    """Begins drives of drafts, at most `limit`. Returns how many. `early` is how long before its start a route can
    start."""
    if not _ANY_STARTABLE.one(connection):
        return 0
    times = {"now": now, "stale": STALE_DRAFT_AFTER, "before": BEFORE_START, "early": early}
    begun = 0
    for route in sorted(_STARTABLE.all(connection, {**times, "limit": limit})):
        wish = drive_wish(route.reference, route.external_id)
        truck = StoredTruck(fuel_percent=first_fuel_percent(wish, route.reserve_percent))
        beginning = {
            "id": route.id,
            "vehicle_id": route.vehicle_id,
            "revision": route.revision,
            "speedup": _own_speedup(wish, route.sandbox_autodrive),
            "simulated_at": route.simulated_at,
            "truck": as_json(truck),
            "now": now,
        }
        with suppress(UniqueViolation), connection.transaction():  # another leader has begun a drive of this truck
            begun += _BEGIN.execute(connection, beginning).rowcount
    return begun


def _own_speedup(wish: DriveWish | None, company_speed: str) -> int | None:
    """The speedup in a route's name, or the usual one for a drive that the route's name asks for where the company's
    sandbox does not drive by itself. None: the company's speed counts."""
    if wish is None or (wish.speedup is None and company_speed != AUTODRIVE_OFF):
        return None
    return wish.speedup or DEFAULT_SPEEDUP


# --- Under way -------------------------------------------------------------------------------------------------

_DUE = Statement(
    OwnedRow,
    in_turns(
        "id, company_id",
        "SELECT d.route_id AS id, d.company_id, d.moves_at AS since FROM sandbox_drives d"
        " JOIN companies c ON c.id = d.company_id"
        f" WHERE d.ended_at IS NULL AND d.moves_at <= %s AND c.retired_at IS NULL AND {is_at_work('c.id')}"
        " AND (d.own_speedup IS NOT NULL OR c.sandbox_autodrive <> 'off')",
    ),
)


def due_drives(connection: Connection, *, limit: int, now: datetime) -> dict[UUID, list[UUID]]:
    """Routes whose truck makes its next fix by now, by company: those that have waited longest first, the companies in
    turn."""
    due: dict[UUID, list[UUID]] = {}
    for row in _DUE.all(connection, (now, limit)):
        due.setdefault(row.company_id, []).append(row.id)
    return due


class _Drive(NamedTuple):
    route_id: UUID
    vehicle_id: UUID
    own_speedup: int | None
    drive_plan_id: UUID | None
    simulated_at: datetime
    moves_at: datetime
    truck: dict[str, object]
    has_truck: bool | None
    status: str
    arrived_at: datetime | None
    plan_id: UUID | None
    reference: str | None
    external_id: str
    stops: list[StopDocument]
    mpg: float
    capacity_gallons: float
    sandbox_autodrive: str
    document: FuelPlanDocument | None
    timeline: list[TimelineEntry] | None
    explanation: bytes | None


_LOCK = Statement(
    _Drive,
    f"""
    SELECT d.route_id, d.vehicle_id, d.own_speedup, d.plan_id AS drive_plan_id, d.simulated_at, d.moves_at, d.truck,
           coalesce(r.vehicle_id = d.vehicle_id, r.status = 'pending') AS has_truck, r.status, r.arrived_at,
           r.plan_id, r.reference, r.external_id, r.stops, coalesce(v.mpg, %(mpg)s) AS mpg,
           coalesce(v.fuel_tank_capacity_gallons, %(capacity_gallons)s) AS capacity_gallons, c.sandbox_autodrive,
           p.document, road.timeline, road.explanation
    FROM sandbox_drives d
    JOIN routes r ON r.id = d.route_id
    JOIN companies c ON c.id = d.company_id
    JOIN vehicles v ON v.id = d.vehicle_id
    LEFT JOIN plans p ON p.id = r.plan_id
    LEFT JOIN plans road ON road.id = coalesce(d.plan_id, r.plan_id)
    WHERE d.company_id = %(company_id)s AND d.environment = 'sandbox' AND d.route_id = ANY(%(ids)s)
      AND d.ended_at IS NULL AND d.moves_at <= %(now)s AND {is_at_work("d.company_id")}
    ORDER BY d.route_id FOR UPDATE OF d SKIP LOCKED
    """,
)

_STORE = Command(
    "UPDATE sandbox_drives SET plan_id = %s, simulated_at = %s, moves_at = %s, truck = %s, ended_at = %s"
    " WHERE route_id = %s"
)
_WAIT = Command("UPDATE sandbox_drives SET moves_at = %s WHERE route_id = %s")


def drive_on(
    connection: Connection,
    company_id: UUID,
    route_ids: Sequence[UUID],
    *,
    near_meters: float,
    early: timedelta,
    now: datetime,
) -> None:
    """Drives on the trucks of these routes of a company: posts the fixes that are due. `near_meters` and `early` are
    those of the feed. Drives that another transaction has locked are left alone."""
    drives = _LOCK.all(
        connection,
        {
            "company_id": company_id,
            "ids": list(route_ids),
            "mpg": DEFAULT_MPG,
            "capacity_gallons": DEFAULT_CAPACITY_GALLONS,
            "now": now,
        },
    )
    positions: list[Position] = []
    for drive in drives:
        turn = _turn(drive, now)
        if turn is None:
            _WAIT.execute(connection, (now + _FAILED_WAIT, drive.route_id))
            continue
        positions += turn.positions
        _STORE.execute(
            connection,
            (
                turn.plan_id,
                turn.simulated_at,
                turn.moves_at,
                as_json(turn.truck),
                now if turn.has_ended else None,
                drive.route_id,
            ),
        )
    if positions:
        tenant = Tenant(company_id, Environment.SANDBOX)
        store_positions(connection, tenant, list(enumerate(positions)), now=now, near_meters=near_meters, early=early)


def _turn(drive: _Drive, now: datetime) -> Turn | None:
    """The next turn of a drive. None where there is none, or where it fails: other drives go on."""
    wish = drive_wish(drive.reference, drive.external_id)
    if drive.own_speedup is None and drive.sandbox_autodrive == AUTODRIVE_OFF:  # since a moment ago
        return None
    try:
        speedup = drive.own_speedup or int(drive.sandbox_autodrive.removesuffix("x"))
        route = RouteToDrive(
            id=drive.route_id,
            vehicle_id=drive.vehicle_id,
            stops=drive.stops,
            status=drive.status if drive.has_truck else None,
            has_arrived=drive.arrived_at is not None,
            plan_id=drive.plan_id,
            fuel_stops=drive.document["stops"] if drive.document is not None else [],
            road_plan_id=drive.drive_plan_id,
            timeline=drive.timeline or [],
            explanation=drive.explanation,
            leaves_road=wish is not None and wish.leaves_road,
            mpg=drive.mpg,
            capacity_gallons=drive.capacity_gallons,
        )
        truck = msgspec.convert(drive.truck, StoredTruck)
        return take_turn(route, truck, drive.simulated_at, drive.moves_at, speedup=speedup, now=now)
    except Exception:
        log.exception("autodrive.failed", route_id=drive.route_id)
        return None


# --- Read ------------------------------------------------------------------------------------------------------


class ShownDrive(NamedTuple):
    """The drive of a route of the sandbox, as the console shows it."""

    own_speedup: int | None
    company_speed: str
    simulated_at: datetime | None
    """The simulated time of the drive; None before it has begun."""
    ended_at: datetime | None
    status: str
    """Status and names of the route."""
    reference: str | None
    external_id: str

    @property
    def speed(self) -> str:
        """The speed, such as `60x`, or `off` for a truck that stands still."""
        return f"{self.own_speedup}x" if self.own_speedup is not None else self.company_speed

    @property
    def is_awaited(self) -> bool:
        """True if a simulated truck drives the route soon, or once an earlier route of its truck has ended."""
        is_wanted = self.company_speed != AUTODRIVE_OFF or drive_wish(self.reference, self.external_id) is not None
        return self.simulated_at is None and self.status == RouteStatus.DRAFT and is_wanted


_READ = Statement(
    ShownDrive,
    """
    SELECT d.own_speedup, c.sandbox_autodrive AS company_speed, d.simulated_at, d.ended_at, r.status, r.reference,
           r.external_id
    FROM routes r JOIN companies c ON c.id = r.company_id LEFT JOIN sandbox_drives d ON d.route_id = r.id
    WHERE r.company_id = %s AND r.environment = 'sandbox' AND r.id = %s
    """,
)


def read_drive(connection: Connection, company_id: UUID, route_id: UUID) -> ShownDrive | None:
    """The drive of a route: awaited, under way or ended. None for a route that no simulated truck drives by itself."""
    drive = _READ.first(connection, (company_id, route_id))
    return drive if drive is not None and (drive.simulated_at is not None or drive.is_awaited) else None
