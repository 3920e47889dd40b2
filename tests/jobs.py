"""The jobs that a transaction has collected, for tests of the functions that collect them."""

from domain.database.connections import Connection
from domain.queue.jobs import Job


def jobs_of(connection: Connection) -> list[Job]:
    """The jobs that were collected since this was asked last, in order. They are not put any more."""
    jobs: list[Job] = [*connection.collected_jobs]
    connection.collected_jobs.clear()
    return jobs
