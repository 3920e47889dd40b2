"""Records of imports in the console: the kind of each file, its user, the progress of its import, and its result.

The command line stores the same kinds of files by the same runs, but keeps no such record. The process that runs an
import notes its progress every second (`note_progress`). A process that has been silent for `SILENT_SECONDS` counts as
gone."""

from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from domain.database.connections import Connection, as_json
from domain.database.options import TimeLimits
from domain.database.statements import Command, Scalar, Statement
from domain.errors import FuelrouteError
from domain.files.csvfiles import ImportReport
from domain.files.route_layout import listed_names
from domain.ids import first_id_of, new_id
from domain.operations.import_kinds import IMPORT_FILES

IMPORTING = TimeLimits(statement_seconds=60, lock_seconds=30, idle_seconds=300)
"""A person watches, and would rather wait for an earlier import than be refused. While a large file is read, no
statement reaches the database."""

MOST_REJECTED = 1_000
"""Most refused rows that are kept, with their sentences. More are only counted."""

_MOST_UNUSED = 2_000
"""Most characters of the names of unused columns."""

KEPT_DAYS = 90

SILENT_SECONDS = 30

BROKE_OFF = {
    kind: f"The console was stopped in the middle of it. {one.broke_off}"
    for one in IMPORT_FILES
    for kind in one.kinds()
}
"""The fault of an import whose process is gone, by its kind."""


class ImportRunning(FuelrouteError):
    def __init__(self) -> None:
        super().__init__("another file is being imported: wait until it is done")


class StoredImport(NamedTuple):
    """An import, and how far it is. `finished_at` is None while it runs."""

    id: UUID
    company_id: UUID | None
    kind: str
    actor: str
    started_at: datetime
    beat_at: datetime
    rows_total: int
    rows_read: int
    finished_at: datetime | None
    created: int
    updated: int
    unchanged: int
    refused: int
    passed_over: int
    """Lines about something else: totals, titles, things that are not stored."""
    fault: str | None
    unused_columns: str | None
    """The names of the file's columns that match no field."""
    removed: str | None
    """The stored values that the file removed, in words."""


_COLUMNS = ", ".join(StoredImport._fields)
_CLOSE_SILENT = Command(
    "UPDATE csv_imports SET finished_at = %s, fault = %s::jsonb ->> kind WHERE finished_at IS NULL AND beat_at < %s"
)
_BEGIN = Statement(
    StoredImport,
    "INSERT INTO csv_imports (id, company_id, kind, actor, started_at, beat_at, rows_total)"
    " VALUES (%s, %s, %s, %s, %s, %s, %s)"
    f" ON CONFLICT (company_id) WHERE finished_at IS NULL DO NOTHING RETURNING {_COLUMNS}",
)
_RUNNING = Command(
    "SELECT FROM csv_imports WHERE company_id IS NOT DISTINCT FROM %s::uuid AND finished_at IS NULL LIMIT 1"
)
_BEAT = Command("UPDATE csv_imports SET beat_at = %s, rows_read = %s WHERE id = %s AND finished_at IS NULL")
_FINISH = Command(
    "UPDATE csv_imports SET finished_at = %s, rows_read = %s, created = %s, updated = %s, unchanged = %s, refused = %s,"
    " passed_over = %s, rejected = %s, unused_columns = %s, removed = %s WHERE id = %s AND finished_at IS NULL"
)
_ADVANCE = Command(
    "UPDATE csv_imports SET beat_at = %s, rows_read = %s, created = %s, updated = %s, unchanged = %s, refused = %s,"
    " passed_over = %s WHERE id = %s AND finished_at IS NULL"
)
_FAIL = Command("UPDATE csv_imports SET finished_at = %s, fault = %s WHERE id = %s AND finished_at IS NULL")


def begin(
    connection: Connection, company_id: UUID | None, kind: str, actor: str, *, rows_total: int, now: datetime
) -> StoredImport:
    """Stores that an import begins. `company_id` is None for stations and taxes. Raises ImportRunning, because a
    company has one import at a time."""
    close_silent(connection, now=now)
    stored = _BEGIN.first(connection, (new_id(), company_id, kind, actor, now, now, rows_total))
    if stored is None:
        raise ImportRunning
    return stored


def require_none(connection: Connection, company_id: UUID | None, *, now: datetime) -> None:
    """Check that no import runs. Raises ImportRunning where `begin` would, before a file is sent in vain."""
    close_silent(connection, now=now)
    if _RUNNING.first(connection, (company_id,)) is not None:
        raise ImportRunning


def close_silent(connection: Connection, *, now: datetime) -> None:
    """Ends the imports whose process is gone."""
    _CLOSE_SILENT.execute(connection, (now, as_json(BROKE_OFF), now - timedelta(seconds=SILENT_SECONDS)))


def note_progress(connection: Connection, import_id: UUID, *, rows_read: int, now: datetime) -> None:
    _BEAT.execute(connection, (now, rows_read, import_id))


class ImportGone(FuelrouteError):
    """The import was silent for so long that it counts as broken off, or its company was erased."""

    def __init__(self) -> None:
        super().__init__("the import was ended meanwhile: send the file again")


class Counts(NamedTuple):
    """The rows of a file, counted by outcome."""

    created: int = 0
    updated: int = 0
    unchanged: int = 0
    refused: int = 0
    passed_over: int = 0

    @classmethod
    def of(cls, report: ImportReport) -> "Counts":
        return cls(report.created, report.updated, report.unchanged, report.refused, report.passed_over or 0)


def advance(connection: Connection, stored: StoredImport, counts: Counts, *, now: datetime) -> None:
    """Notes how far an import of several transactions has come. Raises ImportGone if it counts as broken off; it then
    stops."""
    if _ADVANCE.execute(connection, (now, sum(counts), *counts, stored.id)).rowcount == 0:
        raise ImportGone


def finish(connection: Connection, stored: StoredImport, report: ImportReport, *, now: datetime) -> None:
    """Ends the import, with the first refused rows. Raises ImportGone if it counts as broken off; nothing more is
    stored then."""
    counts = Counts.of(report)
    rows = as_json([row._asdict() for row in sorted(report.rejected)[:MOST_REJECTED]])
    unused = listed_names(report.unused_columns)[:_MOST_UNUSED] if report.unused_columns else None
    removed = report.told_removed() or None
    if _FINISH.execute(connection, (now, sum(counts), *counts, rows, unused, removed, stored.id)).rowcount == 0:
        raise ImportGone


def fail(connection: Connection, import_id: UUID, fault: str, *, now: datetime) -> None:
    """Ends the import without storing anything; `fault` says why."""
    _FAIL.execute(connection, (now, fault, import_id))


_READ = Statement(
    StoredImport, f"SELECT {_COLUMNS} FROM csv_imports WHERE id = %s AND company_id IS NOT DISTINCT FROM %s::uuid"
)
_LATEST = Statement(
    StoredImport,
    f"SELECT {_COLUMNS} FROM csv_imports"
    " WHERE company_id IS NOT DISTINCT FROM %s::uuid AND kind = %s ORDER BY id DESC LIMIT %s",
)


_REJECTED = Scalar(list[dict[str, Any]] | None, "SELECT rejected FROM csv_imports WHERE id = %s")


def read_import(connection: Connection, company_id: UUID | None, import_id: UUID) -> StoredImport | None:
    """An import of the company; None if there is none."""
    return _READ.first(connection, (import_id, company_id))


def rejected_rows(connection: Connection, stored: StoredImport) -> list[dict[str, Any]]:
    """The first `MOST_REJECTED` refused rows: line and message."""
    return _REJECTED.first(connection, (stored.id,)) or []


def latest_imports(connection: Connection, company_id: UUID | None, kind: str, *, limit: int) -> list[StoredImport]:
    """The latest imports, the newest first."""
    return _LATEST.all(connection, (company_id, kind, limit))


_FORGET = Command(
    "DELETE FROM csv_imports WHERE id = ANY(ARRAY("
    "SELECT id FROM csv_imports WHERE id < %s ORDER BY id LIMIT %s FOR UPDATE SKIP LOCKED))"
)


def forget_imports(connection: Connection, *, days: float, now: datetime, limit: int) -> int:
    """Deletes imports that began earlier. Returns how many."""
    return _FORGET.execute(connection, (first_id_of(now - timedelta(days=days)), limit)).rowcount
