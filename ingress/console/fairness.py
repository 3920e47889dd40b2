"""Fair threads: no company uses more than its share of them, and the others wait in turn.

A request that waits holds no thread and no connection to the database. The owner of a share is a company, an operator,
or the network of a person who is not signed in."""

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from domain.accounts.tokens import hash_of_token
from ingress.fair_queue import CapacityTimeout, FairSemaphore

Result = TypeVar("Result")

PATIENCE_SECONDS = 10.0
"""A request waits for its turn for so long, unless its threads have another limit."""
_REMEMBERED = 10_000


class FairThreads:
    """Threads for one kind of work, of which one owner has `of_one` at most. One owner may have a quarter of the
    requests that wait."""

    def __init__(
        self, name: str, amount: int, *, of_one: int, waiting: int, patience_seconds: float = PATIENCE_SECONDS
    ) -> None:
        self._threads = ThreadPoolExecutor(amount, thread_name_prefix=name)
        self._semaphore = FairSemaphore(amount, of_one=of_one)
        self._requests: Counter[str] = Counter()
        self._patience_seconds = patience_seconds
        self._most = waiting + amount
        self._most_of_one = waiting // 4 + of_one

    async def run(self, owner: str, work: Callable[[], Result]) -> Result:
        """Run `work` in one of the threads.

        Raises CapacityTimeout when too many requests wait, or when this one waits too long."""
        if self._requests[owner] >= self._most_of_one or self._requests.total() >= self._most:
            raise CapacityTimeout
        self._requests[owner] += 1
        try:
            async with self._semaphore.permit(owner, patience_seconds=self._patience_seconds):
                return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        finally:
            self._requests[owner] -= 1
            if not self._requests[owner]:
                del self._requests[owner]

    def close(self) -> None:
        """Wait for the work that runs."""
        self._threads.shutdown()


class ShareOwners:
    """The owner of the share that a session's requests use. An owner never changes, so it is remembered. Permissions
    are looked up at every request."""

    def __init__(self) -> None:
        self._of: OrderedDict[bytes, str] = OrderedDict()

    async def of(self, token: str, look_up: Callable[[], Awaitable[str | None]]) -> str | None:
        """The owner; None if no session has that token."""
        token_hash = hash_of_token(token)
        owner = self._of.get(token_hash) or await look_up()
        if owner is not None:
            self._of[token_hash] = owner
            if len(self._of) > _REMEMBERED:
                self._of.popitem(last=False)
        return owner

    def forget(self, token: str) -> None:
        """Forget the owner of a session that has ended."""
        self._of.pop(hash_of_token(token), None)
