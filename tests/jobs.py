"""The jobs that a transaction has collected, for tests of the functions that collect them."""

from collections.abc import Callable

from domain.database.connections import Connection
from domain.queue.jobs import Job


def jobs_of(connection: Connection) -> list[Job]:
    """The jobs that were collected since this was asked last, in order. They are not put any more."""
    jobs: list[Job] = [*connection.collected_jobs]
    connection.collected_jobs.clear()
    return jobs


def jobs_after(connection: Connection, work: Callable[[], object]) -> list[Job]:
    """The jobs that `work` collects, without those from before."""
    jobs_of(connection)
    work()
    return jobs_of(connection)
