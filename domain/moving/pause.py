"""The pause of a company in the cell that it leaves: requests and work under way end, and nothing new begins."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from domain.database import fence
from domain.database.connections import Connection
from domain.database.statements import NotNull, Scalar, Statement
from domain.errors import FuelrouteError
from domain.moving.replication import POLL_SECONDS


class PauseTooLong(FuelrouteError):
    def __init__(self, what: str) -> None:
        super().__init__(
            f"the pause was given up, and the company works on here: {what} did not end in time. Give the command"
            " again, or allow a longer pause with --longest-pause"
        )


_NOW = Scalar(NotNull[datetime], "SELECT clock_timestamp()")


class _Older(NamedTuple):
    pid: NotNull[int]
    role: str | None


_OLDER = Statement(
    _Older,
    "SELECT pid, usename::text AS role FROM pg_stat_activity WHERE datname = current_database()"
    " AND backend_type = 'client backend' AND pid <> pg_backend_pid() AND xact_start <= %s LIMIT 1",
)


class _UnderWay(NamedTuple):
    messages: NotNull[int]
    notices: NotNull[int]
    webhooks: NotNull[int]
    imports: NotNull[int]


_UNDER_WAY = Statement(
    _UnderWay,
    """
    SELECT (SELECT count(*) FROM messages WHERE company_id = %(company_id)s AND status = 'pending'
            AND claimed_until > clock_timestamp()) AS messages,
           (SELECT count(*) FROM notices WHERE company_id = %(company_id)s AND status = 'pending'
            AND claimed_until > clock_timestamp()) AS notices,
           (SELECT count(*) FROM webhook_deliveries d JOIN webhook_endpoints e ON e.id = d.endpoint_id
            WHERE e.company_id = %(company_id)s AND d.status = 'pending' AND d.claimed_until > clock_timestamp())
            AS webhooks,
           (SELECT count(*) FROM csv_imports WHERE company_id = %(company_id)s AND finished_at IS NULL) AS imports
    """,
)


def now_there(connection: Connection) -> datetime:
    """The time by the server's clock."""
    return _NOW.one(connection)


@contextmanager
def paused(source: Connection, company_id: UUID, *, longest_seconds: float) -> Iterator[None]:
    """Pauses a company for the block, which may let it leave. If the block fails, or this process dies, the company
    works on here. Raises PauseTooLong when work under way does not end in time, and PauseOver when the pause ends
    before the block does."""
    deadline = time.monotonic() + longest_seconds
    fence.pause_company(source, company_id, holds=timedelta(seconds=longest_seconds))
    try:
        _wait_for_older(source, deadline)
        _wait(deadline, lambda: _under_way(source, company_id))
        fence.close_fence(source, company_id)
        _wait_for_older(source, deadline)
        yield
    finally:
        fence.resume_company(source, company_id)  # nothing to do if the company has left


def _wait_for_older(source: Connection, deadline: float) -> None:
    """Waits for transactions that began before the pause: they did not see it and may still change the company's
    rows."""
    moment = now_there(source)

    def older() -> str | None:
        found = _OLDER.first(source, (moment,))
        return f"a transaction of process {found.pid} of PostgreSQL (role {found.role})" if found else None

    _wait(deadline, older)


def _under_way(source: Connection, company_id: UUID) -> str | None:
    """Work of the company that is under way. The other cell would repeat an attempt whose result is not stored yet."""
    found = _UNDER_WAY.one(source, {"company_id": company_id})
    return next((f"{count} {what}" for what, count in found._asdict().items() if count), None)


def _wait(deadline: float, hindrance: Callable[[], str | None]) -> None:
    while (what := hindrance()) is not None:
        if time.monotonic() > deadline:
            raise PauseTooLong(what)
        time.sleep(POLL_SECONDS)
