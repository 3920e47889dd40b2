"""Pages that update themselves: a stream of server-sent events for each open page.

Every few seconds a stream renders the page's figures, in the way of a request of its own: the session is checked again,
and in between the stream holds no thread and no connection to the database. It ends after some minutes, and the browser
opens the next one.

`sse-starlette` does not fit: on import it patches the handler of signals in uvicorn, it adds a task of pings to each
stream, and it would only replace `_event`."""

import asyncio
import re
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from starlette.responses import Response

EVERY_SECONDS = 3.0
LONGEST_SECONDS = 300.0
MOST_OF_SESSION = 4
"""Most streams of a session. Browsers open six connections to a server at most, so with more streams no page would
load. Hidden pages have no stream."""
MOST_OF_PERSON = 20
"""Most streams of one person in all browsers together."""
MOST_OF_COMPANY = 50
MOST_OF_ALL = 100
"""Most streams of all companies. Beyond it a company with few streams gets a place from the company with most."""
RESERVED_FOR_OPERATORS = 20

_RECONNECT_MS = 1_000

Value = TypeVar("Value")


@dataclass(eq=False, slots=True)
class _Stream:
    session: str
    owner: str
    person: str
    is_operator: bool
    ending: asyncio.Event = field(default_factory=asyncio.Event)
    is_displaced: bool = False


class Streams:
    """The open streams of one process. It belongs to one event loop."""

    def __init__(self) -> None:
        self._open: list[_Stream] = []
        """The open streams, the newest last."""
        self._is_ending = False

    def end(self) -> None:
        """End all streams, so that the process does not wait for open pages when it stops."""
        self._is_ending = True
        for stream in self._open:
            stream.ending.set()

    async def events(
        self,
        session: str,
        owner: str,
        first: Response,
        refresh: Callable[[], Awaitable[Response]],
        *,
        person: str | None = None,
        is_operator: bool = False,
    ) -> AsyncIterator[bytes]:
        """The events of one stream of a person; `owner` is the person's company.

        - `figures` has the text that `refresh` rendered, and `same` says that it has not changed;
        - `over` tells the page to load itself again, such as when the person has signed out;
        - `full` says that too many streams are open.

        There is no event while our side fails: the page then says that its figures stand still."""
        stream = _Stream(session, owner, person or session, is_operator)
        if not self._has_room(stream):
            yield _event("full")
            return
        self._open.append(stream)
        try:
            yield f"retry: {_RECONNECT_MS}\n\n".encode()
            async for event in self._figures(stream, first, refresh):
                yield event
        finally:
            self._open.remove(stream)

    async def _figures(
        self, stream: _Stream, seen: Response, refresh: Callable[[], Awaitable[Response]]
    ) -> AsyncIterator[bytes]:
        ends = time.monotonic() + LONGEST_SECONDS
        told: bytes | None = None
        while True:
            body = bytes(seen.body)
            if seen.status_code == 200:
                yield _event("same") if body == told else _event("figures", body.decode())
                told = body
            elif seen.status_code < 500 and seen.status_code not in (409, 429):  # a lock or its turn: not for long
                yield _event("over")
                return
            if time.monotonic() >= ends or await self._is_ending_within(stream, EVERY_SECONDS):
                if stream.is_displaced:
                    yield _event("full")
                return
            seen = await refresh()

    def _has_room(self, stream: _Stream) -> bool:
        """True if the stream may begin. If all places are taken, one of the company with most streams ends for it."""
        if sum(one.session == stream.session for one in self._open) >= MOST_OF_SESSION:
            return False
        if sum(one.person == stream.person for one in self._open) >= MOST_OF_PERSON:
            return False
        if stream.is_operator:
            return len(self._open) < MOST_OF_ALL + RESERVED_FOR_OPERATORS
        companies = Counter(one.owner for one in self._open if not (one.is_operator or one.is_displaced))
        if companies[stream.owner] >= MOST_OF_COMPANY:
            return False
        return companies.total() < MOST_OF_ALL or self._displaces(stream, companies)

    def _displaces(self, stream: _Stream, companies: Counter[str]) -> bool:
        ((most, count),) = companies.most_common(1)
        if count <= companies[stream.owner] + 1:
            return False
        newest = next(one for one in reversed(self._open) if one.owner == most and not one.is_displaced)
        newest.is_displaced = True
        newest.ending.set()
        return True

    async def _is_ending_within(self, stream: _Stream, seconds: float) -> bool:
        try:
            return self._is_ending or await asyncio.wait_for(stream.ending.wait(), seconds)
        except TimeoutError:
            return False


def _event(name: str, text: str = "") -> bytes:
    """Encode an event. It always has a line of data, because browsers drop an event without one."""
    lines = "".join(f"data: {line}\n" for line in re.split(r"\r\n|\r|\n", text))
    return f"event: {name}\n{lines}\n".encode()


class TimedCache(Generic[Value]):
    """A value for all open pages, made once for all of them."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._lock = threading.Lock()
        self._made: tuple[float, Value] | None = None

    def get(self, make: Callable[[], Value]) -> Value:
        """The value, made again if it is too old. Raises TimeoutError if another thread has been making it for longer
        than that: an old value must not look new, and a waiting caller holds a connection to the database."""
        if not self._lock.acquire(timeout=self._seconds):
            raise TimeoutError("it is still being made")
        try:
            if self._made is None or time.monotonic() - self._made[0] > self._seconds:
                value = make()
                self._made = time.monotonic(), value
            return self._made[1]
        finally:
            self._lock.release()
