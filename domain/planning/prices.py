"""What a gallon costs a company at a station: the lowest of the retail price and what its deals give, taxes in it."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import NamedTuple

FRESH_PRICE = timedelta(days=7)
"""An older retail price is no price."""


class Deal(NamedTuple):
    """A negotiated price: so much off the retail price, or a price of its own."""

    discount_per_gallon: float | None = None
    net_price: float | None = None


def fresh_retail(price: float | None, priced_at: datetime | None, now: datetime) -> float | None:
    """The retail price, unless it is missing, of unknown age or too old."""
    if price is None or priced_at is None or now - priced_at > FRESH_PRICE:
        return None
    return price


def net_price(retail: float | None, deals: Iterable[Deal]) -> float | None:
    """The best price, rounded to a hundredth of a cent; None without one. Nobody is paid for fuelling."""
    offers = [retail] if retail is not None else []
    for deal in deals:
        if deal.net_price is not None:
            offers.append(deal.net_price)
        elif deal.discount_per_gallon is not None and retail is not None:
            offers.append(retail - deal.discount_per_gallon)
    return min((round(offer, 4) for offer in offers if round(offer, 4) > 0), default=None)
