"""Snapping: the fixes of a truck between two stops become a way along the embedded roads.

The way is the shortest one in a small graph of three kinds of edges: main roads along the fixes, the line of the fixes
themselves at a higher price, and connections between the two. So it follows the main roads where the truck did, and the
fixes where it used a road that the file lacks, or draws as a straight line. Before that, detours into stations are
cut off, and gaps in the fixes are bridged where the roads leave no doubt about the way between.
"""

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise

import numpy as np
import shapely
from numpy.typing import NDArray

from domain.driven_lanes.driven_road import DrivenRoad, flattened, map_scale
from domain.roads import CIRCUITY, Point, great_circle_miles
from domain.roads.highways import LOCAL_MPH, HighwayFinder
from domain.roads.sphere import Array, segment_miles

MAX_MPH = 95.0
"""Highest speed of a truck between two fixes that are miles apart; a faster fix is wild."""

THINNED_MILES = 0.3
"""Fixes closer together than this are thinned to one. The errors of GPS are far smaller."""

MOST_DETOUR_MILES = 12.0
BACK_ON_ROAD_MILES = 0.5
"""A truck that comes back to a place of its way within this many miles has been at a station; the loop is cut off."""

GAP_MILES = 2.0
"""Fixes further apart than this are connected by the embedded roads, if the roads are hardly longer than the straight
line."""

MOST_CIRCUITY = 1.30
LONG_GAP_MILES = 15.0
"""A gap longer than this that no such road connects leaves the way unknown."""

MOST_BRIDGED_SHARE = 0.25
"""Largest share of a trip that may lie in long gaps."""

NEAR_MILES = 0.7
"""Main roads within this distance of the fixes are followed. The file's lines are simplified."""

MOST_WILD_SHARE = 0.05
"""Largest share of fixes that may be wild, too far from the fix before to be true."""

_OFF_ROAD_COST = 1.6
"""Cost of a mile along the fixes, in miles along a main road."""

_CONNECTION_COST = 3.0
_CONNECTION_MILES = 0.2
"""Cost of a connection beyond its miles times `_OFF_ROAD_COST`, so that the way does not jump without need."""

_CELLS_PER_DEGREE = 40
_ROAD_SAMPLE_MILES = 1.0


class UnusableFixes(Exception):
    """The fixes show no believable way. `reason` is one or two words, for counting."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class TimedPlace:
    place: Point
    at: datetime


@dataclass(frozen=True, slots=True, eq=False)
class _Chain:
    """The cleaned line of the fixes: (n, 2) degrees, without gaps."""

    line: Array
    bridged_miles: float


def snapped(finder: HighwayFinder, legs: Sequence[Sequence[TimedPlace]]) -> DrivenRoad:
    """The road through the fixes of each leg between two stops, in order of time. Raises UnusableFixes if they show no
    believable way."""
    chains = [_chain(finder, leg) for leg in legs]
    ways = [_way(finder, chain.line) for chain in chains]
    road = DrivenRoad.of(ways)
    bridged = sum(chain.bridged_miles for chain in chains)
    if bridged > MOST_BRIDGED_SHARE * road.miles[-1]:
        raise UnusableFixes("gaps")
    return road.simplified()


def _chain(finder: HighwayFinder, fixes: Sequence[TimedPlace]) -> _Chain:
    kept = _without_detours(_thinned(fixes))
    if len(kept) < 2:
        raise UnusableFixes("no fixes")
    parts, bridged = [np.array([kept[0].place])], 0.0
    for before, after in pairwise(kept):
        straight = great_circle_miles(before.place, after.place)
        hours = (after.at - before.at).total_seconds() / 3600
        if straight > GAP_MILES:
            if straight > MAX_MPH * hours:
                raise UnusableFixes("too fast")
            bridge = _bridge(finder, before.place, after.place, straight, hours)
            parts.append(bridge)
            bridged += straight if straight > LONG_GAP_MILES else 0.0
        parts.append(np.array([after.place]))
    return _Chain(np.concatenate(parts), bridged)


def _thinned(fixes: Sequence[TimedPlace]) -> list[TimedPlace]:
    """The fixes without those near the fix before, and without wild ones. The last fix is always kept. Raises
    UnusableFixes where many are wild."""
    kept: list[TimedPlace] = []
    wild = 0
    for fix in fixes:
        miles = great_circle_miles(kept[-1].place, fix.place) if kept else THINNED_MILES
        if kept and miles >= THINNED_MILES and miles * 3600 > MAX_MPH * (fix.at - kept[-1].at).total_seconds():
            wild += 1
        elif miles >= THINNED_MILES:
            kept.append(fix)
    if wild > MOST_WILD_SHARE * len(fixes) + 2:
        raise UnusableFixes("too fast")
    if kept and kept[-1] is not fixes[-1]:
        if len(kept) > 1:
            kept[-1] = fixes[-1]
        else:
            kept.append(fixes[-1])
    return kept


def _without_detours(fixes: Sequence[TimedPlace]) -> list[TimedPlace]:
    """The fixes without the loops that lead away from the way and back to it: stations, and wrong exits."""
    if len(fixes) < 3:
        return list(fixes)
    steps = segment_miles(np.array([fix.place for fix in fixes]))
    kept, at = [fixes[0]], 0
    while at < len(fixes) - 1:
        back, miles = at + 1, float(steps[at])
        for ahead in range(at + 2, len(fixes)):
            miles += float(steps[ahead - 1])
            if miles > MOST_DETOUR_MILES:
                break
            if great_circle_miles(fixes[at].place, fixes[ahead].place) <= BACK_ON_ROAD_MILES:
                back = ahead
        at = back
        kept.append(fixes[at])
    return kept


def _bridge(finder: HighwayFinder, a: Point, b: Point, straight: float, hours: float) -> Array:
    """The places between two fixes that are far apart. Raises UnusableFixes where the way between them is in doubt."""
    leg = finder.leg(a, b)
    if leg is not None and leg.miles <= MOST_CIRCUITY * straight and leg.miles <= MAX_MPH * hours:
        return leg.line[1:-1]
    if straight > LONG_GAP_MILES:
        raise UnusableFixes("gap")
    return np.empty((0, 2))


def _way(finder: HighwayFinder, chain: Array) -> DrivenRoad:
    """The cheapest way from the chain's first place to its last one."""
    lengths = segment_miles(chain)
    nodes, tails, heads, miles, hours = _roads_along(finder, chain)
    size = len(chain)
    places = np.concatenate([chain, finder.graph.nodes[nodes]])
    neighbours: list[list[tuple[int, float, float, float]]] = [[] for _ in range(len(places))]

    def connect(one: int, other: int, cost: float, edge_miles: float, edge_hours: float) -> None:
        neighbours[one].append((other, cost, edge_miles, edge_hours))
        neighbours[other].append((one, cost, edge_miles, edge_hours))

    for at, length in enumerate(lengths.tolist()):
        connect(at, at + 1, _OFF_ROAD_COST * length, length, length / LOCAL_MPH)
    for tail, head, edge_miles, edge_hours in zip(tails, heads, miles, hours, strict=True):
        connect(size + tail, size + head, edge_miles, edge_miles, edge_hours)
    for at, node, distance in _connections(chain, finder.graph.nodes[nodes]):
        connect(at, size + node, _CONNECTION_COST * distance + _CONNECTION_MILES, distance, distance / LOCAL_MPH)

    path, total_miles, total_hours = _cheapest(neighbours, size - 1)
    return DrivenRoad(
        line=places[path],
        miles=np.array(total_miles),
        hours=np.array(total_hours),
        stop_vertices=(0, len(path) - 1),
    )


def _cheapest(
    neighbours: Sequence[Sequence[tuple[int, float, float, float]]], goal: int
) -> tuple[list[int], list[float], list[float]]:
    """The path from 0 to the goal, with the miles and the hours up to each of its nodes. The chain leads there."""
    best = {0: 0.0}
    came: dict[int, tuple[int, float, float]] = {}
    queue = [(0.0, 0)]
    done = set[int]()
    while queue:
        cost, node = heapq.heappop(queue)
        if node in done:
            continue
        done.add(node)
        if node == goal:
            break
        for other, step, miles, hours in neighbours[node]:
            total = cost + step
            if total < best.get(other, np.inf):
                best[other] = total
                came[other] = node, miles, hours
                heapq.heappush(queue, (total, other))
    path, steps = [goal], [(0.0, 0.0)]
    while path[-1] != 0:
        node, miles, hours = came[path[-1]]
        steps.append((miles, hours))
        path.append(node)
    path.reverse()
    steps = [(0.0, 0.0), *reversed(steps[1:])]
    return path, np.cumsum([step[0] for step in steps]).tolist(), np.cumsum([step[1] for step in steps]).tolist()


def _roads_along(
    finder: HighwayFinder, chain: Array
) -> tuple[NDArray[np.intp], list[int], list[int], list[float], list[float]]:
    """The nodes near the chain, and the roads between them that lie along it. The ends of roads are indexes of these
    nodes; each road has its miles and hours."""
    graph = finder.graph
    cells = _cells(chain, dilated=True)
    candidates = np.flatnonzero(np.isin(_cells(graph.nodes), cells))
    near = candidates[_distances(chain, graph.nodes[candidates]) <= NEAR_MILES]
    number = np.full(len(graph.nodes), -1)
    number[near] = np.arange(len(near))
    of_nodes = [graph.arcs_at(node) for node in near.tolist()]
    arcs = np.concatenate(of_nodes) if of_nodes else np.empty(0, dtype=np.intp)
    tails = np.repeat(near, [len(each) for each in of_nodes])
    is_road = (graph.through[arcs] < 0) & (number[graph.head[arcs]] >= 0)
    arcs, tails = arcs[is_road], tails[is_road]
    along = _lie_along(chain, graph.nodes[tails], graph.nodes[graph.head[arcs]])
    arcs, tails = arcs[along], tails[along]
    miles, hours = finder.lengths(arcs)
    return near, number[tails].tolist(), number[graph.head[arcs]].tolist(), miles.tolist(), hours.tolist()


def _cells(places: Array, *, dilated: bool = False) -> NDArray[np.int64]:
    """The grid cells of these places; with `dilated`, the cells of the line between them and all around it."""
    if dilated:
        places = np.concatenate(list(_sampled(places)))
    latitude, longitude = np.floor(places * _CELLS_PER_DEGREE).astype(np.int64).T
    if not dilated:
        own: NDArray[np.int64] = latitude * 1_000_000 + longitude
        return own
    around = [(latitude + north) * 1_000_000 + longitude + east for north in (-1, 0, 1) for east in (-2, -1, 0, 1, 2)]
    cells: NDArray[np.int64] = np.unique(np.concatenate(around))
    return cells


def _sampled(line: Array) -> Iterator[Array]:
    """Places on the line, one array for each segment."""
    for (start, end), miles in zip(pairwise(line), segment_miles(line), strict=True):
        share = np.linspace(0, 1, int(miles / _ROAD_SAMPLE_MILES) + 2)[:, None]
        yield start + share * (end - start)


def _distances(chain: Array, places: Array) -> Array:
    """The miles from each place to the chain, infinite for a place far away."""
    found = np.full(len(places), np.inf)
    if len(places) == 0:
        return found
    flat = flattened(np.concatenate([chain, places]))
    line, points = flat[: len(chain)], flat[len(chain) :]
    tree = shapely.STRtree(shapely.linestrings(np.stack([line[:-1], line[1:]], axis=1)))
    scale = map_scale(places)
    (near, _), distance = tree.query_nearest(
        shapely.points(points),
        max_distance=float(2 * NEAR_MILES * scale.max()),
        return_distance=True,
        all_matches=False,
    )
    found[near] = distance / scale[near]
    return found


def _lie_along(chain: Array, starts: Array, ends: Array) -> NDArray[np.bool_]:
    """The straight roads between these places that stay near the chain."""
    counts = (segment_miles(np.stack([starts, ends], axis=1).reshape(-1, 2))[::2] / _ROAD_SAMPLE_MILES).astype(int) + 1
    road = np.repeat(np.arange(len(starts)), counts)
    share = (np.arange(len(road)) - np.repeat(np.cumsum(counts) - counts, counts) + 0.5) / counts[road]
    samples = starts[road] + share[:, None] * (ends - starts)[road]
    along = np.ones(len(starts), dtype=bool)
    along[road[_distances(chain, samples) > NEAR_MILES]] = False
    return along


def _connections(chain: Array, nodes: Array) -> Iterator[tuple[int, int, float]]:
    """The node nearest to each place of the chain: index in the chain, index of the node, miles."""
    if len(nodes) == 0:
        return
    flat = flattened(np.concatenate([chain, nodes]))
    tree = shapely.STRtree(shapely.points(flat[len(chain) :]))
    scale = map_scale(chain)
    (at, near), distance = tree.query_nearest(
        shapely.points(flat[: len(chain)]),
        max_distance=float(NEAR_MILES * scale.max()),
        return_distance=True,
        all_matches=True,
    )
    yield from zip(at.tolist(), near.tolist(), (distance / scale[at]).tolist(), strict=True)


def is_far_longer(road: DrivenRoad, quickest_miles: float) -> bool:
    """Tell if the driven road is so long that it was no trip from stop to stop, or that the fixes are invented."""
    straight = great_circle_miles(Point(*road.line[0].tolist()), Point(*road.line[-1].tolist()))
    return float(road.miles[-1]) > 1.5 * max(quickest_miles, CIRCUITY * straight) + MOST_DETOUR_MILES
