"""The page Users: owners invite people of their company, change their roles, and remove them."""

import re
from concurrent.futures import ThreadPoolExecutor
from uuid import UUID

import pyotp
import pytest

from domain.accounts.contacts import IN_CLEAR
from domain.accounts.users import (
    LastOwner,
    StoredUser,
    find_user,
    list_users,
    lock_user_of,
    remove_user_of,
    set_totp,
)
from domain.ids import new_id, shown_id
from domain.lifecycle import Role
from tests.factories import DOT, Fleet
from tests.ingress.console.conftest import PASSWORD, Browser, Fields, World, words
from tests.rows import named

_LINK = re.compile(r'id="link">\S+(/set-password/\S+)<')


def link_of(page: str) -> str:
    found = _LINK.search(page)
    assert found is not None, words(page)
    return found[1]


def user(world: World, fleet: Fleet, email: str) -> StoredUser:
    with world.database.transaction() as connection:
        return next(one for one in list_users(connection, fleet.company_id) if one.email == email)


def path_of(user_id: UUID, action: str) -> str:
    return f"/users/{shown_id('usr', user_id)}/{action}"


def owner(world: World, fleet: Fleet) -> Browser:
    browser = world.browser(Role.OWNER, fleet)
    browser.look("/users")
    return browser


def test_an_invited_person_sets_a_password_and_signs_in_with_the_role(world: World) -> None:
    fleet, email = world.new_fleet(), f"{new_id().hex}@example.com"
    invited = owner(world, fleet).submit(
        "/users", email=f" {email.upper()} ", role="dispatcher", reason="new colleague"
    )
    assert (invited.status_code, invited.headers["cache-control"]) == (200, "no-store")
    assert user(world, fleet, email).has_password is False

    person = world.browser()
    person.look(link_of(invited.text))
    assert person.submit(link_of(invited.text), password=PASSWORD, again=PASSWORD).status_code == 303
    assert person.sign_in(email).status_code == 303
    assert "dispatcher" in person.look("/account")
    assert person.get("/users").status_code == 404
    assert person.get(link_of(invited.text)).status_code != 200, "the link works once"


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"email": "nobody", "role": "viewer"}, "is not an e-mail address"),
        ({"email": "a@example.com", "role": "operator"}, "Choose a role."),
        ({"email": "a@example.com"}, "Choose a role."),
    ],
)
def test_a_wrong_invitation_says_what_is_wrong(world: World, fields: Fields, said: str) -> None:
    fleet = world.new_fleet()
    answer = owner(world, fleet).submit("/users", **fields)
    assert answer.status_code == 400
    assert said in words(answer.text)
    with world.database.transaction() as connection:
        assert len(list_users(connection, fleet.company_id)) == 1


def test_an_address_that_signs_in_already_is_not_taken_from_its_company(world: World) -> None:
    other = world.new_fleet()
    email = world.new_user(Role.VIEWER, other, password=None)
    answer = owner(world, world.new_fleet()).submit("/users", email=email, role="owner")
    assert answer.status_code == 400
    assert user(world, other, email).role == "viewer"


def test_another_role_counts_from_the_next_page_on(world: World) -> None:
    fleet = world.new_fleet()
    browser = owner(world, fleet)
    email = world.new_user(Role.VIEWER, fleet)
    person = world.browser()
    person.sign_in(email)
    assert person.get("/users").status_code == 404

    changed = browser.submit(path_of(user(world, fleet, email).id, "role"), role="owner", reason="takes over")
    assert changed.headers["location"] == "/users?done=role"
    assert email in person.look("/users")
    assert "users: change role" in words(browser.look("/audit"))


def test_a_removed_user_is_signed_out_at_once(world: World) -> None:
    fleet = world.new_fleet()
    browser = owner(world, fleet)
    email = world.new_user(Role.DISPATCHER, fleet)
    person = world.browser()
    person.sign_in(email)

    removed = browser.submit(path_of(user(world, fleet, email).id, "remove"))
    assert removed.headers["location"] == "/users?done=removed"
    assert person.get("/routes").headers["location"].startswith("/sign-in")
    assert email not in browser.look("/users")


@pytest.mark.parametrize(("action", "fields"), [("remove", {}), ("role", {"role": "dispatcher"})])
def test_a_company_keeps_an_owner(world: World, action: str, fields: Fields) -> None:
    fleet = world.new_fleet()
    browser = owner(world, fleet)
    with world.database.transaction() as connection:
        (only,) = list_users(connection, fleet.company_id)

    refused = browser.submit(path_of(only.id, action), **fields)
    assert refused.status_code == 409
    assert "only owner" in words(refused.text)

    world.new_user(Role.OWNER, fleet, password=None)
    assert browser.submit(path_of(only.id, action), **fields).status_code == 303


def test_two_owners_who_remove_each_other_at_once_leave_one(world: World) -> None:
    fleet = world.new_fleet()
    for _ in range(2):
        world.new_user(Role.OWNER, fleet, password=None)
    with world.database.transaction() as connection:
        first, second = list_users(connection, fleet.company_id)

    def remove(gone: StoredUser) -> None:
        with world.database.transaction() as connection:
            user = lock_user_of(connection, fleet.company_id, gone.id)
            assert user is not None
            remove_user_of(connection, fleet.company_id, user, DOT)

    with ThreadPoolExecutor(1) as other:
        with world.database.transaction() as connection:
            locked = lock_user_of(connection, fleet.company_id, first.id)
            assert locked is not None
            beside = other.submit(remove, second)  # it waits for the owners
            remove_user_of(connection, fleet.company_id, locked, DOT)
        with pytest.raises(LastOwner):
            beside.result(timeout=120)


def test_an_owner_who_removes_himself_is_asked_to_sign_in(world: World) -> None:
    fleet = world.new_fleet()
    world.new_user(Role.OWNER, fleet, password=None)
    email = world.new_user(Role.OWNER, fleet)
    browser = world.browser()
    browser.sign_in(email)
    assert browser.submit(path_of(user(world, fleet, email).id, "remove")).headers["location"] == "/sign-in"
    assert browser.get("/routes").headers["location"].startswith("/sign-in")


def test_a_new_link_sets_another_password_and_turns_codes_off_where_asked_to(world: World) -> None:
    fleet = world.new_fleet()
    email = world.new_user(Role.VIEWER, fleet, password="the earlier one, long enough")
    with world.database.transaction() as connection:
        set_totp(connection, find_user(connection, email), pyotp.random_base32(), contacts=IN_CLEAR)
    browser, id = owner(world, fleet), user(world, fleet, email).id

    kept = browser.submit(path_of(id, "link"))
    assert user(world, fleet, email).has_totp is True
    link = link_of(browser.submit(path_of(id, "link"), without_codes="yes", reason="lost phone").text)
    assert user(world, fleet, email).has_totp is False

    person = world.browser()
    assert person.get(link_of(kept.text)).status_code != 200, "a newer link ends the earlier one"
    person.look(link)
    person.submit(link, password=PASSWORD, again=PASSWORD)
    assert person.sign_in(email).status_code == 303


def test_the_audit_log_holds_no_address_and_no_link(world: World) -> None:
    fleet, email = world.new_fleet(), f"{new_id().hex}@example.com"
    link = link_of(owner(world, fleet).submit("/users", email=email, role="viewer").text)
    with world.database.transaction() as connection:
        query = "SELECT action, subject FROM audit_log WHERE company_id = %s"
        (entry,) = named(connection).execute(query, (fleet.company_id,)).fetchall()
    assert entry == ("users.create", f"{shown_id('usr', user(world, fleet, email).id)} viewer")
    assert link not in entry.subject
