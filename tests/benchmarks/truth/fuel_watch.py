"""The watch on a truck's fuel, as `routes/plans/fuel_looks.py` keeps it, but without its tables: when a truck is looked
at, what is ahead of it, and the limits of new plans. The rule is the domain's."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from domain.routes.plans import replans
from tests.benchmarks.truth.driver import Fix
from tests.benchmarks.truth.versions import LEVELS, module

SHORTFALLS: Any = module("domain.burn.shortfalls")
"""The rule; None in a checkout that does not watch the burn."""
REPLANS: Any = replans
FUEL_OUTLOOKS: Any = module("domain.routes.plans.fuel_outlooks")

FLOOR_PERCENT = 12.0
RESERVE_PERCENT = 15.0
SHOWS_NOTHING_PERCENT = 1.0


@dataclass
class WatchedPlan:
    """The newest plan, and the driver's fuel stops on its road. Miles are those of the whole trip."""

    begins: Fix
    end_mile: float
    mpg: float
    capacity_gallons: float
    stops: Sequence[Any]
    stops_from_mile: float
    is_for_burn: bool = False

    def ahead(self, mile: float) -> tuple[int, Any]:
        """The number of the driver's next fuel stop, and what the rule knows of it."""
        level, from_mile = self.begins.percent, self.begins.mile
        for number, stop in enumerate(self.stops):
            at = self.stops_from_mile + stop["milesFromOrigin"]
            if mile < at + FUEL_OUTLOOKS.STILL_AHEAD_MILES:
                planned = max(stop["arrivalFuelPercent"], RESERVE_PERCENT if number else 0.0)
                return number, SHORTFALLS.Ahead(at - self.begins.mile, 0.0, planned)
            level = stop["arrivalFuelPercent"] + 100 * stop["gallonsToFill"] / self.capacity_gallons
            from_mile = at
        left = level - 100 * (self.end_mile - from_mile) / self.mpg / self.capacity_gallons
        planned = max(left, RESERVE_PERCENT if self.stops else 0.0)
        return len(self.stops), SHORTFALLS.Ahead(self.end_mile - self.begins.mile, 0.0, planned)


@dataclass
class FuelWatch:
    """The looks at one truck. `made` counts the plans that were made because its fuel did not last."""

    plan: WatchedPlan
    made: int = 0
    look: Any = field(init=False)

    def __post_init__(self) -> None:
        self.follow(self.plan)

    def follow(self, plan: WatchedPlan) -> None:
        """Looks at the truck from the beginning of a new plan."""
        self.plan, at = plan, plan.begins.at
        if plan.is_for_burn:
            between = REPLANS.LEAST_BETWEEN
            self.look = SHORTFALLS.NextLook(at + between, SHORTFALLS.ANY_PERCENT, at + 2 * between)
        else:
            self.look = SHORTFALLS.first_look(
                at=at, level_percent=plan.begins.percent, ahead=plan.ahead(plan.begins.mile)[1]
            )

    def see(self, fixes: Sequence[Fix]) -> tuple[Any, int] | None:
        """The outlook where the newest fix shows that the fuel does not last and a new plan may be made, and the number
        of fuel stops passed."""
        newest = fixes[-1]
        if not self._is_due(newest):
            return None
        outlook, passed, ahead = self.outlook(fixes)
        self.look = SHORTFALLS.next_look(outlook, at=newest.at, mile=newest.mile - self.plan.begins.mile, ahead=ahead)
        if outlook is None or not outlook.falls_short or not self._may_replan(newest.at):
            return None
        return outlook, passed

    def outlook(self, fixes: Sequence[Fix]) -> tuple[Any, int, Any]:
        plan = self.plan
        levels = [
            LEVELS.LevelAtMile(one.at, one.mile - plan.begins.mile, one.percent)
            for one in fixes
            if one.at >= plan.begins.at
        ]
        passed, ahead = plan.ahead(fixes[-1].mile)
        planned = SHORTFALLS.PlannedBurn(plan.mpg, plan.capacity_gallons)
        return SHORTFALLS.look_ahead(levels, planned=planned, ahead=ahead, floor_percent=FLOOR_PERCENT), passed, ahead

    def _is_due(self, fix: Fix) -> bool:
        look = self.look
        is_low = SHOWS_NOTHING_PERCENT < fix.percent < look.below_percent
        return bool(fix.at >= look.since and (fix.at >= look.by or is_low))

    def _may_replan(self, at: datetime) -> bool:
        return bool(self.made < REPLANS.MOST_BURN_REPLANS and at >= self.plan.begins.at + REPLANS.LEAST_BETWEEN)
