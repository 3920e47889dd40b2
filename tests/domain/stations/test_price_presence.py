"""A company has prices when plans can be priced: by retail prices, quotes or deals with a fixed net price."""

from datetime import date, datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from domain.database.connections import Connection
from domain.routes.reading.overview import read_set_up
from domain.stations.chains import brand_key
from domain.stations.deals import DealRow, store_deal
from domain.stations.price_presence import has_prices
from tests.domain.notices.subscriptions import look, notices_of, subscribe
from tests.factories import DOT, Fleet, make_fleet
from tests.repeatable import examples


@pytest.fixture
def alone(connection: Connection) -> Connection:
    """A transaction in which there is one station, a Love's, without a price."""
    connection.execute("DELETE FROM stations")
    connection.execute(
        "INSERT INTO stations (station_id, name, brand, latitude, longitude) VALUES ('S1', 'Love''s', 'loves', 41, -87)"
    )
    return connection


def deal(connection: Connection, fleet: Fleet, now: datetime, **row: Any) -> None:
    store_deal(connection, fleet.company_id, None, DealRow(**row), DOT, now=now)


def quote(connection: Connection, fleet: Fleet, at: datetime, station: str = "S1") -> None:
    connection.execute("INSERT INTO quotes VALUES (%s, %s, %s, 3.1, 'loves')", (fleet.company_id, station, at))


def test_a_net_price_of_a_station_or_its_brand_is_a_price(alone: Connection, fleet: Fleet, now: datetime) -> None:
    assert not has_prices(alone, fleet.company_id, now=now)
    deal(alone, fleet, now, station_id="S1", net_price=3.1)
    assert has_prices(alone, fleet.company_id, now=now)

    other = make_fleet(alone)
    assert not has_prices(alone, other.company_id, now=now)
    deal(alone, other, now, brand="loves", net_price=3.1)
    assert has_prices(alone, other.company_id, now=now)


WORDS = ["Love's", "loves", "LOVE\u2019S", "Boss", "bos", "As", "a", "abc", "ABCS", "1s", "99s", "-", "'", "s s"]
BRANDS = st.lists(st.sampled_from(WORDS), min_size=1, max_size=2).map(" ".join)


@given(BRANDS, BRANDS)
@hypothesis_settings(
    max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_a_brand_is_compared_by_its_words_as_plans_do(
    alone: Connection, fleet: Fleet, now: datetime, one: str, other: str
) -> None:
    alone.execute("UPDATE stations SET brand = %s", (one,))
    alone.execute("DELETE FROM deals WHERE company_id = %s", (fleet.company_id,))
    alone.execute("INSERT INTO deals (company_id, brand, net_price) VALUES (%s, %s, 3.1)", (fleet.company_id, other))
    assert has_prices(alone, fleet.company_id, now=now) is (brand_key(one) == brand_key(other))


@pytest.mark.parametrize(
    "row",
    [
        {"station_id": "S1", "discount_per_gallon": 0.3},
        {"station_id": "unknown", "net_price": 3.1},
        {"brand": "ta", "net_price": 3.1},
        {"station_id": "S1", "net_price": 3.1, "valid_to": date(2020, 1, 1)},
        {"station_id": "S1", "net_price": 3.1, "valid_from": date(2099, 1, 1)},
    ],
    ids=["a discount", "no station", "no station of the brand", "over", "not yet"],
)
def test_a_deal_that_gives_no_plan_a_price_is_none(
    alone: Connection, fleet: Fleet, now: datetime, row: dict[str, Any]
) -> None:
    deal(alone, fleet, now, **row)
    assert not has_prices(alone, fleet.company_id, now=now)


@pytest.mark.parametrize(
    ("days", "has"), [(-8, False), (-6, True), (0, True), (1, False)], ids=["too old", "fresh", "new", "to come"]
)
def test_a_quote_is_a_price_while_it_holds(
    alone: Connection, fleet: Fleet, now: datetime, days: int, has: bool
) -> None:
    quote(alone, fleet, now + timedelta(days=days))
    assert has_prices(alone, fleet.company_id, now=now) is has


def test_nothing_at_a_retired_station_is_a_price(alone: Connection, fleet: Fleet, now: datetime) -> None:
    quote(alone, fleet, now)
    deal(alone, fleet, now, brand="loves", net_price=3.1)
    alone.execute("UPDATE stations SET retired_at = %s, retail_price = 3.9, priced_at = %s", (now, now))
    assert not has_prices(alone, fleet.company_id, now=now)
    alone.execute("UPDATE stations SET retired_at = NULL")
    assert has_prices(alone, fleet.company_id, now=now)


def test_the_notice_and_the_overview_say_the_same(alone: Connection, fleet: Fleet, now: datetime) -> None:
    subscribe(alone, fleet.company_id, kinds=("no_prices",))
    deal(alone, fleet, now, brand="loves", net_price=3.1)
    look(alone, fleet.company_id, now)

    assert notices_of(alone, fleet.company_id) == []
    assert read_set_up(alone, fleet.company_id, now=now).stations is True
