"""Fair queue and semaphore: an owner with much work delays none with little, and none takes everything."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from ingress.http.fair_queue import CapacityTimeout, FairQueue, FairSemaphore
from tests.clockwork import run_by_clockwork


def run(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    run_by_clockwork(scenario())


class Holder:
    """Takes a permit as soon as it can, and holds it until it is told to let it go."""

    def __init__(self, semaphore: FairSemaphore, owner: str, amount: int = 1) -> None:
        self.holds = False
        self._go = asyncio.Event()
        self._task = asyncio.create_task(self._hold(semaphore, owner, amount))

    async def _hold(self, semaphore: FairSemaphore, owner: str, amount: int) -> None:
        async with semaphore.permit(owner, amount):
            self.holds = True
            await self._go.wait()
        self.holds = False

    async def let_go(self) -> None:
        self._go.set()
        await self._task

    async def go_away(self) -> None:
        self._task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await self._task
        self.holds = False


async def holding(*holders: Holder) -> list[bool]:
    await asyncio.sleep(0.01)
    return [holder.holds for holder in holders]


def test_owners_take_turns_and_keep_their_own_order() -> None:
    queue: FairQueue[str] = FairQueue()
    for item in ("a1", "a2", "a3", "b1", "a4", "c1", "b2"):
        queue.put(item[0], item)

    assert len(queue) == 7
    assert [queue.take() for _ in range(len(queue))] == ["a1", "b1", "c1", "a2", "b2", "a3", "a4"]
    assert len(queue) == 0


def test_an_owner_gets_no_more_than_its_share() -> None:
    async def scenario() -> None:
        semaphore = FairSemaphore(4, of_one=2)
        noisy = [Holder(semaphore, "noisy") for _ in range(4)]
        assert await holding(*noisy) == [True, True, False, False]
        others = [Holder(semaphore, "quiet"), Holder(semaphore, "another"), Holder(semaphore, "third")]
        assert await holding(*others) == [True, True, False]

        await noisy[1].let_go()

        assert await holding(noisy[2], others[2]) == [True, False]  # it has waited for longer

    run(scenario)


def test_a_permit_that_is_given_back_goes_to_the_next_owner() -> None:
    async def scenario() -> None:
        semaphore = FairSemaphore(2, of_one=2)
        first = [Holder(semaphore, "noisy") for _ in range(2)]
        more = [Holder(semaphore, "noisy") for _ in range(10)]
        quiet = [Holder(semaphore, "quiet") for _ in range(2)]
        assert not any(await holding(*more, *quiet))

        for holder in first:
            await holder.let_go()
        assert await holding(*more, *quiet) == [True] + [False] * 9 + [True, False]
        await more[0].let_go()
        await quiet[0].let_go()
        assert await holding(more[1], more[2], quiet[1]) == [True, False, True]

    run(scenario)


def test_small_amounts_do_not_starve_a_large_one() -> None:
    async def scenario() -> None:
        semaphore = FairSemaphore(10, of_one=6)
        small = [Holder(semaphore, name, 2) for name in "abcd"]
        large = Holder(semaphore, "large", 6)
        late = Holder(semaphore, "late", 1)
        assert await holding(*small, large, late) == [True, True, True, True, False, False]

        for holder in small[:2]:
            await holder.let_go()

        assert await holding(large, late) == [True, False]
        await small[2].let_go()
        assert await holding(late) == [True]

    run(scenario)


def test_a_cancelled_owner_gives_its_permit_back_and_leaves_the_queue() -> None:
    async def scenario() -> None:
        semaphore = FairSemaphore(2, of_one=1)
        one, impatient, other = Holder(semaphore, "a"), Holder(semaphore, "a"), Holder(semaphore, "b")
        assert await holding(one, impatient, other) == [True, False, True]
        await impatient.go_away()
        patient = Holder(semaphore, "a")

        await one.go_away()

        assert await holding(patient, other) == [True, True]
        await patient.let_go()
        await other.let_go()
        everything = [Holder(semaphore, name) for name in "ab"]
        assert await holding(*everything) == [True, True]

    run(scenario)


def test_a_large_amount_that_stops_waiting_blocks_no_other() -> None:
    async def scenario() -> None:
        semaphore = FairSemaphore(2, of_one=2)
        one, large, small = Holder(semaphore, "a", 1), Holder(semaphore, "b", 2), Holder(semaphore, "c", 1)
        assert await holding(one, large, small) == [True, False, False]

        await large.go_away()

        assert await holding(small) == [True]

    run(scenario)


def test_an_owner_that_is_cancelled_as_it_gets_its_permit_gives_it_back() -> None:
    async def scenario() -> None:
        semaphore = FairSemaphore(1, of_one=1)
        async with semaphore.permit("a"):
            waiting = Holder(semaphore, "b")
            assert await holding(waiting) == [False]
        await waiting.go_away()

        assert await holding(Holder(semaphore, "c")) == [True]

    run(scenario)


def test_no_owner_waits_longer_than_its_patience() -> None:
    async def scenario() -> None:
        semaphore = FairSemaphore(2, of_one=1)
        async with semaphore.permit("a"):
            with pytest.raises(CapacityTimeout):
                async with semaphore.permit("a", patience_seconds=0.01):
                    pytest.fail("it is not free")
            async with semaphore.permit("b", patience_seconds=0.01):
                await asyncio.sleep(0.05)  # what is done with it may take longer
        async with semaphore.permit("a", patience_seconds=0):
            pass

    run(scenario)


def test_an_exception_gives_the_permit_back() -> None:
    async def scenario() -> None:
        semaphore = FairSemaphore(1, of_one=1)
        for _ in range(3):
            with pytest.raises(ValueError, match="inside"):
                async with semaphore.permit("a"):
                    raise ValueError("inside")

    run(scenario)
