"""Dead letters: jobs that failed at every attempt. Dramatiq keeps them for a week; here they are found, replayed and
discarded.

A job is only a hint, so a discarded one loses no work that the database still knows to be due. Replaying and discarding
are steps inside of Redis: when two people do it at the same time, each letter is taken by one of them.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple
from uuid import UUID

import dramatiq
import redis

from domain.database import Connection
from domain.ids import with_shown_ids
from domain.jobs import NAMESPACE, QUEUES, in_batches
from domain.operations import audit
from domain.operations.audit import Actor
from domain.operations.queues import StoredJob, read_job
from domain.statements import Statement


class DeadLetter(NamedTuple):
    stored: StoredJob
    died_at: datetime
    company_ids: frozenset[UUID]
    """Whose routes, trucks or messages it is about."""
    route_ids: frozenset[UUID]


class Filter(NamedTuple):
    """Which letters are meant. What is None does not matter."""

    queue: str | None = None
    job: str | None = None
    error: str | None = None
    """A part of the error's text, in upper or lower case."""
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
            and (self.company_id is None or self.company_id in letter.company_ids)
            and (self.route_id is None or self.route_id in letter.route_ids)
        )

    def __str__(self) -> str:
        """For the audit log."""
        given = with_shown_ids(self._asdict())
        return " ".join(f"{name}={value}" for name, value in given.items() if value is not None) or "all"


def find(connection: Connection, client: redis.Redis, wanted: Filter) -> list[DeadLetter]:
    """The newest first. Raises redis.RedisError."""
    stored = [one for queue in QUEUES if wanted.queue in (None, queue) for one in _stored(client, queue)]
    letters = [letter for batch in in_batches(stored, 1_000) for letter in _with_subjects(connection, batch)]
    return sorted(filter(wanted.fits, letters), key=lambda letter: letter.died_at, reverse=True)


def _stored(client: redis.Redis, queue: str) -> list[tuple[StoredJob, datetime]]:
    name = f"{NAMESPACE}:{queue}.XQ"
    died: Any = client.zrange(name, 0, -1, withscores=True)
    found = []
    for batch in in_batches(died, 1_000):
        messages: Any = client.hmget(f"{name}.msgs", [id for id, _ in batch])
        for (id, score), message in zip(batch, messages, strict=True):
            job = read_job(queue, id, message) if message is not None else None
            if job is not None:
                found.append((job, datetime.fromtimestamp(score / 1000, UTC)))
    return found


class _Subject(NamedTuple):
    id: UUID
    company_id: UUID
    route_id: UUID | None


_SUBJECTS = Statement(
    _Subject,
    """
    SELECT id, company_id, id AS route_id FROM routes WHERE id = ANY(%(ids)s)
    UNION ALL SELECT id, company_id, route_id FROM messages WHERE id = ANY(%(ids)s)
    UNION ALL SELECT id, company_id, NULL::uuid FROM vehicles WHERE id = ANY(%(ids)s)
    """,
)


def _with_subjects(connection: Connection, letters: Sequence[tuple[StoredJob, datetime]]) -> list[DeadLetter]:
    ids = {id for stored, _ in letters for id in _ids_of(stored)}
    known = {row.id: row for row in _SUBJECTS.all(connection, {"ids": list(ids)})} if ids else {}
    found = []
    for stored, died_at in letters:
        subjects = [known[id] for id in _ids_of(stored) if id in known]
        routes = frozenset(row.route_id for row in subjects if row.route_id is not None)
        found.append(DeadLetter(stored, died_at, frozenset(row.company_id for row in subjects), routes))
    return found


def _ids_of(stored: StoredJob) -> Iterable[UUID]:
    for value in stored.payload.values():
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, str) and len(one) == 32:
                try:
                    yield UUID(hex=one)
                except ValueError:
                    continue


_REPLAY = """
    local taken = 0
    for i = 2, #ARGV, 2 do
        local name = KEYS[1] .. ':' .. ARGV[1]
        if redis.call('zrem', name .. '.XQ', ARGV[i]) == 1 then
            taken = taken + 1
            redis.call('hdel', name .. '.XQ.msgs', ARGV[i])
            if redis.call('hsetnx', name .. '.msgs', ARGV[i], ARGV[i + 1]) == 1 then
                redis.call('rpush', name, ARGV[i])
            end
        end
    end
    return taken
"""
_DISCARD = """
    local taken = 0
    for i = 2, #ARGV do
        local name = KEYS[1] .. ':' .. ARGV[1] .. '.XQ'
        taken = taken + redis.call('zrem', name, ARGV[i])
        redis.call('hdel', name .. '.msgs', ARGV[i])
    end
    return taken
"""
"""Of each queue: its name, and the ids (with the messages to enqueue). They return how many letters they took."""

_AT_ONCE = 200


def replay(
    connection: Connection, client: redis.Redis, letters: Sequence[DeadLetter], wanted: Filter, by: Actor, now: datetime
) -> int:
    """Enqueues the letters again, as if they had never been tried. A job that waits already is not enqueued twice.
    Returns how many letters were still there. Raises NoReason, redis.RedisError.

    When Redis fails before anything was done, the error takes back the entry in the audit log. When it fails in
    between, the entry stays, and the letters that are left can be found again.
    """
    return _take(connection, client, letters, wanted, by, now, "replay", _REPLAY)


def discard(
    connection: Connection, client: redis.Redis, letters: Sequence[DeadLetter], wanted: Filter, by: Actor, now: datetime
) -> int:
    """Removes the letters. Returns how many were still there. Raises NoReason, redis.RedisError."""
    return _take(connection, client, letters, wanted, by, now, "discard", _DISCARD)


def _take(
    connection: Connection,
    client: redis.Redis,
    letters: Sequence[DeadLetter],
    wanted: Filter,
    by: Actor,
    now: datetime,
    action: audit.Action,
    text: str,
) -> int:
    audit.keep(connection, by, action, str(wanted), affected=len(letters), now=now)
    script = client.register_script(text)
    taken = 0
    for queue in QUEUES:
        stored = [letter.stored for letter in letters if letter.stored.queue == queue]
        for batch in in_batches(stored, _AT_ONCE):
            arguments: list[str | bytes] = [queue]
            for one in batch:
                arguments += [one.id, _as_new(one)] if action == "replay" else [one.id]
            try:
                taken += int(script(keys=[NAMESPACE], args=arguments))
            except redis.RedisError:
                if not taken:
                    raise
                return taken
    return taken


def _as_new(stored: StoredJob) -> bytes:
    message: dramatiq.Message[Any] = dramatiq.Message(
        stored.queue, stored.job, (), stored.payload, {"redis_message_id": stored.id}
    )
    return message.encode()
