"""A truck's fixes show how long it stood at a place, and how much its level rose there."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest

from domain.burn.seen_purchases import PlacedFix, SeenPurchase, seen_purchase
from domain.roads import Point
from tests.domain.helpers import METERS_PER_DEGREE

START = datetime(2026, 11, 26, 12, tzinfo=UTC)
PUMP = Point(41.0, -85.0)
METERS_IN_MILE = 1609.344


def drive(miles_and_levels: Sequence[tuple[float, float | None]]) -> list[PlacedFix]:
    """A fix every five minutes, so many miles north of the pump."""
    return [
        PlacedFix(
            START + number * timedelta(minutes=5),
            Point(41.0 + miles * METERS_IN_MILE / METERS_PER_DEGREE, -85.0),
            level,
        )
        for number, (miles, level) in enumerate(miles_and_levels)
    ]


def test_a_purchase_is_a_rise_where_the_truck_stood() -> None:
    fixes = drive([(-8, 31), (-4, 30), (0, 30), (0.1, 55), (0, 80), (4, 80), (8, 79)])
    assert seen_purchase(fixes, PUMP) == SeenPurchase(fixes[2].at, timedelta(minutes=10), 50)


def test_values_that_are_no_percentage_hide_no_purchase() -> None:
    seen = seen_purchase(drive([(-8, 31), (-4, 30), (0, 30), (0, 255), (0, 102), (0, 80), (4, 255), (8, 79)]), PUMP)
    assert seen is not None
    assert seen.risen_percent == 49.5


def test_a_truck_that_drives_by_buys_nothing() -> None:
    seen = seen_purchase(drive([(-8, 31), (-4, 30), (0.2, 30), (4, 30), (8, 29)]), PUMP)
    assert seen is not None
    assert (seen.stood, seen.risen_percent) == (timedelta(0), 0)


@pytest.mark.parametrize(
    "fixes",
    [
        drive([(-8, None), (0, None), (0, None), (8, None)]),
        drive([(-8, 30), (0, 30), (0, 80)]),  # still there
        drive([(0, 0), (0, 0), (8, 80)]),  # a tracker that sends 0 before
        drive([(-8, None), (0, 80), (0, 80), (8, 79)]),  # it may have fueled before its first level
        drive([(-8, 30), (0, 30), (0, None), (8, None)]),  # or behind its last one
        drive([(0, 255), (0, 255), (8, 80)]),  # or a value that is none
        drive([(-8, 30), (0, 30), (0, 102), (8, 102)]),
        drive([(-8, 30), (0, 30), (0, 101.6), (8, 700)]),
    ],
)
def test_without_levels_on_both_sides_no_rise_is_known(fixes: list[PlacedFix]) -> None:
    seen = seen_purchase(fixes, PUMP)
    assert seen is not None
    assert seen.risen_percent is None


def test_levels_at_the_pump_tell_what_they_were_before_where_the_truck_was_seen_to_come_and_go() -> None:
    fixes = drive([(-8, None), (-0.9, None), (0, 30), (0, 80), (0.9, None), (8, None)])
    minutes = [0, 8, 9, 29, 30, 38]
    fixes = [fix._replace(at=START + timedelta(minutes=one)) for fix, one in zip(fixes, minutes, strict=True)]
    seen = seen_purchase(fixes, PUMP)
    assert seen is not None
    assert seen.risen_percent == 50


@pytest.mark.parametrize(
    ("miles_and_levels", "stood", "risen"),
    [
        ([(-8, 30), (0, 30), (0, 80), (2, 80), (0, 80), (0, 79), (0, 79), (0, 79), (8, 78)], 5, 50),
        ([(-8, 80), (0, 80), (0, 79), (0, 79), (0, 79), (8, 30), (0, 30), (0, 80), (-8, 80)], 5, 50),
        ([(-8, 80), (0, 80), (0, 80), (8, 60), (0, 60), (0, 60), (0, 60), (-8, 60)], 10, 0),
    ],
)
def test_of_several_stays_the_one_with_a_purchase_counts(
    miles_and_levels: Sequence[tuple[float, float]], stood: int, risen: float
) -> None:
    """It fueled and came back to sleep there, or slept there and fueled on its way back, or bought nothing."""
    seen = seen_purchase(drive(miles_and_levels), PUMP)
    assert seen is not None
    assert seen.stood == timedelta(minutes=stood)
    assert seen.risen_percent == pytest.approx(risen, abs=1.0)


def test_a_truck_that_was_never_near_is_not_seen() -> None:
    assert seen_purchase(drive([(-8, 30), (-2, 30), (2, 30)]), PUMP) is None
    assert seen_purchase([], PUMP) is None
