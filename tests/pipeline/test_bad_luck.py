"""Processes die, and nothing is lost. Each test runs servers and processes of its own."""

import os
import signal
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from deploy.embedded import EmbeddedRedis, running
from deploy.processes import Child
from domain.migrations import migrate
from domain.settings import Settings
from tests.conftest import make_database
from tests.factories import JOLIET, route_body
from tests.pipeline.world import messages_of, store_prices
from tests.rows import stored_id
from tests.servers import CopiedPostgres
from tests.service import eventually, running_service


@pytest.fixture
def own_settings(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Settings]:
    """A database and a Redis that a test may break."""
    redis = EmbeddedRedis(tmp_path, durable=False)
    name = f"bad_luck_{os.getpid()}_{request.node.name}"[:60]
    with running(redis) as url:
        yield Settings(data=tmp_path, database_url=make_database(name), redis_url=url, import_wait_seconds=0.3)


def test_pushes_wait_for_workers_that_are_stopped(own_settings: Settings, tmp_path: Path) -> None:
    with running_service(own_settings, tmp_path, processes=("ingress",), IMPORT_WAIT_SECONDS="0.2") as service:
        with service.new_tenant() as client:
            pushed = client.push(route_body(datetime.now(UTC)))

            assert pushed.status_code == 202
            assert pushed.json()["status"] == "pending"
            assert pushed.json()["pending"]["reason"] == "not_attempted"
            route_id = pushed.json()["id"]
        with (
            running_service(own_settings, tmp_path, processes=("ingress", "imports")) as later,
            later.client(client.fleet) as same,
        ):
            same.wait_for(route_id, "draft")


def test_pushes_are_accepted_while_redis_is_away_and_imported_when_it_is_back(tmp_path: Path) -> None:
    redis = EmbeddedRedis(tmp_path, durable=False)
    settings = Settings(data=tmp_path, database_url=make_database("redis_away"), redis_url=redis.url)
    redis.prepare()
    child = Child(redis.spec())
    try:
        eventually(lambda: redis.spec().is_ready, lambda ready: ready is not None and ready())
        with (
            running_service(settings, tmp_path, SWEEP_SECONDS="1") as service,
            service.new_tenant() as client,
        ):
            assert client.push(route_body(datetime.now(UTC))).status_code == 201
            child.kill_group()

            pushed = client.push(route_body(datetime.now(UTC)))

            assert (pushed.status_code, pushed.json()["status"]) == (202, "pending")
            assert "X-RateLimit-Limit" not in pushed.headers
            child = Child(redis.spec())
            client.wait_for(pushed.json()["id"], "draft")
            again = eventually(
                lambda: client.push(route_body(datetime.now(UTC))), lambda answer: answer.status_code == 201
            )
            assert again.json()["status"] == "draft"
    finally:
        child.kill_group()


def test_requests_store_nothing_while_postgres_is_away_and_succeed_afterwards(tmp_path: Path) -> None:
    postgres = CopiedPostgres(tmp_path)
    postgres.prepare()
    child = Child(postgres.spec())
    try:
        eventually(lambda: postgres.spec().is_ready, lambda ready: ready is not None and ready())
        migrate(postgres.url)
        with running(EmbeddedRedis(tmp_path, durable=False)) as redis_url:
            settings = Settings(data=tmp_path, database_url=postgres.url, redis_url=redis_url)
            with (
                running_service(
                    settings, tmp_path, processes=("ingress", "imports"), DATABASE_TIMEOUT_SECONDS="1"
                ) as service,
                service.new_tenant() as client,
            ):
                child.signal(signal.SIGQUIT)  # at once, as in a crash
                child.process.wait()

                failed = client.push(route_body(datetime.now(UTC)))

                assert failed.status_code == 500
                assert failed.headers["content-type"] == "application/problem+json"
                assert failed.json()["code"] == "internal_error"
                child = Child(postgres.spec())
                pushed = eventually(
                    lambda: client.push(route_body(datetime.now(UTC))), lambda answer: answer.status_code == 201
                )
                assert pushed.json()["status"] == "draft"
                total = client.get("/v1/routes").json()["total"]
                assert total >= 1
    finally:
        child.signal(signal.SIGINT)
        child.process.wait()
        child.kill_group()


def test_repeated_and_outdated_jobs_do_nothing(own_settings: Settings, tmp_path: Path) -> None:
    from domain.ids import new_id
    from domain.queue.job_queue import JobQueue
    from domain.queue.jobs import build_plan_job, import_routes_job, process_positions_job, send_message_job

    with running_service(own_settings, tmp_path) as service, service.new_tenant() as client:
        store_prices(service)
        route_id = client.push(route_body(datetime.now(UTC))).json()["id"]
        client.post_fixes(JOLIET, fuelPercent=60)
        before = client.wait_for(route_id, "active")
        (message,) = messages_of(client, route_id)
        queue = JobQueue.of(own_settings)

        company_id = client.fleet.company_id
        for _ in range(3):
            queue.put(
                import_routes_job([stored_id(route_id), new_id()], company_id),
                process_positions_job("live", [client.fleet.trucks[0], new_id()], company_id),
                build_plan_job(stored_id(route_id), company_id),
                build_plan_job(new_id(), company_id),
                send_message_job(message.id, company_id),
                send_message_job(new_id(), company_id),
            )
        eventually(
            lambda: [queue.backlog(name) for name in ("imports", "arrivals", "plans", "messages")],
            lambda lengths: not any(lengths),
        )

        assert len(messages_of(client, route_id)) == 1
        after = client.route(route_id)
        assert after == before
