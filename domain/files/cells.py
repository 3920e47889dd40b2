"""The cells of a vendor's file as values: numbers, amounts, days and times in the spellings of spreadsheets and
reports."""

import math
import re
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache, partial
from typing import Any
from zoneinfo import ZoneInfo

from domain.files.excel_days import excel_moment
from domain.files.profiles import Column, RecordField
from domain.files.spreadsheets import Cell, number_as_name
from domain.files.written_times import MOST_TIME_CHARACTERS, read_time

MOST_VALUE_CHARACTERS = 400


def cell_text(cell: Cell) -> str:
    """The cell in people's spelling. A number in a spreadsheet may stand for a name, such as store 305."""
    if isinstance(cell, str):
        return cell
    if cell is None:
        return ""
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    return cell.isoformat(sep=" ") if isinstance(cell, datetime) else str(cell)


def converter(
    field: RecordField, column: Column, zone: ZoneInfo, *, has_commas: bool = False, currency: str | None = None
) -> Callable[[Cell], Any]:
    """A function that turns a nonempty cell into the field's value. It raises ValueError, with a text that follows the
    cell. `has_commas`: the file writes a comma before decimals. `currency`: the one that its amounts name, or an empty
    text; an amount of another one cannot be read. None if a column names it."""
    number = _number_with_comma if has_commas else written_number
    if field.kind == "amount" and currency is not None:
        number = partial(_number_in, currency, number)
    sign = -1.0 if column.is_negated else 1.0
    if field.kind == "code":
        return _code
    if field.kind == "text":
        return _text
    if field.kind == "amount":
        scale = sign / 100 if column.unit == "cents" else sign
        return (lambda cell: round(number(cell), 6)) if scale == 1 else lambda cell: round(number(cell) * scale, 6)
    if field.kind == "number":
        return lambda cell: number(cell) * sign
    if field.kind == "day":
        return lambda cell: _local_time(cell, column.date_format).date()
    return lambda cell: _moment(cell, column.date_format, zone)


_MOST_PLAIN_CHARACTERS = 20
"""Longest number that is read without a look at its spelling."""
_NO_ROUNDING_CHARACTERS = 7
"""Longest text of a number that cannot have more than six decimals."""


def columns_values(
    field: RecordField, column: Column, convert: Callable[[Cell], Any], cells: Sequence[Cell], empty: Any
) -> list[Any] | None:
    """The values of many cells of one column, as `convert` gives them, with `empty` for empty cells. None if a cell has
    to be looked at by itself: it is no text, or is written in an unusual way. Many cells cost a fraction of the time
    that they cost one by one."""
    try:
        written = "".join(cells)  # type: ignore[arg-type]
    except TypeError:
        return None  # of Excel
    try:
        if field.kind == "text" or (field.kind == "code" and ".0" not in written):
            return _texts(written, cells, empty)
        if field.kind in ("amount", "number"):
            is_plain = column.unit == "dollars" and not column.is_negated
            return _plain_numbers(written, cells, empty, is_amount=field.kind == "amount") if is_plain else None
        known = {cell: convert(cell) if cell else empty for cell in set(cells)}
        return [known[cell] for cell in cells]
    except ValueError:
        return None


def _texts(written: str, cells: Sequence[Cell], empty: Any) -> list[Any] | None:
    if "\0" in written or max(map(len, cells), default=0) > MOST_VALUE_CHARACTERS:  # type: ignore[arg-type]
        return None
    return [cell or empty for cell in cells]


def _plain_numbers(written: str, cells: Sequence[Cell], empty: Any, *, is_amount: bool) -> list[Any] | None:
    """The numbers of a column whose cells have only digits, points and minus signs. None if a cell has anything else,
    or is too long. Raises ValueError for a cell such as 1.2.3."""
    digits = written.replace(".", "").replace("-", "")
    longest = max(map(len, cells), default=0)  # type: ignore[arg-type]
    if (digits and not (digits.isascii() and digits.isdigit())) or longest > _MOST_PLAIN_CHARACTERS:
        return None
    if is_amount and longest > _NO_ROUNDING_CHARACTERS:
        return [round(float(cell), 6) if cell else empty for cell in cells]  # type: ignore[arg-type]
    return [float(cell) if cell else empty for cell in cells]  # type: ignore[arg-type]


_NOTHING = frozenset({"N/A", "#N/A", "NA", "N.A.", "NULL", "NONE", "-", "--", "---", "\N{EN DASH}", "\N{EM DASH}"})
_NOW = re.compile(
    r"YES|NO|TODAY|(?:JUST )?NOW|\d{1,2}:\d{2}(?::\d{2})?(?: ?[AP]\.?M\.?)?"
    r"|(?:ABOUT )?(?:AN?|\d{1,2}) ?(?:HOURS?|HRS?|H|MINUTES?|MINS?|M|SECONDS?|SECS?|S) AGO",
    re.ASCII,
)
"""Words and clocks of a column such as `Updated` that say no other day than today."""


def says_nothing(cell: Cell, *, has_marks: bool) -> bool:
    """True for the dash of a spreadsheet in place of a zero, `-` or `$-`. `has_marks`: also for a mark that reports
    write in place of a missing number or day, and for words for a time of today."""
    text = cell.strip().upper() if isinstance(cell, str) else ""
    if _DASH.fullmatch(text) is not None:
        return True
    return has_marks and (text in _NOTHING or _NOW.fullmatch(text) is not None)


def _text(cell: Cell) -> str:
    text = cell if isinstance(cell, str) else cell_text(cell)
    if len(text) > MOST_VALUE_CHARACTERS:
        raise ValueError(f"has more than {MOST_VALUE_CHARACTERS} characters")
    if "\0" in text:
        raise ValueError("has a NUL")
    return text


_MOST_EXACT, _MOST_OF_PROGRAMS = 10**15, 2**53
"""Whole numbers that a spreadsheet keeps, and those that programs write into its files, are exact below these."""


def _code(cell: Cell) -> str:
    """A code as it is written. A number too long for a spreadsheet shows that it is rounded: 7.08305003048589E+18."""
    if isinstance(cell, (int, float)) and cell >= _MOST_EXACT and (cell >= _MOST_OF_PROGRAMS or cell % 10 == 0):
        return f"{cell:.14E}"
    return number_as_name(_text(cell))


_AMOUNT = re.compile(r"(\d{1,3}(?:,\d{3})+(?:\.\d*)?|\d+\.?\d*|\.\d+)", re.ASCII)
_PLAIN = re.compile(r"-?\d{1,30}(?:\.\d{1,30})?", re.ASCII)
_WITH_COMMA = re.compile(r"0,\d+|(?:\d{1,3}(?:\.\d{3})+|\d+),(?:\d{1,2}|\d{4,6})", re.ASCII)
"""A comma before decimals, as in Quebec: `1.234,56`. Three digits after it are thousands."""
_CURRENCY = r"(?:US\$|CA?\$|\$|USD|CAD)"
_LONGEST_NUMBER = 40
_AROUND = re.compile(rf"^{_CURRENCY}|{_CURRENCY}$")
_DASH = re.compile(rf"{_CURRENCY}?\s*-")


_SHORT_NUMBER = 20


def written_number(cell: Cell) -> float:
    """A number in the spellings of spreadsheets and reports: `$1,234.50`, `(12.00)`, `12.00-`, `12.00 CR`,
    `1.234,50`."""
    if isinstance(cell, str) and len(cell) <= _SHORT_NUMBER and cell.isascii() and cell.replace(".", "", 1).isdigit():
        return float(cell)  # nearly all are written so
    if isinstance(cell, (int, float)) and not isinstance(cell, bool):
        if not math.isfinite(cell):
            raise ValueError("is no number")
        return float(cell)
    written = cell_text(cell)
    if _PLAIN.fullmatch(written):
        return float(written)
    is_negative, text = _bare(written)
    if _WITH_COMMA.fullmatch(text):
        text = text.replace(".", "").replace(",", ".")
    if _AMOUNT.fullmatch(text) is None:
        raise ValueError("is no number")
    number = float(text.replace(",", ""))
    return -number if is_negative else number


def _bare(written: str) -> tuple[bool, str]:
    """True for a negative number, and its text without sign, currency and spaces."""
    text = re.sub(r"\s", "", written.upper()) if len(written) <= _LONGEST_NUMBER else ""
    is_negative, text = _without_sign(_AROUND.sub("", text))
    return is_negative, _AROUND.sub("", text)


_CANADIAN, _AMERICAN = re.compile(r"CA?\$|CAD"), re.compile(r"US\$|USD")


def _named_currency(cell: Cell) -> str:
    """The currency that an amount names: CAD, USD, or a bare `$`; empty if it names none."""
    text = cell.upper() if isinstance(cell, str) and len(cell) <= _LONGEST_NUMBER else ""
    return "CAD" if _CANADIAN.search(text) else "USD" if _AMERICAN.search(text) else "$" if "$" in text else ""


def first_currency(cells: Iterable[Cell]) -> str:
    """The currency of the first of these amounts that names one: CAD, USD, or a bare `$`; else an empty text."""
    return next(filter(None, map(_named_currency, cells)), "")


def _number_in(currency: str, number: Callable[[Cell], float], cell: Cell) -> float:
    found, named = number(cell), _named_currency(cell)
    if named and (named == "CAD") != (currency == "CAD"):
        raise ValueError("is in another currency than the first amounts: divide the file, or add a column Currency")
    return found


def writes_commas(cells: Iterable[Cell], *, has_thousands: bool) -> bool:
    """True if a number has a comma before its decimals beyond doubt, as 33,20, and none has a point there. Three digits
    behind a comma may be thousands, if a number can be as large."""
    told = [_bare(cell)[1] for cell in cells if isinstance(cell, str) and not cell.isdecimal()]
    pattern = _WITH_COMMA if has_thousands else _WITH_ANY_COMMA
    return any(map(pattern.fullmatch, told)) and not any(map(_WITH_POINT.fullmatch, told))


_WITH_ANY_COMMA = re.compile(r"\d{1,3},\d+", re.ASCII)
_WITH_POINT = re.compile(r"[\d,]*\.(?:\d{1,2}|\d{4,})", re.ASCII)
_THREE_DECIMALS = re.compile(r"(?<=\d),\d{3}(?=\D*$)", re.ASCII)
_THREE_BEHIND_POINT = re.compile(r"\d{1,3}\.\d{3}", re.ASCII)


def _number_with_comma(cell: Cell) -> float:
    """A number of a file that writes a comma before decimals: in such a file three digits after it are no thousands."""
    if isinstance(cell, str):
        if _THREE_BEHIND_POINT.fullmatch(_bare(cell)[1]):
            raise ValueError("is thousands or decimals: other numbers have a comma before decimals")
        if cell.count(",") == 1:
            cell = _THREE_DECIMALS.sub(r"\g<0>0", cell)
    return written_number(cell)


def _without_sign(text: str) -> tuple[bool, str]:
    """True for a negative number, and its text without the sign."""
    if text.startswith("(") and text.endswith(")"):
        return True, text[1:-1]
    if text[:1] in "+-\N{MINUS SIGN}" and text:
        return text[0] != "+", text[1:]
    for ending in ("-", "CR"):
        if text.endswith(ending):
            return True, text.removesuffix(ending)
    return False, text


def _local_time(cell: Cell, date_format: str) -> datetime:
    """The written time, with its offset if it has one."""
    if isinstance(cell, datetime):
        return (cell + timedelta(milliseconds=500)).replace(microsecond=0)
    return written_time(cell_text(cell), date_format)


@lru_cache(maxsize=10_000)  # a file has the same few days in all its rows
def written_time(text: str, date_format: str = "") -> datetime:
    """A time in one of the spellings of files, with its offset if it has one. Raises ValueError."""
    if date_format:
        try:
            return datetime.strptime(text, date_format)
        except (ValueError, re.error):
            pass
    counted = excel_moment(text)  # a spreadsheet took the format away
    if counted is not None:
        return counted
    if date_format:
        raise ValueError(f"is no date like {date_format}")
    read = read_time(text)
    if read is None:
        raise ValueError("is no date: write it as 11/24/2026 or 2026-11-24")
    return read


_SPAN = re.compile(
    r"(?P<first>\S*\d\S*)\s*(?:to|thru|through|until|-|\N{EN DASH})\s*(?!\d\d?(?::?\d\d)?$)\S*\d\S*", re.IGNORECASE
)
"""Two days: `11/26/2026 To 11/26/2026`. The first one counts. `2026-11-26T08:00 -0600` has an offset."""


_STAMP = re.compile(
    r"(?P<clock>\d{1,2}:\d{2} [AP]M [ECMP][SD]T) (?P<day>[A-Z]{3,9} \d{1,2}, \d{4})(?!\d)", re.IGNORECASE
)
"""A time of Love's, with a sentence behind it: `11:39 AM CST November 25, 2026. Copyright`."""

_ORDINAL = re.compile(r"(?<=\d)(?:st|nd|rd|th)\b", re.IGNORECASE)


def _in_figures(text: str) -> str:
    """A time of a report without needless words: `September 9th, 2026 at 12 am`; the first of two days. Raises
    ValueError if it is too long to be one."""
    if (stamp := _STAMP.match(text)) is not None:
        return f"{stamp['day']} {stamp['clock']}"
    if len(text) > MOST_TIME_CHARACTERS:  # the patterns would try each division of it, for minutes
        raise ValueError("is no date")
    span = _SPAN.fullmatch(text)
    return _ORDINAL.sub("", span["first"] if span is not None and " " in text else text)


def _moment(cell: Cell, date_format: str, zone: ZoneInfo) -> datetime:
    if isinstance(cell, str) and len(cell) <= MOST_TIME_CHARACTERS:
        return _written_moment(cell, date_format, zone)
    return _moment_of(cell, date_format, zone)


@lru_cache(maxsize=10_000)  # a price file has the same day in all its rows
def _written_moment(text: str, date_format: str, zone: ZoneInfo) -> datetime:
    return _moment_of(text, date_format, zone)


def _moment_of(cell: Cell, date_format: str, zone: ZoneInfo) -> datetime:
    if isinstance(cell, str) and not date_format:
        cell = _in_figures(" ".join(cell.split()))  # a page has no-break spaces
    try:
        local = _local_time(cell, date_format)
        moment = (local if local.tzinfo is not None else local.replace(tzinfo=zone)).astimezone(UTC)
    except OverflowError:
        raise ValueError("is no date that can be") from None
    if not date(1990, 1, 1) <= moment.date() <= date(2100, 1, 1):
        raise ValueError("lies too far away")
    return moment
