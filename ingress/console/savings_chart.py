"""The charts of the pages Savings: the savings of each week as a bar, with the company's target as a line; and for a
lane the planned price of each week beside the average of its corridor.
"""

from collections.abc import Sequence
from datetime import date, timedelta
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
"""Most dates on the axis; days with their year need room."""
_MOST_LABELED = 12
"""Most bars with their amounts. More have no room for them, and the text under the pointer and the table have them."""


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
    """The amount; empty without room."""
    label_y: float
    week: Week

    @property
    def middle(self) -> float:
        return round(self.x + self.width / 2, 1)


class SavingsChart(NamedTuple):
    bars: list[Bar]
    amounts: list[Tick]
    """The axis of dollars, which has a zero."""
    days: list[Tick]
    """The axis of days: the first day of every week, or of some of them."""
    zero: float
    target: Tick | None
    """The line of the target."""


def draw_savings(weeks: Sequence[Week], *, target: float = 0) -> SavingsChart:
    """Draw the weeks, the oldest on the left. Savings stand on the zero line, losses hang below it. `target` is in
    dollars a week, 0 for none."""
    dollars = [float(week.figures.saved) for week in weeks]
    highest = max(0.0, target, *dollars)
    step = _round_step(highest - min(0.0, *dollars))
    first, last = _floor(min(0.0, *dollars), step), -_floor(-highest, step)
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
    days = _days([(one.middle, one.week.first_day) for one in bars])
    amounts = [Tick(y(number * step), dollars_in_short(number * step)) for number in range(first, last + 1)]
    line = Tick(y(target), f"target {dollars_in_short(target)}") if target else None
    return SavingsChart(bars, amounts, days, y(0), line)


def _days(weeks: Sequence[tuple[float, date]]) -> list[Tick]:
    """The axis of days: the first day of every week, or of some of them, at its place."""
    has_years = weeks[-1][1] - weeks[0][1] > timedelta(days=330)
    every = -(-len(weeks) // (_MOST_DATES if has_years else _MOST_DAYS))
    return [Tick(at, f"{day:%b %-d, %Y}" if has_years else f"{day:%b %-d}") for at, day in weeks[::every]]


class PricedWeek(NamedTuple):
    """A week in which plans buy fuel: the planned price of a gallon, the average of the corridors, and their places."""

    first_day: date
    planned: float
    average: float
    x: float
    planned_y: float
    average_y: float


class PriceChart(NamedTuple):
    weeks: list[PricedWeek]
    prices: list[Tick]
    days: list[Tick]

    @property
    def planned_points(self) -> str:
        return " ".join(f"{week.x},{week.planned_y}" for week in self.weeks)

    @property
    def average_points(self) -> str:
        return " ".join(f"{week.x},{week.average_y}" for week in self.weeks)


def draw_prices(weeks: Sequence[Week]) -> PriceChart | None:
    """Draw the dollars of a gallon, week by week; None if no week has a purchase."""
    priced = [(number, week) for number, week in enumerate(weeks) if week.figures.gallons]
    if not priced:
        return None
    both = [
        (float(week.figures.cost / week.figures.gallons), float(week.figures.average_cost / week.figures.gallons))
        for _, week in priced
    ]
    lowest, highest = min(map(min, both)), max(map(max, both))
    step = _round_step(highest - lowest)
    first = _floor(lowest, step)
    last = max(-_floor(-highest, step), first + 1)
    width = (PLOT.right - PLOT.left) / len(weeks)

    def x(number: int) -> float:
        return round(PLOT.left + (number + 0.5) * width, 1)

    def y(price: float) -> float:
        return round(PLOT.bottom - (price / step - first) / (last - first) * (PLOT.bottom - PLOT.top), 1)

    return PriceChart(
        [
            PricedWeek(week.first_day, planned, average, x(number), y(planned), y(average))
            for (number, week), (planned, average) in zip(priced, both, strict=True)
        ],
        [Tick(y(number * step), f"${number * step:.2f}") for number in range(first, last + 1)],
        _days([(x(number), week.first_day) for number, week in enumerate(weeks)]),
    )


def dollars_in_short(amount: float) -> str:
    """An amount such as `$1,250`, `$0.50` or `−$20`, with cents only below ten dollars."""
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
