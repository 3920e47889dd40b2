"""Reads the rows of a card's file as fills. A row with a fault costs only itself; its line and the reason are told.

A row tells of one product, or of tractor and reefer fuel at once. Each becomes a fill with a key, by which the same
transaction is recognized when it comes again.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from decimal import ROUND_HALF_EVEN, Decimal
from itertools import islice
from pathlib import Path
from typing import Literal, NamedTuple

from domain.contract.csvfiles import ImportReport, Rejected, UnreadableFile, armed, numbered_rows, opened
from domain.contract.spreadsheets import Cell, Row, read_table
from domain.errors import FuelrouteError
from domain.fills.fuels import Fuel, fuel_of_item
from domain.fills.local_times import CANADA, is_known_state
from domain.fills.profiles import FIELDS, WIDE, CardProfile, fields_of_columns, missing_fields

LITRES_PER_GALLON = Decimal("3.785411784")
"""By definition: 231 cubic inches (NIST Handbook 44, appendix C)."""

MOST_GALLONS, MOST_DOLLARS = 10_000, 100_000
LONGEST_TEXT = 120
_TITLE_LINES = 10
"""So many lines may come before the names of the columns."""

Volume = Literal["", "gallons", "litres"]
"""The unit of all quantities of a file; empty: each row tells, else they are gallons in the United States."""

FillFileFormat = Literal["csv", "excel"]


class FileFill(NamedTuple):
    """A purchase as a file tells of it. `local_time` has no zone."""

    line: int
    key: str
    transaction_number: str | None
    card_last_four: str | None
    local_time: datetime
    has_time: bool
    unit_number: str
    location_name: str | None
    station_code: str | None
    city: str | None
    state: str
    item: str | None
    fuel: Fuel
    gallons: float
    paid_cents: int
    currency: str


@dataclass(slots=True)
class FillFile:
    """An open file. `fills` may be read once; refused rows are in `report` by then."""

    columns: list[str]
    fields: list[str]
    fills: Iterator[FileFill]
    report: ImportReport


class _RowFault(FuelrouteError):
    """The row cannot be read; the text says why."""


def fill_format_of(name: str) -> FillFileFormat:
    """Raises UnreadableFile for a name that ends otherwise."""
    suffix = Path(name).suffix.lower()
    if suffix in (".xlsx", ".xlsm"):
        return "excel"
    if suffix in (".csv", ".txt"):
        return "csv"
    raise UnreadableFile(f"{name}: the file must be .csv or .xlsx")


@contextmanager
def open_fill_file(
    path: Path,
    profile: CardProfile,
    *,
    kind: FillFileFormat,
    now: datetime,
    fields: Sequence[str] | None = None,
    volume: Volume = "",
    check: bool = True,
) -> Iterator[FillFile]:
    """The rows of a file as fills. `fields`: the field of each column, in place of the profile's. Raises
    UnreadableFile, also while the rows are read; with `check`, for a file without the columns that a fill needs."""
    report = ImportReport()
    with closing(_rows(path, report, profile, kind)) as rows:
        columns = [_text(cell) for cell in next(rows).cells]
        chosen = list(fields) if fields is not None else fields_of_columns(profile, columns)
        if len(chosen) != len(columns):
            raise UnreadableFile(f"{path} has {len(columns)} columns, but {len(chosen)} fields are given for them")
        unknown = [field for field in chosen if field and field not in FIELDS]
        if unknown:
            raise UnreadableFile(f"there is no field {unknown[0]!r}: the fields are {', '.join(FIELDS)}")
        if check and (missing := missing_fields(chosen)):
            raise UnreadableFile(
                f"{path} has no column for {', '.join(missing)} by the profile {profile.name!r}. "
                f"Its columns are: {', '.join(columns) or 'none'}. Choose another profile, or name the columns"
            )
        yield FillFile(columns, chosen, _fills(rows, profile, chosen, volume, now, report), report)


def _rows(path: Path, report: ImportReport, profile: CardProfile, kind: FillFileFormat) -> Generator[Row]:
    if kind == "excel":
        return read_table(path, report, is_excel=True)
    return _csv_rows(path, report, profile)


def _csv_rows(path: Path, report: ImportReport, profile: CardProfile) -> Generator[Row]:
    """Some exports begin with a title: the names of the columns are looked for in the first lines."""
    with opened(path) as file:
        skipped = _titles(file, profile)
        file.seek(0)
        for _ in islice(file, skipped):
            pass
        own = ImportReport()
        names, rows = numbered_rows(file, own)
        yield Row(skipped + 1, list(names))
        for line, cells in rows:
            texts = [cell.strip() for cell in cells]
            if len(cells) > len(names) and any(texts[len(names) :]):
                own.reject(line, f"{len(cells)} cells, but the header names {len(names)} columns")
            elif any(texts):
                yield Row(line + skipped, [armed(text) for text in texts[: len(names)]])
        report.rejected += [Rejected(one.line + skipped, one.message) for one in own.rejected]


def _titles(file: Iterator[str], profile: CardProfile) -> int:
    """The number of lines before the one that names the most fields."""
    best, lines = 0, list(islice(file, _TITLE_LINES))
    named = [sum(1 for field in fields_of_columns(profile, line.split(",")) if field) for line in lines]
    if named and max(named) > 2:
        best = named.index(max(named))
    return best


def _fills(
    rows: Iterator[Row],
    profile: CardProfile,
    fields: Sequence[str],
    volume: Volume,
    now: datetime,
    report: ImportReport,
) -> Iterator[FileFill]:
    seen: Counter[str] = Counter()
    for row in rows:
        given = {field: cell for field, cell in zip(fields, row.cells, strict=False) if field}
        try:
            if _text(given.get("canceled")).upper() in ("Y", "YES", "TRUE", "1"):
                continue
            fills = _purchases(row.line, given, volume, now)
        except _RowFault as fault:
            report.reject(row.line, str(fault))
            continue
        for fill in fills:
            identity = _identity(profile.name, fill)
            seen[identity] += 1
            yield fill._replace(key=hashlib.sha256(f"{identity}|{seen[identity]}".encode()).hexdigest()[:40])


def _purchases(line: int, given: Mapping[str, Cell], volume: Volume, now: datetime) -> list[FileFill]:
    local, has_time = _moment(given.get("date"), given.get("time"))
    if local > now.replace(tzinfo=None) + timedelta(days=2):
        raise _RowFault(f"{local:%Y-%m-%d} lies in the future")
    state = _text(given.get("state")).upper()
    if not is_known_state(state):
        raise _RowFault(f"{state!r} is no state or province" if state else "the state is missing: it tells the tax")
    unit = _text(given.get("unit"))
    if not unit:
        raise _RowFault("the unit number is missing")
    litres = _is_litres(given, volume, state)
    common = FileFill(
        line=line,
        key="",
        transaction_number=_number_text(given.get("transaction")),
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
        currency=_currency(given.get("currency")),
    )
    if any(given.get(quantity) is not None for quantity, _, _ in WIDE.values()):
        found = []
        for fuel, (quantity, price, amount) in WIDE.items():
            if _number(given.get(quantity), quantity):
                measured = _measured(given, quantity, price, amount, litres)
                found.append(common._replace(item=str(fuel), fuel=fuel, gallons=measured[0], paid_cents=measured[1]))
        return found  # a row without either bought oil, cash or the like
    fuel = fuel_of_item(common.item)
    if fuel is Fuel.OTHER:
        return []  # oil, a scale, cash: no fuel
    gallons, cents = _measured(given, "quantity", "price", "amount", litres)
    return [common._replace(fuel=fuel, gallons=gallons, paid_cents=cents)]


def _measured(given: Mapping[str, Cell], quantity: str, price: str, amount: str, litres: bool) -> tuple[float, int]:
    """Gallons, and the cents that were paid."""
    bought = _number(given.get(quantity), quantity)
    if not bought:
        raise _RowFault("the quantity is missing or zero")
    paid = _number(given.get(amount), amount)
    if paid is None:
        each = _number(given.get(price), price)
        if each is None:
            raise _RowFault("the amount is missing, and so is the price")
        paid = each * bought
    if paid and (paid < 0) != (bought < 0):
        raise _RowFault(f"{bought} bought for {paid:.2f}: one of them is negative; a reversal has both negative")
    gallons = bought / LITRES_PER_GALLON if litres else bought
    if abs(gallons) > MOST_GALLONS or abs(paid) > MOST_DOLLARS:
        raise _RowFault(f"{gallons:.1f} gallons for {paid:.2f} is more than one purchase can be")
    cents = int((paid * 100).quantize(Decimal(1), ROUND_HALF_EVEN))
    rounded = float(round(gallons, 3))
    if not rounded:
        raise _RowFault("the quantity is less than a thousandth of a gallon")
    return rounded, cents


def _is_litres(given: Mapping[str, Cell], volume: Volume, state: str) -> bool:
    unit = _text(given.get("volume_unit")).upper()
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


def _text(cell: Cell) -> str:
    """The cell as a text of one line."""
    if cell is None:
        return ""
    if isinstance(cell, float) and cell.is_integer():
        cell = int(cell)
    return re.sub(r"[\s\x00-\x1f\x7f]+", " ", str(cell)).strip()[:LONGEST_TEXT]


def _number_text(cell: Cell) -> str | None:
    """A transaction number; one of zeros is none."""
    text = _text(cell)
    return text if text.strip("0") else None


def _last_four(cell: Cell) -> str | None:
    """The last four digits of a card's number, and nothing else of it."""
    digits = re.sub(r"\D", "", _text(cell))
    return digits[-4:] or None


def _currency(cell: Cell) -> str:
    text = _text(cell).upper()
    known = {"": "USD", "U": "USD", "US": "USD", "USD": "USD", "C": "CAD", "CA": "CAD", "CAN": "CAD", "CAD": "CAD"}
    if text not in known:
        raise _RowFault(f"the currency is {text!r}: USD and CAD are known")
    return known[text]


_NUMBER = re.compile(r"\$?(\d{1,3}(?:,\d{3})+|\d+)?(\.\d+)?", re.ASCII)


def _number(cell: Cell, field: str) -> Decimal | None:
    """`$1,234.50`, `-12.3`, `12.30-` or `(12.30)`. Raises _RowFault."""
    if isinstance(cell, (bool, datetime)):
        raise _RowFault(f"the {_named(field)} is no number")
    if isinstance(cell, int | float):
        if abs(cell) >= 1e12 or cell != cell:
            raise _RowFault(f"the {_named(field)} is no number that can be")
        return Decimal(repr(cell))
    text = _text(cell).replace(" ", "")
    if not text:
        return None
    is_negative = text[0] in "-(" or text[-1] == "-" or text.startswith("$-")
    bare = text.strip("()").strip("-").removeprefix("$-").removeprefix("-")
    match = _NUMBER.fullmatch(bare)
    if match is None or not (match[1] or match[2]) or len(bare) > 20:
        raise _RowFault(f"the {_named(field)} is {text[:40]!r}, which is no number such as 1234.50")
    value = Decimal((match[1] or "0").replace(",", "") + (match[2] or ""))
    return -value if is_negative else value


def _named(field: str) -> str:
    return field.replace("_", " ")


_DAYS = (
    (re.compile(r"(?P<y>\d{4})-(?P<m>\d{1,2})-(?P<d>\d{1,2})", re.ASCII), 0),
    (re.compile(r"(?P<m>\d{1,2})[/-](?P<d>\d{1,2})[/-](?P<y>\d{4})", re.ASCII), 0),
    (re.compile(r"(?P<m>\d{1,2})[/-](?P<d>\d{1,2})[/-](?P<y>\d{2})", re.ASCII), 2000),
    (re.compile(r"(?P<y>\d{4})(?P<m>\d{2})(?P<d>\d{2})", re.ASCII), 0),
)
"""Days as cards write them: month first, unless the year is."""
_TIME = re.compile(r"(\d{1,2}):?(\d{2})(?::?(\d{2})(?:\.\d+)?)? ?([AP]M)?", re.ASCII | re.IGNORECASE)


def _moment(day: Cell, clock: Cell) -> tuple[datetime, bool]:
    """The local time, and whether the file tells it; noon stands for a day alone. Raises _RowFault."""
    if isinstance(day, datetime):
        found, rest = day.replace(tzinfo=None), "" if day.time() == time() else day.strftime("%H:%M:%S")
    else:
        text = _text(day)
        first, _, rest = text.replace("T", " ", 1).partition(" ")
        found = _day(first)
    if not 2000 <= found.year <= 2099:
        raise _RowFault(f"the year {found.year} is out of range")
    said = clock.strftime("%H:%M:%S") if isinstance(clock, datetime) else _text(clock) or rest.strip()
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
