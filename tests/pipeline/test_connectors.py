"""A truck that only its vendor hears drives a whole route: the vendor is asked, or sends, and the route moves on."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from domain.connectors.connectors import Connector, pause_connector, resume_connector
from domain.ids import new_id, shown_id
from tests.domain.webhooks.endpoints import make_endpoint
from tests.factories import DOT, JOLIET, NEWARK, PERRYSBURG, route_body
from tests.pipeline.world import store_prices
from tests.service import Client, Service
from tests.vendors.samsara import running_samsara
from tests.vendors.traccar import Traccar, running_traccar
from tests.vendors.vendor import Vendor
from tests.webhook_receiver import Receiver
from tests.workers.connectors.polling import connected, polling, row_of, wait_until

STOPS = [JOLIET, PERRYSBURG, NEWARK]
FORWARD_TOKEN = "a-token-of-forwarding"

Send = Callable[[dict[str, Any], datetime], object]
"""Has the truck stand at a stop at a time."""


@pytest.fixture(scope="module", autouse=True)
def _prices(service: Service) -> None:
    store_prices(service)


@pytest.fixture
def traccar() -> Iterator[Traccar]:
    with running_traccar() as vendor:
        yield vendor


def drive(client: Client, receiver: Receiver, send: Send) -> None:
    """The whole route, from the draft to its completion, as the company's webhooks tell it."""
    with client.service.database.transaction() as connection:
        make_endpoint(connection, client.fleet.live, receiver.url)
    pushed = client.push(route_body(datetime.now(UTC), stops=STOPS))
    assert (pushed.status_code, pushed.json()["status"]) == (201, "draft")
    route_id = pushed.json()["id"]
    now = datetime.now(UTC)
    send(JOLIET, now)
    active = client.wait_for(route_id, "active")
    assert active["fuelPlan"]["stops"], "60 % of 200 gallons do not reach Newark"
    for stop in (PERRYSBURG, NEWARK):
        now += timedelta(seconds=45)
        send(stop, now)
    completed = client.wait_for(route_id, "completed")
    assert all(stop["actualArrival"] for stop in completed["stops"] if stop["type"] != "fuel_stop")
    told = [event.type for event in receiver.wait_for(4)]
    assert told == ["route.imported", "route.planned", "route.active", "route.completed"]


def reports(vendor: Vendor, unit_number: str = "101") -> Send:
    """The vendor hears three fixes of the standing truck."""

    def send(stop: dict[str, Any], at: datetime) -> None:
        for number in range(3):
            moment = at - timedelta(seconds=15 * (2 - number))
            vendor.report(unit_number, stop["latitude"], stop["longitude"], moment, fuel_percent=60)

    return send


def forwards(service: Service, vendor: Traccar, connector: Connector) -> Send:
    """Traccar hears them, and forwards each."""

    def send(stop: dict[str, Any], at: datetime) -> None:
        reports(vendor)(stop, at)
        for fix in vendor.fixes[-3:]:
            answer = forward(service, connector, vendor.forwarded(fix))
            assert (answer.status_code, answer.json()) == (202, {"stored": 1, "leftOut": {}})

    return send


def forward(service: Service, connector: Connector, body: bytes, token: str | None = FORWARD_TOKEN) -> httpx.Response:
    headers = {"Content-Type": "application/json", **({"X-Fuelroute-Token": token} if token is not None else {})}
    return httpx.post(
        f"{service.url}/telematics/{shown_id('con', connector.id)}", content=body, headers=headers, timeout=120
    )


def test_samsara_feeds_a_truck_through_a_whole_route(
    client: Client, service: Service, receiver: Receiver, tmp_path: Path
) -> None:
    with running_samsara() as vendor, polling(service.settings, tmp_path):
        connector = connected(service.database, client.fleet.live, "samsara", vendor.url, {"token": vendor.token})
        wait_until(lambda: row_of(service.database, connector).answered_at is not None)  # it begins with the newest
        drive(client, receiver, reports(vendor))


def _polls(vendor: Traccar, since: int) -> int:
    return [one.path for one in vendor.requests[since:]].count("/api/positions")


def test_traccar_is_asked_for_a_truck_through_a_whole_route(
    client: Client, service: Service, traccar: Traccar, receiver: Receiver, tmp_path: Path
) -> None:
    """It only tells the newest position, so the truck stands until it was asked."""
    with polling(service.settings, tmp_path):
        credentials = {"email": traccar.email, "password": traccar.password}
        connected(service.database, client.fleet.live, "traccar", traccar.url, credentials)

        def send(stop: dict[str, Any], at: datetime) -> None:
            for number in range(3):  # a truck that jumps is believed at its third fix
                asked = len(traccar.requests)
                traccar.report("101", stop["latitude"], stop["longitude"], at - timedelta(seconds=15 * (2 - number)))
                wait_until(lambda asked=asked: _polls(traccar, asked) >= 2)

        drive(client, receiver, send)


def test_traccar_forwards_a_truck_through_a_whole_route(
    client: Client, service: Service, traccar: Traccar, receiver: Receiver
) -> None:
    connector = connected(service.database, client.fleet.live, "traccar", traccar.url, {"forward_token": FORWARD_TOKEN})
    drive(client, receiver, forwards(service, traccar, connector))


def test_a_request_that_comes_twice_changes_nothing(client: Client, service: Service, traccar: Traccar) -> None:
    connector = connected(service.database, client.fleet.live, "traccar", traccar.url, {"forward_token": FORWARD_TOKEN})
    body = traccar.forwarded(traccar.report("101", 41.0, -88.0))
    assert forward(service, connector, body).json() == {"stored": 1, "leftOut": {}}
    assert forward(service, connector, body).json() == {"stored": 0, "leftOut": {"repeated": 1}}
    address = f"{service.url}/telematics/{shown_id('con', connector.id)}?token={FORWARD_TOKEN}"
    assert (
        httpx.post(address, content=body, headers={"Content-Type": "application/json"}, timeout=120).status_code == 202
    )


def test_strangers_cannot_tell_a_wrong_token_from_an_unknown_connector(
    client: Client, service: Service, traccar: Traccar
) -> None:
    with running_samsara() as samsara:
        sends_nothing = connected(service.database, client.fleet.live, "samsara", samsara.url, {"token": samsara.token})
    connector = connected(service.database, client.fleet.live, "traccar", traccar.url, {"forward_token": FORWARD_TOKEN})
    body = traccar.forwarded(traccar.report("101", 41.0, -88.0))
    answers = [
        forward(service, connector, body, "another-token-here"),
        forward(service, connector, body, ""),
        forward(service, connector, body, None),
        forward(service, connector, b"not even JSON", "another-token-here"),
        forward(service, connector._replace(id=new_id()), body),
        forward(service, sends_nothing, body),
        httpx.post(
            f"{service.url}/telematics/nonsense",
            content=body,
            headers={"Content-Type": "application/json"},
            timeout=120,
        ),
    ]
    assert {(answer.status_code, answer.text) for answer in answers} == {(401, answers[0].text)}

    for nonsense in (b"", b"[]", b"{}", b'{"position": {}, "device": {"id": "x"}}', b"\xff", b"[" * 100_000):
        assert forward(service, connector, nonsense).status_code == 400
    with service.database.transaction() as connection:
        pause_connector(connection, client.fleet.company_id, connector.id, DOT, now=datetime.now(UTC))
    paused = forward(service, connector, body)
    assert (paused.status_code, paused.headers["retry-after"]) == (429, "60")
    assert "paused" in paused.json()["detail"]
    with service.database.transaction() as connection:
        resume_connector(connection, client.fleet.company_id, connector.id, DOT)
    assert forward(service, connector, body).status_code == 202
