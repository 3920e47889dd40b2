"""Shared by the tests of the rules and their storage: places, stored routes, posted positions, plans made by hand."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from domain.accounts.contacts import IN_CLEAR
from domain.contract.shapes import Position
from domain.database.connections import Connection, Database, Tenant, as_json
from domain.database.visibility import SERVICE_ROLE, Visibility, set_visibility
from domain.ids import new_id
from domain.lifecycle import RouteStatus
from domain.messages import message_life
from domain.messages.message_life import MessageClaim, MessageStatus
from domain.messages.new_messages import queue_message
from domain.roads import Point
from domain.routes.intake.imports import import_routes
from domain.routes.intake.pushes import Push, store_pushes
from domain.routes.plans import delivery
from domain.settings import Settings
from domain.stations.price_sources import DEFAULT_EXPECTED_HOURS, NewSource, SourceAddress, add_source
from domain.telematics.feed import Feed, store_positions
from tests.factories import DOT, PLAN, Fleet, route_input
from tests.rows import named

METERS_PER_DEGREE = 6_371_008.8 * math.pi / 180


def north_of(place: Point, meters: float) -> Point:
    """The point so many meters north of a place."""
    return Point(place.latitude + meters / METERS_PER_DEGREE, place.longitude)


def place_of(stop: dict[str, Any]) -> Point:
    return Point(stop["latitude"], stop["longitude"])


def pushed(connection: Connection, tenant: Tenant, *, now: datetime, start: datetime, **changes: Any) -> UUID:
    """A route as it is stored by a push, not yet imported."""
    (result,) = store_pushes(connection, [Push(tenant, route_input(start, **changes))], now=now)
    return result.route_id


def imported(
    connection: Connection, tenant: Tenant, *, now: datetime, start: datetime | None = None, **changes: Any
) -> UUID:
    """A pushed route after its first import attempt: a draft unless `changes` prevent it."""
    route_id = pushed(connection, tenant, now=now, start=start or now + timedelta(hours=1), **changes)
    import_routes(connection, [route_id], now=now)
    return route_id


def late_source(connection: Connection, company_id: UUID, *, now: datetime) -> UUID:
    """A source of price files whose file was due an hour ago."""
    new = NewSource("daily", "folder", "loves", SourceAddress("/incoming"), None, takes_retail=False)
    then = now - timedelta(hours=DEFAULT_EXPECTED_HOURS + 1)
    return add_source(connection, company_id, new, DOT, contacts=IN_CLEAR, now=then)


def go_behind_the_wall(connection: Connection, visible: Visibility) -> None:
    """From here on the transaction works as those of the service do."""
    connection.execute(f"SET LOCAL ROLE {SERVICE_ROLE}")
    set_visibility(connection, visible)


def route_row(connection: Connection, route_id: UUID) -> Any:
    row = named(connection).execute("SELECT * FROM routes WHERE id = %s", (route_id,)).fetchone()
    assert row is not None
    return row


def status_and_reason(connection: Connection, route_id: UUID) -> tuple[str, str | None]:
    """The route's status and, while it is held, the reason."""
    row = route_row(connection, route_id)
    return row.status, row.pending_reason


def status_of(connection: Connection, route_id: UUID) -> RouteStatus:
    return RouteStatus(route_row(connection, route_id).status)


def visits_of(connection: Connection, route_id: UUID) -> dict[int, tuple[datetime, datetime | None]]:
    """Arrival and departure at each stop that was reached."""
    rows = named(connection).execute("SELECT * FROM visits WHERE route_id = %s ORDER BY stop", (route_id,)).fetchall()
    return {row.stop: (row.arrived_at, row.departed_at) for row in rows}


def planned_by_hand(connection: Connection, route_id: UUID, *, now: datetime, **plan: Any) -> UUID:
    """Gives a draft the plan above, without a road or stations, and its message. Returns the message's id."""
    plan_id = _store_plan(connection, route_id, now, plan)
    connection.execute(
        "UPDATE routes SET status = 'planned', plan_id = %s, retry_at = NULL WHERE id = %s", (plan_id, route_id)
    )
    return _queue_message(connection, route_id, plan_id, now)


def corrected_by_hand(connection: Connection, route_id: UUID, *, now: datetime, **plan: Any) -> UUID:
    """Gives an active route another plan, which is not sent yet. Returns the message's id."""
    plan_id = _store_plan(connection, route_id, now, plan)
    connection.execute("UPDATE routes SET correction_id = %s WHERE id = %s", (plan_id, route_id))
    return _queue_message(connection, route_id, plan_id, now)


def _store_plan(connection: Connection, route_id: UUID, now: datetime, plan: dict[str, Any]) -> UUID:
    plan_id = new_id()
    connection.execute(
        "INSERT INTO plans (id, company_id, environment, route_id, revision, generated_at, document, timeline,"
        " fuel_percent)"
        " SELECT %s, company_id, environment, id, revision, %s, %s, '[]', 50 FROM routes WHERE id = %s",
        (plan_id, now, as_json({**PLAN, **plan}), route_id),
    )
    return plan_id


def _queue_message(connection: Connection, route_id: UUID, plan_id: UUID, now: datetime) -> UUID:
    route = (
        named(connection)
        .execute(
            "SELECT r.*, v.unit_number, p.document, c.time_zone, c.map_link, c.prices_for_drivers"
            " FROM routes r"
            " JOIN vehicles v ON v.id = r.vehicle_id JOIN companies c ON c.id = r.company_id"
            " JOIN plans p ON p.id = %s WHERE r.id = %s",
            (plan_id, route_id),
        )
        .fetchone()
    )
    assert route is not None
    return queue_message(connection, route, plan_id, route.document, now=now)


def deliver(connection: Connection, message_id: UUID, *, settings: Settings, now: datetime) -> MessageStatus | None:
    """One attempt at a message, with all the steps of the worker. Gateways of this machine may be called."""
    allowing = settings.model_copy(update={"message_allowed_hosts": "127.0.0.1", "message_timeout_seconds": 60})
    step = delivery.start_delivery(connection, message_id, settings=allowing, now=now)
    if isinstance(step, MessageClaim):
        fault = message_life.hand_over(step, allowing, tell_time=lambda: now)
        step = delivery.finish_delivery(connection, step, fault, settings=allowing, now=now)
    return step


def driven_without_a_plan(connection: Connection, fleet: Fleet, at: datetime, **route: Any) -> UUID:
    """A live route that reached both its stops, Joliet and Newark unless others are given, at that time."""
    route_id = imported(connection, fleet.live, now=at, **route)
    for stop in (0, 1):
        connection.execute(
            "INSERT INTO visits (company_id, environment, route_id, stop, arrived_at)"
            " SELECT company_id, environment, id, %s, %s FROM routes WHERE id = %s",
            (stop, at, route_id),
        )
    connection.execute("UPDATE routes SET arrived_at = %s WHERE id = %s", (at, route_id))
    return route_id


def positions_at(
    stop: dict[str, Any],
    first: datetime,
    *,
    count: int = 3,
    seconds_apart: float = 30,
    unit_number: str | None = "101",
    speed_mph: float | None = 0,
    **more: Any,
) -> list[Position]:
    """The positions that a truck's tracker sends from a stop."""
    return [
        Position(
            latitude=stop["latitude"],
            longitude=stop["longitude"],
            recorded_at=first + timedelta(seconds=seconds_apart * number),
            unit_number=unit_number,
            speed_mph=speed_mph,
            **more,
        )
        for number in range(count)
    ]


def post(connection: Connection, tenant: Tenant, positions: Sequence[Position], *, now: datetime) -> Feed:
    """One request to the telematics feed."""
    return store_positions(connection, tenant, list(enumerate(positions)), now=now)


@contextmanager
def refusing(database: Database, event: str, condition: str) -> Iterator[None]:
    """Let an `event` on a route for which the condition holds fail in the database during the block."""
    name = f"refuse_{uuid4().hex}"
    with database.transaction() as connection:
        connection.execute(
            f"CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql"
            " AS $$ BEGIN RAISE EXCEPTION 'a bug that only this route has'; END $$"
        )
        connection.execute(
            f"CREATE TRIGGER {name} BEFORE {event} ON routes FOR EACH ROW WHEN ({condition}) EXECUTE FUNCTION {name}()"
        )
    try:
        yield
    finally:
        with database.transaction() as connection:
            connection.execute(f"DROP FUNCTION {name} CASCADE")
