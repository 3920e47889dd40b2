"""Fair threads: however much some owners ask for, another one finds a place to wait, and its turn."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress

import pytest

from ingress.console.fairness import FairThreads
from ingress.http.fair_queue import CapacityTimeout


class Gate:
    """Work that ends when the gate is opened."""

    def __init__(self) -> None:
        self.opened = threading.Event()
        self.done: list[str] = []

    def work(self, owner: str) -> Callable[[], str]:
        def run() -> str:
            assert self.opened.wait(180)
            self.done.append(owner)
            return owner

        return run


@pytest.fixture
def gate() -> Iterator[Gate]:
    gate = Gate()
    yield gate
    gate.opened.set()


def few_threads() -> FairThreads:
    return FairThreads("test", 1, of_one=1, waiting=60, patience_seconds=600)


def count_refused(answers: list[object]) -> int:
    return sum(isinstance(answer, CapacityTimeout) for answer in answers)


async def asked(threads: FairThreads, gate: Gate, owner: str, times: int) -> list[Awaitable[str]]:
    tasks = [asyncio.create_task(threads.run(owner, gate.work(owner))) for _ in range(times)]
    await asyncio.sleep(0.01)
    return list(tasks)


@pytest.mark.parametrize("owners", [4, 8])
def test_some_owners_cannot_take_every_place(gate: Gate, owners: int) -> None:
    async def flood() -> tuple[list[object], str]:
        threads = few_threads()
        waiting = [one for number in range(owners) for one in await asked(threads, gate, f"flood{number}", 100)]
        late = (await asked(threads, gate, "another", 1))[0]
        gate.opened.set()
        return await asyncio.gather(*waiting, return_exceptions=True), await late

    answers, other = asyncio.run(flood())

    assert other == "another"
    assert gate.done.index("another") <= owners + 1, "one turn of each comes before"
    assert len(gate.done) <= 62
    assert count_refused(answers) == owners * 100 + 1 - len(gate.done)


def test_a_network_has_the_share_of_one_owner(gate: Gate) -> None:
    async def flood() -> list[object]:
        threads = few_threads()
        waiting = [
            asyncio.create_task(threads.run(f"company {number}", gate.work("flood"), network="192.0.2.1"))
            for number in range(100)
        ]
        await asyncio.sleep(0.01)
        other = asyncio.create_task(threads.run("another", gate.work("another"), network="192.0.2.2"))
        await asyncio.sleep(0.01)
        gate.opened.set()
        return await asyncio.gather(*waiting, other, return_exceptions=True)

    answers = asyncio.run(flood())

    assert answers[-1] == "another"
    assert count_refused(answers) == 100 - 16


def test_a_client_that_leaves_gives_its_place_back(gate: Gate) -> None:
    async def leave() -> str:
        threads = few_threads()
        waiting = await asked(threads, gate, "one", 10)
        for one in waiting[1:]:
            assert isinstance(one, asyncio.Task)
            one.cancel()
            with suppress(asyncio.CancelledError):
                await one
        gate.opened.set()
        await waiting[0]
        assert not threads._waiting
        assert not threads._requests
        return await threads.run("one", gate.work("one"))

    assert asyncio.run(leave()) == "one"
