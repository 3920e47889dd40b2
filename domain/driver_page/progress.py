"""The mile that a truck has reached on the road of its plan, and the miles to a place from there."""

from datetime import datetime

from domain.planning.coarse_ways import unpack_way
from domain.planning.deviations import PlannedWay, TrackedFix
from domain.roads import Point, great_circle_miles

_ROAD_PER_STRAIGHT_MILE = 1.2
"""Roads of the United States are about a fifth longer than the straight line."""


def mile_of_truck(coarse_way: bytes, at: datetime, place: Point, *, reached_mile: float) -> float | None:
    """The mile of the plan's road that a truck has come to, with the mile of the last stop that it has reached; None
    for a truck off the road."""
    way = unpack_way(coarse_way)
    planned = PlannedWay(way.line, way.line_miles, (), reached=[(at, reached_mile)])
    return planned.miles_of([TrackedFix(at, *place)])[0]


def miles_to(mile: float, truck_mile: float | None, truck: Point | None, place: Point) -> float | None:
    """The miles from the truck to a place at that mile of the road. For a truck off the road they are estimated from
    the straight line; None for a truck without a position."""
    if truck_mile is not None:
        return max(mile - truck_mile, 0.0)
    return great_circle_miles(truck, place) * _ROAD_PER_STRAIGHT_MILE if truck is not None else None
