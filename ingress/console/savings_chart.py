"""The chart of the pages Savings: the savings of each week as a bar, with an axis of days and one of dollars."""

from collections.abc import Sequence
from datetime import timedelta
from typing import NamedTuple

from domain.savings.report import Week


class Plot(NamedTuple):
    """The drawing in its own units: its size, and the rectangle of the bars in it."""

    width: float = 1000.0
    height: float = 280.0
    left: float = 84.0
    right: float = 988.0
    top: float = 22.0
    bottom: float = 234.0


PLOT = Plot()
_GAP = 6.0
_MOST_AMOUNTS = 5
_MOST_DAYS = 12
_MOST_DATES = 8
"""Days with their year need more room."""
_MOST_LABELED = 12
"""More bars have no room for their amounts: those are told under the pointer and in the table."""


class Tick(NamedTuple):
    at: float
    label: str


class Bar(NamedTuple):
    """The savings of a week as a rectangle of the chart."""

    x: float
    y: float
    width: float
    height: float
    is_loss: bool
    label: str
    """The amount, where there is room for it."""
    label_y: float
    week: Week

    @property
    def middle(self) -> float:
        return round(self.x + self.width / 2, 1)


class SavingsChart(NamedTuple):
    bars: list[Bar]
    amounts: list[Tick]
    """The axis of dollars. One of them is zero."""
    days: list[Tick]
    """The axis of days: the first day of every week, or of some of them."""
    zero: float


def draw_savings(weeks: Sequence[Week]) -> SavingsChart:
    """Draw the weeks, the oldest on the left. Savings stand on the zero line, losses hang below it."""
    dollars = [float(week.figures.saved) for week in weeks]
    step = _round_step(max(0.0, *dollars) - min(0.0, *dollars))
    first, last = _floor(min(0.0, *dollars), step), -_floor(-max(0.0, *dollars), step)
    last = last if last > first else first + 1

    def y(amount: float) -> float:
        return round(PLOT.bottom - (amount / step - first) / (last - first) * (PLOT.bottom - PLOT.top), 1)

    width = (PLOT.right - PLOT.left) / len(weeks)
    gap = min(_GAP, width / 4)
    bars = []
    for number, (week, amount) in enumerate(zip(weeks, dollars, strict=True)):
        top, bottom = y(max(amount, 0)), y(min(amount, 0))
        bars.append(
            Bar(
                round(PLOT.left + number * width + gap / 2, 1),
                top,
                round(width - gap, 1),
                round(bottom - top, 1),
                amount < 0,
                dollars_in_short(amount) if amount and len(weeks) <= _MOST_LABELED else "",
                round(bottom + 14 if amount < 0 else top - 5, 1),
                week,
            )
        )
    has_years = weeks[-1].first_day - weeks[0].first_day > timedelta(days=330)
    every = -(-len(weeks) // (_MOST_DATES if has_years else _MOST_DAYS))
    days = [
        Tick(one.middle, f"{one.week.first_day:%b %d, %Y}" if has_years else f"{one.week.first_day:%b %d}")
        for one in bars[::every]
    ]
    amounts = [Tick(y(number * step), dollars_in_short(number * step)) for number in range(first, last + 1)]
    return SavingsChart(bars, amounts, days, y(0))


def dollars_in_short(amount: float) -> str:
    """`$1,250`, `$0.50`, `−$20`: cents only below ten dollars."""
    size = abs(amount)
    return f"{'−' if amount < 0 else ''}${size:,.0f}" if size >= 10 or size == 0 else _cents(amount)


def _cents(amount: float) -> str:
    text = f"{'−' if amount < 0 else ''}${abs(amount):.2f}"
    return text.removesuffix(".00")


def _round_step(distance: float) -> float:
    """The smallest of 1, 2, 5, 10, 20, 50 ... cents that divides the distance into few parts."""
    step = 0.01
    while True:
        for factor in (1, 2, 5):
            if distance / (step * factor) <= _MOST_AMOUNTS:
                return step * factor
        step *= 10


def _floor(amount: float, step: float) -> int:
    return int((amount / step + 1e-9) // 1)
