"""Imports of files, run in threads of this console process beside the pages.

A file has its place from before its first byte is read until its import is done. So the number of places bounds the
number of files and their size."""

import asyncio
import fcntl
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import IO

import psycopg
from psycopg.errors import LockNotAvailable

from domain import clock
from domain.database.connections import Connection, Database
from domain.database.visibility import EVERYTHING, Visibility, of_companies
from domain.errors import FuelrouteError
from domain.files.csvfiles import UnreadableFile
from domain.files.reading_ends import reading_in_turns
from domain.operations import import_records
from domain.operations.import_kinds import ImportFile
from domain.operations.import_records import IMPORTING, StoredImport
from domain.operations.import_runs import ImportRun
from domain.telemetry.logs import get_logger
from domain.wording import sentence
from ingress.console.browser import MAX_FILE_BYTES
from ingress.console.import_turns import ImportTurns
from ingress.console.transfers import Transfers
from ingress.http.fair_queue import CapacityTimeout, FairSemaphore

log = get_logger(__name__)

MOST_FILES = 16
"""Most files that are sent, wait for their turn, or are imported; each company has at most one."""
MOST_COLUMNS_SHOWN = 200
"""Most columns of a file that a person maps to fields. The page has a choice for each."""
_PROGRESS_SECONDS = 1.0
_PREFIX = "fuelroute-upload-"
_EARLIER_PREFIX, _EARLIER_SECONDS = "fuelroute-import-", 7200
"""Earlier releases did not lock their files: one as old as this was left behind, since no import takes so long."""


class TooManyImports(FuelrouteError):
    def __init__(self) -> None:
        super().__init__(
            "another file of your company is on its way, or many of others are: try again when it is imported"
        )


class NoRoom(FuelrouteError):
    def __init__(self) -> None:
        super().__init__("the console's disk has no room for the file: ask the people who run the console to make room")


def _new_file() -> IO[bytes]:
    """Make an empty file, locked for as long as this process has it open."""
    while True:
        file = tempfile.NamedTemporaryFile(prefix=_PREFIX, suffix=".csv", delete=False)  # noqa: SIM115
        fcntl.flock(file, fcntl.LOCK_EX)
        if os.fstat(file.fileno()).st_nlink:  # otherwise `remove_left_files` came before the lock
            return file
        file.close()


class Upload:
    """The file of an import, with its place."""

    def __init__(self, give_back: Callable[[], object]) -> None:
        self._loop = asyncio.get_running_loop()
        self._give_back = give_back
        self._removed = threading.Lock()
        self.file = _new_file()
        """It stays open, and therefore locked, until its import is done."""
        self.path = Path(self.file.name)

    def remove(self) -> None:
        """Remove the file and give its place back. Any thread may call it, any number of times."""
        if not self._removed.acquire(blocking=False):
            return
        with suppress(OSError):  # no room for the rest, which nobody wants now
            self.file.close()
        self.path.unlink(missing_ok=True)
        with suppress(RuntimeError):  # the process stops
            self._loop.call_soon_threadsafe(self._give_back)


def fault_of_file(error: UnreadableFile, path: Path) -> str:
    """The fault in a sentence, without our name of the file."""
    return sentence(str(error).replace(str(path), "the file").replace(path.name, "the file"))


_PLACE_SECONDS = 1.0
"""Wait for a place: an import gives its place back just after its page has said that it is done."""


class Importer:
    """Runs the imports that `import_records.begin` has stored. Each removes its file at the end."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._threads = ThreadPoolExecutor(MOST_FILES, thread_name_prefix="import")
        self._turns = ImportTurns()
        self._places = FairSemaphore(MOST_FILES, of_one=1)
        self.arrivals = Transfers()
        """The files that are being sent."""

    async def place(self, owner: str) -> Upload:
        """Take a place. Returns an empty file, which the caller removes or whose import it starts. Raises
        TooManyImports after a moment, and NoRoom at once."""
        try:
            await self._take_place(owner)
        except CapacityTimeout:
            raise TooManyImports from None
        try:
            if shutil.disk_usage(tempfile.gettempdir()).free < MAX_FILE_BYTES:
                raise NoRoom
            return Upload(lambda: self._places.give_back(owner, 1))
        except BaseException:
            self._places.give_back(owner, 1)
            raise

    async def _take_place(self, owner: str) -> None:
        """Take a place from the slowest arriving file if none is free. Raises CapacityTimeout if the owner has one
        already, or none becomes free."""
        try:
            await self._places.take(owner, 1, _PLACE_SECONDS)
        except CapacityTimeout:
            if self._places.taken_by(owner) or not self.arrivals.cut_slowest():
                raise
            await self._places.take(owner, 1, _PLACE_SECONDS)

    def start(self, stored: StoredImport, upload: Upload, file: ImportFile) -> None:
        """Begin the import in a thread and return at once."""
        self._threads.submit(self._run, stored, upload, file)

    def close(self) -> None:
        """Wait for the imports that run."""
        self._threads.shutdown(wait=True)

    def _run(self, stored: StoredImport, upload: Upload, file: ImportFile) -> None:
        rows, path = _Counter(), upload.path
        try:
            with (
                self._noting_progress(stored, rows),
                self._turns.turn(
                    holds_connection=file.is_one_transaction,
                    holds_up_all=stored.company_id is None,  # stations and taxes: prices of all companies wait
                    file_bytes=path.stat().st_size,
                ) as turn,
                reading_in_turns(turn.give_way),
            ):
                rows.give_way = turn.give_way
                ImportRun(
                    file,
                    lambda: self._transaction(stored),
                    stored.actor,
                    record=stored,
                    progress=rows.add,
                ).store()
            log.info("console.imported", kind=stored.kind, company_id=stored.company_id, rows=rows.count)
        except UnreadableFile as error:
            self._fail(stored, fault_of_file(error, path))
        except FuelrouteError as error:
            self._fail(stored, sentence(str(error)))
        except LockNotAvailable:
            self._fail(stored, "Something else is at work on the same data: send the file again when it is done.")
        except (psycopg.Error, OSError):
            log.warning("console.import_interrupted", kind=stored.kind, exc_info=True)
            self._fail(stored, "The database did not answer: send the file again.")
        except Exception:
            log.exception("console.import_failed", kind=stored.kind, company_id=stored.company_id)
            self._fail(stored, "Something failed on our side.")
        finally:
            upload.remove()

    def _transaction(self, stored: StoredImport) -> AbstractContextManager[Connection]:
        return self._database.transaction(_visible_to(stored), limits=IMPORTING)

    @contextmanager
    def _noting_progress(self, stored: StoredImport, rows: "_Counter") -> Iterator[None]:
        """Note every second that this process lives and how many rows it has read."""
        done = threading.Event()

        def note() -> None:
            while not done.wait(_PROGRESS_SECONDS):
                try:
                    with self._database.single_statements(_visible_to(stored)) as connection:
                        import_records.note_progress(connection, stored.id, rows_read=rows.count, now=clock.now())
                except psycopg.Error:
                    log.warning("console.import_progress_not_stored", exc_info=True)

        thread = threading.Thread(target=note, name="import-progress", daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()

    def _fail(self, stored: StoredImport, fault: str) -> None:
        try:
            with self._database.transaction(_visible_to(stored)) as connection:
                import_records.fail(connection, stored.id, fault, now=clock.now())
        except psycopg.Error:  # its silence tells that it broke off
            log.warning("console.import_fault_not_stored", exc_info=True)


def _visible_to(stored: StoredImport) -> Visibility:
    """Shows the company's rows, or for stations and taxes all rows, because they and their audit entries belong to no
    company."""
    return EVERYTHING if stored.company_id is None else of_companies([stored.company_id])


def remove_left_files() -> None:
    """Remove files that processes left behind when they died."""
    folder, oldest = Path(tempfile.gettempdir()), time.time() - _EARLIER_SECONDS
    for path in folder.glob(f"{_PREFIX}*"):
        with suppress(OSError), path.open("rb") as file:  # its process lives, or it is another user's
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink()
    for path in folder.glob(f"{_EARLIER_PREFIX}*"):
        with suppress(OSError):
            if path.stat().st_mtime < oldest:
                path.unlink()


class _Counter:
    def __init__(self) -> None:
        self.count = 0
        self.give_way: Callable[[], object] = lambda: None

    def add(self, more: int) -> None:
        self.count += more
        self.give_way()
