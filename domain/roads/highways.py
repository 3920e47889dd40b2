"""The embedded roads: the main roads of North America from OpenStreetMap, and great circles where they do not lead.

`highways.npz` holds the motorways and trunk roads of the contiguous United States, Alaska, Canada and Mexico, and the
US freeway graph, as a contraction hierarchy (`contraction.py`). `build_highways.py` makes the file, and
`highways-licence.txt` names the owners of the data. The way is the quickest one. The lines between junctions are
simplified. Roads of lower rank are missing, so a way that needs them goes round.
"""

import bisect
import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from heapq import heapify, heappop, heappush
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from domain.roads import CIRCUITY, Leg, Point, Road
from domain.roads.packing import PER_DEGREE, Ints, pack_integers, unpack_integers
from domain.roads.sphere import (
    EARTH_RADIUS_MILES,
    MILES_PER_DEGREE,
    Array,
    great_circle_miles,
    miles_of_chords,
    unit_vectors,
)
from domain.roads.truck_dimensions import ANY_TRUCK, TruckDimensions

HIGHWAYS_FILE = Path(__file__).with_name("highways.npz")

PER_MILE = 100
"""The file keeps lengths as whole hundredths of a mile."""

FREEWAY_COST, OTHER_COST = 58, 65
"""The cost of a hundredth of a mile, a whole number for both. Costs compare as times at 65 mph on freeways and 58
elsewhere, the speeds that find the ways that are driven. The two speeds below tell how long a truck takes."""

HIGHWAY, FREEWAY = -1, -2
"""The kind of an arc that is no shortcut. It stands in place of the node that a shortcut goes through."""

FREEWAY_MPH = 55.0
"""Average of trucks on interstates, within the 50 to 60 mph of most corridors in FHWA's Freight Facts and Figures."""

OTHER_MPH = 40.0
"""Average of trucks over all their driving: 39.98 mph in ATRI's Operational Costs of Trucking."""

ACCESS_MILES = 50.0
"""A place no further from the main roads is driven to by them."""

MAX_ACCESSES = 32
"""Only so many nodes near a place are tried, the nearest ones. The best road is reached over these."""

LOCAL_MILES, WORST_LOCAL_CIRCUITY = 50.0, 1.60
"""A way so much longer than the straight line is not believed over so short a distance, for there is a smaller road.
Over a longer distance it is believed, for there is a lake or a mountain range."""

TOWN_MILES = 10.0
"""Within a town main roads are only taken where they are no detour from its streets."""

STRAIGHT_LINE_REASON = "no main road leads all the way: stations on the straight line may not lie on the way"


@dataclass(frozen=True, slots=True, eq=False)
class HighwayGraph:
    """Nodes as (n, 2) degrees, and for each node the arcs to more important ones, which are those from `first[node]`
    to `first[node + 1]`, in the order of `head`: the other end, the cost, and the node that a shortcut goes through.
    Every arc can be driven both ways.
    """

    nodes: Array
    first: Ints
    head: Ints
    cost: Ints
    through: Ints

    def save(self, path: Path) -> None:
        places = np.rint(self.nodes.T * PER_DEGREE).astype(np.int64)
        tail = np.repeat(np.arange(len(self.nodes)), np.diff(self.first))
        shortcut = self.through >= 0
        length = self.cost // np.where(self.through == FREEWAY, FREEWAY_COST, OTHER_COST)
        np.savez_compressed(
            path,
            places=pack_integers(np.asarray(np.diff(places, prepend=0), dtype=np.int64)),
            degree=np.diff(self.first).astype(np.uint8),
            head=pack_integers(self.head - tail),
            kind=np.minimum(self.through, 0).astype(np.int8),
            length=pack_integers(length[~shortcut]),
            cost=pack_integers(self.cost[shortcut]),
            through=pack_integers((self.through - tail)[shortcut]),
        )

    @classmethod
    def load(cls, path: Path) -> "HighwayGraph":
        with np.load(path) as file:
            places, degree, head, kind, length, shortcut_cost, shortcut_through = (file[name] for name in file.files)
        tail = np.repeat(np.arange(len(degree), dtype=np.int32), degree)
        through = kind.astype(np.int32)
        cost = np.empty(len(through), dtype=np.int32)
        shortcut = through == 0
        through[shortcut] = unpack_integers(shortcut_through) + tail[shortcut]
        cost[shortcut] = unpack_integers(shortcut_cost)
        cost[~shortcut] = unpack_integers(length) * np.where(through[~shortcut] == FREEWAY, FREEWAY_COST, OTHER_COST)
        nodes = np.cumsum(unpack_integers(places).reshape(2, -1), axis=1).T / PER_DEGREE
        first = np.concatenate([[0], np.cumsum(degree, dtype=np.int32)]).astype(np.int32)
        return cls(nodes, first, unpack_integers(head) + tail, cost, through)


class HighwayRoads:
    """Roads whose legs follow the main roads where both ends are near them, else a great circle."""

    def __init__(self) -> None:
        default_highway_finder()  # loads the file now, and not when the first truck waits for its plan

    def through(self, points: Sequence[Point], truck: TruckDimensions = ANY_TRUCK) -> Road:
        if len(points) < 2:
            raise ValueError("a road needs two points or more")
        legs = [_leg(a, b) for a, b in pairwise(points)]
        road = Road.of(legs)
        guessed = any(leg.source == "great-circle" and leg.miles > CIRCUITY * TOWN_MILES for leg in legs)
        return replace(road, fallback_reason=STRAIGHT_LINE_REASON) if guessed else road


@functools.lru_cache(maxsize=512)
def _leg(a: Point, b: Point) -> Leg:
    """The leg by the main roads, else by great circle. The last legs are kept in memory, some 10 KB each: companies
    drive the same lanes again and again, and on a route with several stops hardly more than the leg from the truck is
    new."""
    straight_miles = great_circle_miles(a, b)
    by_highway = default_highway_finder().leg(a, b)
    if by_highway is None or by_highway.miles > _longest_miles(straight_miles):
        miles = CIRCUITY * straight_miles
        return Leg(np.array([a, b], dtype=np.float64), np.array([0.0, miles]), miles / OTHER_MPH, "great-circle")
    return by_highway


def _longest_miles(straight_miles: float) -> float:
    if straight_miles > LOCAL_MILES:
        return np.inf
    return (WORST_LOCAL_CIRCUITY if straight_miles > TOWN_MILES else CIRCUITY) * straight_miles


@functools.cache
def default_highway_finder() -> "HighwayFinder":
    """The finder of the package's file, made once in each process."""
    return HighwayFinder(HighwayGraph.load(HIGHWAYS_FILE))


class HighwayFinder:
    """Finds quickest ways by two searches that meet. Threads may share it."""

    def __init__(self, graph: HighwayGraph) -> None:
        self.graph = graph
        by_latitude = np.argsort(graph.nodes[:, 0], kind="stable")
        self._by_latitude, self._latitudes = by_latitude, graph.nodes[by_latitude, 0]
        self._vectors = unit_vectors(graph.nodes[by_latitude])
        # Views of the arrays give Python's whole numbers, and several times faster than the arrays themselves.
        self._first = graph.first.data
        self._head = graph.head.data
        self._cost = graph.cost.data
        self._through = graph.through.data

    def leg(self, a: Point, b: Point) -> Leg | None:
        """The quickest of all ways onto, along and off the main roads."""
        on, off = self._access(a), self._access(b)
        way = self.way(on, off)
        if way is None:
            return None
        nodes, arcs = way
        freeway = self.graph.through[arcs] == FREEWAY
        freeway = np.concatenate([[False], freeway, [False]])  # smaller roads lead to and from the main roads
        costs = np.concatenate([[on[nodes[0]]], self.graph.cost[arcs], [off[nodes[-1]]]])
        miles = costs / np.where(freeway, FREEWAY_COST, OTHER_COST) / PER_MILE
        hours = float(np.sum(miles / np.where(freeway, FREEWAY_MPH, OTHER_MPH)))
        line = np.concatenate([[a], self.graph.nodes[nodes], [b]])
        return Leg(line, np.concatenate([[0.0], np.cumsum(miles)]), hours, "highway-graph")

    def lengths(self, arcs: NDArray[np.intp]) -> tuple[Array, Array]:
        """The miles and the hours of arcs that are no shortcuts."""
        freeway = self.graph.through[arcs] == FREEWAY
        miles = self.graph.cost[arcs] / np.where(freeway, FREEWAY_COST, OTHER_COST) / PER_MILE
        return miles, miles / np.where(freeway, FREEWAY_MPH, OTHER_MPH)

    def _access(self, point: Point) -> dict[int, int]:
        """The nodes near a point, each with the cost of the way there."""
        vector = unit_vectors(np.array([point]))[0]
        reach = ACCESS_MILES / MILES_PER_DEGREE
        first, end = np.searchsorted(self._latitudes, (point.latitude - reach, point.latitude + reach))
        near = first + np.flatnonzero(self._vectors[first:end] @ vector >= math.cos(ACCESS_MILES / EARTH_RADIUS_MILES))
        miles = miles_of_chords(np.linalg.norm(self._vectors[near] - vector, axis=1))
        nearest = np.argsort(miles, kind="stable")[:MAX_ACCESSES]
        costs = np.rint(CIRCUITY * PER_MILE * miles[nearest]).astype(np.int64) * OTHER_COST
        return dict(zip(self._by_latitude[near[nearest]].tolist(), costs.tolist(), strict=True))

    def way(self, on: dict[int, int], off: dict[int, int]) -> tuple[list[int], list[int]] | None:
        """The nodes of the cheapest way from one of `on` to one of `off`, and the arcs between them.

        The arcs to the most important nodes come first: these show soonest that a node need not be followed.
        """
        first, head, cost = self._first, self._head, self._cost
        costs = (dict(on), dict(off))
        came: tuple[dict[int, tuple[int, int]], ...] = ({}, {})  # from which node, by which arc
        queues = [[(total, node) for node, total in near.items()] for near in costs]
        for queue in queues:
            heapify(queue)
        best, meeting = math.inf, -1
        while queues[0] or queues[1]:
            side = 0 if queues[0] and (not queues[1] or queues[0] < queues[1]) else 1
            total, node = heappop(queues[side])
            if total >= best:
                break
            reached, queue = costs[side], queues[side]
            if total > reached[node]:
                continue
            if total + costs[1 - side].get(node, best) < best:
                best, meeting = total + costs[1 - side][node], node
            for arc in range(first[node + 1] - 1, first[node] - 1, -1):
                near, between = head[arc], cost[arc]
                known = reached.get(near, best)
                if total + between < known:
                    reached[near] = total + between
                    came[side][near] = node, arc
                    heappush(queue, (total + between, near))
                elif known + between < total:  # a cheaper way comes down to this node: none of the best goes up from it
                    break
        if meeting < 0:
            return None

        nodes, arcs = [meeting], list[int]()
        while nodes[-1] in came[0]:
            before, arc = came[0][nodes[-1]]
            self._unfold(arc, nodes[-1], before, nodes, arcs)
        nodes.reverse()
        arcs.reverse()
        while nodes[-1] in came[1]:
            after, arc = came[1][nodes[-1]]
            self._unfold(arc, nodes[-1], after, nodes, arcs)
        return nodes, arcs

    def _unfold(self, arc: int, start: int, end: int, nodes: list[int], arcs: list[int]) -> None:
        """Append the roads that an arc stands for, from `start` to `end`, and the nodes they lead to."""
        rest = [(arc, start, end)]
        while rest:
            arc, start, end = rest.pop()
            middle = self._through[arc]
            if middle < 0:
                arcs.append(arc)
                nodes.append(end)
            else:
                rest += (self._arc(middle, end), middle, end), (self._arc(middle, start), start, middle)

    def _arc(self, node: int, end: int) -> int:
        return bisect.bisect_left(self._head, end, self._first[node], self._first[node + 1])
