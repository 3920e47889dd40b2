"""The day and time of a purchase in a card's file, by the local clock."""

import re
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo

from domain.files.excel_days import ACCESS_DAY, MIDNIGHT, excel_moment, excel_time_of_day
from domain.files.written_times import day_and_rest
from domain.fills.cells import RowFault, cell_line
from domain.fills.local_times import zone_of

_TIME = re.compile(
    r"(\d{1,2})(?::| ?h ?)?(\d{2})(?::?(\d{2})(?:\.\d+)?)? ?(?:([AP])\.?M\.?)?", re.ASCII | re.IGNORECASE
)
_MIDNIGHT = re.compile(rf"{MIDNIGHT}(?: ?(?:Z|UTC|GMT|[+-]\d{{2}}:?\d{{2}}))?", re.ASCII | re.IGNORECASE)
"""The time behind a day without one, as databases and spreadsheets write it: `11/21/2026 12:00:00 AM`."""
_ZONE = re.compile(r"(?P<clock>.*\d.*?) ?(?P<zone>Z|UTC|GMT|[+-]\d{2}:?\d{2}|(?<![A-Z])[ECMP][SD]?T)", re.IGNORECASE)
_ZONES = dict(
    zip("ECMP", ("America/New_York", "America/Chicago", "America/Denver", "America/Los_Angeles"), strict=True)
)
_HOURS = dict(zip("ECMP", (-5, -6, -7, -8), strict=True))
"""Hours of standard time."""

_DATED = re.compile(rf"(?:\d{{4}}-\d{{2}}-\d{{2}}|{ACCESS_DAY}) ", re.ASCII)
"""A spreadsheet or database may keep a time of day as a moment on its first day."""


def receipt_time(day: str | None, clock: str | None, state: str, *, is_utc: bool = False) -> tuple[datetime, bool]:
    """The local time in the state, and whether the file has a time; noon stands for a day alone. A time that names its
    zone is converted to the state's and keeps that one, as does a time without a zone if the file says UTC. Raises
    RowFault if day or time cannot be read."""
    found, rest = receipt_day(day)
    at = _read_clock("" if clock == day else cell_line(clock), rest)  # one column may be both
    if at is None:
        return datetime.combine(found, _NOON), False
    written = datetime.combine(found, at)
    if written.tzinfo is None:
        if not is_utc:
            return written, True
        written = written.replace(tzinfo=UTC)
    return written.astimezone(ZoneInfo(zone_of(state, None))), True


_NOON = time(12)


@lru_cache(maxsize=10_000)  # a day has 1,440 minutes
def _read_clock(clock: str, behind_day: str) -> time | None:
    """The time in the cell, or in the text after the day, with a zone if it names one; None if there is none. Raises
    RowFault if it cannot be read."""
    said = _DATED.sub("", clock, count=1) or ("" if _MIDNIGHT.fullmatch(behind_day) else behind_day)
    zoned = _ZONE.fullmatch(said)
    if zoned is not None:
        return _time(zoned["clock"]).replace(tzinfo=_zone(zoned["zone"].upper()))
    return _time(said) if said else None


def receipt_day(cell: str | None) -> tuple[date, str]:
    """The day, and the text after it in the cell. Raises RowFault if there is none."""
    found = _read_day(cell_line(cell))
    if isinstance(found, str):
        raise RowFault(found)
    return found


@lru_cache(maxsize=10_000)  # a file has the same few days in all its rows
def _read_day(text: str) -> tuple[date, str] | str:
    """The day and the rest, or the fault of the text."""
    counted = excel_moment(text)
    if counted is not None:
        return counted.date(), counted.strftime("%H:%M:%S")
    found = day_and_rest(text)
    if found is None:
        return f"the date is {text!r}: write it as 2026-11-24 or 11/24/2026" if text else "the date is missing"
    day, rest = found
    return (day, rest.lstrip("Tt ,")) if 2000 <= day.year <= 2099 else f"the year {day.year} is out of range"


def _zone(name: str) -> tzinfo:
    """The zone named `Z`, `-05:00`, `CST` or `CT`."""
    if name[0] in "+-":
        minutes = int(name[1:3]) * 60 + int(name[-2:])
        return timezone(timedelta(minutes=minutes if name[0] == "+" else -minutes))
    if name[0] not in _ZONES:
        return timezone(timedelta())
    if len(name) == 2:
        return ZoneInfo(_ZONES[name[0]])
    return timezone(timedelta(hours=_HOURS[name[0]] + (name[1] == "D")))


def _time(text: str) -> time:
    counted = excel_time_of_day(text) or (excel_moment(text) if "." in text else None)
    if counted is not None:
        return counted.time()
    match = _TIME.fullmatch(text.zfill(4) if text.isdecimal() and text.isascii() and len(text) < 4 else text)
    if match is not None:
        hour, minute, second = int(match[1]), int(match[2]), int(match[3] or 0)
        half = (match[4] or "").upper()
        if half and 1 <= hour <= 12:
            hour = hour % 12 + (12 if half == "P" else 0)
        if hour < 24 and minute < 60 and second < 60:
            return time(hour, minute, second)
    raise RowFault(f"the time is {text!r}: write it as 14:05")
