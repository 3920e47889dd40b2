"""Bodies that come to a connector's address before their sender is known take nothing from its company, and neither the
answer nor its time tells whether there is such a connector."""

import select
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from domain.accounts.companies import retire_company
from domain.contract.shapes import MAX_BODY_BYTES
from domain.database import fence
from domain.ids import new_id, read_id, shown_id
from domain.settings import Settings
from tests.factories import DOT, JOLIET, route_body
from tests.service import Client, Service, eventually, one_below, running_service
from tests.vendors.traccar import Traccar
from tests.workers.connectors.polling import connected

SECONDS = 4
TOKEN = "a-token-of-forwarding"
FORWARDED = Traccar(url="http://127.0.0.1:9")


@pytest.fixture(scope="module")
def service(settings: Settings, logs: Path) -> Iterator[Service]:
    options = {"BODY_MEMORY_MEGABYTES": "32", "BODY_TIMEOUT_SECONDS": str(SECONDS)}
    with running_service(settings, logs, processes=("ingress", "imports"), **options) as running_one:
        yield running_one


@pytest.fixture
def client(service: Service) -> Iterator[Client]:
    with service.new_tenant() as client:
        push(client)
        yield client


@pytest.fixture
def connector(client: Client, service: Service) -> str:
    made = connected(service.database, client.fleet.live, "traccar", FORWARDED.url, {"forward_token": TOKEN})
    return shown_id("con", made.id)


def push(client: Client) -> float:
    """The seconds that a push takes."""
    began = time.monotonic()
    assert client.push(route_body(datetime.now(UTC))).status_code == 201
    return time.monotonic() - began


def announced(stack: ExitStack, client: Client, connector: str, *, sent: int = 1) -> socket.socket:
    """A request whose body was announced as the largest, and of which little was sent."""
    address = urlsplit(str(client.base_url))
    opened = stack.enter_context(socket.create_connection((address.hostname, address.port), timeout=120))
    head = f"POST /telematics/{connector} HTTP/1.1\r\nHost: x\r\nContent-Length: {MAX_BODY_BYTES}\r\n\r\n"
    opened.sendall(head.encode() + b"{" * sent)
    return opened


def forward(client: Client, connector: str, unit_number: str = "101", *, token: str = TOKEN) -> httpx.Response:
    fix = FORWARDED.report(unit_number, JOLIET["latitude"], JOLIET["longitude"])
    headers = {"Content-Type": "application/json", "X-Fuelroute-Token": token}
    url = f"{client.service.url}/telematics/{connector}"
    return httpx.post(url, content=FORWARDED.forwarded(fix), headers=headers, timeout=120, verify=False)


@pytest.mark.parametrize("sent", [1, 100_000])
def test_bodies_of_strangers_at_a_connector_s_address_hold_up_no_push_of_its_company(
    client: Client, connector: str, sent: int
) -> None:
    def slowest_of_five_pushes() -> float:
        with ExitStack() as stack:
            for _ in range(8):
                announced(stack, client, connector, sent=sent)
            time.sleep(0.3)  # until they hold what they can
            slowest = max(push(client) for _ in range(5))
            assert forward(client, connector).json() == {"stored": 1, "leftOut": {}}
        return slowest

    assert one_below(1, slowest_of_five_pushes)


def test_a_stranger_s_body_is_awaited_and_refused_alike_with_and_without_a_connector(
    client: Client, connector: str
) -> None:
    with ExitStack() as stack:
        unknown, began = shown_id("con", new_id()), time.monotonic()
        sockets = {name: announced(stack, client, name) for name in (connector, unknown, "nonsense")}
        select.select(sockets.values(), [], [], 180)
        waited = time.monotonic() - began
        assert waited > SECONDS * 0.9, "an answer before the body is here tells that there is no such connector"
        late = {name: one.recv(4096).partition(b"\r\n")[0] for name, one in sockets.items()}
    assert set(late.values()) == {b"HTTP/1.1 400 Bad Request"}
    refused = [forward(client, name, token="another-token-here") for name in (connector, unknown, "nonsense")]
    assert {(one.status_code, one.text) for one in refused} == {(401, refused[0].text)}


def test_positions_that_come_soon_after_others_are_counted_though_none_follows(client: Client, connector: str) -> None:
    def counted() -> list[tuple[int, dict[str, int]]]:
        with client.service.database.transaction() as connection:
            asked = "SELECT fixes, left_out FROM connectors WHERE id = %s"
            return connection.execute(asked, (read_id("con", connector),)).fetchall()

    for unit_number in ("101", "102", "nobody"):
        assert forward(client, connector, unit_number).status_code == 202

    eventually(counted, lambda rows: rows == [(2, {"unmatched": 1})], wanted="all three in the counts")


def test_a_retired_company_s_vendor_is_refused_like_its_keys(client: Client, connector: str) -> None:
    assert forward(client, connector).status_code == 202
    with client.service.database.transaction() as connection:
        retire_company(connection, client.fleet.company_id, DOT, now=datetime.now(UTC))

    refused = [forward(client, name) for name in (connector, shown_id("con", new_id()))]

    assert {(one.status_code, one.text) for one in refused} == {(401, refused[0].text)}


def test_while_a_company_leaves_for_another_cell_its_vendor_is_asked_for_patience(
    client: Client, connector: str
) -> None:
    company_id = client.fleet.company_id
    with client.service.database.transaction() as connection:
        fence.begin_copying(connection, company_id, to_cell=2)
        fence.pause_company(connection, company_id, holds=timedelta(seconds=60))
        fence.close_fence(connection, company_id)

    closed = [forward(client, name) for name in (connector, shown_id("con", new_id()))]

    assert {(one.status_code, one.headers["retry-after"], one.text) for one in closed} == {(429, "2", closed[0].text)}
    with client.service.database.transaction() as connection:
        fence.resume_company(connection, company_id)
        fence.forget_move(connection, company_id)
    assert forward(client, connector).status_code == 202


@pytest.mark.parametrize("padding", [0, 200_000, 900_000])
def test_a_large_body_of_a_known_sender_is_read_whole(client: Client, connector: str, padding: int) -> None:
    fix = FORWARDED.report("101", JOLIET["latitude"], JOLIET["longitude"])
    body = FORWARDED.forwarded(fix).ljust(padding)
    headers = {"Content-Type": "application/json", "X-Fuelroute-Token": TOKEN}
    url = f"{client.service.url}/telematics/{connector}"
    stored = httpx.post(url, content=body, headers=headers, timeout=120, verify=False)
    assert stored.json() == {"stored": 1, "leftOut": {}}
    many = b'{"position": [' + b"1," * 100_000 + b"1]}"
    assert httpx.post(url, content=many, headers=headers, timeout=120, verify=False).status_code == 400


def test_strangers_of_one_address_get_no_more_than_their_share(client: Client, connector: str) -> None:
    def seconds_of_a_push_and_a_report() -> float:
        """The push counts twelve times: it may take a second, the report three times the wait for a body."""
        with ExitStack() as stack:
            for _ in range(40):
                announced(stack, client, connector, sent=100_000)
            time.sleep(0.3)
            began = time.monotonic()
            assert forward(client, connector).status_code in (202, 429)
            return max(time.monotonic() - began, 3 * SECONDS * push(client))

    assert one_below(3 * SECONDS, seconds_of_a_push_and_a_report)
