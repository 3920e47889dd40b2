"""Dramatiq's private names are those of the version that is pinned: `workers.broker` uses them."""

from typing import Any

import pytest
from dramatiq import Worker
from dramatiq.brokers.redis import RedisBroker

from domain.queue.job_queue import JobQueue
from tests.service import eventually
from tests.workers.one_queue import QUEUE, job

CONSUMER_FIELDS = ("message_cache", "queued_message_ids", "outstanding_message_count", "prefetch")
BROKER_FIELDS = ("broker_id", "client", "delay_queues", "namespace", "do_fetch", "do_nack", "do_qsize", "do_requeue")
WORKER_FIELDS = ("consumers", "queue_prefetch", "work_queue")


@pytest.fixture
def stock(queue: JobQueue) -> RedisBroker:
    """Dramatiq's own broker, as it is."""
    broker = RedisBroker(client=queue.client, middleware=[])
    broker.declare_queue(QUEUE)
    return broker


def test_the_broker_the_consumer_and_the_worker_have_the_fields_that_we_use(stock: RedisBroker) -> None:
    consumer = stock.consume(QUEUE)
    assert [field for field in CONSUMER_FIELDS if not hasattr(consumer, field)] == []
    assert [field for field in BROKER_FIELDS if not hasattr(stock, field)] == []
    assert [field for field in WORKER_FIELDS if not hasattr(Worker(stock), field)] == []


def test_a_consumer_keeps_what_it_has_fetched_in_its_cache(stock: RedisBroker, queue: JobQueue) -> None:
    assert queue.put(job(number=1), job(number=2))
    consumer: Any = stock.consume(QUEUE, prefetch=2)
    taken = next(consumer)
    assert taken is not None
    assert (len(consumer.message_cache), consumer.queued_message_ids) == (1, {taken.message_id})
    assert (consumer.outstanding_message_count, consumer.prefetch) == (2, 2)


def test_a_worker_gives_its_prefetch_to_its_consumers(stock: RedisBroker) -> None:
    worker = Worker(stock, queues={QUEUE}, worker_threads=1)
    worker.queue_prefetch = 7
    worker.start()
    try:
        thread = worker.consumers[QUEUE]
        eventually(lambda: getattr(thread.consumer, "prefetch", None), lambda prefetch: prefetch == 7)
        assert thread.is_alive()
    finally:
        worker.stop(timeout=5_000)
