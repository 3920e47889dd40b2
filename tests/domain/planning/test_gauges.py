"""A fuel gauge is believed unless it rises on the road: properties of the rule, and trucks as examples."""

import random
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.planning.gauges import BELIEVABLE_RISE_PERCENT, BURNED_SHARE, Gauge, Reading, judge_newest_reading
from domain.roads import Point
from domain.roads.sphere import MILES_PER_DEGREE

NOW = datetime(2026, 11, 21, 14, 0, tzinfo=UTC)
MPG, CAPACITY = 5.0, 200.0
"""10 miles burn 1 %."""


def readings(*levels: tuple[float, float, float]) -> list[Reading]:
    """Readings of a truck that drives north and sends no speed. Each level is minute, mile and percent."""
    return [
        Reading(percent, NOW + timedelta(minutes=minute), Point(30.0 + mile / MILES_PER_DEGREE, -100.0))
        for minute, mile, percent in levels
    ]


def newest(read: Sequence[Reading]) -> Gauge:
    return judge_newest_reading(read, mpg=MPG, capacity_gallons=CAPACITY)


def on_the_road(*percents: float, start_mile: float = 0.0) -> Iterator[tuple[float, float, float]]:
    """A reading for each minute at 60 mph."""
    return ((minute, start_mile + minute, percent) for minute, percent in enumerate(percents))


def test_a_single_reading_is_believed() -> None:
    gauge = newest(readings((0, 0, 34)))
    assert (gauge.level_percent, gauge.off_percent, gauge.miles) == (34, 0, 0)


def test_the_expected_level_falls_by_the_fuel_burned() -> None:
    gauge = newest(readings((0, 0, 60), (60, 60, 53)))
    assert gauge.expected_percent == pytest.approx(54, abs=0.01)
    assert gauge.off_percent == pytest.approx(-1, abs=0.01)
    assert gauge.miles == pytest.approx(60, abs=0.1)
    assert gauge.level_percent == 53


def test_a_jump_on_the_road_is_not_believed() -> None:
    gauge = newest(readings(*on_the_road(*[20] * 30, 80)))
    assert not gauge.is_believed
    assert gauge.level_percent == pytest.approx(20 - 3.0, abs=0.01)


def test_a_gauge_that_stays_up_after_its_jump_is_not_believed_at_a_stop_either() -> None:
    standing = [(60 + minute, 41, 80) for minute in range(20)]
    gauge = newest(readings(*on_the_road(*[20] * 30, *[80] * 12), *standing))
    assert not gauge.is_believed
    assert gauge.level_percent == pytest.approx(20 - 4.1, abs=0.01)


def test_a_tank_that_is_filled_at_a_stop_is_believed() -> None:
    filling = [(30 + minute, 29, 20 + 6 * minute) for minute in range(11)]
    gauge = newest(readings(*on_the_road(*[20] * 30), *filling))
    assert gauge.is_believed
    assert gauge.level_percent == 80


def test_a_tank_that_is_filled_while_no_reading_comes_is_believed() -> None:
    assert newest(readings((0, 0, 20), (1, 1, 20), (31, 12, 90))).level_percent == 90
    assert newest(readings((0, 0, 20), (1, 1, 20), (13, 12, 90))).is_believed is False


@pytest.mark.parametrize("percent", [30, 60, 95])
def test_a_tank_that_was_filled_on_a_long_way_without_a_reading_is_believed(percent: float) -> None:
    """1,088 miles burn more than the tank had. So all fuel in it was bought on the way."""
    gauge = newest(readings((0, 0, 60), (1319, 1088, percent), (1320, 1088, percent)))
    assert gauge.is_believed
    assert gauge.expected_percent == pytest.approx(percent)


@given(st.floats(0, 95), st.floats(0, 900), st.floats(20, 95), st.floats(0, 900), st.integers(5, 600))
def test_a_purchase_between_two_readings_is_believed(
    start: float, miles_before: float, bought: float, miles_after: float, standing: int
) -> None:
    """The purchase is anywhere on the way where the fuel lasted. The tank holds 95 % at most."""
    left = max(start - 0.1 * miles_before, 0.0)
    level = max(min(left + bought, 95.0) - 0.1 * miles_after, 0.0)
    miles = miles_before + miles_after
    gauge = newest(readings((0, 0, start), (int(miles) + 1 + standing, miles, level)))
    assert gauge.is_believed
    assert gauge.level_percent == level


def test_each_purchase_of_a_day_is_believed_though_readings_are_far_apart() -> None:
    """A reading comes every three hours, in which 50 mph burn 15 %. The truck may have been standing before each."""
    day = [60, 45, 30, 90, 75, 60, 45, 90, 75, 60, 90]
    gauge = newest(readings(*((180 * n, 150 * n, percent) for n, percent in enumerate(day))))
    assert gauge.is_believed
    assert gauge.expected_percent == pytest.approx(90, abs=10)


def test_a_stuck_gauge_is_not_believed_though_there_was_time_to_fill_a_little() -> None:
    """A reading comes every half hour, in which 50 mph burn 2.5 %. Nobody buys so little again and again."""
    gauge = newest(readings(*((30 * n, 25 * n, 60) for n in range(21))))
    assert not gauge.is_believed
    assert gauge.level_percent == pytest.approx(10, abs=0.1)


def test_a_slow_truck_may_be_standing() -> None:
    moving = readings((0, 0, 20), (1, 1, 20), (2, 1.5, 90))
    assert not newest(moving).is_believed
    assert newest([*moving[:2], moving[2]._replace(speed_mph=0.0)]).is_believed


def test_a_single_reading_of_zero_is_ignored() -> None:
    assert newest(readings(*on_the_road(60, 60, 0, 60, 60))).level_percent == 60
    assert newest(readings(*on_the_road(0, 60, 60, 60, 60))).level_percent == 60


def test_after_a_jump_to_another_place_only_new_readings_count() -> None:
    gauge = newest(readings((0, 0, 20), (1, 0, 20), (2, 700, 80)))
    assert (gauge.level_percent, gauge.miles) == (80, 0)
    assert gauge.known_at == NOW + timedelta(minutes=2)


PERCENTS = st.floats(0, 100)


@given(st.lists(st.tuples(st.integers(1, 240), st.floats(0, 200), PERCENTS, st.none() | st.floats(0, 90)), min_size=1))
def test_the_level_taken_is_one_that_a_tank_can_have_and_never_more_than_was_read(
    steps: list[tuple[int, float, float, float | None]],
) -> None:
    minute, mile, read = 0, 0.0, []
    for minutes, miles, percent, speed_mph in steps:
        minute, mile = minute + minutes, mile + miles
        (one,) = readings((minute, mile, percent))
        read.append(one._replace(speed_mph=speed_mph))
    gauge = newest(read)
    assert 0 <= gauge.level_percent <= gauge.percent == read[-1].percent
    assert 0 <= gauge.expected_percent <= 100
    if not gauge.is_believed:
        assert gauge.level_percent < gauge.percent - BELIEVABLE_RISE_PERCENT


@settings(deadline=None)
@given(st.floats(30, 100), st.integers(2, 280), st.integers(0), st.floats(0.8, 1.25))
def test_readings_of_a_truck_that_only_burns_fuel_are_believed_despite_noise(
    start: float, minutes: int, seed: int, thirst: float
) -> None:
    noise = random.Random(seed)
    percents = [start - 0.1 * thirst * minute + noise.uniform(-2.5, 2.5) for minute in range(minutes)]
    gauge = newest(readings(*on_the_road(*[min(max(percent, 0), 100) for percent in percents])))
    assert gauge.is_believed
    assert gauge.level_percent == gauge.percent


@given(st.floats(5, 50), st.floats(0, 35), st.integers(3, 30), st.integers(1, 30), st.integers(0, 20))
def test_a_rise_is_believed_at_a_stop_and_not_on_the_road(
    level: float, rise: float, before: int, after: int, standing: int
) -> None:
    """The gauge rises by more than could be an error, to 98 % at most. Later the truck stands where nobody fuels."""
    driven = (before + after) * 0.1
    burned = [level - 0.1 * minute for minute in range(before + after)]
    rise += BELIEVABLE_RISE_PERCENT + BURNED_SHARE * driven + 1
    jumped = [*burned[:before], *(percent + rise for percent in burned[before:])]
    last = before + after - 1
    still = [(last + 1 + minute, last, jumped[-1]) for minute in range(standing)]
    on_road = newest(readings(*on_the_road(*jumped), *still))
    assert not on_road.is_believed
    assert on_road.level_percent == pytest.approx(max(burned[-1], 0.0), abs=0.11)  # the first level is that of three

    road = list(on_the_road(*jumped))
    stopped = [*road[:before], *((minute + 30, mile, percent) for minute, mile, percent in road[before:])]
    at_stop = newest(readings(*stopped, *((minute + 30, mile, percent) for minute, mile, percent in still)))
    assert at_stop.level_percent == at_stop.percent == jumped[-1]
