"""Sends notices to people, in the messages queue. An attempt is claimed, handed over, settled; see `notices`."""

import time
from uuid import UUID

import dramatiq
import psycopg

from domain import clock
from domain.accounts.name_lookups import looking_up_for
from domain.messages.gateways import Fault
from domain.notices import notice_life
from domain.notices.notice_life import NoticeClaim, SettledStatus
from domain.telemetry.logs import get_logger
from workers.context import Context

log = get_logger(__name__)

_STORE_AGAIN_SECONDS = 1.0


def register(broker: dramatiq.Broker, context: Context) -> None:
    @dramatiq.actor(broker=broker, actor_name="notices.send", queue_name="messages")
    def send(notice_id: str) -> None:
        (company_id,) = context.companies.ids
        with context.database.transaction_by_key() as connection:
            claimed = notice_life.claim_notice(
                connection, company_id, UUID(notice_id), settings=context.settings, now=clock.now()
            )
        if claimed is not None:
            with looking_up_for(company_id):
                fault = notice_life.hand_over_notice(claimed, context.settings)
            status = _store(context, claimed, fault)
            log.info("notices.settled", notice_id=claimed.notice_id, status=status)


def _store(context: Context, claimed: NoticeClaim, fault: Fault | None) -> SettledStatus | None:
    """Stores the end of the attempt. While the database is away it tries again as long as the claim holds, because a
    notice without a stored outcome counts as doubtful."""
    while True:
        try:
            with context.database.transaction_by_key() as connection:
                return notice_life.settle_notice(connection, claimed, fault, now=clock.now())
        except psycopg.OperationalError:
            if clock.now() >= claimed.until:
                raise
            time.sleep(_STORE_AGAIN_SECONDS)
