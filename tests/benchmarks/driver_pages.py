"""Pages of drivers beside pushes: 200 a second, of four companies whose trucks are on their way.

The figures compare rounds with those pages and rounds without."""

import itertools
from datetime import UTC, datetime
from typing import NamedTuple
from uuid import UUID

import numpy as np

from domain.database.options import HOUSEKEEPING
from domain.encoding import write
from domain.messages.driver_links import issue_driver_link
from domain.planning.coarse_ways import pack_way
from domain.roads import Road
from tests.benchmarks.beside import others_alone, pushes_beside
from tests.benchmarks.harness import Bench, Figure, Run, Stack, exact_cpu_seconds
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
_ON_THE_ROAD = """
    UPDATE tracks SET latitude = 41.5, longitude = -85.9 + 3 * random() WHERE company_id = %s
"""


class _Trip(NamedTuple):
    company_id: UUID
    environment: str
    route_id: UUID
    driver_id: UUID


def run(bench: Bench) -> list[Figure]:
    with bench.stack("pages") as stack:
        with bench.task(f"pages: loads {COMPANIES * TRUCKS:,} trucks"):
            tokens = [token for _ in range(COMPANIES) for token in _load(stack)]
        pages = itertools.cycle([_get(token) for token in tokens])
        ingress = stack.start_ingress(DRIVER_PAGE_URL=_URL)
        stack.start("workers", "--queues", "imports")
        stack.start("scheduler")

        def alone() -> tuple[float, Run]:
            pids = stack.pids_of("ingress")
            before = sum(map(exact_cpu_seconds, pids))
            run = stack.measure(others_alone(ingress, pages, PAGES_PER_SECOND, bench.seconds))
            spent = sum(map(exact_cpu_seconds, pids)) - before
            return 1000 * spent / sum(run.load.answers.values()), run

        cost = bench.alternate("pages", {"alone": alone})["alone"]
        beside = pushes_beside(bench, stack, ingress, "pages", pages, PAGES_PER_SECOND)
    return [
        Figure(
            f"pages: {PAGES_PER_SECOND:.0f} a second, processor time of the ingress a page",
            "ms",
            [one for one, _ in cost],
            note=cost[-1][1].note,
        ),
        Figure("pages: p50", "ms", [run.load.percentile(50) for _, run in cost]),
        Figure("pages: p99", "ms", [run.load.percentile(99) for _, run in cost]),
        *beside,
    ]


def _load(stack: Stack) -> list[str]:
    """A company's trips. Returns a token for each."""
    now = datetime.now(UTC)
    fleet = load_map_fleet(stack.database, TRUCKS)
    packed = pack_way(_ROAD, mpg=6.5, capacity_gallons=200)
    with stack.database.transaction(limits=HOUSEKEEPING) as connection:
        connection.execute(_TELL, (write(_FACTS).decode(), packed, fleet.company_id))
        connection.execute(_ON_THE_ROAD, (fleet.company_id,))
        trips = [
            _Trip(*row)
            for row in connection.execute(
                "SELECT company_id, environment, id, driver_id FROM routes WHERE company_id = %s AND status = 'active'",
                (fleet.company_id,),
            ).fetchall()
        ]
        return [issue_driver_link(connection, trip, _URL, now=now).rpartition("/")[2] for trip in trips]


def _get(token: str) -> bytes:
    return b"GET /d/%b HTTP/1.1\r\nHost: bench\r\n\r\n" % token.encode()
