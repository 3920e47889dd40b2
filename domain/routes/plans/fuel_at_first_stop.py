"""Tells if the tank at the first stop held another level than the plan was made with: the driver fueled there, or the
gauge was wrong."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple, Protocol

from domain.burn.figures import DEFAULT_CAPACITY_GALLONS
from domain.database.connections import Connection
from domain.database.statements import NotNull, Statement
from domain.documents import FuelPlanDocument, StopDocument
from domain.planning.gauges import Reading
from domain.planning.plan_changes import fuel_changed, is_about, level_on_leaving, percent_bought_at_stop
from domain.planning.plan_tasks import PlanTask, RouteToPlan
from domain.planning.second_readings import count_readings, zero_counts
from domain.roads import CIRCUITY, Point, great_circle_miles
from domain.roads.sphere import stop_point

_READINGS = 10
"""Most readings that are read, the newest. Two are compared, but those from further along the road may say nothing."""


class PlanWithFuel(Protocol):
    """A plan, the level by which it was made, when that was measured, and when the truck left its first stop."""

    @property
    def document(self) -> FuelPlanDocument: ...
    @property
    def fuel_percent(self) -> float: ...
    @property
    def fuel_at(self) -> datetime | None: ...
    @property
    def departed_at(self) -> datetime | None: ...


class _ReadingAtStop(NamedTuple):
    fuel_percent: NotNull[float]
    recorded_at: datetime
    latitude: float
    longitude: float
    stop: StopDocument
    """The first stop that was reached."""

    def road_miles(self) -> float:
        """The miles of the road from that stop."""
        return CIRCUITY * great_circle_miles(stop_point(self.stop), Point(self.latitude, self.longitude))


_READINGS_AT_FIRST_STOP = Statement(
    _ReadingAtStop,
    """
    SELECT f.fuel_percent, f.recorded_at, f.latitude, f.longitude,
           r.stops->coalesce((SELECT min(stop) FROM visits WHERE route_id = r.id), 0) AS stop
    FROM routes r JOIN positions f ON f.vehicle_id = r.vehicle_id AND f.environment = r.environment
    WHERE r.id = %(id)s AND f.recorded_at BETWEEN r.arrived_at AND %(until)s
      AND (%(fuel_at)s::timestamptz IS NULL OR f.recorded_at > %(fuel_at)s)
      AND f.fuel_percent IS NOT NULL AND NOT f.implausible
    ORDER BY f.recorded_at DESC LIMIT %(most)s
    """,
)


def has_other_fuel(connection: Connection, task: PlanTask, plan: PlanWithFuel, *, until: datetime) -> bool:
    """True if the tank at the first stop held another level than the plan was made with. `until` is when the truck left
    the stop, or now. Later readings are left out, because the trip burns fuel and later stops fill the tank."""
    route = task.route
    rows = _READINGS_AT_FIRST_STOP.all(
        connection, {"id": route.id, "until": until, "fuel_at": plan.fuel_at, "most": _READINGS}
    )
    mpg, capacity = task.burn.mpg, route.fuel_tank_capacity_gallons or DEFAULT_CAPACITY_GALLONS
    counted = {one.recorded_at for one in _counted(rows, route, mpg=mpg, capacity_gallons=capacity)}
    levels = [
        level_on_leaving(row.fuel_percent, row.road_miles(), mpg=mpg, capacity_gallons=capacity, plan=plan.document)
        for row in rows
        if row.recorded_at in counted
    ]
    counting = [level for level in levels if level is not None]
    bought = percent_bought_at_stop(plan.document, capacity_gallons=capacity)
    return fuel_changed(plan.fuel_percent, counting, departed=plan.departed_at is not None) and not (
        bought and counting and is_about(plan.fuel_percent + bought, counting)
    )


def _counted(
    rows: Sequence[_ReadingAtStop], route: RouteToPlan, *, mpg: float, capacity_gallons: float
) -> Sequence[Reading]:
    """The readings that count, from rows with the newest first."""
    return count_readings(
        [Reading(row.fuel_percent, row.recorded_at, Point(row.latitude, row.longitude)) for row in reversed(rows)],
        mpg=mpg,
        capacity_gallons=capacity_gallons,
        zero_counts=zero_counts(route.environment),
    ).counted
