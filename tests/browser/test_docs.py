"""The documentation in a browser: readable for everybody at every width, in both themes; samples and search work."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import pytest
from playwright.sync_api import Browser, Page, expect

from ingress.docs.site import GUIDES
from tests.browser.accessibility import assert_accessible, keep_axe
from tests.service import Service


class Reading(NamedTuple):
    """A page whose scripts may not fail, and which may load nothing from elsewhere."""

    page: Page
    faults: list[str]


@contextmanager
def reading(chromium: Browser, service: Service) -> Iterator[Reading]:
    faults: list[str] = []
    context = chromium.new_context(base_url=service.url, reduced_motion="reduce")
    context.set_default_timeout(60_000)
    context.on("weberror", lambda error: faults.append(str(error.error)))
    context.on("console", lambda message: faults.append(message.text) if message.type == "error" else None)
    context.on(
        "request",
        lambda one: faults.append(one.url) if not one.url.startswith((service.url, "data:")) else None,
    )
    yield Reading(context.new_page(), faults)
    context.close()
    assert faults == []


@pytest.fixture
def reader(chromium: Browser, service: Service) -> Iterator[Page]:
    with reading(chromium, service) as one:
        yield one.page


@pytest.fixture(scope="module")
def open_window(chromium: Browser, service: Service) -> Iterator[Reading]:
    """A window that one test leaves to the next: a page in a new one takes a quarter more processor time."""
    with reading(chromium, service) as one:
        keep_axe(one.page.context)
        yield one


@pytest.fixture
def window(open_window: Reading) -> Iterator[Page]:
    open_window.page.emulate_media(color_scheme="light")
    yield open_window.page
    faults = open_window.faults.copy()
    open_window.faults.clear()
    assert faults == []


@pytest.mark.parametrize("path", ["", "/search?q=retry", *(f"/{name}" for name in GUIDES)])
def test_each_guide_is_accessible(window: Page, path: str) -> None:
    """The parts that all pages have are looked at on the first page, and on the first that they show as the current."""
    window.goto(f"/docs{path}")
    assert_accessible(window, left_out=() if path in ("", f"/{GUIDES[0]}") else ("body > header", "body > nav"))


def test_the_reference_is_accessible_and_shows_every_operation(reader: Page) -> None:
    reader.goto("/docs/reference")

    def until_shown() -> None:
        for heading in ("Verify a key", "Push a route", "Cancel a route", "List drivers"):
            expect(reader.get_by_role("heading", name=heading)).to_be_visible()
        # it is drawn again for another theme, a moment after that
        reader.wait_for_function(
            "getComputedStyle(document.querySelector('#reference h1')).color === getComputedStyle(document.body).color"
        )

    until_shown()
    assert_accessible(reader, until_shown)


def test_the_language_of_samples_is_chosen_once(reader: Page) -> None:
    reader.goto("/docs/quickstart")
    expect(reader.get_by_text("fuelroute = Fuelroute()").first).not_to_be_visible()

    reader.get_by_role("tab", name="curl").first.focus()
    reader.keyboard.press("ArrowRight")
    expect(reader.get_by_role("tab", name="Python").first).to_be_focused()
    expect(reader.get_by_text("fuelroute = Fuelroute()").first).to_be_visible()

    reader.goto("/docs/polling")
    expect(reader.get_by_role("tab", name="Python", selected=True).first).to_be_visible()


def test_the_search_is_reached_with_a_key(reader: Page) -> None:
    reader.goto("/docs")
    reader.keyboard.press("/")
    reader.keyboard.type("insufficient_scope")
    reader.keyboard.press("Enter")
    reader.get_by_role("link", name="Errors: insufficient_scope").click()
    expect(reader).to_have_url(f"{reader.url.partition('#')[0]}#insufficient_scope")
    expect(reader.get_by_role("heading", name="insufficient_scope")).to_be_in_viewport()


def test_a_guide_is_read_without_scripts(chromium: Browser, service: Service) -> None:
    context = chromium.new_context(base_url=service.url, java_script_enabled=False)
    page = context.new_page()
    page.goto("/docs/quickstart")
    expect(page.get_by_text("fuelroute = Fuelroute()").first).to_be_visible()
    expect(page.get_by_text("TypeScript", exact=True).first).to_be_visible()
    context.close()
