"""Looks up the addresses of names that companies bring, in threads of its own.

A silent name server keeps a question for half a minute, and a company may bring any number of such names. So each
question has a thread, and a company has a few threads of a process: its further questions wait behind its own. uvloop
would ask in four threads that all companies share, whatever executor it is given.
"""

import asyncio
import socket
import threading
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import NamedTuple

from domain.addresses import literal_address

LOOKUP_SECONDS = 8.0
"""A name without addresses after this time counts as silent. glibc asks again after 5 s."""
KEPT_SECONDS = 30.0
"""A name without an address is not looked up again within this time."""
NEXT_ADDRESS_AFTER_SECONDS = 2.0
"""Time after which an address that is silent, such as one of IPv6 that leads nowhere, gives way to the next one of its
name. The last one has as long as the caller has."""
MOST_OF_OWNER = 4
MOST_THREADS = 256
"""Most threads; beyond that, only a company without any thread gets one."""
_MOST_WAITING = 1_000
"""Most waiting questions of one company."""
_MOST_REMEMBERED = 10_000

_SILENT = "has a name whose server does not answer"

_owner: ContextVar[str] = ContextVar("owner", default="")


class NoAddress(Exception):
    """The name has no address, or none came in time. The text ends a sentence that begins with `it`."""


@contextmanager
def looking_up_for(owner: object) -> Iterator[None]:
    """Makes questions in this context use the share of `owner`, the id of a company."""
    token = _owner.set(str(owner))
    try:
        yield
    finally:
        _owner.reset(token)


def ask_system(host: str) -> list[str]:
    """The addresses of a name, by the system's resolver, which may take long. Raises OSError if it finds none."""
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(one[4][0]) for one in found))


class _Question(NamedTuple):
    owner: str
    host: str


class _Lookup(NamedTuple):
    answer: "Future[list[str]]"
    asked_at: float


class NameLookups:
    """The questions of one process. Any thread may ask."""

    def __init__(self, ask: Callable[[str], list[str]] | None = None, *, seconds: float = LOOKUP_SECONDS) -> None:
        self._ask = ask
        self._seconds = seconds
        self._lock = threading.Lock()
        self._lookups: dict[_Question, _Lookup] = {}
        """Questions that wait or are under way."""
        self._failed: OrderedDict[_Question, float] = OrderedDict()
        """Names without an address, each with the time until which that counts."""
        self._waiting: OrderedDict[str, deque[_Question]] = OrderedDict()
        self._running: Counter[str] = Counter()

    async def addresses(self, host: str) -> list[str]:
        """The addresses, for a task of any event loop. Raises NoAddress if there is none in time."""
        if (known := literal_address(host)) is not None:
            return [str(known)]
        answer, left = self._find(host)
        try:
            return await asyncio.wait_for(asyncio.wrap_future(answer), left)
        except TimeoutError:
            raise NoAddress(_SILENT) from None

    def wait_for_addresses(self, host: str, *, seconds: float) -> list[str]:
        """The addresses, for a thread, which waits at most `seconds`. Raises NoAddress if there is none in time."""
        if (known := literal_address(host)) is not None:
            return [str(known)]
        answer, left = self._find(host)
        try:
            return answer.result(min(seconds, left))
        except TimeoutError:
            raise NoAddress(_SILENT) from None

    def _find(self, host: str) -> tuple["Future[list[str]]", float]:
        """The addresses to come, and how long to wait for them. Raises NoAddress if the last lookup found none, or too
        many questions wait."""
        question, now = _Question(_owner.get(), host), time.monotonic()
        with self._lock:
            if self._failed.get(question, now) > now:
                raise NoAddress("has a name without an address")
            lookup = self._lookups.get(question)
            if lookup is None:
                lookup = self._wait_in_line(question, now)
                self._begin_next()
        left = lookup.asked_at + self._seconds - now
        if left <= 0:
            raise NoAddress(_SILENT)
        return lookup.answer, left

    def _wait_in_line(self, question: _Question, now: float) -> _Lookup:
        line = self._waiting.setdefault(question.owner, deque())
        if len(line) >= _MOST_WAITING:
            raise NoAddress("waits behind too many other names of its company")
        line.append(question)
        lookup = self._lookups[question] = _Lookup(Future(), now)
        lookup.answer.set_running_or_notify_cancel()  # a caller who gives up takes nobody else's answer away
        return lookup

    def _begin_next(self) -> None:
        """Begins every question whose turn it is. Companies take turns."""
        for owner in list(self._waiting):
            line = self._waiting[owner]
            while line and self._may_begin(owner):
                self._begin(line.popleft())
            if not line:
                del self._waiting[owner]
            elif owner in self._running:
                self._waiting.move_to_end(owner)

    def _may_begin(self, owner: str) -> bool:
        own = self._running[owner]
        return own < MOST_OF_OWNER and (own == 0 or self._running.total() < MOST_THREADS)

    def _begin(self, question: _Question) -> None:
        lookup = self._lookups[question]
        if time.monotonic() - lookup.asked_at > self._seconds:  # whoever asked has left
            self._end(question, lookup, NoAddress("waited behind other names of its company"), is_final=False)
            return
        self._running[question.owner] += 1
        threading.Thread(target=self._run, args=(question, lookup), name="name-lookup", daemon=True).start()

    def _run(self, question: _Question, lookup: _Lookup) -> None:
        outcome: list[str] | NoAddress
        try:
            outcome = (self._ask or ask_system)(question.host)
        except (OSError, UnicodeError):  # a label that is empty or too long is no name
            outcome = NoAddress("has a name without an address")
        with self._lock:
            self._running -= Counter({question.owner: 1})
            self._end(question, lookup, outcome, is_final=True)
            self._begin_next()

    def _end(self, question: _Question, lookup: _Lookup, outcome: list[str] | NoAddress, *, is_final: bool) -> None:
        del self._lookups[question]
        if isinstance(outcome, NoAddress):
            if is_final:
                self._remember_failed(question)
            lookup.answer.set_exception(outcome)
        else:
            lookup.answer.set_result(outcome)

    def _remember_failed(self, question: _Question) -> None:
        self._failed[question] = time.monotonic() + KEPT_SECONDS
        self._failed.move_to_end(question)
        while len(self._failed) > _MOST_REMEMBERED:
            self._failed.popitem(last=False)


@cache
def lookups() -> NameLookups:
    """The one instance of this process."""
    return NameLookups()
