"""A real HTTP server that takes what Apprise's `json://` posts: obedient, silent, trickling or refusing, as told."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

HOST = "127.0.0.1"


@dataclass
class Gateway:
    """The requests that it was sent, and its answer to the next one.

    `answering`: cleared, it keeps its callers waiting until it is set again. `trickles`: a byte of its answer at a
    time, for ever. `hangs_up`: it takes the message, and closes the connection without an answer.
    """

    url: str = ""
    status: int = 200
    delay_seconds: float = 0
    headers: dict[str, str] = field(default_factory=dict)
    trickles: bool = False
    hangs_up: bool = False
    body: bytes = b""
    """The body of its answer, again and again where it `floods`."""
    floods: bool = False
    answering: threading.Event = field(default_factory=threading.Event)
    received: list[dict[str, Any]] = field(default_factory=list)
    received_at: list[float] = field(default_factory=list)
    """The times of `time.monotonic` at which they came."""
    headers_received: list[dict[str, str]] = field(default_factory=list)
    closing: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def titles(self) -> list[str]:
        return [message["title"] for message in self.received]


@contextmanager
def running_gateway() -> Iterator[Gateway]:
    state = Gateway()
    state.answering.set()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            body = self.rfile.read(length)
            if len(body) < length:  # its caller was killed meanwhile
                return
            with state.lock:
                state.received_at.append(time.monotonic())
                state.received.append(json.loads(body or b"{}"))
            state.headers_received.append(dict(self.headers))
            state.closing.wait(state.delay_seconds)
            state.answering.wait(600)
            if state.hangs_up:
                self.close_connection = True
                return
            with suppress(OSError):  # the caller has gone
                self.answer()

        def answer(self) -> None:
            self.send_response(state.status)
            for name, value in state.headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(state.body)
            while state.floods and not state.closing.is_set():
                self.wfile.write(state.body)
            while state.trickles and not state.closing.wait(0.05):
                self.wfile.write(b".")
                self.wfile.flush()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with ThreadingHTTPServer((HOST, 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        state.url = f"json://driver:secret@{HOST}:{server.server_port}/"
        try:
            yield state
        finally:
            state.closing.set()
            state.answering.set()
            server.shutdown()
            thread.join()
