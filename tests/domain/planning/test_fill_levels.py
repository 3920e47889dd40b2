"""The level that a driver fills to: the truck's gauge after the purchase."""

import math
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.burn.figures import figure_of
from domain.planning.fuel_on_board import FuelOnBoard
from domain.planning.gauges import Gauge, Reading
from domain.planning.trips import drive_trip
from domain.roads import Point
from tests.domain.planning.plans import NOW, feasible, inputs, meridian, priced

ROAD = meridian(600.0)


def test_the_level_is_that_of_the_tank_after_the_purchase() -> None:
    """The tank of 200 gal starts half full. At mile 300, 40 gal are left, and 60 are bought."""
    (stop,) = feasible(inputs(ROAD, priced(300, 3.5), end_fuel_percent=20.0)).stops

    assert (stop.gallons_to_fill, stop.fill_to_percent) == (60.0, 50)


def test_a_full_tank_is_95_percent() -> None:
    (stop,) = feasible(inputs(meridian(1099.0), priced(300, 3.5), end_fuel_percent=15.0)).stops

    assert stop.fill_to_percent == 95


@given(
    st.floats(100, 300).map(lambda gallons: round(gallons, 1)),
    st.floats(4, 9).map(lambda mpg: round(mpg, 2)),
    st.floats(30, 90).map(lambda percent: round(percent, 1)),
)
def test_who_fuels_to_the_level_buys_no_less_than_planned_and_never_too_much(
    capacity: float, mpg: float, percent: float
) -> None:
    stations = [priced(mile, 3 + mile % 7 / 10) for mile in range(20, 600, 20)]
    given = replace(inputs(ROAD, *stations, fuel_percent=percent), capacity_gallons=capacity, burn=figure_of(mpg))
    plan = feasible(given)

    for stop, arriving in zip(plan.stops, drive_trip(plan.trip, plan.purchases), strict=False):
        assert stop.fill_to_percent is not None
        level_gallons = capacity * stop.fill_to_percent / 100
        assert arriving + stop.gallons_to_fill - 1e-6 <= level_gallons <= given.usable_gallons + 1e-6
        assert level_gallons - arriving - stop.gallons_to_fill < capacity / 100


@pytest.mark.parametrize("changes", [{"fuel_percent": None}, {"gauge_works": False}])
def test_gallons_alone_count_without_a_gauge_that_works(changes: dict[str, object]) -> None:
    plan = feasible(replace(inputs(ROAD, priced(100, 3.5)), **changes))  # type: ignore[arg-type]

    assert [stop.fill_to_percent for stop in plan.stops] == [None]
    assert "fillToPercent" not in plan.document()["stops"][0]
    assert not any("fill_to_percent" in one for one in plan.explanation()["candidates"])


def test_a_gauge_that_begins_beyond_a_full_tank_shows_as_much_more_after_the_purchase() -> None:
    """The plan begins with the 95 % that a tank takes; the gauge said 99 %."""
    honest, beyond = (feasible(inputs(meridian(900.0), priced(400, 3.5), fuel_percent=level)) for level in (95, 99))
    assert honest.stops[0].gallons_to_fill == beyond.stops[0].gallons_to_fill

    assert honest.stops[0].fill_to_percent is not None
    assert beyond.stops[0].fill_to_percent == honest.stops[0].fill_to_percent + 4
    (full,) = feasible(inputs(meridian(1199.0), priced(400, 3.5), fuel_percent=99.0, end_fuel_percent=15.0)).stops
    assert full.fill_to_percent == 95


def board(*, off_percent: float = 0.0, doubted: Reading | None = None) -> FuelOnBoard:
    reading = Reading(60.0, NOW, Point(41, -88))
    gauge = Gauge(60.0, NOW, 60.0 - off_percent, burned_percent=0.0, miles=0.0, known_at=NOW - timedelta(hours=1))
    return FuelOnBoard(gauge, reading, doubted=doubted)


def test_a_gauge_works_while_it_is_believed_and_nothing_contradicts_it() -> None:
    assert board().gauge_works
    assert board(off_percent=9.0).gauge_works
    assert not board(off_percent=30.0).gauge_works
    assert not board(doubted=Reading(5.0, NOW, Point(41, -88))).gauge_works


def test_the_level_is_in_whole_percent_of_the_rated_capacity() -> None:
    given = inputs(ROAD, priced(300, 3.5))

    assert [given.fill_to_percent(gallons) for gallons in (100.0, 100.1, 101.9, 102.0, 190.0)] == [50, 51, 51, 51, 95]
    assert given.fill_to_percent(math.nextafter(100.0, 101.0)) == 50
