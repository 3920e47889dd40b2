"""What people do in the console, in a real browser, beside a running service."""

from playwright.sync_api import expect

from domain.lifecycle import Role
from tests.browser.conftest import People
from tests.ingress.console.conftest import PASSWORD


def test_somebody_signs_in_and_out(people: People) -> None:
    email = people.world.new_user(Role.OWNER)
    page = people.browser().new_page()

    page.goto("/keys")
    page.get_by_label("E-mail").fill(email)
    page.get_by_label("Password").fill("a wrong password")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_be_visible()
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", name="API keys")).to_be_visible()

    page.get_by_role("button", name="Sign out").click()
    page.goto("/keys")
    expect(page.get_by_role("button", name="Sign in")).to_be_visible()
