"""Prices that are too unlike others to be used unseen: unlike the price before, those of neighbours, or those of the
state or the country; or, where nothing is known, unlike any that diesel has had. A person looks at them first."""

from collections.abc import Iterable, Mapping
from statistics import median
from typing import NamedTuple

from domain.settings import Settings
from domain.stations.price_units import NO_RATES, Country, ExchangeRates


class OutlierLimits(NamedTuple):
    """The greatest differences in percent, `domain/settings.py` gives the reason for each; and the rates by which
    prices of other countries are compared."""

    jump_percent: float = 20
    neighbor_percent: float = 25
    state_percent: float = 35
    rates: ExchangeRates = NO_RATES

    @classmethod
    def of(cls, settings: Settings) -> "OutlierLimits":
        return cls(
            settings.price_jump_percent,
            settings.price_neighbor_percent,
            settings.price_state_percent,
            ExchangeRates.of(settings),
        )


FEWEST_NEIGHBORS = 4
FEWEST_IN_STATE = 8
FEWEST_IN_COUNTRY = 8
"""Fewer prices say nothing about what is usual."""

LOWEST_USUAL, HIGHEST_USUAL = 1.25, 10.0
"""US dollars a gallon. Where nothing is known that a price could be compared with, one outside is no price of diesel:
it has cost more in the states since 2003, and up to 9 in Canada. Less may be the price of a litre."""

MOST_TIMES = 2.5
"""A price is at most so many times the usual one of its country, and at least that part of it: states differ by half, a
litre is 3.8 times less than a gallon, and a slip of the decimal point is 10 times."""


class PlacedPrice(NamedTuple):
    state: str
    latitude: float
    longitude: float
    price: float
    country: Country = "US"


class UsualPrices:
    """The medians of neighbourhoods, states and countries. A neighbourhood is half a degree of one state wide and high:
    about 30 miles."""

    def __init__(self, prices: Iterable[PlacedPrice], of_countries: Mapping[Country, float] | None = None) -> None:
        """`of_countries`: what is usual in a country by prices that are known already. The prices of a file alone do
        not say that: all of them may be of another unit."""
        neighbors: dict[tuple[str, int, int], list[float]] = {}
        states: dict[str, list[float]] = {}
        for one in prices:
            neighbors.setdefault(_neighborhood(one), []).append(one.price)
            states.setdefault(one.state, []).append(one.price)
        self._neighbors = {
            place: (median(found), len(found)) for place, found in neighbors.items() if len(found) > FEWEST_NEIGHBORS
        }
        self._states = {state: (median(found), len(found)) for state, found in states.items()}
        self._countries = of_countries or {}

    def fault(self, one: PlacedPrice, before: float | None, limits: OutlierLimits) -> str:
        """A sentence on the first thing that is unusual about a price; empty when nothing is. `before` is the price
        that it follows, if that is fresh."""
        if before is not None and (told := _unlike(one.price, before, limits.jump_percent)):
            return f"{told} the price before, {before:.3f}"
        usual, count = self._neighbors.get(_neighborhood(one), (0.0, 0))
        if count and (told := _unlike(one.price, usual, limits.neighbor_percent)):
            return f"{told} the usual price of {count} stations near it, {usual:.3f}"
        usual, count = self._states.get(one.state, (0.0, 0))
        if one.state and count > FEWEST_IN_STATE and (told := _unlike(one.price, usual, limits.state_percent)):
            return f"{told} the usual price of {count} stations in {one.state}, {usual:.3f}"
        return unbelievable(one.price, self._countries.get(one.country) or before)


def usual_of_countries(prices: Iterable[tuple[Country, float]]) -> dict[Country, float]:
    """The median of each country of which enough is known."""
    known: dict[Country, list[float]] = {}
    for country, price in prices:
        known.setdefault(country, []).append(price)
    return {country: median(found) for country, found in known.items() if len(found) >= FEWEST_IN_COUNTRY}


def believable_range(usual: float | None) -> tuple[float, float]:
    """The lowest and the highest price that can be one of diesel. `usual` is what its country pays, as far as that is
    known."""
    return (LOWEST_USUAL, HIGHEST_USUAL) if usual is None else (usual / MOST_TIMES, usual * MOST_TIMES)


def unbelievable(price: float, usual: float | None) -> str:
    """A sentence on a price out of that range; else empty."""
    lowest, highest = believable_range(usual)
    if lowest <= price <= highest:
        return ""
    if usual is None:
        return f"{price:.3f} is no usual price of a gallon in US dollars: those are {lowest:.2f} to {highest:.2f}"
    return f"{price:.3f} is far {'below' if price < usual else 'above'} the usual price, {usual:.3f}"


def net_fault(net_price: float, retail_price: float | None, limits: OutlierLimits) -> str:
    """A net price that is far from the retail price beside it is probably of another column, or another product."""
    told = _unlike(net_price, retail_price, limits.state_percent) if retail_price is not None else ""
    return f"{told} the retail price, {retail_price:.3f}" if told else ""


def _neighborhood(one: PlacedPrice) -> tuple[str, int, int]:
    """Across a state's border other taxes hold: diesel of Blythe in California costs two thirds more than across the
    river."""
    return one.state, int(one.latitude * 2 // 1), int(one.longitude * 2 // 1)


def _unlike(price: float, other: float, percent: float) -> str:
    difference = (price - other) / other * 100
    if abs(difference) <= percent:
        return ""
    return f"{price:.3f} is {abs(difference):.0f} % {'more' if difference > 0 else 'less'} than"
