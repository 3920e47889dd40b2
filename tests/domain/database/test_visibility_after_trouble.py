"""The next borrower of a connection sees what it names, whatever happened to the borrower before: errors, rollbacks,
time-outs, cancelled tasks, lost connections."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from functools import partial
from typing import Any
from uuid import UUID

import psycopg
import pytest

from domain.database import connections
from domain.database.async_connections import AsyncDatabase
from domain.database.connections import Connection, Database, pipelined
from domain.database.options import SERVING
from domain.database.statements import Query, Scalar
from domain.database.visibility import EVERYTHING, NOTHING, Visibility, of_companies, set_visibility
from domain.ids import new_id
from tests.conftest import own_database

Begin = Callable[..., AbstractContextManager[Connection]]

WAYS = ("transaction", "pipelined_transaction", "single_statements")

_COMPANIES = Scalar(UUID, "SELECT id FROM companies ORDER BY id")
_COMPANIES_LATER = Scalar(UUID, "SELECT id FROM companies, pg_sleep(%s::float8) ORDER BY id")


class Trouble(Exception):
    pass


@pytest.fixture(scope="module")
def companies() -> Iterator[tuple[str, list[UUID]]]:
    """The URL of a database, and its two companies."""
    with own_database("trouble") as owner:
        ids = [new_id(), new_id()]
        with owner.transaction() as connection:
            for one in ids:
                connection.execute("INSERT INTO companies (id, name) VALUES (%s, 'Acme')", (one,))
        yield owner.url, ids


@pytest.fixture
def single(companies: tuple[str, list[UUID]]) -> Iterator[Database]:
    """A database of one connection for each kind of work: the next borrower gets the one that was in trouble."""
    with Database(companies[0], pool_size=1, limits=SERVING, visible=lambda: NOTHING) as database:
        yield database


def seen(connection: Connection) -> list[UUID]:
    return _COMPANIES.all(connection)


def assert_all_see_what_they_name(database: Database, ids: list[UUID]) -> None:
    for way in WAYS:
        begin: Begin = getattr(database, way)
        for visible, expected in ((None, []), (of_companies([ids[1]]), [ids[1]]), (EVERYTHING, ids), (NOTHING, [])):
            with begin(visible) as connection:
                assert seen(connection) == expected, way


def fails(connection: Connection) -> None:
    connection.execute("SELECT 1 / 0")


def fails_after_it_was_read(connection: Connection) -> None:
    assert len(seen(connection)) == 1
    connection.execute("SELECT 1 / 0").fetchone()


def gives_up(connection: Connection) -> None:
    raise Trouble


def loses_its_connection(connection: Connection) -> None:
    connection.execute("SELECT pg_terminate_backend(pg_backend_pid())").fetchone()


def takes_too_long(connection: Connection) -> None:
    connection.execute("SET statement_timeout = 20")
    try:
        connection.execute("SELECT pg_sleep(5)").fetchone()
    finally:  # where each statement commits by itself, the session would keep it: 20 ms may be short on a busy machine
        with suppress(psycopg.Error):
            connection.execute("RESET statement_timeout")


def is_cancelled(connection: Connection) -> None:
    threading.Timer(0.05, connection.cancel_safe).start()
    connection.execute("SELECT pg_sleep(5)").fetchone()


def rolls_back(connection: Connection) -> None:
    connection.execute("ROLLBACK")


def rolls_back_to_a_savepoint(connection: Connection) -> None:
    with suppress(Trouble), connection.transaction():
        set_visibility(connection, EVERYTHING)
        raise Trouble
    raise Trouble


def fails_in_a_pipeline(connection: Connection) -> None:
    with pipelined(connection):
        set_visibility(connection, EVERYTHING)
        connection.execute("SELECT 1 / 0")
        seen(connection)


def widens_its_view(connection: Connection) -> None:
    set_visibility(connection, EVERYTHING)


TROUBLES: tuple[Callable[[Connection], None], ...] = (
    fails,
    fails_after_it_was_read,
    gives_up,
    loses_its_connection,
    takes_too_long,
    is_cancelled,
    rolls_back,
    rolls_back_to_a_savepoint,
    fails_in_a_pipeline,
    widens_its_view,
)


@pytest.mark.parametrize("trouble", TROUBLES, ids=lambda one: one.__name__)
@pytest.mark.parametrize("way", WAYS)
def test_trouble_of_one_borrower_shows_the_next_one_nothing(
    single: Database, companies: tuple[str, list[UUID]], way: str, trouble: Callable[[Connection], None]
) -> None:
    _, ids = companies
    begin: Begin = getattr(single, way)
    for _ in range(2):
        with suppress(psycopg.Error, Trouble), begin(of_companies([ids[0]])) as connection:
            trouble(connection)
    assert_all_see_what_they_name(single, ids)


@pytest.mark.parametrize("error", [KeyboardInterrupt, psycopg.OperationalError])
def test_a_thread_that_is_interrupted_while_it_sets_its_view_shows_the_next_one_nothing(
    single: Database, companies: tuple[str, list[UUID]], monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    """The server has the new view, the connection does not know it yet."""
    _, ids = companies

    def set_and_fail(*arguments: Any, **more: Any) -> None:
        set_visibility(*arguments, **more)
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(connections, "set_visibility", set_and_fail)
        with pytest.raises(error), single.single_statements(of_companies([ids[0]])):
            pass
    assert_all_see_what_they_name(single, ids)


# --- From an event loop ------------------------------------------------------------------------------------------


def ask(*parameters: float) -> Query[list[UUID]]:
    statement = _COMPANIES_LATER if parameters else _COMPANIES
    return Query(statement, parameters, lambda rows: rows)


FAILING: Query[Any] = Query(Scalar(UUID, "SELECT id FROM companies WHERE 1 / (random() * 0)::int = 1"), (), list)


async def assert_queries_see_what_they_name(database: AsyncDatabase, ids: list[UUID]) -> None:
    for visible, expected in ((NOTHING, []), (of_companies([ids[1]]), [ids[1]]), (EVERYTHING, ids)):
        assert await database.ask(ask(), visible) == expected
        assert await database.store(ask(), visible) == expected
        assert await database.ask(ask(), Visibility(*NOTHING)) == []


def test_failed_and_cancelled_queries_of_an_event_loop_show_the_next_one_nothing(
    companies: tuple[str, list[UUID]],
) -> None:
    url, ids = companies

    async def run() -> None:
        async with AsyncDatabase(url, pool_size=1) as database:
            for attempt in range(7):  # psycopg prepares what it has seen five times
                with pytest.raises(psycopg.errors.DivisionByZero):
                    await database.store(FAILING, of_companies([ids[0]]))
                await assert_queries_see_what_they_name(database, ids)
                task = asyncio.ensure_future(database.ask(ask(1.0), of_companies([ids[0]])))
                for _ in range(3 * attempt):
                    await asyncio.sleep(0)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                await assert_queries_see_what_they_name(database, ids)

    asyncio.run(run())


def test_a_statement_that_waited_in_vain_to_be_prepared_is_prepared_later(companies: tuple[str, list[UUID]]) -> None:
    """psycopg took it for prepared, and the connection refused it from then on."""
    url, ids = companies
    impatient = SERVING._replace(lock_seconds=0.02)

    async def run() -> None:
        async with AsyncDatabase(url, pool_size=1, limits=impatient) as database:
            see = partial(database.store, ask(), EVERYTHING)
            for _ in range(5):
                assert await see() == ids
            with psycopg.connect(url) as stranger:
                stranger.execute("LOCK companies")
                with pytest.raises(psycopg.errors.LockNotAvailable):
                    await see()
            assert await see() == ids

    asyncio.run(run())
