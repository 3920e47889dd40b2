"""The cost with a stop at each candidate is the cost of a plan with that stop, computed for each candidate from
scratch. Nothing that the optimizer drops would have been cheaper.
"""

import math
import random
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.planning.each_stop import costs_with_each_stop, ways_ahead
from domain.planning.least_cost import CostFunction, CostSegment, after_stops, at_least, cheaper, stations_of
from domain.planning.optimizer import solve
from domain.planning.trips import GALLON_TOLERANCE, Candidate, Infeasible, Solution, Trip
from tests.benchmarks.optimizer import dense_trip, truck_trip
from tests.domain.planning.oracle import milp_objective
from tests.domain.planning.trips import VARIANTS, coarse_trips, random_trip, trip, with_each
from tests.repeatable import examples

pytestmark = pytest.mark.slow


def cost_with_stop(trip: Trip, must_stop_at: int | None) -> float | None:
    """The slow way: the whole trip once more, on which the truck must stop at the candidate. No level that can be
    reached is dropped.
    """
    start: CostFunction = [(trip.start_usable_gallons, trip.start_usable_gallons, CostSegment(0.0, 0.0))]
    layers: list[CostFunction] = [[]] * ((trip.max_stops or 0) + 1)
    for index, station in enumerate(stations_of(trip)):
        start = at_least(start, station.lowest_passing + trip.margin_gallons)
        layers = [at_least(V, station.lowest_passing) for V in layers]
        begins = start if trip.may_begin_at(index) else []
        stopped = after_stops(layers, station, trip.stop_cost, counted=trip.max_stops is not None, start=begins)
        if index == must_stop_at:
            start, layers = [], stopped
        else:
            layers = [*map(cheaper, layers, stopped)]
    burned, worth = trip.gallons_to(trip.distance_miles), trip.leftover_value_per_gallon
    wanted = max(trip.reserve_gallons, trip.end_gallons) - GALLON_TOLERANCE + burned
    without_stop = max(trip.lowest_gallons(0), trip.end_gallons) - GALLON_TOLERANCE + burned
    start = start if trip.first_stops is None else []
    costs = [
        line.base + line.slope * level - worth * (level - burned - trip.end_gallons)
        for V in [at_least(start, without_stop), *(at_least(V, wanted) for V in layers)]
        for low, high, line in V
        for level in (low, high)
    ]
    return min(costs, default=None)


def agree_on_the_least_cost(trip: Trip) -> bool:
    """Check that the optimizer and the slow way agree. Returns whether there is a plan."""
    solution, slow = solve(trip), cost_with_stop(trip, None)
    assert isinstance(solution, Solution) == (slow is not None)
    if isinstance(solution, Solution):
        assert solution.objective == pytest.approx(slow, abs=1e-6)
    return slow is not None


@settings(max_examples=examples(150), deadline=None, derandomize=True)
@given(coarse_trips())
def test_dropped_levels_would_not_have_been_cheaper(trip: Trip) -> None:
    agree_on_the_least_cost(trip)


@pytest.mark.parametrize("prices", ["as they are", "two prices", "one price", "rising", "falling"])
def test_dropped_levels_in_a_dense_network_would_not_have_been_cheaper(prices: str) -> None:
    """The smallest purchase, the cost of a stop, the worth of fuel left and the limit on stops vary."""
    rng = random.Random(prices)
    feasible = 0
    for seed in range(40):
        trip = dense_trip(80, seed)

        def price(one: Candidate, end: float = trip.distance_miles) -> float:
            share = one.mile / end
            same = {"two prices": rng.choice([3.999, 4.199]), "one price": 3.999, "rising": 3 + share}
            return same.get(prices, 4 - share if prices == "falling" else one.price)

        trip = replace(
            trip,
            candidates=tuple(one._replace(price=price(one)) for one in trip.candidates),
            start_gallons=rng.choice([trip.start_gallons, rng.uniform(30, 190)]),
            end_gallons=rng.choice([0.0, 50.0, 180.0]),
            min_purchase_gallons=rng.choice([0.0, 5.0, 30.0, 100.0]),
            stop_cost=rng.choice([0.0, 20.0]),
            leftover_value_per_gallon=rng.choice([0.0, 0.0, 3.9, 4.3]),
            max_stops=rng.choice([None, None, 1, 2]),
        )
        feasible += agree_on_the_least_cost(trip)
    assert feasible > 20


def agree_on_each_stop(trip: Trip) -> int:
    """Check the cost with each stop against the slow way. Returns how many candidates a plan can stop at."""
    found = costs_with_each_stop(trip)
    expected = [cost_with_stop(trip, index) for index in range(len(trip.candidates))]
    assert [cost is None for cost in found] == [cost is None for cost in expected]
    possible = [pair for pair in zip(found, expected, strict=True) if pair[0] is not None]
    assert all(cost == pytest.approx(slow, abs=1e-6) for cost, slow in possible)
    return len(possible)


@pytest.mark.parametrize("block", range(4))
def test_random_trips_agree_with_the_slow_way(block: int) -> None:
    possible = sum(agree_on_each_stop(random_trip(seed)) for seed in range(5000 + block * 60, 5060 + block * 60))
    assert possible > 100


@pytest.mark.parametrize("variant", VARIANTS)
def test_trips_with_and_without_each_limit_agree_with_the_slow_way(variant: str) -> None:
    for seed in range(6000, 6020):
        agree_on_each_stop(VARIANTS[variant](random_trip(seed)))


@pytest.mark.parametrize("make", [truck_trip, dense_trip])
def test_trips_of_trucks_agree_with_the_slow_way(make: Callable[[int, int], Trip]) -> None:
    assert sum(agree_on_each_stop(make(60, seed)) for seed in range(6)) > 200


def test_random_trips_agree_with_the_milp() -> None:
    possible = 0
    for seed in range(2000, 2150):
        trip = random_trip(seed)
        if trip.candidates:
            index = seed % len(trip.candidates)
            cost, expected = costs_with_each_stop(trip)[index], milp_objective(trip, index)
            assert (cost is None) == (expected is None)
            if cost is not None:
                possible += 1
                assert cost == pytest.approx(expected, abs=1e-6)
    assert 30 < possible < 120


@settings(max_examples=examples(75), deadline=None, derandomize=True)
@given(coarse_trips())
def test_a_stop_adds_no_cost_where_the_plan_stops_anyway(trip: Trip) -> None:
    """A stop costs the same where the plan has one, and no less anywhere else. Without a plan no stop has a cost."""
    agree_on_each_stop(trip)
    solution, costs = solve(trip), costs_with_each_stop(trip)
    if isinstance(solution, Infeasible):
        assert costs == [None] * len(trip.candidates)
    else:
        assert all(cost >= solution.objective - 1e-6 for cost in costs if cost is not None)
        for index, _ in solution.purchases:
            assert costs[index] == pytest.approx(solution.objective, abs=1e-6)


@settings(max_examples=examples(30), deadline=None, derandomize=True)
@given(coarse_trips(), st.data())
def test_the_best_plan_stops_at_a_candidate_or_is_the_best_without_it(trip: Trip, data: st.DataObject) -> None:
    """The best plan either stops at a candidate or would be the best without it."""
    if not trip.candidates:
        return
    index = data.draw(st.integers(0, len(trip.candidates) - 1))
    without = solve(replace(trip, candidates=trip.candidates[:index] + trip.candidates[index + 1 :]))
    with_stop = costs_with_each_stop(trip)[index]
    costs = [with_stop if with_stop is not None else math.inf]
    costs += [without.objective if isinstance(without, Solution) else math.inf]
    solution = solve(trip)
    assert min(costs) == pytest.approx(solution.objective if isinstance(solution, Solution) else math.inf, abs=1e-6)


def costs(trip: Trip) -> list[float | None]:
    return [None if cost is None else round(cost, 6) for cost in costs_with_each_stop(trip)]


def test_a_plan_with_a_stop_buys_at_that_station() -> None:
    two = trip((100, 3.5), (250, 3.0), min_purchase_gallons=30.0)
    assert costs(two) == [50 * 3.5, 50 * 3.0]
    assert costs(replace(two, min_purchase_gallons=5.0)) == [5 * 3.5 + 45 * 3.0, 50 * 3.0]


def test_a_stop_counts_toward_the_limit_on_stops() -> None:
    far_apart = trip((50, 2.0), (100, 3.5), (300, 3.0), min_purchase_gallons=5.0)
    assert costs(far_apart)[1] == 45 * 2.0 + 5 * 3.5
    assert costs(replace(far_apart, max_stops=1)) == [50 * 2.0, 50 * 3.5, None]
    assert costs(replace(far_apart, max_stops=0)) == [None, None, None]


def test_a_station_that_fits_no_plan_has_no_cost() -> None:
    assert costs(trip((10, 3.0), (250, 3.0), min_purchase_gallons=50.0)) == [None, 150.0]


def test_past_a_thousand_stations_of_one_price_the_functions_of_the_way_ahead_have_few_pieces() -> None:
    """The smallest purchase costs the same at each station."""
    dense = with_each(dense_trip(1_000, 0), lambda one: one._replace(price=3.999))
    assert max(len(T) for (T,) in ways_ahead(dense, None)) < 40
