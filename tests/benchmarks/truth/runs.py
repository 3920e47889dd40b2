"""Drives of a world, one after the other."""

from collections.abc import Iterator

from tests.benchmarks.truth.driver import Dispatch, Drive, Outcome
from tests.benchmarks.truth.optimum import compare
from tests.benchmarks.truth.rules import Rules
from tests.benchmarks.truth.unplanned import CheapestInRange, FillsUpWhenLow
from tests.benchmarks.truth.world import World, draw_trip, draw_truck
from tests.domain.planning.plans import usual_policy

SEEDS_APART = 1_000_000
"""The seeds of a truck's earlier trips lie this far from that of the judged one."""


def drives_of(world: World, seed: int, drives: int, replans_en_route: bool) -> Iterator[Outcome]:
    for number in range(seed, seed + drives):
        yield drive(world, number, replans_en_route=replans_en_route)


def drive(world: World, seed: int, *, replans_en_route: bool = False) -> Outcome:
    """The trip of a seed, after the truck's earlier ones."""
    truck = draw_truck(world, seed)
    dispatch = dispatch_of(world, replans_en_route)
    for number in range(1, world.trips_before + 1):
        Drive(draw_trip(world, truck, seed + number * SEEDS_APART), dispatch).run()
    trip = draw_trip(world, truck, seed)
    outcome = Drive(trip, dispatch, counts_messages=world.driver == "plan").run()
    compare(outcome, trip, usual_policy())
    return outcome


def dispatch_of(world: World, replans_en_route: bool) -> Dispatch:
    if world.driver == "below 30 %":
        return FillsUpWhenLow()
    return CheapestInRange() if world.driver == "cheapest" else Rules(replans_en_route=replans_en_route)
