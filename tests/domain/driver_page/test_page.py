"""The page shows the fuel stops ahead of the truck, what a new plan has changed, and the state of the trip."""

from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest

from domain.database.connections import Connection
from domain.driver_page.answers import take_answer
from domain.driver_page.given_answers import GivenAnswer
from domain.driver_page.shown_trip import ShownAnswer, ShownFuelStopBehind
from domain.ids import new_id
from domain.lifecycle import AnswerKind, RefusalReason
from domain.planning.coarse_ways import pack_way
from domain.roads import Road
from tests.domain.driver_page.given import link_to
from tests.domain.driver_page.trips import (
    FACTS,
    DriverTrip,
    arrived,
    at_stations,
    corrected_trip,
    driven_trip,
    halted,
    offered_choice,
    shown,
    truck_at,
)
from tests.domain.helpers import route_row
from tests.factories import JOLIET, PLAN, Fleet

ROAD = Road(
    distance_miles=812.4,
    line=np.array([[41.462, -88.125], [41.69, -86.0], [41.02, -78.4], [40.695, -74.155]]),
    line_miles=np.array([0.0, 130.4, 545.6, 812.4]),
    stop_miles=(0.0, 812.4),
    stop_hours=(0.0, 14.0),
    source="test",
)


def on_road(connection: Connection, fleet: Fleet, *, now: datetime, **plan: Any) -> Any:
    trip = driven_trip(connection, fleet, now=now, **plan)
    packed = pack_way(ROAD, mpg=6.5, capacity_gallons=200)
    connection.execute("UPDATE plans SET coarse_way = %s WHERE route_id = %s", (packed, trip.route_id))
    return trip


def test_the_page_begins_with_the_next_fuel_stop_and_the_miles_from_the_truck(
    connection: Connection, fleet: Fleet, now: datetime
) -> None:
    trip = on_road(connection, fleet, now=now)
    truck_at(connection, fleet.live, fleet.trucks[0], now, 41.57, -87.1)

    page = shown(connection, trip, now=now)

    assert (page.state, page.name, page.truck_at) == ("underway", "LOAD-1", now)
    assert page.plan is not None
    first, second = page.plan.fuel_stops
    assert (first.name, first.exit, first.is_on_left, first.mile) == ("Lakeside Travel Plaza", "122", False, 130.4)
    assert (first.hours, second.hours) == ("24/7", None)
    assert (first.priced_at, second.priced_at) == (datetime(2026, 11, 19, 12, 5, tzinfo=UTC), page.plan.made_at)
    assert first.miles_away is not None
    assert 60 < first.miles_away < 75
    assert second.miles_away is not None
    assert second.miles_away - first.miles_away == pytest.approx(415.2)
    assert [stop.is_reached for stop in page.stops] == [True, False]
    assert page.plan.changes is None


def test_a_fuel_stop_behind_the_truck_has_only_its_name(connection: Connection, fleet: Fleet, now: datetime) -> None:
    trip = on_road(connection, fleet, now=now)
    truck_at(connection, fleet.live, fleet.trucks[0], now, 41.4, -82.7)

    page = shown(connection, trip, now=now)

    assert page.plan is not None
    assert page.plan.behind == (ShownFuelStopBehind("Lakeside Travel Plaza", is_reached=False),)
    assert [stop.name for stop in page.plan.fuel_stops] == ["Keystone Fuel"]


def test_a_fuel_stop_that_the_truck_has_left_is_behind_it_wherever_it_is_now(
    connection: Connection, fleet: Fleet, now: datetime
) -> None:
    trip = on_road(connection, fleet, now=now)
    truck_at(connection, fleet.live, fleet.trucks[0], now, 41.57, -87.1)
    halted(connection, trip, now, has_left=True)

    page = shown(connection, trip, now=now)

    assert page.plan is not None
    assert page.plan.behind == (ShownFuelStopBehind("Lakeside Travel Plaza", is_reached=True),)
    assert [stop.name for stop in page.plan.fuel_stops] == ["Keystone Fuel"]


def test_a_fuel_stop_where_the_truck_stands_is_still_the_next_one(
    connection: Connection, fleet: Fleet, now: datetime
) -> None:
    trip = on_road(connection, fleet, now=now)
    halted(connection, trip, now, has_left=False)

    page = shown(connection, trip, now=now)

    assert page.plan is not None
    assert (page.plan.behind, page.plan.fuel_stops[0].name) == ((), "Lakeside Travel Plaza")


def test_visits_of_another_plan_take_no_fuel_stop_away(connection: Connection, fleet: Fleet, now: datetime) -> None:
    trip = driven_trip(connection, fleet, now=now)
    halted(connection, trip, now, has_left=True, stop=JOLIET)
    page = shown(connection, trip, now=now)
    assert page.plan is not None
    assert page.plan.behind == (), "an older release has left the visits of the plan before"

    halted(connection, trip, now, has_left=True)
    corrected_trip(connection, trip, now=now + timedelta(minutes=1), cause="prices")
    page = shown(connection, trip, now=now + timedelta(minutes=1))
    assert page.plan is not None
    assert page.plan.behind == (), "the correction knows that purchase, and wants another one there"


def test_choices_of_the_first_fuel_stop_are_shown_while_it_is_ahead(
    connection: Connection, fleet: Fleet, now: datetime
) -> None:
    trip = on_road(connection, fleet, now=now)
    offered_choice(connection, trip)
    kinds = []
    for latitude, longitude in ((41.6, -87.0), (41.4, -82.7)):
        connection.execute("DELETE FROM tracks WHERE vehicle_id = %s", (fleet.trucks[0],))
        truck_at(connection, fleet.live, fleet.trucks[0], now, latitude, longitude)
        plan = shown(connection, trip, now=now).plan
        assert plan is not None
        kinds.append([one.kind for one in plan.choices])
    assert kinds == [["other_chain"], []]


def test_a_truck_off_its_road_has_miles_by_the_straight_line(
    connection: Connection, fleet: Fleet, now: datetime
) -> None:
    trip = on_road(connection, fleet, now=now)
    truck_at(connection, fleet.live, fleet.trucks[0], now, 41.0, -88.0)

    page = shown(connection, trip, now=now)

    assert page.plan is not None
    away = page.plan.fuel_stops[0].miles_away
    assert away is not None
    assert 120 < away < 180


def test_a_plan_of_an_older_release_and_a_truck_without_a_position_are_shown_too(
    connection: Connection, fleet: Fleet, now: datetime
) -> None:
    page = shown(connection, driven_trip(connection, fleet, now=now, facts=None), now=now)

    assert page.plan is not None
    first = page.plan.fuel_stops[0]
    assert (first.exit, first.way_out, first.miles_away, page.truck_at) == (None, None, None, None)


def test_a_correction_is_shown_at_once_with_what_it_changes(
    connection: Connection, fleet: Fleet, now: datetime
) -> None:
    first = {**PLAN["stops"][0], "fillToPercent": 80}
    trip = driven_trip(connection, fleet, now=now, stops=[first, PLAN["stops"][1]])
    other = {**PLAN["stops"][1], "name": "Petro Milesburg", "latitude": 40.97, "longitude": -77.8}
    later = now + timedelta(minutes=1)
    plan_id = corrected_trip(
        connection, trip, now=later, cause="station_closed", stops=[{**first, "fillToPercent": 95}, other]
    )

    page = shown(connection, trip, now=later)

    assert page.plan is not None
    assert page.plan.changes is not None
    assert page.plan.id == plan_id
    changes = page.plan.changes
    assert (changes.cause, changes.added, changes.dropped) == (
        "station_closed",
        ("Petro Milesburg",),
        ("Keystone Fuel",),
    )
    assert changes.levels == (("Lakeside Travel Plaza", 80, 95),)


@pytest.mark.parametrize(
    ("status", "state"), [("completed", "completed"), ("canceled", "canceled"), ("error", "ended")]
)
def test_a_trip_that_is_over_says_so(
    connection: Connection, fleet: Fleet, now: datetime, status: str, state: str
) -> None:
    trip = driven_trip(connection, fleet, now=now)
    connection.execute("UPDATE routes SET status = %s, updated_at = %s WHERE id = %s", (status, now, trip.route_id))

    page = shown(connection, trip, now=now)

    assert (page.state, page.ended_at, page.is_changing) == (state, now, False)


def test_a_trip_whose_plan_was_taken_back_waits_for_another(
    connection: Connection, fleet: Fleet, now: datetime
) -> None:
    trip = driven_trip(connection, fleet, now=now)
    connection.execute("UPDATE routes SET status = 'draft', plan_id = NULL WHERE id = %s", (trip.route_id,))

    page = shown(connection, trip, now=now)

    assert (page.state, page.plan) == ("waiting", None)


def test_a_trip_without_a_feasible_plan_says_so(connection: Connection, fleet: Fleet, now: datetime) -> None:
    trip = driven_trip(connection, fleet, now=now)
    connection.execute("UPDATE routes SET status = 'error' WHERE id = %s", (trip.route_id,))
    connection.execute("UPDATE plans SET document = NULL WHERE route_id = %s", (trip.route_id,))

    assert shown(connection, trip, now=now).state == "infeasible"


def test_a_page_tells_that_a_new_plan_is_being_made(connection: Connection, fleet: Fleet, now: datetime) -> None:
    trip = driven_trip(connection, fleet, now=now, facts={**FACTS, "lowFuel": True})
    connection.execute("UPDATE routes SET replan = '{}' WHERE id = %s", (trip.route_id,))

    page = shown(connection, trip, now=now)

    assert page.is_changing
    assert page.plan is not None
    assert page.plan.is_low_on_fuel


def test_a_trip_whose_last_stop_is_reached_has_no_fuel_stop_ahead(
    connection: Connection, fleet: Fleet, now: datetime
) -> None:
    trip = driven_trip(connection, fleet, now=now)
    arrived(connection, fleet.live, trip.route_id, 1, now)

    page = shown(connection, trip, now=now)

    assert page.plan is not None
    assert (len(page.plan.behind), page.plan.fuel_stops) == (2, ())


def answered(
    connection: Connection, trip: DriverTrip, now: datetime, kind: AnswerKind, *, stop: int = 0, **more: Any
) -> None:
    """Answers a fuel stop of the trip's plan."""
    given = GivenAnswer(new_id().hex, route_row(connection, trip.route_id).plan_id, stop, kind, **more)
    take_answer(connection, link_to(connection, trip.route_id), given, now=now)


def test_a_driver_reads_his_newest_answer_at_its_fuel_stop(connection: Connection, fleet: Fleet, now: datetime) -> None:
    trip = driven_trip(connection, fleet, now=now)
    at_stations(connection, trip)
    answered(connection, trip, now, AnswerKind.GOING)
    later = now + timedelta(minutes=5)
    answered(connection, trip, later, AnswerKind.REFUSED, reason=RefusalReason.QUEUE)

    page = shown(connection, trip, now=later)

    assert page.plan is not None
    assert page.answers == 2
    first, second = page.plan.fuel_stops
    assert first.answer == ShownAnswer(AnswerKind.REFUSED, RefusalReason.QUEUE, later, number=0)
    assert second.answer is None


def test_a_stop_where_the_driver_has_fueled_is_behind_him(connection: Connection, fleet: Fleet, now: datetime) -> None:
    trip = driven_trip(connection, fleet, now=now)
    at_stations(connection, trip)
    answered(connection, trip, now, AnswerKind.FUELED)

    page = shown(connection, trip, now=now)

    assert page.plan is not None
    assert (len(page.plan.behind), [stop.name for stop in page.plan.fuel_stops]) == (1, ["Keystone Fuel"])


def test_a_station_that_the_road_passes_twice_has_an_answer_for_each_visit(
    connection: Connection, fleet: Fleet, now: datetime
) -> None:
    there, back = PLAN["stops"]
    stops = [there, {**back, "sequence": 1}, {**there, "sequence": 2, "milesFromOrigin": 700.0}]
    trip = driven_trip(connection, fleet, now=now, stops=stops, facts=None)
    visited, other = at_stations(connection, trip)
    connection.execute(
        "UPDATE plans SET station_ids = %s WHERE route_id = %s", ([visited, other, visited], trip.route_id)
    )

    answered(connection, trip, now, AnswerKind.FUELED)

    page = shown(connection, trip, now=now)
    assert page.plan is not None
    assert len(page.plan.behind) == 1
    assert [stop.answer for stop in page.plan.fuel_stops] == [None, None]


def test_fuel_that_a_plan_was_made_with_does_not_take_its_stop_away(
    connection: Connection, fleet: Fleet, now: datetime
) -> None:
    trip = driven_trip(connection, fleet, now=now)
    at_stations(connection, trip)
    answered(connection, trip, now, AnswerKind.FUELED)
    connection.execute("UPDATE plans SET generated_at = %s", (now + timedelta(hours=1),))

    page = shown(connection, trip, now=now)

    assert page.plan is not None
    assert len(page.plan.behind) == 0


def test_a_late_answer_is_not_shown_with_the_plan(connection: Connection, fleet: Fleet, now: datetime) -> None:
    trip = driven_trip(connection, fleet, now=now)
    at_stations(connection, trip)
    connection.execute("UPDATE routes SET revision = revision + 1 WHERE id = %s", (trip.route_id,))
    answered(connection, trip, now, AnswerKind.FUELED)

    page = shown(connection, trip, now=now)

    assert page.plan is not None
    assert (len(page.plan.behind), page.plan.fuel_stops[0].answer) == (0, None)


def test_a_refusal_before_the_first_message_is_out_has_the_plan_reviewed_and_the_page_says_so(
    connection: Connection, fleet: Fleet, now: datetime
) -> None:
    trip = driven_trip(connection, fleet, now=now)
    at_stations(connection, trip)
    connection.execute("UPDATE routes SET status = 'planned', review_at = %s WHERE id = %s", (now, trip.route_id))
    assert not shown(connection, trip, now=now).is_changing

    answered(connection, trip, now + timedelta(seconds=1), AnswerKind.REFUSED, reason=RefusalReason.CLOSED)

    assert shown(connection, trip, now=now).is_changing
