"""Each change of a route becomes one event for the endpoints that want it, in the transaction of the change."""

import json
import re
from datetime import datetime, timedelta
from typing import Any

import psycopg
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from domain.database.connections import Connection, Database
from domain.database.visibility import of_tenants
from domain.encoding import utc_text
from domain.ids import shown_id
from domain.lifecycle import AnswerKind, PendingReason, RefusalReason, RouteStatus
from domain.roads import Point
from domain.routes.intake.fleet_changes import add_mapping
from domain.routes.intake.imports import import_routes
from domain.routes.intake.pushes import Push, store_pushes
from domain.routes.transitions import cancel_route, expire_started_routes
from domain.settings import Settings
from domain.webhooks.endpoints import disable_endpoint, enable_endpoint
from domain.webhooks.events import EVENT_TYPES, CapturedEvent, prepare_payloads
from tests.domain.database.test_statements import MODULES
from tests.domain.driver_page.given import trip_with_plan
from tests.domain.helpers import (
    corrected_by_hand,
    deliver,
    go_behind_the_wall,
    imported,
    planned_by_hand,
    pushed,
)
from tests.domain.test_one_writer import statements_of
from tests.domain.webhooks.endpoints import events_of, make_endpoint, types_of
from tests.factories import DOT, Fleet, make_fleet, route_input
from tests.repeatable import examples


def count_events(connection: Connection) -> int:
    (count,) = connection.execute("SELECT count(*) FROM webhook_events").fetchone() or (0,)
    return int(count)


def test_without_an_endpoint_nothing_is_captured(connection: Connection, fleet: Fleet, now: datetime) -> None:
    before = count_events(connection)

    route_id = imported(connection, fleet.live, now=now)
    cancel_route(connection, fleet.live, route_id, now=now)

    assert count_events(connection) == before


def test_the_life_of_a_route_is_told_in_order(
    connection: Connection, fleet: Fleet, now: datetime, settings: Settings
) -> None:
    endpoint = make_endpoint(connection, fleet.live).endpoint

    route_id = imported(connection, fleet.live, now=now)
    assert deliver(connection, planned_by_hand(connection, route_id, now=now), settings=settings, now=now)
    assert deliver(connection, corrected_by_hand(connection, route_id, now=now), settings=settings, now=now)
    expire_started_routes(connection, expiry_days=1, now=now + timedelta(days=3))

    assert types_of(connection, endpoint.id) == [
        "route.imported",
        "route.planned",
        "route.active",
        "plan.corrected",
        "route.error",
    ]
    events = events_of(connection, endpoint.id)
    assert {event.route_id for event in events} == {route_id}
    assert {(event.company_id, event.environment) for event in events} == {(fleet.company_id, "live")}
    assert len({event.id for event in events}) == 5
    assert all(event.id.version == 7 and event.payload is None and event.status == "pending" for event in events)


def test_a_held_route_tells_each_reason_once(connection: Connection, fleet: Fleet, now: datetime) -> None:
    endpoint = make_endpoint(connection, fleet.live).endpoint
    route_id = imported(connection, fleet.live, now=now, vehicle={"unitNumber": "T-9"}, driver={"name": "Cy Young"})
    import_routes(connection, [route_id], now=now)
    assert types_of(connection, endpoint.id) == ["route.held"]

    add_mapping(connection, fleet.company_id, "unit_number", "T-9", fleet.trucks[0], DOT)
    import_routes(connection, [route_id], now=now)
    assert types_of(connection, endpoint.id) == ["route.held", "route.held"]

    cancel_route(connection, fleet.live, route_id, now=now)
    assert types_of(connection, endpoint.id) == ["route.held", "route.held", "route.canceled"]


def test_an_endpoint_gets_the_types_that_it_chose(connection: Connection, fleet: Fleet, now: datetime) -> None:
    some = make_endpoint(connection, fleet.live, "https://a.example.com", "route.canceled").endpoint
    every = make_endpoint(connection, fleet.live, "https://b.example.com").endpoint

    route_id = imported(connection, fleet.live, now=now)
    cancel_route(connection, fleet.live, route_id, now=now)

    assert types_of(connection, some.id) == ["route.canceled"]
    assert types_of(connection, every.id) == ["route.imported", "route.canceled"]
    (canceled,) = events_of(connection, some.id)
    assert canceled.id == events_of(connection, every.id)[1].id  # one event, two deliveries


def test_an_event_that_nobody_wants_is_not_kept(connection: Connection, fleet: Fleet, now: datetime) -> None:
    make_endpoint(connection, fleet.live, "https://a.example.com", "route.error")
    before = count_events(connection)

    imported(connection, fleet.live, now=now)

    assert count_events(connection) == before


def test_other_companies_and_the_other_environment_get_nothing(
    connection: Connection, fleet: Fleet, now: datetime
) -> None:
    other = make_fleet(connection)
    endpoints = [make_endpoint(connection, tenant).endpoint for tenant in (fleet.sandbox, other.live, other.sandbox)]

    imported(connection, fleet.live, now=now)

    assert [types_of(connection, endpoint.id) for endpoint in endpoints] == [[], [], []]


def test_a_disabled_endpoint_gets_nothing_until_it_is_enabled(
    connection: Connection, fleet: Fleet, now: datetime
) -> None:
    endpoint = make_endpoint(connection, fleet.live).endpoint
    disable_endpoint(connection, fleet.company_id, endpoint.id, DOT._replace(reason="moved"), now=now)
    route_id = imported(connection, fleet.live, now=now)
    assert types_of(connection, endpoint.id) == []

    enable_endpoint(connection, fleet.company_id, endpoint.id, DOT)
    cancel_route(connection, fleet.live, route_id, now=now)
    assert types_of(connection, endpoint.id) == ["route.canceled"]


def test_a_change_that_is_rolled_back_is_not_told(database: Database, now: datetime) -> None:
    with database.transaction() as connection:
        fleet = make_fleet(connection)
        endpoint = make_endpoint(connection, fleet.live).endpoint
        route_id = imported(connection, fleet.live, now=now)
    with database.transaction() as connection:
        cancel_route(connection, fleet.live, route_id, now=now)
        raise psycopg.Rollback
    with database.transaction() as connection:
        assert types_of(connection, endpoint.id) == ["route.imported"]


def test_the_service_captures_behind_the_wall(connection: Connection, fleet: Fleet, now: datetime) -> None:
    endpoint = make_endpoint(connection, fleet.live).endpoint
    route_id = pushed(connection, fleet.live, now=now, start=now)
    go_behind_the_wall(connection, of_tenants([fleet.live]))

    import_routes(connection, [route_id], now=now)

    assert types_of(connection, endpoint.id) == ["route.imported"]


def test_a_batch_of_several_companies_is_told_apart(connection: Connection, now: datetime) -> None:
    fleets = [make_fleet(connection) for _ in range(3)]
    endpoints = [make_endpoint(connection, fleet.live).endpoint for fleet in fleets[:2]]
    pushes = [Push(fleet.live, route_input(now + timedelta(hours=1))) for fleet in fleets for _ in range(4)]
    stored = store_pushes(connection, pushes, now=now)

    import_routes(connection, [one.route_id for one in stored], now=now)

    for number, endpoint in enumerate(endpoints):
        events = events_of(connection, endpoint.id)
        assert {event.route_id for event in events} == {one.route_id for one in stored[number * 4 : number * 4 + 4]}
        assert [event.type for event in events] == ["route.imported"] * 4


def test_every_route_begins_as_pending() -> None:
    """So its insertion is no event, and no trigger looks at it."""
    inserting = [
        statement.text
        for module in MODULES
        for value in vars(module).values()
        for statement in statements_of(value)
        if re.search(r"INSERT INTO routes\b", statement.text)
    ]
    assert inserting
    assert all("'pending'" in text for text in inserting)


# --- The law -----------------------------------------------------------------------------------------------------

STATES = st.tuples(st.sampled_from(list(RouteStatus)), st.sampled_from([None, *map(str, PendingReason)]), st.booleans())


def expected_event(before: tuple[str, Any, int], after: tuple[str, Any, int]) -> str | None:
    """The event of a change, told from the contract's words."""
    if after[0] in ("pending_mapping", "pending_window"):
        return "route.held" if after[:2] != before[:2] else None
    if after[0] != before[0]:
        return {"draft": "route.imported", "pending": None}.get(after[0], f"route.{after[0]}")
    return "plan.corrected" if after[2] != before[2] and after[0] in ("active", "completed") else None


@hypothesis_settings(
    max_examples=examples(20), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(states=st.lists(STATES, min_size=1, max_size=15))
def test_the_events_are_the_changes_of_status(
    connection: Connection, fleet: Fleet, now: datetime, states: list[tuple[RouteStatus, Any, bool]]
) -> None:
    with connection.transaction(force_rollback=True):
        check_events(connection, fleet, now, states)


def check_events(
    connection: Connection, fleet: Fleet, now: datetime, states: list[tuple[RouteStatus, Any, bool]]
) -> None:
    endpoint = make_endpoint(connection, fleet.live).endpoint
    route_id = pushed(connection, fleet.live, now=now, start=now)
    corrections, expected = 0, []
    before: tuple[str, str | None, int] = ("pending", "not_attempted", 0)
    for status, reason, is_corrected in states:
        corrections += is_corrected
        corrected_at = now + timedelta(seconds=corrections) if corrections else None
        connection.execute(
            "UPDATE routes SET status = %s, pending_reason = %s, corrected_at = %s WHERE id = %s",
            (str(status), reason, corrected_at, route_id),
        )
        after = (str(status), reason, corrections)
        if (event := expected_event(before, after)) is not None:
            expected.append(event)
        before = after

    assert types_of(connection, endpoint.id) == expected
    assert set(expected) <= set(EVENT_TYPES)


def test_an_answer_of_a_driver_is_told_with_its_details(connection: Connection, fleet: Fleet, now: datetime) -> None:
    endpoint = make_endpoint(connection, fleet.live, "https://a.example.com", "stop.refused", "stop.going").endpoint
    trip = trip_with_plan(connection, fleet.live, now=now)
    trip.take(trip.given(AnswerKind.FUELED))
    trip.take(trip.refused(RefusalReason.QUEUE, sequence=1, place=Point(41.0, -78.4)))
    trip.take(trip.given())
    trip.end()
    trip.take(trip.given())  # late

    assert types_of(connection, endpoint.id) == ["stop.refused", "stop.going"]
    refused, _ = events_of(connection, endpoint.id)
    event = CapturedEvent(refused.id, refused.type, refused.at, refused.route_id, refused.answer_id)
    body = json.loads(prepare_payloads(connection, fleet.live, [event])[refused.id])
    assert body["data"]["id"] == shown_id("rte", trip.route_id)
    assert body["answer"] == {
        "station": "Keystone Fuel",
        "planId": shown_id("pln", trip.plan_id),
        "sequence": 1,
        "answeredAt": utc_text(now),
        "reason": "queue",
        "gallons": None,
        "fillPercent": None,
        "pricePerGallon": None,
    }
