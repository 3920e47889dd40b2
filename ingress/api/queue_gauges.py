"""The gauges of the queues. A thread of their own keeps them up to date, so that a scrape waits for nothing."""

import math
import threading
import time

import redis

from domain import clock
from domain.operations.alerts import is_silent
from domain.queue.heartbeats import read_worker_heartbeats
from domain.queue.inspection import read_queues
from domain.queue.job_queue import JobQueue
from domain.queue.jobs import QUEUES
from domain.settings import Settings
from domain.telemetry.logs import get_logger
from domain.telemetry.metrics import (
    DEAD_LETTERS,
    QUEUE_AGE,
    QUEUE_IN_FLIGHT,
    QUEUE_JOBS,
    QUEUE_OLDEST,
    QUEUE_WORKERS,
    expose,
)

log = get_logger(__name__)

_MEASURE_SECONDS = 2.0
_GAUGES = (QUEUE_JOBS, QUEUE_IN_FLIGHT, QUEUE_OLDEST, QUEUE_WORKERS, DEAD_LETTERS)


class QueueGauges:
    """Measures the queues again and again. While Redis does not answer, the gauges are NaN: an old number would look
    like a new one."""

    def __init__(self, jobs: JobQueue) -> None:
        self._jobs = jobs
        self._measured_at = -math.inf
        expose(QUEUE_AGE)
        QUEUE_AGE.set_function(lambda: time.monotonic() - self._measured_at)

    @classmethod
    def start(cls, settings: Settings) -> None:
        """Starts a thread that measures and ends with the process."""
        gauges = cls(JobQueue.of(settings))
        threading.Thread(target=gauges.run, name="queue-gauges", daemon=True).start()

    def run(self) -> None:
        while True:
            self.measure()
            time.sleep(_MEASURE_SECONDS)

    def measure(self) -> None:
        """Measures once, within the client's bounded wait."""
        now = clock.now()
        try:
            states = read_queues(self._jobs.client)
            workers = read_worker_heartbeats(self._jobs.client, now=now)
        except redis.RedisError:
            for gauge in _GAUGES:
                for queue in QUEUES:
                    gauge.labels(queue).set(math.nan)
            return
        for state in states:
            oldest_seconds = (now - state.oldest_at).total_seconds() if state.oldest_at is not None else 0.0
            QUEUE_JOBS.labels(state.queue).set(state.waiting)
            QUEUE_IN_FLIGHT.labels(state.queue).set(state.in_flight)
            QUEUE_OLDEST.labels(state.queue).set(max(0.0, oldest_seconds))
            DEAD_LETTERS.labels(state.queue).set(state.dead)
            serving = [one for one in workers if state.queue in one.queues and not is_silent(one, now)]
            QUEUE_WORKERS.labels(state.queue).set(len(serving))
        self._measured_at = time.monotonic()
