"""Limits of connections before the caller is known: places, bytes, time, lines of the log.

One check each second finds the overdue connections, so that a request costs no timer."""

import asyncio
import ipaddress
import time
from collections import Counter
from functools import lru_cache
from typing import NamedTuple, Protocol

from domain.settings import Settings
from domain.telemetry.logs import get_logger
from domain.telemetry.metrics import CONNECTIONS, CONNECTIONS_REFUSED, expose

log = get_logger(__name__)

_CHECK_SECONDS = 1.0
_LOG_SECONDS = 10.0


class ProxyNetworks:
    """The proxies whose headers are believed: addresses and networks, separated by commas."""

    def __init__(self, proxies: str = "") -> None:
        named = [ipaddress.ip_network(one) for one in filter(None, map(str.strip, proxies.split(",")))]
        # A listener on :: sees IPv4 addresses in IPv6 form.
        mapped = [
            ipaddress.ip_network(f"::ffff:{one.network_address}/{96 + one.prefixlen}")
            for one in named
            if isinstance(one, ipaddress.IPv4Network)
        ]
        self._networks = (*named, *mapped)
        self._contains = lru_cache(maxsize=4096)(self._search)

    def __str__(self) -> str:
        return ",".join(map(str, self._networks))

    def __bool__(self) -> bool:
        return bool(self._networks)

    def __contains__(self, host: str) -> bool:
        return bool(self._networks) and self._contains(host)

    def _search(self, host: str) -> bool:
        try:
            address = ipaddress.ip_address(host)
        except ValueError:
            return False
        return any(address in network for network in self._networks)


class Bounds(NamedTuple):
    """The bounds of connections; 0 is no bound."""

    connections: int
    connections_per_address: int
    head_seconds: float
    answer_seconds: float
    proxies: ProxyNetworks = ProxyNetworks()
    """Connections from these proxies carry many clients, so the bound for one address does not apply to them."""

    @classmethod
    def of(cls, settings: Settings) -> "Bounds":
        return cls(
            settings.connections,
            settings.connections_per_address,
            settings.head_timeout_seconds,
            settings.answer_timeout_seconds,
            ProxyNetworks(settings.proxies),
        )


class Refusal(NamedTuple):
    """Why a connection ends, and the answer to its other end, if any."""

    reason: str
    status: int | None
    text: str = ""
    code: str = "validation_error"


FULL = Refusal("all", 503, "Too many connections; retry shortly.", "rate_limited")
FULL_FOR_ADDRESS = Refusal("address", 503, "Too many connections from this address; close some.", "rate_limited")
LARGE_HEAD = Refusal("large_head", 431, "The address and headers of a request are too large.", "content_too_large")
SLOW_HEAD = Refusal("slow_head", 408, "The request did not arrive in time.")
MALFORMED = Refusal("malformed", 400, "Invalid HTTP request received.")
SILENT = Refusal("silent", None)
PIPELINED = Refusal("pipelined", None)
UNREAD = Refusal("unread", None)


class TimedConnection(Protocol):
    """A connection that the limiter checks."""

    def check_time(self, now: float) -> None: ...

    def end_after_answer(self) -> None: ...


class ConnectionLimiter:
    """Counts the open connections of one event loop, in all and by address, and finds overdue ones each second."""

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds
        self.is_draining = False
        self._open = 0
        expose(CONNECTIONS)
        self._by_address: Counter[str] = Counter()
        self._connections: set[TimedConnection] = set()
        self._refused: Counter[str] = Counter()
        self._logged_at = 0.0
        self._is_checking = False

    def enter(self, address: str, *, is_proxy: bool = False) -> Refusal | None:
        """Takes a place. Returns the refusal if none is left."""
        bounds = self.bounds
        most = 0 if is_proxy else bounds.connections_per_address
        if bounds.connections and self._open >= bounds.connections:
            return FULL
        if most and self._by_address[address] >= most:
            return FULL_FOR_ADDRESS
        self._open += 1
        self._by_address[address] += 1
        return None

    def leave(self, address: str) -> None:
        """Gives a place back."""
        self._open -= 1
        self._by_address[address] -= 1
        if not self._by_address[address]:
            del self._by_address[address]

    def watch(self, connection: TimedConnection) -> None:
        """Checks a connection each second until it is closed."""
        self._connections.add(connection)
        if not self._is_checking:
            self._is_checking = True
            asyncio.get_running_loop().call_later(_CHECK_SECONDS, self._check_all)

    def drain(self) -> None:
        """Ends each connection with its next answer from now on; the answer says so."""
        self.is_draining = True
        for connection in self._connections:
            connection.end_after_answer()

    def lost(self, connection: TimedConnection) -> None:
        self._connections.discard(connection)

    def refused(self, reason: str) -> None:
        CONNECTIONS_REFUSED.labels(reason).inc()
        self._refused[reason] += 1

    def _check_all(self) -> None:
        now = time.monotonic()
        for connection in list(self._connections):
            connection.check_time(now)
        CONNECTIONS.set(self._open)
        if self._refused and now - self._logged_at >= _LOG_SECONDS:  # one line, however many there are
            log.warning("connections.refused", **self._refused)
            self._refused.clear()
            self._logged_at = now
        self._is_checking = bool(self._connections or self._refused)
        if self._is_checking:
            asyncio.get_running_loop().call_later(_CHECK_SECONDS, self._check_all)


def address_of(host: str) -> str:
    """The address by which connections count: an IPv4 address, or a /64 network of IPv6, which belongs to one party."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return str(address.ipv4_mapped)
        return str(ipaddress.ip_network((address, 64), strict=False))
    return str(address)
