"""Driven lanes, measured: do plans choose stations on the road that drivers take, before and after they have driven?

    .venv/bin/python -m tests.benchmarks.driven_lanes [LANES]

Drivers of each lane take the cheapest way by preferences of their own: every region of the country has a factor by
which they like or avoid its roads, and no speed of ours counts. A plain search of Dijkstra here finds that way, not the
embedded roads' own search. Each trip has errors of GPS, a line that wanders by 200 m from the file's, gaps and fuel
stops; two in ten take the quickest way instead. Then the same trip is planned with what the trips have taught so far.
"""

import heapq
import math
import random
import statistics
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from uuid import UUID

import numpy as np

from domain.driven_lanes.agreement import Witness, share_in_common, vote
from domain.driven_lanes.driven_road import DrivenRoad
from domain.driven_lanes.lanes import LearnedLane
from domain.driven_lanes.road_by_lane import road_by_lane
from domain.driven_lanes.snapping import TimedPlace, UnusableFixes, snapped
from domain.ids import new_id
from domain.planning.fuel_plan import ComputedPlan, compute_plan
from domain.planning.plan_inputs import PlanInputs
from domain.roads import Leg, Point, Road
from domain.roads.highways import HighwayRoads, default_highway_finder
from domain.roads.truck_dimensions import ANY_TRUCK
from domain.stations.corridor import StationIndex
from domain.stations.offers import Offer, Station
from tests.benchmarks.plan import interchanges, stations
from tests.domain.driven_lanes.driving import fixes_along
from tests.domain.planning.plans import usual_policy

LANES = 12
TRIPS = 10
STATIONS = 8_000
TANK_GALLONS = 80.0
"""A small tank, so that a plan has several fuel stops all along its road."""
REGION_DEGREES = 2.0
FACTORS = (0.75, 1.4)
MOST_CIRCUITY = 1.20
"""No driver goes further round than this times the quickest way."""
MOST_COMMON = 0.70
"""Lanes whose drivers take the quickest way anyway would show nothing."""
DAY = datetime(2026, 6, 1, 8, tzinfo=UTC)


class Preferences:
    """The embedded roads with the costs of some drivers, as a plain graph."""

    def __init__(self) -> None:
        self.finder = default_highway_finder()
        graph = self.finder.graph
        tails = np.repeat(np.arange(len(graph.nodes)), np.diff(graph.first))
        arcs = np.flatnonzero(graph.through < 0)
        miles, hours = self.finder.lengths(arcs)
        self.nodes = graph.nodes
        self.neighbours: list[list[tuple[int, float, float]]] = [[] for _ in self.nodes]
        for tail, head, one, long in zip(
            tails[arcs].tolist(), graph.head[arcs].tolist(), miles.tolist(), hours.tolist(), strict=True
        ):
            self.neighbours[tail].append((head, one, long))
            self.neighbours[head].append((tail, one, long))

    def way(self, start: int, goal: int, seed: int) -> Road | None:
        """The cheapest way by the preferences of this seed."""
        size = int(360 / REGION_DEGREES)
        factors = np.random.default_rng(seed).uniform(*FACTORS, (size, size))
        cells = np.floor((self.nodes + np.array([90.0, 180.0])) / REGION_DEGREES).astype(int)
        factor = factors[cells[:, 0], cells[:, 1]].tolist()
        best, came, done = {start: 0.0}, dict[int, tuple[int, float, float]](), set[int]()
        queue = [(0.0, start)]
        while queue:
            cost, node = heapq.heappop(queue)
            if node == goal:
                break
            if node in done:
                continue
            done.add(node)
            for other, miles, hours in self.neighbours[node]:
                total = cost + miles * (factor[node] + factor[other]) / 2
                if total < best.get(other, math.inf):
                    best[other] = total
                    came[other] = node, miles, hours
                    heapq.heappush(queue, (total, other))
        if goal not in came:
            return None
        path, steps, spent = [goal], [0.0], 0.0
        while path[-1] != start:
            node, miles, hours = came[path[-1]]
            path.append(node)
            steps.append(miles)
            spent += hours
        path.reverse()
        line_miles = np.concatenate([[0.0], np.cumsum(steps[:0:-1])])
        return Road.of([Leg(self.nodes[path], line_miles, spent, "drivers")])


def wandering(road: Road, seed: int) -> Road:
    """The road as it really lies: up to 200 m beside the simplified line of the file."""
    rng = np.random.default_rng(seed)
    miles = np.arange(0.0, road.distance_miles, 0.5)
    phases = rng.uniform(0, 2 * np.pi, 4)
    off = sum(np.sin(miles / length + phase) for length, phase in zip((2.0, 3.7, 5.3, 9.1), phases, strict=True))
    line = np.stack([np.interp(miles, road.line_miles, degrees) for degrees in road.line.T], axis=1)
    return Road.of([Leg(line + (off * 0.031 / 69)[:, None], miles, road.stop_hours[-1], "drivers")])


def driven(road: DrivenRoad) -> Road:
    return Road(float(road.miles[-1]), road.line, road.miles, (0.0,), (0.0,), "test")


class Chooser:
    """Plans with the policy's default values and a price for each station."""

    def __init__(self) -> None:
        rng = random.Random("prices")
        self.places: list[Station] = stations(STATIONS)
        self.index = StationIndex.build(
            [one.station_id for one in self.places], [(one.latitude, one.longitude) for one in self.places]
        )
        self.prices = [round(rng.uniform(3.2, 4.6), 3) for _ in self.places]

    def chosen(self, road: Road) -> set[str]:
        policy = usual_policy()
        passes = self.index.passes(road, policy.max_detour_miles)
        offers = [Offer(self.places[at], mile, detour, self.prices[at]) for at, mile, detour in passes]
        plan = compute_plan(PlanInputs(road, 40.0, policy, offers, DAY, capacity_gallons=TANK_GALLONS))
        if not isinstance(plan, ComputedPlan):
            return set()
        bought = [one["station_id"] for one in plan.explanation()["candidates"] if one["gallons"]]
        return set(bought)

    def near(self, road: Road) -> set[str]:
        return {self.places[one.station_index].station_id for one in self.index.passes(road, 5.0)}


def lanes(count: int, preferences: Preferences) -> list[tuple[Point, Point, Road, Road]]:
    """Ends, the quickest road and the drivers' road of each lane."""
    rng, embedded = random.Random("lanes"), HighwayRoads()
    number_of = {Point(*place): at for at, place in enumerate(preferences.nodes.tolist())}
    found: list[tuple[Point, Point, Road, Road]] = []
    seed = 0
    while len(found) < count:
        seed += 1
        start, end = (rng.choice(interchanges()) for _ in range(2))
        quickest = embedded.through([start, end])
        if not 500 < quickest.distance_miles < 1_800:
            continue
        truth = preferences.way(number_of[start], number_of[end], seed)
        if truth is None or truth.distance_miles > MOST_CIRCUITY * quickest.distance_miles:
            continue
        as_driven = [
            DrivenRoad(one.line, one.line_miles, one.line_miles, (0, len(one.line) - 1)) for one in (quickest, truth)
        ]
        if share_in_common(*as_driven) <= MOST_COMMON:
            found.append((start, end, quickest, truth))
    return found


def trip_fixes(road: Road, day: int, rng: random.Random) -> Sequence[TimedPlace]:
    gaps = [(at, at + rng.uniform(3, 14)) for at in (rng.uniform(20, road.distance_miles - 40) for _ in range(3))]
    return fixes_along(
        wandering(road, rng.randrange(1 << 30)),
        DAY + timedelta(days=day),
        seed=rng.randrange(1 << 30),
        minutes_apart=rng.choice([0.5, 1.0, 2.0]),
        gaps=gaps,
        stations=[rng.uniform(10, road.distance_miles - 10) for _ in range(2)],
    )


def main(count: int) -> None:
    preferences, chooser, embedded = Preferences(), Chooser(), HighwayRoads()
    chosen: dict[int, int] = dict.fromkeys(range(TRIPS + 1), 0)
    on_road: dict[int, int] = dict.fromkeys(range(TRIPS + 1), 0)
    common, seconds, vote_ms, taken_ms, sizes = [], list[float](), list[float](), list[float](), list[int]()
    refused, learned = 0, 0
    for number, (start, end, quickest, truth) in enumerate(lanes(count, preferences)):
        rng, near = random.Random(number), chooser.near(truth)
        witnesses: list[Witness] = []
        lane: LearnedLane | None = None
        for trips in range(TRIPS + 1):
            if trips:
                strays = rng.random() < 0.2
                fixes = trip_fixes(quickest if strays else truth, trips * 3, rng)
                began = time.perf_counter()
                try:
                    road = snapped(preferences.finder, [fixes])
                except UnusableFixes as error:
                    refused += 1
                    print(f"  lane {number}: a trip was refused: {error.reason}")
                else:
                    seconds.append(time.perf_counter() - began)
                    sizes.append(len(road.pack()))
                    witnesses.append(Witness(new_id(), UUID(int=1), fixes[-1].at, road))
                began = time.perf_counter()
                decided = vote(witnesses[-7:])
                vote_ms.append((time.perf_counter() - began) * 1000)
                lane = LearnedLane(new_id(), [start, end], decided[0].road, []) if decided else None
            began = time.perf_counter()
            road_ahead = road_by_lane(lane, start, [start, end], [1], embedded, ANY_TRUCK) if lane else None
            if road_ahead is not None:
                taken_ms.append((time.perf_counter() - began) * 1000)
            bought = chooser.chosen(road_ahead or quickest)
            chosen[trips] += len(bought)
            on_road[trips] += len(bought & near)
        learned += lane is not None
        as_driven = [
            DrivenRoad(one.line, one.line_miles, one.line_miles, (0, len(one.line) - 1)) for one in (quickest, truth)
        ]
        common.append(share_in_common(*as_driven))
        print(
            f"  lane {number}: {truth.distance_miles:,.0f} mi driven, {quickest.distance_miles:,.0f} mi quickest,"
            f" {100 * common[-1]:.0f} % in common, {'learned' if lane else 'not learned'}"
        )
    print(f"{count} lanes; quickest and driven road have {100 * statistics.fmean(common):.0f} % in common")
    for trips in (0, 1, 2, 3, 4, 5, TRIPS):
        share = on_road[trips] / chosen[trips]
        counted = f"{on_road[trips]:3} of {chosen[trips]:3} chosen stations"
        print(f"after {trips:2} trips: {counted} on the driven road: {share:.1%}")
    before, after = (on_road[trips] / chosen[trips] for trips in (0, TRIPS))
    print(f"ratio after / before: {after / before:.2f}; {learned} lanes learned, {refused} trips refused")
    print(
        f"a trip read in {1000 * statistics.median(seconds):.0f} ms (at most {1000 * max(seconds):.0f}),"
        f" {statistics.median(sizes):.0f} bytes (at most {max(sizes)}); a vote {statistics.median(vote_ms):.1f} ms"
        f" (at most {max(vote_ms):.0f}); the road of a plan {statistics.median(taken_ms):.1f} ms"
    )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else LANES)
