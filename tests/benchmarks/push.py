"""POST /v1/routes: many connections, one connection, and no workers at all."""

import asyncio
import itertools
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial

from domain.encoding import write
from tests.benchmarks.harness import Bench, Figure, Run, Stack, rates, ratios
from tests.benchmarks.load import CONNECTIONS, Address, drive, send
from tests.benchmarks.loader import FIVE_STOPS, load_fleet, load_keys
from tests.factories import route_body

TRUCKS = 4000
OPEN_PUSHES = 1000

_numbers = itertools.count()


def run(bench: Bench) -> list[Figure]:
    return [*_throughput(bench), *_workers_stopped(bench)]


def pushes(stack: Stack, *, share: float = 1.0) -> Iterator[bytes]:
    """Requests of a fresh company's TMS, each a new load with 5 stops, for ever: `share` of all requests."""
    with stack.database.transaction() as connection:
        fleet = load_fleet(connection, TRUCKS)
        keys = load_keys(connection, fleet, share)
    body = write(
        route_body(
            datetime.now(UTC) + timedelta(days=1),
            externalId="LOAD-%(load)012d",
            reference="PO-%(load)012d",
            vehicle={"unitNumber": "%(truck)05d"},
            driver={"name": "Driver %(truck)05d"},
            stops=FIVE_STOPS,
        )
    )
    length = len(body % {b"load": 0, b"truck": 0})
    request = b"POST /v1/routes HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer %(key)b\r\n" + (
        b"Content-Type: application/json\r\nContent-Length: " + str(length).encode() + b"\r\n\r\n" + body
    )
    return (
        request % {b"key": keys[number % len(keys)], b"load": number, b"truck": number % TRUCKS} for number in _numbers
    )


def _throughput(bench: Bench) -> list[Figure]:
    with bench.stack("push") as stack:
        requests = pushes(stack)
        constant, peer = stack.start_constant(), stack.start_app("peer")
        stack.start_module("peer worker", "dramatiq", "tests.benchmarks.peer", "--processes", "1")
        ingresses = [stack.start_ingress(f"ingress {number}") for number in range(1, max(bench.ingress) + 1)]
        stack.start("workers", "--queues", "imports")
        stack.start("scheduler")

        def measure(addresses: Sequence[Address], expect: int, connections: int = CONNECTIONS) -> Run:
            return stack.measure(
                send(addresses, requests, expect=expect, seconds=bench.seconds, connections=connections)
            )

        def measure_peer() -> Run:
            result = measure([peer], 202)
            # its workers are behind: the next one measured has the machine for itself
            stack.wait_until("SELECT count(*) = 0 FROM routes WHERE status = 'pending'", seconds=300)
            return result

        works: dict[str, Callable[[], Run]] = {
            "constant": lambda: measure([constant], 200),
            **{f"ingress {count}": partial(measure, ingresses[:count], 201) for count in bench.ingress},
            "peer": measure_peer,
            "idle": lambda: measure(ingresses[:1], 201, connections=1),
        }
        results = bench.alternate("push", works)
    best = max(bench.ingress, key=lambda count: statistics.median(rates(results[f"ingress {count}"])))
    idle = results["idle"]
    return [
        Figure(
            "push: the constant endpoint, 128 connections",
            "/s",
            rates(results["constant"]),
            note=results["constant"][-1].note,
        ),
        Figure("push: the textbook peer, 128 connections", "/s", rates(results["peer"]), note=results["peer"][-1].note),
        *(figure for count in bench.ingress for figure in _of_ingresses(count, results, best=count == best)),
        Figure(
            "push: one connection, idle system, p50",
            "ms",
            [run.load.percentile(50) for run in idle],
            at_most=6,
            note=idle[-1].note,
        ),
    ]


def _of_ingresses(count: int, results: Mapping[str, Sequence[Run]], *, best: bool) -> list[Figure]:
    """The figures of so many ingress processes; the goals are for the number that serves best."""
    name = f"push: 128 connections, {count} ingress"
    runs = results[f"ingress {count}"]
    ours = rates(runs)
    of_constant, of_peer = (ratios(ours, rates(results[work])) for work in ("constant", "peer"))
    p50, p99 = ([run.load.percentile(percent) for run in runs] for percent in (50, 99))
    return [
        Figure(f"{name}, to 201 draft", "/s", ours, note=runs[-1].note),
        Figure(f"{name}, of the constant endpoint", "x", of_constant, at_least=0.30 if best else None),
        Figure(f"{name}, of the textbook peer", "x", of_peer, at_least=15 if best else None),
        Figure(f"{name}, p50", "ms", p50),
        Figure(f"{name}, p99", "ms", p99, at_most=60 if best else None),
    ]


def _workers_stopped(bench: Bench) -> list[Figure]:
    with bench.stack("push, workers stopped") as stack:
        requests = pushes(stack, share=0.2)  # each waits until it is answered
        address = stack.start_ingress()
        stack.start("scheduler")
        wait = stack.settings.import_wait_seconds
        seconds = max(bench.seconds, 2 * wait)

        def beyond_the_wait() -> float:
            load = drive(send([address], requests, expect=202, seconds=seconds, connections=8, warm_up=0))
            return load.percentile(50) - wait * 1000

        async def growth() -> float:
            before = peak = stack.memory()["ingress"]
            load = asyncio.create_task(
                send([address], requests, expect=202, seconds=seconds, connections=OPEN_PUSHES, warm_up=0)
            )
            while not load.done():
                peak = max(peak, stack.memory()["ingress"])
                await asyncio.sleep(0.1)
            load.result()
            return peak - before

        late = bench.alternate("push, workers stopped", {"8 connections": beyond_the_wait})["8 connections"]
        with bench.task(f"push, workers stopped: {OPEN_PUSHES} open"):
            grown = drive(growth())
    return [
        Figure("push: workers stopped, p50 to 202 beyond the wait", "ms", late, at_most=20),
        Figure(f"push: workers stopped, {OPEN_PUSHES} open, memory of the ingress grows", "MB", [grown], at_most=100),
    ]
