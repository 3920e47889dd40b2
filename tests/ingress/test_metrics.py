"""What the on-call engineer looks at."""

from datetime import UTC, datetime

import httpx

from domain.jobs import QUEUES
from tests.factories import route_body
from tests.service import Client


def test_metrics_tell_of_requests_and_queues_without_a_key(client: Client) -> None:
    client.push(route_body(datetime.now(UTC)))

    text = httpx.get(f"{client.service.url}/metrics").text

    assert 'fuelroute_request_seconds_count{method="POST",path="/v1/routes",status="201"}' in text
    assert 'fuelroute_routes_pushed_total{effect="create"}' in text
    for queue in QUEUES:
        assert f'fuelroute_queue_jobs{{queue="{queue}"}} ' in text
        assert f'fuelroute_dead_letters{{queue="{queue}"}} 0.0' in text


def test_health_needs_no_key(client: Client) -> None:
    assert httpx.get(f"{client.service.url}/healthz").text == "ok\n"
