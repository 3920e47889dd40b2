"""The messages queue: sends a message to its driver.

An attempt is claimed, handed over, settled; see `messages`. Two other jobs share the queue: notices to people
(`workers/notices.py`), and asking whether messages were read (`workers/read_status.py`)."""

import time
from uuid import UUID

import dramatiq
import psycopg

from domain import clock
from domain.accounts.name_lookups import looking_up_for
from domain.messages import message_life
from domain.messages.gateways import Fault
from domain.messages.message_life import Claim, MessageStatus
from domain.routes.plans import delivery
from domain.routes.plans.delivery import DeliveryOutcome
from domain.telemetry.logs import get_logger
from domain.telemetry.metrics import MESSAGES
from workers import notices, read_status
from workers.context import Context

log = get_logger(__name__)

_STORE_AGAIN_SECONDS = 1.0


def register(broker: dramatiq.Broker, context: Context) -> None:
    notices.register(broker, context)
    read_status.register(broker, context)
    for status in MessageStatus:
        MESSAGES.labels(status)  # so that the first one counts as an increase

    @dramatiq.actor(broker=broker, actor_name="messages.send", queue_name="messages")
    def send(message_id: str, called_after: int | None = None) -> None:
        """Sends a message. Jobs of an earlier release carry `called_after`, which is no longer used."""
        with context.about_message("messages.send", UUID(message_id)):
            send_one(UUID(message_id))

    def send_one(message_id: UUID) -> None:
        with context.database.transaction_by_key() as connection:
            step = delivery.start_delivery(connection, message_id, settings=context.settings, now=clock.now())
        if isinstance(step, Claim):
            with looking_up_for(step.company_id):
                fault = message_life.hand_over(step, context.settings)
            step = _store(context, step, fault)
        context.jobs.put(*step.jobs)
        if step.status is not None:
            MESSAGES.labels(step.status).inc()
            log.info("messages.delivered", message_id=message_id, status=step.status)


def _store(context: Context, claimed: Claim, fault: Fault | None) -> DeliveryOutcome:
    """Stores the end of the attempt. While the database is away it tries again as long as the claim holds, because a
    message without a stored outcome is sent again."""
    while True:
        try:
            with context.database.transaction_by_key() as connection:
                return delivery.finish_delivery(connection, claimed, fault, settings=context.settings, now=clock.now())
        except psycopg.OperationalError:
            if clock.now() >= claimed.until:
                raise
            time.sleep(_STORE_AGAIN_SECONDS)
