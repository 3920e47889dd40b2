"""The day and time of a purchase as a card's file writes them, on the clock of the place."""

import re
from datetime import date, datetime, time

from domain.contract.excel_days import excel_moment, excel_time_of_day
from domain.fills.cells import RowFault, cell_line

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


def receipt_time(day: str | None, clock: str | None) -> tuple[datetime, bool]:
    """The local time, and whether the file tells it; noon stands for a day alone. Raises RowFault."""
    found, rest = receipt_day(day)
    said = _uncounted(cell_line(clock)) if "." in cell_line(clock) else cell_line(clock)
    said = said.rpartition(" ")[2] if _DATED.match(said) else said
    said = said or (rest if rest != "00:00:00" else "")  # a day in a spreadsheet
    if not said:
        return datetime.combine(found, time(12)), False
    return datetime.combine(found, _time(said)), True


def receipt_day(cell: str | None) -> tuple[date, str]:
    """The day, and what the cell has behind it. Raises RowFault."""
    first, _, rest = _uncounted(cell_line(cell)).replace("T", " ", 1).partition(" ")
    found = _day(first)
    if not 2000 <= found.year <= 2099:
        raise RowFault(f"the year {found.year} is out of range")
    return found.date(), rest


def _uncounted(text: str) -> str:
    """The text, or the moment that it is as spreadsheets count: 46174.25, or 0.25 for a time of day."""
    counted = excel_moment(text) or excel_time_of_day(text)
    return counted.isoformat(sep=" ") if counted is not None else text


def _day(text: str) -> datetime:
    for pattern, century in _DAYS:
        match = pattern.fullmatch(text)
        if match is not None:
            try:
                return datetime(century + int(match["y"]), int(match["m"]), int(match["d"]))
            except ValueError:
                break
    raise RowFault(f"the date is {text!r}: write it as 2026-11-24 or 11/24/2026" if text else "the date is missing")


def _time(text: str) -> time:
    match = _TIME.fullmatch(text.zfill(4) if text.isdecimal() and text.isascii() and len(text) < 4 else text)
    if match is not None:
        hour, minute, second = int(match[1]), int(match[2]), int(match[3] or 0)
        half = (match[4] or "").upper()
        if half and 1 <= hour <= 12:
            hour = hour % 12 + (12 if half == "PM" else 0)
        if hour < 24 and minute < 60 and second < 60:
            return time(hour, minute, second)
    raise RowFault(f"the time is {text!r}: write it as 14:05")
