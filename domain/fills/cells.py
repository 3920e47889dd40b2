"""The cells of a card's file as texts and exact numbers, and the fault of an unreadable row."""

import re
from decimal import Decimal
from functools import lru_cache

from domain.errors import FuelrouteError

LONGEST_TEXT = 120


class RowFault(FuelrouteError):
    """A row cannot be read; the text says why."""


@lru_cache(maxsize=10_000)  # a file has the same few texts in most of its columns
def cell_line(cell: str | None) -> str:
    """The cell as a text of one line."""
    if not cell:
        return ""
    return re.sub(r"[\s\x00-\x1f\x7f]+", " ", cell).strip()[:LONGEST_TEXT]


_IN_POWERS = re.compile(r"\d(?:[.,]\d+E\+?|E\+)\d+", re.ASCII | re.IGNORECASE)
_DIGITS_KEPT = 15
"""Digits of a number that a spreadsheet keeps; it writes zeros for the others."""


def is_rounded(number: str) -> bool:
    """True for a number of which a spreadsheet has lost digits: 3.9E+10, or 7083050030485890000."""
    digits = number.lstrip("0")
    if len(digits) > _DIGITS_KEPT + 1 and digits.isdecimal():  # each tenth number of 16 digits ends with a zero
        return not digits[_DIGITS_KEPT:].strip("0")
    return _IN_POWERS.fullmatch(number) is not None


def decimal_of(number: float | None) -> Decimal | None:
    return None if number is None else Decimal(repr(number))
