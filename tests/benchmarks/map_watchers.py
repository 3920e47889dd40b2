"""Pushes beside ten people who have the page Map open, while a thirtieth of a large fleet moves each second.

The figures compare rounds with those people and rounds without, beside the same moving trucks. A page hears of changes
every three seconds, so a round should last 15 seconds or more.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import urlencode
from uuid import UUID

from domain.lifecycle import Role
from tests.benchmarks.harness import Bench, Figure, Run, Stack, ratios
from tests.benchmarks.load import CONNECTIONS, Address, Load, LoadFailed, send
from tests.benchmarks.map_fleet import load_map_fleet, move_trucks
from tests.benchmarks.push import pushes
from tests.browser.pages import Site

TRUCKS = 10_000
WATCHERS = 10
_MOVED_EACH_SECOND = TRUCKS // 30
"""A truck sends a position every 30 seconds."""
_VIEW = "-125,24,-66,50"
"""The contiguous states: every change is in view."""


class Watched(NamedTuple):
    """One round."""

    pushed: Run
    events: int
    """The events that told of changed trucks, to all watchers together."""
    megabytes: float
    """Received by all watchers together."""


def run(bench: Bench) -> list[Figure]:
    with bench.stack("watchers") as stack:
        with bench.task(f"watchers: loads {TRUCKS:,} trucks"):
            company_id = load_map_fleet(stack.database, TRUCKS).company_id
        requests = pushes(stack)
        ingress, console = stack.start_ingress(), stack.start_console()
        stack.start("workers", "--queues", "imports,arrivals,plans,messages")
        stack.start("scheduler")
        site = Site(f"http://{console[0]}:{console[1]}", stack.database, company_id)
        cookies = [site.cookie(Role.DISPATCHER) for _ in range(WATCHERS)]

        def measure(connections: int, watchers: int) -> Watched:
            load = partial(send, [ingress], requests, expect=201, seconds=bench.seconds, connections=connections)
            told: list[bytes] = []
            pushed = stack.measure(_beside(stack, company_id, load, console, cookies[:watchers], told))
            events = sum(part.count(b"event: figures") for part in told)
            if watchers and not events:
                raise LoadFailed("no watcher was told of any truck: measure for longer with --seconds")
            return Watched(pushed, events, sum(map(len, told)) / 1e6)

        rounds = bench.alternate(
            "watchers",
            {
                f"{connections} connections, {watchers} watchers": partial(measure, connections, watchers)
                for connections in (1, CONNECTIONS)
                for watchers in (0, WATCHERS)
            },
        )
    return [figure for connections in (1, CONNECTIONS) for figure in _figures(connections, rounds)]


def _figures(connections: int, rounds: dict[str, list[Watched]]) -> Iterator[Figure]:
    alone, beside = (rounds[f"{connections} connections, {watchers} watchers"] for watchers in (0, WATCHERS))
    name = f"watchers: pushes, {connections} connection{'s' * (connections > 1)}, p50"
    told = f"{beside[-1].events} events, {beside[-1].megabytes:.1f} MB in the last round"
    yield Figure(f"{name}, nobody at the map", "ms", _medians(alone), note=alone[-1].pushed.note)
    yield Figure(f"{name}, {WATCHERS} people at it", "ms", _medians(beside), note=f"{told}; {beside[-1].pushed.note}")
    spread = max(_medians(alone)) / min(_medians(alone))
    yield Figure(f"{name}, by that with nobody", "x", ratios(_medians(beside), _medians(alone)), at_most=spread)


def _medians(rounds: Sequence[Watched]) -> list[float]:
    return [one.pushed.load.percentile(50) for one in rounds]


async def _beside(
    stack: Stack,
    company_id: UUID,
    load: Callable[[], Coroutine[Any, Any, Load]],
    console: Address,
    cookies: Sequence[str],
    told: list[bytes],
) -> Load:
    """Pushes, while trucks move and these people watch."""
    others = [
        asyncio.create_task(_move(stack, company_id)),
        *(asyncio.create_task(_watch(console, cookie, told)) for cookie in cookies),
    ]
    try:
        return await load()
    finally:
        for one in others:
            one.cancel()
        for one in others:
            with contextlib.suppress(asyncio.CancelledError):
                await one


async def _move(stack: Stack, company_id: UUID) -> None:
    while True:
        await asyncio.to_thread(move_trucks, stack.database, company_id, _MOVED_EACH_SECOND)
        await asyncio.sleep(1)


async def _watch(console: Address, cookie: str, told: list[bytes]) -> None:
    """Follows the stream of the page, as its script does."""
    reader, writer = await asyncio.open_connection(*console)
    try:
        asked = urlencode({"since": time.time(), "bounds": _VIEW})
        writer.write(f"GET /map/stream?{asked} HTTP/1.1\r\nHost: bench\r\nCookie: fuelroute={cookie}\r\n\r\n".encode())
        head = await reader.readuntil(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200"):
            raise LoadFailed(f"the map answered {head[:40].decode(errors='replace')}")
        while part := await reader.read(1 << 20):
            told.append(part)
        raise LoadFailed("the map ended a stream")
    finally:
        writer.close()
