"""A pooler in transaction mode between us and PostgreSQL: no statement counts on the session of the one before it."""

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple
from uuid import UUID, uuid4

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from deploy.embedded import running
from domain.database.async_connections import AsyncDatabase
from domain.database.checks import check_server, check_servers
from domain.database.connections import Connection, Database, DatabaseProblem
from domain.database.health import is_away
from domain.database.options import SERVING, TimeLimits
from domain.database.statements import NotNull, Query, Statement
from domain.database.visibility import EVERYTHING, NOTHING, SERVICE_ROLE, Visibility, of_companies, of_tenants
from domain.lifecycle import Environment
from domain.migrations import migrate
from domain.operations.server_checks import DatabaseCheck
from domain.settings import Settings
from tests.debian import program, running_program
from tests.factories import JOLIET, route_body
from tests.ports import own_port
from tests.rows import named
from tests.servers import OverTcp, own_redis
from tests.service import running_service

Use = Callable[[Database, Visibility], AbstractContextManager[Connection]]

USES: list[Use] = [Database.transaction, Database.pipelined_transaction, Database.single_statements]


class _Seen(NamedTuple):
    companies: NotNull[str]
    environments: NotNull[str]
    role: NotNull[str]
    statement_timeout: NotNull[str]


SEEN = Statement(
    _Seen,
    "SELECT coalesce(current_setting('fuelroute.companies', true), '') AS companies,"
    " coalesce(current_setting('fuelroute.environments', true), '') AS environments, current_user::text AS role,"
    " current_setting('statement_timeout') AS statement_timeout",
)


class Pooler:
    """A PgBouncer in transaction mode before a PostgreSQL."""

    def __init__(self, direct: str, port: int) -> None:
        self.direct = direct
        self.url = f"postgresql://postgres@127.0.0.1:{port}/postgres"
        self.settings = Settings(
            database_url=self.url, database_direct_url=direct, redis_url="redis://127.0.0.1:1/0", data=Path("/nowhere")
        )

    def database(self, **options: object) -> Database:
        return Database(self.url, limits=SERVING, visible=lambda: NOTHING, pooled=True, **options)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    own = OverTcp(tmp_path_factory.mktemp("postgres"))
    with running(own):
        migrate(own.urls["tcp"])
        yield own.urls["tcp"]


@pytest.fixture(scope="module")
def pooler(server: str) -> Iterator[Pooler]:
    """One session of the server for all its clients: each transaction meets what the one before it left."""
    with bouncing(server, default_pool_size=1) as port:
        yield Pooler(server, port)


@contextmanager
def bouncing(server: str, **settings: object) -> Iterator[int]:
    """The port of a PgBouncer before the server."""
    pgbouncer, port = program("pgbouncer", "pgbouncer"), own_port()
    lines = {
        "listen_addr": "127.0.0.1",
        "listen_port": port,
        "unix_socket_dir": "",
        "auth_type": "any",
        "pool_mode": "transaction",
        "max_client_conn": 200,
        **settings,
    }
    parts = conninfo_to_dict(server)
    with TemporaryDirectory(prefix="fuelroute-pgbouncer-") as name:
        folder = Path(name)
        folder.chmod(0o755)  # it runs as another user when we are root
        file = folder / "pgbouncer.ini"
        file.write_text(
            f"[databases]\n* = host={parts['host']} port={parts['port']} user=postgres\n[pgbouncer]\n"
            + "".join(f"{name} = {value}\n" for name, value in lines.items())
        )
        with running_program([pgbouncer, str(file)], port, folder / "log", user="nobody"):
            yield port


@pytest.mark.parametrize("use", USES)
def test_each_transaction_sees_its_own_companies_and_leaves_nothing_in_the_session(pooler: Pooler, use: Use) -> None:
    with pooler.database() as database, ThreadPoolExecutor(6) as threads:

        def look(company: UUID) -> tuple[UUID, _Seen]:
            with use(database, of_tenants([(company, Environment.LIVE)])) as connection:
                return company, SEEN.one(connection)

        for company, seen in threads.map(look, [uuid4() for _ in range(40)]):
            assert seen == (f"{{{company.hex}}}", "{live}", SERVICE_ROLE, "2500ms")
    with psycopg.connect(pooler.url, autocommit=True) as other:  # whoever has the session next
        row = named(other).execute(SEEN.text).fetchone()
    assert row is not None
    assert (row.companies, row.environments, row.role) == ("", "", "postgres")


def test_an_event_loop_sees_the_same(pooler: Pooler) -> None:
    query = Query(SEEN, (), lambda rows: rows[0])

    async def scenario() -> None:
        async with AsyncDatabase(pooler.url, pooled=True) as database:
            companies = [uuid4() for _ in range(40)]
            answers = await asyncio.gather(*(database.ask(query, of_companies([one])) for one in companies))
            for company, seen in zip(companies, answers, strict=True):
                assert seen == (f"{{{company.hex}}}", "*", SERVICE_ROLE, "2500ms")
            assert (await database.ask(query)).companies == ""

    asyncio.run(scenario())


def test_limits_snapshots_and_pipelines_hold_in_the_transaction(pooler: Pooler) -> None:
    brisk = TimeLimits(statement_seconds=0.3, lock_seconds=0.2)
    with pooler.database() as database:
        for use in (database.transaction, database.pipelined_transaction):
            with pytest.raises(psycopg.errors.QueryCanceled), use(EVERYTHING, limits=brisk) as connection:
                named(connection).execute("SELECT pg_sleep(2)").fetchone()
            with pytest.raises(psycopg.errors.Error, match="read-only"), use(EVERYTHING, snapshot=True) as connection:
                named(connection).execute("SELECT lo_create(0)").fetchone()
            with use() as connection:
                assert SEEN.one(connection).statement_timeout == "2500ms"


def test_a_statement_that_runs_often_is_prepared_in_no_session(pooler: Pooler) -> None:
    with pooler.database() as database:
        for _ in range(20):
            with database.single_statements() as connection:
                SEEN.one(connection)
            with database.transaction() as connection:
                SEEN.one(connection)
                assert named(connection).execute("SELECT FROM pg_prepared_statements").rowcount == 0


def test_a_failed_statement_costs_the_next_one_nothing(pooler: Pooler) -> None:
    with pooler.database() as database:
        for use in (database.transaction, database.pipelined_transaction, database.single_statements):
            with pytest.raises(psycopg.errors.DivisionByZero), use(EVERYTHING) as connection:
                named(connection).execute("SELECT 1/0").fetchone()
            with use(NOTHING) as connection:
                assert SEEN.one(connection).companies == ""


def test_the_start_checks_both_addresses(pooler: Pooler, server: str) -> None:
    check_servers(pooler.settings)
    checks = [DatabaseCheck(pooler.url, pooled=True) for _ in range(2)]
    for number in range(16):  # often enough to be prepared, in the only session that the two share
        assert "the schema is at revision" in checks[number % 2]()
    for check in checks:
        check.close()
    with pytest.raises(
        DatabaseProblem, match=r"FUELROUTE_DATABASE_URL leads to a pooler: .*FUELROUTE_DATABASE_DIRECT_URL"
    ):
        check_servers(pooler.settings.model_copy(update={"database_direct_url": None}))
    with pytest.raises(DatabaseProblem, match="FUELROUTE_DATABASE_DIRECT_URL leads to a pooler"):
        check_servers(pooler.settings.model_copy(update={"database_direct_url": pooler.url}))
    elsewhere = server.removesuffix("/postgres") + "/template1"
    with pytest.raises(DatabaseProblem, match="lead to different databases"):
        check_servers(pooler.settings.model_copy(update={"database_direct_url": elsewhere}))


def test_a_pooler_that_drops_settings_is_not_taken_for_a_server(server: str) -> None:
    """Behind it, rows of all companies would be seen: the role is one of the settings."""
    refusal = r"drops the settings of sessions: .*FUELROUTE_DATABASE_DIRECT_URL"
    with bouncing(server, ignore_startup_parameters="options") as port, pytest.raises(DatabaseProblem, match=refusal):
        check_server(Pooler(server, port).url)


def test_a_pooler_that_splits_transactions_is_refused(server: str) -> None:
    with (
        bouncing(server, pool_mode="statement") as port,
        pytest.raises(DatabaseProblem, match="FUELROUTE_DATABASE_URL"),
    ):
        check_servers(Pooler(server, port).settings)


def test_a_server_that_the_pooler_cannot_reach_in_time_is_away(server: str) -> None:
    """An import that fails so is no fault of its route."""
    with (
        bouncing(server, default_pool_size=1, query_wait_timeout=1) as port,
        Pooler(server, port).database() as database,
    ):
        with database.single_statements() as connection:
            SEEN.one(connection)  # a new connection would be given up sooner
        with database.transaction() as holder:
            SEEN.one(holder)  # holds the only session
            with pytest.raises(psycopg.OperationalError) as failure, database.single_statements() as connection:
                SEEN.one(connection)
        assert failure.value.sqlstate is not None
        assert is_away(failure.value)
        with database.single_statements() as connection:
            SEEN.one(connection)


def test_a_statement_that_takes_long_is_not_given_up(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("domain.database.connections._PROBE_SECONDS", 0.1)
    monkeypatch.setattr("domain.database.connections._PROBE_PATIENCE_SECONDS", 600)
    with (
        bouncing(server, default_pool_size=2) as port,
        Pooler(server, port).database() as database,
        database.transaction(limits=TimeLimits(statement_seconds=600, lock_seconds=600)) as connection,
    ):
        named(connection).execute("SELECT pg_sleep(0.5)").fetchone()


def test_the_whole_service_works_behind_a_pooler(server: str, tmp_path: Path) -> None:
    with (
        bouncing(server, default_pool_size=4) as port,
        own_redis(tmp_path / "redis") as redis,
    ):
        pooler = Pooler(server, port)
        settings = pooler.settings.model_copy(update={"redis_url": redis.url, "data": tmp_path})
        processes = ("ingress", "console", "workers", "scheduler")
        with (
            running_service(
                settings, tmp_path, processes=processes, DATABASE_DIRECT_URL=server, CONSOLE_PORT="0", SWEEP_SECONDS="1"
            ) as service,
            service.new_tenant() as client,
            service.new_tenant() as other,
        ):
            pushed = [client.push(route_body(datetime.now(UTC), externalId=f"LOAD-{n}")) for n in range(12)]
            assert {answer.status_code for answer in pushed} == {201}
            again = client.push(route_body(datetime.now(UTC), externalId="LOAD-1"))
            assert again.status_code == 200
            assert client.post_fixes(JOLIET, fuelPercent=60).status_code == 202
            assert client.get("/v1/routes").json()["total"] == 12
            assert other.get("/v1/routes").json()["total"] == 0
            assert other.get(f"/v1/routes/{pushed[0].json()['id']}").status_code == 404
            assert client.delete(f"/v1/routes/{pushed[5].json()['id']}").status_code == 204
