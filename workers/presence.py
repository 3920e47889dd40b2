"""Heartbeats of a worker process, and the pauses that it obeys: one thread, every two seconds.

The consumer of a paused queue takes nothing more, and jobs taken earlier return to the queue before they start. Running
jobs are finished."""

import os
import socket
import threading
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal

import dramatiq
import psycopg
import redis
from dramatiq.middleware import Middleware, SkipMessage

from domain import clock
from domain.database.connections import Database
from domain.operations import pauses
from domain.operations.measurements import database_name
from domain.queue import heartbeats
from domain.queue.dramatiq_messages import JOB_ID
from domain.queue.heartbeats import EndedJobs, RunningJob, WorkerHeartbeat
from domain.queue.redis_layout import minute_of
from domain.telemetry.logs import get_logger
from workers.broker import FuelrouteBroker

log = get_logger(__name__)


class Presence(Middleware):
    """The middleware of one broker. Dramatiq calls it before and after each job, in the thread of the job."""

    def __init__(self, broker: FuelrouteBroker, database: Database, queues: Sequence[str], threads: int) -> None:
        self._broker = broker
        self._database = database
        self._queues = list(queues)
        self._threads = threads
        self._started_at = clock.now()
        self._lock = threading.Lock()
        self._running: dict[int, RunningJob] = {}
        self._finished: dict[str, datetime] = {}
        self._unsent: Counter[EndedJobs] = Counter()
        """Ended jobs that no heartbeat has reported yet."""
        self._done = 0
        self._failed = 0
        self._ended_before = 0
        self._stuck_since: datetime | None = None
        self._database_name = ""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="presence", daemon=True)
        broker.add_middleware(self)

    def start(self) -> None:
        """Reads the pauses before the first job is taken."""
        self._read_pauses()
        self._thread.start()

    def is_alive(self) -> bool:
        """False once its thread has died: then no heartbeat is sent and no pause obeyed."""
        return self._thread.is_alive()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(heartbeats.HEARTBEAT_SECONDS)
        self._send_heartbeat()
        try:
            heartbeats.remove_worker_heartbeat(self._broker.client, self._broker.broker_id)
        except redis.RedisError:
            log.debug("workers.heartbeat_not_removed")

    def before_process_message(self, broker: dramatiq.Broker, message: Any) -> None:
        if message.queue_name in self._broker.paused:
            self._broker.put_back.add(message.options[JOB_ID])
            raise SkipMessage
        with self._lock:
            self._running[threading.get_ident()] = RunningJob(message.queue_name, message.actor_name, clock.now())

    def after_process_message(
        self, broker: dramatiq.Broker, message: Any, *, result: Any = None, exception: BaseException | None = None
    ) -> None:
        now = clock.now()
        with self._lock:
            self._running.pop(threading.get_ident(), None)
            self._finished[message.queue_name] = now
            how: Literal["done", "failed"] = "done" if exception is None else "failed"
            self._unsent[EndedJobs(minute_of(now.timestamp()), message.queue_name, how)] += 1
            if exception is None:
                self._done += 1
            else:
                self._failed += 1

    def _run(self) -> None:
        while True:
            self._send_heartbeat()
            if self._stop.wait(heartbeats.HEARTBEAT_SECONDS):
                return
            self._read_pauses()

    def _read_pauses(self) -> None:
        """Reads which queues are paused. While the database does not answer, the paused queues stay paused."""
        try:
            with self._database.single_statements() as connection:
                self._database_name = self._database_name or database_name(connection)
                paused = frozenset(pause.queue for pause in pauses.list_pauses(connection))
        except (psycopg.Error, TimeoutError):
            log.warning("workers.pauses_not_read")
            return
        if paused != self._broker.paused:
            log.info("workers.pauses_changed", queues=sorted(paused))
            self._broker.paused = paused

    def _send_heartbeat(self) -> None:
        with self._lock:
            ended, self._unsent = self._unsent, Counter()
        heartbeat, finished = self._heartbeat(clock.now())
        try:
            heartbeats.send_worker_heartbeat(self._broker.client, heartbeat, finished, ended)
        except redis.RedisError:
            log.debug("workers.heartbeat_not_sent")  # readers see that it is missing
            with self._lock:
                self._unsent += ended

    def _heartbeat(self, now: datetime) -> tuple[WorkerHeartbeat, dict[str, datetime]]:
        held = sum(map(len, list(self._broker.held.values())))
        with self._lock:
            ended = self._done + self._failed
            if not held or ended != self._ended_before:
                self._stuck_since = now if held else None
            elif self._stuck_since is None:
                self._stuck_since = now
            self._ended_before = ended
            heartbeat = WorkerHeartbeat(
                id=self._broker.broker_id,
                host=socket.gethostname(),
                pid=os.getpid(),
                queues=self._queues,
                threads=self._threads,
                started_at=self._started_at,
                beat_at=now,
                running=list(self._running.values()),
                done=self._done,
                failed=self._failed,
                held=held,
                stuck_since=self._stuck_since,
                database=self._database_name,
            )
            return heartbeat, dict(self._finished)
