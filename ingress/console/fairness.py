"""Fair threads: no company uses more than its share of them, and the others wait in turn.

A request that waits holds no thread and no connection to the database. The owner of a share is a company, an operator,
or the network of a person who is not signed in."""

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from domain.accounts.tokens import hash_of_token
from ingress.http.fair_queue import CapacityTimeout, FairSemaphore

Result = TypeVar("Result")

PATIENCE_SECONDS = 10.0
"""Longest wait of a request for its turn, unless its threads have another limit."""
_REMEMBERED = 10_000


class FairThreads:
    """Threads for one kind of work; one owner has at most `of_one`, and a quarter of the waiting requests. When all
    places to wait are taken, an owner with few waiting requests gets one from the owner with most."""

    def __init__(
        self, name: str, amount: int, *, of_one: int, waiting: int, patience_seconds: float = PATIENCE_SECONDS
    ) -> None:
        self._threads = ThreadPoolExecutor(amount, thread_name_prefix=name)
        self._semaphore = FairSemaphore(amount, of_one=of_one)
        self._requests: Counter[str] = Counter()
        """Requests that wait or run, by owner and by network."""
        self._waiting: dict[str, list[asyncio.Task[None]]] = {}
        self._patience_seconds = patience_seconds
        self._most_waiting = waiting
        self._most_of_one = waiting // 4 + of_one

    async def run(self, owner: str, work: Callable[[], Result], *, network: str | None = None) -> Result:
        """Run `work` in one of the threads. A `network` has at most as many requests as an owner, for all owners
        together. Raises CapacityTimeout if too many requests wait, or this one waits too long."""
        counted = [f"owner {owner}", *([f"network {network}"] if network is not None else [])]
        if any(self._requests[one] >= self._most_of_one for one in counted):
            raise CapacityTimeout
        self._requests.update(counted)
        try:
            await self._take_turn(owner)
            try:
                return await asyncio.get_running_loop().run_in_executor(self._threads, work)
            finally:
                self._semaphore.give_back(owner, 1)
        finally:
            self._requests -= Counter(counted)

    async def _take_turn(self, owner: str) -> None:
        self._make_room(owner)
        turn = asyncio.ensure_future(self._semaphore.take(owner, 1, self._patience_seconds))
        self._waiting.setdefault(owner, []).append(turn)
        try:
            await asyncio.wait([turn])
        except asyncio.CancelledError:  # the client has gone
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self._semaphore.give_back(owner, 1)
            turn.cancel()
            raise
        finally:
            self._forget(owner, turn)
        if turn.cancelled():  # its place is another's
            raise CapacityTimeout
        turn.result()

    def _make_room(self, owner: str) -> None:
        """Take a waiting place from the owner who has the most. Raises CapacityTimeout where `owner` has as many."""
        if sum(map(len, self._waiting.values())) < self._most_waiting:
            return
        most = max(self._waiting, key=lambda one: len(self._waiting[one]))
        if len(self._waiting[most]) <= len(self._waiting.get(owner, ())) + 1:
            raise CapacityTimeout
        newest = self._waiting[most][-1]
        newest.cancel()
        self._forget(most, newest)

    def _forget(self, owner: str, turn: "asyncio.Task[None]") -> None:
        turns = self._waiting.get(owner, [])
        if turn in turns:
            turns.remove(turn)
        if not turns:
            self._waiting.pop(owner, None)

    def close(self) -> None:
        """Wait for the work that runs."""
        self._threads.shutdown()


class ShareOwners:
    """The owners of the shares that sessions use. An owner never changes, so it is remembered. Permissions are looked
    up at every request."""

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
