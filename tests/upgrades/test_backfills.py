"""A back-fill runs in batches while others work, can be stopped at any moment, and goes on where it was."""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from domain.database.connections import DatabaseProblem
from domain.migrations import migrate
from domain.migrations.backfills import SilentReport
from domain.migrations.plan import plan_migrations
from tests.conftest import make_database
from tests.service import eventually
from tests.upgrades.extra_migrations import ExtraMigrations

ROUTES = 5_000

NEW_COLUMN = """
def upgrade() -> None:
    op.add_column("routes", sa.Column("stop_count", sa.Integer(), nullable=True))
"""

ITS_VALUES = """
backfill = Backfill(
    table="routes",
    fill="UPDATE routes SET attempts = attempts + 1, stop_count = jsonb_array_length(stops)"
    " WHERE id = ANY(%(keys)s) AND stop_count IS NULL",
)


def upgrade() -> None:
    pass
"""
"""It counts in `attempts` how often a route was filled."""

MIGRATE = """
import signal
import sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a run of tests in the background ignores it
from pathlib import Path
from domain.migrations.rendering import VERSIONS
VERSIONS.append(Path(sys.argv.pop(1)))
from deploy.cli import main
main()
"""


@pytest.fixture
def routes() -> str:
    """A database with routes; gives its URL."""
    url = make_database("backfilled")
    with psycopg.connect(url) as connection:
        connection.execute(
            "WITH company AS (INSERT INTO companies (id, name) VALUES (gen_random_uuid(), 'Acme') RETURNING id)"
            " INSERT INTO routes (id, company_id, environment, external_id, scheduled_start, stops, status)"
            " SELECT gen_random_uuid(), company.id, 'live', 'LOAD-' || n, now(), '[{}, {}, {}]', 'completed'"
            " FROM company, generate_series(1, %s) AS n",
            (ROUTES,),
        )
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("ANALYZE routes")
    return url


def filled(url: str) -> dict[int, int]:
    """The number of routes by how often they were filled."""
    with psycopg.connect(url) as connection:
        rows = connection.execute("SELECT attempts, count(*) FROM routes GROUP BY attempts")
        return dict(rows.fetchall())


def rows_filled(url: str, revision: str) -> int:
    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT rows_filled FROM backfills WHERE revision = %s", (revision,)).fetchone()
    return int(row[0]) if row else 0


@contextmanager
def locked_route(url: str, number: int) -> Iterator[None]:
    """A stranger holds the lock of the route that comes as this number in the order of ids."""
    with psycopg.connect(url) as connection:
        connection.execute(
            "SELECT FROM routes WHERE id = (SELECT id FROM routes ORDER BY id LIMIT 1 OFFSET %s) FOR UPDATE", (number,)
        )
        yield


@contextmanager
def running_migrate(url: str, extra: ExtraMigrations) -> Iterator[subprocess.Popen[str]]:
    """The command `fuelroute migrate` as a process."""
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", MIGRATE, str(extra.folder), "migrate"],
        env={"FUELROUTE_DATABASE_URL": url, "PATH": ""},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGKILL], ids=lambda stop: stop.name)
def test_a_back_fill_that_was_stopped_goes_on_where_it_was(
    routes: str, extra: ExtraMigrations, stop: signal.Signals
) -> None:
    extra.add(NEW_COLUMN)
    migrate(routes)
    revision = extra.add(ITS_VALUES)

    with locked_route(routes, ROUTES // 2), running_migrate(routes, extra) as process:
        before = eventually(lambda: rows_filled(routes, revision), lambda rows: rows > 0, wanted="the first batches")
        process.send_signal(stop)
        _, told = process.communicate(timeout=900)
        before = rows_filled(routes, revision)

    if stop == signal.SIGINT:
        assert process.returncode == 1
        assert "fuelroute: stopped; the next `fuelroute migrate` goes on from what is committed" in told
    assert 0 < before <= ROUTES // 2
    assert filled(routes) == {0: ROUTES - before, 1: before}
    (planned,) = plan_migrations(routes).migrations
    assert (planned.is_applied, planned.backfill_rows_left) == (True, ROUTES - before)

    assert migrate(routes) == revision

    assert filled(routes) == {1: ROUTES}
    assert plan_migrations(routes).migrations == []


def test_a_migration_waits_for_the_back_fill_before_it(routes: str, extra: ExtraMigrations) -> None:
    extra.add(NEW_COLUMN)
    migrate(routes)
    first = extra.add(ITS_VALUES)
    extra.add("def upgrade() -> None:\n    op.create_check_constraint('counted', 'routes', 'stop_count IS NOT NULL')\n")

    with locked_route(routes, ROUTES // 2), pytest.raises(DatabaseProblem, match="others held the lock of a table"):
        migrate(routes, patience_seconds=0)
    with psycopg.connect(routes) as connection:
        assert connection.execute("SELECT version_num FROM alembic_version").fetchall() == [(first,)]

    migrate(routes)

    assert filled(routes) == {1: ROUTES}


def test_a_finished_back_fill_is_not_run_again(routes: str, extra: ExtraMigrations) -> None:
    extra.add(NEW_COLUMN)
    extra.add(ITS_VALUES)
    migrate(routes)
    with psycopg.connect(routes) as connection:
        connection.execute("UPDATE routes SET stop_count = NULL, attempts = 7")

    migrate(routes)

    assert filled(routes) == {7: ROUTES}


class _Witness(SilentReport):
    """Keeps what a migration tells."""

    def __init__(self) -> None:
        self.sentences: list[str] = []
        self.counts: list[tuple[int, int]] = []

    def tell(self, sentence: str) -> None:
        self.sentences.append(sentence)

    def count(self, revision: str, rows_filled: int, rows_total: int) -> None:
        self.counts.append((rows_filled, rows_total))


def test_its_progress_is_told_after_each_batch(routes: str, extra: ExtraMigrations) -> None:
    extra.add(NEW_COLUMN)
    extra.add(ITS_VALUES)
    witness = _Witness()

    migrate(routes, witness)

    counts = [rows for rows, _ in witness.counts]
    assert (counts[0], counts[-1]) == (0, ROUTES)
    assert counts == sorted(set(counts))
    assert len(counts) > 2
    assert {total for _, total in witness.counts} == {ROUTES}


def test_a_migration_gives_way_to_requests_while_another_holds_its_table(routes: str, extra: ExtraMigrations) -> None:
    revision = extra.add("def upgrade() -> None:\n    op.add_column('routes', sa.Column('a', sa.Integer()))\n")
    witness = _Witness()

    def read(connection: psycopg.Connection[Any]) -> float:
        started = time.monotonic()
        connection.execute("SELECT FROM routes WHERE external_id = 'LOAD-7'")
        return time.monotonic() - started

    with ThreadPoolExecutor(1) as threads, psycopg.connect(routes, autocommit=True) as reader:
        with locked_route(routes, 0):
            migrating = threads.submit(migrate, routes, witness)
            eventually(lambda: len(witness.sentences), lambda told: told > 0, wanted="the first attempt that gave way")
            slowest = max(read(reader) for _ in range(500))
        assert migrating.result() == revision

    assert slowest < 10, "a request that does not get its way waits for ever"
    assert "others use the table, so this attempt gave way to them (the oldest transaction:" in witness.sentences[0]


def test_a_migration_that_never_gets_its_lock_says_whose_session_holds_it(routes: str, extra: ExtraMigrations) -> None:
    extra.add("def upgrade() -> None:\n    op.add_column('routes', sa.Column('a', sa.Integer()))\n")

    with locked_route(routes, 0), pytest.raises(DatabaseProblem, match=r"process \d+ of PostgreSQL, role fuelroute"):
        migrate(routes, patience_seconds=0)


def _valid_indexes(url: str) -> Any:
    with psycopg.connect(url) as connection:
        return connection.execute(
            "SELECT c.relname, indisvalid FROM pg_index i JOIN pg_class c ON c.oid = indexrelid WHERE relname = 'by_a'"
        ).fetchall()


def test_an_index_is_built_while_another_run_of_migrate_waits(routes: str, extra: ExtraMigrations) -> None:
    """A run that waited inside of a statement for its turn would keep the index from being finished."""
    extra.add("def upgrade() -> None:\n    create_index_concurrently('by_a', 'routes', ['attempts'])\n")

    with ThreadPoolExecutor(2) as threads:
        with locked_route(routes, 0):
            runs = [threads.submit(migrate, routes) for _ in range(2)]
            eventually(lambda: _valid_indexes(routes), lambda found: found == [("by_a", False)], wanted="the building")
            with psycopg.connect(routes) as connection:  # writes go on
                connection.execute("UPDATE routes SET attempts = 3 WHERE external_id = 'LOAD-7'")
        assert len({run.result() for run in runs}) == 1

    assert _valid_indexes(routes) == [("by_a", True)]


def test_an_index_that_was_left_half_built_is_built_again(routes: str, extra: ExtraMigrations) -> None:
    extra.add("def upgrade() -> None:\n    create_index_concurrently('by_a', 'routes', ['attempts'])\n")
    with locked_route(routes, 0), running_migrate(routes, extra) as process:
        eventually(lambda: _valid_indexes(routes), lambda found: found == [("by_a", False)], wanted="the building")
        process.kill()
        with psycopg.connect(routes) as connection:  # its session goes with it, but only after some seconds
            connection.execute(
                "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity"
                " WHERE datname = current_database() AND query LIKE 'CREATE INDEX CONCURRENTLY%'"
            )
    assert _valid_indexes(routes) == [("by_a", False)]

    migrate(routes)

    assert _valid_indexes(routes) == [("by_a", True)]
