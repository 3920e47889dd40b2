"""Makes the graph of main roads from an extract of OpenStreetMap: `fuelroute roads build --from FILE.osm.pbf`.

Speeds are those of the package's roads: by the class of a road, its state and its border. Lines are simplified to some
30 meters; lengths are those of the whole lines."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import shapely
from numpy.typing import NDArray

from domain.errors import FuelrouteError
from domain.roads.contraction import Neighbours, contracted_one_way
from domain.roads.extract_roads import CLASSES, KeptRoads, TellStep, read_extract
from domain.roads.highway_graph import (
    BORDER,
    DIVIDED,
    FREEWAY,
    HIGHWAY,
    OPEN,
    PER_MILE,
    HighwayGraph,
    Signs,
    costs_of,
)
from domain.roads.road_kinds import are_abroad, are_in_open_states
from domain.roads.sphere import Array, miles_of_chords, unit_vectors

BENDS_DEGREES = 0.0003
"""Furthest distance of a simplified line from the whole one: some 30 m."""

VERTEX_DEGREES = 0.03
"""Longest piece of a line, some two miles: roads are found by their vertices."""

SMALLEST_RETURNING_NODES = 50
"""Fewest nodes of a part in which every place can be reached from every other, unless it is the largest one."""

_Ids = NDArray[np.int64]


class NoRoads(FuelrouteError):
    """The extract has no main roads for trucks."""


class Arcs(NamedTuple):
    """Roads between two nodes, each in one direction. `name` is -1 for none."""

    starts: _Ids
    ends: _Ids
    miles: Array
    highway: _Ids
    is_one_way: NDArray[np.bool_]
    name: _Ids

    def kept(self, keep: NDArray[np.bool_]) -> "Arcs":
        return Arcs(
            self.starts[keep],
            self.ends[keep],
            self.miles[keep],
            self.highway[keep],
            self.is_one_way[keep],
            self.name[keep],
        )


class SignedPlaces(NamedTuple):
    """The signs of the extract before the arcs have their order: as in `Signs`."""

    names: Sequence[str]
    exits: dict[int, str]
    can_join: NDArray[np.bool_]


def build_from_extract(extract: Path, file: Path, told: TellStep = lambda _: None) -> HighwayGraph:
    """Write the roads of an extract. Raises ImportError without the extra `osm`, NoRoads, and RuntimeError or
    UnicodeError for a file that is no extract."""
    roads = read_extract(extract, told)
    told("lines")
    nodes, arcs, node_of = _network(roads)
    exits = {node_of[node]: number for node, number in roads.exits.items() if node in node_of}
    can_join = np.zeros(len(nodes), dtype=np.bool_)
    for ends_of in (arcs.starts, arcs.ends):  # also where a ramp leads to a road that is not kept
        can_join[ends_of[arcs.highway != CLASSES.index("motorway")]] = True
    told("parts")
    keep, arcs = _in_largest_parts(len(nodes), arcs)
    number = np.cumsum(keep) - 1
    exits = {int(number[node]): exit_ for node, exit_ in exits.items() if keep[node]}
    told("shortcuts")
    graph = graph_of_arcs(nodes[keep], arcs, SignedPlaces(roads.names, exits, can_join[keep]))
    told("file")
    fresh = file.with_name(f"{file.name}.{os.getpid()}.new.npz")  # another build may write the same file
    try:
        graph.save(fresh)
        fresh.replace(file)
    finally:
        fresh.unlink(missing_ok=True)
    return graph


def _network(roads: KeptRoads) -> tuple[Array, Arcs, dict[int, int]]:
    """The nodes in degrees, the arcs between them, and the number of each node of the extract that is one."""
    refs = np.frombuffer(roads.refs, dtype=np.int64) if roads.refs else np.empty(0, dtype=np.int64)
    at = np.searchsorted(roads.node_ids, refs)
    first = np.frombuffer(roads.first, dtype=np.int64)
    way = np.repeat(np.arange(len(roads.ways)), np.diff(first))
    known = np.isfinite(roads.places[at, 0]) if len(at) else np.empty(0, dtype=np.bool_)
    at, way = at[known], way[known]
    # A way ends where the extract lacks its next node, and may begin again behind it.
    begins = (np.diff(way, prepend=-1) != 0) | (np.diff(np.flatnonzero(known), prepend=-1) > 1)
    ends = np.roll(begins, -1)
    uses = np.bincount(at, minlength=len(roads.node_ids))
    is_exit = np.isin(roads.node_ids, [*roads.exits])
    is_junction = begins | ends | (uses[at] > 1) | is_exit[at]
    if not len(at) or len(at) == begins.sum():
        raise NoRoads("the extract has no motorway, trunk or primary road that is open to trucks")
    # A section runs from one junction to the next on the same way; an inner junction is the end of one and the start of
    # another.
    section_of, positions = _sections(is_junction, begins)
    lines = shapely.linestrings(roads.places[at[positions]][:, ::-1], indices=section_of)
    bounds = np.flatnonzero(np.diff(section_of, prepend=-1, append=section_of[-1] + 1))
    starts, stops, of_way = at[positions[bounds[:-1]]], at[positions[bounds[1:] - 1]], way[positions[bounds[:-1]]]
    junctions = np.unique(np.concatenate([starts, stops]))
    number = np.full(len(roads.node_ids), -1)
    number[junctions] = np.arange(len(junctions))
    nodes, pieces, section = _pieces(lines, number[starts], number[stops], roads.places[junctions])
    columns = np.array(roads.ways, dtype=np.int64)[of_way[section]]
    one = Arcs(
        pieces[:, 0].astype(np.int64),
        pieces[:, 1].astype(np.int64),
        pieces[:, 2],
        columns[:, 0],
        columns[:, 1] != 0,
        columns[:, 2],
    )
    against = one._replace(starts=one.ends, ends=one.starts)
    forth, back = one.kept(columns[:, 1] >= 0), against.kept(columns[:, 1] <= 0)
    arcs = Arcs._make(np.concatenate(pair) for pair in zip(forth, back, strict=True))
    return nodes, arcs, dict(zip(roads.node_ids[junctions].tolist(), range(len(junctions)), strict=True))


def _sections(is_junction: NDArray[np.bool_], begins: NDArray[np.bool_]) -> tuple[_Ids, _Ids]:
    """The number of the section of each place along the sections, and its position among all places of the ways."""
    inner = is_junction & ~begins
    inner[:-1] &= ~begins[1:]
    inner[-1] = False  # the end of a way ends its section alone
    times = np.where(inner, 2, 1)
    positions = np.repeat(np.arange(len(times)), times)
    is_first = np.zeros(len(positions), dtype=np.bool_)
    last_of = np.cumsum(times) - 1
    is_first[last_of[inner | begins]] = True
    section = np.cumsum(is_first) - 1
    counts = np.bincount(section)
    whole = counts[section] > 1
    _, section = np.unique(section[whole], return_inverse=True)
    return section, positions[whole]


def _pieces(lines: Array, starts: _Ids, ends: _Ids, junctions: Array) -> tuple[Array, Array, _Ids]:
    """The nodes; start, end and miles of each piece of the simplified lines; and the section of each piece."""
    whole, whole_of = shapely.get_coordinates(lines, return_index=True)
    simple, longer = lines.copy(), shapely.length(lines) > 0  # GEOS makes one place, no line, of nodes at one place
    simple[longer] = shapely.segmentize(shapely.simplify(lines[longer], BENDS_DEGREES), VERTEX_DEGREES)
    places, line_of = shapely.get_coordinates(simple, return_index=True)
    is_first, is_last = np.diff(line_of, prepend=-1) != 0, np.diff(line_of, append=-1) != 0
    number = np.where(is_first, starts[line_of], np.where(is_last, ends[line_of], -1))
    is_new = number < 0
    number[is_new] = len(junctions) + np.arange(is_new.sum())
    nodes = np.concatenate([junctions, places[is_new][:, ::-1]])
    tail = np.flatnonzero(~is_last)
    miles, section = _miles(places)[tail], line_of[tail]
    sums = [np.bincount(of, each, minlength=len(lines)) for of, each in ((section, miles), _within(whole, whole_of))]
    stretch = np.divide(sums[1], sums[0], out=np.ones(len(lines)), where=sums[0] > 0)
    return nodes, np.column_stack([number[tail], number[tail + 1], miles * stretch[section]]), section


def _within(places: Array, line_of: _Ids) -> tuple[_Ids, Array]:
    """The line of each piece between places of one line, and its miles."""
    tail = np.flatnonzero(np.diff(line_of) == 0)
    return line_of[tail], _miles(places)[tail]


def _miles(places: Array) -> Array:
    """The miles from each place, longitude and latitude, to the next."""
    return miles_of_chords(np.linalg.norm(np.diff(unit_vectors(places[:, ::-1]), axis=0), axis=1))


def _in_largest_parts(size: int, arcs: Arcs) -> tuple[NDArray[np.bool_], Arcs]:
    """Keep the large parts of the network in which a truck gets from each node to each other one. Returns which nodes
    are kept, and the arcs between them, which number the kept nodes anew."""
    from scipy.sparse import csr_array  # of the extra
    from scipy.sparse.csgraph import connected_components

    ones = np.ones(len(arcs.starts), dtype=np.int8)
    graph = csr_array((ones, (arcs.starts, arcs.ends)), shape=(size, size))
    part = np.asarray(connected_components(graph, directed=True, connection="strong")[1])
    sizes = np.bincount(part)
    if sizes.max() < 2:
        raise NoRoads("the extract has no main road on which a truck can come back")
    keep = (sizes >= min(SMALLEST_RETURNING_NODES, sizes.max()))[part]
    number = np.cumsum(keep) - 1
    kept = arcs.kept((part[arcs.starts] == part[arcs.ends]) & keep[arcs.starts])
    return keep, kept._replace(starts=number[kept.starts], ends=number[kept.ends])


def graph_of_arcs(nodes: Array, arcs: Arcs, places: SignedPlaces) -> HighwayGraph:
    """The graph of one-way arcs, with shortcuts. Of several arcs between two nodes the quickest counts."""
    kinds = _kinds(nodes, arcs)
    lengths = np.maximum(np.rint(arcs.miles * PER_MILE), 1).astype(np.int64)
    costs = costs_of(lengths, kinds)
    outward: list[Neighbours] = [{} for _ in nodes]
    inward: list[Neighbours] = [{} for _ in nodes]
    name_of = dict[tuple[int, int], int]()
    columns = (arcs.starts, arcs.ends, costs, kinds, arcs.name)
    for start, end, cost, kind, name in zip(*(column.tolist() for column in columns), strict=True):
        if start != end and (end not in outward[start] or cost < outward[start][end][0]):
            outward[start][end] = inward[end][start] = (cost, kind)
            name_of[start, end] = name
    halves = contracted_one_way(outward, inward)
    table = np.array(
        [(end, *arc) for half in halves for near in half for end, arc in sorted(near.items())], dtype=np.int32
    ).reshape(-1, 3)
    firsts = [np.cumsum([0, *(len(near) for near in half)]).astype(np.int32) for half in halves]
    ends_of = [(node, end) for node, near in enumerate(halves[0]) for end in sorted(near)]
    ends_of += [(end, node) for node, near in enumerate(halves[1]) for end in sorted(near)]
    is_road = table[:, 2] < 0
    named = [name_of[pair] if road else -1 for pair, road in zip(ends_of, is_road.tolist(), strict=True)]
    heads, costs_of_arcs, through = np.ascontiguousarray(table.T)
    return HighwayGraph(
        nodes,
        firsts[0],
        heads,
        costs_of_arcs,
        through,
        first_inward=firsts[1] + firsts[0][-1],
        signs=Signs(places.names, np.array(named, dtype=np.int32), places.exits, places.can_join),
    )


def _kinds(nodes: Array, arcs: Arcs) -> _Ids:
    abroad = are_abroad(nodes)
    is_link = arcs.highway >= CLASSES.index("motorway_link")
    told = [
        abroad[arcs.starts] != abroad[arcs.ends],
        arcs.highway == CLASSES.index("motorway"),
        arcs.is_one_way & ~is_link,
        ~is_link & are_in_open_states((nodes[arcs.starts] + nodes[arcs.ends]) / 2),
    ]
    return np.asarray(np.select(told, [BORDER, FREEWAY, DIVIDED, OPEN], HIGHWAY))
