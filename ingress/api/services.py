"""The services of the endpoints: PostgreSQL and Redis in the event loop, and threads for rare work. Each company has
its turn in the batches, and its share of the threads."""

import asyncio
import contextvars
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager, nullcontext, suppress
from uuid import UUID

from domain.accounts.keys import Caller, still_valid
from domain.contract.shapes import MAX_BODY_BYTES, Route
from domain.database.async_connections import AsyncDatabase
from domain.database.connections import Connection, Database
from domain.database.options import SERVING
from domain.database.statements import Query
from domain.database.visibility import NOTHING, Visibility, of_tenants
from domain.queue.circuit import RedisCircuit
from domain.queue.job_queue import AsyncJobQueue, JobQueue
from domain.queue.redis_clients import async_redis_client, redis_client
from domain.routes.reading.lookups import Versioned, ask_external_ids, ask_routes, ask_versions
from domain.settings import Settings
from ingress.api.access import unauthorized
from ingress.api.authenticator import (
    Authenticator,
    AuthorizedRequest,
    AuthorizedResponse,
    Item,
    Result,
    Submitted,
    of_callers,
)
from ingress.api.key_use import KeyUse
from ingress.api.outcome_listener import OutcomeListener
from ingress.api.push_pipeline import PushPipeline, ReceivedPush, RouteAnswer
from ingress.api.rate_limits import RateLimiter
from ingress.api.replica import ReplicaReads
from ingress.api.request_log import RequestLog
from ingress.http.batching import Batcher
from ingress.http.fair_queue import FairSemaphore
from ingress.http.problems import ApiError
from ingress.previews.processes import PreviewProcesses

Batches = Batcher[AuthorizedRequest[Item], AuthorizedResponse[Result]]
"""Batches of requests, each with its key."""


class Services:
    """The services of one ingress process."""

    def __init__(self, settings: Settings) -> None:
        redis_url = settings.require_redis_url()
        self.settings = settings
        of_threads = redis_client(redis_url)
        circuit = RedisCircuit(of_threads)
        put = JobQueue(of_threads, circuit).put
        self.database = Database.of(settings, SERVING, fail_fast=True, visible=lambda: NOTHING, put_jobs=put)
        self._async_database = AsyncDatabase.of(settings)
        self._redis = async_redis_client(redis_url)
        self._limiter = RateLimiter(
            self._redis,
            circuit,
            positions_per_minute=settings.feed_positions_per_minute,
            feed_requests_per_minute=settings.feed_requests_per_minute,
            previews_per_minute=settings.previews_per_minute,
        )
        self.previews = PreviewProcesses(settings)
        self._key_use = KeyUse(self.database)
        self.request_log = RequestLog(settings)
        self.authenticator = Authenticator(self._async_database, self._limiter, self._key_use)
        self.replica = (
            ReplicaReads(settings, settings.database_replica_url, self._async_database)
            if settings.database_replica_url is not None
            else None
        )
        self._outcome_listener = OutcomeListener(redis_url)
        self._push_pipeline = PushPipeline(
            self.authenticator,
            self._async_database,
            self.database,
            AsyncJobQueue(self._redis, circuit),
            self._outcome_listener,
            settings.import_wait_seconds,
            self.replica,
        )
        self.pushes: Batches[ReceivedPush, RouteAnswer] = Batcher(
            self._push_pipeline.work, name="pushes", max_items=settings.push_batch_routes
        )
        self.reads: Batches[UUID, Versioned | None] = self._reader(ask_routes, "reads")
        self.finds: Batches[str, Route | None] = self._reader(ask_external_ids, "finds")
        self.versions: Batches[UUID, str | None] = self._reader(ask_versions, "versions")
        threads = settings.database_pool_size  # each works with a connection
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="database")
        self._thread_permits = FairSemaphore(threads, of_one=max(1, threads // 2))
        body_bytes = settings.body_memory_megabytes << 20
        self.bodies = FairSemaphore(body_bytes, of_one=body_bytes // 32)
        """Bytes of bodies. A permit is held from before a body is read until the answer; the next body waits in its
        socket."""
        of_address = 2 * MAX_BODY_BYTES
        self.unverified_bodies = FairSemaphore(max(body_bytes // 8, 2 * of_address), of_one=of_address)
        """Bytes of unfinished bodies whose sender is not known before the whole body is here. Network addresses have
        shares of it, so strangers take nothing from a company's share."""

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Opens the connections, and closes them after the batches in flight."""
        listening = asyncio.get_running_loop().create_task(self._outcome_listener.listen())
        with self.database, self._key_use:
            async with self._async_database, self._redis, self.request_log, self.replica or nullcontext():
                yield
                for batches in (self.authenticator.batches, self.pushes, self.reads, self.finds, self.versions):
                    await batches.close()
                await self._push_pipeline.close()
                await self.previews.close()
                self._threads.shutdown()
        listening.cancel()
        with suppress(asyncio.CancelledError):
            await listening

    async def in_thread(self, caller: Caller, work: Callable[[], Result]) -> Result:
        """Does `work` in one of the threads; a company has at most half of them."""
        return await self.in_thread_of(caller.company_id, work)

    async def in_thread_of(self, company_id: UUID, work: Callable[[], Result]) -> Result:
        """Does `work` in one of the threads for a company without a key."""
        async with self._thread_permits.permit(company_id.hex):
            in_context = contextvars.copy_context().run  # the log lines of the thread name the request
            return await asyncio.get_running_loop().run_in_executor(self._threads, in_context, work)

    @contextmanager
    def transaction(self, caller: Caller, *, pipelined: bool = False) -> Iterator[Connection]:
        """A transaction for a caller who may have waited for it: at its end the key is checked again. Raises ApiError
        401 if it is no longer valid; nothing is stored then. With `pipelined` its statements go out together."""
        begin = self.database.pipelined_transaction if pipelined else self.database.transaction
        with begin(of_tenants([(caller.company_id, caller.environment)])) as connection:
            yield connection
            if not all(still_valid([caller.key_id]).on(connection)):
                raise unauthorized()

    async def count_positions(self, caller: Caller, positions: int) -> None:
        """Counts positions. Raises ApiError 429 if the key may not send this many to the feed now."""
        seconds = await self._limiter.take_positions(caller.key_id, positions)
        if seconds:
            raise ApiError(
                "rate_limited",
                f"More than {self.settings.feed_positions_per_minute:,} positions in a minute from this key; retry in "
                f"{seconds} s.",
                headers={"Retry-After": str(seconds)},
            )

    async def count_inbound(self, connector_id: UUID, positions: int | None = None) -> int:
        """Counts a request of a vendor, or its positions, by the limits of the feed. Returns 0, or the seconds to wait
        before the next."""
        if positions is not None:
            return await self._limiter.take_positions(connector_id, positions)
        (allowance,) = await self._limiter.take([(connector_id, "feed_requests")])
        return 0 if allowance is None or allowance.allowed else allowance.retry_after_seconds

    async def count_pages(self, links: Sequence[tuple[UUID, UUID]]) -> list[int]:
        """Counts a page of each of these drivers' links, which come with their companies. Returns for each 0, or the
        seconds to wait before the next."""
        return await self._limiter.take_pages(links)

    async def ask(self, query: Query[Result], visible: Visibility) -> Result:
        """The answer of a query by key."""
        return await self._async_database.ask(query, visible)

    def _reader(
        self, read: Callable[[Sequence[tuple[UUID, Item]]], Query[list[Result | None]]], name: str
    ) -> Batches[Item, Result | None]:
        """A batcher that reads for many requests in one query, each with the id of its key. The query finds nothing for
        a key that is no longer valid."""

        async def work(batch: Sequence[Submitted[Item, Result | None]]) -> None:
            admitted = await self.authenticator.admit(batch)
            if not admitted:
                return
            try:
                asked = [(one.caller.key_id, one.asked.item.item) for one in admitted]
                results = await self._results(read, asked, of_callers(one.caller for one in admitted))
                missed = [one for one, result in zip(admitted, results, strict=True) if result is None]
                await self.authenticator.refuse_invalid(missed)
            except Exception as error:
                for one in admitted:
                    one.settle(error)
                return
            for one, result in zip(admitted, results, strict=True):
                one.settle(result)

        return Batcher(work, name=name, at_once=1)

    async def _results(
        self,
        read: Callable[[Sequence[tuple[UUID, Item]]], Query[list[Result | None]]],
        asked: Sequence[tuple[UUID, Item]],
        visible: Visibility,
    ) -> list[Result | None]:
        """The results in order, from a replica as far as it may answer. Raises psycopg.Error when the primary is
        away."""
        if self.replica is None:
            return await self._async_database.ask(read(asked), visible)
        results = await self.replica.read(read, asked, visible)
        left = [position for position, result in enumerate(results) if result is None]
        if left:
            of_primary = await self._async_database.ask(read([asked[position] for position in left]), visible)
            for position, result in zip(left, of_primary, strict=True):
                results[position] = result
        return results
