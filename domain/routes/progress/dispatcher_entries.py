"""A dispatcher's actions on a route: cancels it, enters an arrival or a departure, has its plan made again, sends a
failed message again, makes a link to the driver's page. Each is a step inside the caller's transaction, and writes to
the audit log.

All of them go the ways that the service goes by itself, so whatever protects the driver from a second message there
protects here.
"""

from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from domain.audit.entries import Action, Actor, record_about, require_reason
from domain.database.connections import Connection, Tenant
from domain.database.statements import Command, NotNull, Scalar, Statement
from domain.ids import shown_id
from domain.lifecycle import CancelEffect, Environment, RouteStatus
from domain.messages import resending
from domain.messages.driver_links import issue_driver_link
from domain.queue.jobs import SWEEP_GRACE, after_commit, build_plan_job, review_plan_job, send_message_job
from domain.roads.sphere import stop_point
from domain.routes import events
from domain.routes.events import ImpossibleStep
from domain.routes.plans import review_requests
from domain.routes.progress.tracking import is_standing, move_on
from domain.routes.transitions import cancel_route
from domain.routes.visits import load_visits
from domain.settings import Settings
from domain.telematics import arrivals, manual_stop_events
from domain.telematics.arrivals import ManualStopEvent, TruckRoute
from domain.telematics.due_trucks import OPEN_ROUTES_OF_TRUCK
from domain.telematics.fixes_to_visits import OpenRoute
from domain.telematics.manual_stop_events import VisitEnd
from domain.telematics.rechecks import recheck_trucks

# --- The route is canceled -------------------------------------------------------------------------------------


def cancel(connection: Connection, tenant: Tenant, route_id: UUID, by: Actor, *, now: datetime) -> CancelEffect | None:
    """Cancels the route by the rule of the API's DELETE. The route keeps the person and the reason. Raises NoReason."""
    reason = f"Canceled by {by.name}: {require_reason(by).reason}"
    effect = cancel_route(connection, tenant, route_id, now=now, reason=reason)
    if effect is not None and effect != "refuse":
        record_about(connection, by, Action("route_actions.cancel"), "rte", route_id, company_id=tenant.company_id)
    return effect


# --- An arrival or a departure is entered ----------------------------------------------------------------------

_FURTHEST_AHEAD_IN_THE_SANDBOX = timedelta(days=366)
"""Latest time after the route's start for an entry in the sandbox, where time is simulated and may run ahead of the
clock."""


class _Others(NamedTuple):
    free_since: datetime | None
    route_ids: list[UUID]


_OTHERS = Statement(
    _Others,
    f"""
    SELECT truck.free_since, ARRAY(SELECT open_route.id FROM ({OPEN_ROUTES_OF_TRUCK}) AS open_route) AS route_ids
    FROM (SELECT r.vehicle_id, %(moment)s::timestamptz AS newest_at, t.free_since
          FROM routes r LEFT JOIN tracks t ON t.vehicle_id = r.vehicle_id AND t.environment = r.environment
          WHERE r.company_id = %(company_id)s AND r.environment = %(environment)s AND r.id = %(id)s) AS truck
    """,
)
_LOCK = Statement(
    OpenRoute,
    """
    SELECT id, company_id, environment, vehicle_id, status, scheduled_start, stops, arrived_at, imported_at, fuel_visits
    FROM routes WHERE company_id = %s AND environment = %s AND id = ANY(%s) AND vehicle_id IS NOT NULL
    ORDER BY id FOR UPDATE
    """,
)
_OPEN = (RouteStatus.DRAFT, RouteStatus.PLANNED, RouteStatus.ACTIVE)


def enter_stop_event(
    connection: Connection,
    tenant: Tenant,
    route_id: UUID,
    stop: int,
    end: VisitEnd,
    moment: datetime,
    by: Actor,
    *,
    settings: Settings,
    now: datetime,
) -> bool:
    """Stores that the truck was at a stop, or has left it, at that moment. The visit has the same effects as any visit.

    Returns True if the event was new, since an arrival or departure that is known stays as it is. The truck's fixes
    since then are processed again. Raises ImpossibleStopEvent, ImpossibleStep.
    """
    early = timedelta(hours=settings.early_arrival_hours)
    stale = arrivals.STALE_DRAFT_AFTER
    which = {**tenant._asdict(), "id": route_id, "moment": moment, "early": early, "stale": stale}
    others = _OTHERS.first(connection, which)
    # Routes are locked together, in the order of their ids, as everywhere, because the truck may be on another one.
    locked = _LOCK.all(connection, (*tenant, [*(others.route_ids if others is not None else ()), route_id]))
    route = next((one for one in locked if one.id == route_id), None)
    if others is None or route is None:
        raise ImpossibleStep("the route waits to be imported, so no truck is on it yet")
    record_about(connection, by, Action("route_actions.mark"), "rte", route_id, company_id=tenant.company_id)
    before = load_visits(connection, [route_id]).get(route_id, {})
    if manual_stop_events.is_known(before, stop, end):
        return False
    # From here on the track is locked, so no import and no worker starts another route of the truck.
    recheck_trucks(connection, [route_id], since=moment, now=now)
    others = _OTHERS.one(connection, which)
    if not {one.id for one in locked}.issuperset(others.route_ids):
        raise ImpossibleStep("another route of its truck has just changed: load the page again")
    _require_possible(route, locked, moment, free_since=others.free_since, early=early, now=now)
    stops = [stop_point(one) for one in route.stops]
    after = manual_stop_events.with_stop_event(
        stops, before, stop, end, moment, ManualStopEvent(by.name, by.reason, now)
    )
    standing = [route_id] if is_standing(route, before) else []
    move_on(connection, [route], {route_id: after}, standing=standing, now=now)
    return True


def _require_possible(
    route: OpenRoute,
    of_truck: list[OpenRoute],
    moment: datetime,
    *,
    free_since: datetime | None,
    early: timedelta,
    now: datetime,
) -> None:
    """Apply the rules by which fixes count for a route, see `fixes_to_visits`. Raises ImpossibleStep."""
    is_live = route.environment == Environment.LIVE
    if route.status not in _OPEN:
        raise ImpossibleStep("the route has ended")
    # Compares differences of times: a start in the year 9999 plus some days is no datetime.
    if moment > now if is_live else moment - route.scheduled_start > _FURTHEST_AHEAD_IN_THE_SANDBOX:
        raise ImpossibleStep("the time is in the future")
    if route.scheduled_start - moment > early:
        hours = early / timedelta(hours=1)
        raise ImpossibleStep(f"a truck can begin a route from {hours:g} hours before its start on, not earlier")
    if is_live and free_since is not None and moment < free_since:
        raise ImpossibleStep("at that time the truck was still on the route that it has completed since")
    if route.status != RouteStatus.DRAFT or route.arrived_at is not None:
        return
    choices = [
        TruckRoute(one.id, RouteStatus(one.status), one.scheduled_start, one.arrived_at)
        for one in of_truck
        if one.vehicle_id == route.vehicle_id and one.status in _OPEN
    ]
    current = arrivals.current_route(choices, moment, early=early)
    if current is not None and current.route_id != route.id:
        other = shown_id("rte", current.route_id)
        raise ImpossibleStep(f"its truck has another route first, {other}: enter its arrivals, or cancel it")


# --- The plan is made again ------------------------------------------------------------------------------------

_PLAN_NOW = Scalar(
    UUID,
    "UPDATE routes SET retry_at = %s WHERE company_id = %s AND environment = %s AND id = %s"
    " AND status = 'draft' AND arrived_at IS NOT NULL RETURNING id",
)


def plan_again(connection: Connection, tenant: Tenant, route_id: UUID, by: Actor, *, now: datetime) -> None:
    """Has the plan made anew from where the truck is. The review that makes it decides about it by the usual rules: the
    driver is told only if any other review would tell him. Raises ImpossibleStep.
    """
    if _PLAN_NOW.first(connection, (now + SWEEP_GRACE, *tenant, route_id)) is not None:
        job = build_plan_job(route_id, tenant.company_id)
    elif review_requests.by_dispatcher(connection, tenant, route_id, now=now):
        job = review_plan_job(route_id, tenant.company_id)
    else:
        raise ImpossibleStep(
            "there is no plan to make again: the truck has not arrived yet, the driver has had the one correction that"
            " is sent, or the route has ended"
        )
    events.record_event(connection, route_id, "plan_again", by.reason, by=by.name, now=now)
    record_about(connection, by, Action("route_actions.plan"), "rte", route_id, company_id=tenant.company_id)
    after_commit(connection, job)


# --- A message that failed is sent again -----------------------------------------------------------------------

_LOCK_ROUTE = Command("SELECT FROM routes WHERE company_id = %s AND environment = %s AND id = %s FOR UPDATE")


def send_again(
    connection: Connection,
    tenant: Tenant,
    route_id: UUID,
    message_id: UUID,
    by: Actor,
    *,
    driver_was_asked: bool,
    now: datetime,
) -> None:
    """Gives a failed message a fresh set of attempts. It stays the same one, with the same id in its text. Raises
    CannotResend."""
    _LOCK_ROUTE.execute(connection, (*tenant, route_id))
    resending.requeue(connection, tenant, route_id, message_id, even_if_in_doubt=driver_was_asked, now=now)
    events.record_event(connection, route_id, "send_again", by.reason, by=by.name, now=now)
    record_about(connection, by, Action("route_actions.send"), "rte", route_id, company_id=tenant.company_id)
    after_commit(connection, send_message_job(message_id, tenant.company_id))


# --- A link for the driver is made -----------------------------------------------------------------------------


class _LinkedRoute(NamedTuple):
    company_id: UUID
    environment: str
    route_id: UUID
    driver_id: NotNull[UUID]


_LINKED_ROUTE = Statement(
    _LinkedRoute,
    "SELECT company_id, environment, id AS route_id, driver_id FROM routes"
    " WHERE company_id = %s AND environment = %s AND id = %s AND status = ANY(%s) AND driver_id IS NOT NULL",
)


def make_driver_link(
    connection: Connection, tenant: Tenant, route_id: UUID, by: Actor, page_url: str, *, now: datetime
) -> str:
    """Makes another link to the page of the driver's trip, for a person to hand on. Returns the address, which nothing
    keeps. The links before go on working. Raises ImpossibleStep for a route without a driver, or one that has ended."""
    trip = _LINKED_ROUTE.first(connection, (*tenant, route_id, list(_OPEN)))
    if trip is None:
        raise ImpossibleStep("it has no driver, or it has ended")
    record_about(connection, by, Action("route_actions.link"), "rte", route_id, company_id=tenant.company_id)
    return issue_driver_link(connection, trip, page_url, now=now)
