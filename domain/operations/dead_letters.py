"""Dead letters: jobs that failed at every attempt. Dramatiq keeps them for a week; here they are found, replayed and
discarded.

A job is only a hint, so a discarded one loses no work that the database still knows to be due. Replaying and discarding
are steps inside of Redis: when two people do it at the same time, each letter is taken by one of them.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple
from uuid import UUID

import dramatiq
import redis

from domain.database import Connection
from domain.ids import with_shown_ids
from domain.jobs import COUNTS_KEPT_SECONDS, NAMESPACE, QUEUES, in_batches, keys_now
from domain.operations import audit
from domain.operations.audit import Actor
from domain.operations.queues import StoredJob, read_job
from domain.operations.subjects import About, about


class DeadLetter(NamedTuple):
    stored: StoredJob
    died_at: datetime
    about: About


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
            and (self.company_id is None or self.company_id in letter.about.company_ids)
            and (self.route_id is None or self.route_id in letter.about.route_ids)
        )

    def __str__(self) -> str:
        """For the audit log."""
        given = with_shown_ids(self._asdict())
        return " ".join(f"{name}={value}" for name, value in given.items() if value is not None) or "all"


def find(connection: Connection, client: redis.Redis, wanted: Filter) -> list[DeadLetter]:
    """The newest first. Raises redis.RedisError."""
    stored = [one for queue in QUEUES if wanted.queue in (None, queue) for one in _stored(client, queue)]
    subjects = about(connection, [job for job, _ in stored])
    letters = [DeadLetter(job, died_at, one) for (job, died_at), one in zip(stored, subjects, strict=True)]
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


_REPLAY = f"""
    local taken = 0
    for i = 2, #ARGV, 2 do
        local name = KEYS[1] .. ':' .. ARGV[1]
        if redis.call('zrem', name .. '.XQ', ARGV[i]) == 1 then
            taken = taken + 1
            redis.call('hdel', name .. '.XQ.msgs', ARGV[i])
            if redis.call('hsetnx', name .. '.msgs', ARGV[i], ARGV[i + 1]) == 1 then
                redis.call('rpush', name, ARGV[i])
                redis.call('hincrby', KEYS[2], 'in ' .. ARGV[1], 1)
                redis.call('expire', KEYS[2], {COUNTS_KEPT_SECONDS})
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
    action: Literal["replay", "discard"],
    text: str,
) -> int:
    by = audit.require_reason(by)
    audit.record_action(connection, by, action, str(wanted), company_id=None, affected=len(letters), now=now)
    script = client.register_script(text)
    taken = 0
    for queue in QUEUES:
        stored = [letter.stored for letter in letters if letter.stored.queue == queue]
        for batch in in_batches(stored, _AT_ONCE):
            arguments: list[str | bytes] = [queue]
            for one in batch:
                arguments += [one.id, _as_new(one)] if action == "replay" else [one.id]
            try:
                taken += int(script(keys=keys_now(), args=arguments))
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
