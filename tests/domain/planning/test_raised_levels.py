"""The plan that keeps the next fuel stop with a higher level, or has an earlier one that keeps the reserve."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.burn.figures import Burn
from domain.planning.fuel_plan import ComputedPlan
from domain.planning.plan_inputs import PlanInputs
from domain.planning.raised_levels import RESERVE_DOLLARS, begins_before, plan_for_level
from domain.roads import Point
from tests.domain.planning.plans import feasible, inputs, meridian, priced

ROAD = meridian(800.0)
NEXT_MILE = 200.0


def given_inputs(fuel_percent: float, earlier_price: float) -> PlanInputs:
    """A truck with the burn that its levels have shown, a dear station at mile 100 and a cheap one at mile 200."""
    stations = priced(100, earlier_price), priced(NEXT_MILE, 3.0)
    burn = Burn(6.0, "measured", measured_spread_percent=3.0)
    given = inputs(ROAD, *stations, fuel_percent=fuel_percent, end_fuel_percent=15.0)
    return replace(given, burn=burn, further_offers=given.offers)


def next_stop(given: PlanInputs) -> Point:
    station = given.offers[1].station
    return Point(station.latitude, station.longitude)


def made(given: PlanInputs) -> ComputedPlan:
    plan = plan_for_level(given, next_stop(given))
    assert isinstance(plan, ComputedPlan)
    return plan


def miles(plan: ComputedPlan) -> list[float]:
    return [round(stop.miles_from_origin) for stop in plan.stops]


def test_a_truck_that_keeps_its_reserve_up_to_the_next_stop_gets_a_higher_level_there() -> None:
    given = given_inputs(50.0, 2.9)
    plan = made(given)
    assert miles(plan) == [NEXT_MILE]
    assert not begins_before(plan, next_stop(given))
    (usual,) = feasible(replace(given, offers=given.offers[1:])).stops
    assert plan.stops[0].gallons_to_fill > usual.gallons_to_fill


def test_a_truck_that_would_use_its_reserve_gets_an_earlier_stop_that_is_cheap_enough() -> None:
    given = given_inputs(30.0, 3.1)
    plan = made(given)
    assert miles(plan)[0] == 100
    assert not plan.is_low_on_fuel
    assert begins_before(plan, next_stop(given))


def test_an_earlier_stop_that_costs_too_much_is_not_taken() -> None:
    plan = made(given_inputs(30.0, 4.5))
    assert miles(plan)[0] == NEXT_MILE
    assert plan.is_low_on_fuel


def test_a_stop_where_no_earlier_one_keeps_the_reserve_stays() -> None:
    assert miles(made(given_inputs(20.0, 3.0)))[0] == NEXT_MILE


@pytest.mark.slow
@settings(deadline=None, max_examples=25)
@given(st.floats(20, 60), st.floats(2.5, 5.0))
def test_keeping_the_reserve_costs_no_more_than_its_limit(fuel_percent: float, earlier_price: float) -> None:
    given = given_inputs(round(fuel_percent, 1), round(earlier_price, 3))
    stop, plan = next_stop(given), made(given)
    kept = plan_for_level(replace(given, offers=given.offers[1:], further_offers=given.offers[1:]), stop)
    assert isinstance(kept, ComputedPlan)
    assert plan.objective <= kept.objective + RESERVE_DOLLARS
    assert begins_before(plan, stop) == (miles(plan) != miles(kept))
    assert begins_before(plan, stop) <= kept.is_low_on_fuel
