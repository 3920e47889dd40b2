"""The present of a fleet: each truck with its newest fix, its current route, and what a dispatcher has to know."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from domain.database.connections import Connection
from domain.database.visibility import of_companies
from domain.ids import new_id
from domain.needs.route_needs import find_routes_in_need
from domain.routes.reading.fleet_now import TruckNow, read_fleet, read_truck
from domain.routes.reading.on_their_way import OFF_ROAD_SHOWN_FOR
from domain.telematics.readings import LastFixes, read_last_fixes
from tests.domain.helpers import go_behind_the_wall, imported, planned_by_hand, positions_at, post
from tests.factories import JOLIET, NEWARK, PERRYSBURG, Fleet, make_fleet

NOW = datetime(2026, 11, 23, 18, tzinfo=UTC)
HOUR = timedelta(hours=1)
ELKHART = {"name": "Elkhart", "latitude": 41.6, "longitude": -86.2}
"""On the way, a little before the first fuel stop."""


def seen(connection: Connection, fleet: Fleet, unit_number: str = "101") -> TruckNow:
    trucks = {truck.unit_number: truck for truck in read_fleet(connection, fleet.live, now=NOW)}
    return trucks[unit_number]


def needs_of(truck: TruckNow) -> set[str]:
    return {name for name in ("is_late", "is_silent", "is_low", "is_off_road") if getattr(truck, name)}


def sent(connection: Connection, fleet: Fleet, stop: dict[str, Any], ago: timedelta = timedelta(), **more: Any) -> None:
    """One fix of truck 101."""
    post(connection, fleet.live, positions_at(stop, NOW - ago, count=1, **more), now=NOW)


def on_its_way(connection: Connection, fleet: Fleet, **changes: Any) -> UUID:
    """An active route that has reached its first stop."""
    route_id = imported(connection, fleet.live, now=NOW, **changes)
    planned_by_hand(connection, route_id, now=NOW)
    connection.execute("UPDATE routes SET status = 'active', arrived_at = %s WHERE id = %s", (NOW - 5 * HOUR, route_id))
    reach(connection, route_id, 0)
    return route_id


def reach(connection: Connection, route_id: UUID, stop: int) -> None:
    connection.execute(
        "INSERT INTO visits (company_id, environment, route_id, stop, arrived_at)"
        " SELECT company_id, environment, id, %s, %s FROM routes WHERE id = %s",
        (stop, NOW - 5 * HOUR, route_id),
    )


def test_every_truck_is_there_without_route_and_fix(connection: Connection, fleet: Fleet) -> None:
    trucks = read_fleet(connection, fleet.live, now=NOW)
    assert [truck.unit_number for truck in trucks] == ["101", "102"]
    first = trucks[0]
    assert (first.place, first.fix_at, first.heading, first.fuel_percent, first.route) == (None,) * 5
    assert needs_of(first) == set()
    connection.execute("UPDATE vehicles SET retired_at = now() WHERE id = %s", (fleet.trucks[1],))
    assert [truck.unit_number for truck in read_fleet(connection, fleet.live, now=NOW)] == ["101"]


def test_position_heading_and_level_are_those_of_the_last_fixes(connection: Connection, fleet: Fleet) -> None:
    sent(connection, fleet, {"latitude": 41.0, "longitude": -88.0}, 3 * timedelta(minutes=1), fuel_percent=40)
    sent(connection, fleet, {"latitude": 41.0, "longitude": -87.9}, 2 * timedelta(minutes=1))
    sent(connection, fleet, {"latitude": 41.1, "longitude": -87.9})
    truck = seen(connection, fleet)
    assert truck.place == (41.1, -87.9)
    assert truck.fix_at == NOW
    assert truck.heading == 0
    assert truck.fuel_percent == 40, "the newest level that was sent"
    assert seen(connection, fleet, "102").place is None


def test_a_standing_truck_has_no_heading(connection: Connection, fleet: Fleet) -> None:
    post(connection, fleet.live, positions_at(JOLIET, NOW - HOUR / 4), now=NOW)
    assert seen(connection, fleet).heading is None


@pytest.mark.parametrize(
    ("latitude", "longitude", "heading"), [(41.1, -88, 0), (41, -87.9, 90), (40.9, -88, 180), (41, -88.1, 270)]
)
def test_the_heading_is_a_course(
    connection: Connection, fleet: Fleet, latitude: float, longitude: float, heading: int
) -> None:
    sent(connection, fleet, {"latitude": 41.0, "longitude": -88.0}, timedelta(minutes=5))
    sent(connection, fleet, {"latitude": latitude, "longitude": longitude})
    assert seen(connection, fleet).heading == heading


def test_the_current_route_is_the_started_one_and_then_the_earliest_draft(connection: Connection, fleet: Fleet) -> None:
    for hours in (7, 3, -30):
        imported(connection, fleet.live, now=NOW, start=NOW + hours * HOUR, externalId=f"IN {hours}")
    imported(connection, fleet.live, now=NOW, externalId="OF 102", vehicle={"unitNumber": "102"})
    imported(connection, fleet.sandbox, now=NOW, externalId="TRIED")
    route = seen(connection, fleet).route
    assert route is not None
    assert (route.external_id, route.status, route.driver) == ("IN 3", "draft", "Ann Lee")
    assert route.next_stop is not None
    assert route.next_stop.name == "Joliet terminal"
    assert route.next_fuel_stop is None

    on_its_way(connection, fleet, start=NOW + 9 * HOUR, externalId="STARTED")
    route = seen(connection, fleet).route
    assert route is not None
    assert (route.external_id, route.status) == ("STARTED", "active")


def test_next_stop_and_next_fuel_stop_follow_the_truck(connection: Connection, fleet: Fleet) -> None:
    route_id = on_its_way(connection, fleet, stops=[JOLIET, PERRYSBURG, NEWARK])

    def ahead() -> tuple[str | None, str | None]:
        route = seen(connection, fleet).route
        assert route is not None
        stop, fuel_stop = route.next_stop, route.next_fuel_stop
        return stop.name if stop else None, fuel_stop.name if fuel_stop else None

    assert ahead() == ("Perrysburg yard", "Lakeside Travel Plaza"), "it has no position yet"
    sent(connection, fleet, ELKHART, HOUR)
    assert ahead() == ("Perrysburg yard", "Lakeside Travel Plaza")
    sent(connection, fleet, PERRYSBURG, HOUR / 2)
    reach(connection, route_id, 1)
    assert ahead() == ("Port Newark", "Keystone Fuel")
    sent(connection, fleet, NEWARK)
    assert ahead() == ("Port Newark", None)
    reach(connection, route_id, 2)
    assert ahead() == (None, None)


def test_late_and_silent_are_those_of_the_overview(connection: Connection, fleet: Fleet) -> None:
    window = {"end": (NOW - timedelta(minutes=5)).isoformat()}
    sent(connection, fleet, ELKHART, timedelta(minutes=61))
    truck = seen(connection, fleet)
    assert needs_of(truck) == set(), "it has no route"
    on_its_way(connection, fleet, stops=[JOLIET, {**NEWARK, "arrivalWindow": window}])
    truck = seen(connection, fleet)
    assert needs_of(truck) == {"is_late", "is_silent"}
    assert truck.route is not None
    assert truck.route.next_stop is not None
    assert truck.route.next_stop.due == NOW - timedelta(minutes=5)
    assert {one.need.kind for one in find_routes_in_need(connection, fleet.live, now=NOW)} == {"late", "silent"}
    sent(connection, fleet, ELKHART, timedelta(minutes=59))
    assert not seen(connection, fleet).is_silent


def test_a_truck_is_low_at_the_floor_or_until_it_fuels_where_its_plan_begins_low_or_its_fuel_does_not_last(
    connection: Connection, fleet: Fleet
) -> None:
    """An ordinary plan arrives at its reserve, which is not low."""
    sent(connection, fleet, ELKHART, HOUR / 2, fuel_percent=15)
    assert not seen(connection, fleet).is_low
    sent(connection, fleet, ELKHART, HOUR / 4, fuel_percent=12)
    assert seen(connection, fleet).is_low
    sent(connection, fleet, ELKHART, fuel_percent=80)
    route_id = on_its_way(connection, fleet)
    assert not seen(connection, fleet).is_low
    connection.execute("UPDATE messages SET text = E'LOW FUEL: stop\\nmore' WHERE route_id = %s", (route_id,))
    assert seen(connection, fleet).is_low
    connection.execute(
        "UPDATE messages SET text = 'COMBUSTIBLE BAJO', begins_low = true WHERE route_id = %s", (route_id,)
    )
    assert seen(connection, fleet).is_low, "whatever the language of its text"
    assert [one.need.kind for one in find_routes_in_need(connection, fleet.live, now=NOW)] == ["low_fuel"]
    connection.execute(
        "UPDATE tracks SET watch_at = %s, fuel_stops_passed = 1 WHERE company_id = %s", (NOW, fleet.company_id)
    )
    assert not seen(connection, fleet).is_low, "its first fuel stop is behind it"
    assert find_routes_in_need(connection, fleet.live, now=NOW) == []
    connection.execute("UPDATE tracks SET low_since = %s WHERE company_id = %s", (NOW, fleet.company_id))
    assert seen(connection, fleet).is_low
    (need,) = find_routes_in_need(connection, fleet.live, now=NOW)
    assert (need.need.kind, need.named[0].detail) == ("gets_low", "101")


@pytest.mark.parametrize(("ago", "is_off_road"), [(HOUR / 2, True), (OFF_ROAD_SHOWN_FOR + HOUR, False)])
def test_a_truck_is_off_its_road_for_a_while_after_it_was_found_so(
    connection: Connection, fleet: Fleet, ago: timedelta, is_off_road: bool
) -> None:
    route_id = on_its_way(connection, fleet)
    sent(connection, fleet, ELKHART)
    assert not seen(connection, fleet).is_off_road
    connection.execute(
        "UPDATE plans SET cause = jsonb_build_object('kind', 'off_road', 'at', %s::text, 'text', 'far')"
        " WHERE route_id = %s",
        ((NOW - ago).isoformat(), route_id),
    )
    assert seen(connection, fleet).is_off_road is is_off_road
    assert [one.need.kind for one in find_routes_in_need(connection, fleet.live, now=NOW)] == ["off_road"] * is_off_road


def test_a_truck_is_off_its_road_while_its_new_plan_is_made(connection: Connection, fleet: Fleet) -> None:
    route_id = on_its_way(connection, fleet)
    connection.execute(
        """UPDATE routes SET replan = '{"kind": "off_road", "at": "2026-11-23T17:59:00Z", "text": "far"}'"""
        " WHERE id = %s",
        (route_id,),
    )
    assert seen(connection, fleet).is_off_road
    connection.execute('UPDATE routes SET replan = replan || \'{"kind": "stop_passed"}\' WHERE id = %s', (route_id,))
    assert not seen(connection, fleet).is_off_road


def test_trucks_routes_and_fixes_of_others_are_not_seen(connection: Connection, fleet: Fleet) -> None:
    other = make_fleet(connection)
    on_its_way(connection, other)
    sent(connection, other, JOLIET)
    post(connection, fleet.sandbox, positions_at(JOLIET, NOW), now=NOW)
    imported(connection, fleet.sandbox, now=NOW)
    assert seen(connection, fleet).place is None
    assert seen(connection, fleet).route is None
    assert read_truck(connection, fleet.live, other.trucks[0], now=NOW) is None
    assert read_truck(connection, fleet.live, new_id(), now=NOW) is None
    assert read_last_fixes(connection, fleet.live, dict.fromkeys((*fleet.trucks, *other.trucks), NOW)) == {
        truck: LastFixes(truck, None, None, None) for truck in (*fleet.trucks, *other.trucks)
    }
    go_behind_the_wall(connection, of_companies((fleet.company_id,)))
    assert len(read_fleet(connection, fleet.live, now=NOW)) == 2
    assert read_fleet(connection, other.live, now=NOW) == []


def test_one_truck_is_read_as_in_its_fleet(connection: Connection, fleet: Fleet) -> None:
    on_its_way(connection, fleet)
    sent(connection, fleet, ELKHART, fuel_percent=44)
    assert read_truck(connection, fleet.live, fleet.trucks[0], now=NOW) == seen(connection, fleet)


def test_trucks_that_were_last_heard_on_different_days_are_read(connection: Connection, fleet: Fleet) -> None:
    """The fixes of a truck are read from its newest day, and from the hour before it."""
    midnight = NOW.replace(hour=0)
    old = [*positions_at(JOLIET, midnight - timedelta(minutes=9), count=1, fuel_percent=33)]
    old += positions_at(ELKHART, midnight + timedelta(minutes=9), count=1)
    post(connection, fleet.live, old, now=NOW)
    post(connection, fleet.live, positions_at(JOLIET, NOW, count=1, unit_number="102", fuel_percent=71), now=NOW)
    first, second = read_fleet(connection, fleet.live, now=NOW)
    assert (first.fuel_percent, first.heading) == (33, 84)
    assert (second.fuel_percent, second.heading) == (71, None)


def test_a_truck_that_sent_nothing_new_keeps_its_level(connection: Connection, fleet: Fleet) -> None:
    sent(connection, fleet, ELKHART, HOUR / 2, fuel_percent=60)
    before = {truck.id: truck for truck in read_fleet(connection, fleet.live, now=NOW)}
    connection.execute("UPDATE positions SET fuel_percent = 1 WHERE company_id = %s", (fleet.company_id,))
    assert read_fleet(connection, fleet.live, before=before, now=NOW) == list(before.values())
    sent(connection, fleet, ELKHART, fuel_percent=58)
    assert read_fleet(connection, fleet.live, before=before, now=NOW)[0].fuel_percent == 58
