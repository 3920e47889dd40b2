"""A purchase that a driver tells stands beside the gauge and the card, and decides nothing."""

from datetime import datetime, timedelta

import pytest

from domain.database.connections import Connection
from domain.ids import new_id
from domain.lifecycle import AnswerKind
from domain.routes.reading.told_purchases import PurchaseSeen, read_told_answers
from tests.domain.driver_page.given import AnsweredTrip, trip_with_plan
from tests.domain.helpers import positions_at, post
from tests.factories import Fleet

PUMP = {"latitude": 41.7, "longitude": -86.0}
BEFORE, BEHIND = {"latitude": 41.6, "longitude": -86.0}, {"latitude": 41.8, "longitude": -86.0}


@pytest.fixture
def trip(connection: Connection, fleet: Fleet, now: datetime) -> AnsweredTrip:
    """The driver was at the first fuel stop, Lakeside, an hour later."""
    connection.execute(
        "INSERT INTO stations (station_id, name, latitude, longitude) VALUES ('LAKESIDE-1', 'Lakeside', 41.7, -86.0)"
    )
    trip = trip_with_plan(connection, fleet.live, now=now)
    connection.execute("UPDATE plans SET station_ids = '{LAKESIDE-1,KEY-1}' WHERE id = %s", (trip.plan_id,))
    hour, minutes = now + timedelta(hours=1), timedelta(minutes=20)
    for place, at, percent in ((BEFORE, hour - minutes, 30), (PUMP, hour, 30), (PUMP, hour + minutes, 80)):
        post(connection, fleet.live, positions_at(place, at, fuel_percent=percent), now=hour + minutes)
    post(connection, fleet.live, positions_at(BEHIND, hour + 2 * minutes, fuel_percent=79), now=hour + 2 * minutes)
    return trip


def seen(trip: AnsweredTrip, fleet: Fleet) -> PurchaseSeen:
    (told,) = read_told_answers(trip.connection, fleet.live, trip.route_id, fleet.trucks[0])
    return told.seen


def test_the_gauge_stands_beside_what_the_driver_tells(trip: AnsweredTrip, fleet: Fleet) -> None:
    trip.take(trip.given(AnswerKind.FUELED, gallons=97.0), after=timedelta(hours=2))
    assert seen(trip, fleet) == PurchaseSeen(gauge_gallons=98.0)
    assert seen(trip, fleet).agrees_with(97.0)
    assert seen(trip, fleet).agrees_with(150.0) is False


def test_the_card_stands_beside_it_too_and_counts_more(trip: AnsweredTrip, fleet: Fleet) -> None:
    trip.take(trip.given(AnswerKind.FUELED, gallons=97.0), after=timedelta(hours=2))
    fill(trip, fleet, 60.5)
    assert seen(trip, fleet) == PurchaseSeen(98.0, 60.5, 20900)
    assert seen(trip, fleet).agrees_with(97.0) is False, "the card decides"


@pytest.mark.parametrize(("gallons", "question"), [(60.5, "twice"), (40.0, "corrected"), (-60.5, "reversal")])
def test_a_row_that_may_be_the_same_purchase_is_not_added_to_it(
    trip: AnsweredTrip, fleet: Fleet, gallons: float, question: str
) -> None:
    trip.take(trip.given(AnswerKind.FUELED, gallons=60.0), after=timedelta(hours=2))
    fill(trip, fleet, 60.5)
    fill(trip, fleet, gallons, question)
    assert seen(trip, fleet) == PurchaseSeen(98.0, 60.5, 20900)
    assert seen(trip, fleet).agrees_with(60.0)


def test_each_of_two_visits_to_a_station_has_its_own_purchase(trip: AnsweredTrip, fleet: Fleet) -> None:
    trip.connection.execute("UPDATE plans SET station_ids = '{LAKESIDE-1,LAKESIDE-1}' WHERE id = %s", (trip.plan_id,))
    trip.take(trip.given(AnswerKind.FUELED, gallons=60.0), after=timedelta(hours=2))
    trip.take(trip.given(AnswerKind.FUELED, sequence=1, gallons=80.0), after=timedelta(hours=12))
    fill(trip, fleet, 60.5)
    fill(trip, fleet, 81.0, after=timedelta(hours=11))

    there, back = read_told_answers(trip.connection, fleet.live, trip.route_id, fleet.trucks[0])

    assert (there.seen.card_gallons, there.seen.agrees_with(there.answer.gallons)) == (60.5, True)
    assert (back.seen.card_gallons, back.seen.agrees_with(back.answer.gallons)) == (81.0, True)


def fill(trip: AnsweredTrip, fleet: Fleet, gallons: float, *waits_for: str, after: timedelta = timedelta()) -> None:
    """A purchase at the station by the card, for 20,900 cents."""
    trip.connection.execute(
        "INSERT INTO fills (id, company_id, environment, profile, key, bought_at, time_zone, has_time, fuel, gallons,"
        " paid_cents, currency, station_id, route_id, vehicle_id, score, review)"
        " VALUES (%s, %s, 'live', 'p', %s, %s, 'UTC', true, 'tractor', %s, %s, 'USD', 'LAKESIDE-1', %s, %s, 100, %s)",
        (
            *(new_id(), fleet.company_id, new_id().hex, trip.now + after, gallons, 20900 if gallons > 0 else -20900),
            *(trip.route_id, fleet.trucks[0], list(waits_for)),
        ),
    )


def test_another_stop_tells_nothing_of_this_one(trip: AnsweredTrip, fleet: Fleet) -> None:
    trip.take(trip.given(AnswerKind.FUELED, sequence=1), after=timedelta(hours=2))
    assert seen(trip, fleet) == PurchaseSeen()
    assert seen(trip, fleet).agrees_with(None) is None
