"""A company is told of its routes by real processes, from the push to the answer of its endpoint."""

import statistics
import time
from datetime import UTC, datetime, timedelta

import pytest

from domain.webhooks.endpoints import NewSecret
from tests.domain.webhooks.endpoints import events_of, make_endpoint
from tests.factories import route_body
from tests.service import Client, Service, eventually, one_below
from tests.webhook_receiver import Receiver


@pytest.fixture
def endpoint(client: Client, receiver: Receiver) -> NewSecret:
    with client.service.database.transaction() as connection:
        return make_endpoint(connection, client.fleet.live, receiver.url)


def test_a_push_and_a_cancel_are_told(client: Client, receiver: Receiver, endpoint: NewSecret) -> None:
    pushed = client.push(route_body(datetime.now(UTC) + timedelta(hours=1)))
    assert pushed.status_code == 201
    (imported,) = receiver.wait_for(1)
    assert imported.verify(endpoint.secret) == {
        "type": "route.imported",
        "timestamp": imported.document["timestamp"],
        "data": client.route(pushed.json()["id"]),
    }

    assert client.delete(f"/v1/routes/{pushed.json()['id']}").status_code == 204
    _, canceled = receiver.wait_for(2)
    assert canceled.type == "route.canceled"
    assert canceled.document["data"]["status"] == "canceled"


def test_an_idle_service_tells_at_once(client: Client, receiver: Receiver, endpoint: NewSecret) -> None:
    """Most of the time is the test's own: both ends run on a busy machine."""

    def seconds() -> float:
        number = len(receiver.requests)
        client.push(route_body(datetime.now(UTC) + timedelta(hours=1)))
        received = receiver.wait_for(number + 1)[number]
        happened = datetime.fromisoformat(received.document["timestamp"])
        arrived = datetime.now(UTC) - timedelta(seconds=time.monotonic() - received.at)
        return (arrived - happened).total_seconds()

    assert one_below(0.5, lambda: statistics.median(seconds() for _ in range(20)))


def test_a_hint_that_is_lost_is_made_up_by_the_sweep(
    client: Client, service: Service, receiver: Receiver, endpoint: NewSecret
) -> None:
    with service.database.transaction() as connection:  # by hand, so no process knows
        connection.execute("UPDATE webhook_endpoints SET disabled_at = now() WHERE id = %s", (endpoint.endpoint.id,))
    pushed = client.push(route_body(datetime.now(UTC) + timedelta(hours=1))).json()
    with service.database.transaction() as connection:
        connection.execute("UPDATE webhook_endpoints SET disabled_at = NULL WHERE id = %s", (endpoint.endpoint.id,))
        connection.execute("UPDATE routes SET status = 'error' WHERE id = %s", (pushed["id"].removeprefix("rte_"),))

    (told,) = receiver.wait_for(1)
    assert told.type == "route.error"


def test_without_an_endpoint_nothing_is_stored(client: Client, service: Service) -> None:
    assert client.push(route_body(datetime.now(UTC) + timedelta(hours=1))).status_code == 201

    with service.database.transaction() as connection:
        (count,) = connection.execute(
            "SELECT count(*) FROM webhook_events WHERE company_id = %s", (client.fleet.company_id,)
        ).fetchone() or (None,)
    assert count == 0


def test_an_address_inside_the_network_is_not_called(
    client: Client, service: Service, receiver: Receiver, endpoint: NewSecret
) -> None:
    """The name was public when it was judged, and leads into the network when it is called."""
    with service.database.transaction() as connection:
        connection.execute(
            "UPDATE webhook_endpoints SET url = 'http://[::ffff:169.254.169.254]/latest' WHERE id = %s",
            (endpoint.endpoint.id,),
        )
    client.push(route_body(datetime.now(UTC) + timedelta(hours=1)))

    def error() -> str | None:
        with service.database.transaction() as connection:
            events = events_of(connection, endpoint.endpoint.id)
        return events[0].error if events else None

    told = eventually(error, lambda one: one is not None)
    assert told is not None
    assert "is not on the public internet" in told
