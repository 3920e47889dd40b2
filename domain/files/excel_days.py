"""Days as spreadsheets count them: 46174 is 2026-06-01, and 46174.25 is six o'clock of that day.

A date cell without its format is such a number, and so is what a spreadsheet saves of it as CSV. Only days between 1990
and 2100 count, so that few other numbers look like one.
"""

import math
import re
from datetime import datetime, timedelta

FIRST_DAY, LAST_DAY = 32_874, 73_051
"""1990-01-01 and 2100-01-01."""

_COUNTED_FROM = datetime(1899, 12, 30)
_COUNTED = re.compile(r"\d{5}(\.\d+)?", re.ASCII)
_OF_A_DAY = re.compile(r"0?\.\d+|0", re.ASCII)


def excel_moment(cell: object) -> datetime | None:
    """The time that the number, or the text that is one, means; None when it means none. To the second."""
    if isinstance(cell, str) and len(cell) <= 40 and _COUNTED.fullmatch(cell):
        cell = float(cell)
    if not isinstance(cell, (int, float)) or isinstance(cell, bool) or not math.isfinite(cell):
        return None
    if not FIRST_DAY <= cell <= LAST_DAY:
        return None
    return _to_the_second(_COUNTED_FROM + timedelta(days=cell))


def excel_time_of_day(text: str) -> datetime | None:
    """The time of day that a part of a day means, on a day that means nothing: 0.75 is 18:00."""
    if len(text) > 40 or not _OF_A_DAY.fullmatch(text):
        return None
    return _to_the_second(_COUNTED_FROM + timedelta(days=float(text)))


def _to_the_second(moment: datetime) -> datetime:
    return (moment + timedelta(milliseconds=500)).replace(microsecond=0)
