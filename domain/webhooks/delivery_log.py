"""The log of deliveries for people: what was sent to an endpoint, when, and the answer. A replayed delivery goes out
again with its id."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Literal, NamedTuple, get_args
from uuid import UUID

from domain.audit.entries import Action, Actor, record_about, record_action, subject_of
from domain.database.connections import Connection
from domain.database.statements import Command, Scalar, Statement
from domain.errors import Unknown
from domain.ids import first_id_of, new_id, shown_id
from domain.webhooks.endpoints import ENDPOINTS, Endpoint, UnusableEndpoint
from domain.webhooks.events import TEST, CapturedEvent, payload_of

DeliveryStatus = Literal["pending", "delivered", "failed"]
DELIVERY_STATUSES: Sequence[DeliveryStatus] = get_args(DeliveryStatus)


class Delivery(NamedTuple):
    """An event for one endpoint, on its way or delivered."""

    number: int
    event_id: UUID
    environment: str
    type: str
    route_id: UUID | None
    at: datetime
    """When the route changed."""
    status: str
    attempts: int
    retry_at: datetime | None
    """When the next attempt is due; None if there is none."""
    ended_at: datetime | None
    error: str | None


class Attempt(NamedTuple):
    attempt: int
    at: datetime
    milliseconds: float
    status: int | None
    error: str | None
    answer: str | None


class DeliveryDetails(NamedTuple):
    delivery: Delivery
    payload: str | None
    """The body; None if it is not prepared yet, or named an erased driver."""
    attempts: list[Attempt]


class UnknownDelivery(Unknown):
    def __init__(self, named: str) -> None:
        super().__init__(f"the endpoint has no delivery of {named!r}: see `fuelroute webhooks deliveries`")


_COLUMNS = """
    d.number, d.event_id, d.environment, e.type, d.route_id, e.at, d.status, d.attempts,
    CASE d.status WHEN 'pending' THEN d.retry_at END AS retry_at, d.ended_at, d.error
"""
_LIST = Statement(
    Delivery,
    f"""
    SELECT {_COLUMNS} FROM (
        SELECT * FROM webhook_deliveries
        WHERE company_id = %(company_id)s AND endpoint_id = %(endpoint_id)s AND number < %(before)s
          AND (%(status)s::text IS NULL OR status = %(status)s)
        ORDER BY number DESC LIMIT %(limit)s) AS d
    JOIN webhook_events e ON e.id = d.event_id
    ORDER BY d.number DESC
    """,
)
NEWEST = 2**63 - 1
"""A number above those of all deliveries."""


def list_deliveries(
    connection: Connection,
    company_id: UUID,
    endpoint_id: UUID,
    *,
    status: DeliveryStatus | None = None,
    before: int = NEWEST,
    limit: int,
) -> list[Delivery]:
    """The deliveries to an endpoint, newest first, with numbers less than `before`."""
    parameters = {
        "company_id": company_id,
        "endpoint_id": endpoint_id,
        "before": min(before, NEWEST),
        "status": status,
        "limit": limit,
    }
    return _LIST.all(connection, parameters)


_FIND = Statement(
    Delivery,
    f"SELECT {_COLUMNS} FROM webhook_deliveries d JOIN webhook_events e ON e.id = d.event_id"
    " WHERE d.company_id = %s AND d.endpoint_id = %s AND d.event_id = %s",
)
_PAYLOAD = Scalar(str | None, "SELECT payload FROM webhook_events WHERE company_id = %s AND id = %s")
_ATTEMPTS = Statement(
    Attempt,
    "SELECT attempt, at, milliseconds, status, error, answer FROM webhook_attempts"
    " WHERE company_id = %s AND event_id = %s AND endpoint_id = %s ORDER BY attempt",
)


def read_delivery(connection: Connection, company_id: UUID, endpoint_id: UUID, event_id: UUID) -> DeliveryDetails:
    """One delivery with its payload and each attempt. Raises UnknownDelivery; the console answers 404."""
    # The attempts are read first, so that each has its outcome in the delivery.
    attempts = _ATTEMPTS.all(connection, (company_id, event_id, endpoint_id))
    delivery = _FIND.first(connection, (company_id, endpoint_id, event_id))
    if delivery is None:
        raise UnknownDelivery(shown_id("evt", event_id))
    payload = _PAYLOAD.one(connection, (company_id, event_id))
    return DeliveryDetails(delivery, payload, attempts)


# --- Replayed, tried -------------------------------------------------------------------------------------------

_AGAIN = """
    status = 'pending', failures = 0, queued_at = %(now)s, retry_at = %(now)s, claimed_until = NULL, ended_at = NULL
"""
_REPLAY_ONE = Command(
    f"UPDATE webhook_deliveries SET {_AGAIN}"
    " WHERE company_id = %(company_id)s AND endpoint_id = %(endpoint_id)s AND event_id = %(event_id)s"
)
_REPLAY_FAILED = Command(
    f"UPDATE webhook_deliveries SET {_AGAIN}"
    " WHERE company_id = %(company_id)s AND endpoint_id = %(endpoint_id)s AND status = 'failed'"
    " AND event_id >= %(first_id)s"
)


def replay_delivery(
    connection: Connection, company_id: UUID, endpoint_id: UUID, event_id: UUID, by: Actor, *, now: datetime
) -> None:
    """Sends an event to an endpoint again, whatever its last outcome. Raises UnknownEndpoint, UnknownDelivery, and
    UnusableEndpoint if the endpoint is disabled."""
    _require_enabled(ENDPOINTS.lock(connection, company_id, endpoint_id))
    parameters = {"company_id": company_id, "endpoint_id": endpoint_id, "event_id": event_id, "now": now}
    if _REPLAY_ONE.execute(connection, parameters).rowcount == 0:
        raise UnknownDelivery(shown_id("evt", event_id))
    record_about(connection, by, Action("webhooks.replay"), "whe", endpoint_id, company_id=company_id)


def replay_failed(
    connection: Connection, company_id: UUID, endpoint_id: UUID, by: Actor, *, since: datetime, now: datetime
) -> int:
    """Sends failed events since then again. Returns how many. Raises UnknownEndpoint, and UnusableEndpoint if the
    endpoint is disabled."""
    _require_enabled(ENDPOINTS.lock(connection, company_id, endpoint_id))
    parameters = {"company_id": company_id, "endpoint_id": endpoint_id, "first_id": first_id_of(since), "now": now}
    count = _REPLAY_FAILED.execute(connection, parameters).rowcount
    subject = subject_of("whe", endpoint_id)
    record_action(connection, by, Action("webhooks.replay"), subject, company_id=company_id, affected=count)
    return count


_INSERT_TEST = Command(
    "INSERT INTO webhook_events (id, company_id, environment, type, at, payload) VALUES (%s, %s, %s, %s, %s, %s)"
)
MOST_TEST_EVENTS = 10
TEST_EVENTS_WITHIN = timedelta(minutes=10)
"""The span in which a company's tests are counted and limited."""


_COUNT_TESTS = Scalar(
    int, "SELECT count(*) FROM webhook_events WHERE route_id IS NULL AND company_id = %s AND type = %s AND id > %s"
)
_INSERT_DELIVERY = Command(
    "INSERT INTO webhook_deliveries (endpoint_id, event_id, company_id, environment, queued_at, retry_at)"
    " VALUES (%s, %s, %s, %s, %s, %s)"
)


def send_test(connection: Connection, company_id: UUID, endpoint_id: UUID, by: Actor, *, now: datetime) -> UUID:
    """Queues an event about no route. Returns its id. Raises UnknownEndpoint, and UnusableEndpoint if the endpoint is
    disabled or too many tests were sent."""
    endpoint = ENDPOINTS.lock(connection, company_id, endpoint_id)
    _require_enabled(endpoint)
    lately = _COUNT_TESTS.one(connection, (company_id, TEST, first_id_of(now - TEST_EVENTS_WITHIN)))
    if lately >= MOST_TEST_EVENTS:
        minutes = TEST_EVENTS_WITHIN // timedelta(minutes=1)
        raise UnusableEndpoint(f"{MOST_TEST_EVENTS} tests were sent within {minutes} minutes: wait a few minutes")
    event_id = new_id()
    payload = payload_of(CapturedEvent(event_id, TEST, now, None), None)
    _INSERT_TEST.execute(connection, (event_id, company_id, endpoint.environment, TEST, now, payload))
    _INSERT_DELIVERY.execute(connection, (endpoint_id, event_id, company_id, endpoint.environment, now, now))
    record_about(connection, by, Action("webhooks.test"), "whe", endpoint_id, company_id=company_id)
    return event_id


def _require_enabled(endpoint: Endpoint) -> None:
    if endpoint.disabled_at is not None:
        raise UnusableEndpoint("the endpoint is disabled: enable it first")


# --- Forgotten -------------------------------------------------------------------------------------------------

_FORGET = Command(
    "DELETE FROM webhook_events WHERE id IN (SELECT id FROM webhook_events WHERE id < %s ORDER BY id LIMIT %s)"
)


def forget_events(connection: Connection, *, days: float, now: datetime, limit: int) -> int:
    """Deletes events with their deliveries and attempts. Returns how many."""
    return _FORGET.execute(connection, (first_id_of(now - timedelta(days=days)), limit)).rowcount
