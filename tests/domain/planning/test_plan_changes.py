"""A plan no longer fits when the fuel has really changed, or new prices change its saving enough."""

from datetime import timedelta
from typing import Any

import pytest

from domain.planning.plan_changes import (
    fuel_changed,
    level_on_leaving,
    price_rises_first,
    saving_changed,
    savings_compare,
)


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
def test_fuel_has_changed_when_two_readings_in_a_row_show_it(
    readings: list[float], standing: bool, departed: bool
) -> None:
    assert fuel_changed(40, readings, departed=False) is standing
    assert fuel_changed(40, readings, departed=True) is departed


@pytest.mark.parametrize(
    ("before", "after", "changed"),
    [(25.0, 35.0, False), (25.0, 35.01, True), (25.0, 14.99, True), (None, 10.0, False), (-5.0, None, False)],
)
def test_a_saving_has_changed_when_it_differs_by_more_than_ten_dollars(
    before: float | None, after: float | None, changed: bool
) -> None:
    assert saving_changed(before, after) is changed


PLAN = {"totalDistanceMiles": 600.0, "savingsTotal": 30.0, "stops": [{"milesFromOrigin": 120.0}]}


@pytest.mark.parametrize(
    ("percent", "road_miles", "plan", "level"),
    [
        (60.0, 0.0, PLAN, 60.0),
        (50.0, 100.0, PLAN, 60.0),
        (50.0, 119.9, PLAN, 61.99),
        (50.0, 120.0, PLAN, None),  # the first purchase
        (50.0, 299.0, {**PLAN, "stops": []}, 79.9),
        (50.0, 301.0, {**PLAN, "stops": []}, None),  # 60 of 200 gal burned, if so much
    ],
)
def test_the_level_at_the_departure_is_the_reading_plus_the_fuel_burned_since(
    percent: float, road_miles: float, plan: dict[str, Any], level: float | None
) -> None:
    found = level_on_leaving(percent, road_miles, mpg=5.0, capacity_gallons=200.0, plan=plan)
    assert found == (pytest.approx(level) if level is not None else None)


@pytest.mark.parametrize(
    ("miles_left", "percent", "first_purchase", "same"),
    [
        (600.0, 40.0, 120.0, True),
        (577.0, 40.0, 120.0, True),
        (574.0, 40.0, 120.0, False),  # far away
        (590.0, 40.0, 6.0, False),  # beyond the first purchase
        (600.0, 51.0, 120.0, False),  # with another tank
        (626.0, 40.0, 120.0, False),  # by another road
    ],
)
def test_savings_compare_for_the_same_road_and_fuel(
    miles_left: float, percent: float, first_purchase: float, same: bool
) -> None:
    before = {**PLAN, "stops": [{"milesFromOrigin": first_purchase}]}
    driven_miles = 600.0 - miles_left
    assert savings_compare(before, driven_miles=driven_miles, percent_before=40.0, percent_after=percent) is same


@pytest.mark.parametrize(
    ("late_hours", "rises_first"), [(-1.0, False), (0.0, False), (0.9, False), (1.0, True), (5.0, True)]
)
def test_a_price_rises_first_when_the_truck_leaves_late_enough(late_hours: float, rises_first: bool) -> None:
    """It is planned to be there at four, an hour later counts as well, and at six the price rises."""
    there: dict[str, Any] = {"estimatedArrival": "2026-11-20T16:00:00Z", "priceRisesAt": "2026-11-20T18:00:00Z"}
    unknown: dict[str, Any] = {"estimatedArrival": None, "priceRisesAt": "2026-11-20T18:00:00Z"}
    steady: dict[str, Any] = {"estimatedArrival": "2026-11-20T16:00:00Z"}
    delay = timedelta(hours=late_hours)

    assert price_rises_first({"stops": [steady, there]}, delay=delay) is rises_first
    assert not price_rises_first({"stops": [steady, unknown]}, delay=delay)
