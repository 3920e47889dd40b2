"""Floors of stations: what keeps a truck from buying there is explained, and drives again as it was planned."""

from dataclasses import replace

import pytest

from domain.planning import reasons
from domain.planning.floors import with_floors
from domain.planning.fuel_plan import ComputedPlan
from domain.planning.reasons import trip_of, with_reasons
from domain.planning.replay import faults_of_plan
from domain.planning.rounding import solve_rounded
from domain.planning.trips import Solution
from tests.domain.planning.plans import feasible, inputs, meridian, priced
from tests.domain.planning.trips import trip

PLAN = feasible(inputs(meridian(600.0), priced(100, 3.9), priced(200, 3.0), priced(300, 3.5)))
"""A truck of 5 mpg that leaves with 100 gal and has 60 left at mile 200."""


def planned_again(plan: ComputedPlan, *floors: float) -> ComputedPlan:
    floored = with_floors(plan.trip, floors, plan.inputs.rated_gallons)
    solution = solve_rounded(floored)
    assert isinstance(solution, Solution)
    return replace(plan, trip=floored, objective=solution.objective, purchases=solution.purchases)


def test_floors_are_lowered_to_the_highest_and_left_out_below_the_reserve() -> None:
    floored = with_floors(trip((100, 3.0), (200, 3.0), (300, 3.0)), [9.0, 20.0, 40.0], 25.0)
    assert [one.floor_gallons for one in floored.candidates] == [0.0, 20.0, 25.0]


def test_an_explanation_has_the_floors_that_exceed_the_reserve_and_its_trip_too() -> None:
    plan = planned_again(PLAN, 30.0, 59.0, 31.5)
    explanation = plan.explanation()
    assert [one.get("floor_gallons") for one in explanation["candidates"]] == [None, 59.0, 31.5]
    assert trip_of(explanation) == plan.trip


def test_a_station_that_the_truck_passes_below_its_floor_says_so() -> None:
    candidates = with_reasons(planned_again(PLAN, 0.0, 61.0, 0.0).explanation())["candidates"]
    assert candidates[1]["why"] == reasons.BELOW_FLOOR
    assert candidates[1]["detail"] == "60.0 gal on arrival, 61.0 gal are wanted to buy there"
    assert [one["why"] for one in candidates].count(reasons.CHOSEN) == 1


def test_the_rules_of_thumb_keep_the_floors() -> None:
    """The truck that fuels at every need has 40 gal left at mile 300. With a floor of 45 there it fuels before it."""
    for floor, left_gallons in ((40.0, 130.0), (45.0, 110.0)):
        need = with_reasons(planned_again(PLAN, 0.0, 0.0, floor).explanation())["alternatives"][1]
        assert need["stops"] == 1
        assert need["left_gallons"] == pytest.approx(left_gallons)


def test_a_plan_that_arrives_below_a_floor_is_a_fault() -> None:
    explanation = PLAN.explanation()
    assert faults_of_plan(PLAN.document(), PLAN.packed_explanation) == []
    raised = replace(PLAN, trip=with_floors(PLAN.trip, [0.0, 61.0, 0.0], 200.0))
    assert faults_of_plan(PLAN.document(), raised.packed_explanation) == ["below the floor at S200"]
    assert "floor_gallons" not in explanation["candidates"][1]
