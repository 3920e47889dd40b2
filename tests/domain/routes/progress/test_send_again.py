"""A failed message is sent again because a dispatcher asks, against real PostgreSQL."""

from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from domain.database.connections import Connection, Database
from domain.ids import new_id
from domain.lifecycle import RouteStatus
from domain.messages.resending import CannotResend
from domain.queue.jobs import send_message_job
from domain.routes import events
from domain.routes.progress import dispatcher_entries
from domain.routes.transitions import cancel_route
from domain.settings import Settings
from tests.domain.helpers import (
    corrected_by_hand,
    deliver,
    imported,
    planned_by_hand,
    status_of,
)
from tests.domain.messages.loads import contact
from tests.domain.trucks import activate, hours
from tests.factories import DOT, Fleet, make_fleet
from tests.gateway import Gateway
from tests.jobs import jobs_of
from tests.rows import named

pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")  # Apprise's, when it loads


def failed_message(connection: Connection, fleet: Fleet, settings: Settings, now: datetime) -> tuple[UUID, UUID]:
    """A planned route, whose message was given up: nobody listens at the driver's contact. A day has gone by."""
    contact(connection, fleet, "json://127.0.0.1:9/")
    route_id = imported(connection, fleet.live, now=now)
    connection.execute("UPDATE routes SET arrived_at = %s WHERE id = %s", (now, route_id))
    message_id = planned_by_hand(connection, route_id, now=now)
    connection.execute("UPDATE messages SET queued_at = %s WHERE id = %s", (now - hours(25), message_id))
    assert deliver(connection, message_id, settings=settings, now=now) == "failed"
    return route_id, message_id


def message(connection: Connection, message_id: UUID) -> Any:
    return named(connection).execute("SELECT * FROM messages WHERE id = %s", (message_id,)).fetchone()


def test_a_failed_message_is_sent_again_as_the_same_one(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime, gateway: Gateway
) -> None:
    route_id, message_id = failed_message(connection, fleet, settings, now)
    text = message(connection, message_id).text
    contact(connection, fleet, gateway.url)

    dispatcher_entries.send_again(connection, fleet.live, route_id, message_id, DOT, driver_was_asked=False, now=now)
    jobs = jobs_of(connection)

    assert jobs == [send_message_job(message_id)]
    assert deliver(connection, message_id, settings=settings, now=now) == "sent"
    (received,) = gateway.received
    assert f"{received['title']}\n{received['message']}" == text
    assert status_of(connection, route_id) is RouteStatus.ACTIVE
    told = [(event.kind, event.actor) for event in events.events_of(connection, fleet.company_id, route_id)]
    assert told == [("message_failed", None), ("send_again", DOT.name)]


def test_a_message_that_is_sent_again_has_a_fresh_day_of_attempts(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    route_id, message_id = failed_message(connection, fleet, settings, now)
    dispatcher_entries.send_again(connection, fleet.live, route_id, message_id, DOT, driver_was_asked=False, now=now)

    assert deliver(connection, message_id, settings=settings, now=now) == "pending"

    row = message(connection, message_id)
    assert (row.attempts, row.retry_at) == (1, now + timedelta(seconds=30))
    assert deliver(connection, message_id, settings=settings, now=now + hours(24)) == "failed"


def test_a_message_that_was_sent_or_is_on_its_way_is_not_sent_again(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime, gateway: Gateway
) -> None:
    def again(message_id: UUID, **doubt: bool) -> None:
        dispatcher_entries.send_again(
            connection, fleet.live, route_id, message_id, DOT, **{"driver_was_asked": False, **doubt}, now=now
        )

    route_id, message_id = failed_message(connection, fleet, settings, now)
    contact(connection, fleet, gateway.url)
    again(message_id)
    with pytest.raises(CannotResend, match="on its way"):
        again(message_id)
    deliver(connection, message_id, settings=settings, now=now)
    with pytest.raises(CannotResend, match="was sent"):
        again(message_id, driver_was_asked=True)
    with pytest.raises(CannotResend, match="no such message"):
        again(new_id())
    assert len(gateway.received) == 1


@pytest.mark.parametrize("how", ["claimed_until = queued_at", "taken_by = '{0123456789abcdef}'"])
def test_a_message_that_may_have_arrived_is_sent_again_only_when_the_driver_was_asked(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime, gateway: Gateway, how: str
) -> None:
    """Its attempt had no answer, or one of the recipients in the contact took it, which may be another one now."""
    route_id, message_id = failed_message(connection, fleet, settings, now)
    connection.execute(f"UPDATE messages SET {how} WHERE id = %s", (message_id,))
    contact(connection, fleet, gateway.url)
    with pytest.raises(CannotResend, match="ask the driver first"):
        dispatcher_entries.send_again(
            connection, fleet.live, route_id, message_id, DOT, driver_was_asked=False, now=now
        )
    dispatcher_entries.send_again(connection, fleet.live, route_id, message_id, DOT, driver_was_asked=True, now=now)
    assert deliver(connection, message_id, settings=settings, now=now) == "sent"


def test_only_the_plan_that_the_driver_should_get_is_sent_again(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    route_id, message_id = failed_message(connection, fleet, settings, now)
    cancel_route(connection, fleet.live, route_id, now=now)
    with pytest.raises(CannotResend, match="not the one"):
        dispatcher_entries.send_again(connection, fleet.live, route_id, message_id, DOT, driver_was_asked=True, now=now)

    contact(connection, fleet, "")
    other = imported(connection, fleet.live, now=now)
    activate(connection, settings, other, now=now)
    correction = corrected_by_hand(connection, other, now=now)
    contact(connection, fleet, "json://127.0.0.1:9/")
    connection.execute("UPDATE messages SET queued_at = %s WHERE id = %s", (now - hours(25), correction))
    assert deliver(connection, correction, settings=settings, now=now) == "failed"
    with pytest.raises(CannotResend, match="made again"):
        dispatcher_entries.send_again(connection, fleet.live, other, correction, DOT, driver_was_asked=True, now=now)


def test_a_message_is_sent_again_once_though_several_ask_at_the_same_time(
    database: Database, settings: Settings, now: datetime, gateway: Gateway
) -> None:
    with database.transaction() as connection:
        fleet = make_fleet(connection)
        route_id, message_id = failed_message(connection, fleet, settings, now)
        contact(connection, fleet, gateway.url)

    def ask(_: int) -> bool:
        try:
            with database.transaction() as connection:
                dispatcher_entries.send_again(
                    connection, fleet.live, route_id, message_id, DOT, driver_was_asked=False, now=now
                )
        except CannotResend:
            return False
        with database.transaction() as connection:
            deliver(connection, message_id, settings=settings, now=now)
        return True

    with ThreadPoolExecutor(6) as threads:
        assert list(threads.map(ask, range(6))).count(True) == 1
    assert len(gateway.received) == 1
