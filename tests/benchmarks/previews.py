"""Previews of loads of 1,000 miles among 8,000 truck stops: how long one takes, how many a second one process answers,
and what pushes beside them notice. The references, in the same round: the same preview, computed in this process; and
pushes beside a process that computes as long at the same priority, and does nothing else."""

import itertools
import random
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache, partial

from domain.contract.checking import read_body
from domain.database.connections import Tenant
from domain.encoding import write
from domain.lifecycle import Environment
from domain.planning.planner import Planner
from domain.previews.load_preview import preview_load
from domain.previews.shapes import MOST_PASSES, PreviewInput
from domain.roads import Point, great_circle_miles
from domain.roads.highways import HighwayRoads
from domain.session_priority import GIVES_WAY
from domain.stations.corridor_offers import StationPlaces
from tests.benchmarks.beside import Computing, pushes_beside
from tests.benchmarks.harness import Bench, Figure, Run, Stack, exact_cpu_seconds, own_megabytes, rates, ratios
from tests.benchmarks.load import Address, send
from tests.benchmarks.loader import Fleet, load_fleet, load_keys
from tests.benchmarks.plan import STATIONS, interchanges, stations, store_stations

MILES = 1_000
LOADS = 600
"""More than the legs that a process remembers: in turn, no load finds its road there."""
_LOADS_HERE = 60
PER_SECOND = 20.0
_CONNECTIONS = 8
_ANY_NUMBER = "1000000"


def run(bench: Bench) -> list[Figure]:
    with bench.stack("preview") as stack:
        store_stations(stack, stations(STATIONS))
        with stack.database.transaction() as connection:
            fleet = load_fleet(connection, 1)
            (key, *_) = load_keys(connection, fleet, 0)
        requests = itertools.cycle([_request(key, body) for body in bodies()])
        ingress = stack.start_ingress(PREVIEWS_PER_MINUTE=_ANY_NUMBER)
        stack.start("workers", "--queues", "imports")
        stack.start("scheduler")
        here = _here(stack, fleet)
        _load(stack, ingress, requests, 1, 2.0), here()  # the first ones load the roads and the index
        works: dict[str, Callable[[], float | Run]] = {
            "in this process": here,
            "one connection": partial(_load, stack, ingress, requests, 1, bench.seconds),
            f"{_CONNECTIONS} connections": partial(_load, stack, ingress, requests, _CONNECTIONS, bench.seconds),
        }
        found = bench.alternate("preview", works)
        _, *processes = stack.pids_of("ingress")
        megabytes = sum(map(own_megabytes, processes))
        spent = sum(map(exact_cpu_seconds, processes))
        answers = sum(_load(stack, ingress, requests, 1, bench.seconds).load.answers.values())
        milliseconds = 1000 * (sum(map(exact_cpu_seconds, processes)) - spent) / answers
        computing = Computing(milliseconds, PER_SECOND, GIVES_WAY)
        beside = pushes_beside(bench, stack, ingress, "previews", requests, PER_SECOND, computing=computing)
    return [
        *_alone(found),
        Figure("preview: processor time of one", "ms", [milliseconds], at_most=1000 / PER_SECOND),
        Figure("preview: memory of the process", "MB", [megabytes], at_most=200),
        *beside,
    ]


def _alone(found: Mapping[str, Sequence[float | Run]]) -> Iterator[Figure]:
    reference = [one for one in found["in this process"] if isinstance(one, float)]
    single, many = (
        [one for one in found[name] if isinstance(one, Run)]
        for name in ("one connection", f"{_CONNECTIONS} connections")
    )
    p50 = [one.load.percentile(50) for one in single]
    name = f"preview: {MILES:,} mi, {STATIONS:,} stations"
    yield Figure(f"{name}, p50", "ms", p50, at_most=100, note=single[-1].note)
    yield Figure(f"{name}, p99", "ms", [one.load.percentile(99) for one in single])
    yield Figure(f"{name}, computed in this process, p50", "ms", reference)
    yield Figure(f"{name}, p50 by that in this process", "x", ratios(p50, reference), at_most=1.5)
    yield Figure(f"{name}, from one process", "/s", rates(many), at_least=PER_SECOND, note=many[-1].note)


@cache
def bodies() -> list[bytes]:
    """Loads between random interchanges, about the wanted miles apart by road."""
    rng, embedded, found = random.Random("previews"), HighwayRoads(), list[bytes]()
    while len(found) < LOADS:
        ends = [rng.choice(interchanges()) for _ in range(2)]
        if not 0.7 * MILES < great_circle_miles(*ends) < MILES:
            continue
        if 0.95 * MILES < embedded.through(ends).distance_miles < 1.05 * MILES:
            found.append(_body(ends, 30 + len(found) % 60))
    return found


def _body(ends: Sequence[Point], fuel_percent: float) -> bytes:
    stops = [{"latitude": place.latitude, "longitude": place.longitude} for place in ends]
    return write({"stops": stops, "vehicle": {"fuelPercent": fuel_percent}})


def _request(key: bytes, body: bytes) -> bytes:
    head = b"POST /planning/preview HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer %b\r\n" % key
    return head + b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)


def _load(stack: Stack, ingress: Address, requests: Iterator[bytes], connections: int, seconds: float) -> Run:
    return stack.measure(send([ingress], requests, expect=200, seconds=seconds, connections=connections))


def _here(stack: Stack, fleet: Fleet) -> "partial[float]":
    tenant = Tenant(fleet.company_id, Environment.LIVE)
    snapshots = partial(stack.database.pipelined_transaction, snapshot=True)
    planner = Planner(stack.settings, snapshots, HighwayRoads(), StationPlaces(), MOST_PASSES)
    return partial(_median_here, planner, tenant, itertools.cycle(bodies()))


def _median_here(planner: Planner, tenant: Tenant, loads: Iterator[bytes]) -> float:
    """Milliseconds of the median preview, from the body to the answer."""
    milliseconds = []
    for body in itertools.islice(loads, _LOADS_HERE):
        started = time.perf_counter()
        write(preview_load(planner, tenant, read_body(body, PreviewInput), now=datetime.now(UTC)).answer)
        milliseconds.append((time.perf_counter() - started) * 1000)
    return statistics.median(milliseconds)
