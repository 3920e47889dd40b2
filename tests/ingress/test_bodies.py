"""Bodies that are open or being stored are bounded for each company and in all: who comes later waits in its socket,
and bodies that trickle in hold up nobody else's.
"""

import json
import select
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from domain.accounts.keys import revoke_key
from domain.contract.shapes import MAX_BODY_BYTES
from domain.settings import Settings
from tests.factories import DOT, JOLIET, route_body
from tests.limiter import spend
from tests.rows import named
from tests.service import Client, Service, running_service

SECONDS = 6
PUSH, FEED = "/v1/routes", "/telematics/positions"
both_paths = pytest.mark.parametrize("path", [PUSH, FEED])


@pytest.fixture(scope="module")
def service(settings: Settings, logs: Path) -> Iterator[Service]:
    """An ingress with room for 32 of the largest bodies, and for one of each company."""
    options = {"BODY_MEMORY_MEGABYTES": "32", "BODY_TIMEOUT_SECONDS": "600"}
    with running_service(settings, logs, processes=("ingress", "imports"), **options) as running_one:
        yield running_one


@pytest.fixture(scope="module")
def hasty(settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """An ingress like that one, which waits for bodies only briefly."""
    options = {"BODY_MEMORY_MEGABYTES": "32", "BODY_TIMEOUT_SECONDS": str(SECONDS), "IMPORT_WAIT_SECONDS": "0"}
    with running_service(settings, tmp_path_factory.mktemp("hasty"), processes=("ingress",), **options) as running_one:
        yield running_one


@pytest.fixture
def client(service: Service) -> Iterator[Client]:
    with service.new_tenant() as client:
        assert push(client) == 201  # its key is known from now on
        yield client


@pytest.fixture
def other(service: Service) -> Iterator[Client]:
    with service.new_tenant() as other:
        yield other


class HalfSent:
    """A request of which only a part of the body has been sent."""

    def __init__(self, client: Client, *, path: str = PUSH, key: str | None = None, length: int | None = None) -> None:
        address = urlsplit(str(client.base_url))
        body = json.dumps(body_for(path)).encode()
        body = body.ljust(length or len(body))
        self._rest = body[100:]
        self.socket = socket.create_connection((address.hostname, address.port), timeout=120)
        head = f"POST {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key or client.key}\r\n"
        self.socket.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body[:100])

    def __enter__(self) -> "HalfSent":
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def finish(self) -> None:
        self.socket.sendall(self._rest)

    def is_answered(self) -> bool:
        return bool(select.select([self.socket], [], [], 0)[0])

    def status(self) -> int:
        return int(self.socket.recv(4096).split(b" ")[1])


@contextmanager
def crowd(client: Client, count: int, **options: Any) -> Iterator[list[HalfSent]]:
    with ExitStack() as sockets:
        members = [sockets.enter_context(HalfSent(client, **options)) for _ in range(count)]
        time.sleep(0.3)  # until they hold what they can
        yield members


def body_for(path: str) -> dict[str, Any]:
    now = datetime.now(UTC)
    fix = {"unitNumber": "101", "latitude": 41.0, "longitude": -87.0, "recordedAt": now.isoformat()}
    return route_body(now) if path == PUSH else {"positions": [fix]}


def push(client: Client) -> int:
    return client.push(route_body(datetime.now(UTC))).status_code


def count_stored(client: Client) -> tuple[int, int]:
    with client.service.database.transaction() as connection:
        row = (
            named(connection)
            .execute(
                "SELECT (SELECT count(*) FROM routes WHERE company_id = %s) AS routes,"
                " (SELECT count(*) FROM positions WHERE vehicle_id = ANY(%s)) AS positions",
                (client.fleet.company_id, list(client.fleet.trucks)),
            )
            .fetchone()
        )
    assert row is not None
    return row.routes, row.positions


def test_a_company_s_next_body_waits_for_its_place_and_other_companies_bodies_do_not(
    client: Client, other: Client
) -> None:
    with HalfSent(client, length=MAX_BODY_BYTES) as first, ThreadPoolExecutor(1) as threads:
        time.sleep(0.3)  # until it holds the place
        second = threads.submit(push, client)
        assert push(other) == 201
        assert client.get("/v1/me").status_code == 200  # only bodies wait
        assert not second.done()
        assert not first.is_answered()

        first.finish()

        assert (first.status(), second.result()) == (201, 201)


@both_paths
@pytest.mark.parametrize("length", [None, MAX_BODY_BYTES])
def test_trickling_bodies_of_one_company_delay_no_other_company(
    client: Client, other: Client, path: str, length: int | None
) -> None:
    with crowd(client, 300, path=path, length=length) as members:
        assert push(other) == 201
        assert other.post_fixes(JOLIET).status_code == 202
        assert not any(member.is_answered() for member in members)


def test_small_trickling_bodies_do_not_delay_their_own_company(client: Client) -> None:
    with crowd(client, 300) as members:
        assert push(client) == 201
        assert not any(member.is_answered() for member in members)


def test_a_body_that_trickles_in_is_refused_and_lets_the_others_go(hasty: Service) -> None:
    with (
        hasty.new_tenant() as client,
        hasty.new_tenant() as other,
        HalfSent(client, path=PUSH, length=MAX_BODY_BYTES) as a_push,
        HalfSent(other, path=FEED, length=MAX_BODY_BYTES) as positions,
    ):
        time.sleep(0.3)  # until they hold their places
        assert {push(client), push(other)} <= {201, 202}
        assert (a_push.status(), positions.status()) == (400, 400)


def test_a_body_that_waits_too_long_for_its_place_is_answered_429(hasty: Service) -> None:
    with hasty.new_tenant() as client, HalfSent(client, length=MAX_BODY_BYTES) as holder:
        time.sleep(0.3)  # until it holds the place
        with crowd(client, 3, length=MAX_BODY_BYTES) as members:
            assert holder.status() == 400
            answered, _, _ = select.select([member.socket for member in members], [], [], 180)
            answer = answered[0].recv(4096)
    assert answer.startswith(b"HTTP/1.1 429 ")
    assert b"\r\nretry-after: 1\r\n" in answer.lower()


def test_bodies_of_every_size_are_read_whole_though_all_are_sent_at_once(client: Client) -> None:
    """The connection stops reading while a large one waits, and goes on after its answer."""
    lengths = [1_000, 65_537, MAX_BODY_BYTES, 300_000, 1_000]
    bodies = [json.dumps(body_for(PUSH) | {"externalId": f"load {n}"}).encode() for n in range(len(lengths))]
    head = f"POST {PUSH} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {client.key}\r\nContent-Length: %d\r\n\r\n"
    requests = [(head % n).encode() + body.ljust(n) for n, body in zip(lengths, bodies, strict=True)]
    address = urlsplit(str(client.base_url))

    with socket.create_connection((address.hostname, address.port), timeout=120) as connection:
        connection.sendall(b"".join(requests))
        answers = connection.makefile("rb")
        for n in range(len(lengths)):
            assert answers.readline() == b"HTTP/1.1 201 Created\r\n"
            headers = dict(line.split(b": ") for line in iter(answers.readline, b"\r\n"))
            route = json.loads(answers.read(int(headers[b"content-length"])))
            assert route["externalId"] == f"load {n}"


@both_paths
def test_the_body_of_a_request_without_a_valid_key_is_not_read(client: Client, path: str) -> None:
    prefix = client.get("/v1/me").json()["key"]["prefix"]
    with HalfSent(client, path=path) as honest:
        for key in ("svc_live_" + "x" * 40, prefix + "x" * 32, "nonsense"):  # the prefix of a key is no secret
            with HalfSent(client, path=path, key=key, length=MAX_BODY_BYTES) as stranger:
                assert stranger.status() == 401
        assert not honest.is_answered()


def test_the_body_of_a_key_over_its_limit_is_not_read(client: Client) -> None:
    spend(client, "requests", 600)
    assert client.get("/v1/me").status_code == 429
    with HalfSent(client) as request:
        assert request.status() == 429


@both_paths
def test_a_body_that_comes_in_after_its_key_was_revoked_stores_nothing(client: Client, path: str) -> None:
    before = count_stored(client)
    with client.service.client(client.fleet) as leaver, HalfSent(leaver, path=path) as request:
        time.sleep(0.3)  # until its key has been looked at
        with client.service.database.transaction() as connection:
            revoke_key(connection, leaver.key_id, DOT)

        request.finish()

        assert request.status() == 401
    assert count_stored(client) == before
