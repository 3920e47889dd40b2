"""The chart of savings by week: bars on the zero line, and axes that a person can read."""

from collections.abc import Sequence
from datetime import date, timedelta
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from domain.savings.report import Figures, Week
from ingress.console.savings_chart import PLOT, dollars_in_short, draw_savings


def weeks_of(cents: Sequence[int]) -> list[Week]:
    first = date(2026, 1, 5)
    return [
        Week(first + timedelta(weeks=number), Figures(1, 1, Decimal(100), 40_000, saved))
        for number, saved in enumerate(cents)
    ]


def test_savings_stand_on_the_zero_line_and_losses_hang_below_it() -> None:
    chart = draw_savings(weeks_of([25_000, -5_000, 0]))
    gain, loss, nothing = chart.bars

    assert gain.y + gain.height == chart.zero == loss.y
    assert (gain.is_loss, loss.is_loss, nothing.height) == (False, True, 0)
    assert gain.height == 5 * loss.height
    assert [tick.label for tick in chart.amounts] == ["−$100", "$0", "$100", "$200", "$300"]
    assert [tick.label for tick in chart.days] == ["Jan 05", "Jan 12", "Jan 19"]
    assert [bar.label for bar in chart.bars] == ["$250", "−$50", ""]


def test_many_weeks_have_few_labels_and_the_year() -> None:
    chart = draw_savings(weeks_of([1_000] * 104))
    assert len(chart.days) <= 8
    assert chart.days[0].label == "Jan 05, 2026"
    assert {bar.label for bar in chart.bars} == {""}


def test_amounts_are_short() -> None:
    assert list(map(dollars_in_short, (0, 0.5, 5, -2.25, 12.4, 1250, -20))) == [
        "$0",
        "$0.50",
        "$5",
        "−$2.25",
        "$12",
        "$1,250",
        "−$20",
    ]


@given(st.lists(st.integers(-(10**9), 10**9), min_size=1, max_size=60))
def test_nothing_is_drawn_outside_and_the_axis_is_short(cents: list[int]) -> None:
    chart = draw_savings(weeks_of(cents))
    assert all(PLOT.top - 0.1 <= bar.y and bar.y + bar.height <= PLOT.bottom + 0.2 for bar in chart.bars)
    assert all(PLOT.left <= bar.x and bar.x + bar.width <= PLOT.right + 0.2 for bar in chart.bars)
    assert 2 <= len(chart.amounts) <= 8
    assert "$0" in [tick.label for tick in chart.amounts]
    assert chart.amounts[0].at == PLOT.bottom
    assert chart.amounts[-1].at == PLOT.top
