"""Work in batches without waiting for them: a batch is whatever arrived while the last one was in flight.

Where more has arrived than goes into a batch, every owner has his turn.
"""

import asyncio
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar

from ingress.turns import Turns

Item = TypeVar("Item")
Result = TypeVar("Result")


class Batcher(Generic[Item, Result]):
    """Hands concurrent submissions to `work` together, in a thread; a single one on an idle system goes at once.

    `work` returns one result for each item, in order; a result that is an exception is raised for that item alone.
    """

    def __init__(
        self,
        name: str,
        work: Callable[[Sequence[Item]], Sequence[Result | BaseException]],
        *,
        max_items: int = 256,
        at_once: int = 2,
    ) -> None:
        self._work = work
        self._most_items = max_items
        self._at_once = at_once
        self._running = 0
        self._starting = False
        self._waiting: Turns[tuple[Item, asyncio.Future[Result]]] = Turns()
        self._tasks: set[asyncio.Task[None]] = set()
        self._threads = ThreadPoolExecutor(at_once, thread_name_prefix=name)

    async def submit(self, item: Item, owner: Hashable) -> Result:
        """The result for `item`; raises what `work` raised for it. `owner` is who takes turns with the others."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Result] = loop.create_future()
        self._waiting.put(owner, (item, future))
        if self._running < self._at_once and not self._starting:
            self._starting = True
            loop.call_soon(self._start)  # after everybody who was woken together has submitted
        return await future

    def close(self) -> None:
        """Waits for the batches in flight."""
        self._threads.shutdown(wait=True)

    def _start(self) -> None:
        self._starting = False
        self._running += 1
        task = asyncio.get_running_loop().create_task(self._drain())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _drain(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self._waiting:
                batch = [self._waiting.take() for _ in range(min(len(self._waiting), self._most_items))]
                answered: Sequence[tuple[tuple[Item, asyncio.Future[Result]], Result | BaseException]]
                try:
                    results = await loop.run_in_executor(self._threads, self._work, [item for item, _ in batch])
                    answered = list(zip(batch, results, strict=True))
                except Exception as error:
                    answered = [(one, error) for one in batch]
                for (_, future), result in answered:
                    if future.done():  # its request went away
                        continue
                    if isinstance(result, BaseException):
                        future.set_exception(result)
                    else:
                        future.set_result(result)
        finally:
            self._running -= 1
