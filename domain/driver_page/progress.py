"""The mile that a truck has reached on the road of its plan, and the fuel stops ahead of it.

A page is asked for every minute by each driver, and shows whole miles. So the road is taken for flat around the truck;
`deviations.PlannedWay`, which judges trucks, takes five times as long on a sphere."""

import math
from typing import NamedTuple

import numpy as np

from domain.planning.coarse_ways import CoarseWay
from domain.planning.deviations import OFF_ROAD_MILES
from domain.roads import CIRCUITY, Point, great_circle_miles
from domain.roads.sphere import MILES_PER_DEGREE, Array
from domain.routes.plans.planned_stops import PlanMilestones


class Course(NamedTuple):
    """A plan, as far as it tells which of its fuel stops are ahead of a truck, and how far."""

    milestones: PlanMilestones
    way: CoarseWay | None
    """None where the road is not known."""

    @property
    def road_bytes(self) -> int:
        return self.way.line.nbytes + self.way.line_miles.nbytes if self.way is not None else 0

    def behind(self, truck: Point | None) -> int:
        """The number of fuel stops that a truck at that place has passed."""
        return self.milestones.behind(truck)

    def miles_away(self, truck: Point | None, *, behind: int) -> tuple[float | None, ...]:
        """The miles from the truck to each fuel stop that is not behind it."""
        mile = None
        if self.way is not None and truck is not None:
            mile = mile_of_truck(self.way, truck, reached_mile=self.milestones.reached_mile)
        return tuple(miles_to(one.mile, mile, truck, one.place) for one in self.milestones.fuel_stops[behind:])


def mile_of_truck(way: CoarseWay, truck: Point, *, reached_mile: float) -> float | None:
    """The mile of the plan's road that a truck has come to: where it first passes the truck from the last stop that was
    reached, at `reached_mile`. None for a truck off the road."""
    shares, squared_off = _nearest_on_legs(way, truck)
    near = (squared_off <= OFF_ROAD_MILES**2).nonzero()[0]
    starts = way.line_miles[near]
    miles: list[float] = (starts + shares[near] * (way.line_miles[near + 1] - starts)).tolist()
    legs, off = near.tolist(), squared_off[near].tolist()
    ahead = [place for place, mile in enumerate(miles) if mile >= reached_mile - OFF_ROAD_MILES]
    if not ahead:
        return reached_mile if miles else None
    first_pass = [place for place in ahead if legs[place] - legs[ahead[0]] == place - ahead[0]]
    return max(reached_mile, miles[min(first_pass, key=off.__getitem__)])


def _nearest_on_legs(way: CoarseWay, truck: Point) -> tuple[Array, Array]:
    """The point of each leg of the way that is nearest to the truck: its share of the leg, and its squared distance in
    miles."""
    north = MILES_PER_DEGREE * (way.line[:, 0] - truck.latitude)
    degrees_east = (way.line[:, 1] - (truck.longitude - 180)) % 360 - 180
    east = MILES_PER_DEGREE * math.cos(math.radians(truck.latitude)) * degrees_east
    to_north, to_east = north[1:] - north[:-1], east[1:] - east[:-1]
    north, east = north[:-1], east[:-1]
    squared = np.maximum(to_north * to_north + to_east * to_east, 1e-9)
    shares = np.minimum(np.maximum((north * to_north + east * to_east) / -squared, 0.0), 1.0)
    off_north, off_east = north + shares * to_north, east + shares * to_east
    return shares, off_north * off_north + off_east * off_east


def miles_to(mile: float | None, truck_mile: float | None, truck: Point | None, place: Point) -> float | None:
    """The miles from the truck to a place at that mile of the road. For a truck off the road they are estimated from
    the straight line; None for a truck without a position."""
    if truck_mile is not None and mile is not None:
        return max(mile - truck_mile, 0.0)
    return great_circle_miles(truck, place) * CIRCUITY if truck is not None else None
