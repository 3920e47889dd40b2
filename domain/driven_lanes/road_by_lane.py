"""A new route takes the driven road of its lane, from where its truck is."""

from collections.abc import Sequence

import numpy as np
import shapely

from domain.documents import DRIVEN_LANE
from domain.driven_lanes.driven_road import DrivenRoad, flattened, map_scale
from domain.driven_lanes.lanes import LearnedLane
from domain.roads import Leg, Point, Road, Roads, great_circle_miles
from domain.roads.highways import LOCAL_MPH
from domain.roads.sphere import Array
from domain.roads.truck_dimensions import (
    ORDINARY_FEET_HIGH,
    ORDINARY_FEET_WIDE,
    ORDINARY_POUNDS,
    TruckDimensions,
)

BESIDE_LANE_MILES = 5.0
"""Furthest distance of a truck from the driven road at which it takes the road."""

_AT_ROAD_MILES = 0.5
_AROUND_STOP_MILES = 10.0
"""Miles of the road before and after a stop within which the way to the stop leaves it and comes back."""


def may_take(truck: TruckDimensions) -> bool:
    """Tell if a truck may take driven roads. Nobody knows for which trucks such a road is open, so a truck with
    hazardous cargo or more than ordinary dimensions keeps to the roads chosen for it."""
    return not (
        truck.hazmat
        or (truck.height_feet or 0) > ORDINARY_FEET_HIGH
        or (truck.width_feet or 0) > ORDINARY_FEET_WIDE
        or (truck.weight_pounds or 0) > ORDINARY_POUNDS
    )


def road_by_lane(
    lane: LearnedLane,
    position: Point,
    stops: Sequence[Point],
    stops_left: Sequence[int],
    roads: Roads,
    truck: TruckDimensions,
) -> Road | None:
    """The driven road from the truck through the stops that are left. `stops` are all stops of the route; `roads` find
    the way to a stop beside the driven road. None where the truck has not reached its first stop, is not on the driven
    road, or may not take it."""
    if not stops_left or stops_left[0] == 0 or not may_take(truck):
        return None
    at, legs = position, []
    for number, stop in enumerate(stops_left):
        leg = _leg(lane.road, stop, at, stops[stop], roads, truck, begins_at_stop=number > 0)
        if leg is None:
            return None
        legs.append(leg)
        at = stops[stop]
    return Road.of(legs)


def _leg(
    road: DrivenRoad, stop: int, start: Point, end: Point, roads: Roads, truck: TruckDimensions, *, begins_at_stop: bool
) -> Leg | None:
    """The leg to a stop, from a place on the driven road's leg to it."""
    first, last = (float(road.miles[road.stop_vertices[one]]) for one in (stop - 1, stop))
    joins, start_off = _nearest(road, start, first, min(first + _AROUND_STOP_MILES, last) if begins_at_stop else last)
    leaves, end_off = _nearest(road, end, max(last - _AROUND_STOP_MILES, first), last)
    if max(start_off, end_off) > BESIDE_LANE_MILES:
        return None
    if leaves <= joins:  # the truck is nearly there
        way = roads.through([start, end], truck)
        return Leg(way.line, way.line_miles, way.stop_hours[-1], way.source)
    line, miles, hours = _part(road, joins, leaves)
    pieces = [
        _connection(start, Point(*line[0].tolist()), start_off, roads, truck),
        (line, miles, hours),
        _connection(Point(*line[-1].tolist()), end, end_off, roads, truck),
    ]
    starts = np.cumsum([0.0, *(piece[1][-1] for piece in pieces)])
    return Leg(
        line=np.concatenate([piece[0] for piece in pieces]),
        line_miles=np.concatenate([start + piece[1] for start, piece in zip(starts, pieces, strict=False)]),
        hours=sum(piece[2] for piece in pieces),
        source=DRIVEN_LANE,
    )


def _connection(a: Point, b: Point, miles: float, roads: Roads, truck: TruckDimensions) -> tuple[Array, Array, float]:
    """The way between the driven road and a place beside it: line, miles, hours."""
    if miles <= _AT_ROAD_MILES:
        return np.array([a, b]), np.array([0.0, miles]), miles / LOCAL_MPH
    way = roads.through([a, b], truck)
    return way.line, way.line_miles, way.stop_hours[-1]


def _nearest(road: DrivenRoad, place: Point, first: float, last: float) -> tuple[float, float]:
    """The mile between `first` and `last` where the road is nearest to a place, and the distance there."""
    line, miles, _ = _part(road, first, last)
    if len(line) < 2 or miles[-1] <= 0:
        return first, great_circle_miles(Point(*line[0].tolist()), place)
    flat = flattened(np.concatenate([line, [place]]))
    string, point = shapely.LineString(flat[:-1]), shapely.Point(flat[-1])
    along = shapely.line_locate_point(string, point)
    lengths = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(flat[:-1], axis=0), axis=1))])
    distance = shapely.distance(string, point) / map_scale(np.array([place]))[0]
    return first + float(np.interp(along, lengths, miles)), float(distance)


def _part(road: DrivenRoad, first: float, last: float) -> tuple[Array, Array, float]:
    """The road from one mile to another: its line, the miles from its beginning, and its hours."""
    inside = (road.miles > first) & (road.miles < last)
    ends = np.array([first, last])
    longitudes = np.unwrap(road.line[:, 1], period=360)
    places = np.stack([np.interp(ends, road.miles, road.line[:, 0]), np.interp(ends, road.miles, longitudes)], axis=1)
    places[:, 1] = (places[:, 1] + 180) % 360 - 180
    line = np.concatenate([places[:1], road.line[inside], places[1:]])
    miles = np.concatenate([[first], road.miles[inside], [last]]) - first
    start, end = np.interp(ends, road.miles, road.hours)
    return line, miles, float(end - start)
