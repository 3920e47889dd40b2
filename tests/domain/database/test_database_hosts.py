"""Several hosts in the address of the database: the one that takes changes is found, again after each fail-over."""

import asyncio
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from typing import NamedTuple

import psycopg
import pytest
import sqlalchemy

from deploy.embedded import running
from domain.addresses import postgres_address
from domain.database.async_connections import AsyncDatabase
from domain.database.checks import check_server
from domain.database.connections import Connection, Database, DatabaseProblem, connected, open_session
from domain.database.health import ServerReadOnly, is_away
from domain.database.hosts import primary_first
from domain.database.options import CONNECTION_SECONDS, SERVING
from domain.database.statements import NotNull, Query, Statement
from domain.migrations import engine
from scheduler.leader import Leadership, LeadershipLost
from tests.servers import OverTcp
from tests.service import eventually, one_below, takes_less

Use = Callable[[Database], AbstractContextManager[Connection]]

USES: list[Use] = [Database.transaction, Database.pipelined_transaction, Database.single_statements]


class _Stored(NamedTuple):
    port: NotNull[str]
    object: NotNull[int]


STORED = Statement(_Stored, "SELECT current_setting('port') AS port, lo_create(0)::bigint AS object")
"""A change that needs no table: a standby refuses it."""
STORE = Query(STORED, (), lambda rows: rows[0].port)
WHERE = "SELECT current_setting('port')"


class Hosts:
    """Two servers of which one takes changes, as a primary and its standby."""

    def __init__(self, servers: list[str]) -> None:
        self.servers = servers
        """Their addresses."""
        self.ports = [str(psycopg.conninfo.conninfo_to_dict(url)["port"]) for url in servers]
        self.url = self.address(*self.ports)

    @staticmethod
    def address(*ports: str) -> str:
        hosts = ",".join(f"127.0.0.1:{port}" for port in ports)
        return f"postgresql://postgres@{hosts}/postgres?target_session_attrs=read-write"

    def fail_over(self, primary: int) -> None:
        """Sessions stay open on the server that was the primary, and read only from now on."""
        for number, url in enumerate(self.servers):
            with psycopg.connect(url, autocommit=True) as admin:
                admin.execute("SET default_transaction_read_only = off")
                value = "off" if number == primary else "on"
                admin.execute(f"ALTER SYSTEM SET default_transaction_read_only = {value}")
                admin.execute("SELECT pg_reload_conf()")
            # The server tells its sessions before it starts a new one: they read it before their next statement.
            while shown_by_a_new_session(url) != value:
                time.sleep(0.02)


def shown_by_a_new_session(url: str) -> str:
    with psycopg.connect(url) as connection:
        return str(connection.execute("SHOW default_transaction_read_only").fetchall()[0][0])


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosts]:
    servers = [OverTcp(tmp_path_factory.mktemp(name)) for name in ("first", "second")]
    with running(servers[0]), running(servers[1]):
        urls = [server.urls["tcp"] for server in servers]
        yield Hosts(urls)


@pytest.fixture(autouse=True)
def _first_is_primary(hosts: Hosts) -> None:
    hosts.fail_over(0)


@contextmanager
def dead_machine() -> Iterator[str]:
    """The port of a machine that takes connections and never says a word, as one whose network is gone."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        yield str(listener.getsockname()[1])


def store_within(use: Callable[[], AbstractContextManager[Connection]], seconds: float) -> str:
    """Stores a row, with failures only as `is_away` knows them, and returns the port of the server that took it."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            with use() as connection:
                return STORED.one(connection).port
        except psycopg.Error as error:
            if not is_away(error) or time.monotonic() > deadline:
                raise


@pytest.mark.parametrize("use", USES)
def test_after_a_fail_over_the_pools_find_the_new_primary_within_seconds(hosts: Hosts, use: Use) -> None:
    def slowest_of_two_fail_overs() -> float:
        with Database(hosts.url, limits=SERVING, fail_fast=True) as database:
            assert store_within(lambda: use(database), 180) == hosts.ports[0]
            waits = []
            for primary in (1, 0):
                hosts.fail_over(primary)
                started = time.monotonic()
                assert store_within(lambda: use(database), 180) == hosts.ports[primary]
                waits.append(time.monotonic() - started)
        return max(waits)

    assert one_below(5, slowest_of_two_fail_overs)


def test_a_change_on_a_standby_is_an_error_of_a_server_that_is_away(hosts: Hosts) -> None:
    with Database(hosts.url, pool_size=2, limits=SERVING) as database:
        with database.transaction() as first, database.transaction() as second:  # both are there before the fail-over
            assert STORED.one(first).port == STORED.one(second).port == hosts.ports[0]
        hosts.fail_over(1)
        with pytest.raises(ServerReadOnly), database.transaction() as connection:
            STORED.one(connection)
        with database.transaction() as connection:  # the next one goes to the new primary at once
            assert STORED.one(connection).port == hosts.ports[1]


def test_an_event_loop_finds_the_new_primary(hosts: Hosts) -> None:
    async def slowest_of_two_fail_overs() -> float:
        # one connection: a second one may be under way to the old primary while the fail-over holds up the event loop
        async with AsyncDatabase(hosts.url, pool_size=1) as database:
            assert await database.store(STORE) == hosts.ports[0]
            hosts.fail_over(1)
            with pytest.raises(ServerReadOnly):
                await database.store(STORE)
            started = time.monotonic()
            assert await database.store(STORE) == hosts.ports[1]
            first = time.monotonic() - started
            hosts.fail_over(0)
            started = time.monotonic()
            assert await database.ask(STORE) == hosts.ports[0]  # it is asked again by itself
            return max(first, time.monotonic() - started)

    assert one_below(5, lambda: asyncio.run(slowest_of_two_fail_overs()))


def test_commands_migrations_and_the_leader_go_to_the_primary(hosts: Hosts) -> None:
    hosts.fail_over(1)
    with connected(hosts.url) as connection:
        assert STORED.one(connection).port == hosts.ports[1]
    with engine(hosts.url).connect() as migrating:
        assert migrating.execute(sqlalchemy.text(WHERE)).scalar_one() == hosts.ports[1]
    with closing(Leadership(hosts.url)) as leader:
        assert eventually(leader.try_to_lead, bool)  # an earlier session may just be ending
    assert check_server(hosts.url).version >= 150000


def test_a_leader_whose_server_goes_away_leads_no_more_and_another_leads_on_the_next_primary(hosts: Hosts) -> None:
    with closing(Leadership(hosts.url)) as leader:
        assert eventually(leader.try_to_lead, bool)  # an earlier session may just be ending
        hosts.fail_over(1)
        with psycopg.connect(hosts.servers[0], autocommit=True) as admin:
            admin.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
                " AND backend_type = 'client backend'"
            )
        with pytest.raises(LeadershipLost):
            leader.check()
    with closing(Leadership(hosts.url)) as other:
        assert eventually(other.try_to_lead, bool)
        other.check()


def test_a_dead_machine_costs_a_process_its_time_out_once(hosts: Hosts) -> None:
    def seconds_of_the_first_session() -> float:
        with dead_machine() as dead:
            url = hosts.address(dead, hosts.ports[0])
            started = time.monotonic()
            with open_session(url, SERVING):
                took = time.monotonic() - started

            def ask_again() -> None:
                with open_session(url, SERVING), Database(url, limits=SERVING) as database, database.transaction():
                    pass

            assert took >= CONNECTION_SECONDS
            assert takes_less(CONNECTION_SECONDS, ask_again)
        return took

    assert one_below(CONNECTION_SECONDS + 2, seconds_of_the_first_session)


def test_the_last_primary_is_asked_first_and_no_host_is_left_out(hosts: Hosts) -> None:
    url = hosts.address(hosts.ports[1], "1", hosts.ports[0])
    assert primary_first(url) == url
    with open_session(url, SERVING):
        pass
    parts = psycopg.conninfo.conninfo_to_dict(primary_first(url))
    assert parts["port"] == f"{hosts.ports[0]},{hosts.ports[1]},1"
    assert parts["target_session_attrs"] == "read-write"


def test_a_single_standby_is_refused_with_what_to_do(hosts: Hosts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("domain.database.checks._ASK.text", _as_standby())
    with pytest.raises(DatabaseProblem, match=r"leads to a standby.* target_session_attrs=read-write"):
        check_server(hosts.servers[0])


def _as_standby() -> str:
    from domain.database.checks import _ASK

    return _ASK.text.replace("pg_is_in_recovery()", "true")


@pytest.mark.parametrize(
    ("url", "fault"),
    [
        ("postgresql://u@a,b/d", "target_session_attrs=read-write"),
        ("postgresql://u@a,b/d?target_session_attrs=any", "target_session_attrs=read-write"),
        ("postgresql://u@a:1,b:2,c:3/d?target_session_attrs=prefer-standby", "target_session_attrs=read-write"),
        ("host=a,b,c port=1,2 target_session_attrs=read-write", "one port for all hosts"),
    ],
)
def test_an_address_of_several_hosts_that_may_lead_to_a_standby_is_refused(url: str, fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        postgres_address(url)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://u:p@a:1,b:2/d?target_session_attrs=read-write",
        "host=a,b target_session_attrs=primary",
        "host=a,b port=6432 target_session_attrs=read-write",
        "postgresql://u@[::1]:1,b:2/d?target_session_attrs=read-write",
    ],
)
def test_an_address_of_several_hosts_is_accepted_as_it_is(url: str) -> None:
    assert postgres_address(url) == url
