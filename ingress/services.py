"""What the endpoints work with: the database in batches, the rate limit, the job queue, and the outcomes.

Every company has its turn in the batches, and its share of the threads.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple
from uuid import UUID

from domain.accounts.keys import Caller, find_callers, still_valid
from domain.contract.shapes import Route, RouteInput
from domain.database import SERVING, Connection, Database, Tenant, flush
from domain.jobs import JobQueue, import_routes, in_batches, redis_client
from domain.observability import ROUTES_PUSHED, get_logger
from domain.redis_circuit import RedisCircuit
from domain.routes.pushes import Push, Pushed
from domain.routes.queries import Versioned, find_by_external_id, read_routes, read_versions
from domain.settings import Settings
from ingress.auth import (
    AuthorizedRequest,
    AuthorizedResponse,
    AuthResult,
    Credentials,
    Item,
    Result,
    refusal_of,
    unauthorized,
)
from ingress.batching import Batcher
from ingress.limits import RateLimiter
from ingress.outcomes import Outcomes
from ingress.problems import ApiError
from ingress.pushing import PushBatch
from ingress.turns import Shares

log = get_logger(__name__)


AuthorizedBatcher = Batcher[AuthorizedRequest[Item], AuthorizedResponse[Result]]
"""Batches of what requests ask for, each with the key it comes with."""

_MAX_FLUSHED = 10_000
_MAX_KNOWN_KEYS = 10_000
_NOBODY_KNOWN = ""
"""The owner of what comes with a key that was not valid when it was last looked at: all these take one turn."""


class KnownKey(NamedTuple):
    """What was found of a key when it was last looked at. It permits nothing, but makes its request likely enough to be
    read before the key is looked at again."""

    company_id: UUID
    within_limit: bool


class Stored(NamedTuple):
    """A push and what became of it, and whether its import has been asked for."""

    push: Push
    pushed: Pushed
    import_asked: bool


class Services:
    """One for each ingress process."""

    def __init__(self, settings: Settings) -> None:
        redis_url = settings.require_redis_url()
        self.settings = settings
        self.database = Database.of(settings, SERVING, fail_fast=True)
        client = redis_client(redis_url)
        circuit = RedisCircuit(client)
        self.jobs = JobQueue(client, circuit)
        self.outcomes = Outcomes(redis_url)
        self._limiter = RateLimiter(client, circuit, positions_per_minute=settings.feed_positions_per_minute)
        threads = settings.database_pool_size  # each works with a connection
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="database")
        self._shares = Shares(threads, of_one=max(1, threads // 2))
        most = settings.push_batch_routes
        self.authentications: Batcher[Credentials, AuthResult] = Batcher(
            "authentications", self._authenticate, max_items=most
        )
        self.pushes: AuthorizedBatcher[RouteInput, Stored] = Batcher(
            "pushes", partial(self._authorized, self._push_for), max_items=most
        )
        self.reads: AuthorizedBatcher[UUID, Versioned | None] = self._reader("reads", read_routes)
        self.finds: AuthorizedBatcher[str, Route | None] = self._reader("finds", find_by_external_id)
        self.versions: AuthorizedBatcher[UUID, str | None] = self._reader("versions", read_versions)
        self._flushes: Batcher[None, None] = Batcher("flushes", self._flush, max_items=_MAX_FLUSHED, at_once=1)
        self._known: dict[bytes, KnownKey] = {}
        body_bytes = settings.body_memory_megabytes << 20
        self.bodies = Shares(body_bytes, of_one=body_bytes // 32)
        """Bytes, held from before a body is read until what it says is stored: who has to wait, waits in its socket."""

    async def run(self) -> "asyncio.Task[None]":
        """Opens what is needed. The returned task listens until it is canceled."""
        self.database.__enter__()
        return asyncio.get_running_loop().create_task(self.outcomes.listen())

    def close(self) -> None:
        for batcher in (self.authentications, self.pushes, self.reads, self.finds, self.versions, self._flushes):
            batcher.close()
        self._threads.shutdown()
        self.database.__exit__()

    async def in_thread(self, caller: Caller, work: Callable[[], Result]) -> Result:
        """`work` in one of the threads, of which a company has half at most."""
        async with self._shares.part(caller.company_id):
            return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    @contextmanager
    def transaction(self, caller: Caller) -> Iterator[Connection]:
        """A transaction for a caller, who may have waited for it: at its end the key is looked at again. Raises
        ApiError 401 when it is not valid any more; then nothing is stored."""
        with self.database.transaction() as connection:
            yield connection
            if not still_valid(connection, [caller.key_id]):
                raise unauthorized()

    async def flushed(self) -> None:
        """Returns when every push that was stored before is on disk."""
        await self._flushes.submit(None, _NOBODY_KNOWN)

    def _flush(self, waiting: Sequence[None]) -> Sequence[None]:
        with self.database.by_key() as connection:
            flush(connection)
        return waiting

    def count_positions(self, caller: Caller, positions: int) -> None:
        """Raises ApiError 429 when they are more than the key may still send to the feed."""
        seconds = self._limiter.take_positions(caller.key_id, positions)
        if seconds:
            raise ApiError(
                "rate_limited",
                f"More than {self.settings.feed_positions_per_minute:,} positions in a minute from this key; retry in "
                f"{seconds} s.",
                headers={"Retry-After": str(seconds)},
            )

    async def authenticate(self, credentials: Credentials) -> AuthResult:
        """Who presents a key, in a turn of its own."""
        return await self.authentications.submit(credentials, self.owner_of(credentials))

    def known_of(self, credentials: Credentials) -> KnownKey | None:
        """None: the key was not valid when it was last looked at, or never looked at."""
        return self._known.get(credentials.key.hash)

    def owner_of(self, credentials: Credentials) -> Hashable:
        """Who takes turns with the others: the company of a key that was valid when it was last looked at."""
        known = self.known_of(credentials)
        return known.company_id if known is not None else _NOBODY_KNOWN

    def _authenticate(self, credentials: Sequence[Credentials]) -> list[AuthResult]:
        """Every key is looked up at every request, many in one query: a revoked key is refused at once."""
        if not credentials:
            return []
        with self.database.by_key() as connection:
            callers = find_callers(connection, [one.key for one in credentials])
        allowances = self._limiter.take(
            [
                caller.key_id if caller is not None and one.counted else None
                for caller, one in zip(callers, credentials, strict=True)
            ]
        )
        auth_results = [AuthResult(*one) for one in zip(callers, allowances, strict=True)]
        for one, auth_result in zip(credentials, auth_results, strict=True):
            self._remember(one.key.hash, auth_result)
        return auth_results

    def _remember(self, key_hash: bytes, auth_result: AuthResult) -> None:
        """By a hash of the whole key: a part of it is no secret."""
        if auth_result.caller is None:
            self._known.pop(key_hash, None)
            return
        if key_hash not in self._known and len(self._known) >= _MAX_KNOWN_KEYS:
            self._known.clear()  # those in use come back with their next request
        self._known[key_hash] = KnownKey(auth_result.caller.company_id, refusal_of(auth_result, None) is None)

    def _authorized(
        self,
        work: Callable[[Sequence[tuple[Caller, Item]]], Sequence[Result | BaseException]],
        requests: Sequence[AuthorizedRequest[Item]],
    ) -> list[AuthorizedResponse[Result]]:
        """Authenticates all requests, and does the work for those that may have it."""
        auth_results = self._authenticate([request.by for request in requests])
        results: dict[int, Result | BaseException] = {}
        wanted: dict[int, tuple[Caller, Item]] = {}
        for position, (auth_result, request) in enumerate(zip(auth_results, requests, strict=True)):
            refusal = refusal_of(auth_result, request.permission)
            if refusal is not None:
                results[position] = refusal
            elif auth_result.caller is not None:
                wanted[position] = auth_result.caller, request.item
        try:
            results |= zip(wanted, work(list(wanted.values())) if wanted else (), strict=True)
        except Exception as error:
            results |= dict.fromkeys(wanted, error)
        return [AuthorizedResponse(auth_result, results[position]) for position, auth_result in enumerate(auth_results)]

    def _reader(
        self, name: str, read: Callable[[Connection, Sequence[tuple[Tenant, Item]]], Sequence[Result]]
    ) -> AuthorizedBatcher[Item, Result]:
        """Many requests' reads in one query."""

        def work(wanted: Sequence[tuple[Caller, Item]]) -> Sequence[Result]:
            with self.database.by_key() as connection:
                return read(connection, [(caller.tenant, one) for caller, one in wanted])

        return Batcher(name, partial(self._authorized, work))

    def _push_for(self, wanted: Sequence[tuple[Caller, RouteInput]]) -> Sequence[Stored | BaseException]:
        return self._push([Push(caller.tenant, route, caller.superseding, caller.key_id) for caller, route in wanted])

    def _push(self, pushes: Sequence[Push]) -> Sequence[Stored | BaseException]:
        """Stores the pushes, and enqueues one import for all that is new or changed."""
        batch = PushBatch(self.database)
        results = batch.store(pushes)
        pushed = [result for result in results if isinstance(result, Pushed)]
        changed = dict.fromkeys(one.route_id for one in pushed if one.effect in ("create", "replace"))
        imports = [import_routes(route_ids, reply_to=self.outcomes.reply_to) for route_ids in in_batches(changed)]
        asked = self.jobs.put(*batch.jobs, *imports)
        for effect, count in Counter(one.effect for one in pushed).items():
            ROUTES_PUSHED.labels(effect).inc(count)
        return [
            Stored(push, result, asked and result.route_id in changed) if isinstance(result, Pushed) else result
            for push, result in zip(pushes, results, strict=True)
        ]
