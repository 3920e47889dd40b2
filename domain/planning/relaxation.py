"""Relaxes a policy's limits where no plan keeps them all, just enough for the truck to reach fuel.

Limits are relaxed in the order of `PlanLimits`, each only where relaxing all limits before it is not enough. So the
last limit is the most costly one to relax. The search begins with it: all other limits are relaxed entirely, and it is
relaxed as little as possible. Then comes the limit before it, with the later ones as found. In the end, no limit can be
kept better without relaxing a later one further."""

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from domain.planning.trips import Infeasible, Solution

FURTHEST_DETOUR_MILES = 25.0
SMALLEST_PURCHASE_GALLONS = 5.0
RELAXATION_STEP = 0.1
"""Limits in gallons and miles are relaxed in steps of this size."""


class RelaxedLimit(NamedTuple):
    """A limit that was relaxed: its name, the policy's value, and the value that the plan keeps."""

    limit: str
    policy: float | None
    used: float | None


class PlanLimits(NamedTuple):
    """The limits that a plan has to keep, in the order in which they are relaxed."""

    highest_floor_gallons: float
    """Floors above it are lowered to it: a full tank before it is relaxed."""
    end_gallons: float
    min_purchase_gallons: float
    max_stops: int | None
    max_detour_miles: float
    reserve_gallons: float
    """Kept until the first purchase."""
    later_reserve_gallons: float
    """Kept from the first purchase on."""

    @property
    def relaxed_entirely(self) -> "PlanLimits":
        return PlanLimits(
            highest_floor_gallons=0.0,
            end_gallons=0.0,  # the reserve is wanted anyway
            min_purchase_gallons=min(self.min_purchase_gallons, SMALLEST_PURCHASE_GALLONS),
            max_stops=None,
            max_detour_miles=max(self.max_detour_miles, FURTHEST_DETOUR_MILES),
            reserve_gallons=0.0,
            later_reserve_gallons=0.0,
        )

    def relaxed_from(self, policy: "PlanLimits") -> list[RelaxedLimit]:
        pairs = zip(self._fields, policy, self, strict=True)
        return [RelaxedLimit(name, before, used) for name, before, used in pairs if used != before]


PlanAttempt = Callable[[PlanLimits], Solution | Infeasible]


def least_relaxation(policy: PlanLimits, attempt: PlanAttempt) -> PlanLimits | None:
    """The limits of a feasible plan that are relaxed least; None where no limits make the trip feasible. `attempt`
    plans with given limits."""
    limits = policy.relaxed_entirely
    if isinstance(attempt(limits), Infeasible):
        return None
    for name in reversed(PlanLimits._fields):
        steps = _steps(name, policy, limits, attempt)

        def drivable(step: Any, name: str = name, others: PlanLimits = limits) -> bool:
            return isinstance(attempt(others._replace(**{name: step})), Solution)

        # Most limits can be kept, so the policy's own value is tried before a search. The last step is known to work.
        least = 0 if len(steps) == 1 or drivable(steps[0]) else bisect_left(steps[:-1], True, lo=1, key=drivable)
        limits = limits._replace(**{name: steps[least]})
    return limits


def _steps(name: str, policy: PlanLimits, limits: PlanLimits, attempt: PlanAttempt) -> Sequence[Any]:
    """The values of a limit with which the trip can be made, from the policy's to the last one."""
    if name == "max_stops":
        if policy.max_stops is None:
            return [None]
        unlimited = attempt(limits)
        made = len(unlimited.purchases) if isinstance(unlimited, Solution) else 0
        return range(policy.max_stops, max(made, policy.max_stops) + 1)
    first, last = getattr(policy, name), getattr(limits, name)
    if name == "end_gallons":
        last = min(first, limits.reserve_gallons, limits.later_reserve_gallons)
    step = RELAXATION_STEP if last > first else -RELAXATION_STEP
    count = math.ceil((last - first) / step - 1e-9)  # the last step may be a shorter one
    return [first, *(round(first + step * number, 6) for number in range(1, count)), last]
