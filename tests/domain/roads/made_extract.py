"""A made extract of OpenStreetMap: a freeway with two exits, highways across it, and roads that are closed to trucks.

41.3        +--------- NE 92 ---------+
            |                         |
            US 6                     NE 50, under a bridge of 12'6" north of the freeway
            |                         |
41.0  ---- exit 420 ---- I 80 ---- exit 440A ----   two carriageways, the western one 0.004 degrees north
            |                         |
40.9        +--------- NE 64 ---------+              no trucks
          -96.2                     -95.8
"""

from itertools import pairwise
from pathlib import Path

import numpy as np
import osmium
from osmium.osm.mutable import Node, Relation, Way

from domain.roads import Point

EAST_LATITUDE, WEST_LATITUDE = 41.0, 41.004
WEST_EXIT, EAST_EXIT = -96.2, -95.8
WEST_END, EAST_END = -96.5, -95.5
RAMP_DEGREES = 0.01
"""A ramp leaves the freeway half a mile before the road across."""

Tags = dict[str, str]


class MadeMap:
    """Ways by the places along them; places that ways share are one node."""

    def __init__(self) -> None:
        self.nodes: dict[Point, int] = {}
        self.node_tags: dict[Point, Tags] = {}
        self.lacking: set[Point] = set()  # beyond the edge of the extract
        self.ways: list[tuple[Tags, list[Point]]] = []
        self.relations: list[tuple[Tags, list[int], str]] = []

    def way(self, tags: Tags, *places: Point) -> int:
        """Add a way. Returns its id."""
        for place in places:
            self.nodes.setdefault(place, len(self.nodes) + 1)
        self.ways.append((tags, list(places)))
        return len(self.ways)

    def write(self, file: Path | osmium.io.File) -> None:
        with osmium.SimpleWriter(file) as writer:
            for place, number in self.nodes.items():
                if place in self.lacking:
                    continue
                location = (place.longitude, place.latitude)
                tags = self.node_tags.get(place, {})
                writer.add_node(Node(id=number, version=1, location=location, tags=tags))
            for number, (tags, places) in enumerate(self.ways, 1):
                nodes = [self.nodes[place] for place in places]
                writer.add_way(Way(id=number, version=1, tags=tags, nodes=nodes))
            for number, (tags, ways, role) in enumerate(self.relations, 1):
                members = [("w", way, role) for way in ways]
                writer.add_relation(Relation(id=number, version=1, tags=tags, members=members))


def interstate_map() -> MadeMap:
    """The map above."""
    made = MadeMap()
    motorway = {"highway": "motorway", "oneway": "yes", "ref": "I 80", "maxspeed": "65 mph"}
    ramps = [round(at + side * RAMP_DEGREES, 3) for at in (WEST_EXIT, EAST_EXIT) for side in (-1, 1)]
    longitudes = sorted({*ramps, *(round(one, 3) for one in np.arange(WEST_END, EAST_END + 0.01, 0.05).tolist())})
    for latitude, direction in ((EAST_LATITUDE, "east"), (WEST_LATITUDE, "west")):
        places = [Point(latitude, longitude) for longitude in longitudes]
        ways = [made.way(motorway, *pair) for pair in pairwise(places if direction == "east" else places[::-1])]
        tags = {"type": "route", "route": "road", "network": "US:I", "ref": "80", "direction": direction}
        made.relations.append((tags, ways, ""))
    for longitude, number, road in ((WEST_EXIT, "420", "US 6;NE 31"), (EAST_EXIT, "440A", "NE 50")):
        _interchange(made, longitude, number)
        _cross_road(made, longitude, road)
    primary = {"highway": "primary", "maxspeed": "55 mph"}
    made.way({**primary, "ref": "NE 92"}, Point(41.3, WEST_EXIT), Point(41.3, -96.0), Point(41.3, EAST_EXIT))
    made.way({**primary, "ref": "NE 64", "hgv": "no"}, Point(40.9, WEST_EXIT), Point(40.9, EAST_EXIT))
    for latitude in (EAST_LATITUDE, WEST_LATITUDE):  # the freeway ends in ordinary roads, where trucks turn
        made.way(primary, Point(latitude, WEST_END), Point(41.002, WEST_END - 0.01))
        made.way(primary, Point(latitude, EAST_END), Point(41.002, EAST_END + 0.01))
    return made


def _interchange(made: MadeMap, longitude: float, number: str) -> None:
    """An exit of both carriageways, by ramps to the road across."""
    link = {"highway": "motorway_link", "oneway": "yes"}
    for latitude, ramp, ahead in ((EAST_LATITUDE, 40.998, RAMP_DEGREES), (WEST_LATITUDE, 41.006, -RAMP_DEGREES)):
        leaves, joins = (Point(latitude, round(longitude + side * ahead, 3)) for side in (-1, 1))
        made.node_tags[leaves] = {"highway": "motorway_junction", "ref": number}
        made.way(link, leaves, Point(ramp, longitude))
        made.way(link, Point(ramp, longitude), joins)


def _cross_road(made: MadeMap, longitude: float, ref: str) -> None:
    """A highway across the freeway; the eastern one goes under a low bridge."""
    latitudes = [40.9, 40.998, 41.006, 41.1, 41.12, 41.3]
    for south, north in pairwise(latitudes):
        is_low = longitude == EAST_EXIT and south == 41.1
        tags = {"highway": "trunk" if longitude == WEST_EXIT else "primary", "ref": ref, "maxspeed": "55 mph"}
        made.way(tags | ({"maxheight": "12'6\""} if is_low else {}), Point(south, longitude), Point(north, longitude))
