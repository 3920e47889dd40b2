"""A route follows its truck, against real PostgreSQL and with the time given (decisions 9 to 11)."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from domain.contract.shapes import moment_of
from domain.database.connections import Connection
from domain.queue.jobs import build_plan_job, process_positions_job
from domain.routes.intake.imports import import_routes
from domain.settings import Settings
from domain.telematics import tracks
from tests.domain.helpers import imported, positions_at, post, pushed, route_row, visits_of
from tests.domain.trucks import HOME, active_route, dropped, hours, minutes, process, stand_at
from tests.factories import JOLIET, NEWARK, PERRYSBURG, Fleet
from tests.jobs import jobs_after, jobs_of
from tests.rows import named

# --- Arriving ----------------------------------------------------------------------------------------------------


def test_a_draft_whose_truck_stands_at_the_first_stop_has_arrived_and_a_plan_is_due(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    route_id = imported(connection, fleet.live, now=now)

    jobs = stand_at(connection, settings, fleet, JOLIET, now)

    assert jobs == [build_plan_job(route_id)]
    assert route_row(connection, route_id).arrived_at == now
    assert visits_of(connection, route_id) == {0: (now, None)}


def test_the_rule_and_the_fixes_behind_a_visit_are_kept(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    route_id = imported(connection, fleet.live, now=now)

    stand_at(connection, settings, fleet, JOLIET, now)

    (row,) = (
        named(connection).execute("SELECT arrival_evidence FROM visits WHERE route_id = %s", (route_id,)).fetchall()
    )
    assert row.arrival_evidence["rule"] == "two fixes in a row inside below 5 mph"
    recorded = [moment_of(fix["recordedAt"]) for fix in row.arrival_evidence["fixes"]]
    assert recorded == [now, now + timedelta(seconds=30)]


def test_processing_again_changes_nothing_and_asks_for_no_second_plan(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    route_id = imported(connection, fleet.live, now=now)
    stand_at(connection, settings, fleet, JOLIET, now)

    jobs = stand_at(connection, settings, fleet, JOLIET, now + minutes(5))

    assert jobs == []
    assert visits_of(connection, route_id) == {0: (now, None)}


def test_a_run_that_began_in_an_earlier_batch_is_an_arrival(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    route_id = imported(connection, fleet.live, now=now)
    for number in range(3):
        moment = now + minutes(number)
        post(connection, fleet.live, positions_at(JOLIET, moment, count=1, speed_mph=None), now=moment)
        process(connection, settings, fleet, now=moment)

    assert visits_of(connection, route_id) == {0: (now, None)}


def test_a_late_fix_makes_an_arrival_earlier(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    route_id = imported(connection, fleet.live, now=now)
    stand_at(connection, settings, fleet, JOLIET, now)

    late = now - minutes(4)
    post(connection, fleet.live, positions_at(JOLIET, late, count=2), now=now + minutes(5))
    jobs = process(connection, settings, fleet, now=now + minutes(5))

    assert visits_of(connection, route_id) == {0: (late, None)}
    assert route_row(connection, route_id).arrived_at == late
    assert jobs == []


def test_a_late_fix_outside_does_not_undo_an_arrival(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    route_id = imported(connection, fleet.live, now=now)
    stand_at(connection, settings, fleet, JOLIET, now)

    beyond = {**JOLIET, "latitude": HOME.latitude + 0.006}
    between = now + timedelta(seconds=15)
    post(connection, fleet.live, positions_at(beyond, between, count=1, accuracy_meters=150), now=now + minutes(5))
    process(connection, settings, fleet, now=now + minutes(5))

    assert visits_of(connection, route_id)[0][0] <= now


def test_a_late_fix_makes_a_departure_earlier(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    route_id = imported(connection, fleet.live, now=now)
    stand_at(connection, settings, fleet, JOLIET, now)
    outside = {**JOLIET, "latitude": HOME.latitude + 0.02}
    driving = positions_at(outside, now + minutes(20), count=2, speed_mph=40)
    post(connection, fleet.live, driving, now=now + minutes(21))
    process(connection, settings, fleet, now=now + minutes(21))
    assert visits_of(connection, route_id) == {0: (now, now + minutes(20))}

    post(connection, fleet.live, positions_at(outside, now + minutes(18), count=1, speed_mph=40), now=now + minutes(22))
    process(connection, settings, fleet, now=now + minutes(22))

    assert visits_of(connection, route_id) == {0: (now, now + minutes(18))}


def test_one_wild_fix_is_counted_and_moves_nothing(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    route_id = imported(connection, fleet.live, now=now)
    fixes = [
        *positions_at(PERRYSBURG, now - minutes(2), count=1),
        *positions_at(JOLIET, now - minutes(1), count=1),
        *positions_at(PERRYSBURG, now, count=1),
    ]
    post(connection, fleet.live, fixes, now=now)
    process(connection, settings, fleet, now=now)

    assert visits_of(connection, route_id) == {}
    assert dropped(connection, fleet) == {"implausible": 1}


def test_three_agreeing_fixes_are_believed_and_counted_no_more(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    route_id = imported(connection, fleet.live, now=now)
    for number, stop in enumerate((PERRYSBURG, JOLIET, JOLIET, JOLIET)):
        moment = now + minutes(number)
        post(connection, fleet.live, positions_at(stop, moment, count=1), now=moment)
        process(connection, settings, fleet, now=moment)

    assert visits_of(connection, route_id) == {0: (now + minutes(1), None)}
    assert dropped(connection, fleet).get("implausible", 0) == 0


# --- Standing at the stop when the route is imported -------------------------------------------------------------


def test_a_truck_that_stands_at_the_first_stop_when_its_route_is_imported_has_arrived(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    post(connection, fleet.live, positions_at(JOLIET, now - minutes(14), count=2), now=now - minutes(13))
    route_id = imported(connection, fleet.live, now=now)

    jobs = process(connection, settings, fleet, now=now)

    assert jobs == [build_plan_job(route_id)]
    assert visits_of(connection, route_id) == {0: (now - minutes(14), None)}


@pytest.mark.parametrize(("minutes_before", "counts"), [(5, True), (16, False)])
def test_in_the_sandbox_the_import_counts_fixes_that_came_in_lately_whatever_their_time(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime, minutes_before: int, counts: bool
) -> None:
    simulated, came_in = now - timedelta(days=3), now - minutes(minutes_before)
    post(connection, fleet.sandbox, positions_at(JOLIET, simulated, count=2), now=came_in)
    process(connection, settings, fleet, now=came_in, live=False)
    route_id = imported(connection, fleet.sandbox, now=now, start=simulated)

    jobs = process(connection, settings, fleet, now=now, live=False)

    assert jobs == ([build_plan_job(route_id)] if counts else [])
    assert visits_of(connection, route_id) == ({0: (simulated, None)} if counts else {})


def test_fixes_from_more_than_fifteen_minutes_before_the_import_do_not_count(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    post(connection, fleet.live, positions_at(JOLIET, now - minutes(20), count=2), now=now - minutes(18))
    route_id = imported(connection, fleet.live, now=now)

    assert process(connection, settings, fleet, now=now) == []
    assert visits_of(connection, route_id) == {}


def test_the_import_itself_asks_for_the_standing_truck_to_be_processed(
    connection: Connection, fleet: Fleet, now: datetime
) -> None:
    post(connection, fleet.live, positions_at(JOLIET, now - minutes(5)), now=now - minutes(4))
    route_id = pushed(connection, fleet.live, now=now, start=now)

    jobs = jobs_after(connection, lambda: import_routes(connection, [route_id], now=now))

    assert jobs == [process_positions_job("live", [fleet.trucks[0]])]


# --- Which route starts ------------------------------------------------------------------------------------------


def test_only_the_earliest_draft_starts(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    later = imported(connection, fleet.live, now=now, start=now + hours(3))
    earlier = imported(connection, fleet.live, now=now, start=now + hours(1))

    assert stand_at(connection, settings, fleet, JOLIET, now) == [build_plan_job(earlier)]
    assert visits_of(connection, later) == {}


@pytest.mark.parametrize(("hours_ahead", "starts"), [(11.9, True), (12.1, False)])
def test_a_draft_can_start_from_twelve_hours_before_its_start(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime, hours_ahead: float, starts: bool
) -> None:
    route_id = imported(connection, fleet.live, now=now, start=now + hours(hours_ahead))

    stand_at(connection, settings, fleet, JOLIET, now)

    assert bool(visits_of(connection, route_id)) is starts


def test_a_draft_that_is_a_day_late_gives_way_to_the_next(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    imported(connection, fleet.live, now=now, start=now - hours(25))
    following = imported(connection, fleet.live, now=now, start=now + hours(1))

    assert stand_at(connection, settings, fleet, JOLIET, now) == [build_plan_job(following)]


def test_positions_move_only_routes_of_their_own_environment(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    live = imported(connection, fleet.live, now=now)
    sandbox = imported(connection, fleet.sandbox, now=now)

    post(connection, fleet.live, positions_at(JOLIET, now), now=now)
    assert process(connection, settings, fleet, now=now, live=False) == []
    assert process(connection, settings, fleet, now=now, live=True) == [build_plan_job(live)]
    assert visits_of(connection, sandbox) == {}

    post(connection, fleet.sandbox, positions_at(JOLIET, now + minutes(30)), now=now)
    assert process(connection, settings, fleet, now=now, live=False) == [build_plan_job(sandbox)]
    assert visits_of(connection, live) == {0: (now, None)}


def test_a_later_stop_reached_first_starts_the_plan_from_there(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    route_id = imported(connection, fleet.live, now=now, stops=[JOLIET, PERRYSBURG, NEWARK])

    assert stand_at(connection, settings, fleet, PERRYSBURG, now) == [build_plan_job(route_id)]
    assert visits_of(connection, route_id) == {1: (now, None)}


def test_no_other_route_starts_while_one_is_active(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    active_route(connection, settings, fleet, now=now)
    second = imported(connection, fleet.live, now=now, start=now - hours(2), stops=[JOLIET, PERRYSBURG])

    stand_at(connection, settings, fleet, JOLIET, now + minutes(10))

    assert visits_of(connection, second) == {}


def test_a_truck_at_home_does_not_complete_its_round_trip_before_leaving(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    post(connection, fleet.live, positions_at(JOLIET, now - hours(1), count=3), now=now - minutes(50))
    route_id = imported(connection, fleet.live, now=now, start=now + hours(8), stops=[PERRYSBURG, JOLIET])

    for number in range(4):
        assert stand_at(connection, settings, fleet, JOLIET, now + hours(number)) == []
    assert visits_of(connection, route_id) == {}

    assert stand_at(connection, settings, fleet, PERRYSBURG, now + hours(8)) == [build_plan_job(route_id)]
    assert visits_of(connection, route_id).keys() == {0}


# --- The first and the last year ---------------------------------------------------------------------------------


FIRST_MOMENT = datetime(1, 1, 1, tzinfo=UTC)  # what .NET sends for "no time"


def test_a_start_in_the_year_one_does_not_stop_the_processing(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    imported(connection, fleet.live, now=now, start=FIRST_MOMENT, vehicle={"unitNumber": "102"})
    sound = imported(connection, fleet.live, now=now)
    fixes = [*positions_at(JOLIET, now), *positions_at(JOLIET, now, unit_number="102")]
    post(connection, fleet.live, fixes, now=now)

    assert build_plan_job(sound) in process(connection, settings, fleet, now=now)


def test_a_fix_in_the_year_one_does_not_stop_the_processing(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    imported(connection, fleet.live, now=now, vehicle={"unitNumber": "102"})
    sound = imported(connection, fleet.live, now=now)
    fixes = [*positions_at(JOLIET, now), *positions_at(JOLIET, FIRST_MOMENT, unit_number="102")]
    post(connection, fleet.live, fixes, now=now)

    assert build_plan_job(sound) in process(connection, settings, fleet, now=now)


def test_simulated_time_may_reach_the_year_9999(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    route_id = imported(connection, fleet.sandbox, now=now)
    last = datetime(9999, 12, 31, 23, 58, tzinfo=UTC)
    post(connection, fleet.sandbox, positions_at(JOLIET, last, count=2), now=now)

    assert process(connection, settings, fleet, now=now, live=False) == [build_plan_job(route_id)]


# --- While the truck is processed --------------------------------------------------------------------------------


def test_a_fix_that_comes_in_while_the_routes_are_locked_is_processed_by_another_job(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    route_id = imported(connection, fleet.live, now=now)
    post(connection, fleet.live, positions_at(JOLIET, now), now=now)
    waiting_trucks = tracks.waiting_trucks

    def overtaken(*arguments: Any, early: timedelta) -> Any:
        waiting = waiting_trucks(*arguments, early=early)
        post(connection, fleet.live, positions_at(JOLIET, now + minutes(2), count=1), now=now + minutes(2))
        return waiting

    monkeypatch.setattr(tracks, "waiting_trucks", overtaken)
    assert process(connection, settings, fleet, now=now) == [process_positions_job("live", [fleet.trucks[0]])]
    monkeypatch.undo()
    assert process(connection, settings, fleet, now=now) == [build_plan_job(route_id)]


def test_a_route_that_is_imported_while_its_truck_is_processed_is_processed_too(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    imported(connection, fleet.live, now=now, start=now + hours(2), stops=[PERRYSBURG, NEWARK])
    post(connection, fleet.live, positions_at(PERRYSBURG, now - minutes(20), count=1), now=now)
    post(connection, fleet.live, positions_at(JOLIET, now), now=now)
    waiting_trucks, new = tracks.waiting_trucks, []

    def overtaken(*arguments: Any, early: timedelta) -> Any:
        waiting = waiting_trucks(*arguments, early=early)
        new.append(imported(connection, fleet.live, now=now))
        jobs_of(connection)
        return waiting

    monkeypatch.setattr(tracks, "waiting_trucks", overtaken)
    assert process(connection, settings, fleet, now=now) == [process_positions_job("live", [fleet.trucks[0]])]
    monkeypatch.undo()
    assert process(connection, settings, fleet, now=now) == [build_plan_job(new[0])]
