"""Price runs: each price file that came, by a person or from a source, with what became of its rows."""

import hashlib
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

from domain.contract.csvfiles import Rejected
from domain.database import Connection, as_json
from domain.ids import first_id_of, new_id
from domain.statements import Command, Statement
from domain.stations.price_files import PriceReport

MOST_REJECTED_KEPT = 1_000
"""So many refused rows are kept with their sentences. More are only counted."""

KEPT_RUN_DAYS = 90


class PriceRun(NamedTuple):
    id: UUID
    company_id: UUID
    source_id: UUID | None
    file_name: str
    file_hash: str
    profile: str
    actor: str
    ended_at: datetime
    created: int
    updated: int
    unchanged: int
    held: int
    refused: int
    fault: str | None


class RunFile(NamedTuple):
    """The file of a run, and who sent it."""

    source_id: UUID | None
    name: str
    hash: str
    profile: str
    actor: str


_RECORD = Command(
    "INSERT INTO price_runs (id, company_id, source_id, file_name, file_hash, profile, actor, ended_at, created,"
    " updated, unchanged, held, refused, rejected, fault)"
    " VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)"
)
_COLUMNS = ", ".join(PriceRun._fields)
_LATEST = Statement(
    PriceRun,
    f"SELECT {_COLUMNS} FROM price_runs WHERE company_id = %s"  # noqa: S608
    " AND (%s::uuid IS NULL OR source_id = %s) ORDER BY id DESC LIMIT %s",
)


class _RejectedRows(NamedTuple):
    rejected: list[dict[str, Any]]


_REJECTED = Statement(_RejectedRows, "SELECT rejected FROM price_runs WHERE company_id = %s AND id = %s")


class _Run(NamedTuple):
    id: UUID


_TAKEN = Statement(_Run, "SELECT id FROM price_runs WHERE source_id = %s AND file_hash = %s LIMIT 1")


def record_run(
    connection: Connection, company_id: UUID, file: RunFile, report: PriceReport, fault: str | None, *, now: datetime
) -> UUID:
    run_id = new_id()
    rejected = [row._asdict() for row in sorted(report.rejected)[:MOST_REJECTED_KEPT]]
    counts = (report.created, report.updated, report.unchanged, report.held, len(report.rejected))
    _RECORD.execute(connection, (run_id, company_id, *file, now, *counts, as_json(rejected), fault))
    return run_id


def latest_runs(
    connection: Connection, company_id: UUID, *, source_id: UUID | None = None, limit: int = 20
) -> list[PriceRun]:
    """The newest first."""
    return _LATEST.all(connection, (company_id, source_id, source_id, limit))


def refused_rows(connection: Connection, company_id: UUID, run_id: UUID) -> Sequence[Rejected] | None:
    """None: the company has no such run."""
    row = _REJECTED.first(connection, (company_id, run_id))
    return [Rejected(**one) for one in row.rejected] if row is not None else None


def was_taken(connection: Connection, source_id: UUID, file_hash: str) -> bool:
    """True when the source has brought the very same file before."""
    return _TAKEN.first(connection, (source_id, file_hash)) is not None


def file_hash_of(path: Path) -> str:
    """The SHA-256 of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


_FORGET = Command("DELETE FROM price_runs WHERE id IN (SELECT id FROM price_runs WHERE id < %s ORDER BY id LIMIT %s)")


def forget_runs(connection: Connection, *, days: float, now: datetime, limit: int) -> int:
    """Removes runs of times before. Returns how many."""
    return _FORGET.execute(connection, (first_id_of(now - timedelta(days=days)), limit)).rowcount
