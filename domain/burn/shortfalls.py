"""The rule that tells in time that a truck's fuel does not last: it does not bring the truck to its next purchase, or
to the plan's end, above the floor.

**The level** of a truck is that of its last several readings, each less what was burned since. **Its burn** is the
plan's, moved towards what the levels show, the more the more they prove. Both have a spread, and so has the level on
arriving. A truck falls short where that level, and half a spread more, is below the floor. So with much road ahead only
a burn far from the plan's is told; near the purchase little is doubtful.

The floor is the policy's, but always some way below the level that the plan itself has there. A plan that begins low
on fuel has said so.

**When to look again.** A truck need not be looked at before its level has fallen by half of what it may burn up to its
purchase, and at the end of that below what was found; one that surely arrives above the floor, not before it is near.
Behind a purchase it is looked at once it may have burned enough to show something.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import hypot
from typing import NamedTuple

import numpy as np

from domain.burn.levels import PURCHASE_PERCENT, LevelAtMile, MeasuredBurn, burn_of_steady, steady_levels
from domain.clock import later

TRIP_SPREAD = 0.08
"""One standard deviation of a trip's burn from the plan's, as a share."""

ROAD_SPREAD = 0.03
"""One standard deviation of the burn ahead from the burn so far: hills, wind."""

USUAL_NOISE_PERCENT = 1.5

BELOW_PLAN_PERCENT = 3.0
"""The floor is at least this far below the level that the plan has on arriving."""

READINGS_OF_A_LEVEL = 8
LEAST_READINGS = 3

SURE_SPREADS = 0.5
"""More would tell trucks late that burn 15 % more. With 300 drives of exact burn and a gauge of 1.5 % noise none was
told at all."""

CONTRADICTED_PERCENT = PURCHASE_PERCENT
"""A newest reading this far from the level contradicts it: the truck may have fueled, or its tracker began anew."""

LEAST_BELIEVED_SHARE, MOST_BELIEVED_SHARE = 0.7, 2.0
"""Levels that show a burn beyond these shares of the plan's show a fault of the gauge: one that stands still, or has a
spot where it does. They prove nothing of the burn."""

LEAST_SHARE = 0.8
"""No plan is made with a smaller share of the burn of the plan before: a gauge that stood still a while would run the
truck dry."""

ARRIVED_MILES = 3.0
"""A truck this near to its purchase is there. It may be at the pump, where a new plan would only disturb its driver."""

NEAR_FILL_MILES = 100.0
"""A purchase this near ahead is told a new level where the planned one does not last. So near, the trip has shown its
burn, and little changes before the pump."""

NOTABLE_SHARE = 0.03
"""A smaller change of the burn is none to speak of."""


class PlannedBurn(NamedTuple):
    """The burn of a plan."""

    mpg: float
    capacity_gallons: float

    @property
    def percent_per_mile(self) -> float:
        return 100 / self.mpg / self.capacity_gallons


class Fill(NamedTuple):
    """A planned purchase: the level behind it, and the miles from there to the next purchase or to the plan's end, with
    the least level wanted there."""

    percent: float
    miles: float
    least_percent: float


class Ahead(NamedTuple):
    """The next purchase of a plan, or its end: its mile, the way off the road, and the planned level on arriving."""

    mile: float
    off_road_miles: float
    percent: float
    fill: Fill | None = None
    """None at the plan's end."""


class BurnShare(NamedTuple):
    """The burn by which a truck's level is told ahead, as a share of the plan's, and one standard deviation of it."""

    share: float
    spread: float


@dataclass(frozen=True, slots=True)
class Outlook:
    """The fuel of a truck at a mile, and on arriving at what is `ahead`."""

    at: datetime
    mile: float
    level_percent: float
    planned: PlannedBurn
    mpg: float
    """The plan's mpg, moved towards the measured one."""
    burn_spread: float
    """One standard deviation of the burn ahead, as a share."""
    measured: MeasuredBurn | None
    ahead: Ahead
    arrival_percent: float
    spread_percent: float
    floor_percent: float

    @property
    def falls_short(self) -> bool:
        has_arrived = abs(self.ahead.mile - self.mile) <= ARRIVED_MILES
        return not has_arrived and self.arrival_percent + SURE_SPREADS * self.spread_percent < self.floor_percent

    @property
    def noise_percent(self) -> float:
        """One standard deviation of a reading of the gauge."""
        return self.measured.noise_percent if self.measured is not None else USUAL_NOISE_PERCENT

    @property
    def percent_per_mile(self) -> float:
        return self.planned._replace(mpg=self.mpg).percent_per_mile

    @property
    def burns_otherwise(self) -> bool:
        """True if the levels contradict the plan's mpg."""
        return self.measured is not None and abs(self.planned.mpg / self.mpg - 1) > NOTABLE_SHARE


def look_ahead(
    levels: Sequence[LevelAtMile], *, planned: PlannedBurn, ahead: Ahead, floor_percent: float
) -> Outlook | None:
    """The outlook of a truck. `levels` are all since its plan began, in order of time. None where they do not tell its
    level, or where the newest one contradicts the others."""
    miles, percents = steady_levels(levels)
    if len(miles) < LEAST_READINGS:
        return None
    measured = _believed(planned, burn_of_steady(miles, percents, capacity_gallons=planned.capacity_gallons))
    figure = _figure(planned, measured)
    per_mile = planned.percent_per_mile * figure.share
    last = _of_the_level(percents)
    mile = levels[-1].mile
    level = float(np.mean(percents[last] - per_mile * (mile - miles[last])))
    if abs(levels[-1].percent - level) > CONTRADICTED_PERCENT:
        return None
    left = max(ahead.mile - mile, 0.0)
    noise = measured.noise_percent if measured is not None else USUAL_NOISE_PERCENT
    return Outlook(
        at=levels[-1].at,
        mile=mile,
        level_percent=level,
        planned=planned,
        mpg=planned.mpg / figure.share,
        burn_spread=hypot(figure.spread / figure.share, ROAD_SPREAD),
        measured=measured,
        ahead=ahead,
        arrival_percent=level - per_mile * (left + ahead.off_road_miles),
        spread_percent=hypot(
            noise / len(percents[last]) ** 0.5, left * planned.percent_per_mile * hypot(figure.spread, ROAD_SPREAD)
        ),
        floor_percent=min(floor_percent, ahead.percent - BELOW_PLAN_PERCENT),
    )


def _believed(planned: PlannedBurn, measured: MeasuredBurn | None) -> MeasuredBurn | None:
    if measured is None or not LEAST_BELIEVED_SHARE <= planned.mpg / measured.mpg <= MOST_BELIEVED_SHARE:
        return None
    return measured


def _figure(planned: PlannedBurn, measured: MeasuredBurn | None) -> BurnShare:
    """The plan's burn and the measured one, each with the weight of what it proves."""
    if measured is None:
        return BurnShare(1.0, TRIP_SPREAD)
    share = planned.mpg / measured.mpg
    weight, other = TRIP_SPREAD**-2, (measured.spread_share * share) ** -2
    return BurnShare(max((weight + share * other) / (weight + other), LEAST_SHARE), (weight + other) ** -0.5)


def _of_the_level(percents: np.ndarray) -> slice:
    """The last readings since the last purchase."""
    rises = np.flatnonzero(np.diff(percents) >= PURCHASE_PERCENT)
    behind = int(rises[-1]) + 1 if len(rises) else 0
    return slice(max(behind, len(percents) - READINGS_OF_A_LEVEL), None)


class NextLook(NamedTuple):
    """A truck is looked at again with a fix from `since` on that has less than `below_percent`, and with any fix from
    `by` on."""

    since: datetime
    below_percent: float
    by: datetime

    def is_due(self, recorded_at: datetime, fuel_percent: float | None) -> bool:
        """True if the truck is to be looked at after this fix. Trackers without a gauge send up to 1 %, which is no
        level."""
        return recorded_at >= self.since and (
            recorded_at >= self.by or (fuel_percent is not None and 1 < fuel_percent < self.below_percent)
        )


ANY_PERCENT = 200.0
"""Above every level."""
SOONEST = timedelta(minutes=15)
"""Shortest time between two looks at a truck, so that a gauge that swings costs little."""
SOON = timedelta(minutes=5)
"""Shortest time where the newest level has to be confirmed."""
FAST_MPH = 65.0
"""The speed of a truck over hours, at most."""
SOONEST_WITHOUT_LEVELS = timedelta(hours=1)
"""Shortest time up to the first look at a truck that sends no level, and between two of them."""
SHOWING_MILES = 200.0
"""Miles behind a purchase after which levels show something."""
LEFT_SHARE = 0.4
LEAST_FALL_PERCENT = 12.0
ABOVE_FLOOR_PERCENT = 8.0
"""Looks on the way to a purchase are each at this share of the level that is left to burn, while that is a good deal,
and well above the floor."""
BELOW_ARRIVAL_PERCENT = 2.0
NOISE_SPREADS = 2.0
"""A level is reached where a reading is below it by so many standard deviations of the gauge: the lowest of the many
readings on the way there is."""
MOST_SPREADS = 3.0
"""A truck that arrives above the floor with so many spreads less is first looked at shortly before its purchase."""
BEFORE_FILL_MILES = 70.0
"""A truck is looked at so far before a purchase, where its level can still be told anew."""


def next_look(outlook: Outlook | None, *, at: datetime, mile: float, ahead: Ahead) -> NextLook:
    """The next look at a truck that is at this mile."""
    by = later(at, max(timedelta(hours=(ahead.mile - mile + SHOWING_MILES) / FAST_MPH), SOONEST))
    if outlook is None:
        return NextLook(later(at, SOON), ANY_PERCENT, by)
    if outlook.falls_short:
        return NextLook(later(at, SOONEST), ANY_PERCENT, min(by, later(at, 2 * SOONEST)))
    return NextLook(later(at, SOONEST), _next_level(outlook), by)


def _next_level(outlook: Outlook) -> float:
    """The level that the gauge has to show. Of many readings some are a good deal too low."""
    level = max(_level_for_shortfall(outlook), _level_before_fill(outlook))
    return max(outlook.floor_percent, level - NOISE_SPREADS * outlook.noise_percent)


def _level_for_shortfall(outlook: Outlook) -> float:
    arrival, level, floor = outlook.arrival_percent, outlook.level_percent, outlook.floor_percent
    between = arrival + LEFT_SHARE * (level - arrival)
    is_far = level - arrival > LEAST_FALL_PERCENT and between > floor + ABOVE_FLOOR_PERCENT
    if is_far and arrival - MOST_SPREADS * outlook.spread_percent < floor:
        return between
    if arrival - 2 * outlook.spread_percent < floor:
        return max(floor, (level + floor) / 2)
    return max(floor, min(arrival, outlook.ahead.percent) - BELOW_ARRIVAL_PERCENT)


def _level_before_fill(outlook: Outlook) -> float:
    """The level of the truck shortly before the purchase; none at the plan's end."""
    if outlook.ahead.fill is None or outlook.ahead.mile - outlook.mile <= NEAR_FILL_MILES:
        return 0.0
    return outlook.arrival_percent + outlook.percent_per_mile * BEFORE_FILL_MILES


def look_behind_fill(*, at: datetime, ahead: Ahead) -> NextLook:
    """The look at a truck that begins a plan shortly before its purchase."""
    by = later(at, timedelta(hours=(ahead.mile + SHOWING_MILES) / FAST_MPH))
    return NextLook(later(at, 2 * SOONEST), ahead.percent - BELOW_ARRIVAL_PERCENT, by)


def first_look(*, at: datetime, level_percent: float, ahead: Ahead) -> NextLook:
    """The first look at a truck that begins a plan with this level: before it can be at its purchase, because it may
    send no level on its way."""
    between = ahead.percent + LEFT_SHARE * (level_percent - ahead.percent)
    by = later(at, max(timedelta(hours=ahead.mile / FAST_MPH), SOONEST_WITHOUT_LEVELS))
    return NextLook(later(at, SOONEST), between, by)


def reason_of(outlook: Outlook) -> str:
    """Why the fuel does not last, in words for people."""
    burned = outlook.measured
    if burned is not None and outlook.burns_otherwise and outlook.mpg < outlook.planned.mpg:
        since = f" since mile {burned.from_mile:.0f}" if burned.from_mile >= 1 else ""
        return f"burns {outlook.mpg:.1f} mpg instead of {outlook.planned.mpg:.1f}{since}"
    return f"has {outlook.level_percent:.0f} % in the tank"
