"""Reads large answers of vendors in threads, so that the event loop goes on; a company has one thread at a time.

The number of values in a body is counted before it is decoded: sixteen megabytes of `{}` are five million objects,
which would hold the interpreter for seconds."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager
from typing import TypeVar
from weakref import WeakValueDictionary

from domain.connectors.vendor import VendorFault

Result = TypeVar("Result")

MOST_VALUES = 1_000_000
"""Most values in an answer. The newest positions of 20,000 devices of Traccar are some 600,000."""

MOST_VALUES_SENT = 50_000
"""Most values in a body that a vendor sends to us: it has one position, or few."""

SMALL_BYTES = 64 << 10
"""A body smaller than this is read at once."""

_THREADS = 2
_BEGINS_OR_FOLLOWS = (b",", b"{", b"[")


class TooManyValues(VendorFault):
    """An answer has more values than any fleet needs."""

    what_to_do = "ask the vendor for smaller pages, or for fewer vehicles"

    def __init__(self, most: int) -> None:
        super().__init__(f"its answer has more than {most:,} values")


def require_few_values(body: bytes, most: int) -> None:
    """Count the values of a body. Raises TooManyValues for too many; the answer then counts as a fault of the vendor.
    Commas and brackets in texts count too, so the count is never too low."""
    count = 0
    for sign in _BEGINS_OR_FOLLOWS:
        count += body.count(sign)
        if count > most:
            raise TooManyValues(most)


class AnswerReaders:
    """The threads of one process."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="reading")
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def read(self, owner: str, work: Callable[[], Result]) -> Result:
        """The result of `work`, which runs in a thread. An owner's next work waits for the one before, so owners take
        turns."""
        async with self._turn_of(owner):
            return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    def _turn_of(self, owner: str) -> AbstractAsyncContextManager[None]:
        return self._turns.setdefault(owner, asyncio.Lock())

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
