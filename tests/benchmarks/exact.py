"""Whole plans with everything in play at once, against the oracle: deals and taxes, gauges that lie, floors, a
smallest purchase, fuel wanted at the end, a limit of stops, and limits that have to be relaxed.

The oracle is HiGHS, on the same trip stated as a mixed-integer program.
"""

import random
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np

from domain.accounts.policy import PlanPolicy
from domain.burn.figures import figure_of
from domain.lifecycle import Objective
from domain.planning.fuel_plan import ComputedPlan, compute_plan
from domain.planning.gauges import Gauge, Reading, judge_newest_reading
from domain.planning.optimizer import solve
from domain.planning.plan_inputs import PlanInputs
from domain.planning.relaxation import FURTHEST_DETOUR_MILES
from domain.planning.trips import Infeasible, Trip
from domain.roads import Leg, Point, Road
from domain.roads.sphere import MILES_PER_DEGREE
from domain.stations.offers import Offer, Station
from domain.stations.prices import Deal, net_price
from tests.domain.planning.oracle import DOLLARS_LOST_TO_ROUNDING, milp_objective

SAME_DOLLARS = 1e-6
NOON = datetime(2026, 12, 1, 12, tzinfo=UTC)


def north(mile: float) -> Point:
    return Point(30.0 + mile / MILES_PER_DEGREE, -100.0)


def everything(seed: int) -> tuple[PlanInputs, Gauge | None]:
    """A truck, its policy, its gauge, and the stations along its road."""
    rng = random.Random(f"everything {seed}")
    miles = rng.choice([rng.uniform(40, 500), rng.uniform(500, 2500)])
    line = np.array([north(0), north(miles)])
    capacity, mpg = rng.choice([120.0, 150.0, 200.0, 240.0, 300.0]), round(rng.uniform(5, 8), 1)
    brands = [Deal(discount_per_gallon=round(rng.uniform(0, 0.6), 3)) for _ in range(4)]

    def offer(number: int, nearest: float, furthest: float) -> Offer:
        deals = [rng.choice(brands)] if rng.random() < 0.5 else []
        deals += [Deal(net_price=round(rng.uniform(2.8, 4.2), 4))] if rng.random() < 0.2 else []
        price = net_price(round(rng.uniform(3, 4.8), 3), deals)
        mile = rng.uniform(0, miles)
        station = Station(f"S{number}", f"Stop {number}", None, None, None, None, *north(mile))
        tax = round(rng.uniform(0.1, 0.8), 3) if rng.random() < 0.8 else None
        return Offer(station, mile, rng.uniform(nearest, furthest), price or 3.5, tax)

    policy = PlanPolicy(
        reserve_percent=rng.choice([15.0, rng.uniform(0, 30)]),
        end_fuel_percent=rng.choice([25.0, rng.uniform(0, 90)]),
        assumed_fuel_percent=50.0,
        min_purchase_gallons=rng.choice([30.0, 0.0, rng.uniform(5, 120)]),
        stop_cost=rng.choice([20.0, 0.0, rng.uniform(0, 60)]),
        max_detour_miles=rng.choice([5.0, 5.0, rng.uniform(1, 20)]),
        max_stops=rng.choice([None, None, 0, 1, 2, 3]),
        leftover_value_per_gallon=rng.choice([0.0, 0.0, rng.uniform(1, 4)]),
        objective=rng.choice(list(Objective)),
        trips_below_reserve_percent=rng.choice([100.0, rng.uniform(1, 60)]),
        margin_dollars=0.0,
    )
    near = [offer(number, 0, policy.max_detour_miles) for number in range(rng.randint(0, 24))]
    further = [
        offer(100 + number, policy.max_detour_miles, FURTHEST_DETOUR_MILES) for number in range(rng.randint(0, 8))
    ]
    gauge = _gauge(rng, mpg, capacity)
    inputs = PlanInputs(
        road=Road.of([Leg(line, np.array([0.0, miles]), miles / 50, "test")]),
        fuel_percent=gauge.level_percent if gauge is not None else None,
        policy=policy,
        offers=sorted(near, key=lambda one: one.mile),
        further_offers=sorted([*near, *further], key=lambda one: one.mile),
        departure=NOON,
        capacity_gallons=capacity,
        burn=figure_of(mpg),
    )
    return inputs, gauge


def _gauge(rng: random.Random, mpg: float, capacity_gallons: float) -> Gauge | None:
    """The readings of the truck on the miles before: sometimes none, and sometimes the gauge jumps up on the road."""
    if rng.random() < 0.15:
        return None
    level, jump = rng.uniform(20, 100), rng.choice([0.0, 0.0, rng.uniform(15, 60)])
    readings = []
    for number in range(20):
        burned = 100 * 2.0 * number / mpg / capacity_gallons
        told = min(max(level - burned + (jump if number > 12 else 0.0) + rng.uniform(-1, 1), 0.0), 100.0)
        readings.append(Reading(told, NOON - timedelta(minutes=2 * (19 - number)), north(-40 + 2.0 * number), 60.0))
    return judge_newest_reading(readings, mpg=mpg, capacity_gallons=capacity_gallons)


def difference(inputs: PlanInputs) -> str | None:
    """The difference between the plan and the oracle's; None where there is none.

    The policy is kept where the oracle can keep it. What is left of it otherwise has the oracle's least cost, and where
    there is no plan the oracle has none either, whatever is relaxed.
    """
    kept, plan = compute_plan(replace(inputs, further_offers=None)), compute_plan(inputs)
    least = milp_objective(kept.trip)
    if (least is not None) != isinstance(kept, ComputedPlan):
        return f"the policy can{'' if least is not None else 'not'} be kept"
    if isinstance(kept, ComputedPlan) and isinstance(plan, ComputedPlan) and plan.relaxed:
        return "a limit is relaxed without need"
    return _dearer(plan.trip, plan.objective if isinstance(plan, ComputedPlan) else None)


def _dearer(trip: Trip, planned: float | None) -> str | None:
    least, solution = milp_objective(trip), solve(trip)
    if least is None or planned is None:
        return None if least is None and planned is None else f"the oracle finds {least}, the plan costs {planned}"
    if isinstance(solution, Infeasible) or abs(solution.objective - least) > SAME_DOLLARS:
        return f"the oracle finds {least}, the optimizer {solution}"
    if not least - SAME_DOLLARS <= planned <= least + DOLLARS_LOST_TO_ROUNDING:
        return f"the oracle finds {least}, the rounded plan costs {planned}"
    return None


def rules_in_play(seeds: range) -> Counter[str]:
    """The number of trips in which each part mattered, so that a reader sees that all were tried."""
    found: Counter[str] = Counter()
    for seed in seeds:
        inputs, gauge = everything(seed)
        plan = compute_plan(inputs)
        found["without a plan"] += not isinstance(plan, ComputedPlan)
        found["with a relaxed limit"] += isinstance(plan, ComputedPlan) and bool(plan.relaxed)
        found["with a gauge that is not believed"] += gauge is not None and not gauge.is_believed
        found["with floors"] += any(one.floor_gallons for one in plan.trip.candidates)
        found["less the tax"] += inputs.policy.objective is Objective.TAX_ADJUSTED
    return found
