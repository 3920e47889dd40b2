"""Makes the 200 instances of the open benchmark, and solves each in three ways.

    .venv/bin/python -m tests.benchmarks.instances.making

All roads, stations and prices are drawn by chance from the name of the instance: they are nobody's. HiGHS takes most of
the time, half a minute on one core.
"""

import random
import time
from collections.abc import Callable
from dataclasses import replace

from rich.progress import track

from domain.planning.optimizer import solve
from domain.planning.trips import BrokenPlan, BurnedBy, Candidate, Purchase, Solution, Trip, drive_trip, objective_of
from tests.benchmarks.instances.solving import FILE, Costs, Instance, as_line
from tests.domain.planning.oracle import exact_highs, milp, optimum

EACH = 20
"""Instances of a family."""

HIGHS_SECONDS = 300.0
"""Time for HiGHS on one instance. Where it is not done by then, it has no cost."""


def _corridor(rng: random.Random, miles: tuple[float, float], stations: tuple[int, int]) -> Trip:
    """A truck on an interstate: chains and regions with price levels of their own, exits with several pumps."""
    distance = round(rng.uniform(*miles), 2)
    capacity = rng.choice([120.0, 150.0, 200.0, 240.0, 300.0])
    regions = [rng.uniform(3.2, 4.4) for _ in range(int(distance / 250) + 1)]
    chains = {name: rng.uniform(-0.35, 0.15) for name in ("AX", "BO", "CU", "DE", "EL")}
    exits = sorted(round(rng.uniform(0, distance), 2) for _ in range(rng.randint(*stations) // 2 + 1))
    candidates = []
    for number, mile in enumerate(sorted(rng.choice(exits) for _ in range(rng.randint(*stations)))):
        chain = rng.choice([*chains])
        price = round(regions[int(mile / 250)] + chains[chain] + rng.gauss(0, 0.06), 3)
        away = round(min(rng.expovariate(1.2), 5.0), 2)
        candidates.append(Candidate(f"{chain}-{number:03d}", mile, away, away, price))
    return Trip(
        distance_miles=distance,
        start_gallons=round(capacity * rng.uniform(0.2, 0.6), 1),
        end_gallons=round(capacity * rng.choice([0.15, 0.25, 0.5]), 1),
        reserve_gallons=round(0.15 * capacity, 1),
        usable_gallons=round(0.95 * capacity, 1),
        min_purchase_gallons=rng.choice([20.0, 30.0, 50.0]),
        stop_cost=rng.choice([10.0, 20.0, 35.0]),
        mpg=round(rng.uniform(5.2, 7.8), 2),
        max_stops=None,
        candidates=tuple(candidates),
    )


def _regional(rng: random.Random) -> Trip:
    return _corridor(rng, (150, 450), (6, 40))


def _long_haul(rng: random.Random) -> Trip:
    return _corridor(rng, (600, 1400), (40, 120))


def _coast_to_coast(rng: random.Random) -> Trip:
    return _corridor(rng, (2000, 3000), (90, 200))


def _equal_prices(rng: random.Random) -> Trip:
    """Each chain has one price, as fleets have by contract. Many plans cost the same but for their detours."""
    trip = _corridor(rng, (400, 1200), (30, 90))
    prices = {chain: round(rng.uniform(3.2, 4.2), 2) for chain in ("AX", "BO", "CU", "DE", "EL")}
    return _with_each(trip, lambda one: one._replace(price=prices[one.station_id[:2]]))


def _few_stops(rng: random.Random) -> Trip:
    """A limit of stops that is as low as it can be, or one more."""
    trip = _corridor(rng, (900, 2400), (40, 110))
    trip = replace(trip, stop_cost=0.0, min_purchase_gallons=5.0)
    reach = (trip.usable_gallons - trip.reserve_gallons) * trip.mpg
    return replace(trip, max_stops=int(trip.distance_miles / reach) + rng.choice([0, 1, 1]))


def _growing_floors(rng: random.Random) -> Trip:
    """The fuel on arriving at each station is to be the more, the further the truck has driven since its start."""
    trip, share = _corridor(rng, (500, 1500), (30, 100)), rng.uniform(0.04, 0.15)
    highest = 0.6 * trip.usable_gallons

    def with_floor(one: Candidate) -> Candidate:
        floor = trip.reserve_gallons + share * (one.mile + one.detour_miles_in) / trip.mpg
        return one._replace(floor_gallons=round(min(floor, highest), 2))

    return _with_each(trip, with_floor)


def _low_at_the_start(rng: random.Random) -> Trip:
    """The truck may use some of its reserve until its first stop, and needs it."""
    trip = _corridor(rng, (200, 900), (15, 70))
    start = round(trip.reserve_gallons * rng.uniform(0.3, 1.0), 1)
    return replace(trip, start_gallons=start, margin_gallons=round(-trip.reserve_gallons * rng.uniform(0.5, 0.95), 1))


def _legs(rng: random.Random) -> Trip:
    """The load changes along the way, and so does the burn."""
    trip = _corridor(rng, (500, 1800), (30, 110))
    inner = sorted({round(rng.uniform(1, trip.distance_miles - 1), 2) for _ in range(rng.randint(1, 6))})
    burned, gallons = [BurnedBy(0.0, 0.0)], 0.0
    for mile in (*inner, trip.distance_miles):
        gallons += (mile - burned[-1].mile) / (trip.mpg * rng.uniform(0.7, 1.3))
        burned.append(BurnedBy(mile, round(gallons, 6)))
    return replace(trip, burned=tuple(burned), mpg=round(trip.distance_miles / burned[-1].gallons, 6))


def _small_purchases(rng: random.Random) -> Trip:
    """Stops cost nothing, any purchase will do, and what is left in the tank is worth something."""
    trip = _corridor(rng, (300, 1200), (20, 90))
    worth = rng.choice([0.0, 2.5, 3.4])
    return replace(trip, stop_cost=0.0, min_purchase_gallons=0.0, leftover_value_per_gallon=worth)


def _large_purchases(rng: random.Random) -> Trip:
    """Each purchase is most of a tank, and the pumps are far off the road: where to make room is the question."""
    trip = _corridor(rng, (600, 2000), (30, 100))
    trip = replace(trip, min_purchase_gallons=round(trip.usable_gallons * rng.uniform(0.4, 0.6), 1))
    return _with_each(
        trip,
        lambda one: one._replace(
            detour_miles_in=round(rng.uniform(0, 20), 2), detour_miles_out=round(rng.uniform(0, 20), 2)
        ),
    )


def _with_each(trip: Trip, change: Callable[[Candidate], Candidate]) -> Trip:
    return replace(trip, candidates=tuple(map(change, trip.candidates)))


FAMILIES: dict[str, Callable[[random.Random], Trip]] = {
    "regional": _regional,
    "long haul": _long_haul,
    "coast to coast": _coast_to_coast,
    "equal prices": _equal_prices,
    "few stops": _few_stops,
    "growing floors": _growing_floors,
    "low at the start": _low_at_the_start,
    "legs": _legs,
    "small purchases": _small_purchases,
    "large purchases": _large_purchases,
}


def greedy(trip: Trip) -> float | None:
    """The cost of a rule of thumb: go on to the cheapest station in reach. If a cheaper one, or the end, is in reach
    from there with a full tank, buy what takes the truck to it; else fill up. None where it breaks a limit."""
    purchases: list[Purchase] = []
    fuel, mile, behind = trip.start_usable_gallons, 0.0, 0
    while trip.gallons_left(from_mile=mile, gallons=fuel) < max(trip.lowest_gallons(len(purchases)), trip.end_gallons):
        at = _cheapest(trip, behind, mile, fuel, len(purchases))
        if at is None:
            return None
        one = trip.candidates[at]
        arriving = trip.arriving_gallons(one, from_mile=mile, gallons=fuel)
        room = trip.usable_gallons - arriving
        gallons = min(max(_wanted(trip, at) - arriving, trip.smallest_purchase(one)), room)
        purchases.append(Purchase(at, gallons))
        fuel, mile, behind = arriving + gallons - trip.gallons_back_to_road(one), one.mile, at + 1
    try:
        drive_trip(trip, purchases)
    except BrokenPlan:
        return None
    return objective_of(trip, purchases)


def _cheapest(trip: Trip, behind: int, mile: float, fuel: float, stops_made: int) -> int | None:
    """The cheapest candidate in reach with room for a purchase; of equal ones the last."""
    reached = []
    for index in range(behind, len(trip.candidates)):
        one = trip.candidates[index]
        arriving = trip.arriving_gallons(one, from_mile=mile, gallons=fuel)
        if trip.lowest_on_arriving(one, stops_made) <= arriving <= trip.usable_gallons - trip.smallest_purchase(one):
            reached.append(index)
    return min(reached, key=lambda index: (trip.candidates[index].price, -index), default=None)


def _wanted(trip: Trip, at: int) -> float:
    """The fuel with which a truck leaves a station's pump: enough for the first cheaper one, or the end, or all."""
    one, full = trip.candidates[at], trip.usable_gallons
    back = trip.gallons_back_to_road(one)
    for other in trip.candidates[at + 1 :]:
        needed = full - trip.arriving_gallons(other, from_mile=one.mile, gallons=full - back)
        needed += trip.lowest_on_arriving(other, 1)
        if other.price < one.price and needed <= full:
            return needed
    to_end = full - trip.gallons_left(from_mile=one.mile, gallons=full - back)
    return min(to_end + max(trip.end_gallons, trip.reserve_gallons), full)


def by_highs(trip: Trip) -> tuple[float | None, float]:
    """The optimum of HiGHS, None where it finds none, and its seconds of the processor."""
    highs = exact_highs()
    highs.setOptionValue("time_limit", HIGHS_SECONDS)
    highs.passModel(milp(trip))
    started = time.process_time()
    highs.run()
    seconds = time.process_time() - started
    return optimum(highs), seconds


def make(family: str, number: int) -> tuple[Instance, float]:
    """An instance, and the seconds that HiGHS took."""
    name = f"{family} {number:02d}"
    trip = FAMILIES[family](random.Random(f"open benchmark, {name}"))
    solution = solve(trip)
    highs, seconds = by_highs(trip)
    is_feasible = isinstance(solution, Solution)
    purchases = solution.purchases if isinstance(solution, Solution) else ()
    ours = objective_of(trip, purchases) if is_feasible else None
    return Instance(name, trip, Costs(ours, highs, greedy(trip)), purchases), seconds


def main() -> None:
    lines, slowest = [], []
    for family in FAMILIES:
        for number in track(range(EACH), description=family):
            instance, seconds = make(family, number)
            lines.append(as_line(instance))
            slowest.append((seconds, instance.name, instance.costs))
    FILE.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"{len(lines)} instances, {FILE.stat().st_size:,} bytes")
    for seconds, name, costs in sorted(slowest, reverse=True)[:10]:
        print(f"{seconds:8.2f} s  {name}  {costs}")
    total = sum(seconds for seconds, *_ in slowest)
    print(f"HiGHS took {total:.1f} s in all, at the median {sorted(slowest)[len(slowest) // 2][0] * 1000:.0f} ms")


if __name__ == "__main__":
    main()
