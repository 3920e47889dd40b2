"""What the endpoints work with: the database in batches, the rate limit, the job queue, and the outcomes."""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial
from typing import NamedTuple, TypeVar

import psycopg
from psycopg_pool import PoolTimeout

from domain.answers import Versioned, find_by_external_id, read_routes, read_versions
from domain.contract import Route
from domain.database import Connection, Database, Tenant
from domain.jobs import QUEUES, Job, JobQueue, import_routes, in_batches, redis_client
from domain.keys import Caller, find_callers
from domain.routes import Push, Pushed, store_pushes
from domain.settings import Settings
from domain.telemetry import DEAD_LETTERS, QUEUE_JOBS, ROUTES_PUSHED, get_logger
from ingress.batching import Batcher
from ingress.limits import Allowance, RateLimiter
from ingress.outcomes import Outcomes

log = get_logger(__name__)

Item = TypeVar("Item")
Result = TypeVar("Result")


class Presented(NamedTuple):
    """A key as it came in, and whether this request counts against its rate limit."""

    key: str
    counted: bool


class Admission(NamedTuple):
    """Who makes a request (None: no valid key) and what the key may still do (None: not counted)."""

    caller: Caller | None
    allowance: Allowance | None


class Stored(NamedTuple):
    """What became of a push, and whether its import has been asked for."""

    pushed: Pushed
    import_asked: bool


class Services:
    """One for each ingress process."""

    def __init__(self, settings: Settings) -> None:
        redis_url = settings.require_redis_url()
        self.settings = settings
        self.database = Database.of(settings)
        self.jobs = JobQueue(redis_client(redis_url))
        self.outcomes = Outcomes(redis_url)
        self._limiter = RateLimiter(redis_client(redis_url, socket_timeout=0.5))
        self._threads = ThreadPoolExecutor(4, thread_name_prefix="database")
        most = settings.push_batch_routes
        self.admissions: Batcher[Presented, Admission] = Batcher("admissions", self._admit, most_items=most, at_once=2)
        self.pushes: Batcher[Push, Stored] = Batcher("pushes", self._push, most_items=most, at_once=2)
        self.reads: Batcher[tuple[Tenant, str], Versioned | None] = Batcher(
            "reads", partial(self._reading, read_routes), at_once=2
        )
        self.finds: Batcher[tuple[Tenant, str], Route | None] = Batcher(
            "finds", partial(self._reading, find_by_external_id), at_once=2
        )
        self.versions: Batcher[tuple[Tenant, str], str | None] = Batcher(
            "versions", partial(self._reading, read_versions), at_once=1
        )
        self.bodies = asyncio.Semaphore(settings.bodies_in_flight)
        """Held from before a body is read until what it says is stored: who has to wait, waits in its socket."""

    async def run(self) -> "asyncio.Task[None]":
        """Opens what is needed. The returned task listens until it is canceled."""
        self.database.__enter__()
        return asyncio.get_running_loop().create_task(self.outcomes.listen())

    def close(self) -> None:
        for batcher in (self.admissions, self.pushes, self.reads, self.finds, self.versions):
            batcher.close()
        self._threads.shutdown()
        self.database.__exit__()

    async def in_transaction(self, work: Callable[[Connection], Result]) -> Result:
        """`work` in a transaction of its own, in a thread."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, partial(self._transact, work))

    async def enqueue(self, jobs: Sequence[Job]) -> None:
        """Hints for the workers; none is lost for good when Redis is away."""
        if jobs:
            await asyncio.get_running_loop().run_in_executor(self._threads, partial(self.jobs.put, *jobs))

    async def measure_queues(self) -> None:
        """Brings the gauges of the queues up to date."""
        await asyncio.get_running_loop().run_in_executor(self._threads, self._measure_queues)

    def _measure_queues(self) -> None:
        for queue in QUEUES:
            QUEUE_JOBS.labels(queue).set(self.jobs.backlog(queue))
            DEAD_LETTERS.labels(queue).set(self.jobs.dead_letters(queue))

    def _transact(self, work: Callable[[Connection], Result]) -> Result:
        with self.database.transaction() as connection:
            return work(connection)

    def _admit(self, presented: Sequence[Presented]) -> list[Admission]:
        """Every key is looked up at every request, many in one query: a revoked key is refused at once."""
        callers = self._reading(find_callers, [one.key for one in presented])
        counted = [
            caller.key_id for caller, one in zip(callers, presented, strict=True) if caller is not None and one.counted
        ]
        allowances = iter(self._limiter.take(counted))
        return [
            Admission(caller, next(allowances) if caller is not None and one.counted else None)
            for caller, one in zip(callers, presented, strict=True)
        ]

    def _push(self, pushes: Sequence[Push]) -> Sequence[Stored | BaseException]:
        """One commit and one import job for all; when the commit fails, each on its own, so that a bad neighbour costs
        the others nothing."""
        try:
            with self.database.transaction_by_key() as connection:
                pushed, jobs = store_pushes(connection, pushes, now=datetime.now(UTC))
        except psycopg.Error as error:
            if len(pushes) == 1 or isinstance(error, PoolTimeout) or error.sqlstate is None:
                raise
            log.warning("push.batch_failed", routes=len(pushes), error=str(error))
            return [outcome for push in pushes for outcome in self._push_alone(push)]
        changed = dict.fromkeys(one.route_id for one in pushed if one.effect in ("create", "replace"))
        self.outcomes.forget(one.route_id for one in pushed if one.effect == "replace")
        jobs += [import_routes(batch, reply_to=self.outcomes.reply_to) for batch in in_batches(changed)]
        asked = self.jobs.put(*jobs)
        for effect, count in Counter(one.effect for one in pushed).items():
            ROUTES_PUSHED.labels(effect).inc(count)
        return [Stored(one, asked and one.route_id in changed) for one in pushed]

    def _push_alone(self, push: Push) -> Sequence[Stored | BaseException]:
        try:
            return self._push([push])
        except psycopg.Error as error:
            return [error]

    def _reading(
        self, read: Callable[[Connection, Sequence[Item]], list[Result]], wanted: Sequence[Item]
    ) -> list[Result]:
        """Many requests' reads in one query."""
        with self.database.reading_by_key() as connection:
            return read(connection, wanted)
