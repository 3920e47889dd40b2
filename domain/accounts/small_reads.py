"""Reads network streams of servers that companies name in small pieces, up to a bound.

The bytes of one read are parsed at once, while the event loop's other tasks wait: sixty-four kilobytes of one-byte
chunks, or of `100 Continue` again and again, take a tenth of a second. The bound also holds for bytes before an answer,
which no length announces."""

import ssl
from typing import Any

import httpcore

from domain.accounts.public_connections import PublicBackend

_READ_BYTES = 8 << 10


class EndlessAnswer(Exception):
    """An answer does not begin, or does not end, within the allowed bytes."""


class ReadBudget:
    """The bytes that may still be read."""

    def __init__(self) -> None:
        self._left = 0

    def allow(self, count: int) -> None:
        """Allow this many more bytes."""
        self._left = count

    def spend(self, count: int) -> None:
        """Count bytes. Raises EndlessAnswer beyond the allowed ones; the connection then ends."""
        self._left -= count
        if self._left < 0:
            raise EndlessAnswer


class SmallReads(PublicBackend):
    """Connects to judged addresses only, and bounds the bytes read."""

    def __init__(self, *rest: Any, budget: ReadBudget) -> None:
        super().__init__(*rest)
        self._budget = budget

    async def connect_tcp(self, host: str, port: int, *rest: Any, **more: Any) -> httpcore.AsyncNetworkStream:
        return _SmallReadsStream(await super().connect_tcp(host, port, *rest, **more), self._budget)


class _SmallReadsStream(httpcore.AsyncNetworkStream):
    def __init__(self, stream: httpcore.AsyncNetworkStream, budget: ReadBudget) -> None:
        self._stream = stream
        self._budget = budget

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        data = await self._stream.read(min(max_bytes, _READ_BYTES), timeout)
        self._budget.spend(len(data))
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        await self._stream.write(buffer, timeout)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.AsyncNetworkStream:
        return _SmallReadsStream(await self._stream.start_tls(ssl_context, server_hostname, timeout), self._budget)

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)
