"""Allowed inputs that make little sense have a plan that can be driven, or a reason why there is none."""

import math
import random
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.accounts.policy import PlanPolicy
from domain.burn.figures import figure_of
from domain.lifecycle import Objective
from domain.planning.fuel_plan import ComputedPlan, NoPlan, compute_plan
from domain.planning.plan_inputs import PlanInputs
from domain.planning.reasons import trip_of, with_reasons
from domain.planning.relaxation import FURTHEST_DETOUR_MILES
from domain.planning.trips import Purchase, drive_trip
from domain.roads import Leg, Road
from domain.stations.offers import Offer
from tests.domain.planning.plans import NOW, feasible, inputs, meridian, offers, priced
from tests.repeatable import examples
from tests.service import one_below


def driven(plan: ComputedPlan | NoPlan) -> ComputedPlan | NoPlan:
    """Drive the plan from its explanation alone, or check that it says why there is none. Returns the plan."""
    explanation = with_reasons(plan.explanation())
    if isinstance(plan, NoPlan):
        assert plan.infeasible.reason
        assert 0 <= plan.infeasible.from_mile <= plan.infeasible.to_mile <= plan.trip.distance_miles
        assert {one["why"] for one in explanation["candidates"]} <= {"no plan"}
        return plan
    bought = [Purchase(at, one["gallons"]) for at, one in enumerate(explanation["candidates"]) if one["gallons"]]
    drive_trip(trip_of(explanation), bought)
    document = plan.document()
    numbers = [document["totalGallons"], document["totalCost"], document["averagePricePerGallon"]]
    assert all(math.isfinite(number) and number >= 0 for number in numbers)
    return plan


def beside(road: Road, count: int, *, detour_miles: float = 5.0, prices: tuple[float, ...] = ()) -> list[Offer]:
    """Offers all along a road, without stations to look up."""
    rng = random.Random(count)
    station = priced(0, 1.0).station
    return [
        Offer(
            station._replace(station_id=f"S{number}"),
            mile,
            rng.uniform(0, detour_miles),
            rng.choice(prices) if prices else rng.uniform(3, 4.6),
        )
        for number, mile in enumerate(sorted(rng.uniform(0, road.distance_miles) for _ in range(count)))
    ]


def processor_seconds(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


@pytest.mark.slow
@pytest.mark.parametrize(
    ("miles", "prices"), [(60.0, ()), (60.0, (3.999,)), (2000.0, (3.999,)), (2000.0, (3.899, 3.999, 4.199))]
)
def test_a_corridor_of_five_thousand_candidates_takes_bounded_time(miles: float, prices: tuple[float, ...]) -> None:
    """A plan takes tens of milliseconds, its reasons some seconds. The bounds have room for a busy machine. Stations of
    one price take longest: the plan on a long road, the reasons on a short one."""
    road = meridian(miles)
    given = replace(inputs(road, fuel_percent=22.0), offers=beside(road, 5_000, prices=prices))
    assert one_below(2, lambda: processor_seconds(lambda: feasible(given)))
    plan = feasible(given)
    assert one_below(60, lambda: processor_seconds(lambda: driven(plan)))


@pytest.mark.slow
def test_a_truck_low_on_fuel_among_five_thousand_stations_has_a_plan_in_bounded_time() -> None:
    road = meridian(60.0)
    given = replace(
        inputs(road, fuel_percent=6.0),
        offers=beside(road, 1_000),
        further_offers=beside(road, 5_000, detour_miles=FURTHEST_DETOUR_MILES),
    )
    assert feasible(given).is_low_on_fuel
    assert one_below(20, lambda: processor_seconds(lambda: feasible(given)))


def test_the_first_of_the_cheapest_stations_at_one_point_is_chosen() -> None:
    """Five hundred stations are at one point."""
    road = meridian(600.0)
    station = priced(300, 1.0, east_miles=2.0).station
    given = [Offer(station._replace(station_id=f"S{number}"), 300.0, 2.0, 3.5 + number % 7) for number in range(500)]
    plan = feasible(replace(inputs(road), offers=given))
    assert [stop.station.station_id for stop in plan.stops] == ["S0"]
    driven(plan)


def test_a_station_passed_twice_at_one_mile_is_bought_from_once() -> None:
    twice = [Offer(priced(300, 3.5).station, 300.0, 0.0, 3.5)] * 2
    assert len(feasible(replace(inputs(meridian(600.0)), offers=twice)).stops) == 1


def test_a_tax_adjusted_plan_needs_no_state_no_address_and_no_tax_rate() -> None:
    """The objective is the price less tax, and the station has none of these."""
    nowhere = priced(300, 3.5, state=None, city=None, address=None)
    plan = feasible(inputs(meridian(600.0), nowhere, objective=Objective.TAX_ADJUSTED))
    assert plan.document()["stops"][0]["address"] is None
    assert with_reasons(plan.explanation())["candidates"][0]["adjusted_price"] == 3.5


def test_a_tax_as_high_as_the_price_is_ignored() -> None:
    taxed = [priced(290, 3.6, tax=9.0), priced(300, 3.5, tax=0.2)]
    plan = feasible(inputs(meridian(600.0), *taxed, objective=Objective.TAX_ADJUSTED))
    assert [stop.price_per_gallon for stop in plan.stops] == [3.5]


def test_a_reserve_above_the_usable_tank_is_relaxed() -> None:
    plan = compute_plan(inputs(meridian(100.0), priced(50, 3.0), reserve_percent=100.0, fuel_percent=100.0))
    assert isinstance(driven(plan), NoPlan)
    lower = replace(plan.inputs, further_offers=())
    assert feasible(lower).explanation()["relaxed"][-1]["limit"] in ("reserve_gallons", "later_reserve_gallons")


@pytest.mark.parametrize(
    ("fuel_percent", "policy"),
    [
        (17.0, {"trips_below_reserve_percent": 5.0}),
        (40.0, {"trips_below_reserve_percent": 0.1}),
        (60.0, {"leftover_value_per_gallon": 6.0}),
        (95.0, {"leftover_value_per_gallon": 6.0}),
    ],
)
def test_no_purchase_is_of_zero_gallons(fuel_percent: float, policy: dict[str, Any]) -> None:
    """A floor makes a stop worth while, or a stop earns money with the fuel left, and the smallest purchase is 0."""
    road = meridian(10.0, 120.0)
    stations = [priced(mile, 3.0) for mile in (0.0, 10.0, 120.0)]
    free: dict[str, Any] = {"min_purchase_gallons": 0.0, "stop_cost": 0.0, "reserve_percent": 10.0}
    given = inputs(road, *stations, fuel_percent=fuel_percent, end_fuel_percent=0.0, **free, **policy)
    plan = driven(compute_plan(given))
    assert isinstance(plan, ComputedPlan)
    assert all(stop.gallons_to_fill >= 0.1 for stop in plan.stops)


@st.composite
def allowed_inputs(draw: st.DrawFn) -> PlanInputs:
    """Inputs that pass the checks of commands and bodies."""

    def number(low: float, high: float) -> st.SearchStrategy[float]:
        return st.floats(low, high, allow_nan=False) | st.sampled_from([low, high])

    percent = number(0, 100)
    miles = draw(st.lists(number(0, 3000), min_size=1, max_size=3).map(sorted))
    road = meridian(*miles)
    stations = [
        priced(mile, price, east_miles=east, tax=tax)
        for mile, price, east, tax in draw(
            st.lists(
                st.tuples(number(0, miles[-1]), number(0.0001, 99.99), number(-30, 30), st.none() | number(0, 9.99)),
                max_size=8,
            )
        )
    ]
    policy = PlanPolicy(
        trips_below_reserve_percent=draw(st.just(100.0) | number(0.1, 100)),
        margin_dollars=draw(number(0, 100)),
        reserve_percent=draw(percent),
        end_fuel_percent=draw(percent),
        assumed_fuel_percent=draw(percent),
        min_purchase_gallons=draw(number(0, 1000)),
        stop_cost=draw(number(0, 10_000)),
        max_detour_miles=draw(number(0, 100)),
        max_stops=draw(st.none() | st.integers(0, 100)),
        leftover_value_per_gallon=draw(number(0, 99.99)),
        objective=draw(st.sampled_from(Objective)),
    )
    return PlanInputs(
        road=road,
        fuel_percent=draw(st.none() | number(0, 150)),
        policy=policy,
        offers=offers(road, stations, policy.max_detour_miles),
        further_offers=offers(road, stations, max(policy.max_detour_miles, FURTHEST_DETOUR_MILES)),
        departure=NOW,
        capacity_gallons=draw(st.none() | number(0.01, 1000)),
        burn=figure_of(draw(st.none() | number(0.001, 50))),
    )


@pytest.mark.slow
@settings(max_examples=examples(125), deadline=None, derandomize=True)
@given(allowed_inputs())
def test_every_allowed_input_gives_a_plan_or_a_reason(given: PlanInputs) -> None:
    driven(compute_plan(given))


def test_a_truck_low_on_fuel_on_a_road_of_one_point_has_a_plan_without_stops() -> None:
    place = np.array([(30.0, -100.0), (30.0, -100.0)])
    road = Road.of([Leg(place, np.array([0.0, 0.0]), 0.0, "test")])
    changes: dict[str, Any] = {"fuel_percent": 5.0, "end_fuel_percent": 0.0}
    assert isinstance(driven(compute_plan(inputs(road, **changes))), NoPlan)
    plan = feasible(replace(inputs(road, **changes), further_offers=()))
    assert plan.is_low_on_fuel
    assert plan.stops == ()
