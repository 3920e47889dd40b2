"""A batch of pushes: one bad neighbour, for a new route or an update, costs the others nothing."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest

from tests.domain.helpers import refusing
from tests.factories import route_body
from tests.service import Client


@pytest.mark.parametrize("update", [False, True])
def test_a_push_that_fails_costs_its_neighbours_nothing(client: Client, update: bool) -> None:
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
