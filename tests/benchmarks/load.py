"""The load generator: keep-alive connections that send prebuilt requests and time the answers.

It runs in the benchmark's own process, over uvloop, and understands no more of HTTP than it must, so that it costs the
servers beside it little. It speaks to this machine only, and stops by itself.
"""

import asyncio
from collections import Counter
from collections.abc import Coroutine, Iterator, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, TypeVar, cast

import numpy as np
import uvloop

from domain.errors import FuelrouteError

Address = tuple[str, int]
Result = TypeVar("Result")

CONNECTIONS = 128
WARM_UP_SECONDS = 0.5
_PATIENCE_SECONDS = 60.0
"""The longest time that answers may take after the last request was sent."""


class LoadFailed(FuelrouteError):
    """The servers did not do what is measured, so there is no figure."""


@dataclass(slots=True)
class Load:
    """The requests that were sent, and their answers."""

    expect: int
    seconds: float
    counted: int = 0
    """Expected answers after the warm-up and before the end; else the first one, until which it lasted."""
    milliseconds: list[float] = field(default_factory=list)
    """Latency of each expected answer after the warm-up."""
    answers: Counter[int] = field(default_factory=Counter)
    """Every answer, by status."""

    @property
    def rate(self) -> float:
        """Expected answers per second."""
        return self.counted / self.seconds

    def percentile(self, percent: float) -> float:
        """A percentile of the latency, in milliseconds. Raises LoadFailed when nothing was counted."""
        if not self.milliseconds:
            raise LoadFailed(f"no answer {self.expect} in {self.seconds:g} s: measure for longer with --seconds")
        return float(np.percentile(self.milliseconds, percent))


def drive(load: Coroutine[Any, Any, Result]) -> Result:
    """Runs a load to its end."""
    return uvloop.run(load)


async def send(
    addresses: Sequence[Address],
    requests: Iterator[bytes],
    *,
    expect: int,
    seconds: float,
    connections: int = CONNECTIONS,
    warm_up: float | None = None,
    per_second: float | None = None,
) -> Load:
    """Sends requests over connections spread over the addresses, each its next one as soon as it has its answer; or
    `per_second` of all, timed from when each was due. Ends early when there are no more requests. A load warms up no
    longer than it lasts.

    Raises LoadFailed: an answer was an error, a connection broke, an answer took for ever.
    """
    if warm_up is None:
        warm_up = min(WARM_UP_SECONDS, seconds)
    loop = asyncio.get_running_loop()
    job = _Job(requests, Load(expect, seconds), per_second)
    clients = [_Client(job) for _ in range(connections)]
    for number, client in enumerate(clients):
        await loop.create_connection(lambda client=client: client, *addresses[number % len(addresses)])  # type: ignore[misc]
    job.counted_from = job.started = perf_counter()
    job.counted_from += warm_up
    job.ends = job.counted_from + seconds
    for client in clients:
        client.send_next()
    try:
        async with asyncio.timeout(warm_up + seconds + _PATIENCE_SECONDS):
            await asyncio.gather(*(client.closed for client in clients))
    except TimeoutError:
        raise LoadFailed(f"an answer took more than {_PATIENCE_SECONDS:g} s") from None
    finally:
        for client in clients:
            client.abort()
    return job.load


@dataclass(slots=True)
class _Job:
    """The state that the connections of a load share."""

    requests: Iterator[bytes]
    load: Load
    per_second: float | None
    started: float = 0.0
    counted_from: float = 0.0
    ends: float = 0.0
    sent: int = 0

    def next_due(self, now: float) -> float:
        if self.per_second is None:
            return now
        due = self.started + self.sent / self.per_second
        self.sent += 1
        return due

    def count(self, status: int, since: float, now: float) -> None:
        self.load.answers[status] += 1
        if status == self.load.expect and now >= self.counted_from:
            self.load.milliseconds.append((now - since) * 1000)
            if not self.load.counted:  # on a busy machine the first one may come after the end
                self.load.seconds = max(self.load.seconds, now - self.counted_from)
            self.load.counted += now <= self.ends or not self.load.counted


class _Client(asyncio.Protocol):
    """One connection."""

    def __init__(self, job: _Job) -> None:
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._job = job
        self._received = b""
        self._since = 0.0
        self._waiting = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is one without saying so

    def send_next(self) -> None:
        now = perf_counter()
        due = self._job.next_due(now)
        if due >= self._job.ends:
            self._transport.close()
        elif due > now:
            asyncio.get_running_loop().call_later(due - now, self._send, due)
        else:
            self._send(due)

    def _send(self, since: float) -> None:
        request = next(self._job.requests, None)
        if request is None:
            self._transport.close()
            return
        self._since, self._waiting = since, True
        self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        if self._received:
            data = self._received + data
        end_of_head = data.find(b"\r\n\r\n")
        length = _content_length(data, end_of_head)
        if end_of_head < 0 or len(data) < end_of_head + 4 + length:
            self._received = data
            return
        self._received, self._waiting = b"", False
        status = int(data[9:12])
        self._job.count(status, self._since, perf_counter())
        if status >= 400:
            self._fail(f"an answer was {status}: {data[end_of_head + 4 :][:300].decode(errors='replace')}")
            return
        self.send_next()

    def connection_lost(self, error: Exception | None) -> None:
        if self._waiting:
            self._fail(f"a connection broke before its answer came: {error or 'closed by the server'}")
        elif not self.closed.done():
            self.closed.set_result(None)

    def abort(self) -> None:
        self._waiting = False
        self._transport.abort()

    def _fail(self, sentence: str) -> None:
        if not self.closed.done():
            self.closed.set_exception(LoadFailed(sentence))


def _content_length(data: bytes, end_of_head: int) -> int:
    """0 where there is none, as with 204 and 304."""
    start = data.find(b"content-length: ", 0, end_of_head)
    return int(data[start + 16 : data.index(b"\r", start)]) if start >= 0 and end_of_head >= 0 else 0
