"""The trips of the demo's trucks, and the moves of its living fleet: rules only."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from uuid import uuid4

import numpy as np
import pytest

from deploy.demo.moves import MovingTruck, Way, mile_of
from deploy.demo.trips import OFF_ROAD, TRUCKS, past_trips, present_trips
from domain.roads import Point, Road, great_circle_miles
from domain.sandbox.simulated_truck import Refuel

NOW = datetime(2026, 11, 26, 12, tzinfo=UTC)
EDGES = [
    NOW,
    datetime(2027, 1, 1, tzinfo=UTC),
    datetime(2026, 10, 1, 0, 0, 1, tzinfo=UTC),
    datetime(2028, 2, 29, 23, 59, tzinfo=UTC),
]


PUMP = Point(40.01, -99.4)


def along_a_parallel() -> Road:
    line = np.array([[40.0, -100.0 + step / 10] for step in range(60)])
    return Road.of_line(line, np.linspace(0.0, 300.0, len(line)))


def truck(**changes: object) -> MovingTruck:
    values = {
        "mpg": 6.0,
        "capacity_gallons": 200.0,
        "place": Point(40.0, -100.0),
        "fuel_percent": 50.0,
        "moved_at": NOW,
    }
    return MovingTruck(vehicle_id="veh_1", **{**values, **changes})  # type: ignore[arg-type]


def test_the_same_moment_gives_the_same_trips() -> None:
    assert past_trips(now=NOW) == past_trips(now=NOW)


@pytest.mark.parametrize("now", EDGES, ids=str)
def test_each_truck_goes_on_from_where_it_was_and_drives_one_trip_at_a_time(now: datetime) -> None:
    past = past_trips(now=now)
    present = present_trips(past, now=now)
    assert len(past) == len(present) == TRUCKS
    for driven, under_way in zip(past, present, strict=True):
        for before, after in pairwise([*driven, under_way]):
            assert before.lane.destination == after.lane.origin
            assert before.number + 1 == after.number
            assert before.starts_at + before.lane.duration < after.starts_at
        assert under_way.starts_at < now < under_way.starts_at + under_way.lane.duration


def test_a_truck_burns_by_the_mile_and_fuels_where_its_plan_says() -> None:
    one = truck()
    one.way = Way(uuid4(), along_a_parallel(), [Refuel(30.0, 100.0, PUMP)])
    levels, at_pump = [], []
    for minute in range(1, 61):
        fix = one.move(NOW + timedelta(minutes=minute), 1)
        at_pump += [minute] if (fix.latitude, fix.longitude) == PUMP else []
        levels.append((fix.speed_mph, fix.fuel_percent))
    assert levels[28] == (60.0, 47.6), "29 miles have burned 2.4 % of the tank"
    assert levels[29] == (0.0, 47.5)
    assert levels[30] == (0.0, 97.5)
    assert one.mile == 30 + 60 - 45, "it stood for a quarter of an hour"
    assert at_pump == list(range(30, 46))


def test_a_fast_truck_stands_at_a_pump_until_its_level_was_seen_before_and_after() -> None:
    one = truck()
    one.way = Way(uuid4(), along_a_parallel(), [Refuel(30.0, 100.0, PUMP)])
    fixes = [one.move(NOW + timedelta(seconds=6 * number), 60) for number in range(1, 20)]
    standing = [fix.fuel_percent for fix in fixes if fix.speed_mph == 0]
    assert standing[0] == 47.5
    assert standing[1] == 97.5
    assert len(standing) >= 7


def test_a_truck_ends_at_the_last_stop_and_stays_there() -> None:
    one = truck()
    one.way = Way(uuid4(), along_a_parallel(), [])
    for hour in range(1, 8):
        fix = one.move(NOW + timedelta(hours=hour), 1)
    assert one.mile == 300
    assert fix.speed_mph == 0
    assert (fix.latitude, fix.longitude) == (40.0, -94.1)


def test_a_paused_truck_stands() -> None:
    one = truck()
    one.way = Way(uuid4(), along_a_parallel(), [])
    assert one.move(NOW + timedelta(hours=1), 0).longitude == -100.0
    assert one.move(NOW + timedelta(hours=1, minutes=1), 1).speed_mph == 60.0


def test_a_truck_off_its_road_waits_for_a_new_plan_and_follows_it() -> None:
    one = truck(leaves_road=True)
    road = along_a_parallel()
    one.take(Way(uuid4(), road, []))
    for minute in range(1, 80):
        one.move(NOW + timedelta(minutes=minute), 1)
    there = road.line[int(np.abs(road.line_miles - one.mile).argmin())]
    assert great_circle_miles(one.place, Point(*there.tolist())) > 20
    again = truck(leaves_road=True, place=one.place, moved_at=one.moved_at)
    again.take(Way(uuid4(), road, []))
    assert again.off_road_since is not None, "it is off its road after a restart, too"
    new = Road(100.0, np.array([one.place, (41.0, -95.0)]), np.array([0.0, 100.0]), (), (), "")
    one.take(Way(uuid4(), new, []))
    before = one.place
    one.move(one.moved_at + timedelta(minutes=5), 1)
    assert great_circle_miles(before, one.place) > 2
    assert one.mile == pytest.approx(5, abs=0.1)


def test_a_mile_of_a_road_is_found_again() -> None:
    road = along_a_parallel()
    way = Way(uuid4(), road, [])
    for mile in (0.0, 1.0, 77.7, 299.5, 300.0):
        assert mile_of(road, way.road.place_at(mile)) == pytest.approx(mile, abs=0.01)


def test_the_truck_that_leaves_its_road_stays_far_from_borders() -> None:
    places = {place for trip in past_trips(now=NOW)[OFF_ROAD] for place in trip.lane}
    assert places <= {"Joliet", "Kansas City", "Memphis", "Denver"}
