"""A road with a detour: the truck leaves it on its first leg, as far as deviations are noticed, and comes back."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from domain.roads import Point, Road
from domain.roads.sphere import EARTH_RADIUS_MILES, Array, densified, unit_vectors

DETOUR_MILES = 25.0
"""The straight way off the road, each way. A deviation is noticed from ten miles and a quarter of an hour on."""
_SHARE_OF_LEG = 0.25
_BEARINGS = 16


def with_detour(road: Road, first_leg_miles: float) -> tuple[Road, float]:
    """The road with a detour after a quarter of its first leg, and the mile at the detour's far end. Miles of the road
    beyond the place where the detour begins grow by twice DETOUR_MILES."""
    mile = detour_mile(first_leg_miles)
    at = int(np.searchsorted(road.line_miles, mile, side="right"))
    leaves = road.place_at(mile)
    far = _furthest(road, leaves)
    line = np.concatenate([road.line[:at], [leaves, far, leaves], road.line[at:]])
    line_miles = np.concatenate(
        [
            road.line_miles[:at],
            [mile, mile + DETOUR_MILES, mile + 2 * DETOUR_MILES],
            road.line_miles[at:] + 2 * DETOUR_MILES,
        ]
    )
    longer = replace(road, distance_miles=road.distance_miles + 2 * DETOUR_MILES, line=line, line_miles=line_miles)
    return longer, mile + DETOUR_MILES


def detour_mile(first_leg_miles: float) -> float:
    """The mile at which the truck leaves the road."""
    return first_leg_miles * _SHARE_OF_LEG


def away_from(road: Road, leaves: Point, steps: Sequence[float]) -> list[Point]:
    """Places on the straight way from `leaves` off the road, so many miles away from it."""
    far = _furthest(road, leaves)
    return [Point(*(np.array(leaves) + (far - np.array(leaves)) * miles / DETOUR_MILES).tolist()) for miles in steps]


def _furthest(road: Road, leaves: Point) -> Array:
    """The far end of the detour: of the places around its beginning, the one furthest from the road."""
    places = np.array([_moved(leaves, 2 * np.pi * number / _BEARINGS) for number in range(_BEARINGS)])
    line, _ = densified(road.line, road.line_miles, 1.0)
    nearest = (unit_vectors(places) @ unit_vectors(line).T).max(axis=1)
    return np.asarray(places[int(nearest.argmin())])


def _moved(place: Point, bearing: float) -> tuple[float, float]:
    """The place DETOUR_MILES away on the great circle in the direction of `bearing`."""
    latitude, longitude = np.radians(place.latitude), np.radians(place.longitude)
    angle = DETOUR_MILES / EARTH_RADIUS_MILES
    moved = np.arcsin(np.sin(latitude) * np.cos(angle) + np.cos(latitude) * np.sin(angle) * np.cos(bearing))
    east = np.arctan2(
        np.sin(bearing) * np.sin(angle) * np.cos(latitude), np.cos(angle) - np.sin(latitude) * np.sin(moved)
    )
    return float(np.degrees(moved)), float((np.degrees(longitude + east) + 180) % 360 - 180)
