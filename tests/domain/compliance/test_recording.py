"""The fixes of a truck show the outcome of a fuel stop."""

from datetime import UTC, datetime, timedelta

import pytest

from domain.burn.seen_purchases import PlacedFix
from domain.compliance.recording import seen_at
from domain.lifecycle import SeenStop
from domain.roads import Point

START = datetime(2026, 11, 26, 12, tzinfo=UTC)
BEFORE, PUMP, BEHIND = Point(41.0, -86.0), Point(41.2, -86.0), Point(41.4, -86.0)
FURTHER = Point(41.7, -86.0)
"""Too far from the pump for its level to count."""


def fixes(*places: tuple[Point, float | None], minutes: int = 5) -> list[PlacedFix]:
    return [PlacedFix(START + number * timedelta(minutes=minutes), *one) for number, one in enumerate(places)]


@pytest.mark.parametrize(
    ("seen", "shown"),
    [
        (fixes((BEFORE, 30), (PUMP, 30), (PUMP, 80), (BEHIND, 79)), SeenStop.BOUGHT),
        (fixes((BEFORE, 30), (PUMP, 30), (PUMP, 30), (BEHIND, 29)), SeenStop.NOT_BOUGHT),
        (fixes((BEFORE, None), (PUMP, None), (PUMP, None), (PUMP, None), (BEHIND, None)), SeenStop.STOOD),
        (fixes((BEFORE, None), (PUMP, None), (BEHIND, None)), SeenStop.PASSED),
        (fixes((BEFORE, 30), (BEHIND, 28)), SeenStop.PASSED),
        (fixes((BEFORE, 30), (BEHIND, 28), minutes=30), SeenStop.PASSED),
        (fixes((BEFORE, 30), (BEHIND, 85), minutes=90), None),
        (fixes((BEFORE, None), (PUMP, None), (BEHIND, None), minutes=20), None),
        (fixes((BEFORE, 30), (BEFORE, 30), (BEHIND, 28), minutes=30), SeenStop.PASSED),
        (fixes((BEFORE, None), (PUMP, None)), None),
        (fixes((BEFORE, None), (PUMP, 80), (PUMP, 80), (PUMP, 80), (BEHIND, 79)), SeenStop.STOOD),
        (fixes((BEFORE, 30), (PUMP, 30), (PUMP, None), (PUMP, None), (BEHIND, None)), SeenStop.STOOD),
        (fixes((BEFORE, 30), (FURTHER, 28), (FURTHER, 20), (BEHIND, 19), minutes=45), SeenStop.PASSED),
        (fixes((BEFORE, 30), (FURTHER, 80), minutes=120), None),
        ([], None),
    ],
)
def test_the_level_decides_and_without_it_the_place(seen: list[PlacedFix], shown: SeenStop | None) -> None:
    assert seen_at(seen, PUMP) is shown


def test_a_level_that_rose_at_another_pump_proves_no_purchase_at_one_that_was_passed() -> None:
    """The truck sends where it is each minute, and its level each quarter of an hour. It drives past the pump at 60
    mph, and fuels three miles further for twelve minutes."""
    seen = []
    for minute in range(-40, 60):
        miles = min(minute, 3) + max(minute - 15, 0)
        percent = (30.0 if minute < 12 else 95.0) if minute % 15 == 0 else None
        seen.append(PlacedFix(START + timedelta(minutes=minute), Point(41.2 + miles / 69.1, -86.0), percent))

    assert seen_at(seen, PUMP) is SeenStop.PASSED
    assert seen_at(seen, Point(41.2 + 3 / 69.1, -86.0)) is SeenStop.BOUGHT
