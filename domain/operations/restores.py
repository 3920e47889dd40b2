"""Records that the database was restored from a backup, and prevents harm by what it does not know of the time since.

Sessions and links that set a password end: one that ended since the backup would be alive again. Messages that may have
been sent since are withheld."""

from datetime import datetime, timedelta
from typing import NamedTuple

from domain.accounts.sessions import sign_out_everybody
from domain.database.connections import Connection
from domain.database.statements import Command
from domain.messages.withholding import withhold_pending_messages


class AfterRestore(NamedTuple):
    """The consequences of a restore."""

    ended_sessions: int
    withheld_messages: int
    """The number of messages that waited to be sent; later ones are withheld when they are made."""
    withholds_until: datetime | None
    """Messages of routes that start until then are withheld; None if none are."""


_RECORD = Command("INSERT INTO restores (restored_at, restored_to, withholds_until) VALUES (%s, %s, %s)")


def record_restore(
    connection: Connection, *, restored_to: datetime, early: timedelta, withhold: bool, now: datetime
) -> AfterRestore:
    """Do everything that a restored database needs before the service starts. `early` is how long before its start a
    route can start: a route that starts later than that from now has had no message yet."""
    until = now + early if withhold else None
    _RECORD.execute(connection, (now, restored_to, until))
    withheld = withhold_pending_messages(connection, until=until, now=now) if until is not None else 0
    return AfterRestore(sign_out_everybody(connection), withheld, until)
