"""One connection to our HTTP protocol, and one to uvicorn's own, over real sockets, with the same application behind
both."""

import asyncio
import hashlib
import json
import re
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import NamedTuple

import uvicorn
import uvloop
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from ingress.http.connection_limits import Bounds
from ingress.http.uvicorn_protocol import BODY, bounded_connections

NO_BODY_READ = ("GET", "HEAD", "DELETE")
"""Methods whose bodies no endpoint of ours reads."""

_QUIET_ROUNDS = 5
_MOST_ROUNDS = 2_000


class Answer(NamedTuple):
    """One answer. Header fields are sorted: their order means nothing."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes


class Outcome(NamedTuple):
    """The end of a connection as its client saw it. `seen` are the requests that reached the application."""

    answers: tuple[Answer, ...]
    closed: bool
    seen: tuple[str, ...]
    faults: tuple[str, ...] = ()
    """Anything that must never happen, whatever was sent."""

    @property
    def statuses(self) -> list[int]:
        return [answer.status for answer in self.answers]


class _Application:
    """Answers with what it saw of the request. The path chooses how it behaves."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.faults: list[str] = []
        self.steps = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.steps += 1
        method, path = scope["method"], scope["path"]
        body = b""
        if method not in NO_BODY_READ and not path.startswith("/deaf"):
            whole = await self._read(scope, receive)
            if whole is None:
                return
            body = whole
        if path.startswith("/late"):
            for _ in range(3):
                await asyncio.sleep(0)
                self.steps += 1
        said = self._describe(scope, body)
        self.seen.append(f"{method} {scope['raw_path'].decode('latin-1')} {len(body)}")
        await self._answer(path, method, said, send)

    async def _read(self, scope: Scope, receive: Receive) -> bytes | None:
        known: bytes | None = scope.get(BODY)
        body, more = b"", True
        while more:
            message = await receive()
            self.steps += 1
            if message["type"] == "http.disconnect":
                return None
            body, more = body + message["body"], message["more_body"]
        if known is not None and known != body:
            self.faults.append(f"the scope has the body {known!r}, receiving it gives {body!r}")
        return body

    def _describe(self, scope: Scope, body: bytes) -> bytes:
        headers = [[name.decode("latin-1"), value.decode("latin-1")] for name, value in scope["headers"]]
        said = {
            "method": scope["method"],
            "path": scope["path"],
            "raw_path": scope["raw_path"].decode("latin-1"),
            "query": scope["query_string"].decode("latin-1"),
            "version": scope["http_version"],
            "headers": headers,
            "body": [len(body), hashlib.sha256(body).hexdigest()[:16]],
        }
        return json.dumps(said).encode()

    async def _answer(self, path: str, method: str, said: bytes, send: Send) -> None:
        length, parts, status = [(b"content-length", b"%d" % len(said))], [said], 200
        if path.startswith("/none"):
            length, parts, status = [], [b""], 204
        elif path.startswith("/parts"):
            length, parts = [], [said[:10], said[10:]]
        elif path.startswith("/broken") and method != "HEAD":
            raise RuntimeError("the application fails")
        headers = [*length, (b"x-method", method.encode())]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        for number, part in enumerate(parts, 1):
            self.steps += 1
            await send({"type": "http.response.body", "body": part, "more_body": number < len(parts)})


class _Server:
    """One kind of connection, with an application of its own."""

    def __init__(self, protocol: type[HttpToolsProtocol]) -> None:
        self.app = _Application()
        config = uvicorn.Config(
            self.app, log_config=None, access_log=False, lifespan="off", ws="none", interface="asgi3"
        )
        config.load()
        self._state = ServerState()
        self._make = lambda: protocol(config, self._state, {})

    async def serve(self, segments: Sequence[bytes], *, half_close: bool) -> Outcome:
        """The outcome of some bytes: each segment is sent after all that the one before it caused."""
        self.app.seen, self.app.faults = [], []
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        transport, _ = await asyncio.get_running_loop().connect_accepted_socket(self._make, theirs)
        client = _Client(ours, self.app)
        try:
            for segment in segments:
                if not await client.send(segment):
                    break
            if half_close and not client.closed:
                with suppress(OSError):
                    ours.shutdown(socket.SHUT_WR)
                await client.quiet()
        finally:
            transport.abort()
            ours.close()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            for task in list(self._state.tasks):
                task.cancel()
        answers, fault = read_answers(client.received)
        faults = (*self.app.faults, *client.faults, *([fault] if fault else []))
        return Outcome(answers, client.closed, tuple(self.app.seen), faults)


class _Client:
    """The other end of a connection."""

    def __init__(self, end: socket.socket, app: _Application) -> None:
        self._socket, self._app = end, app
        self.received = b""
        self.closed = False
        self.faults: list[str] = []

    async def send(self, data: bytes) -> bool:
        """Send it and wait until nothing happens any more. False when the connection is closed."""
        while data and not self.closed:
            try:
                data = data[self._socket.send(data) :]
            except BlockingIOError:
                if not await self.quiet():
                    return not self.closed  # the server reads no more for now
            except OSError:
                break
        await self.quiet()
        return not self.closed

    async def quiet(self) -> bool:
        """Wait until nothing happens any more. True when something happened before."""
        still, steps, happened = 0, self._app.steps, False
        for _ in range(_MOST_ROUNDS):
            await asyncio.sleep(0)
            if self._receive() or self._app.steps != steps:
                still, steps, happened = 0, self._app.steps, True
            else:
                still += 1
            if still >= _QUIET_ROUNDS:
                return happened
        self.faults.append("the connection does not come to rest")
        return happened

    def _receive(self) -> bool:
        if self.closed:
            return False
        try:
            data = self._socket.recv(1 << 20)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        self.closed = not data
        self.received += data
        return True


_HEAD = re.compile(rb"HTTP/1\.1 (\d{3}) [^\r\n]*\r\n((?:[^\r\n]+\r\n)*)\r\n")


def read_answers(data: bytes) -> tuple[tuple[Answer, ...], str]:
    """The answers in some bytes, and a fault where they are no whole answers."""
    answers: list[Answer] = []
    while data:
        head = _HEAD.match(data)
        if head is None:
            return tuple(answers), f"no whole head of an answer: {data[:200]!r}"
        fields = [line.partition(b": ") for line in head[2].split(b"\r\n") if line]
        headers = {name.decode().lower(): value.decode("latin-1") for name, _, value in fields}
        status, rest = int(head[1]), data[head.end() :]
        if len(fields) != len(headers):
            return tuple(answers), f"a header comes twice: {head[2]!r}"
        is_head = headers.get("x-method") == "HEAD" or rest.startswith(b"HTTP/1.1 ")
        if status in (100, 204, 304) or is_head:
            body, data = b"", rest
        elif "content-length" in headers:
            length = int(headers["content-length"])
            body, data = rest[:length], rest[length:]
            if len(body) < length:
                return tuple(answers), f"an answer breaks off: {rest[:200]!r}"
        else:
            found = _unchunked(rest)
            if found is None:
                return tuple(answers), f"an answer breaks off: {rest[:200]!r}"
            body, data = found
        answers.append(Answer(status, tuple(sorted(headers.items())), body))
    return tuple(answers), ""


def _unchunked(data: bytes) -> tuple[bytes, bytes] | None:
    body = b""
    while True:
        size, end, data = data.partition(b"\r\n")
        if not end:
            return None
        length = int(size, 16)
        if len(data) < length + 2:
            return None
        body, data = body + data[:length], data[length + 2 :]
        if not length:
            return body, data


class Both:
    """Both servers, in one event loop."""

    def __init__(self, ours: type[HttpToolsProtocol]) -> None:
        self._runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
        self._ours, self._theirs = self._runner.run(self._servers(ours, HttpToolsProtocol))

    async def _servers(self, *protocols: type[HttpToolsProtocol]) -> list[_Server]:
        return [_Server(protocol) for protocol in protocols]

    def serve(self, segments: Sequence[bytes], *, half_close: bool = False) -> tuple[Outcome, Outcome]:
        """The outcome of our connection, and of uvicorn's."""

        async def serve_both() -> tuple[Outcome, Outcome]:
            return (
                await self._ours.serve(segments, half_close=half_close),
                await self._theirs.serve(segments, half_close=half_close),
            )

        return self._runner.run(serve_both())

    def theirs(self, segments: Sequence[bytes], *, half_close: bool = False) -> Outcome:
        """The outcome of uvicorn's connection."""
        return self._runner.run(self._theirs.serve(segments, half_close=half_close))

    def close(self) -> None:
        self._runner.close()


def our_connections() -> type[HttpToolsProtocol]:
    """The connections of the ingress, without limits of their number and with much time."""
    return bounded_connections(Bounds(0, 0, head_seconds=60, answer_seconds=60))


@contextmanager
def both_servers(ours: type[HttpToolsProtocol] | None = None) -> Iterator[Both]:
    """Both servers, until the end of the block. `ours`: other connections than the ingress has."""
    both = Both(ours or our_connections())
    try:
        yield both
    finally:
        both.close()
