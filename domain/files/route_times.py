"""Times in a table of routes, in the spellings of people and spreadsheets."""

import re
from datetime import UTC, datetime, time, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

from domain.files.excel_days import ACCESS_DAY, MIDNIGHT, excel_moment, excel_time_of_day
from domain.files.spreadsheets import Cell

_LOCAL_TIME = re.compile(r"(\d{4}-\d{2}-\d{2})[Tt ](\d{2}:\d{2})(:\d{2})?(\.\d+)?", re.ASCII)
_AMERICAN = re.compile(
    r"(\d{1,2})[/-](\d{1,2})[/-](\d{4}|\d{2}),? +(\d{1,2}):(\d{2})(?::(\d{2}))?(?: ?([AP])\.?M\.?)?",
    re.ASCII | re.IGNORECASE,
)
"""The month comes first, as in all of the United States."""
_YEAR_FIRST = re.compile(
    r"(\d{4})[/-](\d{1,2})[/-](\d{1,2}),? +(\d{1,2}):(\d{2})(?::(\d{2}))?(?: ?([AP])\.?M\.?)?",
    re.ASCII | re.IGNORECASE,
)
_WITH_ZONE = re.compile(r"(.*\d(?: ?[AP]\.?M\.?)?) ?\(?([A-Z]{2,4})\)?", re.ASCII | re.IGNORECASE)

_ZONES = {
    "AT": "America/Halifax",
    "ET": "America/New_York",
    "CT": "America/Chicago",
    "MT": "America/Denver",
    "PT": "America/Los_Angeles",
    "UTC": "UTC",
    "GMT": "UTC",
}
_WORDS = {"EASTERN": "ET", "CENTRAL": "CT", "MOUNTAIN": "MT", "PACIFIC": "PT", "ATLANTIC": "AT"}
"""Dispatchers' names of zones. CST and CDT are the two halves of CT."""


def plain_text(cell: Cell) -> str:
    """The cell as text. A number in a spreadsheet may stand for a name, such as unit number 101."""
    if cell is None:
        return ""
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    return cell.isoformat() if isinstance(cell, datetime) else str(cell)


def cell_time(cell: Cell, zone: ZoneInfo | None) -> tuple[str, str]:
    """The time in the API's form, and the fault that only the table shows. The check of the body finds other faults."""
    said, half = cell, ""
    named = _WITH_ZONE.fullmatch(cell) if isinstance(cell, str) and len(cell) <= 60 else None
    if named is not None and (found := zone_named(named[2])) is not None:
        said, zone, half = named[1].strip(), found, named[2].upper()
    try:
        local = _local(said)
    except ValueError:
        return plain_text(cell), "There is no such date and time"
    if local is None:
        return plain_text(cell), ""
    if zone is None:
        return local.isoformat(), "The time has no UTC offset: write it with one, or give the time zone"
    moment, fault = _in_zone(local, zone)
    return moment, fault or _wrong_half(local, zone, half)


_DAY_ALONE = re.compile(
    r"(\d{1,4}[/-]\d{1,2}[/-]\d{1,4}|\d{1,2}[ -][A-Z]{3}[A-Z]*\.?[ ,-]+\d{2,4}|[A-Z]{3}[A-Z]*\.? \d{1,2},? \d{4})"
    rf"(?:[T ,]+{MIDNIGHT})?",
    re.ASCII | re.IGNORECASE,
)
"""A day, perhaps with midnight behind it, as databases write one without a time."""


_FIRST_DAY = re.compile(f"{ACCESS_DAY} ", re.ASCII)


def at_clock(day: Cell, clock: Cell) -> Cell:
    """The day with the time of day of another cell, or alone if that is empty; a time that has its day is unchanged."""
    moment = day if isinstance(day, datetime) else excel_moment(day)
    if moment is None:
        alone = _DAY_ALONE.fullmatch(day) if isinstance(day, str) else None
        text = alone[1] if alone is not None else ""
    else:
        text = f"{moment:%Y-%m-%d}" if moment.time() == time() else ""
    if not text:
        return day
    if clock is None or clock == "":
        return text  # midnight in a spreadsheet would be a time
    at = clock if isinstance(clock, datetime) else excel_time_of_day(plain_text(clock))
    return f"{text} {_FIRST_DAY.sub('', plain_text(clock)) if at is None else f'{at:%H:%M:%S}'}"


def _local(cell: Cell) -> datetime | None:
    """The local time; None for other contents. Raises ValueError for a time that does not exist."""
    if isinstance(cell, datetime):
        return (cell + timedelta(milliseconds=500)).replace(microsecond=0)
    if (counted := excel_moment(cell)) is not None:
        return counted
    text = _usual(plain_text(cell))
    if (iso := _LOCAL_TIME.fullmatch(text)) is not None:
        return datetime.fromisoformat(f"{iso[1]}T{iso[2]}{iso[3] or ':00'}")
    if (american := _AMERICAN.fullmatch(text)) is not None:
        month, day, year = (int(american[at]) for at in (1, 2, 3))
        return _on_clock(american, year, month, day)
    if (year_first := _YEAR_FIRST.fullmatch(text)) is not None:
        return _on_clock(year_first, *(int(year_first[at]) for at in (1, 2, 3)))
    return None


_DAY_MONTH = re.compile(r"(\d{1,2})[ -]([A-Z]{3})[A-Z]*\.?[ ,-]+(\d{4}|\d{2})(?=[ ,])", re.ASCII | re.IGNORECASE)
_MONTH_DAY = re.compile(r"([A-Z]{3})[A-Z]*\.? (\d{1,2}),? (\d{4})(?=[ ,])", re.ASCII | re.IGNORECASE)
_CLOCK_OF_FOUR = re.compile(r"(?<= )(\d{2})(\d{2})$", re.ASCII)
_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")


def _usual(text: str) -> str:
    """The text with the month as a number and a colon in the time: from 1-Dec-2026 08:05, Dec 1, 2026 8:05 AM or
    12/01/2026 0805."""
    if len(text) > 40:
        return text
    if (named := _DAY_MONTH.match(text)) is not None and named[2].upper() in _MONTHS:
        text = f"{_MONTHS.index(named[2].upper()) + 1}/{named[1]}/{named[3]}{text[named.end() :]}"
    elif (named := _MONTH_DAY.match(text)) is not None and named[1].upper() in _MONTHS:
        text = f"{_MONTHS.index(named[1].upper()) + 1}/{named[2]}/{named[3]}{text[named.end() :]}"
    return _CLOCK_OF_FOUR.sub(r"\1:\2", text)


def _on_clock(written: re.Match[str], year: int, month: int, day: int) -> datetime:
    """The local time. Raises ValueError for a time that does not exist."""
    hour, minute = int(written[4]), int(written[5])
    half = (written[7] or "").upper()
    if half and not 1 <= hour <= 12:
        raise ValueError(hour)
    hour = hour % 12 + (12 if half == "P" else 0) if half else hour
    return datetime(year if year > 99 else 2000 + year, month, day, hour, minute, int(written[6] or 0))


_WINDOWS_ZONE = re.compile(r"^\((?:UTC|GMT)[-+]\d\d:\d\d\) *|(?<! ) *\(US (?:&|AND) CANADA\)$", re.ASCII)


@lru_cache(maxsize=1_000)
def zone_named(text: str) -> ZoneInfo | None:
    """The time zone named America/Chicago, CT, CST, Central or the like; None if there is none."""
    upper = (
        _WINDOWS_ZONE.sub("", text.strip().upper())
        .removesuffix(" TIME")
        .removesuffix(" STANDARD")
        .removesuffix(" DAYLIGHT")
    )
    short = _WORDS.get(upper, upper)
    short = f"{short[0]}T" if len(short) == 3 and short[1:] in ("ST", "DT") else short
    name = _ZONES.get(short, text.strip() if "/" in text else "")
    try:
        return ZoneInfo(name) if name and len(name) <= 60 else None
    except (KeyError, ValueError, OSError):
        return None


def _wrong_half(local: datetime, zone: ZoneInfo, said: str) -> str:
    """The fault of a half of a zone in the wrong season, such as CST in July, which is an hour away from what people
    mean; empty without a fault."""
    if len(said) != 3 or said in ("UTC", "GMT") or local.replace(tzinfo=zone).tzname() == said:
        return ""
    return f"It is not {said} then in {zone}: write {said[0]}T, or the time with its UTC offset"


def _in_zone(local: datetime, zone: ZoneInfo) -> tuple[str, str]:
    """The local time with its offset. When clocks go back a time comes twice; the first one counts."""
    try:
        moment = local.replace(tzinfo=zone)
        if moment.astimezone(UTC).astimezone(zone).replace(tzinfo=None) != local:
            return local.isoformat(), f"There is no such time in {zone}: clocks went forward"
        return moment.isoformat(), ""
    except OverflowError:
        return local.isoformat(), "There is no such date and time"
