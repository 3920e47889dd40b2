"""The corridor: which stations lie near enough to the road, at which mile, and how far off it.

Around each station the earth is taken as flat: x to the east, y to the north, in miles, with the station at the origin.
Within the few miles of a detour that is right to a yard. The detour is the straight distance to the line.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from domain.roads import Road

MILES_PER_DEGREE = 69.093
"""Of latitude, on a sphere of 3,958.8 miles."""

_AT_ONCE = 512  # stations measured in one go: it bounds the memory, to 512 times the line's segments


class Station(NamedTuple):
    """A truck stop."""

    station_id: str
    name: str
    brand: str | None
    address: str | None
    city: str | None
    state: str | None
    latitude: float
    longitude: float

    @property
    def full_address(self) -> str | None:
        """Street, city and state in one line."""
        return ", ".join(part for part in (self.address, self.city, self.state) if part) or None


class Pass(NamedTuple):
    """The road coming by a station: where on the road it is nearest, and how far away it is then."""

    station_index: int
    mile: float
    detour_miles: float


def passes(road: Road, stations: Sequence[Station], max_detour_miles: float) -> list[Pass]:
    """Every pass of the road by a station within the limit, in driving order.

    A road that comes back passes a station again; one that winds around it near by passes it once.
    """
    found: list[Pass] = []
    for start in range(0, len(stations), _AT_ONCE):
        some = stations[start : start + _AT_ONCE]
        distances, miles = _nearest(road, np.array([(station.latitude, station.longitude) for station in some]))
        for index in np.flatnonzero((distances <= max_detour_miles).any(axis=1)):
            found += [
                Pass(start + int(index), float(miles[index, segment]), float(distances[index, segment]))
                for segment in _nearest_of_each_stretch(distances[index], max_detour_miles)
            ]
    return sorted(found, key=lambda one: (one.mile, one.detour_miles, stations[one.station_index].station_id))


def _nearest(road: Road, places: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """For each place and each segment of the line: their distance, and the road mile where it is least."""
    latitudes, longitudes = road.line[:, 0], road.line[:, 1]
    if len(latitudes) == 1:  # no road at all: a segment of no length
        latitudes, longitudes = np.repeat(latitudes, 2), np.repeat(longitudes, 2)
    line_miles = np.resize(road.line_miles, len(latitudes))
    east = (longitudes[None, :] - places[:, 1:2] + 180) % 360 - 180  # the short way, also across the antimeridian
    x = east * (MILES_PER_DEGREE * np.cos(np.radians(places[:, 0:1])))
    y = (latitudes[None, :] - places[:, 0:1]) * MILES_PER_DEGREE
    dx, dy = np.diff(x, axis=1), np.diff(y, axis=1)
    length_squared = dx**2 + dy**2
    with np.errstate(invalid="ignore", divide="ignore"):
        along = np.where(length_squared > 0, -(x[:, :-1] * dx + y[:, :-1] * dy) / length_squared, 0.0)
    along = np.clip(along, 0, 1)
    distances = np.hypot(x[:, :-1] + along * dx, y[:, :-1] + along * dy)
    miles = line_miles[:-1] + along * np.diff(line_miles)
    return distances, miles


def _nearest_of_each_stretch(distances: NDArray[np.float64], limit: float) -> list[int]:
    """The nearest segment of each run of neighbouring segments within the limit."""
    near = np.flatnonzero(distances <= limit)
    runs = np.split(near, np.flatnonzero(np.diff(near) > 1) + 1)
    return [int(run[np.argmin(distances[run])]) for run in runs]
