"""Fuel plans: the optimizer against HiGHS, whole plans in memory, and through a plans worker and the database."""

import random
import statistics
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from uuid import UUID

import numpy as np

from domain.contract.checking import read_body
from domain.contract.shapes import RouteInput
from domain.database.connections import Connection, Tenant
from domain.encoding import write
from domain.ids import new_id
from domain.lifecycle import Environment
from domain.planning import fuel_plan as planning
from domain.planning.each_stop import costs_with_each_stop
from domain.planning.fuel_plan import ComputedPlan
from domain.planning.menu import find_choices
from domain.planning.optimizer import solve
from domain.planning.plan_inputs import PlanInputs
from domain.planning.reasons import with_reasons
from domain.planning.trips import Trip
from domain.queue.job_queue import JobQueue
from domain.queue.jobs import build_plan_job
from domain.roads import Leg, Point, Road
from domain.roads.highway_graph import FREEWAY, HighwayGraph
from domain.roads.highways import HIGHWAYS_FILE, HighwayRoads
from domain.roads.sphere import MILES_PER_DEGREE
from domain.routes.intake.imports import import_routes
from domain.routes.intake.pushes import Push, store_pushes
from domain.stations.corridor import StationIndex
from domain.stations.offers import Offer, Station
from domain.stations.stations import store_station_rows
from tests.benchmarks import exact, optimizer
from tests.benchmarks.harness import Bench, Figure, Stack, busiest
from tests.benchmarks.loader import Fleet, load_fleet
from tests.domain.planning.plans import usual_policy
from tests.domain.roads.test_highways import city_pair_errors, highway_pair_errors, stations_of_the_demo

STATIONS = 8_000
MAX_STATIONS = 100_000
MILES = 1_500
TRIPS = 60
ROUTES = 200
CHAINS = ("Love's", "Pilot", "Flying J", "TA", "Petro", "Kwik Trip", "Sapp Bros", "Road Ranger", "Maverik", "Casey's")
DENSE = 1_105
"""Candidates of an hour's drive around Los Angeles."""
MANY = 2_000
EVERYTHING = 500
"""Random trips that are compared with the oracle, whole."""
RATIOS = {20: 20, 100: 12, 400: 6}
"""The least factor by which the optimizer is faster than HiGHS, by the number of candidates."""


def run(bench: Bench) -> list[Figure]:
    return [
        *_against_highs(bench),
        _with_everything(bench),
        *_dense(bench),
        *_in_memory(bench),
        *_through_a_worker(bench),
        *_roads(),
    ]


def _roads() -> list[Figure]:
    figures = []
    for kind, most, found in (("city", 1.2, city_pair_errors()), ("highway", 2.5, highway_pair_errors())):
        errors = [abs(100 * error) for error in found.values()]
        name = f"plan: embedded roads, mean error of {len(errors)} {kind} pairs"
        note = f"at most {max(errors):.1f} %"
        figures.append(Figure(name, "%", [statistics.fmean(errors)], at_most=most, note=note))
    rng, places, embedded = random.Random("legs"), stations_of_the_demo(), HighwayRoads()
    milliseconds = []
    for _ in range(200):
        ends = rng.sample(places, 2)
        started = time.perf_counter()
        embedded.through(ends)
        milliseconds.append((time.perf_counter() - started) * 1000)
    figures.append(Figure("plan: embedded roads, a leg, p50", "ms", [statistics.median(milliseconds)], at_most=10))
    started = time.perf_counter()
    HighwayGraph.load(HIGHWAYS_FILE)
    loaded = (time.perf_counter() - started) * 1000
    return [*figures, Figure("plan: embedded roads, loaded in", "ms", [loaded], at_most=100)]


@cache
def interchanges() -> list[Point]:
    """The points at which freeways of the embedded roads meet or bend."""
    graph = HighwayGraph.load(HIGHWAYS_FILE)
    tails = np.repeat(np.arange(len(graph.nodes)), np.diff(graph.first))
    freeway = graph.through == FREEWAY
    nodes = np.union1d(tails[freeway], graph.head[freeway])
    return [Point(*place) for place in graph.nodes[nodes].tolist()]


def _against_highs(bench: Bench) -> list[Figure]:
    figures = []
    for candidates, least in RATIOS.items():
        with bench.task(f"plan: {candidates} candidates, HiGHS and ours in turn"):
            found = optimizer.compare(candidates, optimizer.TRIPS[candidates])
        name = f"plan: optimizer, {candidates} candidates, times faster than HiGHS"
        note = (
            f"{found['trips']} trips, {found['infeasible']} of them infeasible;"
            f" medians {found['highs_median_ms']:.2f} and {found['ours_median_ms']:.2f} ms"
        )
        figures.append(Figure(name, "x", found["ratios"], at_least=least, note=note))
        figures.append(
            Figure(f"plan: optimizer, {candidates} candidates, other optima", "trips", [found["differing"]], at_most=0)
        )
    return figures


def _with_everything(bench: Bench) -> Figure:
    """Whole plans with deals, taxes, gauges, margins and relaxed limits, against HiGHS."""
    with bench.task("plan: whole plans with everything in play", EVERYTHING) as advance:
        differing = 0
        for seed in range(EVERYTHING):
            differing += exact.difference(exact.everything(seed)[0]) is not None
            advance(1)
    played = exact.rules_in_play(range(EVERYTHING))
    note = ", ".join(f"{count} {what}" for what, count in played.items())
    name = f"plan: {EVERYTHING} whole plans with everything in play, not the oracle's"
    return Figure(name, "trips", [differing], at_most=0, note=note)


def _dense(bench: Bench) -> list[Figure]:
    """Roads past a great many stations: the optimizer, and what a stop at each of them would cost."""

    def milliseconds(work: Callable[[Trip], object], trips: Sequence[Trip]) -> list[float]:
        times = []
        for trip in trips:
            started = time.perf_counter()
            work(trip)
            times.append((time.perf_counter() - started) * 1000)
        return times

    with bench.task(f"plan: {DENSE:,} and {MANY:,} candidates"):
        dense = [optimizer.dense_trip(DENSE, seed) for seed in range(20)]
        many = [optimizer.truck_trip(MANY, seed) for seed in range(10)]
        optima = milliseconds(solve, dense)
        of_many = milliseconds(solve, many)
        each_stop = milliseconds(costs_with_each_stop, dense)
        explained = [_explained_in(DENSE, seed) for seed in range(10)]
    name = f"plan: optimizer, {DENSE:,} candidates in a dense network"
    return [
        Figure(name, "ms", optima, at_most=50),
        Figure(f"{name}, a stop at each", "ms", each_stop, at_most=500),
        Figure(f"plan: explain, {DENSE:,} candidates", "ms", explained, at_most=500),
        Figure(f"plan: optimizer, {MANY:,} candidates", "ms", of_many, at_most=100),
    ]


def _explained_in(candidates: int, seed: int) -> float:
    """Milliseconds of what `fuelroute explain` computes of a stored plan."""
    rng = random.Random(f"explained {seed}")
    road = Road.of([Leg(np.array([(30.0, -100.0), (31.0, -100.0)]), np.array([0.0, 69.0]), 1.2, "test")])
    places = [Station(f"S{number}", "Stop", None, None, None, "CA", 30.0, -100.0) for number in range(candidates)]
    offers = sorted((rng.uniform(0, 69), rng.uniform(0, 5), rng.gauss(4.1, 0.2)) for _ in places)
    inputs = PlanInputs(
        road,
        22.0,
        usual_policy(),
        [Offer(place, *offer) for place, offer in zip(places, offers, strict=True)],
        datetime(2026, 12, 1, 14, tzinfo=UTC),
    )
    explanation = planning.compute_plan(inputs).explanation()
    started = time.perf_counter()
    with_reasons(explanation)
    return (time.perf_counter() - started) * 1000


def stations(count: int) -> list[Station]:
    """Truck stops at random interchanges, up to 3 miles off."""
    rng = random.Random("stations")
    places = []
    for number in range(count):
        latitude, longitude = rng.choice(interchanges())
        spread = 3 / MILES_PER_DEGREE
        latitude, longitude = (one + rng.uniform(-spread, spread) for one in (latitude, longitude))
        places.append(
            Station(
                f"S{number}",
                f"Stop {number}",
                CHAINS[number % len(CHAINS)],
                "Exit 1",
                "Gary",
                "IN",
                latitude,
                longitude,
                parking_spaces=40 * (number % 3),
            )
        )
    return places


@cache
def roads(count: int = TRIPS) -> list[Road]:
    """Roads of about the wanted miles between random interchanges."""
    rng = random.Random("roads")
    embedded = HighwayRoads()
    found: list[Road] = []
    while len(found) < count:
        road = embedded.through([rng.choice(interchanges()) for _ in range(2)])
        if 0.95 * MILES < road.distance_miles < 1.05 * MILES:
            found.append(road)
    return found


def _in_memory(bench: Bench) -> list[Figure]:
    """Makes a plan in memory, from the road and the shared index to the document and its explanation."""
    rng = random.Random("prices")
    near = stations(STATIONS)
    index = StationIndex.build([one.station_id for one in near], [(one.latitude, one.longitude) for one in near])
    prices = [round(rng.uniform(3.2, 4.6), 3) for _ in near]
    departure = datetime(2026, 12, 1, 14, tzinfo=UTC)
    milliseconds: list[float] = []
    with_menu: list[float] = []
    candidates: list[int] = []
    with bench.task("plan: whole plans in memory", len(roads())) as advance:
        for number, road in enumerate(roads()):
            fuel_percent = 30 + number % 60
            started = time.perf_counter()
            passes = index.passes(road, 5.0)
            offers = [Offer(near[at], mile, detour, prices[at]) for at, mile, detour in passes]
            inputs = PlanInputs(road, fuel_percent, usual_policy(), offers, departure)
            plan = planning.compute_plan(inputs)
            if isinstance(plan, ComputedPlan):
                plan.document()
            plan.explanation()
            milliseconds.append((time.perf_counter() - started) * 1000)
            if isinstance(plan, ComputedPlan):
                for one in find_choices(plan):
                    one.plan.document()
                with_menu.append((time.perf_counter() - started) * 1000 / milliseconds[-1])
            candidates.append(len(offers))
            advance(1)
    name = f"plan: whole, {STATIONS:,} stations, {MILES:,} mi"
    note = f"{statistics.median(candidates):.0f} candidates at the median, {max(candidates)} at most"
    return [
        Figure(f"{name}, p50", "ms", [statistics.median(milliseconds)], at_most=20, note=note),
        Figure(f"{name}, p95", "ms", [statistics.quantiles(milliseconds, n=20)[-1]], at_most=50),
        Figure(f"{name}, with its menu, times the plan alone", "x", [statistics.median(with_menu)], at_most=3),
    ]


def _through_a_worker(bench: Bench) -> list[Figure]:
    rates: list[float] = []
    times: list[float] = []
    with bench.stack("plan") as stack:
        store_stations(stack, stations(STATIONS))
        with stack.database.transaction() as connection:
            fleet = load_fleet(connection, ROUTES * (bench.rounds + 1))
        stack.start("workers", "--queues", "plans")
        _plan(stack, fleet, 0, 8)  # the first ones load the roads and the index
        for number in range(bench.rounds):
            with bench.task(f"plan: {ROUTES} plans through one worker, round {number + 1}"), stack.watched() as shares:
                started = time.perf_counter()
                rates.append(_plan(stack, fleet, ROUTES * (number + 1), ROUTES))
                _wait_for_menus(stack)
                times.append((time.perf_counter() - started) * rates[-1] / ROUTES)
        store_stations(stack, stations(MAX_STATIONS))
        with bench.task(f"plan: {MAX_STATIONS:,} stations"):
            _plan(stack, fleet, 100, 8)
        megabytes = stack.resident_memory()["plans"]
    return [
        Figure("plan: through one worker process and the database", "/s", rates, at_least=40, note=busiest(shares)),
        Figure("plan: until the menus are there too, times the plans alone", "x", times, at_most=3),
        Figure(f"plan: memory of the worker with {MAX_STATIONS:,} stations", "MB", [megabytes], at_most=250),
    ]


def store_stations(stack: Stack, rows: Sequence[Station]) -> None:
    rng = random.Random("prices")
    path = Path(stack.settings.data) / "stations.csv"
    with path.open("w") as file:
        file.write("station_id,name,brand,address,city,state,latitude,longitude,retail_price\n")
        for one in rows:
            file.write(
                f"{one.station_id},{one.name},{one.brand},{one.address},{one.city},{one.state},"
                f"{one.latitude:.6f},{one.longitude:.6f},{rng.uniform(3.2, 4.6):.3f}\n"
            )
    with stack.database.transaction() as connection:
        store_station_rows(connection, path, now=datetime.now(UTC))


def _plan(stack: Stack, fleet: Fleet, first: int, count: int) -> float:
    """Makes plans for routes whose trucks have just arrived. Returns how many a second."""
    with stack.database.transaction() as connection:
        ids = arrived_routes(connection, fleet, first, count)
    started = time.perf_counter()
    JobQueue.of(stack.settings).put(*map(build_plan_job, ids))
    stack.wait_until("SELECT NOT EXISTS (SELECT FROM routes WHERE status = 'draft')", seconds=300)
    return count / (time.perf_counter() - started)


def _wait_for_menus(stack: Stack) -> None:
    stack.wait_until("SELECT NOT EXISTS (SELECT FROM plans WHERE menu_due_at IS NOT NULL)", seconds=300)


def arrived_routes(connection: Connection, fleet: Fleet, first: int, count: int) -> list[UUID]:
    now = datetime.now(UTC)
    tenant = Tenant(fleet.company_id, Environment.LIVE)
    pushes, starts = [], []
    for number in range(first, first + count):
        line = roads()[number % TRIPS].line
        start, end = (
            {"name": name, "latitude": float(line[at][0]), "longitude": float(line[at][1])}
            for name, at in (("start", 0), ("end", -1))
        )
        body = {
            "externalId": new_id().hex,
            "vehicle": {"unitNumber": f"{number:05}"},
            "driver": {"name": f"Driver {number:05}"},
            "scheduledStart": now + timedelta(hours=1),
            "stops": [start, end],
        }
        pushes.append(Push(tenant, read_body(write(body), RouteInput)))
        starts.append((float(line[0][0]) + number % 100 * 1e-5, float(line[0][1])))  # no two at the same place
    stored = store_pushes(connection, pushes, now=now)
    ids = [one.route_id for one in stored]
    import_routes(connection, ids, now=now)
    connection.execute(
        "UPDATE routes SET arrived_at = %s, retry_at = %s WHERE id = ANY(%s)", (now, now + timedelta(hours=1), ids)
    )
    with connection.cursor() as cursor:
        cursor.executemany(
            "INSERT INTO visits (company_id, environment, route_id, stop, arrived_at, arrival_evidence)"
            " VALUES (%s, 'live', %s, 0, %s, '{}')",
            [(fleet.company_id, route_id, now) for route_id in ids],
        )
        cursor.executemany(
            "INSERT INTO positions (company_id, vehicle_id, environment, recorded_at, latitude, longitude,"
            " fuel_percent) VALUES (%s, %s, 'live', %s, %s, %s, 60) ON CONFLICT DO NOTHING",
            [
                (fleet.company_id, fleet.trucks[number], now, *place)
                for number, place in zip(range(first, first + count), starts, strict=True)
            ],
        )
    return ids
