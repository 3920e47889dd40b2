"""Connections without manners, as strangers to the service make them."""

import http.client
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

from domain.settings import Settings
from tests.service import Service, running_service

HEAD_SECONDS = 2
KEEP_ALIVE_SECONDS = 15
ANSWER_SECONDS = 2
PER_ADDRESS = 12
GET = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"


@contextmanager
def impatient_ingress(
    settings: Settings, logs: Path, *, keep_alive_seconds: int = KEEP_ALIVE_SECONDS
) -> Iterator[Service]:
    """An ingress alone, with short time limits and few connections for each address."""
    with running_service(
        settings,
        logs,
        processes=("ingress",),
        HEAD_TIMEOUT_SECONDS=str(HEAD_SECONDS),
        KEEP_ALIVE_SECONDS=str(keep_alive_seconds),
        ANSWER_TIMEOUT_SECONDS=str(ANSWER_SECONDS),
        CONNECTIONS_PER_ADDRESS=str(PER_ADDRESS),
    ) as running_one:
        yield running_one


class Stranger:
    """A connection without manners."""

    def __init__(self, service: Service, *, receive_buffer: int | None = None) -> None:
        address = urlsplit(service.url)
        self.socket = socket.socket()
        if receive_buffer is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(180)
        self.socket.connect((address.hostname, address.port))

    def __enter__(self) -> "Stranger":
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, data: bytes) -> bool:
        """Sends the bytes. False when the connection did not take them."""
        try:
            self.socket.sendall(data)
        except OSError:
            return False
        return True

    def send_on_and_on(self, data: bytes, *, max_bytes: int, pause: float = 0) -> int:
        """Sends the same until the connection is closed, or `max_bytes`. Returns how many it took."""
        taken = 0
        while taken < max_bytes and self.send(data):
            taken += len(data)
            time.sleep(pause)
        return taken

    def answer(self) -> bytes:
        """The bytes that come until the server closes the connection, which it must."""
        parts = []
        with suppress(ConnectionResetError, BrokenPipeError):
            while part := self.socket.recv(65536):
                parts.append(part)
        return b"".join(parts)

    def status(self) -> int | None:
        """The status of one answer, after which the server closes the connection. None: it was closed without an
        answer."""
        answer = self.answer()
        return int(answer.split(b" ")[1]) if answer else None

    def one_answer(self) -> int:
        """The status of the next answer, on a connection that stays."""
        answer = http.client.HTTPResponse(self.socket)
        answer.begin()
        answer.read()
        return answer.status
