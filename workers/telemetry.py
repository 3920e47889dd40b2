"""One measurement for each job, and one log line for each job that fails. Every log line within a job names the job."""

import threading
import time
from typing import Any

import dramatiq
import structlog
from dramatiq.middleware import Middleware

from domain.telemetry import tracing
from domain.telemetry.logs import get_logger
from domain.telemetry.metrics import JOB_AGES, JOBS

log = get_logger(__name__)


class JobTelemetry(Middleware):
    """The middleware of one broker. Dramatiq calls it in the thread of the job."""

    def __init__(self) -> None:
        self._thread = threading.local()

    def before_process_message(self, broker: dramatiq.Broker, message: Any) -> None:
        self._thread.started = time.monotonic()
        structlog.contextvars.bind_contextvars(job=message.actor_name)
        enqueued_at = message.options.get("requeue_timestamp", message.message_timestamp) / 1000
        JOB_AGES.labels(message.queue_name).observe(max(0.0, time.time() - enqueued_at))

    def after_process_message(
        self,
        broker: dramatiq.Broker,
        message: Any,
        *,
        result: Any = None,
        exception: BaseException | None = None,
    ) -> None:
        seconds = time.monotonic() - self._thread.started
        JOBS.labels(message.queue_name, message.actor_name, "done" if exception is None else "failed").observe(seconds)
        if exception is not None:
            log.warning("job.failed", error=repr(exception), seconds=round(seconds, 4))
        _forget_job()

    def after_skip_message(self, broker: dramatiq.Broker, message: Any) -> None:
        _forget_job()


def _forget_job() -> None:
    """Lines of the thread name the job and its trace no more."""
    structlog.contextvars.unbind_contextvars("job")
    tracing.unbind()
