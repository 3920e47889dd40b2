"""Rounded purchases are whole steps of a pump, and keep every limit."""

from dataclasses import replace

import pytest

from domain.planning.optimizer import solve
from domain.planning.rounding import round_and_drive
from domain.planning.trips import Candidate, Infeasible, Purchase, Solution, Trip, drive_trip, objective_of
from tests.domain.planning.trips import trip

pytestmark = pytest.mark.slow


def rounded(trip: Trip) -> list[tuple[int, float]]:
    solution = solve(trip)
    assert isinstance(solution, Solution)
    result = round_and_drive(trip, solution)
    assert isinstance(result, Solution)
    return [(index, gallons) for index, gallons in result.purchases]


def test_gallons_are_rounded_up_to_tenths() -> None:
    assert rounded(trip((200, 3.0), distance_miles=501.1)) == [(0, 50.3)]


def test_a_full_tank_is_rounded_down_and_the_rest_bought_later() -> None:
    full_then_more = trip((101.1, 3.0), (300, 4.0), distance_miles=700.0)
    assert rounded(full_then_more) == [(0, 60.2), (1, 29.8)]


def test_a_full_tank_to_be_left_is_rounded_down() -> None:
    assert rounded(trip((101.1, 3.0), leftover_value_per_gallon=4.0)) == [(0, 60.2)]


def test_a_purchase_is_never_rounded_to_less_than_its_detour_burns() -> None:
    """59.95 and 69.96 gal in total, rounded up to 60.0 and 70.0, would leave 10.0 for a detour of 10.01."""
    both = replace(
        trip(distance_miles=550.0, start_gallons=60.05, usable_gallons=120.0),
        candidates=(Candidate("S0", 100.0, 0.0, 0.0, 2.0), Candidate("S1", 400.0, 25.0, 25.05, 3.0)),
    )
    purchases = Purchase(0, 59.95), Purchase(1, 10.01)
    drive_trip(both, purchases)
    plan = round_and_drive(both, Solution(purchases, objective_of(both, purchases)))
    assert isinstance(plan, Solution)
    assert plan.purchases[-1] == (1, 10.1)


def test_the_smallest_purchase_survives_rounding() -> None:
    assert rounded(trip((200, 3.0), min_purchase_gallons=70.01)) == [(0, 70.1)]


def test_hundredths_are_used_where_a_tenth_has_no_room() -> None:
    """450.2 miles are 90.04 gal: with 10 in reserve and 100.05 usable the purchase lies between 60.24 and 60.25."""
    tight = trip((101, 3.0), distance_miles=551.2, usable_gallons=100.05)
    assert rounded(tight) == [(0, 60.24)]


def test_a_floor_survives_rounding() -> None:
    """15.04 gal bring the truck to mile 200 with 35.04 gal. In tenths it takes 15.1."""
    two = trip((100, 4.0), (200, 3.0))
    floor = replace(two, candidates=(two.candidates[0], two.candidates[1]._replace(floor_gallons=35.04)))
    assert rounded(floor) == [(0, 15.1), (1, 34.9)]


def test_a_trip_without_a_thousandth_to_spare_is_infeasible() -> None:
    exact = trip((100.001, 3.0), distance_miles=550.0003, usable_gallons=99.99987)
    solution = solve(exact)
    assert isinstance(solution, Solution)
    assert isinstance(round_and_drive(exact, solution), Infeasible)
