"""A truck that can reach fuel gets a plan: limits are relaxed as little as needed, in the order of `PlanLimits`."""

import math
import random
from dataclasses import replace
from typing import Any

import pytest

from domain.planning.floors import with_floors
from domain.planning.fuel_plan import ComputedPlan, NoPlan, compute_plan
from domain.planning.plan_inputs import PlanInputs
from domain.planning.relaxation import (
    FURTHEST_DETOUR_MILES,
    RELAXATION_STEP,
    SMALLEST_PURCHASE_GALLONS,
    PlanLimits,
    least_relaxation,
)
from domain.planning.rounding import solve_rounded
from domain.planning.trips import Candidate, Infeasible, Solution, Trip, drive_trip
from tests.domain.planning.oracle import DOLLARS_LOST_TO_ROUNDING, milp_objective
from tests.domain.planning.plans import Priced, drive_shown_plan, feasible, inputs, meridian, offers, priced
from tests.domain.planning.trips import trip as given_trip
from tests.domain.planning.trips import with_random_floors


def may_relax(given: PlanInputs, *stations: Priced) -> PlanInputs:
    return replace(given, further_offers=offers(given.road, stations, FURTHEST_DETOUR_MILES))


def low(miles: float, *stations: Priced, **changes: Any) -> PlanInputs:
    """A truck of 200 gal and 5 mpg, as in `inputs`, whose limits may be relaxed."""
    given = inputs(meridian(miles), *stations, **changes)
    return may_relax(given, *stations)


def relaxed(plan: ComputedPlan | NoPlan) -> dict[str, tuple[float | None, float | None]]:
    return {one["limit"]: (one["policy"], one["used"]) for one in plan.explanation()["relaxed"]}


# --- One limit at a time ---------------------------------------------------------------------------------------


def test_no_limit_is_relaxed_when_a_plan_can_keep_the_policy() -> None:
    given = inputs(meridian(600.0), priced(300, 3.5))
    plan = feasible(may_relax(given, priced(300, 3.5), priced(200, 1.0, east_miles=20.0)))
    assert relaxed(plan) == {}
    assert not plan.is_low_on_fuel
    assert plan.document() == feasible(given).document()


def test_a_truck_below_its_reserve_uses_it_no_further_than_to_the_first_station() -> None:
    """The truck has 20 gal, and the reserve is 30 gal. After 10 miles 18 are left, after 40 miles 12."""
    plan = feasible(low(600.0, priced(10, 3.9), priced(40, 3.5), fuel_percent=10.0))
    assert relaxed(plan) == {"reserve_gallons": (30.0, 18.0)}
    assert plan.is_low_on_fuel
    assert plan.stops[0].miles_from_origin == 10.0
    drive_shown_plan(plan.document(), plan.explanation())


def test_a_destination_too_far_from_the_last_station_is_reached_with_less_than_wanted() -> None:
    """The truck leaves mile 100 with 190 gal, and 45 are left at mile 825."""
    plan = feasible(low(825.0, priced(100, 3.5)))
    assert relaxed(plan) == {"end_gallons": (50.0, 45.0)}
    assert not plan.is_low_on_fuel


def test_a_full_tank_takes_less_than_the_smallest_purchase() -> None:
    """The tank is 95 % full, and the only station is at mile 50. 10 gal fit there; without them 22 are left at the
    end."""
    plan = feasible(low(840.0, priced(50, 3.5), fuel_percent=95.0))
    assert relaxed(plan) == {"end_gallons": (50.0, 32.0), "min_purchase_gallons": (30.0, 10.0)}


def test_one_stop_more_than_allowed_is_made_where_needed() -> None:
    plan = feasible(low(1500.0, priced(300, 3.5), priced(1000, 3.5), max_stops=1))
    assert relaxed(plan) == {"max_stops": (1, 2)}


def test_the_nearest_station_further_off_the_road_than_allowed_is_chosen() -> None:
    """The nearer one is chosen, though it is dearer: no detour is longer than needed."""
    plan = feasible(low(600.0, priced(200, 3.9, east_miles=12.0), priced(210, 3.0, east_miles=20.0)))
    assert list(relaxed(plan)) == ["max_detour_miles"]
    assert plan.explanation()["inputs"]["max_detour_miles"] == pytest.approx(12.0, abs=2 * RELAXATION_STEP)
    assert [stop.miles_from_origin for stop in plan.stops] == [pytest.approx(200.0, abs=0.5)]


def test_floors_are_relaxed_before_the_reserve_and_that_is_not_low_fuel() -> None:
    """The truck has 39 gal, and the reserve is 30 gal. After 40 miles 31 are left, and the floor there is 31.6."""
    plan = feasible(low(600.0, priced(40, 3.5), fuel_percent=19.5, trips_below_reserve_percent=5.0))
    assert relaxed(plan) == {"highest_floor_gallons": (200.0, 31.0)}
    assert not plan.is_low_on_fuel


def test_a_floor_costs_no_other_limit() -> None:
    """The truck arrives at mile 60 with 22 gal, and the floor there is 23.3. A station 12 miles off the road would be
    nearer."""
    near, off = priced(60, 3.5), priced(5, 3.5, east_miles=12.0)
    plan = feasible(low(500.0, near, off, fuel_percent=17.0, reserve_percent=10.0, trips_below_reserve_percent=1.0))
    assert relaxed(plan) == {"highest_floor_gallons": (200.0, 22.0)}
    assert [stop.station.station_id for stop in plan.stops] == ["S60"]


def test_the_highest_floors_are_lowered_alone() -> None:
    """The truck arrives at mile 150 with 30 of 60 gal. Its floor of 42 gal is lowered to that; the one of 25 stays."""
    trip, floors = given_trip((150, 3.5), (400, 3.0)), [42.0, 25.0]
    policy = PlanLimits(100.0, 10.0, 0.0, None, 5.0, 10.0, 10.0)

    def under_limits(limits: PlanLimits) -> Trip:
        return with_floors(trip, floors, limits.highest_floor_gallons)

    limits = least_relaxation(policy, lambda limits: solve_rounded(under_limits(limits)))
    assert limits == policy._replace(highest_floor_gallons=30.0)
    assert [one.floor_gallons for one in under_limits(limits).candidates] == [30.0, 25.0]


def test_the_first_limits_are_relaxed_before_the_last_ones() -> None:
    """The truck leaves mile 340 with 190 gal, which is enough for the destination, but not with 50 left there. The
    station off the road at mile 700 would make that possible, but the fuel wanted at the destination is relaxed first.
    """
    plan = feasible(low(1130.0, priced(340, 3.5), priced(700, 3.5, east_miles=15.0)))
    assert relaxed(plan) == {"end_gallons": (50.0, 32.0)}


def test_a_trip_without_any_station_has_no_plan() -> None:
    plan = compute_plan(low(600.0))
    assert isinstance(plan, NoPlan)
    assert (plan.infeasible.from_mile, plan.infeasible.to_mile) == (0.0, 600.0)
    assert "with the fuel in its tank" in plan.infeasible.reason
    assert plan.explanation()["relaxed"][-2:] == [
        {"limit": "reserve_gallons", "policy": 30.0, "used": 0.0},
        {"limit": "later_reserve_gallons", "policy": 30.0, "used": 0.0},
    ]


def test_a_gap_longer_than_the_tank_has_no_plan() -> None:
    plan = compute_plan(low(1500.0, priced(300, 3.0), priced(1300, 3.0)))
    assert isinstance(plan, NoPlan)
    assert (plan.infeasible.from_mile, plan.infeasible.to_mile) == (300.0, 1300.0)


def test_a_truck_that_used_its_reserve_keeps_it_again_behind_its_first_purchase() -> None:
    """The truck has 20 gal and reaches mile 10 with 18. It would reach the cheap station at mile 900 with 12 gal, below
    the reserve of 30. So it fuels before that."""
    plan = feasible(low(1500.0, priced(10, 3.9), priced(600, 3.8), priced(900, 2.0), fuel_percent=10.0))
    assert relaxed(plan) == {"reserve_gallons": (30.0, 18.0)}
    assert [stop.miles_from_origin for stop in plan.stops] == [10.0, 600.0, 900.0]
    arriving = drive_shown_plan(plan.document(), plan.explanation())
    assert min(arriving[1:]) >= 30.0
    assert plan.explanation()["inputs"]["reserve_gallons"] == 30.0
    assert plan.explanation()["inputs"]["margin_gallons"] == -12.0


def test_a_gap_that_takes_some_of_the_reserve_is_driven_behind_the_first_purchase() -> None:
    """A full tank of 190 gal has 20 left behind 850 miles."""
    plan = feasible(low(1500.0, priced(100, 3.9), priced(950, 3.8)))
    assert relaxed(plan) == {"later_reserve_gallons": (30.0, 20.0)}
    assert plan.is_low_on_fuel
    drive_shown_plan(plan.document(), plan.explanation())


def test_an_empty_tank_at_a_station_is_filled() -> None:
    plan = feasible(low(100.0, priced(0, 3.0), fuel_percent=0.0))
    assert relaxed(plan) == {"reserve_gallons": (30.0, 0.0)}
    assert plan.stops[0].arrival_fuel_percent == 0


def test_a_reserve_that_is_needed_without_a_station_gives_a_plan_without_stops() -> None:
    plan = feasible(low(50.0, fuel_percent=12.5))
    assert relaxed(plan) == {"end_gallons": (50.0, 15.0), "reserve_gallons": (30.0, 15.0)}
    assert plan.stops == ()


# --- The laws, against the oracle ------------------------------------------------------------------------------


def hard_trip(seed: int) -> tuple[Trip, PlanLimits]:
    """Few stations, many far off the road, little fuel on board, and a policy that asks for much."""
    rng = random.Random(f"hard trip {seed}")
    distance = rng.choice([rng.uniform(20, 400), rng.uniform(400, 2500)])
    candidates = [
        Candidate(f"S{i}", mile, detour, detour, round(rng.uniform(3, 4.5), 3))
        for i, mile in enumerate(sorted(rng.uniform(0, distance) for _ in range(rng.randint(0, 14))))
        for detour in [round(rng.choice([rng.uniform(0, 5), rng.uniform(0, 28)]), 2)]
    ]
    trip = Trip(
        distance_miles=distance,
        start_gallons=rng.choice([rng.uniform(2, 40), rng.uniform(40, 190), 190.0]),
        end_gallons=math.nan,
        reserve_gallons=math.nan,
        usable_gallons=190.0,
        min_purchase_gallons=math.nan,
        stop_cost=rng.choice([0.0, 20.0]),
        mpg=rng.uniform(5, 8),
        max_stops=None,
        candidates=tuple(candidates),
    )
    policy = PlanLimits(
        end_gallons=rng.choice([0.0, 50.0, rng.uniform(50, 195)]),
        min_purchase_gallons=rng.choice([2.0, 30.0, rng.uniform(30, 180)]),
        max_stops=rng.choice([None, 0, 1, 2, 3]),
        max_detour_miles=rng.choice([0.0, 5.0, 30.0]),
        highest_floor_gallons=200.03,
        reserve_gallons=rng.choice([30.0, rng.uniform(10, 60)]),
        later_reserve_gallons=math.nan,
    )
    later = rng.choice([policy.reserve_gallons, rng.uniform(60, 150)])
    floors = rng.random() < 0.7
    return with_random_floors(trip, 0.9) if floors else trip, policy._replace(later_reserve_gallons=later)


def under(trip: Trip, limits: PlanLimits) -> Trip:
    near = tuple(one for one in trip.candidates if one.detour_miles_in <= limits.max_detour_miles)
    limited = replace(
        trip,
        end_gallons=limits.end_gallons,
        min_purchase_gallons=limits.min_purchase_gallons,
        max_stops=limits.max_stops,
        reserve_gallons=limits.later_reserve_gallons,
        margin_gallons=limits.reserve_gallons - limits.later_reserve_gallons,
        candidates=near,
    )
    return with_floors(limited, [one.floor_gallons for one in near], limits.highest_floor_gallons)


def nearer_to_the_policy(name: str, used: Any, policy: Any) -> Any:
    """The value of a relaxed limit, one step nearer to the policy."""
    if name == "max_stops":
        return used - 1
    return min(used + RELAXATION_STEP, policy) if used < policy else max(used - RELAXATION_STEP, policy)


def can_be_made(trip: Trip) -> bool:
    """True if the oracle finds a plan, and a pump can show it: not one that takes the last thousandth of a gallon."""
    if milp_objective(trip) is None:
        return False
    solution = solve_rounded(trip)
    return not (isinstance(solution, Infeasible) and "thousandth" in solution.reason)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(5))
def test_limits_are_relaxed_the_least_and_in_order(block: int) -> None:
    """The oracle says that the plan exists and is the cheapest. With any limit one step nearer to the policy there is
    no plan, not even when all limits before it are relaxed entirely.
    """
    relaxed: set[str] = set()
    for seed in range(block * 50, block * 50 + 50):
        trip, policy = hard_trip(seed)
        limits = least_relaxation(policy, lambda limits, trip=trip: solve_rounded(under(trip, limits)))  # type: ignore[misc]
        entirely = policy.relaxed_entirely
        if limits is None:
            assert milp_objective(under(trip, entirely)) is None
            continue
        solution, least = solve_rounded(under(trip, limits)), milp_objective(under(trip, limits))
        assert isinstance(solution, Solution)
        assert least is not None
        assert least - 1e-6 <= solution.objective <= least + DOLLARS_LOST_TO_ROUNDING
        drive_trip(under(trip, limits), solution.purchases)
        if milp_objective(under(trip, policy)) is not None:
            assert limits == policy
        for number, (name, used, wanted) in enumerate(zip(PlanLimits._fields, limits, policy, strict=True)):
            if used == wanted:
                continue
            relaxed.add(name)
            less = dict(zip(PlanLimits._fields[:number], entirely, strict=False))
            before = limits._replace(**less | {name: nearer_to_the_policy(name, used, wanted)})
            assert not can_be_made(under(trip, before)), (seed, name)
    assert relaxed == set(PlanLimits._fields)


@pytest.mark.slow
def test_no_limit_is_relaxed_beyond_its_bound() -> None:
    for seed in range(300):
        trip, policy = hard_trip(seed)
        limits = least_relaxation(policy, lambda limits, trip=trip: solve_rounded(under(trip, limits)))  # type: ignore[misc]
        if limits is None:
            continue
        assert 0 <= limits.highest_floor_gallons <= policy.highest_floor_gallons
        assert 0 <= limits.reserve_gallons <= policy.reserve_gallons
        assert 0 <= limits.later_reserve_gallons <= policy.later_reserve_gallons
        reserve = min(limits.reserve_gallons, limits.later_reserve_gallons)
        assert min(policy.end_gallons, reserve) <= limits.end_gallons <= policy.end_gallons
        assert min(policy.min_purchase_gallons, SMALLEST_PURCHASE_GALLONS) <= limits.min_purchase_gallons
        assert limits.min_purchase_gallons <= policy.min_purchase_gallons
        furthest = max(policy.max_detour_miles, FURTHEST_DETOUR_MILES)
        assert policy.max_detour_miles <= limits.max_detour_miles <= furthest
        assert policy.max_stops is None or (limits.max_stops or 0) >= policy.max_stops


def test_an_impossible_trip_takes_one_attempt() -> None:
    attempts = []

    def attempt(limits: PlanLimits) -> Infeasible:
        attempts.append(limits)
        return Infeasible(0.0, 1.0, "no")

    policy = PlanLimits(200.0, 50.0, 30.0, 2, 5.0, 30.0, 30.0)
    assert least_relaxation(policy, attempt) is None
    assert attempts == [PlanLimits(0.0, 0.0, 5.0, None, 25.0, 0.0, 0.0)]
