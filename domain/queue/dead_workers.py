"""Returns the jobs of dead workers to their queues, within about two seconds of the death.

Every worker process shows a sign of life twice a second, and watches the signs of all others. No clocks are compared:
a watcher measures for how long a sign has not changed. When a process dies, however it dies, its system closes its
connections. So a worker that is silent and whose connection has gone is dead. A worker that is silent with its
connection open is slow or frozen, or its machine has vanished: it gets more time.

A worker that was taken for dead and lives finishes the jobs that it runs. Others run them too: every job may run twice.
"""

import time
from collections.abc import Iterable
from typing import Any, NamedTuple

import redis

from domain.queue.jobs import QUEUES
from domain.queue.redis_clients import redis_client
from domain.queue.redis_layout import DRAMATIQ_HEARTBEATS, NAMESPACE, RETURN_JOBS, SIGNS_OF_LIFE
from domain.telemetry.logs import get_logger

log = get_logger(__name__)

SIGN_SECONDS = 0.5
"""The time between two signs of life."""

DEAD_SECONDS = 1.5
"""A worker without a connection is dead after this silence. One whose connection was merely cut shows its next sign on
a new one."""

FROZEN_SECONDS = 15.0
"""A worker with a connection counts as dead after this silence."""

_NO_CONNECTION = "0"
"""Stands for a connection where Redis does not show them: its access list forbids `CLIENT`."""


class _Seen(NamedTuple):
    sign: str
    """The sign of life; empty for a worker of an earlier release, which shows only Dramatiq's heartbeat."""
    value: str
    since: float


class WorkerWatch:
    """The signs of life of one worker process, and its watch over the others. It belongs to one thread."""

    def __init__(self, url: str, worker_id: str, queues: Iterable[str]) -> None:
        self._client = redis_client(url, single_connection_client=True)
        self._return_jobs = self._client.register_script(RETURN_JOBS)
        self._worker_id = worker_id
        self._queues = [name for queue in {*QUEUES, *queues} for name in (queue, f"{queue}.DQ")]
        self._signs = 0
        self._looked_at = 0.0
        self._seen: dict[str, _Seen] = {}

    def look(self) -> None:
        """Shows a sign of life, and returns the jobs of workers that died. Call it every SIGN_SECONDS. Raises
        redis.RedisError when Redis is away; the next call goes on."""
        now = time.monotonic()
        if now - self._looked_at > DEAD_SECONDS:
            self._seen.clear()  # this process was frozen, or Redis was away: others had no chance to show a sign
        self._seen = {worker: self._seen_since(worker, sign, value, now) for worker, sign, value in self._show_sign()}
        self._looked_at = now
        silent = {worker: one for worker, one in self._seen.items() if now - one.since >= DEAD_SECONDS}
        silent.pop(self._worker_id, None)
        if silent:
            connected = self._connected(silent.values())
            for worker, one in silent.items():
                if now - one.since >= FROZEN_SECONDS or (one.sign and _connection_of(one) not in connected):
                    self._take_for_dead(worker, one, now - one.since)

    def leave(self) -> None:
        """Forgets this worker, which stops in order, and returns its unfinished jobs to their queues."""
        try:
            returned = self._return(self._worker_id, "")
            if returned:
                log.warning("workers.jobs_returned", jobs=returned)
        except redis.RedisError:
            log.debug("workers.not_left")  # others notice
        finally:
            self._client.close()

    def _show_sign(self) -> list[tuple[str, str, str]]:
        """Shows the next sign of life. Returns each worker with its sign and a value that changes while it lives."""
        self._signs += 1
        try:
            connection = str(self._client.client_id())
        except redis.ResponseError:
            connection = _NO_CONNECTION
        with self._client.pipeline(transaction=False) as ask:
            ask.hset(SIGNS_OF_LIFE, self._worker_id, f"{connection} {self._signs}")
            ask.hgetall(SIGNS_OF_LIFE)
            ask.zrange(DRAMATIQ_HEARTBEATS, 0, -1, withscores=True)
            _, signs, heartbeats = ask.execute()
        shown = {worker.decode(): sign.decode() for worker, sign in signs.items()}
        others = {worker.decode(): str(beat) for worker, beat in heartbeats}
        return [
            *((worker, sign, sign) for worker, sign in shown.items()),
            *((worker, "", beat) for worker, beat in others.items() if worker not in shown),
        ]

    def _seen_since(self, worker: str, sign: str, value: str, now: float) -> _Seen:
        before = self._seen.get(worker)
        return before if before is not None and before.value == value else _Seen(sign, value, now)

    def _connected(self, silent: Iterable[_Seen]) -> set[str]:
        """The silent workers' connections that are still open."""
        ids: list[Any] = [
            connection for one in silent if (connection := _connection_of(one)) not in ("", _NO_CONNECTION)
        ]
        found: Any = self._client.client_list(client_id=ids) if ids else []
        return {_NO_CONNECTION, *(one["id"] for one in found)}

    def _take_for_dead(self, worker: str, seen: _Seen, silent_seconds: float) -> None:
        returned = self._return(worker, seen.sign)
        if returned >= 0:
            log.warning("workers.died", worker=worker, jobs=returned, silent_seconds=round(silent_seconds, 1))

    def _return(self, worker: str, sign: str) -> int:
        return int(self._return_jobs(keys=[NAMESPACE, SIGNS_OF_LIFE], args=[worker, sign, *self._queues]))


def _connection_of(seen: _Seen) -> str:
    return seen.sign.partition(" ")[0]
