"""A plan takes the driven road from where the truck is, and only where the truck is on it."""

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.documents import DRIVEN_LANE
from domain.driven_lanes.lanes import LearnedLane
from domain.driven_lanes.road_by_lane import road_by_lane
from domain.driven_lanes.snapping import snapped
from domain.ids import new_id
from domain.roads import Point, Road, great_circle_miles
from domain.roads.highways import default_highway_finder
from domain.roads.truck_dimensions import ANY_TRUCK, TruckDimensions
from tests.domain.driven_lanes.driving import BY_NASHVILLE, JOLIET, MEMPHIS, NASHVILLE, ROADS, fixes_along
from tests.repeatable import examples

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
TO_NASHVILLE = ROADS.through([JOLIET, NASHVILLE])
TO_MEMPHIS = ROADS.through([NASHVILLE, MEMPHIS])

DIRECT = LearnedLane(
    new_id(), [JOLIET, MEMPHIS], snapped(default_highway_finder(), [fixes_along(BY_NASHVILLE, NOON)]), []
)
WITH_STOP = LearnedLane(
    new_id(),
    [JOLIET, NASHVILLE, MEMPHIS],
    snapped(
        default_highway_finder(),
        [fixes_along(TO_NASHVILLE, NOON), fixes_along(TO_MEMPHIS, NOON + timedelta(days=1))],
    ),
    [],
)


def taken(position: Point, truck: TruckDimensions = ANY_TRUCK) -> Road | None:
    return road_by_lane(DIRECT, position, [JOLIET, MEMPHIS], [1], ROADS, truck)


def at_mile(mile: float) -> Point:
    line, miles = BY_NASHVILLE.line, BY_NASHVILLE.line_miles
    latitude, longitude = (float(np.interp(mile, miles, degrees)) for degrees in line.T)
    return Point(latitude, longitude)


@settings(max_examples=examples(15), deadline=None)
@given(mile=st.floats(0, 0.98), north_miles=st.floats(-3, 3))
def test_a_truck_on_its_way_joins_the_road_where_it_is(mile: float, north_miles: float) -> None:
    mile *= BY_NASHVILLE.distance_miles
    on_road = at_mile(mile)
    position = Point(on_road.latitude + north_miles / 69, on_road.longitude)
    road = taken(position)
    assert road is not None
    left = BY_NASHVILLE.distance_miles - mile
    assert road.distance_miles == pytest.approx(left, abs=0.02 * left + 2 * abs(north_miles) + 3)
    assert great_circle_miles(Point(*road.line[0].tolist()), position) < 0.01
    assert great_circle_miles(Point(*road.line[-1].tolist()), MEMPHIS) < 0.01
    assert (np.diff(road.line_miles) >= 0).all()
    assert road.stop_miles[-1] == pytest.approx(road.distance_miles)
    assert len(road.stop_miles) == len(road.stop_hours) == 2
    assert 0 < road.stop_hours[-1] < 30


def test_a_truck_off_the_road_takes_the_roads_as_before() -> None:
    assert taken(JOLIET) is not None
    assert taken(Point(40.0, -84.0)) is None
    assert taken(Point(JOLIET.latitude + 8 / 69, JOLIET.longitude)) is None


def test_hazardous_cargo_and_large_trucks_keep_to_the_roads_chosen_for_them() -> None:
    ordinary = TruckDimensions(height_feet=13.5, width_feet=8.5, weight_pounds=80_000, hazmat=False)
    assert taken(JOLIET, ordinary) is not None
    for large in (
        TruckDimensions(hazmat=True),
        TruckDimensions(height_feet=14),
        TruckDimensions(width_feet=12),
        TruckDimensions(weight_pounds=105_000),
    ):
        assert taken(JOLIET, large) is None


def test_the_road_leads_through_the_stops_that_are_left() -> None:
    stops = [JOLIET, NASHVILLE, MEMPHIS]
    whole = road_by_lane(WITH_STOP, JOLIET, stops, [1, 2], ROADS, ANY_TRUCK)
    assert whole is not None
    assert whole.source == DRIVEN_LANE
    assert whole.stop_miles == pytest.approx(
        (0, TO_NASHVILLE.distance_miles, TO_NASHVILLE.distance_miles + TO_MEMPHIS.distance_miles), rel=0.01, abs=0.01
    )
    rest = road_by_lane(WITH_STOP, NASHVILLE, stops, [2], ROADS, ANY_TRUCK)
    assert rest is not None
    assert rest.distance_miles == pytest.approx(TO_MEMPHIS.distance_miles, rel=0.01)
    # a truck that has not reached its first stop, or has none left
    assert road_by_lane(WITH_STOP, JOLIET, stops, [0, 1, 2], ROADS, ANY_TRUCK) is None
    assert road_by_lane(WITH_STOP, MEMPHIS, stops, [], ROADS, ANY_TRUCK) is None


def test_a_stop_beside_the_lane_is_driven_to() -> None:
    aside = Point(MEMPHIS.latitude - 3 / 69, MEMPHIS.longitude)
    road = road_by_lane(DIRECT, JOLIET, [JOLIET, aside], [1], ROADS, ANY_TRUCK)
    assert road is not None
    assert great_circle_miles(Point(*road.line[-1].tolist()), aside) < 0.01
    assert road.distance_miles == pytest.approx(BY_NASHVILLE.distance_miles, abs=15)
