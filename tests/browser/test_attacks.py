"""Attacks on somebody's session by other sites, stolen cookies and prepared cookies: none succeeds.

They run in a real browser, whose own rules for cookies and origins are part of the defence."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from domain.accounts.sessions import IDLE_HOURS, LONGEST_DAYS
from domain.accounts.tokens import hash_of_token, new_token
from domain.lifecycle import Role
from tests.browser.conftest import People, add_session, session_of
from tests.ingress.console.conftest import PASSWORD
from tests.service import Client, Service


class Silent(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def foreign_site(folder: Path, html: str) -> Iterator[int]:
    """Another site with that page. Yields its port."""
    (folder / "index.html").write_text(f"<!doctype html><title>A foreign site</title>{html}")
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Silent, directory=str(folder))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def client(service: Service) -> Iterator[Client]:
    with service.new_tenant() as one:
        yield one


@pytest.fixture
def owner(people: People, client: Client) -> Page:
    """Somebody whose browser is signed in."""
    page = people.page(Role.OWNER, client.fleet)
    page.goto("/keys")
    expect(page.get_by_role("heading", name="API keys")).to_be_visible()
    return page


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"], ids=["another site", "another port of the same host"])
def test_a_form_of_another_origin_changes_nothing(
    host: str, owner: Page, client: Client, people: People, tmp_path: Path
) -> None:
    """Another port of the host is the same site, so its forms bring the cookie, here even with a valid token."""
    token = owner.locator("[name=form_token]").first.input_value()
    revoke = f"{people.world.url}/keys/{client.get('/v1/me').json()['key']['id']}/revoke"
    form = f'<form method="post" action="{revoke}"><input name="form_token" value="{token}"><button>Win</button></form>'
    with foreign_site(tmp_path, form) as port:
        page = owner.context.new_page()
        page.goto(f"http://{host}:{port}/")
        page.get_by_role("button").click()
        expect(page.get_by_role("heading", name="This form is out of date")).to_be_visible()

    assert client.get("/v1/me").status_code == 200, "the key is still valid"
    owner.reload()
    expect(owner.get_by_role("heading", name="API keys")).to_be_visible()


def test_another_site_neither_frames_nor_reads_a_page(owner: Page, people: People, tmp_path: Path) -> None:
    html = f'<iframe src="{people.world.url}/keys"></iframe>'
    with foreign_site(tmp_path, html) as port:
        page = owner.context.new_page()
        page.goto(f"http://127.0.0.1:{port}/")
        assert "API keys" not in "".join(frame.content() for frame in page.frames)
        read = f"fetch('{people.world.url}/keys', {{credentials: 'include'}}).then(answer => answer.text())"
        assert page.evaluate(f"{read}.catch(error => 'refused')") == "refused"
    assert people.faults, "the browser says why"
    people.faults.clear()


def test_scripts_cannot_read_the_cookie(owner: Page) -> None:
    assert owner.evaluate("document.cookie") == ""


def test_a_stolen_cookie_ends_when_its_owner_signs_out_everywhere(owner: Page, people: People) -> None:
    thief = people.browser()
    add_session(thief, people.world.url, session_of(owner.context))
    page = thief.new_page()
    page.goto("/keys")
    expect(page.get_by_role("heading", name="API keys")).to_be_visible()

    owner.goto("/account")
    expect(owner.get_by_text("You are signed in on 1 browser.")).to_be_visible()
    owner.get_by_role("button", name="Sign out everywhere").click()
    expect(owner.get_by_role("button", name="Sign in")).to_be_visible()

    page.goto("/keys")
    expect(page.get_by_role("button", name="Sign in")).to_be_visible()


def test_a_cookie_opens_nothing_after_signing_out(owner: Page, people: People) -> None:
    kept = session_of(owner.context)
    owner.get_by_role("button", name="Sign out", exact=True).click()
    expect(owner.get_by_role("button", name="Sign in")).to_be_visible()

    add_session(owner.context, people.world.url, kept)
    owner.goto("/keys")
    expect(owner.get_by_role("button", name="Sign in")).to_be_visible()


@pytest.mark.parametrize(
    ("column", "age"),
    [("seen_at", timedelta(hours=IDLE_HOURS, minutes=1)), ("created_at", timedelta(days=LONGEST_DAYS, minutes=1))],
)
def test_an_expired_cookie_opens_nothing(
    column: str, age: timedelta, owner: Page, people: People, now: datetime
) -> None:
    with people.world.database.transaction() as connection:
        connection.execute(
            f"UPDATE sessions SET {column} = %s WHERE token_hash = %s",
            (now - age, hash_of_token(session_of(owner.context))),
        )
    owner.goto("/keys")
    expect(owner.get_by_role("button", name="Sign in")).to_be_visible()


def test_a_cookie_known_to_an_attacker_is_never_signed_in(people: People) -> None:
    """Session fixation: an attacker knows the cookie that the victim's browser had before signing in."""
    email = people.world.new_user(Role.OWNER)
    victim, attacker = people.browser(), people.browser()
    known = new_token()
    for browser in (victim, attacker):
        add_session(browser, people.world.url, known)

    page = victim.new_page()
    page.goto("/keys")
    page.get_by_label("E-mail").fill(email)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", name="API keys")).to_be_visible()

    assert session_of(victim) != known
    page = attacker.new_page()
    page.goto("/keys")
    expect(page.get_by_role("button", name="Sign in")).to_be_visible()
