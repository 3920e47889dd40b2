"""Gives a plan's task the burn that the levels of its own trip show, and tells the truck's fuel on the way to its next
stop."""

from dataclasses import replace
from datetime import datetime

from domain.burn.figures import Burn
from domain.burn.shortfalls import Outlook
from domain.database.connections import Connection
from domain.planning.plan_tasks import PlanTask, RouteToPlan
from domain.routes.plans.fuel_outlooks import FuelAhead, TruckOnTrip, fuel_ahead, fuel_of_trips
from domain.routes.visits import load_visits


def with_measured_burn(connection: Connection, task: PlanTask) -> tuple[PlanTask, Outlook | None]:
    """The task of a truck on its way with the burn that the trip's own levels show; and its fuel on the way to the
    driver's next stop, None where its levels tell nothing."""
    ahead = _fuel_ahead(connection, task.route, task.as_of)
    return (_as_measured(task, ahead), ahead.outlook) if ahead is not None else (task, None)


def _fuel_ahead(connection: Connection, route: RouteToPlan, as_of: datetime) -> FuelAhead | None:
    trip = fuel_of_trips(connection, [route.id]).get(route.id)
    if trip is None:
        return None
    visits = load_visits(connection, [route.id]).get(route.id, {})
    truck = TruckOnTrip(trip, {stop: visit.arrived_at for stop, visit in visits.items()}, as_of)
    return fuel_ahead(connection, trip.environment, [truck]).get(trip.vehicle_id)


def _as_measured(task: PlanTask, ahead: FuelAhead) -> PlanTask:
    """The task with the burn that the trip's own levels show, where they contradict the figure of the plan before, and
    with the level of several readings in place of the newest one. A plan keeps the burn that was measured for the plan
    before until its levels show another."""
    outlook = ahead.outlook
    if outlook is None or not outlook.burns_otherwise:
        if ahead.measured_mpg is None:
            return task
        return replace(task, burn=Burn(ahead.measured_mpg, "measured", instead_of_mpg=task.burn.mpg))
    spread_percent = round(100 * outlook.burn_spread, 2)
    burn = Burn(
        round(outlook.mpg, 2),
        "measured",
        instead_of_mpg=outlook.planned.mpg,
        measured_spread_percent=spread_percent,
    )
    fuel = task.fuel
    if fuel is not None and fuel.is_believed and ahead.is_current:
        fuel = replace(fuel, gauge=fuel.gauge._replace(percent=round(outlook.level_percent, 1)))
    return replace(task, burn=burn, fuel=fuel)
