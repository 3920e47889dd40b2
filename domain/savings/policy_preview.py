"""The cost of a company's last plans under another policy.

Each plan is computed from its stored explanation by the optimizer that made it: its road, truck, fuel level and prices
stay, and the policy's values change. Both policies are computed, so that only their difference shows. The result is an
estimate of plans, not of purchases."""

import math
import time
from collections.abc import Callable
from typing import NamedTuple

from domain.accounts.policy import PlanPolicy
from domain.database.connections import Connection, Tenant
from domain.database.statements import Scalar
from domain.planning.explanation import Explanation, StoredExplanation
from domain.planning.floors import chance_below
from domain.planning.plan_inputs import gallons_at
from domain.planning.trips import drive_trip
from domain.planning.what_if import Left, inputs_of, solve_under

PLANS = 50
SECONDS = 3.0
"""Time for a preview. Plans not computed by then are counted as left out."""
MOST_STATIONS_PREVIEWED = 1_000
"""A plan with more stations along its road takes too long for a preview."""


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
    " ORDER BY s.planned_at DESC, s.route_id LIMIT %(limit)s",
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
    """The plan of the trip under a policy, or why it is left out."""
    inputs = inputs_of(explanation)
    found = solve_under(inputs, policy)
    if isinstance(found, Left):
        return found
    purchases = found.purchases
    *_, left = drive_trip(found.trip, found.solution.purchases)
    reserve_gallons = gallons_at(policy.reserve_percent, inputs.capacity_gallons)
    return Totals(
        cost=math.fsum(inputs.stations[index].net_price * gallons for index, gallons in purchases),
        gallons=math.fsum(gallons for _, gallons in purchases),
        stops=len(purchases),
        left_gallons=left,
        relaxed=int(bool(found.relaxed)),
        below_reserve=chance_below(reserve_gallons, found.trip, found.solution.purchases, inputs.error),
    )
