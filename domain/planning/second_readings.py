"""The rule that tells which fuel levels count: one that neither miles nor time explain needs a second reading.

A tracker that starts again sends 0, fuel that sloshes sends a spike, two trackers of one truck send two levels. So a
level counts if it follows from the last one that counts:

- less than that by what the miles burn (and a quarter more), by what idling may burn in that time, and by an error of
  10 % of capacity;
- more than that by as much of an error, or by anything if the truck had the time to fuel unseen.

Any other level waits for a reading that agrees with it; then both count, and fuel was stolen, or bought. A reading that
follows from the last one that counts shows that the level between them was wrong.

    12:00  62 %
    12:01  61 %   counts
    12:02   0 %   waits for a second reading
    12:03  61 %   follows from 61 %: counts, and 0 % was wrong
"""

from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from itertools import pairwise
from typing import NamedTuple

from domain.burn.figures import DEFAULT_CAPACITY_GALLONS, DEFAULT_MPG
from domain.burn.levels import NEXT_TO_NOTHING_PERCENT, is_percentage
from domain.lifecycle import Environment
from domain.planning.gauges import (
    BELIEVABLE_RISE_PERCENT,
    BURNED_SHARE,
    CRUISING_MPH,
    FASTEST_MPH,
    STANDING_SPREAD_MILES,
    Reading,
)
from domain.roads import great_circle_miles

IDLING_GALLONS_AN_HOUR = 1.5
"""An engine that idles burns a gallon an hour or less, with heater or cooling a little more."""

FILLED_UNSEEN_HOURS = 15 / 60
"""A truck with this much time besides its drive may have fueled between two readings."""

CONFIRMED_AFTER = timedelta(seconds=10)
"""Shortest span of readings that confirm each other: a tracker that sends each second repeats its mistakes."""

LEAST_BURNED_PERCENT = 2.0
"""Percent. A gauge that shows next to nothing while the truck burns this much does not work."""


class CountedReadings(NamedTuple):
    """Readings of a truck in the order of time: those that count, and the newest, which wait for a second reading."""

    counted: Sequence[Reading]
    doubted: Sequence[Reading]
    is_confirmed: bool
    """True if the newest reading that counts agrees with another one."""
    disputed_by: Reading | None = None
    """The first reading behind the newest that counts, which does not follow from it; None where there is none. Those
    after it may agree neither with it nor with each other."""


def zero_counts(environment: str) -> bool:
    """Tell if 0 % is a level like any other, as in the sandbox, where it rehearses an empty tank."""
    return environment == Environment.SANDBOX


def count_readings(
    readings: Sequence[Reading], *, mpg: float, capacity_gallons: float, zero_counts: bool = False
) -> CountedReadings:
    """Tell which of these readings, in order of time, count. The first counts until others contradict it. With
    `zero_counts` 0 % is a level like any other; without, it counts only where the tank was nearly empty before."""
    follows = partial(_follows, mpg=mpg, capacity_gallons=capacity_gallons)
    counted: list[Reading] = []
    doubted: list[Reading] = []
    is_confirmed = False
    disputed_by: Reading | None = None
    for one in readings:
        if not is_percentage(one.percent):
            continue
        shows_something = zero_counts or one.percent > NEXT_TO_NOTHING_PERCENT
        if not counted:
            counted = [one] if shows_something else []
        elif follows(counted[-1], one, time_explains=shows_something):
            counted.append(one)
            doubted, disputed_by, is_confirmed = [], None, True
        elif doubted and shows_something and follows(doubted[-1], one):
            doubted.append(one)
            if one.recorded_at - doubted[0].recorded_at >= CONFIRMED_AFTER:
                # Only later readings can be compared with a first one: here they show that it was wrong.
                counted = [*(counted if is_confirmed else ()), *doubted]
                doubted, disputed_by, is_confirmed = [], None, True
        else:
            doubted, disputed_by = [one], disputed_by or one
    if _shows_nothing(counted, mpg=mpg, capacity_gallons=capacity_gallons):
        return CountedReadings([], doubted, is_confirmed=False)
    return CountedReadings(counted, doubted, is_confirmed, disputed_by)


def _shows_nothing(readings: Sequence[Reading], *, mpg: float, capacity_gallons: float) -> bool:
    """True if the truck drove on with next to nothing in its tank by all its readings."""
    if max((one.percent for one in readings), default=0.0) > NEXT_TO_NOTHING_PERCENT:
        return False
    miles = sum(great_circle_miles(one.place, other.place) for one, other in pairwise(readings))
    return 100 * miles / mpg / capacity_gallons >= LEAST_BURNED_PERCENT


def newest_counted(readings: Sequence[Reading], *, zero_counts: bool) -> float | None:
    """The level to show from a truck's last readings, in order of time: the newest one that counts for a usual tank.
    None without any."""
    tank = {"mpg": DEFAULT_MPG, "capacity_gallons": DEFAULT_CAPACITY_GALLONS}
    counted = count_readings(readings, **tank, zero_counts=zero_counts).counted
    return counted[-1].percent if counted else None


def _follows(
    before: Reading, after: Reading, *, mpg: float, capacity_gallons: float, time_explains: bool = True
) -> bool:
    """Tell if miles and time explain the level `after` by the one `before`. Without `time_explains` only miles do: a
    tracker that sends 0 while the engine is off does so however long it stands."""
    miles = great_circle_miles(before.place, after.place)
    hours = (after.recorded_at - before.recorded_at).total_seconds() / 3600
    if miles > FASTEST_MPH * hours + STANDING_SPREAD_MILES:  # the truck was elsewhere: nothing is known from before
        return time_explains
    burned = 100 * miles / mpg / capacity_gallons
    idled = 100 * IDLING_GALLONS_AN_HOUR * hours / capacity_gallons
    change = after.percent - max(before.percent - burned, 0.0)
    error = BELIEVABLE_RISE_PERCENT + BURNED_SHARE * burned
    if change > error:
        return hours - miles / CRUISING_MPH >= FILLED_UNSEEN_HOURS
    return change >= -(error + (idled if time_explains else 0.0))
