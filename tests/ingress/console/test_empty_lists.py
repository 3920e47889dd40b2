"""Each page of a company without anything says what fills it, and offers the step."""

import re
from html import unescape
from uuid import UUID

import pytest

from domain.accounts.companies import create_company
from domain.accounts.policy import Policy
from domain.ids import new_id
from domain.lifecycle import Role
from ingress.console.empty_lists import EMPTY_LISTS
from ingress.console.record_kinds import RECORD_KINDS
from tests.browser.pages import PAGES
from tests.factories import Fleet
from tests.ingress.console.conftest import World

OTHERS = {
    "/sign-in": "a form",
    "/overview": "has steps instead",
    "/vehicles/new": "a form",
    "/policy": "a form",
    "/account": "a form",
    "/find": "answers a search",
    "/import": "a form",
    "/route-files": "a form",
    "/previews": "a form",
    "/fill-files": "a form",
    "/queues": "of the whole service",
}
"""The pages with an address of their own that list nothing of a company."""
OF_ALL = {"stations", "taxes", "companies", "dead letters", "operators' subscriptions", "operators' notices"}
"""Lists that all companies share: other tests may have filled them."""
OF_PEOPLE = {"users", "audit"}
"""Lists that are never empty for a person who looks at them, since the person is there."""


def nobodys_fleet(world: World) -> Fleet:
    nobody: tuple[UUID, UUID] = (new_id(), new_id())
    with world.database.transaction() as connection:
        return Fleet(create_company(connection, Policy(name="New Freight")), nobody, nobody)


def test_each_page_that_lists_something_has_its_words() -> None:
    pages = {visit.address for visit in PAGES if "{" not in visit.address and not visit.address.endswith("/one")}
    pages |= {"/matching/vehicles", "/mappings/vehicles"}

    assert pages - OTHERS.keys() - {one.page.partition("?")[0] for one in EMPTY_LISTS.values()} == set()


def test_an_empty_page_says_what_fills_it_and_offers_the_step(world: World) -> None:
    fleet = nobodys_fleet(world)
    owner, operator = world.browser(Role.OWNER, fleet), world.browser(Role.OPERATOR, fleet)
    for name, one in EMPTY_LISTS.items():
        browser = owner if Role.OWNER in one.by else operator
        html = browser.look(one.page)
        shown = re.search(rf'<p class="empty" data-empty="{name.replace(chr(39), "&#39;")}">(.*?)</p>', html)
        if shown is None:
            assert name in OF_ALL | OF_PEOPLE, name
            continue
        at = one.at.format(environment="live")
        assert f'<a href="{at}">{one.step}</a>' in unescape(shown[1]), name
        if at.startswith("#"):
            assert f'id="{at[1:]}"' in html, name


@pytest.mark.parametrize("role", [Role.VIEWER, Role.DISPATCHER])
def test_people_who_may_not_take_the_step_read_who_does(world: World, role: Role) -> None:
    browser = world.browser(role, nobodys_fleet(world))
    for name in ("keys", "connectors", "webhooks", "deals"):
        html = browser.look(EMPTY_LISTS[name].page)
        assert "An owner of your company does that." in html, name


def test_the_step_of_a_record_is_for_those_who_may_add_it() -> None:
    assert {kind.name: kind.may_edit for kind in RECORD_KINDS} == {
        kind.name: EMPTY_LISTS[kind.name].by for kind in RECORD_KINDS
    }


def test_every_role_without_the_step_reads_something_instead() -> None:
    assert [name for name, one in EMPTY_LISTS.items() if len(one.by) < len(Role) and not one.otherwise] == [
        "requests",
        "companies",
        "dead letters",
        "operators' subscriptions",
        "operators' notices",
    ], "nobody else sees these pages"
