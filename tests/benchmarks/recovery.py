"""Recovery: worker processes that hold jobs are killed, and their jobs take effect through other workers.

No scheduler runs, so no sweep finds the work: what happens is due to the workers' watch over one another.
"""

import os
import signal
import statistics
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from uuid import UUID

from domain.contract.checking import read_body
from domain.contract.shapes import RouteInput
from domain.database.connections import Connection, Tenant
from domain.encoding import write
from domain.ids import new_id
from domain.lifecycle import Environment
from domain.queue.heartbeats import read_worker_heartbeats
from domain.queue.job_queue import JobQueue
from domain.queue.jobs import Job, build_plan_job, import_routes_job
from domain.queue.redis_layout import taken_key
from domain.routes.intake.pushes import Push, store_pushes
from tests.benchmarks.harness import Bench, Figure, Stack
from tests.benchmarks.load import LoadFailed
from tests.benchmarks.loader import FIVE_STOPS, Fleet, load_fleet
from tests.benchmarks.plan import arrived_routes, roads, stations, store_stations

KILLS_IN_A_ROUND = 14
JOBS = 12
"""Jobs at each kill: several workers hold some."""
STATIONS = 2_000
P95_SECONDS = 5

_LONGEST_SECONDS = 60

Prepare = Callable[[Connection, Fleet, int], list[Job]]


def run(bench: Bench) -> list[Figure]:
    figures = []
    kills = KILLS_IN_A_ROUND * bench.rounds
    roads()  # it takes long, and no transaction should wait for it
    with bench.stack("recovery") as stack:
        with stack.database.transaction() as connection:
            fleet = load_fleet(connection, JOBS * (3 * kills + 2))
        store_stations(stack, stations(STATIONS))
        for queue, prepare, number in (("imports", _imports, 0), ("plans", _plans, 1)):
            works = _Works(stack, queue, prepare, fleet, JOBS * number * kills)
            with bench.task(f"recovery: {queue} workers are killed", kills) as advance:
                figures += works.measure(kills, advance)
    return figures


class _Works:
    """Two workers of one queue, of which one is killed again and again."""

    def __init__(self, stack: Stack, queue: str, prepare: Prepare, fleet: Fleet, first: int) -> None:
        self._stack = stack
        self._queue = queue
        self._prepare = prepare
        self._fleet = fleet
        self._next = first
        self._jobs = JobQueue.of(stack.settings)

    def measure(self, kills: int, advance: Callable[[int], None]) -> list[Figure]:
        for _ in range(2):
            self._stack.start("workers", "--queues", self._queue)
        self._put()  # what is loaded once is loaded now
        self._wait()
        seconds: list[float] = []
        held: list[int] = []
        while len(seconds) < kills:
            jobs, took = self._kill_one()
            if jobs:  # else it had finished them
                seconds.append(took)
                held.append(jobs)
                advance(1)
        self._stack.execute("TRUNCATE routes CASCADE")
        for worker in self._workers().values():
            os.kill(worker, signal.SIGTERM)
        name = f"recovery: {self._queue}, {kills} kills, from the kill to the last effect"
        note = f"{sum(held) / kills:.1f} jobs were held at a kill, on average; at most {max(seconds):.2f} s"
        return [
            Figure(f"{name}, p50", "s", [statistics.median(seconds)]),
            Figure(f"{name}, p95", "s", [_percentile(seconds, 95)], at_most=P95_SECONDS, note=note),
        ]

    def _kill_one(self) -> tuple[int, float]:
        """Kills the first worker that takes a job. Returns how many it held, and how long it took until all jobs had
        their effect. Another worker is started then, in time for the next kill."""
        workers = self._workers()
        self._put()
        victim = self._first_holder(workers)
        killed_at = time.monotonic()
        os.kill(workers[victim], signal.SIGKILL)
        held = int(self._jobs.client.scard(taken_key(victim, self._queue)))
        self._wait()
        took = time.monotonic() - killed_at
        self._stack.start("workers", "--queues", self._queue)
        return held, took

    def _workers(self) -> dict[str, int]:
        """The process ids of both workers, by their names in the queue."""
        deadline = time.monotonic() + _LONGEST_SECONDS
        while True:
            beats = read_worker_heartbeats(self._jobs.client, now=datetime.now(UTC))
            alive = {one.id: one.pid for one in beats if self._queue in one.queues and _is_running(one.pid)}
            if len(alive) == 2:
                return alive
            if time.monotonic() > deadline:
                raise LoadFailed(f"{len(alive)} workers of {self._queue} live")
            time.sleep(0.05)

    def _first_holder(self, workers: dict[str, int]) -> str:
        while True:
            for worker in workers:
                if self._jobs.client.scard(taken_key(worker, self._queue)):
                    return worker

    def _put(self) -> None:
        with self._stack.database.transaction() as connection:
            jobs = self._prepare(connection, self._fleet, self._next)
        self._next += JOBS
        self._jobs.put(*jobs)

    def _wait(self) -> None:
        status = "pending" if self._queue == "imports" else "draft"
        self._stack.wait_until(
            f"SELECT NOT EXISTS (SELECT FROM routes WHERE status = '{status}')", seconds=_LONGEST_SECONDS
        )


def _imports(connection: Connection, fleet: Fleet, first: int) -> list[Job]:
    now = datetime.now(UTC)
    pushes = []
    for number in range(first, first + JOBS):
        body = {
            "externalId": new_id().hex,
            "vehicle": {"unitNumber": f"{number:05}"},
            "driver": {"name": f"Driver {number:05}"},
            "scheduledStart": now + timedelta(hours=1),
            "stops": FIVE_STOPS,
        }
        pushes.append(Push(Tenant(fleet.company_id, Environment.LIVE), read_body(write(body), RouteInput)))
    stored = store_pushes(connection, pushes, now=now)
    return [import_routes_job([one.route_id], company_ids=[fleet.company_id]) for one in stored]


def _plans(connection: Connection, fleet: Fleet, first: int) -> list[Job]:
    ids: list[UUID] = arrived_routes(connection, fleet, first, JOBS)
    return [build_plan_job(one, fleet.company_id) for one in ids]


def _is_running(pid: int) -> bool:
    """False for a zombie too."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _percentile(values: list[float], percent: int) -> float:
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]
