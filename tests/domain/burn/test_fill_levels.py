"""A higher level is told at the purchase ahead only where the trip has shown that the planned one does not last."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.burn.fill_levels import (
    ToldFill,
    arrives_below_reserve,
    is_raised,
    left_behind_fill,
    needs_higher_level,
    sentence_of,
)
from domain.burn.levels import LevelAtMile
from domain.burn.shortfalls import (
    NEAR_FILL_MILES,
    Ahead,
    Fill,
    Outlook,
    PlannedBurn,
    look_ahead,
    look_behind_fill,
    next_look,
)

NOW = datetime(2026, 11, 21, 14, 0, tzinfo=UTC)
PLANNED = PlannedBurn(6.5, 200.0)
PER_MILE = PLANNED.percent_per_mile
MILE = 300.0
"""The mile of the purchase."""
BEHIND = 500.0
"""The miles to the next one, where the plan arrives with the reserve."""


def outlook(burns: float, *, begins: float = 60.0, at_mile: int = 240, fill: bool = True) -> Outlook:
    """The outlook of a truck that burns so many times what its plan says; `begins`: its first level in percent."""
    levels = [
        LevelAtMile(NOW + timedelta(minutes=mile), float(mile), round(begins - burns * PER_MILE * mile, 1))
        for mile in range(0, at_mile + 1, 5)
    ]
    purchase = Fill(15.0 + PER_MILE * BEHIND, BEHIND, 15.0) if fill else None
    ahead = Ahead(MILE, 0.0, begins - PER_MILE * MILE, purchase)
    found = look_ahead(levels, planned=PLANNED, ahead=ahead, floor_percent=12.0)
    assert found is not None
    return found


def test_a_truck_that_burns_more_needs_a_higher_level_shortly_before_the_pump() -> None:
    found = outlook(1.12)
    left = left_behind_fill(found)
    assert left is not None
    assert left < 13
    assert needs_higher_level(found)
    assert sentence_of(found, "Alma", "Dallas").startswith("burns 5.8 mpg instead of 6.5")
    assert sentence_of(found, "Alma", "Dallas").endswith(f"53 % behind Alma would leave {left:.0f} % at Dallas")


def test_far_from_the_pump_and_at_it_and_at_the_end_of_the_plan_nothing_is_told() -> None:
    assert not needs_higher_level(outlook(1.12, at_mile=int(MILE - NEAR_FILL_MILES) - 10))
    assert not needs_higher_level(outlook(1.12, at_mile=300))
    assert not needs_higher_level(outlook(1.12, fill=False))


@settings(deadline=None, max_examples=30)
@given(st.floats(0.8, 1.02))
def test_a_truck_that_burns_no_more_than_planned_needs_no_higher_level(burns: float) -> None:
    assert not needs_higher_level(outlook(burns))


@settings(deadline=None, max_examples=30)
@given(st.floats(0.8, 1.6))
def test_a_truck_is_never_told_a_level_and_a_shortfall_at_once(burns: float) -> None:
    found = outlook(burns)
    assert not (needs_higher_level(found) and found.falls_short)


@pytest.mark.parametrize(("burns", "is_below"), [(1.0, False), (1.05, False), (1.12, True), (1.25, False)])
def test_a_truck_arrives_below_the_reserve_that_keeps_the_floor_and_is_two_percent_short(
    burns: float, is_below: bool
) -> None:
    found = outlook(burns, begins=15.0 + PER_MILE * MILE)
    assert arrives_below_reserve(found, 15.0) == is_below
    assert found.falls_short == (burns == 1.25)


def test_the_reserve_counts_only_where_the_plan_keeps_it_up_to_a_purchase() -> None:
    begins = 15.0 + PER_MILE * MILE
    assert not arrives_below_reserve(outlook(1.12, begins=begins, fill=False), 15.0)
    assert not arrives_below_reserve(outlook(1.12, begins=begins, at_mile=300), 15.0)
    assert not arrives_below_reserve(outlook(1.0, begins=begins - 3), 15.0)


levels = st.one_of(st.none(), st.integers(0, 100).map(float))


@given(st.sampled_from([(1.0, 2.0), (3.0, 4.0)]), st.floats(30, 150), st.floats(30, 150), levels, levels)
def test_a_level_that_is_told_is_higher_at_the_same_place(
    place: tuple[float, float],
    old_gallons: float,
    new_gallons: float,
    old_percent: float | None,
    new_percent: float | None,
) -> None:
    old, new = ToldFill((1.0, 2.0), old_gallons, old_percent), ToldFill(place, new_gallons, new_percent)
    if is_raised(old, new):
        by_level = old_percent is not None and new_percent is not None
        assert place == old.place
        assert (new_percent or 0.0) > (old_percent or 0.0) if by_level else new_gallons > old_gallons
    assert not is_raised(old, old)


def test_one_look_near_a_purchase_is_enough() -> None:
    """A look at 80 miles has told the level, and no other one is asked for before the pump."""
    near, far = outlook(1.0, at_mile=220), outlook(1.0, at_mile=100)
    assert next_look(near, at=near.at, mile=220.0, ahead=near.ahead).below_percent < near.arrival_percent
    before = next_look(far, at=far.at, mile=100.0, ahead=far.ahead).below_percent
    assert before >= far.arrival_percent + 60 * PER_MILE * 0.9


def test_behind_a_told_level_the_truck_is_looked_at_when_the_way_behind_the_pump_shows_something() -> None:
    look = look_behind_fill(at=NOW, ahead=Ahead(50.0, 0.0, 30.0))
    assert look.since == NOW + timedelta(minutes=30)
    assert look.below_percent < 30.0
    assert timedelta(hours=3) < look.by - NOW < timedelta(hours=5)
