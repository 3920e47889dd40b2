"""Makes one of any number of schedulers the leader: the one that holds an advisory lock of the database.

The lock belongs to a session of its own, so that it goes with the process, the machine or the connection. A pooler in
transaction mode would break that, so the session uses the direct address."""

import psycopg

from domain.database.connections import LEADER_LOCKS, open_session
from domain.database.options import LEADING
from domain.database.statements import Scalar

_KEY = 0
"""The key of the only lead."""


_TRY = Scalar(bool, "SELECT pg_try_advisory_lock(%s, %s)")
_CHECK = Scalar(
    bool,
    "SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()"
    " AND granted AND objsubid = 2 AND classid = %s AND objid = %s)",  # 2: of two numbers
)


class LeadershipLost(Exception):
    """The session with the lock is gone: another scheduler may lead already."""


class Leadership:
    """A candidate for the lead, on a dedicated autocommit connection."""

    def __init__(self, database_url: str) -> None:
        self._connection = open_session(database_url, LEADING, autocommit=True)

    def try_to_lead(self) -> bool:
        """Tries to take the lead. Returns True if this process leads now."""
        return _TRY.one(self._connection, (LEADER_LOCKS, _KEY))

    def check(self) -> None:
        """Check that the session still holds the lock. Raises LeadershipLost otherwise, and the process ends."""
        try:
            holds = _CHECK.one(self._connection, (LEADER_LOCKS, _KEY))
        except psycopg.Error as error:
            raise LeadershipLost(str(error)) from None
        if not holds:
            raise LeadershipLost("the lock is not held any more")

    def close(self) -> None:
        self._connection.close()
