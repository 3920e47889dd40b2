"""The audit log: what somebody did to a company or to the whole service, when, and why. Written in the transaction
that did it."""

from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from domain.database import Connection
from domain.errors import FuelrouteError
from domain.ids import first_id_of, new_id
from domain.statements import Command, Statement

QUEUE_ACTIONS = ("pause", "resume", "replay", "discard")
"""What is done to the whole service. The others are named by the page and its function, such as `keys.revoke`."""

LONGEST_REASON = 500
_LONGEST_SUBJECT = 300

MOST_SEARCHED = 10_000
"""Entries among which a text is looked for."""


class NoReason(FuelrouteError):
    """Whoever acts on the whole service says why."""

    def __init__(self) -> None:
        super().__init__("say why: the reason is kept in the audit log")


class Actor(NamedTuple):
    """Who does something, and why."""

    name: str
    reason: str = ""


class Entry(NamedTuple):
    id: UUID
    at: datetime
    actor: str
    action: str
    subject: str
    reason: str
    affected: int
    company_id: UUID | None
    """None: it was done to the whole service."""


def in_audit(one: str, key: str) -> str:
    """What the log calls a record: `driver drv_...`, `deal 12`."""
    return f"{one} {key}"


_KEEP = Command(
    "INSERT INTO audit_log (id, company_id, at, actor, action, subject, reason, affected)"
    " VALUES (%s, %s, %s, %s, %s, %s, %s, %s)"
)


def keep(
    connection: Connection,
    by: Actor,
    action: str,
    subject: str,
    *,
    company_id: UUID | None,
    affected: int = 1,
    now: datetime,
) -> None:
    """`company_id`: None when it was done to the whole service. Neither subject nor reason may hold a secret. The
    subject names drivers by their ids only: they can be erased."""
    reason = by.reason.strip()[:LONGEST_REASON]
    _KEEP.execute(
        connection, (new_id(), company_id, now, by.name, action, subject[:_LONGEST_SUBJECT], reason, affected)
    )


def require_reason(by: Actor) -> Actor:
    """Raises NoReason."""
    if not by.reason.strip():
        raise NoReason
    return by


# --- Reading -----------------------------------------------------------------------------------------------------

_COLUMNS = "id, at, actor, action, subject, reason, affected, company_id"
_LATEST = Statement(
    Entry,
    f"SELECT {_COLUMNS} FROM audit_log WHERE company_id IS NULL AND action = ANY(%s)"  # noqa: S608
    " ORDER BY id DESC LIMIT %s",
)


def latest(connection: Connection, *, limit: int = 50) -> list[Entry]:
    """What was done to the queues, the newest entries first."""
    return _LATEST.all(connection, (list(QUEUE_ACTIONS), limit))


_OF_SUBJECT = Statement(
    Entry,
    f"SELECT {_COLUMNS} FROM audit_log WHERE subject = %s AND company_id IS NOT DISTINCT FROM %s::uuid"  # noqa: S608
    " ORDER BY id DESC LIMIT %s",
)


def entries_of(connection: Connection, company_id: UUID | None, subject: str, *, limit: int) -> list[Entry]:
    """What was done to one thing, a company's or for None one of the whole service; the newest first."""
    return _OF_SUBJECT.all(connection, (subject, company_id, limit))


_SEARCH = """
    SELECT {columns} FROM (
        SELECT {columns} FROM audit_log WHERE {whose} AND id < %(before)s ORDER BY id DESC LIMIT %(searched)s
    ) AS newest
    WHERE strpos(lower(concat_ws(' ', actor, replace(action, '_', ' '), action, subject, reason)), lower(%(text)s)) > 0
    ORDER BY id DESC LIMIT %(limit)s
"""
_SEARCH_ALL = Statement(Entry, _SEARCH.format(columns=_COLUMNS, whose="true"))
_SEARCH_COMPANY = Statement(Entry, _SEARCH.format(columns=_COLUMNS, whose="company_id = %(company_id)s"))
_NEWEST = UUID(int=2**128 - 1)


def search(
    connection: Connection,
    company_id: UUID | None,
    text: str = "",
    *,
    before: UUID | None = None,
    limit: int,
) -> list[Entry]:
    """Entries of a company, or all there are for None, that contain the text: the newest first, among the
    `MOST_SEARCHED` newest before the entry `before`."""
    statement = _SEARCH_ALL if company_id is None else _SEARCH_COMPANY
    return statement.all(
        connection,
        {
            "company_id": company_id,
            "text": text,
            "before": before or _NEWEST,
            "searched": MOST_SEARCHED,
            "limit": limit,
        },
    )


# --- Forgetting --------------------------------------------------------------------------------------------------

_FORGET = Command("DELETE FROM audit_log WHERE id IN (SELECT id FROM audit_log WHERE id < %s ORDER BY id LIMIT %s)")


def forget_entries(connection: Connection, *, days: float, now: datetime, limit: int) -> int:
    """Returns how many."""
    return _FORGET.execute(connection, (first_id_of(now - timedelta(days=days)), limit)).rowcount
