"""PostgreSQL falls silent without closing its connections: every request is answered, and all goes on afterwards."""

import statistics
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import httpx
import pytest

from deploy.embedded import EmbeddedRedis, running
from domain.migrations import migrate
from domain.settings import Settings
from tests.factories import JOLIET, route_body
from tests.run_folder import own_folder
from tests.servers import CopiedPostgres
from tests.service import Client, Service, eventually, one_below, running_service
from tests.silence import postmaster_of, stopped


@pytest.fixture(scope="module")
def own_service() -> Iterator[Service]:
    """The whole service over servers of its own, which the tests may stop."""
    with (
        own_folder("silence") as folder,
        running(CopiedPostgres(folder, durable=False)) as database_url,
        running(EmbeddedRedis(folder, durable=False)) as redis_url,
    ):
        migrate(database_url)
        settings = Settings(data=folder, database_url=database_url, redis_url=redis_url)
        with running_service(settings, folder, SWEEP_SECONDS="1", WORKER_THREADS="2") as service:
            yield service


def requests_of(client: Client, route_id: str) -> list[Callable[[], httpx.Response]]:
    """One of each kind."""
    return [
        lambda: client.push(route_body(datetime.now(UTC))),
        lambda: client.get(f"/v1/routes/{route_id}"),
        lambda: client.get(f"/v1/routes/{route_id}", headers={"If-None-Match": '"1-x"'}),
        lambda: client.get("/v1/routes", params={"externalId": "A"}),
        lambda: client.get("/v1/routes"),
        lambda: client.delete(f"/v1/routes/{route_id}"),
        lambda: client.get("/v1/me"),
        lambda: client.get("/v1/vehicles"),
        lambda: client.get("/v1/drivers"),
        lambda: client.post_fixes(JOLIET),
    ]


def timed(request: Callable[[], httpx.Response]) -> tuple[int, str, float]:
    started = time.monotonic()
    answer = request()
    return answer.status_code, answer.json()["code"], time.monotonic() - started


def push(client: Client) -> str:
    """The id of a route that is pushed once PostgreSQL is there."""
    pushed = eventually(
        lambda: client.push(route_body(datetime.now(UTC))), lambda answer: answer.status_code in (201, 202)
    )
    return str(pushed.json()["id"])


def seconds_of_the_slowest_kind(service: Service) -> float:
    """The seconds until half of the requests of each kind are answered while PostgreSQL is stopped, of the slowest
    kind. Another request is served afterwards."""
    with service.new_tenant() as client, ThreadPoolExecutor(60) as threads:
        route_id = push(client)
        for number in range(20):  # connections in the pools, as a busy process has
            assert client.get(f"/v1/routes/{route_id}").status_code == 200, number
        with stopped(postmaster_of(service.settings.require_database_url())):
            kinds = requests_of(client, route_id)
            answers = [
                outcome
                for _ in range(2)  # the second time nothing is known to be alive
                for outcome in threads.map(timed, kinds * 6)
            ]

        assert {(status, code) for status, code, _ in answers} == {(500, "internal_error")}
        client.wait_for(push(client), "draft")
    waits = [seconds for *_, seconds in answers]
    return max(statistics.median(waits[kind :: len(kinds)]) for kind in range(len(kinds)))


def test_every_request_is_answered_while_postgres_is_stopped_and_succeeds_afterwards(own_service: Service) -> None:
    assert one_below(5, lambda: seconds_of_the_slowest_kind(own_service))
