"""Imports of CSV files that this console process runs, in threads beside the pages, which are answered meanwhile."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

import psycopg
import redis
from psycopg.errors import LockNotAvailable

from domain.accounts.contacts import Contacts
from domain.contract.csvfiles import UnreadableFile
from domain.database import Database
from domain.errors import FuelrouteError
from domain.jobs import Job, JobQueue
from domain.observability import get_logger
from domain.operations import csv_imports
from domain.operations.csv_imports import IMPORTING, StoredImport

log = get_logger(__name__)

_AT_A_TIME = 2
"""More would only take the processor from one another, and from the pages."""
_MOST = 16
"""That wait for their turn or run."""
_BEAT_SECONDS = 1.0


class TooManyImports(FuelrouteError):
    def __init__(self) -> None:
        super().__init__("many files are being imported already: try again in a minute")


class Importer:
    """Runs imports that `csv_imports.begin` has stored. Each takes its file away when it is done."""

    def __init__(self, database: Database, jobs: JobQueue, contacts: Contacts) -> None:
        self._database = database
        self._jobs = jobs
        self._contacts = contacts
        self._threads = ThreadPoolExecutor(_MOST, thread_name_prefix="import")
        self._turn = threading.BoundedSemaphore(_AT_A_TIME)
        self._running: set[UUID] = set()

    def require_room(self) -> None:
        """Raises TooManyImports."""
        if len(self._running) >= _MOST:
            raise TooManyImports

    def start(self, stored: StoredImport, path: Path) -> None:
        """Begins the work in a thread and returns at once."""
        self._running.add(stored.id)
        self._threads.submit(self._run, stored, path)

    def close(self) -> None:
        """Waits for what runs."""
        self._threads.shutdown(wait=True)

    def _run(self, stored: StoredImport, path: Path) -> None:
        rows = _Counter()
        try:
            with self._beating(stored.id, rows), self._turn:
                jobs = self._import(stored, path, rows)
            self._enqueue(jobs)
            log.info("console.imported", kind=stored.kind, company_id=stored.company_id, rows=rows.count)
        except UnreadableFile as error:
            self._fail(stored, str(error).replace(str(path), "the file"))
        except FuelrouteError as error:
            self._fail(stored, str(error))
        except LockNotAvailable:
            self._fail(stored, "something else is at work on the same data: send the file again when it is done")
        except (psycopg.Error, OSError):
            log.warning("console.import_broken", kind=stored.kind, exc_info=True)
            self._fail(stored, "the database did not answer: send the file again")
        except Exception:
            log.exception("console.import_failed", kind=stored.kind, company_id=stored.company_id)
            self._fail(stored, "something failed on our side")
        finally:
            self._running.discard(stored.id)
            path.unlink(missing_ok=True)

    def _import(self, stored: StoredImport, path: Path, rows: "_Counter") -> list[Job]:
        with self._database.transaction(limits=IMPORTING) as connection:
            return csv_imports.run(
                connection, stored, path, contacts=self._contacts, now=datetime.now(UTC), progress=rows.add
            )

    @contextmanager
    def _beating(self, import_id: UUID, rows: "_Counter") -> Iterator[None]:
        """Meanwhile the record says that this process lives, and how many rows it has read."""
        done = threading.Event()

        def beat() -> None:
            while not done.wait(_BEAT_SECONDS):
                try:
                    with self._database.by_key() as connection:
                        csv_imports.beat(connection, import_id, rows_read=rows.count, now=datetime.now(UTC))
                except psycopg.Error:
                    log.warning("console.import_beat_lost", exc_info=True)

        thread = threading.Thread(target=beat, name="import-beat", daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()

    def _enqueue(self, jobs: list[Job]) -> None:
        try:
            self._jobs.put(*jobs)
        except redis.RedisError:  # the passes find the work
            log.warning("console.redis_away", exc_info=True)

    def _fail(self, stored: StoredImport, fault: str) -> None:
        try:
            with self._database.transaction() as connection:
                csv_imports.fail(connection, stored.id, f"{fault[:1].upper()}{fault[1:]}.", now=datetime.now(UTC))
        except psycopg.Error:  # its silence tells that it broke off
            log.warning("console.import_fault_lost", exc_info=True)


class _Counter:
    def __init__(self) -> None:
        self.count = 0

    def add(self, more: int) -> None:
        self.count += more
