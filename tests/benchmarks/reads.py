"""Reading from a large table: one route, an unchanged route, lists, a far page, `total`."""

import itertools
import random
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import urlencode

import httpx

from domain.lifecycle import PendingReason, RouteStatus
from tests.benchmarks.harness import Bench, Figure, Stack, busiest, ratios
from tests.benchmarks.load import CONNECTIONS, Address, Load, drive, send
from tests.benchmarks.loader import Fleet, Lot, load_fleet, load_keys, load_plans, load_routes

LARGE_COMPANY = 1_000_000
"""Routes of the company whose lists are read; the others are spread over further fleets."""
OTHER_FLEETS = 20
TRUCKS = 10_000
PAGE = 100
FAR_PAGE = 10_000
SAMPLE = 20_000
"""Routes that are asked for, from everywhere in the table."""
UNCHANGED = 500
TOTAL, FIRST_PAGE = "total", f"first page of {PAGE}"

_PAST_YEAR, _COMING_WEEK, _LATER = (
    (timedelta(days=-365), timedelta()),
    (timedelta(), timedelta(days=6)),
    (timedelta(days=8), timedelta(days=60)),
)
_SHARES = (
    (RouteStatus.COMPLETED, 0.80, _PAST_YEAR),
    (RouteStatus.CANCELED, 0.05, _PAST_YEAR),
    (RouteStatus.DRAFT, 0.10, _COMING_WEEK),
    (RouteStatus.PLANNED, 0.01, _COMING_WEEK),
    (RouteStatus.ACTIVE, 0.01, _COMING_WEEK),
    (RouteStatus.PENDING_WINDOW, 0.03, _LATER),
)


class _Company(NamedTuple):
    """One tenant of the table, and the keys that read its routes."""

    fleet: Fleet
    routes: int
    keys: list[bytes]


class _Run(NamedTuple):
    load: Load
    note: str


def run(bench: Bench) -> list[Figure]:
    with bench.stack("reads") as stack:
        started = time.perf_counter()
        companies = _load(bench, stack)
        loaded = f"{bench.routes:,} routes loaded in {time.perf_counter() - started:.0f} s"
        constant, address = stack.start_constant(), stack.start_ingress()
        requests = _Requests(stack, companies)
        unchanged = requests.unchanged(address)

        def measure(wanted: Sequence[bytes], connections: int, expect: int = 200, where: Address = address) -> _Run:
            shares: dict[str, float] = {}
            again = itertools.cycle(wanted)
            seconds = bench.seconds if connections > 1 else bench.seconds / 3  # the lists of one connection are many
            with stack.watched(shares):
                load = drive(send([where], again, expect=expect, seconds=seconds, connections=connections))
            return _Run(load, busiest(shares))

        pages = requests.pages()
        works: dict[str, Callable[[], _Run]] = {
            "constant": lambda: measure(requests.by_id, CONNECTIONS, where=constant),
            "by id": lambda: measure(requests.by_id, CONNECTIONS),
            "unchanged": lambda: measure(unchanged, CONNECTIONS, expect=304),
            "externalId": lambda: measure(requests.by_external_id, CONNECTIONS),
            "list": lambda: measure(pages[FIRST_PAGE], CONNECTIONS),
            **{page: partial(measure, wanted, 1) for page, wanted in pages.items()},
        }
        results = bench.alternate("reads", works)
    rates = {work: [one.load.rate for one in runs] for work, runs in results.items()}
    of_constant = {work: ratios(of_work, rates["constant"]) for work, of_work in rates.items()}
    note = {work: runs[-1].note for work, runs in results.items()}
    table = f"{bench.routes:,} routes"
    by_id, unchanged_name = f"reads: {table}, GET by id", f"reads: {table}, GET by id unchanged, 304"
    by_external_id, list_name = f"reads: {table}, list with externalId", f"reads: {table}, list of {PAGE}"
    return [
        Figure("reads: the constant endpoint, 128 connections", "/s", rates["constant"], note=loaded),
        Figure(by_id, "/s", rates["by id"], note=note["by id"]),
        Figure(f"{by_id}, of the constant endpoint", "x", of_constant["by id"], at_least=0.25),
        Figure(unchanged_name, "/s", rates["unchanged"], note=note["unchanged"]),
        Figure(f"{unchanged_name}, of the constant endpoint", "x", of_constant["unchanged"]),
        Figure(by_external_id, "/s", rates["externalId"], note=note["externalId"]),
        Figure(f"{by_external_id}, of the constant endpoint", "x", of_constant["externalId"], at_least=0.20),
        Figure(list_name, "/s", rates["list"], note=note["list"]),
        Figure(f"{list_name}, of the constant endpoint", "x", of_constant["list"]),
        *(
            Figure(
                f"reads: company of {companies[0].routes:,} routes, {page}, one connection, p50",
                "ms",
                [one.load.percentile(50) for one in results[page]],
                at_most=50 if page == TOTAL else None,
                note=note[page],
            )
            for page in pages
        ),
    ]


def _load(bench: Bench, stack: Stack) -> list[_Company]:
    """The large company and, when there are more routes than it has, others of one size."""
    large = min(LARGE_COMPANY, bench.routes)
    sizes = [large, *[(bench.routes - large) // OTHER_FLEETS] * OTHER_FLEETS]
    with stack.database.transaction() as connection:
        companies = []
        for routes in filter(None, sizes):
            fleet = load_fleet(connection, TRUCKS)
            companies.append(_Company(fleet, routes, load_keys(connection, fleet, share=routes / bench.routes)))
        plans = load_plans(connection, companies[0].fleet)
    now = datetime.now(UTC)
    lots = [
        Lot(
            company.fleet,
            round(company.routes * share),
            status,
            (now + first, now + last),
            reason=PendingReason.OUTSIDE_IMPORT_WINDOW if status is RouteStatus.PENDING_WINDOW else None,
            plans=plans,
        )
        for company in companies
        for status, share, (first, last) in _SHARES
    ]
    with bench.task(f"reads: loads {bench.routes:,} routes", bench.routes) as advance:
        load_routes(stack.database, lots, advance)
    return companies


class _Requests:
    """Requests for routes from everywhere in the table, each with a key of their company, and for lists."""

    def __init__(self, stack: Stack, companies: Sequence[_Company]) -> None:
        self._large = companies[0]
        keys = {company.fleet.company_id: itertools.cycle(company.keys) for company in companies}
        percent = min(100.0, 200 * SAMPLE / sum(company.routes for company in companies))
        rows = stack.query(f"SELECT id, company_id, external_id FROM routes TABLESAMPLE SYSTEM ({percent})")
        random.Random(4).shuffle(rows)
        self._rows = [(row.id, row.external_id, next(keys[row.company_id])) for row in rows[:SAMPLE]]
        self.by_id = [_get(f"/v1/routes/{route_id}", key) for route_id, _, key in self._rows]
        self.by_external_id = [_get(f"/v1/routes?externalId={external_id}", key) for _, external_id, key in self._rows]

    def unchanged(self, address: Address) -> list[bytes]:
        """Polls that name the ETag of what they have."""
        with httpx.Client(base_url=f"http://{address[0]}:{address[1]}") as client:
            return [
                _get(
                    path,
                    key,
                    b"If-None-Match: %b\r\n" % client.get(path, headers=_bearer(key)).headers["etag"].encode(),
                )
                for path, key in ((f"/v1/routes/{route_id}", key) for route_id, _, key in self._rows[:UNCHANGED])
            ]

    def pages(self) -> dict[str, list[bytes]]:
        """Lists of the large company, by name."""
        now = datetime.now(UTC)
        far = max(0, min(FAR_PAGE * PAGE, self._large.routes) - PAGE)
        queries: dict[str, dict[str, Any]] = {
            TOTAL: {"limit": 1},
            FIRST_PAGE: {"limit": PAGE},
            f"page {far // PAGE + 1:,} of {PAGE}": {"limit": PAGE, "offset": far},
            "status": {"status": "planned"},
            "vehicleId": {"vehicleId": self._large.fleet.trucks[0]},
            "from and to": {"from": now.isoformat(), "to": (now + timedelta(days=1)).isoformat()},
        }
        return {
            name: [_get(f"/v1/routes?{urlencode(query)}", key) for key in self._large.keys]
            for name, query in queries.items()
        }


def _bearer(key: bytes) -> dict[str, str]:
    return {"Authorization": f"Bearer {key.decode()}"}


def _get(path: str, key: bytes, more: bytes = b"") -> bytes:
    return b"GET %b HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer %b\r\n%b\r\n" % (path.encode(), key, more)
