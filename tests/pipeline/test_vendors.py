"""Each vendor of telematics feeds a truck through a whole route, through real processes and with faults on the way. All
drive at the same time, since the time goes into waiting for polls.

Samsara's and Motive's drivers get their message in the cab."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from deploy.embedded import EmbeddedRedis, running
from domain.accounts.allowed_hosts import AllowedHosts
from domain.accounts.contacts import IN_CLEAR
from domain.connectors.connectors import ConnectorValues, add_connector
from domain.ids import shown_id
from domain.settings import Settings
from tests.conftest import make_database
from tests.factories import DOT, JOLIET, route_body
from tests.pipeline.world import give_contacts, messages_of, store_prices
from tests.rows import named
from tests.service import ALL_PROCESSES, Client, Service, eventually, running_service
from tests.vendors.eld import running_eld
from tests.vendors.geotab import running_geotab
from tests.vendors.motive import Motive, running_motive
from tests.vendors.samsara import Samsara, running_samsara
from tests.vendors.traccar import running_traccar
from tests.vendors.vendor import HOST, Fault, Vendor

MILE = 1 / 51.7
"""Degrees of longitude at Joliet."""

YARD = {"name": "Yard", "latitude": JOLIET["latitude"], "longitude": JOLIET["longitude"] + 4 * MILE}

FIXES = ((-60, 0.0, 0.0), (-30, 0.0, 0.0), (30, 1.0, 60.0), (120, 2.5, 60.0), (210, 4.0, 0.0), (240, 4.0, 0.0))
"""Seconds from now, miles from the first stop, and mph."""

FAULT_OF: dict[str, Fault] = {
    "samsara": "limit",
    "motive": "cut",
    "geotab": "limit",
    "traccar": "error",
    "eld": "not json",
}


@dataclass
class Trip:
    """A truck 101 that its vendor follows."""

    kind: str
    vendor: Any
    client: Client
    connector: str
    """The connector's id, as people see it."""
    route_id: str = ""

    def stored(self) -> int:
        with self.client.service.database.transaction() as connection:
            (row,) = named(connection).execute(
                "SELECT count(*) AS number FROM positions WHERE company_id = %s", (self.client.fleet.company_id,)
            )
        return int(row.number)


def drive(trips: list[Trip], number: int, begun: datetime) -> None:
    """The next fix of each truck, until all are stored. Motive tells of the last one by webhook."""
    seconds, miles, mph = FIXES[number]
    for trip in trips:
        fix = trip.vendor.report(
            "101",
            JOLIET["latitude"],
            JOLIET["longitude"] + miles * MILE,
            begun + timedelta(seconds=seconds),
            speed_mph=mph,
        )
        if isinstance(trip.vendor, Motive) and number == len(FIXES) - 1:
            body, headers = trip.vendor.webhook(fix)
            url = f"{trip.client.service.url}/telematics/{trip.connector}"
            assert httpx.post(url, content=body, headers=headers, timeout=120).status_code == 202
            forged = {**headers, "X-KT-Webhook-Signature": "0" * 40}
            assert httpx.post(url, content=body, headers=forged, timeout=120).status_code == 401
    for trip in trips:
        eventually(trip.stored, lambda count: count > number, wanted=f"fix {number} of {trip.kind}")


@pytest.fixture(scope="module")
def trips(settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Trip]]:
    with ExitStack() as stack:
        redis = stack.enter_context(running(EmbeddedRedis(tmp_path_factory.mktemp("redis"), durable=False)))
        own = settings.model_copy(update={"database_url": make_database("vendors"), "redis_url": redis})
        service = stack.enter_context(
            running_service(
                own,
                tmp_path_factory.mktemp("logs"),
                processes=(*ALL_PROCESSES, "connectors"),
                CONNECTOR_ALLOWED_HOSTS=HOST,
                CONNECTOR_POLL_SECONDS="1",
                READ_STATUS_SECONDS="1",
                SWEEP_SECONDS="1",
            )
        )
        store_prices(service)
        samsara, motive = stack.enter_context(running_samsara()), stack.enter_context(running_motive())
        geotab, traccar = stack.enter_context(running_geotab()), stack.enter_context(running_traccar())
        eld = stack.enter_context(running_eld())
        samsara.reads_at_once = True
        signed_in = {"database": geotab.database, "username": geotab.username, "password": geotab.token}
        begun = [
            begin(service, stack, "samsara", samsara, samsara.url, {"token": samsara.token}),
            begin(
                service,
                stack,
                "motive",
                motive,
                motive.url,
                {"token": motive.token, "webhook_secret": motive.webhook_secret},
            ),
            begin(service, stack, "geotab", geotab, geotab.url, signed_in),
            begin(service, stack, "traccar", traccar, traccar.url, {"token": traccar.token}),
            begin(
                service,
                stack,
                "eld",
                eld,
                f"{eld.url}/api/v2/units-by-usdot/{eld.usdot}",
                {"api_key": eld.token, "provider_token": eld.provider_token},
            ),
        ]
        now = datetime.now(UTC)
        for number in range(len(FIXES)):
            drive(begun, number, now)
            if number == 0:
                for trip in begun:
                    trip.vendor.fail(FAULT_OF[trip.kind])
            if number == 1:
                for trip in begun:
                    trip.client.wait_for(trip.route_id, "active")
        yield {trip.kind: trip for trip in begun}


def begin(service: Service, stack: ExitStack, kind: str, vendor: Vendor, url: str, credentials: dict[str, str]) -> Trip:
    """A company with a connector and a draft for truck 101."""
    client = stack.enter_context(service.new_tenant())
    if isinstance(vendor, Samsara | Motive):
        give_contacts(client, f"{kind}://4242")
    with service.database.transaction() as connection:
        made = add_connector(
            connection,
            client.fleet.live,
            ConnectorValues(kind, credentials, url=url),
            DOT,
            allowed=AllowedHosts.read(HOST),
            contacts=IN_CLEAR,
        )
    pushed = client.push(route_body(datetime.now(UTC), stops=[JOLIET, YARD]))
    assert pushed.status_code == 201, pushed.text
    return Trip(kind, vendor, client, shown_id("con", made.id), str(pushed.json()["id"]))


@pytest.mark.parametrize("kind", FAULT_OF)
def test_a_truck_is_followed_from_its_first_stop_to_its_last(trips: dict[str, Trip], kind: str) -> None:
    trip = trips[kind]
    completed = trip.client.wait_for(trip.route_id, "completed")
    assert all(stop["actualArrival"] for stop in completed["stops"])
    assert trip.stored() == len(FIXES), "no fix was lost or doubled"
    assert not trip.vendor.faults, "the fault struck"


def test_samsara_s_driver_reads_the_message_in_the_cab(trips: dict[str, Trip]) -> None:
    trip = trips["samsara"]
    (sent,) = trip.vendor.messages
    (message,) = eventually(
        lambda: messages_of(trip.client, trip.route_id), lambda found: found[0].read_at is not None, wanted="read"
    )
    assert (sent.driver_id, sent.text, message.channel, message.status) == (4242, message.text, "samsara", "sent")


def test_motive_s_driver_gets_the_message_in_the_cab_once(trips: dict[str, Trip]) -> None:
    (sent,) = trips["motive"].vendor.messages
    (message,) = messages_of(trips["motive"].client, trips["motive"].route_id)
    assert (sent.recipient_id, sent.body, message.channel) == (4242, message.text, "motive")
