"""The console beside the pushes: what ten people who use it cost, and how long its pages take with a large table."""

import asyncio
import itertools
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial

from deploy.demo import HERE as DEMO
from domain.database.options import HOUSEKEEPING
from domain.ids import new_id, read_id
from domain.lifecycle import PendingReason, Role, RouteStatus
from domain.stations.deals import store_deal_rows
from domain.stations.stations import store_station_rows
from domain.stations.taxes import store_tax_rows
from tests.benchmarks.harness import Bench, Figure, Run, Stack, busiest, ratios
from tests.benchmarks.load import CONNECTIONS, Address, Load, drive, send
from tests.benchmarks.loader import Fleet, Lot, load_fleet, load_plans, load_routes
from tests.benchmarks.push import pushes
from tests.benchmarks.reads import SHARES, TRUCKS
from tests.browser.pages import PAGES, Site
from tests.factories import JOLIET, NEWARK, PERRYSBURG, route_body
from tests.factories import Fleet as SmallFleet
from tests.service import Service

PEOPLE = 10
SECONDS_BETWEEN_CLICKS = 2.0
"""The time between two clicks of one person. A page that nobody clicks on asks for its new state every 5 seconds."""
_WAITING = 0.01
"""The part of the routes that waits for a mapping, each for a truck of another name, of which there are `TRUCKS`."""

_SEARCHES = {
    "routes, in one status": "/routes?status=pending_window",
    "routes, of one unit": "/routes?unit=00042",
    "routes, with a word": "/routes?q=elkhart",
    "routes, with a word that none has": "/routes?q=nowhere",
    "routes, of some days": "/routes?from=2026-01-01&to=2030-01-01",
    "routes, page 1,000": "/routes?page=1000",
    "matching, of a name": "/matching/vehicles?q=00042",
}
"""Ways to ask for a list beside its first page."""


def run(bench: Bench) -> list[Figure]:
    with bench.stack("console") as stack:
        fleet = _load(bench, stack)
        ingress, console = stack.start_ingress(), stack.start_console()
        stack.start("workers", "--queues", "imports,arrivals,plans,messages")
        stack.start("scheduler")
        site = Site(f"http://{console[0]}:{console[1]}", stack.database, fleet.company_id)
        with bench.task("console: drives a route"):
            _drive(stack, ingress, fleet)
        pages = _requests(site)
        requests = pushes(stack)

        def push(connections: int, people: int) -> tuple[Load, Load | None]:
            return drive(_push(ingress, requests, connections, bench.seconds, console, pages, people))

        def show(request: bytes) -> Run:
            again, seconds = itertools.repeat(request), bench.seconds / 6
            load = send([console], again, expect=200, seconds=seconds, connections=1, warm_up=min(0.2, seconds))
            return stack.measure(load)

        pushed = bench.alternate(
            "console",
            {
                f"{connections} connections, {people} people": partial(push, connections, people)
                for connections in (1, CONNECTIONS)
                for people in (0, PEOPLE)
            },
        )
        shown = bench.alternate("console", {name: partial(show, request) for name, request in pages.items()})
    return [
        *(figure for connections in (1, CONNECTIONS) for figure in _of_pushes(connections, pushed)),
        *(
            Figure(
                f"console: {bench.routes:,} routes, {name}, p50",
                "ms",
                [one.load.percentile(50) for one in runs],
                at_most=150,
                note=busiest(runs[-1].shares),
            )
            for name, runs in shown.items()
        ),
    ]


def _of_pushes(connections: int, pushed: dict[str, list[tuple[Load, Load | None]]]) -> Iterator[Figure]:
    """The figures of pushes with people, divided by those of the run without them just before. The goal is the spread
    of the runs without them."""
    alone, beside = (
        [load.percentile(50) for load, _ in pushed[f"{connections} connections, {people} people"]]
        for people in (0, PEOPLE)
    )
    clicks = [load for _, load in pushed[f"{connections} connections, {PEOPLE} people"] if load is not None]
    note = f"{sum(load.counted for load in clicks)} clicks, p50 {clicks[-1].percentile(50):.0f} ms in the last round"
    name = f"console: pushes, {connections} connection{'s' * (connections > 1)}, p50"
    yield Figure(f"{name}, nobody at the console", "ms", alone)
    yield Figure(f"{name}, {PEOPLE} people at it", "ms", beside, note=note)
    spread = max(alone) / min(alone)
    yield Figure(f"{name}, by that with nobody", "x", ratios(beside, alone), at_most=spread)


async def _push(
    ingress: Address,
    requests: Iterator[bytes],
    connections: int,
    seconds: float,
    console: Address,
    pages: dict[str, bytes],
    people: int,
) -> tuple[Load, Load | None]:
    """Pushes, while so many people click through the pages."""
    pushing = send([ingress], requests, expect=201, seconds=seconds, connections=connections)
    if not people:
        return await pushing, None
    clicks = itertools.cycle(pages.values())
    clicking = send(
        [console],
        clicks,
        expect=200,
        seconds=seconds,
        connections=people,
        per_second=people / SECONDS_BETWEEN_CLICKS,
    )
    load, clicked = await asyncio.gather(pushing, clicking)
    return load, clicked


def _load(bench: Bench, stack: Stack) -> Fleet:
    """A company with all the routes."""
    now = datetime.now(UTC)
    with stack.database.transaction() as connection:
        fleet = load_fleet(connection, TRUCKS)
        plans = load_plans(connection, fleet)
    lots = [
        Lot(
            fleet,
            round(bench.routes * share),
            status,
            (now + first, now + last),
            reason=PendingReason.OUTSIDE_IMPORT_WINDOW if status is RouteStatus.PENDING_WINDOW else None,
            plans=plans,
        )
        for status, share, (first, last) in SHARES
    ]
    waiting = Lot(
        fleet,
        round(bench.routes * _WAITING),
        RouteStatus.PENDING_MAPPING,
        (now, now + timedelta(days=6)),
        reason=PendingReason.VEHICLE_UNMAPPED,
        unit_number="TRUCK {truck:05}",
    )
    with bench.task(f"console: loads {bench.routes:,} routes", bench.routes) as advance:
        load_routes(stack.database, [*lots, waiting], advance)
    with (
        bench.task("console: savings of the completed routes"),
        stack.database.transaction(limits=HOUSEKEEPING) as connection,
    ):
        connection.execute(_SAVINGS, (now, fleet.company_id))
        connection.execute("ANALYZE savings")
    return fleet


_SAVINGS = """
    INSERT INTO savings (route_id, company_id, environment, plan_id, planned_at, vehicle_id, driver_id,
                         origin, destination, gallons, cost_cents, saved_cents)
    SELECT r.id, r.company_id, r.environment, r.plan_id, least(r.scheduled_start, %s), r.vehicle_id, r.driver_id,
           r.stops->0->>'name', r.stops->-1->>'name', 150.0, 52050, 3150
    FROM routes r WHERE r.company_id = %s AND r.status = 'completed' AND r.plan_id IS NOT NULL
      AND r.vehicle_id IS NOT NULL
"""
"""Stores the savings of every plan at once, as `domain/savings` does. There are only a few plans, so the figures
repeat."""


def _drive(stack: Stack, ingress: Address, fleet: Fleet) -> None:
    """A route whose driver has a plan that can be explained: the fullest page there is."""
    truck, driver = new_id(), new_id()
    with stack.database.transaction() as connection:
        now = datetime.now(UTC)
        store_station_rows(connection, DEMO / "stations.csv", now=now)
        store_tax_rows(connection, DEMO / "taxes.csv", now=now)
        store_deal_rows(connection, fleet.company_id, DEMO / "deals.csv", now=now)
    stack.execute(
        "INSERT INTO vehicles (id, company_id, unit_number) VALUES (%s, %s, 'DRIVEN')", truck, fleet.company_id
    )
    stack.execute("INSERT INTO drivers (id, company_id, name) VALUES (%s, %s, 'Ann Lee')", driver, fleet.company_id)
    service = Service(f"http://{ingress[0]}:{ingress[1]}", stack.database, stack.settings)
    with service.client(SmallFleet(fleet.company_id, (truck, truck), (driver, driver))) as client:
        body = route_body(datetime.now(UTC), vehicle={"unitNumber": "DRIVEN"}, stops=[JOLIET, PERRYSBURG, NEWARK])
        route = client.push(body).json()
        client.post_fixes(JOLIET, unit_number="DRIVEN", fuelPercent=60)
    stack.wait_until(f"SELECT status = 'active' FROM routes WHERE id = '{read_id('rte', route['id'])}'", seconds=120)


def _requests(site: Site) -> dict[str, bytes]:
    """Every page that has an address, and some searches."""
    cookies = {role: site.cookie(role) for role in Role}
    paths: Sequence[tuple[str, str, Role]] = [
        *((visit.name, visit.path_in(site), visit.role or Role.OWNER) for visit in PAGES if visit.act is None),
        *((name, path, Role.OWNER) for name, path in _SEARCHES.items()),
    ]
    return {
        name: f"GET {path} HTTP/1.1\r\nHost: bench\r\nCookie: fuelroute={cookies[role]}\r\n\r\n".encode()
        for name, path, role in paths
    }
