"""A backlog of pending routes: how fast one worker process makes drafts of them, by jobs that wait or by the sweep."""

from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from domain.lifecycle import PendingReason, RouteStatus
from domain.queue.job_queue import JobQueue
from domain.queue.jobs import import_routes_job, in_batches
from tests.benchmarks.harness import Bench, Figure, Stack, busiest
from tests.benchmarks.load import LoadFailed
from tests.benchmarks.loader import Fleet, Lot, load_fleet, load_routes

ROUTES = 100_000
TRUCKS = 10_000
PER_SECOND = 8000

_PATIENCE_SECONDS = 300


class _Run(NamedTuple):
    rate: float
    note: str


def run(bench: Bench) -> list[Figure]:
    with bench.stack("import") as stack:
        with stack.database.transaction() as connection:
            fleet = load_fleet(connection, TRUCKS)
        constant = stack.start_constant()
        stack.start("workers", "--queues", "imports")
        stack.start("scheduler")

        def by_jobs() -> _Run:
            """No worker ran for a while: the jobs of the pushes wait in Redis."""
            _load_backlog(stack, fleet, due=datetime.now(UTC) + timedelta(minutes=2))
            ids = [row.id for row in stack.query("SELECT id FROM routes ORDER BY id")]
            JobQueue.of(stack.settings).put(*map(import_routes_job, in_batches(ids)))
            return _imported(stack)

        def by_sweep() -> _Run:
            """Redis lost its jobs: the scheduler finds what is due."""
            _load_backlog(stack, fleet, due=datetime.now(UTC))
            return _imported(stack)

        results = bench.alternate(
            "import",
            {
                "constant": lambda: _Run(bench.constant_rate(constant), ""),
                f"{ROUTES:,} routes, jobs waiting": by_jobs,
            },
        )
        with bench.task(f"import: {ROUTES:,} routes, jobs lost"):
            swept = by_sweep()
    reference, jobs = results.values()
    name = f"import: {ROUTES:,} pending routes, one worker process"
    return [
        Figure("import: the constant endpoint, 128 connections", "/s", [one.rate for one in reference]),
        Figure(f"{name}, jobs waiting", "/s", [one.rate for one in jobs], at_least=PER_SECOND, note=jobs[-1].note),
        Figure(f"{name}, jobs lost, by the sweep", "/s", [swept.rate], at_least=PER_SECOND, note=swept.note),
    ]


def _load_backlog(stack: Stack, fleet: Fleet, *, due: datetime) -> None:
    start = datetime.now(UTC) + timedelta(hours=12)
    stack.execute("TRUNCATE routes CASCADE")
    lot = Lot(
        fleet,
        ROUTES,
        RouteStatus.PENDING,
        (start, start + timedelta(days=5)),
        reason=PendingReason.NOT_ATTEMPTED,
        retry_at=due,
    )
    load_routes(stack.database, [lot])


def _imported(stack: Stack) -> _Run:
    """Waits until all are drafts; the time is the database's, from the first job to the last route."""
    with stack.watched() as shares:
        stack.wait_until("SELECT NOT EXISTS (SELECT FROM routes WHERE status = 'pending')", seconds=_PATIENCE_SECONDS)
    (row,) = stack.query(
        "SELECT count(*) AS drafts, extract(epoch FROM max(updated_at) - min(imported_at))::float8 AS seconds"
        " FROM routes WHERE status = 'draft'"
    )
    if row.drafts != ROUTES:
        raise LoadFailed(f"of {ROUTES:,} routes {row.drafts:,} became drafts")
    return _Run(row.drafts / row.seconds, f"{busiest(shares)}; {row.seconds:.1f} s")
