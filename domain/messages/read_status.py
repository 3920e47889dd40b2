"""Finds out whether drivers have read their messages, where a vendor's app in the cab tells it: Samsara's.

Samsara lists whether a message was read, not when. So the stored time is when we were told, at most one pass late. A
company's messages are asked for together, until they are read or a day old."""

from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from domain.accounts.contact_urls import InCabVendor
from domain.accounts.contacts import UnreadableContact
from domain.database.connections import Connection
from domain.database.statements import Command, NotNull, Scalar, Statement
from domain.messages.gateways import Fault
from domain.messages.in_cab import InCabAccount, connector_account, list_in_samsara
from domain.queue.jobs import Job, ask_read_status_job
from domain.settings import Settings

_ASKED_FOR = timedelta(hours=24)
_ASK_AGAIN = timedelta(seconds=50)
"""Two jobs for one company within this time ask only once."""

_MOST_COMPANIES = 1_000

_UNREAD = """m.company_id = c.company_id AND m.created_at > %(now)s::timestamptz - interval '48 hours'
      AND m.channel = 'samsara' AND m.environment = 'live' AND m.status = 'sent' AND m.read_at IS NULL
      AND m.sent_at > %(since)s AND (m.read_asked_at IS NULL OR m.read_asked_at <= %(asked_before)s)"""


_TO_ASK = Scalar(
    UUID,
    f"""
    SELECT DISTINCT c.company_id FROM connectors c
    WHERE c.kind = 'samsara' AND c.environment = 'live' AND c.paused_at IS NULL
      AND EXISTS (SELECT FROM messages m WHERE {_UNREAD})
    LIMIT %(limit)s
    """,
)


def read_status_jobs(connection: Connection, *, now: datetime) -> list[Job]:
    """One job for each company with messages not known to be read."""
    found = _TO_ASK.all(connection, {**_times(now), "limit": _MOST_COMPANIES})
    return [ask_read_status_job(company_id) for company_id in found]


class Unread(NamedTuple):
    """A company's messages to ask about."""

    account: InCabAccount
    since: datetime
    """When the first of them was sent."""
    message_ids: frozenset[UUID]


class _Asked(NamedTuple):
    id: UUID
    sent_at: NotNull[datetime]


_ASK = Statement(
    _Asked,
    f"""
    UPDATE messages m SET read_asked_at = %(now)s FROM (SELECT %(company_id)s::uuid AS company_id) c
    WHERE {_UNREAD} RETURNING m.id, m.sent_at
    """,
)


def claim_unread(connection: Connection, company_id: UUID, *, now: datetime) -> Unread | None:
    """Note that the company's unread messages are asked about now, so that no other worker asks too. None if there are
    none, or no connector to ask by."""
    account = connector_account(connection, company_id, InCabVendor.SAMSARA)
    if account is None:
        return None
    asked = _ASK.all(connection, {**_times(now), "company_id": company_id})
    if not asked:
        return None
    return Unread(account, min(row.sent_at for row in asked), frozenset(row.id for row in asked))


def ask_read_status(unread: Unread, settings: Settings, *, now: datetime) -> list[UUID] | Fault:
    """Ask Samsara, outside any transaction. Return the messages that were read."""
    try:
        token = unread.account.token(settings)
    except UnreadableContact as error:
        return Fault(str(error))
    since = unread.since - timedelta(minutes=5)  # the clocks may differ
    listed = list_in_samsara(unread.account.url, token, since=since, settings=settings, now=now)
    if isinstance(listed, Fault):
        return listed
    return sorted(unread.message_ids & {one.message_id for one in listed if one.is_read})


_STORE = Command(
    "UPDATE messages SET read_at = %s WHERE company_id = %s AND id = ANY(%s) AND status = 'sent' AND read_at IS NULL"
)


def store_read(connection: Connection, company_id: UUID, message_ids: list[UUID], *, now: datetime) -> None:
    _STORE.execute(connection, (now, company_id, message_ids))


def _times(now: datetime) -> dict[str, datetime]:
    return {"now": now, "since": now - _ASKED_FOR, "asked_before": now - _ASK_AGAIN}
