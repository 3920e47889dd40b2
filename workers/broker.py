"""Dramatiq on Redis, tuned by measurements: a consumer sleeps in Redis and wakes at once, and no error kills its
thread.

No other module knows private names of Dramatiq's broker, consumer and worker. `tests/workers/test_dramatiq_names.py`
fails when a new version changes one; Dramatiq is pinned below its next minor version. The keys in Redis are in
`domain.queue.redis_layout`."""

import threading
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

import dramatiq
import redis
from dramatiq import Worker
from dramatiq.brokers.redis import RedisBroker
from dramatiq.common import iter_queue
from dramatiq.errors import ConnectionClosed
from dramatiq.middleware import Callbacks, Retries, ShutdownNotifications

from domain.queue.dead_workers import SIGN_SECONDS, WorkerWatch
from domain.queue.dramatiq_messages import COMPANY, ERROR, JOB_ID, is_readable, unreadable_letter
from domain.queue.redis_clients import redis_client
from domain.queue.redis_layout import (
    DEAL,
    GIVE_BACK,
    NAMESPACE,
    TELL_ERROR,
    messages_key,
    taken_key,
    waiting_key,
)
from domain.telemetry.logs import get_logger
from workers.company_shares import CompanyShares
from workers.telemetry import JobTelemetry

log = get_logger(__name__)

_WAIT_SECONDS = 1
"""The length of one sleep of a consumer in Redis; after each it shows that it lives."""

_PATIENCE_SECONDS = 3
"""Redis counts as gone after this silence, and is connected to again."""

_LONGEST_BACKOFF_MS = 50
"""Sleep of Dramatiq's consumer after it found no job or is full. The default of 1 s is all of its latency."""

_NEVER_MS = 10 * 365 * 86_400_000
"""Keeps Dramatiq from judging which workers are dead, since it compares the clocks of machines.
`domain.queue.dead_workers` judges instead."""

_RECOVER_SECONDS = 5
"""The time between two searches of a consumer for lost jobs: jobs that Redis gave to this process in an answer that
never came."""

_PAUSED_SECONDS = 0.5
"""Sleep of a paused queue's consumer before it checks the pause again."""

_RESTING_SECONDS = 0.1
"""Sleep of a consumer while the process stops."""

_JOB_RETRIES = 3
"""Retries when something around a job fails, such as a database that restarts. Failures of a route itself are counted
and retried in the database."""

_PREFETCH_PER_THREAD = 4

_ONE_AT_A_TIME = frozenset({"replays"})
"""Queues of which a process has one job at a time. Their jobs compute for a second in Python: more of them would not be
done sooner, and each makes the other threads of the process wait longer."""


class HeldJobs:
    """Ids of the jobs that this process has taken from one queue and not let go. Threads may share it. A job may be
    here twice: once Redis knows that it is done, it may be put and taken again before its thread has let the first one
    go."""

    def __init__(self) -> None:
        self._copies: Counter[str] = Counter()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        with self._lock:
            return self._copies.total()

    def ids(self) -> set[str]:
        with self._lock:
            return set(self._copies)

    def take(self, redis_message_id: str) -> None:
        with self._lock:
            self._copies[redis_message_id] += 1

    def let_go(self, redis_message_id: str) -> bool:
        """Forgets a job. Returns False if it was not here."""
        with self._lock:
            was_here = redis_message_id in self._copies
            if was_here:
                self._copies[redis_message_id] -= 1
                if not self._copies[redis_message_id]:
                    del self._copies[redis_message_id]
            return was_here


class WakingConsumer(dramatiq.Consumer):
    """The stock consumer behind a wait inside Redis. BLMOVE from the head of a list to its own head takes nothing: it
    returns as soon as the list is not empty. The wait is no heartbeat of Dramatiq's; the consumer of the delay queue,
    which asks once a second, sends it."""

    def __init__(self, broker: "FuelrouteBroker", queue_name: str, stock: Any) -> None:
        self._broker = broker
        self._queue_name = queue_name
        self._stock = stock
        self._held = broker.held.setdefault(queue_name, HeldJobs())
        self._recover_at = 0.0

    def __next__(self) -> Any:
        self._broker.turned_at[self._queue_name] = time.monotonic()
        message = self._next()
        self._broker.asked_at[self._queue_name] = time.monotonic()
        return message

    def _next(self) -> Any:
        """The next job; None if none comes within a second. Raises ConnectionClosed when Redis is away; Dramatiq then
        starts the consumer again."""
        try:
            if self._broker.is_stopping:
                return self._rest()
            if time.monotonic() >= self._recover_at and not self._stock.message_cache:
                self._recover_at = time.monotonic() + _RECOVER_SECONDS
                self._recover_lost_jobs()
            if self._stock.message_cache or self._stock.outstanding_message_count >= self._stock.prefetch:
                return self._take()
            if self._queue_name in self._broker.paused:
                time.sleep(_PAUSED_SECONDS)
                self._broker.do_qsize(self._queue_name)  # a heartbeat
                return None
            self._broker.deal(self._queue_name)
            name = waiting_key(self._queue_name)
            if self._broker.waiting_client.blmove(name, name, _WAIT_SECONDS, "LEFT", "LEFT") is None:
                return None
            return self._take()
        except redis.RedisError as error:  # a time-out or a read-only replica would kill the thread
            raise ConnectionClosed(error) from None

    def _rest(self) -> None:
        """Takes no more jobs, and returns those fetched but not taken."""
        while self._stock.message_cache:
            message = next(self._stock)
            if message is not None:
                self.requeue([message])
        time.sleep(_RESTING_SECONDS)
        self._broker.do_qsize(self._queue_name)  # a heartbeat

    def _take(self) -> Any:
        message = next(self._stock)
        if message is None:
            return None
        company = message.options.get(COMPANY)
        if company is not None and not self._broker.shares.take(company):
            self._give_back(message, company)
            return None
        self._held.take(message.options[JOB_ID])
        return message

    def _give_back(self, message: Any, company: str) -> None:
        """Returns a job to its company's backlog, because the company has used up its share."""
        self._stock.queued_message_ids.discard(message.message_id)
        self._broker.give_back(self._queue_name, company, message.options[JOB_ID])

    def _let_go(self, *messages: Any) -> None:
        """Forgets jobs that are no longer here, and gives their threads back. If a company had used up its share, more
        jobs are dealt."""
        gone = [message.options for message in messages if self._held.let_go(message.options[JOB_ID])]
        were_full = [self._broker.shares.give_back(options[COMPANY]) for options in gone if COMPANY in options]
        if any(were_full):
            try:
                for queue in self._broker.held:
                    self._broker.deal(queue)
            except redis.RedisError:
                log.debug("workers.jobs_not_dealt")  # each consumer deals once a second

    def _recover_lost_jobs(self) -> None:
        """Returns jobs to their queue that Redis notes as ours but that this process does not hold. Otherwise no worker
        would run them, and no job of the same key could take their place. Those that cannot be read become dead
        letters."""
        held = self._held.ids()  # read first: jobs that are let go now are no longer noted
        noted: Any = self._broker.client.smembers(taken_key(self._broker.broker_id, self._queue_name))
        lost = {message_id.decode() for message_id in noted} - held
        if lost:
            log.warning("workers.lost_jobs_found", queue=self._queue_name, jobs=len(lost))
            self._broker.do_requeue(self._queue_name, *(lost - self._bury_unreadable(sorted(lost))))

    def _bury_unreadable(self, lost: Sequence[str]) -> set[str]:
        """Makes dead letters of those jobs whose messages cannot be read. Returns their ids."""
        messages: Any = self._broker.client.hmget(messages_key(self._queue_name), lost)
        unreadable = {
            job_id: message
            for job_id, message in zip(lost, messages, strict=True)
            if message is not None and not is_readable(self._queue_name, message)
        }
        for job_id, message in unreadable.items():
            log.error("workers.message_not_readable", queue=self._queue_name, id=job_id)
            self._broker.tell_error(self._queue_name, job_id, unreadable_letter(self._queue_name, job_id, message))
            self._broker.do_nack(self._queue_name, job_id)
        return set(unreadable)

    def ack(self, message: Any) -> None:
        if message.options[JOB_ID] in self._broker.put_back:
            self._put_back(message)
            return
        self._settle(self._stock.ack, message)
        self._let_go(message)

    def _put_back(self, message: Any) -> None:
        """Returns a skipped job to its paused queue."""
        self.requeue([message])
        self._stock.queued_message_ids.discard(message.message_id)  # as the stock consumer does when a job ends
        self._broker.put_back.discard(message.options[JOB_ID])

    def nack(self, message: Any) -> None:
        """Makes a dead letter of a job, with the error of its last attempt. A job without one is of another release."""
        message.options.setdefault(ERROR, f"This release has no job {message.actor_name}")
        self._settle(self._tell_error, message)
        self._settle(self._stock.nack, message)
        self._let_go(message)

    def _tell_error(self, message: Any) -> None:
        self._broker.tell_error(self._queue_name, message.options[JOB_ID], message.encode())

    def requeue(self, messages: Iterable[Any]) -> None:
        messages = list(messages)
        self._settle(self._stock.requeue, messages)
        self._let_go(*messages)

    def close(self) -> None:
        self._stock.close()

    @staticmethod
    def _settle(action: Any, argument: Any) -> None:
        try:
            action(argument)
        except redis.RedisError as error:
            raise ConnectionClosed(error) from None


class FuelrouteBroker(RedisBroker):
    """The stock broker with the consumer above. Delay queues keep the stock one, because their messages are for
    later."""

    def __init__(self, url: str, *, threads: int = 4) -> None:
        self.url = url
        self.shares = CompanyShares(threads)
        self.held: dict[str, HeldJobs] = {}
        """The jobs that this process has taken from each queue."""
        self.is_stopping = False
        """True once this process takes no more jobs."""
        self.paused: frozenset[str] = frozenset()
        """Queues from which this process takes no job."""
        self.turned_at: dict[str, float] = {}
        """When the consumer of each queue began its last turn, by the monotonic clock. A turn takes seconds at most."""
        self.asked_at: dict[str, float] = {}
        """When the consumer of each queue began its last turn in which Redis did not fail."""
        self.put_back: set[str] = set()
        """Ids of jobs that were skipped because of a pause; they return to their queue."""
        self.waiting_client = redis_client(url, socket_timeout=_WAIT_SECONDS + _PATIENCE_SECONDS)
        client = redis_client(url, socket_timeout=_PATIENCE_SECONDS)
        super().__init__(  # type: ignore[no-untyped-call]  # dramatiq's brokers carry no types
            client=client,
            heartbeat_timeout=_NEVER_MS,
            middleware=[
                ShutdownNotifications(),  # and no limit of age: a job is a hint, which may come late
                Callbacks(),
                Retries(max_retries=_JOB_RETRIES, min_backoff=1_000, max_backoff=15_000),
                JobTelemetry(),
            ],
        )

        self._deal, self._give_back, self._tell_error = map(client.register_script, (DEAL, GIVE_BACK, TELL_ERROR))

    def deal(self, queue: str) -> None:
        """Deals jobs from the companies' backlogs to the queue, at most as many of each company as this process may
        take."""
        free = [one for pair in self.shares.free().items() for one in pair]
        self._deal(keys=[NAMESPACE], args=[queue, self.shares.share, *free])

    def give_back(self, queue: str, company: str, redis_message_id: str) -> None:
        self._give_back(keys=[NAMESPACE], args=[queue, self.broker_id, company, redis_message_id])

    def tell_error(self, queue: str, redis_message_id: str, message: bytes) -> None:
        """Notes the error in the message of a job that becomes a dead letter next: nobody sees the letter without."""
        self._tell_error(keys=[messages_key(queue)], args=[redis_message_id, message])

    def do_fetch(self, queue_name: str, most: int) -> list[bytes]:
        """The next messages of a queue for Dramatiq's consumer. It would die of one that cannot be read, so it gets
        none; `_recover_lost_jobs` finds them."""
        fetched: list[bytes | None] = super().__getattr__("do_fetch")(queue_name, most)  # type: ignore[no-untyped-call]
        return [message for message in fetched if message is not None and is_readable(queue_name, message)]

    def consume(self, queue_name: str, prefetch: int = 1, timeout: int = 5000) -> dramatiq.Consumer:
        if queue_name in self.delay_queues:
            return super().consume(queue_name, prefetch, timeout)
        most = 1 if queue_name in _ONE_AT_A_TIME else prefetch
        return WakingConsumer(self, queue_name, super().consume(queue_name, most, _LONGEST_BACKOFF_MS))

    def close(self) -> None:
        """Closes the connections, which the stock broker leaves to the garbage collector."""
        for client in (self.client, self.waiting_client):
            client.close()


class FuelrouteWorker(Worker):
    """The stock worker with a short line of jobs for each thread, and a watch over other workers."""

    def __init__(self, broker: FuelrouteBroker, queues: Iterable[str], *, threads: int) -> None:
        super().__init__(broker, queues=set(queues), worker_threads=threads)
        self._broker = broker
        self.queue_prefetch = threads * _PREFETCH_PER_THREAD
        self._watch = WorkerWatch(broker.url, broker.broker_id, queues)
        self._stopped = threading.Event()
        self._watching = threading.Thread(target=self._watch_others, name="watch", daemon=True)

    def start(self) -> None:
        self._watching.start()
        super().start()

    def stop(self, timeout: int = 600_000) -> None:
        """Returns the jobs that have not begun to their queues, and finishes running ones within `timeout`
        milliseconds. A job that takes longer is returned as well."""
        self._broker.is_stopping = True
        not_begun: dict[str, list[Any]] = {}
        for item in iter_queue(self.work_queue):
            not_begun.setdefault(item.message.queue_name, []).append(item.message)
            self.work_queue.task_done()
        for queue_name, messages in not_begun.items():  # together: each call waits for a Redis that is silent
            with suppress(ConnectionClosed):
                self.consumers[queue_name].requeue_messages(messages)
        super().stop(timeout)
        self._stopped.set()
        self._watching.join()
        self._watch.leave()

    def _watch_others(self) -> None:
        while True:
            try:
                self._watch.look()
            except redis.RedisError:
                log.debug("workers.not_watched")  # Redis is away, and every worker knows
            if self._stopped.wait(SIGN_SECONDS):
                return

    def is_alive(self) -> bool:
        """False when a thread has died. Without a consumer this process takes no more jobs of its queue; without the
        watch, others take this process for dead."""
        return self._watching.is_alive() and all(consumer.is_alive() for consumer in self.consumers.values())
