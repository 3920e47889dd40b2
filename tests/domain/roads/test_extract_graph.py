"""Main roads made from an extract: one-way, open to an ordinary truck, with signs."""

import shutil
from collections.abc import Iterator
from contextlib import suppress
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

from domain.documents import EXTRACT_GRAPH
from domain.roads import Point, Road, great_circle_miles
from domain.roads.extract_graph import Arcs, NoRoads, SignedPlaces, build_from_extract, graph_of_arcs
from domain.roads.extract_roads import CHUNKS_OF_PASS, IDS_OF_CHUNK, LARGEST_ID, UnknownNodes, passes_of
from domain.roads.highway_graph import FREEWAY, HighwayGraph, UnusableRoadsFile
from domain.roads.highways import (
    HighwayFinder,
    HighwayRoads,
    _leg,
    default_highway_finder,
)
from domain.roads.road_signs import RoadSigns, default_road_signs
from domain.settings import get_settings
from tests.domain.roads.made_extract import EAST_EXIT, EAST_LATITUDE, WEST_EXIT, MadeMap, interstate_map

NORTH_OF_BRIDGE, SOUTH_OF_BRIDGE = Point(41.25, EAST_EXIT), Point(41.05, EAST_EXIT)
FAR_WEST = Point(41.002, -96.51)
ON_US_6, ON_NE_50 = Point(41.2, WEST_EXIT), Point(41.05, EAST_EXIT)


@pytest.fixture(scope="module")
def made_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("extract")
    interstate_map().write(folder / "map.osm.pbf")
    build_from_extract(folder / "map.osm.pbf", folder / "roads.npz")
    return folder / "roads.npz"


@pytest.fixture(scope="module")
def finder(made_file: Path) -> HighwayFinder:
    return HighwayFinder(HighwayGraph.load(made_file))


def road(finder: HighwayFinder, start: Point, end: Point) -> Road:
    leg = finder.leg(start, end)
    assert leg is not None
    return Road.of([leg])


def latitudes(road: Road) -> list[float]:
    return sorted(set(road.line[:, 0].round(3).tolist()))


def test_each_carriageway_is_driven_in_its_direction_alone(finder: HighwayFinder) -> None:
    east, west = road(finder, ON_US_6, ON_NE_50), road(finder, ON_NE_50, ON_US_6)
    assert 41.0 in latitudes(east)
    assert 41.004 not in latitudes(east)
    assert 41.004 in latitudes(west)
    assert 41.0 not in latitudes(west)
    assert east.source == EXTRACT_GRAPH


def test_a_truck_goes_round_a_low_bridge_and_a_road_without_trucks(finder: HighwayFinder) -> None:
    around = road(finder, NORTH_OF_BRIDGE, SOUTH_OF_BRIDGE)
    assert around.distance_miles > 4 * great_circle_miles(NORTH_OF_BRIDGE, SOUTH_OF_BRIDGE)
    assert 41.3 in latitudes(around)
    assert 41.11 not in latitudes(around)
    southern = road(finder, Point(40.9, WEST_EXIT), Point(40.9, EAST_EXIT))
    assert EAST_LATITUDE in latitudes(southern)  # not by NE 64, hgv=no


def test_a_road_has_its_signs_and_a_place_its_exit(finder: HighwayFinder) -> None:
    signs, east = RoadSigns(finder.graph), road(finder, ON_US_6, ON_NE_50)
    assert [name for _, name in signs.along(east)] == ["US-6", "I-80 E", "NE-50"]
    at_exit = next(mile for mile, place in zip(east.line_miles, east.line, strict=True) if place[1] > EAST_EXIT - 0.011)
    sign = signs.sign_for(east, float(at_exit) + 0.4)
    assert sign is not None
    assert (sign.in_words(), sign.has_direction) == ("I-80 E, exit 440A", True)
    on_us_6 = signs.sign_for(east, 5.0)
    assert on_us_6 is not None
    assert (on_us_6.in_words(), on_us_6.has_direction) == ("US-6", False)
    elsewhere = road(default_highway_finder(), Point(33, -97), Point(32, -97))
    assert signs.along(elsewhere) == []
    assert signs.sign_for(elsewhere, 10) is None


def test_the_file_keeps_everything_and_the_same_extract_gives_the_same_file(made_file: Path, tmp_path: Path) -> None:
    shutil.copy(made_file.with_name("map.osm.pbf"), tmp_path)
    built = build_from_extract(tmp_path / "map.osm.pbf", tmp_path / "again.npz")
    assert (tmp_path / "again.npz").read_bytes() == made_file.read_bytes()
    loaded = HighwayGraph.load(made_file)
    for name in ("first", "head", "cost", "through", "first_inward"):
        assert np.array_equal(getattr(loaded, name), getattr(built, name)), name
    assert np.allclose(loaded.nodes, built.nodes, atol=1e-5)
    assert loaded.signs is not None
    assert built.signs is not None
    assert (loaded.signs.names, loaded.signs.exits) == (built.signs.names, built.signs.exits)
    assert np.array_equal(loaded.signs.name_of, built.signs.name_of)
    assert np.array_equal(loaded.signs.can_join, built.signs.can_join)


def test_no_truck_joins_a_freeway_between_its_exits(finder: HighwayFinder) -> None:
    between = Point(EAST_LATITUDE - 0.02, -96.0)
    start = finder.leg(between, Point(EAST_LATITUDE, -95.52))
    assert start is not None
    assert start.line_miles[1] > 5  # to the next exit


@pytest.fixture
def roads_file(made_file: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The made file as the one of the settings; a test may write another in its place."""
    file = made_file.with_name("used.npz")
    shutil.copy(made_file, file)
    monkeypatch.setenv("FUELROUTE_ROADS_FILE", str(file))
    caches = (get_settings, default_highway_finder, default_road_signs, _leg)
    for cached in caches:
        cached.cache_clear()
    yield file
    for cached in caches:
        cached.cache_clear()


def test_the_file_of_the_settings_is_used_inside_of_its_extract(roads_file: Path) -> None:
    roads = HighwayRoads()
    assert roads.through([FAR_WEST, ON_NE_50]).source == EXTRACT_GRAPH
    assert roads.through([Point(33, -97), Point(32, -97)]).source == "highway-graph"
    assert default_road_signs() is not None


@pytest.mark.parametrize("content", [b"", b"<html>", b"PK\x03\x04cut"])
def test_a_file_that_cannot_be_read_stops_no_plan(roads_file: Path, content: bytes) -> None:
    roads_file.write_bytes(content)
    with pytest.raises(UnusableRoadsFile, match="holds no roads of `fuelroute roads build`"):
        HighwayGraph.load(roads_file)
    assert HighwayRoads().through([FAR_WEST, ON_NE_50]).source == "highway-graph"
    assert default_road_signs() is None


def test_a_damaged_file_raises_no_other_error(made_file: Path, tmp_path: Path) -> None:
    whole, damaged = made_file.read_bytes(), tmp_path / "damaged.npz"
    for at in range(0, len(whole), 29):
        damaged.write_bytes(whole[:at] + bytes([whole[at] ^ 0x10]) + whole[at + 1 :])
        with suppress(UnusableRoadsFile):
            HighwayGraph.load(damaged)


def test_a_file_of_a_later_version_is_refused(roads_file: Path) -> None:
    with np.load(roads_file) as file:
        columns = {name: file[name] for name in file.files}
    np.savez_compressed(roads_file, **{**columns, "version": np.array(3)})
    with pytest.raises(UnusableRoadsFile, match="or those of a later version"):
        HighwayGraph.load(roads_file)


def test_a_file_that_cannot_be_written_leaves_nothing_behind(made_file: Path, tmp_path: Path) -> None:
    (tmp_path / "roads.npz").mkdir()
    with pytest.raises(IsADirectoryError):
        build_from_extract(made_file.with_name("map.osm.pbf"), tmp_path / "roads.npz")
    assert [path.name for path in tmp_path.iterdir()] == ["roads.npz"]


def test_an_extract_without_main_roads_is_refused(tmp_path: Path) -> None:
    made = MadeMap()
    made.way({"highway": "residential"}, Point(41, -96), Point(41.1, -96))
    made.way({"highway": "primary", "hgv": "no"}, Point(41, -96), Point(41, -96.1))
    made.write(tmp_path / "map.osm.pbf")
    with pytest.raises(NoRoads):
        build_from_extract(tmp_path / "map.osm.pbf", tmp_path / "roads.npz")
    assert not (tmp_path / "roads.npz").exists()


def test_a_node_twice_in_a_row_changes_nothing(made_file: Path, tmp_path: Path) -> None:
    """Editors leave such ways behind. https://github.com/openstreetmap/iD/issues/3211"""
    made = interstate_map()
    for _, places in made.ways[::2]:
        places.insert(1, places[0])
    made.ways.append(({"highway": "primary"}, [made.ways[0][1][0]] * 2))
    made.write(tmp_path / "map.osm.pbf")
    build_from_extract(tmp_path / "map.osm.pbf", tmp_path / "roads.npz")
    assert (tmp_path / "roads.npz").read_bytes() == made_file.read_bytes()


def test_a_way_between_two_nodes_at_one_place_joins_them(tmp_path: Path) -> None:
    here, also_here = Point(41, -96), Point(41, -96 + 1e-12)
    made, primary = MadeMap(), {"highway": "primary"}
    made.way(primary, Point(40.9, -96), here)
    made.way(primary, here, also_here)
    made.way(primary, also_here, Point(41.1, -96))
    made.write(tmp_path / "map.osm.pbf")
    finder = HighwayFinder(build_from_extract(tmp_path / "map.osm.pbf", tmp_path / "roads.npz"))
    assert road(finder, Point(40.9, -96), Point(41.1, -96)).distance_miles == pytest.approx(13.8, abs=0.1)


@pytest.mark.parametrize("beyond", [Point(42, -96), Point(95, -96)])
def test_a_road_beyond_the_edge_of_the_extract_or_the_earth_is_no_straight_line(tmp_path: Path, beyond: Point) -> None:
    ends, edges = (Point(41, -96.2), Point(41, -95.8)), (Point(41, -96.1), Point(41, -95.9))
    made = MadeMap()
    made.way({"highway": "primary"}, ends[0], edges[0], beyond, edges[1], ends[1])
    made.lacking |= {beyond} if beyond.latitude < 90 else set()
    made.write(tmp_path / "map.osm.pbf")
    finder = HighwayFinder(build_from_extract(tmp_path / "map.osm.pbf", tmp_path / "roads.npz"))
    assert finder.leg(ends[0], edges[0]) is not None
    assert finder.leg(*ends) is None


@pytest.mark.parametrize("step", [400_000_000, 25_000_000])
def test_ids_as_large_as_those_of_openstreetmap_give_the_same_roads(
    made_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    monkeypatch.setattr("domain.roads.extract_roads.CHUNKS_OF_PASS", 3)
    made = interstate_map()
    made.nodes = {place: number * step for place, number in made.nodes.items()}
    made.write(tmp_path / "map.osm.pbf")
    build_from_extract(tmp_path / "map.osm.pbf", tmp_path / "roads.npz")
    assert (tmp_path / "roads.npz").read_bytes() == made_file.read_bytes()


@pytest.mark.parametrize("sign", [-1, 1 << 42])
def test_ids_that_are_not_those_of_openstreetmap_are_refused(tmp_path: Path, sign: int) -> None:
    made = interstate_map()
    made.nodes = {place: number * sign for place, number in made.nodes.items()}
    made.write(tmp_path / "map.osm.pbf")
    with pytest.raises(UnknownNodes, match="osmium renumber"):
        build_from_extract(tmp_path / "map.osm.pbf", tmp_path / "roads.npz")


@given(st.sets(st.integers(1, LARGEST_ID) | st.integers(1, 13_000_000_000), max_size=300))
def test_one_pass_over_the_nodes_looks_for_ids_of_few_chunks(ids: set[int]) -> None:
    parts = passes_of(np.array(sorted(ids), dtype=np.int64))
    assert [id_ for part in parts for id_ in part.tolist()] == sorted(ids)
    assert all(1 <= len(set((part // IDS_OF_CHUNK).tolist())) <= CHUNKS_OF_PASS for part in parts)


@given(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8), st.integers(1, 40)), min_size=1, max_size=40))
def test_ways_of_one_way_roads_are_the_shortest_ones(pairs: list[tuple[int, int, int]]) -> None:
    """dijkstra of SciPy finds the same costs between all nodes, and no way where there is none."""
    starts, ends, miles = (np.array(column) for column in zip(*pairs, strict=True))
    apart = starts != ends
    count = int(apart.sum())
    nodes = np.array([[40 + node / 10, -100 + node**2 / 50] for node in range(9)])
    zeros = np.zeros(count, dtype=np.int64)
    arcs = Arcs(starts[apart], ends[apart], miles[apart].astype(np.float64), zeros, zeros > 0, zeros - 1)
    graph = graph_of_arcs(nodes, arcs, SignedPlaces([], {}, np.ones(9, dtype=np.bool_)))
    finder = HighwayFinder(graph)
    least = np.full((9, 9), np.inf)
    for start, end, mile in zip(arcs.starts, arcs.ends, arcs.miles, strict=True):
        least[start, end] = min(least[start, end], mile)
    cheapest = dijkstra(csr_array(np.where(np.isfinite(least), least, 0)), directed=True)
    for start, end in product(range(9), repeat=2):
        way = finder.way({start: 0}, {end: 0})
        if np.isinf(cheapest[start, end]):
            assert way is None
            continue
        assert way is not None
        nodes_of_way, arcs_of_way = way
        assert (nodes_of_way[0], nodes_of_way[-1]) == (start, end)
        assert graph.lengths(arcs_of_way).sum() / 100 == pytest.approx(cheapest[start, end])
        assert set(graph.through[arcs_of_way].tolist()) <= {FREEWAY}
