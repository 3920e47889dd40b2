"""The present of a company's trucks: where each is, its current route, its fuel, and what a dispatcher has to know of
it. The page Map shows it."""

import math
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from domain.database import Connection, Tenant
from domain.documents import FuelStopDocument, StopDocument, TimelineEntry
from domain.planning.next_fuel_stop import Milestone, index_of_next_fuel_stop
from domain.roads import Point, great_circle_miles
from domain.routes.reading.overview import (
    BEGINS_LOW,
    IS_LATE,
    IS_SILENT,
    NEXT_STOP,
    ON_ITS_WAY,
    RECENT,
    TRUCK_SILENT_AFTER,
)
from domain.statements import Statement
from domain.telematics.arrivals import STALE_DRAFT_AFTER

FIXES_WITHIN = timedelta(hours=1)
"""Heading and fuel are read from the fixes of the last hour before the newest one."""

OFF_ROAD_SHOWN_FOR = timedelta(hours=1)
"""A truck that was found off the road of its plan is shown so for this time, by the times of its own fixes. Whoever is
still off the road then has been found so again."""

_STANDING_MILES = 0.02
"""The noise of a standing truck's fixes: they tell no heading."""


class StopAhead(NamedTuple):
    name: str
    due: datetime | None
    """The end of its arrival window."""


class FuelStopAhead(NamedTuple):
    name: str
    latitude: float
    longitude: float
    gallons: float
    price: float
    """Dollars a gallon."""


class TruckRoute(NamedTuple):
    """The route that a truck is on, or its next draft."""

    id: UUID
    external_id: str
    status: str
    driver: str | None
    next_stop: StopAhead | None
    """None: it has reached all of them."""
    next_fuel_stop: FuelStopAhead | None


class TruckNow(NamedTuple):
    """A truck of the fleet. Without a fix there are no position, heading and level."""

    id: UUID
    unit_number: str | None
    fix_at: datetime | None
    place: Point | None
    heading: int | None
    """Degrees clockwise from north, from the last two fixes; None: it stands."""
    fuel_percent: float | None
    reserve_percent: float
    """The company's reserve."""
    route: TruckRoute | None
    is_late: bool
    is_silent: bool
    is_low: bool
    """Its level is at or below the company's reserve, or its plan began there."""
    is_off_road: bool


class _Truck(NamedTuple):
    id: UUID
    unit_number: str | None
    fix_at: datetime | None
    latitude: float | None
    longitude: float | None
    fuel_stops_passed: int | None
    fuel_percent: float | None
    reserve_percent: float
    before_latitude: float | None
    before_longitude: float | None
    route_id: UUID | None
    external_id: str | None
    status: str | None
    driver: str | None
    reached: int | None
    next_stop: StopDocument | None
    fuel_stops: list[FuelStopDocument] | None
    timeline: list[TimelineEntry] | None
    is_late: bool | None
    is_silent: bool | None
    is_low: bool | None
    is_off_road: bool | None


_ROUTE = "r.id, r.external_id, r.status, r.driver_id, r.plan_id, r.stops, r.replan, r.revision"
_OF_TRUCK = "r.company_id = v.company_id AND r.vehicle_id = v.id AND r.environment = %(environment)s"

_BEFORE = """f.company_id = v.company_id AND f.vehicle_id = v.id AND f.environment = %(environment)s
          AND f.recorded_at > t.newest_at - %(within)s::interval AND NOT f.implausible"""

_FLEET = f"""
    SELECT v.id, v.unit_number, t.newest_at AS fix_at, t.latitude, t.longitude,
           CASE WHEN t.watch_at IS NOT NULL THEN t.fuel_stops_passed END AS fuel_stops_passed,
           level.fuel_percent, c.reserve_percent, before.latitude AS before_latitude,
           before.longitude AS before_longitude,
           r.id AS route_id, r.external_id, r.status, d.name AS driver,
           next.number AS reached, next.stop AS next_stop, p.document->'stops' AS fuel_stops, p.timeline,
           ({ON_ITS_WAY} AND {IS_LATE}) AS is_late,
           ({ON_ITS_WAY} AND {IS_SILENT}) AS is_silent,
           (level.fuel_percent <= c.reserve_percent OR {ON_ITS_WAY} AND EXISTS (
               SELECT FROM messages m WHERE m.company_id = v.company_id AND m.route_id = r.id AND m.plan_id = r.plan_id
                 AND m.created_at > %(recent)s::timestamptz AND {BEGINS_LOW})) AS is_low,
           ({ON_ITS_WAY} AND (coalesce(r.replan->>'kind' = 'off_road', false)
               OR p.cause->>'kind' = 'off_road'
                  AND (p.cause->>'at')::timestamptz > t.newest_at - %(off_road)s::interval)) AS is_off_road
    FROM companies c JOIN vehicles v ON v.company_id = c.id
    LEFT JOIN tracks t ON t.company_id = v.company_id AND t.vehicle_id = v.id AND t.environment = %(environment)s
    LEFT JOIN LATERAL (
        SELECT f.latitude, f.longitude FROM positions f
        WHERE {_BEFORE} AND f.recorded_at < t.newest_at ORDER BY f.recorded_at DESC LIMIT 1
    ) AS before ON true
    LEFT JOIN LATERAL (
        SELECT f.fuel_percent FROM positions f
        WHERE {_BEFORE} AND f.recorded_at <= t.newest_at AND f.fuel_percent IS NOT NULL
        ORDER BY f.recorded_at DESC LIMIT 1
    ) AS level ON true
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
"""  # noqa: S608 (constants)

_WHOLE_FLEET = Statement(_Truck, _FLEET)
_ONE_TRUCK = Statement(_Truck, f"{_FLEET} AND v.id = %(vehicle_id)s")


def read_fleet(connection: Connection, tenant: Tenant, *, now: datetime) -> list[TruckNow]:
    """Every truck of the company that is not retired, in the order of unit numbers."""
    rows = _WHOLE_FLEET.all(connection, _asked(tenant, now))
    return sorted(map(_truck_of, rows), key=lambda truck: (truck.unit_number or "", truck.id))


def read_truck(connection: Connection, tenant: Tenant, vehicle_id: UUID, *, now: datetime) -> TruckNow | None:
    """None where the company has no such truck in service."""
    row = _ONE_TRUCK.first(connection, {**_asked(tenant, now), "vehicle_id": vehicle_id})
    return _truck_of(row) if row is not None else None


def _asked(tenant: Tenant, now: datetime) -> dict[str, object]:
    return {
        **tenant._asdict(),
        "now": now,
        "silent": now - TRUCK_SILENT_AFTER,
        "recent": now - RECENT,
        "stale": STALE_DRAFT_AFTER,
        "within": FIXES_WITHIN,
        "off_road": OFF_ROAD_SHOWN_FOR,
    }


def _truck_of(row: _Truck) -> TruckNow:
    place = _point(row.latitude, row.longitude)
    before = _point(row.before_latitude, row.before_longitude)
    return TruckNow(
        row.id,
        row.unit_number,
        row.fix_at,
        place,
        _heading(before, place) if before is not None and place is not None else None,
        row.fuel_percent,
        row.reserve_percent,
        _route_of(row, place),
        is_late=bool(row.is_late),
        is_silent=bool(row.is_silent),
        is_low=bool(row.is_low),
        is_off_road=bool(row.is_off_road),
    )


def _point(latitude: float | None, longitude: float | None) -> Point | None:
    return Point(latitude, longitude) if latitude is not None and longitude is not None else None


def _heading(before: Point, place: Point) -> int | None:
    """The initial course of the great circle from one fix to the next, in whole degrees."""
    if great_circle_miles(before, place) < _STANDING_MILES:
        return None
    here, there = math.radians(before.latitude), math.radians(place.latitude)
    across = math.radians(place.longitude - before.longitude)
    east = math.sin(across) * math.cos(there)
    north = math.cos(here) * math.sin(there) - math.sin(here) * math.cos(there) * math.cos(across)
    return round(math.degrees(math.atan2(east, north))) % 360


def _route_of(row: _Truck, place: Point | None) -> TruckRoute | None:
    if row.route_id is None or row.external_id is None or row.status is None:
        return None
    stop = row.next_stop
    ahead = None
    if stop is not None:
        end = stop.get("arrivalWindow", {}).get("end")
        ahead = StopAhead(stop["name"], datetime.fromisoformat(end) if end else None)
    return TruckRoute(row.route_id, row.external_id, row.status, row.driver, ahead, _next_fuel_stop(row, place))


def _next_fuel_stop(row: _Truck, place: Point | None) -> FuelStopAhead | None:
    fuel_stops, reached, stop = row.fuel_stops, row.reached or 0, row.next_stop
    if not fuel_stops or stop is None:
        return None
    miles: Mapping[int, float | None] = {entry["stop"]: entry["mile"] for entry in row.timeline or ()}
    index = index_of_next_fuel_stop(
        place,
        [Milestone(Point(one["latitude"], one["longitude"]), one["milesFromOrigin"]) for one in fuel_stops],
        next_stop=Milestone(Point(stop["latitude"], stop["longitude"]), miles.get(reached)),
        reached_mile=miles.get(reached - 1) or 0.0,
        passed=row.fuel_stops_passed or 0,
    )
    if index is None:
        return None
    found = fuel_stops[index]
    return FuelStopAhead(
        found["name"], found["latitude"], found["longitude"], found["gallonsToFill"], found["pricePerGallon"]
    )
