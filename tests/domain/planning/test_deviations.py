"""A truck has left its plan's road after 15 minutes more than 10 miles off it. Its tank shows that a stop was
passed."""

import math
import random
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from domain.planning.deviations import (
    Deviation,
    FuelStop,
    NextComparison,
    PlannedWay,
    TrackedFix,
    find_deviation,
    with_levels_of_gauge,
)
from domain.roads import Point
from domain.roads.sphere import MILES_PER_DEGREE
from tests.repeatable import examples

NOON = datetime(2026, 12, 1, 12, tzinfo=UTC)
SOUTH = 35.0
MILES = 400.0
PERCENT_PER_MILE = 0.1
"""The percent of a tank of 200 gallons that a mile burns at 5 mpg."""


def minutes(number: float) -> timedelta:
    return timedelta(minutes=number)


def place(north_miles: float, east_miles: float = 0.0) -> Point:
    latitude = SOUTH + north_miles / MILES_PER_DEGREE
    return Point(latitude, -100 + east_miles / MILES_PER_DEGREE / math.cos(math.radians(latitude)))


def way(
    *stops: tuple[float, float, float],
    turns_at: float | None = None,
    reached: Sequence[tuple[datetime, float]] = (),
    start_percent: float | None = 60.0,
) -> PlannedWay:
    """A road due north, or north and back; each fuel stop with its mile, how far east of the road it lies, and the
    percent of capacity to be fueled."""
    miles = np.arange(0.0, MILES + 1, 10.0)
    north = miles if turns_at is None else np.where(miles <= turns_at, miles, 2 * turns_at - miles)
    line = np.array([place(one) for one in north])
    fuel_stops = [
        FuelStop(f"stop at {mile:g}", place(float(np.interp(mile, miles, north)), east), mile, percent)
        for mile, east, percent in stops
    ]
    return PlannedWay(line, miles, fuel_stops, reached, start_percent, PERCENT_PER_MILE)


def drive(
    *legs: tuple[float, float],
    start: datetime = NOON,
    fuel: Callable[[float], float | None] | None = None,
    mph: float = 60,
) -> list[TrackedFix]:
    """Fixes a minute apart, over these points given as miles north and east; `fuel` is the level by miles driven."""
    fixes = [TrackedFix(start, *place(*legs[0]), fuel(0.0) if fuel else None)]
    driven, number = 0.0, 0
    for (north, east), (to_north, to_east) in pairwise(legs):
        length = math.hypot(to_north - north, to_east - east)
        count = max(1, round(length / mph * 60))
        for step in range(1, count + 1):
            share, number = step / count, number + 1
            there = place(north + share * (to_north - north), east + share * (to_east - east))
            level = fuel(driven + share * length) if fuel else None
            fixes.append(TrackedFix(start + minutes(number), *there, level))
        driven += length
    return fixes


def followed(
    way: PlannedWay, fixes: Sequence[TrackedFix], *, ends: Sequence[int] = (), newest_decides: bool = False
) -> tuple[Deviation | None, int]:
    """The first deviation, and how many fuel stops were passed by then. The fixes come in portions that end at `ends`.
    As in the feed, a portion is compared only from `NextComparison.at` on."""
    watch = NextComparison(fixes[0].recorded_at, fixes[0].recorded_at, 0)
    for end in [*sorted(set(ends)), len(fixes)]:
        known = fixes[:end]
        if not known or known[-1].recorded_at < watch.at:
            continue
        portion = [fix for fix in known if fix.recorded_at >= watch.since]
        deviation, watch = find_deviation(
            way,
            portion,
            fuel_stops_passed=watch.fuel_stops_passed,
            history=lambda known=known: known,  # type: ignore[misc]
            newest_decides=newest_decides,
        )
        if deviation is not None:
            return deviation, watch.fuel_stops_passed
    return None, watch.fuel_stops_passed


def found(way: PlannedWay, fixes: Sequence[TrackedFix], *, newest_decides: bool = False) -> tuple[str, float] | None:
    """The kind of the first deviation, and the minutes after which it shows."""
    deviation, _ = followed(way, fixes, newest_decides=newest_decides)
    return (deviation.kind, (deviation.at - NOON) / minutes(1)) if deviation is not None else None


def test_a_truck_on_its_road_has_not_left_it() -> None:
    assert found(way(), drive((0, 0), (390, 9))) is None


def test_fifteen_minutes_more_than_ten_miles_off_are_a_deviation() -> None:
    fixes = drive((0, 0), (60, 0), (60, 60))
    deviation, _ = followed(way(), fixes)
    assert deviation is not None
    # 10.x miles off after 71 minutes, 15 minutes later it is found
    assert deviation == Deviation("off_road", NOON + minutes(86), "26 miles off the planned road, for 15 minutes")


@pytest.mark.parametrize(
    ("far", "what"),
    [([30], "one far fix"), ([30, 31, 32], "three in two minutes"), ([30, 100], "two far fixes, on the road between")],
)
def test_noise_is_no_deviation(far: list[int], what: str) -> None:
    fixes = drive((0, 0), (200, 0))
    for number in far:
        fixes[number] = fixes[number]._replace(longitude=fixes[number].longitude + 1)
    assert found(way(), fixes) is None, what


def test_two_far_fixes_with_a_gap_prove_no_deviation_and_a_third_does() -> None:
    fixes = [TrackedFix(NOON + minutes(30 * number), *place(50, 20)) for number in range(3)]
    assert found(way(), fixes[:2]) is None
    assert found(way(), fixes) == ("off_road", 60)


def test_a_truck_that_comes_back_within_fifteen_minutes_has_not_left() -> None:
    assert found(way(), drive((0, 0), (60, 0), (60, 17), (60, 0), (200, 0))) is None


def test_late_positions_of_a_truck_back_on_its_road_show_a_deviation_only_in_simulated_time() -> None:
    """A live plan would be made from where the truck is now, so only now counts. In simulated time the fix counts."""
    fixes = drive((0, 0), (60, 0), (60, 40), (60, 0), (200, 0))
    assert found(way(), fixes, newest_decides=True) is None
    assert found(way(), fixes) == ("off_road", 86)


def test_the_way_to_a_planned_fuel_stop_is_no_deviation() -> None:
    fixes = drive((0, 0), (100, 0), (100, 25), (100, 0), (200, 0))
    assert found(way((100, 25, 5.0)), fixes) is None
    assert found(way(), fixes) is not None


def test_a_truck_that_turns_back_on_its_road_has_not_left_it_and_one_that_goes_home_has() -> None:
    """The plan has no road behind the place where it begins."""
    assert found(way(), drive((0, 0), (100, 0), (0, 0))) is None
    kind, after = found(way(), drive((0, 0), (30, 0), (-60, 0))) or ("", 0.0)
    assert (kind, after) == ("off_road", 30 + 30 + 11 + 15)


def level(start: float, *fueled: tuple[float, float]) -> Callable[[float], float]:
    """The level by miles driven, where so many percent are fueled after so many miles."""
    return lambda mile: start - PERCENT_PER_MILE * mile + sum(percent for at, percent in fueled if mile > at)


STOP = (150.0, 0.0, 30.0)


def test_a_fuel_stop_is_passed_when_the_level_does_not_rise_there() -> None:
    deviation, passed = followed(way(STOP), drive((0, 0), (300, 0), fuel=level(60)))
    assert deviation is not None
    assert (deviation.kind, deviation.at, passed) == ("stop_passed", NOON + minutes(161), 0)
    assert deviation.text == "passed stop at 150 by 10 miles without fueling, 44 % in the tank"


@pytest.mark.parametrize(
    ("fuel", "what"),
    [
        (level(60, (150, 30)), "fueled there"),
        (level(60, (150, 16)), "more than half of it"),
        (level(60, (110, 30)), "fueled 40 miles before"),
        (level(60, (158, 30)), "fueled 8 miles later"),
        (None, "no level is told"),
        (lambda mile: 45.0 if mile == 160 else level(60, (150, 30))(mile), "one odd reading"),
    ],
)
def test_a_fuel_stop_is_not_passed_when_readings_show_fueling_or_nothing(
    fuel: Callable[[float], float] | None, what: str
) -> None:
    assert followed(way(STOP), drive((0, 0), (300, 0), fuel=fuel)) == (None, 1), what


def test_a_purchase_that_a_gauge_cannot_show_is_not_missed() -> None:
    assert followed(way((150, 0, 9.9)), drive((0, 0), (300, 0), fuel=level(60))) == (None, 1)


def test_a_stop_without_a_reading_before_it_is_not_passed() -> None:
    fixes = drive((120, 0), (300, 0), fuel=level(60))
    assert found(way(STOP, start_percent=None), fixes) is None
    assert found(way(STOP, start_percent=75.0), fixes) == ("stop_passed", 41)


def test_fuel_bought_at_one_stop_does_not_count_for_the_next() -> None:
    stops = (STOP, (180.0, 0.0, 30.0))
    assert found(way(*stops), drive((0, 0), (300, 0), fuel=level(60, (150, 30)))) == ("stop_passed", 191)
    assert followed(way(*stops), drive((0, 0), (300, 0), fuel=level(60, (150, 30), (180, 30)))) == (None, 2)


def test_a_passed_stop_stays_passed_though_the_driver_fuels_at_the_next_one() -> None:
    """The second stop lies some miles behind the first."""
    stops = (STOP, (220.0, 0.0, 30.0))
    assert found(way(*stops), drive((0, 0), (300, 0), fuel=level(60, (220, 30)))) == ("stop_passed", 161)


def test_a_stop_on_the_way_back_is_not_passed_on_the_way_out() -> None:
    """The stop at mile 350 lies at mile 50 too. On the way back the stop that was reached tells which pass is meant."""
    back = (350.0, 0.0, 30.0)
    out = drive((0, 0), (200, 0), fuel=level(90))
    home = drive((200, 0), (10, 0), start=NOON + minutes(240), fuel=level(70))
    reached = [(NOON + minutes(200), 200.0)]
    assert found(way(back, turns_at=200), out) is None
    assert found(way(back, turns_at=200, reached=reached), out + home) == ("stop_passed", 240 + 161)
    home = drive((200, 0), (10, 0), start=NOON + minutes(240), fuel=level(70, (150, 30)))
    assert followed(way(back, turns_at=200, reached=reached), out + home) == (None, 1)


def test_a_truck_that_fuels_and_leaves_the_road_soon_after_has_passed_its_stop() -> None:
    fixes = drive((0, 0), (153, 0), (153, 60), fuel=level(60, (150, 30)))
    deviation, passed = followed(way(STOP), fixes)
    assert deviation is not None
    assert (deviation.kind, passed) == ("off_road", 1)
    assert followed(way(STOP), drive((0, 0), (153, 0), (153, 60), fuel=level(60)))[1] == 0


points = st.tuples(st.floats(-30, 330), st.floats(-40, 40))
trips = st.lists(points, min_size=1, max_size=5).map(lambda legs: [(0.0, 0.0), *legs])
dice = st.integers(0, 10**6).map(random.Random)


@pytest.mark.slow
@settings(max_examples=examples(40), deadline=None)
@given(trips, st.lists(st.tuples(st.floats(0, 400), st.floats(0, 40)), max_size=3), dice)
def test_the_first_deviation_does_not_depend_on_how_fixes_come_in(
    legs: list[tuple[float, float]], fueled: list[tuple[float, float]], rng: random.Random
) -> None:
    road = way((80, 3, 25.0), (150, 0, 30.0), (220, 20, 20.0))
    fixes = drive(*legs, fuel=level(70, *fueled))
    at_once = followed(road, fixes)
    for count in (1, 3, 10):
        assert followed(road, fixes, ends=rng.sample(range(len(fixes) + 1), min(count, len(fixes)))) == at_once
    assert followed(road, fixes, ends=range(len(fixes))) == at_once


@pytest.mark.slow
@settings(max_examples=examples(40), deadline=None)
@example(19.0, 10.0, 3.0, random.Random(633))
@given(st.floats(0, 25), st.floats(2.5, 40), st.floats(2.5, 40), dice)
def test_a_driver_who_follows_the_plan_is_never_found_to_deviate(
    detour_miles: float, first: float, second: float, rng: random.Random
) -> None:
    """The gauge has noise of up to 2 %, the real road is up to 9 miles from the known one, single fixes are wild,
    readings are missing, and the tracker goes silent for a while."""
    road = way((80, detour_miles, first), (200, 4, second))
    aside = [rng.uniform(-9, 9) for _ in range(2)]
    legs = [
        (0.0, 0.0),
        (79.0, 0.0),
        (80.0, detour_miles),
        (81.0, 0.0),
        (140.0, aside[0]),
        (200.0, 4.0),
        (320.0, aside[1]),
    ]
    driven = [math.dist(one, other) for one, other in pairwise(legs)]
    fixes = [
        fix._replace(fuel_percent=(fix.fuel_percent or 0) + rng.uniform(-2, 2) if rng.random() < 0.9 else None)
        for fix in drive(*legs, fuel=level(60, (sum(driven[:2]), first), (sum(driven[:5]), second)))
    ]
    for number in rng.sample(range(10, len(fixes) - 10, 20), 3):
        fixes[number] = fixes[number]._replace(latitude=fixes[number].latitude + 0.5)
    gap = rng.randrange(len(fixes))
    fixes[gap : gap + rng.randrange(120)] = []
    assert followed(road, fixes, ends=[rng.randrange(len(fixes)) for _ in range(5)])[0] is None
    assert followed(road, fixes, newest_decides=True)[0] is None


@pytest.mark.parametrize(
    ("sent", "start", "live", "sandbox"),
    [
        ((40, 0, 40, None), 40, (40, None, 40, None), (40, 0, 40, None)),
        ((0, 0.62, 1), None, (None, None, None), (0, 0.62, 1)),
        ((12, 5, 1, 0), 40, (12, 5, 1, 0), (12, 5, 1, 0)),
        ((0, 0), 8, (0, 0), (0, 0)),
        ((255, 102, 101, 0), 40, (None, None, 101, None), (None, None, 101, 0)),
    ],
)
def test_levels_that_say_nothing_are_left_out(
    sent: Sequence[float | None],
    start: float | None,
    live: Sequence[float | None],
    sandbox: Sequence[float | None],
) -> None:
    fixes = [TrackedFix(NOON, 41.0, -88.0, percent) for percent in sent]
    for zero_counts, kept in ((False, live), (True, sandbox)):
        found = with_levels_of_gauge(fixes, start_percent=start, zero_counts=zero_counts)
        assert tuple(fix.fuel_percent for fix in found) == kept
