"""The health of the PostgreSQL server as users of a pool see it: is it there, and which connections have ended?"""

import math
import select
import time
from typing import Any, Protocol

import psycopg
from psycopg.errors import (
    AdminShutdown,
    CannotConnectNow,
    CrashShutdown,
    DeadlockDetected,
    DiskFull,
    LockNotAvailable,
    PipelineAborted,
)

from domain.telemetry.logs import get_logger

log = get_logger(__name__)

IDLE_SECONDS = 1.0
"""A connection that was used within this time is not checked before its next use: a check is a round trip."""

SPARE_SECONDS = 10.0
"""Each of a pool's connections but one is closed after it was spare for so long, one in each such time. A session of
PostgreSQL takes up to 12 MB, and a new one 5 ms."""

CHECK_SECONDS = 1.0
"""Time for the answer to a check. A connection that gives none is closed, and a fresh one is opened."""

AWAY_SECONDS = 1.0
"""Time after the server did not answer in which requests wait for a connection only as long as one takes to open."""

HURRY_SECONDS = 0.1
"""Longest time that opening a connection takes when the server is there."""


class ServerSilent(psycopg.OperationalError):
    """The server keeps its connections open but does not answer, not even that it has ended the statement."""


class ServerReadOnly(psycopg.OperationalError):
    """The server is a standby, perhaps a former primary. Another server takes the changes now."""


_GOES_AWAY = (AdminShutdown, CrashShutdown, CannotConnectNow)
"""The errors of a server that stops or starts, before it closes the connection."""


_CONNECTION_LOST = "08"
"""The class of errors by which a pooler says that it has lost the server, or found none in time."""


def is_away(error: BaseException) -> bool:
    """True if the error means that PostgreSQL cannot be reached, stops or is silent, or that the connection broke.
    False where the server itself refused something."""
    return isinstance(error, _GOES_AWAY) or (
        isinstance(error, psycopg.OperationalError)
        and (error.sqlstate is None or error.sqlstate.startswith(_CONNECTION_LOST))
        and not isinstance(error, PipelineAborted)  # a statement before it was refused
    )


def without_double_answer(error: psycopg.InternalError, connection: "BorrowedConnection") -> psycopg.Error:
    """The error of a pooler that lost its server in a BEGIN or COMMIT, as one of a server that is away. The pooler
    passes the server's last words on and adds its own: psycopg takes two answers for a fault of the program. Other
    errors stay as they are."""
    if error.sqlstate is None and connection.broken:
        return psycopg.OperationalError(f"the pooler has lost the server: {error}")
    return error


def is_servers_fault(error: BaseException) -> bool:
    """True if the error tells nothing of the work that met it: PostgreSQL is away, or its disk is full. The work stays
    due, however long that takes."""
    return is_away(error) or isinstance(error, DiskFull)


def were_rows_held(error: BaseException) -> bool:
    """True if another transaction held the rows, or waited for ours while we waited for its own: the work stays due."""
    return isinstance(error, (LockNotAvailable, DeadlockDetected))


def has_unread_data(connection: psycopg.BaseConnection[Any]) -> bool:
    """Tell if the server has sent something unasked, or has closed the connection. This takes no round trip: a server
    that stops tells each of its connections."""
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return bool(poll.poll(0))


class BorrowedConnection(Protocol):
    """A connection of a pool, blocking or asynchronous, while a caller uses it."""

    made_at: float

    @property
    def broken(self) -> bool:
        """True if the server has ended the connection."""


class ServerHealth:
    """A pool's knowledge of the server: should callers wait for a connection, and should idle ones be dropped?"""

    def __init__(self) -> None:
        self._away_until = self._borrowed_at = self._dropped_at = -math.inf

    def waiting_seconds(self) -> float | None:
        """Seconds to wait for a connection; None for the pool's own time."""
        return HURRY_SECONDS if time.monotonic() < self._away_until else None

    def note_connected(self) -> None:
        """Note that a connection was opened, so the server is there."""
        self._away_until = -math.inf

    def note_borrowed(self, now: float) -> None:
        self._borrowed_at = now

    def note_timeout(self, since: float) -> None:
        """Note that a caller has waited since `since` and got no connection. The server counts as away, unless others
        got a connection in that time: then it is only busy."""
        if self._borrowed_at < since:
            self._away_until = time.monotonic() + AWAY_SECONDS

    def should_drop_idle(self, error: psycopg.OperationalError, connection: BorrowedConnection) -> bool:
        """Tell if an error of a connection means that the idle connections ended too, so that they are dropped instead
        of tried one by one. False where they were dropped since this connection was made."""
        if isinstance(error, ServerSilent):
            log.warning("database.silent", error=str(error))
            self._away_until = time.monotonic() + AWAY_SECONDS
        if not (connection.broken or is_away(error)) or connection.made_at <= self._dropped_at:
            return False
        self._dropped_at = time.monotonic()
        return True
