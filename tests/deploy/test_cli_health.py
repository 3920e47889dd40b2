"""`fuelroute health`, by which containers are checked."""

import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from domain.settings import Settings
from domain.telemetry.health import Health, Unhealthy
from domain.telemetry.metrics_ports import serve_metrics
from tests.deploy.commands import Cli, libraries_of
from tests.ports import own_port


@pytest.fixture
def first_port(monkeypatch: pytest.MonkeyPatch) -> int:
    """The first of three free ports that the setting names."""
    first = own_port(3)
    monkeypatch.setenv("FUELROUTE_METRICS_PORT", f"{first}-{first + 2}")
    return first


def serve(process: str, first_port: int) -> Health:
    """A process with a health of its own on the first port that is free."""
    health = Health(process)
    serve_metrics(Settings(metrics_port=f"{first_port}-{first_port + 2}"), process, health)
    return health


def test_a_process_that_is_well(cli: Cli, first_port: int) -> None:
    serve("scheduler", first_port).check_alive("threads", lambda: "all threads live")

    answer = cli("health", "--json")

    check = {"ok": True, "needed": True, "detail": "all threads live"}
    assert (answer.status, answer.document) == (
        0,
        [{"port": first_port, "process": "scheduler", "ok": True, "checks": {"threads": check}}],
    )


def test_one_sick_process_among_others_is_enough(cli: Cli, first_port: int) -> None:
    def fail() -> str:
        raise Unhealthy("the consumer of plans hangs: restart the process")

    serve("workers-imports", first_port)
    serve("workers-plans", first_port).check_alive("consumers", fail)

    answer = cli("health")

    assert answer.status == 1
    assert "workers-imports" in answer.out
    assert "the consumer of plans hangs" in answer.out


def test_a_quiet_check_speaks_only_of_what_is_wrong(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    port = own_port()
    monkeypatch.setenv("FUELROUTE_METRICS_PORT", str(port))
    assert "no process answers" in cli("health", "--quiet").sentence

    health = Health("scheduler")
    serve_metrics(Settings(metrics_port=str(port)), "scheduler", health)
    well = cli("health", "--quiet")
    assert (well.status, well.out, well.err) == (0, "", "")

    def fail() -> str:
        raise Unhealthy("the leader hangs: restart the process")

    health.check_alive("leader", fail)
    sick = cli("health", "--quiet")
    assert sick.status == 1
    assert "the leader hangs" in sick.out


def test_a_quiet_check_of_several_ports_asks_them_all(cli: Cli, first_port: int) -> None:
    serve("workers-imports", first_port)
    serve("workers-plans", first_port)

    answer = cli("health", "--quiet")

    assert (answer.status, answer.out) == (0, "")


def test_the_check_of_a_container_loads_no_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each container is asked every 15 seconds. With the libraries that took more than an idle process takes."""
    port = own_port()
    monkeypatch.setenv("FUELROUTE_METRICS_PORT", str(port))
    serve_metrics(Settings(metrics_port=str(port)), "scheduler", Health("scheduler"))

    loaded = libraries_of("health", "--quiet")

    assert loaded & {"typer", "rich", "msgspec", "pydantic", "psycopg", "domain"} == set()


def test_a_process_that_stops_is_alive_but_not_ready(cli: Cli, first_port: int) -> None:
    serve("ingress", first_port).note_stopping()

    assert cli("health").status == 0
    assert cli("health", "--ready").status == 1


def test_nobody_there(cli: Cli, first_port: int) -> None:
    assert cli("health").sentence == (
        f"fuelroute: no process answers on the ports {first_port}-{first_port + 2} of 127.0.0.1"
    )


def test_without_a_port_it_says_what_to_set(cli: Cli) -> None:
    assert "set FUELROUTE_METRICS_PORT" in cli("health").sentence


@pytest.mark.parametrize("host", ["0.0.0.0", "127.0.0.1"])
def test_a_process_that_listens_on_every_address_is_asked_on_this_machine(
    cli: Cli, first_port: int, host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve("console", first_port)
    monkeypatch.setenv("FUELROUTE_METRICS_HOST", host)

    assert cli("health").status == 0


@pytest.fixture(params=[b"[]", b"not JSON", b'{"process": 1}'])
def stranger(request: pytest.FixtureRequest, first_port: int) -> Iterator[None]:
    """Some other server on one of the ports."""

    class Stranger(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(request.param)

        def log_message(self, *_: object) -> None: ...

    with HTTPServer(("127.0.0.1", first_port), Stranger) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield
        server.shutdown()


@pytest.mark.usefixtures("stranger")
def test_a_stranger_on_a_port_does_not_count(cli: Cli, first_port: int) -> None:
    assert "no process answers" in cli("health").sentence

    serve("scheduler", first_port)

    assert [one["process"] for one in cli("health", "--json").document] == ["scheduler"]


def test_a_port_that_is_silent_is_a_sick_process(cli: Cli, first_port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deploy.process_health._TIMEOUT_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", first_port)):
        answer = cli("health")

    assert answer.status == 1
    assert "unknown" in answer.out
