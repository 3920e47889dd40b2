"""The embedded roads: right in distance, on the road, and never at a loss."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from domain.roads import LINE_STEP_MILES, Point, Road, great_circle_miles
from domain.roads.freeways import CIRCUITY, FREEWAY_MPH, OTHER_MPH, FreewayRoads, freeway_graph
from domain.roads.sphere import densified, segment_miles

roads = FreewayRoads()

ALBANY = Point(42.6526, -73.7562)
ATLANTA = Point(33.7490, -84.3880)
BILLINGS = Point(45.7833, -108.5007)
BOISE = Point(43.6150, -116.2023)
BOSTON = Point(42.3601, -71.0589)
BUFFALO = Point(42.8864, -78.8784)
CHARLOTTE = Point(35.2271, -80.8431)
CHICAGO = Point(41.8781, -87.6298)
COLUMBUS = Point(39.9612, -82.9988)
DALLAS = Point(32.7767, -96.7970)
DENVER = Point(39.7392, -104.9903)
DETROIT = Point(42.3314, -83.0458)
EL_PASO = Point(31.7619, -106.4850)
HOUSTON = Point(29.7604, -95.3698)
INDIANAPOLIS = Point(39.7684, -86.1581)
JACKSONVILLE = Point(30.3322, -81.6557)
KANSAS_CITY = Point(39.0997, -94.5786)
LAS_VEGAS = Point(36.1699, -115.1398)
LOS_ANGELES = Point(34.0522, -118.2437)
MEMPHIS = Point(35.1495, -90.0490)
MIAMI = Point(25.7617, -80.1918)
MINNEAPOLIS = Point(44.9778, -93.2650)
NASHVILLE = Point(36.1627, -86.7816)
NEW_ORLEANS = Point(29.9511, -90.0715)
NEW_YORK = Point(40.7128, -74.0060)
OKLAHOMA_CITY = Point(35.4676, -97.5164)
OMAHA = Point(41.2565, -95.9345)
PHOENIX = Point(33.4484, -112.0740)
PORTLAND = Point(45.5152, -122.6784)
RENO = Point(39.5296, -119.8138)
SALT_LAKE_CITY = Point(40.7608, -111.8910)
SAN_ANTONIO = Point(29.4241, -98.4936)
SAN_FRANCISCO = Point(37.7749, -122.4194)
SEATTLE = Point(47.6062, -122.3321)
ST_LOUIS = Point(38.6270, -90.1994)
TAMPA = Point(27.9506, -82.4572)
WASHINGTON = Point(38.9072, -77.0369)

# Road distances as road atlases and route planners give them, downtown to downtown.
KNOWN_MILES = [
    (NEW_YORK, LOS_ANGELES, 2790),
    (NEW_YORK, CHICAGO, 790),
    (CHICAGO, LOS_ANGELES, 2015),
    (DALLAS, HOUSTON, 239),
    (DALLAS, ATLANTA, 781),
    (ATLANTA, MIAMI, 663),
    (SEATTLE, PORTLAND, 174),
    (SAN_FRANCISCO, LOS_ANGELES, 382),
    (DENVER, SALT_LAKE_CITY, 521),
    (CHICAGO, DENVER, 1003),
    (HOUSTON, NEW_ORLEANS, 348),
    (BOSTON, NEW_YORK, 215),
    (WASHINGTON, ATLANTA, 639),
    (PHOENIX, LOS_ANGELES, 373),
    (DENVER, KANSAS_CITY, 603),
    (KANSAS_CITY, ST_LOUIS, 248),
    (ST_LOUIS, CHICAGO, 297),
    (MINNEAPOLIS, CHICAGO, 408),
    (NASHVILLE, ATLANTA, 250),
    (MEMPHIS, NASHVILLE, 212),
    (INDIANAPOLIS, COLUMBUS, 175),
    (SEATTLE, BOISE, 502),
    (SALT_LAKE_CITY, LAS_VEGAS, 421),
    (LAS_VEGAS, LOS_ANGELES, 270),
    (EL_PASO, SAN_ANTONIO, 551),
    (JACKSONVILLE, MIAMI, 347),
    (CHARLOTTE, ATLANTA, 245),
    (DETROIT, CHICAGO, 283),
    (OKLAHOMA_CITY, DALLAS, 206),
    (PORTLAND, SAN_FRANCISCO, 636),
    (OMAHA, DENVER, 540),
    (TAMPA, ATLANTA, 456),
    (BILLINGS, SEATTLE, 822),
    (BUFFALO, ALBANY, 289),
]


def check(road: Road, points: list[Point]) -> None:
    """What every road promises."""
    assert len(road.line) == len(road.line_miles) >= 2
    assert np.all(np.isfinite(road.line))
    assert np.all(np.abs(road.line) <= (90, 180))
    assert road.line_miles[0] == 0
    assert road.line_miles[-1] == pytest.approx(road.distance_miles)
    assert np.all(np.diff(road.line_miles) >= 0)
    assert segment_miles(road.line).max() <= LINE_STEP_MILES + 1e-6
    assert len(road.stop_miles) == len(road.stop_hours) == len(points)
    assert (road.stop_miles[0], road.stop_hours[0]) == (0, 0)
    assert road.stop_miles[-1] == pytest.approx(road.distance_miles)
    assert list(road.stop_miles) == sorted(road.stop_miles)
    assert list(road.stop_hours) == sorted(road.stop_hours)
    for point, mile in zip(points, road.stop_miles, strict=True):
        at = np.flatnonzero(np.abs(road.line_miles - mile) < 1e-6)
        assert min(great_circle_miles(Point(*road.line[i].tolist()), point) for i in at) < 1e-3
    straight = sum(great_circle_miles(a, b) for a, b in pairwise(points))
    assert straight - 1e-6 <= road.distance_miles <= 1.6 * straight + 1e-6


def test_distances_of_well_known_city_pairs() -> None:
    errors = []
    for start, end, miles in KNOWN_MILES:
        road = roads.through([start, end])
        check(road, [start, end])
        assert road.source == "freeway-graph"
        errors.append(abs(road.distance_miles / miles - 1))
    assert np.mean(errors) < 0.01
    assert max(errors) < 0.04


def test_the_line_follows_the_freeway() -> None:
    """I-10 between El Paso and San Antonio dips south of the straight line, through Fort Stockton and Junction."""
    road = roads.through([EL_PASO, SAN_ANTONIO])
    for on_the_way in (Point(30.89, -102.88), Point(30.49, -99.77)):
        nearest = min(great_circle_miles(on_the_way, Point(*vertex)) for vertex in road.line.tolist())
        assert nearest < LINE_STEP_MILES


def test_trucks_are_slower_off_the_freeways() -> None:
    road = roads.through([CHICAGO, DENVER])
    assert road.distance_miles / FREEWAY_MPH < road.stop_hours[-1] < 1.02 * road.distance_miles / FREEWAY_MPH
    road = roads.through([Point(0, 0), Point(0, 10)])
    assert road.stop_hours[-1] == road.distance_miles / OTHER_MPH


def test_a_short_leg_is_not_sent_round_by_a_freeway() -> None:
    across_town = [Point(34.05, -118.24), Point(34.08, -118.26)]
    road = roads.through(across_town)
    check(road, across_town)
    assert road.distance_miles <= CIRCUITY * great_circle_miles(*across_town) + 1e-9


def test_a_leg_without_a_sensible_freeway_takes_the_great_circle() -> None:
    road = roads.through([RENO, LAS_VEGAS])
    assert road.source == "great-circle"
    assert road.distance_miles == pytest.approx(439, rel=0.07)


@pytest.mark.parametrize(
    "points",
    [
        [Point(40.5, -100.2), Point(21.3, -157.86)],  # Honolulu has freeways, but no road leads there
        [Point(51.5, -0.13), Point(48.86, 2.35)],
        [Point(0, 179), Point(0, -179)],
        [Point(10, 180), Point(10, -180)],
        [Point(90, 0), Point(-90, 0)],
        [Point(90, 10), Point(90, -170)],
        [Point(0, 0), Point(0, 180)],
        [Point(35, -40), Point(36, -41)],
    ],
)
def test_everywhere_else_is_great_circle(points: list[Point]) -> None:
    road = roads.through(points)
    check(road, points)
    assert road.source == "great-circle"
    assert road.distance_miles == pytest.approx(CIRCUITY * great_circle_miles(*points), abs=1e-6)


def test_across_the_antimeridian_the_line_takes_the_short_way() -> None:
    road = roads.through([Point(52, 179), Point(52, -179)])
    assert np.all(np.abs(road.line[:, 1]) >= 179 - 1e-9)


def test_a_road_can_be_part_freeway_part_great_circle() -> None:
    road = roads.through([CHICAGO, DENVER, Point(19.43, -99.13)])
    assert road.source == "freeway-graph+great-circle"


def test_coinciding_points_make_legs_of_no_miles() -> None:
    points = [CHICAGO, CHICAGO, DENVER, DENVER, DENVER]
    road = roads.through(points)
    check(road, points)
    assert road.source == "freeway-graph"
    assert road.stop_miles[0] == road.stop_miles[1] == 0
    assert road.stop_miles[2] == road.stop_miles[3] == road.stop_miles[4]
    nowhere = roads.through([CHICAGO, CHICAGO])
    check(nowhere, [CHICAGO, CHICAGO])
    assert nowhere.distance_miles == 0


def test_a_road_through_all_points_is_the_sum_of_its_legs() -> None:
    points = [start for start, _, _ in KNOWN_MILES] + [end for _, end, _ in KNOWN_MILES][:16]
    road = roads.through(points)
    check(road, points)
    assert len(points) == 50
    legs = [roads.through([a, b]).distance_miles for a, b in pairwise(points)]
    assert road.distance_miles == pytest.approx(sum(legs))


@pytest.mark.parametrize("points", [[], [CHICAGO]])
def test_one_point_has_no_road(points: list[Point]) -> None:
    with pytest.raises(ValueError, match="two points"):
        roads.through(points)


latitudes = st.floats(-90, 90) | st.floats(25, 49)
longitudes = st.floats(-180, 180) | st.floats(-124, -68)


@settings(max_examples=150, deadline=None, derandomize=True)
@example([Point(89.99999999, 0), Point(89.99999999, 180), Point(-89.99999999, 0)])
@example([Point(0, 0), Point(1e-300, 1e-300), Point(1e-12, 0)])
@given(st.lists(st.builds(Point, latitudes, longitudes), min_size=2, max_size=5))
def test_any_points_on_earth_have_a_road(points: list[Point]) -> None:
    check(roads.through(points), points)


def test_the_graph_is_as_the_code_takes_it() -> None:
    graph = freeway_graph()
    assert graph is freeway_graph()
    assert len(graph.interchanges) == 14_591
    assert (graph.miles - graph.miles.T).nnz == 0
    assert graph.miles.diagonal().max() == 0
    starts, ends = graph.miles.nonzero()
    straight = [
        great_circle_miles(Point(*graph.interchanges[i].tolist()), Point(*graph.interchanges[j].tolist()))
        for i, j in zip(starts[::50], ends[::50], strict=True)
    ]
    assert 0.98 < np.median(graph.miles.data[::50] / np.maximum(straight, 1e-3)) < 1.1


def test_great_circle_miles() -> None:
    assert great_circle_miles(NEW_YORK, LOS_ANGELES) == pytest.approx(2446, abs=2)
    assert great_circle_miles(Point(0, 0), Point(0, 180)) == pytest.approx(math.pi * 3958.7613)
    assert great_circle_miles(Point(10, 180), Point(10, -180)) == pytest.approx(0, abs=1e-9)


def test_a_denser_line_lies_on_the_great_circle() -> None:
    line, miles = densified(np.array([[50.0, 0.0], [50.0, 90.0]]), np.array([0.0, 100.0]), 50.0)
    assert segment_miles(line).max() <= 50
    assert line[len(line) // 2].tolist() == pytest.approx([59.3, 45.0], abs=1.0)
    assert np.diff(miles) == pytest.approx(np.full(len(miles) - 1, 100 / (len(miles) - 1)))
