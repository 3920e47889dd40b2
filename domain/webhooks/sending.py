"""Sends events to endpoints, signed by the rules of Standard Webhooks, and never to an address inside our own network.

Redirects are not followed, proxies of the environment are not used, and an attempt ends in time, whatever the endpoint
does."""

import asyncio
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import NamedTuple

import httpcore
import httpx
from standardwebhooks import Webhook

from domain import clock
from domain.accounts.allowed_hosts import AllowedHosts, not_on_internet
from domain.accounts.contacts import UnreadableContact
from domain.accounts.public_connections import RefusedAddress, connect_fault, tls_context
from domain.accounts.small_reads import EndlessAnswer, ReadBudget, SmallReads
from domain.ids import shown_id
from domain.telemetry import tracing
from domain.text import printable, without_secrets
from domain.webhooks.deliveries import DeliveryClaim, Outcome
from domain.webhooks.endpoints import ALLOWED_HOSTS_OF_WEBHOOKS

MOST_ANSWER_BYTES = 1 << 10
"""Bytes kept of the beginning of an answer's body."""

_MOST_HEAD_BYTES = 32 << 10
"""Most bytes before an answer's body: its head, and any number of `100 Continue` before that."""

_MOST_BODY_BYTES = 64 << 10
_MOST_PIECES = 100
"""Most bytes, and most pieces, read of an answer's body; a longer one costs its connection. Each piece costs far more
time than its bytes."""

_IDLE_SECONDS = 15.0
_USER_AGENT = b"Fuelroute-Webhooks/1"


@dataclass(slots=True)
class _Answer:
    """The part of an answer that has come. The status counts even if the body breaks off, or never ends: the receiver
    has decided, and would else get an event again that it has taken."""

    status: int | None = None
    beginning: bytes = b""


class _Connection(NamedTuple):
    http: httpcore.AsyncHTTPConnection
    budget: ReadBudget


class Sender:
    """The connections to one endpoint, for one event loop. Each carries one request at a time.

    httpcore's own pool looks at all connections for each request: with 32 of them it takes most of the time."""

    def __init__(self, *, allowed: AllowedHosts, timeout_seconds: float) -> None:
        self._timeout_seconds = timeout_seconds
        self._allowed = allowed
        self._idle: list[_Connection] = []

    async def send(self, url: str, secrets: Sequence[str], claimed: DeliveryClaim) -> Outcome:
        """Makes one attempt. It never raises, unless it is canceled."""
        with tracing.working("webhooks.send", "client", claimed.trace):
            return await self._attempt(url, secrets, claimed)

    async def _attempt(self, url: str, secrets: Sequence[str], claimed: DeliveryClaim) -> Outcome:
        at, started = clock.now(), time.perf_counter()
        answer = _Answer()
        error: str | None = None
        try:
            if not secrets:
                raise UnreadableContact
            async with asyncio.timeout(self._timeout_seconds):
                await self._post(url, headers_of(claimed, secrets, at), claimed.payload.encode(), answer)
        except TimeoutError:
            error = f"it did not answer within {self._timeout_seconds:g} s"
        except RefusedAddress:
            error = f"its address {not_on_internet(ALLOWED_HOSTS_OF_WEBHOOKS)}"
        except UnreadableContact as unreadable:
            error = str(unreadable)
        except Exception as failure:  # whatever an endpoint sends is its failure, not ours
            error = _sentence(failure)
        if answer.status is not None:
            error = None if 200 <= answer.status < 300 else f"it answered {answer.status}"
        milliseconds = (time.perf_counter() - started) * 1000
        return Outcome(claimed, at, milliseconds, answer.status, error, shown_answer(answer.beginning))

    async def _post(self, url: str, headers: list[tuple[bytes, bytes]], body: bytes, answer: _Answer) -> None:
        target, host = _target(url)
        request_headers = [(b"Host", host), *headers, (b"Content-Length", str(len(body)).encode())]
        connection = await self._connection(target.origin)
        connection.budget.allow(_MOST_HEAD_BYTES)
        try:
            async with connection.http.stream("POST", target, headers=request_headers, content=body) as response:
                answer.status = response.status
                connection.budget.allow(_MOST_BODY_BYTES)
                pieces = 0
                async for piece in response.aiter_stream():
                    answer.beginning += piece[: MOST_ANSWER_BYTES - len(answer.beginning)]
                    pieces += 1
                    if pieces > _MOST_PIECES:
                        break
        finally:
            if connection.http.is_available():
                self._idle.append(connection)
            else:
                await connection.http.aclose()

    async def _connection(self, origin: httpcore.Origin) -> _Connection:
        """The connection used last, if its server keeps it open, or a new one."""
        while self._idle:
            kept = self._idle.pop()
            if kept.http.can_handle_request(origin) and not kept.http.has_expired():
                return kept
            await kept.http.aclose()
        budget = ReadBudget()
        http = httpcore.AsyncHTTPConnection(
            origin,
            ssl_context=tls_context(),
            keepalive_expiry=_IDLE_SECONDS,
            network_backend=SmallReads(self._allowed, budget=budget),
        )
        return _Connection(http, budget)

    async def close(self) -> None:
        while self._idle:
            await self._idle.pop().http.aclose()


@lru_cache(maxsize=4096)
def _target(url: str) -> tuple[httpcore.URL, bytes]:
    """A URL that `endpoints.url_fault` has judged, read by the same parser, with its header Host."""
    parsed = httpx.URL(url)
    core = httpcore.URL(scheme=parsed.raw_scheme, host=parsed.raw_host, port=parsed.port, target=parsed.raw_path)
    return core, parsed.netloc


def headers_of(claimed: DeliveryClaim, secrets: Iterable[str], at: datetime) -> list[tuple[bytes, bytes]]:
    """The headers of Standard Webhooks, and the bound trace. Each secret signs, since a receiver needs to know only one
    of them."""
    event_id = shown_id("evt", claimed.event_id)
    signatures = " ".join(Webhook(secret).sign(event_id, at, claimed.payload) for secret in secrets)
    return [
        (b"Content-Type", b"application/json"),
        (b"User-Agent", _USER_AGENT),
        (b"webhook-id", event_id.encode()),
        (b"webhook-timestamp", str(int(at.timestamp())).encode()),
        (b"webhook-signature", signatures.encode()),
        *((name.encode(), value.encode()) for name, value in tracing.outgoing_headers().items()),
    ]


def shown_answer(answer: bytes) -> str | None:
    """The beginning of an answer, harmless to show, with `***` in place of likely secrets."""
    return without_secrets(printable(answer.decode(errors="replace"), keep="\n")) or None


def _sentence(failure: Exception) -> str:
    """Why a request got no answer, without quoting the endpoint."""
    match failure:
        case httpcore.ConnectError():
            return f"it {connect_fault(failure)}"
        case httpcore.RemoteProtocolError():
            return "it closed the connection, or did not speak HTTP"
        case EndlessAnswer():
            return f"it sent {_MOST_HEAD_BYTES >> 10} KB, and no answer in them"
        case httpcore.ReadError() | httpcore.WriteError():
            return "the connection broke"
    return f"the request failed: {type(failure).__name__}"
