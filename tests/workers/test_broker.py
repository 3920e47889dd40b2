"""The broker on a Redis of its own, which the tests may stop: jobs start at once, and no error kills a consumer."""

import statistics
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest

from domain.queue.job_queue import JobQueue
from domain.queue.jobs import Job
from domain.queue.redis_clients import redis_client
from tests.servers import own_redis, silent_proxy
from tests.service import eventually, one_below
from tests.workers.one_queue import QUEUE, Server, job, seen_by, working
from workers.broker import FuelrouteBroker


def test_a_job_starts_at_once_on_an_idle_system(server: Server, queue: JobQueue) -> None:
    latencies: list[float] = []

    def run(sent: float) -> None:
        latencies.append(time.monotonic() - sent)

    with working(server.url, run):

        def median_of_15() -> float:
            latencies.clear()
            for number in range(1, 16):
                time.sleep(0.03 + 0.01 * (number % 4))  # idle in between
                queue.put(job(sent=time.monotonic()))
                eventually(lambda: len(latencies), lambda count, number=number: count == number)  # type: ignore[misc]
            return statistics.median(latencies)

        assert one_below(0.3, median_of_15), "a job that is polled for once a second waits for half of one"


def test_every_job_of_a_burst_runs_once(server: Server, queue: JobQueue) -> None:
    seen: list[int] = []
    with working(server.url, seen_by(seen), threads=4):
        queue.put(*(job(number=number) for number in range(200)))
        eventually(lambda: len(seen), lambda count: count >= 200)
        time.sleep(0.05)

    assert sorted(seen) == list(range(200))


def test_the_backlog_counts_waiting_jobs(server: Server, queue: JobQueue) -> None:
    assert queue.backlog(QUEUE) == 0
    queue.put(job(number=1), job(number=2))
    assert queue.backlog(QUEUE) == 2

    seen: list[int] = []
    with working(server.url, seen_by(seen)):
        eventually(lambda: len(seen), lambda count: count == 2)
    assert queue.backlog(QUEUE) == 0


def test_a_job_that_fails_is_run_again(server: Server, queue: JobQueue) -> None:
    attempts: list[float] = []
    done = threading.Event()

    def run() -> None:
        attempts.append(time.monotonic())
        if len(attempts) == 1:
            raise ConnectionError("the database restarts")
        done.set()

    with working(server.url, run):
        queue.put(job())
        assert done.wait(180)

    assert attempts[1] - attempts[0] > 0.4


def test_a_job_is_enqueued_once_by_the_sweep_and_at_most_twice_by_others(server: Server, queue: JobQueue) -> None:
    started, go_on, runs = threading.Event(), threading.Event(), []

    def run() -> None:
        started.set()
        assert go_on.wait(180)
        runs.append(1)

    one = Job("tests.run", QUEUE, {}, key="one")
    queue.put_once(one, one)
    assert queue.backlog(QUEUE) == 1
    with working(server.url, run, threads=1):
        assert started.wait(180)
        queue.put_once(one)
        assert queue.backlog(QUEUE) == 0
        queue.put(one, one, one)  # what runs may have read the state already: one more is wanted, no third
        go_on.set()
        eventually(lambda: queue.client.hlen(f"dramatiq:{QUEUE}.msgs"), lambda count: count == 0)
    assert len(runs) == 2

    queue.put_once(one)
    assert queue.backlog(QUEUE) == 1


def test_a_queue_without_workers_grows_to_a_limit(queue: JobQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("domain.queue.job_queue.MAX_WAITING", 3)
    for number in range(5):
        assert queue.put(job(number=number))
    assert queue.backlog(QUEUE) == 3

    queue.put_once(Job("tests.run", QUEUE, {}, key="what the sweep has found"))
    assert queue.backlog(QUEUE) == 4


def test_an_emptied_redis_accepts_every_job_again(queue: JobQueue) -> None:
    one = Job("tests.run", QUEUE, {}, key="one")
    queue.put_once(one)
    queue.client.flushdb()

    queue.put_once(one)

    assert queue.backlog(QUEUE) == 1


def test_a_day_old_job_is_run(server: Server, queue: JobQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    monkeypatch.setattr("dramatiq.message.time", SimpleNamespace(time=time.monotonic))  # long ago
    queue.put(job(number=1))
    monkeypatch.undo()

    with working(server.url, seen_by(seen)):
        eventually(lambda: seen, lambda numbers: numbers == [1])
    assert queue.length(QUEUE).dead_letters == 0


def test_a_job_is_run_though_redis_s_answer_to_the_worker_was_lost(server: Server, queue: JobQueue) -> None:
    broker = FuelrouteBroker(server.url)
    broker.declare_queue(QUEUE)
    queue.put(job(number=1), job(number=2))
    held = next(broker.consume(QUEUE, prefetch=1))
    lost = broker.do_fetch(QUEUE, 1)

    found = next(broker.consume(QUEUE))

    assert held is not None
    assert found is not None
    assert len(lost) == 1
    assert (held.kwargs, found.kwargs) == ({"number": 1}, {"number": 2})


def test_a_job_that_is_put_again_before_its_thread_has_let_it_go_keeps_no_share(
    server: Server, queue: JobQueue
) -> None:
    broker = FuelrouteBroker(server.url)
    broker.declare_queue(QUEUE)
    consumer: Any = broker.consume(QUEUE, prefetch=4)
    one = Job("tests.run", QUEUE, {}, key="one", company_id=uuid4())
    queue.put(one)
    first = next(consumer)
    taken: list[Any] = []
    acknowledge = consumer._stock.ack

    def acknowledge_slowly(message: Any) -> None:
        acknowledge(message)
        if not taken:
            queue.put_once(one)
            taken.append(next(consumer))

    consumer._stock.ack = acknowledge_slowly
    consumer.ack(first)
    assert len(broker.held[QUEUE]) == 1, "the second one runs"
    consumer._recover_lost_jobs()
    assert queue.backlog(QUEUE) == 0, "and is not lost"

    consumer.ack(taken[0])

    assert (len(broker.held[QUEUE]), broker.shares.free()) == (0, {})


def test_a_consumer_survives_cut_connections(server: Server, queue: JobQueue) -> None:
    seen: list[int] = []
    with working(server.url, seen_by(seen)) as worker:
        queue.put(job(number=0))
        eventually(lambda: seen, lambda numbers: numbers == [0])

        queue.client.client_kill_filter(_type="normal", skipme=True)
        queue.put(job(number=1))

        eventually(lambda: seen, lambda numbers: numbers == [0, 1])
        assert worker.is_alive()


def test_consumers_and_producers_survive_an_absence_of_redis(server: Server, queue: JobQueue) -> None:
    seen: list[int] = []
    with working(server.url, seen_by(seen)) as worker:
        server.stop()
        try:
            assert queue.put(job(number=0)) is False  # a hint is lost; the sweep finds the work
            assert queue.backlog(QUEUE) == 0
            time.sleep(1)
        finally:
            server.start()

        eventually(lambda: queue.put(job(number=1)), lambda put: put)
        eventually(lambda: 1 in seen, lambda found: found)
        assert worker.is_alive()


def test_silent_connections_are_replaced(tmp_path: Path) -> None:
    seen: list[int] = []
    with own_redis(tmp_path) as redis, silent_proxy(redis) as proxy, redis_client(redis.url) as client:
        queue = JobQueue(client)
        with working(proxy.url, seen_by(seen)) as worker:
            queue.put(job(number=0))
            eventually(lambda: seen, lambda numbers: numbers == [0])
            proxy.fall_silent()
            queue.put(job(number=1))

            eventually(lambda: seen, lambda numbers: 1 in numbers)
            assert worker.is_alive()


def test_outcomes_are_announced_to_the_process_that_waits(server: Server, queue: JobQueue) -> None:
    with redis_client(server.url) as client, client.pubsub(ignore_subscribe_messages=True) as subscription:
        subscription.subscribe("fuelroute:outcomes:ingress-1")
        subscription.get_message(timeout=1)
        queue.announce("ingress-2", b"0")
        queue.announce("ingress-1", b"1")

        message = eventually(lambda: subscription.get_message(timeout=1), lambda one: one is not None)

    assert message is not None
    assert message["data"] == b"1"


def test_a_process_has_one_replay_at_a_time() -> None:
    """Its portions compute in Python, so more of them would make plans in the same process wait."""
    broker = FuelrouteBroker("redis://127.0.0.1:9")
    for queue in ("plans", "replays"):
        broker.declare_queue(queue)
    consumers: dict[str, Any] = {queue: broker.consume(queue, prefetch=16) for queue in ("plans", "replays")}
    prefetched = {queue: consumer._stock.prefetch for queue, consumer in consumers.items()}
    assert prefetched == {"plans": 16, "replays": 1}
