"""Laws that every drive keeps, whatever the world is like. The judge itself is `python -m tests.benchmarks.truth`."""

from dataclasses import replace

import pytest

from domain.routes.plans import replans
from tests.benchmarks.truth.driver import START, Drive, Fix, Outcome
from tests.benchmarks.truth.figures import line_of, wilson
from tests.benchmarks.truth.rules import Rules
from tests.benchmarks.truth.runs import drive
from tests.benchmarks.truth.world import WORLDS, draw_trip, draw_truck
from tests.domain.planning.plans import usual_policy

pytestmark = pytest.mark.slow

SEEDS = range(1, 7)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_drive_without_errors_costs_what_its_plan_says_to_the_cent(seed: int) -> None:
    world, rules = WORLDS["exact"], Rules()
    outcome = Drive(draw_trip(world, draw_truck(world, seed), seed), rules).run()
    policy, plan = usual_policy(), rules.plan
    assert plan is not None
    assert round(outcome.dollars, 2) == round(plan.total_cost + policy.stop_cost * len(plan.stops), 2)
    assert outcome.messages == 1
    assert outcome.lowest_percent >= policy.reserve_percent - 0.05
    assert outcome.left_gallons == pytest.approx(plan.limits.end_gallons, abs=0.1) or not plan.stops


@pytest.mark.parametrize("seed", SEEDS)
def test_no_reading_tells_a_gauge_that_is_off_from_another_level_at_the_start(seed: int) -> None:
    off = draw_trip(WORLDS["gauge-off"], draw_truck(WORLDS["gauge-off"], seed), seed)
    shown_gallons = off.start_gallons + off.gauge_bias * off.truck.capacity_gallons / 100
    exact = replace(off, world=WORLDS["exact"], start_gallons=shown_gallons)
    first, second = (Drive(trip, Rules()).run() for trip in (off, exact))
    assert (first.dollars, first.messages) == (second.dollars, second.messages)
    assert first.bought_gallons == pytest.approx(second.bought_gallons)
    assert first.lowest_percent == pytest.approx(second.lowest_percent - off.gauge_bias)


@pytest.mark.parametrize("seed", [1, 2])
def test_three_trips_without_errors_leave_the_plan_as_it_is_to_the_cent(seed: int) -> None:
    unknown, known = (replace(WORLDS["exact"], trips_before=trips) for trips in (0, 3))
    first, fourth = drive(unknown, seed), drive(known, seed)
    assert (fourth.dollars, fourth.messages) == (first.dollars, 1)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_drive_costs_no_less_than_the_optimum_that_knows_everything(seed: int) -> None:
    outcome = drive(WORLDS["exact"], seed)
    assert outcome.optimum_dollars is not None
    assert outcome.dollars == pytest.approx(outcome.optimum_dollars, abs=0.5)


@pytest.mark.parametrize("world", ["declared", "burns-15", "burns-20", "burns-15-errors"])
@pytest.mark.parametrize("seed", SEEDS)
def test_no_truck_runs_dry_where_a_station_was_in_reach_and_no_driver_gets_more_messages_than_the_limits(
    world: str, seed: int
) -> None:
    outcome = drive(WORLDS[world], seed)
    assert not outcome.passed_when_low, outcome.notes
    assert outcome.messages <= 1 + replans.MOST_BURN_REPLANS + replans.MOST_LEVEL_REPLANS, outcome.notes


def test_the_driver_reads_level_gallons_and_way_out_in_his_message() -> None:
    world = WORLDS["exact"]
    trip = draw_trip(world, draw_truck(world, 1), 1)
    orders = Rules().begin(trip, Fix(START, 0.0, trip.shown_percent(trip.start_gallons)))
    assert orders
    for order in orders:
        assert order.fill_percent is not None
        assert order.gallons > 0
        assert order.way_out is not None
        assert order.way_out.mile > order.offer.mile - 1


def test_the_same_seed_draws_the_same_world() -> None:
    first, again = (drive(WORLDS["declared"], 7) for _ in range(2))
    assert first == again


def test_a_world_in_which_nobody_arrives_has_a_line_too() -> None:
    assert "| - | - | - |" in line_of("dry", [Outcome(1, dry_mile=10.0)])


def test_an_interval_holds_its_share() -> None:
    low, high = wilson(3, 100)
    assert 0 < low < 0.03 < high < 0.1
