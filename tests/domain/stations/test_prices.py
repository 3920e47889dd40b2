from datetime import UTC, datetime, timedelta

import pytest

from domain.stations.prices import Deal, fresh_retail, net_price

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("retail", "deals", "expected"),
    [
        (3.899, [], 3.899),
        (None, [], None),
        (3.899, [Deal(discount_per_gallon=0.35)], 3.549),
        (3.899, [Deal(net_price=3.4)], 3.4),
        (None, [Deal(net_price=3.4)], 3.4),
        (None, [Deal(discount_per_gallon=0.35)], None),
        (3.899, [Deal(net_price=4.1)], 3.899),
        (3.899, [Deal(discount_per_gallon=0.1), Deal(net_price=3.8), Deal(discount_per_gallon=0.2)], 3.699),
        (3.899, [Deal(discount_per_gallon=-0.05)], 3.899),
        (3.899, [Deal()], 3.899),
    ],
)
def test_the_net_price_is_the_lowest_of_retail_and_every_deal(
    retail: float | None, deals: list[Deal], expected: float | None
) -> None:
    assert net_price(retail, deals) == expected


@pytest.mark.parametrize("mistake", [Deal(discount_per_gallon=3.9), Deal(discount_per_gallon=39), Deal(net_price=0.0)])
def test_a_deal_that_makes_fuel_free_is_not_believed(mistake: Deal) -> None:
    assert net_price(3.899, [mistake]) == 3.899
    assert net_price(None, [mistake]) is None


@pytest.mark.parametrize("retail", [0.0, -1.0, float("nan"), float("inf")])
def test_a_retail_price_that_is_no_price_is_not_believed(retail: float) -> None:
    assert net_price(retail, [Deal(discount_per_gallon=0.1)]) is None
    assert net_price(retail, [Deal(net_price=3.4)]) == 3.4


def test_prices_have_four_decimals() -> None:
    assert net_price(3.7, [Deal(discount_per_gallon=0.1)]) == 3.6
    assert net_price(3.123456, []) == 3.1235


def test_a_retail_price_lasts_seven_days() -> None:
    assert fresh_retail(3.9, NOW - timedelta(days=7), NOW) == 3.9
    assert fresh_retail(3.9, NOW - timedelta(days=7, seconds=1), NOW) is None
    assert fresh_retail(3.9, NOW - timedelta(days=1), NOW, timedelta(hours=1)) is None
    assert fresh_retail(3.9, None, NOW) is None
    assert fresh_retail(None, NOW, NOW) is None
