"""People of a company are told by real processes, from the push of a route that waits to the mapping that ends it."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from deploy.embedded import EmbeddedRedis, running
from domain.accounts.allowed_hosts import AllowedHosts
from domain.accounts.contacts import IN_CLEAR
from domain.notices.subscriptions import SubscriptionValues, add_subscription
from domain.routes.intake.fleet_changes import add_mapping
from domain.settings import Settings
from tests.conftest import make_database
from tests.domain.notices.subscriptions import notices_of
from tests.factories import DOT, route_body
from tests.gateway import HOST, Gateway, running_gateway
from tests.service import Client, Service, eventually, running_service

CONSOLE = "https://console.example.com"


@pytest.fixture(scope="module")
def service(settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service that looks at the needs each second, and may call gateways of this machine."""
    logs: Path = tmp_path_factory.mktemp("logs")
    with running(EmbeddedRedis(tmp_path_factory.mktemp("redis"), durable=False)) as redis_url:
        own = settings.model_copy(update={"database_url": make_database("notices"), "redis_url": redis_url})
        with running_service(
            own,
            logs,
            IMPORT_WAIT_SECONDS="30",
            NOTICES_SECONDS="1",
            NOTICES_END_SECONDS="2",
            MESSAGE_ALLOWED_HOSTS=HOST,
            CONSOLE_URL=CONSOLE,
        ) as one:
            yield one


def subscribe(client: Client, url: str) -> None:
    values = SubscriptionValues(
        name="Desk",
        kinds=("vehicle_unmapped",),
        url=url,
        after_minutes=0,
        quiet_from=None,
        quiet_until=None,
        time_zone="America/Chicago",
    )
    with client.service.database.transaction() as connection:
        allowed = AllowedHosts.read(HOST)
        add_subscription(connection, client.fleet.company_id, None, values, DOT, allowed=allowed, contacts=IN_CLEAR)


def push_unknown(client: Client, *loads: str) -> None:
    for load in loads:
        body = route_body(datetime.now(UTC), externalId=load, vehicle={"unitNumber": "X-77"})
        assert client.push(body).json()["status"] == "pending_mapping"


def wait_for(gateway: Gateway, count: int) -> list[str]:
    return eventually(lambda: gateway.titles, lambda titles: len(titles) >= count, wanted=f"{count} notices")


def test_a_route_that_waits_is_told_and_so_is_its_mapping(client: Client, gateway: Gateway) -> None:
    push_unknown(client, "LOAD-7", "LOAD-9")
    subscribe(client, gateway.url)

    assert wait_for(gateway, 1) == ["Acme: 2 routes wait for vehicles that the fleet does not know"]
    which, page = gateway.received[0]["message"].split("\n")
    assert sorted(which.split(", ")) == ["LOAD-7", "LOAD-9"]
    assert page == f"{CONSOLE}/matching/vehicles"

    with client.service.database.transaction() as connection:
        add_mapping(connection, client.fleet.company_id, "unit_number", "X-77", client.fleet.trucks[1], DOT)
    assert wait_for(gateway, 2)[1] == "Acme: over. No route waits for an unknown vehicle any more"

    with client.service.database.transaction() as connection:
        notices = notices_of(connection, client.fleet.company_id)
    assert [(one.part, one.attempts) for one in notices] == [("beginning", 1), ("end", 1)]


def test_a_silent_gateway_of_one_company_holds_up_no_notice_of_another(
    client: Client, service: Service, gateway: Gateway
) -> None:
    gateway.answering.clear()
    for number in range(8):
        subscribe(client, f"{gateway.url}{number}")
    push_unknown(client, "LOAD-1")
    eventually(lambda: len(gateway.received), lambda calls: calls >= 1, wanted="the first calls")

    with service.new_tenant() as other, running_gateway() as well:
        push_unknown(other, "LOAD-2")
        subscribe(other, well.url)
        wait_for(well, 1)
    assert not gateway.answering.is_set()
