"""A started route ends: at its last stop, or because its truck reaches no stop any more (decisions 7 and 10)."""

from datetime import datetime, timedelta

import pytest

from domain.database.connections import Connection
from domain.lifecycle import RouteStatus
from domain.queue.jobs import build_plan_job, in_batches, process_positions_job
from domain.routes import transitions
from domain.settings import Settings
from tests.domain.helpers import (
    deliver,
    imported,
    north_of,
    planned_by_hand,
    positions_at,
    post,
    route_row,
    status_of,
    visits_of,
)
from tests.domain.trucks import HOME, activate, active_route, hours, minutes, process, stand_at
from tests.factories import JOLIET, NEWARK, PERRYSBURG, Fleet
from tests.jobs import jobs_of
from tests.rows import named

# --- Completed ---------------------------------------------------------------------------------------------------


def test_the_last_stop_completes_an_active_route(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    route_id = active_route(connection, settings, fleet, now=now)

    stand_at(connection, settings, fleet, NEWARK, now + hours(14))

    row = route_row(connection, route_id)
    assert (row.status, row.completed_at) == ("completed", now + hours(14))


def test_a_planned_route_completes_only_once_its_message_has_failed_at_least_once(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    connection.execute("UPDATE drivers SET contact = 'json://127.0.0.1:9/' WHERE id = %s", (fleet.drivers[0],))
    route_id = imported(connection, fleet.live, now=now)
    stand_at(connection, settings, fleet, JOLIET, now)
    message_id = planned_by_hand(connection, route_id, now=now)

    stand_at(connection, settings, fleet, NEWARK, now + hours(14))
    assert status_of(connection, route_id) is RouteStatus.PLANNED  # its message has not been tried yet

    deliver(connection, message_id, settings=settings, now=now + hours(14))
    assert status_of(connection, route_id) is RouteStatus.COMPLETED


def test_late_fixes_from_before_the_start_do_not_complete_an_active_route(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    route_id = active_route(connection, settings, fleet, now=now)

    buffered = positions_at(NEWARK, now - hours(10), count=3)  # where the truck was in the morning
    post(connection, fleet.live, buffered, now=now + minutes(10))
    process(connection, settings, fleet, now=now + minutes(10))

    assert status_of(connection, route_id) is RouteStatus.ACTIVE


def test_fresh_fixes_that_come_with_late_ones_are_not_lost(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    route_id = active_route(connection, settings, fleet, now=now)

    morning, arrival = now - hours(10), now + hours(14)  # a tracker sends all that it has kept
    buffered = [*positions_at(NEWARK, morning), *positions_at(NEWARK, arrival)]
    post(connection, fleet.live, buffered, now=arrival + minutes(2))
    process(connection, settings, fleet, now=arrival + minutes(2))

    assert visits_of(connection, route_id).get(1) == (arrival, None)
    assert status_of(connection, route_id) is RouteStatus.COMPLETED


@pytest.mark.parametrize("fixes_at_a_time", [1, 100])
@pytest.mark.parametrize("parked", [0, 100, 150])
def test_a_round_trip_is_not_completed_when_its_truck_leaves_a_yard_with_two_coordinates(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime, parked: float, fixes_at_a_time: int
) -> None:
    """The truck stands nearer to the coordinates of the end for an hour. What it sent there is read again as it
    leaves."""
    gate, dock, there, street = (
        {**JOLIET, "latitude": north_of(HOME, meters).latitude} for meters in (0, 150, parked, 3_000)
    )
    route_id = imported(connection, fleet.live, now=now, stops=[gate, NEWARK, dock])
    stand_at(connection, settings, fleet, there, now)
    activate(connection, settings, route_id, now=now + minutes(3))

    standing = positions_at(there, now + minutes(2), count=58, seconds_apart=60)
    leaving = positions_at(street, now + minutes(61), count=2, speed_mph=40)
    for batch in in_batches([*standing, *leaving], fixes_at_a_time):
        post(connection, fleet.live, batch, now=batch[-1].recorded_at)
        process(connection, settings, fleet, now=batch[-1].recorded_at)

    assert visits_of(connection, route_id) == {0: (now, now + minutes(61))}
    assert status_of(connection, route_id) is RouteStatus.ACTIVE


# --- The next route of the truck ---------------------------------------------------------------------------------


def test_a_completed_route_frees_its_truck(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    active_route(connection, settings, fleet, now=now)
    stand_at(connection, settings, fleet, NEWARK, now + hours(14))

    (track,) = named(connection).execute("SELECT * FROM tracks WHERE vehicle_id = %s", (fleet.trucks[0],)).fetchall()
    assert track.free_since == now + hours(14)


def test_a_truck_that_stands_where_one_route_ends_and_the_next_begins_arrives_at_the_next(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    first = active_route(connection, settings, fleet, now=now)
    second = imported(connection, fleet.live, now=now, start=now + hours(15), stops=[NEWARK, PERRYSBURG])

    jobs = stand_at(connection, settings, fleet, NEWARK, now + hours(14))
    assert status_of(connection, first) is RouteStatus.COMPLETED
    assert process_positions_job("live", [fleet.trucks[0]]) in jobs  # the truck may stand at its next first stop
    assert visits_of(connection, first)[0] == (now, now + hours(14)), "its tracker was silent on the way"

    assert process(connection, settings, fleet, now=now + hours(14)) == [build_plan_job(second)]
    assert visits_of(connection, second) == {0: (now + hours(14), None)}


def test_fixes_of_the_route_before_do_not_start_the_next_one_at_a_shared_depot(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    first = imported(connection, fleet.live, now=now, stops=[JOLIET, PERRYSBURG])
    stand_at(connection, settings, fleet, JOLIET, now)
    activate(connection, settings, first, now=now + minutes(3))
    second = imported(connection, fleet.live, now=now, start=now + hours(5), stops=[JOLIET, NEWARK])
    # the last stop is reached at once, as far as the clock of the test goes: the depot's fixes are 5 minutes old
    connection.execute(
        "INSERT INTO visits (company_id, environment, route_id, stop, arrived_at, arrival_evidence)"
        " VALUES (%s, %s, %s, 1, %s, '{}')",
        (*fleet.live, first, now + minutes(5)),
    )

    transitions.complete_routes(connection, [first], now=now + minutes(6))
    assert status_of(connection, first) is RouteStatus.COMPLETED
    process(connection, settings, fleet, now=now + minutes(6))

    assert visits_of(connection, second) == {}


def test_late_fixes_of_the_route_before_do_not_start_the_next_one_either(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    first = imported(connection, fleet.live, now=now, stops=[JOLIET, PERRYSBURG])
    stand_at(connection, settings, fleet, JOLIET, now)
    activate(connection, settings, first, now=now + minutes(3))
    second = imported(connection, fleet.live, now=now, start=now + hours(8), stops=[JOLIET, NEWARK])
    stand_at(connection, settings, fleet, PERRYSBURG, now + hours(4))
    assert status_of(connection, first) is RouteStatus.COMPLETED

    buffered = positions_at(JOLIET, now + minutes(4), count=2)  # the tracker sends what it recorded at the depot
    post(connection, fleet.live, buffered, now=now + hours(4) + minutes(10))
    process(connection, settings, fleet, now=now + hours(4) + minutes(10))

    assert visits_of(connection, second) == {}


def test_a_truck_that_stood_at_its_next_first_stop_while_the_message_was_retried_has_arrived_there(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    first = imported(connection, fleet.live, now=now)
    second = imported(connection, fleet.live, now=now, start=now + hours(15), stops=[NEWARK, PERRYSBURG])
    stand_at(connection, settings, fleet, JOLIET, now)
    message_id = planned_by_hand(connection, first, now=now)
    stand_at(connection, settings, fleet, NEWARK, now + hours(14))
    away = positions_at(JOLIET, now + hours(30), count=1)
    post(connection, fleet.live, away, now=now + hours(30))
    process(connection, settings, fleet, now=now + hours(30))

    deliver(connection, message_id, settings=settings, now=now + hours(31))
    assert status_of(connection, first) is RouteStatus.COMPLETED
    process(connection, settings, fleet, now=now + hours(31))

    assert visits_of(connection, second).keys() == {0}


# --- Expired -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", ["draft", "planned", "active"])
def test_a_started_route_without_a_visit_for_two_weeks_becomes_error_and_frees_its_truck(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime, status: str
) -> None:
    route_id = imported(connection, fleet.live, now=now)
    stand_at(connection, settings, fleet, JOLIET, now)
    message_id = planned_by_hand(connection, route_id, now=now) if status != "draft" else None
    connection.execute("UPDATE routes SET status = %s WHERE id = %s", (status, route_id))

    later = now + timedelta(days=15)
    following = imported(connection, fleet.live, now=later - hours(1), start=later, stops=[PERRYSBURG, NEWARK])
    stand_at(connection, settings, fleet, PERRYSBURG, later)
    assert visits_of(connection, following) == {}  # not while the other one is started

    transitions.expire_started_routes(connection, expiry_days=14, now=now + timedelta(days=13))
    assert status_of(connection, route_id) is RouteStatus(status)
    transitions.expire_started_routes(connection, expiry_days=14, now=later)
    jobs = jobs_of(connection)
    row = route_row(connection, route_id)
    assert (row.status, row.retry_at) == ("error", None)
    assert row.closed_reason.endswith("no stop was reached for 14 days")
    if message_id is not None:
        (message,) = named(connection).execute("SELECT status FROM messages WHERE id = %s", (message_id,)).fetchall()
        assert message.status == "failed"
    assert fleet.trucks[0] in [truck for job in jobs for truck in job.payload["vehicle_ids"]]
    assert process(connection, settings, fleet, now=later) == [build_plan_job(following)]


def test_a_route_without_visits_ends_in_error_though_its_plan_was_updated(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    route_id = imported(connection, fleet.live, now=now)
    stand_at(connection, settings, fleet, JOLIET, now)
    planned_by_hand(connection, route_id, now=now)
    later = now + timedelta(days=14, hours=1)
    connection.execute("UPDATE routes SET updated_at = %s WHERE id = %s", (later, route_id))  # as with every new price

    transitions.expire_started_routes(connection, expiry_days=14, now=later)

    assert status_of(connection, route_id) is RouteStatus.ERROR


def test_a_silent_sandbox_route_ends_by_our_clock(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    route_id = imported(connection, fleet.sandbox, now=now, start=now - timedelta(days=30))
    post(connection, fleet.sandbox, positions_at(JOLIET, now - timedelta(days=30)), now=now)
    process(connection, settings, fleet, now=now, live=False)
    planned_by_hand(connection, route_id, now=now)

    transitions.expire_started_routes(connection, expiry_days=14, now=now + timedelta(days=13))

    assert status_of(connection, route_id) is RouteStatus.PLANNED
