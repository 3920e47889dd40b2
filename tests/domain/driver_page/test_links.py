"""A link opens the page of one trip, for its driver, until some hours after the trip."""

from datetime import datetime, timedelta

import pytest

from domain.accounts.tokens import hash_of_token, new_token
from domain.database.connections import Connection
from domain.driver_page.links import DriverLink
from domain.driver_page.page import ask_trips
from domain.housekeeping.retention import forget_links
from domain.ids import new_id
from domain.messages.driver_links import LONGEST_LINK_DAYS
from tests.domain.driver_page.trips import DriverTrip, token_of, trip_of
from tests.domain.helpers import imported
from tests.factories import Fleet

HOURS = 24


@pytest.fixture
def trip(connection: Connection, fleet: Fleet, now: datetime) -> DriverTrip:
    return trip_of(connection, fleet.live, imported(connection, fleet.live, now=now))


def issued(connection: Connection, trip: DriverTrip, now: datetime) -> str:
    return token_of(connection, trip, now=now)


def found(connection: Connection, token: str, now: datetime) -> DriverLink | None:
    (trip,) = ask_trips([hash_of_token(token)], hours=HOURS, now=now).on(connection)
    return trip.link if trip is not None else None


def test_a_link_opens_its_trip_and_only_the_hash_of_its_token_is_stored(
    connection: Connection, trip: DriverTrip, now: datetime
) -> None:
    token = issued(connection, trip, now)

    link = found(connection, token, now)

    assert link is not None
    assert link[1:5] == trip
    stored = connection.execute("SELECT token_hash FROM driver_links WHERE id = %s", (link.id,)).fetchone()
    assert stored is not None
    assert stored[0] == hash_of_token(token)
    assert token not in str(connection.execute("SELECT l::text FROM driver_links l").fetchall())


@pytest.mark.parametrize("token", ["", "x", "\ud800", "x" * 5000, "' OR true --"])
def test_what_was_never_issued_opens_nothing(
    connection: Connection, trip: DriverTrip, now: datetime, token: str
) -> None:
    issued(connection, trip, now)

    assert found(connection, token, now) is None
    assert found(connection, new_token(), now) is None


@pytest.mark.parametrize("status", ["completed", "canceled", "error"])
def test_a_link_expires_some_hours_after_its_trip(
    connection: Connection, trip: DriverTrip, now: datetime, status: str
) -> None:
    token = issued(connection, trip, now)
    connection.execute("UPDATE routes SET status = %s, updated_at = %s WHERE id = %s", (status, now, trip.route_id))

    assert found(connection, token, now + timedelta(hours=HOURS - 1)) is not None
    assert found(connection, token, now + timedelta(hours=HOURS)) is None


def test_the_end_of_a_trip_is_when_it_was_completed_not_when_its_row_last_changed(
    connection: Connection, trip: DriverTrip, now: datetime
) -> None:
    token = issued(connection, trip, now)
    connection.execute(
        "UPDATE routes SET status = 'completed', completed_at = %s, updated_at = %s WHERE id = %s",
        (now, now + timedelta(hours=5), trip.route_id),
    )

    link = found(connection, token, now)

    assert link is not None
    assert link.expires_at == now + timedelta(hours=HOURS)


def test_no_link_lives_longer_than_a_month_and_then_it_is_deleted(
    connection: Connection, trip: DriverTrip, now: datetime
) -> None:
    token, end = issued(connection, trip, now), now + timedelta(days=LONGEST_LINK_DAYS)

    assert found(connection, token, end - timedelta(seconds=1)) is not None
    assert found(connection, token, end) is None
    for now, kept in ((end, 1), (end + timedelta(seconds=1), 0)):
        forget_links(connection, days=0, now=now, limit=10_000)
        rows = connection.execute("SELECT FROM driver_links WHERE route_id = %s", (trip.route_id,))
        assert len(rows.fetchall()) == kept


def test_a_driver_who_has_the_trip_no_more_opens_nothing(
    connection: Connection, trip: DriverTrip, now: datetime
) -> None:
    token = issued(connection, trip, now)
    connection.execute("UPDATE routes SET driver_id = %s WHERE id = %s", (new_id(), trip.route_id))

    assert found(connection, token, now) is None


def test_links_are_found_together_in_the_order_of_their_tokens(
    connection: Connection, trip: DriverTrip, now: datetime
) -> None:
    first, second = issued(connection, trip, now), issued(connection, trip, now)

    hashes = [hash_of_token(one) for one in (second, "forged", first, second)]
    trips = ask_trips(hashes, hours=HOURS, now=now).on(connection)
    links = [one and one.link for one in trips]

    assert [link is not None for link in links] == [True, False, True, True]
    assert links[0] == links[3] != links[2]
