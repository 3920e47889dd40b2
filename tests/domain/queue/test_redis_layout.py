"""Dramatiq's layout in Redis is the one that `domain.queue` reads and writes. A new version of Dramatiq must pass."""

import re
from collections.abc import Iterator

import dramatiq
import pytest
import redis
from dramatiq.brokers.redis import RedisBroker

from domain.ids import new_id
from domain.queue import redis_layout as layout
from domain.queue.dramatiq_messages import JOB_ID, encode_message, read_message
from domain.queue.job_queue import JobQueue
from domain.queue.jobs import build_plan_job

QUEUE = "plans"


@pytest.fixture
def stock(jobs: JobQueue) -> Iterator[RedisBroker]:
    """Dramatiq's own broker, as it is."""
    broker = RedisBroker(client=jobs.client, middleware=[])
    broker.declare_queue(QUEUE)
    yield broker
    broker.close()


def keys(client: redis.Redis) -> set[str]:
    return {key.decode() for key in client.keys("dramatiq:*")}  # type: ignore[union-attr]


def message() -> dramatiq.Message[None]:
    return dramatiq.Message(QUEUE, "plans.build", (), {"route_id": "1"}, {})


def fail_one(broker: RedisBroker) -> None:
    consumer = broker.consume(QUEUE)
    taken = next(consumer)
    assert taken is not None
    consumer.nack(taken)


def test_the_namespace_is_dramatiqs_default(stock: RedisBroker) -> None:
    assert stock.namespace == layout.NAMESPACE


def test_an_enqueued_job_stands_in_the_list_and_the_hash(stock: RedisBroker, jobs: JobQueue) -> None:
    stored = stock.enqueue(message())
    job_id = stored.options[JOB_ID]
    assert jobs.client.lrange(layout.waiting_key(QUEUE), 0, -1) == [job_id.encode()]
    raw = jobs.client.hget(layout.messages_key(QUEUE), job_id)
    found = read_message(QUEUE, job_id, raw)  # type: ignore[arg-type]
    assert found is not None
    assert (found.job, found.payload, found.attempts) == ("plans.build", {"route_id": "1"}, 0)


def test_a_taken_job_stands_in_the_workers_set(stock: RedisBroker, jobs: JobQueue) -> None:
    stored = stock.enqueue(message())
    assert next(stock.consume(QUEUE)) is not None
    taken = jobs.client.smembers(layout.taken_key(stock.broker_id, QUEUE))
    assert taken == {stored.options[JOB_ID].encode()}
    assert jobs.client.zscore(layout.DRAMATIQ_HEARTBEATS, stock.broker_id) is not None
    assert jobs.client.hlen(layout.messages_key(QUEUE)) == 1


def test_a_failed_job_becomes_a_dead_letter(stock: RedisBroker, jobs: JobQueue) -> None:
    stored = stock.enqueue(message())
    fail_one(stock)
    assert jobs.client.zscore(layout.dead_letters_key(QUEUE), stored.options[JOB_ID]) is not None
    assert jobs.client.hexists(layout.dead_letter_messages_key(QUEUE), stored.options[JOB_ID])


def test_a_delayed_job_stands_in_the_delay_queue(stock: RedisBroker, jobs: JobQueue) -> None:
    stock.enqueue(message(), delay=60_000)
    assert jobs.client.hlen(layout.delayed_messages_key(QUEUE)) == 1


def test_dramatiq_takes_the_jobs_that_fuelroute_enqueues(stock: RedisBroker, jobs: JobQueue) -> None:
    route_id = new_id()
    assert jobs.put(build_plan_job(route_id))
    taken = next(stock.consume(QUEUE))
    assert taken is not None
    assert (taken.actor_name, taken.kwargs) == ("plans.build", {"route_id": route_id.hex})
    assert taken.options[JOB_ID] == f"plans.build {route_id}"


def test_dramatiq_decodes_the_messages_that_fuelroute_encodes() -> None:
    decoded = dramatiq.Message.decode(encode_message(QUEUE, "plans.build", {"route_id": "1"}, "7", company="c"))
    assert decoded.options == {JOB_ID: "7", "company_id": "c"}


def test_no_other_key_of_dramatiq_appears(stock: RedisBroker, jobs: JobQueue) -> None:
    for delay in (None, 60_000):
        stock.enqueue(message(), delay=delay)
    fail_one(stock)
    stock.enqueue(message())
    assert next(stock.consume(QUEUE)) is not None
    known = {
        layout.waiting_key(QUEUE),
        layout.messages_key(QUEUE),
        layout.waiting_key(f"{QUEUE}.DQ"),
        layout.delayed_messages_key(QUEUE),
        layout.dead_letters_key(QUEUE),
        layout.dead_letter_messages_key(QUEUE),
        layout.taken_key(stock.broker_id, QUEUE),
        layout.DRAMATIQ_HEARTBEATS,
    }
    assert keys(jobs.client) <= known


@pytest.mark.parametrize("script", [layout.PUT, layout.DEAL, layout.GIVE_BACK, layout.REPLAY, layout.DISCARD])
def test_a_script_defines_only_functions_that_it_calls(script: str) -> None:
    for function in re.findall(r"local function (\w+)", script):
        assert script.count(f"{function}(") > 1, function
