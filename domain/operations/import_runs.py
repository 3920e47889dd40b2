"""The run of a file: takes its rows into the tables, in the console and on the command line.

It knows no kinds of files (see `import_kinds.py`). It stores one batch after the other, each in a transaction with the
figures so far, and ends with a transaction that writes the result into the record and the audit log."""

from collections.abc import Callable
from datetime import datetime

from psycopg.errors import DeadlockDetected

from domain import clock
from domain.audit.entries import Actor, record_action
from domain.database.connections import Connection, Transaction
from domain.files.csvfiles import ImportReport, Progress
from domain.operations import import_records
from domain.operations.import_kinds import ImportFile, StoreBatch, StoredRows
from domain.operations.import_records import Counts, StoredImport


class ImportRun:
    """Stores one file. `record` shows its progress; without one the progress is not shown."""

    def __init__(
        self,
        file: ImportFile,
        transaction: Transaction,
        actor: str,
        *,
        record: StoredImport | None = None,
        progress: Progress = lambda _: None,
        time: Callable[[], datetime] = clock.now,
    ) -> None:
        self._file = file
        self._transaction = transaction
        self._actor = actor
        self._record = record
        self._progress = progress
        self._time = time

    def store(self) -> ImportReport:
        """Stores the file. Raises UnreadableFile, UnknownCompany, RetiredCompany, and ImportGone if its record counts
        as broken off. Batches that are stored by then stay."""
        for store in self._file.batches(self._time(), self._progress):
            done = self._store_batch(store)
            self._count(done)
        with self._transaction() as connection:
            self._finish(connection)
        return self._file.report

    def _store_batch(self, store: StoreBatch) -> StoredRows:
        for left in reversed(range(self._file.most_tries)):
            try:
                with self._transaction() as connection:
                    done = store(connection, self._time())
                    self._advance(connection, done)
                return done
            except DeadlockDetected:
                if left == 0:
                    raise
        raise AssertionError  # every turn returns or raises, the last one at any rate

    def _advance(self, connection: Connection, done: StoredRows) -> None:
        if self._record is None:
            return
        before = Counts.of(self._file.report)
        counts = before._replace(
            created=before.created + done.created,
            updated=before.updated + done.updated,
            unchanged=before.unchanged + done.unchanged,
            refused=before.refused + len(done.refused),
        )
        import_records.advance(connection, self._record, counts, now=self._time())

    def _count(self, done: StoredRows) -> None:
        """Adds the outcome of a batch. Raises TooManyRefused, which ends the run, after too many refused rows."""
        report = self._file.report
        report.created += done.created
        report.updated += done.updated
        report.unchanged += done.unchanged
        for row in done.refused:
            report.reject(row.line, row.message)

    def _finish(self, connection: Connection) -> None:
        self._file.finish(connection, self._time(), self._progress)
        report = self._file.report
        if self._record is not None:
            import_records.finish(connection, self._record, report, now=self._time())
        record_action(
            connection,
            Actor(self._actor, f"{report.created} added, {report.updated} changed, {report.refused} refused"),
            *self._file.audited_as,
            company_id=self._file.company_id,
            affected=report.created + report.updated,
        )
