"""All that waits for a person is found, named and counted, in its own company and environment; nothing else is."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from domain.database.connections import Connection
from domain.needs.need_counts import count_needs
from domain.needs.route_needs import MOST_NAMED, MOST_OF_A_NEED, ROUTE_NEEDS, find_routes_in_need
from domain.routes.intake.holds import expire_held_routes
from tests.domain.helpers import imported, planned_by_hand
from tests.factories import JOLIET, NEWARK, Fleet, make_fleet

NOW = datetime(2026, 11, 23, 18, tzinfo=UTC)
ROUTE_KINDS = {need.kind for need in ROUTE_NEEDS}


def needs(connection: Connection, fleet: Fleet) -> dict[str, list[str]]:
    """The named routes by the kind of their need. The navigation counts as many."""
    found = find_routes_in_need(connection, fleet.live, now=NOW)
    counts = count_needs(connection, fleet.live, now=NOW)
    assert {one.need.kind: one.routes for one in found} == {
        kind: counts[kind] for kind in counts if kind in ROUTE_KINDS
    }
    return {one.need.kind: [route.external_id for route in one.named] for one in found}


def on_its_way(connection: Connection, fleet: Fleet, number: str, **changes: Any) -> UUID:
    """An active route with a plan and its message."""
    route_id = imported(connection, fleet.live, now=NOW, externalId=number, **changes)
    planned_by_hand(connection, route_id, now=NOW)
    connection.execute("UPDATE routes SET status = 'active' WHERE id = %s", (route_id,))
    return route_id


def test_a_quiet_company_needs_nobody(connection: Connection, fleet: Fleet) -> None:
    imported(connection, fleet.live, now=NOW)
    on_its_way(connection, fleet, "FINE")
    assert needs(connection, fleet) == {}


def test_each_need_names_its_routes(connection: Connection, fleet: Fleet) -> None:
    imported(connection, fleet.live, now=NOW, externalId="NO-TRUCK", vehicle={"unitNumber": "9999"})
    imported(connection, fleet.live, now=NOW, externalId="NO-DRIVER", driver={"name": "Nobody"})
    failed = imported(connection, fleet.live, now=NOW, externalId="FAILED")
    connection.execute(
        "UPDATE routes SET status = 'error', closed_reason = 'no station', updated_at = %s WHERE id = %s", (NOW, failed)
    )
    low = on_its_way(connection, fleet, "LOW")
    connection.execute("UPDATE messages SET text = E'LOW FUEL: stop\\nmore' WHERE route_id = %s", (low,))
    mute = imported(connection, fleet.live, now=NOW, externalId="MUTE")
    message = planned_by_hand(connection, mute, now=NOW)
    connection.execute("UPDATE messages SET status = 'failed', error = 'no contact' WHERE id = %s", (message,))
    found = {one.need.kind: one.named[0] for one in find_routes_in_need(connection, fleet.live, now=NOW)}
    assert {kind: one.external_id for kind, one in found.items()} == {
        "vehicle_unmapped": "NO-TRUCK",
        "driver_unmapped": "NO-DRIVER",
        "error": "FAILED",
        "low_fuel": "LOW",
        "message_failed": "MUTE",
    }
    assert found["error"].detail == "no station"
    assert found["low_fuel"].detail == "LOW FUEL: stop"
    assert found["message_failed"].detail == "no contact"


def test_the_first_routes_of_a_need_are_the_first_of_all_not_of_those_that_are_counted(
    connection: Connection, fleet: Fleet
) -> None:
    fail = "UPDATE routes SET status = 'error', updated_at = %s WHERE id = %s"
    before = imported(connection, fleet.live, now=NOW, externalId="BEFORE")
    connection.execute(fail, (NOW - timedelta(hours=1), before))
    connection.execute(
        "INSERT INTO routes SELECT (jsonb_populate_record(r, jsonb_build_object("
        " 'id', lpad(to_hex(n), 32, '0')::uuid, 'external_id', 'BEFORE-' || n,"
        " 'scheduled_start', scheduled_start + (n - %(most)s) * interval '1 s'"
        "))).* FROM routes r, generate_series(1, 2 * %(most)s::int) AS n WHERE r.id = %(before)s",
        {"most": MOST_OF_A_NEED, "before": before},
    )
    newest = imported(connection, fleet.live, now=NOW, externalId="NEWEST")  # the last by id, not by start
    connection.execute(fail, (NOW, newest))
    (need,) = find_routes_in_need(connection, fleet.live, now=NOW)
    assert (need.routes, need.named[0].external_id) == (MOST_OF_A_NEED, "NEWEST")


def test_a_truck_is_late_after_the_window_of_its_next_stop(connection: Connection, fleet: Fleet) -> None:
    window = {"end": (NOW - timedelta(minutes=5)).isoformat()}
    late = on_its_way(connection, fleet, "LATE", stops=[JOLIET, {**NEWARK, "arrivalWindow": window}])
    assert needs(connection, fleet) == {}, "the next stop is the first one, which has no window"
    connection.execute(
        "INSERT INTO visits (company_id, environment, route_id, stop, arrived_at) VALUES (%s, 'live', %s, 0, %s)",
        (fleet.company_id, late, NOW - timedelta(hours=9)),
    )
    assert needs(connection, fleet) == {"late": ["LATE"]}
    connection.execute(
        "INSERT INTO visits (company_id, environment, route_id, stop, arrived_at) VALUES (%s, 'live', %s, 1, %s)",
        (fleet.company_id, late, NOW - timedelta(hours=1)),
    )
    assert needs(connection, fleet) == {}, "it has arrived"


@pytest.mark.parametrize(("minutes", "is_silent"), [(59, False), (61, True)])
def test_a_truck_on_its_way_that_sends_nothing_is_silent(
    connection: Connection, fleet: Fleet, minutes: int, is_silent: bool
) -> None:
    route = on_its_way(connection, fleet, "SILENT")
    connection.execute(
        "INSERT INTO tracks (company_id, vehicle_id, environment, oldest_at, newest_at, latitude, longitude)"
        " SELECT company_id, vehicle_id, 'live', %s, %s, 41, -88 FROM routes WHERE id = %s",
        (NOW - timedelta(days=1), NOW - timedelta(minutes=minutes), route),
    )
    assert needs(connection, fleet) == ({"silent": ["SILENT"]} if is_silent else {})


def test_many_routes_are_counted_and_few_are_named(connection: Connection, fleet: Fleet) -> None:
    for number in range(MOST_NAMED + 2):
        imported(connection, fleet.live, now=NOW, externalId=f"N-{number}", vehicle={"unitNumber": "9999"})
    (need,) = find_routes_in_need(connection, fleet.live, now=NOW)
    assert need.routes == MOST_NAMED + 2
    assert len(need.named) == MOST_NAMED


def test_needs_of_others_are_not_shown(connection: Connection, fleet: Fleet) -> None:
    other = make_fleet(connection)
    imported(connection, other.live, now=NOW, vehicle={"unitNumber": "9999"})
    imported(connection, fleet.sandbox, now=NOW, vehicle={"unitNumber": "9999"})
    assert needs(connection, fleet) == {}


def test_an_error_of_last_month_is_history(connection: Connection, fleet: Fleet) -> None:
    old = imported(connection, fleet.live, now=NOW - timedelta(days=30))
    connection.execute(
        "UPDATE routes SET status = 'error', updated_at = %s WHERE id = %s", (NOW - timedelta(days=8), old)
    )
    assert needs(connection, fleet) == {}


@pytest.mark.parametrize("since_start", [timedelta(days=8), timedelta(days=40)])
def test_a_route_that_was_given_up_long_after_its_start_is_shown(
    connection: Connection, fleet: Fleet, since_start: timedelta
) -> None:
    """A held route ends in error a week after its start, a started one that reaches no stop two weeks after it."""
    start = NOW - since_start
    held = imported(connection, fleet.live, now=start, externalId="HELD", vehicle={"unitNumber": "9999"})
    connection.execute("UPDATE routes SET scheduled_start = %s WHERE id = %s", (start, held))
    assert needs(connection, fleet) == {"vehicle_unmapped": ["HELD"]}

    expire_held_routes(connection, expiry_days=7, now=NOW)
    assert needs(connection, fleet) == {"error": ["HELD"]}
