"""Work in batches without a delay: a batch is everything that arrived while the last one was in flight. Where more has
arrived than fits into a batch, owners take turns."""

import asyncio
import contextvars
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from domain.telemetry.metrics import BATCH_ITEMS, BATCH_WAITS
from ingress.http.fair_queue import FairQueue

_ALONE_SECONDS = 0.05
"""After this time a running batch no longer holds back a next one that is not full."""

Item = TypeVar("Item")
Result = TypeVar("Result")


class Submission(Generic[Item, Result]):
    """An item that waits for its result."""

    __slots__ = ("future", "item", "submitted_at")

    def __init__(self, item: Item) -> None:
        self.item = item
        self.submitted_at = time.monotonic()
        self.future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()

    def settle(self, result: Result) -> None:
        """Sets the result. Does nothing if there is one already, or if the caller no longer waits."""
        if not self.future.done():
            self.future.set_result(result)

    def fail(self, error: BaseException) -> None:
        """Fails the submission with this error. Does nothing if there is a result already."""
        if not self.future.done():
            self.future.set_exception(error)


class Batcher(Generic[Item, Result]):
    """Hands concurrent submissions to `work` together; a single one on an idle system goes at once.

    A batch holds one of `at_once` places until `work` returns. A second batch starts beside it when it is full, or when
    the first one takes long: small batches cost more for each item. `work` settles each submission then or later. When
    it raises, every submission that is not settled fails. `name` is that of its metrics. A batch keeps its place for at
    least `rest_seconds`: where a short wait does not matter, batches are then fewer and fuller.
    """

    def __init__(
        self,
        work: Callable[[Sequence[Submission[Item, Result]]], Awaitable[None]],
        *,
        name: str,
        max_items: int = 256,
        at_once: int = 2,
        rest_seconds: float = 0.0,
    ) -> None:
        self._work = work
        self._items, self._waits = BATCH_ITEMS.labels(name), BATCH_WAITS.labels(name)
        self._most_items = max_items
        self._at_once = at_once
        self._rest_seconds = rest_seconds
        self._start_is_planned = False
        self._waiting: FairQueue[Submission[Item, Result]] = FairQueue()
        self._running: set[asyncio.Task[None]] = set()
        self._recent: set[asyncio.Task[None]] = set()
        """Running batches; beside them only a full batch may start."""

    def submit(self, item: Item, owner: str) -> "asyncio.Future[Result]":
        """The future result for `item`. `owner` takes turns with the other owners."""
        submission: Submission[Item, Result] = Submission(item)
        self._waiting.put(owner, submission)
        if not self._start_is_planned and len(self._running) < self._at_once:
            self._start_is_planned = True
            asyncio.get_running_loop().call_soon(
                self._start_batches
            )  # after all that were woken together have submitted
        return submission.future

    async def close(self) -> None:
        """Waits for the batches in flight, and for the submissions behind them."""
        while self._running:
            await asyncio.wait(self._running)

    def _start_batches(self) -> None:
        """Starts every batch that may start."""
        self._start_is_planned = False
        loop = asyncio.get_running_loop()
        while self._waiting and len(self._running) < self._at_once:
            if self._recent and len(self._waiting) < self._most_items:
                return
            batch = [self._waiting.take() for _ in range(min(len(self._waiting), self._most_items))]
            # Keeps the log lines of the batch apart from those of the request that happens to start it.
            task = loop.create_task(self._run(batch), context=contextvars.Context())
            self._items.observe(len(batch))
            self._waits.observe(time.monotonic() - min(one.submitted_at for one in batch))
            self._running.add(task)
            self._recent.add(task)
            task.add_done_callback(self._batch_ended)
            loop.call_later(_ALONE_SECONDS, self._allow_next, task)

    def _allow_next(self, task: "asyncio.Task[None]") -> None:
        self._recent.discard(task)
        self._start_batches()

    def _batch_ended(self, task: "asyncio.Task[None]") -> None:
        self._running.discard(task)
        self._allow_next(task)

    async def _run(self, batch: Sequence[Submission[Item, Result]]) -> None:
        started = time.monotonic()
        try:
            await self._work(batch)
        except Exception as error:
            for submission in batch:
                submission.fail(error)
        rest_seconds = self._rest_seconds - (time.monotonic() - started)
        if rest_seconds > 0:
            await asyncio.sleep(rest_seconds)
