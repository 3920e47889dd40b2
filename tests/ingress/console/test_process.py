"""The console's process: its address, its error for a port that is taken, and its reading of bodies."""

import random
import socket
from urllib.parse import urlsplit

import pytest

from domain.operations.doctor.postgres import connections_of
from domain.settings import Settings
from domain.telemetry.health import Health
from ingress.console.console import Console
from ingress.console.process import run
from ingress.http.serving import PortTaken, free_port
from tests.ports import own_port


@pytest.mark.parametrize(
    ("port", "console_port", "expected"), [(8080, None, 8081), (0, None, 0), (8080, 9000, 9000), (8080, 0, 0)]
)
def test_the_console_listens_beside_the_ingress(port: int, console_port: int | None, expected: int) -> None:
    assert Settings(port=port, console_port=console_port).console_port_or_next() == expected


def test_the_addresses_are_loopback_ones_or_those_of_the_settings() -> None:
    assert Settings(port=8080).console_address() == "http://127.0.0.1:8081"
    over_ipv6 = Settings(host="::1", console_host="::1", port=8080)
    assert (over_ipv6.console_address(), over_ipv6.api_address()) == ("http://[::1]:8081", "http://[::1]:8080")
    told = Settings(console_url="https://fuel.example.com/", api_url="https://api.example.com/")
    assert (told.console_address(), told.api_address()) == ("https://fuel.example.com", "https://api.example.com")


def test_a_taken_port_is_reported() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(PortTaken, match=f"cannot listen on 127.0.0.1:{port} .* FUELROUTE_CONSOLE_PORT"):
            run(Settings(console_port=port), Health("console"))


def test_a_free_port_is_one_that_browsers_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(random, "sample", lambda ports, _: [10_080, *ports])
    assert free_port("127.0.0.1", 0) != 10_080
    monkeypatch.setattr(random, "sample", lambda ports, _: [2_049, *ports])
    assert own_port() != 2_049


def test_a_free_port_is_none_that_outgoing_connections_get() -> None:
    ports = {free_port("127.0.0.1", 0) for _ in range(20)}
    assert len(ports) > 10, "two processes that ask at once seldom get the same one"
    assert all(10_000 <= port < 32_768 for port in ports)
    for port in ports:
        assert free_port("127.0.0.1", port) == port


def test_a_body_is_never_read_as_a_request_even_if_another_protocol_is_asked_for(console_url: str) -> None:
    smuggled = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
    head = b"POST /sign-in HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: h2c\r\nContent-Length: %d\r\n\r\n"
    last = b"GET /nowhere HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    address = urlsplit(console_url)
    with socket.create_connection((address.hostname, address.port), timeout=120) as connection:
        connection.sendall(head % len(smuggled) + smuggled + last)
        answers = b"".join(iter(lambda: connection.recv(65536), b""))

    assert answers.count(b"HTTP/1.1 ") == 2
    assert b"HTTP/1.1 200 " not in answers


@pytest.mark.parametrize("pool_size", [2, 5, 6, 8, 40])
def test_the_doctor_counts_all_connections_of_a_console(settings: Settings, pool_size: int) -> None:
    sized = settings.model_copy(update={"database_pool_size": pool_size, "preview_processes": 3})
    console = Console(sized)
    pools = sum(pool.max_size for pool in (console.database._pool, console.database._pool_by_key))

    assert connections_of("console", sized) == pools + 2 * 3 + 1, "two of each preview process, one of health checks"
    console.close()
    console.jobs.client.close()
