"""The way of an invited person through the provider, in a real browser: redirects, cookies and the policy of pages."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from domain.ids import new_id
from domain.lifecycle import Role
from tests.browser.accessibility import assert_accessible
from tests.browser.conftest import People
from tests.conftest import redis_database
from tests.ingress.console.conftest import running_console
from tests.openid_provider import CLIENT_ID, CLIENT_SECRET, running_provider
from tests.service import Service


@pytest.fixture(scope="module")
def url(service: Service, worker_id: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A console with a provider that asks for an e-mail address."""
    with (
        running_provider() as provider,
        running_console(
            service.settings,
            redis_database(worker_id, "service"),
            tmp_path_factory.mktemp("logs"),
            FUELROUTE_OPENID_ISSUER=provider.issuer,
            FUELROUTE_OPENID_CLIENT_ID=CLIENT_ID,
            FUELROUTE_OPENID_CLIENT_SECRET=CLIENT_SECRET,
            FUELROUTE_OPENID_LABEL="Acme Login",
        ) as one,
    ):
        yield one


def test_an_invited_person_accepts_by_signing_in_at_the_provider(people: People, url: str) -> None:
    email = f"{new_id().hex}@example.com"
    owner = people.page(Role.OWNER, url=url)
    owner.goto("/users")
    owner.get_by_label("E-mail").fill(email)
    owner.locator("section").get_by_label("dispatcher").check()
    owner.get_by_role("button", name="Make the invitation").click()
    link = owner.locator("#link").inner_text()

    page = people.browser(url).new_page()
    page.goto(link)
    page.get_by_role("link", name="Sign in with Acme Login").click()
    page.get_by_label("E-mail").fill(email)
    page.get_by_role("button", name="Continue").click()
    assert_accessible(page)
    page.get_by_role("button", name="Both are me: sign in").click()
    expect(page.get_by_role("link", name=email)).to_be_visible()

    page.get_by_role("button", name="Sign out").click()
    page.goto("/mappings/drivers")
    assert_accessible(page)
    page.get_by_role("link", name="Sign in with Acme Login").click()
    page.get_by_label("E-mail").fill(email)
    page.get_by_role("button", name="Continue").click()
    expect(page.get_by_role("heading", name="Mappings")).to_be_visible()

    page.get_by_role("button", name="Sign out").click()
    page.get_by_role("link", name="Sign in with Acme Login").click()
    page.get_by_label("E-mail").fill("stranger@example.org")
    page.get_by_role("button", name="Continue").click()
    expect(page.get_by_role("heading", name="You are not invited yet")).to_be_visible()
