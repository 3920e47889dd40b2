"""The stored history of one route, for its page in the console."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

import numpy as np

from domain.database.connections import Connection, Tenant
from domain.database.statements import Scalar, Statement
from domain.documents import FuelPlanDocument, PlanCause, StopDocument, TimelineEntry
from domain.lifecycle import Environment, RefusalReason, RouteStatus
from domain.messages.new_messages import MAY_HAVE_ARRIVED
from domain.planning.deviations import PlannedWay
from domain.planning.explanation import Explanation, StoredExplanation
from domain.roads import Point
from domain.routes.events import Event, events_of
from domain.routes.reading.told_purchases import ToldAnswer, read_told_answers
from domain.routes.visits import IMPLIED
from domain.telematics.readings import read_levels, read_trail
from domain.telemetry.tracing import trace_id_of


class StoredRoute(NamedTuple):
    id: UUID
    environment: str
    external_id: str
    status: str
    revision: int
    pending_reason: str | None
    pending_detail: str | None
    closed_reason: str | None
    attempts: int
    retry_at: datetime | None
    vehicle_id: UUID | None
    scheduled_start: datetime
    stops: list[StopDocument]
    imported_at: datetime | None
    arrived_at: datetime | None
    completed_at: datetime | None
    plan_id: UUID | None
    correction_id: UUID | None
    corrected_at: datetime | None
    created_at: datetime
    updated_at: datetime
    request_id: str | None
    """The request whose push brought its present input; None if it did not come by the API."""
    traceparent: str | None

    @property
    def trace_id(self) -> str | None:
        return trace_id_of(self.traceparent)


class StoredVisit(NamedTuple):
    """A visit with the stored evidence of each end; None once deleted by retention."""

    stop: int
    arrived_at: datetime
    departed_at: datetime | None
    arrival_evidence: dict[str, Any] | None
    departure_evidence: dict[str, Any] | None

    @property
    def is_departure_implied(self) -> bool:
        """True if no fix showed the departure; its time is then the latest possible one."""
        return self.departure_evidence is not None and self.departure_evidence.get("source") == IMPLIED


class StoredPlan(NamedTuple):
    id: UUID
    revision: int
    generated_at: datetime
    as_of: datetime | None
    """The time of the truck's position where the plan starts, which may be simulated. None for plans of earlier
    versions."""
    document: FuelPlanDocument | None
    """The plan's document; None where no plan is feasible."""
    fuel_percent: float
    cause: PlanCause | None
    """Why it was made for a route that had a plan; None for the first plan."""
    timeline: list[TimelineEntry]
    station_ids: list[str] | None = None
    """The stations of its fuel stops; None for a plan that an older release stored."""


class StoredMessage(NamedTuple):
    id: UUID
    plan_id: UUID
    status: str
    channel: str | None
    text: str | None
    attempts: int
    error: str | None
    created_at: datetime
    retry_at: datetime | None
    sent_at: datetime | None
    read_at: datetime | None
    """When the driver was known to have read it; None if not read, or the gateway does not tell."""
    in_doubt: bool
    """True if an attempt may have reached the driver, or does so at this moment."""


class LastPosition(NamedTuple):
    recorded_at: datetime
    latitude: float
    longitude: float


class History(NamedTuple):
    """Visits are in the order of the stops, plans and messages oldest first."""

    route: StoredRoute
    visits: list[StoredVisit]
    plans: list[StoredPlan]
    messages: list[StoredMessage]
    truck: LastPosition | None
    """The truck's last position, while the route is not finished."""
    events: list[Event]
    """Oldest first."""
    answers: Sequence[ToldAnswer] = ()
    """The driver's answers, oldest first."""

    @property
    def current_plan(self) -> StoredPlan | None:
        return next((plan for plan in self.plans if plan.id == self.route.plan_id), None)

    @property
    def fill_levels(self) -> dict[int, int]:
        """The levels to fill to at the stops of the current plan, by their sequence, where the gauge tells them."""
        current = self.current_plan
        stops = current.document["stops"] if current is not None and current.document is not None else ()
        return {stop["sequence"]: stop["fillToPercent"] for stop in stops if "fillToPercent" in stop}

    @property
    def found_closed(self) -> dict[str, str]:
        """The stations that the driver found closed, with their names: a dispatcher may close them for the company."""
        said = (told.answer for told in self.answers if not told.answer.is_late)
        return {
            one.station_id: one.place
            for one in said
            if one.reason == RefusalReason.CLOSED and one.station_id is not None
        }

    @property
    def planned_stations(self) -> list[str]:
        """The stations of the fuel stops of the current plan; empty where they are not known."""
        current = self.current_plan
        return (current.station_ids if current is not None else None) or []


_ROUTE = Statement(
    StoredRoute,
    "SELECT id, environment, external_id, status, revision, pending_reason, pending_detail, closed_reason, attempts,"
    " retry_at, vehicle_id, scheduled_start, stops, imported_at, arrived_at, completed_at, plan_id, correction_id,"
    " corrected_at, created_at, updated_at, request_id, traceparent FROM routes WHERE company_id = %s AND id = %s",
)
_VISITS = Statement(
    StoredVisit,
    "SELECT stop, arrived_at, departed_at, arrival_evidence, departure_evidence FROM visits"
    " WHERE company_id = %s AND route_id = %s ORDER BY stop",
)
_PLANS = Statement(
    StoredPlan,
    "SELECT id, revision, generated_at, as_of, document, fuel_percent, cause, timeline, station_ids FROM plans"
    " WHERE company_id = %s AND route_id = %s ORDER BY generated_at, id",
)
_MESSAGES = Statement(
    StoredMessage,
    "SELECT id, plan_id, status, channel, text, attempts, error, created_at, retry_at, sent_at, read_at,"
    f" {MAY_HAVE_ARRIVED} AS in_doubt FROM messages m"
    " WHERE company_id = %s AND route_id = %s ORDER BY created_at, id",
)


_EXPLANATION = Scalar(bytes | None, "SELECT explanation FROM plans WHERE company_id = %s AND id = %s")
_POSITION = Statement(
    LastPosition,
    "SELECT newest_at AS recorded_at, latitude, longitude FROM tracks"
    " WHERE company_id = %s AND vehicle_id = %s AND environment = %s",
)
_ON_ITS_WAY = (RouteStatus.DRAFT, RouteStatus.PLANNED, RouteStatus.ACTIVE)


_ENVIRONMENT = Scalar(str, "SELECT environment FROM routes WHERE company_id = %s AND id = %s")


def find_tenant(connection: Connection, company_id: UUID, route_id: UUID) -> Tenant | None:
    """The company with the environment of its route; None if it has no such route."""
    environment = _ENVIRONMENT.first(connection, (company_id, route_id))
    return Tenant(company_id, Environment(environment)) if environment is not None else None


def read_history(connection: Connection, company_id: UUID, route_id: UUID) -> History | None:
    """The history of a route in either environment; None if the company has no such route."""
    route = _ROUTE.first(connection, (company_id, route_id))
    if route is None:
        return None
    of_route = (company_id, route_id)
    truck = None
    if route.vehicle_id is not None and route.status in _ON_ITS_WAY:
        truck = _POSITION.first(connection, (company_id, route.vehicle_id, Environment(route.environment)))
    return History(
        route,
        _VISITS.all(connection, of_route),
        _PLANS.all(connection, of_route),
        _MESSAGES.all(connection, of_route),
        truck,
        events_of(connection, company_id, route_id),
        read_told_answers(connection, Tenant(company_id, Environment(route.environment)), route_id, route.vehicle_id),
    )


def read_packed_explanation(connection: Connection, company_id: UUID, route: StoredRoute) -> StoredExplanation | None:
    """The inputs of the route's current plan. None before there is one, and once deleted by retention."""
    packed = _EXPLANATION.first(connection, (company_id, route.plan_id)) if route.plan_id is not None else None
    return StoredExplanation(packed) if packed else None


class DrivenLevel(NamedTuple):
    """A level that the truck sent, at the mile of the plan's road that it had reached then."""

    mile: float
    percent: float


def read_driven_levels(
    connection: Connection, company_id: UUID, history: History, explanation: Explanation
) -> list[DrivenLevel]:
    """The levels that the truck sent since the current plan was made, where it was on the plan's road."""
    route = history.route
    plan = next((one for one in history.plans if one.id == route.plan_id), None)
    if plan is None or route.vehicle_id is None or not explanation["line"]:
        return []
    tenant = Tenant(company_id, Environment(route.environment))
    since = plan.as_of or plan.generated_at
    fixes = read_levels(connection, tenant, route.vehicle_id, since, route.completed_at)
    miles_of_stops = {entry["stop"]: entry["mile"] for entry in plan.timeline}
    reached = [(visit.arrived_at, mile) for visit in history.visits if (mile := miles_of_stops.get(visit.stop))]
    way = PlannedWay(np.array(explanation["line"]), np.array(explanation["line_miles"]), fuel_stops=(), reached=reached)
    return [
        DrivenLevel(mile, fix.fuel_percent)
        for fix, mile in zip(fixes, way.miles_of(fixes), strict=True)
        if mile is not None and fix.fuel_percent is not None
    ]


def read_driven_trail(connection: Connection, company_id: UUID, history: History) -> list[Point]:
    """The places of the truck since it arrived at the first stop, up to the route's end."""
    route = history.route
    if route.vehicle_id is None or route.arrived_at is None:
        return []
    tenant = Tenant(company_id, Environment(route.environment))
    until = route.completed_at or (None if route.status in _ON_ITS_WAY else route.updated_at)
    return read_trail(connection, tenant, route.vehicle_id, route.arrived_at, until)
