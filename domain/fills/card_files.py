"""Reads the rows of a card's file as fills. A row with a fault costs only itself; its line and the reason are reported.

A row is about one product, or about tractor and reefer fuel at once. Each becomes a fill with a key, by which the
transaction is recognized when it comes again."""

import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from operator import attrgetter
from pathlib import Path
from typing import Any, Literal, NamedTuple
from uuid import UUID
from zoneinfo import ZoneInfo

from msgspec import Struct
from msgspec.structs import replace

from domain.files.csvfiles import ImportReport, Progress, UnreadableFile
from domain.files.file_records import FileRecord
from domain.files.headings import is_universal
from domain.files.products import Fuel, fuel_of_product
from domain.files.profiles import FileProfile
from domain.files.reading import ProfiledFile, open_profiled
from domain.fills.cells import RowFault, cell_line, is_rounded
from domain.fills.fields import FILL_FIELDS, GALLONS, LITRES
from domain.fills.lines_between import is_between_purchases
from domain.fills.local_times import CANADA
from domain.fills.paid import CANADIAN_TAXES, ToldFigures, paid_for, told_in_row
from domain.fills.profiles import CARDS
from domain.fills.receipt_times import receipt_time
from domain.fills.repeated import numbers_of
from domain.fills.row_places import StateOf, place_of
from domain.fills.row_status import RowStatus, status_of
from domain.fills.wide_rows import WideFill, is_wide, wide_fills
from domain.ids import new_id
from domain.stations.price_units import unit_in_heading
from domain.text import without_card_numbers

LITRES_PER_GALLON = Decimal("3.785411784")
"""A gallon is 231 cubic inches (NIST Handbook 44, appendix C)."""

MOST_GALLONS, MOST_DOLLARS = 10_000, 100_000

AMOUNT_DOUBT, QUANTITY_DOUBT = "amount", "quantity"
"""Doubts about a row whose price, quantity, discount and amount contradict each other, and about one whose gallons
differ from the sum of its fuels."""
TWICE, CORRECTED = "twice", "corrected"
"""Doubts about a row that may be a purchase of another file or row, and about figures that the card corrected before it
took the correction back."""
DOUBTS = frozenset((AMOUNT_DOUBT, QUANTITY_DOUBT, TWICE, CORRECTED))
"""Doubts about a file's figures. Only a person settles them; matching again does not."""

Volume = Literal["", "gallons", "litres"]
"""The unit of all quantities of a file; empty if each row tells, or else gallons in the United States."""


@dataclass(eq=False, slots=True)
class FileReading:
    """One reading of a file from its beginning to its end. Two rows of one file are never the same purchase."""

    id: UUID = field(default_factory=new_id)
    known: set[UUID] = field(default_factory=set)
    """Stored fills that its rows have turned out to be so far."""
    asked: dict[UUID, UUID] = field(default_factory=dict)
    """Fills of this file that wait because they may equal another one, by that one's id."""


class FileFill(Struct, frozen=True):
    """A purchase as it stands in a file. `local_time` has a zone, that of most of the state, only if the file says
    one."""

    line: int
    key: str
    transaction_number: str | None
    card_last_four: str | None
    local_time: datetime
    has_time: bool
    unit_number: str | None
    location_name: str | None
    station_code: str | None
    city: str | None
    state: str
    item: str | None
    fuel: Fuel
    gallons: float
    paid_cents: int
    currency: str
    is_currency_assumed: bool = False
    """True if neither the file nor a person says the currency."""
    invoice_number: str | None = None
    """The number on the truck stop's receipt; `transaction_number` may equal it."""
    driver_name: str | None = None
    """The name beside the card, only if the row names no unit: the card may be that person's."""
    reading: FileReading | None = None
    repeats: str | None = None
    """The key of the row of this file that equals this one in everything, including the number of the transaction."""
    doubts: tuple[str, ...] = ()
    """Why a person must check the row before anything is matched."""


@dataclass(slots=True)
class FillFile:
    """An open file. `fills` may be read once."""

    table: ProfiledFile
    fills: Iterator[FileFill]


@contextmanager
def open_fill_file(
    path: Path,
    profile: FileProfile,
    report: ImportReport,
    *,
    now: datetime,
    volume: Volume = "",
    currency: str = "",
    state_of: StateOf = lambda name, city: None,
    progress: Progress = lambda _: None,
) -> Iterator[FillFile]:
    """The rows of a file as fills; rows with a fault go into the report. `volume` and `currency` are what a person says
    of rows that do not say it. `state_of` is asked about rows without a state. Raises UnreadableFile, also while the
    rows are read, if the file is refused as a whole."""
    report.hides = without_card_numbers
    if currency.upper() not in _CURRENCIES:
        raise UnreadableFile(f"purchases are in USD or CAD, not in {currency}")
    with open_profiled(
        path,
        profile,
        FILL_FIELDS,
        ZoneInfo("UTC"),
        report,
        progress=progress,
        passes_over=is_between_purchases,
        tell=report.reject,
    ) as table:
        unit, records = volume or _volume_of_column(table.fields.get("quantity", "")), _as_named(table)
        priced = _priced_volume(table.fields)
        if not volume and unit and priced and priced != unit and "volume_unit" not in table.fields:
            unit, records = priced, (_in_volume(one, priced) for one in records)
        latest = now.astimezone(UTC).replace(tzinfo=None) + timedelta(days=2)
        yield FillFile(table, _fills(records, profile.name, _Told(unit, currency.upper(), state_of, latest), report))


class _Told(NamedTuple):
    """The facts that hold for all rows of a file."""

    volume: Volume
    currency: str
    """The currency of rows that do not say it."""
    state_of: StateOf
    latest: datetime
    """Local time after which no purchase can be."""


def _priced_volume(columns: Mapping[str, str]) -> Volume:
    """The unit of the prices by the names of their columns: `Price per Gallon`."""
    found = {_volume_of_column(columns[name]) for name in ("price", "retail_price") if name in columns}
    return found.pop() if len(found) == 1 else ""


def _in_volume(record: FileRecord, volume: Volume) -> FileRecord:
    """The row with its quantity converted to `volume`, the unit of its prices, from the other unit."""
    quantity, litres = record.values.get("quantity"), float(LITRES_PER_GALLON)
    if not quantity:
        return record
    told = round(quantity / litres if volume == "gallons" else quantity * litres, 4)
    return FileRecord(record.line, {**record.values, "quantity": told})


_MONEY = ("amount", "gross_amount", "price", "retail_price")


def _as_named(table: ProfiledFile) -> Iterator[FileRecord]:
    """The rows, with the currency and the zone that the names of their columns say: `Amount (CAD)`, `Time (UTC)`."""
    said = (unit_in_heading(table.fields.get(name, ""))[0] for name in _MONEY)
    currency = next(filter(None, said), None)
    is_utc = any(is_universal(table.fields.get(name, "")) for name in ("date", "time"))
    if currency is None and not is_utc:
        return table.records
    return (FileRecord(one.line, _told(one.values, currency, is_utc)) for one in table.records)


def _told(given: dict[str, Any], currency: str | None, is_utc: bool) -> dict[str, Any]:
    return given | {"currency": given.get("currency") or currency, "is_utc": is_utc}


def _fills(records: Iterator[FileRecord], card: str, told: _Told, report: ImportReport) -> Iterator[FileFill]:
    keys = _RowKeys(card)
    reading, is_below_purchase = FileReading(), False
    for record in map(_without_its_card, records):
        if is_between_purchases(record.values):
            is_below_purchase = is_below_purchase and _is_further_line(record.values)
            if is_below_purchase and _one_fuel(record.values, card):
                report.reject(record.line, _FURTHER_LINE)
            else:
                report.pass_over()
            continue
        is_below_purchase = True
        try:
            status = status_of(record.values)
            bought = status is not RowStatus.NOTHING_BOUGHT
            fills = _purchases(record.line, record.values, told, card) if bought else []
            if status is RowStatus.TAKES_BACK:
                fills = _taken_back(fills, record.values)
        except RowFault as fault:
            report.reject(record.line, str(fault))
            continue
        if not fills:
            report.pass_over()
        for fill in fills:
            key, repeats = keys.take(fill)
            yield replace(fill, key=key, repeats=repeats, reading=reading)


def _without_its_card(record: FileRecord) -> FileRecord:
    """The row without its card's number in other cells, such as that of the driver. A cell of nothing else is empty."""
    card = cell_line(record.values.get("card"))
    if len(card) < _FEWEST_DIGITS or not card.isdecimal():
        return record
    others = {name: cell for name, cell in record.values.items() if name != "card" and isinstance(cell, str)}
    shown = {name: cell.replace(card, f"*{card[-4:]}") for name, cell in others.items() if card in cell}
    emptied = {name: None for name in shown if others[name].strip() == card}
    return FileRecord(record.line, {**record.values, **shown, **emptied}) if shown else record


_FEWEST_DIGITS = 12
"""Fewest digits of a whole card number; shorter ones are its end, or a card's name."""

_FURTHER_LINE = "it names no day, truck or place, as a further line of the purchase above: fill them in from there"


def _is_further_line(given: Mapping[str, Any]) -> bool:
    """True for a line with nothing but a product, its quantity and its price. Below a purchase, reports that are
    printed for people write the further products of one invoice so."""
    if any(cell_line(given.get(name)) for name in ("date", "card", "transaction", "unit", "location", "city", "state")):
        return False
    return all(
        any(map(given.get, names)) for names in (("item", "item_name"), ("quantity",), ("price", "retail_price"))
    )


def _taken_back(fills: list[FileFill], given: Mapping[str, Any]) -> list[FileFill]:
    """The purchase of an earlier row that a canceled transaction takes back. Raises RowFault if the row cannot be
    read."""
    if not fills and "tractor_quantity" in given:
        number = _number_text(given.get("transaction")) or "without a number"
        raise RowFault(f"it cancels transaction {number} and tells no gallons: say by hand that it is no purchase")
    return [replace(one, gallons=-abs(one.gallons), paid_cents=-abs(one.paid_cents)) for one in fills]


def _purchases(line: int, given: Mapping[str, Any], told: _Told, card: str) -> list[FileFill]:
    """The fuels in the row; none if it is about something else: oil, a scale, cash, a tax."""
    fuels = wide_fills(given) if is_wide(given) else _one_fuel(given, card)
    if not fuels:
        return []
    common, litres = _common(line, given, told)
    return [_fill(common, one, litres) for one in fuels]


def _one_fuel(given: Mapping[str, Any], card: str) -> list[WideFill]:
    fuel, item = _product(given.get("item"), given.get("item_name") or _fuel_in_kind(given), card)
    told = told_in_row(given)
    if fuel is Fuel.TRACTOR and _is_for_reefer(cell_line(given.get("tank"))):
        fuel = Fuel.REEFER
    return [] if fuel is None or _is_nothing(given, told) else [WideFill(fuel, item, told)]


def _fuel_in_kind(given: Mapping[str, Any]) -> str | None:
    """The product in a column such as `Type`, which has the kind of the transaction in other files: a fuel, or in a row
    without a quantity something that is none."""
    kind = None if given.get("item") else given.get("kind")
    fuel = fuel_of_product(None, cell_line(kind)) if kind else Fuel.UNKNOWN
    return kind if fuel is not Fuel.UNKNOWN and (fuel is not None or not given.get("quantity")) else None


def _is_for_reefer(tank: str) -> bool:
    """True if the row says that its diesel went into the trailer's unit."""
    return tank.upper() in ("REEFER", "R", "TRAILER", "Y", "YES", "TRUE", "1")


@lru_cache(maxsize=1_000)  # a file has the same few products in all its rows
def _product(item: str | None, item_name: str | None, card: str) -> tuple[Fuel | None, str]:
    """The fuel and its name, first by the card's own codes. None if it is no fuel."""
    code, name = cell_line(item), cell_line(item_name)
    products, own = CARDS[card].products if card in CARDS else {}, code.upper().lstrip("0")
    fuel = products[own] if own in products else fuel_of_product(code, name)
    return fuel, code if any(letter.isalpha() for letter in code) else name or code


def _is_nothing(given: Mapping[str, Any], told: ToldFigures) -> bool:
    """True for a row of zeros: a pump was authorized and sold nothing."""
    return given.get("quantity") == 0 and not told.net_amount and not told.gross_amount


def _fill(common: FileFill, one: WideFill, litres: bool) -> FileFill:
    gallons, cents, is_doubtful = _measured(one.told, litres)
    doubts = ((QUANTITY_DOUBT,) if one.is_quantity_doubtful else ()) + (
        (AMOUNT_DOUBT,) if is_doubtful or one.is_amount_doubtful else ()
    )
    return replace(common, item=one.item or None, fuel=one.fuel, gallons=gallons, paid_cents=cents, doubts=doubts)


def _common(line: int, given: Mapping[str, Any], told: _Told) -> tuple[FileFill, bool]:
    """The purchase without its fuel, and whether its quantity is in litres."""
    place = place_of(given, told.state_of)
    local, has_time = receipt_time(given.get("date"), given.get("time"), place.state, is_utc=given.get("is_utc", False))
    if local.replace(tzinfo=None) > told.latest:
        raise RowFault(f"{local:%Y-%m-%d} lies in the future")
    unit = _unit_number(given.get("unit"))
    is_taxed_in_canada = place.state in CANADA and any(map(given.get, CANADIAN_TAXES))
    cell, _, measure = cell_line(given.get("currency")).upper().partition("/")  # EFS writes USD/Gallons
    currency = cell.strip() or told.currency or ("CAD" if is_taxed_in_canada else "")
    litres = _is_litres(cell_line(given.get("volume_unit")).upper() or measure.strip(), told.volume, place.state)
    common = FileFill(
        line=line,
        key="",
        transaction_number=_number_text(given.get("transaction" if "transaction" in given else "invoice")),
        card_last_four=_last_four(given.get("card")),
        local_time=local,
        has_time=has_time,
        unit_number=unit,
        location_name=place.name,
        station_code=cell_line(given.get("code")) or None,
        city=place.city,
        state=place.state,
        item=None,
        fuel=Fuel.UNKNOWN,
        gallons=0.0,
        paid_cents=0,
        currency=_currency(currency),
        is_currency_assumed=not currency,
        invoice_number=_number_text(given.get("invoice")),
        driver_name=None if unit else cell_line(given.get("driver")) or None,
    )
    return common, litres


def _measured(told: ToldFigures, litres: bool) -> tuple[float, int, bool]:
    """The gallons, the cents paid, and whether the row contradicts itself on them."""
    bought = told.quantity
    if not bought:
        raise RowFault("the quantity is missing or zero")
    found = paid_for(told)
    if found is None:
        raise RowFault("the amount is missing, and so is the price")
    paid = found.amount
    if paid and (paid < 0) != (bought < 0):
        raise RowFault(f"{bought:f} bought for {paid:.2f}: one of them is negative; a reversal has both negative")
    gallons = bought / LITRES_PER_GALLON if litres else bought
    if abs(gallons) > MOST_GALLONS or abs(paid) > MOST_DOLLARS:
        raise RowFault(f"{gallons:.1f} gallons for {paid:.2f} is more than one purchase can be")
    cents = round(paid * 100)  # half to even
    rounded = float(round(gallons, 3))
    if not rounded:
        raise RowFault("the quantity is less than a thousandth of a gallon")
    return rounded, cents, found.is_doubtful


def _is_litres(unit: str, volume: Volume, state: str) -> bool:
    if unit:
        if LITRES.fullmatch(unit):
            return True
        if GALLONS.fullmatch(unit):
            return False
        raise RowFault(f"the unit of the quantity is {unit!r}: G and L are known")
    if not volume and state in CANADA:
        raise RowFault("a purchase in Canada, and the file does not say whether gallons or litres: say it for the file")
    return volume == "litres"


def _volume_of_column(name: str) -> Volume:
    """The unit in the name of the quantity's column, such as `Litres purchased`."""
    words = re.findall(r"[A-Za-z]+", name)
    if any(LITRES.fullmatch(word) for word in words):
        return "litres"
    return "gallons" if any(GALLONS.fullmatch(word) for word in words) else ""


class _RowKeys:
    """Gives each row of a file its key. A row that equals an earlier one in everything, with a number of its
    transaction, repeats that one: an export that was pasted twice. If a reversal stands between them, the fuel was
    bought again."""

    def __init__(self, profile: str) -> None:
        self._profile = profile
        self._seen: dict[str, int] = {}
        self._firsts: dict[int, str] = {}
        self._taken_back: Counter[tuple[str, int]] = Counter()

    def take(self, fill: FileFill) -> tuple[str, str | None]:
        """The key of the row, and of the row that it repeats."""
        identity = _identity(self._profile, fill)
        count = self._seen[identity] = self._seen.get(identity, 0) + 1
        key = hashlib.sha256(f"{identity}|{count}".encode()).hexdigest()[:40]
        if fill.gallons < 0:
            self._taken_back[_taken_figures(fill)] += 1
            return key, None
        first = self._firsts.setdefault(hash((identity, *_BESIDE_IDENTITY(fill))), key)
        if first == key or not numbers_of(fill.transaction_number, fill.invoice_number):
            return key, None
        if self._taken_back[_taken_figures(fill)] > 0:
            self._taken_back[_taken_figures(fill)] -= 1
            return key, None
        return key, first


_BESIDE_IDENTITY = attrgetter(
    *("local_time", "has_time", "unit_number", "fuel", "gallons", "paid_cents", "currency", "invoice_number"),
    *("driver_name", "doubts"),
)
"""The figures of a row outside of its key."""


def _taken_figures(fill: FileFill) -> tuple[str, int]:
    """The figures that a reversal of the transaction takes back, whatever its date."""
    return fill.transaction_number or fill.invoice_number or "", abs(fill.paid_cents)


def _identity(profile: str, fill: FileFill) -> str:
    """A text that is the same each time a file has this transaction. With a transaction number, card, day, item and
    place complete it: a corrected row keeps its text. Without one, time, unit, gallons and dollars count, too."""
    text = (
        f"{profile}|{fill.transaction_number or ''}|{fill.card_last_four or ''}|{fill.local_time.date()}"
        f"|{fill.item or ''}|{fill.gallons < 0}"
        f"|{fill.station_code or ''}|{fill.location_name or ''}|{fill.city or ''}|{fill.state}"
    )
    if fill.transaction_number is None:
        text += f"|{fill.local_time.time()}|{fill.unit_number or ''}|{fill.gallons}|{fill.paid_cents}"
    return text.upper()


# --- Cells ------------------------------------------------------------------------------------------------------


def _number_text(cell: str | None) -> str | None:
    """A transaction number; one of zeros is none, nor is one that a spreadsheet has rounded: many have the same."""
    text = cell_line(cell)
    return text if text.strip("0") and not is_rounded(text) else None


def _unit_number(cell: str | None) -> str | None:
    """The unit number. On drivers' cards the cell is empty, zeros or a dash."""
    text = cell_line(cell)
    return text if text.strip("0-. ") and text.upper() not in ("N/A", "NA", "NONE", "UNKNOWN") else None


def _last_four(cell: str | None) -> str | None:
    """The last four digits of a card's number, and nothing else of it."""
    text = cell_line(cell)
    if is_rounded(text):
        return None  # a spreadsheet has lost them
    if text.isdecimal() and text.isascii():
        return text[-4:]
    return re.sub(r"\D", "", text)[-4:] or None


_CURRENCIES = dict.fromkeys(("", "U", "US", "USD"), "USD") | dict.fromkeys(
    ("C", "CA", "CAN", "CAD", "CN", "CDN"), "CAD"
)


def _currency(text: str) -> str:
    if text not in _CURRENCIES:
        raise RowFault(f"the currency is {text!r}: USD and CAD are known")
    return _CURRENCIES[text]
