"""Sends notices to people, in the messages queue. An attempt is claimed, handed over, settled; see `notices`."""

from functools import partial
from uuid import UUID

import dramatiq

from domain import clock
from domain.accounts.name_lookups import looking_up_for
from domain.database.connections import Connection
from domain.messages.gateways import Fault
from domain.notices import notice_life
from domain.notices.notice_life import NoticeClaim, SettledStatus
from domain.telemetry.logs import get_logger
from workers.claims import store_while_claimed
from workers.context import Context

log = get_logger(__name__)


def register(broker: dramatiq.Broker, context: Context) -> None:
    @dramatiq.actor(broker=broker, actor_name="notices.send", queue_name="messages")
    def send(notice_id: str) -> None:
        (company_id,) = context.companies.ids
        with context.database.pipelined_transaction() as connection:
            claimed = notice_life.claim_notice(
                connection, company_id, UUID(notice_id), settings=context.settings, now=clock.now()
            )
        if claimed is not None:
            with looking_up_for(company_id):
                fault = notice_life.hand_over_notice(claimed, context.settings)
            status = store_while_claimed(context, claimed, partial(settle, claimed, fault))
            log.info("notices.settled", notice_id=claimed.notice_id, status=status)

    def settle(claimed: NoticeClaim, fault: Fault | None, connection: Connection) -> SettledStatus | None:
        return notice_life.settle_notice(connection, claimed, fault, now=clock.now())
