"""Imports of CSV files that this console process runs, in threads beside the pages, which are answered meanwhile.

A file has its place from before the first byte of it is read until its import is done. So places bound how many files
there are, and their size.
"""

import asyncio
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
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
from domain.wording import sentence
from ingress.console.browser import MAX_FILE_BYTES
from ingress.turns import NothingFree, Shares

log = get_logger(__name__)

IMPORTS_AT_A_TIME = 2
"""More would only take the processor from one another, and from the pages."""
MOST_FILES = 16
"""Files that are sent, wait for their turn, or are imported: one of each company."""
_BEAT_SECONDS = 1.0
_PREFIX = "fuelroute-import-"
_LEFT_SECONDS = 7200
"""A file that is older was left by a process that died: none is sent and imported for so long."""


class TooManyImports(FuelrouteError):
    def __init__(self) -> None:
        super().__init__(
            "another file of your company is on its way, or many of others are: try again when it is imported"
        )


class NoRoom(FuelrouteError):
    def __init__(self) -> None:
        super().__init__("the console's disk has no room for the file: whoever runs the console has to look at it")


class Upload:
    """The file of an import, and its place."""

    def __init__(self, give_back: Callable[[], object]) -> None:
        self._loop = asyncio.get_running_loop()
        self._give_back = give_back
        self._removed = threading.Lock()
        self.file = tempfile.NamedTemporaryFile(prefix=_PREFIX, suffix=".csv", delete=False)  # noqa: SIM115
        self.path = Path(self.file.name)

    def remove(self) -> None:
        """From any thread, any number of times."""
        if not self._removed.acquire(blocking=False):
            return
        self.file.close()
        self.path.unlink(missing_ok=True)
        with suppress(RuntimeError):  # the process stops
            self._loop.call_soon_threadsafe(self._give_back)


class Importer:
    """Runs imports that `csv_imports.begin` has stored. Each takes its file away when it is done."""

    def __init__(self, database: Database, jobs: JobQueue, contacts: Contacts) -> None:
        self._database = database
        self._jobs = jobs
        self._contacts = contacts
        self._threads = ThreadPoolExecutor(MOST_FILES, thread_name_prefix="import")
        self._turn = threading.BoundedSemaphore(IMPORTS_AT_A_TIME)
        self._places = Shares(MOST_FILES, of_one=1)

    async def place(self, owner: str) -> Upload:
        """An empty file that the caller removes, or starts the import of. Raises TooManyImports and NoRoom at once."""
        try:
            await self._places.take(owner, 1, 0)
        except NothingFree:
            raise TooManyImports from None
        try:
            if shutil.disk_usage(tempfile.gettempdir()).free < MAX_FILE_BYTES:
                raise NoRoom
            return Upload(lambda: self._places.give_back(owner, 1))
        except BaseException:
            self._places.give_back(owner, 1)
            raise

    def start(self, stored: StoredImport, upload: Upload) -> None:
        """Begins the work in a thread and returns at once."""
        self._threads.submit(self._run, stored, upload)

    def close(self) -> None:
        """Waits for what runs."""
        self._threads.shutdown(wait=True)

    def _run(self, stored: StoredImport, upload: Upload) -> None:
        rows, path = _Counter(), upload.path
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
            upload.remove()

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
                        csv_imports.note_progress(connection, import_id, rows_read=rows.count, now=datetime.now(UTC))
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
                csv_imports.fail(connection, stored.id, sentence(fault), now=datetime.now(UTC))
        except psycopg.Error:  # its silence tells that it broke off
            log.warning("console.import_fault_lost", exc_info=True)


def remove_left_files() -> None:
    """Removes the files of processes that died."""
    oldest = time.time() - _LEFT_SECONDS
    for path in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError):  # another process was quicker, or it is another user's
            if path.stat().st_mtime < oldest:
                path.unlink()


class _Counter:
    def __init__(self) -> None:
        self.count = 0

    def add(self, more: int) -> None:
        self.count += more
