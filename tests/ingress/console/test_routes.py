"""The pages Routes: the list, a route's page while its truck drives, its cancellation, and the permissions of each
role."""

import json
import re
from collections.abc import Iterator
from copy import deepcopy
from datetime import UTC, datetime, timedelta
from html import unescape
from typing import Any
from uuid import UUID

import httpx
import pytest

from domain.ids import new_id, shown_id
from domain.lifecycle import Role, RouteStatus
from domain.planning.explanation import (
    ExplainedCandidate,
    ExplainedClosure,
    ExplainedInputs,
    Explanation,
    PriceOrigin,
    Sources,
    pack_explanation,
)
from domain.sandbox.drives import begin_drives
from ingress.console.pages.routes.routes import EXPORTED, TABLE
from tests.domain.helpers import imported, planned_by_hand, route_row, status_of
from tests.domain.replay.driven import explained
from tests.factories import JOLIET, NEWARK, PERRYSBURG, Fleet, route_body
from tests.ingress.console.conftest import Fields, World, words
from tests.pipeline.world import store_prices
from tests.service import Client, Service, eventually


def stored(world: World, fleet: Fleet, *, sandbox: bool = False, **changes: Any) -> UUID:
    now = datetime.now(UTC)
    with world.database.transaction() as connection:
        tenant = fleet.sandbox if sandbox else fleet.live
        return imported(connection, tenant, now=now, start=now + timedelta(hours=5), **changes)


def page_of(route_id: UUID) -> str:
    return f"/routes/{shown_id('rte', route_id)}"


def data_of(html: str, name: str) -> Any:
    """The data of the map on a page."""
    found = re.search(f"data-{name}='([^']+)'", html)
    assert found is not None
    return json.loads(found[1])


def status_now(world: World, route_id: UUID) -> RouteStatus:
    with world.database.transaction() as connection:
        return status_of(connection, route_id)


@pytest.fixture
def driven(service: Service) -> Iterator[tuple[Client, str]]:
    """A route whose truck has arrived at its first stop, once the driver has the plan."""
    store_prices(service)
    with service.new_tenant() as client:
        route_id = client.push(route_body(datetime.now(UTC), stops=[JOLIET, PERRYSBURG, NEWARK])).json()["id"]
        client.post_fixes(JOLIET, fuelPercent=60)
        client.wait_for(route_id, "active")
        yield client, route_id


def test_the_list_shows_one_environment_and_filters(world: World) -> None:
    fleet = world.new_fleet()
    stored(world, fleet, externalId="LOAD-1")
    waiting = stored(world, fleet, externalId="LOAD-2", vehicle={"unitNumber": "T-9"})
    stored(world, fleet, sandbox=True, externalId="TRIED-3")
    browser = world.browser(Role.VIEWER, fleet)
    page = words(browser.look("/routes"))
    assert "2 routes" in page
    assert "LOAD-1" in page
    assert "held: vehicle not matched" in page
    assert "TRIED-3" not in page
    assert 'href="/matching/vehicles">Matching' in browser.look(page_of(waiting)).split("<main")[1]
    assert "TRIED-3" in words(browser.look("/routes", environment="sandbox"))
    cases: list[tuple[Fields, set[str]]] = [
        ({"status": "draft"}, {"LOAD-1"}),
        ({"held": "vehicle_unmapped"}, {"LOAD-2"}),
        ({"unit": "t-9"}, {"LOAD-2"}),
        ({"driver": "ann", "q": "load"}, {"LOAD-1", "LOAD-2"}),
        ({"q": "load-2"}, {"LOAD-2"}),
        ({"from": "2100-01-01"}, set()),
        ({"to": "2000-01-01", "q": "load"}, set()),
        ({"status": "no such", "environment": "no such"}, {"LOAD-1", "LOAD-2"}),
    ]
    for query, wanted in cases:
        page = words(browser.get("/routes", params=query).text)
        assert {load for load in ("LOAD-1", "LOAD-2") if load in page} == wanted, query


def test_the_list_updates_itself_with_the_same_filters(world: World) -> None:
    fleet = world.new_fleet()
    browser = world.browser(Role.VIEWER, fleet)
    page = browser.get("/routes", params={"status": "draft", "q": 'a"b'}).text
    assert 'hx-get="/routes?status=draft&amp;q=a%22b" hx-trigger="every' in page
    part = browser.get("/routes", params={"status": "draft"}, headers={"HX-Request": "true"}).text
    assert part.startswith('<div id="routes"')
    assert "<html" not in part


@pytest.mark.parametrize(
    "query",
    [
        {"from": "no day"},
        {"from": "0001-01-01"},
        {"to": "9999-12-31"},
        {"page": "99999999999999"},
        {"page": "-1", "q": "\x00"},
        {"q": "a" * 201},
        {"unit": "%_'\"\\"},
    ],
)
def test_no_query_causes_a_server_error(world: World, query: dict[str, str]) -> None:
    answer = world.browser(Role.VIEWER).get("/routes", params=query)
    assert answer.status_code in (200, 400), answer.text


def test_a_driven_route_shows_its_history(world: World, driven: tuple[Client, str]) -> None:
    client, route_id = driven
    browser = world.browser(Role.VIEWER, client.fleet)
    html = browser.look(f"/routes/{route_id}")
    page = words(html)
    plan = client.route(route_id)["fuelPlan"]

    assert "Arrived at 1. Joliet terminal" in page
    steps = ["Pushed", "Imported: draft", "Plan 1:", "Message queued"]  # the fixes were recorded before the push
    assert [page.index(step) for step in steps] == sorted(page.index(step) for step in steps)
    assert "Message delivered" in page
    assert "two fixes in a row inside below 5 mph" in page
    assert page.count("41.46200, -88.12500") == 2, "the two fixes behind the arrival"
    assert html.count('class="stop ahead"') == 3, "two stops, and one in the legend"
    assert html.count('<circle class="chosen"') == len(plan["stops"]) + 1
    assert html.count('<circle class="rejected"') > 5
    assert html.count('class="truck"') == 2
    assert 'class="road"' in html
    ground, moving = data_of(html, "ground"), data_of(html, "moving")
    assert [one["name"] for one in ground["stations"] if one["chosen"]] == [stop["name"] for stop in plan["stops"]]
    assert all(one["why"].startswith("not chosen, ") for one in ground["stations"] if not one["chosen"])
    assert ground["is_road"]
    assert ground["driven"][-1] == moving["truck"] == [JOLIET["longitude"], JOLIET["latitude"]]
    assert [stop["reached"] for stop in moving["stops"]] == [True, False, False]
    for stop in plan["stops"]:
        assert stop["name"] in page
    assert page.count("if closed: ") == 2 * len(plan["stops"]), "in the plan, and among the reasons"
    for said in ("fill up at every need", "cheapest pump in each range", "Extra cost of a stop", "dearer"):
        assert said in page
    answer = client.get(f"/v1/routes/{route_id}").json()
    assert f'"totalCost": {answer["fuelPlan"]["totalCost"]}' in page, "the API's own view"

    client.post_fixes(PERRYSBURG, at=datetime.now(UTC) + timedelta(seconds=30))

    drawn = re.search("&amp;drawn=([^&]+)&amp;frame=", html)
    assert drawn is not None
    other = browser.get(f"/routes/{route_id}", params={"drawn": "another plan"}, headers={"HX-Request": "true"})
    assert other.headers["HX-Retarget"] == ".now"
    assert other.text.count('<circle class="chosen"') == len(plan["stops"]) + 1, "road and stations too"

    def now() -> str:
        query = {"seen": "before", "drawn": drawn[1]}
        part = browser.get(f"/routes/{route_id}", params=query, headers={"HX-Request": "true"}).text
        assert part.startswith('<section id="now"')
        return part

    part = eventually(now, lambda part: "Arrived at 2. Perrysburg yard" in words(part))
    assert part.count('class="stop reached"') == 3
    assert "This route has changed" in part


MONSTER = 35_000
"""Stations along a road that goes to and fro between two coasts."""


def monstrous(*, feasible: bool = True) -> Explanation:
    """An explanation as one was stored before plans looked only so far ahead."""
    candidates: list[ExplainedCandidate] = [
        {
            "station_id": f"S{number % 3_000:05d}",
            "name": f"Station {number}",
            "state": "IL",
            "mile": 4.0 * number + 1,
            "detour_miles_in": 0.5,
            "detour_miles_out": 0.5,
            "net_price": 3.0 + number % 97 / 100,
            "adjusted_price": 3.0,
            "gallons": 781 / 6.5 if number % 195 == 75 and feasible else 0.0,
        }
        for number in range(MONSTER)
    ]
    points = range(2 * MONSTER)
    return {
        "inputs": {**_INPUTS, "distance_miles": 4.0 * MONSTER},
        "relaxed": [],
        "sources": deepcopy(_SOURCES),
        "candidates": candidates,
        "line": [[40.0 + point % 9 / 20, -74.0 - abs(point % 1_400 - 700) / 16] for point in points],
        "line_miles": [2.0 * point for point in points],
        "objective": 71_000.0 if feasible else None,
        "infeasible": None if feasible else {"from_mile": 10.0, "to_mile": 2_000.0, "reason": "too far"},
    }


_INPUTS: ExplainedInputs = {
    "capacity_gallons": 200.0,
    "usable_gallons": 190.0,
    "reserve_gallons": 30.0,
    "margin_gallons": 0.0,
    "start_gallons": 100.0,
    "end_gallons": 50.0,
    "min_purchase_gallons": 30.0,
    "stop_cost": 20.0,
    "leftover_value_per_gallon": 0.0,
    "mpg": 6.5,
    "distance_miles": 0.0,
    "max_detour_miles": 5.0,
    "max_stops": None,
    "objective": "pump",
    "roads": "highway-graph",
}
_SOURCES: Sources = {
    "fuel": {"source": "the truck's reading", "percent": 60.0, "at": None},
    "capacity_gallons": {"source": "the vehicle"},
    "mpg": {"source": "the vehicle"},
    "roads": {"source": "highway-graph", "fallback_reason": None},
}


def test_a_page_names_the_stations_that_were_left_out(world: World) -> None:
    fleet, now = world.new_fleet(), datetime.now(UTC)
    route_id = stored(world, fleet)
    closed: ExplainedClosure = {"station_id": "x", "name": "Mesa 7", "mile": 60.0, "closed_until": now.isoformat()}
    refused: ExplainedClosure = {**closed, "name": "Star 9", "refused": True}
    prices: PriceOrigin = {
        "imported_at": None,
        "oldest_at": None,
        "newest_at": None,
        "stations_left_out": {},
        "stations_without_tax_rate": 0,
        "closed": [closed, refused],
    }
    explanation = pack_explanation({**explained(), "sources": {**_SOURCES, "prices": prices}})
    with world.database.transaction() as connection:
        planned_by_hand(connection, route_id, now=now)
        connection.execute("UPDATE plans SET explanation = %s WHERE route_id = %s", (explanation, route_id))

    page = words(world.browser(Role.VIEWER, fleet).look(page_of(route_id)))

    assert "Left out: Mesa 7, mile 60.0, is closed until" in page
    assert "Left out: Star 9, mile 60.0, refused by the driver, until" in page


@pytest.mark.parametrize("feasible", [True, False])
def test_a_page_of_35_000_stations_is_small_and_its_refresh_smaller(world: World, feasible: bool) -> None:
    fleet = world.new_fleet()
    route_id, now = stored(world, fleet), datetime.now(UTC)
    with world.database.transaction() as connection:
        planned_by_hand(connection, route_id, now=now)
        explanation = pack_explanation(monstrous(feasible=feasible))
        connection.execute("UPDATE plans SET explanation = %s WHERE route_id = %s", (explanation, route_id))
    browser = world.browser(Role.VIEWER, fleet)

    html = browser.look(page_of(route_id))
    assert len(html) < 800_000
    assert "35,000 stations along the road" in words(html)
    assert "1 of 350" in words(html)
    assert ("chosen : 120.2 gal" in words(html)) == feasible
    assert "Station 100 " not in words(html).split("why each was chosen or not")[1]

    last = words(browser.look(page_of(route_id), stations=349))
    assert "Station 34999 " in last
    assert "350 of 350" in last
    assert "Station 34999 " in words(browser.look(page_of(route_id), stations=999_999))

    refresh = re.search(r'hx-get="([^"]+)"', html.split('<section id="now"')[1])
    assert refresh is not None
    part = browser.get(unescape(refresh[1]), headers={"HX-Request": "true"}).text
    assert part.startswith('<section id="now"')
    assert len(part) < 10_000


def test_a_page_says_which_details_are_no_longer_kept(world: World) -> None:
    """Retention has removed the explanation, evidence and texts. The plan stays."""
    fleet = world.new_fleet()
    route_id, now = stored(world, fleet), datetime.now(UTC)
    with world.database.transaction() as connection:
        planned_by_hand(connection, route_id, now=now)
        connection.execute("UPDATE plans SET explanation = NULL WHERE route_id = %s", (route_id,))
        connection.execute("UPDATE messages SET text = NULL WHERE route_id = %s", (route_id,))
        connection.execute(
            "INSERT INTO visits (company_id, environment, route_id, stop, arrived_at, departed_at)"
            " VALUES (%s, 'live', %s, 0, %s, %s)",
            (fleet.company_id, route_id, now, now),
        )
    html = world.browser(Role.VIEWER, fleet).look(page_of(route_id))
    assert "Lakeside Travel Plaza" in html
    assert 'class="road guessed"' in html
    page = words(html)
    assert "The reasons for these stations are no longer kept" in page
    assert "the evidence is no longer kept" in page
    assert "The text is no longer kept" in page


def test_pushed_text_is_escaped(world: World) -> None:
    fleet, evil = world.new_fleet(), '<script>alert("1")</script>'
    route_id = stored(
        world,
        fleet,
        externalId=evil,
        reference=f"{evil}'\"",
        stops=[{**JOLIET, "name": evil, "address": evil}, NEWARK],
    )
    browser = world.browser(Role.OWNER, fleet)
    for html in (browser.look(page_of(route_id)), browser.look("/routes", q=evil)):
        assert "<script>alert" not in html
        assert evil in words(html)
        assert html.count("<script") == len(re.findall(r'<script(?: type="module")? src="/static/', html)), "our own"


def test_a_route_of_another_company_is_not_found(world: World) -> None:
    fleet = world.new_fleet()
    route_id = stored(world, fleet)
    other = world.browser(Role.OWNER)
    other.look(page_of(route_id), status=404)
    assert other.submit(f"{page_of(route_id)}/cancel", reason="mine now").status_code == 404
    assert status_now(world, route_id) is RouteStatus.DRAFT
    own = world.browser(Role.OWNER, fleet)
    for address in ("nothing", shown_id("rte", new_id()), shown_id("veh", route_id)):
        own.look(f"/routes/{address}", status=404)


@pytest.mark.parametrize("role", [Role.DISPATCHER, Role.OWNER])
def test_a_route_is_canceled_with_a_reason(world: World, role: Role) -> None:
    fleet = world.new_fleet()
    route_id = stored(world, fleet)
    browser = world.browser(role, fleet)
    assert "Cancel this route" in browser.look(page_of(route_id))
    assert browser.submit(f"{page_of(route_id)}/cancel", reason="  ").status_code == 400
    assert status_now(world, route_id) is RouteStatus.DRAFT

    answer = browser.submit(f"{page_of(route_id)}/cancel", reason="The customer called <b>off</b>")

    assert answer.status_code == 303
    page = browser.look(answer.headers["location"])
    assert "The route is canceled." in page
    assert "Cancel this route" not in page
    assert "The customer called &lt;b&gt;off&lt;/b&gt;" in page
    assert status_now(world, route_id) is RouteStatus.CANCELED
    with world.database.transaction() as connection:
        reason = route_row(connection, route_id).closed_reason
    assert reason.startswith("Canceled by ")
    assert reason.endswith("@example.com: The customer called <b>off</b>")
    assert browser.submit(f"{page_of(route_id)}/cancel", reason="again").status_code == 303
    assert ": again" not in words(browser.look(page_of(route_id))), "the first reason stays"


def test_a_viewer_has_no_button_and_is_refused(world: World) -> None:
    fleet = world.new_fleet()
    route_id = stored(world, fleet)
    browser = world.browser(Role.VIEWER, fleet)
    assert "Cancel this route" not in browser.look(page_of(route_id))
    assert browser.submit(f"{page_of(route_id)}/cancel", reason="because").status_code == 403
    owner = world.browser(Role.OWNER, fleet)
    assert owner.submit(f"{page_of(route_id)}/cancel", token="of nobody", reason="because").status_code == 403
    assert httpx.post(f"{world.url}{page_of(route_id)}/cancel", data={"reason": "x"}, timeout=120).status_code == 403
    assert status_now(world, route_id) is RouteStatus.DRAFT


def test_a_route_whose_driver_has_the_plan_cannot_be_canceled(world: World) -> None:
    fleet = world.new_fleet()
    route_id = stored(world, fleet)
    with world.database.transaction() as connection:
        planned_by_hand(connection, route_id, now=datetime.now(UTC))
        connection.execute("UPDATE routes SET status = 'active' WHERE id = %s", (route_id,))
    browser = world.browser(Role.OWNER, fleet)
    assert "Cancel this route" not in browser.look(page_of(route_id))
    answer = browser.submit(f"{page_of(route_id)}/cancel", reason="too late")
    assert answer.status_code == 409
    assert status_now(world, route_id) is RouteStatus.ACTIVE


def test_the_fuel_plan_says_why_it_was_made_anew(world: World) -> None:
    fleet = world.new_fleet()
    route_id = stored(world, fleet)
    browser = world.browser(Role.VIEWER, fleet)
    with world.database.transaction() as connection:
        planned_by_hand(connection, route_id, now=datetime.now(UTC))
    assert "Made anew" not in browser.look(page_of(route_id))
    why = "burns 5.6 mpg instead of 6.5 since mile 140; 10 % would be left at Anthony"
    cause = json.dumps({"kind": "burn", "at": "2026-11-20T10:00:00Z", "text": why})
    with world.database.transaction() as connection:
        connection.execute("UPDATE plans SET cause = %s WHERE route_id = %s", (cause, route_id))
    page = words(browser.look(page_of(route_id)))
    assert "Made anew now" in page
    assert f": {why}. " in page


def test_the_page_of_a_driven_route_says_that_its_times_are_simulated(world: World) -> None:
    fleet, now = world.new_fleet(), datetime.now(UTC)
    before = stored(world, fleet, sandbox=True, scheduledStart=(now + timedelta(hours=1)).isoformat())
    route_id = stored(
        world,
        fleet,
        sandbox=True,
        reference="SANDBOX-DRIVE-300X",
        scheduledStart=(now + timedelta(hours=2)).isoformat(),
    )
    browser = world.browser(Role.VIEWER, fleet)
    assert "A simulated truck will drive this route" in words(browser.look(page_of(route_id)))
    assert "simulated" not in words(browser.look(page_of(before)))

    with world.database.transaction() as connection:  # the service begins no drive in between
        connection.execute("UPDATE routes SET status = 'canceled' WHERE id = %s", (before,))
        assert begin_drives(connection, early=timedelta(hours=12), limit=1000, now=now)

    page = words(browser.look(page_of(route_id)))
    assert "A simulated truck drives this route at 300x the speed of the clock. Its times are simulated;" in page


def test_a_route_its_message_and_its_request_lead_to_each_other(world: World, service: Service) -> None:
    store_prices(service)
    request_id, trace_id = f"tms-{new_id().hex}", new_id().hex
    with service.new_tenant() as client:
        headers = {"X-Request-Id": request_id, "traceparent": f"00-{trace_id}-b7ad6b7169203331-01"}
        body = route_body(datetime.now(UTC), stops=[JOLIET, NEWARK])
        route_id = client.post("/v1/routes", json=body, headers=headers).json()["id"]
        client.post_fixes(JOLIET, fuelPercent=60)
        client.wait_for(route_id, "active")
        browser = world.browser(Role.OWNER, client.fleet)

        html = browser.look(f"/routes/{route_id}")
        assert html.count(f'href="/requests?q={request_id}"') == 2  # of the route, and of its message
        assert trace_id in html
        listed = eventually(lambda: browser.look("/requests", q=request_id), lambda page: "POST /v1/routes" in page)
        (request,) = set(re.findall(r'href="(/requests/[0-9a-f]{32})"', listed))
        assert f'href="/routes/{route_id}#messages"' in browser.look(request)

        of_viewer = world.browser(Role.VIEWER, client.fleet).look(f"/routes/{route_id}")
        assert request_id in of_viewer
        assert "/requests?q=" not in of_viewer


def test_a_route_that_came_by_no_request_names_none(world: World) -> None:
    fleet = world.new_fleet()
    assert "pushed by request" not in world.browser(Role.OWNER, fleet).look(page_of(stored(world, fleet)))


def test_every_column_of_the_list_has_a_value_in_the_file() -> None:
    assert set(EXPORTED) == {column.name for column in TABLE.columns}
