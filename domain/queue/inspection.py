"""The jobs that the queues hold now: those that wait, run, are delayed or have died.

Everything here reads; nothing changes. `redis_layout` describes the keys.
"""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple
from uuid import UUID

import redis

from domain.queue.dramatiq_messages import StoredJob, read_message
from domain.queue.heartbeats import read_last_finished
from domain.queue.jobs import QUEUES
from domain.queue.redis_layout import (
    DRAMATIQ_HEARTBEATS,
    backlog_companies_key,
    backlog_key,
    backlog_length_key,
    dead_letters_key,
    delayed_messages_key,
    messages_key,
    taken_key,
    waiting_key,
)

_SAMPLE = 50
"""Jobs at the head of a queue, and jobs in flight of each worker, among which the oldest is found."""

Place = Literal["waiting", "in-flight", "delayed"]


class QueueState(NamedTuple):
    queue: str
    waiting: int
    in_flight: int
    delayed: int
    """Jobs that wait for their next attempt."""
    dead: int
    oldest_at: datetime | None
    """When the oldest job that waits or runs was enqueued; None without jobs."""
    last_finished_at: datetime | None
    """When any worker last finished a job, with or without success; None if none did."""


class Holder(NamedTuple):
    """A worker as Redis knows it."""

    jobs: int
    """Jobs taken and not finished."""
    heartbeat_at: datetime
    """When its process last asked Redis for anything. This tells nothing about its threads."""


def read_queues(client: redis.Redis) -> list[QueueState]:
    """The state of every queue. Raises redis.RedisError when Redis is away."""
    finished = read_last_finished(client)
    workers = _workers(client)
    states = []
    for queue in QUEUES:
        with client.pipeline(transaction=False) as ask:
            ask.llen(waiting_key(queue))
            ask.get(backlog_length_key(queue))
            ask.hlen(delayed_messages_key(queue))
            ask.zcard(dead_letters_key(queue))
            ask.lrange(waiting_key(queue), 0, _SAMPLE - 1)
            ask.lrange(backlog_companies_key(queue), 0, _SAMPLE - 1)
            for worker in workers:
                ask.scard(taken_key(worker, queue))
                ask.srandmember(taken_key(worker, queue), _SAMPLE)
            listed, in_backlogs, delayed, dead, head, companies, *taken = ask.execute()
        waiting = listed + int(in_backlogs or 0)
        sample = [*head, *_next_of(client, queue, companies), *(one for members in taken[1::2] for one in members)]
        times = [job.enqueued_at for job in _read(client, queue, sample)]
        states.append(
            QueueState(queue, waiting, sum(taken[::2]), delayed, dead, min(times, default=None), finished.get(queue))
        )
    return states


def read_holders(client: redis.Redis) -> dict[str, Holder]:
    """Every worker that takes jobs, or died with some, by its id."""
    heartbeats: Any = client.zrange(DRAMATIQ_HEARTBEATS, 0, -1, withscores=True)
    with client.pipeline(transaction=False) as ask:
        for worker, _ in heartbeats:
            for queue in QUEUES:
                ask.scard(taken_key(worker.decode(), queue))
        counts = ask.execute()
    width = len(QUEUES)
    return {
        worker.decode(): Holder(
            sum(counts[number * width : (number + 1) * width]), datetime.fromtimestamp(beat / 1000, UTC)
        )
        for number, (worker, beat) in enumerate(heartbeats)
    }


class Backlog(NamedTuple):
    """A company's jobs that wait for their turn in a queue."""

    queue: str
    company_id: UUID
    jobs: int


def read_backlogs(client: redis.Redis, queue: str) -> list[Backlog]:
    """The backlogs of a queue, the longest first. Raises redis.RedisError when Redis is away."""
    companies: Any = client.lrange(backlog_companies_key(queue), 0, -1)
    names = sorted({company.decode() for company in companies})
    with client.pipeline(transaction=False) as ask:
        for name in names:
            ask.llen(backlog_key(queue, name))
        lengths: list[int] = ask.execute()
    backlogs = [Backlog(queue, UUID(name), jobs) for name, jobs in zip(names, lengths, strict=True)]
    return sorted(backlogs, key=lambda one: -one.jobs)


def jobs_held_by(client: redis.Redis, worker: str, *, limit: int) -> list[StoredJob]:
    """Some of a worker's jobs that are taken and not finished."""
    found: list[StoredJob] = []
    for queue in QUEUES:
        ids: Any = client.smembers(taken_key(worker, queue))
        found += _read(client, queue, list(ids)[:limit])
    return found[:limit]


def jobs_in(client: redis.Redis, queue: str, place: Place, *, limit: int) -> list[StoredJob]:
    """Some of the jobs in that place; of waiting jobs, the next ones."""
    if place == "waiting":
        ids: Any = client.lrange(waiting_key(queue), 0, limit - 1)
        companies: Any = client.lrange(backlog_companies_key(queue), 0, limit - 1)
        ids = [*ids, *_next_of(client, queue, companies, limit)][:limit]
    elif place == "in-flight":
        ids = [one for worker in _workers(client) for one in client.smembers(taken_key(worker, queue))][:limit]
    else:
        return _read_delayed(client, queue, limit)
    return _read(client, queue, ids)


def _next_of(client: redis.Redis, queue: str, companies: Iterable[bytes], most: int = 1) -> list[bytes]:
    """Ids of the jobs at the head of these companies' backlogs, in the order in which they will be dealt."""
    with client.pipeline(transaction=False) as ask:
        for company in companies:
            ask.lrange(backlog_key(queue, company.decode()), 0, most - 1)
        backlogs: list[list[bytes]] = ask.execute()
    return [backlog[number] for number in range(most) for backlog in backlogs if number < len(backlog)]


def _read(client: redis.Redis, queue: str, ids: Iterable[bytes]) -> list[StoredJob]:
    ids = list(ids)
    if not ids:
        return []
    messages: Any = client.hmget(messages_key(queue), ids)
    pairs = zip(ids, messages, strict=True)
    return [
        job for id, message in pairs if message is not None and (job := read_message(queue, id, message)) is not None
    ]


def _read_delayed(client: redis.Redis, queue: str, limit: int) -> list[StoredJob]:
    found: list[StoredJob] = []
    for id, message in client.hscan_iter(delayed_messages_key(queue)):
        if (job := read_message(queue, id, message)) is not None:
            found.append(job)
        if len(found) >= limit:
            break
    return found


def _workers(client: redis.Redis) -> list[str]:
    """Ids of every worker that takes jobs, or died with some."""
    ids: Any = client.zrange(DRAMATIQ_HEARTBEATS, 0, -1)
    return [one.decode() for one in ids]
