"""Bodies in flight are bounded: who comes later waits in its socket, and one that trickles in does not hold it up."""

import json
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, TimeoutError
from datetime import UTC, datetime
from urllib.parse import urlsplit

import pytest

from domain.settings import Settings
from tests.factories import route_body
from tests.service import Client, Service, running_service

SECONDS = 3


@pytest.fixture(scope="module")
def narrow(settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """An ingress with room for one body."""
    with running_service(
        settings,
        tmp_path_factory.mktemp("logs"),
        processes=("ingress", "imports"),
        BODIES_IN_FLIGHT="1",
        BODY_TIMEOUT_SECONDS=str(SECONDS),
    ) as service:
        yield service


@pytest.fixture
def client(narrow: Service) -> Iterator[Client]:
    with narrow.new_tenant() as client:
        yield client


class HalfSent:
    """A push of which only half of the body has been sent."""

    def __init__(self, client: Client, key: str | None = None) -> None:
        address = urlsplit(str(client.base_url))
        body = json.dumps(route_body(datetime.now(UTC))).encode()
        self._rest = body[len(body) // 2 :]
        self.socket = socket.create_connection((address.hostname, address.port), timeout=3 * SECONDS)
        head = f"POST /v1/routes HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key or client.key}\r\n"
        self.socket.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body[: len(body) // 2])

    def __enter__(self) -> "HalfSent":
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def finish(self) -> None:
        self.socket.sendall(self._rest)

    def status(self) -> int:
        return int(self.socket.recv(4096).split(b" ")[1])


def push(client: Client) -> int:
    return client.push(route_body(datetime.now(UTC))).status_code


def test_the_next_body_waits_for_its_place(client: Client) -> None:
    with HalfSent(client) as first, ThreadPoolExecutor(1) as threads:
        time.sleep(0.2)  # until it holds the place
        second = threads.submit(push, client)
        with pytest.raises(TimeoutError):
            second.result(timeout=SECONDS / 2)
        assert client.get("/v1/me").status_code == 200  # only bodies wait

        first.finish()

        assert (first.status(), second.result()) == (201, 201)


def test_a_body_that_trickles_in_is_refused_and_lets_the_others_go(client: Client) -> None:
    with HalfSent(client) as first:
        time.sleep(0.2)  # until it holds the place
        assert push(client) == 201
        assert first.status() == 400


def test_the_body_of_a_stranger_takes_no_place(client: Client) -> None:
    with HalfSent(client, key="svc_live_" + "x" * 40) as first:
        assert first.status() == 401  # before the rest of it
        assert push(client) == 201
