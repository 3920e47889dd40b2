"""A plan is made anew on the way: what a truck is compared with, what the new plan is made from, and whether the driver
is told. When one is asked for, and what it does to the route, is in `routes/plans/replans.py`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

import numpy as np

from domain.database import Connection
from domain.documents import FuelPlanDocument, FuelStopDocument, PlanCause, TimelineEntry
from domain.planning.deviations import FuelStop, PlannedWay
from domain.planning.explanation import unpacked
from domain.planning.fuel_plan import FuelPlan
from domain.planning.plan_changes import SAVING_CHANGE
from domain.planning.plan_tasks import Task, live_now, route_to_plan, task_as_of
from domain.planning.stored_plans import ROAD_MILES
from domain.roads import Point, Road
from domain.roads.highways import NO_ROAD
from domain.statements import NotNull, Statement
from domain.stations.corridor import StationIndex

MOST_REPLANS = 2
"""Of a trip."""

_NEAR_MILES = 30.0
"""A fuel stop further from a road is not on it: no plan leads further off its road."""


class Followed(NamedTuple):
    """A route whose truck is on its way, the plan that the driver has, and the road of the newest plan: that of a plan
    made anew, even if the driver was not told of it."""

    id: UUID
    replans_en_route: bool
    may_replan: bool | None
    """It was not made anew as often as may be."""
    waits: bool | None
    """A new plan or its message is under way."""
    document: NotNull[FuelPlanDocument]
    drivers_road_miles: NotNull[float]
    road_miles: NotNull[float]
    """The whole way by the driver's plan, and by the newest one."""
    road_is_drivers: bool | None
    as_of: NotNull[datetime]
    timeline: list[TimelineEntry]
    fuel_percent: float
    fuel_at: datetime | None
    explanation: bytes | None

    def way(self, arrivals: Mapping[int, datetime]) -> PlannedWay | None:
        """What the truck is compared with; `arrivals` are those at the route's stops. None where no road is known, for
        the plan's line is straight there; and once the explanation of the plan was forgotten."""
        if self.explanation is None:
            return None
        explanation = unpacked(self.explanation)
        inputs, roads = explanation["inputs"], explanation["sources"].get("roads")
        if not inputs["distance_miles"] or (roads is not None and NO_ROAD in (roads["fallback_reason"] or "")):
            return None
        capacity_gallons = inputs["capacity_gallons"]
        line = np.array(explanation["line"], dtype=np.float64)
        line_miles = np.array(explanation["line_miles"], dtype=np.float64)
        ahead = {entry["stop"]: entry["mile"] for entry in self.timeline}
        reached = [(at, mile) for stop, at in arrivals.items() if (mile := ahead.get(stop)) is not None]
        return PlannedWay(
            line,
            line_miles,
            fuel_stops=[
                FuelStop(
                    stop["name"],
                    Point(stop["latitude"], stop["longitude"]),
                    mile,
                    100 * stop["gallonsToFill"] / capacity_gallons,
                )
                for stop, mile in zip(self.document["stops"], self._stop_miles(line, line_miles), strict=True)
            ],
            reached=sorted(reached),
            start_percent=self.fuel_percent if self.fuel_at is not None else None,
            percent_per_mile=100 / inputs["mpg"] / capacity_gallons,
        )

    def _stop_miles(self, line: np.ndarray, line_miles: np.ndarray) -> list[float | None]:
        """The road miles of the driver's fuel stops. On another plan's road, which leads to the same destination,
        each is looked for where it is as far from there as before."""
        stops = self.document["stops"]
        if self.road_is_drivers or not stops:
            return [stop["milesFromOrigin"] for stop in stops]
        road = Road(float(line_miles[-1]), line, line_miles, (), (), "")
        less = self.drivers_road_miles - self.road_miles
        passes = _index_of(stops).passes(road, _NEAR_MILES)
        return [
            min(
                (one.mile for one in passes if one.station_index == number),
                key=lambda mile, expected=stop["milesFromOrigin"] - less: abs(mile - expected),  # type: ignore[misc]
                default=None,
            )
            for number, stop in enumerate(stops)
        ]


def _index_of(stops: Sequence[FuelStopDocument]) -> StationIndex:
    return StationIndex.build(
        [stop["name"] for stop in stops], [(stop["latitude"], stop["longitude"]) for stop in stops]
    )


_MADE_ANEW = """(SELECT count(*) FROM plans made WHERE made.route_id = r.id AND made.revision = r.revision
                   AND made.cause->>'kind' IN ('off_road', 'stop_passed'))"""

_FOLLOWED = Statement(
    Followed,
    f"""
    SELECT r.id, c.replan_en_route AS replans_en_route, {_MADE_ANEW} < {MOST_REPLANS} AS may_replan,
           r.correction_id IS NOT NULL OR r.replan IS NOT NULL AS waits, p.document,
           {ROAD_MILES} AS drivers_road_miles, {ROAD_MILES.replace("p.", "road.")} AS road_miles,
           road.id = p.id AS road_is_drivers,
           coalesce(road.as_of, road.generated_at) AS as_of, road.timeline, road.fuel_percent, road.fuel_at,
           road.explanation
    FROM routes r JOIN companies c ON c.id = r.company_id
    JOIN plans p ON p.id = r.plan_id AND p.document IS NOT NULL
    CROSS JOIN LATERAL (SELECT * FROM plans n WHERE n.route_id = r.id AND n.revision = r.revision
                        ORDER BY n.generated_at DESC, n.id DESC LIMIT 1) AS road
    WHERE r.id = ANY(%s) AND r.status = 'active'
    """,  # noqa: S608 (constants of this module)
)


def followed_routes(connection: Connection, route_ids: Sequence[UUID]) -> dict[UUID, Followed]:
    return {row.id: row for row in _FOLLOWED.all(connection, (list(route_ids),))}


class _NewestPlan(NamedTuple):
    environment: str
    vehicle_id: NotNull[UUID]
    as_of: NotNull[datetime]


_TO_WATCH = Statement(
    _NewestPlan,
    f"""
    SELECT r.environment, r.vehicle_id, coalesce(road.as_of, road.generated_at) AS as_of
    FROM routes r JOIN companies c ON c.id = r.company_id
    CROSS JOIN LATERAL (SELECT * FROM plans n WHERE n.route_id = r.id AND n.revision = r.revision
                        ORDER BY n.generated_at DESC, n.id DESC LIMIT 1) AS road
    WHERE r.id = %s AND r.status = 'active' AND r.correction_id IS NULL AND c.replan_en_route
      AND {_MADE_ANEW} < {MOST_REPLANS}
    """,  # noqa: S608 (constants of this module)
)


def truck_to_watch(connection: Connection, route_id: UUID) -> _NewestPlan | None:
    """The truck of an active route, and the moment where its newest plan begins; None where it is not to be watched."""
    return _TO_WATCH.first(connection, (route_id,))


class DueReplan(NamedTuple):
    """A plan that is to be made anew."""

    replan: NotNull[PlanCause]
    plan_id: NotNull[UUID]
    """The one that the driver has."""
    document: NotNull[FuelPlanDocument]
    timeline: list[TimelineEntry]
    review_requests: int
    fuel_stops_passed: int
    at: NotNull[datetime]
    """The time of the fix that is the reason."""


_DUE = Statement(
    DueReplan,
    """
    SELECT r.replan, p.id AS plan_id, p.document, p.timeline, r.review_requests, t.fuel_stops_passed,
           (r.replan->>'at')::timestamptz AS at
    FROM routes r JOIN plans p ON p.id = r.plan_id
    JOIN tracks t ON t.vehicle_id = r.vehicle_id AND t.environment = r.environment
    WHERE r.id = %s AND r.replan IS NOT NULL AND r.review_at IS NOT NULL AND r.status = 'active'
      AND r.correction_id IS NULL AND p.document IS NOT NULL
    """,
)


@dataclass(frozen=True, slots=True)
class Replan:
    """A plan that is made anew, and what from."""

    due: DueReplan
    task: Task


def load_replan(connection: Connection, route_id: UUID, *, now: datetime) -> Replan | None:
    """A live plan is made anew from where the truck is now; a sandbox plan from where it was at the fix that is the
    reason, because the sandbox's time is simulated. None where none is due."""
    due = _DUE.first(connection, (route_id,))
    route = route_to_plan(connection, route_id) if due is not None else None
    if due is None or route is None:
        return None
    task = task_as_of(connection, route, live_now(route, now) or due.at)
    return Replan(due, task) if task.stops_left else None


def is_worth_telling(old: FuelPlanDocument, fuel_stops_passed: int, new: FuelPlan) -> bool:
    """Whether the driver is told of the new plan: a fuel stop of his is no longer ahead, or what he is to pay from here
    on changes by more than $10."""
    ahead = old["stops"][fuel_stops_passed:]
    if ahead:
        found = _index_of(ahead).passes(new.inputs.road, new.limits.max_detour_miles)
        if len({one.station_index for one in found}) < len(ahead):
            return True
    return abs(new.total_cost - sum(stop["totalCost"] for stop in ahead)) > SAVING_CHANGE
