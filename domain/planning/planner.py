"""Makes plans from their tasks: looks up the road, the offers along it, and the cheapest purchases."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime

from domain.database.connections import Connection
from domain.planning.fuel_plan import ComputedPlan, NoPlan
from domain.planning.plan_tasks import PlanTask, arrivals_on, road_ahead
from domain.planning.relaxation import FURTHEST_DETOUR_MILES
from domain.planning.stored_plans import plan_for_task
from domain.planning.ways_out import HardFloor
from domain.roads import Road, Roads
from domain.settings import Settings
from domain.stations.corridor_offers import Corridor, StationPlaces, offers_along


@dataclass(frozen=True, slots=True)
class Planner:
    """The resources that plans are made with.

    - `snapshots`: opens a transaction that is a snapshot.
    - `most_passes`: a road past more stations than that is refused, where somebody waits for the plan."""

    settings: Settings
    snapshots: Callable[[], AbstractContextManager[Connection]]
    roads: Roads
    network: StationPlaces
    most_passes: int | None = None

    def plan(self, task: PlanTask, now: datetime) -> tuple[Corridor, ComputedPlan | NoPlan]:
        """Computes a plan. No transaction is open while the road is looked up and the plan is computed. Raises
        TooManyPasses."""
        road = road_ahead(task, self.roads).up_to(self.settings.plan_horizon_miles)
        detour_miles = task.policy.max_detour_miles
        corridor = self._corridor(task, road, detour_miles, now)
        hard_floor = HardFloor.of(self.settings)
        plan = plan_for_task(task, road, corridor, hard_floor=hard_floor, now=now)
        if isinstance(plan, NoPlan):
            further = self._corridor(task, road, max(detour_miles, FURTHEST_DETOUR_MILES), now)
            plan = plan_for_task(task, road, corridor, further=further, hard_floor=hard_floor, now=now)
        return corridor, plan

    def _corridor(self, task: PlanTask, road: Road, miles: float, now: datetime) -> Corridor:
        with self.snapshots() as connection:
            return offers_along(
                connection,
                task.route.company_id,
                road,
                miles,
                self.network,
                now=now,
                arrivals=arrivals_on(task, road),
                most_passes=self.most_passes,
            )
