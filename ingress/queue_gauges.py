"""The gauges of the queues, kept up to date by a thread of their own: a scrape waits for nothing."""

import math
import threading
import time

import redis

from domain.metrics import DEAD_LETTERS, QUEUE_AGE, QUEUE_JOBS
from domain.observability import get_logger
from domain.queue.job_queue import JobQueue
from domain.queue.jobs import QUEUES
from domain.settings import Settings

log = get_logger(__name__)

_MEASURE_SECONDS = 2.0


class QueueGauges:
    """Measures the queues again and again. While Redis cannot say how long they are, the gauges are NaN: an old number
    would be taken for a new one.
    """

    def __init__(self, jobs: JobQueue) -> None:
        self._jobs = jobs
        self._measured_at = -math.inf
        QUEUE_AGE.set_function(lambda: time.monotonic() - self._measured_at)

    @classmethod
    def start(cls, settings: Settings) -> None:
        """Measures in a thread that ends with the process."""
        gauges = cls(JobQueue.of(settings))
        threading.Thread(target=gauges.run, name="queue-gauges", daemon=True).start()

    def run(self) -> None:
        while True:
            self.measure()
            time.sleep(_MEASURE_SECONDS)

    def measure(self) -> None:
        """Measures once, within the bounded wait of the client."""
        try:
            for queue in QUEUES:
                length = self._jobs.length(queue)
                QUEUE_JOBS.labels(queue).set(length.waiting)
                DEAD_LETTERS.labels(queue).set(length.dead_letters)
            self._measured_at = time.monotonic()
        except redis.RedisError:
            for queue in QUEUES:
                QUEUE_JOBS.labels(queue).set(math.nan)
                DEAD_LETTERS.labels(queue).set(math.nan)
