"""The embedded roads: the main roads of North America from OpenStreetMap, and great circles away from them.

`highways.npz` holds the motorways and trunk roads of the contiguous United States, Alaska, Canada and Mexico, and the
US freeway graph, as a contraction hierarchy (`contraction.py`). `build_highways.py` makes the file, and
`highways-licence.txt` names the owners of the data.

Ways are the quickest ones, with simplified lines between junctions. Smaller roads are missing, so a way that needs one
goes round."""

import bisect
import functools
import math
from collections.abc import Mapping, Sequence
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
    are_apart,
    great_circle_miles,
    miles_of_chords,
    places_along,
    unit_vectors,
)
from domain.roads.truck_dimensions import ANY_TRUCK, TruckDimensions

HIGHWAYS_FILE = Path(__file__).with_name("highways.npz")

PER_MILE = 100
"""The file keeps lengths as whole hundredths of a mile."""

HIGHWAY, FREEWAY, DIVIDED, OPEN, BORDER = -1, -2, -3, -4, -5
"""The kind of an arc of the roads. A shortcut has the node that it goes through in its place. DIVIDED highways have
four lanes. OPEN ones have two, in states where trucks drive 60 to 75 mph on them. Any other two-lane road is a HIGHWAY.
BORDER is a highway into or out of the United States."""

COSTS = np.array([0, 86, 65, 70, 74, 86], dtype=np.int64)
BORDER_COST = 360_000
"""COSTS[-kind] is the cost of a hundredth of a mile in hundredths of a second; a border adds an hour. The speeds are 55
mph on freeways, within the 50 to 60 mph of most corridors in FHWA's Freight Facts and Figures; 51 mph on divided and 49
mph on open highways; 42 mph on the others. Their ratios were chosen with half of the known truck ways
(`tests/benchmarks/truck_ways.py`) and judged with the other half."""

LOCAL_COST = 90
"""The cost of a hundredth of a mile on streets and roads that are not in the file: 40 mph, the average of trucks over
all their driving (39.98 mph in ATRI's Operational Costs of Trucking)."""

COST_PER_HOUR = 360_000
LOCAL_MPH = COST_PER_HOUR / (LOCAL_COST * PER_MILE)

ACCESS_MILES = 50.0
"""Furthest distance of a place from the main roads at which they are used to reach it."""

MAX_ACCESSES = 32
"""Most nodes near a place that are tried, the nearest first. The best road is reached over them."""

LOCAL_MILES, WORST_LOCAL_CIRCUITY = 50.0, 1.60
"""Within `LOCAL_MILES`, a way longer than the straight line by more than `WORST_LOCAL_CIRCUITY` is not believed: there
must be a smaller road. Over a longer distance a lake or a mountain range explains it."""

TOWN_MILES = 10.0
"""Within this distance, inside a town, main roads are taken only where they are no detour from its streets."""

SECOND_WAY_SHARE, APART_SHARE, APART_MILES = 1.03, 0.20, 5.0
"""A second way takes at most 1.03 times the best one's time. At least a fifth of it is more than five miles, about the
reach of a corridor, off the best one."""

DRAWN_TWICE_MILES = 1.5
"""Two lines nearer than this may be one road: the sources draw many roads twice, side by side."""

MOST_TRIED = 8
"""Most second ways that are looked at for one leg, to bound the time."""

NodesNear = dict[int, int]
"""The nodes near a place, each with the cost of the way there."""

Way = tuple[list[int], list[int]]
"""The nodes of a way, and the arcs between them."""

STRAIGHT_LINE_REASON = "no main road leads all the way: stations on the straight line may not lie on the way"


@dataclass(frozen=True, slots=True, eq=False)
class HighwayGraph:
    """The road graph. Nodes are (n, 2) degrees. The arcs from a node to more important ones are those from
    `first[node]` to `first[node + 1]`, in the order of `head`: the other end, the cost, and the node that a shortcut
    goes through. Every arc can be driven both ways."""

    nodes: Array
    first: Ints
    head: Ints
    cost: Ints
    through: Ints

    def lengths(self, arcs: Sequence[int] | NDArray[np.int64]) -> NDArray[np.int64]:
        """The lengths of arcs that are no shortcuts, in hundredths of a mile."""
        kinds = self.through[arcs]
        return np.asarray((self.cost[arcs] - np.where(kinds == BORDER, BORDER_COST, 0)) // COSTS[-kinds])

    def save(self, path: Path) -> None:
        places = np.rint(self.nodes.T * PER_DEGREE).astype(np.int64)
        tail = np.repeat(np.arange(len(self.nodes)), np.diff(self.first))
        shortcut = self.through >= 0
        np.savez_compressed(
            path,
            places=pack_integers(np.asarray(np.diff(places, prepend=0), dtype=np.int64)),
            degree=np.diff(self.first).astype(np.uint8),
            head=pack_integers(self.head - tail),
            kind=np.minimum(self.through, 0).astype(np.int8),
            length=pack_integers(self.lengths(np.flatnonzero(~shortcut))),
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
        cost[~shortcut] = costs_of(unpack_integers(length), through[~shortcut])
        nodes = np.cumsum(unpack_integers(places).reshape(2, -1), axis=1).T / PER_DEGREE
        first = np.concatenate([[0], np.cumsum(degree, dtype=np.int32)]).astype(np.int32)
        return cls(nodes, first, unpack_integers(head) + tail, cost, through)


def costs_of(lengths: NDArray[np.int64] | Ints, kinds: NDArray[np.int64] | Ints) -> NDArray[np.int64]:
    """The costs of arcs by their lengths in hundredths of a mile."""
    return np.asarray(lengths * COSTS[-kinds] + np.where(kinds == BORDER, BORDER_COST, 0))


class HighwayRoads:
    """Roads with legs along the main roads where both ends are near them, and along great circles elsewhere."""

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
    """The leg by the main roads, or by great circle. The last legs are kept in memory, some 10 KB each: companies drive
    the same lanes again and again, and on a route with several stops often only the leg from the truck is new."""
    straight_miles = great_circle_miles(a, b)
    by_highway = default_highway_finder().leg(a, b)
    if by_highway is None or by_highway.miles > _longest_miles(straight_miles):
        miles = CIRCUITY * straight_miles
        return Leg(np.array([a, b], dtype=np.float64), np.array([0.0, miles]), miles / LOCAL_MPH, "great-circle")
    return by_highway


def _longest_miles(straight_miles: float) -> float:
    if straight_miles > LOCAL_MILES:
        return np.inf
    return (WORST_LOCAL_CIRCUITY if straight_miles > TOWN_MILES else CIRCUITY) * straight_miles


@functools.cache
def default_highway_finder() -> "HighwayFinder":
    """The finder of the package's file, made once in each process."""
    return HighwayFinder(HighwayGraph.load(HIGHWAYS_FILE))


def _first_of(place: Mapping[int, int], node: int, came: Mapping[int, tuple[int, int]]) -> int:
    """The first node of the best way, followed back from `node`; -1 where there is no way."""
    while node not in place:
        if node not in came:
            return -1
        node = came[node][0]
    return node


class HighwayFinder:
    """Finds quickest ways by two searches that meet. Threads may share it."""

    def __init__(self, graph: HighwayGraph) -> None:
        self.graph = graph
        by_latitude = np.argsort(graph.nodes[:, 0], kind="stable")
        self._by_latitude, self._latitudes = by_latitude, graph.nodes[by_latitude, 0]
        self._vectors = unit_vectors(graph.nodes[by_latitude])
        # Memoryviews of the arrays give Python's whole numbers, several times faster than the arrays themselves.
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
        best = self._leg_of(a, b, on, off, way)
        return replace(best, second_way=self._second_way(a, b, on, off, way[0], best))

    def _leg_of(self, a: Point, b: Point, on: NodesNear, off: NodesNear, way: Way) -> Leg:
        nodes, arcs = way
        access = np.array([on[nodes[0]], off[nodes[-1]]]) // LOCAL_COST  # smaller roads lead to and from the main roads
        miles = np.concatenate([access[:1], self.graph.lengths(arcs), access[1:]]) / PER_MILE
        hours = (on[nodes[0]] + int(np.sum(self.graph.cost[arcs])) + off[nodes[-1]]) / COST_PER_HOUR
        line = np.concatenate([[a], self.graph.nodes[nodes], [b]])
        return Leg(line, np.concatenate([[0.0], np.cumsum(miles)]), hours, "highway-graph")

    def lengths(self, arcs: NDArray[np.intp]) -> tuple[Array, Array]:
        """The miles and the hours of arcs that are no shortcuts."""
        return self.graph.lengths(arcs) / PER_MILE, self.graph.cost[arcs] / COST_PER_HOUR

    def _second_way(
        self, a: Point, b: Point, on: NodesNear, off: NodesNear, best_nodes: list[int], best: Leg
    ) -> tuple[Leg, float] | None:
        """The quickest way that takes little longer than the best one and differs from it enough. Candidates lead over
        a node that both searches reach; the quickest are tried first, as in I. Abraham and others, "Alternative Routes
        in Road Networks", SEA 2010. Ways without such a node are not found."""
        total = round(best.hours * COST_PER_HOUR)
        longest, least_apart = int(total * SECOND_WAY_SHARE), int(total * APART_SHARE)
        if best.miles < LOCAL_MILES:
            return None
        sides = self._upward(on, longest), self._upward(off, longest)
        reached, came = [costs for costs, _ in sides], [arcs for _, arcs in sides]
        place = {node: position for position, node in enumerate(best_nodes)}
        by = ((cost + reached[1][node], node) for node, cost in reached[0].items() if node in reached[1])
        along = unit_vectors(places_along(best.line, best.line_miles, APART_MILES / 2))
        tried, looked_at = set[tuple[int, int]](), 0
        for cost, node in sorted(one for one in by if one[0] <= longest and one[1] not in place):
            leaves, returns = (_first_of(place, node, came[side]) for side in (0, 1))
            shared = sum(reached[side].get(one, 0) for side, one in enumerate((leaves, returns)) if one >= 0)
            if cost - shared < least_apart or (leaves, returns) in tried:
                continue
            if leaves >= 0 and returns >= 0 and place[leaves] >= place[returns]:
                continue
            tried.add((leaves, returns))
            if not np.any(are_apart(self.graph.nodes[[node]], along, DRAWN_TWICE_MILES)):
                continue
            way = self._unfolded(node, came)
            if len(set(way[0])) < len(way[0]):  # there and back on the same road
                continue
            leg = self._leg_of(a, b, on, off, way)
            places = places_along(leg.line, leg.line_miles, APART_MILES)
            apart_share = float(np.mean(are_apart(places, along, APART_MILES)))
            if apart_share >= APART_SHARE:
                return leg, 1 - apart_share
            looked_at += 1
            if looked_at == MOST_TRIED:
                break
        return None

    def _upward(self, near: NodesNear, longest: int) -> tuple[dict[int, int], dict[int, tuple[int, int]]]:
        """The cost of each more important node within reach, and the node and arc before it on the way."""
        first, head, cost = self._first, self._head, self._cost
        reached, came = dict(near), dict[int, tuple[int, int]]()
        queue = [(total, node) for node, total in near.items()]
        heapify(queue)
        settled = dict[int, int]()
        while queue:
            total, node = heappop(queue)
            if total > longest:
                break
            if total > reached[node]:
                continue
            for arc in range(first[node + 1] - 1, first[node] - 1, -1):
                near_node, between = head[arc], cost[arc]
                known = reached.get(near_node, longest + 1)
                if total + between < known:
                    reached[near_node] = total + between
                    came[near_node] = node, arc
                    heappush(queue, (total + between, near_node))
                elif known + between < total:
                    break
            else:
                settled[node] = total
        return settled, came

    def _access(self, point: Point) -> NodesNear:
        """The nodes near a point, each with the cost of the way there."""
        vector = unit_vectors(np.array([point]))[0]
        reach = ACCESS_MILES / MILES_PER_DEGREE
        first, end = np.searchsorted(self._latitudes, (point.latitude - reach, point.latitude + reach))
        near = first + np.flatnonzero(self._vectors[first:end] @ vector >= math.cos(ACCESS_MILES / EARTH_RADIUS_MILES))
        miles = miles_of_chords(np.linalg.norm(self._vectors[near] - vector, axis=1))
        nearest = np.argsort(miles, kind="stable")[:MAX_ACCESSES]
        costs = np.rint(CIRCUITY * PER_MILE * miles[nearest]).astype(np.int64) * LOCAL_COST
        return dict(zip(self._by_latitude[near[nearest]].tolist(), costs.tolist(), strict=True))

    def way(self, on: NodesNear, off: NodesNear) -> Way | None:
        """The nodes of the cheapest way from one of `on` to one of `off`, and the arcs between them."""
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
        return self._unfolded(meeting, came) if meeting >= 0 else None

    def _unfolded(self, meeting: int, came: Sequence[Mapping[int, tuple[int, int]]]) -> Way:
        """The nodes and arcs of the way over the node at which two searches met."""
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
