"""Dead letters, made as they are made in earnest: by a worker in which jobs fail at every attempt."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import dramatiq
from dramatiq import Worker

from domain.queue.job_queue import JobQueue
from domain.queue.jobs import Job
from tests.service import eventually
from workers.broker import FuelrouteBroker

JOBS = {
    "plans.build": "plans",
    "plans.menu": "plans",
    "imports.run": "imports",
    "imports.due": "imports",
    "arrivals.process": "arrivals",
    "messages.read_status": "messages",
}
ERROR = "the road service at https://me:hunter2@roads.example.com is <b>away</b>"


@contextmanager
def working(jobs: JobQueue, ran: list[dict[str, Any]], *, fails: bool) -> Iterator[None]:
    """A worker for a few kinds of jobs, which have two attempts each."""
    broker = FuelrouteBroker(url_of(jobs))

    def run(**payload: Any) -> None:
        ran.append(payload)
        if fails:
            raise ConnectionError(ERROR)

    for name, queue in JOBS.items():
        dramatiq.actor(broker=broker, actor_name=name, queue_name=queue, max_retries=1, max_backoff=10)(run)
    worker = Worker(broker, queues=set(JOBS.values()), worker_threads=2)
    worker.start()
    try:
        yield
    finally:
        worker.stop(timeout=5_000)
        broker.close()


def url_of(jobs: JobQueue) -> str:
    """The address of the queue's Redis."""
    options = jobs.client.connection_pool.connection_kwargs
    return f"unix://{options['path']}?db={options['db']}"


def kill(jobs: JobQueue, *put: Job) -> None:
    """Lets the jobs die."""
    before = dead(jobs)
    jobs.put(*put)
    with working(jobs, [], fails=True):
        eventually(lambda: dead(jobs), lambda count: count == before + len(put))


def dead(jobs: JobQueue) -> int:
    return sum(jobs.length(queue).dead_letters for queue in set(JOBS.values()))
