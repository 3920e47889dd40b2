"""The page Overview, the first one after signing in: the day's routes, what needs a person, the month's savings; for a
new company, the steps to its first plan."""

from collections.abc import Collection
from datetime import timedelta
from typing import NamedTuple
from urllib.parse import urlencode

from starlette.responses import Response

from domain.accounts.users import (
    EVERYBODY,
    MAY_DISPATCH,
    MAY_EDIT_FLEET,
    MAY_EDIT_POLICY,
    MAY_MANAGE_CONNECTORS,
    MAY_MANAGE_KEYS,
    MAY_MATCH,
)
from domain.audit.entries import Actor
from domain.database.connections import Tenant
from domain.lifecycle import Environment, Role, RouteStatus
from domain.needs.route_needs import MOST_OF_A_NEED, find_routes_in_need
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
    """A step of setting up. People without one of the roles `by` see no link."""

    is_done: bool
    words: str
    path: str
    why: str
    by: Collection[Role]


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
        routes_in_need=find_routes_in_need(page.connection, live, now=page.now),
        most_counted=MOST_OF_A_NEED,
        has_fresh_prices=set_up.stations,
        month=month,
        saved=total_of(savings_by_week(page.connection, live, month)),
        steps=None if set_up.plans else _steps(set_up),
        tomorrow=today + timedelta(days=1),
        fleet_speed=fleet_speed,
        fleet_speeds=FLEET_SPEEDS,
        fleet_slows_at=fleet.slows_at if fleet is not None and fleet_speed != USUAL_SPEED else None,
        may_set_speed=page.session.role in MAY_DISPATCH,
    )
    return response if page.is_fragment else with_map(page.console.settings, response)


def _steps(set_up: SetUp) -> list[_Step]:
    return [_Step(is_done, *step) for is_done, step in zip(_done(set_up), _STEPS, strict=True)]


def _done(set_up: SetUp) -> list[bool]:
    """The truth of each of `_STEPS`: True if it is done. Routes that came by a file need no key."""
    ready = set_up._replace(keys=set_up.keys or set_up.routes)
    return [bool(one) for one in ready]


_STEPS: tuple[tuple[str, str, str, Collection[Role]], ...] = (
    (
        "Set the time zone of your company",
        "/policy",
        "It is UTC until then. Times of messages and files, and the days of deals, taxes and reports, go by it.",
        MAY_EDIT_POLICY,
    ),
    (
        "Add the vehicles of your fleet",
        "/vehicles",
        "One by one, or as a CSV file. Routes are matched to them by unit number.",
        MAY_EDIT_FLEET,
    ),
    (
        "Add the drivers, with the address that their messages go to",
        "/drivers",
        "Each plan is sent to the driver of its route.",
        MAY_EDIT_FLEET,
    ),
    (
        "Check that truck stops have prices of the last seven days",
        "/stations",
        "No plan can be made without. An operator imports retail prices for all companies.",
        EVERYBODY,
    ),
    (
        "Connect the positions of your trucks",
        "/connectors",
        "A plan is made once its truck is at the first stop. A connector asks your vendor of telematics where it is.",
        MAY_MANAGE_CONNECTORS,
    ),
    (
        "Make an API key for your TMS",
        "/keys",
        "The TMS pushes its routes with it. Without a TMS, push a file of routes.",
        MAY_MANAGE_KEYS,
    ),
    (
        "Push the first route, or a file of routes",
        "/route-files",
        "Try it in the sandbox: nothing is sent to anybody, and a simulated truck drives the route.",
        MAY_MATCH,
    ),
    (
        "See the first plan",
        "/routes",
        "It is made, and sent to the driver, once the truck of the route is at its first stop.",
        EVERYBODY,
    ),
)
"""The words of each step, its page, why it is taken, and who may take it; in the order of `SetUp`."""


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
