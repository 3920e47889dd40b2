"""The audit log: what somebody did to the whole service, when, and why. Written in the transaction that did it."""

from datetime import datetime
from typing import Literal, NamedTuple
from uuid import UUID

from domain.database import Connection
from domain.errors import FuelrouteError
from domain.ids import new_id
from domain.statements import Command, Statement

Action = Literal["pause", "resume", "replay", "discard"]

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


_KEEP = Command(
    "INSERT INTO audit_log (id, at, actor, action, subject, reason, affected) VALUES (%s, %s, %s, %s, %s, %s, %s)"
)
_LATEST = Statement(
    Entry, "SELECT id, at, actor, action, subject, reason, affected FROM audit_log ORDER BY id DESC LIMIT %s"
)


def keep(connection: Connection, by: Actor, action: Action, subject: str, *, affected: int = 1, now: datetime) -> None:
    """Raises NoReason."""
    reason = by.reason.strip()[:LONGEST_REASON]
    if not reason:
        raise NoReason
    _KEEP.execute(connection, (new_id(), now, by.name, action, subject, reason, affected))


def latest(connection: Connection, *, limit: int = 50) -> list[Entry]:
    """The newest entries first."""
    return _LATEST.all(connection, (limit,))
