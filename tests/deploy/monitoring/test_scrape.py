"""A running service is scraped as Prometheus does it."""

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from domain.queue.jobs import QUEUES
from domain.settings import Settings
from tests.conftest import make_database
from tests.deploy.monitoring.names import documented, expressions, named, series
from tests.deploy.test_metrics_ports import fuelroute, processes_at
from tests.factories import JOLIET, NEWARK, PERRYSBURG, route_body
from tests.metrics import Metrics
from tests.pipeline.world import store_prices
from tests.ports import own_port
from tests.servers import OwnRedis
from tests.service import Service, eventually, running_service

PROCESSES = ("ingress", "console", *QUEUES, "scheduler", "connectors")
WITHOUT_SAMPLES = {
    "fuelroute_connections_refused_total",
    "fuelroute_webhook_attempts_total",
    "fuelroute_plans_relaxed_total",
    "fuelroute_route_reads_total",
    "fuelroute_certificate_end_timestamp_seconds",
    "fuelroute_archive_works",
    "fuelroute_archive_behind_bytes",
    "fuelroute_backup_timestamp_seconds",
    *(f"fuelroute_connector_poll_seconds{part}" for part in ("", "_bucket", "_count", "_sum")),
}
"""Metrics of things that no test of this module brings about."""

Scrape = dict[str, Counter[str]]
"""The sum of each series' samples, by process."""


@pytest.fixture(scope="module")
def ports() -> range:
    first = own_port(len(PROCESSES))
    return range(first, first + len(PROCESSES))


@pytest.fixture(scope="module")
def watched(
    settings: Settings, redis: OwnRedis, ports: range, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    """A service whose database and Redis nobody else uses, so that its figures are its own."""
    data = tmp_path_factory.mktemp("watched")
    own = settings.model_copy(
        update={"database_url": make_database("watched"), "redis_url": redis.url, "data": data, "metrics_port": "1"}
    )
    range_of_ports = f"{ports[0]}-{ports[-1]}"
    with running_service(
        own, data, processes=PROCESSES, METRICS_PORT=range_of_ports, SWEEP_SECONDS="1", CONSOLE_PORT="0"
    ) as service:
        store_prices(service)
        with service.new_tenant() as client:
            now = datetime.now(UTC)
            pushed = client.push(route_body(now, stops=[JOLIET, PERRYSBURG, NEWARK])).json()
            client.post_fixes(JOLIET, fuelPercent=60)
            client.wait_for(pushed["id"], "active")
            for seconds, stop in ((60, PERRYSBURG), (120, NEWARK)):
                client.post_fixes(stop, at=now + timedelta(seconds=seconds))
            client.wait_for(pushed["id"], "completed")
            client.push(route_body(now, externalId="held", vehicle={"unitNumber": "nobody's"}))
            client.get("/v1/routes", params={"externalId": "held"})
        yield service


def scrape(ports: range) -> Scrape:
    found: Scrape = {}
    for port in ports:
        families = list(text_string_to_metric_families(Metrics(port).text()))
        samples = [sample for family in families for sample in family.samples]
        (process,) = (one.labels["process"] for one in samples if one.name == "fuelroute_process")
        of_process = found.setdefault(process, Counter())
        for sample in samples:
            of_process[sample.name] += sample.value  # type: ignore[assignment]
    return found


def test_every_documented_metric_and_all_that_rules_and_panels_name_are_served(watched: Service, ports: range) -> None:
    expected = {name for one in documented() if one.name not in WITHOUT_SAMPLES for name in series(one)}

    served = eventually(
        lambda: {name for of_process in scrape(ports).values() for name in of_process},
        lambda names: expected <= names,
        wanted=f"{expected}",
    )

    wanted = {name for _, expression in expressions() for name in named(expression)}
    assert wanted <= served | WITHOUT_SAMPLES
    assert {name for name in served if name.startswith("fuelroute_") and not name.endswith("_created")} <= {
        name for one in documented() for name in series(one)
    }


def test_figures_of_the_service_come_from_one_process(watched: Service, ports: range) -> None:
    figures = ("fuelroute_held_routes", "fuelroute_scheduler_leads", "fuelroute_data_disk_free_bytes")
    eventually(lambda: scrape(ports)["scheduler"]["fuelroute_held_routes"], lambda held: held == 1)

    for name in figures:
        assert [process for process, samples in scrape(ports).items() if name in samples] == ["scheduler"], name
    scheduler = next(Metrics(port) for port in ports if Metrics(port).are_of("scheduler"))
    assert scheduler.value("fuelroute_held_routes", reason="vehicle_unmapped") == 1
    assert scheduler.value("fuelroute_held_routes", reason="driver_unmapped") == 0
    assert scheduler.value("fuelroute_scheduler_leads") == 1
    assert scheduler.value("fuelroute_queue_paused", queue="plans") == 0
    assert (scheduler.value("fuelroute_stations", price="fresh") or 0) > 0


def test_a_route_is_counted_at_each_step(watched: Service, ports: range) -> None:
    workers = {
        queue: next(Metrics(port) for port in ports if Metrics(port).are_of(f"workers-{queue}")) for queue in QUEUES
    }

    assert workers["plans"].value("fuelroute_plans_total", kind="first", outcome="planned") == 1
    assert workers["messages"].value("fuelroute_messages_total", outcome="sent") == 1
    assert workers["arrivals"].value("fuelroute_visits_total", end="arrival") == 3
    cost = workers["plans"].value("fuelroute_planned_cost_dollars_total", environment="live")
    gallons = workers["plans"].value("fuelroute_planned_gallons_total", environment="live")
    average = workers["plans"].value("fuelroute_planned_average_cost_dollars_total", environment="live")
    assert cost
    assert gallons
    assert average
    assert 2 < cost / gallons < average / gallons < 7, "prices of a gallon"
    assert workers["imports"].value("fuelroute_job_age_seconds_count", queue="imports")


def test_the_processes_of_a_pool_sum_up(settings: Settings, redis: OwnRedis, tmp_path: Path) -> None:
    own = settings.model_copy(
        update={"database_url": make_database("pool"), "redis_url": redis.url.replace("db=0", "db=5")}
    )
    first = own_port(2)
    ports = range(first, first + 2)
    with (
        fuelroute(
            own, tmp_path, "workers", "--queues", "imports", "--processes", "2", FUELROUTE_METRICS_PORT=str(first)
        ),
        running_service(own, tmp_path, processes=("ingress",)) as service,
        service.new_tenant() as client,
    ):
        eventually(lambda: processes_at(ports), lambda found: found == ["workers-imports"] * 2)
        for number in range(60):
            client.push(route_body(datetime.now(UTC), externalId=f"load {number}"))

        imported = eventually(
            lambda: [Metrics(port).value("fuelroute_routes_imported_total", status="draft") or 0 for port in ports],
            lambda counts: sum(counts) == 60,
        )
        assert all(imported), "both have worked"
        jobs = [
            Metrics(port).value("fuelroute_job_seconds_count", queue="imports", job="imports.run", outcome="done")
            for port in ports
        ]
        assert sum(count or 0 for count in jobs) == 60


def test_a_silent_redis_shows_in_the_health_of_each_process(watched: Service, ports: range, redis: OwnRedis) -> None:
    def healthy() -> set[float | None]:
        return {Metrics(port).value("fuelroute_health_check_ok", check="queue") for port in ports}

    eventually(healthy, lambda found: found == {1})  # on a busy machine a check may be late once
    ingress = next(Metrics(port) for port in ports if Metrics(port).are_of("ingress"))
    redis.fall_silent()
    try:
        eventually(healthy, lambda found: found == {0})
        eventually(lambda: ingress.value("fuelroute_health_check_ok", check="database"), lambda ok: ok == 1)
        eventually(lambda: ingress.value("fuelroute_ready"), lambda ready: ready == 1, wanted="pushes, without Redis")
    finally:
        redis.speak_again()
    eventually(healthy, lambda found: found == {1})
