"""Pages that update themselves: a stream of server-sent events for each open page.

A stream looks every few seconds, as a request of its own would: the session is checked anew, and between two looks it
holds no thread and no connection to the database. It ends after a while, and the browser opens the next one.
"""

import asyncio
import re
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Generic, TypeVar

from starlette.responses import Response

EVERY_SECONDS = 3.0
LONGEST_SECONDS = 300.0
MOST_OF_SESSION = 4
"""Browsers open six connections to a server at most: with more streams no page would load. Hidden pages have none."""
MOST_OF_OWNER = 20
"""The streams of one person, in however many browsers."""
MOST_OF_ALL = 100

_RECONNECT_MS = 1_000

Value = TypeVar("Value")


class Streams:
    """Those of one process. Of one event loop."""

    def __init__(self) -> None:
        self._open: Counter[str] = Counter()
        self._of_owner: Counter[str] = Counter()
        self._ending = asyncio.Event()

    def end(self) -> None:
        """The process stops: it must not wait for pages that stay open."""
        self._ending.set()

    async def tell(
        self, session: str, owner: str, first: Response, look: Callable[[], Awaitable[Response]]
    ) -> AsyncIterator[bytes]:
        """Events: `figures` with what `look` shows, `same` when that is what it was, `over` when the page is to be
        loaded again (nobody is signed in any more, say), `full` when too many streams are open. Nothing is told while
        our side fails: the page then says that its figures stand still."""
        is_full = self._open[session] >= MOST_OF_SESSION or self._of_owner[owner] >= MOST_OF_OWNER
        if is_full or self._open.total() >= MOST_OF_ALL:
            yield _event("full")
            return
        self._open[session] += 1
        self._of_owner[owner] += 1
        try:
            yield f"retry: {_RECONNECT_MS}\n\n".encode()
            ends, seen = time.monotonic() + LONGEST_SECONDS, first
            told: bytes | None = None
            while True:
                body = bytes(seen.body)
                if seen.status_code == 200:
                    yield _event("same") if body == told else _event("figures", body.decode())
                    told = body
                elif seen.status_code < 500 and seen.status_code not in (409, 429):  # a lock or its turn: not for long
                    yield _event("over")
                    return
                if time.monotonic() >= ends or await self._is_ending_within(EVERY_SECONDS):
                    return
                seen = await look()
        finally:
            self._open -= Counter({session: 1})
            self._of_owner -= Counter({owner: 1})

    async def _is_ending_within(self, seconds: float) -> bool:
        try:
            return await asyncio.wait_for(self._ending.wait(), seconds)
        except TimeoutError:
            return False


def _event(name: str, text: str = "") -> bytes:
    """Browsers drop an event that has no line of data."""
    lines = "".join(f"data: {line}\n" for line in re.split(r"\r\n|\r|\n", text))
    return f"event: {name}\n{lines}\n".encode()


class Shared(Generic[Value]):
    """Something that all open pages show, made once for all of them."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._lock = threading.Lock()
        self._made: tuple[float, Value] | None = None

    def get(self, make: Callable[[], Value]) -> Value:
        """Made anew when it is older than so many seconds. Raises TimeoutError when somebody has been making it for
        longer: what is old must not look new, and whoever waits holds a connection to the database."""
        if not self._lock.acquire(timeout=self._seconds):
            raise TimeoutError("it is still being made")
        try:
            if self._made is None or time.monotonic() - self._made[0] > self._seconds:
                value = make()
                self._made = time.monotonic(), value
            return self._made[1]
        finally:
            self._lock.release()
