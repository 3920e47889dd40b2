"""Price runs: each price file that a person or a source sent, and the outcome of its rows."""

import hashlib
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from domain.database.connections import Connection, as_json
from domain.database.statements import Command, Scalar, Statement
from domain.files.csvfiles import Rejected
from domain.ids import first_id_of, new_id

if TYPE_CHECKING:
    from domain.stations.price_rows import PriceReport  # loads numpy, and lists of files need none

MOST_REJECTED_KEPT = 1_000
"""Most refused or passed over rows that are kept with their sentences. More are only counted."""

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
    modified_at: datetime | None = None
    """The file's time by its source's clock; None if a person sent it, or the source has no times."""
    read_with: str | None = None
    """A digest of the profile by which the file was read; it changes with the profile."""


_RECORD = Command(
    "INSERT INTO price_runs (id, company_id, source_id, file_name, file_hash, profile, actor, modified_at, read_with,"
    " ended_at, created, updated, unchanged, held, refused, rejected, fault)"
    " VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)"
)
_COLUMNS = ", ".join(PriceRun._fields)
_LATEST = Statement(PriceRun, f"SELECT {_COLUMNS} FROM price_runs WHERE company_id = %s ORDER BY id DESC LIMIT 20")


_REJECTED = Scalar(list[dict[str, Any]], "SELECT rejected FROM price_runs WHERE company_id = %s AND id = %s")


class _LastRun(NamedTuple):
    file_hash: str
    read_with: str | None


_TAKEN = Scalar(
    UUID,
    "SELECT id FROM price_runs WHERE source_id = %(source_id)s AND file_hash = %(hash)s AND fault IS NULL"
    " AND coalesce(modified_at = %(modified_at)s, %(modified_at)s <= ended_at)"
    " AND coalesce(read_with, %(read_with)s) = %(read_with)s LIMIT 1",
)
"""Earlier releases kept neither time nor profile: the file that they imported was there when its run ended."""
_LAST_OF_NAME = Statement(
    _LastRun,
    "SELECT file_hash, read_with FROM price_runs WHERE source_id = %s AND file_name = %s AND fault IS NULL"
    " ORDER BY id DESC LIMIT 1",
)


def record_run(
    connection: Connection, company_id: UUID, file: RunFile, report: "PriceReport", fault: str | None, *, now: datetime
) -> UUID:
    run_id = new_id()
    passed = [Rejected(row.line, f"passed over: {row.message}") for row in report.passed_rows]
    rejected = [row._asdict() for row in sorted([*report.rejected, *passed])[:MOST_REJECTED_KEPT]]
    counts = (report.created, report.updated, report.unchanged, report.held, report.refused)
    _RECORD.execute(connection, (run_id, company_id, *file, now, *counts, as_json(rejected), fault))
    return run_id


def latest_runs(connection: Connection, company_id: UUID) -> list[PriceRun]:
    """The latest 20 runs, the newest first."""
    return _LATEST.all(connection, (company_id,))


def refused_rows(connection: Connection, company_id: UUID, run_id: UUID) -> Sequence[Rejected] | None:
    """The refused rows of a run; None if the company has no such run."""
    rejected = _REJECTED.first(connection, (company_id, run_id))
    return [Rejected(**one) for one in rejected] if rejected is not None else None


def was_taken(connection: Connection, source_id: UUID, file: RunFile) -> bool:
    """True if the source has brought this very file before, and it was read in the same way, so that nothing would
    change. Equal content at another time is another file, because its prices count from its time on, for seven days. If
    the source has no times, a file is the same as long as its name leads to the same content."""
    if file.modified_at is not None:
        return _TAKEN.first(connection, {**file._asdict(), "source_id": source_id}) is not None
    last = _LAST_OF_NAME.first(connection, (source_id, file.name))
    return last is not None and last.file_hash == file.hash and last.read_with in (None, file.read_with)


def file_hash_of(path: Path) -> str:
    """The SHA-256 of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


_FORGET = Command("DELETE FROM price_runs WHERE id IN (SELECT id FROM price_runs WHERE id < %s ORDER BY id LIMIT %s)")


def forget_runs(connection: Connection, *, days: float, now: datetime, limit: int) -> int:
    """Deletes old runs. Returns how many."""
    return _FORGET.execute(connection, (first_id_of(now - timedelta(days=days)), limit)).rowcount
