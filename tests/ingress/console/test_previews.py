"""The page Preview a load: two towns are enough, faults name the fields of the form, foreign trucks are unknown."""

import httpx
import pytest

from domain.lifecycle import Role
from tests.factories import Fleet
from tests.ingress.console.conftest import Browser, World, words
from tests.service import eventually

TOWNS = {"from": "Joliet, IL", "to": "Newark, NJ"}


def look(browser: Browser, **query: str) -> httpx.Response:
    """The page, loaded again while the machine is too busy for a preview."""
    return eventually(
        lambda: browser.get("/previews", params=query, timeout=120), lambda answer: answer.status_code != 503, 120
    )


@pytest.fixture
def fleet(world: World) -> Fleet:
    return world.new_fleet(time_zone="America/Chicago")


def test_two_towns_are_enough(world: World, fleet: Fleet) -> None:
    browser = world.browser(Role.VIEWER, fleet)
    assert "Fuel plan" not in words(browser.look("/previews"))

    page = look(browser, **TOWNS, fuel="95")

    assert page.status_code == 200
    text = words(page.text)
    for said in ("Joliet, IL → Newark, NJ", "By state", "What was assumed", "6.5 miles a gallon, the default"):
        assert said in text
    assert "Tax a gallon Surcharge a gallon Tax" in text
    assert 'class="route-map" data-ground=' in page.text
    assert "'self'" in page.headers["content-security-policy"]


def test_a_unit_a_place_and_another_policy_count(world: World, fleet: Fleet) -> None:
    page = look(
        world.browser(Role.DISPATCHER, fleet),
        **TOWNS | {"from": "41.462, -88.125"},
        unit="101",
        fuel="40",
        tank="150",
        stop_cost="75",
        start="2030-01-01T08:00",
    )
    text = words(page.text)
    assert "101: 150 gal, 6.5 mpg, 40 % at the start" in text
    assert "41.462, -88.125 → Newark, NJ" in text
    assert "the company's, but for the values given" in text


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ({"from": "Springfield", "to": "Newark, NJ"}, "From: 'Springfield' fits 20 towns"),
        ({"from": "Joliet, IL"}, "From and to: give both towns"),
        ({**TOWNS, "via": "Nowhere"}, "By way of: No town 'Nowhere' is known"),
        ({**TOWNS, "unit": "T-9"}, "Unit: No one vehicle of the fleet has it"),
        ({**TOWNS, "fuel": "120"}, "Fuel at the start: Expected a number <= 100"),
        ({**TOWNS, "reserve": "much"}, "Reserve: Expected a number"),
        ({**TOWNS, "reserve": "nan"}, "Reserve: Expected a number"),
        ({**TOWNS, "from": "91, 0"}, "From: Expected a number <= 90"),
        ({**TOWNS, "from": "<script>"}, "From: No town '<script>' is known"),
    ],
)
def test_a_fault_names_the_field_of_the_form(world: World, fleet: Fleet, query: dict[str, str], said: str) -> None:
    other = world.new_fleet()
    with world.database.transaction() as connection:
        connection.execute("UPDATE vehicles SET unit_number = 'T-9' WHERE id = %s", (other.trucks[0],))

    page = look(world.browser(Role.VIEWER, fleet), **query)

    assert page.status_code == 400, page.text
    assert said in words(page.text)


def test_who_is_not_signed_in_sees_nothing(world: World) -> None:
    answer = world.browser().get("/previews", params=TOWNS)
    assert (answer.status_code, answer.headers["location"][:8]) == (303, "/sign-in")
