"""`fuelroute up --demo`: a company with a fleet and prices, pushed routes, trucks driven and one that jumps."""

import json
import secrets
import shlex
import time
from collections.abc import Callable, Collection, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import httpx
from rich.console import Console
from rich.table import Table

from deploy.demo.living import ACTOR, demo_file, make_history, read_demo
from deploy.demo.trips import TRUCKS
from deploy.drive import drive_route
from deploy.embedded import write_private
from domain import clock
from domain.accounts.companies import create_company
from domain.accounts.keys import create_key
from domain.accounts.policy import Policy
from domain.accounts.users import create_user
from domain.contract.shapes import SCOPES
from domain.database.connections import Connection, Database
from domain.database.statements import Scalar, Statement
from domain.files.csvfiles import ImportReport
from domain.ids import read_id, shown_id
from domain.lifecycle import Environment, Role
from domain.roads import Point
from domain.routes.intake.fleet_changes import import_drivers, import_vehicles
from domain.settings import DEMO_FILE, Settings
from domain.stations.deals import store_deal_rows
from domain.stations.stations import store_station_rows
from domain.stations.taxes import store_tax_rows
from domain.text import printable
from domain.wording import counted

HERE = Path(__file__).parent

JOLIET = {
    "name": "Joliet Intermodal Terminal",
    "address": "3000 Centerpoint Way, Joliet, IL",
    "latitude": 41.462,
    "longitude": -88.125,
}
PERRYSBURG = {"name": "Ampoint Industrial Park", "address": "Perrysburg, OH", "latitude": 41.535, "longitude": -83.470}
NEWARK = {
    "name": "Port Newark Container Terminal",
    "address": "241 Calcutta St, Newark, NJ",
    "latitude": 40.695,
    "longitude": -74.155,
}
MEMPHIS = {
    "name": "Memphis Intermodal",
    "address": "4600 E Shelby Dr, Memphis, TN",
    "latitude": 35.022,
    "longitude": -89.905,
}
AMARILLO = {"name": "Distribution yard", "address": "Amarillo, TX", "latitude": 35.205, "longitude": -101.720}
ALBUQUERQUE = {"name": "Warehouse district", "address": "Albuquerque, NM", "latitude": 35.055, "longitude": -106.690}
DALLAS = {"name": "Dallas Intermodal Terminal", "address": "Wilmer, TX", "latitude": 32.600, "longitude": -96.690}
WICHITA = {"name": "Freight terminal", "address": "Wichita, KS", "latitude": 37.605, "longitude": -97.330}
KANSAS_CITY = {
    "name": "Logistics Park Kansas City",
    "address": "191st St, Edgerton, KS",
    "latitude": 38.770,
    "longitude": -94.985,
}
ONTARIO = {"name": "Ontario airport cargo", "address": "Ontario, CA", "latitude": 34.060, "longitude": -117.590}
EL_PASO = {"name": "Cross-dock", "address": "El Paso, TX", "latitude": 31.785, "longitude": -106.370}

LOW_FUEL_PERCENT = 12.0
"""A level below the reserve of 15 %: the truck has to use the reserve to reach fuel."""

FORT_WAYNE = Point(41.08, -85.14)
"""A place south of the road from Joliet to Perrysburg."""

_IN_SANDBOX = ("sandbox", "low on fuel", "off its road")
_USER = "demo@example.com"

_DRIVES: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("sandbox", "a truck drives the sandbox route, in simulated time", {}),
    ("live", "a truck jumps through a live route", {"jump": True}),
    (
        "low on fuel",
        f"a truck with {LOW_FUEL_PERCENT:g} % in its tank drives to the first fuel that it can reach",
        {"fuel_percent": LOW_FUEL_PERCENT},
    ),
    ("off its road", "a truck leaves its plan's road, and its driver gets a new plan", {"by_way_of": FORT_WAYNE}),
)
"""Each drive: the name of the route, the heading, and the options."""

_COMPANIES = Scalar(UUID, "SELECT id FROM companies")
_COMPANY_OF_USER = Scalar(UUID | None, "SELECT company_id FROM users WHERE email = %s")


def standing_at(stop: Mapping[str, Any], unit_number: str, *, fuel_percent: float) -> list[dict[str, Any]]:
    """The positions, in the form of the feed, of a truck that arrives at a stop and stands there."""
    now = clock.now()
    return [
        {
            "unitNumber": unit_number,
            "latitude": stop["latitude"],
            "longitude": stop["longitude"],
            "recordedAt": (now - timedelta(seconds=seconds)).isoformat(),
            "speedMph": 0,
            "fuelPercent": fuel_percent,
        }
        for seconds in (60, 30, 0)
    ]


def run_demo(
    settings: Settings, screen: Console, *, fleet: bool = True, stopping: Callable[[], bool] = lambda: False
) -> None:
    """Fills an empty database and shows the life of a route; if the database has data, only says so. With `fleet` the
    demo has a quarter of history, and 24 trucks that `drive_fleet` drives."""
    file = demo_file(settings)
    with Database.of(settings) as database:
        with database.transaction() as connection:
            companies = {shown_id("cmp", company_id) for company_id in _COMPANIES.all(connection)}
        removed_at = read_demo(settings).get("removed_at")
        if not companies and removed_at is not None:
            screen.print(f"the demo was removed at {removed_at}; delete {file} to have it again", soft_wrap=True)
            return
        if companies:
            _show_again(settings, database, companies, screen, fleet=fleet)
            return
        screen.rule("demo: a fleet, truck stops, prices")
        demo = _fill(database, settings, screen)
        screen.print(f"live and sandbox keys are in {file}", soft_wrap=True, highlight=False)
        _show_user(settings, demo, screen)
        if fleet:
            _make_fleet(settings, database, demo, screen)
        screen.rule("routes")
        demo["routes"] = _push_routes(demo, screen)
        _store(file, demo)
        for name, told, how in _DRIVES:
            if stopping():
                return
            screen.rule(told)
            route_id = demo["routes"][name]
            drive_route(settings, route_id, screen=screen, **how)
            _show_life(database, route_id, screen)
            if name in ("low on fuel", "off its road"):
                _show_message(database, route_id, screen)
    _show_plan(demo, screen)
    _say_what_next(file, demo, screen)


def _make_fleet(settings: Settings, database: Database, demo: dict[str, Any], screen: Console) -> None:
    """Makes the history and the living fleet, where they are not there yet."""
    company_id = read_id("cmp", demo["company_id"])
    began = time.monotonic()
    made = make_history(database, company_id, settings, now=clock.now()) if company_id is not None else None
    if made is not None:
        screen.print(
            f"{TRUCKS} trucks with {made.trips} completed trips and {made.fills} fills of a quarter, in "
            f"{time.monotonic() - began:.1f} s; now they drive on: see the console's Overview and Map",
            highlight=False,
        )
        screen.print("fuelroute demo remove takes all of it away", style="dim", highlight=False)


def _fill(database: Database, settings: Settings, screen: Console) -> dict[str, Any]:
    """Makes the company. Its keys are in the demo's file before they are in the database: a start that is killed in
    between leaves a file that names no company."""
    now = clock.now()
    password = secrets.token_urlsafe(12)
    with database.transaction() as connection:
        policy = Policy(
            name="Prairie Demo Freight", time_zone="America/Chicago", superseding=True, replan_en_route=True
        )
        company_id = create_company(connection, policy)
        reports = {
            "vehicles": import_vehicles(connection, company_id, HERE / "vehicles.csv"),
            "drivers": import_drivers(connection, company_id, HERE / "drivers.csv"),
            "truck stops": store_station_rows(connection, HERE / "stations.csv", now=now),
            "tax rates": store_tax_rows(connection, HERE / "taxes.csv", now=now),
            "deals": store_deal_rows(connection, company_id, HERE / "deals.csv", now=now),
        }
        keys = {environment: _make_key(connection, company_id, environment) for environment in Environment}
        create_user(connection, ACTOR, email=_USER, role=Role.OWNER, company_id=company_id, password=password)
        demo = _demo(settings, company_id, keys, password)
        _store(demo_file(settings), demo)
    screen.print(", ".join(f"{_stored(report)} {what}" for what, report in reports.items()), highlight=False)
    screen.print("the places are real; brands, prices, trucks and people are invented", style="dim")
    return demo


def _demo(settings: Settings, company_id: UUID, keys: Mapping[Environment, str], password: str) -> dict[str, Any]:
    return {
        "url": settings.http_url(),
        "company_id": shown_id("cmp", company_id),
        "live_key": keys[Environment.LIVE],
        "sandbox_key": keys[Environment.SANDBOX],
        "console_url": settings.console_address(),
        "console_user": _USER,
        "console_password": password,
        "routes": {},
    }


def _show_user(settings: Settings, demo: dict[str, Any], screen: Console) -> None:
    """Shows the password of the demo's user, the only secret that is ever shown: it opens nothing but this demo's
    company."""
    screen.print(
        f"sign in to the console {settings.console_address()} as {demo['console_user']}, password "
        f"{demo['console_password']}",
        soft_wrap=True,
        highlight=False,
        markup=False,
    )


def _stored(report: ImportReport) -> int:
    return report.created + report.updated + report.unchanged


def _make_key(connection: Connection, company_id: UUID, environment: Environment) -> str:
    return create_key(
        connection, company_id, ACTOR, name=f"demo {environment}", environment=environment, scopes=list(SCOPES)
    ).key


def _push_routes(demo: dict[str, Any], screen: Console) -> dict[str, str]:
    now = clock.now()
    soon, tomorrow, next_month = (now + timedelta(hours=hours) for hours in (1, 20, 24 * 30))
    pushes = (
        ("sandbox", "DEMO-1", "4106", "Maria Villanueva", soon, [MEMPHIS, AMARILLO, ALBUQUERQUE]),
        ("live", "DEMO-2", "4105", None, soon, [DALLAS, WICHITA, KANSAS_CITY]),
        ("draft", "DEMO-3", "4103", None, tomorrow, [JOLIET, PERRYSBURG, NEWARK]),
        ("waits for a mapping", "DEMO-4", "7777", None, tomorrow, [ONTARIO, EL_PASO]),
        ("waits for its window", "DEMO-5", "4104", None, next_month, [ONTARIO, EL_PASO]),
        ("low on fuel", "DEMO-6", "4102", None, soon, [JOLIET, PERRYSBURG]),
        ("off its road", "DEMO-7", "4101", None, soon, [JOLIET, PERRYSBURG]),
    )
    routes = {}
    drivers = _drivers(demo)
    with httpx.Client(base_url=demo["url"], timeout=120) as client:
        for number, (name, external_id, unit_number, driver, start, stops) in enumerate(pushes):
            key = demo["sandbox_key" if name in _IN_SANDBOX else "live_key"]
            answer = client.post(
                "/v1/routes",
                headers={"Authorization": f"Bearer {key}"},
                json={
                    "externalId": external_id,
                    "reference": f"PO-{7000 + number}",
                    "vehicle": {"unitNumber": unit_number},
                    "driver": {"name": driver or drivers[number]},
                    "scheduledStart": start.isoformat(),
                    "stops": stops,
                },
            )
            answer.raise_for_status()
            route = answer.json()
            routes[name] = route["id"]
            why = f": {route['pending']['detail']}" if route["pending"] else ""
            screen.print(
                f"POST /v1/routes {answer.status_code} {route['environment']:7} {stops[0]['name']} to "
                f"{stops[-1]['name']}, truck {unit_number}: {route['status']}{why}",
                highlight=False,
            )
    return routes


def _drivers(demo: dict[str, Any]) -> list[str]:
    answer = httpx.get(f"{demo['url']}/v1/drivers", headers={"Authorization": f"Bearer {demo['live_key']}"})
    return [driver["name"] for driver in answer.raise_for_status().json()["data"]]


class _Life(NamedTuple):
    """A route's status, and the times of its changes."""

    status: str
    closed_reason: str | None
    imported_at: datetime | None
    updated_at: datetime
    generated_at: datetime | None
    sent_at: datetime | None


_LIFE = Statement(
    _Life,
    "SELECT r.status, r.closed_reason, r.imported_at, r.updated_at, p.generated_at, m.sent_at FROM routes r"
    " LEFT JOIN plans p ON p.id = r.plan_id LEFT JOIN messages m ON m.plan_id = p.id WHERE r.id = %s",
)


def _show_life(database: Database, route_id: str, screen: Console) -> None:
    with database.transaction() as connection:
        row = _LIFE.first(connection, (read_id("rte", route_id),))
    if row is None:
        return
    steps = [("draft", row.imported_at), ("planned", row.generated_at), ("active", row.sent_at)]
    if row.status not in dict(steps):
        steps.append((row.status, row.updated_at))
    told = " -> ".join(f"{name} {moment:%H:%M:%S.%f}"[:-3] for name, moment in steps if moment is not None)
    screen.print(told, style="bold green", highlight=False)
    if row.closed_reason:
        screen.print(row.closed_reason, style="red")


_TEXT = Scalar(str | None, "SELECT text FROM messages WHERE route_id = %s ORDER BY created_at DESC, id DESC LIMIT 1")


def _show_message(database: Database, route_id: str, screen: Console) -> None:
    """Print the newest message to the driver. The sandbox sends nothing, so it can be read only here."""
    with database.transaction() as connection:
        text = _TEXT.first(connection, (read_id("rte", route_id),))
    if text is not None:
        screen.print(printable(text, keep="\n"), soft_wrap=True, highlight=False, markup=False)


def _show_plan(demo: dict[str, Any], screen: Console) -> None:
    """Shows the sandbox route's plan, by the API's answer, in a table."""
    answer = httpx.get(
        f"{demo['url']}/v1/routes/{demo['routes']['sandbox']}",
        headers={"Authorization": f"Bearer {demo['sandbox_key']}"},
    )
    route = answer.raise_for_status().json()
    plan = route["fuelPlan"]
    if plan is None:
        screen.print(f"the route {route['id']} is {route['status']} and has no plan")
        return
    table = Table(title=f"fuel plan of {route['name']}: {plan['totalDistanceMiles']:.0f} miles")
    for heading in ("stop", "mile", "gallons", "$ per gallon", "cost", "tank on arrival"):
        table.add_column(heading, justify="left" if heading == "stop" else "right")
    for stop in plan["stops"]:
        table.add_row(
            f"{stop['name']}, {stop['address']}",
            f"{stop['milesFromOrigin']:.1f}",
            f"{stop['gallonsToFill']:.1f}",
            f"{stop['pricePerGallon']:.3f}",
            f"{stop['totalCost']:.2f}",
            f"{stop['arrivalFuelPercent']} %",
        )
    table.add_section()
    average = f"{plan['averagePricePerGallon']:.3f}"
    table.add_row("total", "", f"{plan['totalGallons']:.1f}", average, f"{plan['totalCost']:.2f}", "")
    screen.print(table)
    if plan["savingsTotal"] is not None:
        screen.print(
            f"${plan['savingsTotal']:.2f} below the average price of the corridor "
            f"(${plan['savingsPerGallon']:.3f} a gallon)",
            highlight=False,
        )


def _show_again(settings: Settings, database: Database, companies: set[str], screen: Console, *, fleet: bool) -> None:
    """Shows the demo of an earlier start on this data."""
    file, demo = demo_file(settings), read_demo(settings)
    if demo.get("company_id") not in companies:
        with database.transaction() as connection:
            demos = _COMPANY_OF_USER.first(connection, (_USER,))
        screen.print(_why_left_out(companies, demos), soft_wrap=True, highlight=False, markup=False)
        return
    demo["url"], demo["console_url"] = settings.http_url(), settings.console_address()
    _store(file, demo)
    screen.print(
        f"the demo is there already; its keys and the console's user are in {file}", soft_wrap=True, highlight=False
    )
    if fleet:
        _make_fleet(settings, database, demo, screen)
    if "sandbox" in demo["routes"]:
        _show_plan(demo, screen)
    _say_what_next(file, demo, screen)


def _why_left_out(companies: Collection[str], company_of_user: UUID | None) -> str:
    """The reason why a database that this data folder did not fill gets no demo, and a way to one. `company_of_user` is
    that of the demo's user, if there is one."""
    if company_of_user is not None:
        return (
            f"the demo of another data folder is in this database: the file {DEMO_FILE} of that folder has its keys and"
            " the console's user. Start Fuelroute there, or give this folder a database of its own"
        )
    there = counted(len(companies), "company is", "companies are")
    return (
        f"{there} in the database already, so the demo is left out: it takes an empty database. Without"
        " FUELROUTE_DATABASE_URL, `fuelroute up --demo --data DIR` starts one in the folder DIR"
    )


def _say_what_next(file: Path, demo: dict[str, Any], screen: Console) -> None:
    screen.rule("now you")
    # No key is shown: terminals are recorded, and the logs of containers have many readers.
    read = "import json, sys; print(json.load(open(sys.argv[1]))['sandbox_key'])"
    screen.print(f'KEY=$(python3 -c "{read}" {shlex.quote(str(file))})', soft_wrap=True, highlight=False, markup=False)
    for path in ("/v1/me", "/v1/routes"):
        screen.print(f'curl -H "Authorization: Bearer $KEY" {demo["url"]}{path}', soft_wrap=True, highlight=False)


def _store(file: Path, demo: dict[str, Any]) -> None:
    write_private(file, json.dumps(demo, indent=2) + "\n")  # there are keys in it
