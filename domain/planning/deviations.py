"""The rules for a truck that deviates from its plan: it has left the plan's road, or has passed a planned fuel stop
without fueling.

**Off the road** is a truck whose fixes, three or more in a row and over 15 minutes or more, all lie more than 10 miles
from the plan's road and from the ways to its fuel stops. One far fix says nothing. Two with a gap between them say
nothing either.

**How far a truck has come** is the first mile where the road passes its fix, after the last stop that the truck
reached. So on a road that comes back the same way, no stop of the way back seems passed on the way out.

**A stop is passed without fueling** where two readings, more than 10 miles beyond it, show less than half of the rise
that was planned there, less what the way to the stop and back burns, and less than the plan left in the tank there.
Where the first two of them disagree, the third decides. So what is fueled up to 50 miles before a planned stop counts
for it, and a truck that fueled more anywhere before has passed nothing. Where the rise is too small for a gauge to
show, or the truck sends no level, the rule finds nothing.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np

from domain.burn.levels import NEXT_TO_NOTHING_PERCENT, is_percentage
from domain.clock import later
from domain.planning.gauges import BELIEVABLE_RISE_PERCENT
from domain.roads import Point, Road, great_circle_miles
from domain.roads.sphere import Array
from domain.stations.corridor import StationPass, passes_by

OFF_ROAD_MILES = 10.0
OFF_ROAD_TIME = timedelta(minutes=15)
OFF_ROAD_FIXES = 3

PASSED_MILES = 10.0
NEAR_STOP_MILES = 50.0
LEAST_RISE_PERCENT = 10.0
"""Percent of capacity. A smaller purchase cannot be told from the noise of a gauge."""
READINGS_NEEDED = 2
"""One odd reading proves nothing. Of three readings, two agree."""
_MOST_READINGS = 3
SILENT_MILES = 25.0
"""A stop counts as settled when the truck has sent no level this far beyond `PASSED_MILES`."""
SILENT_TIME = timedelta(minutes=2)
"""Shortest time until a truck without readings is compared again."""

FASTEST_DEVIATING_MPH = 120.0
_FURTHEST_MILES = 500.0


class TrackedFix(NamedTuple):
    recorded_at: datetime
    latitude: float
    longitude: float
    fuel_percent: float | None = None


def with_levels_of_gauge(
    fixes: Sequence[TrackedFix], *, start_percent: float | None, zero_counts: bool
) -> list[TrackedFix]:
    """The fixes since the plan's start, without the levels that say nothing: values that are no percentage, and next to
    nothing, unless the tank was nearly empty before or 0 % is a level like any other (`zero_counts`)."""
    found, before = list[TrackedFix](), start_percent
    for fix in fixes:
        percent = fix.fuel_percent
        if percent is not None:
            was_low = before is not None and before <= BELIEVABLE_RISE_PERCENT
            shows_something = zero_counts or percent > NEXT_TO_NOTHING_PERCENT or was_low
            percent = percent if shows_something and is_percentage(percent) else None
            before = percent if percent is not None else before
        found.append(fix._replace(fuel_percent=percent))
    return found


class FuelStop(NamedTuple):
    """A fuel stop of the plan that the driver has."""

    name: str
    place: Point
    mile: float | None
    """The mile on the road that the truck is compared with; None where the stop is not on that road."""
    percent: float
    """The planned purchase, in percent of capacity."""
    filled_percent: float = math.inf
    """The planned level behind it. A truck with as much there has fueled, wherever it did."""


@dataclass(frozen=True, eq=False)
class PlannedWay:
    """The road of a plan, and the driver's fuel stops on it. `reached` has the stops that the truck has reached, each
    with its time and its mile, in order. `start_percent` is the level read at mile 0, None without a reading."""

    line: Array
    line_miles: Array
    fuel_stops: Sequence[FuelStop]
    reached: Sequence[tuple[datetime, float]] = ()
    start_percent: float | None = None
    percent_per_mile: float = 0.0

    @cached_property
    def _road(self) -> Road:
        return Road.of_line(self.line, self.line_miles)

    def miles_of(self, fixes: Sequence[TrackedFix]) -> list[float | None]:
        """The mile that the truck had reached at each fix; None where it was off the road."""
        return miles_on_ways([(self, fixes)])[0]

    def _miles(self, fixes: Sequence[TrackedFix], found: Sequence[StationPass]) -> list[float | None]:
        passes: list[list[float]] = [[] for _ in fixes]
        for one in found:
            passes[one.station_index].append(one.mile)
        miles = [self._first_mile(fix, passed) for fix, passed in zip(fixes, passes, strict=True)]
        far = [number for number, mile in enumerate(miles) if mile is None]
        for stop in self.fuel_stops if far else ():
            if stop.mile is not None:
                for one in _passes(self._way_to(stop.place, stop.mile), [fixes[one] for one in far], OFF_ROAD_MILES):
                    miles[far[one.station_index]] = stop.mile
        return miles

    def _first_mile(self, fix: TrackedFix, passed: Sequence[float]) -> float | None:
        if not passed:
            return None
        behind = max((mile for at, mile in self.reached if at <= fix.recorded_at), default=0.0)
        return max(behind, next((mile for mile in passed if mile >= behind - OFF_ROAD_MILES), behind))

    def _way_to(self, place: Point, mile: float) -> Road:
        """The way off the road to a fuel stop, which may lie further off the road than a truck may otherwise go."""
        return Road.of_line(np.array([self.place_at(mile), place]), np.array([mile, mile]))

    def place_at(self, mile: float) -> Point:
        return self._road.place_at(mile)

    def percent_off_road(self, stop: FuelStop, mile: float) -> float:
        """The fuel burned from the road to a fuel stop and back, in percent of capacity."""
        return 2 * great_circle_miles(self.place_at(mile), stop.place) * self.percent_per_mile

    def miles_off(self, fix: TrackedFix) -> float:
        """The straight distance to the road, at most 500 miles."""
        passes = _passes(self._road, [fix], _FURTHEST_MILES)
        return min((one.detour_miles for one in passes), default=_FURTHEST_MILES)


def miles_on_ways(trucks: Sequence[tuple[PlannedWay, Sequence[TrackedFix]]]) -> list[list[float | None]]:
    """`PlannedWay.miles_of` for many trucks at once, in a third of the time."""
    found = passes_by([(_places(fixes), way._road) for way, fixes in trucks], OFF_ROAD_MILES)
    return [way._miles(fixes, passes) for (way, fixes), passes in zip(trucks, found, strict=True)]


def _passes(road: Road, fixes: Sequence[TrackedFix], within_miles: float) -> list[StationPass]:
    """Each pass of the road by a fix; `station_index` is the number of the fix."""
    return passes_by([(_places(fixes), road)], within_miles)[0]


def _places(fixes: Sequence[TrackedFix]) -> list[tuple[float, float]]:
    return [(fix.latitude, fix.longitude) for fix in fixes]


class Deviation(NamedTuple):
    """A truck does not follow its plan. `at` is the time of the fix that shows it, `text` is for people."""

    kind: Literal["off_road", "stop_passed"]
    at: datetime
    text: str


class NextComparison(NamedTuple):
    """The next comparison takes the fixes recorded from `since` on. It can find nothing before a fix that is recorded
    at `at` or later."""

    since: datetime
    at: datetime
    fuel_stops_passed: int


def find_deviation(
    way: PlannedWay,
    fixes: Sequence[TrackedFix],
    *,
    fuel_stops_passed: int,
    history: Callable[[], Sequence[TrackedFix]],
    newest_decides: bool,
) -> tuple[Deviation | None, NextComparison]:
    """The first deviation that these fixes show, and what to compare next.

    `fixes` are those since `NextComparison.since`, at least one, in the order of time. However they are split over
    several calls, the first deviation is the same. `history` gives all fixes since the plan's start, at least up to the
    last of `fixes`. With `newest_decides` a truck that is back on the road by the last fix has not left it.
    """
    miles = way.miles_of(fixes)
    off, run = _off_road(way, fixes, miles, newest_decides=newest_decides)
    last = off.at if off is not None else fixes[-1].recorded_at
    furthest = max(
        (mile for fix, mile in zip(fixes, miles, strict=True) if mile is not None and fix.recorded_at <= last),
        default=0.0,
    )
    passed, missed = _passed_fuel_stops(way, fuel_stops_passed, furthest, last, history, gone=off is not None)
    deviation = missed or off
    newest = fixes[-1]
    if run:
        return deviation, NextComparison(run[0], max(later(run[0], OFF_ROAD_TIME), newest.recorded_at), passed)
    at = later(newest.recorded_at, OFF_ROAD_TIME)
    ahead = next((stop.mile for stop in way.fuel_stops[passed:] if stop.mile is not None), None)
    if ahead is not None and (mile := miles[-1]) is not None:
        hours = max(0.0, ahead + PASSED_MILES - mile) / FASTEST_DEVIATING_MPH
        soonest = (
            timedelta(hours=hours) if newest.fuel_percent is not None else max(SILENT_TIME, timedelta(hours=hours))
        )
        at = min(at, later(newest.recorded_at, soonest))
    return deviation, NextComparison(newest.recorded_at, at, passed)


def _off_road(
    way: PlannedWay, fixes: Sequence[TrackedFix], miles: Sequence[float | None], *, newest_decides: bool
) -> tuple[Deviation | None, list[datetime]]:
    """The first deviation, and the times of the last fixes in a row that are off the road."""
    run: list[datetime] = []
    found: Deviation | None = None
    for fix, mile in zip(fixes, miles, strict=True):
        if mile is not None:
            run = []
            found = None if newest_decides else found
            continue
        run.append(fix.recorded_at)
        if found is None and len(run) >= OFF_ROAD_FIXES and run[-1] - run[0] >= OFF_ROAD_TIME:
            minutes = (run[-1] - run[0]).total_seconds() / 60
            text = f"{way.miles_off(fix):.0f} miles off the planned road, for {minutes:.0f} minutes"
            found = Deviation("off_road", fix.recorded_at, text)
    return found, run


def _passed_fuel_stops(
    way: PlannedWay,
    passed: int,
    furthest: float,
    last: datetime,
    history: Callable[[], Sequence[TrackedFix]],
    *,
    gone: bool,
) -> tuple[int, Deviation | None]:
    """Count the fuel stops behind the truck by `last`, and find the first one that it passed without fueling. When the
    truck is `gone` from the road, its level shows which stops are behind it."""
    levels = _LevelHistory.of(way, history(), last) if gone else None
    furthest = levels.furthest if levels is not None else furthest
    while passed < len(way.fuel_stops):
        mile = way.fuel_stops[passed].mile
        if mile is None:
            passed += 1
            continue
        if furthest >= mile + PASSED_MILES:
            levels = levels or _LevelHistory.of(way, history(), last)
            found = levels.at_stop(passed, mile)
            if isinstance(found, Deviation):
                return passed, found
            if found != "open":
                passed += 1
                continue
        if not (gone and levels is not None and furthest >= mile and levels.has_fueled_since(passed, mile)):
            break
        passed += 1
    return passed, None


_Level = tuple[float, float]
"""Percent in the tank at a mile."""
_Reading = tuple[datetime, float, float]
"""The time of a reading, its percent and its mile."""


@dataclass(frozen=True, slots=True)
class _LevelHistory:
    """The fixes that the truck sent since its plan was made, and the mile that it had reached at each."""

    way: PlannedWay
    fixes: Sequence[TrackedFix]
    miles: Sequence[float | None]

    @classmethod
    def of(cls, way: PlannedWay, history: Sequence[TrackedFix], last: datetime) -> "_LevelHistory":
        fixes = [fix for fix in history if fix.recorded_at <= last]
        return cls(way, fixes, way.miles_of(fixes))

    @property
    def furthest(self) -> float:
        return max((mile for mile in self.miles if mile is not None), default=0.0)

    def at_stop(self, number: int, mile: float) -> Deviation | Literal["fueled", "open", "unknown"]:
        """Judge a stop that the truck has passed by more than `PASSED_MILES`."""
        stop = self.way.fuel_stops[number]
        (before, _), after = self._before(number, mile), self._beyond(mile + PASSED_MILES)
        rise = stop.percent - 2 * self.way.percent_off_road(stop, mile)
        if before is None or rise < LEAST_RISE_PERCENT:
            return "open" if len(after) < READINGS_NEEDED and not self._is_silent_beyond(mile) else "unknown"
        agreed = _agreed([self._has_risen(rise / 2, before, one) or self._has_enough(stop, mile, one) for one in after])
        if agreed is None:
            return "unknown" if self._is_silent_beyond(mile) else "open"
        has_risen, number = agreed
        if has_risen:
            return "fueled"
        at, percent, _ = after[number]
        text = f"passed {stop.name} by {PASSED_MILES:.0f} miles without fueling, {percent:.0f} % in the tank"
        return Deviation("stop_passed", at, text)

    def _is_silent_beyond(self, mile: float) -> bool:
        return self.furthest >= mile + PASSED_MILES + SILENT_MILES

    def has_fueled_since(self, number: int, mile: float) -> bool:
        """Tell if the level of a truck that left the road less than `PASSED_MILES` beyond the stop shows a purchase."""
        before, near = self._before(number, mile)
        readings = [
            (fix.recorded_at, fix.fuel_percent, mile) for fix in self.fixes[near:] if fix.fuel_percent is not None
        ]
        if before is None:
            return False
        stop = self.way.fuel_stops[number]
        fueled = [
            self._has_risen(stop.percent / 2, before, one) or self._has_enough(stop, mile, one)
            for one in readings[-_MOST_READINGS:]
        ]
        return sum(fueled) >= READINGS_NEEDED

    def _has_risen(self, rise: float, before: _Level, after: _Reading) -> bool:
        (level, mile), (_, percent, at_mile) = before, after
        return percent >= level - self.way.percent_per_mile * (at_mile - mile) + rise

    def _has_enough(self, stop: FuelStop, mile: float, after: _Reading) -> bool:
        """Tell if the truck has what the plan left it at the stop, less the miles since."""
        _, percent, at_mile = after
        return percent >= stop.filled_percent - self.way.percent_per_mile * (at_mile - mile)

    def _before(self, number: int, mile: float) -> tuple[_Level | None, int]:
        """The truck's level and mile before it came near the stop, and the number of the first fix near it."""
        near_mile = mile - NEAR_STOP_MILES
        earlier = [stop.mile for stop in self.way.fuel_stops[:number] if stop.mile is not None]
        if earlier:  # what was fueled there does not count for this one
            near_mile = max(near_mile, min(earlier[-1] + PASSED_MILES, mile))
        near = next((at for at, one in enumerate(self.miles) if one is not None and one > near_mile), len(self.fixes))
        levels = [
            (fix.fuel_percent, one)
            for fix, one in zip(self.fixes[:near], self.miles[:near], strict=True)
            if fix.fuel_percent is not None and one is not None
        ]
        if levels:
            last = sorted(levels[-_MOST_READINGS:])
            return last[(len(last) - 1) // 2], near
        return ((self.way.start_percent, 0.0) if self.way.start_percent is not None else None), near

    def _beyond(self, mile: float) -> list[_Reading]:
        """The first readings in a row beyond a mile; readings after a silence there are left out."""
        silent = next((at for at, one in enumerate(self.miles) if one is not None and one >= mile + SILENT_MILES), None)
        found: list[_Reading] = []
        for fix, one in zip(self.fixes[:silent], self.miles[:silent], strict=True):
            if fix.fuel_percent is None or one is None or len(found) == _MOST_READINGS:
                continue
            found = [*found, (fix.recorded_at, fix.fuel_percent, one)] if one >= mile else []
        return found


def _agreed(verdicts: Sequence[bool]) -> tuple[bool, int] | None:
    """The first verdict that two readings share, and the number of the second one."""
    for number, one in enumerate(verdicts):
        if verdicts[: number + 1].count(one) == READINGS_NEEDED:
            return one, number
    return None
