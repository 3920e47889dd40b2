"""A price or a place typed in a form that is unlike what is known: it is stored once somebody has checked it."""

from collections.abc import Iterator
from uuid import uuid4

import pytest

from domain.lifecycle import Role
from tests.ingress.console.conftest import Browser, Fields, World, words
from tests.ingress.console.records import form_of, stored_rows


@pytest.fixture
def station_id(world: World) -> Iterator[str]:
    station_id = uuid4().hex
    yield station_id
    with world.database.transaction() as connection:
        connection.execute("DELETE FROM stations WHERE station_id = %s", (station_id,))


def price_of(world: World, station_id: str) -> float | None:
    ((price,),) = stored_rows(world, "SELECT retail_price FROM stations WHERE station_id = %s", station_id)
    return float(price) if price is not None else None


def add(browser: Browser, station_id: str, **fields: str) -> str:
    browser.look("/stations/new")
    place: Fields = {"latitude": "41.6", "longitude": "-87.3", "state": "IN"}
    typed: Fields = {**place, "station_id": station_id, "name": "A", **fields}
    answer = browser.submit("/stations/new", **typed)
    return words(answer.text) if answer.status_code != 303 else "added"


def test_an_unusual_price_is_stored_once_somebody_has_checked_it(world: World, station_id: str) -> None:
    operator = world.browser(Role.OPERATOR)

    assert "say that you have checked it" in add(operator, station_id, retail_price="0.05")
    assert stored_rows(world, "SELECT 1 FROM stations WHERE station_id = %s", station_id) == []
    assert add(operator, station_id, retail_price="0.05", price_checked="yes") == "added"
    assert price_of(world, station_id) == 0.05


def test_a_price_by_the_litre_is_told_by_the_form(world: World, station_id: str) -> None:
    operator = world.browser(Role.OPERATOR)

    assert "no rate of exchange is set" in add(
        operator, station_id, state="MB", latitude="49.9", longitude="-97.1", retail_price="1.999"
    )
    assert add(operator, station_id, retail_price="1.057", currency="USD", unit="litre") == "added"
    assert round(price_of(world, station_id) or 0, 3) == 4.001
    fields = form_of(operator, "/stations/one", id=station_id)
    assert (fields["currency"], fields["unit"]) == ("USD", "gallon")
    assert operator.submit("/stations/one", **fields | {"name": "B"}).status_code == 303
    assert round(price_of(world, station_id) or 0, 3) == 4.001


def test_a_station_moves_far_away_once_somebody_has_checked_the_place(world: World, station_id: str) -> None:
    operator = world.browser(Role.OPERATOR)
    assert add(operator, station_id, retail_price="0.05", price_checked="yes") == "added"
    moved = form_of(operator, "/stations/one", id=station_id) | {"longitude": "-86.3"}

    assert "more than 5 miles from where this station is known" in words(operator.submit("/stations/one", **moved).text)
    assert operator.submit("/stations/one", **moved | {"place_checked": "yes"}).status_code == 303
    assert stored_rows(world, "SELECT longitude FROM stations WHERE station_id = %s", station_id) == [(-86.3,)]
