"""The navigation: pages in groups by work, for each role, with counts of what needs a person."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from html import unescape
from uuid import uuid4

import pytest
import typer
from typer.core import TyperGroup
from typer.main import get_command

from deploy.cli.commands import app
from domain.lifecycle import Role
from domain.needs.company_needs import COMPANY_NEEDS
from ingress.console.navigation import GROUPS, LONGEST_COUNT_MILLISECONDS, NeedCounts, navigation_of
from tests.domain.helpers import imported
from tests.ingress.console.conftest import World, words


def test_there_are_five_groups_for_every_role() -> None:
    for role in Role:
        assert [group.name for group in navigation_of(role, "", {})] == [
            "Today",
            "Fleet",
            "Fuel",
            "Reports",
            "Settings",
        ]


def test_a_role_sees_its_own_pages_only() -> None:
    def labels(role: Role) -> set[str]:
        return {one.label for group in navigation_of(role, "", {}) for one in group.entries}

    assert labels(Role.OPERATOR) - labels(Role.OWNER) == {"Queues", "Companies"}
    assert labels(Role.OWNER) - labels(Role.DISPATCHER) == {"Users", "Audit log", "Price files"}
    assert labels(Role.DISPATCHER) - labels(Role.VIEWER) == {"Import a file", "Notices", "Requests"}


def test_each_need_is_counted_beside_one_page() -> None:
    for need in COMPANY_NEEDS:
        groups = navigation_of(Role.OWNER, "", {need.kind: 3})
        counted = [one.label for group in groups for one in group.entries if one.cases]
        assert (len(counted), sum(group.cases for group in groups)) == (1, 3), need.kind


@pytest.mark.parametrize(("section", "opened"), [("overview", ["Today"]), ("ifta", ["Today", "Reports"])])
def test_today_and_the_group_of_the_page_are_open(section: str, opened: list[str]) -> None:
    assert [group.name for group in navigation_of(Role.OWNER, section, {}) if group.is_open] == opened


def test_counts_are_kept_until_a_person_acts() -> None:
    counts, company_id, asked = NeedCounts(), uuid4(), []

    def count(found: Mapping[str, int] | None) -> Mapping[str, int] | None:
        asked.append(found)
        return found

    assert counts.get(company_id, lambda: count({"error": 2})) == {"error": 2}
    assert counts.get(company_id, lambda: count({"error": 1})) == {"error": 2}
    counts.forget(company_id)
    assert counts.get(company_id, lambda: count({"error": 1})) == {"error": 1}
    assert counts.get(uuid4(), lambda: count(None)) == {}, "counting took too long"
    assert len(asked) == 3


def test_the_page_shows_the_counts_and_marks_itself(world: World) -> None:
    fleet = world.new_fleet()
    with world.database.transaction() as connection:
        for number in range(2):
            imported(
                connection, fleet.live, now=datetime.now(UTC), externalId=f"LOST-{number}", vehicle={"unitNumber": "9"}
            )
    html = world.browser(Role.DISPATCHER, fleet).look("/matching/drivers")

    assert "Matching 2 need you" in words(html)
    assert re.findall(r'href="([\w/]+)" aria-current="page"', html.partition("<main")[0]) == ["/matching/vehicles"]
    assert re.search(r"Menu \d need you", words(html)), "other tests may have taken all prices away"


def test_every_page_of_the_table_has_an_address_of_its_own() -> None:
    entries = [one for group in GROUPS.values() for one in group]
    assert len({one.path for one in entries}) == len({one.section for one in entries}) == len(entries)
    assert LONGEST_COUNT_MILLISECONDS < 1_000


def test_pages_and_commands_have_the_words_of_the_navigation(world: World) -> None:
    browser = world.browser(Role.OPERATOR, world.new_fleet())
    for one in (one for group in GROUPS.values() for one in group):
        html = browser.look(one.path)
        (heading,) = re.findall(r"<h1[^>]*>(.*?)</h1>", html, re.DOTALL)
        (title,) = re.findall(r"<title>(.*?)</title>", html)
        assert heading.startswith(one.label), one.path
        assert title.startswith(one.label), one.path

    commands = get_command(app)
    assert isinstance(commands, TyperGroup)
    for one in (one for group in GROUPS.values() for one in group):
        command = commands.get_command(typer.Context(commands), one.path.split("/")[1])
        if command is not None and isinstance(command, TyperGroup):
            assert (command.help or "").startswith(one.label), one.path


@pytest.mark.parametrize("role", [Role.VIEWER, Role.DISPATCHER, Role.OWNER])
def test_no_page_of_a_role_leads_to_a_page_of_another_role(world: World, role: Role) -> None:
    browser = world.browser(role)
    pages = [one.path for group in GROUPS.values() for one in group if role in one.by]
    pages += ["/savings/plans", "/savings/lanes", "/savings/statements", "/fills/cards", "/account"]
    pages += ["/mappings/vehicles/rules", "/deals", "/taxes"]
    links = {link for path in pages for link in re.findall(r'<a [^>]*href="(/[^"]*)"', browser.look(path))}

    assert [link for link in links if browser.get(unescape(link), follow_redirects=True).status_code != 200] == []
