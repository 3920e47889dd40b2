"""The processor time of watching the burn: the same trucks send the same fixes for two companies, in turns, one of
which watches it.

The trucks drive as those of the judge (`truth`), with a declared mpg and all errors, and do what the newest message
says. Both companies know the fuel stops of that message: a truck at a pump costs a company that knows of none nothing.
The functions of the feed, the sweep and the workers run in this process, by a simulated clock; its time and that of
PostgreSQL's processes count. HTTP and Redis do not, so the feed is cheaper here than it is, and watching a larger part
of it. A company's trucks are swept after as many fixes as 10,000 trucks send between two full minutes, when looks are
made, so that jobs are as full as theirs. Looks come up to half an hour later for that, and so does what waits like
them. A truck that stands at a pump is processed each minute otherwise, which would make the feed dearer."""

import gc
import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple
from unittest.mock import patch
from uuid import UUID

import msgspec
from dramatiq.brokers.stub import StubBroker

from domain import clock
from domain.accounts.companies import set_policy
from domain.accounts.policy import Policy
from domain.contract.shapes import Position
from domain.database.connections import Connection, Database, Tenant
from domain.database.visibility import of_companies
from domain.encoding import write
from domain.ids import new_id
from domain.lifecycle import Environment
from domain.queue.job_queue import JobQueue
from domain.queue.jobs import JOB_TRUCKS, Job, in_batches, process_positions_job
from domain.routes.plans import fuel_looks
from domain.routes.plans.fuel_outlooks import FuelOfTrip, fuel_of_trips
from domain.telematics.feed import store_positions
from domain.telematics.position_partitions import make_past_partitions
from domain.telematics.tracks import lost_processing
from domain.telemetry.log_lines import configure_lines
from ingress.api.endpoints import read_positions
from tests.benchmarks.harness import Bench, Figure, Stack, exact_cpu_seconds
from tests.benchmarks.loader import load_fleet
from tests.benchmarks.truth.driver import MPH
from tests.benchmarks.truth.reporting_truck import ReportingTruck
from tests.benchmarks.truth.service import store_network
from tests.factories import DOT
from workers import arrivals, messages, plans
from workers.context import Context

TRUCKS = 500
FIX, SPARSE_FIX = timedelta(seconds=30), timedelta(minutes=5)
"""Trucks send a fix that often in the measured hours and the one before, and on their way until then."""
LONGEST = timedelta(hours=42)
HOUR = timedelta(hours=1)
FIXES_A_MINUTE = 20_000
"""The fixes that 10,000 trucks send in a minute."""

PARTS = ("feed", "sweep", "jobs", "plans", "fixes", "looks", "look jobs")
WATCHING = PARTS[:3]
Spent = dict[str, float]
"""Processor seconds by part, and the numbers of fixes and looks. New plans on the way are a part of their own."""

_SHARE_FUEL_STOPS = """
    UPDATE routes other SET fuel_visits = told.fuel_visits
    FROM messages m JOIN routes told ON told.id = m.route_id
    WHERE m.id = %s AND other.external_id = told.external_id AND other.company_id <> told.company_id
"""


class Side:
    """A company with the trucks, and the processor seconds that were spent for it, by part."""

    def __init__(self, life: ExitStack, stack: Stack, trucks: Sequence[ReportingTruck], *, watches: bool) -> None:
        self._stack, self._trucks, self.watches = stack, trucks, watches
        self._queued: list[Job] = []
        self._fixes_since_sweep = 0
        self.spent: Spent = dict.fromkeys(PARTS, 0.0)
        self.servers = list[int]()
        """PostgreSQL's processes; looking for them takes longer than most jobs."""
        with stack.database.transaction() as connection:
            self.fleet = load_fleet(connection, len(trucks))
            self.company_id = self.fleet.company_id
            set_policy(connection, self.company_id, Policy(name="Benchmark Freight", watch_burn=watches), DOT)
        sees = of_companies([self.company_id])
        database = Database.of(
            stack.settings, visible=lambda: sees, pool_size=1, put_jobs=lambda *jobs: self._queued.extend(jobs)
        )
        self._database = life.enter_context(database)
        self._broker = StubBroker()
        context = Context(stack.settings, self._database, JobQueue.of(stack.settings))
        for module in (arrivals, plans, messages):
            module.register(self._broker, context)

    def report(self, positions: Sequence[Position]) -> None:
        """Reads and stores a fix of each truck on the road, and does what follows."""
        body, tenant = write({"positions": positions}), Tenant(self.company_id, Environment.LIVE)
        with self._spending("feed"):
            read, _ = read_positions(body)
            with self._database.pipelined_transaction() as connection:
                store_positions(connection, tenant, read, now=clock.now())
        self.spent["fixes"] += len(positions)
        self.work()
        self._fixes_since_sweep += len(positions)
        if self._fixes_since_sweep >= FIXES_A_MINUTE:
            self._fixes_since_sweep = 0
            self._sweep()

    def _sweep(self) -> None:
        with self._spending("sweep"):
            with self._stack.database.transaction() as connection:
                waiting = lost_processing(connection, now=clock.now())
            found = waiting.get(("live", self.company_id), [])
            self._queued += [
                process_positions_job("live", one, self.company_id) for one in in_batches(found, JOB_TRUCKS)
            ]
        self.work()

    def work(self) -> None:
        """Does the jobs that wait, and those that follow from them."""
        while self._queued:
            job = self._queued.pop(0)
            if job.name == "plans.menu" and not self.servers:
                continue  # nothing counts yet, and the drivers take no choices
            with self._spending("jobs" if job.name == "arrivals.process" else "plans"):
                self._broker.get_actor(job.name)(**msgspec.json.decode(write(job.payload)))
            if job.name == "messages.send" and self.watches:
                self._read(job.payload["message_id"])

    def _read(self, message_id: Any) -> None:
        (row,) = self._stack.query(
            "SELECT m.text, p.document, v.unit_number FROM messages m JOIN plans p ON p.id = m.plan_id"
            " JOIN routes r ON r.id = m.route_id JOIN vehicles v ON v.id = r.vehicle_id WHERE m.id = %s",
            message_id,
        )
        self._trucks[int(row.unit_number)].tell(row.text, row.document)
        self._stack.execute(_SHARE_FUEL_STOPS, message_id)

    @contextmanager
    def _spending(self, part: str) -> Iterator[None]:
        servers = sum(map(exact_cpu_seconds, self.servers))
        own = time.process_time()
        yield
        self.spent[part] += time.process_time() - own
        self.spent[part] += sum(map(exact_cpu_seconds, self.servers)) - servers

    def begin(self, number: int) -> None:
        """The truck stands at its first stop, and its driver gets his plan."""
        truck, line = self._trucks[number], self._trucks[number].trip.road.line
        stops = [
            {"name": name, "latitude": float(line[at][0]), "longitude": float(line[at][1])}
            for name, at in (("Start", 0), ("End", -1))
        ]
        self._stack.execute(
            "INSERT INTO routes (id, company_id, environment, external_id, scheduled_start, stops, status,"
            " vehicle_id, driver_id, imported_at) VALUES (%s, %s, 'live', %s, %s, %s, 'draft', %s, %s, %s)",
            *(new_id(), self.company_id, truck.unit_number, truck.start, write(stops).decode()),
            *(self.fleet.trucks[number], self.fleet.drivers[number], truck.start - HOUR),
        )
        self._stack.execute(
            "UPDATE vehicles SET fuel_tank_capacity_gallons = %s, mpg = %s WHERE id = %s",
            *(truck.trip.truck.capacity_gallons, truck.trip.truck.declared_mpg, self.fleet.trucks[number]),
        )
        self.report([truck.position(truck.start - FIX * before) for before in (2, 1, 0)])


class _Simulation:
    def __init__(self, bench: Bench, stack: Stack, life: ExitStack) -> None:
        lines = logging.FileHandler(stack.settings.data / "worker.log")
        lines.setFormatter(configure_lines(stack.settings, "workers"))
        logging.getLogger().handlers, logging.getLogger().level = [lines], logging.INFO
        self.bench, self._stack, hours = bench, stack, bench.rounds * HOUR
        self.zero = self.now = datetime.now(UTC).replace(second=0, microsecond=0) - hours
        life.enter_context(patch.object(clock, "now", lambda: self.now))
        with stack.database.transaction() as connection:
            make_past_partitions(connection, oldest=(self.zero - LONGEST).date(), now=self.now)
        store_network(stack, now=self.zero - LONGEST)
        self.trucks = [ReportingTruck(number, self.zero, measured=hours) for number in range(TRUCKS)]
        self.sides = {is_on: Side(life, stack, self.trucks, watches=is_on) for is_on in (True, False)}
        life.enter_context(patch.object(fuel_looks, "fuel_of_trips", self._read_trips))
        self._number = 0
        with bench.task("fuel-watch: trucks get their plans", TRUCKS) as advance:
            for number, truck in enumerate(self.trucks):
                self.now = truck.start
                for side in self.sides.values():
                    side.begin(number)
                advance(1)
        stack.execute("ANALYZE")

    def _read_trips(self, connection: Connection, route_ids: Sequence[UUID]) -> dict[UUID, FuelOfTrip]:
        """Reads the trips of trucks that are looked at, and counts them."""
        self.sides[True].spent["looks"] += len(route_ids)
        self.sides[True].spent["look jobs"] += 1
        return fuel_of_trips(connection, route_ids)

    def drive(self, since: datetime, until: datetime, step: timedelta) -> None:
        """Every truck on the road reports again and again, for one company and for the other."""
        with self.bench.task(f"fuel-watch: until {until:%d, %H:%M}", (until - since) // step) as advance:
            self.now = since
            while self.now < until:
                self.now += step
                positions = [one for truck in self.trucks if (one := truck.drive_until(self.now)) is not None]
                self._number += 1
                for is_on in (True, False) if self._number % 2 else (False, True):
                    if positions:
                        self.sides[is_on].report(positions)
                advance(1)

    def warm_up(self) -> None:
        self.drive(min(truck.start for truck in self.trucks), self.zero - HOUR, SPARSE_FIX)
        for truck in self.trucks:
            truck.drive.fix_miles = FIX / HOUR * MPH
        self.drive(self.zero - HOUR, self.zero, FIX)

    def measure(self) -> "_Hour":
        """The next hour."""
        gc.collect()
        gc.freeze()  # the world is no part of a worker's memory
        for side in self.sides.values():
            side.servers = self._stack.pids_of("postgres")
        before = {is_on: dict(side.spent) for is_on, side in self.sides.items()}
        self.drive(self.now, self.now + HOUR, FIX)
        on, off = ({one: side.spent[one] - before[is_on][one] for one in PARTS} for is_on, side in self.sides.items())
        return _Hour(on, off)


class _Hour(NamedTuple):
    """The costs of both companies: with the watch on, and off."""

    on: Spent
    off: Spent

    def more(self, *parts: str) -> float:
        """The seconds that the watch costs, as a share of the feed without it."""
        return sum(self.on[part] - self.off[part] for part in parts) / self.feed_seconds

    @property
    def feed_seconds(self) -> float:
        return sum(self.off[part] for part in WATCHING)


def run(bench: Bench) -> list[Figure]:
    with bench.stack("fuel-watch") as stack, ExitStack() as life:
        simulation = _Simulation(bench, stack, life)
        simulation.warm_up()
        hours = [simulation.measure() for _ in range(bench.rounds)]
    whole = _Hour(*({part: sum(side[part] for side in sides) for part in PARTS} for sides in zip(*hours, strict=True)))
    note = ", ".join(f"{part} {whole.more(part):+.1%}" for part in WATCHING)
    number, jobs = whole.on["looks"], whole.on["look jobs"]
    look_ms = 1000 * whole.more("sweep", "jobs") * whole.feed_seconds / max(number, 1)
    looks_an_hour = [hour.on["looks"] / (hour.on["fixes"] * (FIX / HOUR)) for hour in hours]
    name = f"fuel-watch: {TRUCKS:,} trucks, a fix every {FIX.seconds} s, processor time"
    return [
        Figure(f"{name} of the feed, watched", "x", [1 + whole.more(*WATCHING)], at_most=1.05, note=note),
        Figure(f"{name}, hour by hour", "x", [1 + hour.more(*WATCHING) for hour in hours]),
        Figure(f"{name} of plans made because of it", "x", [hour.more("plans") for hour in hours]),
        Figure("fuel-watch: a fix, not watched", "us", [1e6 * hour.feed_seconds / hour.off["fixes"] for hour in hours]),
        Figure("fuel-watch: looks at a truck on its way", "/h", looks_an_hour),
        Figure("fuel-watch: a look, its sweep and job", "ms", [look_ms], note=f"{number:,.0f} in {jobs:,.0f} jobs"),
    ]
