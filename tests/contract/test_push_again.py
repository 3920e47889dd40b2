"""A second push of the same external id answers and acts by the status of its route."""

from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from typing import Any

import pytest

from domain.lifecycle import Environment
from tests.contract.bodies import full_body
from tests.contract.checks import accepted, count_routes, problem, put_in_status, stored_route
from tests.contract.conftest import Clients
from tests.factories import JOLIET, NEWARK, PERRYSBURG, PLAN, route_body
from tests.service import Client


def test_an_identical_push_answers_200_and_the_same_route(client: Client, now: datetime) -> None:
    """POST rule 1: the same externalId updates the route and returns 200."""
    body = full_body(now)
    first = accepted(client.push(body), 201)

    assert accepted(client.push(body), 200) == first
    assert count_routes(client) == 1


def test_an_identical_push_may_be_written_differently(client: Client, now: datetime) -> None:
    """Decision 4: key order, unknown fields, null for nothing, a window without ends and another offset make no other
    body."""
    body = route_body(now, stops=[{**JOLIET, "latitude": 41}, NEWARK])
    first = accepted(client.push(body), 201)
    put_in_status(client, first["id"], "planned", plan=PLAN)
    planned = client.route(first["id"])
    other = dict(reversed(body.items())) | {"note": "ignored", "reference": None}
    other["vehicle"] = {"vin": None, "unitNumber": "101"}
    other["scheduledStart"] = (now.replace(tzinfo=None) - timedelta(hours=6)).isoformat() + ".000-06:00"
    other["stops"] = [
        {**JOLIET, "latitude": 41.0, "address": None, "arrivalWindow": None},
        NEWARK | {"arrivalWindow": {}},
    ]

    assert accepted(client.push(other), 200) == planned
    assert planned["fuelPlan"] is not None


def test_a_changed_body_replaces_the_input(client: Client, now: datetime) -> None:
    """Transitions: any non-active route -> POST with the same externalId -> updated, 200."""
    first = accepted(client.push(full_body(now)), 201)
    update = route_body(
        now + timedelta(days=2),
        externalId=first["externalId"],
        vehicle={"unitNumber": "102"},
        driver={"externalId": "D-2"},
        stops=[JOLIET, PERRYSBURG, NEWARK],
    )

    route = accepted(client.push(update), 200)

    assert (route["id"], route["createdAt"], route["status"]) == (first["id"], first["createdAt"], "draft")
    assert (route["reference"], route["name"]) == (None, first["externalId"])
    assert route["vehicle"] == {"id": client.fleet.shown_trucks[1], "unitNumber": "102"}
    assert route["driver"] == {"id": client.fleet.shown_drivers[1], "name": "Bo Diaz"}
    assert datetime.fromisoformat(route["scheduledStart"]) == now + timedelta(days=2)
    assert [stop["name"] for stop in route["stops"]] == ["Joliet terminal", "Perrysburg yard", "Port Newark"]
    assert [stop["address"] for stop in route["stops"]] == [None, None, None]
    assert client.route(first["id"]) == route
    assert count_routes(client) == 1


@pytest.mark.parametrize(
    ("changes", "status", "reason"),
    [
        ({"vehicle": {"unitNumber": "999"}}, "pending_mapping", "vehicle_unmapped"),
        ({"driver": {"name": "Nobody"}}, "pending_mapping", "driver_unmapped"),
        ({"scheduledStart": "2099-01-01T00:00:00Z"}, "pending_window", "outside_import_window"),
    ],
)
def test_an_update_can_hold_a_draft_again(
    client: Client, now: datetime, changes: dict[str, Any], status: str, reason: str
) -> None:
    """Decision 4: a changed body runs the import again and answers 200 with the new state."""
    body = route_body(now)
    first = accepted(client.push(body), 201)

    held = accepted(client.push({**body, **changes}), 200)

    assert (held["id"], held["status"], held["pending"]["reason"]) == (first["id"], status, reason)
    assert accepted(client.push(body), 200)["status"] == "draft"


def test_an_update_of_a_planned_route_discards_its_plan(client: Client, now: datetime) -> None:
    """Decision 4: on a planned route a changed body discards the plan."""
    body = route_body(now)
    route_id = accepted(client.push(body), 201)["id"]
    put_in_status(client, route_id, "planned", plan=PLAN)

    route = accepted(client.push({**body, "reference": "changed"}), 200)

    assert (route["id"], route["status"], route["fuelPlan"], route["distanceMiles"]) == (route_id, "draft", None, None)


@pytest.mark.parametrize("change", [{}, {"reference": "changed"}], ids=["identical", "changed"])
@pytest.mark.parametrize("status", ["active", "completed"])
def test_a_started_route_refuses_every_push(client: Client, now: datetime, status: str, change: dict[str, str]) -> None:
    """Transitions: active -> POST with the same externalId -> 409 `route_active`; decision 4: completed as well."""
    body = route_body(now)
    route_id = accepted(client.push(body), 201)["id"]
    put_in_status(client, route_id, status, plan=PLAN)
    before = client.route(route_id)

    problem(client.push({**body, **change}), 409, "route_active")

    assert client.route(route_id) == before
    assert count_routes(client) == 1


@pytest.mark.parametrize("change", [{}, {"reference": "changed"}], ids=["identical", "changed"])
def test_a_push_starts_a_failed_route_again(client: Client, now: datetime, change: dict[str, str]) -> None:
    """Decision 4: on `error` an identical and a changed body start the import again, 200."""
    body = route_body(now)
    route_id = accepted(client.push(body), 201)["id"]
    put_in_status(client, route_id, "error")

    route = accepted(client.push({**body, **change}), 200)

    assert (route["id"], route["status"], route["reference"]) == (route_id, "draft", change.get("reference"))
    assert stored_route(client, route_id).closed_reason is None


@pytest.mark.parametrize(
    ("change", "status"), [({}, 201), ({"vehicle": {"unitNumber": "999"}}, 202)], ids=["matched", "held"]
)
def test_after_a_cancel_a_push_creates_a_fresh_route(
    client: Client, now: datetime, change: dict[str, Any], status: int
) -> None:
    """Rule 1 of the transitions: after a cancel, pushing the same externalId again creates a fresh route."""
    body = route_body(now)
    canceled = accepted(client.push(body), 201)["id"]
    assert client.delete(f"/v1/routes/{canceled}").status_code == 204

    fresh = accepted(client.push({**body, **change}), status)

    assert fresh["id"] != canceled
    assert client.route(canceled)["status"] == "canceled"
    assert accepted(client.push({**body, **change}), 200)["id"] == fresh["id"]


@pytest.mark.parametrize("status", ["pending_mapping", "pending_window"])
def test_a_held_route_accepts_identical_and_changed_pushes(client: Client, now: datetime, status: str) -> None:
    """Decision 4: identical changes nothing and answers 200; changed runs the import again, 200."""
    changes: dict[str, dict[str, Any]] = {
        "pending_mapping": {"vehicle": {"unitNumber": "999"}},
        "pending_window": {"scheduledStart": "2099-01-01T00:00:00Z"},
    }
    change = changes[status]
    body = route_body(now)
    held = accepted(client.push({**body, **change}), 202)
    assert held["status"] == status

    assert accepted(client.push({**body, **change}), 200) == held
    assert accepted(client.push(body), 200) == {
        **held,
        "status": "draft",
        "pending": None,
        "scheduledStart": now.isoformat().replace("+00:00", "Z"),
        "vehicle": {"id": client.fleet.shown_trucks[0], "unitNumber": "101"},
    }


def test_a_pending_route_accepts_an_identical_push(client: Client, now: datetime) -> None:
    """Decision 4, for a route whose import was not attempted yet or failed."""
    body = route_body(now)
    route_id = accepted(client.push(body), 201)["id"]
    put_in_status(client, route_id, "pending")

    route = accepted(client.push(body), 200)

    assert (route["id"], route["status"], route["pending"]["reason"]) == (route_id, "pending", "error")


def test_concurrent_pushes_of_one_load_make_one_route(client: Client, now: datetime) -> None:
    """POST rule 1: idempotent by externalId, however many arrive together."""
    body = route_body(now)

    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda _: client.push(body), range(16)))

    assert sorted(answer.status_code for answer in answers) == [*[200] * 15, 201]
    assert len({answer.json()["id"] for answer in answers}) == 1
    assert count_routes(client) == 1


def test_the_environments_have_routes_of_their_own(client: Client, clients: Clients, now: datetime) -> None:
    """Authentication: the key decides the environment; the same externalId names one route in each."""
    sandbox = clients.colleague(client, environment=Environment.SANDBOX)
    body = route_body(now)

    live_route = accepted(client.push(body), 201)
    sandbox_route = accepted(sandbox.push(body), 201)

    assert (live_route["environment"], sandbox_route["environment"]) == ("live", "sandbox")
    assert live_route["id"] != sandbox_route["id"]


def test_companies_may_use_the_same_external_id(client: Client, clients: Clients, now: datetime) -> None:
    """A key only sees its company's data."""
    body = route_body(now)
    accepted(client.push(body), 201)

    accepted(clients.tenant().push(body), 201)
