"""Pushes beside other requests to the same ingress: rounds with those requests, and rounds without. Pushes come one
after the other, at a steady rate, and as fast as they are answered."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from typing import Any

from tests.benchmarks.harness import Bench, Figure, Run, Stack, ratios
from tests.benchmarks.load import CONNECTIONS, Address, Load, send
from tests.benchmarks.push import pushes

STEADY_PUSHES = 200.0
"""Pushes a second that leave the machine some room."""
_OTHER_CONNECTIONS = 32

_KINDS: dict[str, tuple[int, float | None]] = {
    "one connection": (1, None),
    f"{STEADY_PUSHES:.0f} a second": (CONNECTIONS, STEADY_PUSHES),
    f"{CONNECTIONS} connections": (CONNECTIONS, None),
}


def pushes_beside(
    bench: Bench, stack: Stack, ingress: Address, what: str, others: Iterator[bytes], per_second: float
) -> list[Figure]:
    """Figures of pushes beside `per_second` of the `others`, whose name is `what`. The stack imports what is pushed."""
    requests = pushes(stack)

    def measure(connections: int, rate: float | None, others_per_second: float) -> Run:
        load = partial(
            send, [ingress], requests, expect=201, seconds=bench.seconds, connections=connections, per_second=rate
        )
        return stack.measure(_beside(load, others_alone(ingress, others, others_per_second, bench.seconds)))

    rounds = bench.alternate(
        what,
        {
            f"{kind}, {rate:.0f} {what}": partial(measure, *options, rate)
            for kind, options in _KINDS.items()
            for rate in (0.0, per_second)
        },
    )
    return [figure for kind in _KINDS for figure in _figures(kind, what, per_second, rounds)]


async def others_alone(ingress: Address, others: Iterator[bytes], per_second: float, seconds: float) -> Load:
    """A load of the other requests at this rate; none for 0."""
    if not per_second:
        return Load(200, seconds)
    return await send(
        [ingress], others, expect=200, seconds=seconds, connections=_OTHER_CONNECTIONS, per_second=per_second
    )


async def _beside(load: Callable[[], Coroutine[Any, Any, Load]], others: Coroutine[Any, Any, Load]) -> Load:
    beside = asyncio.ensure_future(others)
    pushed = await load()
    await beside
    return pushed


def _figures(kind: str, what: str, per_second: float, rounds: dict[str, list[Run]]) -> Iterator[Figure]:
    alone, beside = (
        [run.load.percentile(50) for run in rounds[f"{kind}, {rate:.0f} {what}"]] for rate in (0.0, per_second)
    )
    noted = rounds[f"{kind}, {per_second:.0f} {what}"][-1].note
    yield Figure(f"{what}: pushes, {kind}, p50 without {what}", "ms", alone)
    yield Figure(f"{what}: pushes, {kind}, p50 beside {per_second:.0f} {what} a second", "ms", beside, note=noted)
    spread = max(alone) / min(alone)
    yield Figure(f"{what}: pushes, {kind}, by that without {what}", "x", ratios(beside, alone), at_most=spread)
