"""The present of a company's trucks: where each is, its current route, its fuel, and what a dispatcher has to know. The
page Map shows it."""

import math
from collections.abc import Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import NamedTuple
from uuid import UUID

import msgspec

from domain.database.connections import Connection, Tenant
from domain.database.statements import Scalar, Statement
from domain.planning.next_fuel_stop import Milestone, index_of_next_fuel_stop
from domain.queue.jobs import in_batches
from domain.roads import Point, great_circle_miles
from domain.roads.sphere import point_or_none
from domain.routes.reading.on_their_way import (
    BEGINS_LOW,
    GETS_LOW,
    IS_LATE,
    IS_OFF_ROAD,
    IS_SILENT,
    NEXT_STOP,
    OFF_ROAD_SHOWN_FOR,
    ON_ITS_WAY,
    RECENT,
    TRUCK_SILENT_AFTER,
)
from domain.telematics.arrivals import STALE_DRAFT_AFTER
from domain.telematics.readings import LastFixes, read_last_fixes

_PORTION = 1_000

_STANDING_MILES = 0.02
"""Distance within the noise of a standing truck's fixes, which therefore has no heading."""


class StopAhead(NamedTuple):
    name: str
    due: datetime | None
    """The end of its arrival window."""


class FuelStopAhead(NamedTuple):
    name: str
    latitude: float
    longitude: float
    gallons: float
    fill_to_percent: int | None
    """The level to fill to; None where the gauge does not tell it."""
    price: float
    """Dollars a gallon."""


class RouteOfTruck(NamedTuple):
    """The route that a truck is on, or its next draft."""

    id: UUID
    external_id: str
    status: str
    driver: str | None
    next_stop: StopAhead | None
    """The next stop; None once it has reached all of them."""
    next_fuel_stop: FuelStopAhead | None


class TruckNow(NamedTuple):
    """A truck of the fleet. Without a fix it has no position, heading and level."""

    id: UUID
    unit_number: str | None
    fix_at: datetime | None
    place: Point | None
    heading: int | None
    """Degrees clockwise from north, from the last two fixes; None if it stands."""
    fuel_percent: float | None
    reserve_percent: float
    """The company's reserve."""
    route: RouteOfTruck | None
    is_late: bool
    is_silent: bool
    is_low: bool
    """True if its plan began low on fuel and no fuel stop is behind it, if its fuel does not last to its next purchase,
    or if its level is at or below the floor of the policy. An ordinary plan arrives above that."""
    is_off_road: bool


class _Truck(NamedTuple):
    id: UUID
    unit_number: str | None
    fix_at: datetime | None
    latitude: float | None
    longitude: float | None
    fuel_stops_passed: int | None
    reserve_percent: float
    route_id: UUID | None
    external_id: str | None
    status: str | None
    driver: str | None
    reached: int | None
    next_stop: str | None
    fuel_stops: str | None
    timeline: str | None
    """JSON, like the two fields after it: psycopg takes several times as long to read it as msgspec, which skips
    unneeded parts."""
    is_late: bool | None
    is_silent: bool | None
    begins_low: bool | None
    gets_low: bool | None
    burn_floor_percent: float
    is_off_road: bool | None


class _Stop(msgspec.Struct, rename="camel"):
    name: str
    latitude: float
    longitude: float
    arrival_window: dict[str, str] = {}


class _FuelStop(msgspec.Struct, rename="camel"):
    name: str
    latitude: float
    longitude: float
    miles_from_origin: float
    gallons_to_fill: float
    price_per_gallon: float
    fill_to_percent: int | None = None


class _Mile(msgspec.Struct):
    stop: int
    mile: float | None


_read_stop = msgspec.json.Decoder(_Stop).decode
_read_fuel_stops = msgspec.json.Decoder(list[_FuelStop]).decode
_read_timeline = msgspec.json.Decoder(list[_Mile]).decode

_ROUTE = (
    "r.id, r.external_id, r.status, r.vehicle_id, r.environment, r.driver_id, r.plan_id, r.stops, r.replan, r.revision"
)
_OF_TRUCK = "r.company_id = v.company_id AND r.vehicle_id = v.id AND r.environment = %(environment)s"

_TRUCKS = Statement(
    _Truck,
    f"""
    SELECT v.id, v.unit_number, t.newest_at AS fix_at, t.latitude, t.longitude,
           CASE WHEN t.watch_at IS NOT NULL THEN t.fuel_stops_passed END AS fuel_stops_passed,
           c.reserve_percent,
           r.id AS route_id, r.external_id, r.status, d.name AS driver,
           next.number AS reached, next.stop::text AS next_stop, (p.document->'stops')::text AS fuel_stops,
           p.timeline::text AS timeline,
           ({ON_ITS_WAY} AND {IS_LATE}) AS is_late,
           ({ON_ITS_WAY} AND {IS_SILENT}) AS is_silent,
           ({ON_ITS_WAY} AND EXISTS (
               SELECT FROM messages m WHERE m.company_id = v.company_id AND m.route_id = r.id AND m.plan_id = r.plan_id
                 AND m.created_at > %(recent)s::timestamptz AND {BEGINS_LOW})) AS begins_low,
           ({ON_ITS_WAY} AND {GETS_LOW}) AS gets_low, c.burn_floor_percent,
           ({ON_ITS_WAY} AND {IS_OFF_ROAD}) AS is_off_road
    FROM companies c JOIN vehicles v ON v.company_id = c.id
    LEFT JOIN tracks t ON t.company_id = v.company_id AND t.vehicle_id = v.id AND t.environment = %(environment)s
    LEFT JOIN LATERAL (
        SELECT * FROM (
            (SELECT {_ROUTE}, 0 AS turn, r.scheduled_start FROM routes r
             WHERE {_OF_TRUCK}
               AND (r.status IN ('planned','active') OR r.status = 'draft' AND r.arrived_at IS NOT NULL)
             ORDER BY coalesce(r.arrived_at, r.scheduled_start), r.id LIMIT 1)
            UNION ALL
            (SELECT {_ROUTE}, 1, r.scheduled_start FROM routes r
             WHERE {_OF_TRUCK} AND r.status = 'draft' AND r.arrived_at IS NULL
               AND r.scheduled_start >= %(now)s::timestamptz - %(stale)s::interval
             ORDER BY r.scheduled_start, r.id LIMIT 1)
            UNION ALL
            (SELECT {_ROUTE}, 2, r.scheduled_start FROM routes r
             WHERE {_OF_TRUCK} AND r.status = 'draft' AND r.arrived_at IS NULL
               AND r.scheduled_start < %(now)s::timestamptz - %(stale)s::interval
             ORDER BY r.scheduled_start, r.id LIMIT 1)
        ) AS open_route ORDER BY turn LIMIT 1
    ) AS r ON true
    LEFT JOIN LATERAL (
        SELECT number, r.stops->number AS stop FROM (SELECT {NEXT_STOP} AS number OFFSET 0) AS first_ahead
    ) AS next ON r.id IS NOT NULL
    LEFT JOIN drivers d ON d.company_id = v.company_id AND d.id = r.driver_id
    LEFT JOIN plans p ON p.company_id = v.company_id AND p.id = r.plan_id AND {ON_ITS_WAY}
    WHERE c.id = %(company_id)s AND v.company_id = %(company_id)s AND v.retired_at IS NULL
      AND v.id = ANY(%(vehicle_ids)s)
    """,
)

_IN_ORDER = Scalar(
    UUID, "SELECT id FROM vehicles WHERE company_id = %s AND retired_at IS NULL ORDER BY unit_number, id"
)


def truck_ids(connection: Connection, company_id: UUID) -> list[UUID]:
    """The company's trucks that are not retired, in the order of their unit numbers."""
    return _IN_ORDER.all(connection, (company_id,))


def read_trucks(
    connection: Connection,
    tenant: Tenant,
    vehicle_ids: Sequence[UUID],
    *,
    before: Mapping[UUID, TruckNow] = MappingProxyType({}),
    now: datetime,
) -> list[TruckNow]:
    """The trucks among these that the company has in service, in the same order. They are read in portions, so that no
    statement of a large fleet runs into the time limit of pages. A truck without a new fix keeps the heading and level
    that were read `before`."""
    asked = {
        **tenant._asdict(),
        "now": now,
        "silent": now - TRUCK_SILENT_AFTER,
        "recent": now - RECENT,
        "stale": STALE_DRAFT_AFTER,
        "off_road": OFF_ROAD_SHOWN_FOR,
    }
    rows: dict[UUID, _Truck] = {}
    for portion in in_batches(vehicle_ids, _PORTION):
        rows |= {row.id: row for row in _TRUCKS.all(connection, {**asked, "vehicle_ids": portion})}
    new = {
        row.id: row.fix_at
        for row in rows.values()
        if row.fix_at is not None and (row.id not in before or before[row.id].fix_at != row.fix_at)
    }
    last = read_last_fixes(connection, tenant, new)
    return [
        _truck_of(rows[vehicle_id], last.get(vehicle_id), before.get(vehicle_id))
        for vehicle_id in vehicle_ids
        if vehicle_id in rows
    ]


def read_fleet(
    connection: Connection, tenant: Tenant, *, before: Mapping[UUID, TruckNow] = MappingProxyType({}), now: datetime
) -> list[TruckNow]:
    """Every truck of the company, in the order of their unit numbers; `before` as in `read_trucks`."""
    return read_trucks(connection, tenant, truck_ids(connection, tenant.company_id), before=before, now=now)


def read_truck(connection: Connection, tenant: Tenant, vehicle_id: UUID, *, now: datetime) -> TruckNow | None:
    """A truck of the company; None if it has no such truck in service."""
    return next(iter(read_trucks(connection, tenant, [vehicle_id], now=now)), None)


def _truck_of(row: _Truck, last: LastFixes | None, before: TruckNow | None) -> TruckNow:
    place = point_or_none(row.latitude, row.longitude)
    if last is None:  # it sent nothing new
        heading, fuel_percent = (before.heading, before.fuel_percent) if before is not None else (None, None)
    else:
        came_from = point_or_none(last.latitude, last.longitude)
        heading = _heading(came_from, place) if came_from is not None and place is not None else None
        fuel_percent = last.fuel_percent
    return TruckNow(
        row.id,
        row.unit_number,
        row.fix_at,
        place,
        heading,
        fuel_percent,
        row.reserve_percent,
        _route_of(row, place),
        is_late=bool(row.is_late),
        is_silent=bool(row.is_silent),
        is_low=bool(row.begins_low or row.gets_low)
        or (fuel_percent is not None and fuel_percent <= row.burn_floor_percent),
        is_off_road=bool(row.is_off_road),
    )


def _heading(before: Point, place: Point) -> int | None:
    """The initial course of the great circle from one fix to the next, in whole degrees."""
    if great_circle_miles(before, place) < _STANDING_MILES:
        return None
    here, there = math.radians(before.latitude), math.radians(place.latitude)
    across = math.radians(place.longitude - before.longitude)
    east = math.sin(across) * math.cos(there)
    north = math.cos(here) * math.sin(there) - math.sin(here) * math.cos(there) * math.cos(across)
    return round(math.degrees(math.atan2(east, north))) % 360


def _route_of(row: _Truck, place: Point | None) -> RouteOfTruck | None:
    if row.route_id is None or row.external_id is None or row.status is None:
        return None
    stop = _read_stop(row.next_stop) if row.next_stop is not None else None
    ahead = None
    if stop is not None:
        end = stop.arrival_window.get("end")
        ahead = StopAhead(stop.name, datetime.fromisoformat(end) if end else None)
    return RouteOfTruck(row.route_id, row.external_id, row.status, row.driver, ahead, _next_fuel_stop(row, stop, place))


def _next_fuel_stop(row: _Truck, stop: _Stop | None, place: Point | None) -> FuelStopAhead | None:
    if row.fuel_stops is None or stop is None:
        return None
    fuel_stops, reached = _read_fuel_stops(row.fuel_stops), row.reached or 0
    miles = {entry.stop: entry.mile for entry in _read_timeline(row.timeline or "[]")}
    index = index_of_next_fuel_stop(
        place,
        [Milestone(Point(one.latitude, one.longitude), one.miles_from_origin) for one in fuel_stops],
        next_stop=Milestone(Point(stop.latitude, stop.longitude), miles.get(reached)),
        reached_mile=miles.get(reached - 1) or 0.0,
        passed=row.fuel_stops_passed or 0,
    )
    if index is None:
        return None
    found = fuel_stops[index]
    return FuelStopAhead(
        found.name,
        found.latitude,
        found.longitude,
        found.gallons_to_fill,
        found.fill_to_percent,
        found.price_per_gallon,
    )
