"""Pushes that come together: a bad neighbour costs the others nothing, and every answer is one of a route that was."""

import math
import statistics
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from domain.contract.checking import read_body
from domain.contract.shapes import RouteInput
from domain.encoding import write
from domain.routes.intake.pushes import Push, store_pushes
from ingress.api.push_storage import STORING_SECONDS
from tests.domain.helpers import refusing
from tests.factories import JOLIET, NEWARK, PERRYSBURG, route_body
from tests.service import Client, Service, one_below


@pytest.mark.parametrize("update", [False, True])
def test_a_failing_push_stops_no_other_in_its_batch(client: Client, update: bool) -> None:
    bad = f"BAD-{uuid4().hex}"
    bodies: list[dict[str, Any]] = [route_body(datetime.now(UTC)) for _ in range(24)]
    if update:
        assert all(client.push(body).status_code == 201 for body in bodies)
    for number, body in enumerate(bodies):
        body["reference"] = bad if number % 8 == 0 else f"PO-{number}"

    refused = refusing(client.service.database, "INSERT OR UPDATE", f"NEW.reference = '{bad}'")
    with refused, ThreadPoolExecutor(len(bodies)) as threads:
        answers = list(threads.map(client.push, bodies))

    for body, answer in zip(bodies, answers, strict=True):
        if body["reference"] == bad:
            assert (answer.status_code, answer.json()["code"]) == (500, "internal_error")
        else:
            assert (answer.status_code, answer.json()["reference"]) == (200 if update else 201, body["reference"])


def test_two_pushes_of_one_new_route_never_answer_with_a_mix_of_both(client: Client) -> None:
    def answered_by(body: dict[str, Any]) -> tuple[str | None, ...]:
        route = client.push(body).json()
        return route["vehicle"]["unitNumber"], route["driver"]["name"], *(stop["name"] for stop in route["stops"])

    with ThreadPoolExecutor(2) as threads:
        for _ in range(40):
            one = route_body(datetime.now(UTC), stops=[JOLIET, NEWARK])
            other = {
                **one,
                "vehicle": {"unitNumber": "102"},
                "driver": {"name": "Bo Diaz"},
                "stops": [PERRYSBURG, NEWARK],
            }
            for seen in threads.map(answered_by, (one, other)):
                assert seen in {
                    ("101", "Ann Lee", JOLIET["name"], NEWARK["name"]),
                    ("102", "Bo Diaz", PERRYSBURG["name"], NEWARK["name"]),
                }


@contextmanager
def held(client: Client, *bodies: dict[str, Any], by: str) -> Iterator[None]:
    """Another transaction holds what these pushes need, as long as the block."""
    tenant = (client.fleet.company_id, "live")
    names = [body["externalId"] for body in bodies]
    with client.service.database.transaction() as connection:
        if by == "its row":
            connection.execute(
                "SELECT FROM routes WHERE company_id = %s AND environment = %s AND external_id = ANY(%s) FOR UPDATE",
                (*tenant, names),
            )
        elif by == "its external id":
            store_pushes(connection, [_as_push(client, body) for body in bodies], now=datetime.now(UTC))
        else:
            same = [_as_push(client, {**body, "externalId": uuid4().hex}) for body in bodies]
            store_pushes(connection, same, now=datetime.now(UTC))
        yield
        raise psycopg.Rollback


def _as_push(client: Client, body: dict[str, Any]) -> Push:
    return Push(client.fleet.live, read_body(write(body), RouteInput))


@pytest.mark.parametrize(
    ("by", "stuck"), [("its row", 1), ("its row", 12), ("its external id", 12), ("its reference", 12)]
)
def test_a_push_that_waits_for_a_lock_fails_alone_and_in_time(service: Service, by: str, stuck: int) -> None:
    """Twelve of a caller's own that are stuck cost the others no more than one does."""
    assert one_below(5, lambda: seconds_of_the_slowest_group(service, by, stuck))


_TIME_OF_A_BATCH = STORING_SECONDS + 1
"""Seconds after which the rest of a batch is given up."""


def seconds_of_the_slowest_group(service: Service, by: str, stuck: int) -> float:
    """The seconds until half of the stuck pushes, of their caller's others, and of a stranger's are answered, of the
    slowest of the three groups."""
    with service.new_tenant(superseding=True) as client, service.new_tenant() as stranger:
        bodies = [route_body(datetime.now(UTC), reference=f"PO-{number}") for number in range(24)]
        if by == "its row":
            assert all(client.push(body).status_code == 201 for body in bodies)
        for body in bodies:
            body["stops"] = [{**JOLIET, "name": "RequestMiddleware 2"}, NEWARK]

        def push(number: int) -> tuple[int, float]:
            started = time.monotonic()
            answer = client.push(bodies[number]) if number < 24 else stranger.push(route_body(datetime.now(UTC)))
            return answer.status_code, time.monotonic() - started

        with held(client, *bodies[:stuck], by=by), ThreadPoolExecutor(32) as threads:
            answers = list(threads.map(push, range(32)))

        statuses = [status for status, _ in answers]
        assert statuses[:stuck] == [500] * stuck
        if 500 in statuses[stuck:] and max(seconds for _, seconds in answers) > _TIME_OF_A_BATCH:
            return math.inf  # the machine stood still
        assert set(statuses[stuck:24]) == {200 if by == "its row" else 201}
        assert set(statuses[24:]) == {201}
        assert client.push(bodies[0]).status_code in (200, 201)
    waits = [seconds for _, seconds in answers]
    return max(map(statistics.median, (waits[:stuck], waits[stuck:24], waits[24:])))
