"""The mile that a truck has reached on the road of its plan, and the miles to a place from there.

A page is asked for every minute by each driver, and shows whole miles. So the road is taken for flat around the truck;
`deviations.PlannedWay`, which judges trucks, takes five times as long on a sphere."""

import math

import numpy as np

from domain.planning.coarse_ways import CoarseWay
from domain.planning.deviations import OFF_ROAD_MILES
from domain.roads import CIRCUITY, Point, great_circle_miles
from domain.roads.sphere import MILES_PER_DEGREE


def mile_of_truck(way: CoarseWay, truck: Point, *, reached_mile: float) -> float | None:
    """The mile of the plan's road that a truck has come to: where it first passes the truck from the last stop that was
    reached, at `reached_mile`. None for a truck off the road."""
    degrees_north, degrees_east = (way.line - truck).T
    north = MILES_PER_DEGREE * degrees_north
    east = MILES_PER_DEGREE * math.cos(math.radians(truck.latitude)) * ((degrees_east + 180) % 360 - 180)
    to_north, to_east = np.diff(north), np.diff(east)
    north, east = north[:-1], east[:-1]
    squared = np.maximum(to_north**2 + to_east**2, 1e-9)
    share = np.clip(-(north * to_north + east * to_east) / squared, 0.0, 1.0)
    miles_off = np.hypot(north + share * to_north, east + share * to_east)
    miles = way.line_miles[:-1] + share * np.diff(way.line_miles)
    near = np.flatnonzero(miles_off <= OFF_ROAD_MILES)
    ahead = near[miles[near] >= reached_mile - OFF_ROAD_MILES]
    if not len(ahead):
        return reached_mile if len(near) else None
    first_pass = ahead[ahead - ahead[0] == np.arange(len(ahead))]
    return max(reached_mile, float(miles[first_pass[np.argmin(miles_off[first_pass])]]))


def miles_to(mile: float, truck_mile: float | None, truck: Point | None, place: Point) -> float | None:
    """The miles from the truck to a place at that mile of the road. For a truck off the road they are estimated from
    the straight line; None for a truck without a position."""
    if truck_mile is not None:
        return max(mile - truck_mile, 0.0)
    return great_circle_miles(truck, place) * CIRCUITY if truck is not None else None
