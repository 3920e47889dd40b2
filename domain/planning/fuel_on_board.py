"""The fuel in a truck's tank as of a moment, from the levels that it sent and the miles since.

A level of the last 24 hours counts. A truck that has not moved since keeps an older one; one that has moved has what
its miles left of it, where the way is known. Else nothing is known, and the policy's assumed level counts.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import pairwise
from typing import NamedTuple
from uuid import UUID

from domain.burn.levels import HIGHEST_PERCENT, NEXT_TO_NOTHING_PERCENT, NOT_AVAILABLE_PERCENT
from domain.database.connections import Connection
from domain.database.statements import NotNull, Statement
from domain.planning.gauges import Gauge, Reading, judge_newest_reading
from domain.planning.second_readings import (
    CountedReadings,
    count_readings,
    zero_counts,
)
from domain.roads import Point, great_circle_miles
from domain.roads.implausible_fixes import plausible_fixes

FRESH_FUEL = timedelta(hours=24)
"""Oldest level that counts for a truck that has driven an unknown way since."""

_FURTHEST_BACK = timedelta(days=14)
"""Oldest level that counts for a truck that has not moved since."""

_MOST_READINGS = 300
"""Most readings that are read, the newest: two and a half hours of a truck that sends its level every half minute."""

_MOST_SEARCHED = 20_000
"""Most readings that are searched where the newest say nothing: a week of a truck that sends its level every half
minute."""

_MOST_PLACES = 2_000
"""Most fixes by which the way since the level is measured."""

_UNMOVED_MILES = 0.5
"""A truck counts as unmoved within this distance: the position of a parked truck drifts, and it may be moved in the
yard."""

_LONGEST_GAP_MILES = 30.0
"""Longest gap between fixes over which the truck's way counts as known."""

_NOTED_BURN_PERCENT = 1.0
"""Least burned fuel worth showing. A truck that sends its level now and then burns less between a level and its newest
fix."""


@dataclass(frozen=True, slots=True)
class FuelOnBoard:
    """The level as of a moment.

    - `gauge` judges the readings that count; `newest` is the newest of them.
    - `is_confirmed`: another reading agrees with it.
    - `burned_percent` was burned over `miles` since.
    - `doubted` is the first later reading that waits for a second one; None where no reading waits.
    - `disputed_by` is the first later reading of all that do not follow from it, which need not agree."""

    gauge: Gauge
    newest: Reading
    is_confirmed: bool = True
    burned_percent: float = 0.0
    miles: float = 0.0
    doubted: Reading | None = None
    disputed_by: Reading | None = None

    @property
    def recorded_at(self) -> datetime:
        """The time of the newest reading that counts."""
        return self.gauge.recorded_at

    @property
    def percent(self) -> float:
        """The level of the truck's reading, believed or not."""
        return max(self.gauge.percent - self.burned_percent, 0.0)

    @property
    def level_percent(self) -> float:
        """The level to plan with."""
        return max(self.gauge.level_percent - self.burned_percent, 0.0)

    @property
    def is_believed(self) -> bool:
        return self.gauge.is_believed

    @property
    def gauge_works(self) -> bool:
        """True if the driver can fuel by the gauge: it is believed, and no later reading contradicts the level."""
        return self.is_believed and self.doubted is None

    @property
    def disputed_since(self) -> datetime | None:
        """When the reading came that contradicts the level, or that nothing else supports. None when the level is
        certain."""
        if self.disputed_by is not None:
            return _came_at(self.disputed_by)
        return None if self.is_confirmed else _came_at(self.newest)


def _came_at(reading: Reading) -> datetime:
    """The earlier of two clocks: a tracker sends late what it has kept, and the sandbox's time is simulated."""
    return min(reading.recorded_at, reading.received_at or reading.recorded_at)


class Tank(NamedTuple):
    """A truck with its mpg and tank size, by which its levels are judged."""

    vehicle_id: UUID
    environment: str
    capacity_gallons: float
    mpg: float


class _Level(NamedTuple):
    fuel_percent: NotNull[float]
    recorded_at: datetime
    latitude: float
    longitude: float
    speed_mph: float | None
    received_at: datetime
    accuracy_meters: float | None


_NEWEST = """
    SELECT fuel_percent, recorded_at, latitude, longitude, speed_mph, received_at, accuracy_meters FROM positions
    WHERE vehicle_id = %(vehicle_id)s AND environment = %(environment)s AND fuel_percent IS NOT NULL AND NOT implausible
      AND recorded_at BETWEEN %(as_of)s::timestamptz - %(back)s::interval AND %(as_of)s
    ORDER BY recorded_at DESC
"""
_LEVELS = Statement(_Level, f"{_NEWEST} LIMIT %(most)s")
_LEVELS_BEHIND_NOTHING = Statement(
    _Level,
    f"""
    SELECT fuel_percent, recorded_at, latitude, longitude, speed_mph, received_at, accuracy_meters
    FROM (SELECT *, fuel_percent <= %(nothing)s AND lag(fuel_percent, 1, 100) OVER by_time <= %(nothing)s
                    AND lead(fuel_percent, 1, 100) OVER by_time <= %(nothing)s AS is_amid_nothing
          FROM ({_NEWEST} LIMIT %(searched)s) AS newest
          WHERE fuel_percent <= %(highest)s AND round(fuel_percent::numeric, 1) <> ALL(%(not_available)s::numeric[])
          WINDOW by_time AS (ORDER BY recorded_at)) AS reading
    WHERE NOT is_amid_nothing ORDER BY recorded_at DESC LIMIT %(most)s
    """,
)
"""A tracker may send zeros all night while the engine is off. Of such a run the first and the last one are enough."""


class _Place(NamedTuple):
    recorded_at: datetime
    latitude: float
    longitude: float
    accuracy_meters: float | None


_WAY = Statement(
    _Place,
    """
    SELECT recorded_at, latitude, longitude, accuracy_meters
    FROM (SELECT recorded_at, latitude, longitude, accuracy_meters, row_number() OVER (ORDER BY recorded_at) AS number,
                 count(*) OVER () AS fixes
          FROM positions
          WHERE vehicle_id = %(vehicle_id)s AND environment = %(environment)s AND NOT implausible
            AND recorded_at > %(since)s AND recorded_at <= %(until)s) AS fix
    WHERE number = fixes OR (number - 1) %% (1 + fixes / %(most)s) = 0
    ORDER BY recorded_at
    """,
)


def read_fuel(
    connection: Connection, tank: Tank, as_of: datetime, *, newest_fix_at: datetime | None
) -> FuelOnBoard | None:
    """The fuel as of a moment; None where nothing is known. `newest_fix_at` is the time of the truck's newest fix by
    then."""
    found = _count(connection, _LEVELS, tank, as_of, FRESH_FUEL)
    if not found.counted and newest_fix_at is not None and newest_fix_at >= as_of - FRESH_FUEL:
        found = _count(connection, _LEVELS_BEHIND_NOTHING, tank, as_of, _FURTHEST_BACK)
    if not found.counted:
        return None
    gauge = judge_newest_reading(found.counted, mpg=tank.mpg, capacity_gallons=tank.capacity_gallons)
    doubted = next(iter(found.doubted), None)
    fuel = FuelOnBoard(gauge, found.counted[-1], found.is_confirmed, doubted=doubted, disputed_by=found.disputed_by)
    if newest_fix_at is None or newest_fix_at <= gauge.recorded_at:
        return fuel
    miles = _miles_since(connection, tank, fuel.newest, as_of)
    if miles is None:
        return None
    burned = 100 * miles / tank.mpg / tank.capacity_gallons
    if burned <= _NOTED_BURN_PERCENT:
        return fuel
    return replace(fuel, burned_percent=burned, miles=miles) if burned < gauge.level_percent else None


def _count(
    connection: Connection, levels: Statement[_Level], tank: Tank, as_of: datetime, back: timedelta
) -> CountedReadings:
    zero_is_level = zero_counts(tank.environment)
    asked = {
        **tank._asdict(),
        "as_of": as_of,
        "back": back,
        "most": _MOST_READINGS,
        "searched": _MOST_SEARCHED,
        "nothing": -1.0 if zero_is_level else NEXT_TO_NOTHING_PERCENT,
        "highest": HIGHEST_PERCENT,
        "not_available": list(NOT_AVAILABLE_PERCENT),
    }
    readings = [
        Reading(row.fuel_percent, row.recorded_at, Point(row.latitude, row.longitude), row.speed_mph, row.received_at)
        for row in plausible_fixes(levels.all(connection, asked)[::-1], tank.environment)
    ]
    return count_readings(readings, mpg=tank.mpg, capacity_gallons=tank.capacity_gallons, zero_counts=zero_is_level)


def _miles_since(connection: Connection, tank: Tank, reading: Reading, as_of: datetime) -> float | None:
    """The miles driven since a reading: 0 for a truck that has not moved, None where its way is not known."""
    span = {**tank._asdict(), "since": reading.recorded_at, "until": as_of, "most": _MOST_PLACES}
    way = plausible_fixes(_WAY.all(connection, span), tank.environment)
    return _known_miles(reading.place, [Point(row.latitude, row.longitude) for row in way])


def _known_miles(start: Point, way: Sequence[Point]) -> float | None:
    if all(great_circle_miles(start, place) <= _UNMOVED_MILES for place in way):
        return 0.0
    steps = [great_circle_miles(*step) for step in pairwise([start, *way])]
    return sum(steps) if max(steps) <= _LONGEST_GAP_MILES else None
