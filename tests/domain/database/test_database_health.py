"""PostgreSQL ends connections that lie idle, as a restart or a fail-over does: nobody who asks afterwards notices."""

import asyncio
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, suppress
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict
from psycopg.sql import SQL, Identifier
from psycopg_pool import PoolTimeout

from domain.database import health
from domain.database.async_connections import AsyncDatabase, AsyncPooledConnection
from domain.database.connections import Connection, Database, pipelined
from domain.database.health import CHECK_SECONDS, HURRY_SECONDS, ServerSilent, is_away
from domain.database.options import SERVING
from domain.database.statements import Query, Scalar
from tests.conftest import make_database
from tests.rows import named
from tests.servers import SilentProxy
from tests.service import eventually, one_below

CONNECTIONS = 6
USES = [Database.transaction, Database.pipelined_transaction, Database.single_statements]

Use = Callable[[Database], AbstractContextManager[Connection]]


ONE = Query(Scalar(int, "SELECT 1"), (), lambda rows: rows[0])
LONG = Query(Scalar(int, "SELECT 1 FROM pg_sleep(1.5)"), (), lambda rows: rows[0])
SLOW = Query(Scalar(int, "SELECT 1 FROM pg_sleep(0.3)"), (), lambda rows: rows[0])


@pytest.fixture
def url() -> str:
    return make_database("restarts", template="template1")


def end_connections(url: str) -> int:
    with psycopg.connect(url, autocommit=True) as admin:
        rows = admin.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
        ).fetchall()
    return len(rows)


def wait_for_sleepers(url: str, count: int) -> None:
    """Return when so many connections sleep in PostgreSQL."""
    with psycopg.connect(url, autocommit=True) as admin:
        while (
            admin.execute(
                "SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'"
            ).rowcount
            < count
        ):
            time.sleep(0.02)


def fill(database: Database) -> None:
    """Both pools get their connections."""
    for use in (Database.transaction, Database.single_statements):
        with ExitStack() as held:
            for _ in range(CONNECTIONS):
                connection = held.enter_context(use(database))
                connection.execute("SELECT 1")


@pytest.mark.parametrize("idle_seconds", [0.0, 2.0])
@pytest.mark.parametrize("use", USES)
def test_connections_that_ended_while_idle_fail_no_transaction(url: str, use: Use, idle_seconds: float) -> None:
    def slowest_after_the_end() -> float:
        with Database(url, limits=SERVING, fail_fast=True) as database:
            fill(database)
            time.sleep(idle_seconds)
            assert end_connections(url) >= 2 * CONNECTIONS
            return max(seconds_of(use, database) for _ in range(2 * CONNECTIONS))

    assert one_below(1, slowest_after_the_end)


def seconds_of(use: Use, database: Database) -> float:
    started = time.monotonic()
    with use(database) as connection:
        assert named(connection).execute("SELECT 1").fetchone() == (1,)
    return time.monotonic() - started


@pytest.mark.parametrize("idle_seconds", [0.0, 2.0])
def test_an_event_loop_s_queries_succeed_though_its_idle_connections_ended(url: str, idle_seconds: float) -> None:
    async def slowest_after_the_end() -> float:
        slowest = 0.0
        async with AsyncDatabase(url) as database:
            await asyncio.gather(*(database.ask(SLOW) for _ in range(CONNECTIONS)))
            await asyncio.sleep(idle_seconds)
            assert await asyncio.to_thread(end_connections, url) >= CONNECTIONS
            for at_once in (1, CONNECTIONS, 1):
                started = time.monotonic()
                assert await asyncio.gather(*(database.ask(ONE) for _ in range(at_once))) == [1] * at_once
                slowest = max(slowest, time.monotonic() - started)
        return slowest

    assert one_below(1, lambda: asyncio.run(slowest_after_the_end()))


def test_a_query_cut_off_by_a_restart_is_repeated_and_nothing_is_stored_twice(url: str) -> None:
    async def scenario() -> None:
        async with AsyncDatabase(url) as database:
            asked, stored = asyncio.create_task(database.ask(LONG)), asyncio.create_task(database.store(LONG))
            await asyncio.to_thread(wait_for_sleepers, url, 2)
            assert await asyncio.to_thread(end_connections, url) >= 2
            assert await asked == 1
            with pytest.raises(psycopg.OperationalError) as failure:
                await stored
            assert is_away(failure.value)

    asyncio.run(scenario())


class FullPool:
    """A pool that has no connection for its caller, while others get one, or nobody does."""

    def __init__(self, meanwhile: Callable[[], object]) -> None:
        self._meanwhile = meanwhile

    @contextmanager
    def connection(self, timeout: float | None) -> Iterator[Connection]:
        self._meanwhile()
        raise PoolTimeout
        yield  # never


@pytest.mark.parametrize(("others_get_one", "seconds"), [(True, None), (False, HURRY_SECONDS)])
def test_a_timeout_at_a_busy_pool_does_not_shorten_later_waits(
    url: str, monkeypatch: pytest.MonkeyPatch, others_get_one: bool, seconds: float | None
) -> None:
    """The server answers, so later waits have their whole time. Where nobody got a connection, it counts as away."""
    monkeypatch.setattr(health, "AWAY_SECONDS", 600)
    with Database(url, fail_fast=True) as database:
        pool: Any = FullPool(lambda: others_get_one and seconds_of(Database.transaction, database))
        with pytest.raises(PoolTimeout), database._borrowed(pool):
            pass
        assert database._health.waiting_seconds() == seconds


def test_connections_that_the_server_ended_for_idling_fail_no_transaction(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as admin:
        name = conninfo_to_dict(url)["dbname"]
        admin.execute(SQL("ALTER DATABASE {} SET idle_session_timeout = 500").format(Identifier(str(name))))
    with Database(url, limits=SERVING, fail_fast=True) as database:
        fill(database)
        eventually(lambda: backends(url), lambda found: not found)
        for use in USES:
            seconds_of(use, database)


def test_a_statement_that_fails_ends_no_other_connection(url: str) -> None:
    with Database(url, limits=SERVING) as database:
        fill(database)
        before = backends(url)
        for use in USES:
            with pytest.raises(psycopg.errors.DivisionByZero), use(database) as connection, pipelined(connection):
                connection.execute("SELECT 1 / 0")
        assert len(before & backends(url)) >= len(before) - len(USES)


def backends(url: str) -> set[int]:
    with psycopg.connect(url) as admin:
        rows = admin.execute(
            "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
            " AND backend_type = 'client backend'"
        ).fetchall()
    return {pid for (pid,) in rows}


@pytest.fixture
def proxy() -> Iterator[SilentProxy]:
    """In front of the tests' server."""
    info = conninfo_to_dict(make_database("proxied", template="template1"))
    with closing(SilentProxy(f"{info['host']}/.s.PGSQL.{info['port']}")) as one:
        one.url = f"postgresql://{info['user']}@127.0.0.1:{one.port}/{info['dbname']}"
        yield one


@pytest.mark.parametrize("use", USES)
def test_a_transaction_waits_a_second_for_a_machine_that_vanished(proxy: SilentProxy, use: Use) -> None:
    """After a fail-over the address leads to another machine, and the old one says nothing any more."""

    def seconds_of_all() -> float:
        with Database(proxy.url, limits=SERVING, fail_fast=True) as database:
            fill(database)
            time.sleep(1.2)
            proxy.fall_silent()
            return sum(seconds_of(use, database) for _ in range(2 * CONNECTIONS))

    assert one_below(CHECK_SECONDS + 2, seconds_of_all)


def test_an_event_loop_waits_a_second_for_a_machine_that_vanished(proxy: SilentProxy) -> None:
    async def seconds_of_all() -> float:
        async with AsyncDatabase(proxy.url) as database:
            await asyncio.gather(*(database.ask(SLOW) for _ in range(CONNECTIONS)))
            await asyncio.sleep(1.2)
            proxy.fall_silent()
            started = time.monotonic()
            assert await asyncio.gather(*(database.ask(ONE) for _ in range(CONNECTIONS))) == [1] * CONNECTIONS
            assert await database.ask(ONE) == 1
            return time.monotonic() - started

    assert one_below(CHECK_SECONDS + 2, lambda: asyncio.run(seconds_of_all()))


@contextmanager
def pooler(answer: bytes = b"") -> Iterator[str]:
    """The address of a pooler that has lost its server. It lets clients in, and answers the first question of each with
    `answer`, or never."""

    def accept() -> None:
        with suppress(OSError):  # closed: the test is over
            while True:
                threading.Thread(target=serve, args=listener.accept()[:1], daemon=True).start()

    def serve(near: socket.socket) -> None:
        with near, suppress(OSError):
            near.recv(int.from_bytes(near.recv(4), "big") - 4)
            near.sendall(message(b"R", bytes(4)) + message(b"S", b"client_encoding\0UTF8\0") + message(b"Z", b"I"))
            near.recv(4096)
            near.sendall(answer)
            while not answer and near.recv(4096):
                pass

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=accept, daemon=True).start()
        yield f"host=127.0.0.1 port={listener.getsockname()[1]} user=u sslmode=disable gssencmode=disable"
        listener.shutdown(socket.SHUT_RDWR)


def message(kind: bytes, body: bytes) -> bytes:
    return kind + struct.pack("!I", len(body) + 4) + body


def last_words(state: str, text: str) -> bytes:
    return message(b"E", f"SFATAL\0VFATAL\0C{state}\0M{text}\0\0".encode())


LAST_WORDS = last_words("57P01", "terminating connection due to administrator command") + last_words(
    "08P01", "server conn crashed?"
)
"""A server that is ended says the first words. PgBouncer passes them on, adds the others, and hangs up."""


def test_a_server_that_a_pooler_loses_in_a_begin_is_away() -> None:
    """It is no fault of the work: that would give up a driver's menu, or count an attempt of an import."""
    with pooler(LAST_WORDS) as url, closing(Connection.connect(url, autocommit=True)) as connection:
        with pytest.raises(psycopg.OperationalError) as failure, connection.transaction():
            pass
        assert is_away(failure.value)


def test_an_event_loop_learns_of_it_too() -> None:
    async def scenario(url: str) -> None:
        connection = await AsyncPooledConnection.connect(url, autocommit=True)
        with pytest.raises(psycopg.OperationalError) as failure:
            async with connection.transaction():
                pass
        assert is_away(failure.value)
        await connection.close()

    with pooler(LAST_WORDS) as url:
        asyncio.run(scenario(url))


@pytest.mark.parametrize("use", USES)
def test_a_pooler_without_a_server_is_away_though_it_lets_clients_in(use: Use) -> None:
    """Each statement would else wait its full time for an answer, and after it the next one."""
    with pooler() as url, Database(url, limits=SERVING, timeout_seconds=0.2, fail_fast=True, pooled=True) as database:
        for _ in range(2):
            with pytest.raises(PoolTimeout), use(database):
                pass


def test_an_event_loop_does_not_wait_for_a_pooler_without_a_server() -> None:
    async def scenario(url: str) -> None:
        async with AsyncDatabase(url, timeout_seconds=0.2, pooled=True) as database:
            for _ in range(2):
                with pytest.raises(PoolTimeout):
                    await database.ask(ONE)

    with pooler() as url:
        asyncio.run(scenario(url))


def test_a_statement_under_way_is_given_up_when_the_pooler_has_lost_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would else wait for all of its time: longer than the claim of a message, which another worker would repeat."""
    for name in ("_PROBE_SECONDS", "_PROBE_PATIENCE_SECONDS"):
        monkeypatch.setattr(f"domain.database.connections.{name}", 0.1)

    def ask(url: str) -> float:
        started = time.monotonic()
        with closing(Connection.connect(url, autocommit=True)) as connection:
            connection.url, connection.is_pooled, connection.patience_seconds = url, True, 3
            with pytest.raises(ServerSilent):
                connection.execute("SELECT 1")
        return time.monotonic() - started

    with pooler() as url:
        assert one_below(2.5, lambda: ask(url))
