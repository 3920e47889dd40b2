"""The life of a notice that is due: claimed, handed over, settled, as `domain/claims.py` describes it. The functions
stand in that order.

A person gets a notice at most once: an attempt with an unknown end is never repeated. A gateway that refuses is asked
again, with growing waits, for the recipients alone that have not taken the text."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import Literal, NamedTuple
from uuid import UUID

from domain import clock
from domain.accounts.allowed_hosts import AllowedHosts
from domain.accounts.contact_urls import fault_of
from domain.accounts.contacts import Contacts, UnreadableContact
from domain.claims import Claim, Retries
from domain.database.connections import Connection
from domain.database.fence import is_at_work
from domain.database.statements import Command, NotNull, Statement
from domain.messages.gateways import STOOD_STILL, Attachment, Fault, claim_time, give_text
from domain.messages.recipients import Recipients
from domain.notices.quiet_hours import QuietHours
from domain.savings.statements import read_statement_pdf
from domain.settings import Settings
from domain.telemetry import tracing

RETRIED_FOR = timedelta(hours=6)
"""After this time of refusals a notice is out of date."""
STATEMENTS_RETRIED_FOR = timedelta(days=3)
"""A statement of savings is worth more patience than a need that passes."""

_RETRIES = Retries(timedelta(seconds=30), longest=timedelta(minutes=30))

SettledStatus = Literal["pending", "sent", "failed", "doubtful"]


@dataclass(frozen=True, slots=True)
class NoticeClaim(Claim):
    """The right of one worker to hand over a notice."""

    notice_id: UUID
    stored_url: str
    text: str
    attempts: int
    """The number of attempts before this one."""
    due_at: datetime
    attachment: Attachment | None = None
    recipients: Recipients = field(default_factory=Recipients)


# --- Claimed ---------------------------------------------------------------------------------------------------


class _Due(NamedTuple):
    id: UUID
    part: str
    text: NotNull[str]
    attempts: int
    due_at: NotNull[datetime]
    statement_month: date | None
    taken_by: list[str] | None
    url: str
    quiet_from: int | None
    quiet_until: int | None
    time_zone: str


_DUE = Statement(
    _Due,
    f"""
    SELECT n.id, n.part, n.text, n.attempts, n.due_at, n.statement_month, n.taken_by, s.url, s.quiet_from,
           s.quiet_until, s.time_zone
    FROM notices n JOIN notice_subscriptions s ON s.id = n.subscription_id AND s.company_id = n.company_id
    WHERE n.id = %(id)s AND n.company_id = %(company_id)s AND n.status = 'pending' AND n.claimed_until IS NULL
      AND n.retry_at <= %(now)s AND s.disabled_at IS NULL AND {is_at_work("n.company_id")}
    FOR UPDATE OF n
    """,
)
_CLAIM = Command("UPDATE notices SET attempts = attempts + 1, claimed_until = %s WHERE id = %s")


def claim_notice(
    connection: Connection, company_id: UUID, notice_id: UUID, *, settings: Settings, now: datetime
) -> NoticeClaim | None:
    """Begins an attempt. None if nothing is to be done, or not now."""
    notice = _DUE.first(connection, {"id": notice_id, "company_id": company_id, "now": now})
    if notice is None or (notice.part != "test" and _is_quiet(notice, now)):
        return None
    until = now + claim_time(settings)
    _CLAIM.execute(connection, (until, notice.id))
    attachment = _statement(connection, company_id, notice.statement_month)
    recipients = Recipients(notice.taken_by)
    return NoticeClaim(
        notice.id, notice.url, notice.text, notice.attempts, notice.due_at, attachment, recipients, until=until
    )


def _statement(connection: Connection, company_id: UUID, month: date | None) -> Attachment | None:
    """The statement of savings that goes out with the text."""
    pdf = read_statement_pdf(connection, company_id, month) if month is not None else None
    return Attachment(f"savings-{month:%Y-%m}.pdf", pdf) if pdf is not None else None


def _is_quiet(notice: _Due, now: datetime) -> bool:
    hours = QuietHours.of(notice.quiet_from, notice.quiet_until, notice.time_zone)
    return hours is not None and hours.have(now)


# --- Handed over -----------------------------------------------------------------------------------------------


def hand_over_notice(
    claimed: NoticeClaim, settings: Settings, *, tell_time: Callable[[], datetime] = clock.now
) -> Fault | None:
    """Gives the text to the gateway, outside any transaction. Returns None when the gateway took it. A worker that
    stood still gives nothing once its claim has run out: the end of the need may have been told by then."""
    if tell_time() >= claimed.until:
        return STOOD_STILL
    try:
        url = Contacts.of(settings).open(claimed.stored_url) or ""
    except UnreadableContact as error:
        return Fault(str(error))
    if (fault := fault_of(url, AllowedHosts.of(settings))) is not None:
        return Fault(f"the address {fault}")
    with tracing.working("notices.hand_over", "client"):
        return give_text(url, claimed.text, settings, claimed.recipients, claimed.attachment)


# --- Settled ---------------------------------------------------------------------------------------------------

_SETTLE = Command(
    """
    UPDATE notices SET status = %(status)s, error = %(error)s, retry_at = %(retry_at)s, settled_at = %(settled_at)s,
        taken_by = %(taken_by)s, claimed_until = NULL
    WHERE id = %(id)s AND claimed_until = %(until)s AND status = 'pending'
    """
)


def settle_notice(
    connection: Connection, claimed: NoticeClaim, fault: Fault | None, *, now: datetime
) -> SettledStatus | None:
    """Stores the end of an attempt. None if the claim has run out, so that the notice counts as doubtful already."""
    status, retry_at = _outcome(claimed, fault, now)
    parameters = {
        "status": status,
        "error": fault.sentence if fault is not None else None,
        "retry_at": retry_at,
        "settled_at": None if status == "pending" else now,
        "taken_by": claimed.recipients.taken_by or None,
        "id": claimed.notice_id,
        "until": claimed.until,
    }
    return status if _SETTLE.execute(connection, parameters).rowcount else None


def _outcome(claimed: NoticeClaim, fault: Fault | None, now: datetime) -> tuple[SettledStatus, datetime | None]:
    if fault is None:
        return "sent", None
    if fault.in_doubt or fault.unanswered:
        return "doubtful", None
    retried_for = RETRIED_FOR if claimed.attachment is None else STATEMENTS_RETRIED_FOR
    retry_at = _RETRIES.next_at(claimed.attempts, now=now, last_moment=claimed.due_at + retried_for)
    return "pending" if retry_at is not None else "failed", retry_at
