"""Stations that are marked closed: the forms on the page of a station and on that of a route, and the list of them."""

from urllib.parse import urlencode
from uuid import UUID

from starlette.responses import Response

from domain.accounts.users import MAY_DISPATCH
from domain.audit.entries import Actor
from domain.ids import read_id, shown_id
from domain.lifecycle import Role
from domain.routes.plans.closed_stations import close_station, reopen_station
from domain.telemetry.logs import get_logger
from ingress.console.addresses import action_at
from ingress.console.signed_in import Page, see_other

log = get_logger(__name__)


def close(page: Page, by: Actor) -> Response:
    """Mark a station as closed until the time in the form. Raises UnknownStation, or ImpossibleClosure if it cannot be
    closed until then; the page says why."""
    station_id, company_id = page.form.packed("id"), _whose(page)
    routes = close_station(
        page.connection, station_id, company_id, page.moment("until", "Go back and say until when."), by, now=page.now
    )
    log.info("console.station_closed", company_id=company_id, user_id=page.session.user_id, routes=routes)
    return _back(page, station_id, "closed")


def reopen(page: Page, by: Actor) -> Response:
    station_id, company_id = page.form.packed("id"), _whose(page)
    is_news = reopen_station(page.connection, station_id, company_id, by, now=page.now)
    if is_news:
        log.info("console.station_reopened", company_id=company_id, user_id=page.session.user_id)
    return _back(page, station_id, "reopened")


def _whose(page: Page) -> UUID | None:
    """The company whose plans leave the station out; None for those of all, which only operators decide."""
    is_for_all = page.session.role is Role.OPERATOR and page.form.text("for_all") == "yes"
    return None if is_for_all else page.company_id


def _back(page: Page, station_id: str, done: str) -> Response:
    """The page from which the form came: a route's or the station's."""
    route_id = read_id("rte", page.form.text("route"))
    if route_id is not None:
        return see_other(f"/routes/{shown_id('rte', route_id)}?{urlencode({'done': done})}")
    return see_other(f"/stations/one?{urlencode({'id': station_id, 'done': done})}")


ADDRESSES = [
    action_at("/stations/close", close, by=MAY_DISPATCH),
    action_at("/stations/reopen", reopen, by=MAY_DISPATCH),
]
