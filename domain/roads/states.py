"""The states of a road: its miles in each, and the state of a place.

A state here is one of the United States (`AZ`) or the District of Columbia, a province or territory of Canada (`ON`),
or Mexico as a whole (`MX`). `states.npz` holds their borders; `build_states.py` makes it from the borders at
1:10,000,000 that `states-licence.txt` names. They are simplified, so a border may lie a mile beside the true one.
"""

import functools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import shapely
from numpy.typing import NDArray

from domain.roads.packing import PER_DEGREE, pack_integers, unpack_integers
from domain.roads.sphere import Array, Point, densified

STATES_FILE = Path(__file__).with_name("states.npz")

ELSEWHERE = "elsewhere"
"""The code of a place that is neither in a state nor near one."""

STEP_MILES = 0.25
"""Distance between the samples of a road; a border crossing is then known to an eighth of a mile."""

_WIDE_CELLS_PER_DEGREE, _CELLS_PER_DEGREE = 4, 16
"""Cells of about 17 miles, for segments of a road, and of 4 miles, for its places."""

_NEAR_BORDER = -1
"""The state of what lies in no one state."""

_BEYOND_DEGREES = 1e-9
"""A cell is looked at with this much around it, for places on its edge."""

_BULGE_DEGREES = 1e-3
"""A great circle that is no longer than a cell reaches less than this beyond the box of its ends."""

NEAR_DEGREES = 0.4
"""About 25 miles. The borders end at the shore, so a bridge over a bay lies in no state and counts for the nearest."""


class _Cells:
    """The squares of a grid over the earth, each with the state that it lies in. Most of a road lies deep in one state,
    and companies drive the same roads: a cell is compared with borders when a road first comes there."""

    def __init__(self, per_degree: int) -> None:
        self._per_degree, self._columns = per_degree, 360 * per_degree
        self._known = np.zeros(180 * per_degree * self._columns, dtype=np.int8)
        """The state and `_KNOWN`; 0 where nobody has looked."""

    def states(self, latitude: Array, longitude: Array, look: "_Look") -> NDArray[np.intp]:
        """The states of the cells in which these places lie; `_NEAR_BORDER` where a cell lies in no one state. Threads
        may look at the same cell at once."""
        cells = self._numbers(latitude, 90) * self._columns + self._numbers(longitude, 180)
        found = self._known[cells]
        if not np.all(found):
            new = np.unique(cells[found == 0])
            row, column = np.divmod(new, self._columns)
            south, west = (
                row / self._per_degree - 90 - _BEYOND_DEGREES,
                column / self._per_degree - 180 - _BEYOND_DEGREES,
            )
            size = 1 / self._per_degree + 2 * _BEYOND_DEGREES
            self._known[new] = look(shapely.box(west, south, west + size, south + size)) + _KNOWN
            found = self._known[cells]
        return np.asarray(found.astype(np.intp) - _KNOWN)

    def _numbers(self, degrees: Array, most: int) -> NDArray[np.intp]:
        numbers = ((degrees + most) * self._per_degree).astype(np.intp)
        return np.asarray(np.clip(numbers, 0, 2 * most * self._per_degree - 1))


_KNOWN = 2
_Look = Callable[[NDArray[np.object_]], NDArray[np.intp]]
"""Tells the state that each box lies in."""


class States:
    """States by their codes, each as the polygons it consists of."""

    def __init__(self, codes: Sequence[str], polygons: Sequence[shapely.Polygon]) -> None:
        """`codes[n]` is the state of `polygons[n]`, which is in degrees: longitude, latitude. Where polygons overlap,
        the first one counts."""
        self.names = [*sorted(set(codes)), ELSEWHERE]
        self._codes, self._polygons = list(codes), list(polygons)
        self._state_of = np.array([self.names.index(code) for code in codes], dtype=np.intp)
        self._tree = shapely.STRtree(self._polygons)
        self._wide_cells, self._cells = _Cells(_WIDE_CELLS_PER_DEGREE), _Cells(_CELLS_PER_DEGREE)
        shapely.prepare(self._polygons)  # makes each check only its edges near a point: ten times faster

    def polygons(self) -> Iterator[tuple[str, shapely.Polygon]]:
        """The parts of the states, each with the code of its state."""
        return zip(self._codes, self._polygons, strict=True)

    def at(self, place: Point) -> str:
        """The code of the state that a place is in."""
        return self.names[int(self.positions(np.array([place]))[0])]

    def miles(self, line: Array, line_miles: Array) -> dict[str, float]:
        """The miles of a road in each state, by its code, in driving order. The road is an (n, 2) line with the road
        mile at each vertex. The sum is the length of the road."""
        dense, dense_miles = densified(line, line_miles, STEP_MILES, only=self._may_cross_borders(line))
        halves = np.diff(dense_miles) / 2  # each vertex stands for the road halfway to its neighbours
        weights = np.concatenate([halves, [0.0]]) + np.concatenate([[0.0], halves])
        states = self._positions_along(dense)
        miles = np.bincount(states, weights, minlength=len(self.names))
        found, first = np.unique(states, return_index=True)
        return {self.names[state]: float(miles[state]) for state in found[np.argsort(first)] if miles[state]}

    def stretches(self, line: Array, line_miles: Array, step_miles: float) -> list[tuple[float, str]]:
        """The states along a road, in driving order: the mile where the road enters each, and its code. The road is an
        (n, 2) line with the road mile at each vertex, sampled every `step_miles`."""
        dense, dense_miles = densified(line, line_miles, step_miles)
        states = self._positions_along(dense)
        begins = np.flatnonzero(np.diff(states, prepend=-1))
        return [(float(dense_miles[one]), self.names[int(states[one])]) for one in begins]

    def _may_cross_borders(self, line: Array) -> NDArray[np.bool_]:
        """Tells which segments of a line may not lie in one state: those whose box does not lie in cells of one."""
        low = np.minimum(line[:-1], line[1:]) - _BULGE_DEGREES
        high = np.maximum(line[:-1], line[1:]) + _BULGE_DEGREES
        is_long = np.max(high - low, axis=1) > 1 / _WIDE_CELLS_PER_DEGREE
        (south, west), (north, east) = low.T, high.T
        latitude, longitude = np.concatenate([south, south, north, north]), np.concatenate([west, east, west, east])
        corners = self._wide_cells.states(latitude, longitude, self._around).reshape(4, -1)
        return np.asarray(is_long | (corners[0] < 0) | np.any(corners != corners[0], axis=0))

    def _positions_along(self, line: Array) -> NDArray[np.intp]:
        """The states of the places of a line, as `positions` has them."""
        states = np.full(len(line), _NEAR_BORDER, dtype=np.intp)
        for cells in (self._wide_cells, self._cells):
            near = np.flatnonzero(states < 0)
            states[near] = cells.states(line[near, 0], line[near, 1], self._around)
        near = np.flatnonzero(states < 0)
        states[near] = self.positions(line[near])
        return states

    def _around(self, boxes: NDArray[np.object_]) -> NDArray[np.intp]:
        """The state that each box lies in; _NEAR_BORDER where one is near, or it lies in none."""
        states = np.full(len(boxes), _NEAR_BORDER, dtype=np.intp)
        boxed, found = self._tree.query(boxes)
        for polygon in np.unique(found)[::-1]:  # the first one last, as above
            near = boxed[found == polygon]
            touched = near[shapely.intersects(self._polygons[polygon], boxes[near])]
            within = shapely.contains_properly(self._polygons[polygon], boxes[touched])
            states[touched] = np.where(within, self._state_of[polygon], _NEAR_BORDER)
        return states

    def positions(self, places: Array) -> NDArray[np.intp]:
        """The states of (n, 2) places, each as its position in `names`."""
        points = shapely.points(places[:, 1], places[:, 0])
        states = np.full(len(points), len(self.names) - 1, dtype=np.intp)
        boxed, box = self._tree.query(points)
        for polygon in np.unique(box)[::-1]:  # the first one last, so that it replaces the others
            within = boxed[box == polygon]
            within = within[shapely.intersects_xy(self._polygons[polygon], places[within, 1], places[within, 0])]
            states[within] = self._state_of[polygon]
        outside = np.flatnonzero(states == len(self.names) - 1)
        if len(outside):
            near, polygon = self._tree.query_nearest(points[outside], max_distance=NEAR_DEGREES, all_matches=False)
            states[outside[near]] = self._state_of[polygon]
        return states

    def save(self, path: Path) -> None:
        rings = [[polygon.exterior, *polygon.interiors] for polygon in self._polygons]
        flat = [ring for of_polygon in rings for ring in of_polygon]
        places = np.rint(shapely.get_coordinates(flat) * PER_DEGREE).astype(np.int64)
        np.savez_compressed(
            path,
            codes=np.array(self._codes, dtype="U2"),
            rings=np.array([len(of_polygon) for of_polygon in rings], dtype=np.uint16),
            sizes=np.array([len(ring.coords) for ring in flat], dtype=np.uint16),
            places=pack_integers(np.diff(places.T, prepend=0)),
        )

    @classmethod
    def load(cls, path: Path) -> "States":
        with np.load(path) as file:
            codes, rings, sizes, places = (file[name] for name in ("codes", "rings", "sizes", "places"))
        degrees = np.cumsum(unpack_integers(places).reshape(2, -1), axis=1).T / PER_DEGREE
        flat = shapely.linearrings(degrees, indices=np.repeat(np.arange(len(sizes)), sizes))
        polygons = shapely.polygons(flat, indices=np.repeat(np.arange(len(rings)), rings))  # the first is the shell
        return cls(codes.tolist(), polygons)


@functools.cache
def default_states() -> States:
    """The states of the package's file, read once in each process that needs them."""
    return States.load(STATES_FILE)
