"""psycopg's private names are those of the version that is pinned."""

import asyncio
import inspect
import time
from collections.abc import Callable
from contextlib import closing
from typing import Any

import psycopg
import pytest
from psycopg.abc import PQGen
from psycopg_pool import ConnectionPool

from domain.database.psycopg_internals import WaitTimeout, keep_one
from domain.settings import Settings
from tests.service import eventually


class Counting(psycopg.Connection[tuple[Any, ...]]):
    waits = 0

    def wait(self, gen: PQGen[Any], interval: float = 0.1, timeout: float | None = None) -> Any:
        self.waits += 1
        return super().wait(gen, interval, timeout)


class AsyncCounting(psycopg.AsyncConnection[tuple[Any, ...]]):
    waits = 0

    async def wait(self, gen: PQGen[Any], interval: float = 0.1, timeout: float | None = None) -> Any:
        self.waits += 1
        return await super().wait(gen, interval, timeout)


@pytest.mark.parametrize("wait", [psycopg.Connection.wait, psycopg.AsyncConnection.wait])
def test_psycopg_s_wait_takes_the_parameters_that_we_give(wait: Callable[..., Any]) -> None:
    assert list(inspect.signature(wait).parameters) == ["self", "gen", "interval", "timeout"]


def test_a_connection_waits_for_each_statement(settings: Settings) -> None:
    with Counting.connect(settings.require_database_url(), autocommit=True) as connection:
        before = connection.waits
        connection.execute("SELECT 1")
        assert connection.waits == before + 1


def test_a_wait_raises_its_error_when_its_time_is_over(settings: Settings) -> None:
    with closing(psycopg.connect(settings.require_database_url(), autocommit=True)) as connection:
        connection.pgconn.send_query(b"SELECT pg_sleep(5)")
        with pytest.raises(WaitTimeout):
            connection.wait(psycopg.generators.fetch_many(connection.pgconn), timeout=0.05)


def test_an_asynchronous_wait_raises_its_error_when_its_time_is_over(settings: Settings) -> None:
    async def scenario() -> None:
        url = settings.require_database_url()
        async with await AsyncCounting.connect(url, autocommit=True) as connection:
            before = connection.waits
            await connection.execute("SELECT 1")
            assert connection.waits == before + 1
            connection.pgconn.send_query(b"SELECT pg_sleep(5)")
            with pytest.raises(WaitTimeout):
                await connection.wait(psycopg.generators.fetch_many(connection.pgconn), timeout=0.05)
            await connection.close()

    asyncio.run(scenario())


def test_a_pool_begins_with_its_first_caller_and_keeps_one_connection(settings: Settings) -> None:
    url = settings.require_database_url()
    with ConnectionPool(url, min_size=0, max_size=2, max_idle=0.05, open=True) as pool:
        assert pool.get_stats()["pool_size"] == 0
        with pool.connection():
            keep_one(pool)
            assert pool.get_stats()["pool_size"] == 1
            with pool.connection():
                assert pool.get_stats()["pool_size"] == 2
        eventually(lambda: pool.get_stats()["pool_size"], lambda size: size == 1)
        time.sleep(0.2)  # it would lose one in 0.05 s
        assert pool.get_stats()["pool_size"] == 1
