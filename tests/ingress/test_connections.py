"""A stranger's connection has bounds: in bytes, in time, in number, and in lines of the log."""

import asyncio
import http.client
import json
import resource
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import cast
from urllib.parse import urlsplit

import pytest
import uvicorn
from uvicorn.server import ServerState

from domain.settings import Settings
from ingress.connection_limits import FULL, FULL_FOR_ADDRESS, Bounds, ConnectionLimiter, address_of
from ingress.process import within_open_files
from ingress.uvicorn_protocol import BoundedConnection, bounded_connections
from tests.factories import route_body
from tests.service import Client, Service, eventually, running_service

HEAD_SECONDS = 2
KEEP_ALIVE_SECONDS = 4
ANSWER_SECONDS = 2
PER_ADDRESS = 12
GET = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"


@pytest.fixture(scope="module")
def service(settings: Settings, logs: Path) -> Iterator[Service]:
    """An ingress with little patience."""
    with running_service(
        settings,
        logs,
        processes=("ingress",),
        HEAD_TIMEOUT_SECONDS=str(HEAD_SECONDS),
        KEEP_ALIVE_SECONDS=str(KEEP_ALIVE_SECONDS),
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
        self.socket.settimeout(10)
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


@pytest.fixture
def stranger(service: Service) -> Iterator[Stranger]:
    with Stranger(service) as one:
        yield one


MIB = 1024 * 1024


@pytest.mark.parametrize(
    ("beginning", "endless"),
    [
        (b"GET /healthz HTTP/1.1\r\nX-Long: ", b"x" * 65536),
        (b"GET /healthz HTTP/1.1\r\n", b"X-Many: 1\r\n" * 1000),
        (b"GET /healthz HTTP/1.1\r\n", b"x" * 65536),
        (b"GET /", b"x" * 65536),
        (b"", b"\r\n" * 4096),
        (GET, b"\r\n" * 4096),
    ],
    ids=[
        "a long header",
        "many headers",
        "a long name",
        "a long address",
        "empty lines",
        "empty lines after a request",
    ],
)
def test_a_head_without_end_is_refused_before_it_costs_much(
    stranger: Stranger, beginning: bytes, endless: bytes
) -> None:
    stranger.send(beginning)

    assert stranger.send_on_and_on(endless, max_bytes=40 * MIB) < 20 * MIB  # what sockets hold, and no more


def test_a_head_just_within_the_bound_is_read_and_one_beyond_it_is_431(service: Service) -> None:
    for size, status in ((30_000, 200), (33_000, 431), (200_000, 431)):
        with Stranger(service) as stranger:
            stranger.send(b"GET /healthz HTTP/1.1\r\nConnection: close\r\nX-Long: " + b"x" * size + b"\r\n\r\n")
            assert stranger.status() == status


def test_trailers_without_end_are_refused(service: Service, client: Client) -> None:
    with Stranger(service) as stranger:
        head = f"POST /v1/routes HTTP/1.1\r\nAuthorization: Bearer {client.key}\r\n".encode()
        stranger.send(head + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n")
        assert stranger.send_on_and_on(b"X-Trailer: 1\r\n" * 1000, max_bytes=40 * MIB) < 20 * MIB


def test_trailers_are_no_headers(service: Service, client: Client) -> None:
    with Stranger(service) as stranger:
        head = b"POST /v1/routes HTTP/1.1\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n"
        stranger.send(head + f"Authorization: Bearer {client.key}\r\n\r\n".encode())
        assert stranger.status() == 401


def test_a_silent_connection_is_closed(stranger: Stranger) -> None:
    started = time.monotonic()
    assert stranger.answer() == b""
    assert time.monotonic() - started >= HEAD_SECONDS * 0.9


def test_a_head_that_trickles_in_is_not_waited_for(stranger: Stranger) -> None:
    stranger.send(b"GET /healthz HTTP/1.1\r\nX-Slow: ")

    assert stranger.send_on_and_on(b"x", max_bytes=100, pause=0.1) < 80


def test_a_second_head_that_trickles_in_is_not_waited_for_either(stranger: Stranger) -> None:
    stranger.send(GET)
    assert stranger.one_answer() == 200

    stranger.send(b"GET /")
    assert stranger.send_on_and_on(b"x", max_bytes=100, pause=0.1) < 80


def test_a_connection_may_rest_between_requests_but_not_for_ever(stranger: Stranger) -> None:
    for _ in range(2):
        stranger.send(GET)
        assert stranger.one_answer() == 200
        time.sleep(HEAD_SECONDS * 1.2)
    started = time.monotonic()
    assert stranger.answer() == b""
    assert time.monotonic() - started <= KEEP_ALIVE_SECONDS


def test_many_requests_one_after_the_other_are_served(stranger: Stranger) -> None:
    """More bytes than one head may have, and bodies larger than that."""
    for size in (0, 100_000, 2000):
        for _ in range(20):
            stranger.send(f"POST /v1/routes HTTP/1.1\r\nContent-Length: {size}\r\n\r\n".encode() + b"x" * size)
            assert stranger.one_answer() == 401


def test_a_body_that_no_endpoint_reads_does_not_go_on_for_ever(stranger: Stranger) -> None:
    stranger.send(b"POST /nowhere HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
    assert stranger.one_answer() == 404

    assert stranger.send_on_and_on(b"1\r\nx\r\n", max_bytes=6 * 100, pause=0.1) < 6 * 80


@pytest.mark.parametrize("rest", [b"", b"1", b"1\r\nx\r\n0\r\nX-Slow"])
def test_a_request_is_answered_once_though_its_body_is_late(stranger: Stranger, rest: bytes) -> None:
    stranger.send(b"POST /nowhere HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
    assert stranger.one_answer() == 404

    stranger.send(rest)
    assert stranger.answer() == b""


def test_some_requests_at_once_are_answered_in_order_and_a_flood_of_them_is_not(service: Service) -> None:
    with Stranger(service) as stranger:
        stranger.send(GET * 4 + b"GET /nowhere HTTP/1.1\r\nConnection: close\r\n\r\n")
        answer = stranger.answer()
        assert (answer.count(b"HTTP/1.1 200"), answer.count(b"HTTP/1.1 404")) == (4, 1)
    with Stranger(service) as stranger:
        stranger.send(GET * 30)
        assert stranger.answer().count(b"HTTP/1.1 200") == 17  # the one in hand, and as many as may wait
    with Stranger(service) as stranger:
        stranger.send(GET * 5000)
        assert stranger.answer().count(b"HTTP/1.1 200") < 100


def test_unread_answers_are_not_kept(service: Service) -> None:
    with Stranger(service, receive_buffer=4096) as stranger:
        stranger.socket.settimeout(0.2)
        request = b"GET /v1/openapi.json HTTP/1.1\r\nHost: x\r\n\r\n"
        stranger.send_on_and_on(request, max_bytes=len(request) * 300, pause=0.001)
        stranger.socket.settimeout(10)
        time.sleep(ANSWER_SECONDS + 2)

        more = len(GET) * 1000  # reset, though there was more to read
        assert stranger.send_on_and_on(GET, max_bytes=more, pause=0.01) < more


class Slow(asyncio.Transport):
    """A transport whose other end reads as slowly as the test says."""

    unread = 0
    aborted = False

    def get_extra_info(self, name: str, default: object = None) -> object:
        return ("192.0.2.1", 5) if name in ("peername", "sockname") else default

    def get_write_buffer_size(self) -> int:
        return self.unread

    def is_closing(self) -> bool:
        return self.aborted

    def abort(self) -> None:
        self.aborted = True


def test_a_client_that_reads_slowly_gets_more_time_and_one_that_does_not_read_gets_none() -> None:
    async def scenario() -> None:
        connections = bounded_connections(Bounds(0, 0, head_seconds=10, answer_seconds=30))
        config = uvicorn.Config(lambda: None, log_config=None)
        config.load()
        connection = cast(BoundedConnection, connections(config, ServerState(), {}))
        transport = Slow()
        connection.connection_made(transport)
        connection.on_message_begin()
        started = time.monotonic()
        transport.unread = 1_000_000
        connection.pause_writing()
        for seconds, unread, aborted in (
            (29, 1_000_000, False),
            (31, 900_000, False),
            (59, 900_000, False),
            (62, 890_000, True),
        ):
            transport.unread = unread
            connection.check_time(started + seconds)
            assert transport.aborted is aborted, seconds

    asyncio.run(scenario())


def test_the_bound_is_no_higher_than_what_the_system_lets_a_process_open(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = (1024, 2048)

    def set_limits(_: int, new: tuple[int, int]) -> None:
        nonlocal limits
        limits = new

    monkeypatch.setattr(resource, "getrlimit", lambda _: limits)
    monkeypatch.setattr(resource, "setrlimit", set_limits)
    bounds = Bounds(connections=500, connections_per_address=0, head_seconds=1, answer_seconds=1)

    assert within_open_files(bounds) == bounds
    assert limits == (1024, 2048)
    assert within_open_files(bounds._replace(connections=1000)).connections == 1000
    assert limits == (1256, 2048)
    assert within_open_files(bounds._replace(connections=4096)).connections == 2048 - 256
    assert limits == (2048, 2048)


def test_one_address_has_so_many_connections_and_no_more(service: Service) -> None:
    with ExitStack() as connections:
        held = [connections.enter_context(Stranger(service)) for _ in range(PER_ADDRESS)]
        for one in held:
            one.send(GET)
            assert one.one_answer() == 200
        with Stranger(service) as refused:
            assert refused.status() == 503
        held[0].socket.close()

        def again() -> int | None:
            with Stranger(service) as another:
                another.send(GET.replace(b"Host", b"Connection: close\r\nHost"))
                return another.status()

        assert eventually(again, lambda status: status == 200) == 200


def test_strangers_do_not_fill_the_log(service: Service, logs: Path) -> None:
    def lines() -> list[dict[str, str]]:
        return [json.loads(line) for line in (logs / "ingress.log").read_text().splitlines()]

    before = len(lines())
    for data in (b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", GET.replace(b"Host: x", b"Ho st")):
        for _ in range(20):
            with Stranger(service) as stranger:
                stranger.send(data)
                assert stranger.status() == 400
    for _ in range(20):
        with Stranger(service) as stranger:
            stranger.send(b"GET /healthz HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
            assert stranger.one_answer() == 200

    time.sleep(1.5)
    assert len(lines()) - before <= 3


@pytest.mark.parametrize(
    ("data", "status", "code"),
    [
        (b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", 400, "validation_error"),
        (b"POST /v1/routes HTTP/1.1\r\nContent-Length: x\r\n\r\n", 400, "validation_error"),
        (b"GET /" + b"x" * 33_000 + b" HTTP/1.1\r\n\r\n", 431, "content_too_large"),
        (b"GET /healthz HTTP/1.1\r\nX-Slow", 408, "validation_error"),
    ],
    ids=["no HTTP", "no length", "a large head", "a slow head"],
)
def test_a_connection_is_refused_with_a_problem_document(
    stranger: Stranger, data: bytes, status: int, code: str
) -> None:
    stranger.send(data)

    head, _, body = stranger.answer().partition(b"\r\n\r\n")

    assert head.startswith(b"HTTP/1.1 %d " % status)
    assert b"\r\nContent-Type: application/problem+json\r\n" in head
    document = json.loads(body)
    assert (document["status"], document["code"]) == (status, code)
    assert ("errors" in document) is (code == "validation_error")


@pytest.mark.parametrize("method", [b"FOO", b"BREW", b"get", b"GETX", b"M-SEARCHES"])
def test_an_unknown_method_is_405_and_the_connection_goes_on(service: Service, method: bytes) -> None:
    with Stranger(service) as stranger:
        stranger.send(method + b" /v1/me HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc")
        answer = http.client.HTTPResponse(stranger.socket)
        answer.begin()
        assert (answer.status, answer.headers["Allow"]) == (405, "GET, HEAD")
        assert answer.headers["Content-Type"] == "application/problem+json"
        assert json.loads(answer.read())["code"] == "method_not_allowed"
        stranger.send(GET)
        assert stranger.one_answer() == 200


def test_a_second_unknown_method_in_the_same_bytes_ends_the_connection(stranger: Stranger) -> None:
    """The parser has stopped there: what came next would be taken for something else."""
    stranger.send(b"FOO /v1/me HTTP/1.1\r\nHost: x\r\n\r\nBAR /v1/me HTTP/1.1\r\nHost: x\r\n\r\n")
    began = time.monotonic()
    assert b"HTTP/1.1 200 " not in stranger.answer()
    assert time.monotonic() - began < 1


# --- Clients that ask for another protocol first -------------------------------------------------------------------


def head_of(client: Client, body: bytes, *more: bytes) -> bytes:
    """A push's, with its length."""
    lines = [b"POST /v1/routes HTTP/1.1", b"Host: x", b"Authorization: Bearer " + client.key.encode(), *more]
    return b"\r\n".join([*lines, b"Content-Length: %d" % len(body), b"", b""])


@pytest.mark.parametrize("pause", [None, 0.2], ids=["one segment", "two segments"])
def test_a_push_that_offers_http_2_is_stored_like_any(service: Service, client: Client, pause: float | None) -> None:
    """The bytes that Java's HttpClient sends, but for the values."""
    body = json.dumps(route_body(datetime.now(UTC))).encode()
    offer = b"Connection: Upgrade, HTTP2-Settings", b"HTTP2-Settings: AAEAAEAAAAIAAAABAAMAAABkAAQBAAAAAAUAAEAA"
    head = head_of(client, body, *offer, b"Upgrade: h2c", b"User-Agent: Java-http-client/17.0.15")
    with Stranger(service) as stranger:
        for part in [head + body] if pause is None else [head, body]:
            stranger.send(part)
            time.sleep(pause or 0)
        assert stranger.one_answer() == 202
        stranger.send(GET)
        assert stranger.one_answer() == 200


_JAVA_CLIENT = """
import java.net.URI;
import java.net.http.*;
import java.nio.file.Path;

class Push {
    public static void main(String[] told) throws Exception {
        var client = HttpClient.newHttpClient();
        for (int i = 0; i < 3; i++) {
            var push = HttpRequest.newBuilder(URI.create(told[0])).header("Authorization", "Bearer " + told[1])
                .POST(HttpRequest.BodyPublishers.ofFile(Path.of(told[2]))).build();
            System.out.println(client.send(push, HttpResponse.BodyHandlers.ofString()).statusCode());
        }
    }
}
"""


@pytest.mark.skipif(shutil.which("java") is None, reason="there is no Java")
def test_the_client_that_java_brings_can_push(service: Service, client: Client, tmp_path: Path) -> None:
    (tmp_path / "Push.java").write_text(_JAVA_CLIENT)
    (tmp_path / "route.json").write_text(json.dumps(route_body(datetime.now(UTC))))
    url = f"{service.url}/v1/routes"

    told = subprocess.run(
        ["java", "Push.java", url, client.key, "route.json"], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )

    assert told.stdout.split() == ["202", "200", "200"], told.stderr


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl")
def test_curl_can_push_whether_it_offers_http_2_or_not(service: Service, client: Client, tmp_path: Path) -> None:
    (tmp_path / "route.json").write_text(json.dumps(route_body(datetime.now(UTC))))
    for more, status in (
        (["--http2"], "202"),
        ([], "200"),
        (["--http1.0"], "200"),
        (["-H", "Expect: 100-continue"], "200"),
    ):
        arguments = ["curl", "-s", "-w", "%{http_code}", "-o", "/dev/null", "--json", "@route.json", *more]
        arguments += ["-H", f"Authorization: Bearer {client.key}", f"{service.url}/v1/routes"]
        told = subprocess.run(arguments, cwd=tmp_path, capture_output=True, text=True, timeout=30)
        assert told.stdout == status, more


def test_a_length_may_be_written_with_any_number_of_digits(service: Service, client: Client) -> None:
    body = json.dumps(route_body(datetime.now(UTC))).encode()
    head = head_of(client, body).replace(b"Content-Length: ", b"Content-Length: " + b"0" * 5000)
    for sent, status in ((head + body, 202), (head.replace(b"\r\n\r\n", b"0000\r\n\r\n"), 413)):
        with Stranger(service) as stranger:
            stranger.send(sent)
            assert stranger.one_answer() == status


def test_bytes_behind_a_push_do_not_change_its_answer(service: Service, client: Client) -> None:
    body = json.dumps(route_body(datetime.now(UTC))).encode()
    for behind in (b"BREW /v1/me HTTP/1.1\r\nHost: x\r\n\r\n", b"no HTTP", b"x" * 100_000):
        with Stranger(service) as stranger:
            stranger.send(head_of(client, body) + body + behind)
            answer = stranger.answer()
        assert answer.startswith((b"HTTP/1.1 202 ", b"HTTP/1.1 200 "))
        assert answer.count(b"HTTP/1.1 ") == 1


def test_a_network_of_ipv6_counts_as_one_address() -> None:
    assert address_of("2001:db8:1:2::1") == address_of("2001:db8:1:2:ffff::9") != address_of("2001:db8:1:3::1")
    assert address_of("::ffff:192.0.2.7") == address_of("192.0.2.7") != address_of("192.0.2.8")


def test_the_limiter_counts_all_connections_and_those_of_an_address_and_0_is_no_bound() -> None:
    limiter = ConnectionLimiter(Bounds(connections=3, connections_per_address=2, head_seconds=1, answer_seconds=1))
    refusals = [limiter.enter(one) for one in ("a", "a", "a", "b", "c")]
    assert refusals == [None, None, FULL_FOR_ADDRESS, None, FULL]
    limiter.leave("a")
    assert limiter.enter("c") is None
    free = ConnectionLimiter(Bounds(connections=0, connections_per_address=0, head_seconds=1, answer_seconds=1))
    assert [free.enter("a") for _ in range(1000)] == [None] * 1000
