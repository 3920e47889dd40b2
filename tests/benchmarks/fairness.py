"""A quiet company beside a noisy one: how long its requests take, compared with the same load of many companies."""

import asyncio
import itertools
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import NamedTuple

from domain.database.connections import Connection
from domain.encoding import write
from domain.ids import shown_id
from domain.lifecycle import RouteStatus
from tests.benchmarks.harness import Bench, Figure, Stack, busiest, ratios
from tests.benchmarks.load import Load, drive, send
from tests.benchmarks.loader import FIVE_STOPS, Fleet, Lot, load_fleet, load_keys, load_routes
from tests.factories import route_body

NEIGHBOURS = 100
"""Connections beside the quiet company's: all of one company, or each of another."""
TRUCKS = 100
ROUTES = 100
"""The routes of each company, all on one page of its list."""

PUSHES, READS, LISTS = "pushes", "reads by id", "lists"
ALONE, MANY, ONE = "alone", f"beside {NEIGHBOURS} companies", f"beside one company of {NEIGHBOURS} connections"

_loads = itertools.count()


class _Company(NamedTuple):
    fleet: Fleet
    keys: list[bytes]


class _Run(NamedTuple):
    quiet: Load
    note: str


def run(bench: Bench) -> list[Figure]:
    with bench.stack("fairness") as stack:
        with stack.database.transaction() as connection:
            quiet, noisy = _company(connection, share=0.1), _company(connection, share=1)
            many = [_company(connection, share=1 / NEIGHBOURS) for _ in range(NEIGHBOURS)]
        soon = datetime.now(UTC) + timedelta(days=1)
        fleets = [company.fleet for company in (quiet, noisy, *many)]
        load_routes(stack.database, [Lot(fleet, ROUTES, RouteStatus.DRAFT, (soon, soon)) for fleet in fleets])
        address = stack.start_ingress()
        stack.start("workers", "--queues", "imports")
        stack.start("scheduler")

        def measure(work: str, neighbours: Sequence[_Company]) -> _Run:
            expect = 201 if work == PUSHES else 200

            async def load(companies: Sequence[_Company], connections: int) -> Load:
                requests = _requests(stack, work, companies)
                return await send([address], requests, expect=expect, seconds=bench.seconds, connections=connections)

            async def both() -> tuple[Load, Load | None]:
                loads = [load([quiet], 1)] + ([load(neighbours, NEIGHBOURS)] if neighbours else [])
                ours, *theirs = await asyncio.gather(*loads)
                return ours, theirs[0] if theirs else None

            with stack.watched() as shares:
                ours, theirs = drive(both())
            rate = f"neighbours {theirs.rate:,.0f}/s; " if theirs else ""
            return _Run(ours, f"{rate}{len(ours.milliseconds):,} answers; {busiest(shares)}")

        beside: dict[str, Sequence[_Company]] = {ALONE: [], MANY: many, ONE: [noisy]}
        results = bench.alternate(
            "fairness",
            {
                f"{work} {where}": partial(measure, work, neighbours)
                for work in (PUSHES, READS, LISTS)
                for where, neighbours in beside.items()
            },
        )
    p99 = {name: [one.quiet.percentile(99) for one in runs] for name, runs in results.items()}
    return [
        figure
        for work in (PUSHES, READS, LISTS)
        for figure in (
            *(
                Figure(
                    f"fairness: {work} of a quiet company {where}, p99",
                    "ms",
                    p99[f"{work} {where}"],
                    note=results[f"{work} {where}"][-1].note,
                )
                for where in beside
            ),
            Figure(
                f"fairness: {work}, that p99 {ONE} by that {MANY}",
                "x",
                ratios(p99[f"{work} {ONE}"], p99[f"{work} {MANY}"]),
                at_most=2,
            ),
        )
    ]


def _company(connection: Connection, share: float) -> _Company:
    fleet = load_fleet(connection, TRUCKS)
    return _Company(fleet, load_keys(connection, fleet, share))


def _requests(stack: Stack, work: str, companies: Sequence[_Company]) -> Iterator[bytes]:
    """Endless requests, one company after the other, each with its keys in turn."""
    of_each = [_requests_of(stack, work, company) for company in companies]
    return (next(requests) for requests in itertools.cycle(of_each))


def _requests_of(stack: Stack, work: str, company: _Company) -> Iterator[bytes]:
    keys = itertools.cycle(company.keys)
    if work == PUSHES:
        return (_push(load, key) for load, key in zip(_loads, keys, strict=False))
    if work == LISTS:
        return (_get(f"/v1/routes?limit={ROUTES}", key) for key in keys)
    rows = stack.query("SELECT id FROM routes WHERE company_id = %s LIMIT %s", company.fleet.company_id, ROUTES)
    return (
        _get(f"/v1/routes/{shown_id('rte', row.id)}", key)
        for row, key in zip(itertools.cycle(rows), keys, strict=False)
    )


def _get(path: str, key: bytes) -> bytes:
    return b"GET %b HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer %b\r\n\r\n" % (path.encode(), key)


def _push(load: int, key: bytes) -> bytes:
    truck = f"{load % TRUCKS:05}"
    body = write(
        route_body(
            datetime.now(UTC) + timedelta(days=1),
            externalId=f"LOAD-{load:012}",
            vehicle={"unitNumber": truck},
            driver={"name": f"Driver {truck}"},
            stops=FIVE_STOPS,
        )
    )
    head = b"POST /v1/routes HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer %b\r\nContent-Length: %d\r\n\r\n"
    return head % (key, len(body)) + body
