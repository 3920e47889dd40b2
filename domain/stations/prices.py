"""The price rules: the net price of a gallon for a company at a station, tax included, and the price less the tax."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

STALE_AFTER = timedelta(days=7)
"""Age at which a price no longer counts: diesel moves by several cents a week, and older prices would send trucks to
the wrong station."""

PRICE_DECIMALS = 4
"""Pumps show tenths of a cent; contracts sometimes name hundredths."""


@dataclass(frozen=True, slots=True)
class Deal:
    """A price that a company negotiated at a station or a brand: a discount on the retail price, or a fixed net price.
    A quote is a net price without a number."""

    discount_per_gallon: float | None = None
    net_price: float | None = None
    number: int | None = None
    """The number that people see."""
    brand: str | None = None
    """The brand that it is for; None for one station."""


def fresh_retail(
    retail_price: float | None, priced_at: datetime | None, now: datetime, stale_after: timedelta = STALE_AFTER
) -> float | None:
    """The retail price; None if it is too old, or its age is unknown."""
    if retail_price is None or priced_at is None or now - priced_at > stale_after:
        return None
    return retail_price


def net_price(retail_price: float | None, deals: Iterable[Deal]) -> float | None:
    """The lowest of the retail price and the price of each deal; None where there is no price.

    A discount needs a retail price, a fixed net price does not. A price of zero or less is a mistake in the data and is
    ignored. For example, at 3.90 retail, with a discount of 0.30 and a net price of 3.70: 3.60.
    """
    offers = [retail_price] if retail_price is not None else []
    for deal in deals:
        if deal.net_price is not None:
            offers.append(deal.net_price)
        if retail_price is not None and deal.discount_per_gallon is not None:
            offers.append(retail_price - deal.discount_per_gallon)
    prices = [round(offer, PRICE_DECIMALS) for offer in offers if math.isfinite(offer)]
    return min([price for price in prices if price > 0], default=None)


class PriceParts(NamedTuple):
    """Everything that a net price was made from: the retail price, None where there is none or it is too old, and the
    deals and the quote that held."""

    retail_price: float | None
    deals: Sequence[Deal] = ()

    @property
    def net_price(self) -> float | None:
        return net_price(self.retail_price, self.deals)


def adjusted_price(net_price: float, tax_per_gallon: float | None) -> float:
    """The net price less the tax in it, which the company is credited. Where the tax is unknown it is the net price. A
    tax that leaves zero or less is a mistake in the data and is ignored.

    A surcharge is not taken off. It is owed by miles driven, and no purchase is credited for it.
    """
    untaxed = round(net_price - (tax_per_gallon or 0.0), PRICE_DECIMALS)
    return untaxed if untaxed > 0 else net_price
