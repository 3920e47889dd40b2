"""Pages of drivers beside pushes: 200 a second, of four companies whose trucks are on their way. A page of which only
the truck has moved since it was last shown, as a phone that asks every minute finds it, costs less than one that is
made anew."""

import itertools
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import NamedTuple
from uuid import UUID

import numpy as np

from domain.database.options import HOUSEKEEPING
from domain.encoding import write
from domain.messages.driver_links import issue_driver_link
from domain.planning.coarse_ways import pack_way
from domain.roads import Road
from tests.benchmarks.beside import Computing, others_alone, pushes_beside
from tests.benchmarks.harness import Bench, Figure, Run, Stack, exact_cpu_seconds
from tests.benchmarks.load import drive, send
from tests.benchmarks.map_fleet import load_map_fleet

PAGES_PER_SECOND = 200.0
COMPANIES, TRUCKS = 4, 250
_URL = "https://drive.example.com"

_LINE = np.array([[41.46, -88.12], [41.5, -86.0], [41.5, -82.0], [41.0, -78.0], [40.7, -74.15]])
_ROAD = Road(
    distance_miles=841.2,
    line=_LINE,
    line_miles=np.array([0.0, 100.0, 310.0, 520.0, 841.2]),
    stop_miles=(0.0, 841.2),
    stop_hours=(0.0, 14.0),
    source="bench",
)
_FACTS = {
    "lowFuel": False,
    "fuelStops": [
        {
            "heading": "east",
            "road": "I-80 E",
            "exit": "122",
            "town": {"name": "Goshen, IN", "miles": 12.2, "isAhead": False},
            "isOnLeft": False,
            "offRoadMiles": 0.3,
            "wayOut": {"name": "Love's 305", "mile": 160.4, "latitude": 41.7, "longitude": -85.4},
            "priceChange": None,
        }
    ]
    * 3,
}
_TELL = "UPDATE plans SET driver_facts = %s, coarse_way = %s, fuel_at = generated_at WHERE company_id = %s"
_ON_THE_ROAD = "UPDATE tracks SET latitude = 41.5, longitude = -85.9 + 3 * random(), newest_at = clock_timestamp()"
_OTHERWISE = "UPDATE routes SET updated_at = clock_timestamp() WHERE status = 'active'"
"""Changes something of every trip."""


_SERVERS = ("ingress", "postgres", "redis")


class _Cost(NamedTuple):
    """The processor time of each server for a page, in a run."""

    milliseconds: dict[str, float]
    run: Run


class _Trip(NamedTuple):
    company_id: UUID
    environment: str
    route_id: UUID
    driver_id: UUID


def run(bench: Bench) -> list[Figure]:
    with bench.stack("pages") as stack:
        with bench.task(f"pages: loads {COMPANIES * TRUCKS:,} trucks"):
            asked = [_get(token) for _ in range(COMPANIES) for token in _load(stack)]
        pages = itertools.cycle(asked)
        ingress = stack.start_ingress(DRIVER_PAGE_URL=_URL)
        stack.start("workers", "--queues", "imports")
        stack.start("scheduler")

        def ask_after(change: str) -> _Cost:
            drive(send([ingress], iter(asked), expect=200, seconds=60, connections=32, warm_up=0))  # each is kept
            stack.execute(change)
            before = _spent(stack)
            run = stack.measure(others_alone(ingress, pages, PAGES_PER_SECOND, bench.seconds))
            answers = sum(run.load.answers.values())
            return _Cost({name: 1000 * (spent - before[name]) / answers for name, spent in _spent(stack).items()}, run)

        changes = {"behind a new fix": _ON_THE_ROAD, "made anew": _OTHERWISE}
        costs = bench.alternate("pages", {kind: partial(ask_after, change) for kind, change in changes.items()})
        milliseconds = sum(ask_after(_ON_THE_ROAD).milliseconds.values())
        computing = Computing(milliseconds, PAGES_PER_SECOND, 0)
        beside = pushes_beside(bench, stack, ingress, "pages", pages, PAGES_PER_SECOND, computing=computing)
    return [
        *(figure for kind, found in costs.items() for figure in _figures(kind, found)),
        Figure("pages: processor time of one beside pushes", "ms", [milliseconds]),
        *beside,
    ]


def _spent(stack: Stack) -> dict[str, float]:
    """The processor seconds of each server so far."""
    return {name: sum(map(exact_cpu_seconds, stack.pids_of(name))) for name in _SERVERS}


def _figures(kind: str, costs: Sequence[_Cost]) -> Iterator[Figure]:
    work = f"pages: {PAGES_PER_SECOND:.0f} a second, {kind}"
    note = costs[-1].run.note
    for name in _SERVERS:
        spent = [one.milliseconds[name] for one in costs]
        yield Figure(f"{work}, processor time of a page, {name}", "ms", spent, note=note)
    yield Figure(f"{work}, processor time of a page", "ms", [sum(one.milliseconds.values()) for one in costs])
    for percent in (50, 99):
        yield Figure(f"{work}, p{percent}", "ms", [one.run.load.percentile(percent) for one in costs])


def _load(stack: Stack) -> list[str]:
    """A company's trips. Returns a token for each."""
    now = datetime.now(UTC)
    fleet = load_map_fleet(stack.database, TRUCKS)
    packed = pack_way(_ROAD, mpg=6.5, capacity_gallons=200)
    with stack.database.transaction(limits=HOUSEKEEPING) as connection:
        connection.execute(_TELL, (write(_FACTS).decode(), packed, fleet.company_id))
        trips = [
            _Trip(*row)
            for row in connection.execute(
                "SELECT company_id, environment, id, driver_id FROM routes WHERE company_id = %s AND status = 'active'",
                (fleet.company_id,),
            ).fetchall()
        ]
        tokens = [issue_driver_link(connection, trip, _URL, now=now).rpartition("/")[2] for trip in trips]
        connection.execute("ANALYZE driver_links")
    return tokens


def _get(token: str) -> bytes:
    return b"GET /d/%b HTTP/1.1\r\nHost: bench\r\n\r\n" % token.encode()
