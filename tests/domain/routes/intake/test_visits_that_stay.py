"""A route whose input, truck or start changes keeps some visits (decisions 4 and 10): those that could have
begun it as it is now. Otherwise it waits as a draft."""

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from domain.audit.entries import Actor
from domain.database.connections import Connection, Tenant
from domain.fleet.matching import Matched
from domain.lifecycle import RouteStatus
from domain.queue.jobs import Job, build_plan_job
from domain.routes import transitions
from domain.routes.intake import holds
from domain.routes.intake.fleet_changes import add_mapping
from domain.routes.intake.imports import import_routes
from domain.routes.intake.pushes import Push, store_pushes
from domain.routes.intake.retiring import retire
from domain.routes.progress.dispatcher_entries import enter_stop_event
from domain.settings import Settings
from tests.domain.helpers import imported, planned_by_hand, positions_at, post, route_row, status_of, visits_of
from tests.domain.trucks import activate, hours, minutes, process, stand_at
from tests.factories import DOT, JOLIET, NEWARK, PERRYSBURG, Fleet, route_input
from tests.jobs import jobs_after, jobs_of

LOAD: dict[str, Any] = {"externalId": "LOAD"}


def push_again(
    connection: Connection, tenant: Tenant, start: datetime, *, now: datetime, **changes: Any
) -> tuple[UUID, list[Job]]:
    """LOAD is pushed with this start and imported. Returns its id and the jobs of the import."""
    (result,) = store_pushes(connection, [Push(tenant, route_input(start, **LOAD, **changes))], now=now)
    assert result.effect == "replace"
    return result.route_id, jobs_after(connection, lambda: import_routes(connection, [result.route_id], now=now))


def fail(connection: Connection, route_id: UUID, *, now: datetime) -> list[Job]:
    """The plan of a route whose truck has arrived cannot be made."""
    return jobs_after(connection, lambda: transitions.planning_failed(connection, route_id, max_attempts=1, now=now))


def waits(connection: Connection, route_id: UUID) -> bool:
    """The route is a draft whose truck has not arrived."""
    row = route_row(connection, route_id)
    return (row.status, row.arrived_at, row.retry_at) == ("draft", None, None) and visits_of(connection, route_id) == {}


# --- The new start ---------------------------------------------------------------------------------------------


def test_a_visit_that_is_too_early_for_the_new_start_does_not_start_the_route_again(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    load = imported(connection, fleet.live, now=now, start=now, **LOAD)
    following = imported(connection, fleet.live, now=now, start=now + hours(6), stops=[PERRYSBURG, NEWARK])
    stand_at(connection, settings, fleet, JOLIET, now)
    fail(connection, load, now=now + minutes(5))
    stand_at(connection, settings, fleet, PERRYSBURG, now + hours(6))
    activate(connection, settings, following, now=now + hours(7))

    push_again(connection, fleet.live, now + timedelta(days=4), now=now + hours(8))

    assert waits(connection, load)
    stand_at(connection, settings, fleet, NEWARK, now + hours(16))
    assert status_of(connection, following) is RouteStatus.COMPLETED


def test_a_route_that_is_postponed_by_days_waits_and_its_truck_takes_the_next_one(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    load = imported(connection, fleet.live, now=now, start=now + hours(11), **LOAD)
    following = imported(connection, fleet.live, now=now, start=now + hours(11.5))
    stand_at(connection, settings, fleet, JOLIET, now)
    planned_by_hand(connection, load, now=now + minutes(3))

    push_again(connection, fleet.live, now + timedelta(days=6), now=now + minutes(4))

    assert waits(connection, load)
    assert process(connection, settings, fleet, now=now + minutes(5)) == [build_plan_job(following)]


def test_a_route_postponed_beyond_the_window_gets_no_plan_when_the_window_opens(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    load = imported(connection, fleet.live, now=now, start=now + hours(11), **LOAD)
    stand_at(connection, settings, fleet, JOLIET, now)
    planned_by_hand(connection, load, now=now + minutes(3))
    push_again(connection, fleet.live, now + timedelta(days=20), now=now + minutes(4))
    assert status_of(connection, load) is RouteStatus.PENDING_WINDOW

    opening = now + timedelta(days=13, minutes=1)
    assert load in holds.routes_that_can_move(connection, now=opening)
    import_routes(connection, [load], now=opening)

    assert process(connection, settings, fleet, now=opening) == []
    assert waits(connection, load)


@pytest.mark.parametrize(("hours_ahead", "stays"), [(11.9, True), (12.1, False)])
def test_a_visit_stays_from_twelve_hours_before_the_new_start(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime, hours_ahead: float, stays: bool
) -> None:
    load = imported(connection, fleet.live, now=now, start=now + hours(1), **LOAD)
    stand_at(connection, settings, fleet, JOLIET, now)

    _, jobs = push_again(connection, fleet.live, now + hours(hours_ahead), now=now + minutes(3))

    assert (build_plan_job(load) in jobs) is stays
    assert visits_of(connection, load) == ({0: (now, None)} if stays else {})


def test_visits_near_enough_to_the_new_start_stay(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    stops = [JOLIET, PERRYSBURG, NEWARK]
    load = imported(connection, fleet.live, now=now, start=now + hours(10), stops=stops, **LOAD)
    stand_at(connection, settings, fleet, JOLIET, now)
    stand_at(connection, settings, fleet, PERRYSBURG, now + hours(5))

    _, jobs = push_again(connection, fleet.live, now + hours(14), stops=stops, now=now + hours(6))

    assert jobs[-1] == build_plan_job(load)
    assert visits_of(connection, load) == {1: (now + hours(5), None)}
    assert route_row(connection, load).arrived_at == now + hours(5)


def test_an_entered_arrival_stays_like_any_visit(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    load = imported(connection, fleet.live, now=now, start=now, **LOAD)
    enter_stop_event(
        connection,
        fleet.live,
        load,
        0,
        "arrival",
        now,
        Actor("ann@example.com", "he says so"),
        settings=settings,
        now=now,
    )
    _, jobs = push_again(connection, fleet.live, now + hours(3), now=now)
    assert jobs == [build_plan_job(load)]

    push_again(connection, fleet.live, now + hours(13), now=now)

    assert waits(connection, load)


def test_the_sandbox_uses_its_simulated_time(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    simulated = now + timedelta(days=3)
    load = imported(connection, fleet.sandbox, now=now, start=simulated, **LOAD)
    post(connection, fleet.sandbox, positions_at(JOLIET, simulated), now=now)
    process(connection, settings, fleet, now=now, live=False)
    _, jobs = push_again(connection, fleet.sandbox, simulated + hours(2), now=now + minutes(1))
    assert jobs[-1] == build_plan_job(load)

    push_again(connection, fleet.sandbox, simulated + timedelta(days=2), now=now + minutes(2))

    assert waits(connection, load)


# --- The truck -------------------------------------------------------------------------------------------------


def test_a_visit_of_the_first_truck_does_not_count_for_another_truck(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    load = imported(connection, fleet.live, now=now, **LOAD)
    stand_at(connection, settings, fleet, JOLIET, now)

    push_again(connection, fleet.live, now, vehicle={"unitNumber": "102"}, now=now + minutes(3))

    assert waits(connection, load)


def test_a_corrected_mapping_drops_the_first_truck_s_visit(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    truck: dict[str, Any] = {"vehicle": {"unitNumber": "TRUCK-9"}}
    add_mapping(connection, fleet.company_id, "unit_number", "TRUCK-9", fleet.trucks[0], DOT)
    load = imported(connection, fleet.live, now=now, **LOAD, **truck)
    stand_at(connection, settings, fleet, JOLIET, now)
    fail(connection, load, now=now + minutes(3))
    add_mapping(connection, fleet.company_id, "unit_number", "TRUCK-9", fleet.trucks[1], DOT)

    _, jobs = push_again(connection, fleet.live, now, now=now + minutes(4), **truck)

    assert route_row(connection, load).vehicle_id == fleet.trucks[1]
    assert waits(connection, load)
    assert [job.name for job in jobs] == ["arrivals.process"]


def test_the_same_truck_under_another_reference_keeps_its_visit(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    load = imported(connection, fleet.live, now=now, **LOAD)
    stand_at(connection, settings, fleet, JOLIET, now)

    _, jobs = push_again(connection, fleet.live, now, vehicle={"vin": "1XKAD49X0CJ000101"}, now=now + minutes(3))

    assert jobs[-1] == build_plan_job(load)
    assert visits_of(connection, load) == {0: (now, None)}


def held_after_retiring(
    connection: Connection, fleet: Fleet, settings: Settings, kind: Matched, record_id: UUID, *, now: datetime
) -> UUID:
    """A route whose truck arrived at the first stop, and whose vehicle or driver was retired three minutes later."""
    load = imported(connection, fleet.live, now=now, **LOAD)
    stand_at(connection, settings, fleet, JOLIET, now)
    retire(connection, fleet.company_id, kind, record_id, DOT, force=False, now=now + minutes(3))
    import_routes(connection, [load], now=now + minutes(3))
    assert status_of(connection, load) is RouteStatus.PENDING_MAPPING
    return load


def test_a_retired_truck_s_visit_does_not_count_for_the_next_truck(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    load = held_after_retiring(connection, fleet, settings, "vehicle", fleet.trucks[0], now=now)

    add_mapping(connection, fleet.company_id, "unit_number", "101", fleet.trucks[1], DOT)
    import_routes(connection, [load], now=now + minutes(4))

    assert waits(connection, load)


def test_a_truck_keeps_its_visit_when_its_driver_changes(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    load = held_after_retiring(connection, fleet, settings, "driver", fleet.drivers[0], now=now)

    add_mapping(connection, fleet.company_id, "driver_name", "Ann Lee", fleet.drivers[1], DOT)
    import_routes(connection, [load], now=now + minutes(4))
    jobs = jobs_of(connection)

    assert jobs[-1] == build_plan_job(load)
    assert visits_of(connection, load) == {0: (now, None)}


# --- Another route since ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("ended", ["active", "completed", "error", "pushed again"])
def test_a_visit_starts_no_route_after_the_truck_started_another_one(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime, ended: str
) -> None:
    load = imported(connection, fleet.live, now=now, **LOAD)
    stand_at(connection, settings, fleet, JOLIET, now)
    fail(connection, load, now=now + minutes(3))
    other = imported(
        connection, fleet.live, now=now + minutes(4), stops=[PERRYSBURG, NEWARK], externalId="OTHER", start=now
    )
    stand_at(connection, settings, fleet, PERRYSBURG, now + hours(4))
    if ended in ("active", "completed"):
        activate(connection, settings, other, now=now + hours(5))
    if ended == "completed":
        stand_at(connection, settings, fleet, NEWARK, now + hours(6))
        assert status_of(connection, other) is RouteStatus.COMPLETED
    elif ended == "error":
        fail(connection, other, now=now + hours(5))
    elif ended == "pushed again":
        again = route_input(now + hours(1), externalId="OTHER", stops=[PERRYSBURG, NEWARK])
        store_pushes(connection, [Push(fleet.live, again)], now=now + hours(5))

    push_again(connection, fleet.live, now, now=now + hours(7))

    assert waits(connection, load)


def test_only_the_last_started_of_two_routes_imported_again_together_continues(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    first = imported(connection, fleet.live, now=now, externalId="FIRST")
    stand_at(connection, settings, fleet, JOLIET, now)
    fail(connection, first, now=now + minutes(3))
    last = imported(connection, fleet.live, now=now + minutes(4), externalId="LAST", stops=[PERRYSBURG, NEWARK])
    stand_at(connection, settings, fleet, PERRYSBURG, now + hours(4))
    fail(connection, last, now=now + hours(5))

    again = [
        Push(fleet.live, route_input(now, externalId="FIRST", stops=[JOLIET, NEWARK])),
        Push(fleet.live, route_input(now, externalId="LAST", stops=[PERRYSBURG, NEWARK])),
    ]
    store_pushes(connection, again, now=now + hours(6))
    import_routes(connection, [first, last], now=now + hours(6))
    jobs = jobs_of(connection)

    assert waits(connection, first)
    assert visits_of(connection, last).keys() == {0}
    assert [job for job in jobs if job.name == "plans.build"] == [build_plan_job(last)]


def test_no_draft_of_the_truck_starts_while_a_route_that_has_started_is_imported_again(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    load = imported(connection, fleet.live, now=now, start=now, **LOAD)
    following = imported(connection, fleet.live, now=now, start=now + hours(6))
    stand_at(connection, settings, fleet, JOLIET, now)
    store_pushes(connection, [Push(fleet.live, route_input(now + minutes(30), **LOAD))], now=now + minutes(3))

    assert stand_at(connection, settings, fleet, JOLIET, now + minutes(4)) == []  # before its import has decided
    import_routes(connection, [load], now=now + minutes(8))
    jobs = jobs_of(connection)

    assert build_plan_job(load) in jobs
    process(connection, settings, fleet, now=now + minutes(9))
    assert waits(connection, following)


# --- Old positions ---------------------------------------------------------------------------------------------


def test_a_truck_at_the_first_stop_at_the_import_has_arrived_though_an_old_visit_was_dropped(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    load = imported(connection, fleet.live, now=now, start=now - hours(1), **LOAD)
    stand_at(connection, settings, fleet, JOLIET, now)
    fail(connection, load, now=now + minutes(3))
    moment = now + hours(9)
    post(connection, fleet.live, positions_at(JOLIET, moment - minutes(10)), now=moment - minutes(9))

    push_again(connection, fleet.live, now + hours(20), now=moment)

    assert visits_of(connection, load) == {}
    assert process(connection, settings, fleet, now=moment) == [build_plan_job(load)]
    assert visits_of(connection, load) == {0: (moment - minutes(10), None)}


def test_a_dropped_visit_is_not_found_again_in_old_positions(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    load = imported(connection, fleet.live, now=now, start=now - hours(1), **LOAD)
    stand_at(connection, settings, fleet, JOLIET, now)
    fail(connection, load, now=now + minutes(3))

    push_again(connection, fleet.live, now + hours(13), now=now + hours(2))
    process(connection, settings, fleet, now=now + hours(2))

    assert waits(connection, load)


@pytest.mark.parametrize(("waited", "starts"), [(minutes(2), True), (hours(2), False)])
def test_a_sandbox_truck_stands_for_fifteen_minutes_where_its_last_route_left_it(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime, waited: timedelta, starts: bool
) -> None:
    """The rehearsal was of tomorrow, so all its positions are newer than the import by their own time."""
    tomorrow = now + timedelta(days=1)
    post(connection, fleet.sandbox, positions_at(JOLIET, tomorrow), now=now)

    imported(connection, fleet.sandbox, now=now + waited, start=tomorrow)

    assert bool(process(connection, settings, fleet, now=now + waited, live=False)) is starts


def test_a_sandbox_truck_does_not_stand_at_a_stop_that_its_last_route_has_left(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    tomorrow = now + timedelta(days=1)
    driven = [*positions_at(JOLIET, tomorrow), *positions_at(NEWARK, tomorrow + hours(14))]
    post(connection, fleet.sandbox, driven, now=now)

    load = imported(connection, fleet.sandbox, now=now + minutes(1), start=tomorrow, stops=[JOLIET, PERRYSBURG])
    process(connection, settings, fleet, now=now + minutes(1), live=False)

    assert visits_of(connection, load) == {}
