"""Jobs of a worker that died return to their queue. A worker that is slow, or whose connection was cut, keeps its
jobs."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from domain.queue import dead_workers
from domain.queue.dead_workers import DEAD_SECONDS, FROZEN_SECONDS, SIGN_SECONDS, WorkerWatch
from domain.queue.job_queue import JobQueue
from domain.queue.jobs import Job
from domain.queue.redis_layout import DRAMATIQ_HEARTBEATS, SIGNS_OF_LIFE, taken_key
from tests.service import eventually
from tests.workers.one_queue import QUEUE, Server, job, seen_by, working
from workers.broker import FuelrouteBroker


class Clock:
    """The clock of the watches of a test, which moves it."""

    def __init__(self) -> None:
        self.seconds = 1_000.0

    def monotonic(self) -> float:
        return self.seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    one = Clock()
    monkeypatch.setattr(dead_workers, "time", one)
    return one


@contextmanager
def holding_process(server: Server, queue: JobQueue) -> Iterator["subprocess.Popen[bytes]"]:
    """A worker process that has taken all jobs and ends none."""
    process = subprocess.Popen([sys.executable, "-m", "tests.workers.holding_worker", server.url])
    try:
        eventually(lambda: held(queue), lambda jobs: jobs > 0)
        yield process
    finally:
        process.kill()
        process.wait()


def held(queue: JobQueue) -> int:
    """Jobs that some worker has taken."""
    return sum(queue.client.scard(key) for key in queue.client.keys(taken_key("*", QUEUE)))


@contextmanager
def watch(server: Server, name: str) -> Iterator[WorkerWatch]:
    one = WorkerWatch(server.url, name, [QUEUE])
    try:
        yield one
    finally:
        one._client.close()


def taken_by(server: Server, queue: JobQueue, worker: str) -> None:
    """Gives a job to a worker."""
    queue.put_once(Job("tests.run", QUEUE, {"number": 1}, key="one"))
    broker = FuelrouteBroker(server.url)
    broker.broker_id = worker
    broker.declare_queue(QUEUE)
    assert next(broker.consume(QUEUE)) is not None
    broker.close()


def look_for(one: WorkerWatch, clock: Clock, seconds: float) -> None:
    """Looks again and again, as a worker does."""
    until = clock.seconds + seconds
    while clock.seconds < until:
        one.look()
        clock.seconds += SIGN_SECONDS
    one.look()


def jobs_after_a_look(one: WorkerWatch, queue: JobQueue) -> tuple[int, int]:
    """The jobs held and waiting after one more look. Redis notices a closed connection a moment later."""
    one.look()
    return held(queue), queue.backlog(QUEUE)


def test_another_worker_runs_the_jobs_of_one_that_was_killed(server: Server, queue: JobQueue) -> None:
    queue.put_once(*(Job("tests.run", QUEUE, {"number": number}, key=str(number)) for number in range(5)))
    seen: list[int] = []
    with holding_process(server, queue) as process:
        eventually(lambda: held(queue), lambda jobs: jobs == 5)
        with working(server.url, seen_by(seen)):
            process.send_signal(signal.SIGKILL)
            eventually(lambda: sorted(seen), lambda numbers: numbers == [0, 1, 2, 3, 4])
            eventually(lambda: queue.client.hlen(f"dramatiq:{QUEUE}.msgs"), lambda jobs: jobs == 0)
            assert queue.client.hlen(SIGNS_OF_LIFE) == 1


def test_a_worker_that_starts_after_the_death_runs_the_jobs(server: Server, queue: JobQueue) -> None:
    queue.put(job(number=1))
    with holding_process(server, queue) as process:
        process.kill()
    seen: list[int] = []
    with working(server.url, seen_by(seen)):
        eventually(lambda: seen, lambda numbers: numbers == [1])


def test_a_frozen_worker_keeps_its_jobs_until_patience_ends_and_then_does_no_harm(
    server: Server, queue: JobQueue, clock: Clock
) -> None:
    queue.put(job(number=1))
    with holding_process(server, queue) as process, watch(server, "watcher") as watcher:
        os.kill(process.pid, signal.SIGSTOP)
        look_for(watcher, clock, FROZEN_SECONDS - SIGN_SECONDS)
        assert (held(queue), queue.backlog(QUEUE)) == (1, 0), "its connection is open"

        look_for(watcher, clock, SIGN_SECONDS)
        assert (held(queue), queue.backlog(QUEUE)) == (0, 1)
        assert queue.client.hlen(SIGNS_OF_LIFE) == 1

        os.kill(process.pid, signal.SIGCONT)
        eventually(lambda: queue.client.hlen(SIGNS_OF_LIFE), lambda workers: workers == 2)
        eventually(lambda: (held(queue), queue.backlog(QUEUE)), lambda jobs: jobs == (1, 0))


def test_a_worker_whose_connection_is_cut_keeps_its_jobs(server: Server, queue: JobQueue, clock: Clock) -> None:
    def signs() -> list[tuple[object, object]]:
        return [one for one in queue.client.hgetall(SIGNS_OF_LIFE).items() if one[0] != b"watcher"]

    def see_the_next_sign(watcher: WorkerWatch) -> None:
        before = signs()
        eventually(signs, lambda shown: shown != before)
        watcher.look()

    queue.put(job(number=1))
    with holding_process(server, queue), watch(server, "watcher") as watcher:
        for _ in range(3):
            see_the_next_sign(watcher)
            queue.client.client_kill_filter(_type="normal", skipme=True)
            look_for(watcher, clock, DEAD_SECONDS - SIGN_SECONDS)
        see_the_next_sign(watcher)
        look_for(watcher, clock, SIGN_SECONDS)
        assert (held(queue), queue.backlog(QUEUE)) == (1, 0)


def test_a_worker_without_a_connection_is_dead_at_once_and_one_with_a_connection_is_not(
    server: Server, queue: JobQueue, clock: Clock
) -> None:
    taken_by(server, queue, "other")
    with watch(server, "watcher") as watcher, watch(server, "other") as other:
        other.look()
        look_for(watcher, clock, DEAD_SECONDS)
        assert held(queue) == 1

        other._client.close()
        eventually(lambda: jobs_after_a_look(watcher, queue), lambda jobs: jobs == (0, 1))


def test_a_watcher_that_was_away_gives_the_others_time_for_a_new_sign(
    server: Server, queue: JobQueue, clock: Clock
) -> None:
    """Redis was away, or the machine slept: every sign is old, and nobody died."""
    taken_by(server, queue, "other")
    with watch(server, "watcher") as watcher:
        with watch(server, "other") as other:
            other.look()
        watcher.look()
        clock.seconds += 2 * DEAD_SECONDS
        look_for(watcher, clock, DEAD_SECONDS - SIGN_SECONDS)
        assert held(queue) == 1

        clock.seconds += SIGN_SECONDS
        eventually(lambda: jobs_after_a_look(watcher, queue), lambda jobs: jobs == (0, 1))


def test_a_sign_between_the_look_and_the_verdict_saves_the_worker(server: Server, queue: JobQueue) -> None:
    taken_by(server, queue, "other")
    with watch(server, "watcher") as watcher, watch(server, "other") as other:
        other.look()
        watcher.look()
        (seen,) = [one for name, one in watcher._seen.items() if name == "other"]
        other.look()
        watcher._take_for_dead("other", seen, 1)
        assert held(queue) == 1


def test_a_silent_worker_of_an_earlier_release_is_dead_after_the_longer_time(
    server: Server, queue: JobQueue, clock: Clock
) -> None:
    taken_by(server, queue, "earlier")
    with watch(server, "watcher") as watcher:
        look_for(watcher, clock, FROZEN_SECONDS - SIGN_SECONDS)
        assert held(queue) == 1

        look_for(watcher, clock, SIGN_SECONDS)
        assert (held(queue), queue.client.zscore(DRAMATIQ_HEARTBEATS, "earlier")) == (0, None)


def test_a_worker_that_stops_returns_the_jobs_that_it_could_not_finish(server: Server, queue: JobQueue) -> None:
    broker = FuelrouteBroker(server.url)
    taken_by(server, queue, broker.broker_id)
    with watch(server, broker.broker_id) as one:
        one.look()
        one.leave()
    assert (held(queue), queue.backlog(QUEUE)) == (0, 1)
    assert queue.client.hlen(SIGNS_OF_LIFE) == 0
