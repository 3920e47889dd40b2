"""Reading from a large table: one route, an unchanged route, lists, a far page, `total`."""

import itertools
import random
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import urlencode

import httpx

from domain.ids import shown_id
from domain.lifecycle import PendingReason, RouteStatus
from tests.benchmarks.harness import Bench, Figure, Run, Stack, rates, ratios
from tests.benchmarks.load import CONNECTIONS, Address, send
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
BY_ID, UNCHANGED_BY_ID, BY_EXTERNAL_ID, LIST = (
    "GET by id",
    "GET by id unchanged, 304",
    "list with externalId",
    f"list of {PAGE}",
)

_PAST_YEAR, _COMING_WEEK, _LATER = (
    (timedelta(days=-365), timedelta()),
    (timedelta(), timedelta(days=6)),
    (timedelta(days=8), timedelta(days=60)),
)
SHARES = (
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


def run(bench: Bench) -> list[Figure]:
    with bench.stack("reads") as stack:
        started = time.perf_counter()
        companies = _load(bench, stack)
        loaded = f"{bench.routes:,} routes loaded in {time.perf_counter() - started:.0f} s"
        constant = stack.start_constant()
        ingresses = [stack.start_ingress(f"ingress {number}") for number in range(1, max(bench.ingress) + 1)]
        requests = _Requests(stack, companies)
        unchanged = requests.unchanged(ingresses[0])

        def measure(wanted: Sequence[bytes], connections: int, where: Sequence[Address], expect: int = 200) -> Run:
            again = itertools.cycle(wanted)
            seconds = bench.seconds if connections > 1 else bench.seconds / 3  # the lists of one connection are many
            return stack.measure(send(where, again, expect=expect, seconds=seconds, connections=connections))

        pages = requests.pages()
        works: dict[str, Callable[[], Run]] = {
            "constant": partial(measure, requests.by_id, CONNECTIONS, [constant]),
            **{page: partial(measure, wanted, 1, ingresses[:1]) for page, wanted in pages.items()},
        }
        for count in bench.ingress:
            for work, wanted in (
                (BY_ID, requests.by_id),
                (UNCHANGED_BY_ID, unchanged),
                (BY_EXTERNAL_ID, requests.by_external_id),
                (LIST, pages[FIRST_PAGE]),
            ):
                expect = 304 if work is UNCHANGED_BY_ID else 200
                works[_by(work, count)] = partial(measure, wanted, CONNECTIONS, ingresses[:count], expect)
        results = bench.alternate("reads", works)
    table = f"reads: {bench.routes:,} routes"
    return [
        Figure("reads: the constant endpoint, 128 connections", "/s", rates(results["constant"]), note=loaded),
        *(
            figure
            for work, at_least in ((BY_ID, 0.25), (UNCHANGED_BY_ID, None), (BY_EXTERNAL_ID, 0.20), (LIST, None))
            for figure in _of_ingresses(table, work, bench.ingress, results, at_least)
        ),
        *(
            Figure(
                f"reads: company of {companies[0].routes:,} routes, {page}, one connection, p50",
                "ms",
                [one.load.percentile(50) for one in results[page]],
                at_most=5 if page == TOTAL else None,
                note=results[page][-1].note,
            )
            for page in pages
        ),
        *(
            Figure(
                f"reads: {page}, by the first page, p50",
                "x",
                ratios(*([one.load.percentile(50) for one in results[name]] for name in (page, FIRST_PAGE))),
                at_most=2,
            )
            for page in pages
            if page.startswith("page ")
        ),
    ]


def _of_ingresses(
    table: str, work: str, counts: Sequence[int], results: Mapping[str, Sequence[Run]], at_least: float | None
) -> Iterator[Figure]:
    """The figures of one kind of read; the goal is for the number of ingress processes that serves best."""
    best = max(counts, key=lambda count: statistics.median(rates(results[_by(work, count)])))
    for count in counts:
        runs = results[_by(work, count)]
        of_constant = ratios(rates(runs), rates(results["constant"]))
        name = f"{table}, {_by(work, count)}"
        yield Figure(name, "/s", rates(runs), note=runs[-1].note)
        yield Figure(
            f"{name}, of the constant endpoint", "x", of_constant, at_least=at_least if count == best else None
        )


def _by(work: str, count: int) -> str:
    return f"{work}, {count} ingress"


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
        for status, share, (first, last) in SHARES
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
        self._rows = [(shown_id("rte", row.id), row.external_id, next(keys[row.company_id])) for row in rows[:SAMPLE]]
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
            **{
                f"page {offset // PAGE + 1:,} of {PAGE}": {"limit": PAGE, "offset": offset}
                for offset in (far // 2, far)
            },
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
