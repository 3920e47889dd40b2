"""The messages queue: sends a message to its driver.

An attempt is claimed, handed over, settled; see `messages`. Two other jobs share the queue: notices to people
(`workers/notices.py`), and asking whether messages were read (`workers/read_status.py`)."""

from functools import partial
from uuid import UUID

import dramatiq

from domain import clock
from domain.accounts.name_lookups import looking_up_for
from domain.database.connections import Connection
from domain.messages import message_life
from domain.messages.gateways import Fault
from domain.messages.message_life import MessageClaim, MessageStatus
from domain.routes.plans import delivery
from domain.telemetry.logs import get_logger
from domain.telemetry.metrics import MESSAGES
from workers import notices, read_status
from workers.claims import store_while_claimed
from workers.context import Context

log = get_logger(__name__)


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

    def finish(claimed: MessageClaim, fault: Fault | None, connection: Connection) -> MessageStatus | None:
        return delivery.finish_delivery(connection, claimed, fault, settings=context.settings, now=clock.now())

    def send_one(message_id: UUID) -> None:
        with context.database.pipelined_transaction() as connection:
            step = delivery.start_delivery(connection, message_id, settings=context.settings, now=clock.now())
        if isinstance(step, MessageClaim):
            with looking_up_for(step.company_id):
                fault = message_life.hand_over(step, context.settings)
            step = store_while_claimed(context, step, partial(finish, step, fault))
        if step is not None:
            MESSAGES.labels(step).inc()
            log.info("messages.delivered", message_id=message_id, status=step)
