"""The leading scheduler's gauges of the service: exact, absent when nobody knows, the same for every company."""

import math
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from prometheus_client import Gauge
from psycopg import sql

from domain import clock
from domain.audit.entries import Actor
from domain.database.connections import Database
from domain.operations import pauses
from domain.operations.archives import ARCHIVE_SLOT
from domain.queue.job_queue import JobQueue
from domain.queue.jobs import build_plan_job
from domain.queue.redis_clients import redis_client
from domain.settings import Settings
from domain.stations.stations import store_station_rows
from domain.telemetry import metrics
from scheduler.process import _count_run
from scheduler.service_gauges import ServiceGauges
from tests.conftest import make_database
from tests.domain.helpers import pushed
from tests.factories import STATIONS, make_fleet


@pytest.fixture(scope="module")
def own(settings: Settings) -> Settings:
    return settings.model_copy(update={"database_url": make_database("gauges")})


@pytest.fixture
def gauges(own: Settings, jobs: JobQueue, tmp_path: Path) -> Iterator[ServiceGauges]:
    with Database.of(own) as database:
        yield ServiceGauges(database, jobs.client, tmp_path, tmp_path)


def shown(gauge: Gauge) -> dict[str, float]:
    """The samples of a gauge with one label, by its value."""
    return {"".join(sample.labels.values()): sample.value for sample in next(iter(gauge.collect())).samples}


def test_held_routes_are_counted_by_reason_over_all_companies(own: Settings, gauges: ServiceGauges) -> None:
    now = datetime.now(UTC)
    with Database.of(own) as database, database.transaction() as connection:
        for days, reason in ((1, "vehicle_unmapped"), (3, "vehicle_unmapped"), (2, "driver_unmapped")):
            fleet = make_fleet(connection)
            route_id = pushed(connection, fleet.live, now=now, start=now + timedelta(days=9))
            connection.execute(
                "UPDATE routes SET status = 'pending_mapping', pending_reason = %s, retry_at = NULL, created_at = %s"
                " WHERE id = %s",
                (reason, now - timedelta(days=days), route_id),
            )

    gauges.measure()

    held = shown(metrics.HELD_ROUTES)
    assert (held["vehicle_unmapped"], held["driver_unmapped"], held["outside_import_window"]) == (2, 1, 0)
    oldest = shown(metrics.HELD_OLDEST)
    assert oldest["vehicle_unmapped"] == pytest.approx(3 * 86_400, abs=60)
    assert oldest["driver_unmapped"] == pytest.approx(2 * 86_400, abs=60)
    assert oldest["outside_import_window"] == 0


def test_prices_pauses_disk_and_the_start_of_the_server_are_shown(own: Settings, gauges: ServiceGauges) -> None:
    now = datetime.now(UTC)
    with Database.of(own) as database, database.transaction() as connection:
        stored = store_station_rows(connection, STATIONS, now=now).created
        connection.execute(
            "UPDATE stations SET priced_at = %s WHERE station_id = (SELECT min(station_id) FROM stations)",
            (now - timedelta(days=8),),
        )
        pauses.pause(connection, "plans", Actor("a test", "it waits"), now=now)
    try:
        gauges.measure()
    finally:
        with Database.of(own) as database, database.transaction() as connection:
            pauses.resume(connection, "plans", Actor("a test", "it is over"))

    assert shown(metrics.STATIONS_BY_PRICE) == {"fresh": stored - 1, "old": 1, "none": 0}
    assert shown(metrics.QUEUE_PAUSED)["plans"] == 1
    assert shown(metrics.QUEUE_PAUSED)["imports"] == 0
    assert 0 < shown(metrics.DATABASE_STARTED)[""] <= now.timestamp()
    assert 0 < shown(metrics.DISK_FREE)[""] <= shown(metrics.DISK_SIZE)[""]
    assert shown(metrics.DATABASE_TAKES_CHANGES)[""] == 1
    assert shown(metrics.OVERDUE)["stale-prices"] == 1
    assert shown(metrics.SERVICE_AGE)[""] < 60


def test_an_archive_that_does_not_work_and_the_newest_backup_are_shown(
    own: Settings, gauges: ServiceGauges, tmp_path: Path
) -> None:
    gauges.measure()
    assert shown(metrics.NEWEST_BACKUP)[""] == 0
    (tmp_path / "backups" / "20261128T000000Z").mkdir(parents=True)
    (tmp_path / "backups" / "20261128T000000Z" / "backup.json").touch()
    superuser = own.require_database_url().replace("//fuelroute@/", "//postgres@/")
    with psycopg.connect(superuser, autocommit=True) as connection:
        connection.execute(f"SELECT pg_create_physical_replication_slot('{ARCHIVE_SLOT}', true)")
        try:
            gauges.measure()
        finally:
            connection.execute(f"SELECT pg_drop_replication_slot('{ARCHIVE_SLOT}')")

    assert shown(metrics.ARCHIVE_WORKS)[""] == 0
    assert shown(metrics.ARCHIVE_BEHIND)[""] >= 0
    assert shown(metrics.NEWEST_BACKUP)[""] == pytest.approx(datetime.now(UTC).timestamp(), abs=600)


def test_a_database_that_takes_no_changes_is_shown(settings: Settings, jobs: JobQueue, tmp_path: Path) -> None:
    url = make_database("read_only_gauges")
    superuser = url.replace("//fuelroute@/", "//postgres@/")
    with psycopg.connect(superuser, autocommit=True) as connection:
        name = sql.Identifier(connection.info.dbname)
        connection.execute(sql.SQL("ALTER DATABASE {} SET default_transaction_read_only = on").format(name))

    with Database.of(settings.model_copy(update={"database_url": url})) as database:
        ServiceGauges(database, jobs.client, tmp_path).measure()

    assert shown(metrics.DATABASE_TAKES_CHANGES)[""] == 0


def test_the_longest_backlog_of_one_company_is_shown(gauges: ServiceGauges, jobs: JobQueue) -> None:
    short, long = uuid4(), uuid4()
    jobs.put(*(build_plan_job(uuid4(), company) for company, count in ((short, 50), (long, 300)) for _ in range(count)))

    gauges.measure()

    assert 200 < shown(metrics.QUEUE_LARGEST_BACKLOG)["plans"] <= 300, "some were dealt to the queue"
    assert shown(metrics.QUEUE_LARGEST_BACKLOG)["imports"] == 0


def test_without_a_database_and_redis_no_old_number_is_shown(settings: Settings, gauges: ServiceGauges) -> None:
    gauges.measure()
    assert shown(metrics.HELD_ROUTES)
    away = settings.model_copy(
        update={"database_url": "postgresql://nobody@127.0.0.1:9/nothing", "database_timeout_seconds": 0.2}
    )
    with Database.of(away) as database, redis_client("redis://127.0.0.1:9/0") as client:
        ServiceGauges(database, client, Path("/no/such/folder")).measure()

    for gauge in (metrics.HELD_ROUTES, metrics.OVERDUE, metrics.STATIONS_BY_PRICE, metrics.QUEUE_PAUSED):
        assert shown(gauge) == {}
    for known in (metrics.DATABASE_STARTED, metrics.DATABASE_TAKES_CHANGES, metrics.ARCHIVE_WORKS):
        assert math.isnan(shown(known)[""])
    assert math.isnan(shown(metrics.QUEUE_LARGEST_BACKLOG)["plans"])
    assert shown(metrics.SERVICE_AGE)[""] == math.inf


def test_a_measurement_that_waits_for_a_lock_gives_up(own: Settings, gauges: ServiceGauges) -> None:
    with Database.of(own) as database, database.transaction() as connection:
        connection.execute("LOCK TABLE stations IN ACCESS EXCLUSIVE MODE")
        measuring = threading.Thread(target=gauges.measure)
        measuring.start()
        measuring.join(180)

        assert not measuring.is_alive()
    assert shown(metrics.HELD_ROUTES) == {}


def test_a_failed_run_of_a_pass_is_no_success() -> None:
    _count_run("a test's", 0.1, {}, failed=True)
    assert "a test's" not in shown(metrics.PASS_SUCCEEDED)

    _count_run("a test's", 0.1, {"things": 3}, failed=False)
    assert shown(metrics.PASS_SUCCEEDED)["a test's"] == pytest.approx(datetime.now(UTC).timestamp(), abs=60)
    runs = {
        sample.labels["outcome"]: sample.value
        for sample in next(iter(metrics.PASSES.collect())).samples
        if sample.name.endswith("_count") and sample.labels["pass"] == "a test's"
    }
    assert runs == {"done": 1, "failed": 1}


def test_the_success_of_a_pass_is_dated_by_the_clock_of_the_service(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine whose clock is a day ahead would keep FuelroutePassLate silent for a day; one behind would fire it."""
    moment = datetime(2026, 11, 22, tzinfo=UTC)
    monkeypatch.setattr(clock, "now", lambda: moment)

    _count_run("another test's", 0.1, {}, failed=False)

    assert shown(metrics.PASS_SUCCEEDED)["another test's"] == moment.timestamp()
