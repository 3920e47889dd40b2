"""Prices that are too unlike others to be used unseen: unlike the price before, those of neighbours, or those of the
state. A person looks at them first."""

from collections.abc import Iterable
from statistics import median
from typing import NamedTuple

from domain.settings import Settings


class OutlierLimits(NamedTuple):
    """The greatest differences in percent; `domain/settings.py` gives the reason for each."""

    jump_percent: float = 20
    neighbor_percent: float = 25
    state_percent: float = 35

    @classmethod
    def of(cls, settings: Settings) -> "OutlierLimits":
        return cls(settings.price_jump_percent, settings.price_neighbor_percent, settings.price_state_percent)


FEWEST_NEIGHBORS = 4
FEWEST_IN_STATE = 8
"""Fewer prices say nothing about what is usual."""


class PlacedPrice(NamedTuple):
    state: str
    latitude: float
    longitude: float
    price: float


class UsualPrices:
    """The medians of neighbourhoods and states. A neighbourhood is half a degree wide and high: about 30 miles."""

    def __init__(self, prices: Iterable[PlacedPrice]) -> None:
        neighbors: dict[tuple[int, int], list[float]] = {}
        states: dict[str, list[float]] = {}
        for one in prices:
            neighbors.setdefault(_neighborhood(one.latitude, one.longitude), []).append(one.price)
            states.setdefault(one.state, []).append(one.price)
        self._neighbors = {
            place: (median(found), len(found)) for place, found in neighbors.items() if len(found) > FEWEST_NEIGHBORS
        }
        self._states = {state: (median(found), len(found)) for state, found in states.items()}

    def fault(self, one: PlacedPrice, before: float | None, limits: OutlierLimits) -> str:
        """A sentence on the first thing that is unusual about a price; empty when nothing is. `before` is the price
        that it follows, if that is fresh."""
        if before is not None and (told := _unlike(one.price, before, limits.jump_percent)):
            return f"{told} the price before, {before:.3f}"
        usual, count = self._neighbors.get(_neighborhood(one.latitude, one.longitude), (0.0, 0))
        if count and (told := _unlike(one.price, usual, limits.neighbor_percent)):
            return f"{told} the usual price of {count} stations near it, {usual:.3f}"
        usual, count = self._states.get(one.state, (0.0, 0))
        if one.state and count > FEWEST_IN_STATE and (told := _unlike(one.price, usual, limits.state_percent)):
            return f"{told} the usual price of {count} stations in {one.state}, {usual:.3f}"
        return ""


def net_fault(net_price: float, retail_price: float | None, limits: OutlierLimits) -> str:
    """A net price that is far from the retail price beside it is probably of another column, or another product."""
    told = _unlike(net_price, retail_price, limits.state_percent) if retail_price is not None else ""
    return f"{told} the retail price, {retail_price:.3f}" if told else ""


def _neighborhood(latitude: float, longitude: float) -> tuple[int, int]:
    return int(latitude * 2 // 1), int(longitude * 2 // 1)


def _unlike(price: float, other: float, percent: float) -> str:
    difference = (price - other) / other * 100
    if abs(difference) <= percent:
        return ""
    return f"{price:.3f} is {abs(difference):.0f} % {'more' if difference > 0 else 'less'} than"
