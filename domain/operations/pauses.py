"""Paused queues: workers take no job from them.

A pause is kept in the database, because it is a person's decision and Redis may forget everything at any time. A
forgotten pause would send messages that a person has stopped. Each worker process reads this small table every two
seconds."""

from datetime import datetime
from typing import NamedTuple

from domain.audit.entries import LONGEST_REASON, Actor, record_action, require_reason
from domain.database.connections import Connection
from domain.database.statements import Command, Statement
from domain.errors import FuelrouteError
from domain.queue.jobs import QUEUES


class UnknownQueue(FuelrouteError):
    def __init__(self, queue: str) -> None:
        super().__init__(f"there is no queue {queue!r}; choose from {', '.join(QUEUES)}")


class Pause(NamedTuple):
    queue: str
    paused_at: datetime
    paused_by: str
    reason: str


_LIST = Statement(Pause, "SELECT queue, paused_at, paused_by, reason FROM queue_pauses ORDER BY queue")
_PAUSE = Command(
    "INSERT INTO queue_pauses (queue, paused_at, paused_by, reason) VALUES (%s, %s, %s, %s) ON CONFLICT DO NOTHING"
)
_RESUME = Command("DELETE FROM queue_pauses WHERE queue = %s")


def list_pauses(connection: Connection) -> list[Pause]:
    return _LIST.all(connection)


def pause(connection: Connection, queue: str, by: Actor, *, now: datetime) -> bool:
    """Pauses a queue. Returns False if it is paused already. Raises UnknownQueue, and NoReason without a reason."""
    reason = require_reason(by).reason.strip()[:LONGEST_REASON]
    changed = bool(_PAUSE.execute(connection, (require_queue(queue), now, by.name, reason)).rowcount)
    if changed:
        record_action(connection, by, "pause", queue, company_id=None)
    return changed


def resume(connection: Connection, queue: str, by: Actor) -> bool:
    """Resumes a queue. Returns False if it is not paused. Raises UnknownQueue, and NoReason without a reason."""
    require_reason(by)
    changed = bool(_RESUME.execute(connection, (require_queue(queue),)).rowcount)
    if changed:
        record_action(connection, by, "resume", queue, company_id=None)
    return changed


def require_queue(queue: str) -> str:
    """The queue, if there is one of that name. Raises UnknownQueue otherwise."""
    if queue not in QUEUES:
        raise UnknownQueue(queue)
    return queue
