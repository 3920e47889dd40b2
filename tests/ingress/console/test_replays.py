"""The pages Replay: asked for by an owner, solved by workers, and the figures of the command on the page."""

import csv
import io
from datetime import UTC, datetime
from typing import Any

import pytest

from domain.database.connections import Database
from domain.ids import read_id
from domain.lifecycle import Role
from domain.planning.explanation import pack_explanation
from domain.replay.portions import finish_replay, solve_next_portion
from domain.replay.results import ReplayTotals
from tests.domain.replay.driven import explained, store_driven
from tests.factories import Fleet
from tests.ingress.console.conftest import OwnConsole, World, words

NOW = datetime.now(UTC)


@pytest.fixture(scope="module")
def database(own_console: OwnConsole) -> Database:
    return own_console.database


@pytest.fixture(scope="module")
def console_url(own_console: OwnConsole) -> str:
    return own_console.url


@pytest.fixture
def driven(world: World) -> Fleet:
    """A company with two driven trips. Their stations are in no table, but for a brand that may be named."""
    fleet = world.new_fleet()
    with world.database.transaction() as connection:
        for number in range(2):
            store_driven(connection, fleet.live, pack_explanation(explained()), now=NOW, externalId=f"driven-{number}")
        connection.execute(
            "INSERT INTO stations (station_id, name, brand, latitude, longitude, retired_at)"
            " VALUES ('replay-mesa', 'Mesa', 'Mesa', 1, 1, now()) ON CONFLICT DO NOTHING"
        )
    return fleet


def solve(world: World, path: str) -> None:
    replay_id = read_id("rpl", path.rpartition("/")[2])
    assert replay_id is not None
    while solve_next_portion(world.database.transaction, replay_id, now=NOW) is not None:
        pass
    finish_replay(world.database.transaction, replay_id, now=NOW)


def test_an_owner_asks_and_reads_what_a_deal_is_worth(world: World, driven: Fleet) -> None:
    browser = world.browser(Role.OWNER, driven)
    days: dict[str, Any] = {"from": f"{NOW:%Y-%m-01}", "to": f"{NOW:%Y-%m-%d}", "environment": "live"}
    asked = browser.submit("/replays", ask="deals", **days)
    assert asked.status_code == 303
    path = asked.headers["location"]
    assert "0 of 2 trips solved" in words(browser.look(path))
    part = browser.get(path, headers={"HX-Request": "true"}).text
    assert "0 of 2 trips solved" in words(part)
    assert browser.token in part, "the page asks for this part while it waits, and its button works"
    assert browser.get(f"{path}/trips.csv").status_code == 400

    solve(world, path)

    page = words(browser.look(path))
    assert "What each deal earned" in page
    assert "S330, $3.050 net" in page
    rows = list(csv.DictReader(io.StringIO(browser.get(f"{path}/trips.csv").text, newline="")))
    assert len(rows) == 2
    assert f"${sum(float(row['costs_more']) for row in rows):,.2f} more" in page
    for kind in ("lane", "truck", "week", "state", "station"):
        assert "Gallons before" in words(browser.look(path, by=kind))
    assert "what each deal is worth" in words(browser.look("/replays"))


def test_terms_that_make_no_sense_are_told_and_a_replay_is_stopped(world: World, driven: Fleet) -> None:
    browser = world.browser(Role.OWNER, driven)
    days: dict[str, Any] = {"from": f"{NOW:%Y-%m-01}", "to": f"{NOW:%Y-%m-%d}", "environment": "live", "ask": "terms"}
    for terms, fault in (
        ({}, "Nothing would change"),
        ({"reserve_percent": "900"}, "Reserve_percent"),
        ({"discount_brand": "Mesa", "discount": "free"}, "is no discount"),
        ({"more": "without-brand=Nobody's"}, "No station has the brand"),
        ({"more": "without-deal=Mseas"}, "No station has the brand or the id"),
        ({"more": "without-deal=999"}, "The company has no deal 999"),
        ({"against": "without-deal=0"}, "The company has no deal 0"),
        ({"more": "without-deal=²"}, "No station has the brand or the id"),
        ({"stop_cost": "1", "from": "2001-01-01", "to": "2001-01-31"}, "No trip was planned"),
    ):
        refused = browser.submit("/replays", **{**days, **terms})
        assert refused.status_code == 400
        assert fault in words(refused.text), fault
    assert "No replay was asked for yet" in words(browser.look("/replays")), "what is refused is not stored"
    path = browser.submit("/replays", without_brand="Mesa", **days).headers["location"]
    assert browser.submit(f"{path}/stop").status_code == 303
    assert "it was stopped" in words(browser.look(path))
    assert browser.submit(f"{path}/resume").status_code == 303
    solve(world, path)
    assert "without Mesa" in words(browser.look(path))


def test_others_read_at_most_and_another_company_finds_nothing(world: World, driven: Fleet) -> None:
    owner, viewer = world.browser(Role.OWNER, driven), world.browser(Role.VIEWER, driven)
    days: dict[str, Any] = {"from": f"{NOW:%Y-%m-01}", "to": f"{NOW:%Y-%m-%d}", "environment": "live", "ask": "deals"}
    path = owner.submit("/replays", **days).headers["location"]
    assert viewer.submit("/replays", **days).status_code in (403, 404)
    assert viewer.submit(f"{path}/stop").status_code in (403, 404)
    assert "0 of 2 trips solved" in words(viewer.look(path))
    for role in (Role.VIEWER, Role.OWNER):
        assert world.browser(role, world.new_fleet()).get(path).status_code == 404


def test_no_trips_have_empty_totals() -> None:
    assert ReplayTotals().summary().difference_cents == 0
