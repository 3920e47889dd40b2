"""Jobs ride on the transaction: they are put once it has committed, and dropped with what is rolled back."""

import ast
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from functools import partial

import psycopg
import pytest

from domain.database.connections import Connection, Database, connected, pipelined
from domain.database.statements import Command
from domain.ids import new_id
from domain.queue.job_queue import JobQueue
from domain.queue.jobs import Job, after_commit, build_plan_job
from domain.queue.redis_clients import redis_client
from domain.settings import Settings
from tests.domain.test_import_order import modules
from tests.factories import make_fleet
from tests.jobs import jobs_of

FIRST, SECOND = build_plan_job(new_id()), build_plan_job(new_id())

_IS_STORED = Command("SELECT FROM companies WHERE id = %s")
_DIVIDE = Command("SELECT FROM (SELECT 1) AS one WHERE 1 / %s::int = 1")

Use = Callable[[], AbstractContextManager[Connection]]


@pytest.fixture
def put() -> list[Job]:
    """The jobs that were put."""
    return []


@pytest.fixture
def own(settings: Settings, put: list[Job]) -> Iterator[Database]:
    """One connection in each of its pools, so that each transaction has the connection of the one before."""
    with Database(settings.require_database_url(), pool_size=1, put_jobs=lambda *jobs: put.extend(jobs)) as opened:
        yield opened


@pytest.fixture(params=["transaction", "pipelined transaction", "transaction behind a pooler", "command"])
def begin(request: pytest.FixtureRequest, settings: Settings, own: Database, put: list[Job]) -> Iterator[Use]:
    """Every kind of transaction."""
    url = settings.require_database_url()
    with Database(url, pool_size=1, pooled=True, put_jobs=lambda *jobs: put.extend(jobs)) as pooled:
        uses: dict[str, Use] = {
            "transaction": own.transaction,
            "pipelined transaction": own.pipelined_transaction,
            "transaction behind a pooler": pooled.pipelined_transaction,
            "command": partial(connected, url, lambda *jobs: put.extend(jobs)),
        }
        yield uses[request.param]


def test_jobs_are_put_in_order_after_the_commit(begin: Use, put: list[Job]) -> None:
    with begin() as connection:
        after_commit(connection, FIRST)
        with connection.transaction():
            after_commit(connection, SECOND)
        assert put == []

    assert put == [FIRST, SECOND]


def test_what_a_job_asks_for_is_committed_when_it_is_put(settings: Settings, database: Database) -> None:
    seen = []

    def look(job: Job) -> None:
        with database.transaction() as other:
            seen.append(_IS_STORED.first(other, (job.company_id,)) is not None)

    with Database(settings.require_database_url(), put_jobs=look) as own:
        for begin in (own.transaction, own.pipelined_transaction, own.single_statements):
            with begin() as connection:
                after_commit(connection, build_plan_job(new_id(), make_fleet(connection).company_id))

    assert seen == [True, True, True]


def test_an_exception_drops_the_jobs_and_leaves_none_to_the_next_transaction(begin: Use, put: list[Job]) -> None:
    with suppress(ZeroDivisionError), begin() as connection:
        after_commit(connection, FIRST)
        raise ZeroDivisionError
    with begin() as connection:
        assert jobs_of(connection) == []

    assert put == []


def test_a_failing_commit_drops_the_jobs(begin: Use, put: list[Job]) -> None:
    """In a pipeline the failure of a statement shows when its answer is read, at the end at the latest."""
    with suppress(psycopg.errors.DivisionByZero), begin() as connection:
        after_commit(connection, FIRST)
        _DIVIDE.execute(connection, (0,))

    assert put == []


def test_a_savepoint_that_rolls_back_drops_its_jobs_alone(begin: Use, put: list[Job]) -> None:
    with begin() as connection:
        after_commit(connection, FIRST)
        with suppress(ZeroDivisionError), connection.transaction():
            after_commit(connection, SECOND)
            raise ZeroDivisionError
        with connection.transaction():
            after_commit(connection, SECOND)
            raise psycopg.Rollback
        with connection.transaction(force_rollback=True), connection.transaction():
            after_commit(connection, SECOND)

    assert put == [FIRST]


def test_a_statement_that_fails_inside_of_a_savepoint_drops_its_jobs(begin: Use, put: list[Job]) -> None:
    with begin() as connection:
        after_commit(connection, FIRST)
        with suppress(psycopg.errors.DivisionByZero), connection.transaction():
            after_commit(connection, SECOND)
            _DIVIDE.execute(connection, (0,))

    assert put == [FIRST]


def test_statements_that_are_sent_together_keep_their_jobs(own: Database, put: list[Job]) -> None:
    with own.transaction() as connection, pipelined(connection):
        after_commit(connection, FIRST)
        _DIVIDE.execute(connection, (1,))

    assert put == [FIRST]


def test_a_transaction_that_is_rolled_back_on_purpose_puts_nothing(begin: Use, put: list[Job]) -> None:
    with begin() as connection, connection.transaction():
        after_commit(connection, FIRST)
        raise psycopg.Rollback

    assert put == []


def test_single_statements_put_their_jobs_at_the_end(own: Database, put: list[Job]) -> None:
    with own.single_statements() as connection:
        after_commit(connection, FIRST)
        assert put == []
    with suppress(ZeroDivisionError), own.single_statements() as connection:
        after_commit(connection, SECOND)
        raise ZeroDivisionError

    assert put == [FIRST]


def test_a_redis_that_is_away_fails_no_committed_transaction(settings: Settings, database: Database) -> None:
    with redis_client("redis://127.0.0.1:1/0") as nowhere:
        put = JobQueue(nowhere).put
        with Database(settings.require_database_url(), put_jobs=put) as own, own.transaction() as connection:
            company_id = make_fleet(connection).company_id
            after_commit(connection, FIRST)

    with database.transaction() as connection:
        assert _IS_STORED.first(connection, (company_id,)) is not None


def test_a_process_without_a_queue_drops_its_jobs(settings: Settings) -> None:
    with Database(settings.require_database_url()) as own, own.transaction() as connection:
        after_commit(connection, FIRST)


@pytest.mark.parametrize("package", ["ingress", "scheduler", "workers"])
def test_every_database_of_a_service_puts_its_jobs(package: str) -> None:
    opened = {
        f"{module}: {ast.unparse(node)}": [keyword.arg for keyword in node.keywords]
        for module, path in modules(package).items()
        if "Database" in (text := path.read_text(encoding="utf-8"))
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("Database", "Database.of")
    }

    assert opened
    without = {call for call, given in opened.items() if "put_jobs" not in given}
    assert {call for call in without if "replica" not in call} == set()  # a replica is only read
