"""A margin beyond the reserve, where the truck's own levels have shown that its burn differs, and it costs little."""

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.burn.figures import Burn, BurnTrip, LearnedFigure
from domain.planning.cheap_margins import LEAST_SEEN_SPREAD_PERCENT, SHARES_PERCENT, plan_with_margin
from domain.planning.floors import chance_below
from domain.planning.fuel_plan import ComputedPlan, compute_plan
from domain.planning.plan_inputs import PlanInputs
from domain.savings.policy_preview import Totals, plan_under
from tests.domain.planning.plans import NOW, inputs, meridian, priced, usual_policy

ROAD = meridian(1400.0)
TRIPS = 4 * [BurnTrip(UUID(int=1), NOW, 900.0, 6.5)]


def given_inputs(
    spread_percent: float | None, *, prices: tuple[float, ...] = (3.3, 3.2, 3.1, 3.0), **policy: Any
) -> PlanInputs:
    """A truck whose four trips had this spread; a station each 300 miles, each a little cheaper than the one before."""
    stations = [priced(300 * number + 100, price) for number, price in enumerate(prices)]
    learned = LearnedFigure(6.5, spread_percent, TRIPS) if spread_percent is not None else None
    burn = Burn(6.5, "learned" if learned else "declared", learned=learned)
    return replace(inputs(ROAD, *stations, **policy), burn=burn)


def made(given: PlanInputs) -> tuple[ComputedPlan, ComputedPlan]:
    """The plan with a margin, and the cheapest one."""
    plan, cheapest = plan_with_margin(given), compute_plan(given)
    assert isinstance(plan, ComputedPlan)
    assert isinstance(cheapest, ComputedPlan)
    return plan, cheapest


def chance(plan: ComputedPlan) -> float:
    return chance_below(plan.limits.later_reserve_gallons, plan.trip, plan.purchases, plan.inputs.mileage_error)


def test_a_truck_whose_burn_differs_from_trip_to_trip_arrives_above_the_reserve_for_a_few_dollars() -> None:
    plan, cheapest = made(given_inputs(6.0, margin_dollars=5.0))
    assert chance(cheapest) == pytest.approx(0.5, abs=0.02)
    assert chance(plan) <= 0.1 + 1e-6
    assert cheapest.objective < plan.objective <= cheapest.objective + 5
    assert plan.explanation()["mileage_error"]["beyond_policy"]


@pytest.mark.parametrize("spread_percent", [None, 0.0, LEAST_SEEN_SPREAD_PERCENT / 2])
def test_a_truck_of_which_nothing_is_known_or_that_burns_what_its_figure_says_has_the_cheapest_plan(
    spread_percent: float | None,
) -> None:
    plan, cheapest = made(given_inputs(spread_percent))
    assert plan == cheapest


@pytest.mark.parametrize("policy", [{"margin_dollars": 0.0}, {"trips_below_reserve_percent": 5.0}])
def test_the_policy_may_want_no_margin_or_a_larger_one_always(policy: dict[str, Any]) -> None:
    plan, cheapest = made(given_inputs(6.0, **policy))
    assert plan == cheapest


@settings(deadline=None, max_examples=30)
@given(
    st.tuples(*4 * [st.floats(2.5, 4.5).map(lambda price: round(price, 3))]),
    st.floats(1, 20),
    st.sampled_from([0.0, 0.5, 2.0, 5.0, 20.0]),
)
def test_a_margin_never_costs_more_than_the_policy_says_and_never_adds_risk(
    prices: tuple[float, ...], spread_percent: float, dollars: float
) -> None:
    given = given_inputs(spread_percent, prices=prices, margin_dollars=dollars)
    plan, cheapest = made(given)
    assert plan.objective <= cheapest.objective + dollars
    assert chance(plan) <= max(chance(cheapest), 0.35) + 1e-6
    assert plan.relaxed == cheapest.relaxed or plan.relaxed[0].limit == "highest_floor_gallons"


@settings(deadline=None, max_examples=20)
@given(st.tuples(*4 * [st.floats(2.5, 4.5).map(lambda price: round(price, 3))]), st.sampled_from([0.0, 2.0, 5.0]))
def test_the_preview_of_a_policy_has_the_same_margin(prices: tuple[float, ...], dollars: float) -> None:
    given = given_inputs(6.0, prices=prices)
    expected, _ = made(replace(given, policy=given.policy._replace(margin_dollars=dollars)))
    again = plan_under(made(given)[0].explanation(), usual_policy(margin_dollars=dollars))
    assert isinstance(again, Totals)
    assert again.gallons == pytest.approx(expected.total_gallons)


def test_no_limit_is_relaxed_for_a_margin_and_the_preview_relaxes_none_either() -> None:
    burn = Burn(6.5, "learned", learned=LearnedFigure(6.5, 6.0, TRIPS))
    far_apart = inputs(meridian(1300.0), priced(100, 3.2), priced(1100, 3.1), margin_dollars=5.0)
    plan, _ = made(replace(far_apart, burn=burn))
    assert plan.inputs.share_percent != SHARES_PERCENT[0], "with the largest margin the second station is out of reach"
    assert plan.relaxed == []
    again = plan_under(plan.explanation(), far_apart.policy)
    assert isinstance(again, Totals)
    assert again.gallons == pytest.approx(plan.total_gallons)
    assert again.relaxed == 0
