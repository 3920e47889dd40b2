"""An ingress that is told to stop answers what it was sent. A rolling restart loses no request and fails none."""

import asyncio
import http.client
import json
import signal
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest
import uvicorn

from deploy.processes import Child, Supervisor
from domain.database.connections import Database
from domain.settings import Settings
from ingress.http.connection_limits import Bounds
from ingress.http.draining import DrainingServer
from ingress.http.serving import listen
from ingress.http.uvicorn_protocol import bounded_connections
from tests.chaos.test_kills import kept
from tests.clockwork import run_by_clockwork
from tests.factories import route_body
from tests.forking import forked_spec
from tests.ingress.strangers import GET
from tests.ingress.test_uvicorn_protocol import answering
from tests.ports import own_port
from tests.service import Client, Service, eventually


class Process:
    """A process that can be stopped and started again, an ingress at the same port."""

    def __init__(self, supervisor: Supervisor, settings: Settings, logs: Path, name: str, **more: str) -> None:
        self._supervisor = supervisor
        self.port = own_port()
        environment = {
            "FUELROUTE_DATABASE_URL": settings.require_database_url(),
            "FUELROUTE_REDIS_URL": settings.require_redis_url(),
            "FUELROUTE_DATA": str(settings.data),
            "FUELROUTE_PORT": str(self.port),
            **{f"FUELROUTE_{key}": value for key, value in more.items()},
        }
        arguments = ("workers", "--queues", name) if name == "imports" else ("ingress",)
        self.spec = forked_spec(name, arguments, logs, environment, f"http://127.0.0.1:{self.port}")

    def start(self) -> None:
        self._supervisor.start([self.spec], seconds=600)

    @property
    def child(self) -> Child:
        return [child for child in self._supervisor.children if child.spec is self.spec][-1]

    def restart(self) -> None:
        self.child.signal(signal.SIGTERM)
        self.child.process.wait(timeout=900)
        self.start()


@pytest.fixture
def supervisor() -> Iterator[Supervisor]:
    one = Supervisor(print)
    yield one
    one.stop()


@contextmanager
def client_of(settings: Settings, port: int) -> Iterator[Client]:
    with Database.of(settings) as database:
        service = Service(f"http://127.0.0.1:{port}", database, settings)
        with service.new_tenant() as client:
            yield client


class Pusher:
    """A client that keeps its connection. It goes to the other process when a connection is refused, and never tries
    again after any other failure."""

    def __init__(self, key: str, ports: list[int]) -> None:
        self._headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        self._ports = ports
        self._connection: http.client.HTTPConnection | None = None
        self.accepted: list[str] = []
        self.statuses: set[int] = set()

    def push_until(self, done: threading.Event) -> None:
        while not done.wait(0.2):  # so that some connections rest at any moment
            self._push()
        if self._connection is not None:
            self._connection.close()

    def _push(self) -> None:
        body = json.dumps(route_body(datetime.now(UTC)))
        connection = self._connected()
        connection.request("POST", "/v1/routes", body, self._headers)
        answer = connection.getresponse()
        document = json.loads(answer.read())
        self.statuses.add(answer.status)
        if answer.status < 300:
            self.accepted.append(document["id"])
        if answer.will_close:
            connection.close()
            self._connection = None

    def _connected(self) -> http.client.HTTPConnection:
        while self._connection is None:
            connection = http.client.HTTPConnection("127.0.0.1", self._ports[0], timeout=900)
            try:
                connection.connect()
                self._connection = connection
            except ConnectionRefusedError:
                self._ports = self._ports[::-1]
        return self._connection


def test_a_rolling_restart_under_load_fails_no_request_and_loses_no_route(
    settings: Settings, logs: Path, supervisor: Supervisor
) -> None:
    worker = Process(supervisor, settings, logs, "imports")
    both = [Process(supervisor, settings, logs, name, IMPORT_WAIT_SECONDS="0.3") for name in ("one", "other")]
    supervisor.start([one.spec for one in (worker, *both)])
    ports = [one.port for one in both]
    done = threading.Event()
    with client_of(settings, ports[0]) as client, ThreadPoolExecutor(8) as threads:
        keys = [client.service.client(client.fleet).key for _ in range(8)]
        pushers = [Pusher(key, ports[:: 1 if number % 2 else -1]) for number, key in enumerate(keys)]
        running = [threads.submit(one.push_until, done) for one in pushers]
        try:
            eventually(lambda: all(one.accepted for one in pushers), bool, wanted="a push accepted of each")
            before = sum(len(one.accepted) for one in pushers)
            for one in both:
                one.restart()
        finally:
            done.set()
        for task in running:
            task.result()

        accepted = [route_id for one in pushers for route_id in one.accepted]
        assert len(accepted) > before
        assert {status for one in pushers for status in one.statuses} <= {201, 202, 429}
        assert kept(client.service, accepted) == set(accepted)


def connected(port: int) -> http.client.HTTPConnection:
    """A connection on which a request has been answered."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=900)
    connection.request("GET", "/healthz")
    answer = connection.getresponse()
    assert (answer.read(), answer.will_close) == (b"ok\n", False)
    return connection


def ask(connection: http.client.HTTPConnection, path: str) -> tuple[int, bool]:
    """The status of the answer, and whether it announces the end of the connection."""
    connection.request("GET", path)
    with connection.getresponse() as answer:
        answer.read()
    return answer.status, answer.getheader("connection") == "close"


def ask_anew(port: int, path: str) -> tuple[int, bool] | None:
    """Ask on a new connection; None if it is refused."""
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=900)) as connection:
        try:
            return ask(connection, path)
        except ConnectionRefusedError:
            return None


def test_a_process_that_stops_tells_load_balancers_and_answers_what_was_sent(
    settings: Settings, logs: Path, supervisor: Supervisor
) -> None:
    without_workers = settings.model_copy(update={"redis_url": "redis://127.0.0.1:1/0"})

    def stops_well(drain_seconds: int) -> bool:
        """False where it refused connections before the test had asked all: a slow machine needs a longer drain."""
        waits = {"DRAIN_SECONDS": str(drain_seconds), "STOP_SECONDS": "120", "BODY_TIMEOUT_SECONDS": "120"}
        one = Process(supervisor, without_workers, logs, f"drains {drain_seconds} s", **waits)
        try:
            stop_and_ask(one, settings)
        except (ConnectionError, httpx.TransportError):
            return False
        return True

    assert any(map(stops_well, (1, 10, 60)))


def stop_and_ask(one: Process, settings: Settings) -> None:
    one.start()
    with (
        closing(connected(one.port)) as early,
        closing(connected(one.port)) as late,
        client_of(settings, one.port) as client,
        socket.create_connection(("127.0.0.1", one.port), timeout=900) as began,
        ThreadPoolExecutor(1) as threads,
    ):
        body = json.dumps(route_body(datetime.now(UTC))).encode()
        head = f"POST /v1/routes HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {client.key}\r\n"
        began.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body[:10])

        one.child.signal(signal.SIGTERM)

        if eventually(lambda: ask_anew(one.port, "/readyz"), lambda found: found in (None, (503, True))) is None:
            raise ConnectionRefusedError
        assert ask(early, "/healthz") == (200, True), "it is told on connections that are open already"
        push = threads.submit(lambda: client.push(route_body(datetime.now(UTC))))
        assert push.result().status_code == 202, "connections are still accepted"
        eventually(lambda: ask_anew(one.port, "/readyz"), lambda found: found is None)
        assert ask(late, "/healthz") == (200, True), "a connection that rested is not closed at once"
        began.sendall(body[10:])
        with http.client.HTTPResponse(began) as answer:
            answer.begin()
            assert (answer.status, answer.getheader("connection")) == (202, "close")
        stopped_at = time.monotonic()
        one.child.process.wait(timeout=900)
        assert time.monotonic() - stopped_at < 60


@pytest.mark.parametrize("sent", [GET, b""], ids=["with its request", "before its request"])
def test_a_connection_that_the_system_has_established_is_answered(sent: bytes) -> None:
    """The event loop has not taken it when the process stops listening."""
    http_class = bounded_connections(Bounds(0, 0, head_seconds=10, answer_seconds=30))
    app = answering(b"hello", headers=((b"content-length", b"5"),))
    config = uvicorn.Config(app, http=http_class, log_config=None, lifespan="off", timeout_graceful_shutdown=5)
    config.load()

    async def scenario() -> bytes:
        listener = listen("127.0.0.1", 0)
        server = DrainingServer(config, http_class.limiter, drain_seconds=0, stopping=lambda: None)
        server.lifespan = config.lifespan_class(config)
        await server.startup([listener])
        client = socket.create_connection(listener.getsockname())
        client.sendall(sent)
        ending = asyncio.ensure_future(server.shutdown([listener]))
        await asyncio.sleep(0.2)
        with suppress(BrokenPipeError):
            client.sendall(b"" if sent else GET)
        client.setblocking(False)
        answer = await asyncio.get_running_loop().sock_recv(client, 4096)
        await ending
        client.close()
        return answer

    assert asyncio.run(scenario()).endswith(b"hello")


def test_a_server_wakes_once_a_second_and_notices_at_once_that_it_is_to_end() -> None:
    http_class = bounded_connections(Bounds(0, 0, head_seconds=10, answer_seconds=30))
    config = uvicorn.Config(answering(b"hello"), http=http_class, log_config=None)
    config.load()
    looks = []

    class Counted(DrainingServer):
        async def on_tick(self, counter: int) -> bool:
            looks.append(counter)
            return await super().on_tick(counter)

    async def scenario() -> float:
        loop = asyncio.get_running_loop()
        server = Counted(config, http_class.limiter, drain_seconds=0, stopping=lambda: None)
        loop.call_later(10.5, server.handle_exit, signal.SIGTERM, None)
        await server.main_loop()
        assert dict(server.server_state.default_headers)[b"date"]
        return loop.time()

    assert run_by_clockwork(scenario()) == pytest.approx(10.5, abs=0.1)
    assert len(looks) == 12
