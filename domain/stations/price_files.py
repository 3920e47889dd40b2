"""Price files of vendors: the meaning of each row, and its outcome.

A row gives the retail price of a station, which all companies share, and the net price of one company there, which
becomes a quote. Prices that are unlike others, or in money that has no rate, and rows whose station or product is not
certain, are held for a person. Rows of other products and of retired stations are passed over. A price for a later time
waits: a quote by its time, a retail price in `coming_prices`."""

import re
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID
from zoneinfo import ZoneInfo

from msgspec import Struct

from domain.database.connections import Connection, as_json
from domain.database.staging import stage
from domain.database.statements import Command, Scalar, Statement
from domain.files.csvfiles import ImportReport, Progress, UnreadableFile
from domain.files.profiles import FileProfile
from domain.files.reading import FileRecord, open_profiled
from domain.ids import new_id
from domain.stations.price_outliers import (
    OutlierLimits,
    PlacedPrice,
    UsualPrices,
    net_fault,
    usual_of_countries,
)
from domain.stations.price_profiles import PRICE_FIELDS, with_usual_columns
from domain.stations.price_sets import begin_price_set, lock_prices, newest_price_set
from domain.stations.price_units import US_DOLLARS_A_GALLON, Country, UnitOfPrice, country_of
from domain.stations.prices import STALE_AFTER, fresh_retail
from domain.stations.state_names import plain_state
from domain.stations.station_codes import CodedStation, CodeMatch, RowPlace, StationFinder, code_of_row
from domain.stations.written_prices import (
    PriceKind,
    WrittenPrice,
    diesel_rank,
    judged_product,
    told_price,
    written_prices,
)

MOST_AHEAD = timedelta(days=60)
MOST_ROWS = 100_000
MOST_OF_RETAIL = 1.1
"""Highest net price, as a multiple of the retail price beside it."""
MOST_HELD = 1_000
"""Most held prices of one file. More are too many for a person; the file was misread."""


@dataclass(slots=True)
class PriceReport(ImportReport):
    """The outcome of a price file: its rows, and those held for a person."""

    held: int = 0

    def told(self) -> str:
        return f"{ImportReport.told(self)}, {self.held} held for a person"

    def as_json(self) -> dict[str, Any]:
        passed_rows = [row._asdict() for row in sorted(self.passed_rows)]
        return {**ImportReport.as_json(self), "held": self.held, "passed_rows": passed_rows}


class _Price(Struct, frozen=True, gc=False):
    """One price of a row whose station is known, in US dollars a gallon. A file has so many that the collector of
    garbage, which looks through them again and again, must not know them."""

    kind: PriceKind
    line: int
    station: CodedStation
    place: RowPlace
    price: float
    effective_at: datetime
    product: str


class _Doubt(NamedTuple):
    """A held price, with the reason."""

    kind: PriceKind
    station_id: str | None
    place: RowPlace
    candidates: Sequence[str]
    price: float
    effective_at: datetime
    reason: str
    unit: UnitOfPrice = US_DOLLARS_A_GALLON


class _Quote(NamedTuple):
    station_id: str
    net_price: float
    effective_at: datetime


_QUOTES = Statement(
    _Quote,
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


@dataclass(slots=True)
class _Import:
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
    quotes: dict[str, _Quote]
    decided: dict[tuple[str, str | None, str, str, float, datetime], str]
    added: dict[str, CodedStation] = field(default_factory=dict)
    prices: list[_Price] = field(default_factory=list)
    doubts: list[_Doubt] = field(default_factory=list)
    retail_of_line: dict[int, float] = field(default_factory=dict)
    """Retail prices by line, stored or not."""


def store_price_file(
    connection: Connection,
    company_id: UUID,
    path: Path,
    profile: FileProfile,
    zone: ZoneInfo,
    *,
    takes_retail: bool,
    limits: OutlierLimits,
    now: datetime,
    priced_at: datetime | None = None,
    progress: Progress = lambda _: None,
) -> PriceReport:
    """Store the prices of a file, in the caller's transaction. `zone` is the company's. With `takes_retail` the retail
    prices of stations change, too, and unknown stations are added. `priced_at` is the time of rows without one, by
    default now. Raises UnreadableFile if the file is refused as a whole."""
    report = PriceReport()
    profile = with_usual_columns(profile)
    with open_profiled(
        path, profile, PRICE_FIELDS, zone, report, progress=progress, passes_over=_is_rule, tell=report.pass_row
    ) as file:
        if not takes_retail and "net_price" not in file.fields:
            raise UnreadableFile("the file has retail prices only, which all companies share: an operator imports it")
        records = list(islice(file.records, MOST_ROWS + 1))
    if len(records) > MOST_ROWS:
        raise UnreadableFile(f"the file has more than {MOST_ROWS:,} rows: no chain has so many stations")

    def judged() -> _Import:
        one = _Import(
            connection,
            company_id,
            profile,
            takes_retail,
            limits,
            now,
            priced_at or now,
            deepcopy(report),
            StationFinder(connection, company_id, profile.code_set),
            {quote.station_id: quote for quote in _QUOTES.all(connection, (company_id, now))},
            {decision[:-1]: decision.status for decision in _DECISIONS.all(connection, (company_id,))},
        )
        for record in records:
            _read_row(one, record, file.fields)
        _judge(one)
        return one

    # Rows are judged while others change prices; if that happened, they are judged again while others wait.
    seen = newest_price_set(connection, company_id)
    one = judged()
    lock_prices(connection, None if takes_retail else company_id)
    if newest_price_set(connection, company_id) != seen:
        one = judged()
    if takes_retail:
        begin_price_set(connection, "stations", None, now=now)
    begin_price_set(connection, "deals", company_id, now=now)
    _store(one)
    return one.report


def _read_row(one: _Import, record: FileRecord, columns: Mapping[str, str]) -> None:
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
    match = one.finder.find(place)
    station = None if match.candidates else _station(one, record.line, place, match)
    if station is None and not match.candidates:
        return None
    row = _Row(record, place, effective_at, station, match.candidates, match.reason or product_doubt)
    for price in written:
        _take_price(one, row, price)
    return None


def _is_rule(values: Mapping[str, Any]) -> bool:
    """True for the line of dashes under a heading."""
    told = [values[name] for name in RowPlace.__struct_fields__ if values.get(name) and name != "brand"]
    return bool(told) and all(isinstance(one, str) and not one.strip("-=_*. ") for one in told)


def _is_remark(values: Mapping[str, Any]) -> bool:
    """True for a row without a price and without a station's name: `Total`, `Printed on 11/26/2026`, or a line of
    dashes."""
    told = [values[name] for name in RowPlace.__struct_fields__ if values.get(name) and name != "brand"]
    if len(told) != 1 or not isinstance(told[0], str):
        return _is_rule(values)
    return " " in told[0] or not any(letter.isdigit() for letter in told[0])


class _Row(NamedTuple):
    """A row with prices to take."""

    record: FileRecord
    place: RowPlace
    effective_at: datetime
    station: CodedStation | None
    candidates: Sequence[str]
    """The stations that may be meant, if `station` is None."""
    doubt: str


def _take_price(one: _Import, row: _Row, written: WrittenPrice) -> None:
    line, values, station = row.record.line, row.record.values, row.station
    told = told_price(written, values, station, one.limits.rates)
    if written.kind == "retail":
        if not told.doubt:
            one.retail_of_line[line] = told.price
        if not one.takes_retail:
            return
    doubt = row.doubt or told.doubt
    if station is not None and not doubt:
        product = values.get("product") or ""
        one.prices.append(_Price(written.kind, line, station, row.place, told.price, row.effective_at, product))
        return
    station_id = station.station_id if station is not None else None
    one.doubts.append(
        _Doubt(written.kind, station_id, row.place, row.candidates, told.price, row.effective_at, doubt, told.unit)
    )


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
    code, card_code, name, brand, address, city, state = (values.get(field) or "" for field in _NAMES_OF_PLACE)
    if "," in city and (divided := _CITY_AND_STATE.fullmatch(city)) is not None:
        city, state = divided["city"], state or divided["state"]
    place = (latitude, longitude) if is_placed else (None, None)
    return RowPlace(code, card_code, name, brand, address, city, state, *place)


def _station(one: _Import, line: int, place: RowPlace, match: CodeMatch) -> CodedStation | None:
    """The row's station, which may be added for it; None when the row is refused or passed over."""
    if match.station_id is not None:
        station = one.finder.stations.get(match.station_id)
        if station is None:
            one.report.pass_row(line, f"{match.station_id} is retired: import it by its id to bring it back")
        return station
    if place.latitude is None or place.longitude is None or not place.code:
        one.report.reject(line, f"no station is known as {_named(place)}: import the station first")
        return None
    if not one.takes_retail:
        one.report.reject(line, f"no station is known as {_named(place)}: ask an operator to import this file")
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
    one.finder.learn(place, station_id)
    return station


def _named(place: RowPlace) -> str:
    parts = (place.code or place.card_code, place.name or place.brand, place.address, place.city, place.state)
    return ", ".join(filter(None, parts)) or "nothing"


# --- Judging -----------------------------------------------------------------------------------------------------


def _judge(one: _Import) -> None:
    """Moves doubtful prices to `doubts`, and leaves the others in `prices`, in the order of the file."""
    taken: list[_Price] = []
    of_countries = usual_of_countries(_known_prices(one))
    usual = {kind: UsualPrices(_usual(one, kind), of_countries) for kind in ("retail", "net")}
    outcomes: dict[int, str] = {}
    swapped = _lines_above_retail(one)
    for price in _without_repeats(one, outcomes):
        before, before_at = _before(one, price)
        if before_at is not None and price.effective_at < before_at:
            outcomes.setdefault(price.line, "unchanged")
            continue
        fresh = fresh_retail(before, before_at, now=one.now)
        reason = usual[price.kind].fault(_placed(price.station, price.price), fresh, one.limits)
        if not reason and price.kind == "net":
            reason = net_fault(price.price, _retail_beside(one, price), one.limits)
        if not reason and price.line in swapped:
            reason = "the net price of its row is far above the retail price: they may be swapped"
        decided = one.decided.get(_decision_key(one, price)) if reason else "accepted"
        if decided == "refused":
            outcomes.setdefault(price.line, "unchanged")
        elif decided != "accepted":
            outcomes[price.line] = "held"
            one.doubts.append(
                _Doubt(price.kind, price.station.station_id, price.place, (), price.price, price.effective_at, reason)
            )
        else:
            taken.append(price)
            outcome = "unchanged" if before == price.price else "created" if before is None else "updated"
            if outcomes.get(price.line) in (None, "unchanged"):
                outcomes[price.line] = outcome
    one.prices = taken
    if len(one.doubts) > MOST_HELD:
        raise UnreadableFile(
            f"{len(one.doubts):,} prices are unlike those before or beside them: check the columns and units of the "
            "profile. Nothing is imported"
        )
    for name in ("created", "updated", "unchanged"):
        setattr(one.report, name, sum(outcome == name for outcome in outcomes.values()))


def _without_repeats(one: _Import, outcomes: dict[int, str]) -> list[_Price]:
    """The prices in the order of the file, each station once. Among several kinds of diesel the usual one counts."""
    if len({price.station.station_id for price in one.prices}) == len({price.line for price in one.prices}):
        return one.prices  # nearly all files
    first: dict[_PriceKey, _Price] = {}
    repeats: dict[int, list[tuple[_Price, _Price]]] = {}
    for price in sorted(one.prices, key=lambda price: (diesel_rank(price.product), price.line)):
        counts = first.setdefault(_key(price), price)
        if counts.line != price.line:
            repeats.setdefault(price.line, []).append((price, counts))
    for line, pairs in repeats.items():
        outcomes[line] = "repeated"
        _tell_repeat(one.report, line, pairs)
    return [price for price in one.prices if first[_key(price)] is price]


_PriceKey = tuple[PriceKind, str, datetime]


def _key(price: _Price) -> _PriceKey:
    return price.kind, price.station.station_id, price.effective_at


def _tell_repeat(report: PriceReport, line: int, pairs: Sequence[tuple[_Price, _Price]]) -> None:
    """Report a row whose prices another row repeats and that therefore does not count."""
    price, counts = pairs[0]
    told = f"station {price.station.station_id} is already on line {counts.line}"
    if diesel_rank(price.product) > diesel_rank(counts.product):
        report.pass_row(line, f"{told}, with the price of {counts.product!r}")
    elif all(one.price == other.price for one, other in pairs):
        report.pass_row(line, f"{told}, with the same price")
    else:
        report.reject(line, told)


def _lines_above_retail(one: _Import) -> set[int]:
    """The lines whose net price is above their retail price. Contracts by cost are a few cents above it at most."""
    nets = (price for price in one.prices if price.kind == "net")
    return {net.line for net in nets if net.price > MOST_OF_RETAIL * one.retail_of_line.get(net.line, net.price)}


def _retail_beside(one: _Import, price: _Price) -> float | None:
    """The retail price beside a net price, or the fresh one of its station."""
    told = one.retail_of_line.get(price.line)
    return told or fresh_retail(price.station.retail_price, price.station.priced_at, now=one.now)


def _known_prices(one: _Import) -> Iterator[tuple[Country, float]]:
    for station in one.finder.stations.values():
        stored = fresh_retail(station.retail_price, station.priced_at, now=one.now)
        if stored is not None:
            yield country_of(station.state, latitude=station.latitude), stored


def _usual(one: _Import, kind: str) -> Iterator[PlacedPrice]:
    """The usual prices: those of the file, and stored ones of other stations."""
    in_file = set()
    for price in one.prices:
        if price.kind == kind:
            in_file.add(price.station.station_id)
            yield _placed(price.station, price.price)
    for station in one.finder.stations.values():
        if station.station_id in in_file:
            continue
        if kind == "retail":
            stored = fresh_retail(station.retail_price, station.priced_at, now=one.now)
        else:
            quote = one.quotes.get(station.station_id)
            stored = fresh_retail(quote.net_price, quote.effective_at, now=one.now) if quote is not None else None
        if stored is not None:
            yield _placed(station, stored)


def _placed(station: CodedStation, price: float) -> PlacedPrice:
    return PlacedPrice((station.state or "").upper(), station.latitude, station.longitude, price)


def _before(one: _Import, price: _Price) -> tuple[float | None, datetime | None]:
    """The stored price and its time. A stored time in the future is a mistake, and counts as none."""
    if price.kind == "net":
        quote = one.quotes.get(price.station.station_id)
        return (quote.net_price, quote.effective_at) if quote is not None else (None, None)
    stored_at = price.station.priced_at
    return price.station.retail_price, stored_at if stored_at is None or stored_at <= one.now else None


def _decision_key(one: _Import, price: _Price) -> tuple[str, str | None, str, str, float, datetime]:
    code_set, code = code_of_row(price.place, one.profile.code_set)
    return price.kind, price.station.station_id, code_set, code, price.price, price.effective_at


# --- Storing -----------------------------------------------------------------------------------------------------

_HOLD = Command(
    """
    INSERT INTO held_prices (id, company_id, kind, station_id, code_set, code, place, candidates, price, currency, unit,
                             effective_at, profile, reason, held_at)
    SELECT it.id, %(company_id)s, it.kind, it.station_id, it.code_set, it.code, it.place,
           ARRAY(SELECT jsonb_array_elements_text(it.candidates)), it.price, it.currency, it.unit, it.effective_at,
           %(profile)s, it.reason, %(now)s
    FROM jsonb_to_recordset(%(rows)s) AS it (id uuid, kind text, station_id text, code_set text, code text, place text,
                                             candidates jsonb, price float8, effective_at timestamptz, reason text,
                                             currency text, unit text)
    ON CONFLICT DO NOTHING
    """
)


def _store(one: _Import) -> None:
    _add_stations(one)
    one.finder.keep_learnt(one.connection, one.company_id)
    quotes = [price for price in one.prices if price.kind == "net"]
    retail = [price for price in one.prices if price.kind == "retail" and price.effective_at <= one.now]
    coming = [price for price in one.prices if price.kind == "retail" and price.effective_at > one.now]
    store_quotes(
        one.connection,
        one.company_id,
        one.profile.name,
        [(price.station.station_id, price.effective_at, price.price) for price in quotes],
    )
    store_retail_prices(one.connection, [(p.station.station_id, p.effective_at, p.price) for p in retail], now=one.now)
    store_coming_prices(one.connection, [(p.station.station_id, p.effective_at, p.price) for p in coming])
    _hold(one)


def _hold(one: _Import) -> None:
    waiting = []
    for doubt in one.doubts:
        code_set, code = code_of_row(doubt.place, one.profile.code_set)
        key = (doubt.kind, doubt.station_id, code_set, code, doubt.price, doubt.effective_at)
        if one.decided.get(key, "held") != "held":
            continue
        one.report.held += 1
        waiting.append(
            {
                "id": new_id(),
                "kind": doubt.kind,
                "station_id": doubt.station_id,
                "code_set": code_set,
                "code": code,
                "place": _named(doubt.place)[:400],
                "candidates": list(doubt.candidates),
                "price": doubt.price,
                "effective_at": doubt.effective_at,
                "reason": doubt.reason,
                "currency": doubt.unit.currency,
                "unit": doubt.unit.unit,
            }
        )
    if waiting:
        _HOLD.execute(
            one.connection,
            {
                "company_id": one.company_id,
                "profile": one.profile.name,
                "now": one.now,
                "rows": as_json(waiting),
            },
        )


def _add_stations(one: _Import) -> None:
    if not one.added:
        return
    columns = ("station_id", "name", "brand", "address", "city", "state", "latitude", "longitude")
    stage(one.connection, "stations", columns, (station[:8] for station in one.added.values()))
    one.connection.execute(
        "INSERT INTO stations (station_id, name, brand, address, city, state, latitude, longitude)"
        " SELECT station_id, name, brand, address, city, state, latitude, longitude FROM staged_stations"
        " ON CONFLICT (station_id) DO NOTHING"
    )


_StoredPrices = Sequence[tuple[str, datetime, float]]
"""Station, time, price."""


def store_quotes(connection: Connection, company_id: UUID, profile: str, rows: _StoredPrices) -> None:
    if not rows:
        return
    columns = ("company_id", "station_id", "effective_at", "net_price", "profile")
    stage(connection, "quotes", columns, ((company_id, *row, profile) for row in rows))
    connection.execute(
        "INSERT INTO quotes (company_id, station_id, effective_at, net_price, profile)"
        " SELECT company_id, station_id, effective_at, net_price, profile FROM staged_quotes"
        " ON CONFLICT (company_id, station_id, effective_at) DO UPDATE SET net_price = excluded.net_price,"
        " profile = excluded.profile WHERE quotes.net_price <> excluded.net_price"
    )


def store_retail_prices(connection: Connection, rows: _StoredPrices, *, now: datetime) -> None:
    """Store retail prices that hold already and are not older than the stored ones."""
    if not rows:
        return
    stage(connection, "stations", ("station_id", "priced_at", "retail_price"), rows)
    connection.execute(
        """
        UPDATE stations stored SET retail_price = newest.retail_price, priced_at = newest.priced_at
        FROM (SELECT DISTINCT ON (station_id) station_id, retail_price, priced_at FROM staged_stations
              ORDER BY station_id, priced_at DESC) AS newest
        WHERE stored.station_id = newest.station_id
          AND (stored.priced_at IS NULL OR stored.priced_at <= newest.priced_at OR stored.priced_at > %s)
        """,
        (now,),
    )


def store_coming_prices(connection: Connection, rows: _StoredPrices) -> None:
    if not rows:
        return
    stage(connection, "coming_prices", ("station_id", "effective_at", "retail_price"), rows)
    connection.execute(
        "INSERT INTO coming_prices (station_id, effective_at, retail_price)"
        " SELECT station_id, effective_at, retail_price FROM staged_coming_prices"
        " ON CONFLICT (station_id, effective_at) DO UPDATE SET retail_price = excluded.retail_price"
    )


_ANY_DUE = Scalar(str, "SELECT station_id FROM coming_prices WHERE effective_at <= %s LIMIT 1")
_APPLY_DUE = Command(
    """
    WITH due AS (DELETE FROM coming_prices WHERE effective_at <= %(now)s
                 RETURNING station_id, effective_at, retail_price),
    newest AS (SELECT DISTINCT ON (station_id) station_id, effective_at, retail_price FROM due
               ORDER BY station_id, effective_at DESC)
    UPDATE stations stored SET retail_price = newest.retail_price, priced_at = newest.effective_at
    FROM newest WHERE stored.station_id = newest.station_id
      AND (stored.priced_at IS NULL OR stored.priced_at <= newest.effective_at OR stored.priced_at > %(now)s)
    """
)


def apply_coming_prices(connection: Connection, *, now: datetime) -> int:
    """Store retail prices whose time has come. Returns the number of stations."""
    if _ANY_DUE.first(connection, (now,)) is None:
        return 0
    begin_price_set(connection, "stations", None, now=now)
    return _APPLY_DUE.execute(connection, {"now": now}).rowcount


_FORGET_QUOTES = Command(
    "DELETE FROM quotes WHERE (company_id, station_id, effective_at) IN ("
    " SELECT company_id, station_id, effective_at FROM quotes WHERE effective_at < %s LIMIT %s)"
)


def forget_quotes(connection: Connection, *, days: float, now: datetime, limit: int) -> int:
    """Deletes old quotes. Returns how many."""
    return _FORGET_QUOTES.execute(connection, (now - timedelta(days=days), limit)).rowcount
