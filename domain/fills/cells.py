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


def decimal_of(number: float | None) -> Decimal | None:
    return None if number is None else Decimal(repr(number))
