"""The columns of a price in files of stations and deals: its money and unit, and that somebody has looked at it."""

from typing import Annotated, Protocol

from msgspec import Meta

from domain.contract.captions import Caption
from domain.contract.shapes import Text
from domain.stations.believed_prices import SentPrice, says_checked
from domain.stations.price_units import unit_of_price

CellText = Annotated[Text, Meta(max_length=400)]
PricePerGallon = Annotated[float, Meta(gt=0, lt=100)]
CurrencyCell = Annotated[CellText | None, Caption("Currency", "USD, CAD or MXN; empty: of the country")]
UnitCell = Annotated[CellText | None, Caption("Unit", "gallon or litre; empty: of the country")]


class PricedRow(Protocol):
    """A row as a file or a form has it: its price may be in the money and unit of its country."""

    @property
    def currency(self) -> str | None: ...

    @property
    def unit(self) -> str | None: ...

    @property
    def checked_price(self) -> str | None: ...


def check_unit(currency: str | None, unit: str | None, price: float | None) -> None:
    """Check currency, unit and price together. Raises ValueError, with the reason, if they do not fit."""
    told, _ = unit_of_price(currency or "", unit or "", "US")
    if price is not None and price >= _MOST_DOLLARS and not told.is_cents and told.currency != "MXN":
        raise ValueError(f"a price of {price:,.2f} is no price of a gallon in dollars: is it in cents?")


_MOST_DOLLARS = 100


def sent_price(row: PricedRow, price: float) -> SentPrice:
    return SentPrice(price, row.currency or "", row.unit or "", says_checked(row.checked_price, price))
