"""When a plan no longer fits: fuel that really changed, prices that really matter."""

import pytest

from domain.planning.review import fuel_changed, saving_moved


@pytest.mark.parametrize(
    ("readings", "standing", "departed"),
    [
        ([], False, False),
        ([80], False, False),
        ([40, 40], False, False),
        ([50, 50], False, False),
        ([51, 51], True, True),
        ([28, 28.5], True, True),
        ([90, 60], False, True),  # it is being filled
        ([90, 40], False, False),  # one odd reading, the newest
        ([40, 90], False, False),  # or the one before
        ([90, 10], False, False),  # nonsense twice
        ([40, 90, 90], False, False),
    ],
)
def test_fuel_has_changed_when_two_readings_in_a_row_say_so(
    readings: list[float], standing: bool, departed: bool
) -> None:
    assert fuel_changed(40, readings, departed=False) is standing
    assert fuel_changed(40, readings, departed=True) is departed


@pytest.mark.parametrize(
    ("before", "after", "moved"),
    [(25.0, 35.0, False), (25.0, 35.01, True), (25.0, 14.99, True), (None, 10.0, False), (-5.0, None, False)],
)
def test_a_saving_has_moved_by_more_than_ten_dollars(before: float | None, after: float | None, moved: bool) -> None:
    assert saving_moved(before, after) is moved
