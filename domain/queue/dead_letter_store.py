"""Dead letters as Redis has them. `operations.dead_letters` finds them by company and route, and records each replay
and discard with its person."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import redis

from domain.queue.dramatiq_messages import UNREADABLE, StoredJob, encode_again, read_message
from domain.queue.jobs import QUEUES, in_batches
from domain.queue.redis_layout import (
    DISCARD,
    REPLAY,
    dead_letter_messages_key,
    dead_letters_key,
    keys_of_enqueueing,
)

_READ_AT_ONCE = 1_000
_TAKEN_AT_ONCE = 200


def read_dead_letters(client: redis.Redis, queue: str) -> list[tuple[StoredJob, datetime]]:
    """The dead letters of a queue, each with the time of its death. Raises redis.RedisError when Redis is away."""
    died: Any = client.zrange(dead_letters_key(queue), 0, -1, withscores=True)
    found = []
    for batch in in_batches(died, _READ_AT_ONCE):
        messages: Any = client.hmget(dead_letter_messages_key(queue), [id for id, _ in batch])
        for (id, score), message in zip(batch, messages, strict=True):
            job = read_message(queue, id, message) if message is not None else None
            if job is not None:
                found.append((job, datetime.fromtimestamp(score / 1000, UTC)))
    return found


def enqueue_dead_letters(client: redis.Redis, letters: Sequence[StoredJob]) -> int:
    """Enqueues dead letters again for their companies, as if they had never been tried. Returns how many were still
    there. Those that could not be read stay, for they name no job.

    Raises redis.RedisError when Redis fails before anything was done. When it fails in between, the letters that are
    left stay dead letters.
    """
    known = [one for one in letters if one.job != UNREADABLE]
    return _take(client, REPLAY, known, lambda one: [one.id, encode_again(one)])


def remove_dead_letters(client: redis.Redis, letters: Sequence[StoredJob]) -> int:
    """Removes dead letters. Returns how many were still there. Raises redis.RedisError when Redis fails before anything
    was done."""
    return _take(client, DISCARD, letters, lambda one: [one.id])


def _take(
    client: redis.Redis,
    text: str,
    letters: Sequence[StoredJob],
    arguments_of: Callable[[StoredJob], list[str | bytes]],
) -> int:
    script = client.register_script(text)
    taken = 0
    for queue in QUEUES:
        for batch in in_batches([one for one in letters if one.queue == queue], _TAKEN_AT_ONCE):
            arguments: list[str | bytes] = [queue]
            for one in batch:
                arguments += arguments_of(one)
            try:
                taken += int(script(keys=keys_of_enqueueing(), args=arguments))
            except redis.RedisError:
                if not taken:
                    raise
                return taken
    return taken
