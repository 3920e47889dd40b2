"""The Valhalla client against a real `valhalla_service`, over tiles built from a map of eight places."""

import contextlib
import importlib
import json
import socket
import subprocess
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import httpx
import numpy as np
import osmium
import pytest
from osmium.osm.mutable import Node, Way

from domain.roads import CIRCUITY, Point, great_circle_miles
from domain.roads.highways import STRAIGHT_LINE_REASON, HighwayRoads
from domain.roads.sphere import MILES_PER_DEGREE
from domain.roads.truck_dimensions import TruckDimensions
from domain.roads.valhalla import AT_ROAD_MILES, MAX_LOCATIONS, ValhallaRoads
from domain.roads.valhalla_circuit import ROADS_REST_SECONDS
from tests.domain.roads.conftest import Clock

pytestmark = pytest.mark.servers

NORTHWEST, NORTHEAST = Point(41.1, -96.4), Point(41.1, -96.0)
WEST, BRIDGE_WEST, BRIDGE_EAST, EAST = (Point(41.0, longitude) for longitude in (-96.4, -96.21, -96.20, -96.0))
ISLAND, ISLAND_END = Point(41.3, -95.5), Point(41.3, -95.4)
OFF_THE_MAP = Point(42.5, -99.0)

HIGHWAY = {"highway": "primary", "maxspeed": "50 mph"}
LOW_BRIDGE = {**HIGHWAY, "maxheight": "3.5"}  # metres; a truck has 4.11
MOTORWAY = {"highway": "motorway", "oneway": "no", "maxspeed": "60 mph"}

CLOSED = [
    ({"maxheight": "3.5"}, TruckDimensions(height_feet=11.4), TruckDimensions(height_feet=13.5)),
    ({"maxwidth": "2.5"}, TruckDimensions(width_feet=8.0), TruckDimensions(width_feet=8.5)),
    ({"maxlength": "15"}, TruckDimensions(length_feet=45), TruckDimensions(length_feet=53)),
    ({"maxweight": "20"}, TruckDimensions(weight_pounds=40_000), TruckDimensions(weight_pounds=48_000)),
    ({"maxaxleload": "8"}, TruckDimensions(axle_weight_pounds=17_000), TruckDimensions(axle_weight_pounds=20_000)),
    ({"maxaxles": "6"}, TruckDimensions(axle_count=5), TruckDimensions(axle_count=9)),
    ({"hazmat": "no"}, TruckDimensions(hazmat=False), TruckDimensions(hazmat=True)),
]
"""A tag in meters and tonnes, a truck that it lets through, and one that it does not."""


def closed_ends(row: int) -> tuple[Point, Point, Point, Point]:
    """West, the two corners of the way round, and east of the road with the tag of a row of `CLOSED`."""
    south = 40.8 - row / 10
    return Point(south, -96.4), Point(south + 0.05, -96.4), Point(south + 0.05, -96.3), Point(south, -96.3)


MAP = [
    (HIGHWAY, WEST, BRIDGE_WEST),
    (LOW_BRIDGE, BRIDGE_WEST, BRIDGE_EAST),
    (HIGHWAY, BRIDGE_EAST, EAST),
    (HIGHWAY, WEST, NORTHWEST),
    (MOTORWAY, NORTHWEST, NORTHEAST),
    (HIGHWAY, NORTHEAST, EAST),
    (HIGHWAY, ISLAND, ISLAND_END),
]
for row, (tags, _, _) in enumerate(CLOSED):
    west, *corners, east = closed_ends(row)
    bridge = [Point(west.latitude, longitude) for longitude in (-96.36, -96.34)]
    MAP.append(({**HIGHWAY, **tags}, bridge[0], bridge[1]))
    ends = [(west, bridge[0]), (bridge[1], east), *pairwise([west, *corners, east])]
    MAP += [(HIGHWAY, start, end) for start, end in ends]


def write_extract(path: Path) -> None:
    places = sorted({place for _, *ends in MAP for place in ends})
    with osmium.SimpleWriter(path) as writer:
        for number, (latitude, longitude) in enumerate(places):
            writer.add_node(Node(id=number + 1, version=1, location=(longitude, latitude)))
        for number, (tags, *ends) in enumerate(MAP):
            nodes = [places.index(end) + 1 for end in ends]
            writer.add_way(Way(id=number + 1, version=1, tags=tags, nodes=nodes))


class Service:
    """`valhalla_service` with tiles of `MAP`. Its address stays the same when it is killed and started again."""

    def __init__(self, folder: Path) -> None:
        valhalla = importlib.import_module("valhalla")  # it ships no types
        self.programs = Path(valhalla.PYVALHALLA_DIR, "bin")
        self.config, tiles, extract = folder / "valhalla.json", folder / "tiles", folder / "map.osm.pbf"
        tiles.mkdir()
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{free.getsockname()[1]}"
        self.url = f"http://{address}"
        config = valhalla.get_config(tile_extract="", tile_dir=tiles)
        config["httpd"]["service"] |= {
            "listen": f"tcp://{address}",
            "loopback": f"ipc://{folder}/loopback",
            "interrupt": f"ipc://{folder}/interrupt",
        }
        for part in ("loki", "thor", "odin"):
            config[part]["service"]["proxy"] = f"ipc://{folder}/{part}"
        self.config.write_text(json.dumps(config))
        write_extract(extract)
        build = self.programs / "valhalla_build_tiles"
        subprocess.run([build, "-c", self.config, extract], check=True, cwd=folder)  # it leaves notes where it runs
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen([self.programs / "valhalla_service", self.config, "1"])
        try:
            self._wait_until_it_answers()
        except BaseException:
            self.kill()
            raise

    def _wait_until_it_answers(self) -> None:
        for _ in range(500):
            with contextlib.suppress(httpx.TransportError):
                httpx.get(f"{self.url}/status", timeout=120).raise_for_status()
                return
            time.sleep(0.02)
        pytest.fail("valhalla_service does not answer after 10 s")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    service = Service(tmp_path_factory.mktemp("valhalla"))
    yield service
    service.kill()


@pytest.fixture
def roads(service: Service, clock: Clock) -> Iterator[ValhallaRoads]:
    roads = ValhallaRoads(service.url, fallback=HighwayRoads(), monotonic=clock)
    yield roads
    roads.close()


def miles_by_way_of(*places: Point) -> float:
    return sum(great_circle_miles(a, b) for a, b in pairwise(places))


def test_a_leg_is_as_long_as_on_the_map_and_driven_at_its_speeds(roads: ValhallaRoads) -> None:
    road = roads.through([WEST, NORTHEAST])
    assert (road.source, road.fallback_reason) == ("valhalla", None)
    highway_miles, motorway_miles = miles_by_way_of(WEST, NORTHWEST), miles_by_way_of(NORTHWEST, NORTHEAST)
    assert road.distance_miles == pytest.approx(highway_miles + motorway_miles, rel=0.01)
    assert road.stop_hours[-1] == pytest.approx(highway_miles / 50 + motorway_miles / 60, rel=0.01)
    assert road.line[0] == pytest.approx(WEST)
    assert road.line[-1] == pytest.approx(NORTHEAST)


def test_a_truck_avoids_a_low_bridge(roads: ValhallaRoads) -> None:
    road = roads.through([WEST, EAST])
    assert road.source == "valhalla"
    assert road.distance_miles == pytest.approx(miles_by_way_of(WEST, NORTHWEST, NORTHEAST, EAST), rel=0.01)
    assert road.distance_miles > 1.5 * miles_by_way_of(WEST, BRIDGE_WEST, BRIDGE_EAST, EAST)


@pytest.mark.parametrize(
    ("row", "fits", "does_not"),
    [pytest.param(row, *trucks, id="".join(tags)) for row, (tags, *trucks) in enumerate(CLOSED)],
)
def test_a_truck_goes_round_a_road_that_is_closed_to_it(
    roads: ValhallaRoads, row: int, fits: TruckDimensions, does_not: TruckDimensions
) -> None:
    west, *corners, east = closed_ends(row)
    through, round_it = roads.through([west, east], fits), roads.through([west, east], does_not)
    assert through.source == round_it.source == "valhalla"
    assert through.distance_miles == pytest.approx(miles_by_way_of(west, east), rel=0.01)
    assert round_it.distance_miles == pytest.approx(miles_by_way_of(west, *corners, east), rel=0.01)


def test_a_road_may_pass_a_stop_twice(roads: ValhallaRoads) -> None:
    stops = [BRIDGE_WEST, WEST, WEST, NORTHWEST, NORTHEAST, EAST, EAST]
    road = roads.through(stops)
    assert road.source == "valhalla"
    miles = [miles_by_way_of(*stops[: count + 1]) for count in range(len(stops))]
    assert road.stop_miles == pytest.approx(miles, rel=0.01)
    assert len(road.stop_hours) == len(stops)
    assert road.stop_miles[1] == road.stop_miles[2]
    assert list(road.stop_hours) == sorted(road.stop_hours)
    for stop, mile in zip(stops, road.stop_miles, strict=True):
        at = [np.interp(mile, road.line_miles, road.line[:, axis]) for axis in (0, 1)]
        assert at == pytest.approx(stop, abs=1e-5)


def test_a_road_between_two_stops_at_one_place_has_no_miles(roads: ValhallaRoads) -> None:
    road = roads.through([WEST, WEST])
    assert (road.source, road.distance_miles, road.stop_hours) == ("valhalla", 0, (0, 0))


def test_fifty_stops_are_asked_for_in_parts_there_and_back(roads: ValhallaRoads) -> None:
    stops = [Point(41.1, longitude) for longitude in np.linspace(-96.4, -96.0, 50).tolist()]
    assert len(stops) > MAX_LOCATIONS
    there, back = roads.through(stops), roads.through(stops[::-1])
    assert there.source == back.source == "valhalla"
    assert len(there.stop_miles) == len(back.stop_miles) == 50
    assert np.all(np.diff(there.stop_miles) > 0)
    assert there.distance_miles == pytest.approx(miles_by_way_of(NORTHWEST, NORTHEAST), rel=0.01)
    assert back.distance_miles == pytest.approx(there.distance_miles, rel=0.001)


@pytest.mark.parametrize(
    ("stop", "reason"),
    [
        (OFF_THE_MAP, "valhalla refused: No suitable edges near location"),
        (ISLAND, "valhalla refused: Locations are in unconnected regions. Go check/edit the map at osm.org"),
    ],
)
def test_only_the_route_of_a_stop_without_a_road_takes_the_fallback(
    roads: ValhallaRoads, stop: Point, reason: str
) -> None:
    road = roads.through([WEST, stop])
    assert road.fallback_reason == reason
    assert road.source != "valhalla"
    assert road.distance_miles > miles_by_way_of(WEST, stop)
    assert roads.through([WEST, EAST]).source == "valhalla"


def north_of_the_motorway(miles: float) -> Point:
    return Point(41.1 + miles / MILES_PER_DEGREE, -96.2)


@pytest.mark.parametrize("off_road", [0.2, 2.0, 4.9])
def test_a_stop_beside_the_roads_is_driven_to(roads: ValhallaRoads, off_road: float) -> None:
    stop, ramp = north_of_the_motorway(off_road), north_of_the_motorway(0)
    road = roads.through([WEST, stop, WEST])
    assert (road.source, road.fallback_reason) == ("valhalla", None)
    beside = CIRCUITY * off_road if off_road > AT_ROAD_MILES else 0
    by_road = miles_by_way_of(WEST, NORTHWEST, ramp)
    assert road.stop_miles == pytest.approx([0, by_road + beside, 2 * (by_road + beside)], rel=0.01)
    assert road.stop_hours[1] > by_road / 60 + beside / 60
    assert road.place_at(road.stop_miles[1]) == pytest.approx(stop if beside else ramp, abs=1e-4)


@pytest.mark.parametrize("off_road", [5.1, 12, 20])
def test_a_stop_beyond_the_map_takes_the_fallback(roads: ValhallaRoads, off_road: float) -> None:
    """Valhalla leads to the last road of its map, up to 35 km away: the way was shorter than the straight line."""
    stop = north_of_the_motorway(off_road)
    road = roads.through([WEST, stop])
    assert road.fallback_reason == "valhalla has no road within 5 miles of a stop"
    assert road.source != "valhalla"
    assert road.distance_miles > miles_by_way_of(WEST, stop)


def test_a_restart_between_two_roads_is_not_noticed(roads: ValhallaRoads, service: Service) -> None:
    assert roads.through([WEST, EAST]).source == "valhalla"
    service.kill()
    service.start()
    assert roads.through([WEST, EAST]).source == "valhalla"


def test_a_dead_server_is_left_alone_and_used_again_when_it_is_back(
    roads: ValhallaRoads, service: Service, clock: Clock
) -> None:
    service.kill()
    road = roads.through([WEST, EAST])
    assert (road.source, road.fallback_reason) == (
        "great-circle",
        f"valhalla cannot be reached; {STRAIGHT_LINE_REASON}",
    )
    service.start()
    clock.seconds += ROADS_REST_SECONDS - 12
    road = roads.through([WEST, EAST])
    assert road.source == "great-circle"
    assert road.fallback_reason == f"valhalla is left alone for another 12 s after a failure; {STRAIGHT_LINE_REASON}"
    clock.seconds += 12
    road = roads.through([WEST, EAST])
    assert (road.source, road.fallback_reason) == ("valhalla", None)
