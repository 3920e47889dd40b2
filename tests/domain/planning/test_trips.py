"""A trip that is driven with given purchases keeps every limit, or the plan is refused."""

import pytest

from domain.planning.trips import BrokenPlan, Purchase, drive_trip
from tests.domain.planning.trips import trip

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("purchases", "why"),
    [
        ([Purchase(1, 50.0)], "below the reserve at S1"),
        ([Purchase(0, 5.0), Purchase(1, 50.0)], "too little at S0"),
        ([Purchase(0, 70.0)], "too much at S0"),
        ([Purchase(0, 10.0)], "too little at the destination"),
        ([Purchase(1, 10.0), Purchase(0, 50.0)], "below the reserve at S1"),
        ([Purchase(0, 20.0), Purchase(1, 40.0), Purchase(0, 10.0)], "behind the truck"),
    ],
)
def test_a_plan_that_breaks_a_limit_is_refused(purchases: list[Purchase], why: str) -> None:
    with pytest.raises(BrokenPlan, match=why):
        drive_trip(trip((100, 3.0), (300, 3.0), min_purchase_gallons=10.0), purchases)


def test_a_start_below_the_reserve_and_too_many_stops_are_refused() -> None:
    with pytest.raises(BrokenPlan, match="the start"):
        drive_trip(trip(start_gallons=5.0), [])
    with pytest.raises(BrokenPlan, match="below the reserve at S0"):
        drive_trip(trip((200, 3.0), margin_gallons=11.0), [Purchase(0, 50.0)])
    with pytest.raises(BrokenPlan, match="more stops"):
        drive_trip(trip((100, 3.0), max_stops=0), [Purchase(0, 50.0)])


def test_driving_a_trip_returns_the_fuel_at_each_arrival() -> None:
    assert drive_trip(trip((100, 3.0), (300, 3.0)), [Purchase(0, 20.0), Purchase(1, 30.0)]) == (40.0, 20.0, 10.0)
