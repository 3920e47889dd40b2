"""The outlook of a truck on its way: faults of gauges are no burn."""

import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.burn.levels import LevelAtMile
from domain.burn.shortfalls import Ahead, Outlook, PlannedBurn, look_ahead
from tests.repeatable import examples

NOW = datetime(2026, 11, 21, 14, 0, tzinfo=UTC)
PLANNED = PlannedBurn(6.5, 200.0)
PER_MILE = PLANNED.percent_per_mile

seeds = st.integers(0, 10**6).map(random.Random)


def outlook(miles: int, shown: Callable[[float], float], rng: random.Random, *, ahead: float = 450.0) -> Outlook | None:
    """The outlook of a truck that began with 90 %, by the levels that its gauge showed every 5 miles."""
    levels = [
        LevelAtMile(NOW + timedelta(minutes=mile), float(mile), float(max(round(shown(mile) + rng.gauss(0, 1.0)), 0)))
        for mile in range(0, miles + 1, 5)
    ]
    stop = Ahead(ahead, 1.0, max(90 - PER_MILE * ahead, 16.0))
    return look_ahead(levels, planned=PLANNED, ahead=stop, floor_percent=12.0)


@settings(deadline=None, max_examples=examples(15))
@given(seeds, st.sampled_from([0, 40, 100]), st.sampled_from([100, 200, 300]))
def test_a_gauge_that_stands_still_never_makes_a_truck_thrifty(rng: random.Random, still_from: int, miles: int) -> None:
    """Nor does one that shows a full tank for the first hundred miles."""
    for shown in (lambda mile: 90 - PER_MILE * min(mile, still_from), lambda mile: min(90.0, 100 - PER_MILE * mile)):
        found = outlook(miles, shown, rng)
        assert found is None or found.mpg <= 6.5 / 0.8 + 1e-9


@settings(deadline=None, max_examples=examples(15))
@given(seeds, st.sampled_from([10.0, 15.0, 25.0]), st.sampled_from([60, 100, 150]))
def test_a_gauge_that_falls_at_once_shows_less_fuel_but_no_other_burn(
    rng: random.Random, fallen: float, at: int
) -> None:
    """A night of idling, another sensor, a thief."""
    found = outlook(240, lambda mile: 90 - PER_MILE * mile - (fallen if mile >= at else 0.0), rng)
    assert found is not None
    assert found.mpg == pytest.approx(6.5, rel=0.08)
    assert found.level_percent == pytest.approx(90 - PER_MILE * 240 - fallen, abs=2.0)


@settings(deadline=None, max_examples=examples(15))
@given(seeds, st.floats(1.15, 1.6))
def test_a_truck_that_burns_more_is_measured_all_the_same(rng: random.Random, burns: float) -> None:
    found = outlook(240, lambda mile: 90 - burns * PER_MILE * mile, rng)
    assert found is not None
    assert found.mpg == pytest.approx(6.5 / burns, rel=0.08)


def test_a_tank_filled_by_the_way_is_no_burn() -> None:
    found = outlook(240, lambda mile: 60 - PER_MILE * mile + (30 if mile > 100 else 0), random.Random(1))
    assert found is not None
    assert found.mpg == pytest.approx(6.5, rel=0.05)
    assert not found.falls_short


@pytest.mark.parametrize(("miles", "short"), [(180, True), (240, False), (250, True)])
def test_a_truck_at_the_pump_gets_no_new_plan(miles: int, short: bool) -> None:
    """A truck that falls short on the way gets one, and so does one that drove past the pump."""
    found = outlook(miles, lambda mile: 27 - 1.1 * PER_MILE * mile, random.Random(1), ahead=242.0)
    assert found is not None
    assert found.falls_short == short
