"""A dispatcher is needed for a driver who cannot fuel and has no other plan, and, where Policy wants that, for one who
has not answered in time."""

from datetime import datetime, timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from domain.accounts.companies import set_policy
from domain.accounts.policy import Policy
from domain.database.connections import Connection, as_json
from domain.database.statements import Scalar
from domain.lifecycle import AnswerKind, RefusalReason
from domain.messages.driver_links import issue_driver_link
from domain.needs.route_needs import find_routes_in_need
from domain.planning.next_fuel_stop import Milestone, index_of_next_fuel_stop
from domain.roads import Point
from domain.routes.reading.on_their_way import WITH_NEXT_FUEL_STOP, road_miles_around
from tests.domain.driver_page.given import AnsweredTrip, link_to, trip_with_plan
from tests.domain.helpers import positions_at, post
from tests.factories import DOT, NEWARK, PLAN, Fleet

LAKESIDE, KEYSTONE = ({"latitude": one["latitude"], "longitude": one["longitude"]} for one in PLAN["stops"])
NEAR = {"latitude": 41.7, "longitude": -86.5}
"""Some 31 miles of road before the first fuel stop, Lakeside."""
PAST = {"latitude": 41.6, "longitude": -85.0}
MINUTES = timedelta(minutes=2)


@pytest.fixture
def trip(connection: Connection, fleet: Fleet, now: datetime) -> AnsweredTrip:
    for stop in PLAN["stops"]:
        connection.execute(
            "INSERT INTO stations (station_id, name, latitude, longitude) VALUES (%(name)s, %(name)s, 1, 1)", stop
        )
    trip = trip_with_plan(connection, fleet.live, now=now)
    connection.execute(
        "UPDATE plans SET station_ids = %s WHERE id = %s", ([one["name"] for one in PLAN["stops"]], trip.plan_id)
    )
    stand_at(trip, fleet, NEAR)
    return trip


def stand_at(trip: AnsweredTrip, fleet: Fleet, place: dict[str, float]) -> None:
    (count,) = trip.connection.execute("SELECT count(*) FROM positions").fetchone() or (0,)
    at = trip.now + timedelta(seconds=count)
    post(trip.connection, fleet.live, positions_at(place, at, count=1), now=at)


def needs(trip: AnsweredTrip, fleet: Fleet, *, after: timedelta = MINUTES) -> dict[str, str | None]:
    found = find_routes_in_need(trip.connection, fleet.live, now=trip.now + after)
    return {one.need.kind: one.named[0].detail for one in found if one.need.kind.startswith("stop_")}


def want_answers(trip: AnsweredTrip, fleet: Fleet, miles: float = 50) -> None:
    set_policy(trip.connection, fleet.company_id, Policy(answer_by_miles=miles), DOT)
    issue_driver_link(trip.connection, link_to(trip.connection, trip.route_id), "https://d.example.com", now=trip.now)


def test_a_refusal_without_another_plan_needs_a_dispatcher_until_the_driver_goes_there(
    trip: AnsweredTrip, fleet: Fleet
) -> None:
    trip.take(trip.refused(RefusalReason.NO_PARKING))
    assert needs(trip, fleet, after=timedelta(seconds=30)) == {}, "a new plan takes seconds"
    assert needs(trip, fleet) == {"stop_refused": "Lakeside Travel Plaza: no parking"}
    trip.take(trip.given(AnswerKind.GOING))
    assert needs(trip, fleet) == {}


def test_a_refused_stop_that_is_behind_needs_nobody(trip: AnsweredTrip, fleet: Fleet) -> None:
    trip.take(trip.refused())
    stand_at(trip, fleet, PAST)
    assert needs(trip, fleet) == {}


def test_a_refusal_is_over_with_another_plan(trip: AnsweredTrip, fleet: Fleet) -> None:
    trip.take(trip.refused())
    trip.connection.execute("UPDATE plans SET station_ids = '{x,y}' WHERE id = %s", (trip.plan_id,))
    assert needs(trip, fleet) == {}


def test_a_driver_has_to_answer_only_where_policy_wants_it(trip: AnsweredTrip, fleet: Fleet) -> None:
    assert needs(trip, fleet) == {}
    want_answers(trip, fleet)
    assert needs(trip, fleet) == {"stop_unanswered": "Lakeside Travel Plaza"}
    want_answers(trip, fleet, miles=20)
    assert needs(trip, fleet) == {}


def test_an_answer_to_that_stop_is_enough(trip: AnsweredTrip, fleet: Fleet) -> None:
    want_answers(trip, fleet)
    trip.take(trip.given(sequence=1))
    assert needs(trip, fleet) == {"stop_unanswered": "Lakeside Travel Plaza"}
    trip.take(trip.given())
    assert needs(trip, fleet) == {}


def test_a_driver_without_a_link_cannot_answer(trip: AnsweredTrip, fleet: Fleet) -> None:
    set_policy(trip.connection, fleet.company_id, Policy(answer_by_miles=50), DOT)
    assert needs(trip, fleet) == {}


_NEXT = Scalar(
    int,
    f"SELECT fuel.number FROM routes r JOIN plans p ON p.id = r.plan_id"
    f" JOIN tracks t ON t.vehicle_id = r.vehicle_id AND t.environment = r.environment {WITH_NEXT_FUEL_STOP}"
    " WHERE r.id = %(id)s",
)
"""The rule in SQL, as needs use it."""


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    latitude=st.floats(39, 43),
    longitude=st.floats(-88, -74),
    passed=st.integers(0, 2),
    mile=st.sampled_from([None, 300, 800]),
)
def test_the_next_fuel_stop_in_sql_is_that_of_the_rule(
    trip: AnsweredTrip, latitude: float, longitude: float, passed: int, mile: float | None
) -> None:
    trip.connection.execute(
        "UPDATE tracks SET latitude = %s, longitude = %s, fuel_stops_passed = %s, watch_at = %s",
        (latitude, longitude, passed, trip.now),
    )
    trip.connection.execute(
        "UPDATE plans SET timeline = %s WHERE id = %s",
        (as_json([{"stop": 1, "mile": mile}]), trip.plan_id),
    )
    trip.connection.execute(
        "INSERT INTO visits (company_id, environment, route_id, stop, arrived_at)"
        " SELECT company_id, environment, id, 0, arrived_at FROM routes WHERE id = %s ON CONFLICT DO NOTHING",
        (trip.route_id,),
    )
    number = _NEXT.first(trip.connection, {"id": trip.route_id, "road_miles_around": road_miles_around()})
    expected = index_of_next_fuel_stop(
        Point(latitude, longitude),
        [Milestone(Point(one["latitude"], one["longitude"]), one["milesFromOrigin"]) for one in PLAN["stops"]],
        next_stop=Milestone(Point(NEWARK["latitude"], NEWARK["longitude"]), mile),
        passed=passed,
    )
    assert number == (None if expected is None else expected + 1)
