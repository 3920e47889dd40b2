"""Dispatch by the rules alone: the pure functions of the domain, without a database, a queue or a clock.

It takes the steps that the workers take: the level that counts, the plan, its message, the comparison of each fix with
the plan, the new plan, and whether the driver is told.
"""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from domain.accounts.policy import PlanPolicy
from domain.messages.message_text import compose
from domain.planning.deviations import Deviation, NextComparison, PlannedWay, TrackedFix, find_deviation
from domain.planning.directions import directions_of
from domain.planning.fuel_plan import ComputedPlan, compute_plan
from domain.planning.gauges import Reading, judge_newest_reading
from domain.planning.second_readings import count_readings
from domain.routes.plans.deviating_trucks import Followed
from domain.routes.plans.replans import MOST_REPLANS, _is_worth_telling
from domain.stations.offers import Offer
from tests.benchmarks.truth.driver import Fix, Order
from tests.benchmarks.truth.network import rest_of
from tests.benchmarks.truth.orders import orders_of
from tests.benchmarks.truth.versions import figure_of, mpg_of, plan_inputs
from tests.benchmarks.truth.world import Trip
from tests.domain.planning.plans import usual_policy

MESSAGE = UUID(int=0)


class Rules:
    """The dispatch of one truck, trip after trip. `replans_en_route` is the policy's switch for trucks that pass a fuel
    stop without fueling."""

    def __init__(self, *, replans_en_route: bool = False) -> None:
        self.policy: PlanPolicy = usual_policy()
        self.replans_en_route = replans_en_route
        self.way: PlannedWay | None = None
        self.plan: ComputedPlan | None = None
        self.next: NextComparison | None = None

    def begin(self, trip: Trip, fix: Fix) -> Sequence[Order]:
        self.trip, self.fixes = trip, [fix]
        self.way, self.plan = None, None
        self.replans, self.passed = 0, 0
        plan = self._plan(fix)
        if not isinstance(plan, ComputedPlan):
            return []
        self._take(plan, fix)
        self.plan = plan
        return self._told(plan, fix)

    def see(self, fix: Fix) -> Sequence[Order] | None:
        self.fixes.append(fix)
        if self.way is None or not self.replans_en_route or self.replans >= MOST_REPLANS:
            return None
        if self.next is not None and fix.at < self.next.at:
            return None
        since = self.next.since if self.next is not None else self.plan_fix.at
        fixes = [self._tracked(one) for one in self.fixes if one.at >= since]
        deviation, self.next = find_deviation(
            self.way,
            fixes,
            fuel_stops_passed=self.passed,
            history=lambda: [self._tracked(one) for one in self.fixes if one.at >= self.plan_fix.at],
            newest_decides=True,
        )
        self.passed = self.next.fuel_stops_passed
        return self._replan(fix, deviation) if deviation is not None else None

    def end(self, fix: Fix) -> None:
        pass

    def _plan(self, fix: Fix) -> Any:
        """The plan from the truck's place, with its offers ahead."""
        trip = self.trip
        ahead = [one._replace(mile=one.mile - fix.mile) for one in trip.offers if one.mile >= fix.mile]
        inputs = plan_inputs(
            road=rest_of(trip.road, fix.mile) if fix.mile else trip.road,
            fuel_percent=self._level_percent(),
            policy=self.policy,
            offers=self._near(ahead),
            further_offers=ahead,
            departure=fix.at,
            capacity_gallons=trip.truck.capacity_gallons,
            burn=figure_of(trip.truck.declared_mpg),
        )
        return compute_plan(inputs)

    def _near(self, offers: Sequence[Offer]) -> list[Offer]:
        return [one for one in offers if one.detour_miles <= self.policy.max_detour_miles]

    def _level_percent(self) -> float:
        """The level that counts, as `fuel_on_board` reads it."""
        mpg, capacity = mpg_of(figure_of(self.trip.truck.declared_mpg)), self.trip.truck.capacity_gallons
        readings = [Reading(one.percent, one.at, self.trip.place_at(one.mile)) for one in self.fixes]
        counted = count_readings(readings, mpg=mpg, capacity_gallons=capacity).counted
        return judge_newest_reading(counted, mpg=mpg, capacity_gallons=capacity).level_percent

    def _tracked(self, fix: Fix) -> TrackedFix:
        return TrackedFix(fix.at, *self.trip.place_at(fix.mile), fix.percent)

    def _take(self, plan: ComputedPlan, fix: Fix, *, document: Any = None, drivers_miles: float = 0.0) -> None:
        """The truck is compared with this plan from here on. `document` is the driver's plan where he keeps it."""
        road_miles = plan.inputs.road_miles
        known: dict[str, Any] = {
            "document": document or plan.document(),
            "drivers_road_miles": drivers_miles or road_miles,
            "road_miles": road_miles,
            "road_is_drivers": document is None,
            "as_of": fix.at,
            "timeline": [],
            "fuel_percent": plan.inputs.fuel_percent,
            "fuel_at": fix.at,
            "explanation": plan.packed_explanation,
        }
        followed = Followed._make(known.get(name) for name in Followed._fields)
        self.way = followed.way({})
        self.document, self.road_miles = followed.document, followed.drivers_road_miles
        self.plan_fix, self.next = fix, None
        self.passed = 0 if document is None else self.passed

    def _told(self, plan: ComputedPlan, fix: Fix) -> list[Order]:
        """The message as the driver reads it."""
        text = compose(
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
        return orders_of(self.trip, text, plan.document(), fix.mile)

    def _replan(self, fix: Fix, deviation: Deviation) -> Sequence[Order] | None:
        plan = self._plan(fix)
        self.replans += 1
        if not isinstance(plan, ComputedPlan):
            return None
        if not _is_worth_telling(self.document, self.passed, plan):
            self._take(plan, fix, document=self.document, drivers_miles=self.road_miles)
            return None
        self._take(plan, fix)
        return self._told(plan, fix)
