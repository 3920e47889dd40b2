"""The tasks of planning, read from the tables: the route, its truck, the fuel on board, the stops left."""

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

import msgspec

from domain.accounts.companies import read_plan_policy
from domain.accounts.policy import PlanPolicy
from domain.burn.figures import DEFAULT_CAPACITY_GALLONS, Burn
from domain.burn.stored_figures import figure_for_plan
from domain.database.connections import Connection, Tenant
from domain.database.statements import NotNull, Statement
from domain.documents import StopDocument
from domain.driven_lanes.lanes import LearnedLane, learned_lane_for
from domain.driven_lanes.road_by_lane import road_by_lane
from domain.fleet.dimensions import dimensions_of
from domain.lifecycle import Environment
from domain.planning.fuel_on_board import FuelOnBoard, Tank, read_fuel
from domain.planning.menu import Wanted
from domain.planning.schedule import arrivals_along
from domain.roads import Point, Road, Roads, great_circle_miles
from domain.roads.implausible_fixes import plausible_fixes
from domain.roads.sphere import stop_point
from domain.stations.corridor_offers import Arrivals

_MOST_FIXES = 1_000
_FIXES_COMPARED = 20
_SAME_PLACE_MILES = 1.0
"""A truck within this distance of where it arrived is still at its stop."""


class RouteToPlan(NamedTuple):
    """A route whose truck has arrived, with its vehicle and what its company decides about messages."""

    id: UUID
    company_id: UUID
    environment: str
    external_id: str
    reference: str | None
    revision: int
    stops: list[StopDocument]
    scheduled_start: datetime
    vehicle_id: NotNull[UUID]
    driver_id: NotNull[UUID]
    arrived_at: NotNull[datetime]
    unit_number: str | None
    fuel_tank_capacity_gallons: float | None
    height_feet: float | None
    width_feet: float | None
    length_feet: float | None
    weight_pounds: float | None
    axle_weight_pounds: float | None
    axle_count: int | None
    hazmat: str | None
    time_zone: str
    map_link: str
    prices_for_drivers: bool
    language: str | None
    """The driver's language, as it is stored."""
    newest_at: datetime | None
    """The time of the truck's newest fix."""
    refused: dict[str, str] | None = None
    """Stations at which its driver cannot fuel, or which its truck found closed on another route, each with the moment
    until which its plans leave it out."""

    @property
    def refused_until(self) -> dict[str, datetime]:
        return {station: datetime.fromisoformat(until) for station, until in (self.refused or {}).items()}


@dataclass(frozen=True, slots=True)
class PlanTask:
    """A plan to make: the route, and as of one moment the truck's place, the fuel on board, the stops left, and when
    the truck goes on.

    `as_of` is that moment: now for a live route, the time of a fix in the sandbox, where time is simulated. `lane` is
    the lane of the stops, where the company's trucks agree on its road. `position_at` is when the truck was at
    `position`; None where only the stop that it reached is known."""

    route: RouteToPlan
    policy: PlanPolicy
    as_of: datetime
    position: Point
    position_at: datetime | None
    fuel: FuelOnBoard | None
    burn: Burn
    stops_left: tuple[int, ...]
    departure: datetime
    lane: LearnedLane | None = None
    level_at: Point | None = None
    """The driver's next fuel stop, where the plan is made to tell him a higher level."""
    wanted: Wanted | None = None
    """The choice that the driver has taken, where the plan is made for it or keeps it."""

    @property
    def read_percent(self) -> float:
        """The level of the truck's reading, believed or not, with which later readings are compared. The policy's
        assumed level where nothing is known."""
        return self.fuel.percent if self.fuel is not None else self.policy.assumed_fuel_percent

    @property
    def opens(self) -> list[datetime | None]:
        """The opening of the arrival window of each point of the road after the first."""
        return [opening_of(self.route.stops[stop]) for stop in self.stops_left] or [None]

    @property
    def newest_percent(self) -> float:
        """The newest level that counts, or a higher one that waits for a second reading: the tank may be filling."""
        doubted = self.fuel.doubted if self.fuel is not None else None
        return max(self.read_percent, doubted.percent) if doubted is not None else self.read_percent


_ROUTE = """
    SELECT r.id, r.company_id, r.environment, r.external_id, r.reference, r.revision, r.stops, r.scheduled_start,
           r.vehicle_id, r.driver_id, r.arrived_at,
           v.unit_number, v.fuel_tank_capacity_gallons,
           v.height_feet, v.width_feet, v.length_feet, v.weight_pounds, v.axle_weight_pounds, v.axle_count, v.hazmat,
           c.time_zone, c.map_link, c.prices_for_drivers, d.language, t.newest_at,
           (SELECT jsonb_object_agg(a.station_id, a.until)
            FROM (SELECT station_id, max(left_out_until) AS until FROM (
                      SELECT station_id, left_out_until FROM driver_answers
                      WHERE route_id = r.id AND left_out_until IS NOT NULL
                      UNION ALL
                      SELECT found.station_id, found.left_out_until
                      FROM driver_answers found JOIN routes before ON before.id = found.route_id
                      WHERE found.left_out_until > r.arrived_at AND found.reason = 'closed'
                        AND found.company_id = r.company_id AND found.environment = r.environment
                        AND before.vehicle_id = r.vehicle_id) AS told
                  WHERE station_id IS NOT NULL GROUP BY station_id) AS a) AS refused
    FROM routes r JOIN vehicles v ON v.id = r.vehicle_id JOIN companies c ON c.id = r.company_id
    JOIN drivers d ON d.id = r.driver_id
    LEFT JOIN tracks t ON t.vehicle_id = r.vehicle_id AND t.environment = r.environment
    WHERE r.id = %s AND r.arrived_at IS NOT NULL
"""
_ARRIVED_ROUTE = Statement(RouteToPlan, _ROUTE)
_DRAFT_TO_PLAN = Statement(RouteToPlan, _ROUTE + "AND r.status = 'draft'")


def load_plan_task(connection: Connection, route_id: UUID, *, now: datetime) -> PlanTask | None:
    """The task of a route's first plan; None when no plan is due. A live plan starts where the truck is now. A plan in
    the sandbox, where time is simulated, starts at the newest fix from the first stop."""
    route = _DRAFT_TO_PLAN.first(connection, (route_id,))
    if route is None:
        return None
    return plan_task_as_of(connection, route, live_now(route, now) or newest_at_first_stop(connection, route))


def route_to_plan(connection: Connection, route_id: UUID) -> RouteToPlan | None:
    """A route of any status, ready to plan; None before its truck has arrived."""
    return _ARRIVED_ROUTE.first(connection, (route_id,))


def live_now(route: RouteToPlan, now: datetime) -> datetime | None:
    """The moment of a live plan: now, or the time of the truck's newest fix where the truck's clock is a little ahead,
    or of its arrival where a dispatcher entered that before the service's clock was set back. None in the sandbox."""
    if route.environment != Environment.LIVE:
        return None
    return max(now, route.arrived_at, route.newest_at or now)


class TruckFix(NamedTuple):
    """A fix of a truck, with what a comparison with others needs."""

    latitude: float
    longitude: float
    recorded_at: datetime
    accuracy_meters: float | None


_SINCE_ARRIVAL = Statement(
    TruckFix,
    "SELECT p.latitude, p.longitude, p.recorded_at, p.accuracy_meters FROM positions arrival"
    " JOIN positions p ON p.vehicle_id = arrival.vehicle_id AND p.environment = arrival.environment"
    " AND p.recorded_at >= arrival.recorded_at AND p.received_at >= arrival.received_at AND NOT p.implausible"
    " WHERE arrival.vehicle_id = %s AND arrival.environment = %s AND arrival.recorded_at = %s"
    " ORDER BY p.recorded_at LIMIT %s",
)
"""The fix of the arrival, and fixes posted with it or later. An earlier rehearsal may have been of a later simulated
day."""


def newest_at_first_stop(connection: Connection, route: RouteToPlan) -> datetime:
    """The time of the truck's newest fix from the stop that it reached first. Without a fix there, the time of the
    arrival that a dispatcher entered."""
    parameters = (route.vehicle_id, route.environment, route.arrived_at, _MOST_FIXES)
    newest = route.arrived_at
    arrival: Point | None = None
    for fix in _SINCE_ARRIVAL.all(connection, parameters):
        place = Point(fix.latitude, fix.longitude)
        arrival = arrival or place
        if great_circle_miles(arrival, place) > _SAME_PLACE_MILES:
            break
        newest = fix.recorded_at
    return newest


_NEWEST = Statement(
    TruckFix,
    "SELECT latitude, longitude, recorded_at, accuracy_meters FROM positions WHERE vehicle_id = %s AND environment = %s"
    " AND recorded_at <= %s AND NOT implausible ORDER BY recorded_at DESC LIMIT %s",
)


def newest_plausible_fix(
    connection: Connection, vehicle_id: UUID, environment: str, as_of: datetime
) -> TruckFix | None:
    """The truck's newest plausible fix by then. Far from stops fixes carry no flag, so they are compared here."""
    newest = _NEWEST.all(connection, (vehicle_id, environment, as_of, _FIXES_COMPARED))
    return next(reversed(plausible_fixes(newest[::-1], environment)), None)


def plan_task_as_of(connection: Connection, route: RouteToPlan, as_of: datetime) -> PlanTask:
    """The task of planning the route as of that moment."""
    visits = _visits(connection, route.id, as_of)
    if len(route.stops) - 1 in visits:  # the whole route is driven already: plan it as it was at the start
        as_of = route.arrived_at
        visits = _visits(connection, route.id, as_of)
    reached = max(visits, default=-1)
    truck = newest = newest_plausible_fix(connection, route.vehicle_id, route.environment, as_of)
    visit = visits.get(reached)
    tenant = Tenant(route.company_id, Environment(route.environment))
    burn = figure_for_plan(connection, tenant, route.vehicle_id)
    if truck is not None and visit is not None and truck.recorded_at < visit.arrived_at:
        truck = None  # a dispatcher entered the arrival, and no position came in since: the truck is at that stop
    at_first_stop = reached == 0 and visit is not None and (visit.departed_at is None or visit.departed_at > as_of)
    return PlanTask(
        route=route,
        policy=read_plan_policy(connection, route.company_id),
        as_of=as_of,
        position=Point(truck.latitude, truck.longitude) if truck is not None else stop_point(route.stops[reached]),
        position_at=truck.recorded_at if truck is not None else None,
        fuel=read_fuel(
            connection,
            Tank(
                route.vehicle_id,
                route.environment,
                capacity_gallons=route.fuel_tank_capacity_gallons or DEFAULT_CAPACITY_GALLONS,
                mpg=burn.mpg,
            ),
            as_of,
            newest_fix_at=newest.recorded_at if newest is not None else None,
        ),
        burn=burn,
        stops_left=tuple(range(reached + 1, len(route.stops))),
        departure=max(as_of, route.scheduled_start) if at_first_stop else as_of,
        lane=learned_lane_for(
            connection,
            tenant,
            [stop_point(stop) for stop in route.stops],
            as_of=as_of,
        ),
    )


class _Visit(NamedTuple):
    stop: int
    arrived_at: datetime
    departed_at: datetime | None


_VISITS = Statement(_Visit, "SELECT stop, arrived_at, departed_at FROM visits WHERE route_id = %s AND arrived_at <= %s")


def _visits(connection: Connection, route_id: UUID, as_of: datetime) -> dict[int, _Visit]:
    """The stops that were reached by the moment."""
    return {row.stop: row for row in _VISITS.all(connection, (route_id, as_of))}


def opening_of(stop: StopDocument) -> datetime | None:
    """When the arrival window of a stop opens; None where that is not known."""
    opens = stop.get("arrivalWindow", {}).get("start")
    return msgspec.convert(opens, datetime) if opens is not None else None


def arrivals_on(task: PlanTask, road: Road) -> Arrivals:
    """Tells when the truck arrives at miles of its road, by which the prices there are read. The plan's fuel stops are
    not known yet, so each one on the way makes the truck half an hour later than told."""
    return lambda miles: arrivals_along(road, task.departure, task.opens, miles)[0]


def road_ahead(task: PlanTask, roads: Roads) -> Road:
    """The road from the truck through the stops that are left: the driven road of their lane where there is one."""
    stops = [stop_point(stop) for stop in task.route.stops]
    truck = dimensions_of(task.route)
    if task.lane is not None:
        driven = road_by_lane(task.lane, task.position, stops, task.stops_left, roads, truck)
        if driven is not None:
            return driven
    left = [stops[stop] for stop in task.stops_left]
    return roads.through([task.position, *(left or [task.position])], truck)
