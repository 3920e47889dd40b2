"""Heartbeats of workers, and runs of the scheduler's passes, kept in Redis.

Dramatiq's own heartbeat only says that a process talks to Redis. It goes on while all threads hang. Fuelroute's
heartbeat also reports the jobs that the process runs, and since when it has held jobs without finishing any.
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

HEARTBEAT_SECONDS = 2.0

_RUNS_KEPT = 20
_FORGET_AFTER = timedelta(hours=1)


class RunningJob(msgspec.Struct, frozen=True):
    """A job that a thread works on now."""

    queue: str
    job: str
    since: datetime


class WorkerHeartbeat(msgspec.Struct, frozen=True):
    """The report of one worker process."""

    id: str
    """Dramatiq's id of the process."""
    host: str
    pid: int
    queues: list[str]
    threads: int
    started_at: datetime
    beat_at: datetime
    running: list[RunningJob]
    done: int
    failed: int
    """Jobs that failed since the process started."""
    held: int
    """Jobs taken from the queues and not finished."""
    stuck_since: datetime | None
    """Since when it has held jobs without finishing any: this heartbeat, if one has ended since the last; None while it
    holds none."""
    database: str = ""
    """The PostgreSQL database of its routes, as `measurements.database_name` names it; empty: it does not say."""

    @property
    def name(self) -> str:
        return f"{self.host}:{self.pid}"


class EndedJobs(NamedTuple):
    """Jobs of a queue that ended in the same minute and in the same way: the key by which they are counted."""

    minute: int
    queue: str
    how: Literal["done", "failed"]


class PassRun(msgspec.Struct, frozen=True):
    """A run of one of the passes of the scheduler."""

    name: str
    leader: str
    ended_at: datetime
    seconds: float
    every_seconds: float
    failed: bool
    moved: dict[str, int] = {}
    """Counts of what the run moved, without zeros."""


Report = TypeVar("Report", WorkerHeartbeat, PassRun)


def send_worker_heartbeat(
    client: redis.Redis, worker: WorkerHeartbeat, finished: Mapping[str, datetime], ended: Mapping[EndedJobs, int]
) -> None:
    """Stores a heartbeat. `finished` has the time when this worker last finished a job of each queue, `ended` counts
    the jobs that ended since its last heartbeat. Raises redis.RedisError when Redis is away; the next heartbeat
    follows."""
    with client.pipeline(transaction=False) as tell:
        tell.hset(WORKER_HEARTBEATS, worker.id, write(worker))
        for queue, at in finished.items():
            tell.hset(LAST_FINISHED, queue, at.isoformat())
        for one, jobs in ended.items():
            tell.hincrby(rates_key(one.minute), f"{one.how} {one.queue}", jobs)
            tell.expire(rates_key(one.minute), RATES_KEPT_SECONDS)
        tell.execute()


def remove_worker_heartbeat(client: redis.Redis, worker_id: str) -> None:
    """Forgets a worker that stops in order, so that no alert reports it as silent."""
    client.hdel(WORKER_HEARTBEATS, worker_id)


def record_pass_run(client: redis.Redis, one: PassRun) -> None:
    """Stores the run of a pass. Raises redis.RedisError when Redis is away."""
    with client.pipeline(transaction=False) as tell:
        tell.hset(SCHEDULER_LAST_RUNS, one.name, write(one))
        if one.moved or one.failed:
            tell.lpush(SCHEDULER_RECENT_RUNS, write(one))
            tell.ltrim(SCHEDULER_RECENT_RUNS, 0, _RUNS_KEPT - 1)
        tell.execute()


def forget_other_passes(client: redis.Redis, names: Iterable[str]) -> None:
    """Forgets the runs of passes that a scheduler of another release had: no scheduler of this one ends them again.
    Raises redis.RedisError when Redis is away."""
    known: list[bytes] = client.hkeys(SCHEDULER_LAST_RUNS)  # type: ignore[assignment]
    others = {one.decode() for one in known}.difference(names)
    if others:
        client.hdel(SCHEDULER_LAST_RUNS, *others)


def read_worker_heartbeats(client: redis.Redis, *, now: datetime) -> list[WorkerHeartbeat]:
    """The last heartbeats of workers that lived within the last hour."""
    found = _read(client, WORKER_HEARTBEATS, WorkerHeartbeat)
    return sorted((one for one in found if now - one.beat_at <= _FORGET_AFTER), key=lambda one: one.name)


def forget_worker_heartbeats(client: redis.Redis, *, now: datetime) -> int:
    """Forgets workers that were last heard of more than an hour ago. Returns how many. Raises redis.RedisError when
    Redis is away."""
    found = _read(client, WORKER_HEARTBEATS, WorkerHeartbeat)
    long_gone = [one.id for one in found if now - one.beat_at > _FORGET_AFTER]
    if long_gone:
        client.hdel(WORKER_HEARTBEATS, *long_gone)
    return len(long_gone)


def read_last_pass_runs(client: redis.Redis) -> list[PassRun]:
    """The last run of each pass."""
    return sorted(_read(client, SCHEDULER_LAST_RUNS, PassRun), key=lambda one: one.name)


def read_recent_pass_runs(client: redis.Redis) -> list[PassRun]:
    """The latest runs that moved something or failed, the newest first."""
    values: list[bytes] = client.lrange(SCHEDULER_RECENT_RUNS, 0, -1)  # type: ignore[assignment]
    return _decoded(values, PassRun)


def read_last_finished(client: redis.Redis) -> dict[str, datetime]:
    """When any worker last finished a job of each queue."""
    values: dict[bytes, bytes] = client.hgetall(LAST_FINISHED)  # type: ignore[assignment]  # redis-py types both its clients
    return {queue.decode(): datetime.fromisoformat(at.decode()) for queue, at in values.items()}


def _read(client: redis.Redis, name: str, kind: type[Report]) -> list[Report]:
    values: dict[bytes, bytes] = client.hgetall(name)  # type: ignore[assignment]
    return _decoded(values.values(), kind)


def _decoded(values: Iterable[bytes], kind: type[Report]) -> list[Report]:
    """The values that this release can read; others are left out."""
    found: list[Report] = []
    for value in values:
        try:
            found.append(msgspec.json.decode(value, type=kind))
        except msgspec.DecodeError:
            continue
    return found
