"""A stranger's connection has bounds: in bytes, in time, in number, and in lines of the log."""

import asyncio
import http.client
import json
import math
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
import uvicorn
from uvicorn.server import ServerState

from domain.settings import Settings
from ingress.http.connection_limits import Bounds
from ingress.http.uvicorn_protocol import bounded_connections
from tests.ingress.strangers import (
    GET,
    HEAD_SECONDS,
    PER_ADDRESS,
    Stranger,
    impatient_ingress,
)
from tests.service import Client, Service, eventually, one_below, takes_less


@pytest.fixture(scope="module")
def service(settings: Settings, logs: Path) -> Iterator[Service]:
    with impatient_ingress(settings, logs) as running_one:
        yield running_one


@pytest.fixture
def stranger(service: Service) -> Iterator[Stranger]:
    with Stranger(service) as one:
        yield one


MIB = 1024 * 1024
TRICKLE = 1_800
"""Pieces, ten a second: three minutes of a connection that is not cut off."""


@pytest.mark.parametrize(
    ("beginning", "endless"),
    [
        (b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-Long: ", b"x" * 65536),
        (b"GET /healthz HTTP/1.1\r\nHost: x\r\n", b"X-Many: 1\r\n" * 1000),
        (b"GET /healthz HTTP/1.1\r\nHost: x\r\n", b"x" * 65536),
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
def test_an_endless_head_is_refused_early(stranger: Stranger, beginning: bytes, endless: bytes) -> None:
    stranger.send(beginning)

    assert stranger.send_on_and_on(endless, max_bytes=40 * MIB) < 20 * MIB  # what sockets hold, and no more


def test_a_head_within_the_bound_is_read_and_a_larger_one_is_431(service: Service) -> None:
    for size, status in ((30_000, 200), (33_000, 431), (200_000, 431)):
        with Stranger(service) as stranger:
            stranger.send(
                b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX-Long: " + b"x" * size + b"\r\n\r\n"
            )
            assert stranger.status() == status


def test_endless_trailers_are_refused(service: Service, client: Client) -> None:
    with Stranger(service) as stranger:
        head = f"POST /v1/routes HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {client.key}\r\n".encode()
        stranger.send(head + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n")
        assert stranger.send_on_and_on(b"X-Trailer: 1\r\n" * 1000, max_bytes=40 * MIB) < 20 * MIB


def test_trailers_are_no_headers(service: Service, client: Client) -> None:
    with Stranger(service) as stranger:
        head = b"POST /v1/routes HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
        stranger.send(head + b"2\r\n{}\r\n0\r\n" + f"Authorization: Bearer {client.key}\r\n\r\n".encode())
        assert stranger.status() == 401


def test_a_silent_connection_is_closed(service: Service) -> None:
    started = time.monotonic()
    with Stranger(service) as stranger:
        assert stranger.answer() == b""
    assert time.monotonic() - started >= HEAD_SECONDS * 0.9


def test_a_trickling_head_is_cut_off(stranger: Stranger) -> None:
    stranger.send(b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-Slow: ")

    assert stranger.send_on_and_on(b"x", max_bytes=TRICKLE, pause=0.1) < TRICKLE


def test_a_trickling_second_head_is_cut_off_too(stranger: Stranger) -> None:
    stranger.send(GET)
    assert stranger.one_answer() == 200

    stranger.send(b"GET /")
    assert stranger.send_on_and_on(b"x", max_bytes=TRICKLE, pause=0.1) < TRICKLE


def test_an_idle_connection_is_kept_for_a_while_and_then_closed(settings: Settings, tmp_path: Path) -> None:
    def seconds_until_it_is_closed() -> float:
        with Stranger(ingress) as stranger, suppress(ConnectionError):
            for _ in range(2):
                stranger.send(GET)
                assert stranger.one_answer() == 200
                time.sleep(HEAD_SECONDS * 1.2)
            started = time.monotonic()
            assert stranger.answer() == b""
            return time.monotonic() - started
        return math.inf  # closed while this process stood still

    with impatient_ingress(settings, tmp_path, keep_alive_seconds=4) as ingress:
        assert one_below(4, seconds_until_it_is_closed)


def test_many_requests_one_after_the_other_are_served(stranger: Stranger) -> None:
    """More bytes than one head may have, and bodies larger than that."""
    for size in (0, 100_000, 2000):
        for _ in range(20):
            stranger.send(
                f"POST /v1/routes HTTP/1.1\r\nHost: x\r\nContent-Length: {size}\r\n\r\n".encode() + b"x" * size
            )
            assert stranger.one_answer() == 401


@pytest.mark.parametrize("wish", [b"", b"Connection: close\r\n"])
def test_an_endless_body_that_no_endpoint_reads_is_cut_off(stranger: Stranger, wish: bytes) -> None:
    stranger.send(b"POST /nowhere HTTP/1.1\r\nHost: x\r\n" + wish + b"Transfer-Encoding: chunked\r\n\r\n")
    assert stranger.one_answer() == 404

    assert stranger.send_on_and_on(b"1\r\nx\r\n", max_bytes=6 * TRICKLE, pause=0.1) < 6 * TRICKLE


@pytest.mark.parametrize("rest", [b"", b"1", b"1\r\nx\r\n0\r\nX-Slow"])
def test_a_request_is_answered_once_though_its_body_is_late(stranger: Stranger, rest: bytes) -> None:
    stranger.send(b"POST /nowhere HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
    assert stranger.one_answer() == 404

    stranger.send(rest)
    assert stranger.answer() == b""


def test_a_few_pipelined_requests_are_answered_in_order_and_a_flood_is_cut_off(service: Service) -> None:
    with Stranger(service) as stranger:
        stranger.send(GET * 4 + b"GET /nowhere HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        answer = stranger.answer()
        assert (answer.count(b"HTTP/1.1 200"), answer.count(b"HTTP/1.1 404")) == (4, 1)
    with Stranger(service) as stranger:
        stranger.send(GET * 30)
        assert stranger.answer().count(b"HTTP/1.1 200") == 17  # the one in hand, and as many as may wait
    with Stranger(service) as stranger:
        stranger.send(GET * 5000)
        assert stranger.answer().count(b"HTTP/1.1 200") < 100


def send_for_minutes(stranger: Stranger) -> None:
    for _ in range(TRICKLE):
        stranger.socket.sendall(GET)
        time.sleep(0.1)


def test_a_client_that_reads_no_answers_is_cut_off(service: Service) -> None:
    with Stranger(service, receive_buffer=4096) as stranger:
        stranger.socket.settimeout(0.2)
        request = b"GET /v1/openapi.json HTTP/1.1\r\nHost: x\r\n\r\n"
        stranger.send_on_and_on(request, max_bytes=len(request) * 300, pause=0.001)
        stranger.socket.settimeout(180)

        with pytest.raises(ConnectionError):  # reset, though there was more to read
            send_for_minutes(stranger)


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


def test_a_slow_reader_gets_more_time_and_a_client_that_reads_nothing_gets_none() -> None:
    async def scenario() -> None:
        connections = bounded_connections(Bounds(0, 0, head_seconds=10, answer_seconds=30))
        config = uvicorn.Config(lambda: None, log_config=None)
        config.load()
        connection = connections(config, ServerState(), {})
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


def test_one_address_has_a_limit_of_connections(service: Service) -> None:
    with ExitStack() as connections:
        held = [connections.enter_context(Stranger(service)) for _ in range(PER_ADDRESS)]
        for one in held:
            one.send(GET)
            assert one.one_answer() == 200
        with Stranger(service) as refused:
            answer = refused.answer()
        assert answer.startswith(b"HTTP/1.1 503 ")
        assert b"\r\nRetry-After: 1\r\n" in answer
        held[0].socket.close()

        def again() -> int | None:
            with Stranger(service) as another:
                another.send(GET.replace(b"Host", b"Connection: close\r\nHost"))
                return another.status()

        assert eventually(again, lambda status: status == 200) == 200


def test_refused_connections_do_not_fill_the_log(service: Service, logs: Path) -> None:
    def lines() -> list[dict[str, str]]:
        return [json.loads(line) for line in (logs / "ingress.log").read_text().splitlines()]

    before, began = len(lines()), time.monotonic()
    for data in (b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", GET.replace(b"Host: x", b"Ho st")):
        for _ in range(20):
            with Stranger(service) as stranger:
                stranger.send(data)
                assert stranger.status() == 400
    for _ in range(20):
        with Stranger(service) as stranger:
            stranger.send(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
            assert stranger.one_answer() == 200

    time.sleep(1.5)
    assert len(lines()) - before <= 3 + (time.monotonic() - began) / 10  # one in ten seconds, however many they are


@pytest.mark.parametrize(
    ("data", "status", "code"),
    [
        (b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", 400, "validation_error"),
        (b"POST /v1/routes HTTP/1.1\r\nHost: x\r\nContent-Length: x\r\n\r\n", 400, "validation_error"),
        (b"GET /" + b"x" * 33_000 + b" HTTP/1.1\r\n\r\n", 431, "content_too_large"),
        (b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-Slow", 408, "validation_error"),
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
def test_an_unknown_method_is_405_and_the_connection_stays_open(service: Service, method: bytes) -> None:
    with Stranger(service) as stranger:
        stranger.send(method + b" /v1/me HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc")
        answer = http.client.HTTPResponse(stranger.socket)
        answer.begin()
        assert (answer.status, answer.headers["Allow"]) == (405, "GET, HEAD")
        assert answer.headers["Content-Type"] == "application/problem+json"
        assert json.loads(answer.read())["code"] == "method_not_allowed"
        stranger.send(GET)
        assert stranger.one_answer() == 200


def test_a_second_unknown_method_in_the_same_bytes_ends_the_connection(service: Service) -> None:
    """The parser has stopped there: what came next would be taken for something else."""

    def ask() -> None:
        with Stranger(service) as stranger:
            stranger.send(b"FOO /v1/me HTTP/1.1\r\nHost: x\r\n\r\nBAR /v1/me HTTP/1.1\r\nHost: x\r\n\r\n")
            assert b"HTTP/1.1 200 " not in stranger.answer()

    assert takes_less(1, ask)
