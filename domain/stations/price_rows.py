"""The rows of a price file: the prices of each, their station, and the reasons why a row does not count."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from domain.database.connections import Connection
from domain.database.statements import Statement
from domain.files.csvfiles import ImportReport
from domain.files.file_records import FileRecord
from domain.files.profiles import FileProfile
from domain.stations.file_prices import NO_PLACES, FilePrices, Places
from domain.stations.price_outliers import OutlierLimits
from domain.stations.price_units import US_DOLLARS_A_GALLON, UnitOfPrice
from domain.stations.prices import STALE_AFTER
from domain.stations.state_names import plain_state
from domain.stations.station_codes import RowPlace
from domain.stations.station_finding import CodedStation, CodeMatch, StationFinder
from domain.stations.written_prices import (
    PriceKind,
    WrittenPrice,
    judged_product,
    told_price,
    written_prices,
)

MOST_AHEAD = timedelta(days=60)


@dataclass(slots=True)
class PriceReport(ImportReport):
    """The outcome of a price file: its rows, and those held for a person."""

    held: int = 0

    def told(self) -> str:
        return f"{ImportReport.told(self)}, {self.held} held for a person"

    def as_json(self) -> dict[str, Any]:
        passed_rows = [row._asdict() for row in sorted(self.passed_rows)]
        return {**ImportReport.as_json(self), "held": self.held, "passed_rows": passed_rows}


MOST_OF_RETAIL = 1.1
"""Highest net price, as a multiple of the retail price beside it."""


class DoubtfulPrice(NamedTuple):
    """A held price, with the reason."""

    kind: PriceKind
    station_id: str | None
    place: RowPlace
    candidates: Sequence[str]
    price: float
    effective_at: datetime
    reason: str
    unit: UnitOfPrice = US_DOLLARS_A_GALLON


class StoredQuote(NamedTuple):
    station_id: str
    net_price: float
    effective_at: datetime


_QUOTES = Statement(
    StoredQuote,
    "SELECT DISTINCT ON (station_id) station_id, net_price, effective_at FROM quotes"
    " WHERE company_id = %s AND effective_at <= %s ORDER BY station_id, effective_at DESC",
)


class _Decision(NamedTuple):
    kind: str
    station_id: str | None
    code_set: str
    code: str
    price: float
    effective_at: datetime
    status: str


_DECISIONS = Statement(
    _Decision,
    "SELECT kind, station_id, code_set, code, price, effective_at, status FROM held_prices WHERE company_id = %s",
)


_DecisionKey = tuple[str, str | None, str, str, float, datetime]


def quotes_now(connection: Connection, company_id: UUID, *, now: datetime) -> dict[str, StoredQuote]:
    """The company's quotes that hold, by station."""
    return {quote.station_id: quote for quote in _QUOTES.all(connection, (company_id, now))}


def decisions_of(connection: Connection, company_id: UUID) -> dict[_DecisionKey, str]:
    """The status of each price that was held."""
    return {decision[:-1]: decision.status for decision in _DECISIONS.all(connection, (company_id,))}


@dataclass(slots=True)
class PriceImport:
    """One file on its way into the tables."""

    connection: Connection
    company_id: UUID
    profile: FileProfile
    takes_retail: bool
    limits: OutlierLimits
    now: datetime
    priced_at: datetime
    report: PriceReport
    finder: StationFinder
    quotes: dict[str, StoredQuote]
    decided: dict[_DecisionKey, str]
    added: dict[str, CodedStation] = field(default_factory=dict)
    prices: FilePrices = field(default_factory=FilePrices)
    taken: Places = field(default_factory=lambda: NO_PLACES)
    """The places of the prices that count, once they are judged."""
    doubts: list[DoubtfulPrice] = field(default_factory=list)


def read_price_row(one: PriceImport, record: FileRecord, columns: Mapping[str, str]) -> None:
    values, report = record.values, one.report
    place = _place(values)
    product_doubt = ""
    if "product" in columns or values.get("product"):
        is_diesel, product_doubt = judged_product(values.get("product") or "")
        if not is_diesel:
            return report.pass_row(record.line, product_doubt)
    effective_at = values.get("effective_at") or one.priced_at
    if fault := _time_fault(effective_at, one.now):
        return report.reject(record.line, fault)
    try:
        written = written_prices(values, columns)
    except ValueError as error:
        return report.reject(record.line, str(error))
    kinds = ("net", "retail") if one.takes_retail else ("net",)
    if not any(price.kind in kinds for price in written):
        if _is_remark(values):
            return report.pass_row(record.line, "a remark between the rows")
        return report.reject(record.line, "it has no price")
    match, keys = one.finder.find(place)
    station = None if match.candidates else _station(one, record.line, place, match, keys)
    if station is None and not match.candidates:
        return None
    doubt = match.reason or product_doubt
    _take_prices(one, _Row(record.line, values, place, effective_at, station, match.candidates, doubt), written)
    return None


def is_rule(values: Mapping[str, Any]) -> bool:
    """True for the line of dashes under a heading."""
    told = [values[name] for name in RowPlace.__struct_fields__ if values.get(name) and name != "brand"]
    return bool(told) and all(isinstance(one, str) and not one.strip("-=_*. ") for one in told)


def _is_remark(values: Mapping[str, Any]) -> bool:
    """True for a row without a price and without a station's name: `Total`, `Printed on 11/26/2026`, or a line of
    dashes."""
    told = [values[name] for name in RowPlace.__struct_fields__ if values.get(name) and name != "brand"]
    if len(told) != 1 or not isinstance(told[0], str):
        return is_rule(values)
    return " " in told[0] or not any(letter.isdigit() for letter in told[0])


class _Row(NamedTuple):
    """A row with prices to take."""

    line: int
    values: Mapping[str, Any]
    place: RowPlace
    effective_at: datetime
    station: CodedStation | None
    candidates: Sequence[str]
    """The stations that may be meant, if `station` is None."""
    doubt: str


def _take_prices(one: PriceImport, row: _Row, written: Sequence[WrittenPrice]) -> None:
    """Takes the prices of a row, or notes the doubts about them. Retail prices that nobody wants stand beside the net
    price."""
    rates = one.limits.rates
    told = [(price.kind, told_price(price, row.values, row.station, rates)) for price in written]
    retail = next((price.price for kind, price in told if kind == "retail" and not price.doubt), None)
    sure: list[tuple[PriceKind, float]] = []
    for kind, price in told:
        if kind == "retail" and not one.takes_retail:
            continue
        doubt = row.doubt or price.doubt
        if doubt or row.station is None:
            station_id = row.station.station_id if row.station is not None else None
            one.doubts.append(
                DoubtfulPrice(
                    kind, station_id, row.place, row.candidates, price.price, row.effective_at, doubt, price.unit
                )
            )
        else:
            sure.append((kind, price.price))
    if sure and row.station is not None:
        net = sure[0][1] if sure[0][0] == "net" else None
        swapped = net is not None and retail is not None and net > MOST_OF_RETAIL * retail
        product = row.values.get("product") or ""
        one.prices.add(row.line, row.station, row.place, row.effective_at, product, sure, retail, is_swapped=swapped)


def _time_fault(effective_at: datetime, now: datetime) -> str:
    if effective_at > now + MOST_AHEAD:
        return f"{effective_at:%Y-%m-%d} lies more than {MOST_AHEAD.days} days ahead"
    if effective_at < now - STALE_AFTER:
        return f"the price is of {effective_at:%Y-%m-%d}: prices count for {STALE_AFTER.days} days"
    return ""


_NAMES_OF_PLACE = RowPlace.__struct_fields__[:7]
_CITY_AND_STATE = re.compile(r"(?P<city>.*\S)\s*,\s*(?P<state>[A-Za-z]{2})\.?")


def _place(values: dict[str, Any]) -> RowPlace:
    latitude, longitude = values.get("latitude"), values.get("longitude")
    is_placed = (
        latitude is not None
        and longitude is not None
        and -90 <= latitude <= 90
        and -180 <= longitude <= 180
        and (latitude, longitude) != (0, 0)
    )
    code, card_code, name, brand, address, city, state = [values.get(field) or "" for field in _NAMES_OF_PLACE]
    if "," in city and (divided := _CITY_AND_STATE.fullmatch(city)) is not None:
        city, state = divided["city"], state or divided["state"]
    place = (latitude, longitude) if is_placed else (None, None)
    return RowPlace(code, card_code, name, brand, address, city, state, *place)


def _station(
    one: PriceImport, line: int, place: RowPlace, match: CodeMatch, keys: Sequence[tuple[str, str]]
) -> CodedStation | None:
    """The row's station, which may be added for it; None when the row is refused or passed over."""
    if match.station_id is not None:
        station = one.finder.stations.get(match.station_id)
        if station is None:
            one.report.pass_row(line, f"{match.station_id} is retired: import it by its id to bring it back")
        return station
    if place.latitude is None or place.longitude is None or not place.code:
        one.report.reject(line, f"no station is known as {words_of_place(place)}: import the station first")
        return None
    if not one.takes_retail:
        one.report.reject(line, f"no station is known as {words_of_place(place)}: ask an operator to import this file")
        return None
    station_id = one.finder.new_id(place)
    if one.finder.is_known(station_id):
        one.report.reject(line, f"{station_id} is the id of another station: import this one under another id")
        return None
    name = place.name or f"{place.brand or 'Station'} {place.code}"
    station = CodedStation(
        station_id,
        name,
        place.brand or None,
        place.address or None,
        place.city or None,
        plain_state(place.state) or None,
        place.latitude,
        place.longitude,
        None,
        None,
    )
    one.added[station_id] = one.finder.stations[station_id] = station
    one.finder.learn(keys, station_id)
    return station


def words_of_place(place: RowPlace) -> str:
    parts = (place.code or place.card_code, place.name or place.brand, place.address, place.city, place.state)
    return ", ".join(filter(None, parts)) or "nothing"
