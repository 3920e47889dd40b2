"""The prices in a row of a price file, with their product, money and unit."""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Literal, NamedTuple

from domain.files.products import Fuel, fuel_of_product
from domain.stations.price_units import (
    US_DOLLARS_A_GALLON,
    ExchangeRates,
    ToldPrice,
    country_of,
    in_dollars,
    unit_in_heading,
    unit_of_price,
)
from domain.stations.state_names import US_STATES
from domain.stations.station_finding import CodedStation

PriceKind = Literal["retail", "net"]

MOST_WRITTEN = 30.0
"""Dollars a gallon or a litre. Diesel has never cost a third of it, so a price of 349.9 is in cents."""

_KINDS: tuple[tuple[PriceKind, str], ...] = (("net", "net_price"), ("retail", "retail_price"))


class WrittenPrice(NamedTuple):
    """A price as it stands in its row."""

    kind: PriceKind
    price: float
    currency: str
    unit: str
    """The texts for currency and unit; empty if the country decides."""


def written_prices(values: Mapping[str, Any], columns: Mapping[str, str]) -> list[WrittenPrice]:
    """The prices of a row. `columns` are the names of the file's columns, by field. Raises ValueError, with the fault,
    if one cannot be read."""
    found = []
    for kind, name in _KINDS:
        price = values.get(name)
        if price is None or price == 0:
            continue
        in_name = unit_in_heading(columns.get(name, ""))
        currency = values.get("currency") or in_name[0] or ""
        unit = values.get("unit") or (f"{'cents/' if in_name[2] else ''}{in_name[1]}" if in_name[1] else "")
        if currency or unit:
            unit_of_price(currency, unit, "US")  # raises
        written = WrittenPrice(kind, price, currency, unit)
        if price < 0 or (price >= MOST_WRITTEN and not _may_be_so_much(written, values)):
            hint = ": is it in cents? A profile says which unit a column has" if price > 0 else ""
            raise ValueError(f"{price:,.2f} is no price of a gallon in dollars{hint}")
        found.append(written)
    return found


def _may_be_so_much(written: WrittenPrice, values: Mapping[str, Any]) -> bool:
    country = country_of(values.get("state"), values.get("country") or "", values.get("latitude"))
    unit, is_told = unit_of_price(written.currency, written.unit, country)
    return unit.is_cents or (unit.currency == "MXN" and written.price < 1_000) or (not is_told and country == "CA")


def told_price(
    written: WrittenPrice, values: Mapping[str, Any], station: CodedStation | None, rates: ExchangeRates
) -> ToldPrice:
    """The price in US dollars a gallon, as far as its row or the country of its station gives its unit."""
    state, latitude, longitude = values.get("state"), values.get("latitude"), values.get("longitude")
    if station is not None and not state:
        state, latitude, longitude = station.state, station.latitude, station.longitude
    if state in US_STATES and not (written.currency or written.unit or values.get("country")):
        return ToldPrice(written.price)  # nearly all prices
    country = country_of(state, values.get("country") or "", latitude, longitude)
    unit, is_told = unit_of_price(written.currency, written.unit, country)
    return in_dollars(written.price, unit, rates, is_told=is_told)


def foreign_prices(
    values: Mapping[str, Any], columns: Mapping[str, str], station: CodedStation | None, rates: ExchangeRates
) -> dict[str, str]:
    """The prices of a row, by field, that are not in US dollars a gallon, in words for a person who looks at the file:
    `$5.405 a gallon, from 1.999 CAD a litre`, or why a price cannot be converted. `columns` are the names of the file's
    columns, by field. Raises ValueError, with the fault, if one cannot be read."""
    names, found = dict(_KINDS), {}
    for written in written_prices(values, columns):
        told = told_price(written, values, station, rates)
        if told.doubt:
            found[names[written.kind]] = told.doubt
        elif told.read_in != US_DOLLARS_A_GALLON:
            words = f"${told.price:.3f} a gallon, from {written.price:.10g} {told.read_in.shown}"
            found[names[written.kind]] = words
    return found


# --- Products ----------------------------------------------------------------------------------------------------

_SPECIAL_DIESEL = re.compile(
    r"\b(?:D1|DSL1|DIESEL ?1|ULS[DP]?1|NO ?1|BIO|BDSL|BIODIESEL|B ?\d+|WINTER\w*|PREM\w*|ARCTIC|RD ?\d*|R99|HVO"
    r"|RENEWABLE)\b|#\s*1\b"
)


@lru_cache(maxsize=1_000)
def judged_product(product: str) -> tuple[bool, str]:
    """True for a product that may be diesel for tractors, with the doubt if that is not certain; False with the reason
    otherwise."""
    if not product:
        return True, "its row names no product"
    fuel = fuel_of_product(product)
    if fuel is Fuel.TRACTOR:
        return True, ""
    if fuel is Fuel.UNKNOWN:
        return True, f"nothing tells whether {product[:40]!r} is diesel"
    return False, f"{product[:40]!r} is no diesel for tractors"


@lru_cache(maxsize=1_000)
def diesel_rank(product: str) -> int:
    """0 for ordinary diesel; 1 for winter diesel, biodiesel and the like, which are sold beside it."""
    return int(bool(_SPECIAL_DIESEL.search(product.upper())))
