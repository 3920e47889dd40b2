"""Fixtures for every test: real PostgreSQL and Redis, started once; a database and a Redis database for each of
pytest's parallel workers; a company of its own for each test, which keeps tests apart as it keeps tenants apart.
"""

import gc
import os
import shlex
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any, Literal, get_args
from uuid import uuid4

import httpx
import psycopg
import pytest
from argon2 import PasswordHasher
from hypothesis import settings as hypothesis_settings

from deploy.embedded import EmbeddedPostgres, EmbeddedRedis, running
from domain.accounts import passwords
from domain.database.connections import Connection, Database, connected
from domain.migrations import migrate
from domain.queue.job_queue import JobQueue
from domain.queue.redis_clients import redis_client
from domain.settings import Settings
from domain.signing import signing_keys
from tests.debian import packages_named
from tests.factories import Fleet, make_fleet
from tests.gateway import Gateway, running_gateway
from tests.parallel import loaded_tests
from tests.plain_logs import log_plainly
from tests.repeatable import USUAL, draw_the_same_examples
from tests.run_folder import folder_of_run
from tests.servers import CLUSTERS, CopiedPostgres, OwnRedis, own_redis
from tests.service import Client, Service, running_service
from tests.webhook_receiver import Receiver, running_receiver

hypothesis_settings.register_profile("repeatable", derandomize=True, max_examples=USUAL, deadline=None)
hypothesis_settings.register_profile("search", max_examples=500, deadline=None)
hypothesis_settings.load_profile("repeatable")

_servers = ExitStack()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--random-order", metavar="SEED", help="runs modules, and the tests of each, in the seed's order")


def pytest_configure(config: pytest.Config) -> None:
    """Starts the servers, once: pytest's parallel workers inherit their addresses."""
    if config.getoption("hypothesis_profile", default=None) is None:
        draw_the_same_examples()
    log_plainly()
    for name in [name for name in os.environ if name.startswith("FUELROUTE_")]:
        del os.environ[name]  # what is set for a person's own stack must not reach the tests
    if hasattr(config, "workerinput") or config.option.collectonly or "not servers" in config.option.markexpr:
        return
    folder = _servers.enter_context(folder_of_run(config))
    options = {
        "max_connections": "1000",  # several whole services for each parallel worker keep their pools open
        "autovacuum_naptime": "10min",  # of 150 databases another one would be visited every 0.4 s
    }
    server = EmbeddedPostgres(folder, durable=False, options=options)
    os.environ[CLUSTERS] = str(folder)
    os.environ["TEST_DATABASE_URL"] = _servers.enter_context(running(server))
    os.environ["TEST_REDIS_URL"] = _servers.enter_context(running(EmbeddedRedis(folder, durable=False)))
    migrate(os.environ["TEST_DATABASE_URL"])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Says in the end what was not run, and which command brings it."""
    skipped = terminalreporter.stats.get("skipped", [])
    if packages := packages_named(report.longrepr[2] for report in skipped):
        terminalreporter.write_line(f"{len(skipped)} tests were not run. This brings most of them:")
        terminalreporter.write_line(f"    apt-get install --no-install-recommends {' '.join(packages)}")


def pytest_unconfigure(config: pytest.Config) -> None:
    _stop_service()
    _servers.close()


_NEED_SERVERS = {"chaos", "contract", "faults", "fuzz", "pipeline", "scheduler"}
"""Folders in which every test needs servers: loading their modules takes longer than the quick tests themselves."""


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    left_out = collection_path.name in _NEED_SERVERS and collection_path.parent == Path(__file__).parent
    if collection_path in _not_chosen or (left_out and "not servers" in config.option.markexpr):
        return True
    return None


_not_chosen: set[Path] = set()
"""Modules of which `-m` has chosen no test. A worker is forked once this is known, and collects none of them."""


def pytest_deselected(items: Sequence[pytest.Item]) -> None:
    _not_chosen.update(item.path for item in items)


def pytest_collection_finish(session: pytest.Session) -> None:
    _not_chosen.difference_update(item.path for item in session.items)


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Modules and tests are loaded once and stay until the end. The garbage collector need not look through them again
    and again: that was half of the time of loading, and a fifth of the quick tests'."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(config: pytest.Config, specs: Sequence[Any]) -> None:
    python = _servers.enter_context(loaded_tests(arguments_of_loading(config)))
    for spec in specs:
        spec.python = spec.python or shlex.join(python)


def arguments_of_loading(config: pytest.Config) -> list[str]:
    """The arguments of pytest that change what is loaded: laws have the examples of the profile in which they are
    loaded."""
    profile = config.getoption("hypothesis_profile", default=None)
    return [*config.args, "-m", config.option.markexpr, *(["--hypothesis-profile", profile] if profile else [])]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """A test that takes seconds is no quick one. A busy machine, or a first run, which compiles libraries, stays far
    below this limit."""
    began = sum(os.times()[:4])
    result = yield
    taken = sum(os.times()[:4]) - began
    if "not slow" in item.config.option.markexpr and taken > 5:
        pytest.fail(f"{taken:.1f} s of processor time: mark it `slow`, which begins at 0.3 s")
    return result


def pytest_make_parametrize_id(val: Any) -> str | None:
    """Names a case by its values, where pytest by itself would number it: `changes0`. Parallel workers must find the
    same names, so a case that depends on the clock needs an id of its own."""
    if isinstance(val, dict):
        text = ", ".join(f"{key}={value}" for key, value in val.items())
    elif type(val) in (list, tuple):
        text = " ".join(str(one) for one in val)
    elif isinstance(val, datetime):
        text = val.isoformat()
    else:
        return None
    return text[:60].encode("unicode_escape").decode() or "empty"


@pytest.hookimpl(tryfirst=True)  # before `-m` chooses by the marks
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Marks the tests that need servers: they have a fixture with servers, or their module imports something that
    starts them."""
    for item in items:
        if isinstance(item, pytest.Function) and (
            _FIXTURES_WITH_SERVERS & (set(item.fixturenames) - _parameters_of(item)) or _starts_servers(item.module)
        ):
            item.add_marker(pytest.mark.servers)
    if seed := config.getoption("--random-order"):
        _shuffle(items, seed)
    else:
        _spread_waiting(items)


_FIXTURES_WITH_SERVERS = {"settings", "redis", "server", "cells"}


def _parameters_of(test: pytest.Function) -> set[str]:
    """The names of a test's own parameters: one may be called as a fixture is."""
    return set(test.callspec.params) if hasattr(test, "callspec") else set()


_WAITING = ("chaos", "ingress/docs", "pipeline", "workers")
"""Folders whose tests wait for processes more than they compute."""


def _spread_waiting(items: list[pytest.Item]) -> None:
    """Spreads the modules whose tests wait among those that compute. In the order of their folders, all parallel
    workers would wait together in the end: a sixth of the processors' time was idle."""
    modules = dict.fromkeys(item.path for item in items)
    folders = [Path(__file__).parent / name for name in _WAITING]
    waiting = [path for path in modules if any(path.is_relative_to(folder) for folder in folders)]
    computing = [path for path in modules if path not in waiting]
    # the last ones compute, so that no long wait begins in the end
    places = {path: 0.85 * number / len(waiting) for number, path in enumerate(waiting)}
    places |= {path: number / len(computing) for number, path in enumerate(computing)}
    items.sort(key=lambda item: places[item.path])


def _shuffle(items: list[pytest.Item], seed: str) -> None:
    """Puts the modules, and the tests of each, into an order that the seed repeats."""
    places = {item: Random(f"{seed} {item.nodeid}").random() for item in items}
    modules = {name: Random(f"{seed} {name}").random() for name in {item.nodeid.partition("::")[0] for item in items}}
    items.sort(key=lambda item: (modules[item.nodeid.partition("::")[0]], places[item]))


def _starts_servers(module: ModuleType) -> bool:
    starters = (
        EmbeddedPostgres,
        CopiedPostgres,
        EmbeddedRedis,
        running,
        running_service,
        own_redis,
        own_database,
        make_database,
    )
    return any(value in starters for value in vars(module).values() if callable(value))


def as_superuser() -> psycopg.Connection:
    """A connection to the tests' server, without a transaction."""
    url = os.environ["TEST_DATABASE_URL"].replace("//fuelroute@/fuelroute?", "//postgres@/postgres?")
    return psycopg.connect(url, autocommit=True)


def make_database(name: str, *, template: str = "fuelroute") -> str:
    """A fresh database with the current schema, or none from the template `template1`. Gives its URL. Its name begins
    with `name`: a fixture of a module may be made more than once. Its files are copied: PostgreSQL's usual way also
    writes every page into the log and takes twice the processor time."""
    url = os.environ["TEST_DATABASE_URL"]
    name = f"{name}_{uuid4().hex}"
    deadline = time.monotonic() + 180
    with as_superuser() as connection:  # the service's role makes none
        while True:
            try:
                connection.execute(f'CREATE DATABASE "{name}" TEMPLATE {template} OWNER fuelroute STRATEGY file_copy')
                break
            except psycopg.errors.ObjectInUse:  # autovacuum, or a connection that just ended, still uses the template
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)
    return url.replace("/fuelroute?", f"/{name}?")


@contextmanager
def own_database(name: str) -> Iterator[Database]:
    """One that no other test and no running service touches, for what looks at all rows there are."""
    with Database(make_database(name)) as opened:
        yield opened


@pytest.fixture(scope="session")
def settings(worker_id: str, tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """The settings of this parallel worker: a database and a Redis database of its own."""
    return Settings(
        data=tmp_path_factory.mktemp("data"),
        database_url=make_database("test"),
        redis_url=redis_database(worker_id),
    )


RedisUse = Literal["tests", "service", "upgrade"]


def redis_database(worker_id: str, use: RedisUse = "tests") -> str:
    """A Redis database of a parallel worker for its tests, for the running `service`, or for the service that is
    upgraded. Two running services on one would take each other's jobs."""
    number, uses = int(worker_id.removeprefix("gw")) + 1 if worker_id != "master" else 0, get_args(RedisUse)
    return os.environ["TEST_REDIS_URL"].replace("db=0", f"db={len(uses) * number + uses.index(use)}")


@pytest.fixture(scope="session")
def database(settings: Settings) -> Iterator[Database]:
    with Database.of(settings) as opened:
        yield opened


@pytest.fixture
def connection(database: Database, now: datetime) -> Iterator[Connection]:
    """A transaction that is rolled back after the test. It begins after `now`, which would be in its future otherwise
    whenever a second has ended between the two."""
    with database.transaction() as connection:
        yield connection
        raise psycopg.Rollback


@pytest.fixture
def jobs(settings: Settings) -> Iterator[JobQueue]:
    """An empty job queue."""
    with redis_client(settings.require_redis_url()) as client:
        client.flushdb()
        yield JobQueue(client)


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnRedis]:
    """A Redis of the module's own, which no worker of other tests uses."""
    with own_redis(tmp_path_factory.mktemp("redis")) as one:
        yield one


@pytest.fixture
def now() -> datetime:
    """The second that has begun, or the one before: never a full minute, by which a truck that waits for the sweep is
    known."""
    second = datetime.now(UTC).replace(microsecond=0)
    return second if second.second else second - timedelta(seconds=1)


@pytest.fixture
def fleet(connection: Connection) -> Fleet:
    """A company with two trucks and two drivers, in this test's transaction."""
    return make_fleet(connection)


@pytest.fixture(scope="session", autouse=True)
def _quick_secrets() -> Iterator[None]:
    """Passwords of tests' users are hashed with little work. A hash says how much work its check takes, so that signing
    in is quick too; the hashes that processes make themselves are those of `PROCESS_HASHER`. Keys for signatures are
    the shortest that readers of PDF files take, which are found in a quarter of the time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(passwords, "_hasher", PasswordHasher(time_cost=1, memory_cost=64, parallelism=1))
        patch.setattr(signing_keys, "_KEY_BITS", 2048)
        yield


@pytest.fixture(scope="module")
def service(settings: Settings, worker_id: str, tmp_path_factory: pytest.TempPathFactory) -> Service:
    """The whole service, shared by all tests of this parallel worker: each takes a company of its own.

    A push waits long for its import, so that a busy machine changes no answer. The passes run often enough for tests
    that wait for them; each second they were a quarter of what an idle service takes.
    """
    if not _served:
        with connected(settings.require_database_url()) as connection:
            connection.execute(_END_ROUTES)
        own = settings.model_copy(update={"redis_url": redis_database(worker_id, "service")})
        begun = running_service(
            own,
            tmp_path_factory.mktemp("logs"),
            IMPORT_PASS_SECONDS="4",
            SWEEP_SECONDS="2",
            IMPORT_WAIT_SECONDS="30",
            DATABASE_TIMEOUT_SECONDS="30",
            WEBHOOK_ALLOWED_HOSTS="127.0.0.0/8",
        )
        _served.append(_service_life.enter_context(begun))
    return _served[0]


_service_life = ExitStack()
_served: list[Service] = []
"""This worker's running service."""


@pytest.hookimpl(trylast=True)  # once the fixtures of the test have ended
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Stops the shared service at the end of a module, where the next test has no use for it. A start takes a quarter
    of a second of processor time, a service that idles as much in twelve seconds, and most modules need none."""
    if nextitem is None or (nextitem.path != item.path and "service" not in getattr(nextitem, "fixturenames", ())):
        _stop_service()


def _stop_service() -> None:
    _served.clear()
    _service_life.close()


_END_ROUTES = """
    UPDATE routes SET status = 'canceled', closed_reason = 'its test has ended', pending_reason = NULL,
        pending_detail = NULL, retry_at = NULL, review_at = NULL
    WHERE id IN (
        SELECT id FROM routes WHERE status NOT IN ('completed', 'canceled', 'error') OR review_at IS NOT NULL
        FOR UPDATE SKIP LOCKED)
"""


@pytest.fixture(scope="module", autouse=True)
def _end_routes_of_ended_tests() -> Iterator[None]:
    """The routes of a module's tests end with it. The running service would look after them until the last test: in the
    end that took a quarter of a processor for each parallel worker."""
    yield
    for service in _served:
        with service.database.transaction() as connection:
            connection.execute(_END_ROUTES)


@pytest.fixture
def client(service: Service) -> Iterator[Client]:
    """A fresh company's live key with every scope."""
    with service.new_tenant() as one:
        yield one


@pytest.fixture
def gateway() -> Iterator[Gateway]:
    """Stands where drivers' messages go."""
    with running_gateway() as one:
        yield one


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """Stands where webhooks go."""
    with running_receiver() as one:
        yield one


@pytest.fixture
def anonymous(service: Service) -> Iterator[httpx.Client]:
    """A client that sends no key."""
    with httpx.Client(base_url=service.url, timeout=120, verify=False) as one:
        yield one
