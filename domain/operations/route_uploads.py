"""Files of routes that a person brings to the console. The routes are pushed as a TMS would push them, in batches.

Each batch is a transaction: its pushes, and the figures of the record in `csv_imports`. So the record tells exactly
what is stored, even if the process dies. The file may be sent again: a push is idempotent by its `externalId`.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import NamedTuple
from zoneinfo import ZoneInfo

from domain.accounts.companies import require_company
from domain.database.connections import Connection, Tenant
from domain.files.csvfiles import Rejected
from domain.files.route_files import FileFormat
from domain.files.route_rows import FileRoute
from domain.lifecycle import Environment
from domain.operations import csv_imports
from domain.operations.csv_imports import Counts, RouteKind, StoredImport
from domain.queue.jobs import Job, import_routes_job, in_batches
from domain.routes.intake.pushes import Push, store_pushes

BATCH_ROUTES = 64

STARTED = "the route has started: it cannot change any more"

ROUTE_KINDS: dict[Environment, RouteKind] = {Environment.LIVE: "live routes", Environment.SANDBOX: "sandbox routes"}


class RouteUpload(NamedTuple):
    """The way to read a file that has arrived."""

    path: Path
    format: FileFormat
    names: Sequence[str] | None
    """The fields of its columns, in place of their names."""
    zone: ZoneInfo
    environment: Environment


class Batch(NamedTuple):
    """The outcome of a batch."""

    counts: Counts
    """The rows of the file so far, those of this batch included."""
    rejected: list[Rejected]
    jobs: list[Job]
    """The jobs to enqueue after the commit."""


def batches(routes: Iterable[FileRoute]) -> Iterator[list[FileRoute]]:
    rest = iter(routes)
    while batch := list(islice(rest, BATCH_ROUTES)):
        yield batch


def push_batch(
    connection: Connection,
    stored: StoredImport,
    environment: Environment,
    routes: Sequence[FileRoute],
    before: Counts,
    *,
    now: datetime,
) -> Batch:
    """Stores the pushes in the caller's transaction. Imports wait in the company's backlog, so that a large file delays
    no other company. Raises RetiredCompany, ImportGone."""
    assert stored.company_id is not None  # noqa: S101 (routes belong to a company)
    require_company(connection, stored.company_id)
    tenant = Tenant(stored.company_id, environment)
    sound = [(one.line, one.route) for one in routes if one.route is not None]
    pushed, jobs = store_pushes(connection, [Push(tenant, route) for _, route in sound], now=now)
    effects = Counter(result.effect for result in pushed)
    rejected = [Rejected(one.line, one.fault) for one in routes if one.route is None]
    rejected += [
        Rejected(line, STARTED) for (line, _), result in zip(sound, pushed, strict=True) if result.effect == "refuse"
    ]
    counts = Counts(
        before.created + effects["create"],
        before.updated + effects["replace"],
        before.unchanged + effects["unchanged"],
        before.refused + len(rejected),
    )
    csv_imports.advance(connection, stored, counts, now=now)
    changed = dict.fromkeys(result.route_id for result in pushed if result.effect in ("create", "replace"))
    imports = [import_routes_job(ids, tenant.company_id) for ids in in_batches(changed)]
    return Batch(counts, rejected, [*jobs, *imports])
