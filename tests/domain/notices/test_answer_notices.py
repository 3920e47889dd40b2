"""People who choose it are told what drivers answer to their fuel stops: gathered, and each answer once."""

from datetime import timedelta

import pytest

from domain.database.connections import Connection
from domain.lifecycle import AnswerKind, RefusalReason
from domain.notices.noticing import Told
from domain.notices.subscriptions import ANSWERS, OPERATORS, proposed_kinds
from tests.domain.driver_page.given import AnsweredTrip, trip_with_plan
from tests.domain.notices.subscriptions import look, notices_of, subscribe
from tests.factories import Fleet, make_fleet

MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)


@pytest.fixture
def trip(connection: Connection, fleet: Fleet) -> AnsweredTrip:
    """A trip whose company has just subscribed to answers."""
    made = subscribe(connection, fleet.company_id, kinds=(ANSWERS.kind,))
    return trip_with_plan(connection, fleet.live, now=made.created_at + MINUTE)


def looked(trip: AnsweredTrip, fleet: Fleet, after: timedelta) -> Told:
    return look(trip.connection, fleet.company_id, trip.now + after)


def texts(trip: AnsweredTrip, fleet: Fleet) -> list[str]:
    return [one.text for one in notices_of(trip.connection, fleet.company_id)]


def arrive(trip: AnsweredTrip, fleet: Fleet, after: timedelta) -> None:
    """Every notice so far has reached its person."""
    trip.connection.execute(
        "UPDATE notices SET status = 'sent', settled_at = %s, retry_at = NULL WHERE company_id = %s",
        (trip.now + after, fleet.company_id),
    )


def test_answers_are_gathered_for_a_quarter_of_an_hour_and_told_in_one_text(trip: AnsweredTrip, fleet: Fleet) -> None:
    trip.take(trip.given(AnswerKind.GOING))
    trip.take(trip.refused(RefusalReason.QUEUE), after=2 * MINUTE)
    trip.take(trip.given(AnswerKind.FUELED, sequence=1, gallons=80.0), after=10 * MINUTE)
    trip.take(trip.given(AnswerKind.GOING, sequence=1), after=11 * MINUTE)

    assert not looked(trip, fleet, 14 * MINUTE).due
    assert len(looked(trip, fleet, 15 * MINUTE).due) == 1

    (text,) = texts(trip, fleet)
    title, newest, *_, more, page = text.split("\n")
    assert title == "Acme: 4 answers of drivers to their fuel stops"
    assert newest.endswith(": goes to Keystone Fuel")
    assert "has fueled at Keystone" in text
    assert "cannot fuel at Lakeside" in text
    assert (more, page) == ("And 1 more.", "https://console.example.com/routes?status=active")


def test_an_answer_is_told_once_and_the_next_text_has_only_later_ones(trip: AnsweredTrip, fleet: Fleet) -> None:
    trip.take(trip.given(AnswerKind.GOING))
    looked(trip, fleet, HOUR)
    arrive(trip, fleet, HOUR)
    assert not looked(trip, fleet, HOUR + MINUTE).due

    trip.take(trip.given(AnswerKind.FUELED), after=HOUR)
    assert len(looked(trip, fleet, 2 * HOUR).due) == 1
    assert [text.split("\n")[0] for text in texts(trip, fleet)] == [
        "Acme: 1 answer of drivers to their fuel stops",
        "Acme: 1 answer of drivers to their fuel stops",
    ]
    assert "goes to" not in texts(trip, fleet)[1]


def test_while_a_text_is_on_its_way_answers_wait_for_the_next_one(trip: AnsweredTrip, fleet: Fleet) -> None:
    trip.take(trip.given(AnswerKind.GOING))
    looked(trip, fleet, HOUR)
    trip.take(trip.given(AnswerKind.FUELED), after=HOUR)

    looked(trip, fleet, 2 * HOUR)

    assert len(texts(trip, fleet)) == 1


def test_a_subscription_may_wait_longer_and_answers_of_its_night_come_in_one_text_of_the_morning(
    connection: Connection, fleet: Fleet
) -> None:
    made = subscribe(
        connection, fleet.company_id, kinds=(ANSWERS.kind,), minutes_by_kind={ANSWERS.kind: 60}, time_zone="UTC"
    )
    trip = trip_with_plan(connection, fleet.live, now=made.created_at + MINUTE)
    trip.take(trip.given(AnswerKind.GOING))
    assert not looked(trip, fleet, 59 * MINUTE).due
    minute = (trip.now + 3 * HOUR).hour * 60
    quiet = "UPDATE notice_subscriptions SET quiet_from = %s, quiet_until = %s WHERE company_id = %s"
    connection.execute(quiet, (minute, (minute + 60) % 1440, fleet.company_id))
    assert not looked(trip, fleet, 3 * HOUR).due

    assert len(looked(trip, fleet, 4 * HOUR).due) == 1


def test_a_subscription_that_waits_for_days_is_told_too(connection: Connection, fleet: Fleet) -> None:
    made = subscribe(connection, fleet.company_id, kinds=(ANSWERS.kind,), after_minutes=2 * 24 * 60)
    trip = trip_with_plan(connection, fleet.live, now=made.created_at + MINUTE)
    trip.take(trip.given(AnswerKind.GOING))
    assert not looked(trip, fleet, 47 * HOUR).due

    assert len(looked(trip, fleet, 48 * HOUR).due) == 1
    arrive(trip, fleet, 48 * HOUR)
    assert not looked(trip, fleet, 49 * HOUR).due


def test_late_answers_those_of_others_and_of_the_sandbox_are_not_told(
    trip: AnsweredTrip, connection: Connection, fleet: Fleet
) -> None:
    foreign, rehearsed = (
        trip_with_plan(connection, tenant, now=trip.now) for tenant in (make_fleet(connection).live, fleet.sandbox)
    )
    foreign.take(foreign.given())
    rehearsed.take(rehearsed.given())
    trip.end()
    trip.take(trip.given())

    assert not looked(trip, fleet, HOUR).due


def test_answers_from_before_the_subscription_and_those_of_last_week_are_no_news(
    trip: AnsweredTrip, fleet: Fleet
) -> None:
    trip.take(trip.given(), after=-HOUR)
    assert not looked(trip, fleet, HOUR).due
    trip.take(trip.given(sequence=1))
    assert not looked(trip, fleet, timedelta(days=7)).due


def test_nobody_is_told_answers_without_choosing_them(connection: Connection, fleet: Fleet) -> None:
    assert ANSWERS.kind not in [*proposed_kinds(fleet.company_id), *proposed_kinds(OPERATORS)]
    made = subscribe(connection, fleet.company_id)
    trip = trip_with_plan(connection, fleet.live, now=made.created_at + MINUTE)
    trip.take(trip.given())
    assert not looked(trip, fleet, HOUR).due
