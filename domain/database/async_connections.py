"""PostgreSQL from an event loop: queries by key, each of which commits by itself.

An event loop answers many requests with one query. Work that needs a transaction uses the blocking `Database`, in a
thread or a worker.
"""

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, Self, TypeVar

import psycopg
from psycopg.abc import RV, PQGen
from psycopg.errors import ReadOnlySqlTransaction
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from domain import clock
from domain.database.connections import RECONNECT_SECONDS
from domain.database.health import (
    CHECK_SECONDS,
    IDLE_SECONDS,
    SPARE_SECONDS,
    ServerHealth,
    ServerReadOnly,
    ServerSilent,
    has_unread_data,
    is_away,
    without_double_answer,
)
from domain.database.hosts import note_primary, primary_first
from domain.database.options import AS_SERVICE, BY_KEY, SERVING, TimeLimits, pool_options, transaction_settings
from domain.database.pools import note_pool
from domain.database.psycopg_internals import WaitTimeout, keep_one
from domain.database.statements import Command, Query
from domain.database.visibility import NOTHING, Visibility, set_locally_async, set_visibility_async, visibility_settings
from domain.settings import Settings

Answer = TypeVar("Answer")


class AsyncPooledConnection(psycopg.AsyncConnection[tuple[Any, ...]]):
    """A connection that gives up on a silent server, like `connections.Connection`."""

    patience_seconds = SERVING.patience_seconds
    made_at = used_at = 0.0
    visible: Visibility | None = NOTHING
    """The rows that its statements see; None where that is not known."""

    @classmethod
    async def connect(cls, conninfo: str = "", **options: Any) -> Self:
        """Connects to the first of several hosts that answers, the last primary before the others."""
        connection = await super().connect(primary_first(conninfo), **options)
        note_primary(conninfo, connection.info)
        return connection

    async def wait(self, gen: PQGen[RV], interval: float = 0.1, timeout: float | None = None) -> RV:
        """Wait for the server's answer. After `patience_seconds` raises ServerSilent and closes the connection: a late
        answer would belong to no statement any more."""
        if timeout is not None:
            return await super().wait(gen, interval, timeout)
        try:
            return await super().wait(gen, self.patience_seconds, self.patience_seconds)
        except WaitTimeout:
            await self.close()
            raise ServerSilent(f"PostgreSQL did not answer for {self.patience_seconds:.1f} s") from None
        except psycopg.InternalError as error:
            raise without_double_answer(error, self) from None


class AsyncDatabase:
    """The connections of one event loop to one PostgreSQL."""

    def __init__(
        self,
        url: str,
        *,
        pool_size: int = 8,
        timeout_seconds: float = 3,
        limits: TimeLimits = SERVING,
        pooled: bool = False,
        is_replica: bool = False,
    ) -> None:
        """The connections are behind the second wall: a query sees the companies that its caller names, and otherwise
        nothing.

        A caller waits at most `timeout_seconds` for a connection. Once a caller has waited in vain, the others in line
        wait for hardly a second. `pooled`: `url` leads to a pooler in transaction mode. The clock is not set by a
        replica: time is the primary's."""
        self._limits = limits
        self._pooled = pooled
        settings = BY_KEY | AS_SERVICE
        self._settings = transaction_settings(limits, settings)
        self._is_replica = is_replica
        self._health = ServerHealth()
        self._pool = AsyncConnectionPool(
            url,
            min_size=0,  # see keep_one
            max_size=pool_size,
            timeout=timeout_seconds,
            connection_class=AsyncPooledConnection,
            kwargs=pool_options(limits, settings, pooled=pooled),
            configure=self._configure,
            check=self._check,  # a restarted server costs nobody a request
            max_idle=SPARE_SECONDS,
            reconnect_timeout=RECONNECT_SECONDS,
            reconnect_failed=_connect_again,
            open=False,
        )

    @classmethod
    def of(cls, settings: Settings, *, pool_size: int | None = None) -> "AsyncDatabase":
        return cls(
            settings.require_database_url(),
            pool_size=pool_size or settings.database_pool_size,
            timeout_seconds=settings.database_timeout_seconds,
            pooled=settings.is_pooled,
        )

    async def __aenter__(self) -> "AsyncDatabase":
        await self._pool.open()
        keep_one(self._pool)
        await self._pool.check()  # begins its first connection, for which the first caller waits
        note_pool(self._pool, "event_loop")
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._pool.close()

    async def ask(self, query: Query[Answer], visible: Visibility = NOTHING) -> Answer:
        """Asks PostgreSQL a query that stores nothing. If a restart cuts it off, it is asked again. Raises
        psycopg.OperationalError (PoolTimeout and ServerSilent among them) when PostgreSQL is away, and
        psycopg.errors.LockNotAvailable or QueryCanceled beyond the limits."""
        try:
            return await self.store(query, visible)
        except psycopg.OperationalError as error:
            if not is_away(error) or isinstance(error, (PoolTimeout, ServerSilent)):
                raise
        return await self.store(query, visible)

    async def store(self, query: Query[Answer], visible: Visibility = NOTHING) -> Answer:
        """Asks PostgreSQL a query that stores something. Raises the errors of `ask`. When the connection breaks, the
        caller does not know whether it is stored."""
        async with self._showing(visible) as connection:
            return await query.on_async(connection)

    async def execute(self, command: Command, parameters: Sequence[Any], visible: Visibility) -> None:
        """Executes a command that stores something. Raises psycopg.Error when PostgreSQL is away or refuses it."""
        async with self._showing(visible) as connection:
            await command.execute(connection, parameters)

    @asynccontextmanager
    async def _showing(self, visible: Visibility) -> AsyncIterator[AsyncPooledConnection]:
        """A connection for one statement, which sees what is `visible`. If the connection shows that already, nothing
        is sent. Otherwise the setting goes along in the statement's round trip and transaction."""
        async with self._borrowed() as connection:
            if self._pooled:
                # The transaction brings its settings along, and outlives the pipeline; see `Database`.
                async with connection.transaction(), connection.pipeline():
                    await set_locally_async(connection, self._settings | visibility_settings(visible))
                    yield connection
                return
            if connection.visible == visible:
                yield connection
                return
            connection.visible = None
            try:
                async with connection.pipeline():
                    await set_visibility_async(connection, visible)
                    yield connection
            except BaseException:
                # psycopg takes statements for prepared that the server skipped; a rollback makes it forget all of them.
                with suppress(psycopg.Error):
                    async with connection.transaction(force_rollback=True):
                        pass
                raise
            connection.visible = visible

    @asynccontextmanager
    async def _borrowed(self) -> AsyncIterator[AsyncPooledConnection]:
        started = time.monotonic()
        seconds = self._health.waiting_seconds()
        try:
            async with self._pool.connection(timeout=seconds) as connection:
                try:
                    yield connection
                except ReadOnlySqlTransaction as error:
                    await connection.close()
                    await self._learn_from(ServerReadOnly(str(error)), connection)
                    raise ServerReadOnly(str(error)) from error
                except psycopg.OperationalError as error:
                    await self._learn_from(error, connection)
                    raise
        except PoolTimeout:
            if seconds is None:
                self._health.note_timeout(started)
            raise

    async def _configure(self, connection: AsyncPooledConnection) -> None:
        connection.made_at = time.monotonic()
        if self._pooled:  # it takes connections while its server is away, too
            connection.patience_seconds = CHECK_SECONDS
            await clock.read_async(connection)
        connection.used_at = time.monotonic()
        self._health.note_connected()

    async def _check(self, connection: AsyncPooledConnection) -> None:
        now = time.monotonic()
        reads_clock = clock.must_be_read() and not self._is_replica
        if now - connection.used_at > IDLE_SECONDS or reads_clock or has_unread_data(connection):
            connection.patience_seconds = CHECK_SECONDS
            try:  # the time is a question like any other
                await (clock.SERVER_TIME.on_async if self._is_replica else clock.read_async)(connection)
            except psycopg.OperationalError as error:
                await self._learn_from(error, connection)
                raise
        connection.patience_seconds = self._limits.patience_seconds
        connection.used_at = now
        self._health.note_borrowed(now)

    async def _learn_from(self, error: psycopg.OperationalError, connection: AsyncPooledConnection) -> None:
        if self._health.should_drop_idle(error, connection):
            await self._pool.drain()


async def _connect_again(pool: AsyncConnectionPool[Any]) -> None:
    """Connects again after the pool has dropped a connection that the server refused. Callers that wait for a
    connection wait for this attempt."""
    if pool.get_stats()["requests_waiting"]:
        await pool.check()
