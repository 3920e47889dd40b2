"""The signs along a road: the names of the roads that it takes, and the exit that leads to a place beside it.

They come from the file that `fuelroute roads build --from` made, found by place and direction. So they also name the
roads of Valhalla and the roads that trucks drove."""

import functools
import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from domain.roads import Road
from domain.roads.highway_graph import HighwayGraph
from domain.roads.highways import default_highway_finder
from domain.roads.sphere import MILES_PER_DEGREE, Array, places_at
from domain.settings import get_settings

ON_ROAD_MILES = 0.08
"""Furthest distance of a road's line from the road of the file. The lines of the file are simplified to 30 m."""

SAME_WAY_COSINE = math.cos(math.radians(40))
"""Roads that lead into directions further apart are others: a road across, or the other carriageway."""

LOOK_DEGREES = 0.035
"""Reach of a search for vertices, which are at most 0.03 degrees apart on a road."""

SIGN_STEP_MILES = 5.0
"""Distance of the places at which the names along a road are read."""

EXIT_BEFORE_MILES, EXIT_BEHIND_MILES, USUAL_EXIT_MILES = 1.5, 0.3, 0.3
"""The ramp to a place begins at most so far before the place, or behind it; usually a third of a mile before it."""

_HEADING_MILES = 0.15


_Numbers = NDArray[np.signedinteger[Any]]


class Sign(NamedTuple):
    """The sign at a mile: the name of the road, such as `I-80 E`, and the exit for the place beside it."""

    name: str
    exit: str | None = None

    @property
    def has_direction(self) -> bool:
        """True for `I-80 E`, False for `US-6`."""
        return self.name[-2:-1] == " "

    def in_words(self) -> str:
        return self.name if self.exit is None else f"{self.name}, exit {self.exit}"


class RoadSigns:
    """The signs of a graph that has some. Threads may share it."""

    def __init__(self, graph: HighwayGraph) -> None:
        if graph.signs is None:
            raise ValueError("the graph has no signs")
        self._graph, self._signs = graph, graph.signs
        self._order = np.argsort(graph.nodes[:, 0], kind="stable")
        self._latitudes = graph.nodes[self._order, 0]
        self._exit_nodes = np.array(sorted(graph.signs.exits), dtype=np.int64)
        self._outward = int(graph.first[-1])

    def along(self, road: Road) -> list[tuple[float, str]]:
        """The names along a road: the mile at which each begins, and the name."""
        found = list[tuple[float, str]]()
        for mile in np.arange(SIGN_STEP_MILES / 2, road.distance_miles, SIGN_STEP_MILES).tolist():
            name = self.name_at(road, mile)
            if name is not None and (not found or found[-1][1] != name):
                found.append((mile, name))
        return found

    def sign_for(self, road: Road, mile: float) -> Sign | None:
        """The sign for a place beside a road; None where the road has no known name there."""
        exit_mile, number = self._exit(road, mile)
        name = self.name_at(road, mile if number is None else exit_mile)
        return Sign(name, number) if name is not None else None

    def name_at(self, road: Road, mile: float) -> str | None:
        """The name of the road at a mile; the nearest one that leads the same way."""
        place, heading = _place(road, mile), _heading(road, mile)
        tails, heads, names = self._arcs_near(place)
        if not len(names):
            return None
        starts, steps = _flat(self._graph.nodes[tails], place), _flat(self._graph.nodes[heads], place)
        steps -= starts
        lengths = np.maximum(np.linalg.norm(steps, axis=1), 1e-9)
        share = np.clip(-np.sum(starts * steps, axis=1) / lengths**2, 0, 1)
        miles = np.linalg.norm(starts + steps * share[:, None], axis=1)
        same_way = steps @ heading / lengths >= SAME_WAY_COSINE
        miles = np.where(same_way, miles, np.inf)
        nearest = int(np.argmin(miles))
        return self._signs.names[names[nearest]] if miles[nearest] <= ON_ROAD_MILES else None

    def _exit(self, road: Road, mile: float) -> tuple[float, str | None]:
        """The mile and number of the exit to a place beside the road; no number where none is known."""
        first, last = max(0.0, mile - EXIT_BEFORE_MILES), min(road.distance_miles, mile + EXIT_BEHIND_MILES)
        nodes = self._graph.nodes[self._exit_nodes]
        place = _place(road, mile)
        near = self._exit_nodes[np.linalg.norm(_flat(nodes, place), axis=1) <= EXIT_BEFORE_MILES + 1]
        miles = np.linspace(first, last, 40)
        samples = _flat(np.array([_place(road, each) for each in miles.tolist()]), place)
        found = list[tuple[float, float, str]]()
        for node in near.tolist():
            distances = np.linalg.norm(samples - _flat(self._graph.nodes[[node]], place), axis=1)
            at = int(np.argmin(distances))
            exit_mile = float(miles[at])
            if distances[at] <= ON_ROAD_MILES and self._leads_along(node, _heading(road, exit_mile)):
                found.append((abs(mile - USUAL_EXIT_MILES - exit_mile), exit_mile, self._signs.exits[node]))
        if not found:
            return mile, None
        _, exit_mile, number = min(found)
        return exit_mile, number

    def _leads_along(self, node: int, heading: Array) -> bool:
        """Tell if a road reaches or leaves a node in that direction."""
        place = self._graph.nodes[node]
        tails, heads, _ = self._arcs_near(place)
        at = (tails == node) | (heads == node)
        steps = _flat(self._graph.nodes[heads[at]], place) - _flat(self._graph.nodes[tails[at]], place)
        return bool(np.any(steps @ heading >= SAME_WAY_COSINE * np.linalg.norm(steps, axis=1)))

    def _arcs_near(self, place: Array) -> "tuple[_Numbers, _Numbers, _Numbers]":
        """Start, end and name of each named arc near a place, in the direction in which it is driven."""
        reach = LOOK_DEGREES / math.cos(math.radians(place[0]))
        low, high = np.searchsorted(self._latitudes, (place[0] - LOOK_DEGREES, place[0] + LOOK_DEGREES))
        nodes = self._order[low:high]
        nodes = nodes[np.abs(self._graph.nodes[nodes, 1] - place[1]) <= reach]
        of_nodes = [self._graph.arcs_at(node) for node in nodes.tolist()]
        arcs = np.concatenate(of_nodes) if of_nodes else np.empty(0, dtype=np.intp)
        lower = np.repeat(nodes, [len(each) for each in of_nodes])
        named = self._signs.name_of[arcs] >= 0
        arcs, lower = arcs[named], lower[named]
        higher, leads_away = self._graph.head[arcs], arcs < self._outward
        return np.where(leads_away, lower, higher), np.where(leads_away, higher, lower), self._signs.name_of[arcs]


def _place(road: Road, mile: float) -> Array:
    return np.asarray(places_at(road.line, road.line_miles, np.array([mile]))[0])


def _heading(road: Road, mile: float) -> Array:
    """The direction of a road at a mile, as a vector of length 1 to the east and to the north."""
    before, after = _place(road, mile - _HEADING_MILES), _place(road, mile + _HEADING_MILES)
    step = _flat(after[None, :], before)[0]
    return np.asarray(step / max(float(np.linalg.norm(step)), 1e-9))


def _flat(places: Array, around: Array) -> Array:
    """Places as miles to the east and to the north of one nearby."""
    east = (places[:, 1] - around[1]) * math.cos(math.radians(around[0]))
    return np.column_stack([east, places[:, 0] - around[0]]) * MILES_PER_DEGREE


@functools.cache
def default_road_signs() -> RoadSigns | None:
    """The signs of the roads' file, made once in each process; None for the package's file, which has none."""
    if get_settings().roads_file is None:
        return None  # without loading them
    graph = default_highway_finder().graph
    return RoadSigns(graph) if graph.signs is not None else None
