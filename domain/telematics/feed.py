"""The feed of positions: finds their vehicles, drops useless ones, stores the rest, and makes trucks due."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from operator import itemgetter
from typing import NamedTuple
from uuid import UUID

from domain.contract.shapes import Position, RejectedPosition
from domain.database.connections import Connection, Tenant, as_array, as_json
from domain.database.statements import Command, NotNull, Statement
from domain.ids import read_id
from domain.lifecycle import Environment
from domain.telematics import arrivals
from domain.telematics.due_trucks import NewFixes, make_trucks_due
from domain.telematics.rechecks import FIRST_FIX_AFTER


class Feed(NamedTuple):
    """The result of one request to the feed."""

    accepted: int
    """Positions of known vehicles, dropped ones included."""
    rejected: list[RejectedPosition]
    dropped: Mapping[str, int]
    """Dropped positions, counted by reason."""


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
    live = tenant.environment is Environment.LIVE
    vehicles = _resolve(connection, tenant.company_id, [position for _, position in positions])
    rejected: list[RejectedPosition] = []
    dropped: Counter[str] = Counter()
    useful: dict[tuple[str, datetime], Position] = {}
    for (index, position), vehicle in zip(positions, vehicles, strict=True):
        if isinstance(vehicle, _Unknown):
            rejected.append(RejectedPosition(index=index, message=vehicle.fault))
        elif reason := arrivals.drop_reason(position, now=now, live=live):
            dropped[reason] += 1
        elif useful.setdefault((vehicle, position.recorded_at), position) is not position:
            dropped["repeated"] += 1
    new = _store(connection, tenant, dict(sorted(useful.items(), key=itemgetter(0))), now=now)
    if len(new) < len(useful):
        dropped["repeated"] += len(useful) - len(new)
    make_trucks_due(connection, tenant.environment, new, now=now, near_meters=near_meters, early=early)
    count_dropped(connection, tenant, dropped, now=now)
    return Feed(len(positions) - len(rejected), rejected, dropped)


class _Resolved(NamedTuple):
    """A reference, and the vehicle that it fits. `fits_several`: it fits other vehicles, too."""

    kind: str
    value: str
    vehicle_id: NotNull[str]
    fits_several: bool


_RESOLVE = Statement(
    _Resolved,
    """
    SELECT named.kind, named.value, coalesce(mapped.target_id, found.ids[1])::text AS vehicle_id,
           mapped.target_id IS NULL AND cardinality(found.ids) > 1 AS fits_several
    FROM jsonb_to_recordset(%(references)s) AS named (kind text, value text)
    LEFT JOIN mappings mapped
         ON mapped.company_id = %(company_id)s AND mapped.kind = named.kind AND mapped.value = named.value
    CROSS JOIN LATERAL (SELECT CASE named.kind
        WHEN 'vehicle_id' THEN ARRAY(SELECT id FROM vehicles
             WHERE company_id = %(company_id)s AND id = substr(named.value, 5)::uuid AND retired_at IS NULL)
        WHEN 'unit_number' THEN ARRAY(SELECT id FROM vehicles
             WHERE company_id = %(company_id)s AND unit_number = named.value AND retired_at IS NULL LIMIT 2)
        ELSE ARRAY(SELECT id FROM vehicles
             WHERE company_id = %(company_id)s AND vin = named.value AND retired_at IS NULL LIMIT 2)
        END AS ids OFFSET 0) AS found
    WHERE mapped.target_id IS NOT NULL OR cardinality(found.ids) > 0
    """,
)


class _Unknown(NamedTuple):
    """The reference fits no vehicle, or several."""

    fault: str
    """The sentence that says what is wrong with the references."""


_REFERENCES = {"vehicle_id": "vehicleId", "unit_number": "unitNumber", "vin": "vin"}
"""The kinds of references, and their names in the contract."""


def _references(position: Position) -> list[tuple[str, str]]:
    return [(kind, value) for kind in _REFERENCES if (value := getattr(position, kind)) is not None]


def _resolve(connection: Connection, company_id: UUID, positions: Sequence[Position]) -> list[str | _Unknown]:
    """The id of the vehicle that each position names. Mappings come before stored values."""
    references = {reference for position in positions for reference in _references(position)}
    found = _found(connection, company_id, references)
    return [_vehicle_of(_references(position), found) for position in positions]


def _found(
    connection: Connection, company_id: UUID, references: Collection[tuple[str, str]]
) -> dict[tuple[str, str], _Resolved]:
    asked = [
        {"kind": kind, "value": value}
        for kind, value in references
        if kind != "vehicle_id" or read_id("veh", value) is not None
    ]
    rows = _RESOLVE.all(connection, {"company_id": company_id, "references": as_json(asked)})
    return {(row.kind, row.value): row for row in rows}


def vehicles_named(
    connection: Connection, company_id: UUID, references: Collection[tuple[str, str]]
) -> dict[tuple[str, str], UUID]:
    """The vehicles named by references (`vehicle_id`, `unit_number` or `vin`, and a value), by the rule for positions
    of the feed. A reference that fits several vehicles is left out."""
    found = _found(connection, company_id, references)
    return {reference: UUID(row.vehicle_id) for reference, row in found.items() if not row.fits_several}


def _vehicle_of(references: Sequence[tuple[str, str]], found: Mapping[tuple[str, str], _Resolved]) -> str | _Unknown:
    """The one vehicle to which all references of a position lead, or what is wrong with them."""
    vehicles = set[str]()
    for reference in references:
        row = found.get(reference)
        if row is None or row.fits_several:
            fault = "unknown vehicle" if row is None else "fits more than one vehicle"
            return _Unknown(f"{_REFERENCES[reference[0]]}: {fault} {reference[1]!r}")
        vehicles.add(row.vehicle_id)
    return vehicles.pop() if len(vehicles) == 1 else _Unknown("the references name different vehicles")


class _Stored(NamedTuple):
    """The number of stored fixes, and which ones they are."""

    number: int
    vehicles: list[str] | None
    recorded_at: list[datetime] | None


_STORE = Statement(
    _Stored,
    """
    WITH fix AS MATERIALIZED (
        SELECT * FROM unnest(%(vehicles)s::uuid[], %(recorded_at)s::timestamptz[], %(latitudes)s::float8[],
                             %(longitudes)s::float8[], %(speeds_mph)s::float8[], %(fuel_percents)s::float8[],
                             %(accuracies_meters)s::float8[])
            AS fix (vehicle_id, recorded_at, latitude, longitude, speed_mph, fuel_percent, accuracy_meters)
    ), stored AS (
        INSERT INTO positions (company_id, environment, vehicle_id, recorded_at, latitude, longitude, speed_mph,
                               fuel_percent, accuracy_meters, received_at)
        SELECT %(company_id)s, %(environment)s, fix.*, %(now)s FROM fix
        ON CONFLICT DO NOTHING
        RETURNING vehicle_id, recorded_at
    ), track AS (
        INSERT INTO tracks AS t (company_id, vehicle_id, environment, oldest_at, newest_at, latitude, longitude,
                                 unprocessed_from, unprocessed_since)
        SELECT DISTINCT ON (vehicle_id) %(company_id)s::uuid, vehicle_id, %(environment)s,
               min(recorded_at) OVER (PARTITION BY vehicle_id), recorded_at, latitude, longitude,
               min(recorded_at) OVER (PARTITION BY vehicle_id), %(now)s
        FROM fix WHERE (SELECT count(*) FROM stored) > 0
        ORDER BY vehicle_id, recorded_at DESC
        ON CONFLICT (vehicle_id, environment) DO UPDATE SET
            oldest_at = least(t.oldest_at, excluded.oldest_at),
            newest_at = greatest(t.newest_at, excluded.newest_at),
            latitude = CASE WHEN excluded.newest_at >= t.newest_at THEN excluded.latitude ELSE t.latitude END,
            longitude = CASE WHEN excluded.newest_at >= t.newest_at THEN excluded.longitude ELSE t.longitude END,
            unprocessed_from = CASE WHEN t.newest_at < %(silent_before)s AND t.newest_at < excluded.newest_at
                THEN least(t.unprocessed_from, excluded.unprocessed_from) ELSE t.unprocessed_from END,
            unprocessed_since = CASE WHEN t.newest_at < %(silent_before)s AND t.newest_at < excluded.newest_at
                THEN coalesce(t.unprocessed_since, %(now)s) ELSE t.unprocessed_since END
    )
    SELECT count(*) AS number, array_agg(vehicle_id::text) FILTER (WHERE few) AS vehicles,
           array_agg(recorded_at) FILTER (WHERE few) AS recorded_at
    FROM stored, (SELECT count(*) < %(fixes)s AS few FROM stored) AS of_them
    """,
)
"""The first fix of a silent truck waits for the sweep, wherever it is, and no job is put for it: a route of the truck
may be imported at the same time, and then neither that import nor `make_trucks_due` sees the other. Ten seconds later
the import has committed. It has locked the tracks of other trucks, so that their fixes wait for its commit. A parked
truck's last fix that is sent again with new ones of other trucks is none: many systems send it every minute.

All fixes are stored before the first track is locked, because the statement counts them first. Otherwise two
requests with the same fixes would deadlock."""


def _store(connection: Connection, tenant: Tenant, fixes: NewFixes, *, now: datetime) -> NewFixes:
    """Stores the fixes, and each truck's newest one in its track, which stays locked. Returns the new fixes. Fixes come
    in the order of their keys, so two requests with the same fixes wait for each other and never deadlock."""
    if not fixes:
        return fixes
    positions = fixes.values()
    stored = _STORE.one(
        connection,
        {
            **tenant._asdict(),
            "vehicles": as_array(vehicle_id for vehicle_id, _ in fixes),
            "recorded_at": as_array(recorded_at for _, recorded_at in fixes),
            "latitudes": as_array(position.latitude for position in positions),
            "longitudes": as_array(position.longitude for position in positions),
            "speeds_mph": as_array(position.speed_mph for position in positions),
            "fuel_percents": as_array(position.fuel_percent for position in positions),
            "accuracies_meters": as_array(position.accuracy_meters for position in positions),
            "fixes": len(fixes),
            "silent_before": now - FIRST_FIX_AFTER if tenant.environment is Environment.LIVE else None,
            "now": now,
        },
    )
    if stored.number == len(fixes):
        return fixes
    return {fix: fixes[fix] for fix in zip(stored.vehicles or (), stored.recorded_at or (), strict=True)}


_COUNT_DROPPED = Command(
    """
    INSERT INTO dropped_fixes (company_id, environment, day, reason, count)
    SELECT %s, %s, %s, reason, count FROM unnest(%s::text[], %s::int[]) AS new (reason, count) ORDER BY reason
    ON CONFLICT (company_id, environment, day, reason)
    DO UPDATE SET count = dropped_fixes.count + excluded.count
    """
)


def count_dropped(connection: Connection, tenant: Tenant, dropped: Mapping[str, int], *, now: datetime) -> None:
    """Adds to the day's counts of dropped fixes, by reason."""
    if not dropped:
        return
    _COUNT_DROPPED.execute(connection, (*tenant, now.date(), list(dropped), list(dropped.values())))
