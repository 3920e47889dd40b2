"""The rules that tell if a truck's fuel gauge can be believed. They compare the newest reading with the level expected
from the readings before it, the stops and the miles since then.

**The level expected** starts with the oldest reading. Miles burn fuel at the truck's mpg. Fuel comes in only while the
truck may be standing. A purchase is a rise by more than could be an error, together with what was burned between the
two readings. Smaller rises count too, but a gauge that swings up and down counts once. So a gauge that jumps up on the
road and stays up is above the level expected, and stays above it until the truck fuels.

Example: 60 %, and 60 % again after 22 hours and 1,088 miles, which burn 78 %. The truck has bought fuel, so 60 % is
expected.

**The newest reading is believed** unless it exceeds the level expected by more than 10 % of capacity and a quarter of
what was burned. The quarter is there because mpg and tank may differ from what we know. Where the reading is not
believed, the level expected counts. Fuel may always be less than expected: it is stolen, it leaks, and idling burns it.
"""

from collections.abc import Sequence
from datetime import datetime
from itertools import pairwise
from statistics import median
from typing import NamedTuple

from domain.roads import Point, great_circle_miles

BELIEVABLE_RISE_PERCENT = 10.0
"""Largest rise that may be an error. A larger one is a purchase, where the truck may have been standing."""
BURNED_SHARE = 0.25

STANDING_MPH = 5.0
CRUISING_MPH = 60.0
FILLING_HOURS = 3 / 60
"""Hours: the shortest time to fill a tank."""

FASTEST_MPH = 120.0
STANDING_SPREAD_MILES = 0.25
"""Two fixes of a standing truck may lie this far apart."""


class Reading(NamedTuple):
    """A fix with a fuel level, in percent of capacity. `speed_mph` is None where the truck sent none."""

    percent: float
    recorded_at: datetime
    place: Point
    speed_mph: float | None = None
    received_at: datetime | None = None
    """When the fix came in, by our clock."""


class Gauge(NamedTuple):
    """The newest reading, and the level expected `miles` after the reading of `known_at`."""

    percent: float
    recorded_at: datetime
    expected_percent: float
    burned_percent: float
    miles: float
    known_at: datetime

    @property
    def off_percent(self) -> float:
        """The reading less the level expected; negative where the reading is below it."""
        return self.percent - self.expected_percent

    @property
    def is_believed(self) -> bool:
        return self.off_percent <= BELIEVABLE_RISE_PERCENT + BURNED_SHARE * self.burned_percent

    @property
    def level_percent(self) -> float:
        """The level to plan with."""
        return self.percent if self.is_believed else self.expected_percent


def judge_newest_reading(readings: Sequence[Reading], *, mpg: float, capacity_gallons: float) -> Gauge:
    """Compare the newest reading with the level expected from those before it. `readings` are in order of time."""
    readings = _smoothed(readings)
    first, newest = readings[0], readings[-1]
    expected, burned, miles, known_at = first.percent, 0.0, 0.0, first.recorded_at
    lowest: float | None = None  # of the readings while the truck may be standing
    risen = 0.0  # above it
    for before, after in pairwise(readings):
        between = great_circle_miles(before.place, after.place)
        hours = (after.recorded_at - before.recorded_at).total_seconds() / 3600
        if (
            between > FASTEST_MPH * hours + STANDING_SPREAD_MILES
        ):  # another place, another tank: nothing is known from before
            expected, burned, miles, known_at = after.percent, 0.0, 0.0, after.recorded_at
            lowest = None
            continue
        burning = 100 * between / mpg / capacity_gallons
        expected, burned, miles = max(expected - burning, 0.0), burned + burning, miles + between
        if not _may_stand(before, after, between, hours):
            lowest = None
            continue
        bought = after.percent - max(before.percent - burning, 0.0)
        if bought > BELIEVABLE_RISE_PERCENT:
            expected = min(expected + bought, 100.0)
            lowest, risen = after.percent, 0.0
            continue
        if lowest is None:
            lowest, risen = before.percent, 0.0
        lowest = min(lowest, after.percent)
        more = max(after.percent - lowest - risen, 0.0)
        expected, risen = min(expected + more, 100.0), risen + more
    return Gauge(newest.percent, newest.recorded_at, expected, burned, miles, known_at)


def _smoothed(readings: Sequence[Reading]) -> list[Reading]:
    """Readings without outliers: each is the median of itself and its neighbours; the first is the median of the first
    three, and the newest stays as it was read."""
    last = len(readings) - 1
    if last < 2:
        return [*readings]
    levels = [one.percent for one in readings]
    middles = [median(levels[at : at + 3]) for at in range(last - 1)]
    smoothed = [middles[0], *middles, levels[last]]
    return [one._replace(percent=level) for one, level in zip(readings, smoothed, strict=True)]


def _may_stand(before: Reading, after: Reading, miles: float, hours: float) -> bool:
    """Tell if the truck was slow at one end or on the whole, or had time to fuel besides the drive."""
    return (
        (before.speed_mph is not None and before.speed_mph < STANDING_MPH)
        or (after.speed_mph is not None and after.speed_mph < STANDING_MPH)
        or miles < STANDING_MPH * hours
        or hours - miles / CRUISING_MPH >= FILLING_HOURS
    )
