"""Prices that are too unlike others to be used unchecked: unlike the price before, the neighbours', the state's or the
country's; or, where nothing is known, unlike any price that diesel has had. A person checks them first."""

from collections.abc import Iterable, Mapping
from math import floor
from statistics import median
from typing import NamedTuple

from domain.languages.units import Country
from domain.settings import Settings
from domain.stations.price_units import NO_RATES, ExchangeRates


class OutlierLimits(NamedTuple):
    """The greatest differences in percent, for which `domain/settings.py` gives the reasons, and the rates by which
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
"""Fewest prices that show the usual one of a country."""

LOWEST_USUAL, HIGHEST_USUAL = 1.25, 10.0
"""US dollars a gallon. Where nothing is known to compare with, a price outside is no price of diesel, which has cost
more in the states since 2003, and up to 9 in Canada. A lower one may be the price of a litre."""

MOST_TIMES = 2.5
"""Most times by which a price may differ from the usual one of its country, up or down. States differ by half; a litre
is 3.8 times less than a gallon, and a slip of the decimal point is 10 times."""


class PlacedPrice(NamedTuple):
    state: str
    latitude: float
    longitude: float
    price: float
    country: Country


class UsualPrices:
    """The medians of neighbourhoods, states and countries. A neighbourhood is half a degree of one state wide and high:
    about 30 miles."""

    def __init__(self, prices: Iterable[PlacedPrice], of_countries: Mapping[Country, float] | None = None) -> None:
        """`of_countries` has the usual prices of countries by known prices. The prices of a file alone do not show
        them, since all may be of another unit."""
        neighbors: dict[tuple[str, int, int], list[float]] = {}
        states: dict[str, list[float]] = {}
        for one in prices:
            neighbors.setdefault(_neighborhood_of(one), []).append(one.price)
            states.setdefault(one.state, []).append(one.price)
        self._neighbors = {
            place: (median(found), len(found)) for place, found in neighbors.items() if len(found) > FEWEST_NEIGHBORS
        }
        self._states = {state: (median(found), len(found)) for state, found in states.items()}
        self._countries = of_countries or {}

    @classmethod
    def of_medians(
        cls,
        neighbors: Mapping[tuple[str, int, int], tuple[float, int]],
        states: Mapping[str, tuple[float, int]],
        of_countries: Mapping[Country, float],
    ) -> "UsualPrices":
        """The usual prices by medians, each with the number of its prices, of neighbourhoods with more than
        `FEWEST_NEIGHBORS` and of states."""
        usual = cls((), of_countries)
        usual._neighbors.update(neighbors)
        usual._states.update(states)
        return usual

    def fault(self, one: PlacedPrice, before: float | None, limits: OutlierLimits) -> str:
        """A sentence about the first unusual thing of a price; empty without one. `before` is the price that it
        follows, if that is fresh."""
        if before is not None and (told := _unlike(one.price, before, limits.jump_percent)):
            return f"{told} the price before, {before:.3f}"
        usual, count = self._neighbors.get(_neighborhood_of(one), (0.0, 0))
        if count and (told := _unlike(one.price, usual, limits.neighbor_percent)):
            return f"{told} the usual price of {count} stations near it, {usual:.3f}"
        usual, count = self._states.get(one.state, (0.0, 0))
        if one.state and count > FEWEST_IN_STATE and (told := _unlike(one.price, usual, limits.state_percent)):
            return f"{told} the usual price of {count} stations in {one.state}, {usual:.3f}"
        return unbelievable(one.price, self._countries.get(one.country) or before)

    def near(self, one: PlacedPrice) -> float | None:
        """The usual price near a place, else that in its state; None where neither is known."""
        usual, count = self._neighbors.get(_neighborhood_of(one), (0.0, 0))
        if count:
            return usual
        usual, count = self._states.get(one.state, (0.0, 0))
        return usual if one.state and count > FEWEST_IN_STATE else None


def usual_of_countries(prices: Iterable[tuple[Country, float]]) -> dict[Country, float]:
    """The median of each country with enough prices."""
    known: dict[Country, list[float]] = {}
    for country, price in prices:
        known.setdefault(country, []).append(price)
    return {country: median(found) for country, found in known.items() if len(found) >= FEWEST_IN_COUNTRY}


def believable_range(usual: float | None) -> tuple[float, float]:
    """The lowest and the highest price that diesel can have. `usual` is the usual price of its country, as far as
    known."""
    return (LOWEST_USUAL, HIGHEST_USUAL) if usual is None else (usual / MOST_TIMES, usual * MOST_TIMES)


def unbelievable(price: float, usual: float | None) -> str:
    """A sentence about a price outside that range; empty for one inside."""
    lowest, highest = believable_range(usual)
    if lowest <= price <= highest:
        return ""
    if usual is None:
        return f"{price:.3f} is no usual price of a gallon in US dollars: those are {lowest:.2f} to {highest:.2f}"
    return f"{price:.3f} is far {'below' if price < usual else 'above'} the usual price, {usual:.3f}"


def net_fault(net_price: float, retail_price: float | None, limits: OutlierLimits) -> str:
    """A sentence about a net price far from the retail price beside it, which is probably of another column or product;
    empty for a near one."""
    told = _unlike(net_price, retail_price, limits.state_percent) if retail_price is not None else ""
    return f"{told} the retail price, {retail_price:.3f}" if told else ""


def neighborhood(state: str, latitude: float, longitude: float) -> tuple[str, int, int]:
    """The neighbourhood of a place, within one state: across a border other taxes hold, and diesel in Blythe in
    California costs two thirds more than across the river."""
    return state, floor(latitude * 2), floor(longitude * 2)


def _neighborhood_of(one: PlacedPrice) -> tuple[str, int, int]:
    return neighborhood(one.state, one.latitude, one.longitude)


def _unlike(price: float, other: float, percent: float) -> str:
    difference = (price - other) / other * 100
    if abs(difference) <= percent:
        return ""
    return f"{price:.3f} is {abs(difference):.0f} % {'more' if difference > 0 else 'less'} than"
