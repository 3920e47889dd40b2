"""Counts the worker processes that died over the same job, so that a job which kills its process can be put off.

A job of a dead worker returns to its queue within two seconds. One that kills its process, such as by taking all
memory, would kill each worker of its queue in turn, and no other job of the queue would be done. Here it is found; its
actor counts a failed attempt, with the waits and the end that failed attempts have.

Several jobs run when a process dies. Those over which one has died take turns in a process, so the next death is that
of one of them alone. Otherwise they would be put off and tried again together, and fail with the one that kills.
"""

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

import redis

from domain.queue.redis_clients import redis_client
from domain.queue.redis_layout import BEGIN_JOB, END_JOB, LEAVE_JOBS, SIGNS_OF_LIFE, UNFINISHED_JOBS
from domain.telemetry.logs import get_logger

log = get_logger(__name__)

DEATHS = 2
"""A job over which this many workers have died in a row may be what kills them. One death is most often another's
fault: a machine that fails, an operator, another job of the process."""


class UnfinishedJobs:
    """The jobs that workers have begun, by name; those that this worker begins. Threads may share it."""

    def __init__(self, url: str, worker_id: str) -> None:
        self._client = redis_client(url)
        self._begin, self._end, self._leave = map(self._client.register_script, (BEGIN_JOB, END_JOB, LEAVE_JOBS))
        self._worker_id = worker_id
        self._turn = threading.Lock()
        self._has_left = False

    @contextmanager
    def working_at(self, job: str) -> Iterator[bool]:
        """The work of a job. Yields True if DEATHS workers have died over it since it last ended, also in an error.
        Where one has died, it waits for its turn. Where Redis is away, nothing is counted."""
        with ExitStack() as until_end:
            deaths = self._ask_to_begin(job, "")
            if deaths:
                until_end.enter_context(self._turn)
                deaths = self._ask_to_begin(job, "turn")
            try:
                yield deaths >= DEATHS
            finally:
                with suppress(redis.RedisError):
                    self._end(keys=[UNFINISHED_JOBS], args=[job, self._worker_id])

    def leave(self) -> None:
        """Forgets the jobs that this worker works at, and notes no further ones, because it stops in order: it may be
        cut off in a job that it begins from now on."""
        self._has_left = True
        with suppress(redis.RedisError):
            self._leave(keys=[UNFINISHED_JOBS], args=[self._worker_id])

    def close(self) -> None:
        self._client.close()

    def _ask_to_begin(self, job: str, turn: str) -> int:
        if self._has_left:
            return 0
        try:
            return int(self._begin(keys=[UNFINISHED_JOBS, SIGNS_OF_LIFE], args=[job, self._worker_id, turn]))
        except redis.RedisError:
            log.debug("workers.unfinished_job_not_noted", job=job)
            return 0
