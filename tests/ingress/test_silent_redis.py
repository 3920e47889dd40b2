"""A Redis that is silent instead of gone: one caller waits for it, and everything goes on when it is back."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import httpx
import pytest

from domain.settings import Settings
from tests.factories import route_body
from tests.servers import OwnRedis
from tests.service import Client, Service, eventually, running_service, takes_less

IMPORT_WAIT_SECONDS = 1


@pytest.fixture(scope="module")
def service(settings: Settings, redis: OwnRedis, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    own = settings.model_copy(update={"redis_url": redis.url})
    with running_service(
        own,
        tmp_path_factory.mktemp("logs"),
        SWEEP_SECONDS="1",
        IMPORT_WAIT_SECONDS=str(IMPORT_WAIT_SECONDS),
    ) as running_one:
        yield running_one


def timed_push(client: Client) -> tuple[float, httpx.Response]:
    started = time.monotonic()
    answer = client.push(route_body(datetime.now(UTC)))
    return time.monotonic() - started, answer


def test_pushes_are_answered_while_redis_is_silent_and_use_it_again_afterwards(client: Client, redis: OwnRedis) -> None:
    eventually(lambda: timed_push(client)[1].status_code, lambda status: status == 201)
    redis.fall_silent()
    try:
        assert timed_push(client)[1].status_code == 202  # the one that finds out
        rounds: list[list[tuple[float, httpx.Response]]] = []
        end = time.monotonic() + 6  # while it is tried again and again
        while time.monotonic() < end or len(rounds) < 3:
            with ThreadPoolExecutor(4) as threads:
                rounds.append(list(threads.map(lambda _: timed_push(client), range(4))))
            time.sleep(0.2)  # each push is also imported in the end
        answers = [answer for one in rounds for _, answer in one]
        for answer in answers:
            assert (answer.status_code, answer.json()["status"]) == (202, "pending")
            assert "X-RateLimit-Limit" not in answer.headers
        slowest = [max(seconds for seconds, _ in one) for one in rounds]
        assert min(slowest) < IMPORT_WAIT_SECONDS + 0.5, (
            "a busy machine delays some rounds, a wait for Redis all of them"
        )
        to_cancel = [answer.json()["id"] for answer in answers[2:]]

        def report_and_cancel() -> None:
            assert client.post_fixes({"latitude": 41.0, "longitude": -88.0}).status_code == 202
            assert client.delete(f"/v1/routes/{to_cancel.pop()}").status_code == 204

        assert takes_less(1.5, report_and_cancel)
    finally:
        redis.speak_again()

    eventually(
        lambda: timed_push(client)[1],
        lambda answer: answer.status_code == 201 and "X-RateLimit-Limit" in answer.headers,
    )
    client.wait_for(answers[1].json()["id"], "draft")  # the sweep has found it
