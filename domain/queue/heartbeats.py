"""What workers and the scheduler say of themselves every few seconds, kept in Redis.

Dramatiq's own heartbeat only says that a process talks to Redis. It goes on while all threads hang. A beat says what
the process runs, and since when it has held jobs without finishing any.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Literal, NamedTuple, TypeVar

import msgspec
import redis

from domain.encoding import write
from domain.queue.redis_layout import (
    LAST_FINISHED,
    RATES_KEPT_SECONDS,
    SCHEDULER_LAST_RUNS,
    SCHEDULER_RECENT_RUNS,
    WORKER_HEARTBEATS,
    rates_key,
)

BEAT_SECONDS = 2.0

_RUNS_KEPT = 20
_FORGET_AFTER = timedelta(hours=1)


class Running(msgspec.Struct, frozen=True):
    """A job that a thread works on now."""

    queue: str
    job: str
    since: datetime


class WorkerBeat(msgspec.Struct, frozen=True):
    """One worker process."""

    id: str
    """As Dramatiq calls it."""
    host: str
    pid: int
    queues: list[str]
    threads: int
    started_at: datetime
    beat_at: datetime
    running: list[Running]
    done: int
    failed: int
    """Jobs since it started."""
    held: int
    """Jobs that it took from the queues and has not finished."""
    stuck_since: datetime | None
    """Since then it has held jobs and finished none."""

    @property
    def name(self) -> str:
        return f"{self.host}:{self.pid}"


class Ended(NamedTuple):
    """What jobs did: how many of a queue in a minute ended in a way."""

    minute: int
    queue: str
    how: Literal["done", "failed"]


class PassBeat(msgspec.Struct, frozen=True):
    """A run of one of the scheduler's passes."""

    name: str
    leader: str
    ended_at: datetime
    seconds: float
    every_seconds: float
    failed: bool
    moved: dict[str, int] = {}
    """What the run did, without what it did not."""


Beat = TypeVar("Beat", WorkerBeat, PassBeat)


def beat(client: redis.Redis, worker: WorkerBeat, finished: Mapping[str, datetime], ended: Mapping[Ended, int]) -> None:
    """`finished`: when this worker last finished a job of each queue. `ended`: how many since its last beat. Raises
    redis.RedisError."""
    with client.pipeline(transaction=False) as tell:
        tell.hset(WORKER_HEARTBEATS, worker.id, write(worker))
        for queue, at in finished.items():
            tell.hset(LAST_FINISHED, queue, at.isoformat())
        for one, jobs in ended.items():
            tell.hincrby(rates_key(one.minute), f"{one.how} {one.queue}", jobs)
            tell.expire(rates_key(one.minute), RATES_KEPT_SECONDS)
        tell.execute()


def leave(client: redis.Redis, worker_id: str) -> None:
    """A worker that stops in order is not missed."""
    client.hdel(WORKER_HEARTBEATS, worker_id)


def beat_pass(client: redis.Redis, one: PassBeat) -> None:
    """Raises redis.RedisError."""
    with client.pipeline(transaction=False) as tell:
        tell.hset(SCHEDULER_LAST_RUNS, one.name, write(one))
        if one.moved or one.failed:
            tell.lpush(SCHEDULER_RECENT_RUNS, write(one))
            tell.ltrim(SCHEDULER_RECENT_RUNS, 0, _RUNS_KEPT - 1)
        tell.execute()


def read_workers(client: redis.Redis, *, now: datetime) -> list[WorkerBeat]:
    """Those that beat within the last hour, and those that died since then."""
    found = _read(client, WORKER_HEARTBEATS, WorkerBeat)
    long_gone = [one.id for one in found if now - one.beat_at > _FORGET_AFTER]
    if long_gone:
        client.hdel(WORKER_HEARTBEATS, *long_gone)
    return sorted((one for one in found if one.id not in long_gone), key=lambda one: one.name)


def read_passes(client: redis.Redis) -> list[PassBeat]:
    """The last run of each pass."""
    return sorted(_read(client, SCHEDULER_LAST_RUNS, PassBeat), key=lambda one: one.name)


def read_runs(client: redis.Redis) -> list[PassBeat]:
    """The last runs that moved something or failed, the newest first."""
    values: list[bytes] = client.lrange(SCHEDULER_RECENT_RUNS, 0, -1)  # type: ignore[assignment]
    return _decoded(values, PassBeat)


def read_finished(client: redis.Redis) -> dict[str, datetime]:
    """When a job of each queue was last finished, by whichever worker."""
    values: dict[bytes, bytes] = client.hgetall(LAST_FINISHED)  # type: ignore[assignment]  # redis-py types both its clients
    return {queue.decode(): datetime.fromisoformat(at.decode()) for queue, at in values.items()}


def _read(client: redis.Redis, name: str, kind: type[Beat]) -> list[Beat]:
    values: dict[bytes, bytes] = client.hgetall(name)  # type: ignore[assignment]
    return _decoded(values.values(), kind)


def _decoded(values: Iterable[bytes], kind: type[Beat]) -> list[Beat]:
    """A beat of another release that cannot be read is left out."""
    found: list[Beat] = []
    for value in values:
        try:
            found.append(msgspec.json.decode(value, type=kind))
        except msgspec.DecodeError:
            continue
    return found
