"""Limits: 600 requests in any minute, counted for each key, and said on every answer."""

from concurrent.futures import ThreadPoolExecutor
from datetime import datetime

import httpx
import pytest

from domain.queue.redis_clients import redis_client
from ingress.api.rate_limits import counter_of
from tests.contract.checks import count_routes, problem, put_in_status
from tests.contract.conftest import Clients
from tests.factories import JOLIET, route_body
from tests.limiter import spend
from tests.service import Client


def remaining(answer: httpx.Response) -> int:
    assert answer.headers["X-RateLimit-Limit"] == "600"
    return int(answer.headers["X-RateLimit-Remaining"])


def use_up(client: Client, requests: int) -> list[int]:
    """Sends so many requests, all of which must pass. Gives what was left after each."""

    def one(_: int) -> int:
        answer = client.get("/v1/me")
        assert answer.status_code == 200, answer.text
        return remaining(answer)

    with ThreadPoolExecutor(4) as threads:
        return list(threads.map(one, range(requests)))


def test_exactly_600_requests_pass_in_a_minute(client: Client, clients: Clients, now: datetime) -> None:
    """Limits: 600 requests per minute, counted per key (not per company); errors, rate_limited 429."""
    neighbour = clients.colleague(client)

    assert sorted(use_up(client, 600)) == list(range(600))

    for _ in range(3):  # refused requests are not counted, and there is nothing to count down any more
        answer = client.push(route_body(now))
        problem(answer, 429, "rate_limited")
        assert remaining(answer) == 0
        assert 1 <= int(answer.headers["Retry-After"]) <= 60
    for method, path in (("GET", "/v1/me"), ("GET", "/v1/routes"), ("GET", "/v1/vehicles"), ("GET", "/v1/drivers")):
        problem(client.request(method, path), 429, "rate_limited")
    problem(client.delete("/v1/routes/rte_" + "0" * 32), 429, "rate_limited")
    assert count_routes(client) == 0, "a rate-limited request is not processed"
    assert remaining(neighbour.get("/v1/me")) == 599


def test_a_request_leaves_the_window_after_a_minute(client: Client) -> None:
    """Decision 14: 600 requests in any 60 seconds (sliding); the clock is moved in Redis instead of waiting."""
    spend(client, "requests", 600)
    problem(client.get("/v1/me"), 429, "rate_limited")
    with redis_client(client.service.settings.require_redis_url()) as redis:
        key = counter_of("requests", client.key_id)
        times = [int(moment) for moment in redis.lrange(key, 0, -1)]
        for index in range(590, 600):  # the oldest ten were sent a minute earlier
            redis.lset(key, index, str(times[index] - 60_000_000))

    assert sorted(use_up(client, 10)) == list(range(10))
    problem(client.get("/v1/me"), 429, "rate_limited")


def test_the_headers_count_down(client: Client) -> None:
    """Decision 14: X-RateLimit-Limit and X-RateLimit-Remaining on every answer to a valid key."""
    assert [remaining(client.get("/v1/me")) for _ in range(3)] == [599, 598, 597]


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v1/me", 200),
        ("GET", "/v1/routes", 200),
        ("GET", "/v1/vehicles", 200),
        ("GET", "/v1/drivers", 200),
        ("POST", "/v1/routes", 400),
        ("GET", "/v1/routes?limit=0", 400),
        ("GET", "/v1/routes/x", 404),
        ("DELETE", "/v1/routes/x", 404),
        ("GET", "/v1/nothing", 404),
        ("PUT", "/v1/routes", 405),
    ],
)
def test_every_answer_to_a_valid_key_says_how_many_requests_are_left(
    client: Client, method: str, path: str, status: int
) -> None:
    """Decision 14: also on answers that are errors."""
    answer = client.request(method, path)

    assert answer.status_code == status
    assert remaining(answer) == 599


def test_every_kind_of_push_and_read_says_how_many_requests_are_left(
    client: Client, clients: Clients, now: datetime
) -> None:
    """Decision 14: 201, 200, 202, 409, 204, 304, 403, 415."""
    body = route_body(now)
    created = client.push(body)
    path = f"/v1/routes/{created.json()['id']}"
    answers = [
        created,
        client.push(body),
        client.push(route_body(now, vehicle={"unitNumber": "999"})),
        client.get(path, headers={"If-None-Match": "*"}),
        client.get(path, headers={"If-None-Match": '"old"'}),
        client.post("/v1/routes", content=b"x", headers={"Content-Type": "text/plain"}),
    ]
    put_in_status(client, created.json()["id"], "active")
    answers.append(client.push(body))
    put_in_status(client, created.json()["id"], "draft")
    answers.append(client.delete(path))

    assert [answer.status_code for answer in answers] == [201, 200, 202, 304, 200, 415, 409, 204]
    assert [remaining(answer) for answer in answers] == list(range(599, 591, -1))
    assert remaining(clients.colleague(client, "drivers:read").get("/v1/routes")) == 599


def test_an_answer_to_an_invalid_key_has_no_limit_headers(anonymous: httpx.Client) -> None:
    """Decision 14: the headers belong to a valid key."""
    answer = anonymous.get("/v1/me", headers={"Authorization": "Bearer svc_live_" + "x" * 40})

    assert answer.status_code == 401
    assert "X-RateLimit-Limit" not in answer.headers
    assert "X-RateLimit-Remaining" not in answer.headers


@pytest.mark.parametrize(
    ("method", "path"), [("GET", "/v1/nothing"), ("PUT", "/v1/routes"), ("GET", "/v1/openapi.json")]
)
def test_requests_to_unknown_addresses_are_limited_too(client: Client, method: str, path: str) -> None:
    """Decision 14: at addresses where there is nothing, also."""
    spend(client, "requests", 599)
    assert client.request(method, path).status_code in (200, 404, 405)

    answer = client.request(method, path)

    problem(answer, 429, "rate_limited")
    assert remaining(answer) == 0
    assert 1 <= int(answer.headers["Retry-After"]) <= 60
    assert httpx.request(method, f"{client.service.url}{path}", timeout=120).status_code in (200, 404, 405)


def test_requests_to_the_feed_are_limited_apart_and_refused_bodies_count(client: Client, now: datetime) -> None:
    """Decision 14: 6,000 requests a minute of a key to the feed, whatever is in them."""
    spend(client, "feed_requests", 5995)
    for body in (b"{", b'{"positions": []}', b"[" * 100_000):
        problem(client.post("/telematics/positions", content=body), 400, "validation_error")
    problem(client.get("/telematics/positions"), 405, "method_not_allowed")
    assert client.post_fixes(JOLIET, at=now).status_code == 202

    for answer in (
        client.post_fixes(JOLIET, at=now),
        client.post("/telematics/positions", content=b"{"),
        client.get("/telematics/positions"),
        client.get("/telematics/nothing"),
    ):
        problem(answer, 429, "rate_limited")
        assert "6,000 requests" in answer.json()["detail"]
        assert 50 <= int(answer.headers["Retry-After"]) <= 60
        assert remaining(answer) == 600
    assert remaining(client.get("/v1/me")) == 599


def test_requests_to_the_feed_use_up_nothing_of_the_api_s_limit(
    clients: Clients, client: Client, now: datetime
) -> None:
    """The telematics feed is no part of /v1. Decision 14: the headers are on every answer to a valid key."""
    assert remaining(client.get("/v1/me")) == 599
    for fix in ({}, {"unitNumber": "101", "latitude": 41, "longitude": -88, "recordedAt": now.isoformat()}):
        answer = client.post("/telematics/positions", json={"positions": [fix]})
        assert (answer.status_code, remaining(answer)) == (202, 599)
    assert remaining(client.get("/telematics/positions")) == 599
    refused = clients.colleague(client, "routes:read").post("/telematics/positions", json={"positions": [{}]})
    assert (refused.status_code, remaining(refused)) == (403, 600)

    assert remaining(client.get("/v1/me")) == 598


def test_the_positions_of_a_feed_key_are_limited(client: Client, clients: Clients, now: datetime) -> None:
    """The feed: 600,000 positions of a key in any minute, counted apart from its requests; beyond that 429."""
    neighbour = clients.colleague(client)
    with redis_client(client.service.settings.require_redis_url()) as redis:
        redis.hset(counter_of("positions", client.key_id), str(int(redis.time()[0]) - 20), 600_000 - 3)

    answers = [client.post_fixes(JOLIET, count=count, at=now) for count in (3, 1)]

    assert answers[0].status_code == 202
    problem(answers[1], 429, "rate_limited")
    assert 0 < int(answers[1].headers["Retry-After"]) <= 40
    assert remaining(answers[1]) == 600
    assert neighbour.post_fixes(JOLIET, count=1, at=now).status_code == 202
    assert remaining(client.get("/v1/me")) == 599
