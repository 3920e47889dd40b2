"""Asks vendors whether drivers have read their messages; see `domain/messages/read_status.py`."""

import dramatiq

from domain import clock
from domain.accounts.name_lookups import looking_up_for
from domain.messages.gateways import Fault
from domain.messages.read_status import ask_read_status, claim_unread, store_read
from domain.telemetry.logs import get_logger
from workers.context import Context

log = get_logger(__name__)


def register(broker: dramatiq.Broker, context: Context) -> None:
    @dramatiq.actor(broker=broker, actor_name="messages.read_status", queue_name="messages")
    def read_status() -> None:
        (company_id,) = context.companies.ids
        with context.database.pipelined_transaction() as connection:
            unread = claim_unread(connection, company_id, now=clock.now())
        if unread is None:
            return
        with looking_up_for(company_id):
            read = ask_read_status(unread, context.settings, now=clock.now())
        if isinstance(read, Fault):  # the next pass asks again
            log.warning("messages.read_status_unknown", company_id=company_id, reason=read.sentence)
            return
        with context.database.pipelined_transaction() as connection:
            store_read(connection, company_id, read, now=clock.now())
        log.info("messages.read_status_stored", company_id=company_id, asked=len(unread.message_ids), read=len(read))
