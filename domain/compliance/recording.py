"""Compares the fixes of completed trips with the fuel stops that their drivers were told, and stores what they show.

Positions are deleted long before anybody asks, so it is done once, soon after the trip. Fills and answers are stored
elsewhere; reports read them as they are by then."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from typing import NamedTuple

from domain.burn.levels import PURCHASE_PERCENT
from domain.burn.seen_purchases import AT_PUMP_MILES, FILLED_WITHIN, PlacedFix, seen_purchase
from domain.burn.shortfalls import FAST_MPH
from domain.burn.unseen_trips import EndedTrip, note_seen
from domain.database.connections import Connection
from domain.database.statements import Command, Statement
from domain.fills.stored_verdicts import ROUTE_SLACK, told_stops
from domain.fills.verdicts import PlannedStop
from domain.lifecycle import SeenStop
from domain.roads import Point, great_circle_miles

STOOD_FOR = timedelta(minutes=8)
"""A truck that sends no levels seems to have fueled where it stood for this long."""

_AROUND_DEGREES = 0.4
"""Fixes this far around a fuel stop tell its level before and behind."""

_MOST_FIXES = 50_000
"""Most fixes around a fuel stop that are read: half a day of one every second."""


class _Fix(NamedTuple):
    recorded_at: datetime
    latitude: float
    longitude: float
    fuel_percent: float | None


_IS_AROUND = """latitude BETWEEN %(latitude)s::float8 - %(around)s::float8 AND %(latitude)s::float8 + %(around)s::float8
    AND longitude BETWEEN %(longitude)s::float8 - %(around)s::float8 AND %(longitude)s::float8 + %(around)s::float8"""
_FIXES = Statement(
    _Fix,
    f"""
    SELECT recorded_at, latitude, longitude, fuel_percent FROM (
        SELECT *, lag(is_around) OVER by_time AS was_around, lead(is_around) OVER by_time AS will_be_around
        FROM (
            SELECT recorded_at, latitude, longitude, fuel_percent, {_IS_AROUND} AS is_around FROM positions
            WHERE company_id = %(company_id)s AND vehicle_id = %(vehicle_id)s AND environment = %(environment)s
              AND recorded_at BETWEEN %(since)s AND %(until)s AND NOT implausible) AS own
        WINDOW by_time AS (ORDER BY recorded_at)) AS own
    WHERE is_around OR was_around OR will_be_around
    ORDER BY recorded_at LIMIT %(most)s
    """,
)
"""The fixes around a fuel stop, and where the truck came in or went out the one beyond."""

_STORE = Command(
    """
    INSERT INTO told_stops (route_id, number, company_id, environment, planned_at, driver_id, plan_id, station_id,
        place, planned_gallons, planned_cents, seen)
    SELECT s.route_id, %(number)s, s.company_id, s.environment, s.planned_at, s.driver_id, %(plan_id)s, %(station_id)s,
        %(place)s, %(gallons)s, %(cents)s, %(seen)s
    FROM savings s JOIN drivers d ON d.company_id = s.company_id AND d.id = s.driver_id
    WHERE s.route_id = %(route_id)s AND num_nonnulls(d.name, d.external_id, d.display_name) > 0
    ON CONFLICT (route_id, number) DO NOTHING
    """
)
"""An erasure deletes the stops of a driver, so none are stored for one who was erased since the trip. He has no
names."""


def record_trip(connection: Connection, trip: EndedTrip, *, now: datetime) -> int:
    """Stores the fuel stops that the driver of a completed trip was told, each with what the fixes show of it. Returns
    how many they are."""
    stops = told_stops(connection, [trip.route_id]).get(trip.route_id, [])
    for number, stop in enumerate(stops, start=1):
        _STORE.execute(
            connection,
            {
                "route_id": trip.route_id,
                "number": number,
                "plan_id": stop.plan_id,
                "station_id": stop.station_id,
                "place": stop.name,
                "gallons": stop.gallons,
                "cents": stop.cents,
                "seen": seen_at(_fixes_around(connection, trip, stop), stop.place),
            },
        )
    note_seen(connection, [trip.route_id], now=now)
    return len(stops)


def seen_at(fixes: Sequence[PlacedFix], place: Point) -> SeenStop | None:
    """The outcome of a fuel stop by the fixes around it, in order of time; None where there are none, or where the
    truck may have stood there unseen."""
    around = [fix for fix in fixes if _is_around(fix, place)]
    if not around:
        return None
    purchase = seen_purchase(around, place)
    if purchase is not None and purchase.risen_percent is not None:
        if purchase.risen_percent < PURCHASE_PERCENT:
            return SeenStop.NOT_BOUGHT
        if purchase.stood >= FILLED_WITHIN or _may_have_stood(fixes, place, FILLED_WITHIN):
            return SeenStop.BOUGHT  # else it rose at another place on the way, between two levels
    if purchase is not None and purchase.stood >= STOOD_FOR:
        return SeenStop.STOOD
    return None if _may_have_stood(fixes, place, STOOD_FOR) else SeenStop.PASSED


def _is_around(fix: PlacedFix, place: Point) -> bool:
    away = (fix.place.latitude - place.latitude, fix.place.longitude - place.longitude)
    return all(abs(degrees) <= _AROUND_DEGREES for degrees in away)


def _may_have_stood(fixes: Sequence[PlacedFix], place: Point, span: timedelta) -> bool:
    """True if the fixes leave the truck so long to stand at the place, besides the way there and back."""
    away = [great_circle_miles(fix.place, place) for fix in fixes]
    far = [number for number, miles in enumerate(away) if miles > AT_PUMP_MILES]
    if not far or far[0] > 0 or far[-1] < len(fixes) - 1:
        return True
    for first, second in pairwise(far):
        one, other = fixes[first], fixes[second]
        way = (away[first] + away[second]) / FAST_MPH * timedelta(hours=1)
        if other.at - one.at - way < span:
            continue
        was_near = second > first + 1
        has_moved = great_circle_miles(one.place, other.place) > AT_PUMP_MILES
        if was_near or (has_moved and (_is_around(one, place) or _is_around(other, place))):
            return True
    return False


def _fixes_around(connection: Connection, trip: EndedTrip, stop: PlannedStop) -> list[PlacedFix]:
    asked = {
        "company_id": trip.company_id,
        "vehicle_id": trip.vehicle_id,
        "environment": trip.environment,
        "since": trip.started_at - ROUTE_SLACK,
        "until": trip.ended_at + ROUTE_SLACK,
        "latitude": stop.place.latitude,
        "longitude": stop.place.longitude,
        "around": _AROUND_DEGREES,
        "most": _MOST_FIXES,
    }
    rows = _FIXES.all(connection, asked)
    return [PlacedFix(row.recorded_at, Point(row.latitude, row.longitude), row.fuel_percent) for row in rows]
