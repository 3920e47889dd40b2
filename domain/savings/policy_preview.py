"""The cost of a company's last plans under another policy.

Each plan is computed from its stored explanation by the optimizer that made it: its road, truck, fuel level and prices
stay, and the policy's values change. Both policies are computed, so that only their difference shows. The result is an
estimate of plans, not of purchases."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import NamedTuple

from domain.accounts.policy import PlanPolicy
from domain.burn.figures import seen_spread_percent
from domain.database.connections import Connection, Tenant
from domain.database.statements import Scalar
from domain.lifecycle import Objective
from domain.planning.cheap_margins import first_that_is_cheap, shares_to_try
from domain.planning.explanation import FUEL_BY_POLICY, Explanation, StoredExplanation
from domain.planning.floors import chance_below, explained_error, with_growing_floors
from domain.planning.plan_inputs import by_policy, gallons_at, limits_of
from domain.planning.reasons import trip_of
from domain.planning.relaxation import PlanLimits, least_relaxation
from domain.planning.rounding import solve_rounded
from domain.planning.trips import Infeasible, Solution, Trip, drive_trip
from domain.stations.prices import PRICE_DECIMALS

PLANS = 50
SECONDS = 3.0
"""Time for a preview. Plans not computed by then are counted as left out."""
MOST_STATIONS_PREVIEWED = 1_000
"""A plan with more stations along its road takes too long for a preview."""


class Left(StrEnum):
    """Why a plan is not in a preview."""

    FORGOTTEN = "explanation no longer kept"
    TOO_LARGE = "too many stations along the road"
    TOO_FAR = "stations so far from the road were not looked at"
    INFEASIBLE = "no plan is feasible"
    TOO_LATE = "not computed in time"


class Totals(NamedTuple):
    """Sums over plans. `left_gallons` is in the tanks at the destinations, `relaxed` counts plans with a relaxed
    limit. `below_reserve` is the expected number of trips that fall below the policy's reserve, since mileages are
    never exact."""

    cost: float = 0.0
    gallons: float = 0.0
    stops: int = 0
    left_gallons: float = 0.0
    relaxed: int = 0
    below_reserve: float = 0.0

    def plus(self, other: "Totals") -> "Totals":
        return Totals(
            self.cost + other.cost,
            self.gallons + other.gallons,
            self.stops + other.stops,
            self.left_gallons + other.left_gallons,
            self.relaxed + other.relaxed,
            self.below_reserve + other.below_reserve,
        )


class Preview(NamedTuple):
    found: int
    """The plans found, at most `PLANS`."""
    computed: int
    before: Totals
    after: Totals
    left_out: dict[Left, int]

    @property
    def saved(self) -> float:
        """The savings of the other policy, in dollars. Fuel that one policy leaves in the tanks beyond the other counts
        at the average price of both."""
        gallons = self.before.gallons + self.after.gallons
        price = (self.before.cost + self.after.cost) / gallons if gallons else 0.0
        return self.before.cost - self.after.cost + price * (self.after.left_gallons - self.before.left_gallons)


_LAST = Scalar(
    bytes | None,
    "SELECT p.explanation FROM savings s JOIN plans p ON p.id = s.plan_id"
    " WHERE s.company_id = %(company_id)s AND s.environment = %(environment)s"
    " ORDER BY s.planned_at DESC LIMIT %(limit)s",
)


def preview_policy(
    connection: Connection,
    tenant: Tenant,
    before: PlanPolicy,
    after: PlanPolicy,
    *,
    seconds: float = SECONDS,
    clock: Callable[[], float] = time.monotonic,
) -> Preview:
    """Compute the last plans that drivers have under both policies, for `seconds` at most."""
    plans = _LAST.all(connection, {**tenant._asdict(), "limit": PLANS})
    until = clock() + seconds
    sums, computed, left_out = (Totals(), Totals()), 0, dict.fromkeys(Left, 0)
    for stored in plans:
        pair = _compute(stored, before, after) if clock() < until else Left.TOO_LATE
        if isinstance(pair, Left):
            left_out[pair] += 1
        else:
            computed += 1
            sums = sums[0].plus(pair[0]), sums[1].plus(pair[1])
    return Preview(len(plans), computed, *sums, {why: count for why, count in left_out.items() if count})


def _compute(stored: bytes | None, before: PlanPolicy, after: PlanPolicy) -> tuple[Totals, Totals] | Left:
    if stored is None:
        return Left.FORGOTTEN
    explanation = StoredExplanation(stored)
    if len(explanation) > MOST_STATIONS_PREVIEWED:
        return Left.TOO_LARGE
    whole = explanation.part(range(len(explanation)))
    first = plan_under(whole, before)
    if isinstance(first, Left):
        return first
    second = plan_under(whole, after)
    return second if isinstance(second, Left) else (first, second)


def plan_under(explanation: Explanation, policy: PlanPolicy) -> Totals | Left:
    """The plan of the trip under a policy, or why it is left out. Limits are relaxed as little as needed, as in any
    plan."""
    inputs = explanation["inputs"]
    if policy.max_detour_miles > max(inputs["max_detour_miles"], _policy_detour(explanation)):
        return Left.TOO_FAR
    stored, error = trip_of(explanation), explained_error(explanation)
    limits = limits_of(policy, inputs["capacity_gallons"])
    detours = [max(one.detour_miles_in, one.detour_miles_out) for one in stored.candidates]
    prices = [
        round(one["adjusted_price"] if policy.objective == Objective.TAX_ADJUSTED else one["net_price"], PRICE_DECIMALS)
        for one in explanation["candidates"]
    ]
    trip = replace(
        stored,
        start_gallons=_start_gallons(explanation, policy),
        margin_gallons=0.0,
        candidates=tuple(
            one._replace(price=price, floor_gallons=0.0) for one, price in zip(stored.candidates, prices, strict=True)
        ),
    )

    def attempt(given: PlanLimits, share_percent: float) -> tuple[Trip, Sequence[int]]:
        kept = [index for index, detour in enumerate(detours) if detour <= given.max_detour_miles]
        limited = replace(
            trip,
            candidates=tuple(trip.candidates[index] for index in kept),
            **by_policy(policy, given),
        )
        return with_growing_floors(limited, given, share_percent, error), kept

    def solved(share_percent: float) -> _Solved | None:
        limited, kept = attempt(limits, share_percent)
        solution = solve_rounded(limited)
        is_relaxed = isinstance(solution, Infeasible)
        if is_relaxed:
            relaxed = least_relaxation(limits, lambda given: solve_rounded(attempt(given, share_percent)[0]))
            if relaxed is None:
                return None
            limited, kept = attempt(relaxed, share_percent)
            solution = solve_rounded(limited)
        return _Solved(limited, kept, solution, is_relaxed) if isinstance(solution, Solution) else None

    found = _with_margin(explanation, policy, solved)
    if found is None:
        return Left.INFEASIBLE
    limited, kept, solution, is_relaxed = found
    pump = [round(explanation["candidates"][index]["net_price"], PRICE_DECIMALS) for index in kept]
    *_, left = drive_trip(limited, solution.purchases)
    return Totals(
        cost=math.fsum(pump[index] * gallons for index, gallons in solution.purchases),
        gallons=math.fsum(gallons for _, gallons in solution.purchases),
        stops=len(solution.purchases),
        left_gallons=left,
        relaxed=int(is_relaxed),
        below_reserve=chance_below(limits.reserve_gallons, limited, solution.purchases, error),
    )


class _Solved(NamedTuple):
    """A trip under a policy, with its candidates' numbers among those of the explanation, and its solution."""

    trip: Trip
    kept: Sequence[int]
    solution: Solution
    is_relaxed: bool


def _with_margin(
    explanation: Explanation, policy: PlanPolicy, solved: Callable[[float], _Solved | None]
) -> _Solved | None:
    """The solution with the largest margin that costs no more than the policy says, as plans have it: no limit is
    relaxed for a margin."""
    cheapest = solved(policy.trips_below_reserve_percent)
    if cheapest is None:
        return None
    most = cheapest.solution.objective + policy.margin_dollars

    def attempt(share_percent: float) -> _Solved | None:
        other = solved(share_percent)
        is_cheap = other is not None and not other.is_relaxed and other.solution.objective <= most
        return other if is_cheap else None

    shares = shares_to_try(policy, seen_spread_percent(explanation["inputs"].get("burn")))
    return first_that_is_cheap(shares, attempt) or cheapest


def _policy_detour(explanation: Explanation) -> float:
    """The longest detour by the policy of that time, if that limit was relaxed; otherwise 0."""
    return next((one["policy"] or 0.0 for one in explanation["relaxed"] if one["limit"] == "max_detour_miles"), 0.0)


def _start_gallons(explanation: Explanation, policy: PlanPolicy) -> float:
    """The fuel at the start. The policy decides it only if the truck had sent no level."""
    inputs, fuel = explanation["inputs"], explanation["sources"].get("fuel")
    if fuel is None or fuel["source"] != FUEL_BY_POLICY:
        return inputs["start_gallons"]
    return min(gallons_at(policy.assumed_fuel_percent, inputs["capacity_gallons"]), inputs["usable_gallons"])
