"""Counts the worker processes that died over the same job, so that a job which kills its process can be put off.

A job of a dead worker returns to its queue within two seconds. One that kills its process, such as by taking all
memory, would kill each worker of its queue in turn, and no other job of the queue would be done. Here it is found; its
actor counts a failed attempt, with the waits and the end that failed attempts have.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import redis

from domain.queue.redis_clients import redis_client
from domain.queue.redis_layout import BEGIN_JOB, END_JOB, SIGNS_OF_LIFE, UNFINISHED_JOBS
from domain.telemetry.logs import get_logger

log = get_logger(__name__)

DEATHS = 2
"""A job over which this many workers have died in a row may be what kills them. One death is most often another's
fault: a machine that fails, an operator, another job of the process."""


class UnfinishedJobs:
    """The jobs that workers have begun, by name; those that this worker begins. Threads may share it."""

    def __init__(self, url: str, worker_id: str) -> None:
        self._client = redis_client(url)
        self._begin, self._end = map(self._client.register_script, (BEGIN_JOB, END_JOB))
        self._worker_id = worker_id

    @contextmanager
    def working_at(self, job: str) -> Iterator[bool]:
        """The work of a job. Yields True if DEATHS workers have died over it since it last ended, also in an error.
        Where Redis is away, nothing is counted."""
        deaths = self._ask(self._begin, job, SIGNS_OF_LIFE)
        try:
            yield deaths >= DEATHS
        finally:
            self._ask(self._end, job)

    def close(self) -> None:
        self._client.close()

    def _ask(self, script: redis.commands.core.Script, job: str, *keys: str) -> int:
        try:
            return int(script(keys=[UNFINISHED_JOBS, *keys], args=[job, self._worker_id]))
        except redis.RedisError:
            log.debug("workers.unfinished_job_not_noted", job=job)
            return 0
