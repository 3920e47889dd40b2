"""Entries of dispatchers, against real PostgreSQL: an arrival or a departure, a plan that is made again, a message that
failed is sent again."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from domain.database import Connection, Database, Tenant
from domain.ids import new_id
from domain.lifecycle import RouteStatus
from domain.messages.resending import CannotResend
from domain.planning.plan_tasks import load_plan_task
from domain.queue.jobs import Job, build_plan_job, process_positions_job, review_plan_job, send_message_job
from domain.routes import events
from domain.routes.events import ImpossibleStep, Requester
from domain.routes.plans import reviews
from domain.routes.progress import dispatcher_entries
from domain.routes.transitions import cancel_route
from domain.settings import Settings
from domain.telematics.manual_stop_events import ImpossibleStopEvent, VisitEnd
from tests.domain.helpers import (
    corrected_by_hand,
    deliver,
    imported,
    place_of,
    planned_by_hand,
    positions_at,
    post,
    pushed,
    route_row,
    status_of,
    visits_of,
)
from tests.domain.routes.test_reviews import SENT, Trip
from tests.domain.trucks import activate, hours, minutes, process, stand_at
from tests.factories import JOLIET, NEWARK, PERRYSBURG, Fleet, make_fleet
from tests.gateway import Gateway, running_gateway
from tests.rows import named

DOT = Requester("dot@example.com", "the driver called")

pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")  # Apprise's, when it loads

Entering = Callable[..., tuple[bool, list[Job]]]


@pytest.fixture
def enter(connection: Connection, fleet: Fleet, settings: Settings, now: datetime) -> Entering:
    def entering(
        route_id: UUID,
        stop: int,
        end: VisitEnd,
        moment: datetime,
        *,
        tenant: Tenant = fleet.live,
        at: datetime | None = None,
    ) -> tuple[bool, list[Job]]:
        return dispatcher_entries.enter_stop_event(
            connection, tenant, route_id, stop, end, moment, DOT, settings=settings, now=at or max(now, moment)
        )

    return entering


def evidence_of(connection: Connection, route_id: UUID) -> list[Any]:
    return (
        named(connection)
        .execute(
            "SELECT arrival_evidence AS arrival, departure_evidence AS departure FROM visits WHERE route_id = %s"
            " ORDER BY stop",
            (route_id,),
        )
        .fetchall()
    )


# --- An entry is a visit -------------------------------------------------------------------------------------------


def test_an_entered_arrival_at_the_first_stop_makes_a_plan_due(
    connection: Connection, fleet: Fleet, now: datetime, enter: Entering
) -> None:
    route_id = imported(connection, fleet.live, now=now)

    assert enter(route_id, 0, "arrival", now) == (True, [build_plan_job(route_id)])

    assert route_row(connection, route_id).arrived_at == now
    assert visits_of(connection, route_id) == {0: (now, None)}
    (evidence,) = evidence_of(connection, route_id)
    assert evidence.arrival["source"] == "dispatcher"
    assert (evidence.arrival["by"], evidence.arrival["reason"]) == DOT


def test_the_plan_starts_at_the_stop_with_the_entered_arrival_unless_a_newer_position_is_known(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime, enter: Entering
) -> None:
    post(connection, fleet.live, positions_at(NEWARK, now - hours(3), count=1), now=now)
    route_id = imported(connection, fleet.live, now=now)
    enter(route_id, 0, "arrival", now)

    task = load_plan_task(connection, route_id, now=now)
    assert task is not None
    assert (task.position, task.stops_left) == (place_of(JOLIET), (1,))

    post(connection, fleet.live, positions_at(PERRYSBURG, now + hours(4), count=1), now=now + hours(4))
    task = load_plan_task(connection, route_id, now=now + hours(4))
    assert task is not None
    assert task.position == place_of(PERRYSBURG)


def test_entries_take_a_route_through_its_life(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime, enter: Entering
) -> None:
    route_id = imported(connection, fleet.live, now=now)
    enter(route_id, 0, "arrival", now)
    activate(connection, settings, route_id, now=now)

    _, jobs = enter(route_id, 0, "departure", now + minutes(20))
    assert jobs == [review_plan_job(route_id)], "as when the truck is seen to leave"
    enter(route_id, 1, "arrival", now + hours(12))

    assert status_of(connection, route_id) is RouteStatus.COMPLETED
    assert route_row(connection, route_id).completed_at == now + hours(12)


def test_a_planned_route_is_complete_once_its_message_was_tried(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime, enter: Entering
) -> None:
    route_id = imported(connection, fleet.live, now=now)
    enter(route_id, 0, "arrival", now)
    message_id = planned_by_hand(connection, route_id, now=now)
    enter(route_id, 1, "arrival", now + hours(12))
    assert status_of(connection, route_id) is RouteStatus.PLANNED

    deliver(connection, message_id, settings=settings, now=now)

    assert status_of(connection, route_id) is RouteStatus.COMPLETED


def test_entries_in_the_sandbox_are_in_its_own_time(
    connection: Connection, fleet: Fleet, now: datetime, enter: Entering
) -> None:
    route_id = imported(connection, fleet.sandbox, now=now)

    news, _ = enter(route_id, 0, "arrival", now + hours(30), tenant=fleet.sandbox, at=now)

    assert news
    with pytest.raises(ImpossibleStep, match="future"):
        enter(route_id, 1, "arrival", now + timedelta(days=400), tenant=fleet.sandbox, at=now)


def test_known_visits_stay_as_they_are(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime, enter: Entering
) -> None:
    route_id = imported(connection, fleet.live, now=now)
    stand_at(connection, settings, fleet, JOLIET, now)
    assert enter(route_id, 0, "arrival", now + minutes(30)) == (False, [])
    assert visits_of(connection, route_id) == {0: (now, None)}

    assert enter(route_id, 1, "arrival", now + hours(12))[0]
    assert enter(route_id, 1, "arrival", now + hours(13)) == (False, [])
    assert visits_of(connection, route_id)[1] == (now + hours(12), None)


def test_positions_since_the_entered_time_are_processed_again(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime, enter: Entering
) -> None:
    """The tracker was away at the first stop. The truck had left it hours before a dispatcher entered its arrival."""
    route_id = imported(connection, fleet.live, now=now)
    post(connection, fleet.live, positions_at(JOLIET, now, count=1, speed_mph=None), now=now)
    on_the_road = {**JOLIET, "longitude": JOLIET["longitude"] + 0.1}
    post(connection, fleet.live, positions_at(on_the_road, now + hours(1), speed_mph=60), now=now + hours(1))
    process(connection, settings, fleet, now=now + hours(1))
    assert visits_of(connection, route_id) == {}

    _, jobs = enter(route_id, 0, "arrival", now - minutes(5), at=now + hours(3))

    assert process_positions_job("live", [fleet.trucks[0]]).payload in [job.payload for job in jobs]
    process(connection, settings, fleet, now=now + hours(3))
    assert visits_of(connection, route_id) == {0: (now - minutes(5), now + hours(1))}


def test_late_positions_neither_undo_nor_double_an_entry(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime, enter: Entering
) -> None:
    route_id = imported(connection, fleet.live, now=now, stops=[JOLIET, PERRYSBURG, NEWARK])
    enter(route_id, 0, "arrival", now)
    enter(route_id, 1, "arrival", now + hours(4))
    before = visits_of(connection, route_id)

    for stop, first in ((JOLIET, now - minutes(9)), (PERRYSBURG, now + hours(3.9)), (PERRYSBURG, now + hours(4.1))):
        post(connection, fleet.live, positions_at(stop, first), now=now + hours(5))
        process(connection, settings, fleet, now=now + hours(5))

    assert {stop: arrived for stop, (arrived, _) in visits_of(connection, route_id).items()} == {
        stop: arrived for stop, (arrived, _) in before.items()
    }
    assert [row.arrival["source"] for row in evidence_of(connection, route_id)] == ["dispatcher", "dispatcher"]


def test_an_update_keeps_the_entries_of_the_stops_that_stay(
    connection: Connection, fleet: Fleet, now: datetime, enter: Entering
) -> None:
    route_id = imported(connection, fleet.live, now=now, externalId="LOAD-7", stops=[JOLIET, NEWARK])
    enter(route_id, 0, "arrival", now)

    again = imported(connection, fleet.live, now=now, externalId="LOAD-7", stops=[PERRYSBURG, JOLIET, NEWARK])

    assert again == route_id
    assert visits_of(connection, route_id) == {1: (now, None)}
    (evidence,) = evidence_of(connection, route_id)
    assert evidence.arrival["by"] == DOT.email
    assert status_of(connection, route_id) is RouteStatus.DRAFT


@pytest.mark.slow
@hypothesis_settings(deadline=None, max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.integers(0, 2), st.booleans()), min_size=1, max_size=5), st.integers(0, 4))
def test_entries_where_positions_would_show_the_truck_give_the_same_states(
    database: Database, settings: Settings, now: datetime, stays: list[tuple[int, bool]], sent_after: int
) -> None:
    """Two companies with the same route. One truck sends positions, at these stops and outside of them; of the other
    one somebody says the same."""
    with database.transaction() as connection:
        seen, said = make_fleet(connection), make_fleet(connection)
        seen_id, said_id = (imported(connection, one.live, now=now, stops=list(_PLACES)) for one in (seen, said))
        moment = now
        for number, (stop, leaves) in enumerate(stays):
            moment += hours(10)  # from coast to coast
            post(connection, seen.live, positions_at(_PLACES[stop], moment, count=9), now=moment + minutes(5))
            process(connection, settings, seen, now=moment + minutes(5))
            moment += minutes(5)
            if leaves:
                outside = {**_PLACES[stop], "latitude": _PLACES[stop]["latitude"] + 0.01}
                moment += minutes(20)
                post(connection, seen.live, positions_at(outside, moment, count=2, speed_mph=40), now=moment)
                process(connection, settings, seen, now=moment + minutes(1))
            _say_what_was_seen(connection, said, said_id, visits_of(connection, seen_id), settings, moment)
            if number == sent_after:
                for fleet, route_id in ((seen, seen_id), (said, said_id)):
                    _take(connection, fleet, settings, route_id, "plan", moment)
                    _take(connection, fleet, settings, route_id, "send", moment)
            one, other = (route_row(connection, route_id) for route_id in (seen_id, said_id))
            for column in ("status", "arrived_at", "completed_at"):
                assert getattr(one, column) == getattr(other, column)
            assert (one.review_at is None) == (other.review_at is None)
            assert visits_of(connection, seen_id) == visits_of(connection, said_id)


def _say_what_was_seen(
    connection: Connection,
    fleet: Fleet,
    route_id: UUID,
    visits: dict[int, tuple[datetime, datetime | None]],
    settings: Settings,
    now: datetime,
) -> None:
    for stop, (arrived_at, departed_at) in visits.items():
        ends: list[tuple[VisitEnd, datetime | None]] = [("arrival", arrived_at), ("departure", departed_at)]
        for end, moment in ends:
            if moment is not None:
                dispatcher_entries.enter_stop_event(
                    connection, fleet.live, route_id, stop, end, moment, DOT, settings=settings, now=now + minutes(2)
                )


# --- What is refused ---------------------------------------------------------------------------------------------


def test_an_impossible_entry_is_refused(connection: Connection, fleet: Fleet, now: datetime, enter: Entering) -> None:
    route_id = imported(connection, fleet.live, now=now)
    with pytest.raises(ImpossibleStep, match="future"):
        enter(route_id, 0, "arrival", now + minutes(1), at=now)
    with pytest.raises(ImpossibleStep, match="12 hours before its start"):
        enter(route_id, 0, "arrival", now - hours(11.5))
    with pytest.raises(ImpossibleStopEvent, match="enter its arrival first"):
        enter(route_id, 0, "departure", now)
    held = imported(connection, fleet.live, now=now, vehicle={"unitNumber": "T-9"})
    with pytest.raises(ImpossibleStep, match="imported"):
        enter(held, 0, "arrival", now)
    cancel_route(connection, fleet.live, route_id, now=now)
    with pytest.raises(ImpossibleStep, match="ended"):
        enter(route_id, 0, "arrival", now)
    assert visits_of(connection, route_id) == {}


def test_another_companys_route_and_the_other_environment_s_do_not_exist(
    connection: Connection, fleet: Fleet, now: datetime, enter: Entering
) -> None:
    route_id = imported(connection, fleet.live, now=now)
    for tenant in (fleet.sandbox, make_fleet(connection).live):
        with pytest.raises(ImpossibleStep):
            enter(route_id, 0, "arrival", now, tenant=tenant)
        with pytest.raises(ImpossibleStep):
            dispatcher_entries.plan_again(connection, tenant, route_id, DOT, now=now)
    assert visits_of(connection, route_id) == {}


def test_a_truck_is_on_one_route_at_a_time(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime, enter: Entering
) -> None:
    first = imported(connection, fleet.live, now=now)
    second = imported(connection, fleet.live, now=now, start=now + hours(2))
    with pytest.raises(ImpossibleStep, match="another route first"):
        enter(second, 0, "arrival", now)
    enter(first, 0, "arrival", now)
    activate(connection, settings, first, now=now)
    with pytest.raises(ImpossibleStep, match="another route first"):
        enter(second, 0, "arrival", now + hours(1))
    stand_at(connection, settings, fleet, NEWARK, now + hours(12))  # the truck has a track, and is free from then on
    assert status_of(connection, first) is RouteStatus.COMPLETED
    with pytest.raises(ImpossibleStep, match="still on the route"):
        enter(second, 0, "arrival", now + hours(11), at=now + hours(13))
    assert enter(second, 0, "arrival", now + hours(13))[0]


# --- One message, in any order -----------------------------------------------------------------------------------

_STEPS = st.lists(
    st.sampled_from(
        [
            "arrive 0",
            "arrive 1",
            "arrive 2",
            "leave 0",
            "leave 1",
            "see 0",
            "see 1",
            "see 2",
            "plan",
            "send",
            "again",
            "anew",
        ]
    ),
    min_size=3,
    max_size=14,
)
_PLACES = (JOLIET, PERRYSBURG, NEWARK)


@pytest.mark.slow
@hypothesis_settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(_STEPS)
def test_any_order_and_repetition_gives_one_message(
    database: Database, settings: Settings, now: datetime, steps: list[str]
) -> None:
    """Marks, positions, plans, attempts, and whatever else somebody asks for."""
    with database.transaction() as connection:
        fleet = make_fleet(connection)
        route_id = imported(connection, fleet.live, now=now, stops=list(_PLACES))
        moment = now
        arrived: dict[int, datetime] = {}
        for step in [*steps, "plan", "send"]:
            moment += minutes(30)
            _take(connection, fleet, settings, route_id, step, moment)
            for stop, (arrived_at, _) in visits_of(connection, route_id).items():
                assert arrived_at <= arrived.setdefault(stop, arrived_at)
        assert sorted(arrived.values()) == [arrived[stop] for stop in sorted(arrived)]
        messages = named(connection).execute("SELECT * FROM messages WHERE route_id = %s", (route_id,)).fetchall()
        assert len([one for one in messages if one.status == "sent"]) == bool(arrived)
        assert (status_of(connection, route_id) is RouteStatus.COMPLETED) == (2 in arrived)


def _take(
    connection: Connection, fleet: Fleet, settings: Settings, route_id: UUID, step: str, moment: datetime
) -> None:
    what, _, number = step.partition(" ")
    waiting = (
        named(connection)
        .execute("SELECT id FROM messages WHERE route_id = %s ORDER BY created_at", (route_id,))
        .fetchall()
    )
    try:
        match what:
            case "arrive" | "leave":
                end: VisitEnd = "arrival" if what == "arrive" else "departure"
                dispatcher_entries.enter_stop_event(
                    connection, fleet.live, route_id, int(number), end, moment, DOT, settings=settings, now=moment
                )
                process(connection, settings, fleet, now=moment)
            case "see":
                stand_at(connection, settings, fleet, _PLACES[int(number)], moment - minutes(2))
            case "plan":
                if load_plan_task(connection, route_id, now=moment) is not None:
                    planned_by_hand(connection, route_id, now=moment)
            case "send":
                for message in waiting:
                    deliver(connection, message.id, settings=settings, now=moment)
            case "again":
                for message in waiting:
                    dispatcher_entries.send_again(
                        connection, fleet.live, route_id, message.id, DOT, driver_was_asked=True, now=moment
                    )
            case "anew":
                dispatcher_entries.plan_again(connection, fleet.live, route_id, DOT, now=moment)
    except (ImpossibleStep, ImpossibleStopEvent, CannotResend):
        pass


# --- Plan again --------------------------------------------------------------------------------------------------


@pytest.fixture
def trip(connection: Connection, fleet: Fleet, settings: Settings, now: datetime) -> Trip:
    return Trip(connection, fleet, settings, now, fleet.live)


def plan_again(trip: Trip) -> list[Job]:
    return dispatcher_entries.plan_again(trip.connection, trip.tenant, trip.route_id, DOT, now=trip.now)


def test_the_plan_is_made_again_and_stays_where_nothing_changed(trip: Trip) -> None:
    trip.send()
    assert reviews.begin_review(trip.connection, trip.route_id, now=trip.now) is None

    assert plan_again(trip) == [review_plan_job(trip.route_id)]

    assert reviews.begin_review(trip.connection, trip.route_id, now=trip.now) is not None, "a plan is made in any case"
    assert trip.review() == "confirmed"
    assert len(trip.messages("pending", *SENT)) == 1
    assert trip.review() is None
    route = route_row(trip.connection, trip.route_id)
    assert (route.review_at, route.review_cause) == (None, None)
    asked, kept = events.events_of(trip.connection, trip.fleet.company_id, trip.route_id)
    assert asked == (trip.now, "plan_again", *DOT)
    assert kept == (trip.now, "plan_kept", None, "fuel and prices have not changed enough")


def test_the_driver_hears_of_a_plan_made_again_only_by_the_one_correction(trip: Trip) -> None:
    trip.send()
    trip.report(JOLIET, 90, 90)
    for _ in range(3):
        plan_again(trip)
    assert trip.review() == "corrected"
    trip.send()
    assert len(trip.messages(*SENT)) == 2
    with pytest.raises(ImpossibleStep, match="no plan to make again"):
        plan_again(trip)


def test_a_plan_that_waits_for_its_next_attempt_is_made_now(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    trip = Trip(connection, fleet, settings, now, fleet.live, planned=False)
    connection.execute("UPDATE routes SET retry_at = %s WHERE id = %s", (now + hours(1), trip.route_id))
    assert plan_again(trip) == [build_plan_job(trip.route_id)]
    assert route_row(connection, trip.route_id).retry_at <= trip.now + minutes(1)


def test_there_is_nothing_to_plan_again_before_the_arrival_and_after_the_end(
    connection: Connection, fleet: Fleet, now: datetime
) -> None:
    route_id = imported(connection, fleet.live, now=now)
    held = pushed(connection, fleet.live, now=now, start=now)
    for one in (route_id, held, new_id()):
        with pytest.raises(ImpossibleStep):
            dispatcher_entries.plan_again(connection, fleet.live, one, DOT, now=now)
    cancel_route(connection, fleet.live, route_id, now=now)
    with pytest.raises(ImpossibleStep):
        dispatcher_entries.plan_again(connection, fleet.live, route_id, DOT, now=now)
    assert events.events_of(connection, fleet.company_id, route_id) == []


# --- Send again --------------------------------------------------------------------------------------------------


@pytest.fixture
def gateway() -> Iterator[Gateway]:
    with running_gateway() as gateway:
        yield gateway


def contact(connection: Connection, fleet: Fleet, url: str) -> None:
    connection.execute("UPDATE drivers SET contact = %s WHERE id = %s", (url, fleet.drivers[0]))


def failed_message(connection: Connection, fleet: Fleet, settings: Settings, now: datetime) -> tuple[UUID, UUID]:
    """A planned route, whose message was given up: nobody listens at the driver's contact. A day has gone by."""
    contact(connection, fleet, "json://127.0.0.1:9/")
    route_id = imported(connection, fleet.live, now=now)
    connection.execute("UPDATE routes SET arrived_at = %s WHERE id = %s", (now, route_id))
    message_id = planned_by_hand(connection, route_id, now=now)
    connection.execute("UPDATE messages SET queued_at = %s WHERE id = %s", (now - hours(25), message_id))
    assert deliver(connection, message_id, settings=settings, now=now)[0] == "failed"
    return route_id, message_id


def message(connection: Connection, message_id: UUID) -> Any:
    return named(connection).execute("SELECT * FROM messages WHERE id = %s", (message_id,)).fetchone()


def test_a_failed_message_is_sent_again_as_the_same_one(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime, gateway: Gateway
) -> None:
    route_id, message_id = failed_message(connection, fleet, settings, now)
    text = message(connection, message_id).text
    contact(connection, fleet, gateway.url)

    jobs = dispatcher_entries.send_again(
        connection, fleet.live, route_id, message_id, DOT, driver_was_asked=False, now=now
    )

    assert jobs == [send_message_job(message_id)]
    assert deliver(connection, message_id, settings=settings, now=now)[0] == "sent"
    (received,) = gateway.received
    assert f"{received['title']}\n{received['message']}" == text
    assert status_of(connection, route_id) is RouteStatus.ACTIVE
    told = [(event.kind, event.actor) for event in events.events_of(connection, fleet.company_id, route_id)]
    assert told == [("message_failed", None), ("send_again", DOT.email)]


def test_a_message_that_is_sent_again_has_a_fresh_day_of_attempts(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    route_id, message_id = failed_message(connection, fleet, settings, now)
    dispatcher_entries.send_again(connection, fleet.live, route_id, message_id, DOT, driver_was_asked=False, now=now)

    assert deliver(connection, message_id, settings=settings, now=now)[0] == "pending"

    row = message(connection, message_id)
    assert (row.attempts, row.retry_at) == (1, now + timedelta(seconds=30))
    assert deliver(connection, message_id, settings=settings, now=now + hours(24))[0] == "failed"


def test_a_message_that_was_sent_or_is_on_its_way_is_not_sent_again(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime, gateway: Gateway
) -> None:
    def again(message_id: UUID, **doubt: bool) -> None:
        dispatcher_entries.send_again(
            connection, fleet.live, route_id, message_id, DOT, **{"driver_was_asked": False, **doubt}, now=now
        )

    route_id, message_id = failed_message(connection, fleet, settings, now)
    contact(connection, fleet, gateway.url)
    again(message_id)
    with pytest.raises(CannotResend, match="on its way"):
        again(message_id)
    deliver(connection, message_id, settings=settings, now=now)
    with pytest.raises(CannotResend, match="was sent"):
        again(message_id, driver_was_asked=True)
    with pytest.raises(CannotResend, match="no such message"):
        again(new_id())
    assert len(gateway.received) == 1


def test_a_message_that_may_have_arrived_is_sent_again_only_when_the_driver_was_asked(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime, gateway: Gateway
) -> None:
    route_id, message_id = failed_message(connection, fleet, settings, now)
    connection.execute("UPDATE messages SET claimed_until = %s WHERE id = %s", (now, message_id))
    contact(connection, fleet, gateway.url)
    with pytest.raises(CannotResend, match="ask the driver first"):
        dispatcher_entries.send_again(
            connection, fleet.live, route_id, message_id, DOT, driver_was_asked=False, now=now
        )
    dispatcher_entries.send_again(connection, fleet.live, route_id, message_id, DOT, driver_was_asked=True, now=now)
    assert deliver(connection, message_id, settings=settings, now=now)[0] == "sent"


def test_only_the_plan_that_the_driver_should_get_is_sent_again(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    route_id, message_id = failed_message(connection, fleet, settings, now)
    cancel_route(connection, fleet.live, route_id, now=now)
    with pytest.raises(CannotResend, match="not the one"):
        dispatcher_entries.send_again(connection, fleet.live, route_id, message_id, DOT, driver_was_asked=True, now=now)

    contact(connection, fleet, "")
    other = imported(connection, fleet.live, now=now)
    activate(connection, settings, other, now=now)
    correction = corrected_by_hand(connection, other, now=now)
    contact(connection, fleet, "json://127.0.0.1:9/")
    connection.execute("UPDATE messages SET queued_at = %s WHERE id = %s", (now - hours(25), correction))
    assert deliver(connection, correction, settings=settings, now=now)[0] == "failed"
    with pytest.raises(CannotResend, match="made again"):
        dispatcher_entries.send_again(connection, fleet.live, other, correction, DOT, driver_was_asked=True, now=now)


# --- At the same time --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("round_number", range(3))
def test_an_entry_and_the_positions_at_the_same_time_are_one_arrival(
    database: Database, settings: Settings, now: datetime, round_number: int
) -> None:
    with database.transaction() as connection:
        fleet = make_fleet(connection)
        route_ids = [imported(connection, fleet.live, now=now, start=now + hours(number)) for number in (1, 2)]
        post(connection, fleet.live, positions_at(JOLIET, now - minutes(2)), now=now)

    def entering(_: int) -> list[Job]:
        with database.transaction() as connection:
            return dispatcher_entries.enter_stop_event(
                connection, fleet.live, route_ids[0], 0, "arrival", now, DOT, settings=settings, now=now
            )[1]

    def seeing(_: int) -> list[Job]:
        with database.transaction() as connection:
            return process(connection, settings, fleet, now=now)

    with ThreadPoolExecutor(8) as threads:
        done = [threads.submit(work, number) for number in range(4) for work in (entering, seeing)]
        jobs = [job for one in done for job in one.result()]

    assert jobs.count(build_plan_job(route_ids[0])) == 1, "one plan is asked for, so one message"
    with database.transaction() as connection:
        assert set(visits_of(connection, route_ids[0])) == {0}
        assert visits_of(connection, route_ids[1]) == {}


def test_a_message_is_sent_again_once_however_many_ask_at_the_same_time(
    database: Database, settings: Settings, now: datetime, gateway: Gateway
) -> None:
    with database.transaction() as connection:
        fleet = make_fleet(connection)
        route_id, message_id = failed_message(connection, fleet, settings, now)
        contact(connection, fleet, gateway.url)

    def ask(_: int) -> bool:
        try:
            with database.transaction() as connection:
                dispatcher_entries.send_again(
                    connection, fleet.live, route_id, message_id, DOT, driver_was_asked=False, now=now
                )
        except CannotResend:
            return False
        with database.transaction() as connection:
            deliver(connection, message_id, settings=settings, now=now)
        return True

    with ThreadPoolExecutor(6) as threads:
        assert list(threads.map(ask, range(6))).count(True) == 1
    assert len(gateway.received) == 1
