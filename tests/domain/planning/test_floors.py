"""Floors of stations: what keeps a truck from buying there is explained, and drives again as it was planned."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.burn.figures import Burn, BurnTrip, FleetFigure, LearnedFigure
from domain.ids import new_id
from domain.planning import reasons
from domain.planning.floors import (
    MileageError,
    chance_below,
    error_of,
    explained_error,
    with_floors,
    with_growing_floors,
)
from domain.planning.fuel_plan import ComputedPlan
from domain.planning.reasons import trip_of, with_reasons
from domain.planning.relaxation import PlanLimits
from domain.planning.retrace import faults_of_plan
from domain.planning.rounding import solve_rounded
from domain.planning.trips import Purchase, Solution, Trip
from tests.domain.planning.plans import NO_HARD_FLOOR, NOW, feasible, inputs, meridian, priced
from tests.domain.planning.trips import coarse_trips, trip
from tests.repeatable import examples

STATIONS = priced(100, 3.9), priced(200, 3.0), priced(300, 3.5)
PLAN = feasible(replace(inputs(meridian(600.0), *STATIONS), hard_floor=NO_HARD_FLOOR))
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


# --- Floors that grow along the road ---------------------------------------------------------------------------

LIMITS = PlanLimits(100.0, 0.0, 0.0, None, 5.0, 10.0, 10.0)

SHORT = MileageError(0.0, 0.1, by_level=False)
"""One trip in 20 drives 16.4 % less than its plan expects, and burns 19.7 % more."""


def test_the_margin_is_what_the_share_of_trips_burns_beyond_the_plan() -> None:
    assert SHORT.margin_per_gallon(5.0) == pytest.approx(0.1968, abs=1e-4)
    assert SHORT.chance_beyond(SHORT.margin_per_gallon(5.0)) == pytest.approx(0.05)
    assert SHORT._replace(mean=-0.03).margin_per_gallon(50.0) == pytest.approx(0.03 / 0.97)
    assert [SHORT.margin_per_gallon(share) for share in (50.0, 99.0, 100.0)] == [0.0, 0.0, 0.0]


def test_floors_grow_with_the_gallons_burned_since_the_start() -> None:
    """10 gal in reserve; 20, 40 and 60 gal are burned at the stations, 80 at the end."""
    plain = trip((100, 3.0), (200, 3.0), (300, 3.0), distance_miles=400.0)
    grown = with_growing_floors(plain, LIMITS, 5.0, SHORT)
    assert [one.floor_gallons for one in grown.candidates] == pytest.approx([13.94, 17.87, 21.81], abs=0.01)
    assert grown.end_gallons == pytest.approx(25.75, abs=0.02)
    assert with_growing_floors(plain, LIMITS, 100.0, SHORT) is plain


def test_floors_grow_no_further_than_a_full_tank_where_drivers_fill_to_a_level() -> None:
    """90 gal above the reserve are the longest leg and its own margin: 75.2 and 14.8 gal."""
    plain = trip((300, 3.0), (900, 3.0), distance_miles=1000.0)
    grown = with_growing_floors(plain, LIMITS, 5.0, SHORT._replace(by_level=True))
    assert [one.floor_gallons for one in grown.candidates] == pytest.approx([21.81, 24.80], abs=0.01)
    assert grown.end_gallons == pytest.approx(24.80, abs=0.01)


@pytest.mark.slow
@settings(max_examples=examples(50), deadline=None, derandomize=True)
@given(coarse_trips(), st.sampled_from([1.0, 5.0, 20.0]), st.booleans())
def test_no_more_trips_than_the_share_fall_below_the_reserve(trip: Trip, share: float, by_level: bool) -> None:
    error = MileageError(-0.03, 0.08, by_level)
    plain = replace(
        trip, margin_gallons=0.0, candidates=tuple(one._replace(floor_gallons=0.0) for one in trip.candidates)
    )
    plain = with_growing_floors(plain, LIMITS._replace(highest_floor_gallons=1000.0), share, error)
    solution = solve_rounded(plain)
    if isinstance(solution, Solution):
        # Detours before the last one are not foreseen: each burns 8 gal at most.
        unforeseen = 0.01 + error.margin_per_gallon(share) * 8 * len(solution.purchases)
        chance = chance_below(plain.reserve_gallons - unforeseen, plain, solution.purchases, error)
        assert chance <= share / 100 + 1e-9


def test_a_trip_falls_below_where_it_has_least_for_what_it_burned() -> None:
    """60 gal burn down to 20 at mile 200; then 50 are bought, and 20 are left at mile 450. With 10 in reserve, the
    margin is a quarter of 40 gal, a fifth of 50, and by gallons 10 of 90."""
    plain = trip((200, 3.0), distance_miles=450.0)
    bought = [Purchase(0, 50.0)]
    by_level = SHORT._replace(by_level=True)
    assert chance_below(10.0, plain, bought, by_level) == pytest.approx(SHORT.chance_beyond(10 / 50))
    assert chance_below(10.0, plain, bought, SHORT) == pytest.approx(SHORT.chance_beyond(10 / 90))
    assert chance_below(10.0, replace(plain, distance_miles=0.0), [], SHORT) < 1e-9
    assert chance_below(59.0, plain, bought, SHORT) > 0.99


def test_an_explanation_keeps_the_error_and_a_preview_takes_it() -> None:
    kept = feasible(
        replace(inputs(meridian(600.0), priced(250, 3.0), trips_below_reserve_percent=5.0), gauge_works=False)
    )
    explanation = kept.explanation()
    assert explanation["mileage_error"] == {
        "share_percent": 5.0,
        "mean_percent": -3.0,
        "spread_percent": 8.0,
        "by_level": False,
        "margin_percent": 19.27,
    }
    assert explained_error(explanation) == kept.inputs.mileage_error
    assert explanation["candidates"][0]["floor_gallons"] == pytest.approx(30 + 0.1927 * 50, abs=0.01)
    assert explanation["inputs"]["end_gallons"] == pytest.approx(30 + 0.1927 * 120, abs=0.01)
    assert faults_of_plan(kept.document(), kept.packed_explanation) == []
    assert explained_error(PLAN.explanation()) == MileageError(-0.03, 0.08, by_level=True)


def learned(mpg: float, spread_percent: float, trips: int) -> LearnedFigure:
    return LearnedFigure(mpg, spread_percent, [BurnTrip(new_id(), NOW, 700.0, mpg)] * trips)


@pytest.mark.parametrize(
    ("burn", "mean", "spread"),
    [
        (Burn(6.5, "declared"), -0.03, 0.08),
        (Burn(6.5, "default"), 0.0, 0.14),
        (Burn(6.5, "measured"), 0.0, 0.08),
        (Burn(6.5, "fleet", fleet=FleetFigure(6.5, 6.0, 12, of_model=True)), 0.0, 0.10),
        (Burn(6.0, "learned", learned=learned(6.0, 3.0, 12)), 0.0, 0.0477),
        (Burn(6.0, "learned", learned=learned(6.0, 2.0, 3)), 0.0, 0.0619),
        (Burn(6.2, "declared", learned=learned(6.0, 3.0, 12)), -0.0323, 0.0477),
    ],
    ids=lambda value: value.in_words if isinstance(value, Burn) else "",
)
def test_the_error_is_that_of_the_figure_of_burn(burn: Burn, mean: float, spread: float) -> None:
    error = error_of(burn, by_level=True)
    assert error.mean == pytest.approx(mean, abs=1e-4)
    assert error.spread == pytest.approx(spread, abs=1e-4)
    plan = feasible(replace(inputs(meridian(600.0), priced(250, 3.0)), burn=burn))
    again = explained_error(plan.explanation())
    assert again.spread == pytest.approx(error.spread, abs=1e-3)
    assert again.mean in (0.0, error.mean)
