"""What the endpoints work with: the database in batches, the rate limit, the job queue, and the outcomes.

Every company has its turn in the batches, and its share of the threads.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from typing import NamedTuple, Protocol, TypeVar

import psycopg

from domain.accounts.keys import Caller, find_callers, still_valid
from domain.contract.shapes import Route, RouteInput
from domain.database import SERVING, Connection, Database, Limits, Tenant, flush, is_away
from domain.jobs import Job, JobQueue, import_routes, in_batches, redis_client
from domain.observability import ROUTES_PUSHED, get_logger
from domain.redis_circuit import RedisCircuit
from domain.routes.pushes import Push, Pushed, create_routes, store_pushes
from domain.routes.queries import Versioned, find_by_external_id, read_routes, read_versions
from domain.settings import Settings
from ingress.admission import Admission, Answered, Asked, Item, Presented, Result, refusal_of, unauthorized
from ingress.batching import Batcher
from ingress.limits import RateLimiter
from ingress.outcomes import Outcomes
from ingress.problems import ApiError
from ingress.turns import Shares

log = get_logger(__name__)


Kept = TypeVar("Kept", covariant=True)

Asking = Batcher[Asked[Item], Answered[Result]]
"""Batches of what requests ask for, each with the key it comes with."""

_PUSHING_SECONDS = 2.5
"""A batch of pushes waits no longer for locks, however many of its routes somebody else holds."""

_OVERTIME_SECONDS = 1.0
_LEAST_STATEMENT_SECONDS = 0.25
_LEAST_LOCK_SECONDS = 0.02
"""When that time is over, what is free still goes through."""

_MOST_FLUSHED = 10_000
_MOST_KNOWN_KEYS = 10_000
_NOBODY_KNOWN = ""
"""The owner of what comes with a key that was not valid when it was last looked at: all these take one turn."""


class KnownKey(NamedTuple):
    """What was found of a key when it was last looked at. It permits nothing, but makes its request likely enough to be
    read before the key is looked at again."""

    company_id: str
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
        self.admissions: Batcher[Presented, Admission] = Batcher("admissions", self._admit, most_items=most)
        self.pushes: Asking[RouteInput, Stored] = Batcher(
            "pushes", partial(self._for_callers, self._push_for), most_items=most
        )
        self.reads: Asking[str, Versioned | None] = self._reader("reads", read_routes)
        self.finds: Asking[str, Route | None] = self._reader("finds", find_by_external_id)
        self.versions: Asking[str, str | None] = self._reader("versions", read_versions)
        self._flushes: Batcher[None, None] = Batcher("flushes", self._flush, most_items=_MOST_FLUSHED, at_once=1)
        self._known: dict[bytes, KnownKey] = {}
        body_bytes = settings.body_memory_megabytes << 20
        self.bodies = Shares(body_bytes, of_one=body_bytes // 32)
        """Bytes, held from before a body is read until what it says is stored: who has to wait, waits in its socket."""

    async def run(self) -> "asyncio.Task[None]":
        """Opens what is needed. The returned task listens until it is canceled."""
        self.database.__enter__()
        return asyncio.get_running_loop().create_task(self.outcomes.listen())

    def close(self) -> None:
        for batcher in (self.admissions, self.pushes, self.reads, self.finds, self.versions, self._flushes):
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

    async def admission_of(self, presented: Presented) -> Admission:
        """Who presents a key, in a turn of its own."""
        return await self.admissions.submit(presented, self.owner_of(presented))

    def known_of(self, presented: Presented) -> KnownKey | None:
        """None: the key was not valid when it was last looked at, or never looked at."""
        return self._known.get(presented.key.hash)

    def owner_of(self, presented: Presented) -> str:
        """Who takes turns with the others: the company of a key that was valid when it was last looked at."""
        known = self.known_of(presented)
        return known.company_id if known is not None else _NOBODY_KNOWN

    def _admit(self, presented: Sequence[Presented]) -> list[Admission]:
        """Every key is looked up at every request, many in one query: a revoked key is refused at once."""
        if not presented:
            return []
        with self.database.by_key() as connection:
            callers = find_callers(connection, [one.key for one in presented])
        counted = [
            caller.key_id for caller, one in zip(callers, presented, strict=True) if caller is not None and one.counted
        ]
        allowances = iter(self._limiter.take(counted))
        admissions = [
            Admission(caller, next(allowances) if caller is not None and one.counted else None)
            for caller, one in zip(callers, presented, strict=True)
        ]
        for one, admission in zip(presented, admissions, strict=True):
            self._remember(one.key.hash, admission)
        return admissions

    def _remember(self, key_hash: bytes, admission: Admission) -> None:
        """By a hash of the whole key: a part of it is no secret."""
        if admission.caller is None:
            self._known.pop(key_hash, None)
            return
        if key_hash not in self._known and len(self._known) >= _MOST_KNOWN_KEYS:
            self._known.clear()  # those in use come back with their next request
        self._known[key_hash] = KnownKey(admission.caller.company_id, refusal_of(admission, None) is None)

    def _for_callers(
        self,
        work: Callable[[Sequence[tuple[Caller, Item]]], Sequence[Result | BaseException]],
        asked: Sequence[Asked[Item]],
    ) -> list[Answered[Result]]:
        """Admits who asks, and does the work for those that may."""
        admissions = self._admit([one.by for one in asked])
        refusals = [refusal_of(admission, one.permission) for admission, one in zip(admissions, asked, strict=True)]
        let_in = [
            (admission.caller, one.item)
            for admission, one, refusal in zip(admissions, asked, refusals, strict=True)
            if refusal is None and admission.caller is not None
        ]
        results: Sequence[Result | BaseException]
        try:
            results = work(let_in) if let_in else []
        except Exception as error:
            results = [error] * len(let_in)
        result = iter(results)
        return [
            Answered(admission, next(result) if refusal is None else refusal)
            for admission, refusal in zip(admissions, refusals, strict=True)
        ]

    def _reader(
        self, name: str, read: Callable[[Connection, Sequence[tuple[Tenant, str]]], Sequence[Result]]
    ) -> Asking[str, Result]:
        """Many requests' reads in one query."""

        def work(wanted: Sequence[tuple[Caller, str]]) -> Sequence[Result]:
            with self.database.by_key() as connection:
                return read(connection, [(caller.tenant, one) for caller, one in wanted])

        return Batcher(name, partial(self._for_callers, work))

    def _push_for(self, wanted: Sequence[tuple[Caller, RouteInput]]) -> Sequence[Stored | BaseException]:
        return self._push([Push(caller.tenant, route, caller.superseding, caller.key_id) for caller, route in wanted])

    def _push(self, pushes: Sequence[Push]) -> Sequence[Stored | BaseException]:
        """One commit and one import job for all that is new; another commit for what is not."""
        now = datetime.now(UTC)
        until = time.monotonic() + _PUSHING_SECONDS
        jobs: list[Job] = []

        def create(batch: Sequence[Push], limits: Limits | None = None) -> list[Pushed | ApiError | None]:
            if limits is None:  # a statement that commits by itself has none of its own
                with self.database.by_key() as connection:
                    return [*create_routes(connection, batch, now=now)]
            try:
                with self.database.transaction_by_key(limits=limits) as connection:
                    created = create_routes(connection, batch, now=now)
                    _look_again(connection, {push.key_id for push in batch})
            except _Gone:  # it is one push, which has waited with others and then for each before it
                return [unauthorized() for _ in batch]
            return [*created]

        def store(batch: Sequence[Push], limits: Limits | None = None) -> list[Pushed | ApiError]:
            try:
                with self.database.transaction_by_key(limits=limits or _limits(until)) as connection:
                    stored, more = store_pushes(connection, batch, now=now)
                    _look_again(connection, {push.key_id for push in batch})
            except _Gone as gone:  # the batch may have waited for other transactions
                valid = [push for push in batch if push.key_id not in gone.key_ids]
                others = iter(store(valid, limits) if valid else ())
                return [unauthorized() if push.key_id in gone.key_ids else next(others) for push in batch]
            jobs.extend(more)
            return [*stored]

        created = _together(create, pushes, until)
        others = [push for push, result in zip(pushes, created, strict=True) if result is None]
        stored = iter(_together(store, others, until)) if others else iter(())
        results = [result if result is not None else next(stored) for result in created]
        pushed = [result for result in results if isinstance(result, Pushed)]
        changed = dict.fromkeys(one.route_id for one in pushed if one.effect in ("create", "replace"))
        jobs += [import_routes(batch, reply_to=self.outcomes.reply_to) for batch in in_batches(changed)]
        asked = self.jobs.put(*jobs)
        for effect, count in Counter(one.effect for one in pushed).items():
            ROUTES_PUSHED.labels(effect).inc(count)
        return [
            Stored(push, result, asked and result.route_id in changed) if isinstance(result, Pushed) else result
            for push, result in zip(pushes, results, strict=True)
        ]


class _Gone(Exception):
    """Keys were revoked or expired while their pushes waited."""

    def __init__(self, key_ids: set[str]) -> None:
        super().__init__(key_ids)
        self.key_ids = key_ids


def _look_again(connection: Connection, key_ids: set[str]) -> None:
    """Raises _Gone."""
    gone = key_ids - still_valid(connection, key_ids)
    if gone:
        raise _Gone(gone)


class _Store(Protocol[Kept]):
    def __call__(self, batch: Sequence[Push], limits: Limits | None = None) -> Sequence[Kept]: ...


def _together(store: _Store[Kept], pushes: Sequence[Push], until: float) -> Sequence[Kept | BaseException]:
    """What `store` makes of all in one commit; when that fails, of each on its own, so that a bad neighbour costs the
    others nothing. Those that wait for a lock then share the time until `until`: many cost no more than one.
    """
    try:
        return store(pushes)
    except psycopg.Error as error:
        if len(pushes) == 1 or is_away(error):
            return [error] * len(pushes)
        log.warning("push.batch_failed", routes=len(pushes), error=str(error))
        failure = error
    results: list[Kept | BaseException] = []
    for position, push in enumerate(pushes):
        if time.monotonic() > until + _OVERTIME_SECONDS:
            return [*results, *[failure] * (len(pushes) - position)]
        try:
            results += store([push], _limits(until, shares=len(pushes) - position))
        except psycopg.Error as error:
            results.append(error)
    return results


def _limits(until: float, *, shares: int = 1) -> Limits:
    """Of a transaction that may use its share of the time until then."""
    left = until - time.monotonic()
    return Limits(
        statement_seconds=min(SERVING.statement_seconds, max(left, _LEAST_STATEMENT_SECONDS)),
        lock_seconds=min(SERVING.lock_seconds, max(left / shares, _LEAST_LOCK_SECONDS)),
    )
