"""Reads the main roads of an extract of OpenStreetMap, as an ordinary truck may drive them.

The extract is read three times, from its beginning to its end: relations, ways, nodes. Only motorways, trunk and
primary roads and their ramps are kept in memory. Nodes are read in up to four passes, so that a search for them takes
at most 512 MB. Needs the extra `osm`."""

import importlib
from array import array
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from domain.errors import FuelrouteError
from domain.roads.osm_tags import (
    exit_number,
    is_closed_to_trucks,
    is_too_small_for_trucks,
    one_way,
    route_number,
    route_of_relation,
    signed_direction,
)
from domain.roads.sphere import Array

CLASSES = ("motorway", "trunk", "primary", "motorway_link", "trunk_link", "primary_link")
"""The kept values of `highway`. A way has the position of its value."""

IDS_OF_CHUNK, CHUNKS_OF_PASS = 1 << 25, 128
"""osmium looks for ids in a bit for each, which it keeps in chunks of 4 MB. An extract of any size has ids from 1 to
13,000,000,000, which is 400 chunks: one pass over the nodes looks for those of 128."""

LARGEST_ID = 1 << 40
"""Largest id of a node. The table of the chunks grows with the largest id."""

TellStep = Callable[[str], object]
"""Is told what is read now."""


class UnknownNodes(FuelrouteError):
    """The ids of nodes are those of a file that was never in OpenStreetMap, such as negative ones."""

    def __init__(self) -> None:
        super().__init__("the extract has ids of nodes below 1 or above a trillion: number it anew (`osmium renumber`)")


class KeptWay(NamedTuple):
    """The parts of a way that count. `name` is a number in `KeptRoads.names`, -1 for none."""

    highway: int
    one_way: int
    name: int


@dataclass
class KeptRoads:
    """The ways for trucks. The nodes of way n are `refs[first[n] : first[n + 1]]`; `places` and `exits` belong to the
    nodes by their ids."""

    ways: list[KeptWay] = field(default_factory=list)
    first: "array[int]" = field(default_factory=lambda: array("q", [0]))
    refs: "array[int]" = field(default_factory=lambda: array("q"))
    names: list[str] = field(default_factory=list)
    node_ids: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    places: Array = field(default_factory=lambda: np.empty((0, 2)))
    """Degrees of each of `node_ids`; not a number for a node that the extract lacks or has beyond the earth."""
    exits: dict[int, str] = field(default_factory=dict)


def read_extract(file: Path, told: TellStep = lambda _: None) -> KeptRoads:
    """The main roads in an extract. Raises ImportError without the extra `osm`, and RuntimeError or UnicodeError for a
    file that is no extract."""
    osmium = importlib.import_module("osmium")
    told("relations")
    directions = _directions(osmium, file)
    told("ways")
    roads = _ways(osmium, file, directions)
    told("nodes")
    _place_nodes(osmium, file, roads)
    return roads


def _directions(osmium: Any, file: Path) -> dict[int, dict[str, str]]:
    """The signed direction of the routes on each way: a member has it as its role, or the relation as a tag."""
    found: dict[int, dict[str, str]] = {}
    relations = osmium.FileProcessor(str(file), osmium.osm.RELATION)
    for relation in relations.with_filter(osmium.filter.TagFilter(("route", "road"))):
        tags = _tags(relation)
        route = route_of_relation(tags)
        of_relation = signed_direction(tags.get("direction", ""))
        if route is None:
            continue
        for member in relation.members:
            direction = signed_direction(member.role.partition(" ")[0]) or of_relation
            if member.type == "w" and direction is not None:
                found.setdefault(member.ref, {})[route] = direction
    return found


def _ways(osmium: Any, file: Path, directions: Mapping[int, Mapping[str, str]]) -> KeptRoads:
    roads, numbers = KeptRoads(), dict[str, int]()
    wanted = osmium.filter.TagFilter(*(("highway", value) for value in CLASSES))
    for way in osmium.FileProcessor(str(file), osmium.osm.WAY).with_filter(wanted):
        tags = _tags(way)
        if is_closed_to_trucks(tags) or is_too_small_for_trucks(tags) or len(way.nodes) < 2:
            continue
        direction = one_way(tags)
        name = _name(tags, direction, directions.get(way.id, {}))
        number = numbers.setdefault(name, len(numbers)) if name else -1
        roads.ways.append(KeptWay(CLASSES.index(tags["highway"]), direction, number))
        roads.refs.extend(node.ref for node in way.nodes)
        roads.first.append(len(roads.refs))
    roads.names = [*numbers]
    return roads


def _tags(thing: Any) -> dict[str, str]:
    return {tag.k: tag.v for tag in thing.tags}


def _name(tags: Mapping[str, str], direction: int, routes: Mapping[str, str]) -> str | None:
    """The name on the sign of a road, such as `I-80 E`; without the direction where traffic runs both ways."""
    number = route_number(tags.get("ref", ""))
    if number is None:
        return None
    return f"{number} {routes[number]}" if direction and number in routes else number


def _place_nodes(osmium: Any, file: Path, roads: KeptRoads) -> None:
    ids = np.unique(np.frombuffer(roads.refs, dtype=np.int64)) if roads.refs else np.empty(0, dtype=np.int64)
    if len(ids) and not 0 < ids[0] <= ids[-1] <= LARGEST_ID:
        raise UnknownNodes
    places = np.full((len(ids), 2), np.nan)
    for part in passes_of(ids):
        for node in _nodes(osmium, file, part):
            if not node.location.valid():
                continue
            at = int(np.searchsorted(ids, node.id))
            places[at] = node.location.lat, node.location.lon
            number_of_exit = exit_number(_tags(node)) if len(node.tags) else None
            if number_of_exit is not None:
                roads.exits[node.id] = number_of_exit
    roads.node_ids, roads.places = ids, places


def passes_of(ids: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Sorted ids in parts that take at most `CHUNKS_OF_PASS` chunks each."""
    chunk = np.cumsum(np.diff(ids // IDS_OF_CHUNK, prepend=ids[:1] // IDS_OF_CHUNK) > 0)
    return [part for part in np.split(ids, np.flatnonzero(np.diff(chunk // CHUNKS_OF_PASS)) + 1) if len(part)]


def _nodes(osmium: Any, file: Path, ids: NDArray[np.int64]) -> Iterator[Any]:
    wanted = osmium.filter.IdFilter(array("q", ids.tobytes()))
    yield from osmium.FileProcessor(str(file), osmium.osm.NODE).with_filter(wanted)
