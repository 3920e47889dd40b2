"""The page Map: its list, the fleet for its script, the changes in view, and the part for one truck."""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from domain.database.connections import Tenant
from domain.ids import shown_id
from domain.lifecycle import Environment, Role
from domain.roads import Point
from domain.routes.reading.fleet_now import TruckNow
from ingress.console.fleet_snapshots import Bounds, FleetSnapshots, Snapshot
from tests.domain.helpers import imported, planned_by_hand, positions_at, post
from tests.factories import JOLIET, NEWARK, Fleet
from tests.ingress.console.conftest import Browser, World, words
from tests.ingress.console.test_streams import Event, read

EVERYWHERE = "-180,-90,180,90"
AROUND_JOLIET = "-89,41,-87,42"


@pytest.fixture
def fleet(world: World) -> Fleet:
    """Truck 101 stands at Joliet and has a draft; nothing is known of truck 102."""
    fleet, now = world.new_fleet(), datetime.now(UTC)
    with world.database.transaction() as connection:
        imported(connection, fleet.live, now=now, externalId="FIRST <b>")
        post(connection, fleet.live, positions_at(JOLIET, now - timedelta(minutes=3), fuel_percent=61), now=now)
    return fleet


def rows_of(browser: Browser, **query: str) -> dict[str, list[Any]]:
    answer = browser.get("/map/fleet", params=query)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    return {row[1]: row for row in answer.json()["trucks"]}


def move(world: World, fleet: Fleet, stop: dict[str, Any], unit_number: str = "101") -> None:
    now = datetime.now(UTC)
    with world.database.transaction() as connection:
        post(connection, fleet.live, positions_at(stop, now, count=1, unit_number=unit_number), now=now)


@contextmanager
def following(browser: Browser, **query: str | float) -> Iterator[Iterator[Event]]:
    with browser.stream("GET", "/map/stream", params=query) as answer:
        assert answer.status_code == 200
        yield read(answer.iter_lines())


def told(events: Iterator[Event]) -> list[list[Any]]:
    """The next changes that are some."""
    return next(rows for name, text in events if name == "figures" and (rows := json.loads(text)["trucks"]))


def test_the_list_names_every_truck_without_scripts(world: World, fleet: Fleet) -> None:
    html = world.browser(Role.VIEWER, fleet).look("/map")
    page = words(html)
    assert "2 trucks" in page
    assert "101 draft Ann Lee · FIRST <b> · fuel 61 % · 2 min ago · next Joliet terminal" in page
    assert "102 no route no position yet" in page
    assert f'href="/map/trucks/{fleet.shown_trucks[0]}?environment=live"' in html


def test_the_page_is_there_for_every_role_and_leads_the_others_to_the_sign_in(world: World, fleet: Fleet) -> None:
    for role in Role:
        browser = world.browser(role, None if role is Role.OPERATOR else fleet)
        for path in ("/map", "/map/fleet"):
            status = browser.get(path).status_code
            assert status == (303 if role is Role.OPERATOR else 200), "an operator chooses a company first"
    for path in ("/map", "/map/fleet", "/map/stream", f"/map/trucks/{fleet.shown_trucks[0]}"):
        answer = world.browser().get(path)
        assert answer.status_code == 303
        assert answer.headers["location"].startswith("/sign-in")


@pytest.mark.parametrize(
    ("query", "units"),
    [
        ({}, ["101", "102"]),
        ({"unit": "02"}, ["102"]),
        ({"driver": "ann"}, ["101"]),
        ({"status": "draft"}, ["101"]),
        ({"status": "none"}, ["102"]),
        ({"status": "active"}, []),
        ({"status": "what"}, ["101", "102"]),
        ({"need": "low"}, []),
        ({"environment": "sandbox", "status": "draft"}, []),
    ],
)
def test_filters_narrow_the_list(world: World, fleet: Fleet, query: dict[str, str], units: list[str]) -> None:
    page = words(world.browser(Role.VIEWER, fleet).get("/map", params=query).text)
    assert [unit for unit in ("101", "102") if f" {unit} " in page] == units
    assert f"{len(units)} truck" in page


def test_each_need_is_a_filter(world: World, fleet: Fleet) -> None:
    now = datetime.now(UTC)
    late = {"end": (now - timedelta(minutes=5)).isoformat()}
    with world.database.transaction() as connection:
        route_id = imported(
            connection,
            fleet.live,
            now=now,
            externalId="LATE",
            vehicle={"unitNumber": "102"},
            driver={"name": "Bo Diaz"},
            stops=[{**JOLIET, "arrivalWindow": late}, NEWARK],
        )
        planned_by_hand(connection, route_id, now=now)
        old = positions_at(JOLIET, now - timedelta(hours=2), unit_number="102", fuel_percent=3)
        post(connection, fleet.live, old, now=now)
        connection.execute(
            """UPDATE routes SET replan = '{"kind": "off_road", "at": "", "text": ""}' WHERE id = %s""", (route_id,)
        )
    browser = world.browser(Role.VIEWER, fleet)
    for need, word in (("late", "late"), ("silent", "silent"), ("low", "low fuel"), ("off_road", "off its road")):
        page = words(browser.look("/map", need=need))
        assert "1 truck 102 planned late silent low fuel off its road Bo Diaz · LATE · fuel 3 % · 1 h ago" in page, word


def test_the_list_begins_with_the_trucks_that_need_somebody(world: World, fleet: Fleet) -> None:
    browser = world.browser(Role.VIEWER, fleet)
    in_order = [f"/map/trucks/{truck}" for truck in fleet.shown_trucks]
    assert links_to_trucks(browser.look("/map")) == in_order
    with world.database.transaction() as connection:
        now = datetime.now(UTC)
        post(
            connection,
            fleet.live,
            positions_at(JOLIET, now - timedelta(hours=2), unit_number="102", fuel_percent=3),
            now=now,
        )
    for address in ("/map", "/map?unit=10"):
        assert links_to_trucks(browser.look(address)) == in_order[::-1], address


def links_to_trucks(page: str) -> list[str]:
    return re.findall(r'<a href="(/map/trucks/veh_[^?"]+)', page)


def test_the_fleet_for_the_script_is_arrays_of_its_own_company_and_environment(world: World, fleet: Fleet) -> None:
    move(world, world.new_fleet(), NEWARK)
    rows = rows_of(world.browser(Role.VIEWER, fleet))
    assert set(rows) == {"101", "102"}
    first = rows["101"]
    assert first[0] == fleet.shown_trucks[0]
    assert first[2:5] == ["Ann Lee", JOLIET["latitude"], JOLIET["longitude"]]
    assert first[6] == 61
    assert first[8:10] == [1, 0]
    assert first[10:] == ["FIRST <b>", "Joliet terminal", ""]
    assert rows["102"][2:10] == ["", None, None, None, None, None, 0, 0]
    assert rows_of(world.browser(Role.VIEWER, fleet), environment="sandbox")["101"][3] is None


def test_a_large_fleet_is_sent_compressed(world: World, fleet: Fleet) -> None:
    with world.database.transaction() as connection:
        connection.execute(
            "INSERT INTO vehicles (id, company_id, unit_number) SELECT gen_random_uuid(), %s, 'V-' || n"
            " FROM generate_series(1, 200) AS n",
            (fleet.company_id,),
        )
    browser = world.browser(Role.VIEWER, fleet)
    answer = browser.get("/map/fleet")
    assert answer.headers["content-encoding"] == "gzip"
    assert len(answer.json()["trucks"]) == 202
    assert "content-encoding" not in browser.get("/map/fleet", headers={"Accept-Encoding": "identity"}).headers
    page = words(browser.look("/map"))
    assert "202 trucks; the first 100 are listed" in page


def test_the_stream_tells_only_what_has_changed_in_view(world: World, fleet: Fleet) -> None:
    browser = world.browser(Role.VIEWER, fleet)
    since = browser.get("/map/fleet").json()["at"]
    with following(browser, since=since, bounds=AROUND_JOLIET) as near, following(browser, since=since) as all_over:
        assert json.loads(next(near)[1])["trucks"] == [], "nothing has changed since the fleet was loaded"
        next(all_over)
        move(world, fleet, NEWARK, unit_number="102")
        move(world, fleet, {**JOLIET, "latitude": 41.5})
        assert {row[1] for row in told(all_over)} == {"101", "102"}
        assert [(row[1], row[3]) for row in told(near)] == [("101", 41.5)]
        with world.database.transaction() as connection:
            connection.execute("UPDATE vehicles SET retired_at = now() WHERE id = %s", (fleet.trucks[1],))
        move(world, fleet, NEWARK)
        row, gone = told(near)
        assert (row[1], row[3]) == ("101", NEWARK["latitude"]), "the truck that leaves the view is told once more"
        assert gone == [fleet.shown_trucks[1]]


def test_a_page_of_another_company_is_loaded_again(world: World, fleet: Fleet) -> None:
    """An operator chose another company in another tab."""
    browser, before = world.browser(Role.VIEWER, fleet), world.new_fleet().shown_company_id
    assert f'data-company="{fleet.shown_company_id}"' in browser.look("/map")
    for path in ("/map/fleet", "/map/stream"):
        assert browser.get(path, params={"company": before}).status_code == 303
    assert browser.get("/map/fleet", params={"company": fleet.shown_company_id}).status_code == 200


def test_a_stream_without_a_time_tells_the_whole_view(world: World, fleet: Fleet) -> None:
    browser = world.browser(Role.VIEWER, fleet)
    for query in ({}, {"since": "nan", "bounds": "x"}, {"since": "-1", "bounds": EVERYWHERE}):
        with following(browser, **query) as events:
            assert {row[1] for row in told(events)} == {"101", "102"}


def test_one_truck_has_a_page_and_a_part(world: World, fleet: Fleet) -> None:
    browser = world.browser(Role.VIEWER, fleet)
    html = browser.look(f"/map/trucks/{fleet.shown_trucks[0]}")
    page = words(html)
    assert "Truck 101" in page
    assert "FIRST <b>" in page
    assert "Driver Ann Lee" in page
    assert "61 %" in page
    assert "Next stop Joliet terminal" in page
    assert "3 positions of its last 6 hours" in page
    part = browser.get(f"/map/trucks/{fleet.shown_trucks[0]}", headers={"HX-Request": "true"}).text
    assert part.lstrip().startswith("<section")
    assert f"[[{JOLIET['longitude']}, {JOLIET['latitude']}]" in part
    page = words(browser.look(f"/map/trucks/{fleet.shown_trucks[1]}"))
    assert "no route Last position none yet Fuel not known" in page


def test_a_truck_of_another_company_is_not_found(world: World, fleet: Fleet) -> None:
    browser = world.browser(Role.OWNER)
    for truck in (fleet.shown_trucks[0], "veh_x", shown_id("veh", UUID(int=7))):
        browser.look(f"/map/trucks/{truck}", status=404)


# --- Snapshots, without a server ----------------------------------------------------------------------------------

TENANT = Tenant(UUID(int=1), Environment.LIVE)
NOW = datetime(2026, 11, 23, 18, tzinfo=UTC)


def truck(number: int, latitude: float | None = 41.0, longitude: float = -88.0) -> TruckNow:
    return TruckNow(
        UUID(int=number),
        str(number),
        NOW if latitude is not None else None,
        Point(latitude, longitude) if latitude is not None else None,
        heading=None,
        fuel_percent=None,
        reserve_percent=15,
        route=None,
        is_late=False,
        is_silent=False,
        is_low=False,
        is_off_road=False,
    )


def follow(*fleets: list[TruckNow], monkeypatch: pytest.MonkeyPatch) -> list[Snapshot]:
    """The snapshots of a fleet, one after the other."""
    monkeypatch.setattr("ingress.console.fleet_snapshots.REUSED_AT_LEAST_SECONDS", -1.0)
    monkeypatch.setattr("ingress.console.fleet_snapshots.REUSED_TIMES", 0)
    kept = FleetSnapshots()
    return [kept.get(TENANT, lambda _, trucks=trucks: trucks, now=NOW) for trucks in fleets]  # type: ignore[misc]


def units(snapshot: Snapshot, since: float, bounds: str = EVERYWHERE) -> list[str]:
    return [row[1] if len(row) > 1 else f"gone {row[0]}" for row in snapshot.changes(since, Bounds.read(bounds))]


def test_changes_are_those_since_a_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second, third, fourth = follow(
        [truck(1), truck(2)],
        [truck(1), truck(2, 42.0)],
        [truck(1, 43.0), truck(2, 42.0)],
        [truck(2, 42.0)],
        monkeypatch=monkeypatch,
    )
    assert first.at < second.at < third.at < fourth.at
    assert units(first, 0) == ["1", "2"]
    assert units(second, first.at) == ["2"]
    assert units(third, first.at) == ["1", "2"]
    assert units(third, second.at) == ["1"]
    assert units(fourth, third.at) == [f"gone {shown_id('veh', UUID(int=1))}"]
    assert units(fourth, fourth.at) == []


def test_a_truck_is_told_where_it_is_and_where_it_was_in_view(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = follow(
        [truck(1), truck(2, 10.0), truck(3, None)], [truck(1, 10.0), truck(2), truck(3, None)], monkeypatch=monkeypatch
    )
    assert units(first, 0, AROUND_JOLIET) == ["1", "3"], "a truck without a position is in every view"
    assert units(second, first.at, AROUND_JOLIET) == ["1", "2"]


def test_a_snapshot_is_read_once_for_all_pages() -> None:
    kept, reads = FleetSnapshots(), []

    def read(before: Mapping[UUID, TruckNow]) -> list[TruckNow]:
        reads.append(len(before))
        return [truck(1)]

    assert kept.get(TENANT, read, now=NOW) is kept.get(TENANT, read, now=NOW)
    kept.get(Tenant(UUID(int=2), Environment.LIVE), read, now=NOW)
    kept.get(Tenant(UUID(int=1), Environment.SANDBOX), read, now=NOW)
    assert len(reads) == 3, "one for each company and environment"


@pytest.mark.parametrize(
    ("text", "longitude", "has"),
    [
        ("-90,40,-80,42", -88, True),
        ("-90,40,-80,42", -79, False),
        ("170,40,-170,42", 175, True),
        ("170,40,-170,42", -175, True),
        ("170,40,-170,42", 0, False),
        ("170,40,190,42", -175, True),
        ("-190,40,-170,42", 175, True),
        ("-90,40,-80,40.5", -88, False),
    ],
)
def test_bounds_hold_places_also_over_the_antimeridian(text: str, longitude: float, has: bool) -> None:
    bounds = Bounds.read(text)
    assert bounds is not None
    assert bounds.has(Point(41, longitude)) is has


@pytest.mark.parametrize("text", ["", "1,2,3", "a,b,c,d", "nan,0,1,1", "inf,0,1,1", "-200,-90,200,90"])
def test_bounds_that_are_none_show_the_world(text: str) -> None:
    assert Bounds.read(text) is None
