"""A margin beyond the reserve where it costs a few dollars at most.

A plan arrives exactly at the reserve wherever the next pump is cheaper. A truck whose burn differs from trip to trip is
below it at every second such stop. More gallons at the pump before cost only the difference of two prices, because they
are not bought at the next one. So a truck whose levels have shown that its burn differs keeps a margin: the largest one
that costs no more than the policy says. A truck of which nothing is known keeps none, and neither does one that always
burns what its figure says.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TypeVar

from domain.accounts.policy import PlanPolicy
from domain.planning.fuel_plan import ComputedPlan, NoPlan, compute_plan
from domain.planning.plan_inputs import PlanInputs

SHARES_PERCENT = (10.0, 16.0, 25.0, 35.0)
"""Shares of trips that may fall below the reserve, each with a smaller margin than the one before. A larger margin than
the first prevents little more and costs stops."""

LEAST_SEEN_SPREAD_PERCENT = 1.0
"""A truck with a smaller spread of its burn burns what its figure says: gauges show whole percents."""

Solved = TypeVar("Solved")


def plan_with_margin(inputs: PlanInputs, *, now: datetime | None = None) -> ComputedPlan | NoPlan:
    """The plan with the largest margin that costs no more than the policy says; without one, the cheapest plan."""
    plan = compute_plan(inputs, now=now)
    if isinstance(plan, NoPlan):
        return plan
    most, shares = (
        plan.objective + inputs.policy.margin_dollars,
        shares_to_try(inputs.policy, inputs.burn.seen_spread_percent),
    )

    def attempt(share_percent: float) -> ComputedPlan | None:
        other = compute_plan(replace(inputs, share_percent=share_percent, further_offers=None), now=now)
        return other if isinstance(other, ComputedPlan) and other.objective <= most else None

    return first_that_is_cheap(shares, attempt) or plan


def shares_to_try(policy: PlanPolicy, spread_percent: float | None) -> Sequence[float]:
    """The shares of trips to try in place of the policy's. `spread_percent`: one standard deviation of the truck's burn
    as its own levels have shown it; None where they have shown nothing."""
    if not policy.margin_dollars or spread_percent is None or spread_percent < LEAST_SEEN_SPREAD_PERCENT:
        return []
    return [one for one in SHARES_PERCENT if one < policy.trips_below_reserve_percent]


def first_that_is_cheap(shares: Sequence[float], attempt: Callable[[float], Solved | None]) -> Solved | None:
    """The plan with the first share that has one; `attempt` gives None where the plan costs too much."""
    return next((found for found in map(attempt, shares) if found is not None), None)
