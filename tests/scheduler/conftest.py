"""A scheduler's passes on a database and a Redis of their own."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from deploy.embedded import EmbeddedRedis, running
from domain.database.connections import Database
from domain.queue.job_queue import JobQueue
from domain.queue.jobs import QUEUES
from domain.queue.redis_clients import redis_client
from domain.settings import Settings
from scheduler.passes import Passes
from tests.conftest import make_database
from tests.scheduler.jobs import Enqueued


@pytest.fixture(scope="module")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running(EmbeddedRedis(Path(tmp_path_factory.mktemp("redis")), durable=False)) as url:
        yield url


@pytest.fixture(scope="module")
def quiet(settings: Settings, redis_url: str) -> Settings:
    """The settings of a database and a Redis that no other scheduler or worker touches."""
    return settings.model_copy(
        update={"database_url": make_database("passes"), "redis_url": redis_url, "data": Path("nowhere")}
    )


@pytest.fixture
def passes(quiet: Settings) -> Iterator[Passes]:
    with Database.of(quiet) as database, redis_client(quiet.require_redis_url()) as client:
        client.flushdb()
        with database.transaction() as connection:
            connection.execute(
                "TRUNCATE messages, visits, plans, routes, positions, tracks, mappings, dropped_fixes, drivers,"
                " vehicles, companies CASCADE"
            )
        yield Passes(quiet, database, JobQueue(client))


@pytest.fixture
def enqueued(passes: Passes) -> Enqueued:
    """The jobs that the passes have put into Redis since the last call: names and payloads."""

    def look() -> list[tuple[str, dict[str, Any]]]:
        client = passes.jobs.client
        found = []
        for queue in QUEUES:
            messages: dict[bytes, bytes] = client.hgetall(f"dramatiq:{queue}.msgs")  # type: ignore[assignment]
            for body in messages.values():
                message = msgspec.json.decode(body)
                found.append((message["actor_name"], message["kwargs"]))
        client.flushdb()
        return sorted(found, key=str)

    return look
