"""The life of a delivery: claimed, sent, settled, as `domain/claims.py` describes it. The functions stand in that
order.

An endpoint gets each event at least once: after a crash another worker sends it again, with the same id. The next event
of a route waits until the one before it was delivered or given up. Different routes wait for nothing.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from typing import NamedTuple
from uuid import UUID

from domain.accounts.contacts import Contacts, UnreadableContact
from domain.audit.entries import service_actor
from domain.claims import Claim, Retries
from domain.database.connections import Connection, Tenant, as_json
from domain.database.fence import is_at_work
from domain.database.index_order import in_index_order
from domain.database.statements import Command, OwnedRow, Statement
from domain.lifecycle import Environment
from domain.routes.traces import traces_of
from domain.settings import Settings
from domain.telemetry.tracing import NO_TRACE, Trace
from domain.webhooks.endpoints import disable_endpoint, former_secrets
from domain.webhooks.events import CapturedEvent, prepare_payloads

GONE = 410
"""The status with which an endpoint asks for no more events."""

_RETRIES = Retries(timedelta(seconds=5), longest=timedelta(hours=3), factor=4)

_WAITS_OF_LOST = {"first_wait": _RETRIES.first, "factor": _RETRIES.factor, "longest_wait": _RETRIES.longest}

_CLAIM_ATTEMPTS = 2
_CLAIM_GRACE = timedelta(seconds=5)
"""Time by which a claim outlives its attempts: one attempt fits in even with a slow database."""


@dataclass(frozen=True, slots=True)
class DeliveryClaim(Claim):
    """The right of one worker to send an event to an endpoint."""

    number: int
    attempt: int
    event_id: UUID
    route_id: UUID | None
    type: str
    payload: str
    failures: int
    queued_at: datetime
    url: str
    """The endpoint's URL at that time, to which the event is sent."""
    trace: Trace = NO_TRACE
    """The trace of the push whose input the route has."""


class ClaimedBatch(NamedTuple):
    """The deliveries that a worker has claimed, and where and how to send them."""

    url: str
    secrets: Sequence[str]
    """The secrets that sign: the current one, and for a day the one before it."""
    claimed: Sequence[DeliveryClaim]


class Outcome(NamedTuple):
    """The end of an attempt. `error` is None when the endpoint took the event."""

    claimed: DeliveryClaim
    at: datetime
    milliseconds: float
    status: int | None
    error: str | None
    answer: str | None = None


# --- Claimed ---------------------------------------------------------------------------------------------------


class _Target(NamedTuple):
    company_id: UUID
    environment: str
    url: str
    secret: str
    former_secret: str | None
    former_secret_until: datetime | None
    failing_since: datetime | None


_TARGET = Statement(
    _Target,
    "SELECT company_id, environment, url, secret, former_secret, former_secret_until, failing_since"
    f" FROM webhook_endpoints e WHERE id = %s AND disabled_at IS NULL AND {is_at_work('e.company_id')}",
)


class _Due(NamedTuple):
    number: int
    attempts: int
    failures: int
    queued_at: datetime
    event_id: UUID
    type: str
    at: datetime
    route_id: UUID | None
    payload: str | None
    answer_id: UUID | None
    stop: int | None


_CLAIM = Statement(
    _Due,
    """
    WITH due AS (
        SELECT number FROM webhook_deliveries it
        WHERE endpoint_id = %(endpoint_id)s AND status = 'pending' AND retry_at <= %(now)s
          AND (route_id IS NULL OR number = (
              SELECT first.number FROM webhook_deliveries first
              WHERE first.endpoint_id = it.endpoint_id AND first.route_id >= it.route_id AND first.status = 'pending'
              ORDER BY first.route_id, first.number LIMIT 1))
        ORDER BY retry_at, number LIMIT %(limit)s FOR UPDATE SKIP LOCKED
    )
    UPDATE webhook_deliveries d
    SET attempts = d.attempts + 1, failures = d.failures + (d.claimed_until IS NOT NULL)::int,
        claimed_until = %(until)s,
        retry_at = %(until)s::timestamptz + CASE WHEN d.claimed_until IS NULL THEN interval '0'
            ELSE least(%(first_wait)s::interval * %(factor)s ^ least(d.failures, 16), %(longest_wait)s::interval)
                 * (0.5 + random()) END
    FROM webhook_events e
    WHERE d.endpoint_id = %(endpoint_id)s AND d.number = ANY(ARRAY(SELECT number FROM due)) AND e.id = d.event_id
    RETURNING d.number, d.attempts, d.failures, d.queued_at, e.id AS event_id, e.type, e.at, e.route_id, e.payload,
              e.answer_id, e.stop
    """,
)
"""Two indexes give the rows in the order that is asked for, so this reads no more of a backlog than the limit. A join,
as of `NOT EXISTS`, would read the whole backlog. So would a sort, which PostgreSQL prefers while its statistics say
that the table has a row or two. That is why it says `>=`, whose first row is one of the same route, and uses
`in_index_order`.

An attempt whose end was not stored counts as a failure once its claim has run out: its event may have killed the
process. So the next process is killed later each time. The waits differ, so that the events that were under way beside
it are soon sent without it."""
_FAIL = Command(
    "UPDATE webhook_deliveries SET status = 'failed', ended_at = %s, error = %s, claimed_until = NULL"
    " WHERE endpoint_id = %s AND number = ANY(%s)"
)


def claim_deliveries(
    connection: Connection, endpoint_id: UUID, *, most: int, under_way: int = 0, settings: Settings, now: datetime
) -> ClaimedBatch | None:
    """Begins attempts until `most` are under way; an endpoint that failed last gets one at a time. None if nothing is
    to be done, or not now."""
    target = _TARGET.first(connection, (endpoint_id,))
    if target is None:
        return None
    until = now + _CLAIM_ATTEMPTS * timedelta(seconds=settings.webhook_timeout_seconds) + _CLAIM_GRACE
    limit = (most if target.failing_since is None else 1) - under_way
    if limit <= 0:
        return None
    with in_index_order(connection):
        rows = _CLAIM.all(
            connection, {"endpoint_id": endpoint_id, "limit": limit, "until": until, "now": now, **_WAITS_OF_LOST}
        )
    if not rows:
        return None
    unprepared = [
        CapturedEvent(row.event_id, row.type, row.at, row.route_id, row.answer_id, row.stop)
        for row in rows
        if row.payload is None
    ]
    tenant = Tenant(target.company_id, Environment(target.environment))
    prepared = prepare_payloads(connection, tenant, unprepared) if unprepared else {}
    traces = traces_of(connection, {row.route_id for row in rows if row.route_id is not None})
    claimed, lost = [], []
    for row in sorted(rows, key=lambda row: row.number):
        payload = row.payload or prepared.get(row.event_id)
        if payload is None:
            lost.append(row.number)
        else:
            claimed.append(_claimed(row, payload, target.url, until, traces))
    if lost:
        _FAIL.execute(connection, (now, "The route was deleted before the first attempt", endpoint_id, lost))
    return ClaimedBatch(target.url, _open_secrets(target, Contacts.of(settings), now), claimed)


def _claimed(row: _Due, payload: str, url: str, until: datetime, traces: Mapping[UUID, Trace]) -> DeliveryClaim:
    return DeliveryClaim(
        number=row.number,
        attempt=row.attempts,
        event_id=row.event_id,
        route_id=row.route_id,
        type=row.type,
        payload=payload,
        until=until,
        failures=row.failures,
        queued_at=row.queued_at,
        url=url,
        trace=traces.get(row.route_id, NO_TRACE) if row.route_id is not None else NO_TRACE,
    )


def _open_secrets(target: _Target, contacts: Contacts, now: datetime) -> list[str]:
    """The secrets that sign; empty if the current one cannot be opened."""
    try:
        secrets = [contacts.open(target.secret) or ""]
        if target.former_secret_until is not None and now < target.former_secret_until:
            secrets += former_secrets(target.former_secret, contacts)
    except UnreadableContact:
        return []
    return [secret for secret in secrets if secret]


# --- Settled ---------------------------------------------------------------------------------------------------


class _Failing(NamedTuple):
    company_id: UUID
    url: str
    failing_since: datetime | None
    disabled_at: datetime | None


class Disabled(NamedTuple):
    """An endpoint that was disabled by its answers, and why."""

    endpoint_id: UUID
    company_id: UUID
    reason: str


_LOCK_ENDPOINT = Statement(
    _Failing,
    "SELECT company_id, url, failing_since, disabled_at FROM webhook_endpoints WHERE id = %s FOR NO KEY UPDATE",
)
_SET_FAILING = Command("UPDATE webhook_endpoints SET failing_since = %s WHERE id = %s")


class _Ended(NamedTuple):
    number: int
    attempt: int


_LOG_AND_END = Statement(
    _Ended,
    """
    WITH ended AS (
        SELECT * FROM jsonb_to_recordset(%(outcomes)s) AS it (
            number int8, attempt int, until timestamptz, at timestamptz, milliseconds float8, code int, error text,
            answer text, sent text, status text, retry_at timestamptz)
    ), logged AS (
        INSERT INTO webhook_attempts (
            event_id, endpoint_id, attempt, company_id, environment, at, milliseconds, status, error, answer)
        SELECT d.event_id, d.endpoint_id, ended.attempt, d.company_id, d.environment, ended.at, ended.milliseconds,
               ended.code, ended.error,
               CASE WHEN sha256(convert_to(e.payload, 'UTF8')) = decode(ended.sent, 'hex') THEN ended.answer END
        FROM ended JOIN webhook_deliveries d ON d.number = ended.number JOIN webhook_events e ON e.id = d.event_id
        WHERE d.endpoint_id = %(endpoint_id)s AND d.number = ANY(%(numbers)s)
        ORDER BY e.id FOR KEY SHARE OF e
        ON CONFLICT DO NOTHING
    )
    UPDATE webhook_deliveries d
    SET status = ended.status, claimed_until = NULL, error = ended.error,
        retry_at = coalesce(ended.retry_at, d.retry_at),
        ended_at = CASE ended.status WHEN 'pending' THEN NULL ELSE ended.at END,
        failures = d.failures + (ended.error IS NOT NULL)::int
    FROM ended
    WHERE d.endpoint_id = %(endpoint_id)s AND d.number = ANY(%(numbers)s) AND d.number = ended.number
      AND d.claimed_until = ended.until
    RETURNING d.number, ended.attempt
    """,
)
"""Logs each attempt, and ends those whose claims still hold. Returns these. Where the payload was erased meanwhile, and
perhaps prepared anew, the answer may repeat it, and is not kept. The events are locked, in their order, so that none
is deleted meanwhile, and an erasure under way is waited for."""
_DELAY_NEXT = Command(
    """
    UPDATE webhook_deliveries SET retry_at = greatest(retry_at, %(retry_at)s)
    WHERE endpoint_id = %(endpoint_id)s AND number = ANY(ARRAY(
        SELECT number FROM webhook_deliveries
        WHERE endpoint_id = %(endpoint_id)s AND status = 'pending'
          AND (route_id, number) > (%(route_id)s, %(number)s)
          AND (route_id, number) <= (%(route_id)s, 9223372036854775807)
        ORDER BY route_id, number))
    """
)
"""The next events of a route wait as long as the failed one, so that claims do not meet them in vain. The order is that
of an index, as for `_CLAIM`."""


def settle_deliveries(
    connection: Connection, endpoint_id: UUID, outcomes: Sequence[Outcome], *, settings: Settings, now: datetime
) -> Disabled | None:
    """Stores how attempts ended. An attempt whose claim has run out is logged, and changes nothing else. An attempt at
    a former URL says nothing of the endpoint; if it failed, the next one is due at once. Returns the endpoint if its
    answers disabled it: it is gone, or it has taken nothing for days."""
    endpoint = _LOCK_ENDPOINT.first(connection, (endpoint_id,))
    url = endpoint.url if endpoint is not None else None
    documents = [_document(outcome, url, settings=settings, now=now) for outcome in outcomes]
    numbers = [outcome.claimed.number for outcome in outcomes]
    asked = {"endpoint_id": endpoint_id, "numbers": numbers, "outcomes": as_json(documents)}
    ended = set(_LOG_AND_END.all(connection, asked))
    held = [pair for pair in zip(outcomes, documents, strict=True) if (pair[1]["number"], pair[1]["attempt"]) in ended]
    with in_index_order(connection):
        for _, document in held:
            if document["retry_at"] is not None and document["route_id"] is not None:
                _DELAY_NEXT.execute(connection, {**document, "endpoint_id": endpoint_id})
    outcomes = [outcome for outcome, _ in held if outcome.claimed.url == url]
    if endpoint is None or not outcomes:
        return None
    has_failed = all(outcome.error is not None for outcome in outcomes)
    failing_since = (endpoint.failing_since or now) if has_failed else None
    if failing_since != endpoint.failing_since and endpoint.disabled_at is None:
        _SET_FAILING.execute(connection, (failing_since, endpoint_id))
    reason = _reason_to_disable(outcomes, failing_since, settings, now)
    if reason is not None and disable_endpoint(
        connection,
        endpoint.company_id,
        endpoint_id,
        service_actor(reason),
        now=now,
        failing_since=failing_since or now,
    ):
        return Disabled(endpoint_id, endpoint.company_id, reason)
    return None


def _document(outcome: Outcome, url: str | None, *, settings: Settings, now: datetime) -> dict[str, object]:
    """A row of `_LOG_AND_END`, with the fields that `_DELAY_NEXT` needs. `url` is the endpoint's present one."""
    claimed = outcome.claimed
    status, retry_at = "delivered", None
    if outcome.error is not None:
        last_moment = claimed.queued_at + timedelta(hours=settings.webhook_retry_hours)
        retry_at = _RETRIES.next_at(claimed.failures, now=now, last_moment=last_moment) if claimed.url == url else now
        status = "pending" if retry_at is not None else "failed"
    return {
        "number": claimed.number,
        "route_id": claimed.route_id,
        "attempt": claimed.attempt,
        "until": claimed.until,
        "at": outcome.at,
        "milliseconds": round(outcome.milliseconds, 1),
        "code": outcome.status,
        "error": outcome.error,
        "answer": outcome.answer,
        "sent": sha256(claimed.payload.encode()).hexdigest(),
        "status": status,
        "retry_at": retry_at,
    }


def _reason_to_disable(
    outcomes: Collection[Outcome], failing_since: datetime | None, settings: Settings, now: datetime
) -> str | None:
    if any(outcome.status == GONE for outcome in outcomes):
        return f"it answered {GONE} (Gone)"
    if failing_since is not None and now - failing_since > timedelta(days=settings.webhook_failing_days):
        return f"it has taken nothing for {settings.webhook_failing_days:g} days"
    return None


_RELEASE = Command(
    "UPDATE webhook_deliveries SET claimed_until = NULL, retry_at = %s"
    " WHERE endpoint_id = %s AND number = ANY(%s) AND status = 'pending' AND claimed_until = ANY(%s)"
)


def release_claims(
    connection: Connection, endpoint_id: UUID, claimed: Sequence[DeliveryClaim], *, now: datetime
) -> None:
    """Gives up claims whose attempts were cut off, so that another worker sends them at once. A claim that ran out may
    be another worker's by now, and stays."""
    numbers, untils = [one.number for one in claimed], list({one.until for one in claimed})
    _RELEASE.execute(connection, (now, endpoint_id, numbers, untils))


# --- Due -------------------------------------------------------------------------------------------------------

_DUE_ENDPOINTS = Statement(
    OwnedRow,
    """
    SELECT e.id, e.company_id FROM webhook_endpoints e
    WHERE e.disabled_at IS NULL AND (
        SELECT d.retry_at FROM webhook_deliveries d WHERE d.endpoint_id = e.id AND d.status = 'pending'
        ORDER BY d.retry_at LIMIT 1) <= %s
    """,
)


def due_endpoints(connection: Connection, *, now: datetime) -> dict[UUID, UUID]:
    """Endpoints for which an attempt is due, each with its company."""
    with in_index_order(connection):
        return dict(_DUE_ENDPOINTS.all(connection, (now,)))
