"""The audit log: what somebody did, when, and why; to the whole service, or to a company's fleet, prices and policy.
Written in the transaction that did it."""

from datetime import datetime
from typing import Literal, NamedTuple
from uuid import UUID

from domain.database import Connection
from domain.errors import FuelrouteError
from domain.ids import new_id
from domain.statements import Command, Statement

Action = Literal[
    "pause", "resume", "replay", "discard", "add", "change", "retire", "remove", "import", "export contacts"
]

LONGEST_REASON = 500


class NoReason(FuelrouteError):
    """Every action says why it was taken."""

    def __init__(self) -> None:
        super().__init__("say why: the reason is kept in the audit log")


class Actor(NamedTuple):
    """Who does something, and why."""

    name: str
    reason: str


class Entry(NamedTuple):
    id: UUID
    at: datetime
    actor: str
    action: str
    subject: str
    reason: str
    affected: int


def in_audit(one: str, key: str) -> str:
    """What the log calls a record: `driver drv_...`, `deal 12`."""
    return f"{one} {key}"


_KEEP = Command(
    "INSERT INTO audit_log (id, company_id, at, actor, action, subject, reason, affected)"
    " VALUES (%s, %s, %s, %s, %s, %s, %s, %s)"
)
_LATEST = Statement(
    Entry,
    "SELECT id, at, actor, action, subject, reason, affected FROM audit_log WHERE company_id IS NULL"
    " ORDER BY id DESC LIMIT %s",
)
_OF_SUBJECT = Statement(
    Entry,
    "SELECT id, at, actor, action, subject, reason, affected FROM audit_log"
    " WHERE subject = %s AND company_id IS NOT DISTINCT FROM %s::uuid ORDER BY id DESC LIMIT %s",
)


def keep(
    connection: Connection,
    by: Actor,
    action: Action,
    subject: str,
    *,
    company_id: UUID | None = None,
    affected: int = 1,
    now: datetime,
) -> None:
    """What was done to a company's own things has its id. Raises NoReason."""
    reason = by.reason.strip()[:LONGEST_REASON]
    if not reason:
        raise NoReason
    _KEEP.execute(connection, (new_id(), company_id, now, by.name, action, subject, reason, affected))


def latest(connection: Connection, *, limit: int = 50) -> list[Entry]:
    """The newest entries first, of what was done to the whole service."""
    return _LATEST.all(connection, (limit,))


def entries_of(connection: Connection, company_id: UUID | None, subject: str, *, limit: int) -> list[Entry]:
    """What was done to one thing, a company's or for None one of the whole service; the newest first."""
    return _OF_SUBJECT.all(connection, (subject, company_id, limit))
