"""The audit log: each change in the console is kept with who, when and why, and read by those whom it concerns."""

import re
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import pytest

from domain.accounts.users import find_user, make_password_link
from domain.audit.entries import Action, Actor, AuditRow, record_action, search_actions
from domain.fleet.mappings import store_mapping
from domain.ids import new_id, shown_id
from domain.lifecycle import Role
from tests.domain.helpers import pushed
from tests.factories import Fleet
from tests.ingress.console.conftest import PASSWORD, Browser, World, words
from tests.ingress.console.test_keys import id_of, make_key
from tests.ingress.console.test_matching import hold, mapping


def entries(world: World, fleet: Fleet) -> list[AuditRow]:
    """The company's rows of the audit log, newest first."""
    with world.database.transaction() as connection:
        return search_actions(connection, fleet.company_id, limit=100)


def kept(world: World, fleet: Fleet) -> list[tuple[str, str, str]]:
    """Action, subject and reason of each row, oldest first."""
    return [(one.action, one.subject, one.reason) for one in reversed(entries(world, fleet))]


def email_of(browser: Browser) -> str:
    found = re.search(r"[a-p]{32}@example\.com", browser.look("/account"))
    assert found is not None
    return found[0]


def test_actions_on_keys_are_recorded_without_the_key(world: World) -> None:
    fleet = world.new_fleet()
    browser = world.browser(Role.OWNER, fleet)
    key = make_key(browser, name="Our TMS", reason="The new TMS starts on Monday")
    first = id_of(world, fleet)
    browser.look("/keys")
    answer = browser.submit(f"/keys/{first}/rotate", overlap_hours="24")
    assert answer.status_code == 200
    second = id_of(world, fleet)
    browser.look("/keys")
    assert browser.submit(f"/keys/{second}/revoke", reason="It was in an <b>e-mail</b>").status_code == 303

    assert kept(world, fleet) == [
        ("keys.create", f"{first} Our TMS", "The new TMS starts on Monday"),
        ("keys.rotate", f"{first} by {second}", ""),
        ("keys.revoke", second, "It was in an <b>e-mail</b>"),
    ]
    assert {one.actor for one in entries(world, fleet)} == {email_of(browser)}
    assert abs(entries(world, fleet)[0].at - datetime.now(UTC)).total_seconds() < 60
    page = browser.look("/audit")
    assert "It was in an &lt;b&gt;e-mail&lt;/b&gt;" in page
    assert key not in page


def test_mappings_and_new_records_are_recorded(world: World) -> None:
    fleet = world.new_fleet()
    hold(world, fleet, vehicle={"unitNumber": "TRUCK-0101"})
    hold(world, fleet, vehicle={"unitNumber": "TRUCK-0101"})
    hold(world, fleet, driver={"name": "Zed Quill"})
    browser = world.browser(Role.DISPATCHER, fleet)
    browser.look("/matching/vehicles")
    browser.submit("/matching/vehicles/map", part=True, **mapping(fleet, "TRUCK-0101"))
    browser.submit("/matching/drivers/new", kind="driver_name", value=quote("Zed Quill"), name="Zedekiah Quill")
    truck = shown_id("veh", fleet.trucks[0])
    browser.submit(
        "/mappings/vehicles/remove", **mapping(fleet, "TRUCK-0101", was=fleet.trucks[0]), reason="wrong truck"
    )

    mapped, made, removed = kept(world, fleet)
    assert mapped == ("matching.map_reference", f"unit number TRUCK-0101 is {truck}", "2 routes waited for it")
    assert made[0] == "matching.make_record"
    assert re.fullmatch(r"a driver's name is drv_[0-9a-f]{32}", made[1]), "people stand there by their ids only"
    assert removed == ("mappings.remove", f"unit number TRUCK-0101 was {truck}", "wrong truck")
    assert [one.affected for one in entries(world, fleet)] == [1, 1, 2]


def test_a_drivers_name_never_stands_in_a_subject(world: World) -> None:
    fleet = world.new_fleet()
    with world.database.transaction() as connection:
        store_mapping(connection, fleet.company_id, "driver_name", "M. AUDEN", fleet.drivers[0])
    browser = world.browser(Role.DISPATCHER, fleet)
    driver = shown_id("drv", fleet.drivers[0])
    fields: dict[str, Any] = {"kind": "driver_name", "value": quote("M. AUDEN")}
    assert browser.submit("/mappings/drivers/remove", **fields, was=driver).status_code == 303
    assert browser.submit("/matching/drivers/map", **fields, target_id=driver).status_code == 303
    assert [subject for _, subject, _ in kept(world, fleet)] == [
        f"a driver's name was {driver}",
        f"a driver's name is {driver}",
    ]


def test_a_cancellation_is_recorded_with_its_reason(world: World, now: datetime) -> None:
    fleet = world.new_fleet()
    with world.database.transaction() as connection:
        route = shown_id("rte", pushed(connection, fleet.live, now=now, start=now))
    browser = world.browser(Role.DISPATCHER, fleet)
    assert browser.submit(f"/routes/{route}/cancel", reason="The load is gone").status_code == 303
    assert kept(world, fleet) == [("route_actions.cancel", route, "The load is gone")]


def test_changes_of_one_s_own_account_are_recorded_without_the_typed_values(world: World) -> None:
    fleet = world.new_fleet()
    browser = world.browser()
    email = world.new_user(Role.VIEWER, fleet)
    browser.sign_in(email)
    fresh = "a new password of mine"
    assert browser.submit("/account/password", present="wrong", password=fresh, again=fresh).status_code == 403
    assert kept(world, fleet) == [], "what was refused is not kept"
    assert browser.submit("/account/password", present=PASSWORD, password=fresh, again=fresh).status_code == 303
    browser.sign_in(email, fresh)
    assert browser.submit("/sign-out-everywhere").status_code == 303
    assert kept(world, fleet) == [
        ("account.change_password", "own account", ""),
        ("sign_in.sign_out_everywhere", "own account", ""),
    ]


def test_a_password_set_by_a_link_is_recorded_without_the_link(world: World) -> None:
    fleet = world.new_fleet()
    email = world.new_user(Role.VIEWER, fleet, password=None)
    with world.database.transaction() as connection:
        token = make_password_link(connection, find_user(connection, email), now=datetime.now(UTC))
    browser = world.browser()
    browser.look(f"/set-password/{token}")
    assert browser.submit(f"/set-password/{token}", password="a fresh one of mine", again="not it").status_code == 400
    assert browser.submit(
        f"/set-password/{token}", password="a fresh one of mine", again="a fresh one of mine"
    ).is_redirect
    (entry,) = entries(world, fleet)
    assert (entry.actor, entry.action, entry.subject) == (email, "sign_in.set_password", "own account")
    assert token not in " ".join(map(str, entry))


def test_failed_and_forbidden_actions_are_not_recorded(world: World) -> None:
    fleet, other = world.new_fleet(), world.new_fleet()
    owner, viewer = world.browser(Role.OWNER, fleet), world.browser(Role.VIEWER, fleet)
    make_key(world.browser(Role.OWNER, other))
    owner.look("/keys")
    assert owner.submit(f"/keys/{id_of(world, other)}/revoke").status_code == 404
    assert owner.submit("/keys", name="", environment="live", scope="routes:read").status_code == 400
    assert owner.submit("/keys", name="x", environment="live", scope="routes:read", token="x").status_code == 403
    assert owner.submit("/keys", name="x", environment="live", scope="routes:read", reason="x" * 501).status_code == 400
    assert viewer.submit("/keys", name="x", environment="live", scope="routes:read").status_code == 403
    assert kept(world, fleet) == []
    assert "There is no valid key" in owner.look("/keys"), "and what the log could not keep was not done"


def test_owners_read_the_log_of_their_company_operators_everything_and_others_nothing(world: World) -> None:
    fleet, other = world.new_fleet(), world.new_fleet()
    ours, theirs = world.browser(Role.OWNER, fleet), world.browser(Role.OWNER, other)
    make_key(ours, name="Key of ours")
    make_key(theirs, name="Key of theirs")
    operator = world.browser(Role.OPERATOR)
    with world.database.transaction() as connection:
        record_action(connection, Actor("ann", "why"), "pause", "plans of all", company_id=None)

    assert "Key of ours" in ours.look("/audit")
    assert "Key of theirs" not in ours.look("/audit", q="key")
    assert "plans of all" not in ours.look("/audit")
    assert "Key of theirs" not in ours.look("/audit", company=shown_id("cmp", other.company_id))
    everything = operator.look("/audit")
    assert all(text in everything for text in ("Key of ours", "Key of theirs", "plans of all", "the whole service"))
    assert "Key of ours" not in operator.look("/audit", company=shown_id("cmp", other.company_id))
    operator.look("/audit", company="acme", status=400)
    operator.look("/audit", before="x", status=404)
    for role in (Role.DISPATCHER, Role.VIEWER):
        one = world.browser(role, fleet)
        one.look("/audit", status=404)
        assert 'href="/audit"' not in one.look("/account")


def test_an_operator_s_visit_to_the_company_is_in_the_owner_s_log(world: World) -> None:
    fleet = world.new_fleet()
    operator = world.browser(Role.OPERATOR)
    company = shown_id("cmp", fleet.company_id)
    assert operator.submit("/companies", company_id=company).status_code == 303
    operator.look("/keys")
    make_key(operator, name="Made for them")
    assert operator.submit("/sign-out-everywhere").status_code == 303, "of which the company hears nothing"

    assert [action for action, _, _ in kept(world, fleet)] == ["account.choose_company", "keys.create"]
    assert email_of(world.browser(Role.OPERATOR)) not in words(world.browser(Role.OWNER, fleet).look("/audit"))
    assert "account: choose company" in words(world.browser(Role.OWNER, fleet).look("/audit"))


def test_the_log_is_searched_and_read_page_by_page(world: World) -> None:
    fleet = world.new_fleet()
    with world.database.transaction() as connection:
        for number in range(230):
            record_action(
                connection,
                Actor("ann@example.com", f"Because of {number:03}"),
                Action("keys.revoke"),
                f"key_{number:03}",
                company_id=fleet.company_id,
            )
    browser = world.browser(Role.OWNER, fleet)
    seen: list[str] = []
    path = "/audit"
    while path:
        page = browser.look(path)
        seen += re.findall(r"Because of (\d+)", page)
        older = re.search(r'href="([^"]+)">Older', page)
        path = older[1].replace("&amp;", "&") if older else ""
    assert seen == [f"{number:03}" for number in reversed(range(230))]
    assert re.findall(r"Because of (\d+)", browser.look("/audit", q="BECAUSE OF 01")) == [
        f"{number:03}" for number in range(19, 9, -1)
    ]
    assert "No entry matches" in browser.look("/audit", q=new_id().hex)


@pytest.mark.parametrize("text", ["%", "_", "\\", "' OR 1=1 --", "\x00", "<script>", "é" * 200])
def test_no_search_causes_a_server_error(world: World, text: str) -> None:
    assert "<script>" not in world.browser(Role.OPERATOR).look("/audit", q=text)
