"""Plans that were made are made again under another policy."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.database.connections import Connection
from domain.planning.explanation import FUEL_BY_POLICY, Explanation, pack_explanation
from domain.planning.fuel_plan import ComputedPlan, compute_plan
from domain.planning.what_if import Left
from domain.savings.policy_preview import PLANS, Totals, plan_under, preview_policy
from tests.domain.planning.plans import inputs, meridian, priced, usual_policy
from tests.domain.savings.sent_plans import store_sent_plan
from tests.factories import Fleet

NOW = datetime(2026, 11, 21, 14, 0, tzinfo=UTC)
STATIONS = (
    priced(60, 3.90),
    priced(180, 3.20),
    priced(210, 3.60, east_miles=1),
    priced(330, 3.05, east_miles=3.5),
    priced(420, 3.70),
    priced(560, 3.30),
)


def planned(**policy: Any) -> tuple[ComputedPlan, Explanation]:
    plan = compute_plan(inputs(meridian(600), *STATIONS, **policy))
    assert isinstance(plan, ComputedPlan)
    return plan, plan.explanation()


POLICIES = st.fixed_dictionaries(
    {
        "reserve_percent": st.sampled_from([5.0, 10.0, 15.0, 20.0]),
        "end_fuel_percent": st.sampled_from([20.0, 25.0, 40.0]),
        "min_purchase_gallons": st.sampled_from([10.0, 30.0, 50.0]),
        "stop_cost": st.sampled_from([0.0, 20.0, 60.0]),
        "leftover_value_per_gallon": st.sampled_from([0.0, 2.5]),
        "trips_below_reserve_percent": st.sampled_from([100.0, 5.0, 30.0]),
    }
)


@pytest.mark.slow
@settings(deadline=None)
@given(POLICIES, POLICIES)
def test_a_plan_made_again_is_the_plan_that_the_policy_makes(made: dict[str, float], wanted: dict[str, float]) -> None:
    _, explanation = planned(**made)
    expected, _ = planned(**wanted)

    again = plan_under(explanation, usual_policy(**wanted))

    assert isinstance(again, Totals)
    assert again.cost == pytest.approx(expected.total_cost, abs=0.02 * max(1, len(expected.stops)))
    assert again.gallons == pytest.approx(expected.total_gallons)
    assert (again.stops, again.relaxed) == (len(expected.stops), 0)


def test_a_shorter_detour_leaves_stations_out_and_a_longer_one_is_not_known() -> None:
    _, explanation = planned()
    policy = usual_policy()
    near, same = (plan_under(explanation, policy._replace(max_detour_miles=miles)) for miles in (2.0, 5.0))
    assert isinstance(near, Totals)
    assert isinstance(same, Totals)
    assert near.cost > same.cost, "the cheapest station is 3.5 miles off the road"
    assert plan_under(explanation, policy._replace(max_detour_miles=5.1)) is Left.TOO_FAR


def test_the_assumed_level_counts_only_where_no_truck_has_sent_one() -> None:
    plan = compute_plan(inputs(meridian(600), *STATIONS, fuel_percent=None))
    assert isinstance(plan, ComputedPlan)
    explanation = plan.explanation()
    fuller = usual_policy(assumed_fuel_percent=60.0)
    explanation["sources"] = {"fuel": {"source": "the truck's reading", "percent": 50.0, "at": None}}
    read = plan_under(explanation, fuller)
    explanation["sources"] = {"fuel": {"source": FUEL_BY_POLICY, "percent": 50.0, "at": None}}
    assumed = plan_under(explanation, fuller)
    assert isinstance(read, Totals)
    assert isinstance(assumed, Totals)
    assert assumed.gallons == pytest.approx(read.gallons - 20, abs=0.2)


def test_limits_that_no_plan_keeps_are_relaxed_or_there_is_no_plan() -> None:
    _, explanation = planned()
    again = plan_under(explanation, usual_policy(max_stops=0))
    assert isinstance(again, Totals)
    assert (again.relaxed, again.stops > 0) == (1, True)
    explanation["candidates"] = []
    assert plan_under(explanation, usual_policy()) is Left.INFEASIBLE


def store(connection: Connection, fleet: Fleet, explanation: bytes | None, number: int) -> None:
    at = NOW + timedelta(minutes=number)
    store_sent_plan(connection, fleet.live, explanation, now=at, externalId=f"LOAD-{number}")


def test_the_last_plans_are_summed_and_the_others_are_counted(connection: Connection, fleet: Fleet) -> None:
    plan, explanation = planned()
    packed = pack_explanation(explanation)
    for number, one in enumerate((packed, packed, None)):
        store(connection, fleet, one, number)
    cheaper = usual_policy(reserve_percent=5.0, end_fuel_percent=20.0)

    same = preview_policy(connection, fleet.live, usual_policy(), usual_policy())
    assert (same.found, same.computed, same.left_out) == (3, 2, {Left.FORGOTTEN: 1})
    assert same.before == same.after
    assert same.before.cost == pytest.approx(2 * plan.total_cost, abs=0.1)
    assert same.saved == 0

    preview = preview_policy(connection, fleet.live, usual_policy(), cheaper)
    assert preview.after.cost < preview.before.cost
    assert preview.after.left_gallons < preview.before.left_gallons
    used = preview.before.cost - preview.after.cost
    assert preview.saved < used, "fuel that is left in the tank is no loss"
    assert preview_policy(connection, fleet.sandbox, usual_policy(), cheaper).found == 0


def test_a_preview_tells_what_a_share_of_trips_below_the_reserve_costs_and_prevents() -> None:
    _, explanation = planned()
    before, after = (plan_under(explanation, usual_policy(trips_below_reserve_percent=share)) for share in (100, 5))
    assert isinstance(before, Totals)
    assert isinstance(after, Totals)
    assert before.below_reserve > 0.3
    assert after.below_reserve <= 0.05
    assert after.gallons > before.gallons


def test_only_the_last_plans_are_looked_at_and_not_for_long(connection: Connection, fleet: Fleet) -> None:
    packed = pack_explanation(planned()[1])
    for number in range(PLANS + 2):
        store(connection, fleet, packed if number >= PLANS else None, number)
    steps: Iterator[int] = count()

    preview = preview_policy(
        connection, fleet.live, usual_policy(), usual_policy(), seconds=2, clock=lambda: float(next(steps))
    )

    assert (preview.found, preview.computed) == (PLANS, 1)
    assert preview.left_out == {Left.TOO_LATE: PLANS - 1}
