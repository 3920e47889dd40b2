"""The next fuel stop is told from the truck's position, the stops that it has reached, and the order of the plan."""

import pytest

from domain.planning.next_fuel_stop import Milestone, index_of_next_fuel_stop
from domain.roads import Point

FIRST, SECOND = Milestone(Point(41, -86), 100), Milestone(Point(41, -82), 310)
DESTINATION = Milestone(Point(41, -78), 520)


@pytest.mark.parametrize(
    ("longitude", "index"),
    [(-88, 0), (-86.01, 0), (-85.9, 1), (-82.01, 1), (-81.9, None)],
    ids=["at the start", "just before the first", "past the first", "just before the second", "past both"],
)
def test_a_fuel_stop_is_passed_where_the_truck_is_nearer_to_what_follows(longitude: float, index: int | None) -> None:
    assert index_of_next_fuel_stop(Point(41, longitude), [FIRST, SECOND], next_stop=DESTINATION) == index


def test_a_stop_that_was_reached_leaves_the_fuel_stops_before_it_behind() -> None:
    """The truck is on its way back, and as near to the first fuel stop as on its way out."""
    place = Point(41, -87)
    assert index_of_next_fuel_stop(place, [FIRST, SECOND], next_stop=DESTINATION, reached_mile=200) == 1


def test_a_fuel_stop_beyond_the_next_stop_is_ahead_wherever_the_truck_is() -> None:
    """The way leads past the second fuel stop before the next stop is reached."""
    next_stop = Milestone(Point(41, -80), 250)
    assert index_of_next_fuel_stop(Point(41, -80.1), [FIRST, SECOND], next_stop=next_stop) == 1


def test_fuel_stops_that_are_known_to_be_passed_stay_so() -> None:
    assert index_of_next_fuel_stop(Point(41, -88), [FIRST, SECOND], next_stop=DESTINATION, passed=1) == 1
    assert index_of_next_fuel_stop(Point(41, -88), [FIRST, SECOND], next_stop=DESTINATION, passed=2) is None


def test_a_truck_without_a_position_has_the_first_one_ahead() -> None:
    assert index_of_next_fuel_stop(None, [FIRST, SECOND], next_stop=DESTINATION) == 0
    assert index_of_next_fuel_stop(None, [], next_stop=DESTINATION) is None


def test_a_plan_without_miles_is_enough() -> None:
    ahead = [Milestone(FIRST.place, None), Milestone(SECOND.place, None)]
    assert index_of_next_fuel_stop(Point(41, -84), ahead, next_stop=Milestone(DESTINATION.place, None)) == 1
    assert index_of_next_fuel_stop(Point(41, -84), ahead[:1], next_stop=None) == 0
