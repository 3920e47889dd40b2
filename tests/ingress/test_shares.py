"""One company's work leaves the others their threads, and ends with its key."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime

import httpx
import psycopg

from domain.accounts.keys import revoke_key
from domain.contract.checking import read_body
from domain.contract.shapes import RouteInput
from domain.database.connections import Connection
from domain.encoding import write
from domain.queue.redis_clients import redis_client
from domain.routes.intake.pushes import Push, store_pushes
from ingress.api.rate_limits import counter_of
from tests.contract.checks import count_routes, problem
from tests.factories import DOT, route_body
from tests.rows import blocked_by, stored_id
from tests.service import Client, Service, eventually

MANY = 12
"""More than an ingress process has threads."""

GIVEN_UP = {500}
"""A wait for rows that others have locked is short."""


@contextmanager
def waiting_cancels(client: Client, route_id: str) -> Iterator[list[Future[httpx.Response]]]:
    """Requests of the client, `MANY` of them, that wait for a route's row until the block ends."""
    with ThreadPoolExecutor(MANY) as threads, client.service.database.transaction() as connection:
        connection.execute("SELECT FROM routes WHERE id = %s FOR UPDATE", (stored_id(route_id),))
        cancels = [threads.submit(client.delete, f"/v1/routes/{route_id}") for _ in range(MANY)]
        eventually(lambda: requests_of(client), lambda requests: requests >= MANY)
        yield cancels


def requests_of(client: Client) -> int:
    """The number of the client's requests that have been let in."""
    with redis_client(client.service.settings.require_redis_url()) as redis:
        return int(redis.llen(counter_of("requests", client.key_id)))


def until_blocked(
    connection: Connection, send: Callable[[], list[Future[httpx.Response]]]
) -> list[Future[httpx.Response]]:
    """The requests that `send` begins, once one waits for what this transaction holds. They are sent again if they have
    given up before that is seen, as on a machine that stands still."""
    requests = send()

    def blocked() -> list[int]:
        if all(request.done() for request in requests):
            requests[:] = send()
        return blocked_by(connection)

    eventually(blocked, bool)
    return requests


def test_work_of_one_company_that_hangs_leaves_threads_to_the_others(client: Client, service: Service) -> None:
    route_id = client.push(route_body(datetime.now(UTC))).json()["id"]

    with service.new_tenant() as other, waiting_cancels(client, route_id) as cancels:
        for path in ("/v1/me", "/v1/routes", "/v1/vehicles", "/v1/drivers"):
            assert other.get(path).status_code == 200
        assert other.post_fixes({"latitude": 41, "longitude": -87}).status_code == 202
        assert not all(cancel.done() for cancel in cancels)

    assert {cancel.result().status_code for cancel in cancels} <= {204, *GIVEN_UP}


def test_a_waiting_request_is_not_done_when_its_key_is_revoked(client: Client, service: Service) -> None:
    route_id = client.push(route_body(datetime.now(UTC))).json()["id"]
    paths = ("/v1/me", "/v1/routes", "/v1/vehicles", "/v1/drivers")

    with service.client(client.fleet) as leaver, ThreadPoolExecutor(len(paths)) as threads:
        with waiting_cancels(leaver, route_id) as requests:
            requests += [threads.submit(leaver.get, path) for path in paths]
            eventually(lambda: requests_of(leaver), lambda count: count == MANY + len(paths))
            with service.database.transaction() as connection:
                revoke_key(connection, leaver.key_id, DOT)

        for request in requests[MANY:]:
            problem(request.result(), 401, "unauthorized")
            assert "X-RateLimit-Remaining" not in request.result().headers
        assert {request.result().status_code for request in requests[:MANY]} <= {401, *GIVEN_UP}
    assert client.route(route_id)["status"] == "draft"


def test_an_update_that_waits_when_its_key_is_revoked_fails_alone(client: Client, service: Service) -> None:
    bodies = [route_body(datetime.now(UTC)) for _ in range(MANY)]
    ids = [client.push(body).json()["id"] for body in bodies]

    with service.client(client.fleet) as leaver, ThreadPoolExecutor(MANY) as threads:
        assert leaver.get("/v1/me").status_code == 200
        with service.database.transaction() as connection:
            connection.execute(
                "SELECT FROM routes WHERE id = ANY(%s) FOR UPDATE", ([stored_id(shown) for shown in ids],)
            )

            def update() -> list[Future[httpx.Response]]:
                return [
                    threads.submit((leaver, client)[number % 2].push, {**body, "reference": "CHANGED"})
                    for number, body in enumerate(bodies)
                ]

            updates = until_blocked(connection, update)
            with service.database.transaction() as another:
                revoke_key(another, leaver.key_id, DOT)

        answers = [update.result() for update in updates]
    for refused in answers[::2]:
        assert refused.status_code in {401, *GIVEN_UP}
        assert refused.status_code != 401 or "X-RateLimit-Remaining" not in refused.headers
    assert {answer.status_code for answer in answers[1::2]} <= {200, *GIVEN_UP}
    changed = {route_id for route_id in ids if client.route(route_id)["reference"] == "CHANGED"}
    assert changed == {answer.json()["id"] for answer in answers if answer.status_code == 200}


def test_a_new_route_that_waits_when_its_key_is_revoked_is_not_stored(client: Client, service: Service) -> None:
    bodies = [route_body(datetime.now(UTC)) for _ in range(MANY)]
    stuck = read_body(write(bodies[0]), RouteInput)

    with service.client(client.fleet) as leaver, ThreadPoolExecutor(MANY) as threads:
        assert leaver.get("/v1/me").status_code == 200
        with service.database.transaction() as connection:
            store_pushes(connection, [Push(client.fleet.live, stuck)], now=datetime.now(UTC))
            pushes = until_blocked(connection, lambda: [threads.submit(client.push, bodies[0])])
            pushes += [threads.submit(leaver.push, body) for body in bodies[1:]]
            eventually(lambda: requests_of(leaver), lambda count: count == MANY)  # with the one before
            time.sleep(0.5)  # those in other batches are stored; those behind the first wait for thrice as long
            with service.database.transaction() as another:
                revoke_key(another, leaver.key_id, DOT)
            stored = count_routes(client)
            assert {push.result().status_code for push in pushes} <= {201, 401, *GIVEN_UP}
            raise psycopg.Rollback
    assert count_routes(client) == stored
