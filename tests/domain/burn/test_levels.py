"""The burn that fuel levels show: laws of the rule, and gauges as examples."""

import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.burn.levels import KnownPurchase, LevelAtMile, MeasuredBurn, measure_burn

NOW = datetime(2026, 11, 21, 14, 0, tzinfo=UTC)
CAPACITY = 200.0

seeds = st.integers(0, 10**6).map(random.Random)
mpgs = st.floats(4.0, 9.0)


def driven(
    mpg: float,
    *,
    miles: float = 400,
    step: float = 5,
    start: float = 90,
    fills: Sequence[tuple[float, float]] = (),
    noise: random.Random | None = None,
) -> list[LevelAtMile]:
    """The levels of a truck at 60 mph. Fills are a mile and the gallons bought there."""
    levels = []
    for number in range(int(miles / step) + 1):
        mile = number * step
        gallons = start / 100 * CAPACITY - mile / mpg + sum(bought for at, bought in fills if at < mile)
        percent = 100 * gallons / CAPACITY + (noise.gauss(0, 1.5) if noise is not None else 0.0)
        levels.append(LevelAtMile(NOW + timedelta(minutes=mile), mile, percent))
    return levels


def measured(levels: Sequence[LevelAtMile], *bought: KnownPurchase) -> MeasuredBurn:
    burn = measure_burn(levels, capacity_gallons=CAPACITY, bought=bought)
    assert burn is not None
    return burn


@given(mpgs, st.floats(-5, 5), st.sampled_from([0.5, 2.0, 5.0, 20.0]))
def test_what_a_gauge_always_shows_too_much_changes_nothing(mpg: float, bias: float, step: float) -> None:
    burn = measured([one._replace(percent=one.percent + bias) for one in driven(mpg, step=step)])
    assert burn.mpg == pytest.approx(mpg, rel=1e-6)
    assert burn.miles == pytest.approx(400, abs=2)


@settings(deadline=None)
@given(mpgs, seeds)
def test_noise_moves_the_burn_by_a_few_spreads_at_most(mpg: float, rng: random.Random) -> None:
    burn = measured(driven(mpg, noise=rng))
    assert burn.spread_share < 0.06
    assert abs(burn.gallons - burn.miles / mpg) < 5 * burn.spread_gallons


@given(mpgs, seeds, st.floats(0, 150), st.data())
def test_no_single_level_decides(mpg: float, rng: random.Random, wrong: float, data: st.DataObject) -> None:
    levels = driven(mpg, noise=rng)
    at = data.draw(st.integers(0, len(levels) - 1))
    before = measured(levels)
    levels[at] = levels[at]._replace(percent=wrong)
    assert measured(levels).gallons == pytest.approx(before.gallons, abs=3 * before.spread_gallons)


@given(mpgs, st.floats(60, 340), st.floats(30, 80), st.sampled_from([0.5, 2.0, 5.0]))
def test_a_purchase_is_no_negative_burn(mpg: float, mile: float, gallons: float, step: float) -> None:
    burn = measured(driven(mpg, step=step, start=60, fills=[(mile, gallons)]))
    assert burn.mpg == pytest.approx(mpg, rel=1e-6)


@given(mpgs, st.floats(100, 300), seeds)
def test_known_gallons_prove_more_than_a_rise(mpg: float, mile: float, rng: random.Random) -> None:
    levels = driven(mpg, start=60, fills=[(mile, 60)], noise=rng)
    rise, known = measured(levels), measured(levels, KnownPurchase(mile, 60))
    assert known.spread_gallons < rise.spread_gallons
    assert abs(known.gallons - known.miles / mpg) < 5 * known.spread_gallons


def test_known_gallons_that_no_gauge_shows_went_elsewhere() -> None:
    assert measured(driven(6.5), KnownPurchase(200, 50)).mpg == pytest.approx(6.5)


def test_a_tracker_that_sends_nothing_proves_nothing() -> None:
    silent = [one._replace(percent=0.0) for one in driven(6.5)]
    assert measure_burn(silent, capacity_gallons=CAPACITY) is None
    full = [one._replace(percent=255.0) for one in driven(6.5)]
    assert measure_burn(full, capacity_gallons=CAPACITY) is None


@pytest.mark.parametrize("nothing", [0.0, 0.62])
def test_a_second_tracker_without_a_gauge_changes_nothing(nothing: float) -> None:
    """It sends as often as the first one."""
    levels = driven(6.0, step=1)
    second = [one._replace(percent=nothing, at=one.at + timedelta(seconds=20)) for one in levels]
    burn = measured(sorted([*levels, *second]))
    assert burn.mpg == pytest.approx(6.0, rel=0.01)


def test_zeros_between_levels_are_left_out() -> None:
    levels = driven(6.5)
    for at in (10, 11, 40, 60, 61):
        levels[at] = levels[at]._replace(percent=0.0)
    assert measured(levels).mpg == pytest.approx(6.5)


def test_few_miles_or_levels_prove_nothing() -> None:
    assert measure_burn([], capacity_gallons=CAPACITY) is None
    assert measure_burn(driven(6.5, miles=40), capacity_gallons=CAPACITY) is None
    assert measure_burn(driven(6.5, step=100), capacity_gallons=CAPACITY) is None


def test_a_purchase_in_a_long_silence_is_no_saving() -> None:
    """30 gallons were bought unseen. Nothing tells how much was burned there, but the ways before and behind do."""
    levels = driven(6.5, miles=600, fills=[(300, 30)])
    heard = [one for one in levels if not 200 < one.mile < 400]
    assert measured(heard).mpg == pytest.approx(6.5)


def test_a_truck_that_stands_burns_no_miles() -> None:
    moving = driven(6.5)
    waiting = [moving[40]._replace(at=moving[40].at + timedelta(minutes=minute)) for minute in range(120)]
    assert measured([*moving[:40], *waiting, *moving[41:]]).mpg == pytest.approx(6.5, rel=0.01)
