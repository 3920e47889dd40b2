"""The messages queue: hand a plan to its driver, once."""

from datetime import UTC, datetime

import dramatiq

from domain.messaging import deliver
from domain.telemetry import MESSAGES, get_logger
from workers.context import Context

log = get_logger(__name__)


def register(broker: dramatiq.Broker, context: Context) -> None:
    @dramatiq.actor(broker=broker, actor_name="messages.send", queue_name="messages")
    def send(message_id: str) -> None:
        with context.database.transaction() as connection:
            status, jobs = deliver(connection, message_id, settings=context.settings, now=datetime.now(UTC))
        context.jobs.put(*jobs)
        if status is not None:
            MESSAGES.labels(status).inc()
            log.info("messages.delivered", message_id=message_id, status=status)
