"""uvicorn's HTTP protocol with the limits of `connection_limits`, and with one write for an answer that is complete.

No other module knows uvicorn's private names. `tests/ingress/test_uvicorn_protocol.py` lists them and fails when a new
version changes one; uvicorn is pinned below its next minor version."""

import asyncio
import http
import logging
import re
import time
from typing import Any, NoReturn
from urllib.parse import unquote

import httptools
import msgspec
from httptools.parser.errors import HttpParserInvalidMethodError, HttpParserUpgrade
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from domain.contract.shapes import FieldFault, Problem
from domain.encoding import write
from ingress.http.connection_limits import (
    LARGE_HEAD,
    MALFORMED,
    PIPELINED,
    SILENT,
    SLOW_HEAD,
    UNREAD,
    Bounds,
    ConnectionLimiter,
    Refusal,
    address_of,
)
from ingress.http.problems import PROBLEM_TYPE

MAX_HEAD_BYTES = 32 * 1024
"""Most bytes of the request line and headers together, and of trailers."""

BODY = "fuelroute.body"
"""A key that is set in a request's scope once all of its body has come in, so that reading it needs no waiting."""

_MAX_PIPELINED = 16
_MIN_READ_BYTES = 64 * 1024  # of an answer that waits, within the time that one may stay unread

_METHOD = re.compile(rb"[!#$%&'*+.^`|~\w-]{1,64}(?= )", re.ASCII)
_METHOD_OF_NO_ADDRESS = "UNLINK"
"""Stands in for a method that the parser does not know, or at which it stops."""

_BODY_UNREAD = frozenset({"GET", "HEAD", "DELETE"})
"""Methods whose bodies no endpoint reads: such a request is done as soon as its head is complete."""

# uvicorn logs each malformed request, so strangers could fill the log. They are counted instead.
_uvicorn_log = logging.getLogger("uvicorn.connections")
_uvicorn_log.setLevel(logging.ERROR)


class Exchange(RequestResponseCycle):
    """uvicorn's exchange, with one write for an answer that is complete: the head waits for the body."""

    def __init__(self, connection: HttpToolsProtocol, *, keep_alive: bool) -> None:
        super().__init__(
            scope=connection.scope,
            transport=connection.transport,
            flow=connection.flow,
            logger=connection.logger,
            access_logger=connection.access_logger,
            access_log=connection.access_log,
            default_headers=connection.server_state.default_headers,
            message_event=asyncio.Event(),
            expect_100_continue=connection.expect_100_continue and connection.scope["http_version"] != "1.0",
            keep_alive=keep_alive,
            on_response=connection.on_response_complete,
        )
        self._head: Any = None

    async def send(self, message: Any) -> None:
        head = self._head
        if head is None:
            if message["type"] == "http.response.start" and not self.response_started:
                self._head = message
                if self.waiting_for_100_continue and self.more_body:  # nobody knows whether its body comes now
                    self.keep_alive = False
            else:
                await super().send(message)
            return
        self._head = None
        whole = self._whole(head, message)
        if whole is None:
            await super().send(head)
            await super().send(message)
            return
        if self.flow.write_paused and not self.disconnected:
            await self.flow.drain()
        if not self.disconnected:
            self.response_started = self.response_complete = True
            self.transport.write(whole)
            self.message_event.set()
            self.on_response()

    def _whole(self, head: Any, message: Any) -> bytes | None:
        """Head and body in one piece; None if the body is not complete, or if uvicorn itself must handle a special case
        or an error."""
        status: int = head["status"]
        body: bytes = message.get("body", b"")
        headers = *self.default_headers, *head["headers"]
        parts = [STATUS_LINE[status]]
        length = None
        for name, value in headers:
            if name == b"content-length":
                length = value
            elif name in (b"connection", b"transfer-encoding"):
                return None
            parts += name, b": ", value, b"\r\n"
        parts.append(b"\r\n" if self.keep_alive else b"connection: close\r\n\r\n")
        is_whole = length == b"%d" % len(body) or (status in (204, 304) and not body)
        if message.get("more_body", False) or not is_whole or self.scope["method"] == "HEAD":
            return None
        text = b"".join(parts)
        ends = len(headers) + (2 if self.keep_alive else 3)  # of lines
        if b"\0" in text or not text.count(b"\n") == text.count(b"\r") == ends:
            return None
        return text + body


class BoundedConnection(HttpToolsProtocol):
    """uvicorn's connection within the bounds of a limiter of connections."""

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
        is_proxy = self.client is not None and self.client[0] in self.limiter.bounds.proxies
        refused = self.limiter.enter(address, is_proxy=is_proxy)
        if refused is None:
            self._address = address
            self._head_due = time.monotonic() + self.limiter.bounds.head_seconds
        else:
            self._refuse(refused)

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
            self._refuse(LARGE_HEAD)

    def _parse(self, data: bytes) -> None:
        try:
            self.parser.feed_data(data)
        except HttpParserUpgrade as stopped:
            self._parse_afresh(self._head_without_upgrade(), data[stopped.args[0] :])
        except HttpParserInvalidMethodError:
            method = _METHOD.match(data)
            is_first = self._unparsed_bytes == len(data) and self._method is None  # of the requests in these bytes
            if method is None or not is_first:
                self._refuse(MALFORMED)
                return
            self._method = method.group().decode("ascii")
            self._parse_afresh(_METHOD_OF_NO_ADDRESS.encode(), data[method.end() :])
        except httptools.HttpParserError:
            self._refuse(self._refusal or MALFORMED)

    def _parse_afresh(self, beginning: bytes, rest: bytes) -> None:
        """Goes on with a new parser where the last one stopped: inside a head, or right behind it."""
        self.parser = _parser(self)
        self._parse(beginning + rest)

    def _head_without_upgrade(self) -> bytes:
        """The complete head, without a request for another protocol. httptools would take such a request, and each
        CONNECT, to have no body, whatever its length says, and would take the bytes after it for the other protocol."""
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
            self._give_up(MALFORMED)  # the parser would tell only after the request has begun
        self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        if self._unparsed_bytes > MAX_HEAD_BYTES and self._head_bytes() > MAX_HEAD_BYTES:
            self._give_up(LARGE_HEAD)
        if len(self.pipeline) >= _MAX_PIPELINED:
            self._give_up(PIPELINED)
        if self.parser.should_upgrade():
            return  # the same head comes again, without that
        self._unparsed_bytes = 0
        self._head_due = self._request_due = None
        self._begin_exchange()
        self.headers = []  # what comes from now on are trailers: uvicorn would take them for headers of the request

    def _begin_exchange(self) -> None:
        """Answers the request whose head is complete, after those before it. No request switches to another
        protocol."""
        url, version = httptools.parse_url(self.url), self.parser.get_http_version()
        hosts = [name for name, _ in self.headers].count(b"host")
        if version not in ("1.1", "1.0") or hosts > 1 or (version == "1.1" and not hosts):  # RFC 9112, section 3.2
            self._give_up(MALFORMED)
        scope, path = self.scope, url.path.decode("ascii")
        scope["method"] = method = self._method or self.parser.get_method().decode("ascii")
        scope["http_version"] = version
        scope["path"] = unquote(path) if "%" in path else path
        scope["raw_path"] = url.path
        scope["query_string"] = url.query or b""
        self._method = None
        keep_alive = version == "1.1" and method != "CONNECT" and self.parser.should_keep_alive()
        if self.limiter.is_draining:
            keep_alive = False
        self.cycle = exchange = Exchange(self, keep_alive=keep_alive)
        if self._is_idle():
            self._start(exchange)
        else:
            self.flow.pause_reading()
            self.pipeline.appendleft((exchange, self.app))

    def end_after_answer(self) -> None:
        """Answers the requests that have arrived, the last one with `Connection: close`."""
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.keep_alive = False

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
            if not self.cycle.keep_alive:
                self.transport.close()

    def _head_bytes(self) -> int:
        """The number of bytes of the complete head; bytes after it may be a body, or another request."""
        return len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)

    def _give_up(self, refusal: Refusal) -> NoReturn:
        """Stops the parser, so that `_parse` refuses the request."""
        self._refusal = refusal
        raise ValueError(refusal.reason)

    # --- Time ------------------------------------------------------------------------------------------------------

    def on_response_complete(self) -> None:
        self.server_state.total_requests += 1
        done = self._running
        if done is not None and not done.keep_alive and not self._awaits_rest_of(done):
            self.transport.close()
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            self._start(self.pipeline.pop()[0])
        else:
            self._request_due = time.monotonic() + self.timeout_keep_alive
        if self.cycle.response_complete and self.cycle.more_body:  # the rest of its body is read, but not for ever
            self._head_due = time.monotonic() + self.limiter.bounds.head_seconds

    def _awaits_rest_of(self, answered: RequestResponseCycle) -> bool:
        """True if the body of an answered request still comes in. Closing its connection before would reset it, and a
        client that still sends would see that in place of the answer (RFC 9112, section 9.6)."""
        return answered.more_body and not answered.waiting_for_100_continue and self._refusal is None

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
            self._refuse(SLOW_HEAD if self._unparsed_bytes else SILENT)
        elif self._request_due is not None and now >= self._request_due:
            self.transport.close()

    def _expect_reading(self, now: float) -> None:
        self._reading_due = now + self.limiter.bounds.answer_seconds
        self._unread_bytes = self.transport.get_write_buffer_size()

    def _check_reading(self, now: float) -> None:
        """Ends the connection of a client that reads nothing; a client that reads slowly gets more time."""
        if self._unread_bytes - self.transport.get_write_buffer_size() >= _MIN_READ_BYTES:
            self._expect_reading(now)
        else:
            self.limiter.refused(UNREAD.reason)
            self.transport.abort()

    def _is_idle(self) -> bool:
        return self._running is None or self._running.response_complete

    def _refuse(self, refusal: Refusal) -> None:
        """Ends the connection. Requests that need none of the missing bytes are answered first, because they have not
        failed. The refusal is the answer to the failed one, unless its answer has begun."""
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


def bounded_connections(bounds: Bounds) -> type[BoundedConnection]:
    """The class for the connections of one process, as uvicorn wants it."""

    class Connection(BoundedConnection):
        limiter = ConnectionLimiter(bounds)

    return Connection


def _parser(connection: BoundedConnection) -> httptools.HttpRequestParser:
    """A parser that drops all bytes after a request with `Connection: close`."""
    parser = httptools.HttpRequestParser(connection)
    parser.set_dangerous_leniencies(lenient_data_after_close=True)
    return parser


def _answer(status: int, refusal: Refusal) -> bytes:
    phrase, body = http.HTTPStatus(status).phrase, document_of_refusal(status, refusal)
    head = f"HTTP/1.1 {status} {phrase}\r\nContent-Type: {PROBLEM_TYPE}\r\nContent-Length: {len(body)}\r\n"
    again = "Retry-After: 1\r\n" if refusal.code == "rate_limited" else ""
    return f"{head}{again}Connection: close\r\n\r\n".encode() + body


def document_of_refusal(status: int, refusal: Refusal) -> bytes:
    """The problem document of a refusal, in the form of all errors."""
    faults = [FieldFault(field="", message=refusal.text)] if refusal.code == "validation_error" else msgspec.UNSET
    title = http.HTTPStatus(status).phrase
    return write(Problem(title=title, status=status, code=refusal.code, detail=refusal.text, errors=faults))
