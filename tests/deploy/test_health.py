"""`/healthz` and `/readyz` of every process tell the truth, whatever the servers behind do, and quickly."""

import http.client
import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from types import SimpleNamespace
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import httpx
import psycopg
import pytest
from alembic.script import ScriptDirectory

from deploy.embedded import running
from domain.migrations import alembic_config, engine, migrate
from domain.operations.server_checks import DatabaseCheck, QueueCheck, known_revisions
from domain.settings import Settings
from domain.telemetry.health import Health, Unhealthy
from scheduler.state import SchedulerState
from tests.conftest import make_database
from tests.debian import accepts
from tests.ports import own_port
from tests.run_folder import own_folder
from tests.servers import CopiedPostgres, OwnRedis, own_redis
from tests.service import Service, eventually, one_below, running_service
from tests.silence import postmaster_of, stopped

PROCESSES = ("ingress", "console", "imports", "scheduler", "connectors")


class Stack(NamedTuple):
    service: Service
    redis: OwnRedis
    urls: dict[str, str]
    """The address at which each process tells its health. `... public` is the port of its own of the ingress and of the
    console."""

    def ask(self, process: str, path: str = "/readyz") -> tuple[int, dict[str, Any]]:
        """The status, and the checks by their names; everything comes, even where something else is silent."""
        address = urlsplit(self.urls[process])
        connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=120)
        with closing(connection):
            connection.request("GET", path)
            answer = connection.getresponse()
            document = json.loads(answer.read())
        assert document["process"].startswith(process.removesuffix(" public")) or process == "imports"
        assert document["ready" if path == "/readyz" else "alive"] == (answer.status == 200)
        return answer.status, document["checks"]

    def wrong(self, process: str, path: str = "/readyz") -> dict[str, str]:
        """The checks that fail."""
        return {name: one["detail"] for name, one in self.ask(process, path)[1].items() if not one["ok"]}

    def statuses(self) -> set[int]:
        """The different statuses of all processes."""
        return {self.ask(process)[0] for process in self.urls}


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    with running_stack(PROCESSES) as started:
        yield started


@contextmanager
def running_stack(processes: tuple[str, ...]) -> Iterator[Stack]:
    """Processes over servers of their own, which the tests may stop."""
    with (
        own_folder("health") as folder,
        running(CopiedPostgres(folder, durable=False)) as database_url,
        own_redis(folder) as redis,
    ):
        migrate(database_url)
        settings = Settings(data=folder, database_url=database_url, redis_url=redis.url)
        first, console = own_port(len(processes)), own_port()
        more = {"METRICS_PORT": f"{first}-{first + len(processes) - 1}", "CONSOLE_PORT": str(console)}
        more |= {"DATABASE_POOL_SIZE": "2", "SWEEP_SECONDS": "1", "CONSOLE_URL": "http://127.0.0.1"}
        with running_service(settings, folder, processes=processes, **more) as service:
            urls = {"ingress public": service.url, "console public": f"http://127.0.0.1:{console}"}
            for port in range(first, first + len(processes)):
                url = f"http://127.0.0.1:{port}"
                process = httpx.get(f"{url}/healthz", timeout=120).json()["process"]
                urls[process.removeprefix("workers-")] = url
            assert set(processes) < set(urls)
            yield Stack(service, redis, urls)


def test_every_process_is_alive_and_ready_and_names_its_checks(stack: Stack) -> None:
    eventually(stack.statuses, lambda found: found == {200})
    checks = {process: set(stack.ask(process)[1]) for process in stack.urls}
    servers = {"database", "queue"}
    assert checks["ingress"] == checks["ingress public"] == checks["console public"] == servers
    assert checks["imports"] == {*servers, "threads", "consumers", "fetches"}
    assert checks["scheduler"] == {*servers, "lead", "passes"}
    assert checks["connectors"] == {*servers, "looks"}
    assert stack.ask("imports", "/healthz")[1]["threads"]["detail"] == "all threads live"
    assert lead_of(stack) == "leads"
    assert "sweep ended" in stack.ask("scheduler")[1]["passes"]["detail"]
    assert httpx.get(stack.service.url + "/healthz", timeout=120).text == "ok\n"
    assert "fuelroute_process" in httpx.get(stack.urls["imports"] + "/metrics", timeout=120).text


def test_a_silent_redis_is_reported_and_leaves_the_ingress_ready(stack: Stack) -> None:
    stack.redis.fall_silent()
    try:
        eventually(lambda: stack.ask("imports")[0], lambda status: status == 503)
        eventually(lambda: list(stack.wrong("ingress public")), lambda wrong: wrong == ["queue"])
        for process in ("ingress public", "console public", "scheduler"):
            eventually(lambda one=process: stack.ask(one)[0], lambda status: status == 200)  # type: ignore[misc]
        eventually(lambda: stack.wrong("imports"), lambda wrong: "fetches" in wrong)
        assert stack.ask("imports", "/healthz")[0] == 200, "a restart would not bring Redis back"
    finally:
        stack.redis.speak_again()
    eventually(stack.statuses, lambda found: found == {200})


def test_the_check_answers_while_every_connection_of_the_pools_is_busy(stack: Stack) -> None:
    database_url, released = stack.service.settings.require_database_url(), threading.Event()
    with (
        stack.service.new_tenant() as client,
        psycopg.connect(database_url, autocommit=True) as looking,
        ThreadPoolExecutor(30) as pool,
        psycopg.connect(database_url) as stranger,
    ):
        stranger.execute("LOCK TABLE routes, api_keys IN ACCESS EXCLUSIVE MODE")

        def keep_busy() -> None:
            """Requests that are refused after their wait for the lock have successors."""
            while not released.is_set():
                client.get("/v1/routes")

        def waiting() -> int:
            return int(looking.execute(_INGRESS_WAITS).fetchall()[0][0])

        requests = [pool.submit(keep_busy) for _ in range(30)]
        try:
            eventually(waiting, lambda count: count >= 2, wanted="work for each connection of a pool")
            time.sleep(1.3)  # no earlier finding counts any more
            eventually(
                lambda: (waiting(), stack.ask("ingress public")[0], waiting()),
                lambda seen: min(seen[0], seen[2]) >= 2 and seen[1] == 200,
            )
        finally:
            stranger.rollback()
            released.set()
        for one in requests:
            one.result()


_INGRESS_WAITS = (
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    " AND application_name LIKE 'fuelroute ingress%'"
)


def slowest_of_40(stack: Stack) -> float:
    def seconds(_: int) -> float:
        started = time.monotonic()
        assert stack.ask("ingress public")[0] == 503
        return time.monotonic() - started

    with ThreadPoolExecutor(20) as threads:
        return max(threads.map(seconds, range(40)))


@pytest.fixture
def own_stack() -> Iterator[Stack]:
    with running_stack(PROCESSES) as started:
        yield started


def test_a_stopped_postgres_makes_every_process_unready_and_none_dead(own_stack: Stack) -> None:
    """The scheduler ends only when PostgreSQL is back: a supervisor would wait longer and longer before each start."""
    stack = own_stack
    with stopped(postmaster_of(stack.service.settings.require_database_url())):
        eventually(stack.statuses, lambda found: found == {503})
        assert "database" in stack.wrong("ingress public")
        eventually(lambda: lead_of(stack), lambda told: told.startswith("stands by"))
        assert {stack.ask(process, "/healthz")[0] for process in PROCESSES} == {200}
        assert httpx.get(stack.service.url + "/healthz", timeout=120).status_code == 200
        assert one_below(10, lambda: slowest_of_40(stack)), "callers wait together, not one after the other"
    port = int(stack.urls.pop("scheduler").rpartition(":")[2])
    eventually(lambda: accepts(port), lambda is_there: not is_there, wanted="the end of the scheduler")
    eventually(stack.statuses, lambda found: found == {200}, seconds=900)


def lead_of(stack: Stack) -> str:
    return str(stack.ask("scheduler", "/healthz")[1]["lead"]["detail"])


def count_connections_of_checks(database_url: str) -> int:
    with psycopg.connect(database_url) as connection:
        row = connection.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
            " AND query LIKE '%alembic_version%'"
        ).fetchone()
        assert row is not None
        return int(row[0])


def test_many_callers_cost_one_connection_and_one_question_a_second() -> None:
    url = make_database("health")
    asked: list[float] = []
    health = Health("test")

    def look() -> str:
        asked.append(time.monotonic())
        return check()

    health.check_server("database", look)
    with closing(DatabaseCheck(url)) as check, ThreadPoolExecutor(20) as threads:
        assert 200 in {report.status for report in threads.map(lambda _: health.ready(), range(500))}
        assert len(asked) <= 1 + (time.monotonic() - asked[0])
        assert count_connections_of_checks(url) == 1


@contextmanager
def schema_at(revision: str) -> Iterator[DatabaseCheck]:
    url = make_database("revision")
    with psycopg.connect(url) as connection:
        connection.execute("UPDATE alembic_version SET version_num = %s", (revision,))
    with closing(DatabaseCheck(url)) as check:
        yield check


def test_an_older_schema_is_not_ready_and_a_newer_one_is() -> None:
    newest, known = known_revisions()
    (older,) = sorted(known - {newest})[:1]
    with schema_at(newest) as check:
        assert check() == f"the schema is at revision {newest}"
    with schema_at(older) as check, pytest.raises(Unhealthy, match=f"at revision {older}.*run fuelroute migrate"):
        check()
    with schema_at("29990101a") as check:  # a release must serve while the next one's migrations are there already
        assert "of a later release" in check()


def test_a_database_without_tables_is_not_ready() -> None:
    bare = DatabaseCheck(make_database("bare", template="template1"))
    with closing(bare), pytest.raises(Unhealthy, match="no tables: run fuelroute migrate"):
        bare()


def test_the_known_revisions_are_alembics(settings: Settings) -> None:
    with engine(settings.require_database_url()).connect() as connection:
        scripts = ScriptDirectory.from_config(alembic_config(connection))
    assert known_revisions() == (
        scripts.get_current_head(),
        frozenset(one.revision for one in scripts.walk_revisions()),
    )


@pytest.mark.parametrize(
    "check",
    [
        DatabaseCheck("postgresql://fuelroute:secret@127.0.0.1:1/fuelroute"),
        QueueCheck("redis://user:secret@127.0.0.1:1/0"),
    ],
    ids=["PostgreSQL", "Redis"],
)
def test_a_server_that_is_away_is_reported_without_its_address(check: DatabaseCheck | QueueCheck) -> None:
    with pytest.raises(Unhealthy, match=r"^(PostgreSQL|Redis) does not answer$"):
        check()


def test_a_session_that_a_restart_ended_is_opened_again(settings: Settings) -> None:
    with closing(DatabaseCheck(settings.require_database_url())) as check:
        first = check()
        assert check._session is not None
        with psycopg.connect(settings.require_database_url(), autocommit=True) as connection:
            connection.execute("SELECT pg_terminate_backend(%s)", (check._session.info.backend_pid,))
        assert check() == first


def test_a_process_that_stops_is_not_ready_and_stays_alive() -> None:
    health = Health("test")
    health.check_alive("threads", lambda: "all threads live")
    assert health.ready().status == 200
    health.note_stopping()
    assert (health.ready().status, health.alive().status) == (503, 200)


def test_a_check_that_fails_in_an_unforeseen_way_is_not_healthy() -> None:
    health = Health("test")
    health.check_alive("broken", lambda: str(1 / 0))
    assert (health.alive().status, health.ready().status) == (503, 503)
    assert b"ZeroDivision" not in health.alive().body


def test_a_late_pass_and_a_silent_session_make_a_scheduler_unhealthy(monkeypatch: pytest.MonkeyPatch) -> None:
    state = SchedulerState()
    assert state.lead().startswith("stands by")
    assert state.passes() == "none: it does not lead"
    state.note_pass("sweep", 10, "ended")
    began = time.monotonic()
    monkeypatch.setattr("scheduler.state.time", SimpleNamespace(monotonic=lambda: began + 100))
    with pytest.raises(Unhealthy, match="sweep has not ended for 100 s"):
        state.passes()
    with pytest.raises(Unhealthy, match="not asked for the lead for 100 s"):
        state.lead()
    state.note_lead()
    assert state.lead() == "leads"
    state.note_asked()  # the lead is lost
    assert state.lead().startswith("stands by")
