"""Reads days in spreadsheets' count: 46174 is 2026-06-01, and 46174.25 is six o'clock of that day.

A date cell without its format is such a number, and so is its copy in a CSV file. Only days between 1990 and 2100
count, so that few other numbers look like one."""

import math
import re
from datetime import datetime, timedelta

FIRST_DAY, LAST_DAY = 32_874, 73_051
"""1990-01-01 and 2100-01-01."""

_COUNTED_FROM = datetime(1899, 12, 30)
_COUNTED = re.compile(r"\d{5}(\.\d+)?", re.ASCII)
_OF_A_DAY = re.compile(r"0?\.\d+|0", re.ASCII)

MIDNIGHT = r"(?:0?0:00(?::00(?:\.0+)?)?|12:00(?::00)? ?AM)"
"""Pattern of the time behind a day without one, as databases and spreadsheets write it."""
ACCESS_DAY = r"\d{1,2}/\d{1,2}/(?:1899|1900)"
"""Pattern of the day before a time of day without one, as Access writes it."""


def excel_moment(cell: object) -> datetime | None:
    """The moment of the number, or of a text that is one, to the second; None if it is no moment."""
    if isinstance(cell, str) and len(cell) <= 40 and _COUNTED.fullmatch(cell):
        cell = float(cell)
    if not isinstance(cell, (int, float)) or isinstance(cell, bool) or not math.isfinite(cell):
        return None
    if not FIRST_DAY <= cell <= LAST_DAY:
        return None
    return _to_the_second(_COUNTED_FROM + timedelta(days=cell))


def excel_time_of_day(text: str) -> datetime | None:
    """The time of day of a part of a day, on any day: 0.75 is 18:00."""
    if len(text) > 40 or not _OF_A_DAY.fullmatch(text):
        return None
    return _to_the_second(_COUNTED_FROM + timedelta(days=float(text)))


def _to_the_second(moment: datetime) -> datetime:
    return (moment + timedelta(milliseconds=500)).replace(microsecond=0)
