"""Refuses files with the day first. Dates in digits have the month first, as in all of the United States: 05/11/2026 is
the eleventh of May.

A file with a date that can only have the day first, such as 20/11/2026, was written elsewhere. Half of its dates would
be read as other days, so it is refused as a whole."""

import re
from collections.abc import Iterable
from typing import Any

from domain.files.reading_ends import UnreadableFile

_IN_DIGITS = re.compile(r"\s*(\d{1,2})[/.-](\d{1,2})[/.-](?:\d{4}|\d{2})(?!\d)", re.ASCII)
_MONTHS = 12


class DayOrder:
    """Tells from the cells of a column of dates whether days stand before months there."""

    def __init__(self, column: str) -> None:
        self._column = column
        self._day_first = self._other_day = ""
        self._has_digits = False
        self.is_month_first = False
        """True once a date certainly has the month first."""

    @property
    def is_open(self) -> bool:
        """True if no date certainly has the month first, so that a further one may have the day first; False also
        without dates in digits."""
        return self._has_digits and not self.is_month_first

    def note(self, cell: Any) -> None:
        written = None if self.is_month_first or not isinstance(cell, str) else _IN_DIGITS.match(cell)
        if written is None:
            return
        self._has_digits = True
        first, second = int(written[1]), int(written[2])
        if second > _MONTHS:
            self.is_month_first = True
        elif first > _MONTHS:
            self._day_first = self._day_first or written[0].strip()
        elif first != second:
            self._other_day = self._other_day or written[0].strip()

    def refuse(self) -> None:
        """Refuse the file with UnreadableFile if a date has the day first, none certainly has the month first, and
        another one would be read as another day."""
        if self._day_first and self._other_day and not self.is_month_first:
            raise UnreadableFile(
                f"{self._column}: {self._day_first!r} has the day before the month, and {self._other_day!r} would be "
                "read month first: write dates as 2026-11-20"
            )


def refuse_days_first(column: str, cells: Iterable[Any]) -> bool:
    """Check the cells of a column of dates. True if they leave its order open. Raises UnreadableFile for days before
    months."""
    order = DayOrder(column)
    for cell in cells:
        order.note(cell)
        if order.is_month_first:
            return False
    order.refuse()
    return order.is_open
