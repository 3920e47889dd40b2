"""The outlook of a truck that sends no level: only what its plan did not know makes it fall short."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.burn.by_miles import DrivenWay, miles_driven, next_look_by_time, outlook_by_miles
from domain.burn.shortfalls import Ahead, Outlook, PlannedBurn
from domain.roads import Point
from domain.roads.sphere import MILES_PER_DEGREE

NOW = datetime(2026, 11, 21, 14, 0, tzinfo=UTC)
PLANNED = PlannedBurn(6.5, 200.0)


def outlook(
    mile: float, *, further: float = 0.0, mpg: float = 6.5, spread: float = 0.08, ahead: float = 450.0
) -> Outlook:
    """The outlook of a truck that began with what leaves it 16 % at its purchase, and drove so many miles further."""
    begins = 16 + PLANNED.percent_per_mile * ahead
    return outlook_by_miles(
        DrivenWay(NOW, mile, mile + further, begins),
        planned=PLANNED,
        mpg=mpg,
        spread_share=spread,
        ahead=Ahead(ahead, 0.0, 16.0),
        floor_percent=12.0,
    )


@given(st.floats(0, 1), st.floats(10, 1_000), st.floats(0, 0.3))
def test_a_truck_arrives_as_planned_with_the_miles_and_the_mileage_of_its_plan(
    share: float, ahead: float, spread: float
) -> None:
    found = outlook(share * ahead, ahead=ahead, spread=spread)
    assert found.arrival_percent == pytest.approx(16)
    assert not found.falls_short


@pytest.mark.parametrize(
    ("further", "mpg", "short"), [(50, 6.5, False), (120, 6.5, True), (0, 6.2, False), (0, 5.3, True)]
)
def test_miles_that_were_not_planned_and_another_mileage_are_counted(further: float, mpg: float, short: bool) -> None:
    assert outlook(300, further=further, mpg=mpg).falls_short == short


def test_a_mileage_of_which_little_is_known_is_told_later() -> None:
    assert outlook(300, mpg=5.7, spread=0.01).falls_short
    assert not outlook(300, mpg=5.7, spread=0.15).falls_short


def north(miles: float, east_miles: float = 0.0) -> Point:
    return Point(miles / MILES_PER_DEGREE, east_miles / MILES_PER_DEGREE)


def test_the_miles_of_a_way_are_those_of_the_road_where_it_is_on_it() -> None:
    """The road winds: it is longer than the straight lines."""
    assert miles_driven([north(0), north(10), north(20)], [0.0, 12.0, 24.0]) == 24
    assert miles_driven([north(0)], [0.0]) == 0


def test_a_way_around_is_counted_by_its_straight_lines() -> None:
    places = [north(0), north(10), north(10, 30), north(20, 30), north(20), north(30)]
    assert miles_driven(places, [0.0, 12.0, None, None, 24.0, 36.0]) == pytest.approx(12 + 70 + 12, abs=0.1)


def test_a_short_way_off_the_road_is_not_counted_twice() -> None:
    places = [north(0), north(10), north(15, 12), north(20), north(30)]
    assert miles_driven(places, [0.0, 10.0, None, 60.0, 70.0]) == pytest.approx(10 + 26 + 10, abs=0.1)


def test_a_truck_that_turned_back_drove_the_same_miles_again() -> None:
    places = [north(0), north(40), north(0), north(40)]
    assert miles_driven(places, [0.0, 40.0, 0.0, 40.0]) == pytest.approx(120, abs=0.1)


@pytest.mark.parametrize(("miles_left", "hours"), [(650, 5), (100, 1), (-5, 1)])
def test_looks_are_rare(miles_left: float, hours: int) -> None:
    look = next_look_by_time(NOW, miles_left=miles_left)
    assert look.since == look.by == NOW + timedelta(hours=hours)
