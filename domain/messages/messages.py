"""A plan's message to the driver: its channel, and its delivery, once.

A message is claimed in one transaction, handed over outside any, and its outcome stored in another one; a claim that
runs out lets it go. The outbox and the sandbox are exact: one transaction does all. Toward a gateway, a crash between
its answer and our commit repeats the message; it carries its id, so that the two can be told to be one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, NamedTuple, Protocol

from domain.accounts.contacts import AllowedHosts, Contacts, UnreadableContact, is_sealed
from domain.database import Connection
from domain.ids import new_id
from domain.jobs import SWEEP_GRACE, Job, send_message
from domain.lifecycle import Environment
from domain.messages import gateways
from domain.messages.gateways import Fault
from domain.messages.text import compose, corrected
from domain.settings import Settings
from domain.statements import Command, IdRow, NotNull, Statement
from domain.telematics.tracking import complete_routes

OUTBOX = "outbox"
SANDBOX = "sandbox"

_FIRST_RETRY = timedelta(seconds=30)
_LONGEST_RETRY = timedelta(minutes=30)

_DOUBT_FACTOR = 3
"""How much longer each time until a message that may have gone out, or whose sender crashed, is repeated: eight
attempts in a day at most."""

_CLAIM_ATTEMPTS = 4
"""A claim holds for the time of so many attempts: for the resolver, the outcome's transaction and unequal clocks."""

_TURN = timedelta(seconds=30)
"""When a message whose company has all its turns is due again, in case that nobody calls it sooner."""


class MessageStatus(StrEnum):
    PENDING = "pending"
    SENT = "sent"
    SUPPRESSED = "suppressed"
    FAILED = "failed"


class Outcome(NamedTuple):
    """What the message's status is now (None: nothing to do, or not now) and the jobs for after the commit."""

    status: MessageStatus | None
    jobs: list[Job]


@dataclass(frozen=True, slots=True)
class Claim:
    """A message that is this worker's to hand over. `in_doubt_since`: an attempt before it has no known outcome."""

    message_id: str
    company_id: str
    url: str
    text: str
    until: datetime
    in_doubt_since: datetime | None
    attempts: int = 0
    """Those before this one."""


class PlannedRoute(Protocol):
    """What the message of a plan says of its route, and whose it is."""

    @property
    def id(self) -> str: ...
    @property
    def company_id(self) -> str: ...
    @property
    def environment(self) -> str: ...
    @property
    def external_id(self) -> str: ...
    @property
    def reference(self) -> str | None: ...
    @property
    def driver_id(self) -> str: ...
    @property
    def unit_number(self) -> str | None: ...
    @property
    def stops(self) -> Sequence[Mapping[str, Any]]: ...


_INSERT = Command(
    "INSERT INTO messages (id, company_id, environment, route_id, plan_id, driver_id, text, retry_at)"
    " VALUES (%s, %s, %s, %s, %s, %s, %s, %s)"
)


def queue_message(
    connection: Connection, route: PlannedRoute, plan_id: str, plan: Mapping[str, Any], *, now: datetime
) -> str:
    """Stores the message of a fresh plan, to be sent. Returns its id."""
    message_id = new_id("msg")
    name = route.reference or route.external_id
    text = compose(message_id, name, route.unit_number, route.stops, plan)
    if _earlier_messages(connection, message_id, route.id, route.driver_id, route.environment).sent:
        text = corrected(text)
    _INSERT.execute(
        connection,
        (
            message_id,
            route.company_id,
            route.environment,
            route.id,
            plan_id,
            route.driver_id,
            text,
            now + SWEEP_GRACE,
        ),
    )
    return message_id


_WANTED = """(r.status = 'planned' AND r.plan_id = m.plan_id
                OR r.status = 'active' AND r.correction_id = m.plan_id) AS wanted"""


class _Due(NamedTuple):
    id: str
    company_id: str
    environment: str
    route_id: str
    plan_id: str
    driver_id: str
    text: NotNull[str]
    """It is forgotten only after the message has ended."""
    claimed_until: datetime | None
    attempts: int
    error: str | None
    created_at: datetime
    contact: str | None
    message_url: str | None
    wanted: bool | None


_DUE = Statement(
    _Due,
    f"""
    SELECT m.id, m.company_id, m.environment, m.route_id, m.plan_id, m.driver_id, m.text, m.claimed_until,
           m.attempts, m.error, m.created_at, d.contact, c.message_url, {_WANTED}
    FROM messages m
    JOIN routes r ON r.id = m.route_id
    JOIN drivers d ON d.id = m.driver_id
    JOIN companies c ON c.id = m.company_id
    WHERE m.id = %(id)s AND m.status = 'pending' AND (m.claimed_until IS NULL OR m.claimed_until <= %(now)s)
      AND (m.attempts = 0 AND m.claimed_until IS NULL OR m.retry_at <= %(now)s
           OR m.attempts = %(called_after)s)
    FOR UPDATE OF m
    """,  # noqa: S608 (constants of this module)
)

_WAIT = Command("UPDATE messages SET retry_at = %s WHERE id = %s")

_CLAIM = Command(
    "UPDATE messages SET text = %s, attempts = attempts + 1, claimed_until = %s, retry_at = coalesce(%s, retry_at)"
    " WHERE id = %s"
)


def claim(
    connection: Connection, message_id: str, *, settings: Settings, now: datetime, called_after: int | None = None
) -> Claim | Outcome:
    """One attempt at one message begins. What needs no gateway is delivered at once; else it is to be handed over.
    `called_after`: it had been put off after so many attempts, and need not wait until it is due. Another attempt that
    was made meanwhile is waited for like any other.

    The message of a plan that takes the place of another one waits while that is being handed over, and says that it
    is a correction if the driver has the other one, or may have.
    """
    _lock_route(connection, message_id)
    message = _DUE.first(connection, {"id": message_id, "now": now, "called_after": called_after})
    if message is None:
        return Outcome(None, [])
    if not message.wanted:  # the route was changed while an earlier attempt was under way
        return _discard(connection, message)
    before = _earlier_messages(connection, message.id, message.route_id, message.driver_id, message.environment)
    if before.busy_until is not None and before.busy_until > now:
        _WAIT.execute(connection, (before.busy_until, message.id))
        return Outcome(None, [])
    if message.attempts and now >= _last_moment(message, settings):
        why = message.error or "no attempt has come to an end"  # each has ended its worker
        return _give_up(connection, message, why, now=now)
    text = corrected(message.text) if before.sent or before.in_doubt else message.text
    url = Contacts.of(settings).open_or_keep(message.contact or message.message_url or None)
    exact = message.environment == Environment.SANDBOX or url is None
    until = retry_at = None
    if not exact:
        lease = _CLAIM_ATTEMPTS * timedelta(seconds=settings.message_timeout_seconds)
        until = now + lease
        retry_at = max(until, min(now + _doubtful(lease, message.attempts), _last_moment(message, settings)))
    _CLAIM.execute(connection, (text, until, retry_at, message.id))
    if message.environment == Environment.SANDBOX:
        return _sent(connection, message, MessageStatus.SUPPRESSED, SANDBOX, now=now)
    if url is None or until is None:
        return _sent(connection, message, MessageStatus.SENT, OUTBOX, now=now)
    return Claim(message.id, message.company_id, url, text, until, message.claimed_until, message.attempts)


_PUT_OFF = Command(
    "UPDATE messages SET attempts = attempts - 1, claimed_until = %s, retry_at = %s"
    " WHERE id = %s AND claimed_until = %s"
)


def put_off(connection: Connection, claimed: Claim, *, now: datetime) -> None:
    """Gives a claim back before anything was done with it, until its turn comes: no attempt is counted."""
    _PUT_OFF.execute(connection, (claimed.in_doubt_since, now + _TURN, claimed.message_id, claimed.until))


def hand_over(claimed: Claim, settings: Settings) -> Fault | None:
    """Gives the text to the gateway, outside any transaction. None when it was taken."""
    if is_sealed(claimed.url):
        return Fault(str(UnreadableContact()))
    title, _, body = claimed.text.partition("\n")
    allowed = AllowedHosts.of(settings)
    return gateways.hand_over(
        claimed.url, title, body, allowed=allowed, timeout_seconds=settings.message_timeout_seconds
    )


class _HandedOver(NamedTuple):
    id: str
    environment: str
    route_id: str
    plan_id: str
    driver_id: str
    attempts: int
    created_at: datetime
    wanted: bool | None


_HANDED_OVER = Statement(
    _HandedOver,
    f"""
    SELECT m.id, m.environment, m.route_id, m.plan_id, m.driver_id, m.attempts, m.created_at, {_WANTED}
    FROM messages m JOIN routes r ON r.id = m.route_id
    WHERE m.id = %s AND m.claimed_until = %s
    FOR UPDATE OF m
    """,  # noqa: S608 (constants of this module)
)

_END_CLAIM = Command("UPDATE messages SET channel = %s, claimed_until = %s WHERE id = %s")


def settle(
    connection: Connection, claimed: Claim, fault: Fault | None, *, settings: Settings, now: datetime
) -> Outcome:
    """Stores what came of an attempt; the route becomes `active` when the message is out, or gets its correction.

    Nothing to do when the claim ran out and another worker has it now.
    """
    _lock_route(connection, claimed.message_id)
    message = _HANDED_OVER.first(connection, (claimed.message_id, claimed.until))
    if message is None:
        return Outcome(None, [])
    channel = channel_of(claimed.url)
    if fault is None:
        return _sent(connection, message, MessageStatus.SENT, channel, now=now)
    _END_CLAIM.execute(connection, (channel, now if fault.in_doubt else claimed.in_doubt_since, message.id))
    if not message.wanted:
        return _discard(connection, message)
    return _not_sent(connection, message, fault, settings=settings, now=now)


_BEING_SENT = Command("SELECT FROM messages WHERE plan_id = %s AND status = 'pending' AND claimed_until > %s")


def is_being_sent(connection: Connection, plan_id: str, *, now: datetime) -> bool:
    """Whether a worker is handing over the message of this plan."""
    return _BEING_SENT.first(connection, (plan_id, now)) is not None


_LOCK_ROUTE = Command("SELECT FROM routes WHERE id = (SELECT route_id FROM messages WHERE id = %s) FOR UPDATE")


def _lock_route(connection: Connection, message_id: str) -> None:
    """Routes before messages, as everywhere: no two transactions wait for each other."""
    _LOCK_ROUTE.execute(connection, (message_id,))


class _Earlier(NamedTuple):
    sent: bool
    in_doubt: bool
    busy_until: datetime | None


_EARLIER = Statement(
    _Earlier,
    """
    SELECT count(*) FILTER (WHERE m.status IN ('sent', 'suppressed')) > 0 AS sent,
           count(m.claimed_until) > 0 AS in_doubt,
           max(m.claimed_until) FILTER (WHERE m.status = 'pending') AS busy_until
    FROM messages m JOIN routes o ON o.id = m.route_id JOIN routes r ON r.id = %(route_id)s
    WHERE m.driver_id = %(driver_id)s AND m.environment = %(environment)s AND m.id <> %(id)s
      AND m.created_at > r.created_at - interval '1 day'
      AND (m.status IN ('sent', 'suppressed') OR m.claimed_until IS NOT NULL)
      AND (o.id = r.id OR o.status = 'canceled'
           AND (o.external_id = r.external_id OR o.reference = r.reference AND r.reference <> ''))
    """,
)


def _earlier_messages(
    connection: Connection, message_id: str, route_id: str, driver_id: str, environment: str
) -> _Earlier:
    """Whether the driver has another plan of the same load (`sent`) or may have (`in_doubt`), and until when one may be
    on its way. The load may have come back under another route: pushed again after a cancel, or superseding.
    """
    return _EARLIER.one(
        connection, {"id": message_id, "route_id": route_id, "driver_id": driver_id, "environment": environment}
    )


def channel_of(url: str) -> str:
    """The schema of an Apprise URL, which names the gateway and holds no secret."""
    schema, found, _ = url.partition("://")
    return schema.lower() if found and schema else "unknown"


_STORE_SENT = Command(
    "UPDATE messages SET status = %s, channel = %s, error = NULL, retry_at = NULL,"
    " claimed_until = NULL, sent_at = %s WHERE id = %s"
)

_ACTIVATE = Command(
    "UPDATE routes SET status = 'active', retry_at = NULL, updated_at = clock_timestamp()"
    " WHERE id = %s AND plan_id = %s AND status = 'planned'"
)

_CORRECT = Command(
    """
    UPDATE routes r SET plan_id = p.id, distance_miles = (p.document->>'totalDistanceMiles')::float,
        correction_id = NULL, corrected_at = %s, updated_at = clock_timestamp()
    FROM plans p
    WHERE r.id = %s AND r.correction_id = %s AND p.id = r.correction_id AND r.status IN ('active', 'completed')
    """
)


def _sent(
    connection: Connection, message: _Due | _HandedOver, status: MessageStatus, channel: str, *, now: datetime
) -> Outcome:
    _STORE_SENT.execute(connection, (status, channel, now, message.id))
    _ACTIVATE.execute(connection, (message.route_id, message.plan_id))
    _CORRECT.execute(connection, (now, message.route_id, message.plan_id))  # what is shown is what the driver has
    jobs = complete_routes(connection, [message.route_id], now=now)
    return Outcome(status, [*jobs, *_waiting_for(connection, message)])


_RETRY = Command("UPDATE messages SET error = %s, retry_at = %s WHERE id = %s")


def _not_sent(
    connection: Connection, message: _HandedOver, fault: Fault, *, settings: Settings, now: datetime
) -> Outcome:
    before = message.attempts - 1
    wait = (
        _doubtful(_FIRST_RETRY, before) if fault.in_doubt else min(_FIRST_RETRY * 2 ** min(before, 16), _LONGEST_RETRY)
    )
    if now + wait > _last_moment(message, settings):
        return _give_up(connection, message, fault.sentence, now=now)
    _RETRY.execute(connection, (fault.sentence, now + wait, message.id))
    return Outcome(MessageStatus.PENDING, complete_routes(connection, [message.route_id], now=now))


def _doubtful(first: timedelta, attempts: int) -> timedelta:
    wait: timedelta = first * _DOUBT_FACTOR ** min(attempts, 16)
    return wait


def _last_moment(message: _Due | _HandedOver, settings: Settings) -> datetime:
    return message.created_at + timedelta(hours=settings.message_retry_hours)


_FAIL = Command("UPDATE messages SET status = 'failed', error = %s, retry_at = NULL WHERE id = %s")

_DROP_CORRECTION = Command("UPDATE routes SET correction_id = NULL WHERE id = %s AND correction_id = %s")


def _give_up(connection: Connection, message: _Due | _HandedOver, why: str, *, now: datetime) -> Outcome:
    """The driver keeps the plan there is, and may get another correction."""
    _FAIL.execute(connection, (why, message.id))
    _DROP_CORRECTION.execute(connection, (message.route_id, message.plan_id))
    return Outcome(MessageStatus.FAILED, complete_routes(connection, [message.route_id], now=now))


_DISCARD = Command(
    "UPDATE messages SET status = 'failed', retry_at = NULL,"
    " error = CASE status WHEN 'pending' THEN 'The route was changed before delivery' ELSE error END WHERE id = %s"
)


def _discard(connection: Connection, message: _Due | _HandedOver) -> Outcome:
    """Its plan is not the route's any more. What its attempts have come to stays known."""
    _DISCARD.execute(connection, (message.id,))
    return Outcome(MessageStatus.FAILED, _waiting_for(connection, message))


_WAITING = Statement(
    IdRow,
    "SELECT id FROM messages WHERE driver_id = %s AND environment = %s AND status = 'pending' AND attempts = 0"
    " AND claimed_until IS NULL ORDER BY created_at, id",
)


def _waiting_for(connection: Connection, message: _Due | _HandedOver) -> list[Job]:
    """Jobs for the messages that the driver gets after this one."""
    return [send_message(row.id) for row in _WAITING.all(connection, (message.driver_id, message.environment))]


_OVERDUE = Statement(
    IdRow, "SELECT id FROM messages WHERE status = 'pending' AND retry_at <= %s ORDER BY retry_at LIMIT %s"
)


def due_messages(connection: Connection, *, now: datetime, limit: int = 10_000) -> list[str]:
    """Pending messages that are due: for a first attempt that got lost, or for their next one."""
    return [row.id for row in _OVERDUE.all(connection, (now, limit))]


class Message(NamedTuple):
    """A message as it is listed."""

    id: str
    environment: str
    route_id: str
    driver_id: str
    status: str
    channel: str | None
    text: str | None
    """None once it was forgotten."""
    attempts: int
    error: str | None
    created_at: datetime
    retry_at: datetime | None
    sent_at: datetime | None


_LIST = Statement(
    Message,
    "SELECT id, environment, route_id, driver_id, status, channel, text, attempts, error, created_at, retry_at,"
    " sent_at FROM messages WHERE company_id = %s ORDER BY created_at, id",
)


def list_messages(connection: Connection, company_id: str) -> list[Message]:
    """A company's messages, oldest first."""
    return _LIST.all(connection, (company_id,))
