"""The map of a route, drawn by a real browser over the base map of the package; and the drawing that stands in."""

import io
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import BrowserContext, Page, ViewportSize, expect

from domain.lifecycle import Role
from ingress.console.profile import PLOT
from tests.browser.accessibility import assert_accessible, assert_reached_by_keyboard
from tests.browser.chromium import WIDTHS
from tests.browser.conftest import People, add_session
from tests.browser.pages import wait_for_maps
from tests.factories import JOLIET, NEWARK, PERRYSBURG, route_body, signed_in
from tests.pipeline.world import store_prices
from tests.service import Client, Service, eventually

MARKUP = "<img src=x onerror=\"document.title='broken'\">"
BETWEEN = {"latitude": 41.6, "longitude": -86.2}

Color = tuple[int, int, int]
FUEL_HERE, STOP_REACHED, TRUCK, DRIVEN = (0x17, 0x62, 0x4F), (0x0B, 0x5C, 0x86), (0xA4, 0x26, 0x2C), (0x8A, 0x35, 0xB5)
LAND, LAKE, FREEWAY = (0xF4, 0xF3, 0xEE), (0xC3, 0xD9, 0xE6), (0xE9, 0xA1, 0x5B)


@pytest.fixture(scope="module")
def driven(chromium_path: str, service: Service) -> Iterator[tuple[Client, str]]:
    """A route that is under way, and whose first stop has a name that would be markup."""
    store_prices(service)
    with service.new_tenant() as client:
        stops = [{**JOLIET, "name": MARKUP}, PERRYSBURG, NEWARK]
        route_id = client.push(route_body(datetime.now(UTC), stops=stops)).json()["id"]
        client.post_fixes(JOLIET, fuelPercent=60)
        client.wait_for(route_id, "active")
        client.post_fixes(BETWEEN, at=datetime.now(UTC) + timedelta(seconds=30))
        yield client, route_id


@pytest.fixture
def open_route(driven: tuple[Client, str], people: People) -> Callable[[BrowserContext], Page]:
    """Opens the route's page in a browser, signed in."""
    client, route_id = driven

    def open_in(context: BrowserContext) -> Page:
        with people.world.database.transaction() as connection:
            token = signed_in(connection, Role.VIEWER, client.fleet.company_id)
        add_session(context, people.world.url, token)
        page = context.new_page()
        page.goto(f"/routes/{route_id}")
        wait_for_maps(page)
        return page

    return open_in


def places_of(page: Page, *colors: Color) -> list[list[tuple[int, int]]]:
    """The places on the screen, from west to east, that have each of the colors on the map."""
    area = page.locator(".map-area")
    area.scroll_into_view_if_needed()
    box = area.bounding_box()
    assert box is not None
    picture = np.asarray(Image.open(io.BytesIO(area.screenshot())).convert("RGB")).swapaxes(0, 1)
    found = [np.argwhere((picture == color).all(axis=2)) for color in colors]
    return [[(round(box["x"]) + int(x), round(box["y"]) + int(y)) for x, y in places] for places in found]


def hover(page: Page, color: Color) -> None:
    """Move the pointer into the westernmost circle of the color."""
    (((x, y), *_),) = eventually(partial(places_of, page, color), all, wanted=f"the color {color}")
    x += 6
    page.mouse.move(x - 2, y)
    page.mouse.move(x, y)


def test_the_map_of_a_driven_route_is_drawn_and_no_request_leaves_the_machine(
    open_route: Callable[[BrowserContext], Page], people: People, driven: tuple[Client, str]
) -> None:
    """A station says why it was chosen or not, to a pointer and to the keyboard. The map stays while the page refreshes
    and follows the truck. It is for everybody. All on one map, since drawing one takes seconds."""
    context = people.browser(webgl=True)
    asked: list[str] = []
    context.on("request", lambda request: asked.append(request.url))
    page = open_route(context)

    expect(page.locator(".map-area canvas")).to_be_visible()
    expect(page.locator("svg.ground")).to_be_hidden()
    colors = (LAND, LAKE, FREEWAY, FUEL_HERE, STOP_REACHED, TRUCK, DRIVEN)
    eventually(partial(places_of, page, *colors), all, wanted=f"the colors {colors}")
    expect(page.get_by_role("region", name="Map of the route")).to_be_visible()
    assert any("/static/base-map/" in url for url in asked)
    assert_stations_say_why(page)
    assert_map_stays_and_follows_the_truck(page, *driven)
    assert_reached_by_keyboard(page, ".route-map")
    assert_accessible(page, widths=WIDTHS[:2])
    assert [url for url in asked if not url.startswith((people.world.url, "data:"))] == []


def assert_stations_say_why(page: Page) -> None:
    popup = page.locator(".maplibregl-popup")

    hover(page, FUEL_HERE)
    expect(popup).to_contain_text("fuel here: ")
    hover(page, STOP_REACHED)
    expect(popup).to_contain_text(MARKUP)
    assert page.title() != "broken"

    stations = page.get_by_label("Station along the road")
    stations.focus()
    page.keyboard.press("ArrowDown")
    said = page.locator(".station-list output")
    expect(said).to_contain_text(":")
    first = said.text_content()
    assert first is not None
    expect(popup).to_contain_text(first)
    rejected = stations.locator("option:not(:has-text('fuel here'))").nth(1).get_attribute("value")
    stations.select_option(rejected)
    expect(said).to_contain_text("not chosen, ")


def assert_map_stays_and_follows_the_truck(page: Page, client: Client, route_id: str) -> None:
    page.evaluate("document.querySelector('.map-area canvas').dataset.first = 'yes'")
    before = page.locator("#now").get_attribute("data-moving")

    client.post_fixes({"latitude": 41.605, "longitude": -86.19}, at=datetime.now(UTC) + timedelta(seconds=55))
    expect(page.locator("#now")).not_to_have_attribute("data-moving", before or "")
    page.get_by_label("Follow the truck").check()
    page.evaluate(
        "path => htmx.ajax('GET', path, {target: '.now', swap: 'outerHTML'})", f"/routes/{route_id}?drawn=another"
    )

    expect(page.locator(".now > .route-map[data-state=drawn] canvas[data-first=yes]")).to_be_visible()
    expect(page.locator("svg.ground")).to_be_hidden()
    expect(page.get_by_label("Follow the truck")).to_be_checked()


def test_the_profile_has_each_refill_of_the_plan_at_its_mile(
    open_route: Callable[[BrowserContext], Page], people: People, driven: tuple[Client, str]
) -> None:
    """The drawing and its table say what the API says of the plan."""
    client, route_id = driven
    plan, page = client.route(route_id)["fuelPlan"], open_route(people.browser())
    planned = [(stop["milesFromOrigin"], stop["gallonsToFill"], stop["pricePerGallon"]) for stop in plan["stops"]]
    assert planned

    drawn = page.locator("svg.profile g.refill")
    titles = [one.text_content() or "" for one in drawn.locator("title").all()]
    assert len(titles) == len(planned)
    for title, (_, gallons, price) in zip(titles, planned, strict=True):
        assert f"{gallons:.1f} gal" in title
        assert f"${price:.3f}" in title
    places = [float(line.get_attribute("x1") or "nan") for line in drawn.locator("line").all()]
    miles_per_unit = client.route(route_id)["distanceMiles"] / (PLOT.right - PLOT.left)
    assert [(place - PLOT.left) * miles_per_unit for place in places] == pytest.approx(
        [mile for mile, _, _ in planned], abs=1
    )

    page.get_by_text("The profile as a table").click()
    for mile, gallons, _ in planned:
        row = page.get_by_role("row").filter(has=page.get_by_role("cell", name=f"{mile:,.1f}", exact=True))
        expect(row.get_by_role("cell").filter(has_text=f"({gallons:,.1f} gal)").first).to_be_visible()


def test_a_map_that_was_opened_before_the_plan_gets_its_road_and_stations(people: People, service: Service) -> None:
    store_prices(service)
    with service.new_tenant() as client:
        route_id = client.push(route_body(datetime.now(UTC), stops=[JOLIET, PERRYSBURG, NEWARK])).json()["id"]
        page = people.page(Role.VIEWER, client.fleet, webgl=True)
        page.goto(f"/routes/{route_id}")
        wait_for_maps(page)
        expect(page.get_by_label("Station along the road")).to_be_hidden()
        assert places_of(page, FUEL_HERE) == [[]]

        client.post_fixes(JOLIET, fuelPercent=60)
        expect(page.get_by_label("Station along the road")).to_be_visible()
        hover(page, FUEL_HERE)
        expect(page.locator(".maplibregl-popup")).to_contain_text("fuel here: ")


@pytest.mark.parametrize("without", ["WebGL", "scripts"])
def test_the_drawing_stands_in_where_the_browser_draws_no_map(
    open_route: Callable[[BrowserContext], Page], people: People, without: str
) -> None:
    page = open_route(people.browser(java_script_enabled=without != "scripts"))

    expect(page.locator("svg.ground")).to_be_visible()
    expect(page.locator("svg.moving .truck")).to_be_visible()
    expect(page.locator(".route-map")).to_be_hidden()
    expect(page.locator("#now .legend")).not_to_contain_text("driven", use_inner_text=True)


PHONE: ViewportSize = {"width": 390, "height": 844}


def test_on_a_phone_the_parts_of_a_route_are_tabs(open_route: Callable[[BrowserContext], Page], people: People) -> None:
    page = open_route(people.browser(viewport=PHONE))
    tabs = page.get_by_role("tab")
    assert tabs.all_text_contents() == ["Map and timeline", "Stops", "Fuel plan", "Messages", "API"]
    expect(page.get_by_role("tabpanel", name="Map and timeline")).to_be_visible()
    expect(page.get_by_role("heading", name="Fuel plan", exact=True)).to_be_hidden()

    tabs.first.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    expect(tabs.nth(2)).to_be_focused()
    expect(tabs.nth(2)).to_have_attribute("aria-selected", "true")
    expect(page.get_by_role("tabpanel")).to_have_count(1)
    expect(page.get_by_role("heading", name="Fuel plan", exact=True)).to_be_visible()
    page.reload()
    expect(page.get_by_role("tabpanel", name="Fuel plan")).to_be_visible()
    page.keyboard.press("Tab")
    page.get_by_role("tab", name="API").click()
    expect(page.get_by_role("heading", name="API response")).to_be_visible()

    page.set_viewport_size({"width": 1280, "height": 900})
    expect(tabs).to_have_count(0)
    for name in ("Timeline", "Fuel plan", "API response"):
        expect(page.get_by_role("heading", name=name, exact=True)).to_be_visible()

    page.set_viewport_size(PHONE)
    page.reload()
    tabs.nth(2).click()
    expect(page.get_by_role("heading", name="Fuel plan", exact=True)).to_be_visible()
    assert_accessible(page)

    page.set_viewport_size(PHONE)
    page.emulate_media(media="print")  # a sheet of paper is as narrow as a phone
    expect(page.get_by_role("banner")).to_be_hidden()
    for name in ("Timeline", "Fuel plan", "API response"):
        expect(page.get_by_role("heading", name=name, exact=True)).to_be_visible()


def test_without_scripts_a_phone_shows_all_parts_of_a_route(
    open_route: Callable[[BrowserContext], Page], people: People
) -> None:
    page = open_route(people.browser(viewport=PHONE, java_script_enabled=False))
    expect(page.get_by_role("tab")).to_have_count(0)
    for name in ("Timeline", "Stops", "Fuel plan", "API response"):
        expect(page.get_by_role("heading", name=name, exact=True)).to_be_visible()
