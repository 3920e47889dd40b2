"""Signing in with accounts of a real OpenID Connect provider, and attacks on the way there and back."""

import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import httpx
import pyotp
import pytest

from domain.accounts.contacts import IN_CLEAR
from domain.accounts.users import create_user, find_user, make_password_link, set_totp
from domain.audit.entries import actions_on_subject
from domain.database.connections import Database
from domain.lifecycle import Role
from domain.settings import Settings
from tests.conftest import redis_database
from tests.factories import DOT
from tests.ingress.console.conftest import PASSWORD, Browser, World, running_console, words
from tests.openid_provider import CLIENT_ID, CLIENT_SECRET, Account, Provider, running_provider


@pytest.fixture(scope="module")
def running(
    settings: Settings, worker_id: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, Provider]]:
    """A console with a provider."""
    with (
        running_provider() as provider,
        running_console(
            settings,
            redis_database(worker_id, "service"),
            tmp_path_factory.mktemp("logs"),
            FUELROUTE_OPENID_ISSUER=provider.issuer,
            FUELROUTE_OPENID_CLIENT_ID=CLIENT_ID,
            FUELROUTE_OPENID_CLIENT_SECRET=CLIENT_SECRET,
            FUELROUTE_OPENID_LABEL="Acme Login",
        ) as url,
    ):
        yield url, provider


@pytest.fixture
def provider(running: tuple[str, Provider]) -> Iterator[Provider]:
    """The provider, honest before and after the test."""
    _, one = running
    yield one
    honest = Provider(issuer=one.issuer, key=one.key)
    for part in fields(Provider):
        if part.name not in ("closing", "codes", "asked"):
            setattr(one, part.name, getattr(honest, part.name))


@pytest.fixture
def world(running: tuple[str, Provider], database: Database) -> Iterator[World]:
    one = World(running[0], database)
    with one.open:
        yield one


def come_back(browser: Browser, path: str = "/sign-in/openid") -> httpx.Response:
    """The answer to the browser that comes back from the provider."""
    answer = browser.get(way_back(browser, path))
    browser._remember(answer)
    return answer


def proof_in(answer: httpx.Response) -> str:
    """The token of the page that asks whether the account shall be bound."""
    found = re.search(r'name="proof" value="([^"]+)"', answer.text)
    assert found is not None, words(answer.text)
    return found[1]


def sign_in(browser: Browser, path: str = "/sign-in/openid") -> httpx.Response:
    """Sign in as a person who agrees if the account is not bound yet."""
    answer = come_back(browser, path)
    if answer.status_code != 200:
        return answer
    return browser.submit("/sign-in/openid/bind", proof=proof_in(answer))


def way_back(browser: Browser, path: str = "/sign-in/openid") -> str:
    """The address to which the provider sends the browser."""
    there = browser.get(path)
    assert there.status_code == 303, there.text
    return httpx.get(there.headers["location"], verify=False, timeout=120).headers["location"]


def is_signed_in(browser: Browser) -> bool:
    return browser.get("/account").status_code == 200


def link_of(world: World, email: str) -> str:
    with world.database.transaction() as connection:
        return make_password_link(connection, find_user(connection, email), now=datetime.now(UTC))


def test_an_invited_person_signs_in_without_a_password(world: World, provider: Provider) -> None:
    fleet = world.new_fleet()
    email, browser = world.new_user(fleet=fleet, password=None), world.browser()
    provider.account = Account(email.upper())
    assert "Sign in with Acme Login" in browser.look("/sign-in", next="/keys?page=2")

    answer = sign_in(browser, f"/sign-in/openid?next={quote('/keys?page=2')}")

    assert (answer.status_code, answer.headers["location"]) == (303, "/keys?page=2")
    assert "API keys" in browser.look("/keys")
    assert "You have none" in browser.look("/account")
    assert "Acme Login" in browser.look("/users")
    browser.look("/account")
    browser.submit("/sign-out")
    assert not is_signed_in(browser)
    with world.database.transaction() as connection:
        (entry,) = actions_on_subject(connection, fleet.company_id, "own account", limit=5)
    assert (entry.actor, entry.action) == (email, "sign_in.bind_openid")
    assert entry.reason == f"Signed in at {provider.issuer}"


def test_the_account_is_known_by_its_subject_from_then_on(world: World, provider: Provider) -> None:
    email, other = world.new_user(), world.new_user()
    provider.account = account = Account(email)
    assert sign_in(world.browser()).status_code == 303
    account.email, account.is_verified = other, True
    browser = world.browser()
    assert sign_in(browser).status_code == 303
    assert email in browser.look("/account"), "a changed address at the provider leads to no other user"

    provider.account = Account(email)
    assert "bound to another account" in sign_in(world.browser()).text


def test_nobody_gets_access_who_was_not_invited(world: World, provider: Provider) -> None:
    provider.account = Account("stranger@example.com")
    browser = world.browser()
    answer = sign_in(browser)
    assert answer.status_code == 403
    assert "Ask an owner of your company for an invitation" in words(answer.text)
    assert not is_signed_in(browser)
    with world.database.transaction() as connection:
        assert connection.execute("SELECT FROM users WHERE email = 'stranger@example.com'").rowcount == 0


def test_an_unverified_address_signs_nobody_in(world: World, provider: Provider) -> None:
    provider.account = Account(world.new_user(), is_verified=False)
    browser = world.browser()
    assert "not verified" in sign_in(browser).text
    assert not is_signed_in(browser)


def test_an_invitation_is_accepted_by_an_account_without_a_verified_address(world: World, provider: Provider) -> None:
    email, browser = world.new_user(password=None), world.browser()
    path = f"/set-password/{link_of(world, email)}"
    provider.account = Account("private@example.com", is_verified=False)
    assert f"{path}/openid" in browser.look(path)

    assert sign_in(browser, f"{path}/openid").status_code == 303

    assert email in browser.look("/account")
    world.browser().look(path, status=404)
    assert "This invitation has ended" in sign_in(world.browser(), f"{path}/openid").text
    again = world.browser()
    assert come_back(again).status_code == 303, "the account is bound now"


def test_a_link_that_a_stranger_sends_binds_nothing(world: World, provider: Provider) -> None:
    """An owner invites an address of his own, and sends the link to somebody who is signed in at the provider."""
    theirs = world.new_fleet()
    invited, victim = world.new_user(fleet=theirs, password=None), world.browser(Role.OWNER)
    own = re.findall(r"[0-9a-p]{32}@example\.com", victim.look("/account"))
    provider.account = Account("victim@example.com", is_verified=False)

    asked = come_back(victim, f"/set-password/{link_of(world, invited)}/openid")

    assert asked.status_code == 200
    said = words(asked.text)
    assert invited in said
    assert provider.account.subject in said
    with world.database.transaction() as connection:
        (name,) = connection.execute("SELECT name FROM companies WHERE id = %s", (theirs.company_id,)).fetchone() or ()
        bound = connection.execute("SELECT openid_subject FROM users WHERE email = %s", (invited,)).fetchone()
    assert name in said
    assert bound == (None,)
    assert re.findall(r"[0-9a-p]{32}@example\.com", victim.look("/account")) == own, "still signed in as before"
    assert "not verified" in come_back(world.browser()).text


def test_another_verified_address_than_the_invited_one_is_refused(world: World, provider: Provider) -> None:
    invited, browser = world.new_user(password=None), world.browser()
    provider.account = Account("victim@example.com")

    answer = come_back(browser, f"/set-password/{link_of(world, invited)}/openid")

    assert (answer.status_code, is_signed_in(browser)) == (403, False)
    assert "This invitation is for another address" in answer.text
    assert "victim@example.com" in answer.text


def test_the_first_sign_in_asks_and_later_ones_do_not(world: World, provider: Provider) -> None:
    provider.account = Account(world.new_user())
    first = world.browser()
    assert come_back(first).status_code == 200
    assert not is_signed_in(first)
    assert sign_in(first).status_code == 303
    assert come_back(world.browser()).status_code == 303


@pytest.mark.parametrize("forged", ["no form token", "another site", "another browser", "no proof", "twice", "late"])
def test_only_the_form_of_the_page_binds(world: World, provider: Provider, forged: str) -> None:
    email = world.new_user()
    provider.account = Account(email)
    browser, other = world.browser(), world.browser()
    proof = proof_in(come_back(browser))
    other.look("/sign-in")
    data, headers = {"form_token": browser.token, "proof": proof}, {}
    match forged:
        case "no form token":
            data.pop("form_token")
        case "another site":
            headers["Sec-Fetch-Site"] = "cross-site"
        case "another browser":
            browser = other
        case "no proof":
            data["proof"] = "x" * 43
        case "twice":
            assert browser.submit("/sign-in/openid/bind", proof=proof).status_code == 303
            browser = world.browser()
            browser.look("/sign-in")
            data["form_token"] = browser.token
        case "late":
            with world.database.transaction() as connection:
                connection.execute("UPDATE openid_proofs SET created_at = created_at - interval '11 minutes'")

    answer = browser.post("/sign-in/openid/bind", data=data, headers=headers)

    assert (answer.status_code, is_signed_in(browser)) == (403, False)
    assert browser.get("/sign-in/openid/bind").headers["location"] == "/sign-in", "and it is no link"


def test_binding_ends_what_signed_the_user_in_before(world: World, provider: Provider) -> None:
    """A link that is used with an account at the provider is as good as a new password."""
    email, thief, person = world.new_user(), world.browser(), world.browser()
    assert thief.sign_in(email).status_code == 303
    provider.account = Account(email)

    assert "the password ends" in come_back(world.browser(), f"/set-password/{link_of(world, email)}/openid").text
    assert sign_in(person, f"/set-password/{link_of(world, email)}/openid").status_code == 303

    assert not is_signed_in(thief)
    assert is_signed_in(person)
    assert world.browser().sign_in(email).status_code == 403


def test_a_new_password_ends_the_binding(world: World, provider: Provider) -> None:
    email, browser = world.new_user(), world.browser()
    provider.account = Account(email)
    assert sign_in(browser).status_code == 303
    browser.look("/account")
    new = "another horse battery"
    assert browser.submit("/account/password", present=PASSWORD, password=new, again=new).status_code == 303

    assert come_back(world.browser()).status_code == 200, "it asks again"


@pytest.mark.parametrize("password", [PASSWORD, None])
def test_a_button_ends_the_binding(world: World, provider: Provider, password: str | None) -> None:
    email, browser, elsewhere = world.new_user(password=password), world.browser(), world.browser()
    provider.account = Account(email)
    assert sign_in(browser).status_code == 303
    assert come_back(elsewhere).status_code == 303
    assert "Stop signing in with Acme Login" in browser.look("/account")

    assert browser.submit("/account/openid/remove").status_code == 303

    assert not is_signed_in(browser)
    assert not is_signed_in(elsewhere)
    assert come_back(world.browser()).status_code == 200, "it asks again"


@pytest.mark.parametrize(
    "written",
    [
        "\N{KELVIN SIGN}{}",
        "{}\N{NO-BREAK SPACE}",
        "{} ",
        "\x00{}",
        "{}\N{ZERO WIDTH SPACE}",
        "\N{FULLWIDTH LATIN SMALL LETTER K}{}",
    ],
)
def test_an_address_that_only_looks_like_the_invited_one_is_another(
    world: World, provider: Provider, written: str
) -> None:
    rest = f"ate-{world.new_user()}"
    address = f"k{rest}" if "K" in written else rest
    with world.database.transaction() as connection:
        create_user(connection, DOT, email=address, role=Role.OWNER, company_id=world.new_fleet().company_id)
    provider.account = Account(written.format(rest))

    assert "You are not invited yet" in come_back(world.browser()).text
    link = f"/set-password/{link_of(world, address)}/openid"
    assert "This invitation is for another address" in come_back(world.browser(), link).text


def test_a_new_link_binds_another_account(world: World, provider: Provider) -> None:
    """The person has a new account at the provider, and an owner makes a link."""
    email = world.new_user()
    provider.account = Account(email)
    sign_in(world.browser())
    provider.account = Account(email)
    assert sign_in(world.browser()).status_code == 403
    assert sign_in(world.browser(), f"/set-password/{link_of(world, email)}/openid").status_code == 303
    assert sign_in(world.browser()).status_code == 303


def test_one_account_belongs_to_one_user(world: World, provider: Provider) -> None:
    provider.account = Account(world.new_user())
    sign_in(world.browser())
    answer = sign_in(world.browser(), f"/set-password/{link_of(world, world.new_user())}/openid")
    assert "This account belongs to another user" in answer.text


def test_operators_sign_in_by_password_alone(world: World, provider: Provider) -> None:
    email = world.new_user(Role.OPERATOR)
    provider.account = Account(email)
    for path in ("/sign-in/openid", f"/set-password/{link_of(world, email)}/openid"):
        browser = world.browser()
        assert "Operators sign in with their password" in sign_in(browser, path).text
        assert not is_signed_in(browser)


def test_the_second_factor_is_the_matter_of_the_provider(world: World, provider: Provider) -> None:
    email = world.new_user()
    with world.database.transaction() as connection:
        set_totp(connection, find_user(connection, email), pyotp.random_base32(), contacts=IN_CLEAR)
    provider.account = Account(email)
    assert world.browser().sign_in(email).status_code == 403, "a password alone is not enough"
    assert sign_in(world.browser()).status_code == 303


def test_users_of_a_retired_company_cannot_sign_in(world: World, provider: Provider) -> None:
    fleet = world.new_fleet()
    provider.account = Account(world.new_user(fleet=fleet))
    assert sign_in(world.browser()).status_code == 303
    with world.database.transaction() as connection:
        connection.execute("UPDATE companies SET retired_at = now() WHERE id = %s", (fleet.company_id,))
    assert sign_in(world.browser()).status_code == 403


def test_a_provider_that_tells_the_address_only_when_asked(world: World, provider: Provider) -> None:
    provider.account = Account(world.new_user())
    provider.tells_email_on_request = True
    assert sign_in(world.browser()).status_code == 303
    provider.account, provider.info_subject = Account(world.new_user()), "somebody else"
    assert sign_in(world.browser()).status_code == 403


def test_a_key_that_was_replaced_signs_nobody_in_and_the_new_one_does(world: World, provider: Provider) -> None:
    provider.account = Account(world.new_user())
    assert sign_in(world.browser()).status_code == 303
    former = provider.key
    provider.rotate()
    assert sign_in(world.browser()).status_code == 303
    provider.published, provider.key = [provider.key], former
    assert sign_in(world.browser()).status_code == 403


LIES: dict[str, Callable[[Provider], Any]] = {
    "another nonce": lambda it: it.claims.update(nonce="0" * 64),
    "no nonce": lambda it: it.claims.update(nonce=None),
    "another audience": lambda it: it.claims.update(aud="another-client"),
    "made for another client": lambda it: it.claims.update(aud=[CLIENT_ID, "x"], azp="x"),
    "several audiences, no party": lambda it: it.claims.update(aud=[CLIENT_ID, "x"]),
    "expired": lambda it: it.claims.update(exp=int(datetime.now(UTC).timestamp()) - 120),
    "never expires": lambda it: it.claims.update(exp=None),
    "of tomorrow": lambda it: it.claims.update(iat=int(datetime.now(UTC).timestamp()) + 86_400),
    "another issuer": lambda it: it.claims.update(iss="https://login.example.com"),
    "nobody": lambda it: it.claims.update(sub=""),
    "a number": lambda it: it.claims.update(sub=7),
    "not signed": lambda it: setattr(it, "algorithm", "none"),
    "signed with the public key": lambda it: setattr(it, "algorithm", "HS256"),
    "signed with a foreign key": lambda it: setattr(it, "published", [Provider().key]),
    "no keys": lambda it: setattr(it, "published", []),
    "the way back names another issuer": lambda it: it.answer.update(iss="https://login.example.com"),
    "the way back names no issuer": lambda it: it.answer.update(iss=""),
    "a code of another attempt": lambda it: it.answer.update(code="x"),
    "a stopped sign-in": lambda it: it.answer.update(error="access_denied"),
}


@pytest.mark.parametrize("lie", LIES)
def test_an_answer_that_proves_nothing_signs_nobody_in(world: World, provider: Provider, lie: str) -> None:
    provider.account = Account(world.new_user())
    LIES[lie](provider)
    browser = world.browser()
    answer = sign_in(browser)
    assert answer.status_code == 403, lie
    assert "Sign in once more" in answer.text or "Try again" in answer.text
    assert not is_signed_in(browser)


def test_only_the_browser_that_began_comes_back(world: World, provider: Provider) -> None:
    """An attacker sends a victim the way back of an attempt of his own: the victim would work in his account."""
    provider.account = Account(world.new_user())
    attacker, victim, idle = world.browser(), world.browser(), world.browser()
    there = way_back(attacker)
    way_back(victim)
    for browser in (victim, idle):
        answer = browser.get(there)
        assert answer.status_code == 403
        assert "not begun here" in answer.text
        assert not is_signed_in(browser)
    assert attacker.get(there).status_code == 200, "the code is still unused"
    assert attacker.get(there).status_code == 403, "and works once"


@pytest.mark.parametrize("next_path", ["//evil.example", "https://evil.example", "/\\evil.example", "evil", "/\tx"])
def test_signing_in_at_the_provider_leads_to_no_other_site(world: World, provider: Provider, next_path: str) -> None:
    provider.account = Account(world.new_user())
    assert sign_in(world.browser(), f"/sign-in/openid?next={quote(next_path)}").headers["location"] == "/"


@pytest.mark.parametrize("cookie", ["x" * 30, "x" * 30 + "..", "%" * 40, "x" * 5000, "é.é.é" * 8, 'a".b.c' * 9])
def test_a_cookie_that_no_page_of_ours_set_does_nothing(world: World, cookie: str) -> None:
    headers = [(b"Cookie", f"fuelroute-openid={cookie}".encode())]
    for query in ("", "?state=&code=x", "?state=%00&code=%ff&iss=%F0", f"?state=x&code={'x' * 3000}"):
        answer = httpx.get(f"{world.url}/sign-in/openid/callback{query}", headers=headers, timeout=120)
        assert answer.status_code == 403


def test_a_provider_that_fails_gets_a_page_that_says_so(world: World, provider: Provider) -> None:
    provider.account = Account(world.new_user())
    for fault in ("flood", "breaks"):
        browser = world.browser()
        back = way_back(browser)
        setattr(provider, fault, True)
        answer = browser.get(back)
        setattr(provider, fault, False)
        assert answer.status_code == 503
        assert "Acme Login does not answer" in answer.text
        assert not is_signed_in(browser)


def test_a_provider_that_hangs_delays_no_other_page(world: World, provider: Provider) -> None:
    provider.account = Account(world.new_user())
    browsers = [world.browser() for _ in range(6)]
    ways = [way_back(browser) for browser in browsers]
    provider.hangs.set()
    with ThreadPoolExecutor(len(browsers)) as threads:
        answers = [threads.submit(browser.get, way) for browser, way in zip(browsers, ways, strict=True)]
        assert world.browser(Role.OWNER).get("/keys", timeout=5).status_code == 200
        provider.hangs.clear()
        assert {answer.result().status_code for answer in answers} == {200}


def test_a_session_of_before_does_not_sign_in(world: World, provider: Provider) -> None:
    """Session fixation."""
    known = "attackers-token-attackers-token-attackers"
    victim = world.browser_with(cookies={"fuelroute": known})
    provider.account = Account(world.new_user())
    assert sign_in(victim).status_code == 303
    assert world.browser_with(cookies={"fuelroute": known}).get("/keys").status_code == 303


def test_the_provider_learns_nothing_but_the_attempt(world: World, provider: Provider) -> None:
    email = world.new_user()
    there = world.browser().get(f"/set-password/{link_of(world, email)}/openid")
    query = {name: value[0] for name, value in parse_qs(urlsplit(there.headers["location"]).query).items()}
    assert set(query) == {
        *("client_id", "response_type", "redirect_uri", "scope", "state", "nonce"),
        *("code_challenge", "code_challenge_method"),
    }
    assert query["code_challenge_method"] == "S256"
    assert query["redirect_uri"] == f"{world.url}/sign-in/openid/callback"
    cookie = there.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=lax" in cookie
    assert "Max-Age=600" in cookie


def test_attempts_from_a_network_are_limited(world: World, provider: Provider) -> None:
    """Guesses elsewhere, and those of passwords, do not count."""
    browser = world.browser_with(headers={"X-Forwarded-For": "203.0.113.9"})
    provider.account = Account("stranger@example.com")
    statuses = [sign_in(browser).status_code for _ in range(53)]
    assert statuses[:50] == [403] * 50
    assert 429 in statuses
    provider.account = Account(world.new_user())
    assert sign_in(world.browser()).status_code == 303
