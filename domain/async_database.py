"""PostgreSQL from an event loop: queries by key, each of which commits by itself.

An event loop asks many requests' questions in one query. What takes a transaction is for the blocking `Database`, in a
thread or a worker.
"""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import psycopg
from psycopg.abc import RV, PQGen
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from domain.database import AWAY_SECONDS, HURRY_SECONDS, IDLE_SECONDS, SERVING, Limits, ServerSilent, by_key_options
from domain.observability import get_logger
from domain.settings import Settings
from domain.statements import Command, Query

log = get_logger(__name__)

Answer = TypeVar("Answer")


class AsyncSession(psycopg.AsyncConnection[tuple[Any, ...]]):
    """A connection that does not wait for ever, as `database.Session`."""

    patience_seconds = SERVING.patience_seconds
    used_at = 0.0

    async def wait(self, gen: PQGen[RV], interval: float = 0.1, timeout: float | None = None) -> RV:
        """Raises ServerSilent and closes the connection: a late answer would belong to no statement any more."""
        if timeout is not None:
            return await super().wait(gen, interval, timeout)
        try:
            return await super().wait(gen, self.patience_seconds, self.patience_seconds)
        except psycopg.errors._WaitTimeout:
            await self.close()
            raise ServerSilent(f"PostgreSQL did not answer for {self.patience_seconds:.1f} s") from None


class AsyncDatabase:
    """The connections of one event loop to one PostgreSQL."""

    def __init__(self, url: str, *, pool_size: int = 8, timeout_seconds: float = 3, limits: Limits = SERVING) -> None:
        """Whoever asks waits `timeout_seconds` for a connection. After one has waited in vain, all others fail at once
        for a second, so those that stood in line do not wait as long again."""
        self._limits = limits
        self._away_until = 0.0
        self._pool = AsyncConnectionPool(
            url,
            min_size=1,
            max_size=pool_size,
            timeout=timeout_seconds,
            connection_class=AsyncSession,
            kwargs=by_key_options(limits),
            check=self._check,  # a restarted server costs nobody a request
            reconnect_timeout=5,
            open=False,
        )

    @classmethod
    def of(cls, settings: Settings) -> "AsyncDatabase":
        return cls(
            settings.require_database_url(),
            pool_size=settings.database_pool_size,
            timeout_seconds=settings.database_timeout_seconds,
        )

    async def __aenter__(self) -> "AsyncDatabase":
        await self._pool.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._pool.close()

    async def ask(self, query: Query[Answer]) -> Answer:
        """What PostgreSQL answers. Raises psycopg.OperationalError (PoolTimeout and ServerSilent among them) when it is
        away, and psycopg.errors.LockNotAvailable or QueryCanceled beyond the limits."""
        async with self._lent() as connection:
            return await query.on_async(connection)

    async def copy(self, command: Command, lines: str) -> None:
        """Stores rows in COPY's text format, all or none. Raises psycopg.Error, likewise."""
        async with self._lent() as connection, connection.cursor() as cursor, cursor.copy(command.text) as copying:
            await copying.write(lines)

    @asynccontextmanager
    async def _lent(self) -> AsyncIterator[AsyncSession]:
        hurry = time.monotonic() < self._away_until
        try:
            async with self._pool.connection(timeout=HURRY_SECONDS if hurry else None) as connection:
                yield connection
        except PoolTimeout:
            if not hurry:
                self._away_until = time.monotonic() + AWAY_SECONDS
            raise
        except ServerSilent as error:
            await self._forget_connections(error)
            raise

    async def _check(self, connection: AsyncSession) -> None:
        connection.patience_seconds = self._limits.patience_seconds
        now = time.monotonic()
        if now - connection.used_at > IDLE_SECONDS:
            try:
                await AsyncConnectionPool.check_connection(connection)
            except ServerSilent as error:
                await self._forget_connections(error)
                raise
        connection.used_at = now

    async def _forget_connections(self, error: ServerSilent) -> None:
        """Drops the idle connections. They are as silent as this one, and would be tried one by one."""
        log.warning("database.silent", error=str(error))
        self._away_until = time.monotonic() + AWAY_SECONDS
        await self._pool.drain()
