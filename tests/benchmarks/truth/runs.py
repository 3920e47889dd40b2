"""Drives of a world, one after the other, or several at a time through the service."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from functools import partial

from domain import clock
from tests.benchmarks.truth.driver import START, Dispatch, Drive, Outcome
from tests.benchmarks.truth.optimum import compare
from tests.benchmarks.truth.rules import Rules
from tests.benchmarks.truth.service import Service
from tests.benchmarks.truth.unplanned import CheapestInRange, FillsUpWhenLow
from tests.benchmarks.truth.world import Truck, World, draw_trip, draw_truck
from tests.domain.planning.plans import usual_policy

SEEDS_APART = 1_000_000
"""The seeds of a truck's earlier trips lie this far from that of the judged one."""
AT_ONCE = 6
"""Trucks on the road at a time, when the service dispatches them."""


def drives_of(
    world: World, seed: int, drives: int, replans_en_route: bool, margin_percent: float = 0.0
) -> Iterator[Outcome]:
    """The drives by the rules."""
    rules = partial(Rules, replans_en_route=replans_en_route, margin_percent=margin_percent)
    for number in range(seed, seed + drives):
        yield drive(world, number, lambda _: rules())


def drives_through(service: Service, world: World, seed: int, drives: int, replans_en_route: bool) -> Iterator[Outcome]:
    """The drives through the service."""

    start = clock.now() + timedelta(hours=1)

    def one(number: int) -> Outcome:
        return drive(world, number, lambda truck: service.dispatch(truck, replans_en_route), start=start)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        yield from pool.map(one, range(seed, seed + drives))


def drive(
    world: World,
    seed: int,
    dispatch_of: Callable[[Truck], Dispatch] | None = None,
    *,
    start: datetime = START,
) -> Outcome:
    """The trip of a seed, after the truck's earlier ones."""
    truck = draw_truck(world, seed)
    is_planned = world.driver == "plan"
    if is_planned:
        dispatch = dispatch_of(truck) if dispatch_of is not None else Rules()
    else:
        dispatch = FillsUpWhenLow() if world.driver == "below 30 %" else CheapestInRange()
    for number in range(1, world.trips_before + 1):
        earlier = Drive(draw_trip(world, truck, seed + number * SEEDS_APART), dispatch, start=start)
        earlier.run()
        start = earlier.next_start
    trip = draw_trip(world, truck, seed)
    outcome = Drive(trip, dispatch, start=start, counts_messages=is_planned).run()
    compare(outcome, trip, usual_policy())
    return outcome
