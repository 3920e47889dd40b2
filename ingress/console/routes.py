"""The pages Routes: a list, and one for each route, with its cancel."""

from datetime import UTC, datetime, time, timedelta
from typing import Any
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

import msgspec
from starlette.responses import Response

from domain.accounts.users import MAY_CANCEL
from domain.database import Tenant
from domain.encoding import write
from domain.ids import read_id, shown_id
from domain.lifecycle import CANCELABLE, Environment, PendingReason, RouteStatus
from domain.observability import get_logger
from domain.planning.reasons import with_reasons
from domain.routes.history import History, read_history
from domain.routes.progress import cancel_route
from domain.routes.queries import read_routes
from domain.routes.search import MOST_RECORDS, MOST_SEARCHED, RouteSearch, search_routes
from ingress.console.drawing import WIDTH, draw
from ingress.console.frame import Page, Refused, not_found, see_other
from ingress.console.timeline import timeline

log = get_logger(__name__)

PAGE_SIZE = 50
_FILTERS = ("environment", "status", "held", "unit", "driver", "q", "from", "to")
_STATUSES = {str(status): status for status in RouteStatus}
_REASONS = {str(reason): reason for reason in PendingReason}


def show(page: Page) -> Response:
    """The list, or the part of it that asks for itself again and again."""
    form, number = page.form, page.form.number("page", most=1_000_000)
    environment = Environment.SANDBOX if form.text("environment") == Environment.SANDBOX else Environment.LIVE
    wanted = RouteSearch(
        status=_STATUSES.get(form.text("status")),
        start_from=_start_of(page, "from"),
        start_to=_start_of(page, "to", days=1),
        held=_REASONS.get(form.text("held")),
        unit=form.text("unit"),
        driver=form.text("driver"),
        text=form.text("q"),
    )
    found = search_routes(
        page.connection, Tenant(page.company_id, environment), wanted, limit=PAGE_SIZE, offset=number * PAGE_SIZE
    )
    query = {name: form.text(name) for name in _FILTERS if form.text(name)}
    return page.render(
        "_routes.html" if page.is_fragment else "routes.html",
        section="routes",
        found=found,
        most_searched=MOST_SEARCHED,
        most_records=MOST_RECORDS,
        environment=environment,
        form=form,
        statuses=list(RouteStatus),
        reasons=list(PendingReason),
        is_filtered=any(wanted),
        page_number=number,
        pages=-(-found.total // PAGE_SIZE),
        address=lambda number: f"/routes?{urlencode({**query, 'page': number})}",
        of_environment=lambda one: f"/routes?{urlencode({**query, 'environment': one})}",
    )


def _start_of(page: Page, name: str, *, days: int = 0) -> datetime | None:
    """The first moment of a day in the company's zone, or of a later one. Raises Refused."""
    day = page.form.text(name)
    if not day:
        return None
    try:
        midnight = datetime.combine(datetime.fromisoformat(day).date() + timedelta(days=days), time())
        return midnight.replace(tzinfo=ZoneInfo(page.session.time_zone)).astimezone(UTC)
    except (ValueError, OverflowError):
        raise Refused(400, "This is no date", f"Go back and correct the day in “{name}”.") from None


def show_one(page: Page) -> Response:
    """A route's page; or the part of it that moves: status, drawing and timeline."""
    history = _history(page)
    tenant = _tenant(page, history)
    (versioned,) = read_routes([(tenant, history.route.id)]).on(page.connection)
    if versioned is None:
        raise not_found()
    moving: dict[str, Any] = {
        "route": versioned.route,
        "stored": history.route,
        "truck": history.truck,
        "drawing": draw(history),
        "width": WIDTH,
        "events": timeline(history),
        "seen": page.form.text("seen") if page.is_fragment else versioned.version,
        "version": versioned.version,
    }
    if page.is_fragment:
        return page.render("_route_now.html", **moving)
    explanation = history.explanation
    return page.render(
        "route.html",
        section="routes",
        **moving,
        visits=history.visits,
        plans=history.plans,
        messages=history.messages,
        explained=with_reasons(explanation) if explanation else None,
        api_view=msgspec.json.format(write(versioned.route), indent=2).decode(),
        api_url=page.console.settings.api_address(),
        may_cancel=page.session.role in MAY_CANCEL and history.route.status in CANCELABLE,
        done="The route is canceled." if page.form.text("done") == "canceled" else "",
    )


def cancel(page: Page) -> Response:
    """As DELETE does it, by the same rule, with the reason and who gave it."""
    history, reason = _history(page), page.form.text("reason")
    if not reason:
        raise Refused(400, "Say why the route is canceled", "Go back and give a reason: it is kept with the route.")
    route_id = history.route.id
    effect, jobs = cancel_route(
        page.connection,
        _tenant(page, history),
        route_id,
        now=page.now,
        reason=f"Canceled by {page.session.email}: {reason}",
    )
    page.jobs += jobs
    if effect is None:
        raise not_found()
    if effect == "refuse":
        raise Refused(409, "This route can no longer be canceled", "The driver has its plan, or it has ended.")
    if effect == "cancel":
        log.info("console.route_canceled", route_id=route_id, company_id=page.company_id, user_id=page.session.user_id)
    return see_other(f"/routes/{shown_id('rte', route_id)}?done=canceled")


def _history(page: Page) -> History:
    """Of the route in the address. Raises Refused."""
    route_id = read_id("rte", page.request.path_params["id"])
    history = read_history(page.connection, page.company_id, route_id) if route_id is not None else None
    if history is None:
        raise not_found()
    return history


def _tenant(page: Page, history: History) -> Tenant:
    return Tenant(page.company_id, Environment(history.route.environment))
