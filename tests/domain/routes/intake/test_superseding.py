"""A push supersedes older routes with the same reference, on real PostgreSQL (decision 5)."""

from datetime import datetime, timedelta

import pytest

from domain.database.connections import Connection
from domain.lifecycle import RouteStatus
from domain.queue.jobs import process_positions_job
from domain.routes.intake.pushes import Push, store_pushes
from tests.domain.helpers import imported, positions_at, post, route_row, status_of
from tests.domain.routes.intake.pushing import effects, open_routes, push
from tests.factories import JOLIET, Fleet, make_fleet, route_input
from tests.jobs import jobs_after


def test_a_load_may_have_two_routes_where_superseding_is_off(
    connection: Connection, fleet: Fleet, now: datetime
) -> None:
    push(connection, fleet.live, {"externalId": "A", "reference": "R"}, {"externalId": "B", "reference": "R"}, now=now)

    assert open_routes(connection, fleet.live) == ["A", "B"]


@pytest.fixture
def superseding(connection: Connection) -> Fleet:
    """A company that has superseding enabled."""
    return make_fleet(connection, superseding=True)


def test_the_older_route_of_a_reference_is_superseded(
    connection: Connection, superseding: Fleet, now: datetime
) -> None:
    old = imported(connection, superseding.live, now=now, externalId="A", reference="R")

    push(connection, superseding.live, {"externalId": "B", "reference": "R"}, now=now)

    row = route_row(connection, old)
    assert (row.status, row.closed_reason) == ("canceled", "Superseded by B")


def test_the_last_route_of_a_reference_in_a_batch_stays(
    connection: Connection, superseding: Fleet, now: datetime
) -> None:
    bodies = [{"externalId": name, "reference": "R"} for name in "DBCA"]

    results = push(connection, superseding.live, *bodies, now=now)

    assert effects(results) == ["create"] * 4
    assert open_routes(connection, superseding.live) == ["A"]


@pytest.mark.parametrize("status", list(RouteStatus))
def test_only_routes_that_have_not_started_are_superseded(
    connection: Connection, superseding: Fleet, now: datetime, status: RouteStatus
) -> None:
    old = imported(connection, superseding.live, now=now, externalId="A", reference="R")
    connection.execute("UPDATE routes SET status = %s WHERE id = %s", (status, old))

    push(connection, superseding.live, {"externalId": "B", "reference": "R"}, now=now)

    gone = status not in (RouteStatus.ACTIVE, RouteStatus.COMPLETED, RouteStatus.ERROR)
    assert status_of(connection, old) is (RouteStatus.CANCELED if gone else status)


@pytest.mark.parametrize("reference", [None, "", "r", "R "])
def test_only_the_same_and_not_an_empty_reference_supersedes(
    connection: Connection, superseding: Fleet, now: datetime, reference: str | None
) -> None:
    for body in ({"externalId": "A", "reference": reference}, {"externalId": "B", "reference": "R"}):
        push(connection, superseding.live, body, now=now)
    push(connection, superseding.live, {"externalId": "C", "reference": reference}, now=now)

    expected = ["A", "B", "C"] if not reference else ["B", "C"]
    assert open_routes(connection, superseding.live) == expected


def test_superseding_stays_within_a_company_and_an_environment(
    connection: Connection, superseding: Fleet, now: datetime
) -> None:
    other = make_fleet(connection, superseding=True)
    push(connection, superseding.sandbox, {"externalId": "A", "reference": "R"}, now=now)
    push(connection, other.live, {"externalId": "A", "reference": "R"}, now=now)

    push(connection, superseding.live, {"externalId": "B", "reference": "R"}, now=now)

    assert open_routes(connection, superseding.sandbox) == ["A"]
    assert open_routes(connection, other.live) == ["A"]


def test_an_update_that_brings_a_reference_supersedes_like_a_push(
    connection: Connection, superseding: Fleet, now: datetime
) -> None:
    push(connection, superseding.live, {"externalId": "A", "reference": "R"}, {"externalId": "B"}, now=now)

    push(connection, superseding.live, {"externalId": "B", "reference": "R"}, now=now)

    assert open_routes(connection, superseding.live) == ["B"]


def test_a_superseded_route_frees_its_truck_for_the_next_one(
    connection: Connection, superseding: Fleet, now: datetime
) -> None:
    imported(connection, superseding.live, now=now, externalId="A", reference="R")
    imported(connection, superseding.live, now=now, externalId="NEXT", start=now + timedelta(hours=2))
    post(connection, superseding.live, positions_at(JOLIET, now - timedelta(minutes=5)), now=now)

    second = Push(superseding.live, route_input(now, externalId="B", reference="R"))
    jobs = jobs_after(connection, lambda: store_pushes(connection, [second], now=now))

    assert jobs == [process_positions_job("live", [superseding.trucks[0]])]
