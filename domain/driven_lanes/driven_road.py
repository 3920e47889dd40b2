"""The road that one truck took on a completed route, and how it is stored."""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import shapely

from domain.roads.packing import pack_integers, unpack_integers
from domain.roads.sphere import EARTH_RADIUS_MILES, Array

_PER_DEGREE = 100_000
_PER_MILE = 1_000
_PER_HOUR = 36_000
"""Stored numbers are whole: places to about a meter, miles to 5 feet, hours to a tenth of a second."""

MOST_VERTICES = 4_000
"""Most vertices of a stored road, some 16 KB."""

_SIMPLIFIED_MILES = 0.02


@dataclass(frozen=True, slots=True, eq=False)
class DrivenRoad:
    """The road from the first stop of a route to the last one, without fuel stops and other detours.

    `line` is (n, 2), latitude and longitude in degrees, `miles` and `hours` (n,) the road mile and the hours of driving
    at each vertex, from 0. `stop_vertices` are the vertices at which the stops were reached, the first and the last
    among them. Nothing here depends on the file of the embedded roads, which another release may replace.
    """

    line: Array
    miles: Array
    hours: Array
    stop_vertices: tuple[int, ...]

    def pack(self) -> bytes:
        places = np.rint(self.line.T * _PER_DEGREE)
        rows = [*places, np.rint(self.miles * _PER_MILE), np.rint(self.hours * _PER_HOUR)]
        deltas = [np.diff(row.astype(np.int64), prepend=0) for row in rows]
        head = np.array([len(self.stop_vertices), *self.stop_vertices], dtype=np.int64)
        return zlib.compress(pack_integers(np.concatenate([head, *deltas])).tobytes())

    @classmethod
    def unpack(cls, stored: bytes) -> "DrivenRoad":
        numbers = unpack_integers(np.frombuffer(zlib.decompress(stored), dtype=np.uint8).reshape(4, -1))
        stops = int(numbers[0])
        latitude, longitude, miles, hours = np.cumsum(numbers[1 + stops :].reshape(4, -1).astype(np.int64), axis=1)
        return cls(
            line=np.stack([latitude, longitude], axis=1) / _PER_DEGREE,
            miles=miles / _PER_MILE,
            hours=hours / _PER_HOUR,
            stop_vertices=tuple(numbers[1 : 1 + stops].tolist()),
        )

    @classmethod
    def of(cls, legs: Sequence["DrivenRoad"]) -> "DrivenRoad":
        """Join the ways between stops end to end."""
        starts, vertices = [(0.0, 0.0)], [0]
        for leg in legs:
            starts.append((starts[-1][0] + leg.miles[-1], starts[-1][1] + leg.hours[-1]))
            vertices.append(vertices[-1] + len(leg.line))
        return cls(
            line=np.concatenate([leg.line for leg in legs]),
            miles=np.concatenate([start[0] + leg.miles for start, leg in zip(starts, legs, strict=False)]),
            hours=np.concatenate([start[1] + leg.hours for start, leg in zip(starts, legs, strict=False)]),
            stop_vertices=(*vertices[:-1], vertices[-1] - 1),
        )

    def simplified(self) -> "DrivenRoad":
        """Drop vertices until at most `MOST_VERTICES` are left. All miles and hours stay."""
        tolerance = _SIMPLIFIED_MILES
        while True:
            kept = np.unique(
                np.concatenate(
                    [
                        first + _kept(self.line[first : last + 1], tolerance)
                        for first, last in zip(self.stop_vertices, self.stop_vertices[1:], strict=False)
                    ]
                )
            )
            if len(kept) <= max(MOST_VERTICES, 2 * len(self.stop_vertices)):
                break
            tolerance *= 2
        return DrivenRoad(
            self.line[kept],
            self.miles[kept],
            self.hours[kept],
            tuple(np.searchsorted(kept, self.stop_vertices).tolist()),
        )


def _kept(line: Array, tolerance_miles: float) -> np.ndarray:
    """The indexes of the vertices that a simplified line keeps, the ends among them."""
    flat = flattened(line)
    if len(flat) < 3:
        return np.arange(len(flat))
    scale = float(np.mean(map_scale(line)))
    simple = shapely.get_coordinates(
        shapely.LineString(flat).simplify(tolerance_miles * scale, preserve_topology=False)
    )
    kept, at = [], 0
    for place in simple:
        at += int(np.argmax((flat[at:] == place).all(axis=1)))
        kept.append(at)
    kept[-1] = len(flat) - 1
    return np.array(kept)


def flattened(line: Array) -> Array:
    """The line on a Mercator map, in miles at the equator, for searching what is near. Distances there divided by
    `map_scale` are miles. Longitudes go on over the antimeridian."""
    latitude, longitude = np.radians(line).T
    x = longitude[0] + np.cumsum((np.diff(longitude, prepend=longitude[0]) + np.pi) % (2 * np.pi) - np.pi)
    return np.stack([x, np.arcsinh(np.tan(latitude))], axis=1) * EARTH_RADIUS_MILES


def map_scale(line: Array) -> Array:
    """Miles of the flattened map for a mile on the ground, at each vertex."""
    return 1 / np.cos(np.radians(np.minimum(np.abs(line[:, 0]), 85.0)))
