"""Dead letters: jobs that failed at every attempt. Dramatiq keeps them for a week. People find, replay and discard
them.

A job is only a hint, so discarding one loses no work that the database still knows to be due. Replaying and discarding
are single steps inside Redis: if two people do it at the same time, one of them takes each letter."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

import redis

from domain.audit.entries import Actor, QueueAction, record_action, require_reason
from domain.database.connections import Connection
from domain.ids import with_shown_ids
from domain.operations.job_routes import JobRoutes, routes_of_jobs
from domain.queue.dead_letter_store import enqueue_dead_letters, read_dead_letters, remove_dead_letters
from domain.queue.dramatiq_messages import StoredJob
from domain.queue.jobs import QUEUES


class DeadLetter(NamedTuple):
    stored: StoredJob
    died_at: datetime
    about: JobRoutes


class Filter(NamedTuple):
    """The dead letters that a person asks for. A field of None matches all."""

    queue: str | None = None
    job: str | None = None
    error: str | None = None
    """Part of the error's text, in upper or lower case."""
    company_id: UUID | None = None
    route_id: UUID | None = None
    id: str | None = None

    def fits(self, letter: DeadLetter) -> bool:
        stored = letter.stored
        return (
            self.queue in (None, stored.queue)
            and self.job in (None, stored.job)
            and self.id in (None, stored.id)
            and (self.error is None or self.error.lower() in stored.error.lower())
            and (self.company_id is None or self.company_id in letter.about.company_ids)
            and (self.route_id is None or self.route_id in letter.about.route_ids)
        )

    def __str__(self) -> str:
        """The filter as text for the audit log."""
        given = with_shown_ids(self._asdict())
        return " ".join(f"{name}={value}" for name, value in given.items() if value is not None) or "all"


def find(connection: Connection, client: redis.Redis, wanted: Filter) -> list[DeadLetter]:
    """The dead letters that fit, the newest first. Raises redis.RedisError when Redis is away."""
    stored = [one for queue in QUEUES if wanted.queue in (None, queue) for one in read_dead_letters(client, queue)]
    known = routes_of_jobs(connection, [job for job, _ in stored])
    letters = [DeadLetter(job, died_at, one) for (job, died_at), one in zip(stored, known, strict=True)]
    return sorted(filter(wanted.fits, letters), key=lambda letter: letter.died_at, reverse=True)


def replay(
    connection: Connection, client: redis.Redis, letters: Sequence[DeadLetter], wanted: Filter, by: Actor
) -> int:
    """Enqueues the letters again, as if they had never been tried. A job that waits already is not enqueued twice.
    Returns how many letters were still there. Raises NoReason, redis.RedisError.

    When Redis fails before anything was done, the error takes back the entry in the audit log. When it fails in
    between, the entry stays, and the letters that are left can be found again.
    """
    _record(connection, "replay", letters, wanted, by)
    return enqueue_dead_letters(client, [letter.stored for letter in letters])


def discard(
    connection: Connection, client: redis.Redis, letters: Sequence[DeadLetter], wanted: Filter, by: Actor
) -> int:
    """Removes the letters. Returns how many were still there. Raises NoReason without a reason, and redis.RedisError
    when Redis fails before anything was done."""
    _record(connection, "discard", letters, wanted, by)
    return remove_dead_letters(client, [letter.stored for letter in letters])


def _record(
    connection: Connection, action: QueueAction, letters: Sequence[DeadLetter], wanted: Filter, by: Actor
) -> None:
    record_action(connection, require_reason(by), action, str(wanted), company_id=None, affected=len(letters))
