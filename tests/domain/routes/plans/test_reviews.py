"""A plan made at the first stop is reviewed when fuel or prices change there, and the driver hears of it once."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from domain.contract.shapes import Position
from domain.database.connections import Connection, Tenant
from domain.ids import new_id
from domain.lifecycle import Environment
from domain.queue.jobs import Job, review_plan_job
from domain.roads import CIRCUITY, great_circle_miles
from domain.routes.plans import review_requests, reviews
from domain.settings import Settings
from domain.stations.stations import store_station_rows
from tests.domain.helpers import place_of, positions_at, post, route_row
from tests.domain.routes.trip import OUT_OF_TOWN, SENT, Trip
from tests.factories import JOLIET, NEWARK, STATIONS, Fleet
from tests.jobs import jobs_of
from tests.rows import named

pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")  # Apprise's, when it loads


@pytest.fixture
def trip(request: Any, connection: Connection, fleet: Fleet, settings: Settings, now: datetime) -> Trip:
    """A live trip where the test does not say `in_both`."""
    return Trip(connection, fleet, settings, now, Tenant(fleet.company_id, getattr(request, "param", Environment.LIVE)))


in_both = pytest.mark.parametrize("trip", list(Environment), indirect=True)
"""Both environments, for tests of messages and of late positions, which the sandbox treats differently. Reviews know
of none."""


@in_both
def test_fuel_taken_at_the_first_stop_corrects_the_plan_once(trip: Trip) -> None:
    trip.send()
    (sent,) = trip.messages(*SENT)

    assert trip.report(JOLIET, 90, 90) == [review_plan_job(trip.route_id)]
    assert trip.review() == "corrected"
    trip.send()

    route = route_row(trip.connection, trip.route_id)
    assert (route.status, route.review_at) == ("active", None)
    assert trip.start_gallons == 180
    first, second = trip.messages(*SENT)
    assert first.id == sent.id
    assert second.plan_id == route.plan_id
    assert second.text.startswith("CORRECTED fuel plan")
    assert trip.report(JOLIET, 20, 20) == []
    assert trip.new_prices(-1) == []
    assert trip.depart(20) == []
    assert trip.review() is None


def test_an_odd_reading_or_a_tank_being_filled_changes_no_plan(trip: Trip) -> None:
    trip.send()
    assert trip.report(JOLIET, 40, 95, 40) == []
    assert trip.report(JOLIET, 5, None, 41) == []
    assert trip.report(JOLIET, 55, 65, 75) == []
    assert trip.report(JOLIET, 85, 85) == [review_plan_job(trip.route_id)]


@in_both
def test_an_unsent_plan_is_replaced_without_a_correction_as_often_as_needed(trip: Trip) -> None:
    for percent in (70, 90):
        assert trip.report(JOLIET, percent, percent) == [review_plan_job(trip.route_id)]
        assert trip.review() == "replaced"
    trip.send()

    (sent,) = trip.messages(*SENT)
    assert sent.text.startswith("Fuel plan")
    assert len(trip.messages("failed")) == 2
    assert route_row(trip.connection, trip.route_id).status == "active"
    assert trip.report(JOLIET, 60, 60) == [review_plan_job(trip.route_id)]
    assert trip.review() == "corrected"


@in_both
def test_the_last_review_is_at_the_departure_and_usually_changes_nothing(trip: Trip) -> None:
    trip.send()
    assert trip.depart(38) == [review_plan_job(trip.route_id)]
    assert trip.review() is None
    assert route_row(trip.connection, trip.route_id).review_at is None
    assert trip.report(OUT_OF_TOWN, 90, 90, speed_mph=40) == []


@in_both
def test_fuel_seen_only_on_leaving_counts(trip: Trip) -> None:
    trip.send()
    assert trip.depart(85) == [review_plan_job(trip.route_id)]
    assert trip.review() == "corrected"


@pytest.mark.parametrize(("change", "outcome"), [(-0.6, "corrected"), (0.0, "confirmed"), (0.0005, "confirmed")])
def test_new_prices_correct_the_plan_where_they_matter(trip: Trip, change: float, outcome: str) -> None:
    trip.send()
    assert trip.new_prices(change) == [review_plan_job(trip.route_id)]
    assert trip.review() == outcome
    assert len(trip.messages("pending")) == (outcome == "corrected")

    trip.connection.execute("UPDATE routes SET review_at = %s WHERE id = %s", (trip.now, trip.route_id))
    assert trip.review() is None  # it was reviewed with these prices


def test_small_changes_of_fuel_cause_a_review_once_they_add_up(trip: Trip) -> None:
    trip.send()
    trip.report(JOLIET, 48, 48)
    trip.new_prices(0)
    assert trip.review() == "confirmed"
    assert trip.report(JOLIET, 56, 56) == [review_plan_job(trip.route_id)]


def test_prices_of_another_company_or_after_the_departure_cause_no_review(trip: Trip) -> None:
    trip.send()
    jobs_of(trip.connection)
    review_requests.after_new_prices(trip.connection, new_id(), now=trip.now)
    assert jobs_of(trip.connection) == []
    review_requests.after_new_prices(trip.connection, trip.fleet.company_id, now=trip.now)
    assert jobs_of(trip.connection) != []
    trip.depart()
    assert trip.new_prices(-1) == []


def test_a_plan_that_became_infeasible_stays_as_it_is(trip: Trip) -> None:
    trip.send()
    plan_id = route_row(trip.connection, trip.route_id).plan_id
    trip.report(JOLIET, 5, 5)
    assert trip.review() == "confirmed"
    assert route_row(trip.connection, trip.route_id).plan_id == plan_id
    assert trip.report(JOLIET, 5, 5) == []


def test_a_review_is_due_until_it_was_taken(trip: Trip) -> None:
    trip.report(JOLIET, 90, 90)

    def due(seconds: float) -> bool:
        return trip.route_id in review_requests.due_reviews(trip.connection, now=trip.now + timedelta(seconds=seconds))

    assert [due(seconds) for seconds in (5, 11, 12)] == [False, True, True]
    trip.review()
    assert not due(12)


def gone(miles: float) -> dict[str, Any]:
    """A place on the way, so many road miles from Joliet (a straight mile is taken for 1.2 on the road)."""
    share = miles / CIRCUITY / great_circle_miles(place_of(JOLIET), place_of(NEWARK))
    between = {name: JOLIET[name] + share * (NEWARK[name] - JOLIET[name]) for name in ("latitude", "longitude")}
    return {"name": "on the road", **between}


def burned(miles: float) -> float:
    """Percent of the tank of truck 101: 200 gal, 6.5 mpg."""
    return 100 * miles / 6.5 / 200


def on_the_way(trip: Trip, start_percent: float, *, hours: float, first_mile: float = 1.0) -> list[Job]:
    """The fixes that a truck without coverage has recorded come in at once: a fix every six minutes at 55 mph."""
    positions: list[Position] = []
    for number in range(int(hours * 10)):
        miles = first_mile + 5.5 * number
        positions += positions_at(
            gone(miles),
            trip.now + timedelta(minutes=6 * number),
            count=1,
            speed_mph=55,
            fuel_percent=start_percent - burned(miles),
        )
    trip.now += timedelta(hours=hours)
    post(trip.connection, trip.tenant, positions, now=trip.now)
    return trip.process()


@in_both
def test_fuel_burned_on_the_road_is_no_change_however_late_its_reading_comes(trip: Trip) -> None:
    trip.send()
    assert on_the_way(trip, 40, hours=3.5) == [review_plan_job(trip.route_id)]

    assert trip.review() is None

    route = route_row(trip.connection, trip.route_id)
    assert (route.review_at, route.corrected_at) == (None, None)
    assert trip.messages("pending") == []


@in_both
def test_fuel_filled_before_the_departure_is_a_change_however_late_its_reading_comes(trip: Trip) -> None:
    trip.send()
    assert on_the_way(trip, 90, hours=3.5) == [review_plan_job(trip.route_id)]
    assert trip.review() == "corrected"


@in_both
def test_a_truck_first_seen_far_away_burned_fuel_by_its_miles_per_gallon(trip: Trip) -> None:
    trip.send()
    trip.now += timedelta(hours=1)
    assert on_the_way(trip, 40, hours=0.3, first_mile=150) == [review_plan_job(trip.route_id)]
    assert trip.review() is None


def test_a_level_read_after_the_first_purchase_is_ignored(trip: Trip) -> None:
    trip.send()
    first_purchase = route_plan(trip)["stops"][0]["milesFromOrigin"]
    trip.now += timedelta(hours=3)
    assert on_the_way(trip, 90, hours=0.3, first_mile=first_purchase + 20) == [review_plan_job(trip.route_id)]
    assert trip.review() is None


def route_plan(trip: Trip) -> dict[str, Any]:
    row = (
        named(trip.connection)
        .execute("SELECT p.document FROM routes r JOIN plans p ON p.id = r.plan_id WHERE r.id = %s", (trip.route_id,))
        .fetchone()
    )
    assert row is not None
    document: dict[str, Any] = row.document
    return document


def test_a_plan_made_hours_into_the_trip_is_not_compared_with_the_level_at_the_start(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    trip = Trip(connection, fleet, settings, now, fleet.live, planned=False)
    jobs = on_the_way(trip, 40, hours=3.0)
    connection.execute("DELETE FROM visits WHERE departed_at IS NOT NULL AND stop > 0")
    assert jobs == []  # a draft has no plan to review
    connection.execute(  # as where the plans queue was faster than the processing
        "UPDATE visits SET departed_at = NULL, departure_evidence = NULL WHERE route_id = %s", (trip.route_id,)
    )
    trip.plan()
    trip.send()

    assert trip.depart_again() == [review_plan_job(trip.route_id)]
    assert trip.review() is None


def test_prices_are_compared_over_the_same_road_only(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    trip = Trip(connection, fleet, settings, now, fleet.live)
    trip.send()
    trip.depart()
    trip.now += timedelta(hours=3)
    post(connection, trip.tenant, positions_at(gone(160), trip.now, fuel_percent=40 - burned(160)), now=trip.now)
    store_station_rows(connection, STATIONS, now=trip.now)

    assert trip.review() == "confirmed"


def test_new_prices_cause_no_correction_while_the_tank_is_being_filled(trip: Trip) -> None:
    trip.send()
    trip.report(JOLIET, 60, 75)
    trip.new_prices(-0.6)
    assert trip.review() == "confirmed"

    assert trip.report(JOLIET, 41, 40) == []  # nobody was filling
    assert trip.depart(40) == [review_plan_job(trip.route_id)]
    assert trip.review() == "corrected"  # for the prices, which were not forgotten


@pytest.mark.parametrize("percent", [0, 12])
def test_new_prices_correct_the_plan_while_a_low_level_waits_for_a_second_one(trip: Trip, percent: float) -> None:
    """Many trackers send 0 while the engine is off. A tank that is being filled shows more, not less."""
    trip.send()
    trip.report(JOLIET, percent)
    trip.new_prices(-0.6)
    assert trip.review() == "corrected"


def test_a_review_that_was_asked_for_while_another_one_runs_is_taken(trip: Trip) -> None:
    trip.send()
    trip.new_prices(0)
    review = reviews.begin_review(trip.connection, trip.route_id, now=trip.now)
    assert review is not None
    made = trip.made(review.task)
    trip.new_prices(-0.6)  # the one that runs has not seen these

    assert reviews.finish_review(trip.connection, review, *made, now=trip.now) == "confirmed"

    assert route_row(trip.connection, trip.route_id).review_at is not None
    assert trip.route_id in review_requests.due_reviews(trip.connection, now=trip.now + timedelta(minutes=1))
    assert trip.review() == "corrected"
    assert route_row(trip.connection, trip.route_id).review_at is None


def test_a_review_is_due_however_often_it_is_asked_for(trip: Trip) -> None:
    trip.send()
    began = trip.now
    for _ in range(4):
        trip.report(JOLIET, 90, 90)
        trip.now += timedelta(seconds=5)

    assert trip.route_id in review_requests.due_reviews(trip.connection, now=began + timedelta(minutes=2))


def test_a_review_that_fails_is_retried_with_growing_pauses_until_the_last_attempt(trip: Trip) -> None:
    trip.send()
    trip.report(JOLIET, 90, 90)
    plan_id = route_row(trip.connection, trip.route_id).plan_id
    delays = []
    for _ in range(3):
        assert not reviews.review_failed(trip.connection, trip.route_id, max_attempts=4, now=trip.now)
        delays.append(route_row(trip.connection, trip.route_id).review_at - trip.now)
        assert trip.report(JOLIET, 90, 90) == []  # it has been asked for, and waits for its time
        trip.now -= timedelta(minutes=1)

    assert reviews.review_failed(trip.connection, trip.route_id, max_attempts=4, now=trip.now)

    assert delays == [timedelta(seconds=10), timedelta(seconds=20), timedelta(seconds=40)]
    route = route_row(trip.connection, trip.route_id)
    assert (route.status, route.plan_id, route.review_at) == ("active", plan_id, None)
    trip.now += timedelta(minutes=5)
    assert trip.report(JOLIET, 90, 90) == [review_plan_job(trip.route_id)]
    assert trip.review() == "corrected"
    assert route_row(trip.connection, trip.route_id).attempts == 0


def test_the_review_of_a_finished_plan_is_deleted(trip: Trip) -> None:
    trip.send()
    trip.report(JOLIET, 90, 90)
    trip.connection.execute("UPDATE routes SET status = 'completed' WHERE id = %s", (trip.route_id,))
    assert trip.route_id in review_requests.due_reviews(trip.connection, now=trip.now + timedelta(minutes=1))

    assert trip.review() is None

    assert route_row(trip.connection, trip.route_id).review_at is None


@in_both
def test_a_correction_that_is_not_sent_yet_is_replaced_and_nothing_of_it_is_shown(trip: Trip) -> None:
    trip.send()
    before = route_row(trip.connection, trip.route_id)

    for percent in (70, 90):
        assert trip.report(JOLIET, percent, percent) == [review_plan_job(trip.route_id)]
        assert trip.review() == "corrected"
        shown = route_row(trip.connection, trip.route_id)
        assert (shown.plan_id, shown.distance_miles) == (before.plan_id, before.distance_miles)

    assert trip.report(JOLIET, 91, 91) == []  # the correction that waits knows of it
    (pending,) = trip.messages("pending")
    trip.send()
    route = route_row(trip.connection, trip.route_id)
    assert (route.plan_id, route.correction_id) == (pending.plan_id, None)
    assert trip.start_gallons == 180
    assert [message.text.startswith("CORRECTED") for message in trip.messages(*SENT)] == [False, True]


def test_a_correction_that_failed_for_good_does_not_count(trip: Trip) -> None:
    trip.send()
    trip.report(JOLIET, 70, 70)
    trip.review()
    trip.connection.execute(
        "UPDATE messages SET status = 'failed' WHERE route_id = %s AND status = 'pending'", (trip.route_id,)
    )
    trip.connection.execute("UPDATE routes SET correction_id = NULL WHERE id = %s", (trip.route_id,))

    assert trip.report(JOLIET, 90, 90) == [review_plan_job(trip.route_id)]
    assert trip.review() == "corrected"


@pytest.mark.parametrize("sent", [False, True])
def test_a_plan_whose_message_is_on_its_way_is_reviewed_afterwards(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime, sent: bool
) -> None:
    trip = Trip(connection, fleet, settings, now, fleet.live)  # no message of the sandbox is ever claimed
    if sent:
        trip.send()
        trip.report(JOLIET, 70, 70)
        trip.review()
    trip.connection.execute(
        "UPDATE messages SET claimed_until = %s WHERE route_id = %s AND status = 'pending'",
        (trip.now + timedelta(minutes=5), trip.route_id),
    )
    trip.report(JOLIET, 90, 90)

    assert trip.review() == "being_sent"
    assert route_row(trip.connection, trip.route_id).review_at is not None


def test_a_sandbox_fix_of_a_later_day_does_not_move_the_review_of_an_earlier_trip(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    """A fix posted before the truck arrived is of another trip, however late its day."""
    later = positions_at(NEWARK, now + timedelta(days=2), count=1, fuel_percent=10)
    post(connection, fleet.sandbox, later, now=now - timedelta(hours=1))
    trip = Trip(connection, fleet, settings, now, fleet.sandbox)
    trip.new_prices(1.5)

    review = reviews.begin_review(connection, trip.route_id, now=trip.now)

    assert review is not None
    assert review.task.as_of == now + timedelta(minutes=1)
    assert review.task.read_percent == 40
    assert not review.fuel_changed
