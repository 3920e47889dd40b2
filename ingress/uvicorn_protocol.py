"""What a connection may cost before anybody knows who is at its other end: bytes, time, places, lines of the log.

uvicorn's protocol bounds none of these by itself, but for the time between two requests. One look around each second
finds the connections that are overdue, so that a request costs no timer.
"""

import asyncio
import http
import ipaddress
import logging
import re
import time
from collections import Counter
from typing import Any, NamedTuple, NoReturn
from urllib.parse import unquote

import httptools
import msgspec
from httptools.parser.errors import HttpParserInvalidMethodError, HttpParserUpgrade
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from domain.contract.shapes import FieldFault, Problem
from domain.encoding import write
from domain.observability import CONNECTIONS, CONNECTIONS_REFUSED, get_logger
from domain.settings import Settings
from ingress.exchange import Exchange
from ingress.problems import PROBLEM_TYPE

log = get_logger(__name__)

MAX_HEAD_BYTES = 32 * 1024
"""Of the request line and headers together; of trailers as well."""

BODY = "fuelroute.body"
"""Set in a request's scope once all of its body has come in: reading it needs no waiting."""

_MAX_PIPELINED = 16
_MIN_READ_BYTES = 64 * 1024  # of an answer that waits, within the time that one may stay unread
_LOOK_SECONDS = 1.0
_LOG_SECONDS = 10.0

_METHOD = re.compile(rb"[!#$%&'*+.^`|~\w-]{1,64}(?= )", re.ASCII)
_METHOD_OF_NO_ADDRESS = "UNLINK"
"""The parser gets it in place of a method that it does not know, or at which it stops."""

_BODY_UNREAD = frozenset({"GET", "HEAD", "DELETE"})
"""Methods whose bodies no endpoint reads: such a request is done as soon as its head is complete."""

# uvicorn warns of each malformed request: a line for each would let strangers fill the log; they are counted instead
_uvicorn_log = logging.getLogger("uvicorn.connections")
_uvicorn_log.setLevel(logging.ERROR)


class Bounds(NamedTuple):
    """What connections may be; 0 is no bound."""

    connections: int
    connections_per_address: int
    head_seconds: float
    answer_seconds: float

    @classmethod
    def of(cls, settings: Settings) -> "Bounds":
        return cls(
            settings.connections,
            settings.connections_per_address,
            settings.head_timeout_seconds,
            settings.answer_timeout_seconds,
        )


class Refusal(NamedTuple):
    """Why a connection is ended, and what its other end is told, if anything."""

    reason: str
    status: int | None
    text: str = ""
    code: str = "validation_error"


_FULL = Refusal("all", 503, "Too many connections; retry shortly.", "rate_limited")
_FULL_FOR_ADDRESS = Refusal("address", 503, "Too many connections from this address; close some.", "rate_limited")
_LARGE_HEAD = Refusal("large_head", 431, "The address and headers of a request are too large.", "content_too_large")
_SLOW_HEAD = Refusal("slow_head", 408, "The request did not arrive in time.")
_MALFORMED = Refusal("malformed", 400, "Invalid HTTP request received.")
_SILENT = Refusal("silent", None)
_PIPELINED = Refusal("pipelined", None)
_UNREAD = Refusal("unread", None)


class ConnectionLimiter:
    """Counts the open connections of this process, in all and by address, and checks each second which are overdue. Of
    one event loop."""

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds
        self._open = 0
        self._by_address: Counter[str] = Counter()
        self._connections: set[BoundedConnection] = set()
        self._refused: Counter[str] = Counter()
        self._told_at = 0.0
        self._looking = False

    def enter(self, address: str) -> str | None:
        """Takes a place. A reason when there is none left."""
        bounds = self.bounds
        if bounds.connections and self._open >= bounds.connections:
            return _FULL.reason
        if bounds.connections_per_address and self._by_address[address] >= bounds.connections_per_address:
            return _FULL_FOR_ADDRESS.reason
        self._open += 1
        self._by_address[address] += 1
        return None

    def leave(self, address: str) -> None:
        """Gives a place back."""
        self._open -= 1
        self._by_address[address] -= 1
        if not self._by_address[address]:
            del self._by_address[address]

    def watch(self, connection: "BoundedConnection") -> None:
        """Looks after a connection until it is lost."""
        self._connections.add(connection)
        if not self._looking:
            self._looking = True
            asyncio.get_running_loop().call_later(_LOOK_SECONDS, self._look)

    def lost(self, connection: "BoundedConnection") -> None:
        self._connections.discard(connection)

    def refused(self, reason: str) -> None:
        CONNECTIONS_REFUSED.labels(reason).inc()
        self._refused[reason] += 1

    def _look(self) -> None:
        now = time.monotonic()
        for connection in list(self._connections):
            connection.check_time(now)
        CONNECTIONS.set(self._open)
        if self._refused and now - self._told_at >= _LOG_SECONDS:  # one line, however many there are
            log.warning("connections.refused", **self._refused)
            self._refused.clear()
            self._told_at = now
        self._looking = bool(self._connections or self._refused)
        if self._looking:
            asyncio.get_running_loop().call_later(_LOOK_SECONDS, self._look)


class BoundedConnection(HttpToolsProtocol):
    """uvicorn's connection with the bounds of a limiter of connections."""

    limiter: ConnectionLimiter

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.logger = _uvicorn_log
        self._address: str | None = None  # where it has a place
        self._unparsed_bytes = 0  # since the parser last gave us something whole
        self._head_due: float | None = None
        self._request_due: float | None = None  # between two requests
        self._reading_due: float | None = None
        self._unread_bytes = 0
        self._running: RequestResponseCycle | None = None  # the one whose turn it is to be answered, or that was last
        self._refusal: Refusal | None = None  # why no more is read
        self._method: str | None = None  # as it was sent, where the parser gets another

    # --- Places ----------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        super().connection_made(transport)
        self.limiter.watch(self)
        address = address_of(self.client[0]) if self.client else ""
        refused = self.limiter.enter(address)
        if refused is None:
            self._address = address
            self._head_due = time.monotonic() + self.limiter.bounds.head_seconds
        else:
            self._refuse(_FULL if refused == _FULL.reason else _FULL_FOR_ADDRESS)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)  # tells the newest exchange only
        if self._running is not None and not self._running.response_complete:
            self._running.disconnected = True
            self._running.message_event.set()
        self.limiter.lost(self)
        if self._address is not None:
            self.limiter.leave(self._address)
            self._address = None

    # --- Bytes -----------------------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        if self._refusal is not None:
            return
        self._request_due = None
        if self._head_due is None and self._is_idle():
            self._head_due = time.monotonic() + self.limiter.bounds.head_seconds
        self._unparsed_bytes += len(data)
        self._parse(data)
        if self._unparsed_bytes > MAX_HEAD_BYTES and self._refusal is None:
            self._refuse(_LARGE_HEAD)

    def _parse(self, data: bytes) -> None:
        try:
            self.parser.feed_data(data)
        except HttpParserUpgrade as stopped:
            self._parse_afresh(self._head_without_upgrade(), data[stopped.args[0] :])
        except HttpParserInvalidMethodError:
            method = _METHOD.match(data)
            is_first = self._unparsed_bytes == len(data) and self._method is None  # of the requests in these bytes
            if method is None or not is_first:
                self._refuse(_MALFORMED)
                return
            self._method = method.group().decode("ascii")
            self._parse_afresh(_METHOD_OF_NO_ADDRESS.encode(), data[method.end() :])
        except httptools.HttpParserError:
            self._refuse(self._refusal or _MALFORMED)

    def _parse_afresh(self, beginning: bytes, rest: bytes) -> None:
        """Goes on with a new parser where the last one stopped, which is inside a head or right behind it."""
        self.parser = _parser(self)
        self._parse(beginning + rest)

    def _head_without_upgrade(self) -> bytes:
        """The head that is complete now. httptools takes a request that asks for another protocol, and each CONNECT,
        for one without a body, whatever its length says, and what follows for that other protocol."""
        method = self.parser.get_method().decode("ascii")
        if method == "CONNECT":
            self._method, method = method, _METHOD_OF_NO_ADDRESS
        lines = [f"{method} ".encode() + self.url + f" HTTP/{self.parser.get_http_version()}".encode()]
        lines += [name + b": " + value for name, value in self.headers if name != b"upgrade"]
        return b"\r\n".join((*lines, b"", b""))

    def on_header(self, name: bytes, value: bytes) -> None:
        name = name.lower()
        if name == b"expect" and value.lower() == b"100-continue":
            self.expect_100_continue = True
        elif name == b"transfer-encoding" and value.lower() != b"chunked":
            self._give_up(_MALFORMED)  # the parser would tell only after the request has begun
        self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        if self._unparsed_bytes > MAX_HEAD_BYTES and self._head_bytes() > MAX_HEAD_BYTES:
            self._give_up(_LARGE_HEAD)
        if len(self.pipeline) >= _MAX_PIPELINED:
            self._give_up(_PIPELINED)
        if self.parser.should_upgrade():
            return  # the same head comes again, without that
        self._unparsed_bytes = 0
        self._head_due = self._request_due = None
        self._begin_exchange()
        self.headers = []  # what comes from now on are trailers: uvicorn would take them for headers of the request

    def _begin_exchange(self) -> None:
        """Answers the request whose head is complete, after those before it. No request becomes anything but HTTP."""
        url, version = httptools.parse_url(self.url), self.parser.get_http_version()
        if version not in ("1.1", "1.0"):
            self._give_up(_MALFORMED)
        scope, path = self.scope, url.path.decode("ascii")
        scope["method"] = method = self._method or self.parser.get_method().decode("ascii")
        scope["http_version"] = version
        scope["path"] = unquote(path) if "%" in path else path
        scope["raw_path"] = url.path
        scope["query_string"] = url.query or b""
        self._method = None
        keep_alive = version == "1.1" and method != "CONNECT" and self.parser.should_keep_alive()
        self.cycle = exchange = Exchange(self, keep_alive=keep_alive)
        if self._is_idle():
            self._start(exchange)
        else:
            self.flow.pause_reading()
            self.pipeline.appendleft((exchange, self.app))

    def _start(self, exchange: RequestResponseCycle) -> None:
        self._running = exchange
        self._start_asgi_task(exchange, self.app)

    def on_body(self, body: bytes) -> None:
        self._unparsed_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        if self.parser.should_upgrade():
            return
        self._unparsed_bytes = 0
        self.scope[BODY] = bytes(self.cycle.body)  # type: ignore[literal-required]  # a key of our own
        self.cycle.more_body = False
        self.cycle.message_event.set()
        if self.cycle.response_complete:  # its answer did not wait for its body
            self._head_due = None
            self._request_due = time.monotonic() + self.timeout_keep_alive

    def _head_bytes(self) -> int:
        """Of the head that is complete now; what came with it may be a body, or another request."""
        return len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)

    def _give_up(self, refusal: Refusal) -> NoReturn:
        """Makes the parser stop, whereupon `_parse` refuses."""
        self._refusal = refusal
        raise ValueError(refusal.reason)

    # --- Time ------------------------------------------------------------------------------------------------------

    def on_response_complete(self) -> None:
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            self._start(self.pipeline.pop()[0])
        else:
            self._request_due = time.monotonic() + self.timeout_keep_alive
        if self.cycle.response_complete and self.cycle.more_body:  # the rest of its body is read, but not for ever
            self._head_due = time.monotonic() + self.limiter.bounds.head_seconds

    def pause_writing(self) -> None:
        super().pause_writing()
        self._expect_reading(time.monotonic())

    def resume_writing(self) -> None:
        super().resume_writing()
        self._reading_due = None

    def check_time(self, now: float) -> None:
        """Ends the connection when its other end is overdue."""
        if self._reading_due is not None:
            if now >= self._reading_due:
                self._check_reading(now)
        elif self.transport.is_closing():  # it is not lost yet, so something written waits to be read
            self._expect_reading(now)
        elif self._head_due is not None and now >= self._head_due:
            self._refuse(_SLOW_HEAD if self._unparsed_bytes else _SILENT)
        elif self._request_due is not None and now >= self._request_due:
            self.transport.close()

    def _expect_reading(self, now: float) -> None:
        self._reading_due = now + self.limiter.bounds.answer_seconds
        self._unread_bytes = self.transport.get_write_buffer_size()

    def _check_reading(self, now: float) -> None:
        """A client that reads slowly gets more time, one that does not read gets none."""
        if self._unread_bytes - self.transport.get_write_buffer_size() >= _MIN_READ_BYTES:
            self._expect_reading(now)
        else:
            self.limiter.refused(_UNREAD.reason)
            self.transport.abort()

    def _is_idle(self) -> bool:
        return self._running is None or self._running.response_complete

    def _refuse(self, refusal: Refusal) -> None:
        """Ends the connection. Requests that are done without what is missing are answered first: who is told that
        they failed would be told wrong. Else the refusal is the answer, where none has begun."""
        self.limiter.refused(refusal.reason)
        self._refusal = refusal
        self._head_due = None
        partial = self.cycle if self.cycle is not None and self.cycle.more_body else None
        undone = partial if partial is not None and partial.scope["method"] not in _BODY_UNREAD else None
        if self.pipeline and self.pipeline[0][0] is undone:
            self.pipeline.popleft()
        last = self.pipeline[0][0] if self.pipeline else self._running
        if last is not None and last is not undone and not last.response_complete:
            last.keep_alive = False
            return
        if refusal.status is not None and (partial is None or not partial.response_started):
            self.transport.write(_answer(refusal.status, refusal))
        self.transport.close()


def bounded_connections(bounds: Bounds) -> type[HttpToolsProtocol]:
    """The connections of one process, as uvicorn wants them: a class."""

    class Connection(BoundedConnection):
        limiter = ConnectionLimiter(bounds)

    return Connection


def address_of(host: str) -> str:
    """Whose connection it is: an address of IPv4, or a /64 network of IPv6, of which one party has all addresses."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return str(address.ipv4_mapped)
        return str(ipaddress.ip_network((address, 64), strict=False))
    return str(address)


def _parser(connection: BoundedConnection) -> httptools.HttpRequestParser:
    """Drops what comes behind a request with `Connection: close`."""
    parser = httptools.HttpRequestParser(connection)
    parser.set_dangerous_leniencies(lenient_data_after_close=True)
    return parser


def _answer(status: int, refusal: Refusal) -> bytes:
    """A problem document, as every error is."""
    phrase = http.HTTPStatus(status).phrase
    faults = [FieldFault(field="", message=refusal.text)] if refusal.code == "validation_error" else msgspec.UNSET
    body = write(Problem(title=phrase, status=status, code=refusal.code, detail=refusal.text, errors=faults))
    head = f"HTTP/1.1 {status} {phrase}\r\nContent-Type: {PROBLEM_TYPE}\r\nContent-Length: {len(body)}\r\n"
    return f"{head}Connection: close\r\n\r\n".encode() + body
