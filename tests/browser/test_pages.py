"""Every page of the console: listed, for everybody, at every width, in both themes, with the keyboard alone."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, ViewportSize, expect
from starlette.routing import Route

from deploy.demo import HERE as DEMO
from domain.accounts.keys import create_key, revoke_key
from domain.audit.entries import Action, Actor, record_action
from domain.contract.shapes import SCOPES
from domain.fleet.mappings import store_mapping
from domain.lifecycle import Environment, Role
from domain.settings import Settings
from domain.stations.deals import store_deal_rows
from domain.stations.taxes import store_tax_rows
from ingress.console.app import create_console
from tests.browser.accessibility import EVERYWHERE, assert_accessible, assert_reached_by_keyboard, keep_axe
from tests.browser.chromium import WIDTHS
from tests.browser.conftest import People, add_session
from tests.browser.pages import NO_PAGES, PAGES, SHOWN, WITH_MAP, Site, Visit, wait_for_maps
from tests.browser.screenshots import MOST_BYTES, MOST_BYTES_WITH_MAP, SMALL
from tests.factories import DOT, JOLIET, NEWARK, PERRYSBURG, Fleet, route_body
from tests.ingress.console.conftest import World
from tests.pipeline.world import store_prices
from tests.service import Service


def test_every_address_of_the_console_is_listed() -> None:
    app = create_console(Settings(database_url="postgresql://nowhere/none", redis_url="redis://nowhere/0"))
    addresses = {route.path for route in app.routes if isinstance(route, Route) and "GET" in (route.methods or ())}

    assert {visit.address for visit in PAGES} | set(NO_PAGES) == addresses


def test_the_readme_shows_every_page() -> None:
    text = (SMALL.parent / "README.md").read_text()

    assert re.findall(r"\(screenshots/([\w-]+)\.png\)", text) == [visit.name for visit in SHOWN]
    assert {picture.stem for picture in SMALL.iterdir()} == {visit.name for visit in SHOWN}
    for picture in SMALL.iterdir():
        has_map = picture.stem in WITH_MAP
        assert picture.stat().st_size < (MOST_BYTES_WITH_MAP if has_map else MOST_BYTES), picture.name


@pytest.fixture(scope="module")
def busy_fleet(chromium_path: str, service: Service) -> Iterator[Fleet]:
    """A company whose pages are all full: a driven route, references that wait, a mapping, keys, a held route,
    deals, a request that failed, an entry of the audit log."""
    store_prices(service)
    with service.database.transaction() as connection:
        store_tax_rows(connection, DEMO / "taxes.csv", now=datetime.now(UTC))
    soon, next_month = (datetime.now(UTC) + timedelta(hours=hours) for hours in (1, 24 * 30))
    with service.new_tenant() as client:
        driven = client.push(route_body(datetime.now(UTC), stops=[JOLIET, PERRYSBURG, NEWARK])).json()["id"]
        client.post_fixes(JOLIET, fuelPercent=60)
        for changes in (
            {"vehicle": {"unitNumber": "TRUCK 102"}},
            {"vehicle": {"unitNumber": "quite unlike"}},
            {"vehicle": {"unitNumber": "101", "vin": "1XKAD49X0CJ000102"}},
            {"driver": {"name": "Bob Diaz"}},
            {"scheduledStart": next_month.isoformat()},
        ):
            client.push(route_body(soon, **changes))
        client.push(route_body(soon, stops=[JOLIET], externalId="a load without an end"))
        with service.database.transaction() as connection:
            company_id = client.fleet.company_id
            store_deal_rows(connection, company_id, DEMO / "deals.csv", now=datetime.now(UTC))
            by = Actor("ann.lee@example.com", "the yard was closed")
            record_action(connection, by, Action("route_actions.cancel"), "LOAD-1", company_id=company_id)
            store_mapping(connection, company_id, "unit_number", "OLD-7", client.fleet.trucks[1])
            environment = Environment.SANDBOX
            more: dict[str, Any] = {"environment": environment, "scopes": list(SCOPES)}
            create_key(connection, company_id, DOT, name="TMS", expires_at=soon, **more)
            revoke_key(connection, create_key(connection, company_id, DOT, name="old TMS", **more).id, DOT)
        client.wait_for(driven, "active")
        client.post_fixes(PERRYSBURG, at=datetime.now(UTC) + timedelta(seconds=30))
        yield client.fleet
    with service.database.transaction() as connection:
        connection.execute("TRUNCATE fuel_taxes")  # they are everybody's, and other tests plan without


@pytest.fixture
def site(busy_fleet: Fleet, console_url: str, service: Service) -> Site:
    return Site(console_url, service.database, busy_fleet.company_id)


_WITH_ITS_MAP = {"map"}
"""Pages that are judged with their map, the others with the drawing that stands in for it, or with none. The map of a
route is judged in test_route_map.py, the overview's in test_needs.py."""


_WHOLE = {visit.role: visit for visit in reversed(PAGES)}.values()


class Windows:
    """A window of each role, with WebGL and without, that one test leaves to the next: a page in a new window takes a
    quarter more processor time. It shows its page until the next one. A window that is left for another one shows an
    address of the same site: a new process would compile all scripts again."""

    def __init__(self, people: People) -> None:
        self.people = people
        self._pages: dict[tuple[Role | None, bool], Page] = {}
        self._shown: Page | None = None

    def of(self, visit: Visit, site: Site) -> Page:
        """An empty window for the visit."""
        kind = visit.role, visit.name in _WITH_ITS_MAP
        if kind not in self._pages:
            context = self.people.browser(webgl=kind[1])
            keep_axe(context)
            if visit.role is not None:
                add_session(context, site.url, site.cookie(visit.role))
            self._pages[kind] = context.new_page()
        page = self._pages[kind]
        if self._shown is not None and self._shown is not page:
            self._shown.goto("/healthz")  # its page would go on with its stream
        page.emulate_media(color_scheme="light")
        page.set_viewport_size(_DESK)
        self._shown = page
        return page


_DESK: ViewportSize = {"width": 1280, "height": 720}


@pytest.fixture(scope="module")
def open_windows(chromium: Browser, console_url: str, service: Service) -> Iterator[Windows]:
    people = People(chromium, World(console_url, service.database))
    yield Windows(people)
    people.close()
    assert people.faults == []


@pytest.fixture
def windows(open_windows: Windows) -> Iterator[Windows]:
    yield open_windows
    faults = open_windows.people.faults.copy()
    open_windows.people.faults.clear()
    assert faults == []


def open_visit(visit: Visit, site: Site, windows: Windows) -> Page:
    page = windows.of(visit, site)
    answer = page.goto(visit.path_in(site))
    assert answer is not None
    assert answer.status == 200
    wait_for_maps(page)
    if visit.act is not None:
        visit.act(page)
    return page


@pytest.mark.parametrize("visit", PAGES, ids=lambda visit: visit.name)
def test_each_page_is_for_everybody_and_for_the_keyboard_alone(visit: Visit, site: Site, windows: Windows) -> None:
    """Both in one visit, since opening a page takes longer than either. The parts that all pages have are looked at on
    one page of each role."""
    page = open_visit(visit, site, windows)
    is_whole = visit in _WHOLE
    if visit in SHOWN:
        assert_reached_by_keyboard(page, "body" if is_whole else "main")
    assert_accessible(page, left_out=() if is_whole else EVERYWHERE)


_WIDEST_USUAL = """() => {
    const [, row] = [...document.querySelectorAll("main table")].at(-1).rows;
    const figures = {"Planned cost": "$1,234.56", "At average price": "$1,345.67", "Saved": "no purchase"};
    for (const [name, text] of Object.entries(figures)) {
        row.querySelector(`[data-label="${name}"]`).textContent = text;
    }
}"""


def test_a_plan_without_a_purchase_leaves_its_table_within_a_small_desk(site: Site, windows: Windows) -> None:
    (visit,) = (visit for visit in PAGES if visit.name == "savings-plans")
    page = open_visit(visit, site, windows)

    page.evaluate(_WIDEST_USUAL)

    assert page.evaluate("[innerWidth, document.documentElement.scrollWidth]") == [1280, 1280]


def test_a_pale_text_is_found_among_others_of_its_kind(people: People) -> None:
    page = people.browser().new_page()
    kinds = ("<p {}>Many words</p>", "<p><b {}>Many words</b></p>", "<p class=other {}>Many words</p>")
    for kind in kinds:
        texts = "".join(5 * one.format("") for one in kinds)
        pale = kind.format('style="color: #bbb"')
        page.set_content(f"<!doctype html><html lang=en><title>Texts</title><main>{texts}{pale}</main>")
        with pytest.raises(AssertionError, match=r"color-contrast: .*#bbb"):
            assert_accessible(page, widths=WIDTHS[1:2])


def test_a_page_that_refuses_is_accessible(people: People) -> None:
    page = people.page(Role.VIEWER)
    page.goto("/no-such-page")
    expect(page.get_by_role("heading", name="Not found")).to_be_visible()
    assert_accessible(page)


def test_the_first_key_skips_to_the_page(people: People) -> None:
    page = people.page(Role.OWNER)
    page.goto("/keys")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the page")).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.closest('main') !== null")


def test_a_menu_is_opened_used_and_closed_with_the_keyboard(site: Site, windows: Windows) -> None:
    page = open_visit(next(visit for visit in PAGES if visit.name == "keys"), site, windows)
    rotate, revoke = (page.locator("summary", has_text=name).first for name in ("Rotate", "Revoke"))

    rotate.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_label("Both work for").first).to_be_focused()
    page.keyboard.press("Escape")
    expect(rotate).to_be_focused()
    expect(page.get_by_label("Both work for").first).not_to_be_visible()

    page.keyboard.press("Tab")
    expect(revoke).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("details[open]").get_by_label("Why")).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Revoke the key")).to_be_focused()
    page.keyboard.press("Escape")
    expect(revoke).to_be_focused()
