"""Refuses files with the day first. Dates in digits have the month first, as in all of the United States: 05/11/2026 is
the eleventh of May.

A file with a date that can only have the day first, such as 20/11/2026, was written elsewhere. Half of its dates would
be read as other days, so it is refused as a whole."""

import re
from collections.abc import Iterable
from typing import Any

from domain.files.csvfiles import UnreadableFile

_IN_DIGITS = re.compile(r"\s*(\d{1,2})[/.-](\d{1,2})[/.-](?:\d{4}|\d{2})(?!\d)", re.ASCII)
_MONTHS = 12


def refuse_days_first(column: str, cells: Iterable[Any]) -> bool:
    """Check the cells of a column of dates. True if none certainly has the month first, so that a further one may have
    the day first; False also without dates in digits. Raises UnreadableFile if one has the day first, none certainly
    has the month first, and another one would be read as another day."""
    day_first = other_day = ""
    is_in_digits = False
    for cell in cells:
        written = _IN_DIGITS.match(cell) if isinstance(cell, str) else None
        if written is None:
            continue
        is_in_digits = True
        first, second = int(written[1]), int(written[2])
        if second > _MONTHS:
            return False
        if first > _MONTHS:
            day_first = day_first or written[0].strip()
        elif first != second:
            other_day = other_day or written[0].strip()
    if day_first and other_day:
        raise UnreadableFile(
            f"{column}: {day_first!r} has the day before the month, and {other_day!r} would be read month first: "
            "write dates as 2026-11-20"
        )
    return is_in_digits
