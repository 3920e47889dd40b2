"""Reads routes from a replica of the database that has replayed the last write of the caller's company, or from the
primary.

No caller reads less than its company has written. Other changes of a route may be missing for as long as
`FUELROUTE_DATABASE_REPLICA_LAG_SECONDS`; a replica that is further behind is not read from. At every read the primary
says whether the key is still valid, so a revoked key is refused at once. When a replica fails, the primary answers the
request."""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar
from uuid import UUID

import psycopg

from domain.accounts.keys import Caller
from domain.database.async_connections import AsyncDatabase
from domain.database.connections import Connection, Database, Tenant
from domain.database.options import REPLICA
from domain.database.statements import Query
from domain.database.visibility import NOTHING, Visibility, of_tenants
from domain.routes.reading.last_writes import REPLAYED, PrimaryState, ask_primary, note_writes
from domain.settings import Settings
from domain.telemetry.logs import get_logger
from domain.telemetry.metrics import ROUTE_READS

log = get_logger(__name__)

_REST_SECONDS = 1.0
"""A replica that failed, or was too far behind, is left alone for this time."""

_WAIT_SECONDS = 0.5
"""Longest wait for a connection to a replica."""

_SAMPLES = 16
"""Most LSNs of the primary that are remembered, for as long as a replica may be behind."""

Item = TypeVar("Item")
Result = TypeVar("Result")
Answer = TypeVar("Answer")


class _AsOf(Query[tuple[int | None, Answer]]):
    """A query, together with the LSN that the replica had replayed before it. Both go out in one round trip."""

    def __init__(self, query: Query[Answer]) -> None:
        self._query = query

    async def on_async(self, connection: psycopg.AsyncConnection[Any]) -> tuple[int | None, Answer]:
        try:
            async with connection.pipeline():
                cursor = await REPLAYED.execute(connection)
                answer = await self._query.on_async(connection)
                replayed = await cursor.fetchone()
        except BaseException:
            await connection.close()  # psycopg takes statements for prepared that the server skipped
            raise
        return replayed, answer


class Freshness:
    """Tells which LSN a replica must have replayed to be recent enough. It is one that the primary had written between
    the allowed time ago and half of it. So neither the servers' clocks matter, nor how often something is written. If
    no LSN was read in that time, a replica must have replayed all that the primary has written by now."""

    def __init__(self, lag_seconds: float) -> None:
        self._lag_seconds = lag_seconds
        self._samples: deque[tuple[float, int]] = deque()

    def least_lsn(self, flushed: int, now: float) -> int:
        """The LSN that a replica must have replayed. `flushed` is the primary's LSN at `now`, a time of the monotonic
        clock."""
        samples = self._samples
        if not samples or now - samples[-1][0] >= self._lag_seconds / _SAMPLES:
            samples.append((now, flushed))
        while len(samples) > 1 and samples[1][0] <= now - self._lag_seconds / 2:
            samples.popleft()
        sampled_at, lsn = samples[0]
        is_of_then = self._lag_seconds / 2 <= now - sampled_at <= self._lag_seconds
        return lsn if is_of_then else flushed


class ReplicaReads:
    """The reads of one ingress process. An answer of None means that the primary must be asked."""

    def __init__(self, settings: Settings, url: str, primary: AsyncDatabase) -> None:
        self._primary = primary
        options: dict[str, Any] = {
            "pool_size": settings.database_pool_size,
            "timeout_seconds": _WAIT_SECONDS,
            "limits": REPLICA,
            "is_replica": True,
        }
        self._async_database = AsyncDatabase(url, **options)
        self._in_threads = Database(url, **options, fail_fast=True, visible=lambda: NOTHING)
        self._freshness = Freshness(settings.database_replica_lag_seconds)
        self._rests_until = 0.0
        self._is_used = True

    async def __aenter__(self) -> "ReplicaReads":
        self._in_threads.__enter__()
        await self._async_database.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._async_database.__aexit__()
        self._in_threads.__exit__()

    async def note_writes(self, tenants: Iterable[Tenant]) -> None:
        """Notes that callers of these tenants have written; to be called after the commit and before the answer. Raises
        psycopg.Error when PostgreSQL is away."""
        wanted = set(tenants)
        await self._primary.ask(note_writes(wanted), of_tenants(wanted))

    async def read(
        self,
        read: Callable[[Sequence[tuple[UUID, Item]]], Query[list[Result | None]]],
        asked: Sequence[tuple[UUID, Item]],
        visible: Visibility,
    ) -> list[Result | None]:
        """The answers for these keys, in order. None also for a key that is no longer valid, and for routes that the
        replica does not have. Raises psycopg.Error when the primary is away."""
        answers: list[Result | None] = [None] * len(asked)
        if self._rests():
            return _counted(answers)
        as_of: Query[tuple[int | None, list[Result | None]]] = _AsOf(read(asked))
        asking = self._ask(as_of, visible)
        on_replica = asyncio.create_task(asking)
        states = await self._primary.ask(ask_primary([key_id for key_id, _ in asked]), visible)
        replied = await on_replica
        if replied is None:
            return _counted(answers)
        replayed, found = replied
        may_use = await self._judge(states, replayed)
        return _counted([one if usable else None for one, usable in zip(found, may_use, strict=True)])

    def read_in_thread(self, caller: Caller, read: Callable[[Connection], Result]) -> tuple[int | None, Result] | None:
        """The answer of a replica, and the LSN that it had replayed before; `judge_one` then tells if it may be used.
        Blocks its thread."""
        if self._rests():
            return None
        try:
            with self._in_threads.pipelined_transaction(of_tenants([caller.tenant])) as connection:
                replayed = REPLAYED.one(connection)
                return replayed, read(connection)
        except psycopg.Error as error:
            self._rest("failed", error=str(error))
            return None

    async def judge_one(self, caller: Caller, replayed: int | None) -> bool:
        """Tell if the answer of a replica that had replayed `replayed` may be used. Raises psycopg.Error when the
        primary is away."""
        states = await self._primary.ask(ask_primary([caller.key_id]), of_tenants([caller.tenant]))
        (usable,) = await self._judge(states, replayed)
        ROUTE_READS.labels("replica" if usable else "primary").inc()
        return usable

    async def _ask(self, query: Query[Answer], visible: Visibility) -> Answer | None:
        try:
            return await self._async_database.ask(query, visible)
        except psycopg.Error as error:
            self._rest("failed", error=str(error))
            return None

    async def _judge(self, states: Sequence[PrimaryState | None], replayed: int | None) -> list[bool]:
        """Tell for each key if a replica that has replayed `replayed` is recent enough. A company without a noted last
        write gets one now, so that its next read may come from a replica."""
        known = [state for state in states if state is not None]
        if not known:
            return [False] * len(states)
        least = self._freshness.least_lsn(max(state.flushed for state in known), time.monotonic())
        if replayed is None or replayed < least:
            self._rest("is no replica" if replayed is None else "is too far behind", bytes=least - (replayed or 0))
            return [False] * len(states)
        if not self._is_used:
            self._is_used = True
            log.info("replica.used_again")
        unknown = [state.tenant for state in known if state.last_write is None]
        if unknown:
            await self.note_writes(unknown)
        return [state is not None and state.last_write is not None and state.last_write <= replayed for state in states]

    def _rests(self) -> bool:
        return time.monotonic() < self._rests_until

    def _rest(self, reason: str, **fields: str | int) -> None:
        self._rests_until = time.monotonic() + _REST_SECONDS
        if self._is_used:
            self._is_used = False
            log.warning("replica.not_used", reason=reason, **fields)


def _counted(answers: list[Result | None]) -> list[Result | None]:
    from_replica = sum(answer is not None for answer in answers)
    ROUTE_READS.labels("replica").inc(from_replica)
    ROUTE_READS.labels("primary").inc(len(answers) - from_replica)
    return answers
