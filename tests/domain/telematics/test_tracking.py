"""Positions as they are stored and processed, against real PostgreSQL and with the time given (decisions 9 to 11)."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from time import perf_counter
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from domain.contract.shapes import Instant, Position
from domain.database import Connection, Database
from domain.ids import new_id
from domain.jobs import Job, build_plan, in_batches, process_positions
from domain.lifecycle import Environment, RouteStatus
from domain.routes import progress
from domain.routes.fuel_plans import due_plans
from domain.routes.imports import import_routes
from domain.routes.tracking import process_vehicles
from domain.settings import Settings
from domain.telematics import feed, partitions, tracks, window
from domain.telematics.arrivals import Candidate, current_route
from domain.telematics.rechecks import recheck_trucks
from tests.conftest import make_database, own_database
from tests.domain.helpers import (
    deliver,
    imported,
    north_of,
    place_of,
    planned_by_hand,
    positions_at,
    post,
    pushed,
    route_row,
    status_of,
    visits_of,
)
from tests.factories import JOLIET, NEWARK, PERRYSBURG, Fleet, make_fleet
from tests.service import eventually

pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")  # Apprise's, when it loads


HOME = place_of(JOLIET)


def minutes(number: float) -> timedelta:
    return timedelta(minutes=number)


def hours(number: float) -> timedelta:
    return timedelta(hours=number)


def process(connection: Connection, settings: Settings, fleet: Fleet, *, now: datetime, live: bool = True) -> list[Job]:
    """One run of the arrivals worker over the fleet's trucks."""
    environment = Environment.LIVE if live else Environment.SANDBOX
    return process_vehicles(connection, environment, fleet.trucks, settings=settings, now=now)


def stand_at(
    connection: Connection, settings: Settings, fleet: Fleet, stop: dict[str, Any], first: datetime
) -> list[Job]:
    """Truck 101 sends three slow fixes from a stop as they are recorded, and they are processed."""
    now = first + minutes(2)
    post(connection, fleet.live, positions_at(stop, first), now=now)
    return process(connection, settings, fleet, now=now)


def activate(connection: Connection, settings: Settings, route_id: str, *, now: datetime) -> None:
    """A draft whose truck has arrived becomes planned and active: its message goes to the outbox."""
    deliver(connection, planned_by_hand(connection, route_id, now=now), settings=settings, now=now)


def dropped(connection: Connection, fleet: Fleet) -> dict[str, int]:
    rows = connection.execute(
        "SELECT reason, sum(count)::int AS count FROM dropped_fixes WHERE company_id = %s GROUP BY reason",
        (fleet.company_id,),
    ).fetchall()
    return {row.reason: row.count for row in rows}


def stored_fixes(connection: Connection, fleet: Fleet) -> int:
    row = connection.execute(
        "SELECT count(*) AS count FROM positions WHERE vehicle_id = ANY(%s)", (list(fleet.trucks),)
    ).fetchone()
    assert row is not None
    return int(row.count)


def position(recorded_at: datetime, **names: Any) -> Position:
    """A position at Joliet of whatever vehicle the names mean."""
    return Position(
        latitude=HOME.latitude,
        longitude=HOME.longitude,
        recorded_at=Instant.fromtimestamp_utc(recorded_at),
        **names,
    )


# --- What the feed takes ---------------------------------------------------------------------------------------


def test_an_unknown_vehicle_is_rejected_by_its_index_and_costs_the_others_nothing(
    connection: Connection, fleet: Fleet, now: datetime
) -> None:
    feed = post(
        connection,
        fleet.live,
        [position(now, unit_number="101"), position(now, unit_number="999"), position(now, unit_number="102")],
        now=now,
    )

    assert feed.accepted == 2
    assert [(fault.index, fault.message) for fault in feed.rejected] == [(1, "unitNumber: unknown vehicle '999'")]
    assert stored_fixes(connection, fleet) == 2


def test_an_ambiguous_vin_is_rejected_not_guessed(connection: Connection, fleet: Fleet, now: datetime) -> None:
    vin = "1XKAD49X0CJ000101"
    connection.execute(
        "INSERT INTO vehicles (id, company_id, unit_number, vin) VALUES (%s, %s, '301', %s)",
        (new_id("veh"), fleet.company_id, vin),
    )

    feed = post(connection, fleet.live, [position(now, unit_number=None, vin=vin)], now=now)

    assert [fault.message for fault in feed.rejected] == [f"vin: fits more than one vehicle '{vin}'"]


def test_references_to_different_vehicles_are_rejected(connection: Connection, fleet: Fleet, now: datetime) -> None:
    feed = post(connection, fleet.live, [position(now, unit_number="101", vehicle_id=fleet.trucks[1])], now=now)

    assert [fault.message for fault in feed.rejected] == ["the references name different vehicles"]


def test_a_vehicle_is_known_by_unit_number_vin_and_id(connection: Connection, fleet: Fleet, now: datetime) -> None:
    feed = post(
        connection,
        fleet.live,
        [
            position(now, unit_number="101"),
            position(now - minutes(1), vin="1XKAD49X0CJ000101"),
            position(now - minutes(2), vehicle_id=fleet.trucks[0]),
        ],
        now=now,
    )

    assert (feed.accepted, feed.rejected, feed.dropped) == (3, [], {})


@pytest.mark.parametrize("name", ["unit_number", "vin"])
def test_a_mapping_beats_the_stored_value(connection: Connection, fleet: Fleet, now: datetime, name: str) -> None:
    value = {"unit_number": "101", "vin": "1XKAD49X0CJ000101"}[name]
    connection.execute(
        "INSERT INTO mappings (company_id, kind, value, target_id) VALUES (%s, %s, %s, %s)",
        (fleet.company_id, name, value, fleet.trucks[1]),
    )

    post(connection, fleet.live, [position(now, **{name: value})], now=now)

    (row,) = connection.execute("SELECT vehicle_id FROM positions WHERE vehicle_id = ANY(%s)", (list(fleet.trucks),))
    assert row.vehicle_id == fleet.trucks[1]


def test_a_vehicle_or_mapping_of_another_company_is_unknown(
    connection: Connection, fleet: Fleet, now: datetime
) -> None:
    other = make_fleet(connection)
    connection.execute("UPDATE vehicles SET unit_number = 'theirs' WHERE id = %s", (other.trucks[0],))
    connection.execute(
        "INSERT INTO mappings (company_id, kind, value, target_id) VALUES (%s, 'unit_number', 'mapped', %s)",
        (other.company_id, other.trucks[0]),
    )

    feed = post(
        connection,
        fleet.live,
        [
            position(now, vehicle_id=other.trucks[0]),
            position(now, unit_number="theirs"),
            position(now, unit_number="mapped"),
        ],
        now=now,
    )

    assert (feed.accepted, len(feed.rejected)) == (0, 3)
    assert stored_fixes(connection, other) == 0


def test_a_repeat_is_accepted_counted_and_stored_once(connection: Connection, fleet: Fleet, now: datetime) -> None:
    post(connection, fleet.live, [position(now, unit_number="101")], now=now)

    feed = post(
        connection,
        fleet.live,
        [position(now, unit_number="101"), position(now, vehicle_id=fleet.trucks[0]), position(now, unit_number="102")],
        now=now,
    )

    assert (feed.accepted, feed.rejected, feed.dropped) == (3, [], {"repeated": 2})
    assert stored_fixes(connection, fleet) == 2
    assert dropped(connection, fleet) == {"repeated": 2}


def test_an_inaccurate_fix_is_accepted_counted_and_not_stored(
    connection: Connection, fleet: Fleet, now: datetime
) -> None:
    feed = post(connection, fleet.live, [position(now, unit_number="101", accuracy_meters=201.0)], now=now)

    assert (feed.accepted, feed.dropped) == (1, {"inaccurate": 1})
    assert stored_fixes(connection, fleet) == 0
    assert dropped(connection, fleet) == {"inaccurate": 1}


def test_a_time_ahead_is_dropped_live_and_kept_in_the_sandbox(
    connection: Connection, fleet: Fleet, now: datetime
) -> None:
    ahead = [position(now + minutes(6), unit_number="101")]

    assert post(connection, fleet.live, ahead, now=now).dropped == {"in_the_future": 1}
    assert post(connection, fleet.sandbox, ahead, now=now).dropped == {}
    assert stored_fixes(connection, fleet) == 1


def test_a_truck_without_an_open_route_costs_no_job(connection: Connection, fleet: Fleet, now: datetime) -> None:
    imported(connection, fleet.live, now=now, vehicle={"unitNumber": "102"})

    assert post(connection, fleet.live, [position(now, unit_number="101")], now=now).jobs == []


def test_the_trucks_of_open_routes_are_processed_by_one_job(
    connection: Connection, fleet: Fleet, now: datetime
) -> None:
    imported(connection, fleet.live, now=now)
    imported(connection, fleet.live, now=now, vehicle={"unitNumber": "102"})

    feed = post(connection, fleet.live, [position(now, unit_number="101"), position(now, unit_number="102")], now=now)

    assert len(feed.jobs) == 1
    assert feed.jobs[0].payload["environment"] == "live"
    assert sorted(feed.jobs[0].payload["vehicle_ids"]) == sorted(fleet.trucks)


# --- Arriving --------------------------------------------------------------------------------------------------


def test_a_draft_whose_truck_stands_at_the_first_stop_has_arrived_and_a_plan_is_due(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    route_id = imported(connection, fleet.live, now=now)

    jobs = stand_at(connection, settings, fleet, JOLIET, now)

    assert jobs == [build_plan(route_id)]
    assert route_row(connection, route_id).arrived_at == now
    assert visits_of(connection, route_id) == {0: (now, None)}


def test_the_rule_and_the_fixes_behind_a_visit_are_kept(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    route_id = imported(connection, fleet.live, now=now)

    stand_at(connection, settings, fleet, JOLIET, now)

    (row,) = connection.execute("SELECT arrival_evidence FROM visits WHERE route_id = %s", (route_id,)).fetchall()
    assert row.arrival_evidence["rule"] == "two fixes in a row inside below 5 mph"
    recorded = [Instant.parse(fix["recordedAt"]) for fix in row.arrival_evidence["fixes"]]
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


def test_implausible_fixes_are_counted_in_the_order_of_the_companies(settings: Settings, now: datetime) -> None:
    def count(connection: Connection, fleet: Fleet) -> None:
        feed.count_dropped(connection, fleet.live, {"implausible": 1}, now=now)

    with own_database("counts") as database, ThreadPoolExecutor(1) as threads:
        with database.transaction() as connection:
            first, second = (make_fleet(connection) for _ in range(2))
            # the trucks are in the other order
            truck, later_truck = second.trucks[0], new_id("veh")
            connection.execute("UPDATE vehicles SET id = %s WHERE id = %s", (later_truck, first.trucks[0]))
            for fleet in (first, second):
                imported(connection, fleet.live, now=now)
                wild = [(PERRYSBURG, -2), (JOLIET, -1), (PERRYSBURG, 0)]
                fixes = [fix for stop, at in wild for fix in positions_at(stop, now + minutes(at), count=1)]
                post(connection, fleet.live, fixes, now=now)

        def process_both() -> None:
            with database.transaction() as connection:
                process_vehicles(connection, Environment.LIVE, [truck, later_truck], settings=settings, now=now)

        with database.transaction() as holder:
            count(holder, first)
            processing = threads.submit(process_both)
            eventually(lambda: holder.execute("SELECT FROM pg_locks WHERE NOT granted").rowcount, bool)
            count(holder, second)
        processing.result()

        with database.transaction() as connection:
            assert [dropped(connection, fleet) for fleet in (first, second)] == [{"implausible": 2}] * 2


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


# --- Standing at the stop when the route is imported -----------------------------------------------------------


def test_a_truck_that_stands_at_the_first_stop_when_its_route_is_imported_has_arrived(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    post(connection, fleet.live, positions_at(JOLIET, now - minutes(14), count=2), now=now - minutes(13))
    route_id = imported(connection, fleet.live, now=now)

    jobs = process(connection, settings, fleet, now=now)

    assert jobs == [build_plan(route_id)]
    assert visits_of(connection, route_id) == {0: (now - minutes(14), None)}


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

    _, jobs = import_routes(connection, [route_id], now=now)

    assert jobs == [process_positions("live", [fleet.trucks[0]])]


# --- Which route starts ----------------------------------------------------------------------------------------


def test_only_the_earliest_draft_starts(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    later = imported(connection, fleet.live, now=now, start=now + hours(3))
    earlier = imported(connection, fleet.live, now=now, start=now + hours(1))

    assert stand_at(connection, settings, fleet, JOLIET, now) == [build_plan(earlier)]
    assert visits_of(connection, later) == {}


@pytest.mark.parametrize(("hours_ahead", "starts"), [(11.9, True), (12.1, False)])
def test_a_draft_can_start_from_twelve_hours_before_its_start(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime, hours_ahead: float, starts: bool
) -> None:
    route_id = imported(connection, fleet.live, now=now, start=now + hours(hours_ahead))

    stand_at(connection, settings, fleet, JOLIET, now)

    assert bool(visits_of(connection, route_id)) is starts


def test_a_draft_that_is_a_day_late_stands_in_the_way_no_more(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    imported(connection, fleet.live, now=now, start=now - hours(25))
    following = imported(connection, fleet.live, now=now, start=now + hours(1))

    assert stand_at(connection, settings, fleet, JOLIET, now) == [build_plan(following)]


def test_a_live_position_never_moves_a_sandbox_route_nor_the_other_way_round(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    live = imported(connection, fleet.live, now=now)
    sandbox = imported(connection, fleet.sandbox, now=now)

    post(connection, fleet.live, positions_at(JOLIET, now), now=now)
    assert process(connection, settings, fleet, now=now, live=False) == []
    assert process(connection, settings, fleet, now=now, live=True) == [build_plan(live)]
    assert visits_of(connection, sandbox) == {}

    post(connection, fleet.sandbox, positions_at(JOLIET, now + minutes(30)), now=now)
    assert process(connection, settings, fleet, now=now, live=False) == [build_plan(sandbox)]
    assert visits_of(connection, live) == {0: (now, None)}


def test_a_later_stop_reached_first_starts_the_plan_from_there(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    route_id = imported(connection, fleet.live, now=now, stops=[JOLIET, PERRYSBURG, NEWARK])

    assert stand_at(connection, settings, fleet, PERRYSBURG, now) == [build_plan(route_id)]
    assert visits_of(connection, route_id) == {1: (now, None)}


# --- Completing ------------------------------------------------------------------------------------------------


def test_the_last_stop_completes_an_active_route(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    route_id = imported(connection, fleet.live, now=now)
    stand_at(connection, settings, fleet, JOLIET, now)
    activate(connection, settings, route_id, now=now + minutes(3))

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


def test_a_completed_route_frees_its_truck(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    route_id = imported(connection, fleet.live, now=now)
    stand_at(connection, settings, fleet, JOLIET, now)
    activate(connection, settings, route_id, now=now + minutes(3))
    stand_at(connection, settings, fleet, NEWARK, now + hours(14))

    (track,) = connection.execute("SELECT * FROM tracks WHERE vehicle_id = %s", (fleet.trucks[0],)).fetchall()
    assert track.free_since == now + hours(14)


def test_no_other_route_starts_while_one_is_active(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    first = imported(connection, fleet.live, now=now)
    stand_at(connection, settings, fleet, JOLIET, now)
    activate(connection, settings, first, now=now + minutes(3))
    second = imported(connection, fleet.live, now=now, start=now - hours(2), stops=[JOLIET, PERRYSBURG])

    stand_at(connection, settings, fleet, JOLIET, now + minutes(10))

    assert visits_of(connection, second) == {}


def test_where_one_route_ends_and_the_next_begins_a_standing_truck_arrives_at_the_next(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    first = imported(connection, fleet.live, now=now)
    stand_at(connection, settings, fleet, JOLIET, now)
    activate(connection, settings, first, now=now + minutes(3))
    second = imported(connection, fleet.live, now=now, start=now + hours(15), stops=[NEWARK, PERRYSBURG])

    jobs = stand_at(connection, settings, fleet, NEWARK, now + hours(14))
    assert status_of(connection, first) is RouteStatus.COMPLETED
    assert jobs == [process_positions("live", [fleet.trucks[0]])]  # the truck may stand at its next first stop

    assert process(connection, settings, fleet, now=now + hours(14)) == [build_plan(second)]
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
        "INSERT INTO visits (route_id, stop, arrived_at, arrival_evidence) VALUES (%s, 1, %s, '{}')",
        (first, now + minutes(5)),
    )

    progress.complete_routes(connection, [first], now=now + minutes(6))
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


def test_late_fixes_from_before_the_start_do_not_complete_an_active_route(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    route_id = imported(connection, fleet.live, now=now)
    stand_at(connection, settings, fleet, JOLIET, now)
    activate(connection, settings, route_id, now=now + minutes(3))

    buffered = positions_at(NEWARK, now - hours(10), count=3)  # where the truck was in the morning
    post(connection, fleet.live, buffered, now=now + minutes(10))
    process(connection, settings, fleet, now=now + minutes(10))

    assert status_of(connection, route_id) is RouteStatus.ACTIVE


def test_a_truck_at_home_does_not_end_its_trip_home_before_it_has_begun(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    post(connection, fleet.live, positions_at(JOLIET, now - hours(1), count=3), now=now - minutes(50))
    route_id = imported(connection, fleet.live, now=now, start=now + hours(8), stops=[PERRYSBURG, JOLIET])

    for number in range(4):
        assert stand_at(connection, settings, fleet, JOLIET, now + hours(number)) == []
    assert visits_of(connection, route_id) == {}

    assert stand_at(connection, settings, fleet, PERRYSBURG, now + hours(8)) == [build_plan(route_id)]
    assert visits_of(connection, route_id).keys() == {0}


def test_fresh_fixes_that_come_with_late_ones_are_not_lost(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    route_id = imported(connection, fleet.live, now=now)
    stand_at(connection, settings, fleet, JOLIET, now)
    activate(connection, settings, route_id, now=now + minutes(3))

    morning, arrival = now - hours(10), now + hours(14)  # a tracker sends all that it has kept
    buffered = [*positions_at(NEWARK, morning), *positions_at(NEWARK, arrival)]
    post(connection, fleet.live, buffered, now=arrival + minutes(2))
    process(connection, settings, fleet, now=arrival + minutes(2))

    assert visits_of(connection, route_id).get(1) == (arrival, None)
    assert status_of(connection, route_id) is RouteStatus.COMPLETED


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


# --- Times at the edge of what can be told ---------------------------------------------------------------------

FIRST_MOMENT = datetime(1, 1, 1, tzinfo=UTC)  # what .NET sends for "no time"


def test_a_start_in_the_year_one_does_not_stop_the_processing(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    imported(connection, fleet.live, now=now, start=FIRST_MOMENT, vehicle={"unitNumber": "102"})
    sound = imported(connection, fleet.live, now=now)
    fixes = [*positions_at(JOLIET, now), *positions_at(JOLIET, now, unit_number="102")]
    post(connection, fleet.live, fixes, now=now)

    assert build_plan(sound) in process(connection, settings, fleet, now=now)


def test_a_fix_in_the_year_one_does_not_stop_the_processing(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    imported(connection, fleet.live, now=now, vehicle={"unitNumber": "102"})
    sound = imported(connection, fleet.live, now=now)
    fixes = [*positions_at(JOLIET, now), *positions_at(JOLIET, FIRST_MOMENT, unit_number="102")]
    post(connection, fleet.live, fixes, now=now)

    assert build_plan(sound) in process(connection, settings, fleet, now=now)


def test_simulated_time_may_reach_the_last_year_there_is(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    route_id = imported(connection, fleet.sandbox, now=now)
    last = datetime(9999, 12, 31, 23, 58, tzinfo=UTC)
    post(connection, fleet.sandbox, positions_at(JOLIET, last, count=2), now=now)

    assert process(connection, settings, fleet, now=now, live=False) == [build_plan(route_id)]


# --- Lost work and housekeeping --------------------------------------------------------------------------------


def test_processing_is_lost_once_it_has_waited_however_often_the_truck_posts(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    imported(connection, fleet.live, now=now)

    def lost(seconds: float) -> bool:
        found = tracks.lost_processing(connection, now=now + timedelta(seconds=seconds))
        return fleet.trucks[0] in found.get("live", [])

    for seconds in range(0, 30, 5):
        moment = now + timedelta(seconds=seconds)
        post(connection, fleet.live, positions_at(JOLIET, moment, count=1), now=moment)
        assert lost(seconds) is (seconds >= 10)
    process(connection, settings, fleet, now=now)
    assert not lost(300)


def test_a_truck_that_waits_for_long_adds_no_job_with_every_post(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    imported(connection, fleet.live, now=now)

    def jobs(seconds: float) -> int:
        moment = now + timedelta(seconds=seconds)
        return len(post(connection, fleet.live, positions_at(JOLIET, moment, count=1), now=moment).jobs)

    assert [jobs(seconds) for seconds in (0, 30, 60, 65, 3600)] == [1, 1, 1, 0, 0]
    process(connection, settings, fleet, now=now)
    assert jobs(3605) == 1


def partitions_of(connection: Connection, fleet: Fleet) -> list[str]:
    """Where each fix of truck 101 is kept, in order of time."""
    rows = connection.execute(
        "SELECT tableoid::regclass::text AS name FROM positions WHERE vehicle_id = %s ORDER BY recorded_at",
        (fleet.trucks[0],),
    ).fetchall()
    return [row.name for row in rows]


def test_positions_are_kept_by_day_and_go_after_the_retention(
    connection: Connection, fleet: Fleet, now: datetime
) -> None:
    def keep(days_later: float) -> int:
        later = now + timedelta(days=days_later)
        removed = partitions.keep_positions(connection, retention_days=30, now=later)
        partitions.forget_positions(connection, days=30, now=later, limit=1_000)
        return removed

    keep(0)
    for days in (-31, -29, 0, 7, 8):
        at = now + timedelta(days=days)
        post(connection, fleet.live, positions_at(JOLIET, at, count=1), now=at)
    post(connection, fleet.sandbox, positions_at(JOLIET, now, count=1), now=now)
    today, in_a_week, after = (f"positions_live_{now + timedelta(days=days):%Y%m%d}" for days in (0, 7, 8))
    other, sandbox = "positions_live_other", "positions_sandbox"
    assert sorted(partitions_of(connection, fleet)) == sorted([other, other, today, in_a_week, other, sandbox])

    assert keep(1) == 0  # what came in before its day had a partition moves into it
    assert sorted(partitions_of(connection, fleet)) == sorted([other, today, in_a_week, after, sandbox])
    assert keep(31) == 1
    assert sorted(partitions_of(connection, fleet)) == sorted([in_a_week, after])
    assert keep(100) > 7
    assert partitions_of(connection, fleet) == []


def test_what_happens_far_from_every_stop_is_stored_and_not_processed(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    imported(connection, fleet.live, now=now, stops=[JOLIET, NEWARK])

    def jobs(meters: float, at: datetime) -> list[Job]:
        place = north_of(HOME, meters)
        stop = {"latitude": place.latitude, "longitude": place.longitude}
        return post(connection, fleet.live, positions_at(stop, at, count=1), now=at).jobs

    processed = [process_positions("live", [fleet.trucks[0]])]
    assert jobs(5000, now) == jobs(2000, now + minutes(1)) == []
    assert jobs(249, now + minutes(2)) == processed
    process(connection, settings, fleet, now=now + minutes(2))
    stand_at(connection, settings, fleet, JOLIET, now + minutes(3))
    assert jobs(5000, now + minutes(10)) == processed  # it may be leaving
    stand_at(
        connection, settings, fleet, {"latitude": HOME.latitude + 0.1, "longitude": HOME.longitude}, now + hours(1)
    )
    assert jobs(50_000, now + hours(2)) == []
    assert jobs(60_000, now + minutes(9)) == processed  # late, and older than the departure


def test_the_last_position_is_the_newest_whatever_came_in_last(
    connection: Connection, fleet: Fleet, now: datetime
) -> None:
    for place, minutes_later in ((JOLIET, 0), (NEWARK, 10), (PERRYSBURG, 5)):
        at = now + timedelta(minutes=minutes_later)
        post(connection, fleet.live, positions_at(place, at, count=2), now=now + timedelta(minutes=15))

    track = connection.execute("SELECT * FROM tracks WHERE vehicle_id = %s", (fleet.trucks[0],)).fetchone()
    assert track is not None
    assert (track.latitude, track.longitude) == (NEWARK["latitude"], NEWARK["longitude"])
    assert (track.oldest_at, track.newest_at) == (now, now + timedelta(minutes=10, seconds=30))


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

    progress.expire_started_routes(connection, expiry_days=14, now=now + timedelta(days=13))
    assert status_of(connection, route_id) is RouteStatus(status)
    _, jobs = progress.expire_started_routes(connection, expiry_days=14, now=later)
    row = route_row(connection, route_id)
    assert (row.status, row.retry_at) == ("error", None)
    assert row.closed_reason.endswith("no stop was reached for 14 days")
    if message_id is not None:
        (message,) = connection.execute("SELECT status FROM messages WHERE id = %s", (message_id,)).fetchall()
        assert message.status == "failed"
    assert fleet.trucks[0] in [truck for job in jobs for truck in job.payload["vehicle_ids"]]
    assert process(connection, settings, fleet, now=later) == [build_plan(following)]


def test_new_plans_are_no_sign_of_life_of_a_truck(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    route_id = imported(connection, fleet.live, now=now)
    stand_at(connection, settings, fleet, JOLIET, now)
    planned_by_hand(connection, route_id, now=now)
    later = now + timedelta(days=14, hours=1)
    connection.execute("UPDATE routes SET updated_at = %s WHERE id = %s", (later, route_id))  # as with every new price

    progress.expire_started_routes(connection, expiry_days=14, now=later)

    assert status_of(connection, route_id) is RouteStatus.ERROR


def test_a_simulated_truck_lives_by_our_clock(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    route_id = imported(connection, fleet.sandbox, now=now, start=now - timedelta(days=30))
    post(connection, fleet.sandbox, positions_at(JOLIET, now - timedelta(days=30)), now=now)
    process(connection, settings, fleet, now=now, live=False)
    planned_by_hand(connection, route_id, now=now)

    progress.expire_started_routes(connection, expiry_days=14, now=now + timedelta(days=13))

    assert status_of(connection, route_id) is RouteStatus.PLANNED


# --- Much of everything ----------------------------------------------------------------------------------------


def drafts_of(connection: Connection, fleet: Fleet, count: int, *, stops: int, now: datetime) -> None:
    """Drafts of truck 101 that start one after the other, each with so many stops far away."""
    far = [{"name": f"stop {number}", "latitude": 30.0, "longitude": -100 + number / 10} for number in range(stops)]
    for number in range(count):
        imported(connection, fleet.live, now=now, start=now + minutes(5 * number), stops=far)


def test_the_cost_of_fixes_does_not_grow_with_the_drafts_of_their_truck(
    connection: Connection, fleet: Fleet, now: datetime
) -> None:
    def seconds(first: datetime) -> float:
        def once(number: int) -> float:
            fixes = positions_at(JOLIET, first + minutes(number), count=500, seconds_apart=0.1, speed_mph=60)
            started = perf_counter()
            post(connection, fleet.live, fixes, now=now)
            return perf_counter() - started

        return min(once(number) for number in range(3))

    drafts_of(connection, fleet, 4, stops=50, now=now)
    few = seconds(now - minutes(10))
    drafts_of(connection, fleet, 96, stops=50, now=now)
    many = seconds(now - minutes(5))

    assert many < 5 * few


def fixes_loaded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many fixes each processing loads from now on."""
    loaded: list[int] = []
    believed = window.believed_fixes

    def counted(window: Any) -> Any:
        loaded.append(len(window))
        return believed(window)

    monkeypatch.setattr(window, "believed_fixes", counted)
    return loaded


def test_one_old_fix_does_not_open_a_month_of_positions(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    drive = positions_at(NEWARK, now - timedelta(days=29), count=1000, seconds_apart=2400, speed_mph=50)
    post(connection, fleet.live, drive, now=now)
    imported(connection, fleet.live, now=now)
    stand_at(connection, settings, fleet, JOLIET, now)
    loaded = fixes_loaded(monkeypatch)

    old = positions_at(JOLIET, now - timedelta(days=29, minutes=1), count=1)
    assert post(connection, fleet.live, old, now=now).jobs == []
    connection.execute(
        "UPDATE tracks SET unjudged_from = %s WHERE vehicle_id = %s", (now - timedelta(days=29), fleet.trucks[0])
    )
    process(connection, settings, fleet, now=now)

    assert max(loaded, default=0) < 50


def test_a_truck_with_many_fixes_is_processed_in_portions_to_the_same_visits(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracks, "_MAX_FIXES", 60)
    loaded = fixes_loaded(monkeypatch)
    route_id = imported(connection, fleet.live, now=now, start=now, stops=[JOLIET, PERRYSBURG, NEWARK])
    arrivals = [now, now + hours(5), now + hours(20)]
    for stop, at in zip((JOLIET, PERRYSBURG, NEWARK), arrivals, strict=True):
        post(connection, fleet.live, positions_at(stop, at, count=100, seconds_apart=10), now=arrivals[-1] + hours(1))

    rounds = 0
    while jobs := process(connection, settings, fleet, now=now):
        assert jobs == [process_positions("live", [fleet.trucks[0]])]
        lost = tracks.lost_processing(connection, now=now + timedelta(seconds=9))
        assert fleet.trucks[0] not in lost.get("live", [])
        rounds += 1

    assert rounds == 4
    assert max(loaded) <= 60 + 61  # what is new, and ten minutes before it
    assert [visit[0] for visit in visits_of(connection, route_id).values()] == arrivals
    assert route_id in due_plans(connection, now=now + timedelta(seconds=10))


def test_a_truck_that_sends_many_fixes_a_second_is_processed_to_the_end(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracks, "_MAX_FIXES", 60)
    monkeypatch.setattr(tracks, "_MAX_CONTEXT_FIXES", 30)
    loaded = fixes_loaded(monkeypatch)
    imported(connection, fleet.live, now=now)
    post(connection, fleet.live, positions_at(JOLIET, now, count=1000, seconds_apart=0.01), now=now)

    rounds = 1
    while process(connection, settings, fleet, now=now):
        rounds += 1

    assert (rounds, max(loaded)) == (17, 90)


def test_a_large_fleet_is_processed_by_several_jobs(connection: Connection, fleet: Fleet, now: datetime) -> None:
    connection.execute(
        "INSERT INTO vehicles (id, company_id, unit_number)"
        " SELECT %s || number, %s, 'T' || number FROM generate_series(1, 100) AS number",
        (new_id("veh"), fleet.company_id),
    )
    fixes = []
    for number in range(1, 101):
        imported(connection, fleet.live, now=now, vehicle={"unitNumber": f"T{number}"})
        fixes += positions_at(JOLIET, now, count=1, unit_number=f"T{number}")

    jobs = post(connection, fleet.live, fixes, now=now).jobs

    assert sorted(len(job.payload["vehicle_ids"]) for job in jobs) == [36, 64]


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
    assert process(connection, settings, fleet, now=now) == [process_positions("live", [fleet.trucks[0]])]
    monkeypatch.undo()
    assert process(connection, settings, fleet, now=now) == [build_plan(route_id)]


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
        return waiting

    monkeypatch.setattr(tracks, "waiting_trucks", overtaken)
    assert process(connection, settings, fleet, now=now) == [process_positions("live", [fleet.trucks[0]])]
    monkeypatch.undo()
    assert process(connection, settings, fleet, now=now) == [build_plan(new[0])]


# --- Laws ------------------------------------------------------------------------------------------------------

GAPS_SECONDS = (20, 60, 120, 181, 400, 1500)


@st.composite
def drives(draw: st.DrawFn) -> list[tuple[float, float, float | None]]:
    """Seconds, meters north of the first stop, speed: a truck that wanders up and down a road of three stops."""
    seconds, meters = 0.0, 0.0
    fixes = []
    for gap, ahead, mph in draw(
        st.lists(
            st.tuples(
                st.sampled_from(GAPS_SECONDS),
                st.sampled_from([0.0, 0.0, 60.0, -60.0, 280.0, -280.0, 700.0, 5000.0, -5000.0]),
                st.sampled_from([None, 0.0, 3.0, 20.0, 55.0]),
            ),
            min_size=1,
            max_size=25,
        )
    ):
        seconds += gap
        meters = max(-1000.0, min(meters + max(-50 * gap, min(ahead, 50 * gap)), 12_000.0))
        fixes.append((seconds, meters, mph))
    return fixes


Drive = list[tuple[float, float, float | None]]


def visits_after(
    connection: Connection, settings: Settings, drive: Drive, stops_meters: tuple[float, ...], *, size: int
) -> dict[int, tuple[datetime, datetime | None]]:
    """The visits of a route along that road when the drive's fixes come in and are processed so many at a time."""
    now = datetime(2026, 3, 1, 12, tzinfo=UTC)
    stops = [
        {"name": f"stop {meters}", "latitude": there.latitude, "longitude": there.longitude}
        for meters in stops_meters
        for there in [north_of(HOME, meters)]
    ]
    fixes = [
        Position(
            latitude=there.latitude,
            longitude=there.longitude,
            recorded_at=Instant.fromtimestamp_utc(now + timedelta(seconds=seconds)),
            unit_number="101",
            speed_mph=mph,
        )
        for seconds, meters, mph in drive
        for there in [north_of(HOME, meters)]
    ]
    with connection.transaction(force_rollback=True):
        fleet = make_fleet(connection)
        route_id = imported(connection, fleet.live, now=now, start=now, stops=stops)
        for batch in in_batches(fixes, size):
            moment = batch[-1].recorded_at
            post(connection, fleet.live, batch, now=moment)
            while process_positions("live", [fleet.trucks[0]]) in process(connection, settings, fleet, now=moment):
                pass  # the rest, where there are more than are processed at once
        return visits_of(connection, route_id)


@hypothesis_settings(
    deadline=None, max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture], derandomize=True
)
@given(drives(), st.integers(1, 5))
def test_fixes_processed_one_by_one_or_together_give_the_same_visits(
    connection: Connection, settings: Settings, drive: Drive, size: int
) -> None:
    stops_meters = (0.0, 5000.0, 10_000.0)
    together = visits_after(connection, settings, drive, stops_meters, size=1000)

    assert visits_after(connection, settings, drive, stops_meters, size=size) == together
    arrivals = [together[stop][0] for stop in sorted(together)]
    assert arrivals == sorted(arrivals)


@hypothesis_settings(
    deadline=None, max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture], derandomize=True
)
@given(drives(), st.integers(1, 5))
def test_fixes_processed_in_portions_or_together_give_the_same_visits(
    connection: Connection, settings: Settings, drive: Drive, portion: int
) -> None:
    stops_meters = (0.0, 5000.0, 10_000.0)
    together = visits_after(connection, settings, drive, stops_meters, size=1000)

    with patch.multiple(tracks, _MAX_FIXES=portion, _MIN_PORTION=portion):
        assert visits_after(connection, settings, drive, stops_meters, size=1000) == together


def test_overlapping_stops_are_reached_alike_however_the_fixes_come(connection: Connection, settings: Settings) -> None:
    drive: Drive = [(20, 60, None), *((1500.0 + seconds, 120.0, None) for seconds in range(20, 141, 20))]

    together = visits_after(connection, settings, drive, (0.0, 350.0, 5000.0), size=1000)

    assert visits_after(connection, settings, drive, (0.0, 350.0, 5000.0), size=1) == together


OpenRoutes = list[tuple[float, bool, int]]
"""Hours until the start, whether its truck has arrived, which of five places its first stop is."""


@hypothesis_settings(
    deadline=None, max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture], derandomize=True
)
@given(
    st.lists(
        st.tuples(
            st.sampled_from([-60.0, -30.0, -24.0, -2.0, 0.0, 5.0, 11.0, 12.0, 13.0]), st.booleans(), st.integers(0, 4)
        ),
        max_size=8,
    ),
    st.lists(st.tuples(st.sampled_from([-20.0, -5.0, -1.0, -0.1, 0.0]), st.integers(0, 5)), min_size=1, max_size=4),
)
def test_every_fix_that_can_move_the_current_route_is_marked(
    connection: Connection, fleet: Fleet, now: datetime, open_routes: OpenRoutes, sent: list[tuple[float, int]]
) -> None:
    """By the rule itself, over all open routes: `feed` looks only at a few of them."""
    places = [north_of(HOME, 5000.0 * number) for number in range(6)]
    early = hours(12)
    with connection.transaction(force_rollback=True):
        candidates, firsts = [], {}
        for ahead, started, place in open_routes:
            stop = {"name": "first", "latitude": places[place].latitude, "longitude": places[place].longitude}
            route_id = imported(connection, fleet.live, now=now, start=now + hours(ahead), stops=[stop, NEWARK])
            arrived_at = now - hours(1) if started else None
            connection.execute("UPDATE routes SET arrived_at = %s WHERE id = %s", (arrived_at, route_id))
            candidates.append(Candidate(route_id, RouteStatus.DRAFT, now + hours(ahead), arrived_at))
            firsts[route_id] = place
        fixes = {now + hours(ahead): place for ahead, place in sent}
        positions = [
            Position(
                latitude=places[place].latitude,
                longitude=places[place].longitude,
                recorded_at=Instant.fromtimestamp_utc(at),
                unit_number="101",
            )
            for at, place in fixes.items()
        ]
        post(connection, fleet.live, positions, now=now)
        (track,) = connection.execute("SELECT unjudged_from FROM tracks WHERE vehicle_id = %s", (fleet.trucks[0],))

        current = current_route(candidates, max(fixes), early=early)
        wanted = [
            at
            for at, place in fixes.items()
            if current is not None and place == firsts[current.route_id] and current.scheduled_start - at <= early
        ]
        if wanted:
            assert track.unjudged_from is not None
            assert track.unjudged_from <= min(wanted)
        if not firsts.keys() or not set(fixes.values()) & set(firsts.values()):
            assert track.unjudged_from is None


def test_trucks_that_are_looked_at_again_are_locked_in_the_order_in_which_the_feed_locks_them(
    worker_id: str, now: datetime
) -> None:
    def free(connection: Connection) -> list[str]:
        rows = connection.execute("SELECT vehicle_id FROM tracks ORDER BY vehicle_id FOR UPDATE SKIP LOCKED").fetchall()
        return [row.vehicle_id for row in rows]

    with Database(make_database(f"tracks_{worker_id}")) as database, ThreadPoolExecutor(1) as threads:
        with database.transaction() as connection:
            fleet = make_fleet(connection)
            units = [f"T{number}" for number in range(40)]
            connection.execute(
                "INSERT INTO vehicles (id, company_id, unit_number) SELECT 'veh_' || unit, %s, unit"
                " FROM unnest(%s::text[]) AS unit",
                (fleet.company_id, units),
            )
            routes = [imported(connection, fleet.live, now=now, vehicle={"unitNumber": unit}) for unit in units]
            for unit in reversed(units):  # as the table holds them
                post(connection, fleet.live, positions_at(NEWARK, now, count=1, unit_number=unit), now=now)
            first, *others = free(connection)

        def look_again() -> None:
            with database.transaction() as connection:
                recheck_trucks(connection, routes, now=now)

        with database.transaction() as holder:
            holder.execute("SELECT FROM tracks WHERE vehicle_id = %s FOR UPDATE", (first,))
            looking = threads.submit(look_again)
            eventually(lambda: holder.execute("SELECT FROM pg_locks WHERE NOT granted").rowcount, bool)
            with database.transaction() as connection:
                assert free(connection) == others
        looking.result()
