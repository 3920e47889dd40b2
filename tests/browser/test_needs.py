"""The day of a company's people: from the first steps to a truck that needs somebody, on the pages and by a notice."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from uuid import UUID

import pytest
from playwright.sync_api import Locator, Page, expect

from domain.accounts.companies import create_company
from domain.accounts.policy import Policy
from domain.database.connections import Connection
from domain.fleet.drivers import DriverRow
from domain.fleet.vehicles import VehicleRow
from domain.ids import new_id
from domain.lifecycle import Role
from domain.routes.intake.fleet_changes import add_driver, add_vehicle
from domain.settings import Settings
from tests.browser.accessibility import assert_accessible
from tests.browser.conftest import People, add_session
from tests.browser.pages import see_trucks
from tests.conftest import make_database
from tests.domain.helpers import imported, planned_by_hand
from tests.domain.notices.subscriptions import notices_of
from tests.factories import DOT, JOLIET, NEWARK, PERRYSBURG, Fleet, make_fleet, route_body, signed_in
from tests.gateway import HOST, Gateway
from tests.ingress.console.conftest import running_console
from tests.pipeline.world import store_prices
from tests.servers import own_redis
from tests.service import Service, eventually, running_service


def test_an_empty_company_takes_its_steps_up_to_its_first_plan(people: People, service: Service) -> None:
    """The page is loaded once, and ticks each step off by itself."""
    store_prices(service)
    with service.database.transaction() as connection:
        nobody = (new_id(), new_id())
        empty = Fleet(create_company(connection, Policy(name="New Freight")), nobody, nobody)
    page = people.page(Role.OWNER, empty)
    page.clock.install()
    page.goto("/")
    steps = page.get_by_role("listitem").filter(has=page.locator(".tick"))
    expect(steps).to_have_count(8)
    expect(steps.nth(1)).not_to_contain_text("done")
    expect(steps.nth(3)).to_contain_text("done")

    with service.database.transaction() as connection:
        add_vehicle(connection, empty.company_id, VehicleRow(unit_number="101"), DOT)
        add_driver(connection, empty.company_id, DriverRow(name="Ann Lee", contact="json://phone.example.com"), DOT)
    page.clock.fast_forward(16_000)
    expect(steps.nth(1)).to_contain_text("done")
    expect(steps.nth(2)).to_contain_text("done")
    assert_accessible(page)
    page.get_by_role("link", name="Make an API key for your TMS").click()
    expect(page.get_by_role("heading", name="API keys")).to_be_visible()
    page.goto("/overview")
    page.context.new_cdp_session(page).send("Emulation.setTimezoneOverride", {"timezoneId": "America/Denver"})
    page.get_by_role("link", name="Set the time zone of your company").click()
    page.get_by_role("button", name="America/Denver").click()
    page.get_by_role("button", name="Save the policy").click()
    expect(page.get_by_text("The policy is saved")).to_be_visible()

    page.goto("/overview")
    with service.database.transaction() as connection:
        route_id = imported(connection, empty.live, now=datetime.now(UTC), driver={"name": "Ann Lee"})
    page.clock.fast_forward(16_000)
    expect(steps.nth(0)).to_contain_text("done")
    expect(steps.nth(6)).to_contain_text("done")
    page.locator("summary", has_text="The steps to your first plan").click()
    page.clock.fast_forward(16_000)
    expect(steps.nth(6)).to_be_hidden()  # put away, also when the page updates itself
    page.reload()
    expect(steps.nth(6)).to_be_hidden()
    with service.database.transaction() as connection:
        planned_by_hand(connection, route_id, now=datetime.now(UTC))
    page.clock.fast_forward(16_000)
    expect(page.get_by_text("The steps to your first plan")).to_have_count(0)
    expect(page.get_by_text("Nothing needs you now")).to_be_visible()


def test_the_overview_has_a_small_map_that_comes_after_the_page(people: People, service: Service) -> None:
    with service.new_tenant() as client:
        client.post_fixes(JOLIET, fuelPercent=60)
        page = people.page(Role.VIEWER, client.fleet, webgl=True)
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.goto("/overview")
        small = page.locator("#overview-map")
        assert not any("maplibre-gl.mjs" in url for url in asked[:3]), "the page comes first"
        small.scroll_into_view_if_needed()
        expect(small).to_have_attribute("data-state", "drawn")
        places = "document.getElementById('overview-map').map.getSource('fleet').serialize().data.features.length"
        assert page.evaluate(places) == 1
        assert_accessible(page)
        page.get_by_role("link", name="Open the map").click()
        see_trucks(page)
        assert {url for url in asked if not url.startswith((people.world.url, "blob:", "data:"))} == set()

        without = people.page(Role.VIEWER, client.fleet)
        without.goto("/overview")
        without.locator("#overview-map").scroll_into_view_if_needed()
        expect(without.locator("#overview-map")).to_be_hidden()
        expect(without.get_by_role("link", name="Open the map")).to_be_visible()


# --- By keyboard alone -----------------------------------------------------------------------------------------


def tab_to(page: Page, wanted: Locator, most: int = 120) -> None:
    """Press Tab until the element has the focus."""
    expect(wanted).to_be_visible()
    for _ in range(most):
        page.keyboard.press("Tab")
        if wanted.evaluate("(element) => element === document.activeElement"):
            return
    raise AssertionError(f"{wanted} is not reached by {most} tabs")


def test_a_new_dispatcher_finds_the_truck_that_needs_help_by_keyboard_alone(people: People, service: Service) -> None:
    """The first page says which truck and why; the map shows it; its profile is read; the step is taken."""
    store_prices(service)
    with service.new_tenant() as client:
        route = client.push(route_body(datetime.now(UTC), stops=[JOLIET, PERRYSBURG, NEWARK])).json()
        client.post_fixes(JOLIET, fuelPercent=60)
        client.wait_for(route["id"], "active")
        with service.database.transaction() as connection:
            leave_road(connection, client.fleet)
        page = people.page(Role.DISPATCHER, client.fleet)
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.goto("/")
        need = page.get_by_role("listitem").filter(has_text="1 truck is off the road of its plan")
        expect(need.first).to_contain_text(route["externalId"])

        tab_to(page, need.get_by_role("link", name="Look at the map"))
        page.keyboard.press("Enter")
        see_trucks(page)
        truck = page.locator(f'#trucks [data-truck="{client.fleet.shown_trucks[0]}"]')
        expect(truck).to_contain_text("off its road")
        expect(page.locator("#trucks li")).to_have_count(1)
        tab_to(page, truck.get_by_role("link"))
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", name="101")).to_be_focused()
        tab_to(page, page.get_by_role("region", name="Truck 101").get_by_role("link", name=route["externalId"]))
        page.keyboard.press("Enter")

        expect(page.get_by_role("heading", name=route["externalId"])).to_be_visible()
        tab_to(page, page.locator("summary", has_text="Plan again"))
        page.keyboard.press("Enter")
        tab_to(page, page.locator("details[open]").get_by_label("Reason"))
        page.keyboard.type("it left the road")
        page.keyboard.press("Enter")
        expect(page.get_by_role("status").filter(has_text="plan")).to_be_visible()

        tab_to(page, page.locator("summary", has_text="The profile as a table"))
        page.keyboard.press("Enter")
        expect(page.get_by_role("columnheader", name="Tank", exact=True)).to_be_visible()
        assert {url for url in asked if not url.startswith((people.world.url, "blob:", "data:"))} == set()


def leave_road(connection: Connection, fleet: Fleet) -> None:
    """Have the newest plan of the company be one that was made because the truck left its road."""
    connection.execute(
        "UPDATE plans SET cause = jsonb_build_object('kind', 'off_road', 'at', %s::text, 'text', '20 miles off')"
        " WHERE company_id = %s",
        (datetime.now(UTC).isoformat(), fleet.company_id),
    )


# --- A notice --------------------------------------------------------------------------------------------------


class Told(NamedTuple):
    """A console, and the processes that tell people within seconds."""

    url: str
    service: Service


@pytest.fixture
def telling(chromium_path: str, settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Told]:
    logs = tmp_path_factory.mktemp("logs")
    fast = {"NOTICES_SECONDS": "0.5", "NOTICES_END_SECONDS": "0.5", "MESSAGE_ALLOWED_HOSTS": HOST}
    with own_redis(tmp_path_factory.mktemp("redis")) as redis:
        own = settings.model_copy(update={"database_url": make_database("told"), "redis_url": redis.url})
        with (
            running_service(own, logs, processes=("scheduler", "workers"), **fast) as service,
            running_console(own, redis.url, logs, FUELROUTE_MESSAGE_ALLOWED_HOSTS=HOST) as url,
        ):
            yield Told(url, service)


def test_a_need_is_told_to_the_channel_that_a_person_sets_and_so_is_its_end(
    people: People, telling: Told, gateway: Gateway
) -> None:
    with telling.service.database.transaction() as connection:
        fleet = make_fleet(connection)
        start = datetime.now(UTC) + timedelta(hours=5)
        waiting = {"externalId": "LOAD-7", "vehicle": {"unitNumber": "TRUCK-101"}}
        imported(connection, fleet.live, now=datetime.now(UTC), start=start, **waiting)
        token = signed_in(connection, Role.DISPATCHER, fleet.company_id)
    context = people.browser(telling.url)
    add_session(context, telling.url, token)
    page = context.new_page()
    page.goto("/notices")
    page.get_by_label("Name").fill("Night desk")
    page.get_by_label("Address").fill(gateway.url)
    page.get_by_label("Once it has lasted").fill("60")
    page.get_by_label("Minutes: Routes wait for an unknown vehicle").fill("0")
    page.get_by_role("button", name="Add the subscription").click()
    expect(page.get_by_role("heading", name="Night desk")).to_be_visible()

    eventually(lambda: gateway.titles, bool, wanted="the notice")
    assert gateway.titles == ["Acme: 1 route waits for a vehicle that the fleet does not know"]
    assert gateway.received[0]["message"].endswith("/matching/vehicles")
    page.goto("/matching/vehicles")
    waits = page.get_by_role("listitem").filter(has_text="TRUCK-101")
    waits.first.get_by_role("button", name="Map").first.click()
    expect(page.locator(".reference.mapped")).to_contain_text("1 route no longer waits for it")

    eventually(lambda: len(gateway.titles), lambda count: count == 2, wanted="its end")
    assert gateway.titles[1] == "Acme: over. No route waits for an unknown vehicle any more"
    eventually(lambda: state_of_end(telling.service, fleet.company_id), "sent".__eq__, wanted="its end as sent")
    page.goto("/notices")
    expect(page.get_by_role("row").filter(has_text="Acme: over.")).to_contain_text("sent")


def state_of_end(service: Service, company_id: UUID) -> str:
    """The state of the only end of a need. The page does not follow it."""
    with service.database.transaction() as connection:
        (status,) = (notice.status for notice in notices_of(connection, company_id) if notice.part == "end")
    return str(status)
