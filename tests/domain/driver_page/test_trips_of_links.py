"""The version of a trip changes with all that its page shows, and not with the place of its truck."""

from datetime import datetime

import pytest

from domain.accounts.tokens import hash_of_token
from domain.database.connections import Connection
from domain.driver_page.page import ask_trips, ask_trips_now
from domain.driver_page.trips_of_links import TripNow, TripOfLink
from domain.ids import new_id
from tests.domain.driver_page.trips import (
    DriverTrip,
    arrived,
    at_stations,
    corrected_trip,
    driven_trip,
    offered_choice,
    token_of,
    truck_at,
)
from tests.factories import Fleet

HOURS = 24.0


@pytest.fixture
def trip(connection: Connection, fleet: Fleet, now: datetime) -> DriverTrip:
    return driven_trip(connection, fleet, now=now)


def read(connection: Connection, token: str, now: datetime) -> TripOfLink:
    """The trip as it is read, with the version that the other statement tells."""
    asked, unknown = hash_of_token(token), hash_of_token("forged")
    none, opened = ask_trips([unknown, asked], hours=HOURS, now=now).on(connection)
    nothing, seen = ask_trips_now([unknown, asked], hours=HOURS, now=now).on(connection)
    assert (none, nothing) == (None, None)
    assert opened is not None
    row = opened.row
    assert seen == TripNow(asked, row.version, row.truck_at, row.latitude, row.longitude)
    return row


CHANGES = {
    "state of the trip": "UPDATE routes SET status = 'completed', completed_at = now() WHERE id = %(route)s",
    "stops": "UPDATE routes SET stops = jsonb_set(stops, '{1,name}', '\"Elsewhere\"') WHERE id = %(route)s",
    "name of the trip": "UPDATE routes SET reference = 'PO-77' WHERE id = %(route)s",
    "new plan on its way": 'UPDATE routes SET replan = \'{"kind": "fuel"}\' WHERE id = %(route)s',
    "plan taken back": "UPDATE routes SET plan_id = NULL WHERE id = %(route)s",
    "times of the plan": "UPDATE plans SET timeline = '[]' WHERE route_id = %(route)s",
    "facts of the plan": "UPDATE plans SET driver_facts = NULL WHERE route_id = %(route)s",
    "choice asked for": "UPDATE plan_choices SET status = 'asked' WHERE route_id = %(route)s",
    "choice gone": "DELETE FROM plan_choices WHERE route_id = %(route)s",
    "parking": "UPDATE stations SET parking_spaces = 55 WHERE station_id = %(station)s",
    "answer": """INSERT INTO driver_answers (id, company_id, environment, route_id, driver_id, key, plan_id, sequence,
                     station_id, place, kind, answered_at, is_late)
                 SELECT %(new)s, company_id, environment, id, driver_id, 'a-key-of-it', plan_id, 0, %(station)s,
                     'Plaza', 'going', now(), false FROM routes WHERE id = %(route)s""",
    "fuel stop passed": "UPDATE tracks SET watch_at = now(), fuel_stops_passed = 1 WHERE vehicle_id = %(truck)s",
    "fuel stop reached": "UPDATE routes SET fuel_visits = '[]' WHERE id = %(route)s",
    "truck's number": "UPDATE vehicles SET unit_number = '909' WHERE id = %(truck)s",
    "driver's language": "UPDATE drivers SET language = 'es' WHERE id = %(driver)s",
    "company's name": "UPDATE companies SET name = 'Renamed' WHERE id = %(company)s",
    "time zone": "UPDATE companies SET time_zone = 'America/Denver' WHERE id = %(company)s",
    "map": "UPDATE companies SET map_link = 'geo' WHERE id = %(company)s",
    "prices": "UPDATE companies SET prices_for_drivers = false WHERE id = %(company)s",
    "allowance": "UPDATE companies SET driver_allowance = 25 WHERE id = %(company)s",
}


def test_the_version_changes_with_all_that_the_page_shows(
    connection: Connection, fleet: Fleet, trip: DriverTrip, now: datetime
) -> None:
    token, (station_id, _) = token_of(connection, trip, now=now), at_stations(connection, trip)
    truck_at(connection, fleet.live, fleet.trucks[0], now, 41.5, -87.1)
    offered_choice(connection, trip)
    connection.execute("UPDATE plan_choices SET station_ids = %s WHERE route_id = %s", ([station_id], trip.route_id))
    before = read(connection, token, now)
    ids = {"route": trip.route_id, "driver": trip.driver_id, "company": trip.company_id, "new": new_id()}
    for what, change in CHANGES.items():
        with connection.transaction(force_rollback=True):
            connection.execute(change, ids | {"truck": fleet.trucks[0], "station": station_id})
            after = read(connection, token, now)
            assert after._replace(version="") != before._replace(version=""), what
            assert after.version != before.version, what


def test_the_version_changes_when_a_stop_is_reached_and_when_there_is_another_plan(
    connection: Connection, fleet: Fleet, trip: DriverTrip, now: datetime
) -> None:
    token = token_of(connection, trip, now=now)
    versions = [read(connection, token, now).version]
    with connection.transaction():
        arrived(connection, fleet.live, trip.route_id, 1, now)
    versions.append(read(connection, token, now).version)
    with connection.transaction():
        plan_id = corrected_trip(connection, trip, now=now, cause="prices")
    versions.append(read(connection, token, now).version)
    with connection.transaction():
        connection.execute("UPDATE messages SET status = 'sent' WHERE plan_id = %s", (plan_id,))
    versions.append(read(connection, token, now).version)
    assert len(set(versions)) == 4


def test_the_version_stays_while_only_the_truck_moves(
    connection: Connection, fleet: Fleet, trip: DriverTrip, now: datetime
) -> None:
    token = token_of(connection, trip, now=now)
    first = read(connection, token, now)
    truck_at(connection, fleet.live, fleet.trucks[0], now, 41.5, -87.1)
    second = read(connection, token, now)
    assert first.version == second.version
    assert (first.latitude, second.latitude) == (None, 41.5)
