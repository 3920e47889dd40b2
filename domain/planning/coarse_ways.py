"""The coarse way of a plan: a point of its road every few miles, and the burn that it was made with.

The fuel of trucks on their way is looked at often. Unpacking the plan's explanation, with every candidate and the whole
line, takes many times as long, and retention deletes it."""

from dataclasses import dataclass
from typing import NamedTuple

import msgspec
import numpy as np

from domain.planning.fuel_plan import ComputedPlan
from domain.roads import Road
from domain.roads.highways import STRAIGHT_LINE_REASON
from domain.roads.sphere import Array, places_at

POINT_MILES = 4.0
"""Between two points the road is taken to be straight: seldom more than a mile off."""


@dataclass(frozen=True, eq=False)
class CoarseWay:
    line: Array
    line_miles: Array
    mpg: float
    capacity_gallons: float
    mpg_is_measured: bool = False
    """True if the levels of the trip itself had shown this mpg."""


class _Stored(NamedTuple):
    mpg: float
    capacity_gallons: float
    latitudes: list[float]
    longitudes: list[float]
    miles: list[float]
    mpg_is_measured: bool = False


_decode = msgspec.msgpack.Decoder(_Stored).decode


def coarse_way_of(plan: ComputedPlan) -> bytes | None:
    """The way as it is stored; None where a part of the road is a straight line because no road is known there."""
    road = plan.inputs.road
    if road.distance_miles <= 0 or STRAIGHT_LINE_REASON in (road.fallback_reason or ""):
        return None
    return pack_way(
        road,
        mpg=plan.trip.mpg,
        capacity_gallons=plan.inputs.rated_gallons,
        mpg_is_measured=plan.inputs.burn.kind == "measured",
    )


def pack_way(road: Road, *, mpg: float, capacity_gallons: float, mpg_is_measured: bool = False) -> bytes:
    points = max(2, round(road.distance_miles / POINT_MILES) + 1)
    miles = np.linspace(road.line_miles[0], road.line_miles[-1], points)
    latitudes, longitudes = places_at(road.line, road.line_miles, miles).round(4).T.tolist()
    return msgspec.msgpack.encode(
        _Stored(mpg, capacity_gallons, latitudes, longitudes, miles.round(2).tolist(), mpg_is_measured)
    )


def unpack_way(stored: bytes) -> CoarseWay:
    mpg, capacity_gallons, latitudes, longitudes, miles, mpg_is_measured = _decode(stored)
    line = np.array([latitudes, longitudes], dtype=np.float64).T
    return CoarseWay(line, np.array(miles, dtype=np.float64), mpg, capacity_gallons, mpg_is_measured)
