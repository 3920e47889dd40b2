"""The page's mile of a truck is the one by which trucks are judged, though it is computed in the plane."""

from datetime import UTC, datetime

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.driver_page.progress import mile_of_truck, miles_to
from domain.planning.coarse_ways import CoarseWay
from domain.planning.deviations import PlannedWay, TrackedFix
from domain.roads import Point
from domain.roads.sphere import MILES_PER_DEGREE

NOON = datetime(2026, 12, 1, 12, tzinfo=UTC)
NORTH, WEST = 41.0, -100.0
MILE_NORTH = 1 / MILES_PER_DEGREE
MILE_EAST = MILE_NORTH / np.cos(np.radians(NORTH))


def way(*miles: tuple[float, float]) -> CoarseWay:
    """A road through these places, in miles north and east of its start, with a point every four miles or so."""
    corners = np.array([(0.0, 0.0), *miles])
    corner_miles = np.concatenate([[0.0], np.cumsum(np.hypot(*np.diff(corners, axis=0).T))])
    line_miles = np.linspace(0.0, corner_miles[-1], max(2, round(corner_miles[-1] / 4)))
    north, east = (np.interp(line_miles, corner_miles, one) for one in corners.T)
    line = np.stack([NORTH + north * MILE_NORTH, WEST + east * MILE_EAST], axis=1)
    return CoarseWay(line, line_miles, mpg=6.5, capacity_gallons=200)


def truck(north: float, east: float) -> Point:
    return Point(NORTH + north * MILE_NORTH, WEST + east * MILE_EAST)


bends = st.floats(-60.0, 60.0)


@given(bends, bends, st.floats(0.0, 300.0), st.floats(-20.0, 20.0), st.floats(0.0, 250.0))
def test_the_mile_is_the_one_by_which_trucks_are_judged(
    first: float, second: float, east: float, off: float, reached_mile: float
) -> None:
    road = way((first, 100.0), (second, 200.0), (0.0, 300.0))
    north = np.interp(east, [0, 100, 200, 300], [0, first, second, 0]) + off
    at = truck(float(north), east)
    judge = PlannedWay(road.line, road.line_miles, (), reached=[(NOON, reached_mile)])
    (judged,) = judge.miles_of([TrackedFix(NOON, *at)])

    mile = mile_of_truck(road, at, reached_mile=reached_mile)

    if 9.8 < judge.miles_off(TrackedFix(NOON, *at)) < 10.2:
        return
    assert (mile is None) == (judged is None)
    if mile is not None and judged is not None:
        assert abs(mile - judged) < 1.0


@pytest.mark.parametrize(("reached_mile", "mile"), [(0.0, 50.0), (105.0, 150.0)])
def test_a_truck_on_a_road_there_and_back_is_beyond_its_last_stop(reached_mile: float, mile: float) -> None:
    road = way((0.0, 100.0), (0.0, 0.0))

    assert mile_of_truck(road, truck(0.5, 50.0), reached_mile=reached_mile) == pytest.approx(mile, abs=0.3)


def test_a_truck_off_its_road_has_no_mile_and_a_straight_way() -> None:
    place = truck(0.0, 200.0)

    assert mile_of_truck(way((0.0, 300.0)), truck(12.0, 100.0), reached_mile=0.0) is None
    assert miles_to(200.0, None, truck(0.0, 100.0), place) == pytest.approx(120, abs=0.3)
    assert miles_to(200.0, 150.0, truck(0.0, 100.0), place) == 50.0
    assert miles_to(200.0, None, None, place) is None


def test_a_road_across_the_antimeridian_is_no_special_case() -> None:
    road = CoarseWay(np.array([[52.0, 179.0], [52.0, -179.0]]), np.array([0.0, 85.0]), 6.5, 200)

    assert mile_of_truck(road, Point(52.0, -179.5), reached_mile=0.0) == pytest.approx(63.75, abs=0.1)
