"""A fuel level that neither miles nor time explain needs a second reading, low as well as high."""

from collections.abc import Sequence
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.planning.gauges import Reading
from domain.planning.second_readings import CountedReadings, count_readings, newest_counted
from tests.domain.planning.test_gauges import CAPACITY, MPG, on_the_road, readings


def count(read: Sequence[Reading], *, zero_counts: bool = False) -> CountedReadings:
    return count_readings(read, mpg=MPG, capacity_gallons=CAPACITY, zero_counts=zero_counts)


def levels(read: Sequence[Reading], *, zero_counts: bool = False) -> tuple[list[float], list[float]]:
    """The levels that count, and those that wait for a second reading."""
    counted, doubted, *_ = count(read, zero_counts=zero_counts)
    return [one.percent for one in counted], [one.percent for one in doubted]


def standing(*percents: float, every: float = 1.0) -> list[Reading]:
    """A reading for each minute of a truck that stands."""
    return readings(*((number * every, 0, percent) for number, percent in enumerate(percents)))


@pytest.mark.parametrize("odd", [0, 12, 40, 100, 140, 255, 256])
def test_one_level_that_nothing_explains_waits_and_is_forgotten(odd: float) -> None:
    assert levels(standing(62, 61, odd))[0] == [62, 61]
    assert levels(standing(62, 61, odd, 61)) == ([62, 61, 61], [])


@pytest.mark.parametrize("percent", [5, 12, 30, 95, 100])
def test_a_level_that_is_read_again_counts(percent: float) -> None:
    assert levels(standing(62, 61, percent, percent)) == ([62, 61, percent, percent], [])


def test_readings_that_agree_span_ten_seconds() -> None:
    assert levels(standing(62, 61, 12, 12, every=1 / 60)) == ([62, 61], [12, 12])
    assert levels(standing(*[62] * 3, *[12] * 11, every=1 / 60)) == ([*[62] * 3, *[12] * 11], [])


@pytest.mark.parametrize("odd", [(0, 0, 0), (12, 90, 12), (30, 0, 95), (255, 12, 0)])
def test_a_level_is_disputed_since_the_first_of_the_readings_that_do_not_follow(odd: Sequence[float]) -> None:
    read = standing(62, 61, *odd)
    assert count(read).disputed_by == next(one for one in read[2:] if one.percent != 255)
    assert count([*read, *readings((9, 0, 61))]).disputed_by is None


def test_a_first_level_that_all_others_contradict_is_forgotten() -> None:
    assert levels(standing(12, 61, 61, 61)) == ([61, 61, 61], [])
    assert count(standing(12, 61)).is_confirmed is False
    assert count(standing(61)).is_confirmed is False
    assert count(standing(61, 62)).is_confirmed is True


def test_miles_and_idling_explain_a_fall() -> None:
    assert levels(readings((0, 0, 62), (300, 250, 37))) == ([62, 37], [])
    assert levels(readings((0, 0, 62), (60 * 24, 0, 40))) == ([62, 40], [])
    assert levels(readings((0, 0, 62), (30, 0, 40))) == ([62], [40])


def test_time_to_fuel_unseen_explains_a_rise() -> None:
    assert levels(readings((0, 0, 20), (15, 0, 95))) == ([20, 95], [])
    assert levels(readings((0, 0, 20), (5, 0, 95))) == ([20], [95])
    assert levels(readings((0, 0, 20), (65, 60, 95))) == ([20], [95])
    assert levels(readings((0, 0, 20), (76, 60, 95))) == ([20, 95], [])


def test_a_spike_on_the_road_is_forgotten() -> None:
    assert levels(readings(*on_the_road(50, 50, 75, 50, 49))) == ([50, 50, 50, 49], [])


def test_two_trackers_of_one_truck_are_not_believed_in_turns() -> None:
    assert levels(standing(62, 12, 62, 12, 61, 12)) == ([62, 62, 61], [12])


def test_a_gauge_that_shows_zero_is_none_unless_the_tank_was_nearly_empty() -> None:
    assert levels(standing(62, 0, 0, 0))[0] == [62]
    assert levels(standing(0, 0, 0)) == ([], [])
    assert levels(standing(4, 2, 0, 0)) == ([4, 2, 0, 0], [])
    assert levels(standing(0, 0, 0), zero_counts=True) == ([0, 0, 0], [])


@pytest.mark.parametrize("every", [1, 10, 60])
def test_the_zeros_of_a_tracker_whose_engine_is_off_all_night_are_no_idling(every: int) -> None:
    """The engine could have burned 9 % in 12 hours, and a gauge may be 10 % off."""
    night = [(minutes, 0, 0) for minutes in range(every, 12 * 60 + 1, every)]
    assert levels(readings((-1, 0, 17), (0, 0, 17), *night))[0] == [17, 17]
    assert levels(readings((-1, 0, 17), (0, 0, 17), *night, (721, 0, 17))) == ([17, 17, 17], [])
    assert levels(readings((0, 0, 17), (12 * 60, 0, 2)))[0] == [17, 2], "a level says something"


def test_a_zero_after_a_jump_to_another_place_does_not_count() -> None:
    assert levels(readings((0, 0, 62), (1, 40, 0))) == ([62], [0])


def test_a_truck_that_drives_on_with_next_to_nothing_sends_no_percentage() -> None:
    assert levels(readings(*on_the_road(*[0.62] * 30))) == ([], [])
    assert levels(readings(*on_the_road(*[0.62] * 30)), zero_counts=True) == ([], [])


def test_shares_of_a_tank_are_no_percentages_also_of_a_truck_that_stands() -> None:
    assert levels(standing(0.62, 0.62, 0.62)) == ([], [])
    assert levels(standing(1, 1, 1)) == ([], [])
    assert levels(standing(61, 0.61, 0.61, 0.61))[0] == [61]
    assert levels(standing(2, 0.9)) == ([2, 0.9], [])


def test_the_level_that_is_shown_is_the_newest_that_counts() -> None:
    assert newest_counted(standing(61, 62, 0), zero_counts=False) == 62
    assert newest_counted(standing(61, 12), zero_counts=False) == 61
    assert newest_counted(standing(61, 12, 12), zero_counts=False) == 12
    assert newest_counted(standing(255), zero_counts=False) is None
    assert newest_counted([], zero_counts=False) is None


@given(st.floats(20, 100), st.integers(3, 60), st.data())
def test_one_wrong_level_anywhere_is_never_the_newest_that_counts(
    start: float, count_of: int, data: st.DataObject
) -> None:
    """The truck drives at 60 mph. A level that is off by more than an error is forgotten with the next one."""
    true = [start - 0.1 * number for number in range(count_of)]
    at = data.draw(st.integers(0, count_of - 1))
    off = data.draw(st.floats(0, 255).filter(lambda percent: abs(percent - true[at]) > 11))
    sent = [*true[:at], off, *true[at + 1 :]]

    counted, doubted, *_ = count(readings(*on_the_road(*sent)))

    if at == count_of - 1:
        assert counted[-1].percent == true[-2]
    elif count_of > at + 2 or at > 0:
        assert (counted[-1].percent, list(doubted)) == (true[-1], [])


@given(st.floats(30, 100), st.floats(0, 15), st.integers(1, 60))
def test_a_theft_counts_from_its_second_reading_on(before: float, after: float, minutes: int) -> None:
    sent = readings(*((number, 0, before) for number in range(5)), (5 + minutes, 0, after), (6 + minutes, 0, after))

    assert count(sent[:-1], zero_counts=True).counted[-1].percent in (before, after)
    assert count(sent, zero_counts=True).counted[-1].percent == after
    assert sent[-1].recorded_at - sent[-2].recorded_at == timedelta(minutes=1)
