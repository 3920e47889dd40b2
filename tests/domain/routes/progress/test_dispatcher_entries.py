"""Arrivals and departures that a dispatcher enters, against real PostgreSQL."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from domain.database.connections import Connection, Database, Tenant
from domain.lifecycle import RouteStatus
from domain.planning.plan_tasks import load_plan_task
from domain.queue.jobs import Job, build_plan_job, process_positions_job, review_plan_job
from domain.routes.events import ImpossibleStep
from domain.routes.progress import dispatcher_entries
from domain.routes.transitions import cancel_route
from domain.settings import Settings
from domain.telematics.manual_stop_events import ImpossibleStopEvent, VisitEnd
from tests.domain.helpers import (
    deliver,
    imported,
    place_of,
    planned_by_hand,
    positions_at,
    post,
    route_row,
    status_of,
    visits_of,
)
from tests.domain.trucks import activate, hours, minutes, process, stand_at
from tests.factories import DOT, JOLIET, NEWARK, PERRYSBURG, Fleet, make_fleet
from tests.jobs import jobs_of
from tests.rows import named

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
        jobs_of(connection)
        is_news = dispatcher_entries.enter_stop_event(
            connection, tenant, route_id, stop, end, moment, DOT, settings=settings, now=at or max(now, moment)
        )
        return is_news, jobs_of(connection)

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


def test_a_clock_that_is_set_back_after_an_entered_arrival_leaves_the_truck_at_its_stop(
    connection: Connection, fleet: Fleet, now: datetime, enter: Entering
) -> None:
    """The plan led from the destination to the first stop, and back."""
    route_id = imported(connection, fleet.live, now=now)
    enter(route_id, 0, "arrival", now)

    task = load_plan_task(connection, route_id, now=now - minutes(1))

    assert task is not None
    assert (task.position, task.stops_left) == (place_of(JOLIET), (1,))


def test_entries_alone_bring_a_route_to_completed(
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
    assert evidence.arrival["by"] == DOT.name
    assert status_of(connection, route_id) is RouteStatus.DRAFT


# --- Refused entries ---------------------------------------------------------------------------------------------


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


def test_routes_of_another_company_or_environment_are_not_found(
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
            dispatcher_entries.enter_stop_event(
                connection, fleet.live, route_ids[0], 0, "arrival", now, DOT, settings=settings, now=now
            )
            return jobs_of(connection)

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
