"""The chart of savings by week: bars on the zero line, and axes that a person can read."""

from collections.abc import Sequence
from datetime import date, timedelta
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from domain.savings.report import NO_PLANS, Figures, Week
from ingress.console.savings_chart import PLOT, dollars_in_short, draw_prices, draw_savings


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
    assert [tick.label for tick in chart.days] == ["Jan 5", "Jan 12", "Jan 19"]
    assert [bar.label for bar in chart.bars] == ["$250", "−$50", ""]


def test_many_weeks_have_few_labels_and_the_year() -> None:
    chart = draw_savings(weeks_of([1_000] * 104))
    assert len(chart.days) <= 8
    assert chart.days[0].label == "Jan 5, 2026"
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


def test_the_target_is_a_line_that_is_drawn_though_no_week_reaches_it() -> None:
    chart = draw_savings(weeks_of([25_000, 10_000]), target=400)
    assert chart.target is not None
    assert chart.target.label == "target $400"
    assert (chart.target.at, chart.amounts[-1].label) == (PLOT.top, "$400")
    assert draw_savings(weeks_of([25_000])).target is None


def test_prices_of_a_lane_are_those_of_its_plans() -> None:
    """400 dollars for 100 gallons that cost 450 dollars on average; a week without a purchase has no price."""
    weeks = weeks_of([5_000, 2_500, 0])
    weeks[1] = weeks[1]._replace(figures=NO_PLANS)
    chart = draw_prices(weeks)
    assert chart is not None
    assert [(week.planned, week.average) for week in chart.weeks] == [(4.0, 4.5), (4.0, 4.0)]
    assert chart.weeks[0].average_y < chart.weeks[0].planned_y, "dearer is higher"
    assert chart.weeks[1].average_y == chart.weeks[1].planned_y
    assert [tick.label for tick in chart.prices] == ["$4.00", "$4.10", "$4.20", "$4.30", "$4.40", "$4.50"]
    assert len(chart.days) == 3
    assert draw_prices([weeks[1]]) is None


@given(st.lists(st.integers(-(10**6), 10**6), min_size=1, max_size=60))
def test_no_price_is_drawn_outside(cents: list[int]) -> None:
    chart = draw_prices(weeks_of(cents))
    assert chart is not None
    for week in chart.weeks:
        assert all(PLOT.top - 0.2 <= y <= PLOT.bottom + 0.2 for y in (week.planned_y, week.average_y))
    assert 2 <= len(chart.prices) <= 8


@given(st.lists(st.integers(-(10**9), 10**9), min_size=1, max_size=60), st.sampled_from([0, 0.01, 75.5, 10**7]))
def test_nothing_is_drawn_outside_and_the_axis_is_short(cents: list[int], target: float) -> None:
    chart = draw_savings(weeks_of(cents), target=target)
    assert chart.target is None or PLOT.top - 0.1 <= chart.target.at <= PLOT.bottom + 0.1
    assert all(PLOT.top - 0.1 <= bar.y and bar.y + bar.height <= PLOT.bottom + 0.2 for bar in chart.bars)
    assert all(PLOT.left <= bar.x and bar.x + bar.width <= PLOT.right + 0.2 for bar in chart.bars)
    assert 2 <= len(chart.amounts) <= 8
    assert "$0" in [tick.label for tick in chart.amounts]
    assert chart.amounts[0].at == PLOT.bottom
    assert chart.amounts[-1].at == PLOT.top
