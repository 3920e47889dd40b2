"""Reads the instances of the open benchmark, solves them, and compares the costs with those in the file.

`fuelroute bench instances` shows the times and the gaps.
"""

import json
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from domain.planning.optimizer import solve
from domain.planning.trips import NUMBERS, BurnedBy, Candidate, Infeasible, Purchase, Solution, Trip
from tests.benchmarks.harness import Bench, Figure

FILE = Path(__file__).with_name("instances.jsonl")

SAME_DOLLARS = 1e-5
"""Costs nearer than this are the same: the file keeps six decimals."""


class Costs(NamedTuple):
    """The least cost by our optimizer, by HiGHS, and what the greedy rule pays; None without a plan."""

    ours: float | None
    highs: float | None
    greedy: float | None


class Instance(NamedTuple):
    name: str
    trip: Trip
    costs: Costs
    purchases: Sequence[Purchase]
    """Our cheapest purchases."""


def as_line(instance: Instance) -> str:
    """The instance as a line of the file. Trip and candidates are as in a certificate."""
    trip = instance.trip
    document = {
        "name": instance.name,
        "trip": {
            **{name: getattr(trip, name) for name in NUMBERS},
            "mpg": None if trip.burned else trip.mpg,
            "burned": trip.burned,
            "spare_gallons": 0,
        },
        "candidates": [
            [
                one.station_id,
                one.mile,
                one.detour_miles_in,
                one.detour_miles_out,
                one.price,
                one.price,
                one.floor_gallons,
            ]
            for one in trip.candidates
        ],
        "costs": {name: cost if cost is None else round(cost, 6) for name, cost in instance.costs._asdict().items()},
        "stops": [[index, round(gallons, 6)] for index, gallons in instance.purchases],
    }
    return json.dumps(_whole(document), separators=(",", ":"))


def _whole(value: Any) -> Any:
    """The value with whole numbers where nothing stands behind the point."""
    if isinstance(value, dict):
        return {name: _whole(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_whole(one) for one in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def read_instances() -> list[Instance]:
    with FILE.open(encoding="utf-8") as lines:
        return [_instance(json.loads(line)) for line in lines]


def _instance(document: dict[str, Any]) -> Instance:
    given = dict(document["trip"])
    del given["spare_gallons"]
    given["burned"] = tuple(BurnedBy(*leg) for leg in given["burned"])
    if given["burned"]:
        given["mpg"] = given["distance_miles"] / given["burned"][-1].gallons
    candidates = tuple(
        Candidate(name, mile, into, out, price, floor)
        for name, mile, into, out, _, price, floor in document["candidates"]
    )
    purchases = [Purchase(*stop) for stop in document["stops"]]
    return Instance(document["name"], Trip(**given, candidates=candidates), Costs(**document["costs"]), purchases)


def cost_of(solution: Solution | Infeasible) -> float | None:
    return solution.objective if isinstance(solution, Solution) else None


def differs(cost: float | None, other: float | None) -> bool:
    if cost is None or other is None:
        return cost is not other
    return abs(cost - other) > SAME_DOLLARS


def run(bench: Bench) -> list[Figure]:
    """Solve each instance once in each round."""
    instances = read_instances()
    solve(instances[0].trip)  # the first call pays for what later ones find ready
    milliseconds: list[list[float]] = []
    with bench.task("instances of the open benchmark"):
        for _ in range(bench.rounds):
            found, took = zip(*(_timed(one.trip) for one in instances), strict=True)
            milliseconds.append([1000 * seconds for seconds in took])
    differing = [one.name for one, cost in zip(instances, found, strict=True) if differs(cost, one.costs.highs)]
    gaps = [
        100 * (one.costs.greedy / one.costs.ours - 1)
        for one in instances
        if one.costs.greedy is not None and one.costs.ours is not None and one.costs.ours > 0
    ]
    stuck = sum(one.costs.greedy is None and one.costs.ours is not None for one in instances)
    return [
        Figure("instances: p50", "ms", [statistics.median(one) for one in milliseconds]),
        Figure("instances: p95", "ms", [statistics.quantiles(one, n=20)[-1] for one in milliseconds]),
        Figure("instances: the slowest", "ms", [max(one) for one in milliseconds]),
        Figure("instances: all 200", "ms", [sum(one) for one in milliseconds]),
        Figure("instances: other optima than HiGHS", "of 200", [len(differing)], at_most=0, note=", ".join(differing)),
        Figure("instances: greedy costs more, p50", "%", [statistics.median(gaps)]),
        Figure("instances: greedy costs more, at most", "%", [max(gaps)]),
        Figure("instances: greedy finds no plan, but there is one", "of 200", [stuck]),
    ]


def _timed(trip: Trip) -> tuple[float | None, float]:
    """The cost, and the seconds of the processor, which others on the machine do not change much."""
    started = time.process_time()
    solution = solve(trip)
    return cost_of(solution), time.process_time() - started
