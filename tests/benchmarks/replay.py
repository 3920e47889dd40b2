"""A quarter of driven trips replayed by the command, with its two processes: half of the trips from the explanations of
their plans, half from packed inputs, past a dense network with deals. And the bytes of a packed trip."""

import os
import random
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import cycle, islice
from typing import NamedTuple

import psycopg

from deploy.cli.replaying import PROCESSES
from domain.database.connections import Tenant
from domain.ids import shown_id
from domain.lifecycle import Environment, RouteStatus
from domain.planning.explanation import Explanation, pack_explanation
from domain.planning.fuel_plan import compute_plan
from domain.planning.plan_inputs import PlanInputs
from domain.planning.what_if import inputs_of
from domain.replay.packed_inputs import pack_inputs
from domain.stations.corridor import StationIndex
from domain.stations.offers import Offer
from domain.stations.prices import Deal, PriceParts
from tests.benchmarks.harness import Bench, Figure, Stack
from tests.benchmarks.loader import Lot, load_fleet, load_routes
from tests.benchmarks.plan import CHAINS, MILES, STATIONS, roads, stations
from tests.domain.planning.plans import usual_policy

TRIPS, ROADS = 600, 6
GOAL_TRIPS, GOAL_MINUTES = 100_000, 15
DEALS = {brand: Deal(0.2 + number / 20, None, number, brand) for number, brand in enumerate(CHAINS[:5], 1)}
NOW = datetime(2026, 9, 15, 12, tzinfo=UTC)
_REPLAYS = {
    "without a chain": ["--without-brand", CHAINS[0]],
    "another policy": ["--with", "reserve=12,stop_cost=15"],
    "each deal": ["--deals"],
}


def run(bench: Bench) -> list[Figure]:
    explanations = _explanations()
    packed = [pack_inputs(inputs_of(one)) for one in explanations]
    explained = [pack_explanation(one) for one in explanations]
    candidates = sum(len(one["candidates"]) for one in explanations) / len(explanations)
    note = f"{candidates:.0f} candidates, {MILES:,} mi; its explanation takes {_mean(explained):,.0f}"
    figures = [Figure("replay: a packed trip", "B", [_mean(packed)], note=note)]
    with bench.stack("replay") as stack:
        tenant = _load(stack, explained, packed)
        for name, options in _REPLAYS.items():
            with bench.task(f"replay: {name}"):
                took = _replay(stack, tenant, options)
            figures.append(
                Figure(
                    f"replay: {GOAL_TRIPS:,} trips, {name}",
                    "min",
                    [took.processor_seconds / PROCESSES * GOAL_TRIPS / TRIPS / 60],
                    at_most=GOAL_MINUTES,
                    note=f"by the processor time of {TRIPS:,} trips on {PROCESSES} cores; here in {took.seconds:.0f} s",
                )
            )
    most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    return [*figures, Figure("replay: memory of a process at most", "MB", [most], at_most=400)]


def _mean(packed: Sequence[bytes]) -> float:
    return sum(map(len, packed)) / len(packed)


def _explanations() -> list[Explanation]:
    rng = random.Random("replay")
    near = [one._replace(brand=rng.choice(CHAINS)) for one in stations(STATIONS)]
    index = StationIndex.build([one.station_id for one in near], [(one.latitude, one.longitude) for one in near])
    retail = [round(rng.uniform(3.2, 4.6), 3) for _ in near]
    found = []
    for number, road in enumerate(roads(ROADS)):
        offers = []
        for at, mile, detour in index.passes(road, 5.0):
            deal = DEALS.get(near[at].brand or "")
            parts = PriceParts(retail[at], [deal] if deal is not None else [])
            offers.append(Offer(near[at], mile, detour, parts.net_price or retail[at], parts=parts))
        found.append(compute_plan(PlanInputs(road, 30 + number % 60, usual_policy(), offers, NOW)).explanation())
    return found


def _load(stack: Stack, explained: Sequence[bytes], packed: Sequence[bytes]) -> Tenant:
    """Completed routes of one quarter, each with one of these plans."""
    with stack.database.transaction() as connection:
        fleet = load_fleet(connection, 500)
        connection.execute(
            "INSERT INTO stations (station_id, name, brand, latitude, longitude) VALUES ('S', 'S', %s, 40, -90)",
            (CHAINS[0],),
        )
    load_routes(stack.database, [Lot(fleet, TRIPS, RouteStatus.COMPLETED, (NOW, NOW), own_plans=True)])
    with psycopg.connect(stack.database.url, autocommit=True) as direct:
        direct.execute("SET session_replication_role = replica")  # no checks of foreign keys
        for statement in _FACTS:
            direct.execute(statement, {"now": NOW})
        routes = [route_id for (route_id,) in direct.execute("SELECT id FROM routes ORDER BY id")]
        with direct.cursor() as cursor:
            inputs = list(islice(zip(cycle(explained), cycle(packed), strict=False), TRIPS))
            older, newer = routes[::2], routes[1::2]
            cursor.executemany(
                "INSERT INTO trip_inputs SELECT id, company_id, environment, plan_id, %s FROM routes WHERE id = %s",
                [(inputs[place][1], route_id) for place, route_id in enumerate(older)],
            )
            cursor.executemany(
                "UPDATE plans SET explanation = %s WHERE route_id = %s",
                [(inputs[place][0], route_id) for place, route_id in enumerate(newer)],
            )
        direct.execute("VACUUM ANALYZE")
    return Tenant(fleet.company_id, Environment.LIVE)


_FACTS = (
    "INSERT INTO plans (id, company_id, environment, route_id, revision, generated_at, document, fuel_percent,"
    " timeline) SELECT plan_id, company_id, environment, id, revision, %(now)s, '{}', 50, '[]' FROM routes",
    "INSERT INTO savings (route_id, company_id, environment, plan_id, planned_at, vehicle_id, driver_id, origin,"
    " destination, gallons, cost_cents) SELECT id, company_id, environment, plan_id, %(now)s, vehicle_id, driver_id,"
    " 'Joliet, IL', 'Newark, NJ', 100, 35000 FROM routes",
)


class _Took(NamedTuple):
    """The time of the whole command, from its start to its totals, and the processor time of its processes: what a
    machine would need that does nothing else."""

    seconds: float
    processor_seconds: float


def _replay(stack: Stack, tenant: Tenant, options: Sequence[str]) -> _Took:
    command = (sys.executable, "-c", "from deploy.cli import main; main()", "replay", "--json", "--quarter", "2026Q3")
    before, started = _processor_seconds(), time.perf_counter()
    subprocess.run(
        [*command, "--company", shown_id("cmp", tenant.company_id), *options],
        env={**os.environ, "FUELROUTE_DATABASE_URL": stack.database.url},
        stdout=subprocess.DEVNULL,
        check=True,
    )
    return _Took(time.perf_counter() - started, _processor_seconds() - before)


def _processor_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
