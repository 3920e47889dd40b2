"""One request id and one trace, from the push through real processes to the gateway, the webhook and Valhalla."""

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from domain.messages.due_messages import list_messages
from domain.routes.intake.fleet_changes import add_mapping
from domain.routes.reading.history import read_history
from domain.settings import Settings
from tests.conftest import make_database
from tests.domain.webhooks.endpoints import make_endpoint
from tests.factories import DOT, JOLIET, NEWARK, route_body
from tests.gateway import HOST, Gateway, running_gateway
from tests.pipeline.world import give_contacts, store_prices
from tests.rows import stored_id
from tests.servers import own_redis
from tests.service import Client, Service, eventually, running_service
from tests.webhook_receiver import Receiver

TRACE_ID = "0af7651916cd43dd8448eb211c80319c"
TRACEPARENT = f"00-{TRACE_ID}-b7ad6b7169203331-01"


@pytest.fixture(scope="module")
def roads() -> Iterator[Gateway]:
    """Stands where Valhalla would be, and has no road."""
    with running_gateway() as gateway:
        gateway.status = 400
        yield gateway


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("logs")


@pytest.fixture(scope="module")
def service(
    settings: Settings, logs: Path, roads: Gateway, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    with (
        own_redis(tmp_path_factory.mktemp("redis")) as redis,
        running_service(
            settings.model_copy(update={"database_url": make_database("traces"), "redis_url": redis.url}),
            logs,
            IMPORT_WAIT_SECONDS="30",
            MESSAGE_ALLOWED_HOSTS=HOST,
            WEBHOOK_ALLOWED_HOSTS="127.0.0.0/8",
            VALHALLA_URL=re.sub(r"^json://", "http://", roads.url),
        ) as service,
    ):
        store_prices(service)
        yield service


def lines_of(logs: Path, request_id: str) -> list[dict[str, Any]]:
    """The lines of all processes that name the request."""
    lines = [line for log in sorted(logs.glob("*.log")) for line in log.read_text().splitlines() if request_id in line]
    return [json.loads(line) for line in lines if line.startswith("{")]


def drive_to_active(client: Client, request_id: str, **headers: str) -> str:
    body = route_body(datetime.now(UTC), stops=[JOLIET, NEWARK])
    pushed = client.post("/v1/routes", json=body, headers={"X-Request-Id": request_id, **headers})
    assert (pushed.status_code, pushed.headers["x-request-id"]) == (201, request_id)
    client.post_fixes(JOLIET, fuelPercent=60)
    client.wait_for(pushed.json()["id"], "active")
    return str(pushed.json()["id"])


def test_the_request_id_and_the_trace_reach_the_message_and_every_call(
    client: Client, gateway: Gateway, receiver: Receiver, roads: Gateway, logs: Path
) -> None:
    give_contacts(client, gateway.url)
    with client.service.database.transaction() as connection:
        make_endpoint(connection, client.fleet.live, receiver.url)
    request_id = f"tms.{client.key_id.hex}"

    route_id = drive_to_active(client, request_id, traceparent=TRACEPARENT)

    eventually(lambda: gateway.headers_received, bool)
    assert gateway.headers_received[0]["traceparent"] == TRACEPARENT
    eventually(lambda: [one.type for one in receiver.requests], lambda types: "route.active" in types)
    assert {one.headers.get("traceparent") for one in receiver.requests} == {TRACEPARENT}
    assert TRACEPARENT in [headers.get("traceparent") for headers in roads.headers_received]
    with client.service.database.transaction() as connection:
        history = read_history(connection, client.fleet.company_id, stored_id(route_id))
        (message,) = list_messages(connection, client.fleet.company_id)
    assert history is not None
    assert (history.route.request_id, history.route.trace_id) == (request_id, TRACE_ID)
    assert message.request_id == request_id
    wanted = {"routes.imported", "arrivals.enqueued", "plans.built", "messages.delivered"}
    eventually(lambda: {line["event"] for line in lines_of(logs, request_id)}, lambda seen: wanted <= seen)
    found = {line["event"]: line for line in lines_of(logs, request_id)}
    assert found["routes.imported"]["routes"][route_id] == request_id
    assert found["arrivals.enqueued"]["route_id"] == route_id
    assert {found[event]["trace_id"] for event in ("plans.built", "messages.delivered")} == {TRACE_ID}


def test_a_push_that_names_neither_gets_an_id_of_ours_and_no_trace(client: Client, gateway: Gateway) -> None:
    give_contacts(client, gateway.url)
    pushed = client.push(route_body(datetime.now(UTC), stops=[JOLIET, NEWARK]))
    client.post_fixes(JOLIET, fuelPercent=60)
    eventually(lambda: gateway.headers_received, bool)
    assert "traceparent" not in {name.lower() for name in gateway.headers_received[0]}
    with client.service.database.transaction() as connection:
        (message,) = list_messages(connection, client.fleet.company_id)
    assert message.request_id == pushed.headers["x-request-id"]


def test_a_held_route_is_imported_later_with_the_id_of_its_push(client: Client, logs: Path) -> None:
    request_id = f"held-{client.key_id.hex}"
    body = route_body(datetime.now(UTC), vehicle={"unitNumber": "UNKNOWN"})
    pushed = client.post("/v1/routes", json=body, headers={"X-Request-Id": request_id})
    assert pushed.status_code == 202
    with client.service.database.transaction() as connection:
        add_mapping(connection, client.fleet.company_id, "unit_number", "UNKNOWN", client.fleet.trucks[1], DOT)
    client.wait_for(pushed.json()["id"], "draft")

    def outcomes() -> list[dict[str, int]]:
        return [line["outcomes"] for line in lines_of(logs, request_id) if line["event"] == "routes.imported"]

    eventually(outcomes, lambda seen: seen == [{"pending_mapping": 1}, {"draft": 1}])


def test_a_new_push_of_the_load_brings_its_own_id(client: Client) -> None:
    body = route_body(datetime.now(UTC) + timedelta(hours=2))
    for request_id, status in (("first", 201), ("second", 200)):
        changed = {**body, "reference": request_id}
        pushed = client.post(
            "/v1/routes", json=changed, headers={"X-Request-Id": request_id, "traceparent": TRACEPARENT}
        )
        assert pushed.status_code == status
    client.post("/v1/routes", json=changed, headers={"X-Request-Id": "the same again"})
    with client.service.database.transaction() as connection:
        history = read_history(connection, client.fleet.company_id, stored_id(pushed.json()["id"]))
    assert history is not None
    assert history.route.request_id == "second"


@pytest.mark.parametrize("bad", ["", "x" * 129, "a b", "key-svc_live_abcdefgh12345678", "\u00e9"])
def test_a_request_id_that_cannot_be_used_is_replaced(client: Client, bad: str) -> None:
    pushed = client.post(
        "/v1/routes", json=route_body(datetime.now(UTC)), headers={b"X-Request-Id": bad.encode("latin-1")}
    )
    assert pushed.status_code == 201
    assert re.fullmatch("[0-9a-f]{32}", pushed.headers["x-request-id"])


def test_of_two_trace_contexts_none_counts(client: Client) -> None:
    headers = [("traceparent", TRACEPARENT), ("traceparent", TRACEPARENT)]
    pushed = client.post("/v1/routes", json=route_body(datetime.now(UTC)), headers=headers)
    with client.service.database.transaction() as connection:
        history = read_history(connection, client.fleet.company_id, stored_id(pushed.json()["id"]))
    assert history is not None
    assert history.route.traceparent is None
