"""The price of a station when a truck arrives there: the rule alone."""

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from domain.stations.arrival_prices import (
    DatedDeal,
    DatedPrice,
    DatedTax,
    PriceChange,
    PriceStep,
    StationPrices,
    change_before,
    next_rise,
    price_on_arrival,
)
from domain.stations.prices import Deal

CHICAGO = ZoneInfo("America/Chicago")
NOW = datetime(2026, 11, 20, 16, tzinfo=UTC)  # Friday 10:00 in Chicago
MIDNIGHT = datetime(2026, 11, 21, 6, tzinfo=UTC)
HOUR = timedelta(hours=1)
EARLIER = NOW - timedelta(days=1)


def station(
    *later: tuple[datetime, float], deals: tuple[DatedDeal, ...] = (), quotes: tuple[DatedPrice, ...] = ()
) -> StationPrices:
    """A station at $3.50, and then at other retail prices."""
    retail = [DatedPrice(EARLIER, 3.5), *(DatedPrice(*one) for one in later)]
    return StationPrices(retail, quotes, deals, [DatedTax(date.min, 0.2)])


def steps(prices: StationPrices, zone: ZoneInfo = CHICAGO, until: datetime = NOW + 96 * HOUR) -> list[PriceStep]:
    return prices.steps(zone=zone, now=NOW, until=until)


def prices_of(found: list[PriceStep]) -> list[tuple[datetime, float | None]]:
    return [(step.since, step.net_price) for step in found]


def test_each_stored_change_is_a_step_from_its_moment_on() -> None:
    found = steps(station((NOW + HOUR, 3.6), (NOW + 3 * HOUR, 3.4)))

    assert prices_of(found) == [(NOW, 3.5), (NOW + HOUR, 3.6), (NOW + 3 * HOUR, 3.4)]


def test_a_change_that_changes_nothing_is_no_step() -> None:
    assert len(steps(station((NOW + HOUR, 3.5)))) == 1


def test_deals_begin_and_end_at_midnight_of_the_company() -> None:
    saturday = date(2026, 11, 21)
    deal = DatedDeal(Deal(discount_per_gallon=0.25), saturday, saturday)

    found = prices_of(steps(station(deals=(deal,))))

    assert found == [(NOW, 3.5), (MIDNIGHT, 3.25), (MIDNIGHT + 24 * HOUR, 3.5)]
    in_tokyo = prices_of(steps(station(deals=(deal,)), ZoneInfo("Asia/Tokyo")))
    assert in_tokyo == [(NOW, 3.25), (datetime(2026, 11, 21, 15, tzinfo=UTC), 3.5)], "it is Saturday there already"


def test_days_are_those_of_the_calendar_when_the_clocks_change() -> None:
    """Sunday, November 1 has 25 hours in Chicago; in Havana clocks go from 1:00 back to 0:00 that night."""
    now, sunday = datetime(2026, 10, 31, 12, tzinfo=UTC), date(2026, 11, 1)
    deals = (DatedDeal(Deal(net_price=3.0), sunday, sunday),)

    def found(zone: str) -> list[datetime]:
        prices = StationPrices([DatedPrice(now - HOUR, 3.5)], (), deals, [])
        return [one.since for one in prices.steps(zone=ZoneInfo(zone), now=now, until=now + 96 * HOUR)][1:]

    assert found("America/Chicago") == [datetime(2026, 11, 1, 5, tzinfo=UTC), datetime(2026, 11, 2, 6, tzinfo=UTC)]
    assert found("America/Havana") == [datetime(2026, 11, 1, 4, tzinfo=UTC), datetime(2026, 11, 2, 5, tzinfo=UTC)]


def test_a_day_that_begins_at_one_o_clock_begins_then() -> None:
    """On March 8 clocks in Havana go from 0:00 to 1:00: that day has no midnight."""
    now, sunday = datetime(2026, 3, 7, 12, tzinfo=UTC), date(2026, 3, 8)
    prices = StationPrices([DatedPrice(now - HOUR, 3.5)], (), (DatedDeal(Deal(net_price=3.0), sunday),), [])

    _, deal = prices.steps(zone=ZoneInfo("America/Havana"), now=now, until=now + 24 * HOUR)

    assert deal.since == datetime(2026, 3, 8, 5, tzinfo=UTC)


def test_a_quote_is_replaced_by_the_next_one() -> None:
    quotes = DatedPrice(EARLIER, 3.3), DatedPrice(NOW + 2 * HOUR, 3.6)

    assert prices_of(steps(station(quotes=quotes))) == [(NOW, 3.3), (NOW + 2 * HOUR, 3.5)], "3.6 is above retail"


def test_taxes_change_with_their_day() -> None:
    taxes = [DatedTax(date.min, None), DatedTax(date(2026, 11, 21), 0.3)]
    found = steps(StationPrices([DatedPrice(EARLIER, 3.5)], (), (), taxes))

    assert [(one.since, one.tax_per_gallon) for one in found] == [(NOW, None), (MIDNIGHT, 0.3)]


def test_days_at_the_ends_of_the_calendar_are_no_changes() -> None:
    deals = (DatedDeal(Deal(net_price=3.0), date.min, date.max),)

    assert prices_of(steps(station(deals=deals))) == [(NOW, 3.0)]


@pytest.mark.parametrize(
    ("arrives_in_minutes", "planned"),
    [(30, 3.5), (119, 3.5), (121, 3.6), (180, 3.6), (300, 3.6), (420, 3.3), (3000, 3.3)],
)
def test_the_later_price_counts_within_an_hour_of_the_change_where_it_is_higher(
    arrives_in_minutes: int, planned: float
) -> None:
    """It rises in 3 hours, and falls in 7."""
    found = steps(station((NOW + 3 * HOUR, 3.6), (NOW + 7 * HOUR, 3.3)))

    assert price_on_arrival(found, NOW + timedelta(minutes=arrives_in_minutes)).net_price == planned


def test_the_next_rise_is_above_the_price_to_plan_with_and_later_than_an_hour_after_the_arrival() -> None:
    found = steps(station((NOW + 3 * HOUR, 3.6), (NOW + 7 * HOUR, 3.3), (NOW + 9 * HOUR, 3.55), (NOW + 20 * HOUR, 3.7)))

    assert next_rise(found, NOW) == NOW + 3 * HOUR
    assert next_rise(found, NOW + 2 * HOUR) == NOW + 20 * HOUR, "it is planned with 3.6 already"
    assert next_rise(found, NOW + 7 * HOUR) == NOW + 9 * HOUR
    assert next_rise(found, NOW + 19 * HOUR) is None


def test_a_price_that_ends_soon_after_the_arrival_still_counts() -> None:
    saturday = DatedDeal(Deal(net_price=3.0), None, date(2026, 11, 20))
    found = steps(StationPrices([], (), (saturday,), []))

    assert prices_of(found) == [(NOW, 3.0), (MIDNIGHT, None)]
    assert price_on_arrival(found, MIDNIGHT - HOUR / 2).net_price == 3.0
    assert price_on_arrival(found, MIDNIGHT).net_price is None
    assert change_before(found, MIDNIGHT, CHICAGO) is None


def test_a_station_has_no_price_before_its_first_one_begins() -> None:
    found = steps(StationPrices([DatedPrice(EARLIER, None), DatedPrice(NOW + HOUR, 3.1)], (), (), []))

    assert price_on_arrival(found, NOW + HOUR / 2).net_price is None
    assert price_on_arrival(found, NOW + HOUR).net_price == 3.1


def test_the_change_that_is_told_is_the_last_up_to_an_hour_after_the_arrival() -> None:
    found = steps(station((NOW + 3 * HOUR, 3.6), (MIDNIGHT, 3.3)))

    assert change_before(found, NOW + HOUR, CHICAGO) is None
    rise = change_before(found, NOW + 2 * HOUR, CHICAGO)
    assert rise is not None
    assert rise.in_words() == "before Fri 13:00: $3.500, then $3.600"
    fall = change_before(found, MIDNIGHT + 9 * HOUR, CHICAGO)
    assert fall is not None
    assert fall.in_words() == "before midnight on Fri: $3.600, then $3.300"


def test_a_change_is_told_by_the_clock_of_the_company() -> None:
    change = PriceChange(datetime(2026, 11, 1, 6, 30, tzinfo=UTC).astimezone(CHICAGO), 3.5, 3.6)

    assert change.in_words() == "before Sun 01:30: $3.500, then $3.600"
