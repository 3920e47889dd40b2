"""Simulated trips: the fixes that a truck's tracker sends on a road, and completed routes with such fixes."""

import random
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import numpy as np

from domain.database.connections import Connection, Tenant
from domain.driven_lanes import learning
from domain.driven_lanes.snapping import TimedPlace
from domain.roads import Point, Road
from domain.roads.highways import HighwayRoads, default_highway_finder
from tests.domain.helpers import pushed
from tests.factories import Fleet

MPH = 55.0

JOLIET = Point(41.462, -88.125)
MEMPHIS = Point(35.10, -89.95)
NASHVILLE = Point(36.16, -86.78)

ROADS = HighwayRoads()
QUICKEST = ROADS.through([JOLIET, MEMPHIS])
BY_NASHVILLE = ROADS.through([JOLIET, NASHVILLE, MEMPHIS])
"""The way of a fleet whose drivers prefer another road than the quickest one."""


def stop_at(place: Point, name: str = "A yard") -> dict[str, Any]:
    return {"name": name, "latitude": place.latitude, "longitude": place.longitude}


STOPS = [stop_at(JOLIET, "Joliet terminal"), stop_at(MEMPHIS, "Memphis yard")]


def fixes_along(
    road: Road,
    start: datetime,
    *,
    seed: int = 1,
    minutes_apart: float = 1.0,
    noise_meters: float = 15.0,
    gaps: Sequence[tuple[float, float]] = (),
    stations: Sequence[float] = (),
) -> list[TimedPlace]:
    """The fixes of a truck on a road; none between the miles of a gap. At each mile of `stations` the truck drives a
    mile off the road, stands for half an hour, and comes back."""
    rng = random.Random(seed)
    step = MPH * minutes_apart / 60
    fixes, now = [], start
    pending = sorted(stations)
    for mile in [*np.arange(0.0, road.distance_miles, step).tolist(), road.distance_miles]:
        north = [0.0]
        while pending and pending[0] <= mile:
            pending.pop(0)
            north = [0.0, 0.5, 1.0, 1.0, 0.5, 0.0]
        latitude, longitude = (float(np.interp(mile, road.line_miles, degrees)) for degrees in road.line.T)
        for off in north:
            at = TimedPlace(
                Point(
                    latitude + off / 69 + rng.gauss(0, noise_meters / 111_000),
                    longitude + rng.gauss(0, noise_meters / 85_000),
                ),
                now,
            )
            if not any(first < mile < last for first, last in gaps):
                fixes.append(at)
            now += timedelta(minutes=minutes_apart if off == 0 else 5)
    return fixes


def store_completed(
    connection: Connection,
    fleet: Fleet,
    tenant: Tenant,
    stops: Sequence[dict[str, Any]],
    start: datetime,
    end: datetime,
    *,
    truck: int = 0,
    distance_miles: float | None = None,
) -> UUID:
    """A completed route whose truck stood an hour at its first stop, and reached the last one at `end`."""
    route_id = pushed(connection, tenant, now=start, start=start, stops=list(stops))
    connection.execute(
        "UPDATE routes SET status = 'completed', pending_reason = NULL, vehicle_id = %s, driver_id = %s,"
        " imported_at = %s, arrived_at = %s, completed_at = %s, distance_miles = coalesce(%s, distance_miles)"
        " WHERE id = %s",
        (fleet.trucks[truck], fleet.drivers[0], start, start, end, distance_miles, route_id),
    )
    for stop, (arrived_at, departed_at) in enumerate([(start - timedelta(hours=1), start), (end, None)]):
        connection.execute(
            "INSERT INTO visits (route_id, company_id, environment, stop, arrived_at, departed_at)"
            " VALUES (%s, %s, %s, %s, %s, %s)",
            (route_id, *tenant, stop, arrived_at, departed_at),
        )
    return route_id


def store_fixes(
    connection: Connection,
    tenant: Tenant,
    vehicle_id: UUID,
    fixes: Iterable[tuple[datetime, Point, float | None]],
) -> None:
    """Stores fixes, each with a fuel level or None."""
    with connection.cursor() as cursor:
        cursor.executemany(
            "INSERT INTO positions (company_id, environment, vehicle_id, recorded_at, latitude, longitude,"
            " fuel_percent) VALUES (%s, %s, %s, %s, %s, %s, %s) ON CONFLICT DO NOTHING",
            [(*tenant, vehicle_id, at, *place, percent) for at, place, percent in fixes],
        )


def completed(
    connection: Connection,
    fleet: Fleet,
    tenant: Tenant,
    fixes: Sequence[TimedPlace],
    *,
    truck: int = 0,
    stops: Sequence[dict[str, Any]] = STOPS,
) -> UUID:
    """A route that its truck has driven with these fixes, and that waits to be read."""
    route_id = store_completed(connection, fleet, tenant, stops, fixes[0].at, fixes[-1].at, truck=truck)
    store_fixes(connection, tenant, fleet.trucks[truck], ((fix.at, fix.place, None) for fix in fixes))
    learning.note_completed(connection, [route_id])
    return route_id


def learn(connection: Connection, route_id: UUID) -> bool:
    """Read and store the road of one route, as the scheduler's pass does."""
    trip = learning.read_trip(connection, route_id)
    if trip is None:
        return False
    return learning.store_road(connection, trip, learning.road_of(trip, default_highway_finder(), ROADS))
