"""The page API Keys: a key that is created there works until it is revoked, rotated or expired."""

import re
from datetime import UTC, datetime, timedelta

import httpx
import pytest

from domain.accounts.keys import list_keys
from domain.contract.shapes import SCOPES
from domain.ids import shown_id
from domain.lifecycle import Environment, Role
from tests.factories import Fleet
from tests.ingress.console.conftest import Browser, Fields, World, words
from tests.service import Service

_KEY = re.compile(r'id="key">(svc_\w+)<')


def make_key(browser: Browser, **changes: str | list[str]) -> str:
    """The key that the page shows."""
    fields: Fields = {"name": "TMS", "environment": "live", "scope": ["routes:read", "routes:write"], **changes}
    answer = browser.submit("/keys", **fields)
    assert answer.status_code == 200, words(answer.text)
    found = _KEY.search(answer.text)
    assert found is not None
    return found[1]


def id_of(world: World, fleet: Fleet) -> str:
    """The id of the company's newest key."""
    with world.database.transaction() as connection:
        return shown_id("key", list_keys(connection, fleet.company_id)[-1].id)


def test_a_key_made_in_the_console_works_until_it_is_revoked_there(world: World, service: Service) -> None:
    fleet = world.new_fleet()
    browser = world.browser(Role.OWNER, fleet)
    browser.look("/keys")
    key = make_key(browser, name="Our TMS", environment="sandbox", scope="routes:read")
    bearer = {"Authorization": f"Bearer {key}"}

    me = httpx.get(f"{service.url}/v1/me", headers=bearer, verify=False, timeout=120).json()
    assert me["key"] | {"createdAt": 0, "id": 0} == {
        "id": 0,
        "name": "Our TMS",
        "prefix": key[:17],
        "environment": "sandbox",
        "scopes": ["routes:read"],
        "createdAt": 0,
        "expiresAt": None,
    }
    assert httpx.get(f"{service.url}/v1/vehicles", headers=bearer, verify=False, timeout=120).status_code == 403

    assert browser.submit(f"/keys/{me['key']['id']}/revoke").status_code == 303
    assert httpx.get(f"{service.url}/v1/me", headers=bearer, verify=False, timeout=120).status_code == 401
    assert "revoked" in browser.look("/keys")


def test_the_key_is_shown_once_with_the_curl_to_try_it(world: World) -> None:
    browser = world.browser(Role.OWNER)
    browser.look("/keys")
    answer = browser.submit("/keys", name="TMS", environment="live", scope="routes:read")
    key = _KEY.search(answer.text)

    assert key is not None
    assert f'curl https://api.example.com/v1/me -H "Authorization: Bearer {key[1]}"' in words(answer.text)
    assert answer.headers["cache-control"] == "no-store"
    page = browser.look("/keys")
    assert key[1] not in page
    assert key[1][:17] in page


def test_a_key_expires_at_the_end_of_its_last_day_in_the_companys_zone(world: World) -> None:
    fleet = world.new_fleet(time_zone="America/Chicago")
    browser = world.browser(Role.OWNER, fleet)
    make_key(browser, expires_on="2037-01-31")

    with world.database.transaction() as connection:
        (key,) = list_keys(connection, fleet.company_id)
    assert key.expires_at == datetime(2037, 2, 1, 6, tzinfo=UTC)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"name": " "}, "Give the key a name"),
        ({"environment": "production"}, "Choose an environment"),
        ({"scope": []}, "Choose at least one scope"),
        ({"scope": ["routes:read", "everything"]}, "Choose at least one scope"),
        ({"expires_on": "2020-01-01"}, "is past"),
        ({"expires_on": "soon"}, "is no date"),
        ({"expires_on": "9999-12-31"}, "is no date"),
        ({"name": "x" * 201}, "too long"),
    ],
)
def test_a_bad_form_creates_no_key_and_says_why(world: World, changes: Fields, told: str) -> None:
    fleet = world.new_fleet()
    browser = world.browser(Role.OWNER, fleet)
    fields: Fields = {"name": "TMS", "environment": "live", "scope": ["routes:read"], **changes}
    answer = browser.submit("/keys", **fields)

    assert answer.status_code == 400
    assert told in words(answer.text)
    with world.database.transaction() as connection:
        assert list_keys(connection, fleet.company_id) == []


def test_a_rotated_key_and_its_successor_both_work_for_a_while(world: World) -> None:
    fleet = world.new_fleet()
    browser = world.browser(Role.OWNER, fleet)
    old = make_key(browser, name="TMS", environment="sandbox", scope=["routes:read", "drivers:read"])
    answer = browser.submit(f"/keys/{id_of(world, fleet)}/rotate", overlap_hours="24")
    new = _KEY.search(answer.text)

    assert new is not None
    assert new[1] != old
    with world.database.transaction() as connection:
        first, second = list_keys(connection, fleet.company_id)
    assert (second.name, second.environment, second.scopes, second.expires_at) == (
        "TMS",
        Environment.SANDBOX,
        ["drivers:read", "routes:read"],
        None,
    )
    assert first.expires_at is not None
    assert abs(first.expires_at - datetime.now(UTC) - timedelta(hours=24)) < timedelta(minutes=1)


def test_a_key_that_has_ended_is_not_rotated(world: World) -> None:
    fleet = world.new_fleet()
    browser = world.browser(Role.OWNER, fleet)
    make_key(browser)
    key_id = id_of(world, fleet)
    browser.submit(f"/keys/{key_id}/revoke")

    assert browser.submit(f"/keys/{key_id}/rotate", overlap_hours="24").status_code == 404
    assert browser.submit(f"/keys/{key_id}/rotate", overlap_hours="100000").status_code == 400


@pytest.mark.parametrize("what", ["revoke", "rotate"])
def test_a_key_of_another_company_is_not_found(world: World, what: str) -> None:
    fleet = world.new_fleet()
    owner, stranger = world.browser(Role.OWNER, fleet), world.browser(Role.OWNER)
    key = make_key(owner, name="Theirs alone")

    assert stranger.submit(f"/keys/{id_of(world, fleet)}/{what}", overlap_hours="24").status_code == 404
    assert "Theirs alone" not in stranger.look("/keys")
    assert key[:17] not in stranger.look("/keys")
    with world.database.transaction() as connection:
        (stored,) = list_keys(connection, fleet.company_id)
    assert (stored.revoked_at, stored.expires_at) == (None, None)


@pytest.mark.parametrize("role", [Role.VIEWER, Role.DISPATCHER])
def test_only_owners_and_operators_manage_keys(world: World, role: Role) -> None:
    fleet = world.new_fleet()
    make_key(world.browser(Role.OWNER, fleet))
    browser = world.browser(role, fleet)

    page = browser.look("/keys")
    assert "<form" not in page.partition("<main")[2]
    assert browser.submit("/keys", name="TMS", environment="live", scope=list(SCOPES)).status_code == 403
    for what in ("revoke", "rotate"):
        assert browser.submit(f"/keys/{id_of(world, fleet)}/{what}", overlap_hours="24").status_code == 403
    with world.database.transaction() as connection:
        (key,) = list_keys(connection, fleet.company_id)
    assert key.revoked_at is None


def test_the_name_of_a_key_is_escaped(world: World) -> None:
    browser = world.browser(Role.OWNER)
    make_key(browser, name="<script>alert(1)</script>")

    page = browser.look("/keys")
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page


def test_an_operator_manages_the_keys_of_the_chosen_company(world: World) -> None:
    fleet = world.new_fleet()
    operator = world.browser(Role.OPERATOR)
    assert (
        operator.submit("/keys", name="TMS", environment="live", scope="routes:read").headers["location"]
        == "/companies"
    )
    operator.submit("/companies", company_id=shown_id("cmp", fleet.company_id))
    operator.look("/keys")
    make_key(operator, name="Made by us")

    with world.database.transaction() as connection:
        assert [key.name for key in list_keys(connection, fleet.company_id)] == ["Made by us"]
