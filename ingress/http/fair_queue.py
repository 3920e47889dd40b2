"""A fair queue and a fair semaphore: owners take turns, so that one with much work does not delay one with little."""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Iterator
from typing import Generic, NamedTuple, TypeVar

Item = TypeVar("Item")


class FairQueue(Generic[Item]):
    """Items that wait, each with its owner. One item of each owner comes in turn; one owner's items come in order."""

    def __init__(self) -> None:
        self._of: OrderedDict[str, deque[Item]] = OrderedDict()
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def put(self, owner: str, item: Item) -> None:
        self._of.setdefault(owner, deque()).append(item)
        self._length += 1

    def heads(self) -> Iterator[tuple[str, Item]]:
        """The next item of each owner, in turn."""
        return ((owner, items[0]) for owner, items in self._of.items())

    def take(self, owner: str | None = None) -> Item:
        """Removes and returns the next item, or the next one of this owner. After that all other owners come first."""
        owner = next(iter(self._of)) if owner is None else owner
        items = self._of[owner]
        if len(items) == 1:
            del self._of[owner]
        else:
            self._of.move_to_end(owner)
        self._length -= 1
        return items.popleft()


class _Wait(NamedTuple):
    amount: int
    future: "asyncio.Future[None]"


class CapacityTimeout(Exception):
    """Other owners held the capacity for too long."""


class FairSemaphore:
    """A limited amount within a process. One owner gets at most `of_one`; owners wait in turn."""

    def __init__(self, amount: int, *, of_one: int) -> None:
        self._free = amount
        self._of_one = of_one
        self._taken: dict[str, int] = {}
        self._waiting: FairQueue[_Wait] = FairQueue()

    def permit(self, owner: str, amount: int = 1, *, patience_seconds: float | None = None) -> "Permit":
        """A permit to be entered with `async with`: it waits for the amount, and holds it during the block. `amount` is
        at most `of_one`. Raises CapacityTimeout after waiting longer than `patience_seconds`."""
        return Permit(self, owner, amount, patience_seconds)

    async def take(self, owner: str, amount: int, patience_seconds: float | None) -> None:
        """Waits as `permit` does, and takes the amount, which the caller must give back."""
        if not self.take_at_once(owner, amount):
            await self._wait(owner, amount, patience_seconds)

    def take_at_once(self, owner: str, amount: int) -> bool:
        """Takes the amount if it is free and nobody waits."""
        taken = self._taken.get(owner, 0) + amount
        if taken > self._of_one or amount > self._free or self._waiting:
            return False
        self._free -= amount
        self._taken[owner] = taken
        return True

    def taken_by(self, owner: str) -> int:
        """The amount that the owner holds."""
        return self._taken.get(owner, 0)

    def give_back(self, owner: str, amount: int) -> None:
        self._change(owner, -amount)
        if self._waiting:
            self._serve()

    async def _wait(self, owner: str, amount: int, patience_seconds: float | None) -> None:
        wait = _Wait(amount, asyncio.get_running_loop().create_future())
        self._waiting.put(owner, wait)
        self._serve()
        try:
            async with asyncio.timeout(patience_seconds):
                await wait.future
        except BaseException as error:
            if not wait.future.cancel() and not wait.future.cancelled():  # the permit came at the same moment
                self._change(owner, -amount)
            self._serve()  # others may have waited for it
            if isinstance(error, TimeoutError):
                raise CapacityTimeout from None
            raise

    def _serve(self) -> None:
        """Wakes every owner whose amount is free. An owner at its limit is passed over. The first other owner that has
        to wait makes all behind it wait, so that small amounts do not starve large ones."""
        while self._waiting:
            head = next((head for head in self._waiting.heads() if self._may(*head)), None)
            if head is None:
                return
            owner, wait = head
            if wait.future.done():  # its request went away
                self._waiting.take(owner)
            elif self._is_free(owner, wait.amount):
                self._waiting.take(owner)
                self._change(owner, wait.amount)
                wait.future.set_result(None)
            else:
                return

    def _may(self, owner: str, wait: _Wait) -> bool:
        return wait.future.done() or self.taken_by(owner) + wait.amount <= self._of_one

    def _is_free(self, owner: str, amount: int) -> bool:
        return amount <= self._free and self.taken_by(owner) + amount <= self._of_one

    def _change(self, owner: str, amount: int) -> None:
        self._free -= amount
        taken = self.taken_by(owner) + amount
        if taken:
            self._taken[owner] = taken
        else:
            self._taken.pop(owner, None)


class Permit:
    """The amount that one owner holds during a block. Every push has one, so it is a class and no generator."""

    __slots__ = ("_amount", "_owner", "_patience_seconds", "_semaphore")

    def __init__(self, semaphore: FairSemaphore, owner: str, amount: int, patience_seconds: float | None) -> None:
        self._semaphore = semaphore
        self._owner = owner
        self._amount = amount
        self._patience_seconds = patience_seconds

    async def __aenter__(self) -> None:
        if not self._semaphore.take_at_once(self._owner, self._amount):
            await self._semaphore.take(self._owner, self._amount, self._patience_seconds)

    async def __aexit__(self, *_: object) -> None:
        self._semaphore.give_back(self._owner, self._amount)
