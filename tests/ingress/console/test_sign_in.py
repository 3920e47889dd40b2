"""Signing in to the console, and attacks on sessions and forms."""

import json
import re
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from html import unescape

import httpx
import pyotp
import pytest

from domain.accounts.contacts import IN_CLEAR
from domain.accounts.recovery_codes import count_recovery_codes, make_recovery_codes
from domain.accounts.sessions import IDLE_HOURS, LONGEST_DAYS
from domain.accounts.users import find_user, make_password_link, remove_user, set_totp
from domain.audit.entries import actions_on_subject
from domain.ids import new_id, shown_id
from domain.lifecycle import Role
from tests.factories import DOT
from tests.ingress.console.conftest import PASSWORD, Fields, World, words
from tests.ingress.console.records import form_of, stored_rows


def cookies_of(answer: httpx.Response) -> dict[str, str]:
    """Each cookie that is set, with its attributes."""
    return {line.partition("=")[0]: line for line in answer.headers.get_list("set-cookie")}


def test_a_user_signs_in_and_out(world: World) -> None:
    email = world.new_user()
    browser = world.browser()

    assert "Sign in" in browser.look("/keys")
    assert browser.sign_in(email.upper()).headers["location"] == "/"
    assert "API keys" in browser.look("/keys")

    assert browser.submit("/sign-out").headers["location"] == "/sign-in?done=out"
    assert "You are signed out" in browser.look("/sign-in", done="out")
    assert browser.get("/keys").headers["location"] == "/sign-in?next=/keys"


def test_a_form_without_a_cookie_is_given_none(world: World) -> None:
    """Another site's form comes without the cookie: one that its answer set would replace it and sign its owner out."""
    for path in ("/keys", "/sign-in", "/nowhere"):
        assert cookies_of(world.browser().submit(path, token="x")) == {}


@pytest.mark.parametrize("path", ["/", "/keys", "/matching/vehicles", "/mappings/drivers", "/account", "/companies"])
def test_pages_are_only_for_those_who_are_signed_in(world: World, path: str) -> None:
    answer = world.browser_with().get(path)

    assert answer.status_code == 303
    assert answer.headers["location"].startswith("/sign-in?next=/")


def test_a_wrong_password_and_an_unknown_user_get_the_same_answer(world: World) -> None:
    email = world.new_user()
    pages = []
    for name, password in ((email, "wrong horse battery"), (f"not-{email}", PASSWORD), (email, "x" * 300), (email, "")):
        browser = world.browser()
        answer = browser.sign_in(name, password)
        pages.append(words(answer.text))
        assert answer.status_code == 403

    assert len(set(pages)) == 1


def test_a_user_without_a_password_cannot_sign_in(world: World) -> None:
    email = world.new_user(password=None)
    assert world.browser().sign_in(email, "").status_code == 403


def test_cookies_are_sent_to_this_site_only(world: World) -> None:
    email = world.new_user()
    plain, secure = world.browser_with(), world.browser_with(headers={"X-Forwarded-Proto": "https"})
    plain.look("/sign-in")
    cookies = cookies_of(plain.submit("/sign-in", email=email, password=PASSWORD))
    assert set(cookies) == {"fuelroute", "fuelroute-device"}
    assert all("HttpOnly" in cookie and "SameSite=lax" in cookie for cookie in cookies.values())

    first = secure.get("/sign-in")
    name, value = cookies_of(first)["__Host-fuelroute"].partition(";")[0].split("=")
    token = re.search(r'form_token" value="(\w+)"', first.text)
    assert token is not None
    answer = httpx.post(
        f"{world.url}/sign-in",
        data={"form_token": token[1], "email": email, "password": PASSWORD},
        headers={"X-Forwarded-Proto": "https", "Cookie": f"{name}={value}"},
        timeout=120,
    )
    assert answer.status_code == 303
    assert all("Secure" in cookie and cookie.startswith("__Host-") for cookie in cookies_of(answer).values())
    assert "max-age" in answer.headers["strict-transport-security"]


def test_only_hashes_of_tokens_are_stored(world: World) -> None:
    browser = world.browser(Role.OWNER)
    token = browser.cookies["fuelroute"]
    with world.database.transaction() as connection:
        row = connection.execute("SELECT count(*) FROM sessions WHERE encode(token_hash, 'escape') = %s", (token,))
        assert row.fetchone() == (0,)
    assert world.browser_with(cookies={"fuelroute": token}).get("/keys").status_code == 200


def test_a_form_token_from_before_signing_in_is_refused_afterwards(world: World) -> None:
    """Session fixation: an attacker gives a victim a browser with a cookie that the attacker knows."""
    known = "attackers-token-attackers-token-attackers"
    victim = world.browser_with(cookies={"fuelroute": known})
    victim.look("/sign-in")
    answer = victim.submit("/sign-in", email=world.new_user(), password=PASSWORD)

    assert answer.status_code == 303
    assert cookies_of(answer)["fuelroute"].partition(";")[0] != f"fuelroute={known}"
    assert world.browser_with(cookies={"fuelroute": known}).get("/keys").status_code == 303


@pytest.mark.parametrize("path", ["/sign-in", "/sign-out", "/keys", "/matching/vehicles/map", "/account/password"])
def test_a_form_without_the_browsers_own_token_does_nothing(world: World, path: str) -> None:
    browser, other = world.browser(Role.OWNER), world.browser(Role.OWNER)
    for token in ("", "0" * 64, other.token):
        assert browser.submit(path, token=token).status_code == 403
    assert browser.get("/keys").status_code == 200


def test_a_form_of_another_site_does_nothing(world: World) -> None:
    browser = world.browser(Role.OWNER)
    for site in ("cross-site", "same-site"):
        browser.headers["Sec-Fetch-Site"] = site
        assert browser.submit("/sign-out").status_code == 403


@pytest.mark.parametrize(
    ("asked", "shown"),
    [
        ("/vehicles/one?id=veh_%7B1%7D&done=changed", "/vehicles/one?id=veh_%7B1%7D&done=changed"),
        ("/ifta?quarter=2026Q3", "/ifta?quarter=2026Q3"),
        (f"/routes?q={'x' * 1000}", "/routes"),
    ],
)
def test_signing_in_leads_to_the_page_that_was_asked_for_with_its_query(world: World, asked: str, shown: str) -> None:
    browser = world.browser()
    sign_in_page = browser.get(asked).headers["location"]
    browser.look(sign_in_page)
    next_path = unescape(re.findall(r'name="next" value="([^"]*)"', browser.look(sign_in_page))[0])
    assert browser.sign_in(world.new_user(), next=next_path).headers["location"] == shown


@pytest.mark.parametrize("next_path", ["//evil.example", "https://evil.example", "/\\evil.example", "evil", "/\tx"])
def test_signing_in_leads_to_no_other_site(world: World, next_path: str) -> None:
    browser = world.browser()
    assert browser.sign_in(world.new_user(), next=next_path).headers["location"] == "/"


def test_signing_out_everywhere_ends_every_session_at_once(world: World) -> None:
    email = world.new_user()
    browsers = [world.browser() for _ in range(2)]
    for browser in browsers:
        browser.sign_in(email)
    assert "signed in on 2 browsers" in words(browsers[0].look("/account"))

    browsers[0].submit("/sign-out-everywhere")

    assert [browser.get("/keys").status_code for browser in browsers] == [303, 303]


def test_a_removed_user_is_signed_out_at_once(world: World) -> None:
    email = world.new_user()
    browser = world.browser()
    browser.sign_in(email)
    with world.database.transaction() as connection:
        remove_user(connection, find_user(connection, email), DOT)

    assert browser.get("/keys").status_code == 303


def test_users_of_a_retired_company_are_signed_out_at_once(world: World) -> None:
    fleet = world.new_fleet()
    email, browser = world.new_user(fleet=fleet), world.browser()
    browser.sign_in(email)
    with world.database.transaction() as connection:
        connection.execute("UPDATE companies SET retired_at = now() WHERE id = %s", (fleet.company_id,))

    assert browser.get("/keys").status_code == 303
    assert world.browser().sign_in(email).status_code == 403


@pytest.mark.parametrize(
    ("column", "age"), [("seen_at", timedelta(hours=IDLE_HOURS)), ("created_at", timedelta(days=LONGEST_DAYS))]
)
def test_a_session_expires(world: World, column: str, age: timedelta) -> None:
    email, browser = world.new_user(), world.browser()
    browser.sign_in(email)
    with world.database.transaction() as connection:
        connection.execute(
            f"UPDATE sessions SET {column} = %s WHERE user_id = (SELECT id FROM users WHERE email = %s)",
            (datetime.now(UTC) - age, email),
        )

    assert browser.get("/keys").status_code == 303


def test_guessing_is_slowed_down_and_locks_no_user_out(world: World) -> None:
    email = world.new_user()
    own, guesser, elsewhere = world.browser(), world.browser(), world.browser()
    own.sign_in(email)
    own.submit("/sign-out")

    statuses = [guesser.sign_in(email, f"guess number {number}").status_code for number in range(7)]

    assert statuses[:5] == [403] * 5
    assert 429 in statuses
    assert "Too many attempts" in guesser.sign_in(email, PASSWORD).text
    assert own.sign_in(email).status_code == 303, "a browser that signed in before is not slowed down"
    elsewhere.headers["X-Forwarded-For"] = "198.51.100.7"
    assert elsewhere.sign_in(email).status_code == 303, "nor is another address"


def test_a_link_sets_the_password_once(world: World) -> None:
    email = world.new_user()
    signed_in = world.browser()
    signed_in.sign_in(email)
    with world.database.transaction() as connection:
        path = f"/set-password/{make_password_link(connection, find_user(connection, email), now=datetime.now(UTC))}"
    browser = world.browser()
    assert email in browser.look(path)
    assert email in browser.look(path), "looking does not use it up"
    assert browser.submit(path, password="another good one", again="a different one").status_code == 400
    assert browser.submit(path, password="short", again="short").status_code == 400
    assert browser.submit(path, password="another good one", again="another good one").status_code == 303

    assert signed_in.get("/keys").status_code == 303, "the session of the old password has ended"
    assert "used already" in browser.look(path, status=404)
    assert browser.submit(path, password="yet another one", again="yet another one").status_code == 404
    assert browser.sign_in(email, PASSWORD).status_code == 403
    assert browser.sign_in(email, "another good one").status_code == 303


def test_an_old_link_is_refused(world: World) -> None:
    email = world.new_user()
    with world.database.transaction() as connection:
        day_before = datetime.now(UTC) - timedelta(hours=25)
        token = make_password_link(connection, find_user(connection, email), now=day_before)

    assert "older than 24 hours" in world.browser().look(f"/set-password/{token}", status=404)


def test_a_user_with_one_time_codes_needs_one_to_sign_in(world: World) -> None:
    email, browser = world.new_user(), world.browser()
    browser.sign_in(email)
    secret = re.search(r'id="secret">(\w+)<', browser.look("/account"))
    assert secret is not None
    totp = pyotp.TOTP(secret[1])
    used = totp.now()
    assert browser.submit("/account/codes", secret=secret[1], code="000000", present=PASSWORD).status_code == 400
    assert browser.submit("/account/codes", secret=secret[1], code=used, present="wrong").status_code == 403
    assert browser.submit("/account/codes", secret=secret[1], code=used, present=PASSWORD).status_code == 200
    assert "You need a code from your app" in browser.look("/account")

    other = world.browser()
    assert other.sign_in(email).status_code == 403
    assert other.sign_in(email, code=used).status_code == 403, "a code that was seen is used up"
    soon = totp.at(datetime.now(UTC) + timedelta(seconds=30))
    assert other.sign_in(email, code=soon).status_code == 303
    assert browser.submit("/account/codes/remove", present=PASSWORD).status_code == 303
    assert world.browser().sign_in(email).status_code == 303


def recovery_codes(page: str) -> list[str]:
    found = re.search(r'id="codes"[^>]*>([^<]*)<', page)
    assert found is not None
    return found[1].split()


def test_recovery_codes_stand_in_for_a_lost_phone_once_each(world: World) -> None:
    fleet = world.new_fleet()
    email, browser = world.new_user(fleet=fleet), world.browser()
    browser.sign_in(email)
    assert browser.submit("/account/recovery-codes", present=PASSWORD).status_code == 409, "they need one-time codes"
    secret = pyotp.random_base32()
    shown = browser.submit("/account/codes", secret=secret, code=pyotp.TOTP(secret).now(), present=PASSWORD).text
    codes = recovery_codes(shown)
    assert len(set(codes)) == 10
    assert "10 recovery codes are left" in words(browser.look("/account"))
    assert not any(code in browser.look("/account") for code in codes)

    other = world.browser()
    assert other.sign_in(email, code="aaaa-bbbb-cccc-dddd").status_code == 403
    answer = other.sign_in(email, code=f" {codes[0].upper().replace('-', ' ')} ", next="/keys?page=2")
    assert answer.headers["location"] == "/account?done=recovery&next=%2Fkeys%3Fpage%3D2"
    told = other.look(answer.headers["location"])
    assert "You have used a recovery code: 9 codes are left." in words(told)
    assert 'href="/keys?page=2"' in told
    assert 'href="//evil' not in other.look("/account?done=recovery&next=//evil.example")
    assert world.browser().sign_in(email, code=codes[0]).status_code == 403, "each works once"
    with world.database.transaction() as connection:
        (*_, used) = actions_on_subject(connection, fleet.company_id, "own account", limit=1)
        assert (used.action, used.reason) == ("sign_in.use_recovery_code", "9 left")
        stored = connection.execute("SELECT encode(token_hash, 'escape') FROM recovery_codes").fetchall()
    assert not any(code in hash_ for code in codes for (hash_,) in stored)

    assert browser.submit("/account/recovery-codes", present="wrong").status_code == 403
    fresh = recovery_codes(browser.submit("/account/recovery-codes", present=PASSWORD).text)
    assert not set(fresh) & set(codes)
    assert world.browser().sign_in(email, code=codes[1]).status_code == 403, "the earlier ones have ended"
    assert world.browser().sign_in(email, code=fresh[1]).status_code == 303


def test_of_two_who_use_a_recovery_code_at_once_one_gets_in(world: World) -> None:
    email = world.new_user()
    with world.database.transaction() as connection:
        user_id = find_user(connection, email)
        set_totp(connection, user_id, pyotp.random_base32(), contacts=IN_CLEAR)
        codes = make_recovery_codes(connection, user_id, now=datetime.now(UTC))
    for code in codes[:3]:
        browsers = [world.browser() for _ in range(2)]
        with ThreadPoolExecutor(2) as threads:
            statuses = sorted(threads.map(lambda one: one.sign_in(email, code=code).status_code, browsers))  # noqa: B023
        assert statuses == [303, 403]
    with world.database.transaction() as connection:
        assert count_recovery_codes(connection, user_id) == 7


def test_turning_one_time_codes_off_ends_the_recovery_codes(world: World) -> None:
    email = world.new_user()
    with world.database.transaction() as connection:
        user_id = find_user(connection, email)
        set_totp(connection, user_id, pyotp.random_base32(), contacts=IN_CLEAR)
        make_recovery_codes(connection, user_id, now=datetime.now(UTC))
        set_totp(connection, user_id, None, contacts=IN_CLEAR)
        assert count_recovery_codes(connection, user_id) == 0


def test_changing_the_password_needs_the_present_one_and_ends_all_sessions(world: World) -> None:
    email, browser = world.new_user(), world.browser()
    browser.sign_in(email)
    fresh: Fields = {"password": "another good one", "again": "another good one"}
    assert browser.submit("/account/password", present="wrong", **fresh).status_code == 403
    assert browser.submit("/account/password", present=PASSWORD, **{**fresh, "again": "x"}).status_code == 400
    assert (
        browser.submit("/account/password", present=PASSWORD, **fresh).headers["location"] == "/sign-in?done=password"
    )

    assert browser.get("/keys").status_code == 303
    assert browser.sign_in(email, "another good one").status_code == 303


def test_guessing_the_present_password_is_slowed_down_too(world: World) -> None:
    browser = world.browser()
    browser.sign_in(world.new_user(Role.VIEWER))
    statuses = {browser.submit("/account/codes/remove", present=f"guess {number}").status_code for number in range(13)}
    assert statuses == {403, 429}


def test_an_operator_chooses_whose_pages_to_see(world: World) -> None:
    fleet = world.new_fleet()
    with world.database.transaction() as connection:
        connection.execute("UPDATE companies SET name = 'Zephyr Lines' WHERE id = %s", (fleet.company_id,))
    operator, owner = world.browser(Role.OPERATOR), world.browser(Role.OWNER)
    assert "Choose the company whose pages" in operator.look("/keys")
    assert shown_id("cmp", fleet.company_id) in operator.look("/companies", q="zephyr")

    assert operator.submit("/companies", company_id=shown_id("cmp", fleet.company_id)).status_code == 303
    assert "Zephyr Lines" in operator.look("/keys")

    assert operator.submit("/companies", company_id="cmp_" + "0" * 32).status_code == 404
    assert owner.submit("/companies", company_id=shown_id("cmp", fleet.company_id)).status_code == 403
    assert owner.get("/companies").status_code == 404

    with world.database.transaction() as connection:
        connection.execute("UPDATE companies SET retired_at = now() WHERE id = %s", (fleet.company_id,))
    part = operator.get("/overview", headers={"HX-Request": "true"})
    assert (part.text, part.headers["hx-redirect"]) == ("", "/companies"), "the page Companies stands in no other page"


def test_a_form_changes_the_company_whose_page_it_stood_on(world: World) -> None:
    """The operator has chosen another company in another window since: neither company is changed, by no form, no file
    and no part of a page."""
    first, second = world.new_fleet(reserve_percent=30), world.new_fleet(reserve_percent=15)
    operator = world.browser(Role.OPERATOR)
    operator.submit("/companies", company_id=first.shown_company_id)
    policy, token = form_of(operator, "/policy"), operator.token
    operator.submit("/companies", company_id=second.shown_company_id)
    policies = "SELECT id, reserve_percent, time_zone FROM companies WHERE id = ANY(%s) ORDER BY id"
    companies = [first.company_id, second.company_id]
    before = stored_rows(world, policies, companies)

    for path, fields in (
        ("/vehicles/new", {"unit_number": "777"}),
        ("/policy", policy),
        ("/keys", {"name": "TMS", "environment": "live", "scope": "routes:write"}),
        ("/users", {"email": f"{new_id().hex}@example.com", "role": "owner"}),
    ):
        answer = operator.submit(path, token=token, **fields)
        assert (answer.status_code, "chosen another company meanwhile" in answer.text) == (409, True), path
    headers = {"Content-Type": "text/csv", "X-Form-Token": token}
    for path in ("/vehicles/import", "/import?act=import&kind=vehicles"):
        assert operator.post(path, content=b"unit_number\n778\n", headers=headers).status_code == 409, path
    part = operator.get("/overview", headers={"HX-Request": "true", "X-Form-Token": token})
    assert (part.status_code, part.headers["hx-retarget"]) == (409, "#notices")

    assert stored_rows(world, policies, companies) == before
    made = "SELECT FROM vehicles WHERE company_id = ANY(%s) AND unit_number LIKE '77_'"
    assert stored_rows(world, made, companies) == []

    operator.look("/vehicles/new")
    assert operator.submit("/vehicles/new", unit_number="777").status_code == 303
    choice = operator.submit("/companies", token=token, company_id=first.shown_company_id)
    assert choice.status_code == 303, "any page may choose a company"


def test_a_file_is_imported_for_no_company_that_was_chosen_after_its_page_was_loaded(world: World) -> None:
    fleet, operator = world.new_fleet(), world.browser(Role.OPERATOR)
    operator.look("/import")
    headers = {"Content-Type": "text/csv", "X-Form-Token": operator.token}
    operator.submit("/companies", company_id=fleet.shown_company_id)

    def send(act: str) -> int:
        path = f"/import?act={act}&kind=vehicles&filename=trucks.csv"
        return operator.post(path, content=b"unit_number\n779\n", headers=headers).status_code

    assert [send("look"), send("import")] == [409, 409]
    operator.look("/import")
    headers["X-Form-Token"] = operator.token
    assert [send("look"), send("import")] == [200, 303]


def test_a_page_shows_nothing_of_a_person_who_has_signed_in_since(world: World) -> None:
    """Somebody with an account in each of two companies, in one browser: the page names the first one."""
    first, second = world.browser(Role.VIEWER), world.browser(Role.VIEWER)
    (told,) = re.findall(r"hx-headers:inherited='([^']+)'", first.look("/overview"))
    part = {"HX-Request": "true", **json.loads(told)}

    assert first.get("/overview", headers=part).status_code == 200
    refused = second.get("/overview", headers=part)
    assert (refused.status_code, refused.headers["hx-retarget"]) == (409, "#notices")
    assert "Somebody has signed in since this page was loaded" in refused.text


def test_nothing_inline_may_run_and_no_page_is_kept(world: World) -> None:
    browser = world.browser(Role.OWNER)
    for path in ("/keys", "/matching/vehicles", "/mappings/vehicles", "/account", "/nothing", "/sign-in"):
        answer = browser.get(path)
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert answer.headers["cache-control"] == "no-store"
        assert not re.search(r"<style|<script(?![^>]*src=)|\son\w+=|\sstyle=|https?://(?!api\.example)", answer.text)
    assert "immutable" in browser.get("/static/console.css?v=1").headers["cache-control"]


@pytest.mark.parametrize(
    ("content", "media_type"),
    [
        (b"\xff\xfe", "application/x-www-form-urlencoded"),
        (b"a=%00&email=%ff%00", "application/x-www-form-urlencoded"),
        (b"&".join(b"a=1" for _ in range(300)), "application/x-www-form-urlencoded"),
        (b"a=" + b"x" * 70_000, "application/x-www-form-urlencoded"),
        (b"{}", "application/json"),
        (b"", "multipart/form-data; boundary=x"),
    ],
)
def test_a_body_that_is_no_form_is_refused(world: World, content: bytes, media_type: str) -> None:
    browser = world.browser(Role.OWNER)
    for path in ("/sign-in", "/keys", "/matching/vehicles/map"):
        answer = browser.post(path, content=content, headers={"Content-Type": media_type})
        assert answer.status_code in (400, 403)


@pytest.mark.parametrize(
    "path",
    [
        "/keys?done=%00",
        "/matching/vehicles?q=%00%ff&page=99999999999999999999",
        "/matching/x",
        "/mappings/vehicles?page=-1&q=%ed%a0%80",
        "/set-password/%00",
        "/keys/%00/revoke",
        "/matching/drivers/progress?kind=vin",
        "/matching/drivers/progress?kind=driver_name&route=x",
    ],
)
def test_no_address_causes_a_server_error(world: World, path: str) -> None:
    assert world.browser(Role.OWNER).get(path).status_code in (200, 404, 405)


def test_each_of_simultaneous_attempts_counts(world: World) -> None:
    """Attempts are counted before the password is looked at."""
    email = world.new_user()
    browsers = [world.browser() for _ in range(8)]
    for browser in browsers:
        browser.look("/sign-in")
    with ThreadPoolExecutor(8) as threads:
        answers = list(
            threads.map(lambda one: one.submit("/sign-in", email=email, password="guess and guess"), browsers)
        )

    assert sorted(answer.status_code for answer in answers).count(429) >= 2


def test_a_user_with_codes_signs_in_from_two_places_at_once(world: World) -> None:
    email = world.new_user()
    secret = pyotp.random_base32()
    with world.database.transaction() as connection:
        set_totp(connection, find_user(connection, email), secret, contacts=IN_CLEAR)
    browsers = [world.browser() for _ in range(2)]
    for browser in browsers:
        browser.look("/sign-in")
    code = pyotp.TOTP(secret).now()
    with ThreadPoolExecutor(2) as threads:
        answers = list(
            threads.map(lambda one: one.submit("/sign-in", email=email, password=PASSWORD, code=code), browsers)
        )

    with world.database.transaction() as connection:
        remove_user(connection, find_user(connection, email), DOT)
    assert sorted(answer.status_code for answer in answers) == [303, 403], "a code is used once"
