"""A trip that is driven with given purchases keeps every limit, or the plan is refused."""

from dataclasses import replace

import pytest

from domain.planning.trips import BrokenPlan, BurnedBy, Candidate, Purchase, drive_trip
from tests.domain.planning.trips import trip, with_each

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


def test_a_stop_below_its_floor_is_refused_and_driving_past_is_not() -> None:
    floor = with_each(trip((100, 3.0), (300, 3.0)), lambda one: one._replace(floor_gallons=25.0))
    with pytest.raises(BrokenPlan, match="below the floor at S1"):
        drive_trip(floor, [Purchase(0, 20.0), Purchase(1, 30.0)])
    assert drive_trip(floor, [Purchase(0, 50.0)]) == (40.0, 10.0)


def test_a_leg_burns_what_it_burns_and_its_detours_too() -> None:
    """20 gal on the first 100 miles, none on the next 100, 60 on the last 300: 0.2 gal a mile. The detours are in the
    last leg."""
    legs = BurnedBy(0.0, 0.0), BurnedBy(100.0, 20.0), BurnedBy(200.0, 20.0), BurnedBy(500.0, 80.0)
    given = replace(trip(start_gallons=70.0), burned=legs, candidates=(Candidate("S", 250.0, 5.0, 10.0, 3.0),))
    assert drive_trip(given, [Purchase(0, 40.0)]) == pytest.approx((70 - 20 - 10 - 1, 39 + 40 - 2 - 50))
    assert given.gallons_to(50.0) == pytest.approx(10.0)
    assert given.detour_gallons(100.0, 10.0) == pytest.approx(2.0)
    assert given.detour_gallons(100.1, 10.0) == 0.0


def test_driving_a_trip_returns_the_fuel_at_each_arrival() -> None:
    assert drive_trip(trip((100, 3.0), (300, 3.0)), [Purchase(0, 20.0), Purchase(1, 30.0)]) == (40.0, 20.0, 10.0)
