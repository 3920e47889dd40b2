"""The run of a file, and the list of the kinds of files."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from inspect import isabstract
from pathlib import Path

from psycopg.errors import DeadlockDetected

from domain.audit.entries import search_actions
from domain.database.connections import Connection
from domain.files.csvfiles import Progress
from domain.operations import import_kinds
from domain.operations.import_kinds import IMPORT_FILES, ImportFile, StoreBatch, StoredRows
from domain.operations.import_runs import ImportRun
from tests.factories import Fleet


def test_every_kind_of_file_is_listed() -> None:
    declared = [one for one in vars(import_kinds).values() if isinstance(one, type) and issubclass(one, ImportFile)]
    assert {one for one in declared if not isabstract(one)} == set(IMPORT_FILES)


@dataclass(kw_only=True)
class OneBatch(ImportFile):
    """A batch of two rows, which meets deadlocks first."""

    name = "rows"
    most_tries = 3
    deadlocks: int
    tries: list[bool] = field(default_factory=list)

    def batches(self, now: datetime, progress: Progress) -> Iterator[StoreBatch]:
        yield self._store

    def _store(self, connection: Connection, now: datetime) -> StoredRows:
        self.tries.append(True)
        if len(self.tries) <= self.deadlocks:
            raise DeadlockDetected
        return StoredRows(created=2, updated=0, unchanged=0)

    def finish(self, connection: Connection, now: datetime, progress: Progress) -> None: ...


def test_a_batch_that_meets_a_deadlock_is_tried_again_and_counted_once(connection: Connection, fleet: Fleet) -> None:
    file = OneBatch(path=Path(), company_id=fleet.company_id, deadlocks=2)

    @contextmanager
    def transaction() -> Iterator[Connection]:
        yield connection

    report = ImportRun(file, transaction, "a@b.c").store()

    assert (report.created, len(file.tries)) == (2, 3)
    (entry,) = search_actions(connection, fleet.company_id, limit=10)
    assert (entry.actor, entry.action, entry.subject, entry.affected) == ("a@b.c", "import", "rows", 2)
