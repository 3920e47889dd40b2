"""A real HTTP server that receives webhooks: it answers, hangs or refuses as the test tells it."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from standardwebhooks import Webhook

HOST = "127.0.0.1"


class Received(NamedTuple):
    """One request, as it came."""

    headers: dict[str, str]
    """Names are in lower case."""
    body: bytes
    at: float
    """The time of `time.monotonic`."""

    @property
    def event_id(self) -> str:
        return self.headers["webhook-id"]

    @property
    def document(self) -> dict[str, Any]:
        return dict(json.loads(self.body))

    @property
    def type(self) -> str:
        return str(self.document["type"])

    def verify(self, secret: str) -> Any:
        """The verified payload. Raises WebhookVerificationError if the signature is wrong."""
        return Webhook(secret).verify(self.body, self.headers)


@dataclass
class Receiver:
    """The requests that it got, and its answer to the next one."""

    url: str = ""
    status: int = 204
    answer: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    delay_seconds: float = 0
    answering: threading.Event = field(default_factory=threading.Event)
    """Cleared, it keeps its callers waiting until it is set again."""
    judge: Callable[[Received], int] | None = None
    """Decides the status by the request."""
    floods: bool = False
    """Its answer never ends."""
    requests: list[Received] = field(default_factory=list)
    open: int = 0
    """Requests that are answered at this moment."""
    most_open: int = 0
    closing: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def types(self) -> list[str]:
        return [one.type for one in self.requests]

    def wait_for(self, count: int, seconds: float = 180) -> list[Received]:
        """The requests, once there are so many."""
        deadline = time.monotonic() + seconds
        while len(self.requests) < count:
            assert time.monotonic() < deadline, f"{len(self.requests)} of {count} requests came: {self.types()}"
            time.sleep(0.01)
        return list(self.requests)


@contextmanager
def running_receiver() -> Iterator[Receiver]:
    state = Receiver()
    state.answering.set()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            body = self.rfile.read(length)
            if len(body) < length:
                return  # the sender died in the middle
            received = Received({name.lower(): value for name, value in self.headers.items()}, body, time.monotonic())
            with state.lock:
                state.requests.append(received)
                state.open += 1
                state.most_open = max(state.most_open, state.open)
            state.closing.wait(state.delay_seconds)
            state.answering.wait(600)
            with state.lock:
                state.open -= 1
            with suppress(OSError):  # the caller has gone
                self.answer(state.judge(received) if state.judge is not None else state.status)

        do_GET = do_POST  # what a followed redirect asks

        def answer(self, status: int) -> None:
            self.send_response(status)
            for name, value in state.headers.items():
                self.send_header(name, value)
            if not state.floods and status != 204:
                self.send_header("Content-Length", str(len(state.answer)))
            self.end_headers()
            self.wfile.write(state.answer)
            while state.floods and not state.closing.is_set():
                self.wfile.write(state.answer)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 256

    with Server((HOST, 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        state.url = f"http://{HOST}:{server.server_port}/hooks"
        try:
            yield state
        finally:
            state.closing.set()
            state.answering.set()
            server.shutdown()
            thread.join()
