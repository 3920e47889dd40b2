"""One caller asks a Redis that does not answer; the others do not wait for it."""

import gc
import threading
import time
from collections.abc import Iterator

import pytest
import redis

from domain.ids import new_id
from domain.queue.circuit import RedisCircuit
from domain.queue.job_queue import JobQueue
from domain.queue.jobs import import_routes_job
from domain.queue.redis_clients import redis_client
from tests.servers import OwnRedis, own_redis
from tests.service import eventually, one_below, takes_less


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnRedis]:
    with own_redis(tmp_path_factory.mktemp("redis")) as one:
        yield one


@pytest.fixture
def client(server: OwnRedis) -> Iterator[redis.Redis]:
    with redis_client(server.url) as one:
        yield one


def test_no_caller_waits_for_redis_after_one_failure_until_it_answers(server: OwnRedis, client: redis.Redis) -> None:
    circuit = RedisCircuit(client)
    asked = 0

    def question() -> str:
        nonlocal asked
        asked += 1
        client.ping()
        return "answer"

    assert circuit.ask(question, otherwise="nothing") == "answer"
    server.fall_silent()
    try:
        assert circuit.ask(question, otherwise="nothing") == "nothing"
        started = time.monotonic()
        while time.monotonic() - started < 3:  # longer than a rest and a try
            assert circuit.ask(question, otherwise="nothing") == "nothing"
            time.sleep(0.01)
        assert asked == 2
    finally:
        server.speak_again()
    eventually(lambda: circuit.ask(question, otherwise="nothing"), lambda answer: answer == "answer")


def test_callers_at_the_same_time_wait_for_redis_together(server: OwnRedis, client: redis.Redis) -> None:
    def seconds_of_eight() -> float:
        circuit, answers, threads = RedisCircuit(client), list[str](), threading.active_count()
        callers = [
            threading.Thread(
                target=lambda: answers.append(circuit.ask(lambda: str(client.ping()), otherwise="nothing"))
            )
            for _ in range(8)
        ]
        started = time.monotonic()
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join()
        assert answers == ["nothing"] * 8
        assert threading.active_count() <= threads + 1  # one tries again, however many failed
        return time.monotonic() - started

    before = threading.active_count()
    server.fall_silent()
    try:
        assert one_below(4, seconds_of_eight), "each waits for its own time-out, and for nobody else's"
    finally:
        server.speak_again()
    eventually(threading.active_count, lambda count: count <= before)


def test_an_error_of_the_caller_is_raised_and_leaves_the_circuit_closed(client: redis.Redis) -> None:
    circuit = RedisCircuit(client)
    with pytest.raises(ZeroDivisionError):
        circuit.ask(lambda: 1 // 0, otherwise=0)
    assert circuit.ask(lambda: 1, otherwise=0) == 1


def test_a_caller_of_a_silent_redis_waits_briefly_and_only_once(server: OwnRedis, client: redis.Redis) -> None:
    queue = JobQueue(client)
    client.flushdb()

    def ask_again() -> None:
        assert not queue.put(import_routes_job([new_id()]))
        assert queue.backlog("imports") == 0
        queue.announce("ingress", b"{}")

    def seconds_of_the_first() -> float:
        server.speak_again()
        eventually(lambda: queue.put(import_routes_job([new_id()])), bool)
        server.fall_silent()
        started = time.monotonic()
        assert not queue.put(import_routes_job([new_id()]), import_routes_job([new_id()]))
        took = time.monotonic() - started
        assert takes_less(0.5, ask_again)
        return took

    try:
        assert one_below(2, seconds_of_the_first)
    finally:
        server.speak_again()
    eventually(lambda: queue.put(import_routes_job([new_id()])), bool)


def test_an_unused_circuit_is_not_tried_again() -> None:
    before = threading.active_count()
    assert not JobQueue(redis_client("redis://127.0.0.1:9/0")).put(import_routes_job([new_id()]))
    gc.collect()
    eventually(threading.active_count, lambda count: count <= before)
