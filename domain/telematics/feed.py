"""Positions as they come in: their vehicles are found, useless ones are dropped, the rest is stored and marked."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple, TypedDict
from uuid import UUID

from domain.contract.shapes import Position, RejectedPosition
from domain.database import Connection, Tenant, as_json
from domain.ids import read_id
from domain.jobs import Job
from domain.lifecycle import Environment
from domain.statements import Command, Statement
from domain.telematics import arrivals
from domain.telematics.arrivals import Fix
from domain.telematics.marking import StoredFix, mark_trucks


class _NewFix(TypedDict):
    """A fix as `_STORE_FIXES` and `_STORE_NEWEST` read it."""

    vehicle_id: str
    recorded_at: str
    latitude: float
    longitude: float
    speed_mph: float | None
    fuel_percent: float | None
    accuracy_meters: float | None


class Feed(NamedTuple):
    """What became of one request to the feed."""

    accepted: int
    """Positions of known vehicles; also those that were dropped."""
    rejected: list[RejectedPosition]
    dropped: dict[str, int]
    """How many, by reason."""
    jobs: list[Job]
    """To enqueue after the commit."""


def store_positions(
    connection: Connection,
    tenant: Tenant,
    positions: Sequence[tuple[int, Position]],
    *,
    now: datetime,
    near_meters: float = 250.0,
    early: timedelta = timedelta(hours=12),
) -> Feed:
    """Stores the fixes of known vehicles; `positions` come with their index in the request.

    A position of an unknown vehicle is rejected. A useless one is accepted and counted, but not stored. `near_meters`
    is the arrival radius, `early` how long before its scheduled start a route can start.
    """
    vehicles = _resolve(connection, tenant.company_id, [position for _, position in positions])
    rejected: list[RejectedPosition] = []
    dropped: dict[str, int] = {}
    new: list[_NewFix] = []
    for (index, position), vehicle in zip(positions, vehicles, strict=True):
        if isinstance(vehicle, _Unknown):
            rejected.append(RejectedPosition(index=index, message=vehicle.fault))
            continue
        fix = Fix(
            position.recorded_at,
            position.latitude,
            position.longitude,
            accuracy_meters=position.accuracy_meters,
        )
        reason = arrivals.drop_reason(fix, now=now, live=tenant.environment is Environment.LIVE)
        if reason is not None:
            dropped[reason] = dropped.get(reason, 0) + 1
            continue
        new.append(
            {
                "vehicle_id": vehicle.hex,
                "recorded_at": position.recorded_at.isoformat(),
                "latitude": position.latitude,
                "longitude": position.longitude,
                "speed_mph": position.speed_mph,
                "fuel_percent": position.fuel_percent,
                "accuracy_meters": position.accuracy_meters,
            }
        )
    new.sort(key=lambda fix: (fix["vehicle_id"], fix["recorded_at"]))  # two requests wait, and never deadlock
    stored = _store(connection, tenant, new, now=now)
    if len(stored) < len(new):
        dropped["repeated"] = len(new) - len(stored)
    jobs = mark_trucks(connection, tenant.environment, stored, now=now, near_meters=near_meters, early=early)
    count_dropped(connection, tenant, dropped, now=now)
    return Feed(len(positions) - len(rejected), rejected, dropped, jobs)


class _Resolved(NamedTuple):
    """A reference to a vehicle: how it names it, the name, and at most two vehicles that it fits."""

    kind: str
    value: str
    candidates: list[UUID]


_RESOLVE = Statement(
    _Resolved,
    """
    SELECT named.kind, named.value,
           CASE named.kind WHEN 'vehicle_id'
               THEN ARRAY(SELECT id FROM vehicles
                          WHERE company_id = %(company_id)s AND id = substr(named.value, 5)::uuid
                            AND retired_at IS NULL)
           ELSE coalesce(
               (SELECT ARRAY[target_id] FROM mappings m
                WHERE m.company_id = %(company_id)s AND m.kind = named.kind AND m.value = named.value),
               CASE named.kind WHEN 'unit_number'
                   THEN ARRAY(SELECT id FROM vehicles
                              WHERE company_id = %(company_id)s AND unit_number = named.value
                                AND retired_at IS NULL LIMIT 2)
                   ELSE ARRAY(SELECT id FROM vehicles
                              WHERE company_id = %(company_id)s AND vin = named.value
                                AND retired_at IS NULL LIMIT 2) END
           ) END AS candidates
    FROM unnest(%(kinds)s::text[], %(values)s::text[]) AS named (kind, value)
    """,
)


class _Unknown(NamedTuple):
    """No vehicle, or several."""

    fault: str
    """What is wrong with the references."""


def _resolve(connection: Connection, company_id: UUID, positions: Sequence[Position]) -> list[UUID | _Unknown]:
    """The id of the vehicle that each position names. A mapping goes before the stored value."""
    references = {
        (kind, value)
        for position in positions
        for kind in ("vehicle_id", "unit_number", "vin")
        if (value := getattr(position, kind)) is not None
        and (kind != "vehicle_id" or read_id("veh", value) is not None)
    }
    rows = _RESOLVE.all(
        connection,
        {
            "company_id": company_id,
            "kinds": [kind for kind, _ in references],
            "values": [value for _, value in references],
        },
    )
    candidates = {(row.kind, row.value): row.candidates for row in rows}
    return [_vehicle_of(position, candidates) for position in positions]


def _vehicle_of(position: Position, candidates: Mapping[tuple[str, str], Sequence[UUID]]) -> UUID | _Unknown:
    """Each reference that a position has must lead to the same one vehicle."""
    found = set()
    for kind, label in (("vehicle_id", "vehicleId"), ("unit_number", "unitNumber"), ("vin", "vin")):
        value = getattr(position, kind)
        if value is None:
            continue
        ids = candidates.get((kind, value), ())
        if len(ids) != 1:
            return _Unknown(f"{label}: {'fits more than one vehicle' if ids else 'unknown vehicle'} {value!r}")
        found.add(ids[0])
    return found.pop() if len(found) == 1 else _Unknown("the references name different vehicles")


_STORE_FIXES = Statement(
    StoredFix,
    """
    INSERT INTO positions (company_id, environment, vehicle_id, recorded_at, latitude, longitude, speed_mph,
                           fuel_percent, accuracy_meters, received_at)
    SELECT %s, %s, vehicle_id, recorded_at, latitude, longitude, speed_mph, fuel_percent, accuracy_meters, %s
    FROM jsonb_to_recordset(%s) AS fix (vehicle_id uuid, recorded_at timestamptz, latitude float8,
         longitude float8, speed_mph float8, fuel_percent float8, accuracy_meters float8)
    ON CONFLICT DO NOTHING
    RETURNING vehicle_id, recorded_at, latitude, longitude
    """,
)

_STORE_NEWEST = Command(
    """
    INSERT INTO tracks AS t (company_id, vehicle_id, environment, oldest_at, newest_at, latitude, longitude)
    SELECT DISTINCT ON (vehicle_id) %(company_id)s::uuid, vehicle_id, %(environment)s,
           min(recorded_at) OVER (PARTITION BY vehicle_id), recorded_at, latitude, longitude
    FROM jsonb_to_recordset(%(rows)s) AS fix (vehicle_id uuid, recorded_at timestamptz, latitude float8,
         longitude float8)
    ORDER BY vehicle_id, recorded_at DESC
    ON CONFLICT (vehicle_id, environment) DO UPDATE SET
        oldest_at = least(t.oldest_at, excluded.oldest_at),
        newest_at = greatest(t.newest_at, excluded.newest_at),
        latitude = CASE WHEN excluded.newest_at >= t.newest_at THEN excluded.latitude ELSE t.latitude END,
        longitude = CASE WHEN excluded.newest_at >= t.newest_at THEN excluded.longitude ELSE t.longitude END
    """
)


def _store(connection: Connection, tenant: Tenant, fixes: Sequence[_NewFix], *, now: datetime) -> list[StoredFix]:
    """Stores the fixes, and each truck's newest one in its track, which is locked from now on. Returns those that were
    not there yet."""
    if not fixes:
        return []
    stored = _STORE_FIXES.all(connection, (*tenant, now, as_json(fixes)))
    if stored:
        _STORE_NEWEST.execute(connection, {**tenant._asdict(), "rows": as_json(fixes)})
    return stored


_COUNT_DROPPED = Command(
    """
    INSERT INTO dropped_fixes (company_id, environment, day, reason, count)
    SELECT %s, %s, %s, reason, count FROM unnest(%s::text[], %s::int[]) AS new (reason, count) ORDER BY reason
    ON CONFLICT (company_id, environment, day, reason)
    DO UPDATE SET count = dropped_fixes.count + excluded.count
    """
)


def count_dropped(connection: Connection, tenant: Tenant, dropped: dict[str, int], *, now: datetime) -> None:
    """Adds to the day's counts of dropped fixes, by reason."""
    if not dropped:
        return
    _COUNT_DROPPED.execute(connection, (*tenant, now.date(), list(dropped), list(dropped.values())))
