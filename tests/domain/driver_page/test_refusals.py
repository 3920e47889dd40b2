"""A driver cannot fuel where he was told: his route gets another plan at once, and he is told it once."""

from concurrent.futures import ThreadPoolExecutor, wait
from datetime import datetime, timedelta
from uuid import UUID

import pytest

from domain.database.connections import Connection, Database
from domain.database.visibility import of_tenants
from domain.documents import PlanCause
from domain.driver_page.answers import CLOSED_FOR, TakenAnswer, take_answer
from domain.driver_page.given_answers import GivenAnswer
from domain.ids import new_id
from domain.lifecycle import AnswerKind, Environment, RefusalReason
from domain.needs.route_needs import find_routes_in_need
from domain.planning.plan_tasks import route_to_plan
from domain.routes.plans import review_requests
from domain.routes.plans.closed_stations import close_station, make_new_plans
from domain.routes.plans.replans import MOST_REFUSED_REPLANS, Replan, ask_for_replans, finish_replan
from domain.routes.plans.reviews import finish_review
from domain.routes.plans.withheld_messages import discard_withheld
from domain.routes.reading.explanations import read_route_explanation
from domain.settings import Settings
from domain.stations.closures import closures_in_force
from domain.stations.stations import store_station_rows
from tests.domain.driver_page.given import link_to
from tests.domain.driver_page.trips import at_stations, driven_trip
from tests.domain.helpers import go_behind_the_wall, imported, route_row
from tests.domain.routes.journey import Journey, Leg
from tests.factories import DOT, STATIONS, Fleet, make_fleet
from tests.jobs import jobs_of

pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")  # Apprise's, when it loads


@pytest.fixture
def stations(connection: Connection, now: datetime) -> None:
    connection.execute("DELETE FROM stations")
    store_station_rows(connection, STATIONS, now=now)


@pytest.fixture
def journey(connection: Connection, fleet: Fleet, stations: None, settings: Settings, now: datetime) -> Journey:
    return Journey(connection, fleet, settings, now, live=True)


def planned(journey: Journey) -> list[str]:
    """The stations of the plan that the route shows."""
    ids: list[str] = next(one.station_ids for one in journey.versions() if one.id == journey.route.plan_id)
    return ids


def answered(
    journey: Journey,
    reason: RefusalReason | None = RefusalReason.NO_PARKING,
    *,
    kind: AnswerKind = AnswerKind.REFUSED,
    runs: bool = True,
) -> TakenAnswer:
    """The driver answers to the next fuel stop of his plan, and what follows is done."""
    given = GivenAnswer(new_id().hex, journey.route.plan_id, 0, kind, reason)
    taken = take_answer(journey.connection, link_to(journey.connection, journey.route_id), given, now=journey.now)
    if runs:
        journey.run(jobs_of(journey.connection))
    return taken


def test_a_refused_stop_is_left_out_of_a_new_plan_that_the_driver_is_told_once(journey: Journey) -> None:
    (refused,) = planned(journey)
    journey.drive(Leg(0, 20))

    assert answered(journey) == ("taken", True)

    assert journey.causes() == [None, "refused"]
    first, second = journey.versions()
    name = first.document["stops"][0]["name"]
    assert second.cause["text"] == f"{name} was refused by the driver: there is no parking"
    assert journey.route.plan_id == second.id
    assert refused not in second.station_ids
    _, corrected = journey.messages()
    assert corrected.text.startswith("CORRECTED fuel plan")
    assert f"\nWhy: {second.cause['text']}\n" in corrected.text

    explained = read_route_explanation(journey.connection, journey.route_id)
    assert explained is not None
    (left_out,) = (one for one in explained["sources"]["prices"]["closed"] if one["station_id"] == refused)
    assert left_out["refused"]
    assert make_new_plans(journey.connection, None, now=journey.now) == 0
    assert len(journey.messages()) == 2


def test_the_plan_without_a_refused_stop_is_his_before_its_message_is_out_and_stays_where_none_reaches_him(
    journey: Journey,
) -> None:
    (refused,) = planned(journey)
    journey.drive(Leg(0, 20))
    answered(journey, runs=False)
    (job,) = jobs_of(journey.connection)
    journey.run([one for one in journey.work(job) if one.name == "plans.menu"])
    second = journey.versions()[-1]

    assert (journey.route.plan_id, journey.route.correction_id) == (second.id, None)
    assert journey.messages()[-1].status == "pending"
    journey.connection.execute("UPDATE messages SET withheld_since = now() WHERE plan_id = %s", (second.id,))
    discard_withheld(journey.connection, journey.fleet.company_id, None, DOT, now=journey.now)

    assert journey.route.plan_id == second.id
    assert refused not in planned(journey)
    needs = find_routes_in_need(journey.connection, journey.tenant, now=journey.now + timedelta(hours=1))
    assert "stop_refused" not in [one.need.kind for one in needs]
    assert answered(journey) == ("taken", True), "he may still refuse the next one"


def test_a_driver_who_refuses_every_stop_does_not_get_plans_for_ever(journey: Journey) -> None:
    makes = [answered(journey).makes_new_plan for _ in range(MOST_REFUSED_REPLANS + 2)]
    assert makes == [True] * MOST_REFUSED_REPLANS + [False, False]
    assert journey.causes() == [None] + ["refused"] * MOST_REFUSED_REPLANS
    assert make_new_plans(journey.connection, journey.fleet.company_id, now=journey.now) == 0


def test_a_refusal_of_a_stop_that_the_plan_has_no_more_makes_no_plan(journey: Journey) -> None:
    old = journey.route.plan_id
    answered(journey)
    link = link_to(journey.connection, journey.route_id)
    again = GivenAnswer(new_id().hex, old, 0, AnswerKind.REFUSED, RefusalReason.QUEUE)
    assert take_answer(journey.connection, link, again, now=journey.now) == ("taken", False)
    assert journey.causes() == [None, "refused"]


def test_a_driver_who_goes_there_after_all_takes_his_refusal_back(journey: Journey) -> None:
    (station_id,) = planned(journey)
    answered(journey, runs=False)
    answered(journey, None, kind=AnswerKind.GOING)
    assert planned(journey) == [station_id]
    assert len(journey.messages()) == 1


def test_a_driver_who_goes_there_after_all_while_the_plan_is_computed_keeps_his_plan(journey: Journey) -> None:
    (station_id,) = planned(journey)
    answered(journey, runs=False)
    jobs_of(journey.connection)
    due = journey.begun()
    assert isinstance(due, Replan)
    made = journey.made(due.task)
    answered(journey, None, kind=AnswerKind.GOING)

    assert finish_replan(journey.connection, due, *made, now=journey.now) == "not_told"
    journey.run([*jobs_of(journey.connection), *journey.lost_jobs()])

    assert planned(journey) == [station_id]
    assert len(journey.messages()) == 1
    assert (journey.route.replan, journey.route.review_at) == (None, None)
    assert answered(journey) == ("taken", True), "he may refuse it again"


def corrected_without_message(journey: Journey) -> UUID:
    """The station of the driver's fuel stop closes, and the message of his new plan waits. Returns that plan."""
    (station_id,) = planned(journey)
    close_station(journey.connection, station_id, None, journey.now + timedelta(days=2), DOT, now=journey.now)
    (job,) = jobs_of(journey.connection)
    assert "messages.send" in [one.name for one in journey.work(job)]
    plan_id: UUID = journey.route.correction_id
    return plan_id


def test_a_stop_of_a_correction_is_refused_before_its_message_is_out(journey: Journey) -> None:
    correction = corrected_without_message(journey)
    given = GivenAnswer(new_id().hex, correction, 0, AnswerKind.REFUSED, RefusalReason.QUEUE)

    taken = take_answer(journey.connection, link_to(journey.connection, journey.route_id), given, now=journey.now)

    assert taken == ("taken", True)
    assert (journey.route.plan_id, journey.route.correction_id) == (correction, None)
    journey.run([*jobs_of(journey.connection), *journey.lost_jobs()])
    assert journey.causes() == [None, "station_closed", "refused"]
    first, second, _ = (set(one.station_ids) for one in journey.versions())
    assert not set(planned(journey)) & (first | second)
    assert [one.status for one in journey.messages()] == ["sent", "failed", "sent"], "he is told the last one alone"


def test_a_correction_to_which_the_driver_has_answered_stays_where_its_message_does_not_reach_him(
    journey: Journey,
) -> None:
    correction = corrected_without_message(journey)
    given = GivenAnswer(new_id().hex, correction, 0, AnswerKind.GOING)
    take_answer(journey.connection, link_to(journey.connection, journey.route_id), given, now=journey.now)

    journey.connection.execute("UPDATE messages SET withheld_since = now() WHERE plan_id = %s", (correction,))
    discard_withheld(journey.connection, journey.fleet.company_id, None, DOT, now=journey.now)

    assert (journey.route.plan_id, journey.route.correction_id) == (correction, None)
    assert journey.versions()[-1].cause["takenByDriver"]


@pytest.mark.parametrize("refuses_since", [False, True])
def test_a_stop_where_the_driver_has_fueled_is_behind_him_where_its_station_closes(
    journey: Journey, refuses_since: bool
) -> None:
    (station_id,) = planned(journey)
    answered(journey, None, kind=AnswerKind.FUELED)
    if refuses_since:
        assert answered(journey) == ("taken", True), "he has not fueled after all"
    until = journey.now + timedelta(days=2)
    close_station(journey.connection, station_id, None, until, DOT, now=journey.now)
    journey.run(jobs_of(journey.connection))
    assert len(journey.messages()) == 1 + refuses_since


def test_a_lost_job_is_found_by_the_sweep(journey: Journey) -> None:
    answered(journey, runs=False)
    jobs_of(journey.connection)  # lost
    journey.run(journey.lost_jobs())
    assert journey.causes() == [None, "refused"]


def test_where_no_plan_is_possible_without_the_stop_the_driver_keeps_his(journey: Journey) -> None:
    (station_id,) = planned(journey)
    journey.connection.execute("DELETE FROM stations WHERE station_id <> %s", (station_id,))
    journey.connection.execute("INSERT INTO price_sets (kind, imported_at) VALUES ('stations', %s)", (journey.now,))
    answered(journey)
    assert journey.causes() == [None, "refused"]
    assert journey.versions()[1].document is None
    assert len(journey.messages()) == 1
    assert make_new_plans(journey.connection, journey.fleet.company_id, now=journey.now) == 0


@pytest.mark.parametrize("live", [True, False])
def test_a_station_that_two_drivers_find_closed_is_closed_for_their_company(
    connection: Connection, fleet: Fleet, stations: None, settings: Settings, now: datetime, live: bool
) -> None:
    first = Journey(connection, fleet, settings, now, live=live)
    (station_id,) = planned(first)
    answered(first, RefusalReason.CLOSED)
    answered(first, RefusalReason.CLOSED)  # at another stop
    assert closures_in_force(connection, fleet.company_id, now=now) == []

    connection.execute("UPDATE routes SET driver_id = %s WHERE id = %s", (fleet.drivers[1], first.route_id))
    given = GivenAnswer(new_id().hex, first.versions()[0].id, 0, AnswerKind.REFUSED, RefusalReason.CLOSED)
    link = link_to(connection, first.route_id)
    go_behind_the_wall(connection, of_tenants([first.tenant]))  # as the ingress does
    take_answer(connection, link, given, now=now)
    connection.execute("RESET ROLE")

    closed = closures_in_force(connection, fleet.company_id, station_id=station_id, now=now)
    assert [(one.company_id, one.closed_until) for one in closed] == (
        [(fleet.company_id, now + CLOSED_FOR)] if live else []
    ), "closures count for live trucks"


def test_two_drivers_who_find_a_station_closed_at_the_same_moment_are_two(
    database: Database, settings: Settings, now: datetime
) -> None:
    with database.transaction() as connection:
        fleet = make_fleet(connection)
        trips = [driven_trip(connection, fleet, now=now, external_id=name) for name in ("LOAD-1", "LOAD-2")]
        connection.execute("UPDATE routes SET driver_id = %s WHERE id = %s", (fleet.drivers[1], trips[1].route_id))
        station_id, other = at_stations(connection, trips[0])
        connection.execute(
            "UPDATE plans SET station_ids = %s WHERE route_id = ANY(%s)",
            ([station_id, other], [one.route_id for one in trips]),
        )
        links = [link_to(connection, one.route_id) for one in trips]
        plans = [route_row(connection, one.route_id).plan_id for one in trips]

    def answer(number: int, connection: Connection) -> None:
        given = GivenAnswer(new_id().hex, plans[number], 0, AnswerKind.REFUSED, RefusalReason.CLOSED)
        take_answer(connection, links[number], given, now=now)

    def second() -> None:
        with database.transaction() as connection:
            answer(1, connection)

    with ThreadPoolExecutor(1) as threads:
        with database.transaction() as connection:
            answer(0, connection)
            done = threads.submit(second)
            wait([done], timeout=0.3)  # it ends by then unless it waits for the first
        done.result()

    with database.transaction() as connection:
        closed = closures_in_force(connection, fleet.company_id, station_id=station_id, now=now)
        assert [one.company_id for one in closed] == [fleet.company_id]


def test_one_drivers_word_leaves_the_station_out_of_his_own_route_alone(
    connection: Connection, fleet: Fleet, stations: None, settings: Settings, now: datetime
) -> None:
    first = Journey(connection, fleet, settings, now, live=True)
    (station_id,) = planned(first)
    answered(first, RefusalReason.CLOSED)
    other = Journey(connection, fleet, settings, now + timedelta(hours=1), live=False)
    assert planned(other) == [station_id]
    assert other.tenant.environment is Environment.SANDBOX


@pytest.mark.parametrize("reason", [RefusalReason.CLOSED, RefusalReason.QUEUE])
def test_the_next_route_of_the_truck_leaves_out_what_was_closed_for_a_day_and_nothing_else(
    connection: Connection, fleet: Fleet, stations: None, settings: Settings, now: datetime, reason: RefusalReason
) -> None:
    first = Journey(connection, fleet, settings, now, live=True)
    (station_id,) = planned(first)
    answered(first, reason)

    def is_left_out(truck: UUID, at: datetime) -> bool:
        """True for a route of that truck which begins then."""
        route_id = imported(connection, fleet.live, now=now, externalId=new_id().hex)
        connection.execute("UPDATE routes SET vehicle_id = %s, arrived_at = %s WHERE id = %s", (truck, at, route_id))
        route = route_to_plan(connection, route_id)
        assert route is not None
        return station_id in route.refused_until

    own, another = fleet.trucks[0], fleet.trucks[1]
    assert is_left_out(own, now + timedelta(hours=10)) is (reason is RefusalReason.CLOSED)
    assert not is_left_out(another, now + timedelta(hours=10))
    assert not is_left_out(own, now + timedelta(days=4))


@pytest.mark.parametrize("by_dispatcher", [True, False])
def test_a_driver_who_refuses_while_a_plan_is_computed_is_told_one_plan_without_the_stop(
    journey: Journey, by_dispatcher: bool
) -> None:
    (station_id,) = planned(journey)
    journey.drive(Leg(0, 20))
    if by_dispatcher:
        review_requests.of_routes(journey.connection, [journey.route_id], now=journey.now)
        journey.connection.execute("UPDATE routes SET review_cause = 'dispatcher' WHERE id = %s", (journey.route_id,))
    else:
        cause = PlanCause(kind="off_road", at=journey.now.isoformat(), text="20 miles off the planned road")
        ask_for_replans(journey.connection, {journey.route_id: cause}, now=journey.now)
    jobs_of(journey.connection)
    due = journey.begun()
    assert due is not None
    made = journey.made(due.task)
    answered(journey, RefusalReason.CLOSED, runs=False)

    waiting = jobs_of(journey.connection)
    if isinstance(due, Replan):
        assert finish_replan(journey.connection, due, *made, now=journey.now) == "outdated"
    else:
        assert finish_review(journey.connection, due, *made, now=journey.now) == "outdated"
    journey.run([*waiting, *jobs_of(journey.connection)])

    assert len(journey.messages()) == 2
    assert station_id not in planned(journey)
    assert make_new_plans(journey.connection, journey.fleet.company_id, now=journey.now) == 0
    assert (journey.route.replan, journey.route.review_at) == (None, None)


def test_a_stop_whose_station_was_deleted_since_is_refused_like_any_other(journey: Journey) -> None:
    (station_id,) = planned(journey)
    name = journey.fuel_stops[0]["name"]
    journey.connection.execute("DELETE FROM stations WHERE station_id = %s", (station_id,))

    assert answered(journey, RefusalReason.CLOSED) == ("taken", True)

    assert journey.causes() == [None, "refused"]
    assert journey.versions()[1].cause["text"] == f"{name} was refused by the driver: it is closed"
    assert station_id not in planned(journey)
    assert len(journey.messages()) == 2
