"""Transactions by key and pipelined statements are stored whole or not at all."""

import re

import psycopg
import pytest

from domain.database.connections import Connection, Database, pipelined
from tests.conftest import as_superuser, own_database
from tests.rows import named
from tests.service import eventually


def test_pipelined_statements_are_stored_together_and_a_failure_spoils_no_later_statement() -> None:
    """PostgreSQL skips what follows the failure, also statements that psycopg has it prepare."""
    with own_database("pipelined") as database:
        with database.transaction() as connection:
            connection.execute("CREATE TABLE kept (number int)")

        def store(number: int) -> int | None:
            with database.single_statements() as connection:
                with pipelined(connection):
                    connection.execute("INSERT INTO kept SELECT 10 / %s::int", (number,))
                    count = named(connection).execute("SELECT count(*) AS kept FROM kept")
                row = count.fetchone()
                return row.kept if row is not None else None

        for attempt in range(1, 9):  # psycopg prepares what it has seen five times
            with pytest.raises(psycopg.errors.DivisionByZero):
                store(0)
            assert store(attempt) == attempt

        def store_and_fail() -> None:
            with database.single_statements() as connection, pipelined(connection):
                connection.execute("INSERT INTO kept VALUES (1)")
                connection.execute("SELECT 1 / 0")

        for _ in range(6):
            with pytest.raises(psycopg.errors.DivisionByZero):
                store_and_fail()
        assert store(1) == 9


@pytest.mark.parametrize("snapshot", [False, True])
def test_a_pipelined_transaction_is_stored_whole_or_not_at_all(snapshot: bool) -> None:
    insert = "INSERT INTO kept VALUES (%s)"
    with own_database("pipelined") as database:
        with database.transaction() as connection:
            connection.execute(
                "CREATE TABLE kept (number int PRIMARY KEY DEFERRABLE INITIALLY DEFERRED CHECK (number > 0))"
            )

        def kept() -> list[int]:
            with database.pipelined_transaction(snapshot=snapshot) as connection:
                return [number for (number,) in connection.execute("SELECT number FROM kept ORDER BY 1").fetchall()]

        with database.pipelined_transaction() as connection:
            connection.execute(insert, (1,))
            connection.execute(insert, (2,))
        assert kept() == [1, 2]

        def fails_unseen(connection: Connection) -> None:
            for number in (3, -3, 4):
                connection.execute(insert, (number,))

        def fails_at_the_commit(connection: Connection) -> None:
            connection.execute(insert, (2,))

        def fails_before_another_answer(connection: Connection) -> None:
            connection.execute(insert, (-5,))
            connection.execute("SELECT count(*) FROM kept").fetchone()

        def fails_by_itself(connection: Connection) -> None:
            connection.execute(insert, (6,))
            assert connection.execute("SELECT count(*) FROM kept").fetchone() == (3,)
            raise ZeroDivisionError

        for work, error in (
            (fails_unseen, psycopg.errors.CheckViolation),
            (fails_at_the_commit, psycopg.errors.UniqueViolation),
            (fails_before_another_answer, psycopg.errors.CheckViolation),
            (fails_by_itself, ZeroDivisionError),
        ):
            with pytest.raises(error), database.pipelined_transaction() as connection:
                work(connection)
        assert kept() == [1, 2]

        for number in range(10, 30):  # often enough for each statement to be prepared
            with database.pipelined_transaction() as connection:
                connection.execute(insert, (number,))
        assert kept() == [1, 2, *range(10, 30)]


def test_one_session_begins_and_another_for_who_finds_rows_by_key() -> None:
    """A process that nobody asks for anything has one, too: by it the doctor knows that the process runs."""
    with as_superuser() as look, own_database("sessions") as database:
        eventually(lambda: sessions(look, database), lambda count: count == 1)
        with database.transaction():
            assert sessions(look, database) == 1
        with database.single_statements() as connection:
            connection.execute("SELECT 1")
        assert sessions(look, database) == 2


def sessions(look: psycopg.Connection, database: Database) -> int:
    name = re.search(r"/([^/?]+)\?", database.url)
    assert name is not None
    return look.execute("SELECT FROM pg_stat_activity WHERE datname = %s", (name[1],)).rowcount
