"""Enqueues jobs for the workers of any process.

A job is only a hint, which the sweep repeats when it is lost. So enqueueing never fails its caller: while Redis is
away, nothing is enqueued, and no caller waits.
"""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple
from uuid import UUID, uuid4

import redis
import redis.asyncio

from domain.queue.async_scripts import AsyncScript
from domain.queue.circuit import RedisCircuit
from domain.queue.dramatiq_messages import encode_message
from domain.queue.jobs import Job, in_batches
from domain.queue.redis_clients import redis_client
from domain.queue.redis_layout import (
    PUT,
    backlog_length_key,
    dead_letters_key,
    keys_of_enqueueing,
    outcomes_channel,
    waiting_key,
)
from domain.settings import Settings

MAX_WAITING = 10_000
"""Most jobs that wait in a company's backlog, or in a queue without backlogs, while workers are away or behind. The
sweep finds the rest."""

_UNLIMITED = 2**53
_PUT_AT_ONCE = 500

_Arguments = list[str | bytes | int]


class QueueLength(NamedTuple):
    """Jobs that wait in a queue, and dead letters, which Dramatiq keeps for a week."""

    waiting: int
    dead_letters: int


class JobQueue:
    """The queues, for threads."""

    def __init__(self, client: redis.Redis, circuit: RedisCircuit | None = None) -> None:
        self.client = client
        self._circuit = circuit or RedisCircuit(client)
        self._script = client.register_script(PUT)

    @classmethod
    def of(cls, settings: Settings) -> "JobQueue":
        return cls(redis_client(settings.require_redis_url()))

    def put(self, *jobs: Job) -> bool:
        """Enqueues jobs. Returns False when Redis is away: the sweep will find the work. A job whose key waits or runs
        already is put a second time, since the first may have read the state already, but not a third time. A full
        queue takes nothing."""
        return self._put(_put_arguments(jobs))

    def put_once(self, *jobs: Job) -> bool:
        """Enqueues jobs of the sweep. A job whose key waits or runs already is not put again. A queue takes them even
        if it is full."""
        return self._put(_put_arguments(jobs, once=True))

    def _put(self, batches: Iterable[_Arguments]) -> bool:
        def put() -> bool:
            for arguments in batches:
                self._script(keys=keys_of_enqueueing(), args=arguments)
            return True

        return self._circuit.ask(put, otherwise=False)

    def backlog(self, queue: str) -> int:
        """Jobs that wait in a queue; 0 when Redis is away."""
        return self._circuit.ask(lambda: self.length(queue).waiting, otherwise=0)

    def length(self, queue: str) -> QueueLength:
        """The jobs that a queue holds now. Raises redis.RedisError when Redis is away, so that a metric shows no
        number."""
        with self.client.pipeline(transaction=False) as ask:
            ask.llen(waiting_key(queue))
            ask.get(backlog_length_key(queue))
            ask.zcard(dead_letters_key(queue))
            listed, in_backlogs, dead_letters = ask.execute()
        return QueueLength(listed + int(in_backlogs or 0), dead_letters)

    def announce(self, reply_to: str, outcomes: bytes) -> None:
        """Sends the outcomes of a job to the ingress process that waits for them. If they are lost, it reads the
        database."""
        self._circuit.ask(lambda: self.client.publish(outcomes_channel(reply_to), outcomes), otherwise=None)


class AsyncJobQueue:
    """The queues, for an event loop."""

    def __init__(self, client: redis.asyncio.Redis, circuit: RedisCircuit) -> None:
        self._circuit = circuit
        self._script = AsyncScript(client, PUT)

    async def put(self, *jobs: Job) -> bool:
        """Puts jobs like `JobQueue.put`."""

        async def put() -> bool:
            for arguments in _put_arguments(jobs):
                await self._script(keys_of_enqueueing(), arguments)
            return True

        return await self._circuit.ask_async(put, otherwise=False)


def _put_arguments(jobs: Iterable[Job], *, once: bool = False) -> Iterator[_Arguments]:
    """The arguments of `PUT` for each portion of the jobs. With `once`, a job whose key waits or runs is not put, and a
    full queue is no limit."""
    for batch in in_batches(jobs, _PUT_AT_ONCE):
        arguments: _Arguments = [_UNLIMITED if once else MAX_WAITING]
        for job in batch:
            key = job.key if job.key is not None else str(uuid4())
            second = f"{key} again" if job.key is not None and not once else ""
            arguments += (job.queue, job.company_id.hex if job.company_id is not None else "")
            for job_id in (key, second):
                arguments += (job_id, _message(job, job_id) if job_id else "")
        yield arguments


def _message(job: Job, job_id: str) -> bytes:
    payload = {name: _as_digits(value) for name, value in job.payload.items()}
    company = job.company_id.hex if job.company_id is not None else None
    companies = [one.hex for one in job.company_ids]
    return encode_message(job.queue, job.name, payload, job_id, company=company, companies=companies)


def _as_digits(value: Any) -> Any:
    """Ids as hexadecimal digits; other values as they are."""
    if isinstance(value, list):
        return [_as_digits(each) for each in value]
    return value.hex if isinstance(value, UUID) else value
