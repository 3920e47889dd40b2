"""Dispatch by the rules alone: the pure functions of the domain, without a database, a queue or a clock.

It takes the steps that the workers take: the level that counts, the plan, its message, the comparison of each fix with
the plan, the new plan, and whether the driver is told.
"""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from domain.accounts.policy import PlanPolicy
from domain.messages.message_text import compose
from domain.planning.deviations import NextComparison, PlannedWay, TrackedFix, find_deviation
from domain.planning.directions import directions_of
from domain.planning.fuel_plan import ComputedPlan, NoPlan
from domain.planning.gauges import Reading, judge_newest_reading
from domain.planning.second_readings import count_readings
from domain.routes.plans.deviating_trucks import Followed
from domain.routes.plans.replans import MOST_REPLANS
from domain.stations.offers import Offer
from tests.benchmarks.truth.driver import Fix, Order
from tests.benchmarks.truth.fuel_watch import SHORTFALLS, FuelWatch, WatchedPlan
from tests.benchmarks.truth.learning import TruckHistory
from tests.benchmarks.truth.network import rest_of
from tests.benchmarks.truth.orders import orders_of
from tests.benchmarks.truth.versions import (
    MENU,
    is_worth_telling,
    measured,
    mpg_of,
    plan_for_level,
    plan_inputs,
    plan_of,
)
from tests.benchmarks.truth.world import Trip
from tests.domain.planning.plans import usual_policy

MESSAGE = UUID(int=0)


class Rules:
    """The dispatch of one truck, trip after trip. `replans_en_route` is the policy's switch for trucks that pass a fuel
    stop without fueling. Each plan keeps `margin_percent` of the tank more than the reserve."""

    def __init__(self, *, replans_en_route: bool = False, margin_percent: float = 0.0) -> None:
        usual = usual_policy()
        self.policy: PlanPolicy = usual._replace(reserve_percent=usual.reserve_percent + margin_percent)
        self.history = TruckHistory()
        self.burn: Any = None
        self.replans_en_route = replans_en_route
        self.way: PlannedWay | None = None
        self.plan: ComputedPlan | None = None
        self.next: NextComparison | None = None
        self.fuel: FuelWatch | None = None

    def begin(self, trip: Trip, fix: Fix) -> Sequence[Order]:
        self.trip, self.fixes = trip, [fix]
        self.way, self.plan, self.fuel = None, None, None
        self.replans, self.passed, self.refused = 0, 0, set[str]()
        self.burn = self.history.burn(trip.truck.declared_mpg)
        plan = self._plan(fix, self.burn, self._level_percent())
        if not isinstance(plan, ComputedPlan):
            return []
        self.plan = plan
        return self._tell(plan, fix)

    def see(self, fix: Fix) -> Sequence[Order] | None:
        self.fixes.append(fix)
        if self.plan is None:
            return None
        short = self.fuel.see(self.fixes) if self.fuel is not None else None
        if short is not None:
            return self._replan(fix, *short)
        if self._has_deviated(fix):
            return self._replan(fix, "stop_passed", self._outlook(), self.passed)
        return self._choose(fix)

    def end(self, fix: Fix) -> None:
        truck = self.trip.truck
        fixes = [*self.fixes, fix]
        self.history.add(fixes, capacity_gallons=truck.capacity_gallons, declared_mpg=truck.declared_mpg)

    def _has_deviated(self, fix: Fix) -> bool:
        if self.way is None or not self.replans_en_route or self.replans >= MOST_REPLANS:
            return False
        if self.next is not None and fix.at < self.next.at:
            return False
        since = self.next.since if self.next is not None else self.plan_fix.at
        deviation, self.next = find_deviation(
            self.way,
            [self._tracked(one) for one in self.fixes if one.at >= since],
            fuel_stops_passed=self.passed,
            history=lambda: [self._tracked(one) for one in self.fixes if one.at >= self.plan_fix.at],
            newest_decides=True,
        )
        self.passed = self.next.fuel_stops_passed
        return deviation is not None

    def _outlook(self) -> Any:
        return self.fuel.outlook(self.fixes)[0] if self.fuel is not None else None

    def _plan(
        self, fix: Fix, burn: Any, percent: float, level_at: tuple[float, float] | None = None
    ) -> ComputedPlan | NoPlan:
        """The plan from the truck's place, with its offers ahead; `level_at` is the stop where it tells a new level."""
        trip = self.trip
        ahead = [
            one._replace(mile=one.mile - fix.mile)
            for one in trip.offers
            if one.mile >= fix.mile and one.station.station_id not in self.refused
        ]
        inputs = plan_inputs(
            road=rest_of(trip.road, fix.mile) if fix.mile else trip.road,
            fuel_percent=percent,
            policy=self.policy,
            offers=self._near(ahead),
            further_offers=ahead,
            departure=fix.at,
            capacity_gallons=trip.truck.capacity_gallons,
            burn=burn,
        )
        return plan_of(inputs) if level_at is None else plan_for_level(inputs, level_at)

    def _near(self, offers: Sequence[Offer]) -> list[Offer]:
        return [one for one in offers if one.detour_miles <= self.policy.max_detour_miles]

    def _level_percent(self) -> float:
        """The level that counts, as `fuel_on_board` reads it."""
        mpg, capacity = mpg_of(self.burn), self.trip.truck.capacity_gallons
        readings = [Reading(one.percent, one.at, self.trip.place_at(one.mile)) for one in self.fixes]
        counted = count_readings(readings, mpg=mpg, capacity_gallons=capacity).counted
        return judge_newest_reading(counted, mpg=mpg, capacity_gallons=capacity).level_percent

    def _tracked(self, fix: Fix) -> TrackedFix:
        return TrackedFix(fix.at, *self.trip.place_at(fix.mile), fix.percent)

    def _tell(self, plan: ComputedPlan, fix: Fix, *, kind: str = "") -> list[Order]:
        """The driver gets the plan, and is compared with it from here on."""
        self.document, self.document_from = plan.document(), fix.mile
        self.drivers_miles, self.drivers_kind, self.passed = plan.inputs.road_miles, kind, 0
        self._watch(plan, fix, kind=kind)
        self.told = orders_of(self.trip, self._text(plan, fix), self.document, fix.mile)
        return self.told

    def _text(self, plan: ComputedPlan, fix: Fix) -> str:
        return compose(
            MESSAGE,
            "LOAD-1",
            "101",
            [{"name": "Start"}, {"name": "End"}],
            plan.document(),
            planned_at=fix.at,
            time_zone="UTC",
            directions=directions_of(plan),
            low_fuel=plan.is_low_on_fuel,
            road_miles=plan.inputs.road_miles,
        )

    def _watch(self, plan: ComputedPlan, fix: Fix, *, kind: str) -> None:
        """Compares the truck with the road of its newest plan, and with the driver's fuel stops."""
        self.plan_fix, self.next = fix, None
        known: dict[str, Any] = {
            "document": self.document,
            "drivers_road_miles": self.drivers_miles,
            "road_miles": plan.inputs.road_miles,
            "road_is_drivers": self.document_from == fix.mile,
            "as_of": fix.at,
            "timeline": [],
            "fuel_percent": plan.inputs.fuel_percent,
            "fuel_at": fix.at,
            "explanation": plan.packed_explanation,
        }
        if self.replans_en_route:
            self.way = Followed._make(known.get(name) for name in Followed._fields).way({})
        if SHORTFALLS is not None:
            watched = WatchedPlan(
                begins=fix._replace(percent=plan.inputs.start_percent),
                end_mile=self.trip.road.distance_miles,
                mpg=plan.trip.mpg,
                capacity_gallons=plan.inputs.rated_gallons,
                stops=self.document["stops"],
                stops_from_mile=self.document_from,
                kind=kind,
                keeps_stop=self.drivers_kind == "level",
            )
            before = self.fuel
            counts = (before.made, before.levels, before.level_attempts) if before is not None else ()
            self.fuel = FuelWatch(watched, *counts)

    def _choose(self, fix: Fix) -> Sequence[Order] | None:
        """New orders for a driver who says that he cannot go to his next fuel stop: a choice of his menu, or the plan
        without that stop. None where he goes there."""
        most = self.trip.world.chooses_within
        stop = next((one.offer for one in self.told if one.offer.mile > fix.mile), None)
        if most is None or MENU is None or stop is None or not self.trip.is_skipped(stop):
            return None
        kept = self._plan(fix, self.burn, self._level_percent())
        self.refused.add(stop.station.station_id)
        choices = MENU.find_choices(kept) if isinstance(kept, ComputedPlan) else ()
        plan = next((one.plan for one in choices if one.extra <= most and self._goes_there(one.plan)), None)
        plan = plan or self._plan(fix, self.burn, self._level_percent())
        return self._tell(plan, fix) if isinstance(plan, ComputedPlan) else None

    def _goes_there(self, plan: ComputedPlan) -> bool:
        first = plan.inputs.offers[plan.purchases[0].candidate_index] if plan.purchases else None
        return first is None or not self.trip.is_skipped(first)

    def _replan(self, fix: Fix, kind: str, outlook: Any, passed: int) -> Sequence[Order] | None:
        """A new plan, with the burn that the trip's own levels show; None where the driver is not told."""
        burn, percent = self.burn, self._level_percent()
        if outlook is not None and outlook.burns_otherwise:
            burn = self.burn = measured(outlook)
            percent = round(outlook.level_percent, 1)
        level_at = self._place_of_stop(passed) if kind == "level" else None
        plan = self._plan(fix, burn, percent, level_at)
        self.replans += kind == "stop_passed"
        if self.fuel is not None:
            self.fuel.level_attempts += kind == "level"
        if not isinstance(plan, ComputedPlan):
            return None
        if not is_worth_telling(kind, self.document, passed, outlook, plan):
            self._watch(plan, fix, kind=kind)
            return None
        if self.fuel is not None:
            self.fuel.made += kind == "burn"
            self.fuel.levels += kind == "level"
        return self._tell(plan, fix, kind=kind)

    def _place_of_stop(self, number: int) -> tuple[float, float]:
        stop = self.document["stops"][number]
        return stop["latitude"], stop["longitude"]
