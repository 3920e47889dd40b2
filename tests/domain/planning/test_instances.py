"""The open benchmark: its instances are those that the script makes, and cost what the file says."""

import random
from dataclasses import replace

import pytest

from deploy.clients.python.fuelroute_client.certificates import check_certificate
from domain.planning.certificate import certificate_of_trip
from domain.planning.optimizer import solve
from domain.planning.rounding import solve_rounded
from domain.planning.trips import Solution, drive_trip, objective_of
from tests.benchmarks.instances.making import EACH, FAMILIES, by_highs, greedy
from tests.benchmarks.instances.solving import cost_of, differs, read_instances

INSTANCES = {one.name: one for one in read_instances()}
SAMPLE = [*INSTANCES][3::8]
SMALL = [name for name, one in INSTANCES.items() if len(one.trip.candidates) < 25][:6]


def test_there_are_two_hundred() -> None:
    assert len(INSTANCES) == EACH * len(FAMILIES) == 200
    solved = [one.costs.ours for one in INSTANCES.values()]
    assert 180 < sum(cost is not None for cost in solved) < 200
    assert not [name for name, one in INSTANCES.items() if differs(one.costs.ours, one.costs.highs)]


@pytest.mark.parametrize("name", SAMPLE)
def test_an_instance_is_the_one_that_is_made_and_costs_what_the_file_says(name: str) -> None:
    one = INSTANCES[name]
    family, _ = name.rsplit(" ", 1)
    made = FAMILIES[family](random.Random(f"open benchmark, {name}"))

    assert replace(made, mpg=one.trip.mpg) == one.trip
    assert not differs(cost_of(solve(one.trip)), one.costs.ours)
    assert not differs(greedy(one.trip), one.costs.greedy)
    if one.costs.ours is None:
        assert not one.purchases
        return
    drive_trip(one.trip, one.purchases, tolerance_gallons=1e-5)
    assert not differs(objective_of(one.trip, one.purchases), one.costs.ours)
    assert one.costs.greedy is None or one.costs.greedy > one.costs.ours - 1e-5


@pytest.mark.parametrize("name", SMALL)
def test_highs_agrees_on_the_small_ones(name: str) -> None:
    cost, _ = by_highs(INSTANCES[name].trip)
    assert not differs(cost, INSTANCES[name].costs.highs)


@pytest.mark.parametrize("name", SAMPLE[::4])
def test_the_plan_of_an_instance_has_a_certificate(name: str) -> None:
    one = INSTANCES[name]
    plan = solve_rounded(one.trip)
    purchases = plan.purchases if isinstance(plan, Solution) else None
    prices = [candidate.price for candidate in one.trip.candidates]

    check_certificate(certificate_of_trip(one.trip, purchases, prices, {"instance": name}))
