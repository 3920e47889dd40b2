"""A push supersedes older routes with the same reference, where the company has superseding enabled."""

from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any

import pytest

from domain.lifecycle import Environment
from tests.contract.checks import accepted, put_in_status, stored_route
from tests.contract.conftest import Clients
from tests.factories import route_body
from tests.service import Client


@pytest.fixture
def superseding(clients: Clients) -> Client:
    """A client of a company that has superseding enabled."""
    return clients.tenant(superseding=True)


@pytest.mark.parametrize("status", ["pending", "draft", "planned"])
def test_a_load_under_a_new_external_id_supersedes_the_old_route(
    superseding: Client, now: datetime, status: str
) -> None:
    """Rule 2 of the transitions: the old draft is superseded; decision 5: its reason and status."""
    old = accepted(superseding.push(route_body(now, reference="PO-1")), 201)["id"]
    put_in_status(superseding, old, status)

    new = accepted(superseding.push(route_body(now, reference="PO-1")), 201)

    assert superseding.route(old)["status"] == "canceled"
    assert superseding.route(old)["pending"] is None
    assert stored_route(superseding, old).closed_reason == f"Superseded by {new['externalId']}"


@pytest.mark.parametrize(
    "change",
    [{"vehicle": {"unitNumber": "999"}}, {"scheduledStart": "2099-01-01T00:00:00Z"}],
    ids=["mapping", "window"],
)
def test_held_routes_are_superseded_and_supersede(superseding: Client, now: datetime, change: dict[str, Any]) -> None:
    """Decision 5: a status of held, draft or planned; the new one may be held as well."""
    old = accepted(superseding.push(route_body(now, reference="PO-1") | change), 202)["id"]

    new = accepted(superseding.push(route_body(now, reference="PO-1") | change), 202)

    assert superseding.route(old)["status"] == "canceled"
    assert superseding.route(new["id"])["status"] == new["status"]


@pytest.mark.parametrize("status", ["active", "completed", "error"])
def test_started_and_finished_routes_are_not_superseded(superseding: Client, now: datetime, status: str) -> None:
    """Decision 5: only held, draft and planned routes become `canceled`."""
    old = accepted(superseding.push(route_body(now, reference="PO-1")), 201)["id"]
    put_in_status(superseding, old, status)

    accepted(superseding.push(route_body(now, reference="PO-1")), 201)

    assert superseding.route(old)["status"] == status


def test_superseding_is_off_by_default(client: Client, now: datetime) -> None:
    """Rule 2 of the transitions: only where the company has superseding enabled."""
    old = accepted(client.push(route_body(now, reference="PO-1")), 201)["id"]

    accepted(client.push(route_body(now, reference="PO-1")), 201)

    assert client.route(old)["status"] == "draft"


@pytest.mark.parametrize("references", [("PO-1", "PO-2"), ("PO-1", "po-1"), ("PO-1", None), (None, None), ("", "")])
def test_only_the_same_reference_supersedes(
    superseding: Client, now: datetime, references: tuple[str | None, str | None]
) -> None:
    """Decision 5: the same non-empty reference."""
    old = accepted(superseding.push(route_body(now, reference=references[0])), 201)["id"]

    accepted(superseding.push(route_body(now, reference=references[1])), 201)

    assert superseding.route(old)["status"] == "draft"


def test_superseding_stays_within_an_environment_and_a_company(
    superseding: Client, clients: Clients, now: datetime
) -> None:
    """Decision 5: in the same environment; a key acts on one company."""
    old = accepted(superseding.push(route_body(now, reference="PO-1")), 201)["id"]

    sandbox = clients.colleague(superseding, environment=Environment.SANDBOX)
    accepted(sandbox.push(route_body(now, reference="PO-1")), 201)
    accepted(clients.tenant(superseding=True).push(route_body(now, reference="PO-1")), 201)

    assert superseding.route(old)["status"] == "draft"


def test_an_update_that_brings_a_reference_supersedes_older_routes(superseding: Client, now: datetime) -> None:
    """Decision 5: an update that brings a reference is judged like a push; older is by createdAt."""
    older = accepted(superseding.push(route_body(now, reference="PO-1")), 201)["id"]
    body = route_body(now)
    middle = accepted(superseding.push(body), 201)["id"]

    accepted(superseding.push({**body, "reference": "PO-1"}), 200)

    assert superseding.route(older)["status"] == "canceled"
    assert superseding.route(middle)["status"] == "draft"


def test_an_update_never_supersedes_newer_routes(superseding: Client, now: datetime) -> None:
    """Decision 5: only an older route is superseded."""
    body = route_body(now)
    older = accepted(superseding.push(body), 201)["id"]
    newer = accepted(superseding.push(route_body(now, reference="PO-1")), 201)["id"]

    accepted(superseding.push({**body, "reference": "PO-1"}), 200)

    assert superseding.route(newer)["status"] == "draft"
    assert superseding.route(older)["status"] == "draft"


def test_a_repeated_push_supersedes_nothing_further(superseding: Client, now: datetime) -> None:
    """Decision 4: an identical body changes nothing."""
    body = route_body(now, reference="PO-1")
    accepted(superseding.push(body), 201)
    newer = accepted(superseding.push(route_body(now, reference="PO-1")), 201)["id"]

    fresh = accepted(superseding.push(body), 201)  # the old one is canceled by now: a fresh route, which is newer

    assert superseding.route(newer)["status"] == "canceled"
    assert accepted(superseding.push(body), 200) == fresh


def test_all_older_routes_of_a_load_are_superseded(superseding: Client, now: datetime) -> None:
    """Decision 5, where superseding was off when the earlier ones came."""
    with superseding.service.database.transaction() as connection:
        connection.execute("UPDATE companies SET superseding = false WHERE id = %s", (superseding.fleet.company_id,))
    older = [accepted(superseding.push(route_body(now, reference="PO-1")), 201)["id"] for _ in range(3)]
    with superseding.service.database.transaction() as connection:
        connection.execute("UPDATE companies SET superseding = true WHERE id = %s", (superseding.fleet.company_id,))

    accepted(superseding.push(route_body(now, reference="PO-1")), 201)

    assert [superseding.route(route_id)["status"] for route_id in older] == ["canceled"] * 3


def test_concurrent_pushes_of_one_reference_leave_one_route(superseding: Client, now: datetime) -> None:
    """Decision 5: superseding happens in the transaction that stores the new route."""
    with ThreadPoolExecutor(8) as threads:
        pushes = [threads.submit(superseding.push, route_body(now, reference="PO-1")) for _ in range(12)]
    route_ids = [push.result().json()["id"] for push in pushes]

    statuses = [superseding.route(route_id)["status"] for route_id in route_ids]

    assert sorted(statuses) == [*["canceled"] * 11, "draft"]
