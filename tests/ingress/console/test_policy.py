"""The page Policy: how a company's routes are imported and its fuel is planned."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from domain.accounts.policy import Policy
from domain.contract.captions import captioned_fields
from domain.lifecycle import Role
from domain.planning.fuel_plan import ComputedPlan, compute_plan
from ingress.console.pages.company.policy import GROUPS
from tests.domain.messages.loads import message, refused_message
from tests.domain.planning.plans import NO_HARD_FLOOR, NOW, inputs, meridian, priced
from tests.domain.savings.sent_plans import store_sent_plan
from tests.factories import Fleet
from tests.ingress.console.conftest import Fields, World, words
from tests.ingress.console.records import form_of, stored_rows

CHOICES: Fields = {
    "superseding": "false",
    "driven_lanes": "true",
    "replan_en_route": "false",
    "mpg_choice": "learned",
    "watch_burn": "true",
    "objective": "pump",
    "map_link": "google",
    "prices_for_drivers": "true",
}
"""The stored values of the fields in which a person chooses."""


def company(world: World, fleet: Fleet, *columns: str) -> tuple[Any, ...]:
    (row,) = stored_rows(world, f"SELECT {', '.join(columns)} FROM companies WHERE id = %s", fleet.company_id)
    return row


def test_an_owner_changes_the_policy_and_the_audit_log_says_who(world: World) -> None:
    fleet = world.new_fleet()
    email = world.new_user(Role.OWNER, fleet)
    browser = world.browser()
    browser.sign_in(email)
    fields = form_of(browser, "/policy")
    assert fields["reserve_percent"] == "15"
    assert fields["time_zone"] == "UTC"
    choices: Fields = {
        "superseding": "true",
        "driven_lanes": "false",
        "replan_en_route": "true",
        "mpg_choice": "learned",
        "watch_burn": "false",
        "objective": "tax-adjusted",
        "map_link": "geo",
        "prices_for_drivers": "true",
    }

    changes = {"reserve_percent": "12.5", "time_zone": "America/Chicago", "max_stops": "3", **choices}
    changes["sandbox_autodrive"] = "300"
    assert browser.submit("/policy", **fields | changes).headers["location"] == "/policy?done=changed"

    page = words(browser.look("/policy?done=changed"))
    assert f"{email} change: Time zone, A newer load with the same reference, Reserve, percent" in page
    columns = (
        "reserve_percent",
        "time_zone",
        "max_stops",
        "superseding",
        "driven_lanes",
        "replan_en_route",
        "objective",
    )
    assert form_of(browser, "/policy")["sandbox_autodrive"] == "300x"
    assert company(world, fleet, *columns) == (12.5, "America/Chicago", 3, True, False, True, "tax-adjusted")
    same = form_of(browser, "/policy") | choices
    assert browser.submit("/policy", **same).headers["location"] == "/policy?done=same"
    assert browser.submit("/policy", **same | {"max_stops": ""}).status_code == 303
    assert company(world, fleet, "max_stops", "reserve_percent") == (None, 12.5)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"reserve_percent": "101"}, "Reserve, percent: Expected a number <= 100"),
        ({"reserve_percent": ""}, "Reserve, percent: It cannot be empty"),
        ({"max_stops": "1.5"}, "Most fuel stops of a plan: Expected a whole number"),
        ({"time_zone": "Chicago"}, "No such time zone: 'Chicago'"),
        ({"name": "x" * 201}, "Name of the company: Expected a text of at most 200"),
        ({"message_url": "ftp://x"}, "The message URL is not a URL that Apprise can use"),
        ({"message_url": "json://127.0.0.1"}, "is not on the public internet"),
        ({"superseding": "perhaps"}, "A newer load with the same reference: Choose one"),
        ({"sandbox_autodrive": "3601x"}, "The speed of simulated trucks is off, or from 1x to 3600x"),
        ({"sandbox_autodrive": ""}, "Simulated trucks in the sandbox: It cannot be empty"),
        ({"objective": "fun"}, "Prices that plans compare: Expected one of `"),
    ],
)
def test_a_bad_value_is_refused_with_its_sentence(world: World, changes: Fields, sentence: str) -> None:
    fleet = world.new_fleet()
    browser = world.browser(Role.OWNER, fleet)
    before = company(world, fleet, "*")
    fields = CHOICES

    answer = browser.submit("/policy", **form_of(browser, "/policy") | fields | changes)

    assert answer.status_code == 400
    assert sentence in words(answer.text)
    assert company(world, fleet, "*") == before


def test_a_page_from_before_takes_back_no_change_of_somebody_else(world: World) -> None:
    fleet = world.new_fleet()
    ann, bob = world.browser(Role.OWNER, fleet), world.browser(Role.OWNER, fleet)
    before = form_of(ann, "/policy") | CHOICES
    assert bob.submit("/policy", **form_of(bob, "/policy") | CHOICES | {"reserve_percent": "22"}).status_code == 303

    for path in ("/policy", "/policy/preview"):
        answer = ann.submit(path, **before | {"stop_cost": "25"})
        assert (answer.status_code, "has changed the policy in the meantime" in words(answer.text)) == (409, True), path
    assert company(world, fleet, "reserve_percent", "stop_cost") == (22, 20)

    assert ann.submit("/policy", **form_of(ann, "/policy") | CHOICES | {"stop_cost": "25"}).status_code == 303
    assert company(world, fleet, "reserve_percent", "stop_cost") == (22, 25)


def test_the_message_address_is_never_shown(world: World) -> None:
    fleet = world.new_fleet()
    browser = world.browser(Role.OWNER, fleet)
    fields = form_of(browser, "/policy") | {
        "superseding": "false",
        "driven_lanes": "true",
        "replan_en_route": "false",
        "mpg_choice": "learned",
        "watch_burn": "true",
        "objective": "pump",
        "map_link": "google",
        "prices_for_drivers": "true",
    }
    secret = "mailtos://ann:hunter2@mail.example.com"
    assert browser.submit("/policy", **fields | {"message_url": secret}).status_code == 303
    assert company(world, fleet, "message_url") != (None,)
    for role in (Role.VIEWER, Role.OWNER):
        assert "hunter2" not in world.browser(role, fleet).look("/policy")
    assert browser.submit("/policy", **fields | {"stop_cost": "25"}).status_code == 303
    assert company(world, fleet, "message_url") != (None,), "an empty field keeps it"
    removed = form_of(browser, "/policy") | CHOICES | {"message_url_removed": "yes"}
    assert browser.submit("/policy", **removed).status_code == 303
    assert company(world, fleet, "message_url") == (None,)


def test_refused_messages_go_out_once_the_message_url_is_changed(world: World, now: datetime) -> None:
    fleet, later = world.new_fleet(), now + timedelta(hours=1)
    with world.database.transaction() as connection:
        message_id = refused_message(connection, fleet, retry_at=later)
    browser = world.browser(Role.OWNER, fleet)
    for changes, waits in (({"stop_cost": "25"}, True), ({"message_url": "json://hooks.example.com/new"}, False)):
        fields = form_of(browser, "/policy") | CHOICES | changes
        assert browser.submit("/policy", **fields).status_code == 303
        with world.database.transaction() as connection:
            assert (message(connection, message_id).retry_at == later) is waits


@pytest.mark.parametrize("role", [Role.VIEWER, Role.DISPATCHER])
def test_other_roles_only_read_the_policy(world: World, role: Role) -> None:
    fleet = world.new_fleet(reserve_percent=17)
    browser = world.browser(role, fleet)
    page = browser.look("/policy")
    assert "Reserve, percent 17" in words(page)
    assert "<form" not in page[page.index("<main") :]
    assert browser.submit("/policy", reserve_percent="1").status_code == 403
    assert company(world, fleet, "reserve_percent") == (17,)


def test_a_policy_is_the_companys_own(world: World) -> None:
    theirs, ours = world.new_fleet(), world.new_fleet()
    browser = world.browser(Role.OWNER, ours)
    fields = form_of(browser, "/policy") | {
        "superseding": "false",
        "driven_lanes": "true",
        "replan_en_route": "false",
        "mpg_choice": "learned",
        "watch_burn": "true",
        "objective": "pump",
        "map_link": "google",
        "prices_for_drivers": "true",
    }
    assert browser.submit("/policy", **fields | {"name": "Ours"}).status_code == 303
    assert company(world, ours, "name") == ("Ours",)
    assert company(world, theirs, "name") == ("Acme",)


def test_every_field_of_the_form_stands_in_one_group() -> None:
    grouped = [name for names in GROUPS.values() for name in names]
    assert sorted(grouped) == sorted(field.name for field in captioned_fields(Policy) if not field.is_replaced)
    assert all(GROUPS), "a field of Policy has no group"


def test_each_choice_fits_its_field() -> None:
    """A field cuts off a longer one without a sign, in three columns at 1280 and on a phone."""
    choices = [words for field in captioned_fields(Policy) for words in field.choices.values()]
    assert choices
    assert [words for words in choices if len(words) > 36] == []


def test_a_preview_says_what_the_last_plans_would_have_cost_and_stores_nothing(world: World) -> None:
    fleet = world.new_fleet()
    browser = world.browser(Role.OWNER, fleet)
    fields = form_of(browser, "/policy") | CHOICES

    def said(**changes: str) -> str:
        answer = browser.submit("/policy/preview", part=True, **fields | changes)
        assert answer.status_code == 200
        return words(answer.text)

    assert "No driver has a plan yet" in said(reserve_percent="5")
    with world.database.transaction() as connection:
        trip = inputs(meridian(600), priced(180, 3.20), priced(330, 3.05), priced(560, 3.30))
        plan = compute_plan(replace(trip, hard_floor=NO_HARD_FLOOR))  # a preview leaves ways out aside
        assert isinstance(plan, ComputedPlan)
        for number in range(2):
            store_sent_plan(connection, fleet.live, plan.packed_explanation, now=NOW, externalId=f"LOAD-{number}")
        store_sent_plan(connection, fleet.live, None, now=NOW, externalId="LOAD-OLD")

    found = said(reserve_percent="5", end_fuel_percent="20", message_url="mailtos://me:secret@example.com")
    assert "With these values the last 2 live plans would have cost $" in found
    assert f"instead of ${2 * plan.total_cost:,.2f}" in found
    assert "Of 3 plans, 2 could be computed; left out: 1 (explanation no longer kept)" in found
    assert "secret" not in found
    assert "Trips below the reserve, expected" in said(trips_below_reserve_percent="5")
    assert "Change a value of tank and reserve" in said(import_window_days="3")
    assert company(world, fleet, "reserve_percent", "import_window_days") == (15, 7)

    whole = browser.submit("/policy/preview", **fields | {"reserve_percent": "5"})
    assert "With these values the last 2 live plans" in words(whole.text)
    assert 'name="reserve_percent" value="5"' in whole.text, "what was typed stays"


def test_a_preview_of_a_bad_value_says_so_and_a_viewer_has_none(world: World) -> None:
    fleet = world.new_fleet()
    browser = world.browser(Role.OWNER, fleet)
    fields = form_of(browser, "/policy") | CHOICES | {"reserve_percent": "101"}
    assert browser.submit("/policy/preview", **fields).status_code == 400
    part = browser.submit("/policy/preview", part=True, **fields)
    assert (part.status_code, "Reserve, percent: Expected a number" in part.text) == (400, True)
    viewer = world.browser(Role.VIEWER, fleet)
    assert "Preview" not in viewer.look("/policy").partition("<main")[2]
    assert viewer.submit("/policy/preview", **fields).status_code == 403
