"""Clients that break off: that is their affair, neither an error of ours nor a line that fills the log."""

import json
import socket
import struct
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from domain.settings import Settings
from tests.factories import route_body
from tests.metrics import Metrics
from tests.service import Client, Service, eventually, running_service


@pytest.fixture(scope="module")
def service(settings: Settings, logs: Path, metrics: Metrics) -> Iterator[Service]:
    """An ingress without workers: pushes wait."""
    with running_service(
        settings, logs, processes=("ingress",), METRICS_PORT=str(metrics.port), IMPORT_WAIT_SECONDS="2"
    ) as running_one:
        yield running_one


def break_off(
    client: Client, path: str, body: bytes, sent: int, *, reset: bool, stays: Callable[[], object] = bool
) -> None:
    """Sends so much of a body, and closes the connection after `stays`, politely or not."""
    address = urlsplit(client.service.url)
    with socket.create_connection((address.hostname, address.port), timeout=120) as stranger:
        head = f"POST {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {client.key}\r\n"
        stranger.sendall(f"{head}Content-Length: {len(body)}\r\nX-Request-Id: broken\r\n\r\n".encode() + body[:sent])
        stays()
        if reset:
            stranger.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def requests(metrics: Metrics, path: str, status: int) -> float:
    counted = metrics.value("fuelroute_request_seconds_count", method="POST", path=path, status=str(status))
    return counted or 0


def complaints(logs: Path) -> list[str]:
    lines = [json.loads(line) for line in (logs / "ingress.log").read_text().splitlines()]
    events = [line["event"] for line in lines if line["level"] in ("warning", "error")]
    return [event for event in events if event != "connections.refused"]  # one in ten seconds, however many they are


@pytest.mark.parametrize("path", ["/v1/routes", "/telematics/positions"])
@pytest.mark.parametrize("reset", [False, True])
def test_a_client_that_disconnects_within_its_body_counts_as_no_server_error(
    client: Client, metrics: Metrics, logs: Path, path: str, reset: bool
) -> None:
    before = requests(metrics, path, 499)

    for _ in range(5):
        break_off(client, path, b"x" * 1000, 500, reset=reset)

    eventually(lambda: requests(metrics, path, 499), lambda count: count == before + 5)
    assert requests(metrics, path, 500) == 0
    assert complaints(logs) == []


@pytest.mark.parametrize("reset", [False, True])
def test_a_push_is_stored_though_its_client_does_not_wait_for_the_outcome(
    client: Client, metrics: Metrics, logs: Path, reset: bool
) -> None:
    body = json.dumps(route_body(datetime.now(UTC))).encode()
    before = requests(metrics, "/v1/routes", 202)

    def is_stored() -> None:
        eventually(lambda: client.get("/v1/routes").json()["total"], lambda total: total == 1)

    break_off(client, "/v1/routes", body, len(body), reset=reset, stays=is_stored)

    eventually(lambda: requests(metrics, "/v1/routes", 202), lambda count: count == before + 1)
    assert client.get("/v1/routes").json()["total"] == 1
    assert complaints(logs) == []


def test_a_body_that_turns_invalid_counts_as_no_server_error(client: Client, metrics: Metrics, logs: Path) -> None:
    address = urlsplit(client.service.url)
    before = requests(metrics, "/v1/routes", 499)
    with socket.create_connection((address.hostname, address.port), timeout=120) as stranger:
        head = f"POST /v1/routes HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {client.key}\r\n".encode()
        stranger.sendall(head + b"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n")
        time.sleep(1)  # until its body is waited for
        stranger.sendall(b"nonsense\r\n")
        assert stranger.recv(65536).startswith(b"HTTP/1.1 400 ")
        assert stranger.recv(65536) == b""

    eventually(lambda: requests(metrics, "/v1/routes", 499), lambda count: count == before + 1)
    assert complaints(logs) == []
