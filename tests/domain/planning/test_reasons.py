"""The reasons why a plan leaves a station out, and the cost of two rules of thumb."""

import random
from dataclasses import replace

import pytest

from domain.accounts.policy import PlanPolicy
from domain.planning import reasons
from domain.planning.explanation import ExplainedInputs, FullExplanation
from domain.planning.fuel_plan import ComputedPlan, NoPlan, compute_plan
from domain.planning.plan_inputs import by_policy
from domain.planning.reasons import with_reasons
from domain.planning.relaxation import PlanLimits
from domain.planning.trips import NUMBERS
from tests.domain.planning.plans import NO_HARD_FLOOR, feasible, inputs, meridian, priced
from tests.domain.planning.test_each_stop import cost_with_stop


def explained(plan: ComputedPlan | NoPlan) -> FullExplanation:
    return with_reasons(plan.explanation())


def whys(plan: ComputedPlan | NoPlan) -> dict[str, str]:
    return {one["station_id"]: one["why"] for one in explained(plan)["candidates"]}


def test_each_candidate_has_its_reason() -> None:
    """The half full tank lasts 350 miles down to the reserve. One stop is needed, at mile 300 or before it."""
    plan = feasible(
        inputs(
            meridian(600.0),
            priced(10, 3.6),  # the tank is 98 of 190 gal
            priced(300, 3.5),
            priced(310, 3.7),
            priced(320, 3.45, east_miles=4.0),
            min_purchase_gallons=60.0,
        )
    )
    assert whys(plan) == {
        "S10": reasons.CHEAPER_IN_REACH,
        "S300": reasons.CHOSEN,
        "S310": reasons.DEARER,
        "S320": reasons.NOT_WORTH_A_STOP,
    }


def test_a_full_tank_has_no_room_for_the_smallest_purchase() -> None:
    plan = feasible(inputs(meridian(1000.0), priced(10, 3.0), priced(600, 3.5), fuel_percent=95.0))
    assert whys(plan) == {"S10": reasons.BELOW_SMALLEST, "S600": reasons.CHOSEN}


def test_no_candidate_is_needed_with_enough_fuel() -> None:
    assert whys(feasible(inputs(meridian(200.0), priced(100, 3.0)))) == {"S100": reasons.NOT_NEEDED}


def test_candidates_of_an_infeasible_trip_say_that_there_is_no_plan() -> None:
    explanation = explained(compute_plan(inputs(meridian(1500.0), priced(300, 3.0))))
    assert [one["why"] for one in explanation["candidates"]] == [reasons.NO_PLAN]
    assert explanation["alternatives"] == []


def test_the_rules_of_thumb_fuel_as_they_say() -> None:
    """The fuel on board lasts 350 miles, a full tank 800. "At every need" stops at mile 340 with 32 gal left, then at
    1100. "Cheapest in range" stops at mile 100 with 80 gal left, then at 700 with 70 left.
    """
    road = meridian(1300.0)
    stations = priced(100, 3.2), priced(340, 3.9), priced(700, 3.1), priced(1100, 4.0)
    plan = feasible(replace(inputs(road, *stations), hard_floor=NO_HARD_FLOOR))
    _, need, cheapest = explained(plan)["alternatives"]
    assert (need["name"], need["stops"]) == ("fill up at every need", 2)
    assert need["gallons"] == pytest.approx(158.0 + 152.0)
    assert need["objective"] == pytest.approx(158.0 * 3.9 + 152.0 * 4.0 + 2 * 20)
    assert need["left_gallons"] == pytest.approx(150.0)
    price = (158.0 * 3.9 + 152.0 * 4.0) / 310
    assert need["objective_less_leftover"] == pytest.approx(158.0 * 3.9 + 152.0 * 4.0 + 2 * 20 - 100 * price)
    assert (cheapest["name"], cheapest["stops"]) == ("cheapest pump in each range", 2)
    assert cheapest["gallons"] == pytest.approx(110.0 + 120.0)
    assert cheapest["objective"] == pytest.approx(110.0 * 3.2 + 120.0 * 3.1 + 2 * 20)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_no_other_way_is_cheaper_than_the_plan(seed: int) -> None:
    """Rounding may cost up to 50 cents: the plan buys tenths of a gallon, the rules of thumb do not."""
    rng = random.Random(seed)
    stations = [priced(rng.uniform(0, 1500), round(rng.uniform(3, 4.5), 3)) for _ in range(30)]
    given = inputs(meridian(1500.0), *stations)
    plan = compute_plan(replace(given, policy=given.policy._replace(max_stops=rng.choice([None, 3]))))
    if isinstance(plan, NoPlan):
        return
    explanation = explained(plan)
    objective = explanation["objective"]
    assert objective is not None
    others = [one["objective"] for one in explanation["alternatives"] if one["objective"] is not None]
    assert objective == pytest.approx(others[0], abs=0.005)
    if plan.trip.max_stops is None:
        assert min(others) >= objective - 0.5
    for index, one in enumerate(explanation["candidates"]):
        cost = cost_with_stop(plan.trip, index)
        if cost is None:
            assert one["extra_cost"] is None or one["why"] == reasons.CHOSEN
        else:
            assert cost >= objective - 0.5
            assert one["extra_cost"] == pytest.approx(max(cost - objective, 0), abs=0.01)
            assert one["why"] != reasons.CHOSEN or (one["extra_cost"] or 0.0) <= 0.01


def test_an_explanation_has_the_inputs_that_it_declares() -> None:
    explained = feasible(inputs(meridian(100.0))).explanation()["inputs"]
    assert list(explained) == list(ExplainedInputs.__annotations__)
    assert [name for name, value in explained.items() if value is None] == ["max_stops"]


def test_a_trip_has_every_value_of_the_policy_and_its_limits_of_the_same_name() -> None:
    given = inputs(meridian(100.0))
    same_names = {*PlanPolicy._fields, *PlanLimits._fields} & set(NUMBERS)
    assert set(by_policy(given.policy, given.limits)) == same_names | {"margin_gallons"}
