"""The time of the last use of each key, for people who manage keys. It is kept in memory and written once a minute."""

import threading
from collections.abc import Iterable
from uuid import UUID

import psycopg
from psycopg_pool import PoolTimeout

from domain import clock
from domain.accounts.keys import note_use
from domain.database.connections import Database
from domain.database.visibility import EVERYTHING
from domain.telemetry.logs import get_logger

log = get_logger(__name__)

_WRITE_SECONDS = 60.0


class KeyUse:
    """Notes which keys are used, at the cost of one entry in a set for each request. Keys that could not be written are
    written the next time; a killed process loses those it had not written yet."""

    def __init__(self, database: Database, *, every_seconds: float = _WRITE_SECONDS) -> None:
        self._database = database
        self._every_seconds = every_seconds
        self._used: set[UUID] = set()
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._writer = threading.Thread(target=self._write_again_and_again, name="key-use", daemon=True)

    def __enter__(self) -> "KeyUse":
        self._writer.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Writes the keys that are left."""
        self._ended.set()
        self._writer.join(timeout=5)

    def note(self, key_ids: Iterable[UUID]) -> None:
        with self._lock:
            self._used.update(key_ids)

    def _write_again_and_again(self) -> None:
        while not self._ended.wait(self._every_seconds):
            self.write()
        self.write()

    def write(self) -> None:
        with self._lock:
            used, self._used = self._used, set()
        if not used:
            return
        try:
            with self._database.single_statements(EVERYTHING) as connection:
                note_use(connection, used, now=clock.now())
        except (PoolTimeout, psycopg.OperationalError) as error:
            log.warning("keys.use_not_written", keys=len(used), error=str(error))
            self.note(used)
