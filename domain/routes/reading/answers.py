"""A route in the API's form: the contract's Route, made of a stored row, or of the push that created it."""

from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

import msgspec
from msgspec import Struct

from domain.contract.shapes import (
    FuelPlan,
    FuelPlanStatus,
    FuelPlanStop,
    Route,
    RouteDriver,
    RoutePending,
    RouteStop,
    RouteVehicle,
    StopType,
)
from domain.ids import IdKind, shown_id
from domain.lifecycle import HELD, SHOWS_FUEL_STOPS, SHOWS_PLAN, Environment, PendingReason, RouteStatus

if TYPE_CHECKING:  # commands that read routes load no intake
    from domain.routes.intake.imports import ImportOutcome
    from domain.routes.intake.pushes import Push, Pushed


class RouteRow(NamedTuple):
    """A stored route with the values for an answer, as `lookups` reads it."""

    id: UUID
    company_id: UUID
    environment: str
    external_id: str
    reference: str | None
    status: str
    pending_reason: str | None
    pending_detail: str | None
    vehicle_id: UUID | None
    driver_id: UUID | None
    scheduled_start: datetime
    stops: str
    """The stops as JSON, like the documents below; `route_answer` reads them into shapes."""
    distance_miles: float | None
    created_at: datetime
    unit_number: str | None
    """The vehicle's unit number, or the pushed one before there is a vehicle."""
    driver_name: str | None
    """The driver's name, or the pushed one before there is a driver."""
    plan: str | None = None
    timeline: str | None = None
    fuel_visits: str | None = None
    visits: str | None = None
    """Arrival and departure, by the position of the stop."""
    version: str = ""
    """A text that changes with the answer; empty in lists."""
    total: int = 0
    """The number of routes in the whole list."""
    position: int = 0
    """The position among the questions, from 1, where they came with keys."""


# The names that an answer shows, of a route `r`, its vehicle `v` and its driver `d`.
UNIT_NUMBER = "CASE WHEN v.id IS NULL THEN r.vehicle_unit_number ELSE v.unit_number END"
DRIVER_NAME = "CASE WHEN d.id IS NULL THEN r.driver_name ELSE d.name END"
ROUTE_COLUMNS = f"""
    r.id, r.company_id, r.environment, r.external_id, r.reference, r.status, r.pending_reason, r.pending_detail,
    r.vehicle_id, r.driver_id, r.scheduled_start, r.stops::text AS stops, r.distance_miles, r.created_at,
    {UNIT_NUMBER} AS unit_number,
    {DRIVER_NAME} AS driver_name
"""
"""The columns of a row up to the driver's name."""


def route_answer(row: RouteRow) -> Route:
    status = RouteStatus(row.status)
    plan = _fuel_plan(row.plan, status)
    return Route(
        id=shown_id("rte", row.id),
        external_id=row.external_id,
        reference=row.reference,
        name=row.reference or row.external_id,
        status=status,
        environment=Environment(row.environment),
        pending=_pending_part(
            status, PendingReason(row.pending_reason) if row.pending_reason else None, row.pending_detail
        ),
        vehicle=RouteVehicle(id=_shown_or_none("veh", row.vehicle_id), unit_number=row.unit_number),
        driver=RouteDriver(id=_shown_or_none("drv", row.driver_id), name=row.driver_name),
        scheduled_start=row.scheduled_start,
        stops=_stops(row, plan),
        distance_miles=row.distance_miles,
        fuel_plan=plan,
        created_at=row.created_at,
    )


def fresh_route(push: "Push", pushed: "Pushed", outcome: "ImportOutcome") -> Route:
    """The answer to a push that created a route, made of the push and the outcome of the import, so that nothing is
    read again."""
    route = push.route
    if pushed.created_at is None:
        raise ValueError(f"the push did not create {pushed.route_id}")
    vehicle_id, driver_id = outcome.vehicle_id, outcome.driver_id
    last = len(route.stops) - 1
    waypoint, destination = StopType.WAYPOINT, StopType.DESTINATION  # finding a member costs as much as making a stop
    return Route(
        id=shown_id("rte", pushed.route_id),
        external_id=route.external_id,
        reference=route.reference,
        name=route.reference or route.external_id,
        status=outcome.status,
        environment=push.tenant.environment,
        pending=_pending_part(outcome.status, outcome.reason, outcome.detail),
        vehicle=RouteVehicle(
            _shown_or_none("veh", vehicle_id),
            outcome.unit_number if vehicle_id is not None else route.vehicle.unit_number,
        ),
        driver=RouteDriver(
            _shown_or_none("drv", driver_id), outcome.driver_name if driver_id is not None else route.driver.name
        ),
        scheduled_start=route.scheduled_start,
        stops=[
            RouteStop(
                index,
                stop.name,
                stop.address,
                stop.latitude,
                stop.longitude,
                destination if index == last else waypoint,
                planned_arrival=None,
                actual_arrival=None,
                actual_departure=None,
            )
            for index, stop in enumerate(route.stops)
        ],
        distance_miles=None,
        fuel_plan=None,
        created_at=pushed.created_at,
    )


def _shown_or_none(kind: IdKind, id: UUID | None) -> str | None:
    return shown_id(kind, id) if id is not None else None


def _pending_part(status: RouteStatus, reason: PendingReason | None, detail: str | None) -> RoutePending | None:
    if status not in HELD or reason is None or detail is None:
        return None
    return RoutePending(reason, detail)


class _Stop(Struct, gc=False):
    """The part of a `StopDocument` that an answer shows."""

    name: str
    latitude: float
    longitude: float
    address: str | None = None


class _FuelPlan(FuelPlan, kw_only=True):
    """A `FuelPlanDocument` with the status of its route."""

    status: FuelPlanStatus = FuelPlanStatus.PLANNED


class _Ahead(Struct, rename="camel", gc=False):
    """The part of a `TimelineEntry` that an answer needs."""

    stop: int
    mile: float | None
    planned_arrival: datetime | None


class _FuelVisit(Struct, rename="camel", gc=False):
    """The truck at a fuel stop, as it is in `routes.fuel_visits`."""

    latitude: float
    longitude: float
    arrived_at: datetime | None
    departed_at: datetime | None


_read_stops = msgspec.json.Decoder(list[_Stop]).decode
_read_plan = msgspec.json.Decoder(_FuelPlan).decode
_read_timeline = msgspec.json.Decoder(list[_Ahead]).decode
_read_visits = msgspec.json.Decoder(dict[int, tuple[datetime, datetime | None]]).decode
_read_fuel_visits = msgspec.json.Decoder(list[_FuelVisit]).decode
_NOT_AHEAD = _Ahead(stop=-1, mile=None, planned_arrival=None)


def _fuel_plan(document: str | None, status: RouteStatus) -> FuelPlan | None:
    if document is None or status not in SHOWS_PLAN:
        return None
    plan = _read_plan(document)
    plan.status = FuelPlanStatus(status.value)
    return plan


def _stops(row: RouteRow, plan: FuelPlan | None) -> list[RouteStop]:
    """The pushed stops in order, and between them, once the driver has the plan, its fuel stops by road mile. The
    destination comes last at any mile, so that no purchase is missing. For example, stops at mile 0, 120 and 300, and
    fuel at 90 and 300.004 (rounding): stop, fuel, stop, fuel, destination."""
    pushed = _read_stops(row.stops)
    visits = _read_visits(row.visits) if row.visits is not None else {}
    timeline = _read_timeline(row.timeline) if row.timeline is not None and row.status in SHOWS_PLAN else ()
    ahead = {entry.stop: entry for entry in timeline}
    fuel_stops = list(plan.stops) if plan is not None and row.status in SHOWS_FUEL_STOPS else []
    fuel_visits = _read_fuel_visits(row.fuel_visits) if row.fuel_visits is not None else []
    last = len(pushed) - 1
    stops: list[RouteStop] = []
    for index, stop in enumerate(pushed):
        there = ahead.get(index, _NOT_AHEAD)
        while fuel_stops and (
            index == last or (there.mile is not None and fuel_stops[0].miles_from_origin <= there.mile)
        ):
            visit = fuel_visits.pop(0) if fuel_visits else None
            stops.append(_fuel_stop(len(stops), fuel_stops.pop(0), visit))
        arrived, departed = visits.get(index, (None, None))
        stops.append(
            RouteStop(
                len(stops),
                stop.name,
                stop.address,
                stop.latitude,
                stop.longitude,
                StopType.DESTINATION if index == last else StopType.WAYPOINT,
                planned_arrival=there.planned_arrival,
                actual_arrival=arrived,
                actual_departure=departed,
            )
        )
    return stops


def _fuel_stop(sequence: int, stop: FuelPlanStop, visit: _FuelVisit | None) -> RouteStop:
    """A fuel stop with its visit. A worker of an older release leaves the visits as the plan before had them, so they
    may be of another place."""
    if visit is not None and (visit.latitude, visit.longitude) != (stop.latitude, stop.longitude):
        visit = None
    return RouteStop(
        sequence=sequence,
        name=stop.name,
        address=stop.address,
        latitude=stop.latitude,
        longitude=stop.longitude,
        type=StopType.FUEL_STOP,
        planned_arrival=stop.estimated_arrival,
        actual_arrival=visit.arrived_at if visit is not None else None,
        actual_departure=visit.departed_at if visit is not None else None,
    )
