"""The embedded roads: the main roads of North America from OpenStreetMap, and great circles away from them.

`highways.npz` holds the motorways and trunk roads of the contiguous United States, Alaska, Canada and Mexico, and the
US freeway graph, as a contraction hierarchy (`contraction.py`). `build_highways.py` makes the file, and
`highways-licence.txt` names the owners of the data.

Ways are the quickest ones, with simplified lines between junctions. Smaller roads are missing, so a way that needs one
goes round."""

import functools
import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import replace
from heapq import heapify, heappop, heappush
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from domain.documents import EXTRACT_GRAPH
from domain.roads import CIRCUITY, Leg, Point, Road
from domain.roads.highway_graph import PER_MILE, HighwayGraph, UnusableRoadsFile
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
from domain.settings import get_settings
from domain.telemetry.logs import get_logger

log = get_logger(__name__)

HIGHWAYS_FILE = Path(__file__).with_name("highways.npz")

LOCAL_COST = 90
"""The cost of a hundredth of a mile on streets and roads that are not in the file: 40 mph, the average of trucks over
all their driving (39.98 mph in ATRI's Operational Costs of Trucking)."""

COST_PER_HOUR = 360_000
LOCAL_MPH = COST_PER_HOUR / (LOCAL_COST * PER_MILE)

ACCESS_MILES = 50.0
"""Furthest distance of a place from the main roads at which they are used to reach it."""

MAX_ACCESSES = 32
"""Most nodes near a place that are tried, the nearest first. The best road is reached over them."""

EXTRACT_ACCESS_MILES, EXTRACT_BEYOND_NEAREST_MILES = 15.0, 2.0
"""Furthest distance of a place from the roads of an extract; a place further away lies outside of it. And the furthest
distance of its ways onto them beyond the nearest one: no truck drives beside a main road that is closed to it."""

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
    finder = default_highway_finder()
    by_highway = _believable(finder.leg(a, b), straight_miles)
    if by_highway is None and finder.graph.signs is not None:  # outside of the extract
        by_highway = _believable(_package_highway_finder().leg(a, b), straight_miles)
    if by_highway is not None:
        return by_highway
    miles = CIRCUITY * straight_miles
    return Leg(np.array([a, b], dtype=np.float64), np.array([0.0, miles]), miles / LOCAL_MPH, "great-circle")


def _believable(leg: Leg | None, straight_miles: float) -> Leg | None:
    return leg if leg is not None and leg.miles <= _longest_miles(straight_miles) else None


def _longest_miles(straight_miles: float) -> float:
    if straight_miles > LOCAL_MILES:
        return np.inf
    return (WORST_LOCAL_CIRCUITY if straight_miles > TOWN_MILES else CIRCUITY) * straight_miles


@functools.cache
def default_highway_finder() -> "HighwayFinder":
    """The finder of the file that the settings name, else of the package's; made once in each process. A file that
    cannot be used stops no plan."""
    file = get_settings().roads_file
    try:
        return HighwayFinder(HighwayGraph.load(file)) if file is not None else _package_highway_finder()
    except UnusableRoadsFile as unusable:
        log.error("roads.file_unusable", reason=str(unusable))
        return _package_highway_finder()


@functools.cache
def _package_highway_finder() -> "HighwayFinder":
    return HighwayFinder(HighwayGraph.load(HIGHWAYS_FILE))


def _first_of(place: Mapping[int, int], node: int, came: Mapping[int, tuple[int, int]]) -> int:
    """The first node of the best way, followed back from `node`; -1 where there is no way."""
    while node not in place:
        if node not in came:
            return -1
        node = came[node][0]
    return node


class _Side(NamedTuple):
    """One of the two searches for a way: onwards from the nodes near its start, or back from those near its end."""

    near: NodesNear
    costs: dict[int, int]
    """The least cost known of each node."""
    came: dict[int, tuple[int, int]]
    """The node before it on the way, and the arc between them."""
    settled: dict[int, int]
    """The nodes that were searched from, each with its cost; without those to which a cheaper way comes down."""
    queue: list[tuple[int, int]]

    @classmethod
    def of(cls, near: NodesNear) -> "_Side":
        queue = [(total, node) for node, total in near.items()]
        heapify(queue)
        return cls(near, dict(near), {}, {}, queue)


_Sides = tuple[_Side, _Side]


class HighwayFinder:
    """Finds quickest ways by two searches that meet. Threads may share it."""

    def __init__(self, graph: HighwayGraph) -> None:
        self.graph = graph
        signs = graph.signs
        can_join = np.arange(len(graph.nodes)) if signs is None else np.flatnonzero(signs.can_join)
        by_latitude = can_join[np.argsort(graph.nodes[can_join, 0], kind="stable")]
        self._by_latitude, self._latitudes = by_latitude, graph.nodes[by_latitude, 0]
        self._vectors = unit_vectors(graph.nodes[by_latitude])
        self._access_miles = ACCESS_MILES if signs is None else EXTRACT_ACCESS_MILES
        self._source = "highway-graph" if signs is None else EXTRACT_GRAPH
        # Memoryviews of the arrays give Python's whole numbers, several times faster than the arrays themselves.
        inward = graph.first if graph.first_inward is None else graph.first_inward
        self._firsts = graph.first.data, inward.data
        self._is_two_way = graph.first_inward is None
        self._head = graph.head.data
        self._cost = graph.cost.data
        self._through = graph.through.data

    def leg(self, a: Point, b: Point) -> Leg | None:
        """The quickest of all ways onto, along and off the main roads."""
        on, off = self._access(a), self._access(b)
        sides = _Side.of(on), _Side.of(off)
        meeting = self._meet(sides)
        if meeting < 0:
            return None
        way = self._unfolded(meeting, sides)
        best = self._leg_of(a, b, on, off, way)
        return replace(best, second_way=self._second_way(a, b, sides, way[0], best))

    def _leg_of(self, a: Point, b: Point, on: NodesNear, off: NodesNear, way: Way) -> Leg:
        nodes, arcs = way
        access = np.array([on[nodes[0]], off[nodes[-1]]]) // LOCAL_COST  # smaller roads lead to and from the main roads
        miles = np.concatenate([access[:1], self.graph.lengths(arcs), access[1:]]) / PER_MILE
        hours = (on[nodes[0]] + int(np.sum(self.graph.cost[arcs])) + off[nodes[-1]]) / COST_PER_HOUR
        line = np.concatenate([[a], self.graph.nodes[nodes], [b]])
        return Leg(line, np.concatenate([[0.0], np.cumsum(miles)]), hours, self._source)

    def lengths(self, arcs: NDArray[np.intp]) -> tuple[Array, Array]:
        """The miles and the hours of arcs that are no shortcuts."""
        return self.graph.lengths(arcs) / PER_MILE, self.graph.cost[arcs] / COST_PER_HOUR

    def _second_way(
        self, a: Point, b: Point, sides: "_Sides", best_nodes: list[int], best: Leg
    ) -> tuple[Leg, float] | None:
        """The quickest way that takes little longer than the best one and differs from it enough. Candidates lead over
        a node that both searches reach; the quickest are tried first, as in I. Abraham and others, "Alternative Routes
        in Road Networks", SEA 2010. Ways without such a node are not found. The searches are those that found the best
        way."""
        total = round(best.hours * COST_PER_HOUR)
        longest, least_apart = int(total * SECOND_WAY_SHARE), int(total * APART_SHARE)
        if best.miles < LOCAL_MILES:
            return None
        self._search_on(sides, longest)
        reached, came = [side.settled for side in sides], [side.came for side in sides]
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
            way = self._unfolded(node, sides)
            if len(set(way[0])) < len(way[0]):  # there and back on the same road
                continue
            leg = self._leg_of(a, b, sides[0].near, sides[1].near, way)
            places = places_along(leg.line, leg.line_miles, APART_MILES)
            apart_share = float(np.mean(are_apart(places, along, APART_MILES)))
            if apart_share >= APART_SHARE:
                return leg, 1 - apart_share
            looked_at += 1
            if looked_at == MOST_TRIED:
                break
        return None

    def _access(self, point: Point) -> NodesNear:
        """The nodes near a point, each with the cost of the way there."""
        vector = unit_vectors(np.array([point]))[0]
        reach = self._access_miles / MILES_PER_DEGREE
        least_cosine = math.cos(self._access_miles / EARTH_RADIUS_MILES)
        first, end = np.searchsorted(self._latitudes, (point.latitude - reach, point.latitude + reach))
        near = first + np.flatnonzero(self._vectors[first:end] @ vector >= least_cosine)
        miles = miles_of_chords(np.linalg.norm(self._vectors[near] - vector, axis=1))
        nearest = np.argsort(miles, kind="stable")[:MAX_ACCESSES]
        if self.graph.signs is not None and len(nearest):
            nearest = nearest[miles[nearest] <= miles[nearest[0]] + EXTRACT_BEYOND_NEAREST_MILES]
        costs = np.rint(CIRCUITY * PER_MILE * miles[nearest]).astype(np.int64) * LOCAL_COST
        return dict(zip(self._by_latitude[near[nearest]].tolist(), costs.tolist(), strict=True))

    def way(self, on: NodesNear, off: NodesNear) -> Way | None:
        """The nodes of the cheapest way from one of `on` to one of `off`, and the arcs between them."""
        sides = _Side.of(on), _Side.of(off)
        meeting = self._meet(sides)
        return self._unfolded(meeting, sides) if meeting >= 0 else None

    def _meet(self, sides: "_Sides") -> int:
        """The node at which two searches meet for the cheapest way; -1 where there is no way. What is beyond it by no
        more than `SECOND_WAY_SHARE` stays noted, for `_search_on`."""
        best, most, meeting = math.inf, math.inf, -1
        queues, costs = [side.queue for side in sides], [side.costs for side in sides]
        while queues[0] or queues[1]:
            at = 0 if queues[0] and (not queues[1] or queues[0][0] < queues[1][0]) else 1
            if queues[at][0][0] >= best:
                break
            total, node = heappop(queues[at])
            if total > costs[at][node]:
                continue
            beyond = costs[1 - at].get(node)
            if beyond is not None and total + beyond < best:
                best, most, meeting = total + beyond, int((total + beyond) * SECOND_WAY_SHARE) + 1, node
            self._relax(sides[at], self._firsts[at], node, total, most)
        return meeting

    def _search_on(self, sides: "_Sides", longest: int) -> None:
        """Settles all that either search reaches at no more than this cost."""
        for side, first in zip(sides, self._firsts, strict=True):
            while side.queue and side.queue[0][0] <= longest:
                total, node = heappop(side.queue)
                if total <= side.costs[node]:
                    self._relax(side, first, node, total, longest + 1)

    def _relax(self, side: "_Side", first: memoryview, node: int, total: int, most: float) -> None:
        """Notes the cheaper ways to more important nodes, as far as they cost less than `most`."""
        head, cost = self._head, self._cost
        _, costs, came, settled, queue = side
        for arc in range(first[node + 1] - 1, first[node] - 1, -1):
            near, between = head[arc], cost[arc]
            known = costs.get(near, most)
            if total + between < known:
                costs[near] = total + between
                came[near] = node, arc
                heappush(queue, (total + between, near))
            elif (
                self._is_two_way and known + between < total
            ):  # a cheaper way comes down to this node: none of the best goes up from it
                return
        settled[node] = total

    def _unfolded(self, meeting: int, sides: "_Sides") -> Way:
        """The nodes and arcs of the way over the node at which two searches met."""
        came_on, came_off = (side.came for side in sides)
        chain, node = list[tuple[int, int, int]](), meeting
        while node in came_on:
            before, arc = came_on[node]
            chain.append((arc, before, node))
            node = before
        nodes, arcs = [node], list[int]()
        chain.reverse()
        node = meeting
        while node in came_off:
            after, arc = came_off[node]
            chain.append((arc, node, after))
            node = after
        for arc, start, end in chain:
            self._unfold(arc, start, end, nodes, arcs)
        return nodes, arcs

    def _unfold(self, arc: int, start: int, end: int, nodes: list[int], arcs: list[int]) -> None:
        """Append the roads that an arc stands for, from `start` to `end`, and the nodes they lead to."""
        (outward, inward), head, through = self._firsts, self._head, self._through
        rest = [(arc, start, end)]
        while rest:
            arc, start, end = rest.pop()
            middle = through[arc]
            if middle < 0:
                arcs.append(arc)
                nodes.append(end)
            else:
                onward = bisect_left(head, end, outward[middle], outward[middle + 1])
                back = bisect_left(head, start, inward[middle], inward[middle + 1])
                rest += (onward, middle, end), (back, start, middle)
