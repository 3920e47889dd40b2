"""Keyboard shortcuts of the console: the search box, the pages, and the list of keys."""

import re

from playwright.sync_api import expect

from domain.lifecycle import Role
from tests.browser.accessibility import assert_accessible
from tests.browser.conftest import People, add_session, session_of


def test_keys_lead_to_the_search_and_to_pages(people: People) -> None:
    page = people.page(Role.OWNER)
    page.goto("/routes")

    page.keyboard.press("/")
    expect(page.locator("#find")).to_be_focused()
    page.keyboard.type("000102")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("/vehicles/one"))

    for letter, path in (("r", "/routes"), ("m", "/matching/vehicles"), ("u", "/users")):
        page.keyboard.press("g")
        page.keyboard.press(letter)
        page.wait_for_url(re.compile(f"{path}$"))

    page.locator("summary", has_text="Reports").click()
    page.goto("/routes")
    expect(page.get_by_role("link", name="IFTA")).to_be_visible()  # the browser remembers what was unfolded


def test_no_key_acts_while_a_person_types(people: People) -> None:
    page = people.page(Role.OWNER)
    page.goto("/vehicles")
    field = page.get_by_label("Search", exact=True)
    field.press_sequentially("gr/?")
    assert field.input_value() == "gr/?"
    assert page.url.endswith("/vehicles")
    expect(page.get_by_role("dialog")).to_have_count(0)

    page.locator("#find").press_sequentially("g/")
    page.keyboard.press("Escape")
    expect(page.locator("#find")).not_to_be_focused()
    assert page.url.endswith("/vehicles")


def test_the_list_of_keys_opens_and_closes(people: People) -> None:
    page = people.page(Role.VIEWER)
    page.goto("/routes")
    page.keyboard.press("?")
    dialog = page.get_by_role("dialog", name="Keyboard shortcuts")
    expect(dialog).to_be_visible()
    expect(dialog).to_contain_text("Matching")
    expect(dialog).not_to_contain_text("Audit log")
    assert_accessible(page)
    page.keyboard.press("/")  # the page behind the dialog hears nothing
    expect(page.locator("#find")).not_to_be_focused()
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()

    page.get_by_role("button", name="Keyboard shortcuts").click()
    dialog.get_by_role("button", name="Close").click()
    expect(dialog).to_be_hidden()


def test_the_search_and_the_menu_of_a_phone_work_without_scripts(people: People) -> None:
    context = people.browser(java_script_enabled=False)
    add_session(context, people.world.url, session_of(people.page(Role.VIEWER).context))
    plain = context.new_page()
    plain.goto("/routes")
    plain.locator("#find").fill("000102")
    plain.locator("#find").press("Enter")
    plain.wait_for_url(re.compile("/vehicles/one"))
    expect(plain.get_by_role("button", name="Keyboard shortcuts")).to_have_count(0)

    plain.set_viewport_size({"width": 390, "height": 844})
    menu = plain.locator("#pages")
    expect(menu).to_be_hidden()
    plain.get_by_role("button", name="Menu").click()
    expect(menu.get_by_role("link", name="Vehicles")).to_have_attribute("aria-current", "page")
    plain.keyboard.press("Escape")
    expect(menu).to_be_hidden()
    plain.get_by_role("button", name="Menu").focus()
    plain.keyboard.press("Enter")
    plain.locator("summary", has_text="Reports").press("Enter")
    expect(menu.get_by_role("link", name="IFTA")).to_be_visible()
    menu.get_by_role("link", name="Drivers").click()
    plain.wait_for_url(re.compile("/drivers$"))
