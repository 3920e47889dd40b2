"""Planned stops and purchases are compared without losing a cent or a gallon."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.fills.verdicts import BoughtFill, PlannedStop, Verdict, compare_with_plan
from domain.roads import Point

PLACES = [Point(41.7, -86.0 + number / 2) for number in range(5)]
prices = st.integers(2000, 7000).map(lambda mills: mills / 1000)
gallons = st.integers(1, 300_000).map(lambda thousandths: thousandths / 1000)


@st.composite
def planned_stops(draw: st.DrawFn) -> list[PlannedStop]:
    chosen = draw(st.lists(st.sampled_from(PLACES), max_size=4))
    stops = []
    for place in chosen:
        amount, price = draw(gallons), draw(prices)
        stops.append(PlannedStop("planned", place, amount, price, round(amount * price * 100)))
    return stops


fills = st.lists(
    st.builds(
        BoughtFill,
        st.just("bought"),
        st.none() | st.sampled_from(PLACES),
        gallons,
        st.integers(1, 200_000),
    ),
    max_size=6,
)


@pytest.mark.slow
@given(planned_stops(), fills, st.booleans())
def test_the_causes_add_up_to_the_difference_to_the_cent(
    planned: list[PlannedStop], bought: list[BoughtFill], is_finished: bool
) -> None:
    comparison = compare_with_plan(planned, bought, is_finished=is_finished)

    for row in comparison.verdicts:
        assert row.price_cents + row.gallons_cents + row.place_cents == row.paid_cents - row.planned_cents
    assert sum(row.paid_cents for row in comparison.verdicts) == sum(fill.cents for fill in bought)
    assert sum(row.bought_gallons for row in comparison.verdicts) == pytest.approx(sum(fill.gallons for fill in bought))
    if is_finished:
        assert sum(row.planned_cents for row in comparison.verdicts) == sum(stop.cents for stop in planned)
    for fill, number in zip(bought, comparison.numbers, strict=True):
        row = comparison.verdicts[number - 1]
        assert row.verdict is not Verdict.MISSED
        assert (row.verdict is Verdict.ELSEWHERE) == (row.place == fill.name)


def plan(*places: Point, amount: float = 100, price: float = 3.5) -> list[PlannedStop]:
    return [PlannedStop("planned", place, amount, price, round(amount * price * 100)) for place in places]


def bought(place: Point | None, amount: float, price: float) -> BoughtFill:
    return BoughtFill("bought", place, amount, round(amount * price * 100))


def told(planned: list[PlannedStop], *fills: BoughtFill, is_finished: bool = True) -> list[tuple[str, int, int, int]]:
    rows = compare_with_plan(planned, fills, is_finished=is_finished).verdicts
    return [(str(row.verdict), row.price_cents, row.gallons_cents, row.place_cents) for row in rows]


def test_a_stop_is_followed_within_five_gallons_or_a_tenth() -> None:
    assert told(plan(PLACES[0]), bought(PLACES[0], 110, 3.5)) == [("followed", 0, 3500, 0)]
    assert told(plan(PLACES[0]), bought(PLACES[0], 110.1, 3.5)) == [("partly", 0, 3535, 0)]
    assert told(plan(PLACES[0], amount=20), bought(PLACES[0], 25, 3.6)) == [("followed", 250, 1750, 0)]


def test_a_stop_that_was_swapped_costs_by_its_place_only() -> None:
    swapped = told(plan(PLACES[0]), bought(PLACES[1], 100, 3.9))
    assert swapped == [("missed", 0, -35000, 0), ("elsewhere", 0, 35000, 4000)]


def test_two_fills_at_one_stop_count_together_and_stops_ahead_are_not_missed_yet() -> None:
    planned = plan(PLACES[0], PLACES[1])
    fills = (bought(PLACES[0], 60, 3.5), bought(PLACES[0], 40, 3.5))
    assert told(planned, *fills, is_finished=False) == [("followed", 0, 0, 0)]
    assert [row[0] for row in told(planned, *fills)] == ["followed", "missed"]


def test_a_plan_that_stops_twice_at_one_place_has_a_fill_for_each() -> None:
    planned = plan(PLACES[0], PLACES[1], PLACES[0])
    fills = [bought(PLACES[0], 100, 3.5), bought(PLACES[0], 100, 3.5)]
    assert compare_with_plan(planned, fills, is_finished=True).numbers == [1, 3]


def test_a_plan_without_a_purchase_has_no_price_to_measure_by() -> None:
    assert told([], bought(PLACES[0], 100, 3.9)) == [("elsewhere", 0, 39000, 0)]
