"""Pushes beside other requests to the same ingress. Pushes come one after the other, at a steady rate, and as fast as
they are answered.

Each round has turns of pushes alone, beside the others, alone again, and beside a process that only computes. The two
turns alone tell the spread of the machine, to which the others are held; the process that computes tells how much of a
difference is the machine's, and how much is waiting for the same ingress."""

import asyncio
import subprocess
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

from domain.session_priority import SessionPriority
from tests.benchmarks.harness import Bench, Figure, Run, Stack, ratios
from tests.benchmarks.load import CONNECTIONS, Address, Load, send
from tests.benchmarks.push import pushes

STEADY_PUSHES = 200.0
"""Pushes a second that leave the machine some room."""
_OTHER_CONNECTIONS = 32


class Computing(NamedTuple):
    """A process that only computes, as long as others would, at their priority."""

    milliseconds: float
    per_second: float
    niceness: int

    @contextmanager
    def running(self) -> Iterator[None]:
        command = [sys.executable, "-m", "tests.benchmarks.computing", str(self.milliseconds), str(self.per_second)]
        process = subprocess.Popen(command, start_new_session=True)
        try:
            SessionPriority.of(process.pid).become(self.niceness)
            yield
        finally:
            process.kill()
            process.wait()


class Beside(NamedTuple):
    """The pushes of a round, and the load beside them."""

    pushed: Run
    others: Load | None = None

    @property
    def p50(self) -> float:
        return self.pushed.load.percentile(50)


_KINDS: dict[str, tuple[int, float | None]] = {
    "one connection": (1, None),
    f"{STEADY_PUSHES:.0f} a second": (CONNECTIONS, STEADY_PUSHES),
    f"{CONNECTIONS} connections": (CONNECTIONS, None),
}


def pushes_beside(
    bench: Bench,
    stack: Stack,
    ingress: Address,
    what: str,
    others: Iterator[bytes],
    per_second: float,
    *,
    computing: Computing | None = None,
) -> list[Figure]:
    """Figures of pushes beside `per_second` of the `others`, whose name is `what`, and beside a process that only
    computes, where there is one. The stack imports what is pushed."""
    requests = pushes(stack)

    def measure(options: tuple[int, float | None], beside: Coroutine[Any, Any, Load] | None) -> Beside:
        connections, rate = options
        load = partial(
            send, [ingress], requests, expect=201, seconds=bench.seconds, connections=connections, per_second=rate
        )
        return _measured(stack, load, beside)

    def beside_others(options: tuple[int, float | None]) -> Beside:
        return measure(options, others_alone(ingress, others, per_second, bench.seconds))

    def beside_computing(options: tuple[int, float | None], used: Computing) -> Beside:
        with used.running():
            return measure(options, None)

    works: dict[str, Callable[[], Beside]] = {}
    for kind, options in _KINDS.items():
        works[f"{kind}, alone"] = partial(measure, options, None)
        works[f"{kind}, {what}"] = partial(beside_others, options)
        works[f"{kind}, alone again"] = partial(measure, options, None)
        if computing is not None:
            works[f"{kind}, computing"] = partial(beside_computing, options, computing)
    rounds = bench.alternate(what, works)
    return [figure for kind in _KINDS for figure in _figures(kind, what, per_second, rounds)]


def _measured(
    stack: Stack, load: Callable[[], Coroutine[Any, Any, Load]], beside: Coroutine[Any, Any, Load] | None
) -> Beside:
    """The pushes, and the load beside them, which may end later."""
    noted: list[Load] = []

    async def both() -> Load:
        other = asyncio.ensure_future(beside) if beside is not None else None
        pushed = await load()
        if other is not None:
            noted.append(await other)
        return pushed

    return Beside(stack.measure(both()), noted[0] if noted else None)


async def others_alone(ingress: Address, others: Iterator[bytes], per_second: float, seconds: float) -> Load:
    """A load of the other requests at this rate."""
    return await send(
        [ingress], others, expect=200, seconds=seconds, connections=_OTHER_CONNECTIONS, per_second=per_second
    )


def _figures(kind: str, what: str, per_second: float, rounds: dict[str, list[Beside]]) -> Iterator[Figure]:
    first, beside, again = ([one.p50 for one in rounds[f"{kind}, {name}"]] for name in ("alone", what, "alone again"))
    alone = [(one + other) / 2 for one, other in zip(first, again, strict=True)]
    spread = [max(ratio, 1 / ratio) for ratio in ratios(again, first)]
    last = rounds[f"{kind}, {what}"][-1]
    yield Figure(f"{what}: pushes, {kind}, p50 without {what}", "ms", alone)
    yield Figure(
        f"{what}: pushes, {kind}, p50 beside {per_second:.0f} {what} a second", "ms", beside, note=last.pushed.note
    )
    yield Figure(f"{what}: pushes, {kind}, without {what} by the same again", "x", spread)
    yield Figure(f"{what}: pushes, {kind}, by that without {what}", "x", ratios(beside, alone), at_most=max(spread))
    computing = [one.p50 for one in rounds.get(f"{kind}, computing", ())]
    if computing:
        yield Figure(f"{what}: pushes, {kind}, beside a process that only computes", "x", ratios(computing, alone))
    waits = [one.others.percentile(50) for one in rounds[f"{kind}, {what}"] if one.others is not None]
    yield Figure(f"{what}: p50 beside pushes, {kind}", "ms", waits)
