"""The task of planning a load that may never be driven, read from the tables: its stops, its truck, the fuel on board.

A route whose truck has reached its first stop is planned as it would be now. Any other load begins at its first stop,
as soon as its start."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import pairwise
from typing import NamedTuple
from uuid import UUID

from domain.accounts.companies import read_plan_policy
from domain.burn.figures import DEFAULT_CAPACITY_GALLONS, UNKNOWN_BURN, Burn
from domain.burn.stored_figures import figure_for_plan
from domain.contract.checking import Invalid
from domain.contract.shapes import FieldFault
from domain.database.connections import Connection, Tenant
from domain.database.statements import Statement
from domain.documents import ArrivalWindowDocument, StopDocument
from domain.driven_lanes.lanes import learned_lane_for
from domain.encoding import utc_text
from domain.ids import read_id
from domain.lifecycle import Environment, MapLink, RouteStatus
from domain.planning.fuel_on_board import FuelOnBoard, Tank, read_fuel
from domain.planning.gauges import Gauge, Reading
from domain.planning.plan_tasks import (
    PlanTask,
    RouteToPlan,
    live_now,
    newest_at_first_stop,
    plan_task_as_of,
    route_to_plan,
)
from domain.previews.shapes import LONGEST_MILES, PreviewInput, PreviewStopInput, PreviewVehicleInput, policy_with
from domain.previews.towns import NamedTown, UnknownTown, default_towns
from domain.roads import great_circle_miles
from domain.roads.sphere import stop_point
from domain.routes.plans.choices import choice_ahead
from domain.routes.plans.made_choices import KeptChoice
from domain.routes.plans.measured_burn import with_measured_burn
from domain.telematics.feed import vehicles_named

_NOBODY = UUID(int=0)
"""Stands for the route, the truck and the driver of a load that has none."""


class NoSuchRoute(Exception):
    """The route that was named is none of the tenant's."""


@dataclass(frozen=True, slots=True)
class PreviewTask:
    """A load to plan. `route` is the stored route, where one was named; `truck` the one of the fleet, where there is
    one. `is_on_its_way`: the truck has reached the first stop, and the plan begins where it is. `kept`: the choice that
    its driver has."""

    plan: PlanTask
    truck: "FleetTruck | None" = None
    is_on_its_way: bool = False
    kept: KeptChoice | None = None


class FleetTruck(NamedTuple):
    id: UUID
    unit_number: str | None
    fuel_tank_capacity_gallons: float | None
    height_feet: float | None
    width_feet: float | None
    length_feet: float | None
    weight_pounds: float | None
    axle_weight_pounds: float | None
    axle_count: int | None
    hazmat: str | None
    newest_at: datetime | None


_TRUCK = Statement(
    FleetTruck,
    """
    SELECT v.id, v.unit_number, v.fuel_tank_capacity_gallons, v.height_feet, v.width_feet, v.length_feet,
           v.weight_pounds, v.axle_weight_pounds, v.axle_count, v.hazmat, t.newest_at
    FROM vehicles v LEFT JOIN tracks t ON t.vehicle_id = v.id AND t.environment = %(environment)s
    WHERE v.company_id = %(company_id)s AND v.id = %(vehicle_id)s
    """,
)


class _Route(NamedTuple):
    id: UUID
    status: str
    stops: list[StopDocument]
    scheduled_start: datetime
    vehicle_id: UUID | None
    arrived_at: datetime | None


_ROUTE = Statement(
    _Route,
    "SELECT id, status, stops, scheduled_start, vehicle_id, arrived_at FROM routes"
    " WHERE company_id = %s AND environment = %s AND id = %s",
)
_OPEN = (RouteStatus.DRAFT, RouteStatus.PLANNED, RouteStatus.ACTIVE)


class _Load(NamedTuple):
    """The stops and the start of a load, and its truck where it has one."""

    stops: list[StopDocument]
    scheduled_start: datetime | None
    vehicle_id: UUID | None


def read_preview_task(connection: Connection, tenant: Tenant, asked: PreviewInput, now: datetime) -> PreviewTask:
    """The load that is asked for. Raises Invalid with every fault, and NoSuchRoute."""
    faults: list[FieldFault] = []
    named = _named_vehicle(connection, tenant, asked.vehicle, faults)
    stops = list(_stops_of(asked.stops or (), faults))
    if faults:
        raise Invalid(faults)
    if asked.route_id is None:
        return _from_stops(connection, tenant, _Load(stops, None, named), asked, now)
    route = _ROUTE.first(connection, (*tenant, read_id("rte", asked.route_id)))
    if route is None:
        raise NoSuchRoute
    if named in (None, route.vehicle_id) and route.arrived_at is not None and route.status in _OPEN:
        started = route_to_plan(connection, route.id)
        if started is not None:
            return _on_its_way(connection, tenant, started, route, asked, now)
    load = _Load(route.stops, route.scheduled_start, named or route.vehicle_id)
    return _from_stops(connection, tenant, load, asked, now)


def _on_its_way(
    connection: Connection, tenant: Tenant, started: RouteToPlan, route: _Route, asked: PreviewInput, now: datetime
) -> PreviewTask:
    """The task with which the route would be planned now."""
    is_draft = route.status == RouteStatus.DRAFT
    simulated = newest_at_first_stop(connection, started) if is_draft else started.newest_at
    task = plan_task_as_of(connection, started, live_now(started, now) or simulated or started.arrived_at)
    kept = None
    if route.status == RouteStatus.ACTIVE:
        task, _ = with_measured_burn(connection, task)
        kept = choice_ahead(connection, tenant, route.id)
        task = replace(task, wanted=kept.wanted if kept is not None else None)
    truck = _TRUCK.first(connection, {**tenant._asdict(), "vehicle_id": started.vehicle_id})
    if asked.scheduled_start is not None:
        task = replace(task, departure=max(asked.scheduled_start, task.as_of))
    return PreviewTask(_as_asked(task, asked), truck, is_on_its_way=True, kept=kept)


def _from_stops(connection: Connection, tenant: Tenant, load: _Load, asked: PreviewInput, now: datetime) -> PreviewTask:
    """The task of a load whose truck stands at its first stop at the start."""
    _require_near(load.stops)
    truck = _TRUCK.first(connection, {**tenant._asdict(), "vehicle_id": load.vehicle_id}) if load.vehicle_id else None
    as_of = _as_of(tenant, truck, now)
    burn = figure_for_plan(connection, tenant, truck.id) if truck is not None else UNKNOWN_BURN
    points = [stop_point(stop) for stop in load.stops]
    earliest = as_of if tenant.environment is Environment.LIVE else now
    task = PlanTask(
        route=_route_of(tenant, load, truck, earliest),
        policy=read_plan_policy(connection, tenant.company_id),
        as_of=as_of,
        position=points[0],
        position_at=None,
        fuel=_fuel_of(connection, tenant, truck, burn, as_of),
        burn=burn,
        stops_left=tuple(range(1, len(points))),
        departure=max(asked.scheduled_start or load.scheduled_start or earliest, earliest),
        lane=learned_lane_for(connection, tenant, points, as_of=as_of),
    )
    return PreviewTask(_as_asked(task, asked), truck)


def _as_of(tenant: Tenant, truck: FleetTruck | None, now: datetime) -> datetime:
    """The moment as of which the truck's fuel is read: that of its newest fix in the sandbox, where time is
    simulated."""
    newest = truck.newest_at if truck is not None else None
    if newest is None:
        return now
    return max(now, newest) if tenant.environment is Environment.LIVE else newest


def _fuel_of(
    connection: Connection, tenant: Tenant, truck: FleetTruck | None, burn: Burn, as_of: datetime
) -> FuelOnBoard | None:
    if truck is None:
        return None
    capacity = truck.fuel_tank_capacity_gallons or DEFAULT_CAPACITY_GALLONS
    tank = Tank(truck.id, tenant.environment, capacity_gallons=capacity, mpg=burn.mpg)
    return read_fuel(connection, tank, as_of, newest_fix_at=truck.newest_at)


def _as_asked(task: PlanTask, asked: PreviewInput) -> PlanTask:
    """The task with the tank, the mileage, the level and the policy that were given."""
    given = asked.vehicle or PreviewVehicleInput()
    route = task.route
    if given.fuel_tank_capacity_gallons is not None:
        route = route._replace(fuel_tank_capacity_gallons=given.fuel_tank_capacity_gallons)
    percent = _given_percent(given, route.fuel_tank_capacity_gallons or DEFAULT_CAPACITY_GALLONS)
    return replace(
        task,
        route=route,
        policy=policy_with(task.policy, asked.policy),
        burn=Burn(given.mpg, "declared") if given.mpg is not None else task.burn,
        fuel=_fuel_at(percent, task) if percent is not None else task.fuel,
    )


def _given_percent(given: PreviewVehicleInput, capacity_gallons: float) -> float | None:
    """The level that was given. Raises Invalid for more gallons than the tank has."""
    if given.fuel_gallons is None:
        return given.fuel_percent
    if given.fuel_gallons > capacity_gallons:
        message = f"Expected at most the tank's {capacity_gallons:g} gallons"
        raise Invalid([FieldFault(field="vehicle.fuelGallons", message=message)])
    return 100 * given.fuel_gallons / capacity_gallons


def _fuel_at(percent: float, task: PlanTask) -> FuelOnBoard:
    """The fuel of a truck whose gauge shows this level."""
    gauge = Gauge(percent, task.as_of, percent, 0.0, 0.0, task.as_of)
    return FuelOnBoard(gauge, Reading(percent, task.as_of, task.position))


def _route_of(tenant: Tenant, load: _Load, truck: FleetTruck | None, earliest: datetime) -> RouteToPlan:
    """The load as a route whose truck has arrived. It is stored nowhere, and nobody gets a message about it."""
    measures = truck._asdict() if truck is not None else dict.fromkeys(FleetTruck._fields)
    del measures["id"]
    return RouteToPlan(
        id=_NOBODY,
        company_id=tenant.company_id,
        environment=tenant.environment,
        external_id="",
        reference=None,
        revision=0,
        stops=load.stops,
        scheduled_start=load.scheduled_start or earliest,
        vehicle_id=truck.id if truck is not None else _NOBODY,
        driver_id=_NOBODY,
        arrived_at=earliest,
        time_zone="UTC",
        map_link=MapLink.GOOGLE,
        prices_for_drivers=True,
        language=None,
        **measures,
    )


def _named_vehicle(
    connection: Connection, tenant: Tenant, given: PreviewVehicleInput | None, faults: list[FieldFault]
) -> UUID | None:
    """The truck that all its references name, by the rule for positions of the feed."""
    named = [
        (kind, field, value)
        for kind, field in (("unit_number", "unitNumber"), ("vin", "vin"))
        if given is not None and (value := getattr(given, kind)) is not None
    ]
    if not named:
        return None
    found = vehicles_named(connection, tenant.company_id, {(kind, value) for kind, _, value in named})
    for kind, field, value in named:
        if (kind, value) not in found:
            faults.append(FieldFault(field=f"vehicle.{field}", message="No one vehicle of the fleet has it"))
    vehicles = set(found.values())
    if len(vehicles) > 1:
        faults.append(FieldFault(field="vehicle", message="`unitNumber` and `vin` name different vehicles"))
    return vehicles.pop() if len(vehicles) == 1 else None


def _stops_of(stops: Sequence[PreviewStopInput], faults: list[FieldFault]) -> Iterator[StopDocument]:
    """The stops as a route has them, towns in their places."""
    for index, stop in enumerate(stops):
        try:
            town = default_towns().find(stop.town) if stop.town is not None else None
        except UnknownTown as unknown:
            faults.append(FieldFault(field=f"stops[{index}].town", message=str(unknown)))
        else:
            yield _stop_document(index, stop, town)


def _stop_document(index: int, stop: PreviewStopInput, town: NamedTown | None) -> StopDocument:
    document = StopDocument(
        name=stop.name or (town.label if town is not None else f"Stop {index + 1}"),
        latitude=town.place.latitude if town is not None else stop.latitude or 0.0,
        longitude=town.place.longitude if town is not None else stop.longitude or 0.0,
    )
    window = stop.arrival_window
    if window is not None:
        ends = {"start": window.start, "end": window.end}
        document["arrivalWindow"] = ArrivalWindowDocument(
            **{end: utc_text(moment) for end, moment in ends.items() if moment is not None}  # type: ignore[typeddict-item]
        )
    return document


def _require_near(stops: Sequence[StopDocument]) -> None:
    """Refuses stops so far apart that a plan would take long. Raises Invalid."""
    miles = sum(great_circle_miles(stop_point(one), stop_point(other)) for one, other in pairwise(stops))
    if miles > LONGEST_MILES:
        message = f"Expected at most {LONGEST_MILES:,} miles along all stops, got {miles:,.0f}"
        raise Invalid([FieldFault(field="stops", message=message)])
