"""Webhook events: their types and their body.

A trigger on `routes` captures them (`migrations/versions/webhook_event_types.py`), and one on `driver_answers`
(`answer_events.py` there), so no change is missed, whichever code makes it. For a company without an enabled endpoint
nothing is captured."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from msgspec import Struct

from domain.contract.shapes import Route
from domain.database.connections import Connection, Tenant
from domain.database.statements import Command, NotNull, Statement
from domain.encoding import write
from domain.ids import shown_id
from domain.routes.reading.lookups import read_routes

EVENT_TYPES: Mapping[str, str] = {
    "route.imported": "vehicle and driver are matched, and the route waits for its truck: its status is draft",
    "route.held": "the route waits for a mapping or for its import window, or for another one than before",
    "route.planned": "the fuel plan is ready",
    "route.active": "the plan was sent to the driver",
    "route.completed": "the truck reached the last stop",
    "route.canceled": "the route was canceled or superseded",
    "route.error": "the route ended in an error",
    "plan.corrected": "the driver got another plan on the way",
    "stop.going": "the driver says that he goes to his fuel stop",
    "stop.fueled": "the driver says that he has fueled",
    "stop.refused": "the driver says that he cannot fuel there, and why",
    "stop.detained": "the free time at a stop has ended, and the truck is still there",
}
"""Each type that endpoints can choose, and when it is sent. The SQL functions `webhook_event_type` and
`webhook_answer_type` give these types."""

TEST = "webhook.test"
"""The type of the event that a person sends to try an endpoint."""


class Answer(Struct, rename="camel"):
    """A driver's answer to a fuel stop of a plan."""

    station: str
    plan_id: str
    sequence: int
    """The number of the fuel stop in that plan, from 0."""
    answered_at: datetime
    reason: str | None
    gallons: float | None
    fill_percent: float | None
    price_per_gallon: float | None


class Detention(Struct, rename="camel"):
    """A truck that was still at a stop when its free time ended."""

    stop: int
    """The number of the stop in the route, from 0."""
    name: str
    arrived_at: datetime
    window_start: datetime | None
    window_end: datetime | None
    free_minutes: float
    free_until: datetime


class Body(Struct, omit_defaults=True):
    """The body of a request to an endpoint."""

    type: str
    timestamp: datetime
    """When the route changed."""
    data: Route | dict[str, Any]
    """The route in the form of GET /v1/routes/{id}, as of the first attempt; empty for a test."""
    answer: Answer | None = None
    """The driver's answer, for `stop.going`, `stop.fueled` and `stop.refused`; missing once it is erased."""
    detention: Detention | None = None
    """The end of the free time, for `stop.detained`."""


class CapturedEvent(NamedTuple):
    """An event without a payload so far."""

    id: UUID
    type: str
    at: datetime
    route_id: UUID | None
    answer_id: UUID | None = None
    stop: int | None = None


class _Prepared(NamedTuple):
    id: UUID
    payload: NotNull[str]


_LOCK = Command("SELECT FROM webhook_events WHERE id = ANY(%s) ORDER BY id FOR UPDATE")
_PREPARE = Statement(
    _Prepared,
    """
    UPDATE webhook_events it SET payload = coalesce(it.payload, given.payload)
    FROM unnest(%(ids)s::uuid[], %(payloads)s::text[]) AS given (id, payload)
    WHERE it.id = ANY(%(ids)s) AND it.id = given.id
    RETURNING it.id, it.payload
    """,
)


class _Answer(NamedTuple):
    id: UUID
    place: str
    plan_id: UUID
    sequence: int
    answered_at: datetime
    reason: str | None
    gallons: float | None
    fill_percent: float | None
    price_per_gallon: float | None


_ANSWERS = Statement(
    _Answer,
    "SELECT id, place, plan_id, sequence, answered_at, reason, gallons, fill_percent, price_per_gallon"
    " FROM driver_answers WHERE company_id = %s AND environment = %s AND id = ANY(%s)",
)


def payload_of(
    event: CapturedEvent, route: Route | None, answer: Answer | None = None, detention: Detention | None = None
) -> str:
    return write(Body(event.type, event.at, route if route is not None else {}, answer, detention)).decode()


def _answers_of(connection: Connection, tenant: Tenant, events: Sequence[CapturedEvent]) -> dict[UUID | None, Answer]:
    ids = [event.answer_id for event in events if event.answer_id is not None]
    rows = _ANSWERS.all(connection, (*tenant, ids)) if ids else []
    return {row.id: Answer(row.place, shown_id("pln", row.plan_id), *row[3:]) for row in rows}


class _Dwell(NamedTuple):
    route_id: UUID
    stop: int
    name: str
    arrived_at: datetime
    window_start: datetime | None
    window_end: datetime | None
    free_minutes: float
    free_until: datetime


_DWELLS = Statement(
    _Dwell,
    """
    SELECT d.route_id, d.stop, coalesce(it.place->>'name', '') AS name, d.arrived_at,
           (it.place->'arrivalWindow'->>'start')::timestamptz AS window_start,
           (it.place->'arrivalWindow'->>'end')::timestamptz AS window_end, d.free_minutes, d.free_until
    FROM dwells d JOIN routes r ON r.id = d.route_id CROSS JOIN LATERAL (SELECT r.stops->d.stop AS place) AS it
    WHERE d.company_id = %s AND d.environment = %s AND d.route_id = ANY(%s)
    """,
)


def _detentions_of(
    connection: Connection, tenant: Tenant, events: Sequence[CapturedEvent]
) -> dict[tuple[UUID | None, int | None], Detention]:
    routes = [event.route_id for event in events if event.stop is not None]
    rows = _DWELLS.all(connection, (*tenant, routes)) if routes else []
    return {(row.route_id, row.stop): Detention(*row[1:]) for row in rows}


def prepare_payloads(connection: Connection, tenant: Tenant, events: Sequence[CapturedEvent]) -> dict[UUID, str]:
    """Gives each event its payload, with the present state of its route. From then on every attempt sends these bytes.
    An event whose route is gone gets none. Events are locked before their routes are read, for an erasure of a driver
    waits for them: then no payload with the driver's name comes after it."""
    _LOCK.execute(connection, ([event.id for event in events],))
    about = [event for event in events if event.route_id is not None]
    found = read_routes([(tenant, event.route_id) for event in about if event.route_id is not None]).on(connection)
    answers = _answers_of(connection, tenant, events)
    detentions = _detentions_of(connection, tenant, events)
    routes = {event.id: versioned.route for event, versioned in zip(about, found, strict=True) if versioned is not None}
    payloads = {
        event.id: payload_of(
            event,
            routes.get(event.id),
            answers.get(event.answer_id),
            detentions.get((event.route_id, event.stop)),
        )
        for event in events
        if event.route_id is None or event.id in routes
    }
    if not payloads:
        return {}
    rows = _PREPARE.all(connection, {"ids": list(payloads), "payloads": list(payloads.values())})
    return {row.id: row.payload for row in rows}
