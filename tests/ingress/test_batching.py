"""Batches form from what arrives while the last one is in flight; what happens to one item is its own affair."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest

from ingress.http.batching import _ALONE_SECONDS, Batcher, Submission
from tests.clockwork import run_by_clockwork


def run(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    run_by_clockwork(scenario())


class Work:
    """Doubles numbers, remembers its batches, and holds each until it is let go."""

    def __init__(self, *, held: bool = False) -> None:
        self.batches: list[list[int]] = []
        self.begun = asyncio.Semaphore(0)
        self.go = asyncio.Event()
        if not held:
            self.go.set()

    async def __call__(self, batch: Sequence[Submission[int, int]]) -> None:
        self.batches.append([one.item for one in batch])
        self.begun.release()
        await self.go.wait()
        for one in batch:
            if one.item % 2:
                one.fail(ValueError(f"odd {one.item}"))
            else:
                one.settle(one.item * 2)

    async def has_begun(self) -> None:
        await self.begun.acquire()


async def submit(batcher: Batcher[int, int], item: int) -> int:
    return await batcher.submit(item, "the only one")


def now() -> float:
    return asyncio.get_running_loop().time()


def test_a_single_item_is_worked_on_at_once() -> None:
    async def scenario() -> None:
        work = Work()
        batcher = Batcher(work, name="tests")
        started = now()
        assert await submit(batcher, 4) == 8
        assert now() - started < 0.01
        await batcher.close()

    run(scenario)


def test_items_that_come_together_go_together() -> None:
    async def scenario() -> None:
        work = Work()
        batcher = Batcher(work, name="tests")
        assert await asyncio.gather(*(submit(batcher, number) for number in range(0, 20, 2))) == list(range(0, 40, 4))
        assert work.batches == [list(range(0, 20, 2))]
        await batcher.close()

    run(scenario)


def test_items_that_come_during_a_batch_form_the_next_one() -> None:
    async def scenario() -> None:
        work = Work(held=True)
        batcher = Batcher(work, name="tests", at_once=1)
        first = asyncio.create_task(submit(batcher, 0))
        await work.has_begun()
        others = [asyncio.create_task(submit(batcher, number)) for number in (2, 4, 6)]
        await asyncio.sleep(0.02)
        assert work.batches == [[0]]
        work.go.set()
        assert await asyncio.gather(first, *others) == [0, 4, 8, 12]
        assert work.batches == [[0], [2, 4, 6]]
        await batcher.close()

    run(scenario)


def test_a_full_batch_starts_beside_the_first_and_a_third_waits() -> None:
    async def scenario() -> None:
        work = Work(held=True)
        batcher = Batcher(work, name="tests", max_items=3, at_once=2)
        tasks = []
        for numbers in [[0], [2, 4, 6]]:
            tasks += [asyncio.create_task(submit(batcher, number)) for number in numbers]
            await asyncio.wait_for(work.has_begun(), _ALONE_SECONDS / 2)
        tasks += [asyncio.create_task(submit(batcher, number)) for number in (8, 10, 12, 14)]
        await asyncio.sleep(2 * _ALONE_SECONDS)
        assert work.batches == [[0], [2, 4, 6]]
        work.go.set()
        assert await asyncio.gather(*tasks) == list(range(0, 32, 4))
        assert work.batches == [[0], [2, 4, 6], [8, 10, 12], [14]]
        await batcher.close()

    run(scenario)


def test_items_behind_a_batch_fill_the_next_one_but_not_for_long() -> None:
    async def scenario() -> None:
        work = Work(held=True)
        batcher = Batcher(work, name="tests", max_items=3, at_once=2)
        first = asyncio.create_task(submit(batcher, 0))
        await work.has_begun()
        started = now()
        second = asyncio.create_task(submit(batcher, 2))
        await work.has_begun()  # though the first is stuck
        assert now() - started > _ALONE_SECONDS / 2
        third = asyncio.create_task(submit(batcher, 4))
        work.go.set()
        assert [await one for one in (first, second, third)] == [0, 4, 8]
        await batcher.close()

    run(scenario)


def test_no_item_waits_for_a_batch_that_is_stuck() -> None:
    async def scenario() -> None:
        stuck, begun = asyncio.Event(), asyncio.Event()

        async def work(batch: Sequence[Submission[int, int]]) -> None:
            if batch[0].item == 0:
                begun.set()
                await stuck.wait()
            for one in batch:
                one.settle(one.item)

        batcher: Batcher[int, int] = Batcher(work, name="tests", max_items=3, at_once=2)
        first = asyncio.create_task(submit(batcher, 0))
        await begun.wait()
        started = now()
        for number in range(1, 41):
            assert await submit(batcher, number) == number
        assert now() - started < 2 * _ALONE_SECONDS, "one waits to fill a batch, and none for the stuck one"
        stuck.set()
        assert await first == 0
        await batcher.close()

    run(scenario)


def test_a_batch_has_a_size_limit_and_keeps_the_order() -> None:
    async def scenario() -> None:
        work = Work()
        batcher = Batcher(work, name="tests", max_items=4, at_once=1)
        assert await asyncio.gather(*(submit(batcher, number) for number in range(0, 20, 2))) == list(range(0, 40, 4))
        assert work.batches == [[0, 2, 4, 6], [8, 10, 12, 14], [16, 18]]
        await batcher.close()

    run(scenario)


def test_an_owner_with_few_items_does_not_wait_for_one_with_many() -> None:
    async def scenario() -> None:
        work = Work(held=True)
        batcher = Batcher(work, name="tests", max_items=4, at_once=1)
        submitted = [batcher.submit(0, "noisy")]
        await work.has_begun()
        submitted += [batcher.submit(number, "noisy") for number in range(2, 20, 2)]
        submitted += [batcher.submit(number, f"quiet {number}") for number in (100, 102)]
        await asyncio.sleep(0.02)
        work.go.set()
        await asyncio.gather(*submitted)
        assert work.batches == [[0], [2, 100, 102, 4], [6, 8, 10, 12], [14, 16, 18]]
        await batcher.close()

    run(scenario)


def test_an_exception_reaches_only_its_own_item() -> None:
    async def scenario() -> None:
        batcher = Batcher(Work(), name="tests")
        results = await asyncio.gather(*(submit(batcher, number) for number in (0, 1, 2)), return_exceptions=True)
        assert results[0] == 0
        assert isinstance(results[1], ValueError)
        assert str(results[1]) == "odd 1"
        assert results[2] == 4
        await batcher.close()

    run(scenario)


def test_every_item_of_a_failed_batch_fails_and_the_next_batch_is_worked_on() -> None:
    async def work(batch: Sequence[Submission[int, int]]) -> None:
        for one in batch:
            if one.item == 13:
                raise ConnectionError("the database is away")
            one.settle(one.item)

    async def scenario() -> None:
        batcher: Batcher[int, int] = Batcher(work, name="tests")
        failed = await asyncio.gather(*(submit(batcher, number) for number in (13, 12)), return_exceptions=True)
        assert [type(error) for error in failed] == [ConnectionError, ConnectionError]
        settled = await asyncio.gather(*(submit(batcher, number) for number in (14, 13)), return_exceptions=True)
        assert settled[0] == 14
        await batcher.close()

    run(scenario)


def test_a_request_that_goes_away_does_not_break_its_neighbours() -> None:
    async def scenario() -> None:
        work = Work(held=True)
        batcher = Batcher(work, name="tests", at_once=1)
        gone, neighbour = (asyncio.create_task(submit(batcher, number)) for number in (2, 4))
        await work.has_begun()
        waiting_and_gone = asyncio.create_task(submit(batcher, 6))
        waiting = asyncio.create_task(submit(batcher, 8))
        await asyncio.sleep(0.02)
        gone.cancel()
        waiting_and_gone.cancel()
        work.go.set()
        assert await neighbour == 8
        assert await waiting == 16
        for task in (gone, waiting_and_gone):
            with pytest.raises(asyncio.CancelledError):
                await task
        await batcher.close()

    run(scenario)


@pytest.mark.parametrize("at_once", [1, 2, 4])
def test_every_item_gets_its_own_result_under_load(at_once: int) -> None:
    async def work(batch: Sequence[Submission[int, int]]) -> None:
        await asyncio.sleep(0.001 * (len(batch) % 3))
        for one in batch:
            one.settle(one.item * 2)

    async def scenario() -> None:
        batcher: Batcher[int, int] = Batcher(work, name="tests", max_items=16, at_once=at_once)

        async def client(number: int) -> None:
            for turn in range(20):
                await asyncio.sleep(0.0001 * ((number + turn) % 5))
                assert await submit(batcher, number * 1000 + turn) == 2 * (number * 1000 + turn)

        await asyncio.gather(*(client(number) for number in range(30)))
        await batcher.close()

    run(scenario)


def test_an_item_may_get_its_result_after_the_work_on_its_batch_has_returned() -> None:
    async def scenario() -> None:
        later: list[Submission[int, int]] = []

        async def work(batch: Sequence[Submission[int, int]]) -> None:
            later.extend(batch)

        batcher: Batcher[int, int] = Batcher(work, name="tests", max_items=1, at_once=1)
        waiting = asyncio.gather(*(submit(batcher, number) for number in (1, 2)))
        while len(later) < 2:
            await asyncio.sleep(0)
        for one in reversed(later):
            one.settle(-one.item)
        assert await waiting == [-1, -2]

    run(scenario)


def test_items_that_come_while_a_batch_rests_wait_for_its_place() -> None:
    async def scenario() -> None:
        work = Work()
        batcher = Batcher(work, name="tests", at_once=1, rest_seconds=60)
        assert await submit(batcher, 2) == 4, "the first one does not wait"
        waiting = asyncio.gather(submit(batcher, 4), submit(batcher, 6))
        for _ in range(20):
            await asyncio.sleep(0)
        assert (work.batches, waiting.done()) == ([[2]], False)
        waiting.cancel()

        rested = Batcher(work, name="tests", at_once=1, rest_seconds=0.01)
        assert [await submit(rested, number) for number in (8, 10)] == [16, 20]
        await rested.close()

    run(scenario)
