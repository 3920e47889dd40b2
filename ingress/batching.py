"""Work in batches without waiting for them: a batch is whatever arrived while the last one was in flight.

Where more has arrived than goes into a batch, every owner has his turn.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from ingress.fair_queue import FairQueue

_YOUNG_SECONDS = 0.05

Item = TypeVar("Item")
Result = TypeVar("Result")


class Submission(Generic[Item, Result]):
    """An item that waits for what becomes of it."""

    __slots__ = ("future", "item")

    def __init__(self, item: Item) -> None:
        self.item = item
        self.future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()

    def settle(self, result: Result) -> None:
        """The first result counts. Nobody may be there for it any more."""
        if not self.future.done():
            self.future.set_result(result)

    def fail(self, error: BaseException) -> None:
        """Raised where the item was submitted, unless it has a result already."""
        if not self.future.done():
            self.future.set_exception(error)


class Batcher(Generic[Item, Result]):
    """Hands concurrent submissions to `work` together; a single one on an idle system goes at once.

    A batch holds one of `at_once` places until `work` returns. Beside one in flight goes only one that is full, or when
    that one takes long, whatever waits: small batches cost more for each item. `work` settles each submission then or
    later. When it raises, every one that is not settled fails.
    """

    def __init__(
        self,
        work: Callable[[Sequence[Submission[Item, Result]]], Awaitable[None]],
        *,
        max_items: int = 256,
        at_once: int = 2,
    ) -> None:
        self._work = work
        self._most_items = max_items
        self._at_once = at_once
        self._looking = False
        self._waiting: FairQueue[Submission[Item, Result]] = FairQueue()
        self._running: set[asyncio.Task[None]] = set()
        self._young: set[asyncio.Task[None]] = set()
        """Those of them behind which a full batch is to form."""

    def submit(self, item: Item, owner: str) -> "asyncio.Future[Result]":
        """The result for `item`, to be awaited. `owner` is who takes turns with the others."""
        submission: Submission[Item, Result] = Submission(item)
        self._waiting.put(owner, submission)
        if not self._looking and len(self._running) < self._at_once:
            self._looking = True
            asyncio.get_running_loop().call_soon(self._look)  # after all that were woken together have submitted
        return submission.future

    async def close(self) -> None:
        """Waits for the batches in flight, and for what waits behind them."""
        while self._running:
            await asyncio.wait(self._running)

    def _look(self) -> None:
        """Starts what may start."""
        self._looking = False
        loop = asyncio.get_running_loop()
        while self._waiting and len(self._running) < self._at_once:
            if self._young and len(self._waiting) < self._most_items:
                return
            batch = [self._waiting.take() for _ in range(min(len(self._waiting), self._most_items))]
            task = loop.create_task(self._run(batch))
            self._running.add(task)
            self._young.add(task)
            task.add_done_callback(self._ended)
            loop.call_later(_YOUNG_SECONDS, self._aged, task)

    def _aged(self, task: "asyncio.Task[None]") -> None:
        self._young.discard(task)
        self._look()

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._running.discard(task)
        self._aged(task)

    async def _run(self, batch: Sequence[Submission[Item, Result]]) -> None:
        try:
            await self._work(batch)
        except Exception as error:
            for submission in batch:
                submission.fail(error)
