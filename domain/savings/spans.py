"""Spans of days in a company's time zone, and the weeks in them."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar
from zoneinfo import ZoneInfo

from domain.errors import FuelrouteError

if TYPE_CHECKING:
    from domain.database.connections import Tenant  # loads psycopg

Figures = TypeVar("Figures")

FIRST_YEAR, LAST_YEAR = 2000, 2099
MOST_DAYS = 366


class UnusableSpan(FuelrouteError):
    """No report is made for the span between these two days. The text says why."""


@dataclass(frozen=True, slots=True)
class Span:
    """The days from `first_day` to `last_day`, both included, in the time zone."""

    first_day: date
    last_day: date
    time_zone: str

    def __post_init__(self) -> None:
        """Check the days. Raises UnusableSpan, with a sentence for people, if no report is made for them."""
        for day in (self.first_day, self.last_day):
            if not FIRST_YEAR <= day.year <= LAST_YEAR:
                raise UnusableSpan(f"{day} is out of range: years from {FIRST_YEAR} to {LAST_YEAR} are reported")
        if self.last_day < self.first_day:
            raise UnusableSpan(f"the span ends on {self.last_day}, before it begins on {self.first_day}")
        if (self.last_day - self.first_day).days >= MOST_DAYS:
            raise UnusableSpan(f"the span is longer than {MOST_DAYS} days: choose a shorter one")

    @property
    def start(self) -> datetime:
        return self._midnight(self.first_day)

    @property
    def end(self) -> datetime:
        """The first moment after the span."""
        return self._midnight(self.last_day + timedelta(days=1))

    @property
    def weeks(self) -> list[date]:
        """The first day of each week: the first day of the span, then the Mondays."""
        monday = self.first_day + timedelta(days=7 - self.first_day.weekday())
        days_left = (self.last_day - monday).days
        return [self.first_day, *(monday + timedelta(days=days) for days in range(0, days_left + 1, 7))]

    @property
    def week_starts(self) -> list[datetime]:
        return [self._midnight(day) for day in self.weeks]

    def by_week(self, found: Mapping[int, Figures], nothing: Figures) -> list[tuple[date, Figures]]:
        """The figures of every week, with its first day. `found` has them by the week's number, from 1; weeks without
        any have `nothing`."""
        return [(day, found.get(number, nothing)) for number, day in enumerate(self.weeks, start=1)]

    def asked(self, tenant: "Tenant") -> dict[str, Any]:
        """Parameters of a statement: `company_id`, `environment`, and the first moments in and after the span, `start`
        and `end`."""
        return {**tenant._asdict(), "start": self.start, "end": self.end}

    def _midnight(self, day: date) -> datetime:
        return datetime(day.year, day.month, day.day, tzinfo=ZoneInfo(self.time_zone)).astimezone(UTC)


def read_month(text: str) -> date:
    """The first day of the month of a text such as `2026-10`. Raises UnusableSpan for any other text, and for months
    outside the years that are reported."""
    try:
        month = date.fromisoformat(f"{text}-01")
    except ValueError:
        raise UnusableSpan(f"{text!r} is no month: give a year and a month, such as 2026-10") from None
    if not FIRST_YEAR <= month.year <= LAST_YEAR:
        raise UnusableSpan(f"{text} is out of range: years from {FIRST_YEAR} to {LAST_YEAR} are reported")
    return month


def month_of(day: date, time_zone: str) -> Span:
    return _months(day.replace(day=1), 1, time_zone)


def quarter_of(day: date, time_zone: str) -> Span:
    return _months(date(day.year, day.month - (day.month - 1) % 3, 1), 3, time_zone)


def _months(first_day: date, months: int, time_zone: str) -> Span:
    """The span of this many months from the first day on."""
    years, month = divmod(first_day.month - 1 + months, 12)
    next_day = date(first_day.year + years, month + 1, 1)
    return Span(first_day, next_day - timedelta(days=1), time_zone)
