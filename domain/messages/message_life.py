"""The life of a stored message: claimed, handed over, settled, as `domain/claims.py` describes it. The functions stand
in that order.

A message arrives at least once. Toward a gateway, a crash between the gateway's answer and our commit repeats it; its
id in the text shows that the two are one. An app in the cab (`in_cab.py`) gets no message twice. Outbox and sandbox
need no gateway: one transaction does everything, so each of those messages is delivered exactly once.

`routes.plans.delivery` calls `claim` and `settle` with the route locked, and moves the route on. Routes are locked
before messages everywhere."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Literal, NamedTuple
from uuid import UUID

from domain import clock
from domain.accounts.contact_urls import UnusableContact, channel_of, in_cab_contact
from domain.accounts.contacts import Contacts, UnreadableContact, is_sealed
from domain.claims import Claim, Retries
from domain.database.connections import Connection
from domain.database.fence import is_at_work
from domain.database.statements import Command, NotNull, Statement
from domain.lifecycle import Environment
from domain.magic_values import LATE_MESSAGE, named
from domain.messages.driver_links import with_fresh_link, with_masked_link
from domain.messages.gateways import STOOD_STILL, Fault, claim_time, give_text
from domain.messages.in_cab import InCabTarget, connector_account, hand_over_in_cab
from domain.messages.message_text import corrected
from domain.messages.new_messages import earlier_messages
from domain.messages.recipients import Recipients
from domain.settings import Settings
from domain.telemetry import tracing

OUTBOX = "outbox"
SANDBOX = "sandbox"

_RETRIES = Retries(timedelta(seconds=30), longest=timedelta(minutes=30))

_DOUBT_FACTOR = 3
_RETRIES_IN_DOUBT = Retries(timedelta(seconds=30), factor=_DOUBT_FACTOR)
"""The waits when the message may have gone out, without a longest one: the driver gets it at most eight times in a
day."""

_MAGIC_DELAY = timedelta(minutes=1)
"""Time for which the sandbox keeps a route `planned` that asks for it."""


class MessageStatus(StrEnum):
    PENDING = "pending"
    SENT = "sent"
    SUPPRESSED = "suppressed"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class MessageClaim(Claim):
    """The right of one worker to hand over a message."""

    message_id: UUID
    company_id: UUID
    url: str
    text: str
    in_doubt_since: datetime | None
    """When an earlier attempt ended without a known outcome, so that it may have reached the driver; None without such
    an attempt."""
    queued_at: datetime
    """When the message was queued, or a person last had it sent again, who had asked the driver."""
    attempts: int = 0
    """The number of attempts before this one."""
    in_cab: InCabTarget | None = None
    """The app in the cab that the URL names; None for another gateway."""
    recipients: Recipients = field(default_factory=Recipients)


AttemptEnd = Literal["delivered", "to_retry", "given_up", "discarded"]


class Settled(NamedTuple):
    """The end of an attempt, and the status that the message has now.

    delivered: the message is `sent`, in the sandbox `suppressed`. to_retry: it stays `pending`. given_up: it is
    `failed`, since its time is over. discarded: it is `failed`, since its plan is not the route's any more.
    """

    end: AttemptEnd
    status: MessageStatus
    route_id: UUID
    plan_id: UUID
    driver_id: UUID
    environment: str


# --- Claimed ---------------------------------------------------------------------------------------------------

WANTED = """(r.status = 'planned' AND r.plan_id = m.plan_id
                OR r.status = 'active' AND m.plan_id IN (r.plan_id, r.correction_id)) AS wanted"""
"""SQL that tells if the message's plan is still the one that the driver should get. One that he has asked for
on his page, by a choice or a refusal, is his plan before its message confirms it."""


class _Due(NamedTuple):
    id: UUID
    company_id: UUID
    environment: str
    route_id: UUID
    plan_id: UUID
    driver_id: UUID
    text: NotNull[str]
    """The text, which is deleted only after its message has ended."""
    taken_by: list[str] | None
    claimed_until: datetime | None
    attempts: int
    error: str | None
    queued_at: datetime
    contact: str | None
    external_id: str | None
    """The driver's external id."""
    message_url: str | None
    asks_for_delay: bool | None
    """True if its route asks the sandbox to stay `planned` for a while."""
    wanted: bool | None


_DUE = Statement(
    _Due,
    f"""
    SELECT m.id, m.company_id, m.environment, m.route_id, m.plan_id, m.driver_id, m.text, m.taken_by, m.claimed_until,
           m.attempts, m.error, m.queued_at, d.contact, d.external_id,
           c.message_url,
           m.environment = 'sandbox' AND m.attempts = 0 AND {named(LATE_MESSAGE)} AS asks_for_delay, {WANTED}
    FROM messages m
    JOIN routes r ON r.id = m.route_id
    JOIN drivers d ON d.id = m.driver_id
    JOIN companies c ON c.id = m.company_id
    WHERE m.id = %(id)s AND m.status = 'pending' AND m.withheld_since IS NULL
      AND (m.claimed_until IS NULL OR m.claimed_until <= %(now)s)
      AND (m.attempts = 0 AND m.claimed_until IS NULL OR m.retry_at <= %(now)s)
      AND {is_at_work("m.company_id")}
    FOR UPDATE OF m
    """,
)

_WAIT_FOR_EARLIER = Command("UPDATE messages SET retry_at = %s WHERE id = %s")

_CLAIM = Command(
    "UPDATE messages SET text = %s, attempts = attempts + 1, claimed_until = %s, retry_at = coalesce(%s, retry_at)"
    " WHERE id = %s"
)


def claim(
    connection: Connection, message_id: UUID, *, settings: Settings, now: datetime
) -> MessageClaim | Settled | None:
    """Begin an attempt. Returns a claim if a gateway must be called; otherwise the message is delivered at once. None
    if nothing is to be done, or not now. The caller has locked the route.

    While a worker hands over another message for this load to this driver, this one waits. If the driver has the other
    plan, or may have it, this message says that it is a correction."""
    message = _DUE.first(connection, {"id": message_id, "now": now})
    if message is None:
        return None
    if not message.wanted:  # the route was changed while an earlier attempt was under way
        return _discard(connection, message)
    earlier = earlier_messages(connection, message.id, message.route_id, message.driver_id, message.environment)
    if earlier.busy_until is not None and earlier.busy_until > now:
        _WAIT_FOR_EARLIER.execute(connection, (earlier.busy_until, message.id))
        return None
    if message.attempts and now >= _last_moment(message, settings):
        # A message without an error: the worker crashed in each attempt.
        return _give_up(connection, message, message.error or "no attempt has come to an end")
    text = corrected(message.text) if earlier.sent or earlier.in_doubt else message.text
    if message.asks_for_delay:
        _CLAIM.execute(connection, (text, None, now + _MAGIC_DELAY, message.id))
        return None
    url = Contacts.of(settings).open_or_keep(message.contact or message.message_url or None)
    needs_gateway = message.environment != Environment.SANDBOX and url is not None
    until = retry_at = None
    if needs_gateway:
        lease = claim_time(settings)
        until = now + lease
        crashed = Retries(lease, factor=_DOUBT_FACTOR).wait(message.attempts)
        retry_at = max(until, min(now + crashed, _last_moment(message, settings)))
        text = with_masked_link(text, settings.driver_page_address())
    _CLAIM.execute(connection, (text, until, retry_at, message.id))
    if message.environment == Environment.SANDBOX:
        return _deliver(connection, message, MessageStatus.SUPPRESSED, SANDBOX, now=now)
    if url is None or until is None:
        return _deliver(connection, message, MessageStatus.SENT, OUTBOX, now=now)
    return MessageClaim(
        message.id,
        message.company_id,
        url,
        with_fresh_link(connection, text, message, settings.driver_page_address(), now=now),
        message.claimed_until,
        message.queued_at,
        message.attempts,
        _in_cab_target(connection, message, url),
        Recipients(message.taken_by),
        until=until,
    )


def _in_cab_target(connection: Connection, message: _Due, url: str) -> InCabTarget | None:
    try:
        contact = in_cab_contact(url)
    except UnusableContact:  # the gateway's rule refuses it with its reason
        return None
    if contact is None:
        return None
    account = connector_account(connection, message.company_id, contact.vendor)
    return InCabTarget(contact, account, message.external_id)


# --- Handed over -----------------------------------------------------------------------------------------------


def hand_over(
    claimed: MessageClaim, settings: Settings, *, tell_time: Callable[[], datetime] = clock.now
) -> Fault | None:
    """Give the text to the gateway, outside any transaction. Returns None when the gateway took it. A worker that stood
    still gives nothing once its claim has run out, since another one may have given the text by then."""
    if is_sealed(claimed.url):
        return Fault(str(UnreadableContact()))
    with tracing.working("messages.hand_over", "client"):
        if claimed.in_cab is None:
            if tell_time() >= claimed.until:
                return STOOD_STILL
            return give_text(claimed.url, claimed.text, settings, claimed.recipients)
        return hand_over_in_cab(
            claimed.in_cab,
            claimed.message_id,
            claimed.text,
            repeats=claimed.attempts > 0,
            in_doubt_since=claimed.in_doubt_since,
            asked_at=claimed.queued_at,
            settings=settings,
            now=clock.now(),
            before_sending=lambda: STOOD_STILL if tell_time() >= claimed.until else None,
        )


# --- Settled ---------------------------------------------------------------------------------------------------


class _HandedOver(NamedTuple):
    id: UUID
    environment: str
    route_id: UUID
    plan_id: UUID
    driver_id: UUID
    attempts: int
    queued_at: datetime
    wanted: bool | None


_HANDED_OVER = Statement(
    _HandedOver,
    f"""
    SELECT m.id, m.environment, m.route_id, m.plan_id, m.driver_id, m.attempts, m.queued_at, {WANTED}
    FROM messages m JOIN routes r ON r.id = m.route_id
    WHERE m.id = %s AND m.claimed_until = %s
    FOR UPDATE OF m
    """,
)

_END_CLAIM = Command(
    "UPDATE messages SET channel = %s, claimed_until = %s, taken_by = CASE WHEN text IS NOT NULL THEN %s::text[] END"
    " WHERE id = %s"
)
"""Whoever forgot the text meanwhile, as an erasure of the driver does, wants no recipients either."""


def settle(
    connection: Connection, claimed: MessageClaim, fault: Fault | None, *, settings: Settings, now: datetime
) -> Settled | None:
    """Store the end of an attempt. The caller has locked the route. None when the claim has run out and another worker
    has the message: that worker's attempt counts."""
    message = _HANDED_OVER.first(connection, (claimed.message_id, claimed.until))
    if message is None:
        return None
    channel = channel_of(claimed.url)
    if fault is None:
        return _deliver(connection, message, MessageStatus.SENT, channel, now=now)
    is_in_doubt = fault.in_doubt or fault.unanswered
    doubt = now if is_in_doubt else claimed.in_doubt_since
    _END_CLAIM.execute(connection, (channel, doubt, claimed.recipients.taken_by or None, message.id))
    if not message.wanted:
        return _discard(connection, message)
    retry_at = (_RETRIES_IN_DOUBT if is_in_doubt else _RETRIES).next_at(
        message.attempts - 1,
        now=now,
        last_moment=_last_moment(message, settings),
        least=timedelta(seconds=fault.wait_seconds),
    )
    if fault.final or retry_at is None:
        return _give_up(connection, message, fault.sentence)
    return _retry(connection, message, fault.sentence, retry_at)


_DELIVER = Command(
    "UPDATE messages SET status = %s, channel = %s, error = NULL, retry_at = NULL,"
    " claimed_until = NULL, taken_by = NULL, sent_at = %s WHERE id = %s"
)


def _deliver(
    connection: Connection, message: _Due | _HandedOver, status: MessageStatus, channel: str, *, now: datetime
) -> Settled:
    _DELIVER.execute(connection, (status, channel, now, message.id))
    return _settled("delivered", status, message)


_RETRY = Command("UPDATE messages SET error = %s, retry_at = %s WHERE id = %s")


def _retry(connection: Connection, message: _HandedOver, why: str, retry_at: datetime) -> Settled:
    _RETRY.execute(connection, (why, retry_at, message.id))
    return _settled("to_retry", MessageStatus.PENDING, message)


_GIVE_UP = Command("UPDATE messages SET status = 'failed', error = %s, retry_at = NULL WHERE id = %s")


def _give_up(connection: Connection, message: _Due | _HandedOver, why: str) -> Settled:
    _GIVE_UP.execute(connection, (why, message.id))
    return _settled("given_up", MessageStatus.FAILED, message)


_DISCARD = Command(
    "UPDATE messages SET status = 'failed', retry_at = NULL,"
    " error = CASE status WHEN 'pending' THEN 'The route was changed before delivery' ELSE error END WHERE id = %s"
)


def _discard(connection: Connection, message: _Due | _HandedOver) -> Settled:
    """End a message whose plan is no longer the route's. A message that failed before keeps its reason."""
    _DISCARD.execute(connection, (message.id,))
    return _settled("discarded", MessageStatus.FAILED, message)


def _settled(end: AttemptEnd, status: MessageStatus, message: _Due | _HandedOver) -> Settled:
    return Settled(end, status, message.route_id, message.plan_id, message.driver_id, message.environment)


def _last_moment(message: _Due | _HandedOver, settings: Settings) -> datetime:
    """The time after which no attempt may begin."""
    return message.queued_at + timedelta(hours=settings.message_retry_hours)
