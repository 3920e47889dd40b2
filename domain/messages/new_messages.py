"""Writes and stores the message of a new plan. It says that it is a correction if the driver has another plan for the
load."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple, Protocol
from uuid import UUID

from domain.database.connections import Connection
from domain.database.statements import Command, Statement
from domain.ids import new_id
from domain.languages.words import ENGLISH, Words
from domain.messages.message_text import compose, corrected
from domain.messages.withholding import withhold_new_message
from domain.planning.directions import Directions
from domain.queue.jobs import SWEEP_GRACE


class PlannedRoute(Protocol):
    """The fields that a message takes from its route."""

    @property
    def id(self) -> UUID: ...
    @property
    def company_id(self) -> UUID: ...
    @property
    def environment(self) -> str: ...
    @property
    def external_id(self) -> str: ...
    @property
    def reference(self) -> str | None: ...
    @property
    def driver_id(self) -> UUID: ...
    @property
    def unit_number(self) -> str | None: ...
    @property
    def stops(self) -> Sequence[Mapping[str, Any]]: ...
    @property
    def time_zone(self) -> str: ...
    @property
    def map_link(self) -> str: ...
    @property
    def prices_for_drivers(self) -> bool: ...


_INSERT = Command(
    "INSERT INTO messages (id, company_id, environment, route_id, plan_id, driver_id, begins_low, text, retry_at)"
    " VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s)"
)


def queue_message(
    connection: Connection,
    route: PlannedRoute,
    plan_id: UUID,
    plan: Mapping[str, Any],
    *,
    now: datetime,
    directions: Sequence[Directions] = (),
    low_fuel: bool = False,
    road_miles: float | None = None,
    why: str = "",
    words: Words = ENGLISH,
) -> UUID:
    """Store the message of a fresh plan, to be sent, or to be withheld after a restore. Returns its id. `compose`
    describes `road_miles`, `why` and `words`."""
    message_id = new_id()
    name = route.reference or route.external_id
    text = compose(
        message_id,
        name,
        route.unit_number,
        route.stops,
        plan,
        planned_at=now,
        time_zone=route.time_zone,
        map_link=route.map_link,
        tells_prices=route.prices_for_drivers,
        directions=directions,
        low_fuel=low_fuel,
        road_miles=road_miles,
        why=why,
        words=words,
    )
    if earlier_messages(connection, message_id, route.id, route.driver_id, route.environment).sent:
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
            low_fuel,
            text,
            now + SWEEP_GRACE,
        ),
    )
    withhold_new_message(connection, message_id, now=now)
    return message_id


class EarlierMessages(NamedTuple):
    """Other messages to the driver about this load."""

    sent: bool
    """True if the driver has another plan of the load."""
    in_doubt: bool
    """True if the driver may have another plan of the load."""
    busy_until: datetime | None
    """Until when a worker may be handing over another message; None if no worker is."""


MAY_HAVE_ARRIVED = "(m.claimed_until IS NOT NULL OR m.taken_by IS NOT NULL)"
"""SQL that tells if the driver may have a message that was not sent to its end: an attempt has no known outcome, or
some recipients of the contact took it."""

_EARLIER = Statement(
    EarlierMessages,
    f"""
    SELECT count(*) FILTER (WHERE m.status IN ('sent', 'suppressed')) > 0 AS sent,
           count(*) FILTER (WHERE {MAY_HAVE_ARRIVED}) > 0 AS in_doubt,
           max(m.claimed_until) FILTER (WHERE m.status = 'pending') AS busy_until
    FROM messages m JOIN routes o ON o.id = m.route_id JOIN routes r ON r.id = %(route_id)s
    WHERE m.driver_id = %(driver_id)s AND m.environment = %(environment)s AND m.id <> %(id)s
      AND m.created_at > r.created_at - interval '1 day'
      AND (m.status IN ('sent', 'suppressed') OR {MAY_HAVE_ARRIVED})
      AND (o.id = r.id OR o.status = 'canceled'
           AND (o.external_id = r.external_id OR o.reference = r.reference AND r.reference <> ''))
    """,
)


def earlier_messages(
    connection: Connection, message_id: UUID, route_id: UUID, driver_id: UUID, environment: str
) -> EarlierMessages:
    """Read the earlier messages to the driver about this load. Another route may have had the load then: one that was
    canceled and pushed again, or superseded."""
    return _EARLIER.one(
        connection, {"id": message_id, "route_id": route_id, "driver_id": driver_id, "environment": environment}
    )
