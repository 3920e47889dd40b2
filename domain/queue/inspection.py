"""What the queues hold now: how much waits, runs, is put off or has died, and the jobs themselves.

Dramatiq keeps a queue in Redis as a list of ids, a hash of messages, and for each worker a set of the ids that it took.
Before that list the jobs wait in their companies' lanes, see `jobs`.
Everything here reads; nothing changes.
"""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

import msgspec
import redis

from domain.queue import heartbeats
from domain.queue.jobs import NAMESPACE, QUEUES
from domain.text import printable, without_secrets

_SAMPLE = 50
"""Of the jobs at the head of a queue, and of those in flight of each worker, to find the oldest one."""

_HEARTBEATS = f"{NAMESPACE}:__heartbeats__"

Place = Literal["waiting", "in-flight", "delayed"]


class StoredJob(NamedTuple):
    """A job as Redis has it."""

    id: str
    queue: str
    job: str
    payload: dict[str, Any]
    enqueued_at: datetime
    """When it was enqueued, or put back after a failed attempt."""
    attempts: int
    error: str
    """Of its last failed attempt but one, as its last line; empty without one. Secrets are left out."""


class QueueState(NamedTuple):
    queue: str
    waiting: int
    in_flight: int
    delayed: int
    """After a failed attempt."""
    dead: int
    oldest_at: datetime | None
    """Of those that wait or are in flight."""
    last_finished_at: datetime | None
    """By whichever worker, however it ended."""


class Holder(NamedTuple):
    """A worker as Redis has it."""

    jobs: int
    """Taken and not finished."""
    heartbeat_at: datetime
    """When its process last asked Redis for anything. That says nothing of its threads."""


def read_job(queue: str, job_id: bytes | str, message: bytes) -> StoredJob | None:
    """None for what is no message of Dramatiq."""
    try:
        document = msgspec.json.decode(message, type=dict[str, Any])
        options = document["options"]
        return StoredJob(
            job_id if isinstance(job_id, str) else job_id.decode(),
            queue,
            str(document["actor_name"]),
            dict(document["kwargs"]),
            datetime.fromtimestamp(options.get("requeue_timestamp", document["message_timestamp"]) / 1000, UTC),
            int(options.get("retries", 0)),
            _last_line(str(options.get("traceback", ""))),
        )
    except (msgspec.DecodeError, UnicodeDecodeError, KeyError, TypeError, ValueError, OverflowError, OSError):
        return None


def _last_line(traceback: str) -> str:
    lines = [line for line in traceback.splitlines() if line.strip() and not line.startswith(" ")]
    return printable(without_secrets(lines[-1]))[:300] if lines else ""


def read_queues(client: redis.Redis) -> list[QueueState]:
    """Raises redis.RedisError."""
    finished = heartbeats.read_finished(client)
    workers = _workers(client)
    states = []
    for queue in QUEUES:
        name = f"{NAMESPACE}:{queue}"
        with client.pipeline(transaction=False) as ask:
            ask.llen(name)
            ask.get(f"{name}.laned")
            ask.hlen(f"{name}.DQ.msgs")
            ask.zcard(f"{name}.XQ")
            ask.lrange(name, 0, _SAMPLE - 1)
            ask.lrange(f"{name}.lanes", 0, _SAMPLE - 1)
            for worker in workers:
                ask.scard(_acks(worker, queue))
                ask.srandmember(_acks(worker, queue), _SAMPLE)
            listed, laned, delayed, dead, head, companies, *taken = ask.execute()
        waiting = listed + int(laned or 0)
        sample = [*head, *_next_of(client, queue, companies), *(one for members in taken[1::2] for one in members)]
        times = [job.enqueued_at for job in _read(client, queue, sample)]
        states.append(
            QueueState(queue, waiting, sum(taken[::2]), delayed, dead, min(times, default=None), finished.get(queue))
        )
    return states


def read_holders(client: redis.Redis) -> dict[str, Holder]:
    """Whoever takes messages, or has taken some and died, by its id."""
    heartbeats: Any = client.zrange(_HEARTBEATS, 0, -1, withscores=True)
    with client.pipeline(transaction=False) as ask:
        for worker, _ in heartbeats:
            for queue in QUEUES:
                ask.scard(_acks(worker.decode(), queue))
        counts = ask.execute()
    width = len(QUEUES)
    return {
        worker.decode(): Holder(
            sum(counts[number * width : (number + 1) * width]), datetime.fromtimestamp(beat / 1000, UTC)
        )
        for number, (worker, beat) in enumerate(heartbeats)
    }


def jobs_held_by(client: redis.Redis, worker: str, *, limit: int) -> list[StoredJob]:
    """Some of the jobs that a worker has taken and not finished."""
    found: list[StoredJob] = []
    for queue in QUEUES:
        ids: Any = client.smembers(_acks(worker, queue))
        found += _read(client, queue, list(ids)[:limit])
    return found[:limit]


def jobs_in(client: redis.Redis, queue: str, place: Place, *, limit: int) -> list[StoredJob]:
    """Some of the jobs there; of those that wait the next ones."""
    name = f"{NAMESPACE}:{queue}"
    if place == "waiting":
        ids: Any = client.lrange(name, 0, limit - 1)
        companies: Any = client.lrange(f"{name}.lanes", 0, limit - 1)
        ids = [*ids, *_next_of(client, queue, companies, limit)][:limit]
    elif place == "in-flight":
        ids = [one for worker in _workers(client) for one in client.smembers(_acks(worker, queue))][:limit]
    else:
        return _read_delayed(client, queue, limit)
    return _read(client, queue, ids)


def _next_of(client: redis.Redis, queue: str, companies: Iterable[bytes], most: int = 1) -> list[bytes]:
    """Ids of the jobs at the head of these companies' lanes, in the order in which they are dealt."""
    with client.pipeline(transaction=False) as ask:
        for company in companies:
            ask.lrange(f"{NAMESPACE}:{queue}.lane.{company.decode()}", 0, most - 1)
        lanes: list[list[bytes]] = ask.execute()
    return [lane[number] for number in range(most) for lane in lanes if number < len(lane)]


def _read(client: redis.Redis, queue: str, ids: Iterable[bytes]) -> list[StoredJob]:
    ids = list(ids)
    if not ids:
        return []
    messages: Any = client.hmget(f"{NAMESPACE}:{queue}.msgs", ids)
    pairs = zip(ids, messages, strict=True)
    return [job for id, message in pairs if message is not None and (job := read_job(queue, id, message)) is not None]


def _read_delayed(client: redis.Redis, queue: str, limit: int) -> list[StoredJob]:
    found: list[StoredJob] = []
    for id, message in client.hscan_iter(f"{NAMESPACE}:{queue}.DQ.msgs"):
        if (job := read_job(queue, id, message)) is not None:
            found.append(job)
        if len(found) >= limit:
            break
    return found


def _workers(client: redis.Redis) -> list[str]:
    """Whoever takes messages, or has taken some and died."""
    ids: Any = client.zrange(_HEARTBEATS, 0, -1)
    return [one.decode() for one in ids]


def _acks(worker: str, queue: str) -> str:
    return f"{NAMESPACE}:__acks__.{worker}.{queue}"
