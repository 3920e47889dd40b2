"""Batches of pushes, and pushing the same external id again, on real PostgreSQL (decisions 4 to 6)."""

from datetime import datetime, timedelta
from math import nextafter
from typing import Any

import pytest

from domain.audit.entries import Actor
from domain.database.connections import Connection
from domain.lifecycle import RouteStatus
from domain.queue.jobs import review_plan_job
from domain.routes.intake.imports import import_routes
from domain.routes.intake.pushes import Push, Pushed, store_pushes
from domain.routes.plans import review_requests
from domain.routes.progress.dispatcher_entries import plan_again
from domain.routes.transitions import cancel_route, end_routes
from domain.settings import Settings
from tests.domain.helpers import corrected_by_hand, deliver, imported, planned_by_hand, pushed, route_row, status_of
from tests.domain.routes.intake.pushing import effects, push
from tests.domain.trucks import activate, stand_at
from tests.factories import JOLIET, NEWARK, Fleet, make_fleet, route_input
from tests.jobs import jobs_after
from tests.rows import named

# --- Batches ---------------------------------------------------------------------------------------------------


def test_a_push_is_stored_as_pending_and_not_attempted(connection: Connection, fleet: Fleet, now: datetime) -> None:
    row = route_row(connection, pushed(connection, fleet.live, now=now, start=now))

    assert (row.status, row.pending_reason) == ("pending", "not_attempted")
    assert row.retry_at == now + timedelta(seconds=10)


def test_the_same_external_id_several_times_in_a_batch_is_applied_in_order(
    connection: Connection, fleet: Fleet, now: datetime
) -> None:
    load = {"externalId": "LOAD"}
    results = push(
        connection,
        fleet.live,
        {**load, "reference": "first"},
        {"externalId": "OTHER"},
        {**load, "reference": "first"},
        {**load, "reference": "second"},
        {**load, "reference": "third"},
        now=now,
    )

    assert effects(results) == ["create", "create", "unchanged", "replace", "replace"]
    assert len({result.route_id for result in results}) == 2
    assert route_row(connection, results[0].route_id).reference == "third"
    assert route_row(connection, results[0].route_id).revision == 3


def test_a_batch_mixes_creations_updates_repeats_and_refusals(
    connection: Connection, fleet: Fleet, now: datetime
) -> None:
    for number in range(3):
        pushed(connection, fleet.live, now=now, start=now, externalId=f"LOAD-{number}")
    connection.execute(
        "UPDATE routes SET status = 'active' WHERE company_id = %s AND external_id = 'LOAD-2'", (fleet.company_id,)
    )

    results = push(
        connection,
        fleet.live,
        {"externalId": "LOAD-2", "reference": "changed"},
        {"externalId": "LOAD-1", "reference": "changed"},
        {"externalId": "NEW"},
        {"externalId": "LOAD-0"},
        now=now,
    )

    assert effects(results) == ["refuse", "replace", "create", "unchanged"]
    assert route_row(connection, results[0].route_id).reference is None


def test_tenants_and_environments_do_not_share_external_ids(
    connection: Connection, fleet: Fleet, now: datetime
) -> None:
    other = make_fleet(connection)
    tenants = (fleet.live, fleet.sandbox, other.live, other.sandbox)

    results = store_pushes(
        connection, [Push(tenant, route_input(now, externalId="LOAD")) for tenant in tenants], now=now
    )

    assert effects(results) == ["create"] * 4
    for tenant, result in zip(tenants, results, strict=True):
        row = route_row(connection, result.route_id)
        assert (row.company_id, row.environment) == tenant


def test_an_empty_batch_does_nothing(connection: Connection, now: datetime) -> None:
    assert store_pushes(connection, [], now=now) == []


# --- Pushing again ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", list(RouteStatus))
@pytest.mark.parametrize("changed", [False, True])
def test_the_effect_of_a_second_push_depends_on_the_status(
    connection: Connection, fleet: Fleet, now: datetime, status: RouteStatus, changed: bool
) -> None:
    first = pushed(connection, fleet.live, now=now, start=now, externalId="LOAD")
    connection.execute("UPDATE routes SET status = %s WHERE id = %s", (status, first))

    (second,) = push(
        connection, fleet.live, {"externalId": "LOAD", **({"reference": "changed"} if changed else {})}, now=now
    )

    if status is RouteStatus.CANCELED:
        assert second.effect == "create"
        assert second.route_id != first
    elif status in (RouteStatus.ACTIVE, RouteStatus.COMPLETED):
        assert second == Pushed(first, "refuse")
        assert status_of(connection, first) is status
    elif changed or status is RouteStatus.ERROR:
        assert second == Pushed(first, "replace", revision=2)
        assert status_of(connection, first) is RouteStatus.PENDING
    else:
        assert second == Pushed(first, "unchanged")
        assert status_of(connection, first) is status


@pytest.mark.parametrize(
    "changes",
    [
        {"scheduledStart": "2026-03-01T08:00:00.000Z"},
        {"scheduledStart": "2026-03-01T09:00:00+01:00"},
        {"unknown": "fields are ignored"},
        {"reference": None},
        {"vehicle": {"unitNumber": "101", "vin": None}},
    ],
)
def test_content_written_differently_is_no_change(
    connection: Connection, fleet: Fleet, now: datetime, changes: dict[str, Any]
) -> None:
    body = {"externalId": "LOAD", "scheduledStart": "2026-03-01T08:00:00Z"}

    assert effects(push(connection, fleet.live, body, {**body, **changes}, now=now)) == ["create", "unchanged"]


@pytest.mark.parametrize(
    "changes",
    [
        {"scheduledStart": "2026-03-01T08:00:01Z"},
        {"reference": ""},
        {"vehicle": {"unitNumber": "102"}},
        {"driver": {"name": "Ann Lee", "externalId": "D-1"}},
        {"stops": [NEWARK, JOLIET]},
        {"stops": [JOLIET, {**NEWARK, "name": "Elsewhere"}]},
        {"stops": [JOLIET, {**NEWARK, "address": ""}]},
        {"stops": [JOLIET, {**NEWARK, "arrivalWindow": {"start": "2026-03-01T08:00:00Z"}}]},
    ],
)
def test_changed_content_starts_the_import_again(
    connection: Connection, fleet: Fleet, now: datetime, changes: dict[str, Any]
) -> None:
    body = {"externalId": "LOAD", "scheduledStart": "2026-03-01T08:00:00Z"}

    assert effects(push(connection, fleet.live, body, {**body, **changes}, now=now)) == ["create", "replace"]


@pytest.mark.parametrize("latitude", [41.462000000000003, 5e-324, 1e-7, -0.0, 90, -90.0, 1 / 3])
def test_the_same_coordinates_and_windows_are_no_change(
    connection: Connection, fleet: Fleet, now: datetime, latitude: float
) -> None:
    def body(latitude: float, start: str) -> dict[str, Any]:
        stop = {**JOLIET, "latitude": latitude, "arrivalWindow": {"start": start, "end": None}}
        return {"externalId": "LOAD", "stops": [stop, {**NEWARK, "arrivalWindow": {}}]}

    first, again = body(latitude, "2026-03-01T08:00:00.5Z"), body(latitude, "2026-03-01T02:00:00.500-06:00")
    later, beside = (
        body(latitude, "2026-03-01T02:00:00.51-06:00"),
        body(nextafter(latitude, 0.5), "2026-03-01T08:00:00Z"),
    )
    results = push(connection, fleet.live, first, again, later, beside, now=now)

    assert effects(results) == ["create", "unchanged", "replace", "replace"]


def test_an_update_discards_the_plan_and_its_message(connection: Connection, fleet: Fleet, now: datetime) -> None:
    route_id = imported(connection, fleet.live, now=now, externalId="LOAD")
    message_id = planned_by_hand(connection, route_id, now=now)

    push(connection, fleet.live, {"externalId": "LOAD", "reference": "changed"}, now=now)

    row = route_row(connection, route_id)
    assert (row.status, row.plan_id, row.vehicle_id, row.driver_id) == ("pending", None, None, None)
    (message,) = named(connection).execute("SELECT * FROM messages WHERE id = %s", (message_id,)).fetchall()
    assert (message.status, message.retry_at) == ("failed", None)


def test_after_a_cancel_the_same_external_id_is_a_fresh_route(
    connection: Connection, fleet: Fleet, now: datetime
) -> None:
    first = pushed(connection, fleet.live, now=now, start=now, externalId="LOAD")
    cancel_route(connection, fleet.live, first, now=now)

    results = push(connection, fleet.live, {"externalId": "LOAD"}, {"externalId": "LOAD"}, now=now)

    assert effects(results) == ["create", "unchanged"]
    assert results[0].route_id != first


def test_a_route_that_starts_again_gets_its_reviews_again(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    route_id = imported(connection, fleet.live, now=now, externalId="LOAD")
    stand_at(connection, settings, fleet, JOLIET, now)
    activate(connection, settings, route_id, now=now)
    correction = corrected_by_hand(connection, route_id, now=now)
    deliver(connection, correction, settings=settings, now=now)
    review_requests.after_new_prices(connection, fleet.company_id, now=now)
    connection.execute("UPDATE routes SET review_at = %s, review_cause = 'dispatcher' WHERE id = %s", (now, route_id))
    end_routes(connection, [route_id], "it broke down", now=now)

    push(connection, fleet.live, {"externalId": "LOAD"}, now=now)

    row = route_row(connection, route_id)
    assert (row.corrected_at, row.review_at, row.review_cause) == (None, None, None)
    import_routes(connection, [route_id], now=now)
    planned_by_hand(connection, route_id, now=now)
    by = Actor("ann@example.com", "prices")
    jobs = jobs_after(connection, lambda: plan_again(connection, fleet.live, route_id, by, now=now))
    assert jobs == [review_plan_job(route_id)]
