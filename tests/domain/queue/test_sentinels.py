"""Sentinels tell which Redis is the primary: every client finds it, again after each fail-over."""

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import pytest
import redis

from deploy.embedded.valkey import _valkey_server
from domain.addresses import redis_address, sentinel_address
from domain.queue.async_scripts import AsyncScript
from domain.queue.job_queue import JobQueue
from domain.queue.jobs import build_plan_job
from domain.queue.redis_clients import async_redis_client, check_redis, redis_client
from domain.settings import Settings
from tests.debian import running_program
from tests.factories import route_body
from tests.ports import own_port
from tests.service import eventually, running_service, takes_less

PASSWORD = "p/w:1"


@dataclass
class Watched:
    """Two Redis servers with a password, and three Sentinels that watch them."""

    servers: list[int]
    sentinels: list[int]

    @property
    def url(self) -> str:
        hosts = ",".join(f"127.0.0.1:{port}" for port in self.sentinels)
        return f"redis+sentinel://:p%2Fw%3A1@{hosts}/jobs/2"

    def primary(self) -> int:
        with redis.Redis(port=self.sentinels[0]) as sentinel:
            return int(sentinel.sentinel_get_master_addr_by_name("jobs")[1])

    def fail_over(self) -> None:
        """Asks until another server is the primary. On a busy machine Sentinels give up a fail-over, and one that was
        held up for 2 seconds distrusts its clock and does nothing for 30, though it answers that it fails over."""
        before = self.primary()

        def has_another() -> bool:
            if self.primary() != before:
                return True
            with redis.Redis(port=self.sentinels[0]) as sentinel, suppress(redis.ResponseError):  # one is under way
                sentinel.execute_command("SENTINEL FAILOVER jobs")
            return False

        eventually(has_another, bool, wanted="another primary")


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    folder, program = tmp_path_factory.mktemp("sentinels"), str(_valkey_server())
    servers, sentinels = [[own_port() for _ in range(count)] for count in (2, 3)]
    with ExitStack() as life:
        for port in servers:
            own = ["--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(folder)]
            password = ["--requirepass", PASSWORD, "--masterauth", PASSWORD, "--repl-diskless-sync-delay", "0"]
            follows = ["--replicaof", f"127.0.0.1 {servers[0]}"] if port != servers[0] else []
            life.enter_context(running_program([program, *own, *password, *follows], port, folder / "log"))
        for port in sentinels:
            file = _sentinel_file(folder, port, servers[0])
            life.enter_context(running_program([program, str(file), "--sentinel"], port, folder / "log"))
        one = Watched(servers, sentinels)
        eventually(lambda: _knows_replica(one), bool, wanted="a replica")
        yield one


def _sentinel_file(folder: Path, port: int, primary: int) -> Path:
    file = folder / f"sentinel-{port}.conf"
    file.write_text(
        f"port {port}\nbind 127.0.0.1\ndir {folder}\nsentinel monitor jobs 127.0.0.1 {primary} 2\n"
        f"sentinel auth-pass jobs {PASSWORD}\nsentinel down-after-milliseconds jobs 1000\n"
        "sentinel failover-timeout jobs 3000\n"
    )
    return file


def _knows_replica(watched: Watched) -> bool:
    with redis.Redis(port=watched.sentinels[0]) as sentinel:
        return bool(sentinel.sentinel_slaves("jobs"))


def test_every_client_follows_the_primary(watched: Watched) -> None:
    check_redis(watched.url)
    with redis_client(watched.url) as client, redis_client(watched.url, single_connection_client=True) as single:
        for one in (client, single):
            one.set("before", "1")
        assert client.connection_pool.connection_kwargs["db"] == 2
        watched.fail_over()

        def written(one: redis.Redis) -> bool:
            try:
                return bool(one.set("after", "1"))
            except redis.RedisError:
                return False

        for one in (client, single):
            eventually(lambda one=one: written(one), bool, wanted="a write to the new primary")  # type: ignore[misc]


def test_a_client_of_an_event_loop_follows_the_primary(watched: Watched) -> None:
    async def scenario() -> None:
        async with async_redis_client(watched.url) as client:
            script = AsyncScript(client, "return redis.call('SET', KEYS[1], ARGV[1])")
            assert await script(["before"], ["1"])
            assert await client.set("before", "1")
            await asyncio.to_thread(watched.fail_over)
            with redis.Redis(port=watched.primary(), password=PASSWORD, db=2) as primary:
                async with asyncio.timeout(180):
                    while primary.exists("of a command", "of a script") < 2:  # the old one takes some writes yet
                        await asyncio.sleep(0.1)
                        with suppress(redis.RedisError):
                            await client.set("of a command", "1")
                        with suppress(redis.RedisError):
                            await script(["of a script"], ["1"])

    asyncio.run(scenario())


def test_a_primary_that_falls_silent_is_given_up(watched: Watched) -> None:
    """Its machine is gone, and closed no connection."""
    with redis_client(watched.url) as client:
        client.set("before", "1")
        primary = watched.primary()
        with redis.Redis(port=primary, password=PASSWORD) as server:
            process: int = server.info("server")["process_id"]
        os.kill(process, signal.SIGSTOP)
        try:
            eventually(lambda: _written(client), bool, wanted="a write to the new primary")
        finally:
            os.kill(process, signal.SIGCONT)
    eventually(lambda: _knows_replica(watched), bool, wanted="a replica")


def _written(client: redis.Redis) -> bool:
    try:
        return bool(client.set("after", "1"))
    except redis.RedisError:
        return False


def _trusts_its_primary(sentinel: int) -> bool:
    """False while the Sentinel has not heard of the primary that the others have chosen."""
    with redis.Redis(port=sentinel) as client:
        state = client.sentinel_master("jobs")
    return bool(state["is_master"] and not state["is_sdown"] and not state["is_odown"])


def test_a_sentinel_that_is_away_costs_little(watched: Watched) -> None:
    eventually(lambda: _trusts_its_primary(watched.sentinels[0]), bool, wanted="a primary that is up")
    hosts = ",".join(f"127.0.0.1:{port}" for port in (1, watched.sentinels[0]))

    def connect() -> None:
        with redis_client(f"redis+sentinel://:p%2Fw%3A1@{hosts}/jobs") as client:
            assert client.ping()

    assert takes_less(1, connect)


def test_an_unknown_name_is_an_error_as_of_a_redis_that_is_away(watched: Watched) -> None:
    url = watched.url.replace("/jobs/", "/other/")
    with redis_client(url) as client, pytest.raises(redis.ConnectionError, match="other"):
        client.ping()
    assert JobQueue(redis_client(url)).put(build_plan_job(uuid4())) is False


def test_the_service_imports_pushes_through_a_fail_over(watched: Watched, settings: Settings, tmp_path: Path) -> None:
    own = settings.model_copy(update={"redis_url": watched.url})
    with (
        running_service(own, tmp_path, SWEEP_SECONDS="1", IMPORT_WAIT_SECONDS="3") as service,
        service.new_tenant() as client,
    ):
        assert client.push(route_body(datetime.now(UTC))).status_code == 201
        watched.fail_over()
        held = client.push(route_body(datetime.now(UTC)))
        assert held.status_code in (201, 202)
        client.wait_for(held.json()["id"], "draft")
        eventually(lambda: client.push(route_body(datetime.now(UTC))).status_code, lambda status: status == 201)


@pytest.mark.parametrize(
    "url",
    [
        "redis+sentinel://a:26379,b/NAME",
        "redis+sentinel://user:p%40ss@a:1,b:2,c:3/my-name.1/15?sentinel_password=x&socket_timeout=2",
        "rediss+sentinel://:x@[::1]:26379,b/NAME/0?ssl_ca_certs=/etc/ca.pem",
    ],
)
def test_an_address_of_sentinels_is_accepted_as_it_is(url: str) -> None:
    assert redis_address(url) == url


@pytest.mark.parametrize(
    "url",
    [
        "redis+sentinel://a:26379",
        "redis+sentinel:///NAME",
        "redis+sentinel://a,,b/NAME",
        "redis+sentinel://a:port/NAME",
        "redis+sentinel://:p@ss@a/NAME",
        "redis+sentinel://a/NAME/x",
        "redis+sentinel://a/NAME?nonsense=1",
        "unix+sentinel://a/NAME",
    ],
)
def test_a_mistyped_address_of_sentinels_is_refused_without_repeating_it(url: str) -> None:
    with pytest.raises(ValueError, match=r"^this is no address of (Sentinels|a Redis)") as refused:
        redis_address(url)
    assert "p@ss" not in str(refused.value)


def test_the_parts_of_an_address_of_sentinels() -> None:
    parts = sentinel_address("rediss+sentinel://u:p@a:1,[::1]/NAME/3?ssl_ca_certs=/ca.pem")
    assert parts is not None
    assert parts.hosts == [("a", 1), ("::1", 26379)]
    assert (parts.name, parts.plain) == ("NAME", "rediss://u:p@a:1/3?ssl_ca_certs=/ca.pem")
