"""A worker obeys pauses, and tells what it does."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import dramatiq
import pytest
import redis
from dramatiq import Worker

from domain.audit.entries import Actor
from domain.database.connections import Database
from domain.operations import pauses
from domain.operations.measurements import database_name
from domain.queue import heartbeats
from domain.queue.inspection import jobs_in, read_queues
from domain.queue.job_queue import JobQueue
from domain.queue.jobs import Job
from domain.queue.rates import read_rates
from domain.settings import Settings
from tests.service import eventually
from workers.broker import FuelrouteBroker
from workers.presence import Presence

ANN = Actor("ann@example.com", "the prices are wrong")


def job(number: int) -> Job:
    return Job("tests.run", "plans", {"number": number})


@contextmanager
def working(settings: Settings, database: Database, run: Callable[[int], None], threads: int = 1) -> Iterator[None]:
    broker = FuelrouteBroker(settings.require_redis_url())
    presence = Presence(broker, database, ["plans"], threads)
    dramatiq.actor(broker=broker, actor_name="tests.run", queue_name="plans", max_retries=0)(run)
    worker = Worker(broker, queues={"plans"}, worker_threads=threads)
    presence.start()
    worker.start()
    try:
        yield
    finally:
        worker.stop(timeout=5_000)
        presence.stop()
        broker.close()


@pytest.fixture(autouse=True)
def _resumed(database: Database) -> Iterator[None]:
    yield
    with database.transaction() as connection:
        pauses.resume(connection, "plans", ANN)


def pause(database: Database) -> None:
    with database.transaction() as connection:
        assert pauses.pause(connection, "plans", ANN, now=datetime.now(UTC))


def resume(database: Database) -> None:
    with database.transaction() as connection:
        assert pauses.resume(connection, "plans", ANN)


def test_a_worker_that_starts_during_a_pause_takes_nothing_until_it_is_over(
    settings: Settings, database: Database, jobs: JobQueue
) -> None:
    ran: list[int] = []
    pause(database)
    jobs.put(job(1))
    with working(settings, database, lambda number: ran.append(number)):
        time.sleep(1.5)
        assert (ran, jobs.backlog("plans")) == ([], 1)

        resume(database)

        eventually(lambda: ran, lambda numbers: numbers == [1])


def await_heartbeat(jobs: JobQueue) -> None:
    after = datetime.now(UTC)
    eventually(
        lambda: heartbeats.read_worker_heartbeats(jobs.client, now=after),
        lambda found: bool(found) and found[0].beat_at > after,
    )


def test_jobs_that_a_worker_took_before_a_pause_go_back_and_run_once_after_it(
    settings: Settings, database: Database, jobs: JobQueue
) -> None:
    ran: list[int] = []
    started, go_on = threading.Event(), threading.Event()

    def run(number: int) -> None:
        started.set()
        assert go_on.wait(180)
        ran.append(number)

    with working(settings, database, run):
        jobs.put(*map(job, range(6)))
        assert started.wait(180)
        pause(database)
        for _ in range(2):  # it has read the pauses between two heartbeats
            await_heartbeat(jobs)
        go_on.set()

        eventually(lambda: jobs.backlog("plans"), lambda waiting: waiting == 5)
        time.sleep(1)
        assert len(ran) == 1, "only what ran already was finished"
        assert {one.in_flight for one in read_queues(jobs.client) if one.queue == "plans"} == {0}

        resume(database)
        eventually(lambda: len(ran), lambda count: count >= 6)
        eventually(lambda: jobs.client.hlen("dramatiq:plans.msgs"), lambda count: count == 0)
    assert sorted(ran) == list(range(6))


def test_a_heartbeat_tells_which_jobs_run_and_since_when_none_ends(
    settings: Settings, database: Database, jobs: JobQueue
) -> None:
    go_on = threading.Event()

    def run(number: int) -> None:
        assert number == 0 or go_on.wait(180)

    with working(settings, database, run):
        jobs.put(job(0))
        eventually(lambda: heartbeats.read_last_finished(jobs.client), lambda finished: "plans" in finished)
        now = datetime.now(UTC)
        jobs.put(job(1), job(2))

        (beat,) = eventually(
            lambda: heartbeats.read_worker_heartbeats(jobs.client, now=now),
            lambda found: bool(found) and found[0].held == 2 and bool(found[0].running),
        )
        assert (beat.done, beat.failed, beat.queues, beat.threads) == (1, 0, ["plans"], 1)
        assert [one.job for one in beat.running] == ["tests.run"]
        with database.transaction() as connection:
            assert beat.database == database_name(connection)
        since = beat.stuck_since
        later = eventually(
            lambda: heartbeats.read_worker_heartbeats(jobs.client, now=now)[0], lambda one: one.beat_at > beat.beat_at
        )
        assert later.stuck_since == since
        assert since is not None
        state = next(one for one in read_queues(jobs.client) if one.queue == "plans")
        assert (state.waiting, state.in_flight) == (0, 2)
        assert state.oldest_at is not None
        assert now - timedelta(seconds=1) < state.oldest_at <= datetime.now(UTC)
        assert {one.payload["number"] for one in jobs_in(jobs.client, "plans", "in-flight", limit=10)} == {1, 2}

        go_on.set()
        eventually(
            lambda: heartbeats.read_worker_heartbeats(jobs.client, now=now)[0],
            lambda one: one.done == 3 and one.stuck_since is None,
        )
    assert heartbeats.read_worker_heartbeats(jobs.client, now=now) == [], "a worker that stops in order is not missed"


def test_a_job_that_fails_counts_as_ended(settings: Settings, database: Database, jobs: JobQueue) -> None:
    def run(number: int) -> None:
        raise ValueError(number)

    with working(settings, database, run):
        jobs.put(job(1))
        beat = eventually(
            lambda: heartbeats.read_worker_heartbeats(jobs.client, now=datetime.now(UTC)),
            lambda found: bool(found) and found[0].failed == 1,
        )[0]
        assert (beat.done, beat.held) == (0, 0)


def test_ended_jobs_are_counted_by_minute_though_a_heartbeat_is_lost(
    settings: Settings, database: Database, jobs: JobQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(number: int) -> None:
        if number == 2:
            raise ValueError(number)

    def ended() -> tuple[int, int, int]:
        now = datetime.now(UTC)
        minutes = next(one for one in read_rates(jobs.client, now=now) if one.queue == "plans").minutes
        return tuple(map(sum, zip(*minutes, strict=True)))  # type: ignore[return-value]  # a Minute has three fields

    with working(settings, database, run):
        told = heartbeats.send_worker_heartbeat
        lost = threading.Event()

        def lose(*arguments: Any) -> None:
            lost.set()
            raise redis.ConnectionError

        monkeypatch.setattr(heartbeats, "send_worker_heartbeat", lose)
        jobs.put(*map(job, range(5)))
        eventually(lambda: jobs.client.hlen("dramatiq:plans.msgs"), lambda count: count == 0)
        lost.clear()
        assert lost.wait(180)
        assert ended() == (5, 0, 0)
        monkeypatch.setattr(heartbeats, "send_worker_heartbeat", told)
        eventually(ended, lambda counts: counts == (5, 4, 1))
        jobs.put(job(7))
        eventually(lambda: jobs.client.hlen("dramatiq:plans.msgs"), lambda count: count == 0)
    assert ended() == (6, 5, 1), "a worker that stops tells the rest"
