"""The page Overview, the first one after signing in: the day's routes, what needs a person, the month's savings; for a
new company, the steps to its first route."""

from datetime import timedelta
from typing import NamedTuple
from urllib.parse import urlencode

from starlette.responses import Response

from domain.accounts.users import MAY_DISPATCH
from domain.audit.entries import Actor
from domain.database.connections import Tenant
from domain.lifecycle import Environment, RouteStatus
from domain.needs.company_needs import MOST_OF_A_NEED, find_routes_in_need
from domain.routes.reading.overview import SetUp, read_set_up, routes_by_status
from domain.sandbox.demo_fleet import FLEET_SPEEDS, USUAL_SPEED, read_demo_fleet, set_fleet_speed
from domain.savings.report import savings_by_week, total_of
from domain.savings.spans import Span, month_of
from ingress.console.addresses import action_at, page_at
from ingress.console.maps import with_map
from ingress.console.refusals import not_found
from ingress.console.report_choices import today_of
from ingress.console.signed_in import Page, see_other


class _Step(NamedTuple):
    """A step of setting up."""

    is_done: bool
    words: str
    path: str


def show(page: Page) -> Response:
    live, sandbox = (Tenant(page.company_id, environment) for environment in (Environment.LIVE, Environment.SANDBOX))
    today = today_of(page)
    month, day = month_of(today, page.session.time_zone), Span(today, today, page.session.time_zone)
    set_up = read_set_up(page.connection, page.company_id, now=page.now)
    counts = routes_by_status(page.connection, live, day)
    fleet = read_demo_fleet(page.connection, page.company_id)
    fleet_speed = fleet.speed_at(page.now) if fleet is not None else None
    response = page.render(
        "_overview.html" if page.is_fragment else "overview.html",
        section="overview",
        company_id=page.company_id,
        has_trucks=bool(set_up.vehicles),
        today=today,
        statuses=[
            (status, counts[status], f"/routes?{urlencode({'status': status, 'from': today, 'to': today})}")
            for status in RouteStatus
            if status in counts
        ],
        sandbox_routes=sum(routes_by_status(page.connection, sandbox, day).values()),
        needs=find_routes_in_need(page.connection, live, now=page.now),
        most_counted=MOST_OF_A_NEED,
        has_fresh_prices=set_up.stations,
        month=month,
        saved=total_of(savings_by_week(page.connection, live, month)),
        steps=None if set_up.is_complete or set_up.routes else _steps(set_up),
        tomorrow=today + timedelta(days=1),
        fleet_speed=fleet_speed,
        fleet_speeds=FLEET_SPEEDS,
        fleet_slows_at=fleet.slows_at if fleet is not None and fleet_speed != USUAL_SPEED else None,
        may_set_speed=page.session.role in MAY_DISPATCH,
    )
    return response if page.is_fragment else with_map(page.console.settings, response)


def _steps(set_up: SetUp) -> list[_Step]:
    return [
        _Step(bool(set_up.vehicles), "Add the vehicles of your fleet, one by one or as a CSV file", "/vehicles"),
        _Step(bool(set_up.drivers), "Add the drivers, with the address that their messages go to", "/drivers"),
        _Step(bool(set_up.stations), "Check that truck stops have prices of the last seven days", "/stations"),
        _Step(bool(set_up.keys), "Make an API key for your TMS", "/keys"),
        _Step(bool(set_up.routes), "Push the first route, or a file of routes", "/route-files"),
    ]


def set_demo_speed(page: Page, by: Actor) -> Response:
    """Lets the demo's trucks drive at the speed of the button."""
    speed = page.form.text("speed")
    if speed not in map(str, FLEET_SPEEDS) or not set_fleet_speed(
        page.connection, page.company_id, int(speed), by, now=page.now
    ):
        raise not_found()
    return see_other("/overview")


def home(_: Page) -> Response:
    return see_other("/overview")


ADDRESSES = [
    page_at("/", home),
    page_at("/overview", show),
    action_at("/overview/demo-speed", set_demo_speed, by=MAY_DISPATCH),
]
