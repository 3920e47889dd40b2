"""The watch on a truck's fuel, as `routes/plans/fuel_looks.py` keeps it, but without its tables: when a truck is looked
at, what is ahead of it, and the limits of new plans. The rule is the domain's."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from domain.routes.plans import replans
from tests.benchmarks.truth.driver import Fix
from tests.benchmarks.truth.versions import FILL_LEVELS, LEVELS, module

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
    kind: str = ""
    """The reason for the plan, if it was made on the way."""
    keeps_stop: bool = False
    """True if the driver's plan tells another level at a fuel stop that he had before."""

    def ahead(self, mile: float) -> tuple[int, Any]:
        """The number of the driver's next fuel stop, and what the rule knows of it."""
        level, from_mile = self.begins.percent, self.begins.mile
        for number, stop in enumerate(self.stops):
            at = self.stops_from_mile + stop["milesFromOrigin"]
            if mile < at + FUEL_OUTLOOKS.STILL_AHEAD_MILES:
                planned = max(stop["arrivalFuelPercent"], RESERVE_PERCENT if number or self.keeps_stop else 0.0)
                return number, SHORTFALLS.Ahead(at - self.begins.mile, 0.0, planned, *self._fill(number, at))
            level = stop["arrivalFuelPercent"] + 100 * stop["gallonsToFill"] / self.capacity_gallons
            from_mile = at
        left = level - 100 * (self.end_mile - from_mile) / self.mpg / self.capacity_gallons
        planned = max(left, RESERVE_PERCENT if self.stops else 0.0)
        return len(self.stops), SHORTFALLS.Ahead(self.end_mile - self.begins.mile, 0.0, planned)

    def _fill(self, number: int, mile: float) -> list[Any]:
        """The purchase at a stop; nothing in a checkout that tells no new levels."""
        if FILL_LEVELS is None:
            return []
        stop, behind = self.stops[number], [*self.stops[number + 1 :], None][0]
        bought = 100 * stop["gallonsToFill"] / self.capacity_gallons
        percent = stop.get("fillToPercent", stop["arrivalFuelPercent"] + bought)
        miles = (self.stops_from_mile + behind["milesFromOrigin"] if behind else self.end_mile) - mile
        left = behind["arrivalFuelPercent"] if behind else percent - 100 * miles / self.mpg / self.capacity_gallons
        return [SHORTFALLS.Fill(percent, miles, min(RESERVE_PERCENT, left))]


def needs_earlier_stop(outlook: Any) -> bool:
    """False in a checkout that tells no earlier stops."""
    decide = getattr(FILL_LEVELS, "arrives_below_reserve", None)
    return decide is not None and bool(decide(outlook, RESERVE_PERCENT))


@dataclass
class FuelWatch:
    """The looks at one truck. `made` counts the plans that its driver was told because its fuel did not last, `levels`
    those for a higher level, and `level_attempts` all that were made for one."""

    plan: WatchedPlan
    made: int = 0
    levels: int = 0
    level_attempts: int = 0
    look: Any = field(init=False)

    def __post_init__(self) -> None:
        self.follow(self.plan)

    def follow(self, plan: WatchedPlan) -> None:
        """Looks at the truck from the beginning of a new plan."""
        self.plan, at, ahead = plan, plan.begins.at, plan.ahead(plan.begins.mile)[1]
        if plan.kind == "level" and ahead.mile <= SHORTFALLS.NEAR_FILL_MILES:
            self.look = SHORTFALLS.look_behind_fill(at=at, ahead=ahead)
        elif plan.kind == "burn":
            between = REPLANS.LEAST_BETWEEN
            self.look = SHORTFALLS.NextLook(at + between, SHORTFALLS.ANY_PERCENT, at + 2 * between)
        else:
            self.look = SHORTFALLS.first_look(at=at, level_percent=plan.begins.percent, ahead=ahead)

    def see(self, fixes: Sequence[Fix]) -> tuple[str, Any, int] | None:
        """The reason where the newest fix shows that the fuel or the next level does not last and a new plan may be
        made, with the outlook, and the number of fuel stops passed."""
        newest = fixes[-1]
        if not self._is_due(newest):
            return None
        outlook, passed, ahead = self.outlook(fixes)
        self.look = SHORTFALLS.next_look(outlook, at=newest.at, mile=newest.mile - self.plan.begins.mile, ahead=ahead)
        if outlook is None or newest.at < self.plan.begins.at + REPLANS.LEAST_BETWEEN:
            return None
        if outlook.falls_short:
            return ("burn", outlook, passed) if self.made < REPLANS.MOST_BURN_REPLANS else None
        return ("level", outlook, passed) if self._may_tell_other_purchase(outlook) else None

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

    def _may_tell_other_purchase(self, outlook: Any) -> bool:
        if FILL_LEVELS is None or not (needs_earlier_stop(outlook) or FILL_LEVELS.needs_higher_level(outlook)):
            return False
        is_over = self.made + self.levels >= REPLANS.MOST_LEVEL_REPLANS
        return not is_over and self.level_attempts < REPLANS.MOST_LEVEL_ATTEMPTS
