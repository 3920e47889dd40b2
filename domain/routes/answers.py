"""A route as the API answers it: the contract's Route, made of a stored row or of a push that was just stored."""

from datetime import datetime
from typing import NamedTuple
from uuid import UUID

import msgspec

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
from domain.documents import FuelPlanDocument, StopDocument, TimelineEntry
from domain.ids import Kind, shown_id
from domain.lifecycle import HELD, SHOWS_FUEL_STOPS, SHOWS_PLAN, Environment, PendingReason, RouteStatus
from domain.routes.imports import Outcome
from domain.routes.pushes import Push, Pushed


class RouteRow(NamedTuple):
    """What an answer is made of, as `queries` reads it."""

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
    stops: list[StopDocument]
    distance_miles: float | None
    created_at: datetime
    unit_number: str | None
    """The vehicle's; what was pushed until there is a vehicle."""
    driver_name: str | None
    """Likewise."""
    plan: FuelPlanDocument | None = None
    timeline: list[TimelineEntry] | None = None
    visits: dict[str, list[str | None]] | None = None
    """Arrival and departure, by the position of the stop."""
    version: str = ""
    """Differs whenever the answer does."""


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
        pending=_pending(status, PendingReason(row.pending_reason) if row.pending_reason else None, row.pending_detail),
        vehicle=RouteVehicle(id=_shown("veh", row.vehicle_id), unit_number=row.unit_number),
        driver=RouteDriver(id=_shown("drv", row.driver_id), name=row.driver_name),
        scheduled_start=row.scheduled_start,
        stops=_stops(row, plan),
        distance_miles=row.distance_miles,
        fuel_plan=plan,
        created_at=row.created_at,
    )


def fresh_route(push: Push, pushed: Pushed, outcome: Outcome) -> Route:
    """The answer to a push that created a route. It is made of the push and the outcome of the import, so nothing is
    read again."""
    route = push.route
    if pushed.created_at is None:
        raise ValueError(f"the push did not create {pushed.route_id}")
    vehicle_id, driver_id = outcome.vehicle_id, outcome.driver_id
    last = len(route.stops) - 1
    return Route(
        id=shown_id("rte", pushed.route_id),
        external_id=route.external_id,
        reference=route.reference,
        name=route.reference or route.external_id,
        status=outcome.status,
        environment=push.tenant.environment,
        pending=_pending(outcome.status, outcome.reason, outcome.detail),
        vehicle=RouteVehicle(
            _shown("veh", vehicle_id), outcome.unit_number if vehicle_id is not None else route.vehicle.unit_number
        ),
        driver=RouteDriver(
            _shown("drv", driver_id), outcome.driver_name if driver_id is not None else route.driver.name
        ),
        scheduled_start=route.scheduled_start,
        stops=[
            RouteStop(
                index,
                stop.name,
                stop.address,
                stop.latitude,
                stop.longitude,
                StopType.DESTINATION if index == last else StopType.WAYPOINT,
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


def _shown(kind: Kind, id: UUID | None) -> str | None:
    return shown_id(kind, id) if id is not None else None


def _pending(status: RouteStatus, reason: PendingReason | None, detail: str | None) -> RoutePending | None:
    if status not in HELD or reason is None or detail is None:
        return None
    return RoutePending(reason, detail)


def _fuel_plan(document: FuelPlanDocument | None, status: RouteStatus) -> FuelPlan | None:
    if document is None or status not in SHOWS_PLAN:
        return None
    return msgspec.convert({**document, "status": FuelPlanStatus(status.value)}, FuelPlan)


def _stops(row: RouteRow, plan: FuelPlan | None) -> list[RouteStop]:
    """The pushed stops in order; between them, once the driver has the plan, its fuel stops by road mile.

    The destination comes last, whatever the miles say, so that no purchase is missing. Example: stops at mile 0, 120
    and 300, fuel at 90 and 300.004 (rounding): stop, fuel, stop, fuel, destination.
    """
    visits = row.visits or {}
    ahead = {entry["stop"]: entry for entry in row.timeline or ()} if row.status in SHOWS_PLAN else {}
    fuel_stops = list(plan.stops) if plan is not None and row.status in SHOWS_FUEL_STOPS else []
    last = len(row.stops) - 1
    stops: list[RouteStop] = []
    for index, stop in enumerate(row.stops):
        mile = ahead[index]["mile"] if index in ahead else None
        while fuel_stops and (index == last or (mile is not None and fuel_stops[0].miles_from_origin <= mile)):
            stops.append(_fuel_stop(len(stops), fuel_stops.pop(0)))
        arrived, departed = visits.get(str(index), [None, None])
        stops.append(
            RouteStop(
                sequence=len(stops),
                name=stop["name"],
                address=stop.get("address"),
                latitude=stop["latitude"],
                longitude=stop["longitude"],
                type=StopType.DESTINATION if index == last else StopType.WAYPOINT,
                planned_arrival=_moment(ahead[index]["plannedArrival"]) if index in ahead else None,
                actual_arrival=_moment(arrived),
                actual_departure=_moment(departed),
            )
        )
    return stops


def _fuel_stop(sequence: int, stop: FuelPlanStop) -> RouteStop:
    return RouteStop(
        sequence=sequence,
        name=stop.name,
        address=stop.address,
        latitude=stop.latitude,
        longitude=stop.longitude,
        type=StopType.FUEL_STOP,
        planned_arrival=stop.estimated_arrival,
        actual_arrival=None,
        actual_departure=None,
    )


def _moment(text: str | None) -> datetime | None:
    """A time from inside a jsonb document."""
    return msgspec.convert(text, datetime) if text is not None else None
