"""DELETE /v1/routes/{id}: what it does in every status, and that it can be repeated."""

from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any

import pytest

from tests.contract.checks import accepted, problem, put_in_status, stored_route
from tests.factories import PLAN, route_body
from tests.service import Client

HOLDS: dict[str, dict[str, Any]] = {
    "pending_mapping": {"vehicle": {"unitNumber": "999"}},
    "pending_window": {"scheduledStart": "2099-01-01T00:00:00Z"},
}


def canceled(client: Client, route_id: str) -> None:
    """Cancels a route and checks the answer and what is left."""
    answer = client.delete(f"/v1/routes/{route_id}")

    assert (answer.status_code, answer.content) == (204, b"")
    assert "Content-Type" not in answer.headers
    route = client.route(route_id)
    assert (route["status"], route["pending"], route["fuelPlan"]) == ("canceled", None, None)
    assert stored_route(client, route_id).closed_reason == "Canceled via API"


@pytest.mark.parametrize("status", ["draft", "planned"])
def test_a_draft_or_planned_route_is_retired(client: Client, now: datetime, status: str) -> None:
    """Transitions: draft or planned -> DELETE -> retired, `Canceled via API`, 204; decision 6: reads `canceled`."""
    route_id = accepted(client.push(route_body(now)), 201)["id"]
    put_in_status(client, route_id, status, plan=PLAN)

    canceled(client, route_id)


@pytest.mark.parametrize("status", sorted(HOLDS))
def test_a_held_route_is_dropped(client: Client, now: datetime, status: str) -> None:
    """Transitions: pending_mapping, pending_window -> DELETE -> dropped, 204."""
    route = accepted(client.push(route_body(now) | HOLDS[status]), 202)
    assert route["status"] == status

    canceled(client, route["id"])


def test_a_pending_route_is_dropped(client: Client, now: datetime) -> None:
    """Transitions: pending -> DELETE -> dropped, 204."""
    route_id = accepted(client.push(route_body(now)), 201)["id"]
    put_in_status(client, route_id, "pending")

    canceled(client, route_id)


@pytest.mark.parametrize("status", ["active", "completed", "error"])
def test_a_started_or_finished_route_is_not_canceled(client: Client, now: datetime, status: str) -> None:
    """Transitions: active or completed -> DELETE -> unchanged, 409 `route_active`; decision 6: error as well."""
    route_id = accepted(client.push(route_body(now)), 201)["id"]
    put_in_status(client, route_id, status, plan=PLAN)
    before = client.route(route_id)

    problem(client.delete(f"/v1/routes/{route_id}"), 409, "route_active")

    assert client.route(route_id) == before


def test_a_second_cancel_is_no_error(client: Client, now: datetime) -> None:
    """Decision 6: canceled again -> 204, and nothing changes."""
    route_id = accepted(client.push(route_body(now)), 201)["id"]
    canceled(client, route_id)
    before = stored_route(client, route_id)

    canceled(client, route_id)

    assert stored_route(client, route_id) == before


def test_a_canceled_held_route_is_not_imported_any_more(client: Client, now: datetime) -> None:
    """Decision 6: `canceled` is final; a mapping made later moves nothing."""
    route_id = accepted(client.push(route_body(now) | HOLDS["pending_mapping"]), 202)["id"]
    canceled(client, route_id)
    with client.service.database.transaction() as connection:
        connection.execute("UPDATE vehicles SET unit_number = '999' WHERE id = %s", (client.fleet.trucks[1],))

    waiting = accepted(client.push(route_body(now, vehicle={"unitNumber": "999"})), 201)

    assert waiting["status"] == "draft"
    assert client.route(route_id)["status"] == "canceled"


def test_a_cancel_changes_one_route_only(client: Client, now: datetime) -> None:
    """DELETE: by id."""
    first, second = (accepted(client.push(route_body(now)), 201)["id"] for _ in range(2))

    canceled(client, first)

    assert client.route(second)["status"] == "draft"


def test_a_body_is_ignored(client: Client, now: datetime) -> None:
    """DELETE has no body."""
    route_id = accepted(client.push(route_body(now)), 201)["id"]

    answer = client.request("DELETE", f"/v1/routes/{route_id}", content=b"no JSON", headers={"Content-Type": "x/y"})

    assert answer.status_code == 204


def test_concurrent_cancels_and_pushes_leave_at_most_one_open_route(client: Client, now: datetime) -> None:
    """Rule 1 of the transitions, at once: never two routes of one externalId, never a 5xx."""
    body = route_body(now)
    route_id = accepted(client.push(body), 201)["id"]

    with ThreadPoolExecutor(8) as threads:
        cancels = [threads.submit(client.delete, f"/v1/routes/{route_id}") for _ in range(6)]
        pushes = [threads.submit(client.push, body) for _ in range(6)]

    assert {cancel.result().status_code for cancel in cancels} == {204}
    assert {push.result().status_code for push in pushes} <= {200, 201}
    found = client.get("/v1/routes").json()["data"]
    assert sorted(route["status"] for route in found) in (["canceled"], ["canceled", "draft"])
