"""Dramatiq on Redis, tuned by what was measured: a consumer that sleeps in Redis and wakes at once, and errors that
never kill a thread.
"""

import threading
import time
from collections.abc import Iterable
from typing import Any

import dramatiq
import redis
from dramatiq.brokers.redis import RedisBroker
from dramatiq.common import dq_name
from dramatiq.errors import ConnectionClosed
from dramatiq.middleware import Callbacks, Middleware, Retries, ShutdownNotifications

from domain.observability import JOBS, get_logger
from domain.queue.dramatiq_messages import COMPANY, JOB_ID
from domain.queue.redis_clients import redis_client
from domain.queue.redis_layout import DEAL, GIVE_BACK, NAMESPACE, taken_key, waiting_key
from workers.company_shares import CompanyShares

log = get_logger(__name__)

_WAIT_SECONDS = 1
"""How long a consumer sleeps in Redis at a time; between two sleeps it shows that it lives."""

_PATIENCE_SECONDS = 3
"""After which a Redis that says nothing is taken for gone, and connected to again."""

_LONGEST_BACKOFF_MS = 50
"""The stock consumer's sleep after it found nothing or is full: 1 s by default, which is all of its latency."""

_HEARTBEAT_TIMEOUT_MS = 15_000
_ALWAYS = 1_000_000  # of a million commands; the stock 1,000 returns a dead worker's messages only by luck

_LOOK_SECONDS = 5
"""How often a consumer looks for messages that nobody will run: those of a worker that died, and those that Redis gave
to this process in an answer which got lost."""

_PAUSED_SECONDS = 0.5
"""How long the consumer of a paused queue sleeps before it looks whether the pause is over."""

_JOB_RETRIES = 3
"""For trouble around a job, such as a database that restarts. What a route needs is retried from the database."""


class WakingConsumer(dramatiq.Consumer):
    """The stock consumer behind a wait inside Redis.

    BLMOVE from the head of a list to its head takes nothing: it returns as soon as the list is not empty.
    """

    def __init__(self, broker: "FuelrouteBroker", queue_name: str, stock: Any) -> None:
        self._broker = broker
        self._queue_name = queue_name
        self._stock = stock
        self._held = broker.held.setdefault(queue_name, {})
        self._look_at = 0.0

    def __next__(self) -> Any:
        try:
            if time.monotonic() >= self._look_at and not self._stock.message_cache:
                self._look_at = time.monotonic() + _LOOK_SECONDS
                self._put_back_what_got_lost()
            if self._stock.message_cache or self._stock.outstanding_message_count >= self._stock.prefetch:
                return self._take()
            if self._queue_name in self._broker.paused:
                time.sleep(_PAUSED_SECONDS)
                self._broker.do_qsize(self._queue_name)  # a heartbeat
                return None
            self._broker.deal(self._queue_name)
            name = waiting_key(self._queue_name)
            if self._broker.waiting_client.blmove(name, name, _WAIT_SECONDS, "LEFT", "LEFT") is None:
                self._broker.do_qsize(self._queue_name)  # any command is a heartbeat; waiting is none
                return None
            return self._take()
        except redis.RedisError as error:  # a time-out or a read-only replica would kill the thread
            raise ConnectionClosed(error) from None

    def _take(self) -> Any:
        message = next(self._stock)
        if message is None:
            return None
        company = message.options.get(COMPANY)
        if company is not None and not self._broker.shares.take(company):
            self._give_back(message, company)
            return None
        self._held[message.options[JOB_ID]] = company
        return message

    def _give_back(self, message: Any, company: str) -> None:
        """A job whose company has no free turn: it waits in its lane until one ends."""
        self._stock.queued_message_ids.discard(message.message_id)
        self._broker.give_back(self._queue_name, company, message.options[JOB_ID])

    def _let_go(self, *redis_message_ids: str) -> None:
        """The jobs are no longer here, and their turns end. Where one was missing, more of its company are dealt."""
        companies = [self._held.pop(one, None) for one in redis_message_ids]
        were_full = [self._broker.shares.give_back(company) for company in companies if company is not None]
        if any(were_full):
            try:
                for queue in self._broker.held:
                    self._broker.deal(queue)
            except redis.RedisError:
                log.debug("workers.not_dealt")  # each consumer deals once a second

    def _put_back_what_got_lost(self) -> None:
        """What a dead worker held, and what Redis has noted as ours and nobody here holds: nobody else would ever run
        it, and no job of the same key could take its place."""
        for name in (self._queue_name, dq_name(self._queue_name)):
            self._broker.caretaker.do_qsize(name)
        noted: Any = self._broker.client.smembers(taken_key(self._broker.broker_id, self._queue_name))
        lost = {message_id.decode() for message_id in noted} - self._held.keys()
        if lost:
            log.warning("workers.messages_found", queue=self._queue_name, messages=len(lost))
            self._broker.do_requeue(self._queue_name, *lost)  # those that were settled meanwhile stay so

    def ack(self, message: Any) -> None:
        if message.options[JOB_ID] in self._broker.put_back:
            self._put_back(message)
            return
        self._settle(self._stock.ack, message)
        self._let_go(message.options[JOB_ID])

    def _put_back(self, message: Any) -> None:
        """A job of a paused queue, which was skipped."""
        self.requeue([message])
        self._stock.queued_message_ids.discard(message.message_id)  # as when it is settled
        self._broker.put_back.discard(message.options[JOB_ID])

    def nack(self, message: Any) -> None:
        self._settle(self._stock.nack, message)
        self._let_go(message.options[JOB_ID])

    def requeue(self, messages: Iterable[Any]) -> None:
        messages = list(messages)
        self._settle(self._stock.requeue, messages)
        self._let_go(*(message.options[JOB_ID] for message in messages))

    def close(self) -> None:
        self._stock.close()

    @staticmethod
    def _settle(action: Any, argument: Any) -> None:
        try:
            action(argument)
        except redis.RedisError as error:
            raise ConnectionClosed(error) from None


class FuelrouteBroker(RedisBroker):
    """The stock broker with the consumer above. Delay queues keep the stock one: their messages are not for now."""

    def __init__(self, url: str, *, threads: int = 4) -> None:
        self.shares = CompanyShares(threads)
        self.held: dict[str, dict[str, str | None]] = {}
        """By queue: ids of the messages that this process works on or keeps to work on, and whose turn each has."""
        self.paused: frozenset[str] = frozenset()
        """Queues from which nothing is taken."""
        self.put_back: set[str] = set()
        """Ids of messages that were skipped because of a pause: they go back instead of being done."""
        self.waiting_client = redis_client(url, socket_timeout=_WAIT_SECONDS + _PATIENCE_SECONDS)
        client = redis_client(url, socket_timeout=_PATIENCE_SECONDS)
        self.caretaker = RedisBroker(
            client=client,
            heartbeat_timeout=_HEARTBEAT_TIMEOUT_MS,
            maintenance_chance=_ALWAYS,
            middleware=[],
        )
        """Each of its commands returns the messages of dead workers to their queue."""
        super().__init__(  # type: ignore[no-untyped-call]  # dramatiq's brokers carry no types
            client=client,
            heartbeat_timeout=_HEARTBEAT_TIMEOUT_MS,
            middleware=[
                ShutdownNotifications(),  # and no limit of age: a job is a hint, which may come late
                Callbacks(),
                Retries(max_retries=_JOB_RETRIES, min_backoff=1_000, max_backoff=15_000),
                JobTelemetry(),
            ],
        )

        self._deal, self._give_back = client.register_script(DEAL), client.register_script(GIVE_BACK)

    def deal(self, queue: str) -> None:
        """Deals jobs from the companies' lanes to the queue, of each as many as it has turns free here."""
        free = [one for pair in self.shares.free().items() for one in pair]
        self._deal(keys=[NAMESPACE], args=[queue, self.shares.share, *free])

    def give_back(self, queue: str, company: str, redis_message_id: str) -> None:
        self._give_back(keys=[NAMESPACE], args=[queue, self.broker_id, company, redis_message_id])

    def consume(self, queue_name: str, prefetch: int = 1, timeout: int = 5000) -> dramatiq.Consumer:
        if queue_name in self.delay_queues:
            return super().consume(queue_name, prefetch, timeout)
        return WakingConsumer(self, queue_name, super().consume(queue_name, prefetch, _LONGEST_BACKOFF_MS))

    def close(self) -> None:
        """The stock broker leaves its connections to the garbage collector."""
        for client in (self.client, self.waiting_client):
            client.close()


class JobTelemetry(Middleware):
    """One measurement for each job, one log line for each failed one."""

    def __init__(self) -> None:
        self._thread = threading.local()

    def before_process_message(self, broker: dramatiq.Broker, message: Any) -> None:
        self._thread.started = time.monotonic()

    def after_process_message(
        self,
        broker: dramatiq.Broker,
        message: Any,
        *,
        result: Any = None,
        exception: BaseException | None = None,
    ) -> None:
        seconds = time.monotonic() - self._thread.started
        JOBS.labels(message.actor_name, "done" if exception is None else "failed").observe(seconds)
        if exception is not None:
            log.warning("job.failed", job=message.actor_name, error=repr(exception), seconds=round(seconds, 4))
