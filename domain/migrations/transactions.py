"""Gives each table its own transaction in migrations of several tables in use."""

import time
from collections.abc import Callable

import sqlalchemy
from alembic import op
from psycopg.errors import DeadlockDetected, LockNotAvailable

PATIENCE_SECONDS = 600.0
_RETRY_SECONDS = 0.3


def in_own_transaction(change: Callable[[], None]) -> None:
    """Change one table in a transaction of its own, again and again until its lock is free. A transaction that locks
    several tables would hardly ever get them all: while it holds the first and waits for the second, requests that hold
    the second wait for the first. `change` must be repeatable, since an earlier run may have been stopped."""
    context = op.get_context()
    with context.autocommit_block():
        if context.as_sql:
            change()
            return
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not _changed(change, is_last=time.monotonic() > deadline):
            time.sleep(_RETRY_SECONDS)


def _changed(change: Callable[[], None], *, is_last: bool) -> bool:
    op.execute("BEGIN")
    try:
        change()
    except sqlalchemy.exc.DBAPIError as error:
        op.execute("ROLLBACK")
        if is_last or not isinstance(error.orig, LockNotAvailable | DeadlockDetected):
            raise
        return False
    except BaseException:
        op.execute("ROLLBACK")
        raise
    op.execute("COMMIT")
    return True
