"""Gauges look healthy while workers hang, fall silent, or hold jobs: the alerts say so."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import dramatiq
import pytest
from dramatiq import Worker

from domain.database.connections import Database
from domain.operations import alerts
from domain.operations.alerts import Alert, Measured, find_alerts
from domain.operations.measurements import measure
from domain.queue import heartbeats
from domain.queue.job_queue import JobQueue
from domain.queue.jobs import QUEUES, Job
from domain.settings import Settings
from tests.service import eventually
from workers.broker import FuelrouteBroker
from workers.presence import Presence


class Hanging:
    """A worker of real threads whose jobs do not end before they may."""

    def __init__(self, settings: Settings, database: Database, *, told: bool = True) -> None:
        self.go_on = threading.Event()
        self.broker = FuelrouteBroker(settings.require_redis_url())
        self.presence = Presence(self.broker, database, QUEUES, threads=2)
        self._sends_heartbeats = told
        for queue in QUEUES:
            dramatiq.actor(broker=self.broker, actor_name=f"tests.{queue}", queue_name=queue, max_retries=0)(self._run)
        self._worker = Worker(self.broker, queues=set(QUEUES), worker_threads=2)

    def _run(self, number: int) -> None:
        assert number == 0 or self.go_on.wait(600)

    def start(self) -> None:
        if self._sends_heartbeats:
            self.presence.start()
        self._worker.start()

    def fall_silent(self) -> None:
        """Its threads go on, and it tells nothing any more."""
        self.presence._stop.set()

    def stop(self) -> None:
        self.go_on.set()
        self._worker.stop(timeout=5_000)
        if self._sends_heartbeats:
            self.presence.stop()
        self.broker.close()
        for client in (self.broker.waiting_client, self.broker.client):
            client.close()


@pytest.fixture
def look(database: Database, jobs: JobQueue, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[str]]:
    """The alerts about queues and workers. A test that waits for one takes patience from it."""
    monkeypatch.setattr(alerts, "STALLED_AFTER", timedelta(hours=1))
    monkeypatch.setattr(alerts, "SILENT_AFTER", timedelta(hours=1))

    def found() -> list[str]:
        now = datetime.now(UTC)
        with database.transaction() as connection:
            seen = measure(connection, jobs.client, now=now)
        return [need.what for need in _of_queues(seen, now) if need.path.startswith("/queues/")]

    return found


def _of_queues(seen: Measured, now: datetime) -> list[Alert]:
    return find_alerts(seen._replace(overdue={}), now=now)


@contextmanager
def hanging(settings: Settings, database: Database, **more: bool) -> Iterator[Hanging]:
    one = Hanging(settings, database, **more)
    one.start()
    try:
        yield one
    finally:
        one.stop()


def job(number: int, queue: str = "plans") -> Job:
    return Job(f"tests.{queue}", queue, {"number": number})


def test_an_alert_tells_of_jobs_in_flight_of_which_none_ends(
    settings: Settings,
    database: Database,
    jobs: JobQueue,
    look: Callable[[], list[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with hanging(settings, database) as worker:
        jobs.put(job(0))
        eventually(lambda: heartbeats.read_last_finished(jobs.client), lambda finished: "plans" in finished)
        jobs.put(*(job(number) for number in range(1, 5)))
        eventually(lambda: jobs.backlog("plans"), lambda waiting: waiting == 0)  # the queue's gauge is green
        assert look() == [], "they have just begun"

        monkeypatch.setattr(alerts, "STALLED_AFTER", timedelta(seconds=3))
        told = eventually(look, lambda found: len(found) == 2)

        assert told[0].startswith("plans has stopped moving: 0 wait, 4 are in flight, and none has ended for")
        assert "holds 4 jobs and has ended none for" in told[1], "and who holds its places"

        worker.go_on.set()
        eventually(look, lambda found: found == [])


def test_an_alert_tells_of_a_worker_that_ends_no_job_though_another_one_works(
    settings: Settings,
    database: Database,
    jobs: JobQueue,
    look: Callable[[], list[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(alerts, "STALLED_AFTER", timedelta(seconds=3))

    def stalled() -> list[str]:
        jobs.put(job(0, "imports"), job(0, "arrivals"))
        return [one for one in look() if "has ended none" in one]

    with hanging(settings, database) as stuck:
        jobs.put(*(job(number) for number in range(1, 5)))
        eventually(lambda: len(stuck.broker.held.get("plans", ())), lambda held: held == 4)
        with hanging(settings, database) as works:
            works.go_on.set()
            eventually(stalled, lambda told: len(told) == 1, wanted="the one that hangs: the other one ends jobs")


def test_an_alert_tells_of_a_worker_whose_heartbeat_is_old_though_it_works(
    settings: Settings,
    database: Database,
    jobs: JobQueue,
    look: Callable[[], list[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(alerts, "SILENT_AFTER", timedelta(seconds=5))
    with hanging(settings, database) as worker:
        eventually(lambda: heartbeats.read_worker_heartbeats(jobs.client, now=datetime.now(UTC)), bool)
        worker.fall_silent()
        told = eventually(look, lambda found: any("stood still" in one for one in found))
        assert "takes jobs, and its figures have stood still for" in " ".join(told)

        jobs.put(job(0))
        eventually(lambda: jobs.client.hlen("dramatiq:plans.msgs"), lambda count: count == 0)


def test_an_alert_tells_of_jobs_held_by_a_worker_without_a_heartbeat(
    settings: Settings, database: Database, jobs: JobQueue, look: Callable[[], list[str]]
) -> None:
    with hanging(settings, database, told=False) as worker:
        jobs.put(*(job(number) for number in range(1, 4)))
        eventually(lambda: len(worker.broker.held.get("plans", ())), lambda held: held == 3)
        assert "A worker without a heartbeat holds 3 jobs" in look()
