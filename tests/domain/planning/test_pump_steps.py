"""Plans are the cheapest in whole steps of a pump: the oracle, with such steps, finds none that costs less."""

import pytest

from domain.planning import pump_steps
from domain.planning.optimizer import solve
from domain.planning.pump_steps import step_of
from domain.planning.rounding import rounded_optimum, solve_rounded
from domain.planning.trips import Infeasible, Purchase, Solution, Trip, drive_trip
from tests.domain.planning.oracle import milp_objective
from tests.domain.planning.trips import VARIANTS, random_trip, trip

pytestmark = pytest.mark.slow

ROUNDED_OTHERWISE = [
    ("less than the reserve until the first stop", 54),
    ("less than the reserve, and floors", 31),
    ("most of a tank wanted at the end", 12),
    ("floors up to a full tank", 48),
    ("less than the reserve until one of some stations", 31),
]
"""The rounded optimum's own stops in whole steps cost less than what rounding makes of it."""

OTHER_STOPS = [("three stops", 58), ("dear stops", 58), ("most of a tank wanted at the end", 58)]
"""Other stops than the optimum's cost less in whole steps."""


def both(trip: Trip) -> tuple[Solution, Solution]:
    """The optimum, rounded, and the cheapest purchases in whole steps."""
    rounded, cheapest = rounded_optimum(trip), solve_rounded(trip)
    assert isinstance(rounded, Solution)
    assert isinstance(cheapest, Solution)
    return rounded, cheapest


def is_cheapest(trip: Trip) -> bool:
    """Check that the plan of a trip is the oracle's in whole steps, where there is one. Returns whether there is."""
    if isinstance(rounded_optimum(trip), Infeasible):
        return False
    rounded, cheapest = both(trip)
    drive_trip(trip, cheapest.purchases)
    least = milp_objective(trip, step_gallons=step_of(rounded.purchases))
    assert least == pytest.approx(cheapest.objective, abs=1e-4)
    return True


@pytest.mark.parametrize(("variant", "seed"), [*ROUNDED_OTHERWISE, *OTHER_STOPS])
def test_where_rounding_the_optimum_loses_more_than_it_must_the_plan_is_the_cheaper_one(
    variant: str, seed: int
) -> None:
    tried = VARIANTS[variant](random_trip(seed))
    rounded, cheapest = both(tried)
    stops, others = ([index for index, _ in one.purchases] for one in (rounded, cheapest))

    assert is_cheapest(tried)
    assert rounded.objective - 0.5 < cheapest.objective < rounded.objective - 0.01
    assert (stops != others) is ((variant, seed) in OTHER_STOPS)


@pytest.mark.parametrize("variant", VARIANTS)
def test_plans_are_the_cheapest_in_whole_steps(variant: str) -> None:
    for seed in (3, 5):
        is_cheapest(VARIANTS[variant](random_trip(seed)))


def test_a_stop_that_pays_only_in_fractions_is_not_made() -> None:
    """There is room for 0.19 gallons that are worth a dollar more than they cost, and the stop costs 15 cents."""
    limits = {"distance_miles": 50.0, "start_gallons": 100.0, "usable_gallons": 100.19}
    full = trip((0, 3.0), **limits, leftover_value_per_gallon=4.0, stop_cost=0.15)
    optimum = solve(full)

    assert isinstance(optimum, Solution)
    assert len(optimum.purchases) == 1
    assert solve_rounded(full) == Solution((), 0.0 - 4.0 * 80)


def test_the_rounded_optimum_stays_where_the_cheapest_takes_too_much_work(monkeypatch: pytest.MonkeyPatch) -> None:
    variant, seed = OTHER_STOPS[0]
    dear = VARIANTS[variant](random_trip(seed))
    rounded, cheapest = both(dear)
    monkeypatch.setattr(pump_steps, "MOST_STOPS_TRIED", 0)

    assert solve_rounded(dear) == rounded
    assert rounded.objective > cheapest.objective


def test_the_step_is_the_largest_that_shows_all_gallons() -> None:
    assert step_of([Purchase(0, 50.3), Purchase(1, 29.0)]) == 0.1
    assert step_of([Purchase(0, 50.3), Purchase(1, 29.07)]) == 0.01
    assert step_of([Purchase(0, 29.073)]) == 0.001
    assert step_of([]) == 0.1
