"""A Redis of its own for each module of tests, and an empty job queue on it."""

from collections.abc import Iterator

import pytest

from domain.queue.job_queue import JobQueue
from domain.queue.redis_clients import redis_client
from tests.workers.one_queue import Server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    one = Server(tmp_path_factory.mktemp("redis"))
    one.start()
    yield one
    one.stop()


@pytest.fixture
def queue(server: Server) -> Iterator[JobQueue]:
    with redis_client(server.url) as client:
        client.flushdb()
        yield JobQueue(client)
