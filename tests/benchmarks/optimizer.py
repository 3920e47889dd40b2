"""The optimizer against HiGHS on the same trips: how fast each finds the least cost, and whether both find the same.

    .venv/bin/python -m tests.benchmarks.optimizer [--json FILE]

Timed on one core, turn by turn: `solve(trip)`, and HiGHS from passing it the finished model to the end of its run, told
to find the optimum itself (no gap). Making the model of a trip and checking the answers is not timed. Every trip counts
for the agreement, and those that have a plan for the times.
"""

import argparse
import json
import random
import statistics
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from domain.planning.optimizer import solve
from domain.planning.trips import Candidate, Infeasible, Solution, Trip
from tests.domain.planning.oracle import exact_highs, milp, optimum

TRIPS = {20: 200, 100: 60, 400: 20}
"""The number of trips, by the number of candidates."""

SAME_DOLLARS = 1e-6


def truck_trip(candidates: int, seed: int) -> Trip:
    """A US truck on 300 to 3,000 miles: prices of 3 to 5 dollars that differ from region to region and from chain to
    chain, 15 % in reserve, a quarter of the tank wanted at the end. Every third trip has a limit on stops.
    """
    rng = random.Random(f"{candidates} candidates, trip {seed}")
    distance = round(rng.uniform(300, 3000), 2)
    capacity = rng.choice([150.0, 200.0, 240.0, 300.0])
    mpg = round(rng.uniform(5.5, 7.5), 1)
    regions = [rng.uniform(3.5, 4.5) for _ in range(int(distance / 300) + 1)]
    chains = [rng.uniform(-0.4, 0.2) for _ in range(5)]

    def candidate(mile: float) -> Candidate:
        price = regions[int(mile / 300)] + rng.choice(chains) + rng.gauss(0, 0.1)
        detour_miles = round(min(rng.expovariate(1.5), 5.0), 2)
        return Candidate("S", mile, detour_miles, detour_miles, round(min(max(price, 3.0), 5.0), 3))

    return Trip(
        distance_miles=distance,
        start_gallons=round(capacity * rng.uniform(0.2, 0.95), 1),
        end_gallons=0.25 * capacity,
        reserve_gallons=0.15 * capacity,
        usable_gallons=0.95 * capacity,
        min_purchase_gallons=30.0,
        stop_cost=20.0,
        mpg=mpg,
        max_stops=round(distance / (0.8 * capacity * mpg)) + rng.randint(0, 1) if seed % 3 == 0 else None,
        candidates=tuple(
            candidate(mile) for mile in sorted(round(rng.uniform(0, distance), 2) for _ in range(candidates))
        ),
    )


def dense_trip(candidates: int, seed: int) -> Trip:
    """An hour's drive through a city, or ten hours along its interstate, past a great many stations, some miles off the
    road. Each chain has one price; every other trip has a price for each station instead.
    """
    rng = random.Random(f"{candidates} candidates, dense trip {seed}")
    distance = rng.choice([60.0, 600.0])
    chains = [round(rng.uniform(3.6, 4.6), 3) for _ in range(5)]
    miles = sorted(round(rng.uniform(0, distance), 2) for _ in range(candidates))
    stations = []
    for mile in miles:
        detour_miles = round(rng.uniform(0, 5), 2)
        price = rng.choice(chains) if seed % 2 else round(rng.gauss(4.1, 0.2), 3)
        stations.append(Candidate("S", mile, detour_miles, detour_miles, price))
    return Trip(
        distance_miles=distance,
        start_gallons=round(rng.uniform(36, 60), 1),
        end_gallons=50.0,
        reserve_gallons=30.0,
        usable_gallons=190.0,
        min_purchase_gallons=30.0,
        stop_cost=20.0,
        mpg=6.5,
        max_stops=None,
        candidates=tuple(stations),
    )


def compare(candidates: int, trips: int) -> dict[str, Any]:
    """Milliseconds of both and the ratios of each trip, where there is a plan; whether all optima are the same."""
    highs_ms, ours_ms, differing = [], [], 0
    for seed in range(trips):
        trip = truck_trip(candidates, seed)
        model, highs = milp(trip), exact_highs()
        started = time.perf_counter()
        highs.passModel(model)
        highs.run()
        between = time.perf_counter()
        solution = solve(trip)
        ended = time.perf_counter()
        expected = optimum(highs)
        if isinstance(solution, Infeasible) or expected is None:
            differing += isinstance(solution, Solution) or expected is not None
        else:
            differing += abs(solution.objective - expected) > SAME_DOLLARS
            highs_ms.append((between - started) * 1000)
            ours_ms.append((ended - between) * 1000)
    ratios = [theirs / ours for theirs, ours in zip(highs_ms, ours_ms, strict=True)]
    return {
        "candidates": candidates,
        "trips": trips,
        "infeasible": trips - len(ratios),
        "same_optimum": differing == 0,
        "highs_median_ms": statistics.median(highs_ms),
        "ours_median_ms": statistics.median(ours_ms),
        "ratios": ratios,
        "differing": differing,
        "ratio_median": statistics.median(ratios),
        "ratio_min": min(ratios),
        "ratio_max": max(ratios),
    }


def figures() -> list[dict[str, Any]]:
    solve(truck_trip(20, 0))  # the first call pays for what later ones find ready
    exact_highs().run()
    return [compare(candidates, trips) for candidates, trips in TRIPS.items()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures there")
    destination = parser.parse_args().json
    results = figures()
    table = Table("n", "trips", "no plan", "same optimum", "HiGHS ms", "ours ms", "ratio", "least", "most")
    for row in results:
        ratios = (f"{row[key]:.1f}" for key in ("ratio_median", "ratio_min", "ratio_max"))
        times = (f"{row[key]:.2f}" for key in ("highs_median_ms", "ours_median_ms"))
        counts = (str(row[key]) for key in ("candidates", "trips", "infeasible"))
        table.add_row(*counts, "yes" if row["same_optimum"] else "NO", *times, *ratios)
    Console().print(table)
    if destination:
        destination.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
