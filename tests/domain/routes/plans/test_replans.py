"""A plan is made anew on the way: for which trucks, how often, what the driver hears of it; and no step that is
repeated or late changes anything."""

import dataclasses
import math
import random
from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, Phase, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from domain.accounts.companies import set_policy
from domain.accounts.policy import Policy
from domain.contract.shapes import Position
from domain.database.connections import Connection
from domain.planning.explanation import unpack_explanation
from domain.planning.plan_tasks import plan_task_as_of
from domain.queue.jobs import Job, build_plan_job, review_plan_job
from domain.routes.plans import reviews
from domain.routes.plans.deviating_trucks import followed_routes
from domain.routes.plans.replans import Replan
from domain.routes.reading.explanations import read_route_explanation
from domain.settings import Settings
from tests.domain.helpers import corrected_by_hand, positions_at
from tests.domain.routes.journey import PERCENT_PER_MILE, Journey, Leg, at_mile
from tests.factories import DOT, JOLIET, NEWARK, Fleet, make_fleet, put_demo_stations
from tests.jobs import jobs_after, jobs_of
from tests.repeatable import examples

pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")  # Apprise's, when it loads


@pytest.fixture
def stations(connection: Connection, now: datetime) -> None:
    put_demo_stations(connection, now=now)


@pytest.fixture
def replanning(connection: Connection, fleet: Fleet, stations: None) -> Fleet:
    set_policy(connection, fleet.company_id, Policy(replan_en_route=True), DOT)
    return fleet


@pytest.fixture
def journey(request: Any, connection: Connection, replanning: Fleet, settings: Settings, now: datetime) -> Journey:
    """A live journey where the test does not say `in_both`."""
    return Journey(connection, replanning, settings, now, live=getattr(request, "param", "live") == "live")


in_both = pytest.mark.parametrize("journey", ["live", "sandbox"], indirect=True)
"""Both environments, for tests of the comparison: the sandbox compares a truck with its road at other fixes than live
traffic. What a deviation leads to is the same."""


AWAY = (Leg(0, 60), Leg(60, 100, -60))


@in_both
def test_a_truck_that_leaves_its_road_gets_a_plan_from_there(journey: Journey) -> None:
    (stop,) = journey.fuel_stops
    assert stop["milesFromOrigin"] > 100
    journey.drive(*AWAY)

    first, second = journey.versions()
    assert first.cause is None
    assert second.cause["kind"] == "off_road"
    assert "off the planned road" in second.cause["text"]
    assert second.cause["fuelStopsPassed"] == 0
    assert journey.route.plan_id == second.id
    assert journey.route.distance_miles == second.document["totalDistanceMiles"] < 760
    sent, corrected = journey.messages()
    assert sent.text.startswith("Fuel plan")
    assert corrected.text.startswith("CORRECTED fuel plan")
    assert corrected.status in ("sent", "suppressed")
    assert journey.route.status == "active"
    assert journey.route.replan is None
    assert journey.route.review_at is None

    explained = read_route_explanation(journey.connection, journey.route_id)
    assert explained is not None
    assert [one["cause"] and one["cause"]["kind"] for one in explained["versions"]] == [None, "off_road"]
    assert [(one["told"], one["current"]) for one in explained["versions"]] == [(True, False), (True, True)]


@in_both
def test_a_driver_who_follows_the_plan_gets_no_second_message(journey: Journey) -> None:
    journey.drive(Leg(0, 500, 3), fueled=journey.fueled())
    assert journey.causes() == [None]
    assert len(journey.messages()) == 1
    assert journey.track.fuel_stops_passed == 1


@in_both
def test_a_fuel_stop_passed_without_fueling_causes_a_replan(journey: Journey) -> None:
    (stop,) = journey.fuel_stops
    journey.drive(Leg(0, stop["milesFromOrigin"] + 20))
    assert journey.causes() == [None, "stop_passed"]
    assert journey.versions()[1].cause["text"].startswith(f"passed {stop['name']} by 10 miles without fueling")
    assert len(journey.messages()) == 2
    assert journey.fuel_stops[0]["name"] != stop["name"]


@pytest.mark.parametrize(("percent", "dies_at"), [(0.0, 0.0), (0.6, 0.0), (40.0, 50.0), (40.0, 265.0)])
def test_a_tracker_that_says_nothing_shows_no_stop_passed_without_fueling(
    connection: Connection, replanning: Fleet, settings: Settings, now: datetime, percent: float, dies_at: float
) -> None:
    """It has no gauge and sends 0 or shares of 1, or its gauge dies before the stop or behind it."""
    journey = Journey(connection, replanning, settings, now, live=True, percent=percent)
    (stop,) = journey.fuel_stops[:1]
    journey.percent = 40.0
    nothing = percent if percent < 1 else 0.0
    for number, fix in enumerate(journey.fixes(Leg(0, stop["milesFromOrigin"] + 60), fueled=journey.fueled())):
        level = nothing if 2.0 * number >= dies_at else fix.fuel_percent
        journey.run(journey.report([msgspec.structs.replace(fix, fuel_percent=level)]))
    assert journey.causes() == [None]
    assert len(journey.messages()) == 1


def test_a_nearly_empty_tank_shows_a_stop_that_was_passed(
    connection: Connection, replanning: Fleet, settings: Settings, now: datetime
) -> None:
    journey = Journey(connection, replanning, settings, now, live=True)
    (stop,) = journey.fuel_stops
    journey.percent = 0.5 + stop["milesFromOrigin"] * PERCENT_PER_MILE
    journey.drive(Leg(0, stop["milesFromOrigin"] - 10))
    fixes = journey.fixes(Leg(stop["milesFromOrigin"] - 10, stop["milesFromOrigin"] + 30))
    for fix in fixes:
        journey.run(journey.report([msgspec.structs.replace(fix, fuel_percent=max(fix.fuel_percent or 0.0, 0.0))]))
    assert "stop_passed" in journey.causes()


def test_a_replan_that_differs_little_is_stored_and_not_sent(journey: Journey) -> None:
    """Going another way for half an hour costs little, and the fuel stop is still ahead. It counts on the new road."""
    fueled = journey.fueled()
    shown = journey.route.plan_id
    journey.drive(Leg(0, 150), Leg(150, 190, 13), Leg(190, 300), fueled=fueled)
    assert journey.causes() == [None, "off_road"]
    assert len(journey.messages()) == 1
    assert (journey.route.plan_id, journey.route.correction_id) == (shown, None)
    assert journey.track.watch_at is not None
    assert journey.track.fuel_stops_passed == 1


def test_a_fuel_stop_is_found_on_another_plan_s_road_though_both_end_early(
    connection: Connection, stations: None, settings: Settings, now: datetime
) -> None:
    """Both look as far ahead, so the newer one ends further on. How far each stop is from the destination counts."""
    found = []
    for horizon_miles in (10_000.0, 500.0):
        journey = Journey(connection, make_replanning(connection), settings, now, horizon_miles=horizon_miles)
        journey.drive(Leg(0, 60), Leg(60, 100, 13))
        assert journey.causes() == [None, "off_road"]
        (followed,) = followed_routes(connection, [journey.route_id]).values()
        way = followed.way({})
        assert way is not None
        assert followed.document["totalDistanceMiles"] <= horizon_miles
        found.append([stop.mile for stop in way.fuel_stops])
    assert None not in found[1]
    assert found[1] == [pytest.approx(mile, abs=0.1) for mile in found[0][: len(found[1])]]


@in_both
def test_a_truck_that_turns_back_gets_a_new_plan(journey: Journey) -> None:
    """On its plan's road it has not left it. Beyond where the plan begins it has, and the new plan leads from there."""
    journey.drive(Leg(0, 60), Leg(60, 2))
    assert journey.causes() == [None]

    first = journey.now + timedelta(minutes=2)
    for number in range(20):
        west = Position(
            unit_number="101",
            latitude=JOLIET["latitude"],
            longitude=JOLIET["longitude"] - number * 0.04,
            recorded_at=first + timedelta(minutes=2 * number),
            speed_mph=60,
            fuel_percent=30,
        )
        journey.run(journey.report([west]))
    assert journey.causes() == [None, "off_road"]
    assert journey.versions()[1].document["totalDistanceMiles"] > journey.versions()[0].document["totalDistanceMiles"]


def test_a_route_gets_two_replans_at_most(journey: Journey) -> None:
    journey.drive(*(Leg(60 * part, 60 * part + 60, 60 * (part % 2 * 2 - 1)) for part in range(8)))
    first, *anew = journey.causes()
    assert (first, anew[0], len(anew)) == (None, "off_road", 2)
    assert len(journey.messages()) <= 3
    assert journey.track.watch_at is None


def test_no_truck_is_compared_with_its_plan_when_the_setting_is_off(
    connection: Connection, fleet: Fleet, stations: None, settings: Settings, now: datetime
) -> None:
    journey = Journey(connection, fleet, settings, now)
    journey.drive(*AWAY)
    assert journey.causes() == [None]
    assert (journey.track.watch_from, journey.track.watch_at) == (None, None)


def test_the_setting_may_be_switched_off_on_the_way(journey: Journey) -> None:
    set_policy(journey.connection, journey.fleet.company_id, Policy(replan_en_route=False), DOT)
    journey.drive(*AWAY)
    assert journey.causes() == [None]
    assert journey.track.watch_at is None


def test_no_truck_deviates_from_a_great_circle(
    connection: Connection, replanning: Fleet, settings: Settings, now: datetime
) -> None:
    """No road leads to Churchill, and the plan's line to it is straight."""
    connection.execute("UPDATE vehicles SET mpg = 100 WHERE id = %s", (replanning.trucks[0],))
    churchill = {"name": "Churchill", "latitude": 58.77, "longitude": -94.17}
    journey = Journey(connection, replanning, settings, now, percent=95, stops=[JOLIET, churchill])
    (plan,) = journey.versions()
    assert unpack_explanation(plan.explanation)["inputs"]["roads"] == "great-circle"
    assert journey.route.status == "active"
    journey.drive(*AWAY)
    assert journey.causes() == [None]
    assert journey.track.watch_at is None


@in_both
def test_a_truck_on_its_road_is_processed_every_quarter_of_an_hour(journey: Journey) -> None:
    fixes = journey.fixes(Leg(10, 90))
    assert sum(bool(journey.report([fix])) for fix in fixes) > 0
    journey.run(journey.process())
    jobs = 0
    for fix in journey.fixes(Leg(170, 290), fueled=journey.fueled()):
        posted = journey.report([fix])
        jobs += bool(posted)
        journey.run(posted)
    assert jobs <= 14  # of 60 fixes: eight, and some more near the fuel stop


def test_late_positions_cause_no_replan_once_the_truck_is_back_on_its_road(
    connection: Connection, replanning: Fleet, settings: Settings, now: datetime
) -> None:
    """A truck without coverage left its road and came back: live, nothing is wrong any more."""
    journey = Journey(connection, replanning, settings, now, live=True)
    fixes = journey.fixes(Leg(0, 40), Leg(40, 80, 14), Leg(80, 100), fueled=[(90, 50)])
    journey.run(journey.report(fixes))
    assert journey.causes() == [None]

    away = Journey(connection, make_replanning(connection), settings, now, live=True)
    away.run(away.report(away.fixes(*AWAY)))
    assert away.causes() == [None, "off_road"]


def make_replanning(connection: Connection) -> Fleet:
    return make_fleet(connection, replan_en_route=True)


@in_both
def test_late_positions_older_than_the_last_comparison_are_ignored(journey: Journey) -> None:
    fixes = journey.fixes(Leg(0, 40), Leg(40, 80, 14), Leg(80, 100))
    journey.run(journey.report(fixes[40:]))
    journey.run(journey.report(fixes[:40]))
    journey.run(journey.process())
    assert journey.causes() == [None]


def test_the_same_plan_is_not_made_twice(journey: Journey) -> None:
    """A crash before the commit, a job that runs twice, two workers at once."""
    jobs: list[Job] = []
    for fix in journey.fixes(*AWAY):
        for job in journey.report([fix]):
            jobs += [follows for follows in journey.work(job) if follows.name == "plans.review"]
    assert jobs == [review_plan_job(journey.route_id)] * len(jobs)
    one, other = journey.begun(), journey.begun()
    assert isinstance(one, Replan)
    assert isinstance(other, Replan)
    assert journey.finished(one) == "corrected"
    assert jobs_after(journey.connection, lambda: journey.finished(other)) == []
    assert journey.begun() is None
    assert len(journey.messages()) == 2


def test_a_lost_replan_job_is_enqueued_again(journey: Journey) -> None:
    for fix in journey.fixes(*AWAY):
        journey.report([fix])
    while len(journey.versions()) < 2:
        for job in journey.lost_jobs():
            journey.work(job)
    assert journey.causes() == [None, "off_road"]


@pytest.mark.parametrize("corrected", [False, True])
def test_a_review_that_ends_while_a_replan_is_asked_for_leaves_it_due(journey: Journey, corrected: bool) -> None:
    """The job of the review had looked for a replan just before."""
    if corrected:  # before the departure: its plan is reviewed no more
        journey.connection.execute("UPDATE routes SET corrected_at = %s WHERE id = %s", (journey.now, journey.route_id))
    for fix in journey.fixes(*AWAY):
        for job in journey.report([fix]):
            journey.work(job)
    assert journey.route.replan is not None

    assert reviews.begin_review(journey.connection, journey.route_id, now=journey.now) is None
    assert journey.route.review_at is not None

    journey.run([review_plan_job(journey.route_id)])
    assert journey.causes() == [None, "off_road"]


def test_a_replan_of_a_truck_at_its_last_stop_is_forgotten(journey: Journey, monkeypatch: pytest.MonkeyPatch) -> None:
    for fix in journey.fixes(*AWAY):
        for job in journey.report([fix]):
            journey.work(job)
    monkeypatch.setattr(
        "domain.routes.plans.replans.plan_task_as_of",
        lambda *args: dataclasses.replace(plan_task_as_of(*args), stops_left=()),
    )

    assert journey.begun() is None
    assert (journey.route.replan, journey.route.review_at) == (None, None)


def test_no_other_plan_is_made_while_a_correction_is_being_delivered(journey: Journey) -> None:
    """Its message is not out yet: the plan that the driver will have is not known. Then the truck is compared with its
    road."""
    shown = journey.route.plan_id
    message_id = corrected_by_hand(journey.connection, journey.route_id, now=journey.now)
    journey.connection.execute(
        "UPDATE plans SET explanation = s.explanation, timeline = s.timeline, as_of = s.as_of, document = s.document,"
        " fuel_percent = s.fuel_percent FROM plans s WHERE s.id = %s AND plans.id = %s",
        (shown, journey.route.correction_id),
    )
    journey.drive(*AWAY)
    assert len(journey.versions()) == 2
    assert journey.route.plan_id == shown

    journey.run([Job("messages.send", "messages", {"message_id": message_id})])
    assert journey.causes() == [None, None, "off_road"]
    assert [message.status in ("sent", "suppressed") for message in journey.messages()] == [True] * 3


def test_a_replan_computed_while_a_correction_is_stored_is_dropped_and_made_later(journey: Journey) -> None:
    """The correction is stored while the new plan is computed: the new plan is dropped, and made again afterwards."""
    for fix in journey.fixes(*AWAY):
        for job in journey.report([fix]):
            journey.work(job)
    due = journey.begun()
    assert isinstance(due, Replan)
    message_id = corrected_by_hand(journey.connection, journey.route_id, now=journey.now)
    assert jobs_of(journey.connection) == []
    assert journey.finished(due) == "outdated"
    assert jobs_of(journey.connection) == []
    assert not isinstance(journey.begun(), Replan)
    assert journey.route.replan is None
    assert len(journey.versions()) == 2
    journey.run([Job("messages.send", "messages", {"message_id": message_id})])
    assert journey.route.plan_id == journey.versions()[1].id


def test_a_correction_that_cannot_be_sent_leaves_the_plan_and_the_truck_is_watched_again(
    connection: Connection, replanning: Fleet, settings: Settings, now: datetime
) -> None:
    journey = Journey(connection, replanning, settings, now, live=True)
    shown = journey.route.plan_id
    connection.execute(
        "UPDATE companies SET message_url = 'json://127.0.0.1:9' WHERE id = %s", (replanning.company_id,)
    )
    journey.drive(*AWAY)
    assert journey.route.correction_id is not None
    journey.now += timedelta(hours=30)
    (message,) = [one for one in journey.messages() if one.status == "pending"]
    journey.run([Job("messages.send", "messages", {"message_id": message.id})])
    assert (journey.route.plan_id, journey.route.correction_id) == (shown, None)
    assert journey.track.watch_at is not None
    assert journey.causes() == [None, "off_road"]


def test_a_completed_route_gets_no_replan(
    connection: Connection, replanning: Fleet, settings: Settings, now: datetime
) -> None:
    """All that it did came in at once: what it did on the way is over."""
    journey = Journey(connection, replanning, settings, now)
    fixes = journey.fixes(*AWAY, Leg(700, 780))
    there = positions_at(NEWARK, fixes[-1].recorded_at + timedelta(minutes=30), fuel_percent=50)
    journey.run(journey.report([*fixes, *there]))
    assert journey.route.status == "completed"
    assert journey.causes() == [None]
    assert journey.track.watch_at is None


def test_failed_replans_end_and_the_driver_keeps_the_plan(journey: Journey) -> None:
    for fix in journey.fixes(*AWAY):
        for job in journey.report([fix]):
            journey.work(job)
    assert isinstance(journey.begun(), Replan)
    for attempt in range(3):
        last = reviews.review_failed(journey.connection, journey.route_id, max_attempts=3, now=journey.now)
        assert last == (attempt == 2)
    assert journey.begun() is None
    assert (journey.route.replan, journey.route.review_at, journey.causes()) == (None, None, [None])


# Whatever comes late, twice, or together


def outcome(journey: Journey) -> list[Any]:
    """Versions and messages, without what differs between two routes."""
    shown = {version.id: number for number, version in enumerate(journey.versions())}
    versions = [
        (version.cause and version.cause["text"], version.as_of, {**(version.document or {}), "generatedAt": None})
        for version in journey.versions()
    ]
    told = [(shown[one.plan_id], one.status, one.text.partition(" ")[0]) for one in journey.messages()]
    return [versions, told, shown.get(journey.route.plan_id)]


@pytest.mark.slow
@hypothesis_settings(
    max_examples=examples(4),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    phases=[Phase.generate],  # a seed has no simpler one
)
@given(st.integers(0, 10**6).map(random.Random))
def test_replans_in_simulated_time_do_not_depend_on_how_fixes_and_jobs_come(
    connection: Connection, stations: None, settings: Settings, now: datetime, rng: random.Random
) -> None:
    aside = [rng.choice([0.0, 0.0, rng.uniform(-60, 60)]) for _ in range(5)]
    legs = [Leg(80 * number, 80 * number + 80, north) for number, north in enumerate(aside)]
    fueled = [(rng.uniform(20, 380), 40.0) for _ in range(rng.randrange(3))]

    def journey(*, planned: bool = True) -> Journey:
        return Journey(connection, make_replanning(connection), settings, now, planned=planned)

    def outcome_of(one: Journey) -> list[Any]:
        assert sum(cause in ("off_road", "stop_passed") for cause in one.causes()) <= 2
        assert one.causes().count("burn") <= 2
        assert len(one.messages()) <= 6
        return outcome(one)

    slow = journey()
    fixes = slow.fixes(*legs, fueled=fueled, minutes_apart=4.0)
    for fix in fixes:
        slow.run(slow.report([fix]))
    for _ in range(2):
        other = journey(planned=rng.random() < 0.7)
        rest, jobs, posted = list(fixes), list[Job](), list[Position]()
        if not other.versions():
            jobs.append(build_plan_job(other.route_id))
        while rest or jobs:
            match rng.randrange(5):
                case 0 | 1 if rest:
                    count = rng.choice([1, 7, 40])
                    posted, rest = rest[:count], rest[count:]
                    jobs += other.report(posted)
                case 2 if posted:
                    jobs += other.report(posted)  # once more
                case 3 if jobs:
                    jobs.append(rng.choice(jobs))  # it runs twice
                case _ if jobs:
                    rng.shuffle(jobs)
                    jobs += other.work(jobs.pop())
            if rng.random() < 0.05 and len(jobs) > 1 and not rest:
                jobs = other.lost_jobs()
        for _ in range(6):
            for job in other.lost_jobs():
                other.run([job])
        assert outcome_of(other) == outcome_of(slow)


def test_the_test_helper_s_miles_are_those_of_the_road() -> None:
    line, miles = [(40.0, -90.0), (41.0, -90.0)], [0.0, 69.0]
    assert math.isclose(at_mile(line, miles, 34.5, 0).latitude, 40.5)
