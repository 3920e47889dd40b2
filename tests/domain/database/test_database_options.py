"""The options that every connection asks of PostgreSQL, and the longest waits for it."""

import asyncio
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing
from secrets import randbelow
from typing import NamedTuple, TypeVar

import psycopg
import pytest
import sqlalchemy

from deploy.embedded import running
from domain.database.async_connections import AsyncDatabase
from domain.database.connections import Connection, Database, DatabaseProblem, connected, open_session
from domain.database.health import ServerSilent
from domain.database.options import LEADING, SERVING, WORKING, TimeLimits
from domain.database.statements import NotNull, Query, Scalar, Statement
from domain.migrations import engine
from domain.settings import Settings
from scheduler.leader import Leadership, LeadershipLost
from tests.rows import named
from tests.servers import OverTcp
from tests.service import eventually, one_below
from tests.silence import postmaster_of, stopped

Answer = TypeVar("Answer")
ADDRESSES = ["unix", "tcp"]
BRISK = TimeLimits(statement_seconds=0.5, lock_seconds=0.2)


@pytest.fixture(scope="module")
def urls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The addresses, over TCP and over a unix socket, of a server of these tests' own, which they may stop."""
    server = OverTcp(tmp_path_factory.mktemp("over-tcp"))
    with running(server):
        yield server.urls


class _Setting(NamedTuple):
    name: NotNull[str]
    setting: NotNull[str]


SETTINGS = Statement(_Setting, "SELECT name::text, setting FROM pg_settings")


_SLEEP = Scalar(float, "SELECT seconds FROM (SELECT 2.0::float8 AS seconds, pg_sleep(2)) AS slept")


def asked(url: str, query: Query[Answer], limits: TimeLimits = SERVING) -> Answer:
    """The answer to a query that an event loop asks."""

    async def ask() -> Answer:
        async with AsyncDatabase(url, limits=limits) as database:
            return await database.ask(query)

    return asyncio.run(ask())


def sessions(url: str) -> Iterator[tuple[str, dict[str, str]]]:
    """The settings of every kind of session that the service opens."""
    query = "SELECT name, setting FROM pg_settings"
    for name, limits in (("serving", SERVING), ("working", WORKING)):
        with Database(url, limits=limits) as database:
            with database.transaction() as connection:
                yield name, dict(named(connection).execute(query).fetchall())
            with database.single_statements() as connection:
                yield f"{name} by key", dict(named(connection).execute(query).fetchall())
    yield "serving in an event loop", dict(asked(url, Query(SETTINGS, (), list)))
    with connected(url) as connection:
        yield "command", dict(named(connection).execute(query).fetchall())
    with engine(url).connect() as migrating:
        yield "migration", {row.name: row.setting for row in migrating.execute(sqlalchemy.text(query))}
    with open_session(url, LEADING) as connection:
        yield "leader", dict(named(connection).execute(query).fetchall())


@pytest.mark.parametrize("address", ADDRESSES)
def test_the_server_detects_vanished_machines_in_every_session(address: str, urls: dict[str, str]) -> None:
    """Over a unix socket, where no machine vanishes, the settings are accepted."""
    for name, found in sessions(urls[address]):
        idle, interval, count = (int(found[f"tcp_keepalives_{part}"]) for part in ("idle", "interval", "count"))
        if address == "tcp":
            assert 0 < idle + interval * count <= 30, name
            assert 0 < int(found["tcp_user_timeout"]) <= 30_000, name
        assert 0 < int(found["client_connection_check_interval"]) <= 10_000, name
        assert 0 < int(found["idle_in_transaction_session_timeout"]) <= 60_000, name


def test_no_request_and_no_job_waits_for_a_statement_or_a_lock_for_ever(settings: Settings) -> None:
    for name, found in sessions(settings.require_database_url()):
        if name.startswith("serving"):
            assert 0 < int(found["lock_timeout"]) < int(found["statement_timeout"]) < 4_000
            assert 0 < int(found["idle_in_transaction_session_timeout"]) <= 10_000
        elif name.startswith("working"):
            assert 0 < int(found["lock_timeout"]) < int(found["statement_timeout"]) <= 60_000


def test_a_held_lock_is_waited_for_within_the_limits(settings: Settings) -> None:
    url, lock = settings.require_database_url(), f"SELECT pg_advisory_xact_lock(7, {randbelow(2**31)})"
    with Database(url, limits=BRISK) as database, psycopg.connect(url) as holder:
        holder.execute(lock)
        with pytest.raises(psycopg.errors.LockNotAvailable), database.transaction() as connection:
            connection.execute(lock)


def test_a_command_whose_wait_for_a_lock_times_out_says_so(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("domain.database.connections.COMMANDING", BRISK)
    url, lock = settings.require_database_url(), f"SELECT pg_advisory_xact_lock(7, {randbelow(2**31)})"
    with psycopg.connect(url) as holder:
        holder.execute(lock)
        with pytest.raises(DatabaseProblem, match="try again when it is done"), connected(url) as connection:
            connection.execute(lock)


def test_a_statement_that_takes_too_long_is_canceled_and_the_connection_used_again(settings: Settings) -> None:
    with Database(settings.require_database_url(), pool_size=1, limits=BRISK) as database:
        with database.transaction() as connection:
            before = connection.info.backend_pid
        with pytest.raises(psycopg.errors.QueryCanceled), database.transaction() as connection:
            connection.execute("SELECT pg_sleep(5)")
        with database.transaction() as connection:
            assert connection.info.backend_pid == before


@pytest.mark.parametrize("by_key", [False, True])
def test_limits_of_a_transaction_end_with_it(settings: Settings, by_key: bool) -> None:
    with Database(settings.require_database_url(), pool_size=1, limits=BRISK) as database:
        transaction = database.pipelined_transaction if by_key else database.transaction
        with transaction(limits=TimeLimits(statement_seconds=10, lock_seconds=5)) as connection:
            named(connection).execute("SELECT pg_sleep(1.2)").fetchone()
        with pytest.raises(psycopg.errors.QueryCanceled), transaction() as connection:
            named(connection).execute("SELECT pg_sleep(1.2)").fetchone()


@pytest.mark.parametrize("address", ADDRESSES)
@pytest.mark.parametrize("use", [Database.transaction, Database.pipelined_transaction, Database.single_statements])
def test_a_silent_server_is_waited_for_within_the_limits_and_used_again_when_it_is_back(
    use: Callable[[Database], AbstractContextManager[Connection]], address: str, urls: dict[str, str]
) -> None:
    postmaster = postmaster_of(urls[address])
    with Database(urls[address], limits=BRISK) as database:
        with pytest.raises(ServerSilent), use(database) as connection, stopped(postmaster):
            named(connection).execute("SELECT 1").fetchone()
        eventually(lambda: _answers(use(database)), bool, wanted="an answer")


def test_the_idle_connections_of_a_silent_server_are_not_tried_one_after_another(
    urls: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("domain.database.connections.IDLE_SECONDS", -1)  # each is checked before it is used

    def seconds_of_six() -> float:
        with Database(urls["unix"], limits=BRISK, timeout_seconds=0.5, fail_fast=True) as database:
            with ExitStack() as held:
                for _ in range(6):
                    held.enter_context(database.transaction())
            with stopped(postmaster_of(urls["unix"])):
                started = time.monotonic()
                for _ in range(6):
                    with pytest.raises(psycopg.OperationalError), database.transaction():
                        pass
                took = time.monotonic() - started
            eventually(lambda: _answers(database.transaction()), bool, wanted="an answer")
        return took

    assert one_below(3 * BRISK.statement_seconds + 3, seconds_of_six)


def test_an_event_loop_does_not_wait_for_a_silent_server_and_works_when_it_is_back(urls: dict[str, str]) -> None:
    query = Query(SETTINGS, (), len)

    async def scenario() -> None:
        async with AsyncDatabase(urls["unix"], limits=BRISK, timeout_seconds=1) as database:
            assert await database.ask(query) > 100
            with stopped(postmaster_of(urls["unix"])):
                waits = []
                for _ in range(12):
                    started = time.monotonic()
                    with pytest.raises(psycopg.OperationalError):
                        await database.ask(query)
                    waits.append(time.monotonic() - started)
                assert statistics.median(waits) < 1, "most do not wait at all"
            async with asyncio.timeout(180):
                while True:
                    try:
                        assert await database.ask(query) > 100
                        break
                    except psycopg.OperationalError:
                        await asyncio.sleep(0.1)

    asyncio.run(scenario())


def test_an_event_loop_gives_up_a_statement_that_takes_too_long(settings: Settings) -> None:
    with pytest.raises(psycopg.errors.QueryCanceled):
        asked(settings.require_database_url(), Query(_SLEEP, (), len), BRISK)


def test_a_statement_that_takes_long_is_waited_for_as_long_as_the_server_answers(
    urls: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("domain.database.connections._PROBE_SECONDS", 0.3)
    with Database(urls["unix"], limits=WORKING) as database:
        for use in (database.transaction(), database.pipelined_transaction(), connected(urls["unix"])):
            with use as connection:
                assert named(connection).execute("SELECT 7 AS found FROM pg_sleep(1.2)").fetchall() == [(7,)]


def test_jobs_and_commands_do_not_wait_for_a_silent_server_though_their_statements_may_take_long(
    urls: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("domain.database.connections._PROBE_SECONDS", 0.3)
    postmaster = postmaster_of(urls["unix"])
    with Database(urls["unix"], limits=WORKING) as database:
        for use in (database.transaction(), connected(urls["unix"])):
            started = time.monotonic()
            with pytest.raises(ServerSilent), use as connection, stopped(postmaster):
                connection.execute("SELECT 1")
            assert time.monotonic() - started < 60


def _answers(use: AbstractContextManager[Connection]) -> bool:
    try:
        with use as connection:
            return named(connection).execute("SELECT 1").fetchone() == (1,)
    except psycopg.OperationalError:
        return False


def test_a_leader_whose_server_falls_silent_learns_that_its_lead_is_uncertain(urls: dict[str, str]) -> None:
    postmaster = postmaster_of(urls["unix"])
    with closing(Leadership(urls["unix"])) as leader:
        assert leader.try_to_lead()
        with stopped(postmaster), pytest.raises(LeadershipLost, match="did not answer"):
            leader.check()
    with closing(Leadership(urls["unix"])) as other:
        assert eventually(other.try_to_lead, bool)
