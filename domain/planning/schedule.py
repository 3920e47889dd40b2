"""The rules for arrival times: a truck drives, rests, waits for arrival windows to open, and fuels.

A simple model of the hours-of-service rules for drivers of property-carrying trucks (49 CFR 395.3): at most 11 hours of
driving, then 10 hours off duty, taken where the 11 hours end. Every driver is assumed to start rested, and a wait of 10
hours or more at a stop is a rest too. The model leaves out the 14-hour window and the weekly limits, which depend on
what the driver did before; the 30-minute break, for which fuel stops serve; split berths; and time for loading.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

import numpy as np

from domain.clock import LAST_MOMENT
from domain.planning.plan_inputs import MILE_DECIMALS
from domain.roads import Road

MAX_DRIVING_HOURS = 11.0
REST = timedelta(hours=10)


class RoadPoint(NamedTuple):
    """A place on the way: the hours of driving to it in all, when it opens, and how long the truck stays there."""

    driving_hours: float
    opens: datetime | None = None
    stay: timedelta = timedelta(0)


def arrival_times(departure: datetime, road_points: Iterable[RoadPoint]) -> Iterator[datetime | None]:
    """The arrival at each road point, in driving order. An early truck arrives when the window opens. None where that
    is after the year 9999, the last one of a `datetime`: a window may open that late."""
    longest = LAST_MOMENT - departure
    since_departure, hours, hours_since_rest = timedelta(0), 0.0, 0.0
    for road_point in road_points:
        # Road points at one rounded mile may be a second out of order.
        leg_hours = max(road_point.driving_hours - hours, 0.0)
        while hours_since_rest + leg_hours > MAX_DRIVING_HOURS + 1e-9:
            until_rest = MAX_DRIVING_HOURS - hours_since_rest
            since_departure += timedelta(hours=until_rest) + REST
            leg_hours, hours_since_rest = leg_hours - until_rest, 0.0
        since_departure += timedelta(hours=leg_hours)
        hours, hours_since_rest = max(road_point.driving_hours, hours), hours_since_rest + leg_hours
        arrival = (
            max(since_departure, road_point.opens - departure) if road_point.opens is not None else since_departure
        )
        yield departure + arrival if arrival <= longest else None
        if arrival + road_point.stay - since_departure >= REST:
            hours_since_rest = 0.0
        since_departure = arrival + road_point.stay


def arrivals_along(
    road: Road,
    departure: datetime,
    opens: Sequence[datetime | None],
    miles: Sequence[float],
    *,
    stay: timedelta = timedelta(0),
) -> tuple[list[datetime | None], list[datetime | None]]:
    """The arrivals at these miles of a road, where the truck stays for some time each, and at each of the road's points
    after the first, which open at `opens`.

    Both are ordered by rounded miles. With the exact mile of the destination, a station just before it, whose mile was
    rounded up, would come after it. At one mile a station comes first.
    """
    point_miles = [round(mile, MILE_DECIMALS) for mile in road.stop_miles]
    places = [round(mile, MILE_DECIMALS) for mile in miles]
    hours = np.interp(places, point_miles, road.stop_hours).tolist()
    road_points = [RoadPoint(one, stay=stay) for one in hours]
    road_points += map(RoadPoint, road.stop_hours[1:], opens or [None] * len(road.stop_hours[1:]))
    places += point_miles[1:]
    driven = sorted(range(len(road_points)), key=places.__getitem__)
    times = dict(zip(driven, arrival_times(departure, (road_points[at] for at in driven)), strict=True))
    ordered = [times[at] for at in range(len(road_points))]
    return ordered[: len(miles)], ordered[len(miles) :]
