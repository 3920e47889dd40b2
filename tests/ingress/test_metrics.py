"""Metrics for the engineer on call: on a port of their own, whatever the servers behind do."""

import math
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest

from domain.lifecycle import Environment
from domain.queue.jobs import QUEUES
from domain.settings import Settings
from tests.factories import route_body
from tests.metrics import Metrics
from tests.ports import own_port
from tests.servers import OwnRedis
from tests.service import Client, Service, eventually, one_below, running_service, takes_less


@pytest.fixture(scope="module")
def service(settings: Settings, redis: OwnRedis, metrics: Metrics, logs: Path) -> Iterator[Service]:
    own = settings.model_copy(update={"redis_url": redis.url})
    with running_service(own, logs, processes=("ingress",), METRICS_PORT=str(metrics.port)) as running_one:
        yield running_one


def test_metrics_count_requests_and_queues(client: Client, metrics: Metrics) -> None:
    client.push(route_body(datetime.now(UTC)))

    assert metrics.value("fuelroute_request_seconds_count", method="POST", path="/v1/routes", status="202") == 1
    assert metrics.value("fuelroute_routes_pushed_total", effect="create") == 1
    assert metrics.value("fuelroute_process", process="ingress") == 1
    eventually(lambda: metrics.value("fuelroute_queue_jobs", queue="imports"), lambda jobs: jobs == 1)
    for queue in QUEUES:
        assert metrics.value("fuelroute_dead_letters", queue=queue) == 0
    age = metrics.value("fuelroute_queue_measurement_age_seconds")
    assert age is not None
    assert age < 30


def test_rehearsed_errors_are_measured_as_no_errors(service: Service, metrics: Metrics) -> None:
    with service.new_tenant(Environment.SANDBOX) as sandbox:
        assert sandbox.push(route_body(datetime.now(UTC), externalId="SANDBOX-HTTP-500")).status_code == 500

    requests = {"method": "POST", "path": "/v1/routes"}
    assert metrics.value("fuelroute_request_seconds_count", **requests, status="magic") == 1
    assert metrics.value("fuelroute_request_seconds_count", **requests, status="500") is None


def test_metrics_have_no_labels_with_text_of_callers(client: Client, metrics: Metrics) -> None:
    def counts() -> list[float]:
        told = (("/v1/me", "405"), ("(none)", "404"))
        name = "fuelroute_request_seconds_count"
        return [metrics.value(name, method="-", path=path, status=status) or 0 for path, status in told]

    before = counts()
    for number in range(3):
        client.request(f"BREW{number}", "/v1/me")
        client.request(f"BREW{number}", "/v1/nothing")

    assert "BREW" not in metrics.text()
    assert counts() == [one + 3 for one in before]


@pytest.mark.parametrize("path", ["/metrics", "/%6detrics", "/metrics/", "//metrics", "/METRICS"])
def test_the_public_port_has_no_metrics(client: Client, path: str) -> None:
    answer = httpx.get(f"{client.service.url}{path}", timeout=120)

    assert answer.status_code == 404
    assert "fuelroute_" not in answer.text


def test_a_silent_redis_delays_no_scrape_and_no_request_and_its_gauges_are_nan(
    client: Client, metrics: Metrics, redis: OwnRedis
) -> None:
    def measured() -> bool:
        return not math.isnan(metrics.value("fuelroute_queue_jobs", queue="imports") or 0.0)

    def slowest_of_20_scrapes() -> float:
        waits = []
        for _ in range(20):
            started = time.monotonic()
            metrics.text()
            waits.append(time.monotonic() - started)
        return max(waits)

    eventually(measured, bool)
    redis.fall_silent()
    try:
        assert one_below(2, slowest_of_20_scrapes)
        eventually(measured, lambda known: not known)
        before = metrics.value("fuelroute_queue_measurement_age_seconds")
        assert client.get("/v1/vehicles").status_code == 200
        assert takes_less(1, lambda: client.get("/v1/vehicles"))
        assert before is not None
        assert (metrics.value("fuelroute_queue_measurement_age_seconds") or 0) >= before
    finally:
        redis.speak_again()
    eventually(measured, bool)


def test_silent_scrapers_delay_others_only_briefly(service: Service, metrics: Metrics) -> None:
    def text() -> str:
        try:
            return metrics.text()
        except httpx.TransportError:  # every place is taken
            return ""

    with ExitStack() as silent:
        silent.enter_context(socket.create_connection(("127.0.0.1", metrics.port)))
        assert "fuelroute_connections" in metrics.text()
        for _ in range(40):
            silent.enter_context(socket.create_connection(("127.0.0.1", metrics.port)))
        eventually(text, lambda found: "fuelroute_connections" in found)


def test_health_needs_no_key(client: Client) -> None:
    assert httpx.get(f"{client.service.url}/healthz", timeout=120).text == "ok\n"


def test_processes_take_the_first_free_port_of_a_range(settings: Settings, tmp_path: Path) -> None:
    first = own_port(10)
    ports = f"{first}-{first + 9}"
    processes = ("ingress", "imports", "plans", "scheduler")
    with running_service(settings, tmp_path, processes=processes, METRICS_PORT=ports):
        named = {
            name: port
            for port in range(first, first + 10)
            for name in ("ingress", "workers-imports", "workers-plans", "scheduler")
            if Metrics(port).are_of(name)
        }
    assert len(named) == len(set(named.values())) == len(processes)
