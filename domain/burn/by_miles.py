"""The fuel of a truck that sends no level: the level that its plan began with, and the purchases behind the truck, less
what its miles burn. The truck is believed to have fueled as its plan says.

With its plan's own miles and mileage such a truck arrives as planned. It falls short where it drove further, away from
its road or back and forth, or where its trips have shown that it burns more than its plan says.

Example: 60 % of 200 gallons at the start, 300 miles of the road and 80 miles off it with 6.5 mpg: 31 % are left.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import accumulate, pairwise
from math import hypot
from typing import NamedTuple

from domain.burn.shortfalls import (
    BELOW_PLAN_PERCENT,
    FAST_MPH,
    ROAD_SPREAD,
    SOONEST_WITHOUT_LEVELS,
    Ahead,
    NextLook,
    Outlook,
    PlannedBurn,
)
from domain.clock import later
from domain.roads import Point, great_circle_miles

TIME_SHARE = 0.5
"""Looks are each at this share of the time in which the truck can reach its purchase, but an hour apart at least."""

NO_PERCENT = 0.0
"""Below every level: the truck is looked at by time alone."""


class DrivenWay(NamedTuple):
    """A truck's way since its plan began: the mile of the plan's road that it has reached, the miles that it has
    driven, and the level in percent of capacity without what they burned."""

    at: datetime
    mile: float
    miles: float
    unburned_percent: float


def miles_driven(places: Sequence[Point], road_miles: Sequence[float | None]) -> float:
    """The miles of a way by some of its places, each with its mile on the road, or None off the road. Along the road
    its miles count, elsewhere straight lines; and straight lines alone where they are longer, because a truck that
    turned back reaches the same miles again."""
    straight = [great_circle_miles(*step) for step in pairwise(places)]
    furthest = accumulate((mile or 0.0 for mile in road_miles), max)
    on_road = [None if mile is None else most for mile, most in zip(road_miles, furthest, strict=True)]
    along = [
        line if before is None or after is None else after - before
        for (before, after), line in zip(pairwise(on_road), straight, strict=True)
    ]
    return max(sum(along), sum(straight))


def outlook_by_miles(
    way: DrivenWay,
    *,
    planned: PlannedBurn,
    mpg: float,
    spread_share: float,
    ahead: Ahead,
    floor_percent: float,
) -> Outlook:
    """The outlook of a truck that burns a gallon every `mpg` miles, with this spread from trip to trip. All its miles
    have that spread, because no level tells what the first ones burned."""
    per_mile = planned._replace(mpg=mpg).percent_per_mile
    level, left = way.unburned_percent - per_mile * way.miles, max(ahead.mile - way.mile, 0.0)
    return Outlook(
        at=way.at,
        mile=way.mile,
        level_percent=level,
        planned=planned,
        mpg=mpg,
        burn_spread=hypot(spread_share, ROAD_SPREAD),
        measured=None,
        ahead=ahead,
        arrival_percent=level - per_mile * (left + ahead.off_road_miles),
        spread_percent=per_mile * (way.miles + left) * hypot(spread_share, ROAD_SPREAD),
        floor_percent=min(floor_percent, ahead.percent - BELOW_PLAN_PERCENT),
    )


def next_look_by_time(at: datetime, *, miles_left: float) -> NextLook:
    """The next look at a truck with so many miles to its purchase, or to the end of its plan."""
    by = later(at, max(timedelta(hours=TIME_SHARE * miles_left / FAST_MPH), SOONEST_WITHOUT_LEVELS))
    return NextLook(by, NO_PERCENT, by)
