"""The messages queue: sends a message to its driver. An attempt is claimed, handed over, settled; see `messages`."""

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from typing import Generic, NamedTuple, TypeVar
from uuid import UUID

import dramatiq
import psycopg

from domain.database import Connection
from domain.jobs import send_message
from domain.messages import messages
from domain.messages.gateways import Fault
from domain.messages.messages import Claim
from domain.observability import MESSAGES, get_logger
from domain.routes import delivery
from domain.routes.delivery import Outcome
from domain.statements import Statement
from workers.context import Context

log = get_logger(__name__)

_MAX_WAITING = 10_000
"""Of one company's messages. What is beyond that, the sweep finds."""

_STORE_AGAIN_SECONDS = 1.0


def register(broker: dramatiq.Broker, context: Context) -> None:
    turns: Turns[tuple[UUID, int]] = Turns(
        context.settings.worker_threads, lambda one: context.jobs.put(send_message(one[0], called_after=one[1]))
    )

    @dramatiq.actor(broker=broker, actor_name="messages.send", queue_name="messages")
    def send(message_id: str, called_after: int | None = None) -> None:
        send_one(UUID(message_id), called_after)

    def send_one(message_id: UUID, called_after: int | None) -> None:
        with ExitStack() as while_sending:
            with context.database.transaction_by_key() as connection:
                now = _time_of(connection)
                step = delivery.claim(
                    connection, message_id, settings=context.settings, now=now, called_after=called_after
                )
                if isinstance(step, Claim) and not while_sending.enter_context(
                    turns.turn(step.company_id, (message_id, step.attempts))
                ):
                    messages.put_off(connection, step, now=now)
                    return
            if isinstance(step, Claim):
                step = _store(context, step, messages.hand_over(step, context.settings))
        context.jobs.put(*step.jobs)
        if step.status is not None:
            MESSAGES.labels(step.status).inc()
            log.info("messages.delivered", message_id=message_id, status=step.status)


def _store(context: Context, claimed: Claim, fault: Fault | None) -> Outcome:
    """Stores how the attempt ended. While the database is away it tries again as long as the claim holds: a message
    whose outcome is not stored is sent again."""
    while True:
        try:
            with context.database.transaction_by_key() as connection:
                now = _time_of(connection)
                return delivery.settle(connection, claimed, fault, settings=context.settings, now=now)
        except psycopg.OperationalError:
            if datetime.now(UTC) >= claimed.until:
                raise
            time.sleep(_STORE_AGAIN_SECONDS)


class _Time(NamedTuple):
    now: datetime


_TIME = Statement(_Time, "SELECT clock_timestamp() AS now")


def _time_of(connection: Connection) -> datetime:
    """The database's clock, which all workers share. With clocks of their own, a worker whose clock is ahead would take
    over a message that another one is handing over."""
    return _TIME.one(connection).now


Message = TypeVar("Message")


class Turns(Generic[Message]):
    """Shares a process's threads: the gateways of one company get at most half of them, so a slow gateway does not hold
    up other companies.

    Further messages of the company wait in memory for its next turn. If the process ends, nothing is lost: the database
    knows when they are due.
    """

    def __init__(self, threads: int, call: Callable[[Message], object]) -> None:
        self._most = max(1, threads // 2)
        self._call = call
        self._taken: Counter[UUID] = Counter()
        self._waiting: dict[UUID, deque[Message]] = {}
        self._lock = threading.Lock()

    @contextmanager
    def turn(self, company_id: UUID, message: Message) -> Iterator[bool]:
        """False when the company has no free turn: `call` gets the message when one of its turns ends."""
        with self._lock:
            granted = self._taken[company_id] < self._most
            if granted:
                self._taken[company_id] += 1
            else:
                waiting = self._waiting.setdefault(company_id, deque(maxlen=_MAX_WAITING))
                if message not in waiting:
                    waiting.append(message)
        try:
            yield granted
        finally:
            if granted and (next_one := self._end(company_id)) is not None:
                self._call(next_one)

    def _end(self, company_id: UUID) -> Message | None:
        with self._lock:
            self._taken[company_id] -= 1
            if not self._taken[company_id]:
                del self._taken[company_id]
            waiting = self._waiting.get(company_id)
            next_one = waiting.popleft() if waiting else None
            if not waiting:
                self._waiting.pop(company_id, None)
            return next_one
