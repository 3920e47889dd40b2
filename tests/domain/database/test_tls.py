"""TLS to PostgreSQL and Redis with a private CA: both are verified, and plain text to another machine is told."""

import asyncio
import os
import pwd
import subprocess
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psycopg
import pytest
import redis
from structlog.testing import capture_logs

from domain.database.async_connections import AsyncDatabase
from domain.database.checks import check_server
from domain.database.connections import Database, DatabaseProblem
from domain.database.statements import Query
from domain.queue import redis_clients
from domain.queue.redis_clients import async_redis_client, check_redis, redis_client
from tests.debian import program, running_program
from tests.domain.database.test_database_options import SETTINGS
from tests.ports import own_port
from tests.private_ca import Authority
from tests.service import eventually

pytestmark = pytest.mark.servers


@pytest.fixture(scope="module")
def authority() -> Iterator[Authority]:
    with TemporaryDirectory(prefix="fuelroute-tls-") as name:
        Path(name).chmod(0o755)
        yield Authority(Path(name))


@pytest.fixture(scope="module")
def postgres(authority: Authority) -> Iterator[int]:
    """The port of a PostgreSQL that speaks TLS alone."""
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    server, initdb = (program(name, "postgresql", *map(str, versions)) for name in ("postgres", "initdb"))
    port, user = own_port(), "postgres"
    with TemporaryDirectory(prefix="fuelroute-tls-data-") as name:
        data = Path(name) / "data"
        account = pwd.getpwnam(user) if os.getuid() == 0 else None
        own: dict[str, Any] = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []} if account else {}
        if account is not None:
            os.chown(name, account.pw_uid, account.pw_gid)
        subprocess.run(
            [initdb, "-D", str(data), "-U", "postgres", "--auth=trust"], check=True, capture_output=True, **own
        )
        for source in (authority.cert, authority.key):
            target = data / source.name
            target.write_bytes(source.read_bytes())
            target.chmod(0o600)
            if account is not None:
                os.chown(target, account.pw_uid, account.pw_gid)
        (data / "pg_hba.conf").write_text("hostssl all all 127.0.0.1/32 trust\n")
        settings = {
            "ssl": "on",
            "ssl_cert_file": "cert.pem",
            "ssl_key_file": "key.pem",
            "port": str(port),
            "fsync": "off",
        }
        settings |= {"unix_socket_directories": "", "listen_addresses": "127.0.0.1"}
        options = [part for pair in settings.items() for part in ("-c", "=".join(pair))]
        with running_program(
            [server, "-D", str(data), *options], port, authority.ca.parent / "postgres.log", user=user
        ):
            url = f"postgresql://postgres@127.0.0.1:{port}/postgres?sslmode=require"
            eventually(lambda: _refusal(url), lambda said: said is None, wanted="a PostgreSQL that has started up")
            with psycopg.connect(url) as admin:
                admin.execute("CREATE ROLE fuelroute_service NOLOGIN")
            yield port


def _refusal(url: str) -> str | None:
    """Why PostgreSQL takes no connection yet: it listens before it has started up."""
    try:
        psycopg.connect(url).close()
    except psycopg.OperationalError as error:
        return str(error)
    return None


@pytest.fixture(scope="module")
def tls_redis(authority: Authority) -> Iterator[int]:
    """The port of a Redis that speaks TLS alone."""
    server, port = program("redis-server", "redis-server"), own_port()
    files = ["--tls-cert-file", str(authority.cert), "--tls-key-file", str(authority.key)]
    more = ["--port", "0", "--tls-port", str(port), "--tls-auth-clients", "no", "--bind", "127.0.0.1", "--save", ""]
    argv = [server, *files, "--tls-ca-cert-file", str(authority.ca), *more, "--dir", str(authority.ca.parent)]
    with running_program(argv, port, authority.ca.parent / "redis.log"):
        yield port


def test_postgres_is_reached_and_verified(authority: Authority, postgres: int) -> None:
    url = f"postgresql://postgres@127.0.0.1:{postgres}/postgres?sslmode=verify-full&sslrootcert={authority.ca}"
    with capture_logs() as logs:
        check_server(url, warn=True)
    assert logs == []
    with Database(url) as database, database.transaction() as connection:
        assert connection.pgconn.ssl_in_use

    async def ask() -> int:
        async with AsyncDatabase(url) as by_key:
            return await by_key.ask(Query(SETTINGS, (), len))

    assert asyncio.run(ask()) > 100


def test_a_postgres_that_is_not_who_it_should_be_is_not_talked_to(authority: Authority, postgres: int) -> None:
    for host, fault in (
        ("localhost", "does not match host name"),
        ("127.0.0.1", "verify failed|root cert"),
    ):
        trusted = authority.ca if host == "localhost" else authority.cert
        url = f"postgresql://postgres@{host}:{postgres}/postgres?sslmode=verify-full&sslrootcert={trusted}"
        with pytest.raises(DatabaseProblem, match=fault):
            check_server(url)


def test_redis_is_reached_and_verified(authority: Authority, tls_redis: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for timeout in redis_clients._TIMEOUTS:  # the handshake of a machine with much other work takes longer
        monkeypatch.setitem(redis_clients._TIMEOUTS, timeout, 60)
    url = f"rediss://127.0.0.1:{tls_redis}/0?ssl_ca_certs={authority.ca}"
    check_redis(url)

    async def ping() -> None:
        async with async_redis_client(url) as client:
            assert await client.ping()

    asyncio.run(ping())
    for stranger in (url.replace("127.0.0.1", "localhost"), url.partition("?")[0]):
        with redis_client(stranger) as client, pytest.raises(redis.ConnectionError, match="certificate verify failed"):
            client.ping()


def test_plain_text_to_another_machine_is_told_at_the_start() -> None:
    with capture_logs() as logs:
        check_redis("redis://192.0.2.1:6379/0", needed=False)
    assert [one["event"] for one in logs] == ["queue.unencrypted", "jobs.redis_away"]
    with capture_logs() as logs:
        check_redis("rediss+sentinel://127.0.0.1:1/jobs", needed=False)
    assert [one["event"] for one in logs] == ["jobs.redis_away"]


def test_postgres_in_plain_text_or_unverified_is_told(
    authority: Authority, postgres: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("domain.database.checks.is_local", lambda _: False)
    url = f"postgresql://postgres@127.0.0.1:{postgres}/postgres?sslmode=require"
    with capture_logs() as logs:
        check_server(url, warn=True)
    assert [(one["event"], one["log_level"]) for one in logs] == [("database.unverified", "warning")]
