"""The five-minute pass over a million held routes, of which a thousand can be imported now."""

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import psycopg

from domain.database.connections import Connection
from domain.lifecycle import PendingReason, RouteStatus
from domain.queue.job_queue import JobQueue
from domain.queue.jobs import JOB_ITEMS
from domain.routes.intake import holds
from scheduler.passes import Passes
from tests.benchmarks.harness import Bench, Figure, Stack, own_megabytes
from tests.benchmarks.load import LoadFailed
from tests.benchmarks.loader import Fleet, Lot, load_fleet, load_routes

HELD = 1_000_000
MOVABLE = 1000
TRUCKS = 4000
FLEETS = 10


def run(bench: Bench) -> list[Figure]:
    """The scheduler's own pass, in this process. Nobody takes its jobs: every time the same routes can move."""
    with bench.stack("pass") as stack:
        seconds_to_load = _load_held(bench, stack)
        constant = stack.start_constant()
        jobs = JobQueue.of(stack.settings)
        passes = Passes(stack.settings, stack.database, jobs)

        def measure() -> tuple[float, float]:
            with _growth() as grown:
                started = time.perf_counter()
                passes.import_pass()
                seconds = time.perf_counter() - started
            if jobs.backlog("imports") != -(-MOVABLE // JOB_ITEMS):
                raise LoadFailed(f"the pass enqueued {jobs.backlog('imports')} jobs for {MOVABLE:,} routes")
            jobs.client.flushdb()
            return seconds, grown[0]

        results = bench.alternate(
            "pass", {"constant": lambda: (bench.constant_rate(constant), 0.0), "import pass": measure}
        )
        plans = _explain(stack)
    name = f"pass: {HELD:,} held routes, {MOVABLE:,} can move"
    runs = results["import pass"]
    return [
        Figure("pass: the constant endpoint, 128 connections", "/s", [rate for rate, _ in results["constant"]]),
        Figure(name, "s", [seconds for seconds, _ in runs], at_most=2, note=plans),
        Figure(
            f"{name}, memory of the process grows",
            "MB",
            [grown for _, grown in runs],
            at_most=10,
            note=f"loaded in {seconds_to_load:.0f} s",
        ),
    ]


def _load_held(bench: Bench, stack: Stack) -> float:
    """Half wait for the window, a quarter for a vehicle, a quarter for a driver; of each kind some can move. Returns
    the seconds it took.
    """
    started = time.perf_counter()
    with stack.database.transaction() as connection:
        fleets = [load_fleet(connection, TRUCKS) for _ in range(FLEETS)]
    with bench.task(f"pass: loads {HELD:,} held routes", HELD) as advance:
        load_routes(stack.database, [lot for fleet in fleets for lot in _held_lots(fleet)], advance)
    for table, column, name in (("vehicles", "unit_number", "NEW-"), ("drivers", "name", "New driver ")):
        stack.execute(
            f"INSERT INTO {table} (id, company_id, {column})"
            " SELECT gen_random_uuid(), c.id, %s || lpad(number::text, 6, '0')"
            " FROM companies c, generate_series(0, %s - 1) AS number",
            name,
            MOVABLE // FLEETS // 4,
        )
    return time.perf_counter() - started


def _held_lots(fleet: Fleet) -> list[Lot]:
    now = datetime.now(UTC)
    far, soon = (now + timedelta(days=10), now + timedelta(days=60)), (now + timedelta(days=1), now + timedelta(days=6))
    routes, movable = HELD // FLEETS, MOVABLE // FLEETS
    window, mapping = RouteStatus.PENDING_WINDOW, RouteStatus.PENDING_MAPPING
    too_far, no_truck, no_driver = (
        PendingReason.OUTSIDE_IMPORT_WINDOW,
        PendingReason.VEHICLE_UNMAPPED,
        PendingReason.DRIVER_UNMAPPED,
    )
    return [
        Lot(fleet, (routes - movable) // 2, window, far, reason=too_far),
        Lot(fleet, movable // 2, window, soon, reason=too_far),
        Lot(fleet, routes // 4, mapping, soon, reason=no_truck, unit_number="NEW-{number:06}"),
        Lot(fleet, routes // 4, mapping, soon, reason=no_driver, driver_name="New driver {number:06}"),
    ]


@contextmanager
def _growth() -> Iterator[list[float]]:
    """Megabytes by which this process grew in the block, at its peak."""
    before = own_megabytes(os.getpid())
    grown, done = [0.0], threading.Event()

    def watch() -> None:
        while not done.wait(0.02):
            grown[0] = max(grown[0], own_megabytes(os.getpid()) - before)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield grown
    finally:
        done.set()
        watcher.join()


class _Explaining:
    """A connection that asks PostgreSQL for the plan of whatever it executes."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._row_factory: Any = None
        self.plans: list[str] = []

    def cursor(self, *, row_factory: Any) -> "_Explaining":
        """Stands for the connection's cursor, so that a `Statement` can execute itself."""
        self._row_factory = row_factory
        return self

    def execute(self, statement: str, parameters: Any = None) -> Any:
        lines = self._connection.execute("EXPLAIN (ANALYZE, COSTS OFF) " + statement, parameters).fetchall()
        self.plans.append("\n".join(line[0] for line in lines))
        row_factory, self._row_factory = self._row_factory, None
        return self._connection.cursor(row_factory=row_factory).execute(statement, parameters)


def _explain(stack: Stack) -> str:
    """The plans of the pass's statements, as they ran."""
    now = datetime.now(UTC)
    with stack.database.transaction() as connection:
        explaining = _Explaining(connection)
        holds.expire_held_routes(
            cast(Connection, explaining), expiry_days=stack.settings.held_route_expiry_days, now=now
        )
        holds.routes_that_can_move(cast(Connection, explaining), now=now)
        raise psycopg.Rollback
    return "\n\n".join(explaining.plans)
