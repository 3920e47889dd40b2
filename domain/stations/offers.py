"""A station along a road, and the offer there to a company. Both are tuples, because a plan makes hundreds of them."""

from datetime import datetime
from typing import NamedTuple

from domain.stations.arrival_prices import PriceChange
from domain.stations.prices import PriceParts, adjusted_price


class Station(NamedTuple):
    """A place that sells fuel. The places to park a truck, the showers and the hours are None where no file tells
    them."""

    station_id: str
    name: str
    brand: str | None
    address: str | None
    city: str | None
    state: str | None
    latitude: float
    longitude: float
    parking_spaces: int | None = None
    showers: int | None = None
    hours: str | None = None
    priced_at: datetime | None = None
    """The time of its newest pump price."""


class Offer(NamedTuple):
    """One pass of the road by a station, with the price that the company pays there when the truck arrives.
    `tax_per_gallon` is None where unknown, `price_change` where the price does not change by then."""

    station: Station
    mile: float
    detour_miles: float
    net_price: float
    tax_per_gallon: float | None = None
    closed_until: datetime | None = None
    """The station is closed until then; None where it is open."""
    price_change: PriceChange | None = None
    rises_at: datetime | None = None
    """When the price rises, for a truck that comes later than planned; None where it is not known to rise."""
    parts: PriceParts | None = None
    """The parts of the net price; None where they are not known."""

    @property
    def adjusted_price(self) -> float:
        return adjusted_price(self.net_price, self.tax_per_gallon)
