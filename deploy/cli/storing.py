"""Changes by commands: rows in one transaction, and hints for the workers after it."""

from collections.abc import Iterator
from contextlib import contextmanager

from domain.database.connections import Connection, connected
from domain.queue.jobs import Job
from domain.settings import get_settings


@contextmanager
def transaction() -> Iterator[Connection]:
    """One transaction of a command."""
    with connected(get_settings().require_direct_url()) as connection:
        yield connection


def enqueue(jobs: list[Job]) -> None:
    """Enqueues hints for the workers. Without Redis the passes find the work."""
    if jobs:
        from domain.queue.job_queue import JobQueue  # most commands enqueue nothing, and need not load Redis's library

        JobQueue.of(get_settings()).put(*jobs)
