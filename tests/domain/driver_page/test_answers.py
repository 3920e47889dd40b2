"""Answers of drivers: each is kept once, late ones change nothing, and none touches another company's route."""

from datetime import datetime, timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from domain.database.connections import Connection
from domain.database.visibility import of_tenants
from domain.driver_page import answers
from domain.driver_page.answers import SAME_WITHIN
from domain.driver_page.given_answers import GivenAnswer, ImpossibleAnswer
from domain.housekeeping import retention
from domain.ids import new_id
from domain.lifecycle import AnswerKind, RefusalReason
from domain.roads import Point
from tests.domain.driver_page.given import AnsweredTrip, link_to, trip_with_plan
from tests.domain.driver_page.trips import truck_at
from tests.domain.helpers import go_behind_the_wall, route_row
from tests.factories import Fleet, make_fleet
from tests.jobs import jobs_of

MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)


@pytest.fixture
def trip(connection: Connection, fleet: Fleet, now: datetime) -> AnsweredTrip:
    trip = trip_with_plan(connection, fleet.live, now=now)
    connection.execute("UPDATE plans SET station_ids = '{LAKESIDE,KEYSTONE}' WHERE id = %s", (trip.plan_id,))
    return trip


def test_an_answer_is_kept_with_its_time_and_place(trip: AnsweredTrip) -> None:
    given = trip.given(AnswerKind.FUELED, gallons=97.5, told_at=trip.now + MINUTE, place=Point(41.7, -86.0))
    assert trip.take(given, after=2 * MINUTE) == ("taken", False)
    (kept,) = trip.answers
    assert (kept.kind, kept.place, kept.gallons, kept.is_late) == ("fueled", "Lakeside Travel Plaza", 97.5, False)
    assert (kept.told_at, kept.answered_at) == (trip.now + MINUTE, trip.now + 2 * MINUTE)
    assert (kept.latitude, kept.longitude) == (41.7, -86.0)


@pytest.mark.parametrize(("minutes_old", "place"), [(5, (41.5, -87.0)), (20, (None, None))])
def test_where_the_phone_tells_no_place_that_of_the_truck_at_that_time_is_kept(
    trip: AnsweredTrip, fleet: Fleet, minutes_old: float, place: tuple[float | None, float | None]
) -> None:
    seen_at = trip.now - timedelta(minutes=minutes_old)
    truck_at(trip.connection, fleet.live, fleet.trucks[0], seen_at, 41.5, -87.0)

    trip.take(trip.given())

    (kept,) = trip.answers
    assert (kept.latitude, kept.longitude) == place


def test_after_the_trip_another_driver_may_have_the_truck_so_its_place_is_not_kept(
    trip: AnsweredTrip, fleet: Fleet
) -> None:
    truck_at(trip.connection, fleet.live, fleet.trucks[0], trip.now, 41.5, -87.0)
    trip.end()

    assert trip.take(trip.given()).outcome == "late"

    (kept,) = trip.answers
    assert (kept.latitude, kept.longitude) == (None, None)


def test_an_answer_to_a_plan_of_another_trip_is_refused(trip: AnsweredTrip, fleet: Fleet) -> None:
    other = trip_with_plan(trip.connection, fleet.live, now=trip.now)
    with pytest.raises(ImpossibleAnswer, match="not of this trip"):
        trip.take(trip.given(plan_id=other.plan_id))
    with pytest.raises(ImpossibleAnswer, match="no such fuel stop"):
        trip.take(trip.given(sequence=2))
    assert trip.answers == other.answers == []


def test_a_driver_who_does_not_have_the_trip_any_more_answers_late(trip: AnsweredTrip, fleet: Fleet) -> None:
    link = link_to(trip.connection, trip.route_id, driver_id=fleet.drivers[1])
    assert trip.take(trip.refused(), link=link).outcome == "late"


def test_an_answer_to_a_plan_of_an_earlier_input_is_late(trip: AnsweredTrip) -> None:
    trip.connection.execute("UPDATE routes SET revision = revision + 1 WHERE id = %s", (trip.route_id,))
    assert trip.take(trip.refused()).outcome == "late"


def test_a_flood_of_answers_ends(trip: AnsweredTrip, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "MOST_ANSWERS_OF_TRIP", 3)
    for number in range(3):
        trip.take(trip.given(), after=number * SAME_WITHIN)
    with pytest.raises(ImpossibleAnswer, match="dispatcher"):
        trip.take(trip.given(), after=3 * SAME_WITHIN)
    assert len(trip.answers) == 3


def test_an_answer_that_is_given_again_while_the_first_is_on_its_way_is_one(trip: AnsweredTrip) -> None:
    """A press of the button on a slow network, and another one: the page makes a key for each."""
    first, again = (trip.take(trip.refused(), after=one) for one in (timedelta(0), SAME_WITHIN / 2))
    assert (first.outcome, again) == ("taken", ("known", False))
    assert len(trip.answers) == 1

    others = trip.refused(RefusalReason.QUEUE), trip.refused(sequence=1), trip.given(), trip.refused()
    assert [trip.take(one, after=SAME_WITHIN / 2).outcome for one in others] == ["taken"] * 4, "he says something else"
    fills = [trip.given(AnswerKind.FUELED, gallons=gallons) for gallons in (90.0, 97.5, 97.5)]
    assert [trip.take(one, after=SAME_WITHIN / 2).outcome for one in fills] == ["taken", "taken", "known"]
    assert trip.take(trip.given(AnswerKind.FUELED, gallons=97.5), after=2 * SAME_WITHIN).outcome == "taken"


@pytest.mark.parametrize("older", ["going", "refused"])
def test_an_answer_that_another_phone_kept_does_not_undo_what_the_driver_said_since(
    trip: AnsweredTrip, older: str
) -> None:
    def answer(kind: str, minute: int) -> GivenAnswer:
        told_at = trip.now + minute * MINUTE
        return trip.refused(told_at=told_at) if kind == "refused" else trip.given(AnswerKind(kind), told_at=told_at)

    newer = "refused" if older == "going" else "fueled"
    assert trip.take(answer(newer, 10), after=10 * MINUTE).outcome == "taken"
    jobs_of(trip.connection)
    before = state_of(trip), trip.answers

    assert trip.take(answer(older, 5), after=20 * MINUTE) == ("late", False)
    assert (state_of(trip), trip.answers[:1]) == before

    assert trip.take(answer(newer, 6), after=20 * MINUTE).outcome == "taken", "it says the same"
    assert trip.take(answer(older, 12), after=22 * MINUTE).outcome == "taken", "he said it since"


@pytest.mark.parametrize(
    ("kept", "since", "newest"),
    [((5, 30), (10, 20), "refused"), ((5, 15), (10,), "refused"), ((5, 30), (10,), "going")],
)
def test_answers_that_a_phone_kept_for_hours_and_sends_at_once_count_by_their_times(
    trip: AnsweredTrip, kept: tuple[int, ...], since: tuple[int, ...], newest: str
) -> None:
    """The newest says what an older one says, which is late, or was followed by something else on another phone."""

    def answer(minute: int, *, kind: str) -> GivenAnswer:
        told_at = trip.now + minute * MINUTE
        return trip.refused(told_at=told_at) if kind == "refused" else trip.given(told_at=told_at)

    other = "going" if newest == "refused" else "refused"
    for minute in since:
        trip.take(answer(minute, kind=other), after=minute * MINUTE)
    outcomes = [trip.take(answer(minute, kind=newest), after=HOUR).outcome for minute in kept]

    assert outcomes == ["late", "taken"]
    assert trip.take(answer(kept[-1], kind=newest), after=HOUR).outcome == "known", "pressed twice"
    assert any(one.left_out_until for one in trip.answers) == (newest == "refused")


def test_a_refusal_from_a_phone_with_a_slow_clock_is_no_older_than_the_answer_before_it(trip: AnsweredTrip) -> None:
    """The first answer seems to be older than the plan, so it counts from when it came; the second is believed."""
    slow = trip.now - 3 * HOUR
    trip.take(trip.given(told_at=slow + HOUR, sent_at=slow + HOUR), after=HOUR)
    refused = trip.refused(told_at=slow + 3.5 * HOUR, sent_at=slow + 3.5 * HOUR)
    assert trip.take(refused, after=3.5 * HOUR).outcome == "taken"


def test_an_answer_given_while_the_one_before_it_is_on_its_way_is_no_older(trip: AnsweredTrip) -> None:
    """The page sends one after the other, and a slow network took half a minute for the first."""
    second = timedelta(seconds=1)
    trip.take(trip.given(told_at=trip.now, sent_at=trip.now), after=30 * second)
    refused = trip.refused(told_at=trip.now + 5 * second, sent_at=trip.now + 31 * second)
    assert trip.take(refused, after=32 * second).outcome == "taken"


def test_a_purchase_that_another_phone_kept_has_been_made(trip: AnsweredTrip) -> None:
    trip.take(trip.refused(told_at=trip.now + 10 * MINUTE), after=10 * MINUTE)
    given = trip.given(AnswerKind.FUELED, told_at=trip.now + 5 * MINUTE)
    assert trip.take(given, after=20 * MINUTE).outcome == "taken"


def test_an_answer_told_by_a_fast_clock_is_no_newer_than_the_moment_at_which_it_came(trip: AnsweredTrip) -> None:
    trip.take(trip.given(told_at=trip.now + 4 * MINUTE))
    assert trip.take(trip.refused(told_at=trip.now + 2 * MINUTE), after=2 * MINUTE).outcome == "taken"


def test_the_place_of_a_phone_is_forgotten_like_evidence(trip: AnsweredTrip) -> None:
    trip.take(trip.given(place=Point(41.7, -86.0)))
    trip.end()
    trip.connection.execute("UPDATE routes SET updated_at = %s WHERE id = %s", (trip.now, trip.route_id))
    later = trip.now + timedelta(days=91)
    assert retention.forget_places(trip.connection, days=90, now=later, limit=10) == 1
    (kept,) = trip.answers
    assert (kept.latitude, kept.kind) == (None, "going")


# --- Laws ------------------------------------------------------------------------------------------------------

KINDS = st.sampled_from(AnswerKind)
REASONS = st.sampled_from(RefusalReason)
LAW = settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def state_of(trip: AnsweredTrip) -> object:
    """Everything of the route that an answer could change, and the closures of its company."""
    route = route_row(trip.connection, trip.route_id)
    closures = trip.connection.execute(
        "SELECT station_id FROM station_closures WHERE company_id = %s", (route.company_id,)
    ).fetchall()
    return route, closures, jobs_of(trip.connection)


@LAW
@given(kind=KINDS, reason=REASONS, times=st.integers(2, 4), sequence=st.integers(0, 1))
def test_answering_twice_is_once(
    trip: AnsweredTrip, kind: AnswerKind, reason: RefusalReason, times: int, sequence: int
) -> None:
    given = trip.given(kind, reason=reason if kind is AnswerKind.REFUSED else None, sequence=sequence)
    trip.forget_answers()  # of the example before, which may say the same
    first = trip.take(given)
    jobs_of(trip.connection)
    after = state_of(trip)
    again = [trip.take(given, after=number * MINUTE) for number in range(1, times)]
    assert first.outcome == "taken"
    assert {one.outcome for one in again} == {"known"}
    assert len(trip.answers) == 1
    assert state_of(trip) == after


@LAW
@given(kind=KINDS, reason=REASONS, status=st.sampled_from(["completed", "canceled", "error", "draft", "pending"]))
def test_a_late_answer_changes_nothing(
    trip: AnsweredTrip, kind: AnswerKind, reason: RefusalReason, status: str
) -> None:
    trip.forget_answers()  # of the example before, which may say the same
    trip.end(status)
    jobs_of(trip.connection)
    before = state_of(trip)
    taken = trip.take(trip.given(kind, reason=reason if kind is AnswerKind.REFUSED else None), after=HOUR)
    assert taken == ("late", False)
    assert state_of(trip) == before
    assert all(one.is_late and one.left_out_until is None for one in trip.answers)


@LAW
@given(kind=KINDS, reason=REASONS, behind_the_wall=st.booleans())
def test_a_link_of_another_company_never_touches_a_route(
    trip: AnsweredTrip, kind: AnswerKind, reason: RefusalReason, behind_the_wall: bool
) -> None:
    other = make_fleet(trip.connection)
    link = link_to(trip.connection, trip.route_id)
    foreign = link._replace(company_id=other.company_id, driver_id=other.drivers[0])
    jobs_of(trip.connection)
    before, kept = state_of(trip), len(trip.answers)
    if behind_the_wall:
        go_behind_the_wall(trip.connection, of_tenants([other.live]))
    with pytest.raises(ImpossibleAnswer):
        trip.take(trip.given(kind, reason=reason if kind is AnswerKind.REFUSED else None), link=foreign)
    trip.connection.execute("RESET ROLE")
    assert (state_of(trip), len(trip.answers)) == (before, kept)


def test_a_key_is_of_one_route_alone(trip: AnsweredTrip, fleet: Fleet) -> None:
    other = trip_with_plan(trip.connection, fleet.live, now=trip.now)
    key = new_id().hex
    assert trip.take(trip.given(key=key)).outcome == other.take(other.given(key=key)).outcome == "taken"
