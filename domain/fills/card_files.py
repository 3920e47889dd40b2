"""Reads the rows of a card's file as fills. A row with a fault costs only itself; its line and the reason are told.

A row tells of one product, or of tractor and reefer fuel at once. Each becomes a fill with a key, by which the same
transaction is recognized when it comes again.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, time, timedelta
from decimal import ROUND_HALF_EVEN, Decimal
from pathlib import Path
from typing import Any, Literal, NamedTuple
from uuid import UUID
from zoneinfo import ZoneInfo

from domain.contract.csvfiles import ImportReport, Progress
from domain.errors import FuelrouteError
from domain.file_profiles.products import Fuel, fuel_of_item
from domain.file_profiles.profiles import FileProfile
from domain.file_profiles.reading import FileRecord, ProfiledFile, open_profiled
from domain.fills.local_times import CANADA, is_known_state
from domain.fills.profiles import FILL_FIELDS, WIDE
from domain.ids import new_id

LITRES_PER_GALLON = Decimal("3.785411784")
"""A gallon is 231 cubic inches (NIST Handbook 44, appendix C)."""

MOST_GALLONS, MOST_DOLLARS = 10_000, 100_000
LONGEST_TEXT = 120

Volume = Literal["", "gallons", "litres"]
"""The unit of all quantities of a file; empty: each row tells, else they are gallons in the United States."""


@dataclass(eq=False, slots=True)
class FileReading:
    """One reading of a file from its beginning to its end. Rows of one file are never the same purchase."""

    id: UUID = field(default_factory=new_id)
    known: set[UUID] = field(default_factory=set)
    """The stored fills that its rows were found to be, so far."""
    asked: dict[UUID, UUID] = field(default_factory=dict)
    """Fills of this file that wait because they may be another one, by the id of that one."""


class FileFill(NamedTuple):
    """A purchase as a file tells of it. `local_time` has no zone."""

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
    invoice_number: str | None = None
    """The number of the truck stop's receipt; `transaction_number` may be the same."""
    driver_name: str | None = None
    """Only where the row names no unit: the card may be that person's."""
    reading: FileReading | None = None


@dataclass(slots=True)
class FillFile:
    """An open file. `fills` may be read once."""

    table: ProfiledFile
    fills: Iterator[FileFill]


class _RowFault(FuelrouteError):
    """The row cannot be read; the text says why."""


@contextmanager
def open_fill_file(
    path: Path,
    profile: FileProfile,
    report: ImportReport,
    *,
    now: datetime,
    volume: Volume = "",
    progress: Progress = lambda _: None,
) -> Iterator[FillFile]:
    """The rows of a file as fills; those with a fault go into the report. Raises UnreadableFile, also while the rows
    are read."""
    with open_profiled(path, profile, FILL_FIELDS, ZoneInfo("UTC"), report, progress=progress) as table:
        yield FillFile(table, _fills(table.records, profile, volume, now, report))


def _fills(
    records: Iterator[FileRecord], profile: FileProfile, volume: Volume, now: datetime, report: ImportReport
) -> Iterator[FileFill]:
    seen: Counter[str] = Counter()
    reading = FileReading()
    for record in records:
        try:
            fills = _purchases(record.line, record.values, volume, now)
            if _is_canceled(record.values):
                fills = _taken_back(fills, record.values)
        except _RowFault as fault:
            report.reject(record.line, str(fault))
            continue
        for fill in fills:
            identity = _identity(profile.name, fill)
            seen[identity] += 1
            key = hashlib.sha256(f"{identity}|{seen[identity]}".encode()).hexdigest()[:40]
            yield fill._replace(key=key, reading=reading)


def _is_canceled(given: Mapping[str, Any]) -> bool:
    """True if the row says that its transaction does not count."""
    flag = _text(given.get("canceled")).upper()
    if flag in _CANCELED:
        return True
    if flag in _NOT_CANCELED:
        return False
    raise _RowFault(f"the cancel flag is {flag!r}: Y and N are known")


_CANCELED = frozenset(("Y", "YES", "TRUE", "T", "1", "C", "V", "X", "VOID", "VOIDED", "CANCELED", "CANCELLED"))
_NOT_CANCELED = frozenset(("", "N", "NO", "FALSE", "F", "0"))


def _taken_back(fills: list[FileFill], given: Mapping[str, Any]) -> list[FileFill]:
    """A canceled transaction takes back the purchase that an earlier row told of. Raises _RowFault."""
    if not fills and "tractor_quantity" in given:
        number = _number_text(given.get("transaction")) or "without a number"
        raise _RowFault(f"it cancels transaction {number} and tells no gallons: say by hand that it is no purchase")
    return [one._replace(gallons=-abs(one.gallons), paid_cents=-abs(one.paid_cents)) for one in fills]


def _purchases(line: int, given: Mapping[str, Any], volume: Volume, now: datetime) -> list[FileFill]:
    local, has_time = _moment(given.get("date"), given.get("time"))
    if local > now.astimezone(UTC).replace(tzinfo=None) + timedelta(days=2):
        raise _RowFault(f"{local:%Y-%m-%d} lies in the future")
    state = _text(given.get("state")).upper()
    if not is_known_state(state):
        raise _RowFault(f"{state!r} is no state or province" if state else "the state is missing: it tells the tax")
    unit = _unit_number(given.get("unit"))
    currency, _, measure = _text(given.get("currency")).upper().partition("/")  # EFS writes USD/Gallons
    litres = _is_litres(_text(given.get("volume_unit")).upper() or measure.strip(), volume, state)
    common = FileFill(
        line=line,
        key="",
        transaction_number=_number_text(given.get("transaction" if "transaction" in given else "invoice")),
        card_last_four=_last_four(given.get("card")),
        local_time=local,
        has_time=has_time,
        unit_number=unit,
        location_name=_text(given.get("location")) or None,
        station_code=_text(given.get("code")) or None,
        city=_text(given.get("city")) or None,
        state=state,
        item=_text(given.get("item")) or None,
        fuel=Fuel.UNKNOWN,
        gallons=0.0,
        paid_cents=0,
        currency=_currency(currency.strip()),
        invoice_number=_number_text(given.get("invoice")),
        driver_name=None if unit else _text(given.get("driver")) or None,
    )
    if any(given.get(quantity) is not None for quantity, _, _ in WIDE.values()):
        found = []
        for fuel, (quantity, price, amount) in WIDE.items():
            if _decimal(given.get(quantity)):
                measured = _measured(given, quantity, price, amount, litres)
                found.append(common._replace(item=str(fuel), fuel=fuel, gallons=measured[0], paid_cents=measured[1]))
        return found  # a row without either bought oil, cash or the like
    fuel = fuel_of_item(common.item)
    if fuel is Fuel.OTHER:
        return []  # oil, a scale, cash: no fuel
    gallons, cents = _measured(given, "quantity", "price", "amount", litres)
    return [common._replace(fuel=fuel, gallons=gallons, paid_cents=cents)]


def _measured(given: Mapping[str, Any], quantity: str, price: str, amount: str, litres: bool) -> tuple[float, int]:
    """Gallons, and the cents that were paid."""
    bought = _decimal(given.get(quantity))
    if not bought:
        raise _RowFault("the quantity is missing or zero")
    paid = _decimal(given.get(amount))
    if paid is None:
        each = _decimal(given.get(price))
        if each is None:
            raise _RowFault("the amount is missing, and so is the price")
        paid = each * bought
    if paid and (paid < 0) != (bought < 0):
        raise _RowFault(f"{bought:f} bought for {paid:.2f}: one of them is negative; a reversal has both negative")
    gallons = bought / LITRES_PER_GALLON if litres else bought
    if abs(gallons) > MOST_GALLONS or abs(paid) > MOST_DOLLARS:
        raise _RowFault(f"{gallons:.1f} gallons for {paid:.2f} is more than one purchase can be")
    cents = int((paid * 100).quantize(Decimal(1), ROUND_HALF_EVEN))
    rounded = float(round(gallons, 3))
    if not rounded:
        raise _RowFault("the quantity is less than a thousandth of a gallon")
    return rounded, cents


def _is_litres(unit: str, volume: Volume, state: str) -> bool:
    if unit[:1] in ("L", "G"):
        return unit[0] == "L"
    if unit:
        raise _RowFault(f"the unit of the quantity is {unit!r}: G and L are known")
    if not volume and state in CANADA:
        raise _RowFault(
            "a purchase in Canada, and the file does not say whether gallons or litres: say it for the file"
        )
    return volume == "litres"


def _identity(profile: str, fill: FileFill) -> str:
    """The text that is the same whenever this transaction comes in a file. A number of the card names a transaction
    at its place on its day, whatever was corrected since; without one, everything has to be the same."""
    parts: list[object] = [
        *(profile, fill.transaction_number, fill.card_last_four, fill.local_time.date(), fill.item, fill.gallons < 0),
        *(fill.station_code, fill.location_name, fill.city, fill.state),
    ]
    if fill.transaction_number is None:
        parts += [fill.local_time.time(), fill.unit_number, fill.gallons, fill.paid_cents]
    return "|".join("" if part is None else str(part).upper() for part in parts)


# --- Cells ------------------------------------------------------------------------------------------------------


def _text(cell: str | None) -> str:
    """The cell as a text of one line."""
    return re.sub(r"[\s\x00-\x1f\x7f]+", " ", cell or "").strip()[:LONGEST_TEXT]


def _decimal(number: float | None) -> Decimal | None:
    return None if number is None else Decimal(repr(number))


def _number_text(cell: str | None) -> str | None:
    """A transaction number; one of zeros is none."""
    text = _text(cell)
    return text if text.strip("0") else None


def _unit_number(cell: str | None) -> str | None:
    """The unit number. Cards of drivers write nothing, zeros or a dash."""
    text = _text(cell)
    return text if text.strip("0-. ") and text.upper() not in ("N/A", "NA", "NONE", "UNKNOWN") else None


def _last_four(cell: str | None) -> str | None:
    """The last four digits of a card's number, and nothing else of it."""
    digits = re.sub(r"\D", "", _text(cell))
    return digits[-4:] or None


def _currency(text: str) -> str:
    known = {"": "USD", "U": "USD", "US": "USD", "USD": "USD", "C": "CAD", "CA": "CAD", "CAN": "CAD", "CAD": "CAD"}
    if text not in known:
        raise _RowFault(f"the currency is {text!r}: USD and CAD are known")
    return known[text]


_DAYS = (
    (re.compile(r"(?P<y>\d{4})-(?P<m>\d{1,2})-(?P<d>\d{1,2})", re.ASCII), 0),
    (re.compile(r"(?P<m>\d{1,2})[/-](?P<d>\d{1,2})[/-](?P<y>\d{4})", re.ASCII), 0),
    (re.compile(r"(?P<m>\d{1,2})[/-](?P<d>\d{1,2})[/-](?P<y>\d{2})", re.ASCII), 2000),
    (re.compile(r"(?P<y>\d{4})(?P<m>\d{2})(?P<d>\d{2})", re.ASCII), 0),
)
"""Days as cards write them: month first, unless the year is."""
_TIME = re.compile(r"(\d{1,2}):?(\d{2})(?::?(\d{2})(?:\.\d+)?)? ?([AP]M)?", re.ASCII | re.IGNORECASE)


_DATED = re.compile(r"\d{4}-\d{2}-\d{2} ", re.ASCII)
"""A spreadsheet may keep a time of day as a moment of its first day."""


def _moment(day: str | None, clock: str | None) -> tuple[datetime, bool]:
    """The local time, and whether the file tells it; noon stands for a day alone. Raises _RowFault."""
    first, _, rest = _text(day).replace("T", " ", 1).partition(" ")
    found = _day(first)
    if not 2000 <= found.year <= 2099:
        raise _RowFault(f"the year {found.year} is out of range")
    said = _text(clock).rpartition(" ")[2] if _DATED.match(_text(clock)) else _text(clock)
    said = said or (rest if rest != "00:00:00" else "")  # a day in a spreadsheet
    if not said:
        return datetime.combine(found.date(), time(12)), False
    return datetime.combine(found.date(), _time(said)), True


def _day(text: str) -> datetime:
    for pattern, century in _DAYS:
        match = pattern.fullmatch(text)
        if match is not None:
            try:
                return datetime(century + int(match["y"]), int(match["m"]), int(match["d"]))
            except ValueError:
                break
    raise _RowFault(f"the date is {text!r}: write it as 2026-11-24 or 11/24/2026" if text else "the date is missing")


def _time(text: str) -> time:
    match = _TIME.fullmatch(text.zfill(4) if text.isdecimal() and text.isascii() and len(text) < 4 else text)
    if match is not None:
        hour, minute, second = int(match[1]), int(match[2]), int(match[3] or 0)
        half = (match[4] or "").upper()
        if half and 1 <= hour <= 12:
            hour = hour % 12 + (12 if half == "PM" else 0)
        if hour < 24 and minute < 60 and second < 60:
            return time(hour, minute, second)
    raise _RowFault(f"the time is {text!r}: write it as 14:05")
