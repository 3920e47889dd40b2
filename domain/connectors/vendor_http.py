"""HTTP to vendors: judged addresses, an answer bounded in bytes and time, no redirects, no proxies of the environment.

Companies bring the addresses, so they are treated as hostile, like endpoints of webhooks.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Literal, TypeVar

import httpcore
import httpx

from domain.accounts.allowed_hosts import AllowedHosts
from domain.accounts.public_connections import RefusedAddress, connect_fault, tls_context
from domain.accounts.small_reads import EndlessAnswer, ReadBudget, SmallReads
from domain.connectors.answer_readers import MOST_VALUES, SMALL_BYTES, AnswerReaders, require_few_values
from domain.connectors.values import wait_or_none
from domain.connectors.vendor import VendorAnswer, VendorFault, VendorHurried, VendorRefusal

MOST_ANSWER_MEGABYTES = 16
"""Longest answer; more is cut off. A page of Samsara has some hundred kilobytes, the newest positions of 20,000 devices
of Traccar some ten megabytes."""

ANSWER_SECONDS = 30.0
"""Time for a vendor's answer, from the connection to the last byte."""

Result = TypeVar("Result")

_FREE_PIECES = 10_000
_LEAST_PIECE_BYTES = 64
"""Least mean size of an answer's pieces, beyond some free ones. Each piece costs far more time than its bytes, so not
all may be tiny."""

_MOST_HEAD_BYTES = 256 << 10
"""Most bytes before an answer's body: its head has few kilobytes, but any number of `100 Continue` may come before
it."""

_IDLE_SECONDS = 60.0
_USER_AGENT = b"Fuelroute-Connectors/1"
_NEVER = frozenset({"host", "content-length", "transfer-encoding", "connection", "user-agent", "accept-encoding"})


class BoundedHttp:
    """The connections of one connector, for one event loop, with one request at a time."""

    _most_values = MOST_VALUES
    _readers: AnswerReaders | None = None
    _owner = ""

    def __init__(
        self,
        *,
        allowed: AllowedHosts,
        seconds: float = ANSWER_SECONDS,
        most_bytes: int = MOST_ANSWER_MEGABYTES << 20,
        most_values: int = MOST_VALUES,
        readers: AnswerReaders | None = None,
        owner: str = "",
    ) -> None:
        """`readers` read large answers on behalf of `owner`; without them they are read in the caller's own thread."""
        self._most_values = most_values
        self._readers = readers
        self._owner = owner
        self._budget = ReadBudget()
        self._backend = SmallReads(allowed, budget=self._budget)
        self._seconds = seconds
        self._most_bytes = most_bytes
        self._idle: httpcore.AsyncHTTPConnection | None = None

    async def get(
        self, url: str, *, headers: Mapping[str, str] = {}, query: Mapping[str, str | None] = {}
    ) -> VendorAnswer:
        return await self.request("GET", url, headers=headers, query=query)

    async def request(
        self,
        method: Literal["GET", "POST"],
        url: str,
        *,
        headers: Mapping[str, str] = {},
        query: Mapping[str, str | None] = {},
        body: bytes | None = None,
    ) -> VendorAnswer:
        """The answer, if it is 2xx. Raises VendorFault for any other, or if none comes in time."""
        given = {name: value for name, value in query.items() if value is not None}
        parsed = httpx.URL(url, params=given) if given else httpx.URL(url)
        try:
            async with asyncio.timeout(self._seconds):
                answer = await self._exchange(method, parsed, headers, body)
        except TimeoutError:
            raise VendorFault(f"it did not answer within {self._seconds:g} s") from None
        except EndlessAnswer:
            raise VendorFault("its answer does not begin, or does not end") from None
        except RefusedAddress:
            raise VendorFault(
                "its address is not on the public internet",
                what_to_do="FUELROUTE_CONNECTOR_ALLOWED_HOSTS names the exceptions; give another address, or ask the"
                " operator",
            ) from None
        except httpcore.ConnectError as failure:
            raise VendorFault(
                f"it {connect_fault(failure)}", what_to_do="check the address, and that it runs"
            ) from None
        except (httpcore.ProtocolError, httpcore.NetworkError, OSError):
            raise VendorFault("it closed the connection, or did not speak HTTP") from None
        _judge(answer)
        return answer

    async def read(self, work: Callable[[bytes], Result], body: bytes) -> Result:
        """The result of reading a body, off the event loop if it is large. Raises VendorFault if it cannot be read or
        has too many values."""

        def do() -> Result:
            require_few_values(body, self._most_values)
            return work(body)

        if self._readers is None or len(body) <= SMALL_BYTES:
            return do()
        return await self._readers.read(self._owner, do)

    async def _exchange(
        self, method: str, url: httpx.URL, headers: Mapping[str, str], body: bytes | None
    ) -> VendorAnswer:
        target = httpcore.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path)
        wanted = [(b"Host", url.netloc), (b"User-Agent", _USER_AGENT)]
        wanted.append((b"Accept-Encoding", b"identity"))
        wanted += [(name.encode(), value.encode()) for name, value in headers.items() if name.lower() not in _NEVER]
        if body is not None:
            wanted.append((b"Content-Length", str(len(body)).encode()))
        connection = await self._connection(target.origin)
        self._budget.allow(_MOST_HEAD_BYTES)
        try:
            async with connection.stream(method, target, headers=wanted, content=body) as response:
                self._budget.allow(2 * self._most_bytes + _MOST_HEAD_BYTES)
                read, pieces = bytearray(), 0
                async for chunk in response.aiter_stream():
                    read += chunk
                    pieces += 1
                    self._require_bounded(len(read), pieces)
            return VendorAnswer(response.status, httpx.Headers(response.headers), bytes(read))
        finally:
            if connection.is_available():
                self._idle = connection
            else:
                await connection.aclose()

    def _require_bounded(self, length: int, pieces: int) -> None:
        """Check the size of an answer so far. Raises VendorFault if it is too long or comes in tiny pieces."""
        if length > self._most_bytes:
            raise VendorFault(
                f"its answer has more than {self._most_bytes >> 20} MB",
                what_to_do="ask the vendor for smaller pages, or for fewer vehicles",
            )
        if pieces > _FREE_PIECES and length < pieces * _LEAST_PIECE_BYTES:
            raise VendorFault("its answer comes in pieces of a few bytes each")

    async def _connection(self, origin: httpcore.Origin) -> httpcore.AsyncHTTPConnection:
        connection, self._idle = self._idle, None
        if connection is not None:
            if connection.can_handle_request(origin) and not connection.has_expired():
                return connection
            await connection.aclose()
        return httpcore.AsyncHTTPConnection(
            origin, ssl_context=tls_context(), keepalive_expiry=_IDLE_SECONDS, network_backend=self._backend
        )

    async def close(self) -> None:
        if self._idle is not None:
            await self._idle.aclose()


def _judge(answer: VendorAnswer) -> None:
    """Check the status. Raises a VendorFault, with a sentence for people, unless it is 2xx and not compressed."""
    status = answer.status
    if 200 <= status < 300:
        if answer.headers.get("content-encoding", "identity") != "identity":
            raise VendorFault("its answer is compressed, though it was asked for a plain one", status=status)
        return
    if 300 <= status < 400:
        raise VendorFault(
            f"it redirects ({status}), which is not followed",
            what_to_do="give the address that it redirects to, if it is the vendor's own",
            status=status,
        )
    if status in (401, 403):
        raise VendorRefusal(f"it does not take the credentials ({status})", status=status)
    wait_seconds = wait_or_none(answer.headers.get("retry-after"))
    if status == 429:
        raise VendorHurried("it asks to be asked less often (429)", wait_seconds)
    if status == 503 and wait_seconds is not None:
        raise VendorHurried("it asks to be asked later (503)", wait_seconds, status=status)
    if status == 404:
        raise VendorFault("it answered 404", what_to_do="check the address", status=status)
    raise VendorFault(f"it answered {status}", status=status)
