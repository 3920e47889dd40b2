"""Quarters of a year, for which fuel tax is reported."""

import re
from dataclasses import dataclass
from datetime import date

from domain.errors import FuelrouteError


class UnknownQuarter(FuelrouteError):
    def __init__(self, text: str) -> None:
        super().__init__(f"there is no quarter {text!r}: give a year and one of Q1 to Q4, such as 2026Q4")


@dataclass(frozen=True, slots=True)
class Quarter:
    """Three months of a year: `number` is 1 to 4."""

    year: int
    number: int

    @classmethod
    def parse(cls, text: str) -> "Quarter":
        """The quarter of a text such as `2026Q4`. Raises UnknownQuarter for any other text."""
        match = re.fullmatch(r"(20[0-9]{2})Q([1-4])", text)
        if match is None:
            raise UnknownQuarter(text)
        return cls(int(match[1]), int(match[2]))

    @classmethod
    def of(cls, day: date) -> "Quarter":
        """The quarter of a day."""
        return cls(day.year, (day.month + 2) // 3)

    def __str__(self) -> str:
        return f"{self.year}Q{self.number}"

    @property
    def first_day(self) -> date:
        return date(self.year, 3 * self.number - 2, 1)

    @property
    def next_day(self) -> date:
        """The day after the quarter's last one."""
        return date(self.year + self.number // 4, 3 * self.number % 12 + 1, 1)
