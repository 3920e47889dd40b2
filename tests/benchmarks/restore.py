"""The way back: how long a backup and a restore take, and how much of what was answered a disaster costs."""

import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path

import httpx
import psycopg

from deploy.backups.archive import archive_spec
from deploy.backups.base_backups import Backup, make_backup
from deploy.backups.restoring import restored_database
from deploy.embedded import EmbeddedPostgres
from domain.accounts.keys import create_key
from domain.lifecycle import Environment, RouteStatus
from tests.benchmarks.harness import Bench, Figure, Stack
from tests.benchmarks.load import LoadFailed
from tests.benchmarks.loader import Fleet, Lot, load_fleet, load_routes
from tests.factories import DOT, route_body
from tests.rows import named

TRUCKS = 4000
CLIENTS = 8
_LOT = 50_000
_MEGABYTE = 1_000_000


def run(bench: Bench) -> list[Figure]:
    """A stack with that many routes is backed up, gets pushes, loses PostgreSQL and its archive at once, and is
    restored."""
    with tempfile.TemporaryDirectory(prefix="fuelroute-bench-backups-") as temporary, bench.stack("restore") as stack:
        folder = Path(temporary)
        with stack.database.transaction() as connection:
            fleet = load_fleet(connection, TRUCKS)
        with bench.task(f"restore: loads {bench.routes:,} routes", bench.routes) as advance:
            now = datetime.now(UTC)
            starts = (now - timedelta(days=90), now + timedelta(days=7))
            load_routes(
                stack.database, [Lot(fleet, lot, RouteStatus.DRAFT, starts) for lot in _lots(bench.routes)], advance
            )
        postgres = EmbeddedPostgres(stack.settings.data)
        stack.start_spec(archive_spec(postgres, folder, stack.settings.data / "logs" / "archive.log"))
        started = time.perf_counter()
        with bench.task("restore: makes a backup"):
            backup = make_backup(stack.settings, folder, lambda step, done, total: None)
        backup_seconds = time.perf_counter() - started
        with bench.task("restore: pushes until PostgreSQL is killed"):
            answered, killed_at = _pushes_until_a_disaster(bench, stack, fleet)
        with bench.task("restore: restores"), _restored(folder, backup) as (url, seconds):
            lost = _lost(url, answered)
            _check(url, bench.routes)
    name = f"restore: {bench.routes:,} routes"
    note = f"backup of {backup.size_bytes / _MEGABYTE:,.0f} MB; {len(answered):,} pushes after it"
    return [
        Figure(f"{name}, backup while it runs", "s", [backup_seconds], note=note),
        Figure(f"{name}, restore (RTO)", "s", [seconds], at_most=300 * max(1, bench.routes / 1_000_000)),
        Figure("restore: answered pushes that are lost", "pushes", [len(lost)], note=f"of {len(answered):,}"),
        Figure(
            "restore: time before the disaster that is lost (RPO)",
            "s",
            [max((killed_at - answered[one] for one in lost), default=0.0)],
            at_most=60,
        ),
    ]


def _lots(routes: int) -> list[int]:
    """The routes in portions: on a busy machine one statement for all would take longer than it may."""
    return [min(_LOT, routes - first) for first in range(0, routes, _LOT)]


def _pushes_until_a_disaster(bench: Bench, stack: Stack, fleet: Fleet) -> tuple[dict[str, float], float]:
    """The `externalId` of each push that was answered 2xx and the time of the answer, and the time of the end."""
    host, port = stack.start_ingress(IMPORT_WAIT_SECONDS="0")
    with stack.database.transaction() as connection:
        keys = [
            create_key(
                connection, fleet.company_id, DOT, name="bench", environment=Environment.LIVE, scopes=["routes:write"]
            ).key
            for _ in range(CLIENTS)
        ]
    answered: dict[str, float] = {}
    numbers = count()

    def push(key: str) -> None:
        headers = {"Authorization": f"Bearer {key}"}
        with httpx.Client(base_url=f"http://{host}:{port}", headers=headers, timeout=10) as client:
            while True:
                name = f"LOST-{next(numbers)}"
                changes = {"vehicle": {"unitNumber": "00001"}, "driver": {"name": "Driver 00001"}}
                answer = client.post("/v1/routes", json=route_body(datetime.now(UTC), externalId=name, **changes))
                if answer.status_code >= 500:
                    return
                if answer.status_code == 429:
                    time.sleep(0.1)
                if answer.status_code < 300:
                    answered[name] = time.perf_counter()

    with ThreadPoolExecutor(CLIENTS) as threads:
        pushing = [threads.submit(push, key) for key in keys]
        time.sleep(max(bench.seconds, 1))
        killed_at = time.perf_counter()
        stack.kill("postgres", "archive")
        for one in pushing:
            one.result()
    return answered, killed_at


@contextmanager
def _restored(folder: Path, backup: Backup) -> Iterator[tuple[str, float]]:
    """The URL of the restored database, and the seconds until it could be used."""
    started = time.perf_counter()
    with (
        tempfile.TemporaryDirectory(prefix="fuelroute-bench-restored-") as data,
        restored_database(
            folder, Path(data) / "new", backup, at=None, contact_key=None, progress=lambda step, done, total: None
        ) as (url, _),
    ):
        yield url, time.perf_counter() - started


def _lost(url: str, answered: dict[str, float]) -> set[str]:
    with psycopg.connect(url) as connection:
        rows = named(connection).execute("SELECT external_id FROM routes WHERE external_id LIKE 'LOST-%'").fetchall()
    return set(answered) - {row.external_id for row in rows}


def _check(url: str, routes: int) -> None:
    """Check that all loaded routes were restored. Raises LoadFailed if one is missing."""
    with psycopg.connect(url) as connection:
        (row,) = named(connection).execute("SELECT count(*) AS routes FROM routes").fetchall()
    if row.routes < routes:
        raise LoadFailed(f"{row.routes:,} of {routes:,} routes were restored")
