"""The actions on a route's page: cancel it, enter an arrival or departure, make its plan again, send a message again,
make a link to the driver's page.

The page offers those that are possible. Each needs a reason. The rules are in
`domain/routes/progress/dispatcher_entries.py`.
"""

from functools import partial
from typing import NamedTuple
from uuid import UUID

from starlette.responses import Response

from domain.accounts.users import MAY_DISPATCH
from domain.audit.entries import Actor
from domain.database.connections import Tenant
from domain.ids import read_id, shown_id
from domain.lifecycle import CANCELABLE, ChoiceStatus, RouteStatus
from domain.messages.message_life import MessageStatus
from domain.routes.plans import choices
from domain.routes.progress import dispatcher_entries
from domain.routes.reading.history import History, find_tenant
from domain.telematics.manual_stop_events import VisitEnd
from domain.telemetry.logs import get_logger
from ingress.console.addresses import action_at
from ingress.console.refusals import Refused, known
from ingress.console.signed_in import Page, see_other

log = get_logger(__name__)

_ENDS: dict[str, VisitEnd] = {"arrival": "arrival", "departure": "departure"}

DONE = {
    "canceled": "The route is canceled.",
    "entered": "The arrival or departure is entered.",
    "known": "Nothing was changed: this arrival or departure was known already.",
    "plan": "A new plan is made. It replaces the current one only if fuel or prices have changed enough.",
    "send": "The message is sent again.",
    "chosen": "The plan of the choice is made now, and the driver gets it.",
    "declined": "The choice is declined: the driver keeps his plan.",
    "closed": "The station is marked closed. Trucks on their way to it get new plans.",
}
"""The words for what an action did, on the route's page."""


class Steps(NamedTuple):
    """The actions that the user may take on the route now."""

    cancel: bool
    stop_events: list[tuple[str, str]]
    """The arrivals and departures that can be entered: the value in the form, and its words."""
    time: str
    """The present time in the form of a browser's field."""
    plan: bool
    send: set[UUID]
    """The messages that may be sent again."""
    link: bool
    """True if a link to the driver's page can be made."""


def possible_steps(page: Page, history: History) -> Steps | None:
    """The possible actions; None for people who may take none."""
    if page.session.role not in MAY_DISPATCH:
        return None
    route = history.route
    is_on_its_way = route.status in (RouteStatus.DRAFT, RouteStatus.PLANNED, RouteStatus.ACTIVE)
    has_plan = route.status != RouteStatus.DRAFT and route.corrected_at is None
    return Steps(
        cancel=route.status in CANCELABLE,
        stop_events=_missing_stop_events(history) if is_on_its_way else [],
        time=page.field_of_moment(page.now),
        plan=is_on_its_way and route.arrived_at is not None and (has_plan or route.status == RouteStatus.DRAFT),
        send={
            message.id
            for message in history.messages
            if message.status == MessageStatus.FAILED
            and route.status == RouteStatus.PLANNED
            and message.plan_id == route.plan_id
            and message.text is not None
        },
        link=is_on_its_way and page.console.settings.driver_page_url is not None,
    )


def _missing_stop_events(history: History) -> list[tuple[str, str]]:
    visits = {visit.stop: visit for visit in history.visits}
    offered = []
    for number, stop in enumerate(history.route.stops):
        visit = visits.get(number)
        if visit is None:
            offered.append((f"arrival {number}", f"arrived at {number + 1}. {stop['name']}"))
        elif visit.departed_at is None or visit.is_departure_implied:
            offered.append((f"departure {number}", f"departed from {number + 1}. {stop['name']}"))
    return offered


def cancel(page: Page, by: Actor) -> Response:
    tenant, route_id = _route(page)
    effect = dispatcher_entries.cancel(page.connection, tenant, route_id, _with_reason(page, by), now=page.now)
    if known(effect) == "refuse":
        raise Refused(409, "This route can no longer be canceled", "The driver has its plan, or it has ended.")
    return _done(page, route_id, "canceled", "console.route_canceled" if effect == "cancel" else None)


def enter_stop_event(page: Page, by: Actor) -> Response:
    """Enter an arrival or departure that the dispatcher learned from the driver. Raises ImpossibleStopEvent or
    ImpossibleStep if it cannot be; the page says why."""
    tenant, route_id = _route(page)
    name, _, number = page.form.text("what").partition(" ")
    if name not in _ENDS or not (number.isascii() and number.isdecimal()):
        raise Refused(400, "Say which stop", "Go back and choose what the truck did.")
    is_news = dispatcher_entries.enter_stop_event(
        page.connection,
        tenant,
        route_id,
        int(number[:4]),
        _ENDS[name],
        page.moment("at", "Go back and say when it was."),
        _with_reason(page, by),
        settings=page.console.settings,
        now=page.now,
    )
    if not is_news:
        return _done(page, route_id, "known", None)
    return _done(page, route_id, "entered", "console.stop_event_entered")


def plan(page: Page, by: Actor) -> Response:
    """Make the plan again. Raises ImpossibleStep if it cannot be; the page says why."""
    tenant, route_id = _route(page)
    dispatcher_entries.plan_again(page.connection, tenant, route_id, _with_reason(page, by), now=page.now)
    return _done(page, route_id, "plan", "console.plan_requested")


def send(page: Page, by: Actor) -> Response:
    """Send a failed message again. Raises CannotResend if it cannot be; the page says why."""
    tenant, route_id = _route(page)
    message_id = known(read_id("msg", page.form.text("message")))
    dispatcher_entries.send_again(
        page.connection,
        tenant,
        route_id,
        message_id,
        _with_reason(page, by),
        driver_was_asked=page.form.text("asked") == "yes",
        now=page.now,
    )
    return _done(page, route_id, "send", "console.message_requeued")


def decide(page: Page, by: Actor) -> Response:
    """Accept or decline a choice of the driver, or take one for him. Raises ImpossibleStep if it cannot be; the page
    says why."""
    tenant, route_id = _route(page)
    choice_id = known(read_id("cho", page.form.text("choice")))
    decision = choices.decline if page.form.text("decision") == "decline" else choices.choose
    status = decision(page.connection, tenant, route_id, choice_id, by, now=page.now)
    return _done(page, route_id, "declined" if status == ChoiceStatus.DECLINED else "chosen", "console.choice_decided")


def link(page: Page, by: Actor) -> Response:
    """Show a new link to the driver's page, on the only page that ever does. Raises ImpossibleStep if the route has
    ended."""
    tenant, route_id = _route(page)
    settings = page.console.settings
    page_url = known(settings.driver_page_address())
    address = dispatcher_entries.make_driver_link(page.connection, tenant, route_id, by, page_url, now=page.now)
    log.info("console.driver_link_made", route_id=route_id, company_id=page.company_id, user_id=page.session.user_id)
    hours = round(settings.driver_link_hours)
    return page.render("driver_link.html", section="routes", route_id=route_id, link=address, link_hours=hours)


def _route(page: Page) -> tuple[Tenant, UUID]:
    """The route in the address, in either environment. Raises Refused if the company has no such route."""
    route_id = page.id_in_address("rte")
    return known(find_tenant(page.connection, page.company_id, route_id)), route_id


def _with_reason(page: Page, by: Actor) -> Actor:
    """The user with the reason. Raises Refused without one."""
    if not page.form.text("reason"):  # a route keeps a shorter text than the audit log
        raise Refused(400, "Say why", "Go back and give a reason: it is kept with the route.")
    return by


def _done(page: Page, route_id: UUID, done: str, logged: str | None) -> Response:
    if logged is not None:
        log.info(logged, route_id=route_id, company_id=page.company_id, user_id=page.session.user_id)
    return see_other(f"/routes/{shown_id('rte', route_id)}?done={done}")


_dispatch_at = partial(action_at, by=MAY_DISPATCH)
ADDRESSES = [
    _dispatch_at("/routes/{id}/cancel", cancel),
    _dispatch_at("/routes/{id}/stop-event", enter_stop_event),
    _dispatch_at("/routes/{id}/plan", plan),
    _dispatch_at("/routes/{id}/send", send),
    _dispatch_at("/routes/{id}/choice", decide),
    _dispatch_at("/routes/{id}/driver-link", link),
]
