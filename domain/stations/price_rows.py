"""The rows of a price file: the prices of each, their station, and the reasons why a row does not count."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cache
from typing import Any, NamedTuple
from uuid import UUID

from domain.contract.wrong_places import wrong_place
from domain.database.connections import Connection
from domain.database.statements import Statement
from domain.files.csvfiles import ImportReport
from domain.files.file_records import FilePortion
from domain.files.profiles import FileProfile, plain_name
from domain.stations.file_prices import FilePrices
from domain.stations.price_outliers import OutlierLimits
from domain.stations.price_units import US_DOLLARS_A_GALLON, ExchangeRates, UnitOfPrice, unit_in_heading
from domain.stations.prices import STALE_AFTER
from domain.stations.state_names import US_STATES, plain_state
from domain.stations.station_codes import RowPlace
from domain.stations.station_finding import CodedStation, CodeMatch, StationFinder
from domain.stations.written_prices import (
    MOST_WRITTEN,
    PriceKind,
    WrittenPrice,
    foreign_prices,
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
    prices: FilePrices
    added: dict[str, CodedStation] = field(default_factory=dict)
    doubts: list[DoubtfulPrice] = field(default_factory=list)


_PLACE_FIELDS = RowPlace.__struct_fields__
_STATE = _PLACE_FIELDS.index("state")


class _Found(NamedTuple):
    """The station of a row; or several that may be meant, and why a person must choose."""

    place: RowPlace
    station: CodedStation | None
    candidates: Sequence[str]
    reason: str


class PriceRows:
    """Reads the rows of one file. Nearly all are plain: a price of ordinary diesel in dollars a gallon. They are looked
    at by columns, and equal cells lead to one station without another search. Any other row is read by itself."""

    def __init__(self, one: PriceImport, columns: Mapping[str, str]) -> None:
        """`columns` are the names of the file's columns, by field."""
        self._one, self._columns = one, columns
        self._has_units = any(any(unit_in_heading(columns.get(name, ""))[:2]) for name in ("net_price", "retail_price"))

    def read(self, portion: FilePortion) -> None:
        moments = [moment or self._one.priced_at for moment in portion.column("effective_at")]
        cells_of = zip(*(portion.column(name) for name in _PLACE_FIELDS), strict=True)
        certain: dict[int, int] = {}  # the sites of plain rows by their numbers; they are added together
        for number, (is_plain, cells) in enumerate(zip(self._are_plain(portion, moments), cells_of, strict=True)):
            if is_plain and (site := self._one.finder.sites.get(cells)) is not None:
                certain[number] = site
                continue
            found = self._found(portion.lines[number], cells) if is_plain else None
            if found is not None and (site := self._plain_site(cells, found)) is not None:
                certain[number] = site
            elif found is not None or not is_plain:
                self._add(portion, moments, certain)
                certain.clear()
                self._read_alone(portion, number, moments[number], found)
        self._add(portion, moments, certain)

    def _add(self, portion: FilePortion, moments: Sequence[datetime], certain: Mapping[int, int]) -> None:
        columns = (portion.lines, moments, *(portion.column(name) for name in ("product", "net_price", "retail_price")))
        lines, at, products, nets, retails = ([column[number] for number in certain] for column in columns)
        named = [product or "" for product in products]
        self._one.prices.add_all(lines, list(certain.values()), at, named, nets, retails)

    def _read_alone(self, portion: FilePortion, number: int, moment: datetime, found: _Found | None) -> None:
        """Read a row that is not plain, or whose station was `found` but is not certain."""
        if found is not None:
            values = portion.values(number)
            row = _Row(portion.lines[number], values, moment, found, found.reason)
            _take_prices(self._one, row, written_prices(values, self._columns))
        elif not portion.leaves_out(number, self._one.report, is_rule):
            self._read_row(portion.lines[number], portion.values(number))

    def _are_plain(self, portion: FilePortion, moments: Sequence[datetime]) -> Sequence[bool]:
        """True for each row that says nothing but a place and prices of ordinary diesel in dollars a gallon."""
        has_money = any(any(portion.column(name)) for name in ("currency", "unit", "country"))
        if portion.faults or self._has_units or has_money:
            return [False] * len(portion.lines)
        products, takes_retail = portion.column("product"), self._one.takes_retail
        ordinary = {product for product in set(products) if self._doubt_of_product(product) == (True, "")}
        current = {moment for moment in set(moments) if not _time_fault(moment, self._one.now)}
        return [
            moment in current
            and product in ordinary
            and not _is_for_cars(store_type)
            and (net is None or 0 < net < MOST_WRITTEN)
            and (retail is None or 0 < retail < MOST_WRITTEN)
            and (net is not None or (takes_retail and retail is not None))
            for moment, product, store_type, net, retail in zip(
                moments,
                products,
                *map(portion.column, ("store_type", "net_price", "retail_price")),
                strict=True,
            )
        ]

    def _doubt_of_product(self, product: str | None) -> tuple[bool, str]:
        return judged_product(product or "") if product or "product" in self._columns else (True, "")

    def _found(self, line: int, cells: Sequence[Any]) -> _Found | None:
        """The station that a row means, which may be added for it; None if the row is refused or passed over."""
        place = _place(cells)
        match, codes = self._one.finder.find(place)
        if match.candidates:
            return _Found(place, None, match.candidates, match.reason)
        station = _station(self._one, line, place, match, codes)
        return _Found(place, station, (), match.reason) if station is not None else None

    def _plain_site(self, cells: Sequence[Any], found: _Found) -> int | None:
        """The station of a plain row, which is kept for equal cells; None if it is not certain, or if its prices may be
        in the money of another country."""
        one, station = self._one, found.station
        if station is None or (cells[_STATE] or station.state) not in US_STATES:
            return None
        return one.finder.note_site(cells, one.prices.site(station, found.place))

    def _read_row(self, line: int, values: dict[str, Any]) -> None:
        one, report = self._one, self._one.report
        is_diesel, product_doubt = self._doubt_of_product(values.get("product"))
        if not is_diesel:
            return report.pass_row(line, product_doubt)
        if _is_for_cars(values.get("store_type")):
            return report.pass_row(line, f"a {values['store_type'][:40]} is no truck stop")
        effective_at = values.get("effective_at") or one.priced_at
        if fault := _time_fault(effective_at, one.now):
            return report.reject(line, fault)
        try:
            written = written_prices(values, self._columns)
        except ValueError as error:
            return report.reject(line, str(error))
        kinds = ("net", "retail") if one.takes_retail else ("net",)
        if not any(price.kind in kinds for price in written):
            if _is_remark(values):
                return report.pass_row(line, "a remark between the rows")
            return report.reject(line, "it has no price")
        found = self._found(line, [values.get(name) for name in _PLACE_FIELDS])
        if found is not None:
            _take_prices(one, _Row(line, values, effective_at, found, found.reason or product_doubt), written)
        return None


class PriceLook:
    """Says what the import makes of prices, for a person who looks at a file. The stations are read if a row without a
    state comes."""

    def __init__(self, connection: Connection, company_id: UUID, profile: FileProfile, rates: ExchangeRates) -> None:
        self._finder = cache(lambda: StationFinder(connection, company_id, profile.code_set))
        self._rates = rates

    def foreign_prices(self, values: Mapping[str, Any], columns: Mapping[str, str]) -> dict[str, str]:
        """The prices of a row, by field, that are not in US dollars a gallon, in words. Raises ValueError, with the
        fault, if one cannot be read."""
        return foreign_prices(values, columns, None if values.get("state") else self._station(values), self._rates)

    def _station(self, values: Mapping[str, Any]) -> CodedStation | None:
        finder = self._finder()
        match, _ = finder.find(_place([values.get(name) for name in _PLACE_FIELDS]))
        return finder.stations.get(match.station_id or "")


def _is_for_cars(store_type: str | None) -> bool:
    """True for a chain's store without pumps for trucks, whose diesel is for cars: Love's calls it a Country Store."""
    return bool(store_type) and plain_name(store_type or "") == "countrystore"


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
    effective_at: datetime
    found: _Found
    doubt: str


def _take_prices(one: PriceImport, row: _Row, written: Sequence[WrittenPrice]) -> None:
    """Takes the prices of a row, or notes the doubts about them. Retail prices that nobody wants stand beside the net
    price."""
    rates, (place, station, candidates, _) = one.limits.rates, row.found
    told = [(price.kind, told_price(price, row.values, station, rates)) for price in written]
    retail = next((price.price for kind, price in told if kind == "retail" and not price.doubt), None)
    sure: dict[PriceKind, float] = {}
    for kind, price in told:
        if kind == "retail" and not one.takes_retail:
            continue
        doubt = row.doubt or price.doubt
        if doubt or station is None:
            station_id = station.station_id if station is not None else None
            one.doubts.append(
                DoubtfulPrice(kind, station_id, place, candidates, price.price, row.effective_at, doubt, price.unit)
            )
        else:
            sure[kind] = price.price
    if sure and station is not None:
        site, product = one.prices.site(station, place), row.values.get("product") or ""
        one.prices.add(row.line, site, row.effective_at, product, sure.get("net"), retail)


def _time_fault(effective_at: datetime, now: datetime) -> str:
    if effective_at > now + MOST_AHEAD:
        return f"{effective_at:%Y-%m-%d} lies more than {MOST_AHEAD.days} days ahead"
    if effective_at < now - STALE_AFTER:
        return f"the price is of {effective_at:%Y-%m-%d}: prices count for {STALE_AFTER.days} days"
    return ""


_CITY_AND_STATE = re.compile(r"(?P<city>.*\S)\s*,\s*(?P<state>[A-Za-z]{2})\.?")


def _place(cells: Sequence[Any]) -> RowPlace:
    """The place of a row by its cells, in the order of the fields of a place."""
    code, card_code, name, brand, address, city, state, latitude, longitude = cells
    is_placed = (
        latitude is not None
        and longitude is not None
        and -90 <= latitude <= 90
        and -180 <= longitude <= 180
        and wrong_place(latitude, longitude) is None
    )
    if not is_placed:
        latitude = longitude = None
    if city and "," in city and (divided := _CITY_AND_STATE.fullmatch(city)) is not None:
        city, state = divided["city"], state or divided["state"]
    texts = (code or "", card_code or "", name or "", brand or "", address or "", city or "", state or "")
    return RowPlace(*texts, latitude, longitude)


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
    one.added[station_id] = station
    one.finder.add(station, keys)
    return station


def words_of_place(place: RowPlace) -> str:
    parts = (place.code or place.card_code, place.name or place.brand, place.address, place.city, place.state)
    return ", ".join(filter(None, parts)) or "nothing"
