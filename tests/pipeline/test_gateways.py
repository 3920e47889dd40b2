"""Drivers' messages through real processes and gateways that are slow, silent, hostile or gone: nobody waits for
another company's gateway, no push is lost, and what GET shows is what the driver has.
"""

import os
import signal
import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from deploy.embedded import EmbeddedRedis, running
from domain.ids import new_id, shown_id
from domain.settings import Settings
from tests.conftest import make_database
from tests.factories import JOLIET, NEWARK, route_body
from tests.gateway import HOST, Gateway
from tests.pipeline.world import give_contacts, messages_of, store_prices
from tests.rows import named, stored_id
from tests.service import Client, Service, eventually, running_service

TIMEOUT_SECONDS = 600.0


@pytest.fixture(scope="module")
def own_settings(settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    with running(EmbeddedRedis(tmp_path_factory.mktemp("redis"), durable=False)) as url:
        yield settings.model_copy(update={"database_url": make_database("gateways"), "redis_url": url})


@pytest.fixture(scope="module")
def service(own_settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service that may call gateways of this machine, and gives up soon."""
    with running_service(
        own_settings,
        tmp_path_factory.mktemp("logs"),
        SWEEP_SECONDS="1",
        IMPORT_WAIT_SECONDS="30",
        MESSAGE_ALLOWED_HOSTS=HOST,
        MESSAGE_TIMEOUT_SECONDS=str(TIMEOUT_SECONDS),
    ) as service:
        store_prices(service)
        yield service


def start_route(client: Client, **changes: Any) -> tuple[str, dict[str, Any]]:
    """Pushes a draft and puts its truck at the first stop. Gives the route's id, and its body."""
    body = route_body(datetime.now(UTC), **changes)
    pushed = client.push(body)
    assert (pushed.status_code, pushed.json()["status"]) == (201, "draft")
    client.post_fixes(JOLIET, unit_number=body["vehicle"]["unitNumber"], fuelPercent=60)
    return pushed.json()["id"], body


def test_a_silent_gateway_of_one_company_does_not_hold_up_another_s_messages(
    client: Client, service: Service, gateway: Gateway
) -> None:
    gateway.answering.clear()
    give_contacts(client, gateway.url)
    add_trucks(client, 8)
    for number in range(8):
        start_route(client, vehicle={"unitNumber": f"S{number}"})
    eventually(lambda: len(gateway.received), lambda calls: calls >= 1, wanted="the first calls")

    with service.new_tenant() as other:
        route_id, _ = start_route(other)
        other.wait_for(route_id, "active")


def test_a_silent_gateway_holds_no_transaction_open(client: Client, service: Service, gateway: Gateway) -> None:
    gateway.answering.clear()
    give_contacts(client, gateway.url)
    start_route(client)
    eventually(lambda: len(gateway.received), lambda calls: calls >= 1, wanted="the call")
    time.sleep(0.5)

    with service.database.transaction() as connection:
        idle = (
            named(connection)
            .execute(
                "SELECT count(*) AS open FROM pg_stat_activity WHERE datname = current_database()"
                " AND state = 'idle in transaction' AND now() - xact_start > interval '300 ms'"
            )
            .fetchone()
        )
    assert idle is not None
    assert idle.open == 0


def test_a_push_during_a_delivery_is_accepted_and_the_next_message_says_corrected(
    client: Client, gateway: Gateway
) -> None:
    gateway.answering.clear()
    give_contacts(client, gateway.url)
    route_id, body = start_route(client)
    eventually(lambda: len(gateway.received), lambda calls: calls == 1, wanted="the call")

    assert client.push(body).status_code == 200
    changed = client.push({**body, "reference": "PO-2"})

    assert (changed.status_code, changed.json()["reference"]) == (200, "PO-2")
    gateway.answering.set()
    client.wait_for(route_id, "active")
    assert [title.partition(" plan for ")[0] for title in gateway.titles] == ["Fuel", "CORRECTED fuel"]
    assert gateway.titles[1].startswith("CORRECTED fuel plan for PO-2")
    assert [message.status for message in messages_of(client, route_id)] == ["sent", "sent"]


def test_a_correction_that_cannot_be_delivered_is_not_shown(client: Client, gateway: Gateway) -> None:
    give_contacts(client, gateway.url)
    route_id, _ = start_route(client)
    client.wait_for(route_id, "active")
    before = client.get(f"/v1/routes/{route_id}")

    gateway.status = 503
    client.post_fixes(JOLIET, at=datetime.now(UTC) + timedelta(seconds=30), fuelPercent=95)
    eventually(lambda: len(gateway.received), lambda calls: calls > 1, wanted="the correction's first attempt")
    eventually(lambda: messages_of(client, route_id), lambda found: bool(found[-1].error), wanted="the refusal")

    same = client.get(f"/v1/routes/{route_id}", headers={"If-None-Match": before.headers["ETag"]})
    assert client.get(f"/v1/routes/{route_id}").json()["fuelPlan"] == before.json()["fuelPlan"]
    assert same.status_code in (200, 304)  # the fixes may have renewed the visits

    gateway.status = 200
    with client.service.database.transaction() as connection:
        connection.execute(
            "UPDATE messages SET retry_at = now() WHERE route_id = %s AND status = 'pending'", (stored_id(route_id),)
        )
    shown = eventually(
        lambda: client.route(route_id), lambda route: bool(route["fuelPlan"] != before.json()["fuelPlan"])
    )
    assert shown["fuelPlan"]["totalGallons"] < before.json()["fuelPlan"]["totalGallons"]
    assert gateway.titles[-1].startswith("CORRECTED fuel plan")


@pytest.fixture
def free_settings(tmp_path: Path) -> Iterator[Settings]:
    """A database and a Redis that nobody else uses."""
    with running(EmbeddedRedis(tmp_path, durable=False)) as url:
        yield Settings(data=tmp_path, database_url=make_database("killed"), redis_url=url)


def test_workers_killed_again_and_again_leave_every_driver_with_the_plan(
    free_settings: Settings, gateway: Gateway, tmp_path: Path
) -> None:
    """A message to a gateway may be repeated after a kill, with the same id; the outbox has each message once."""
    own = free_settings
    gateway.delay_seconds = 0.3
    quick = {"MESSAGE_ALLOWED_HOSTS": HOST, "MESSAGE_TIMEOUT_SECONDS": "5", "SWEEP_SECONDS": "1", "WORKER_THREADS": "6"}
    others = ("ingress", "imports", "arrivals", "plans", "scheduler")
    with running_service(own, tmp_path, processes=others, IMPORT_WAIT_SECONDS="30", **quick) as service:
        store_prices(service)
        with service.new_tenant() as called, service.new_tenant() as quiet:
            give_contacts(called, gateway.url)
            routes = []
            for client in (called, quiet):
                add_trucks(client, 3)
                routes += [(client, start_route(client, vehicle={"unitNumber": f"S{n}"})[0]) for n in range(3)]
            for _ in range(2):
                another = len(gateway.received) + 1
                with running_service(own, tmp_path, processes=("messages",), **quick) as worker:
                    eventually(lambda: len(gateway.received), another.__le__)
                    os.kill(worker.pids["messages"], signal.SIGKILL)
            with running_service(own, tmp_path, processes=("messages",), **quick):
                eventually(lambda: pending(service), lambda count: count == 0, 900, "all messages to be sent")
            for client, route_id in routes:
                assert client.route(route_id)["status"] == "active"

        ids = Counter(message["message"].rpartition("Message ")[2] for message in gateway.received)
        assert len(ids) == 3
        assert sum(ids.values()) <= 3 + 2 * 3, "at most what a company's turns held at each kill"
        for client, route_id in routes:
            (message,) = messages_of(client, route_id)
            assert message.status == "sent"
            if client is quiet:
                assert message.attempts == 1
            else:  # an attempt counts from the claim: a worker may be killed before it has called the gateway
                assert message.attempts >= ids[shown_id("msg", message.id)] >= 1


def pending(service: Service) -> int:
    with service.database.transaction() as connection:
        rows = named(connection).execute("SELECT FROM messages WHERE status = 'pending'").fetchall()
    return len(rows)


def add_trucks(client: Client, count: int) -> None:
    with client.service.database.transaction() as connection:
        for number in range(count):
            connection.execute(
                "INSERT INTO vehicles (id, company_id, unit_number) VALUES (%s, %s, %s)",
                (new_id(), client.fleet.company_id, f"S{number}"),
            )


def test_the_last_stop_is_reached_while_the_first_message_is_on_its_way(client: Client, gateway: Gateway) -> None:
    gateway.answering.clear()
    give_contacts(client, gateway.url)
    route_id, _ = start_route(client)
    eventually(lambda: len(gateway.received), lambda calls: calls == 1, wanted="the call")
    client.post_fixes(NEWARK, at=datetime.now(UTC) + timedelta(seconds=60))

    gateway.answering.set()

    client.wait_for(route_id, "completed")
    messages = eventually(  # the gateway's answer may be stored after the completion
        lambda: messages_of(client, route_id), lambda found: found[0].status != "pending", wanted="the answer"
    )
    assert [message.status for message in messages] == ["sent"]
