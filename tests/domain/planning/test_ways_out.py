"""Behind each planned fuel stop another station is in reach, above the hard floor, where there is one at all."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from domain.planning.directions import directions_of
from domain.planning.fuel_plan import ComputedPlan, compute_plan
from domain.planning.plan_inputs import PlanInputs
from domain.planning.reasons import CHOSEN, with_reasons
from domain.planning.trips import Infeasible, Solution, drive_trip
from domain.planning.ways_out import HardFloor, WayOut, floors_for_ways_out, highest_kept, way_out_in_words
from tests.domain.planning.plans import NO_HARD_FLOOR, feasible, inputs, meridian, priced
from tests.repeatable import examples

LONG = 1500.0


def burned(plan: ComputedPlan, stop_index: int, way_out: WayOut) -> float:
    """The gallons from a fuel stop to its way out, as a reader of the plan counts them."""
    bought = plan.trip.candidates[plan.purchases[stop_index].candidate_index]
    at_way_out = next(
        (one for one in plan.trip.candidates if way_out.station and one.station_id == way_out.station.station_id), None
    )
    into = at_way_out.detour_miles_in if at_way_out is not None else 0.0
    return (bought.detour_miles_out + way_out.mile - bought.mile + into) / plan.trip.mpg


@st.composite
def long_trips(draw: st.DrawFn) -> PlanInputs:
    """A trip of 1,500 miles with stations near each other and far apart, for companies with and without a reserve."""
    gaps = draw(st.lists(st.sampled_from([0.3, 5, 40, 90, 200, 350, 500]), min_size=6, max_size=14))
    miles = [sum(gaps[: number + 1]) for number in range(len(gaps))]
    stations = [
        priced(
            mile,
            draw(st.integers(30, 45)) / 10,
            east_miles=draw(st.sampled_from([0.0, 0.5, 4.0])),
            station_id=f"S{number}",
        )
        for number, mile in enumerate(miles)
        if mile < LONG
    ]
    policy = {
        "reserve_percent": draw(st.sampled_from([0.0, 5.0, 15.0])),
        "end_fuel_percent": draw(st.sampled_from([0.0, 25.0])),
        "min_purchase_gallons": draw(st.sampled_from([5.0, 30.0])),
    }
    return inputs(meridian(LONG), *stations, fuel_percent=draw(st.sampled_from([20.0, 50.0, 95.0])), **policy)


@given(long_trips())
@hypothesis_settings(max_examples=examples(30), deadline=None)
def test_the_way_out_that_is_named_is_in_reach_above_the_hard_floor(given: PlanInputs) -> None:
    plan = compute_plan(given)
    if not isinstance(plan, ComputedPlan):
        return
    for index, (stop, arriving) in enumerate(zip(plan.stops, drive_trip(plan.trip, plan.purchases), strict=False)):
        bought_at = plan.purchases[index].candidate_index
        candidate = plan.trip.candidates[bought_at]
        if stop.way_out is None:
            floor = floors_for_ways_out(plan.trip, plan.inputs.offers, given.hard_floor_gallons)[bought_at]
            assert floor == 0 or floor > max(candidate.floor_gallons, plan.trip.reserve_gallons)
            continue
        left = arriving - burned(plan, index, stop.way_out)
        assert left >= given.hard_floor_gallons - 1e-6
        assert stop.way_out.mile >= stop.miles_from_origin
        assert stop.way_out.station is None or stop.way_out.station.station_id != stop.station.station_id


@given(long_trips())
@hypothesis_settings(max_examples=examples(15), deadline=None)
def test_what_the_way_out_costs_is_never_a_plan(given: PlanInputs) -> None:
    """A trip that can be planned without ways out can be planned with them, and costs no less."""
    with_ways_out = compute_plan(given)
    without = compute_plan(replace(given, hard_floor=NO_HARD_FLOOR))
    assert isinstance(with_ways_out, ComputedPlan) == isinstance(without, ComputedPlan)
    if isinstance(with_ways_out, ComputedPlan) and isinstance(without, ComputedPlan):
        assert with_ways_out.objective >= without.objective - 0.51  # purchases are rounded


def test_a_truck_arrives_with_the_fuel_to_go_on_where_the_reserve_does_not_cover_it() -> None:
    """Without a reserve the truck would arrive nearly empty at the cheap station, 150 miles before the next one."""
    stations = priced(200, 3.6), priced(480, 3.0), priced(630, 3.9)
    usual = inputs(meridian(1000.0), *stations, reserve_percent=0.0, end_fuel_percent=0.0)
    first, cheap = feasible(usual).stops[:2]
    assert (first.miles_from_origin, cheap.miles_from_origin) == (200.0, 480.0)
    assert cheap.arrival_fuel_percent == 17, "5 gal are left after 30 gal for the 150 miles"
    assert cheap.way_out == WayOut(stations[2].station, 630.0)
    careless = feasible(replace(usual, hard_floor=NO_HARD_FLOOR))
    assert [stop.arrival_fuel_percent for stop in careless.stops if stop.miles_from_origin == 480.0] < [17]


@pytest.mark.parametrize(("gap", "is_named"), [(700.0, True), (780.0, False)])
def test_a_station_further_away_than_a_full_tank_is_no_way_out(gap: float, is_named: bool) -> None:
    """The truck arrives with 150 gal and buys 30 at least, so it cannot arrive with more than 160."""
    stations = priced(200, 3.0), priced(200 + gap, 3.0)
    plan = feasible(inputs(meridian(250 + gap), *stations, fuel_percent=95.0, end_fuel_percent=0.0))
    assert (plan.stops[0].way_out is not None) == is_named
    assert plan.relaxed == []


def test_one_place_with_two_ids_and_a_second_pass_are_no_ways_out() -> None:
    """The twin stands 100 yards away. The road passes nothing else, so the end of the plan is the way out."""
    twin = priced(250.05, 3.0, station_id="TWIN")
    plan = feasible(inputs(meridian(500.0), priced(250, 3.0), twin))
    (stop,) = plan.stops
    assert stop.way_out is None or stop.way_out.station is None


def test_the_end_of_the_plan_is_a_way_out() -> None:
    (stop,) = feasible(inputs(meridian(320.0), priced(250, 3.0), fuel_percent=55.0, end_fuel_percent=40.0)).stops
    assert stop.way_out == WayOut(None, 320.0)


def test_the_driver_and_the_dispatcher_read_it() -> None:
    plan = feasible(inputs(meridian(500.0), priced(250, 3.0), priced(270, 4.0, name="Love's 305")))
    assert [one.notes for one in directions_of(plan)] == [("If closed: Love's 305, mile 270",)]
    full = with_reasons(plan.explanation())
    (chosen,) = [one for one in full["candidates"] if one["why"] == CHOSEN]
    assert way_out_in_words(chosen["way_out"]) == "if closed: Love's 305, mile 270"
    assert chosen["way_out"] == {"station_id": "S270", "name": "Love's 305", "mile": 270.0}
    assert full["inputs"]["hard_floor_gallons"] == 5.0
    assert way_out_in_words(None) == "if closed: no other station is in reach, ask dispatch"


@pytest.mark.parametrize(("percent", "miles", "gallons"), [(2.0, 25.0, 5.0), (10.0, 25.0, 20.0), (0.0, 0.0, 0.0)])
def test_the_greater_of_percent_and_miles_is_the_hard_floor(percent: float, miles: float, gallons: float) -> None:
    assert HardFloor(percent, miles).gallons(200.0, 5.0) == gallons


@given(st.lists(st.integers(1, 9), max_size=6), st.integers(-1, 9))
def test_as_few_floors_as_possible_are_dropped(floors: Sequence[int], most: int) -> None:
    """A plan is feasible with floors up to a height."""
    if max(floors, default=0) <= most:
        return

    def attempt(height: float) -> Solution | Infeasible:
        return Solution((), 0.0) if height <= most else Infeasible(0.0, 0.0, "too high")

    assert highest_kept([*map(float, floors)], attempt) == max(one for one in (0, *floors) if one <= max(most, 0))
