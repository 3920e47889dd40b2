"""`fuelroute doctor` on a large database: routes with plans, messages, visits and savings of their own."""

import statistics
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import psycopg

from domain.encoding import write
from domain.lifecycle import PendingReason, RouteStatus
from domain.operations.doctor.examination import CheckResult, examine
from tests.benchmarks.harness import STOLEN, Bench, Figure, Stack
from tests.benchmarks.loader import Lot, load_fleet, load_routes
from tests.benchmarks.reads import SHARES
from tests.domain.planning.plans import feasible, inputs, meridian, priced

COMPANIES = 20
TRUCKS = 5_000
EXPLAINED = 20_000
"""The newest plans, whose explanations are kept still."""
SECONDS = 60.0


class _Run(NamedTuple):
    results: list[CheckResult]
    processor_seconds: float
    """Processor time of PostgreSQL and the doctor together: what a machine would need that does nothing else."""

    @property
    def seconds(self) -> float:
        return sum(result.seconds for result in self.results)

    @property
    def note(self) -> str:
        slow = sorted(self.results, key=lambda one: -one.seconds)[:4]
        told = [f"{one.check} {one.seconds:.1f} s" for one in slow]
        told += [f"{one.check}: {one.unfinished}" for one in self.results if one.unfinished]
        told += [finding.what for one in self.results for finding in one.findings if finding.is_problem]
        return "; ".join(told)


def run(bench: Bench) -> list[Figure]:
    with bench.stack("doctor") as stack:
        _load(bench, stack)
        runs = []
        for number in range(bench.rounds):
            with bench.task(f"doctor: round {number + 1} of {bench.rounds}"):
                runs.append(_examine(stack))
    part = [sum(one.unfinished is None for one in run.results) / len(run.results) for run in runs]
    return [
        Figure(
            f"doctor: {bench.routes:,} routes, all checks",
            "s",
            [run.seconds for run in runs],
            at_most=SECONDS,
            note=runs[-1].note,
        ),
        Figure(f"doctor: {bench.routes:,} routes, processor time", "s", [run.processor_seconds for run in runs]),
        Figure(f"doctor: {bench.routes:,} routes, checks that came to their end", "x", part),
        *(
            Figure(f"doctor: {check}", "s", [_seconds(run, check) for run in runs])
            for check in sorted({one.check for run in runs for one in run.results})
            if statistics.median(_seconds(run, check) for run in runs) >= 0.1
        ),
    ]


def _seconds(run: _Run, check: str) -> float:
    return sum(one.seconds for one in run.results if one.check == check)


def _examine(stack: Stack) -> _Run:
    before = stack.cpu_seconds()
    results = examine(stack.settings, seconds=SECONDS, now=datetime.now(UTC))
    spent = {name: seconds - before[name] for name, seconds in stack.cpu_seconds().items() if name != STOLEN}
    return _Run(results, sum(spent.values()))


def _load(bench: Bench, stack: Stack) -> None:
    now = datetime.now(UTC)
    with stack.database.transaction() as connection:
        fleets = [load_fleet(connection, TRUCKS) for _ in range(COMPANIES)]
    lots = [
        Lot(
            fleet,
            round(bench.routes / COMPANIES * share),
            status,
            (now + first, now + last),
            reason=PendingReason.OUTSIDE_IMPORT_WINDOW if status is RouteStatus.PENDING_WINDOW else None,
            own_plans=True,
        )
        for fleet in fleets
        for status, share, (first, last) in SHARES
    ]
    with bench.task(f"doctor: loads {bench.routes:,} routes", bench.routes) as advance:
        load_routes(stack.database, lots, advance)
    # a statement may take minutes: connections of the pool would give it up
    with psycopg.connect(stack.database.url, autocommit=True) as direct:
        direct.execute("SET session_replication_role = replica")  # no checks of foreign keys
        for what, statement in _FACTS.items():
            with bench.task(f"doctor: loads {what}"):
                direct.execute(statement, _parameters(now))
        with bench.task("doctor: vacuum"):
            direct.execute("VACUUM ANALYZE")


def _parameters(now: datetime) -> dict[str, object]:
    road = meridian(300.0, 600.0)
    plan = feasible(inputs(road, *(priced(mile, 3.4 + mile / 5000) for mile in range(20, 600, 20))))
    return {
        "now": now,
        "tomorrow": now + timedelta(days=1),
        "document": write(plan.document()).decode(),
        "explanation": plan.packed_explanation,
        "explained": EXPLAINED,
        "text": "Fuel plan for PO-4711\n" + "1. Blue Mesa, I-80 exit 71, Toledo, OH: 60 gal at $3.599\n" * 8,
    }


_FACTS = {
    "plans": """
        INSERT INTO plans (id, company_id, environment, route_id, revision, generated_at, document, explanation,
                           fuel_percent, timeline)
        SELECT plan_id, company_id, environment, id, revision, %(now)s, %(document)s::jsonb,
               CASE WHEN row_number() OVER (ORDER BY id DESC) <= %(explained)s THEN %(explanation)s::bytea END, 50, '[]'
        FROM routes WHERE plan_id IS NOT NULL ORDER BY id
    """,
    "messages": """
        INSERT INTO messages (id, company_id, environment, route_id, plan_id, driver_id, status, channel, text,
                              retry_at, sent_at)
        SELECT plan_id, company_id, environment, id, plan_id, driver_id,
               CASE status WHEN 'planned' THEN 'pending' ELSE 'sent' END, 'outbox', %(text)s::text,
               CASE status WHEN 'planned' THEN %(tomorrow)s::timestamptz END,
               CASE status WHEN 'planned' THEN NULL ELSE %(now)s::timestamptz END
        FROM routes WHERE plan_id IS NOT NULL ORDER BY id
    """,
    "visits": """
        INSERT INTO visits (company_id, environment, route_id, stop, vehicle_id, arrived_at, stored_at)
        SELECT company_id, environment, id, stop, vehicle_id, arrived_at + stop * interval '1 hour', %(now)s
        FROM routes CROSS JOIN unnest(ARRAY[0, 2, 4]) AS stop
        WHERE arrived_at IS NOT NULL AND (stop = 0 OR status = 'completed') ORDER BY id, stop
    """,
    "savings": """
        INSERT INTO savings (route_id, company_id, environment, plan_id, planned_at, vehicle_id, driver_id, origin,
                             destination, gallons, cost_cents, saved_cents)
        SELECT id, company_id, environment, plan_id, %(now)s, vehicle_id, driver_id, 'Joliet, IL', 'Newark, NJ', 100,
               35000, 2000
        FROM routes WHERE status IN ('active', 'completed') ORDER BY id
    """,
    "tracks": """
        INSERT INTO tracks (company_id, vehicle_id, environment, oldest_at, newest_at, latitude, longitude)
        SELECT company_id, id, 'live', %(now)s, %(now)s, 41.4, -88.1 FROM vehicles
    """,
}
