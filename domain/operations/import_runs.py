"""The run of a file: takes its rows into the tables, in the console and on the command line.

It knows no kinds of files (see `import_kinds.py`). It stores one batch after the other, each in a transaction with the
figures so far, and ends with a transaction that writes the result into the record and the audit log."""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from datetime import datetime

from psycopg.errors import DeadlockDetected

from domain import clock
from domain.audit.entries import Actor, record_action
from domain.database.connections import Connection, Transaction
from domain.files.csvfiles import ImportReport, Progress
from domain.operations import import_records
from domain.operations.import_kinds import ImportFile, StoreBatch, StoredRows
from domain.operations.import_records import Counts, StoredImport


@dataclass(frozen=True)
class ImportRun:
    """Stores one file. `record` shows its progress; without one the progress is not shown."""

    file: ImportFile
    transaction: Transaction
    actor: str
    _: KW_ONLY
    record: StoredImport | None = None
    progress: Progress = lambda _: None
    time: Callable[[], datetime] = clock.now

    def store(self) -> ImportReport:
        """Stores the file. Raises UnreadableFile, UnknownCompany, RetiredCompany, and ImportGone if its record counts
        as broken off. Batches that are stored by then stay."""
        for store in self.file.batches(self.time(), self.progress):
            done = self._store_batch(store)
            self._count(done)
        with self.transaction() as connection:
            self._finish(connection)
        return self.file.report

    def _store_batch(self, store: StoreBatch) -> StoredRows:
        for left in reversed(range(self.file.most_tries)):
            try:
                with self.transaction() as connection:
                    done = store(connection, self.time())
                    self._advance(connection, done)
                return done
            except DeadlockDetected:
                if left == 0:
                    raise
        raise AssertionError  # every turn returns or raises, the last one at any rate

    def _advance(self, connection: Connection, done: StoredRows) -> None:
        if self.record is None:
            return
        before = Counts.of(self.file.report)
        counts = before._replace(
            created=before.created + done.created,
            updated=before.updated + done.updated,
            unchanged=before.unchanged + done.unchanged,
            refused=before.refused + len(done.refused),
        )
        import_records.advance(connection, self.record, counts, now=self.time())

    def _count(self, done: StoredRows) -> None:
        """Adds the outcome of a batch. Raises TooManyRefused, which ends the run, after too many refused rows."""
        report = self.file.report
        report.created += done.created
        report.updated += done.updated
        report.unchanged += done.unchanged
        for row in done.refused:
            report.reject(row.line, row.message)

    def _finish(self, connection: Connection) -> None:
        self.file.finish(connection, self.time(), self.progress)
        report = self.file.report
        if self.record is not None:
            import_records.finish(connection, self.record, report, now=self.time())
        record_action(
            connection,
            Actor(self.actor, f"{report.created} added, {report.updated} changed, {report.refused} refused"),
            *self.file.audited_as,
            company_id=self.file.company_id,
            affected=report.created + report.updated,
        )
