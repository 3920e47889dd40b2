"""A healthy route of each status keeps every rule, and each rule finds the fault that it is about."""

from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

import pytest

from domain.database.connections import Connection
from domain.ids import new_id
from domain.lifecycle import RouteStatus
from domain.operations.doctor import route_facts
from domain.operations.doctor.checks import Examined, Finding, NotFinished
from domain.operations.doctor.route_facts import check_routes
from domain.operations.doctor.route_rules import ROUTE_RULES
from domain.routes import transitions
from domain.settings import Settings
from tests.domain.helpers import imported, planned_by_hand, pushed
from tests.domain.operations.doctor.conftest import Examine
from tests.domain.trucks import activate, stand_at
from tests.factories import JOLIET, NEWARK, Fleet, make_fleet

LATER = timedelta(hours=12)


def route_with(connection: Connection, settings: Settings, fleet: Fleet, status: str, now: datetime) -> UUID:
    """A live route of that status, brought there by the steps of the service."""
    match status:
        case "pending":
            return pushed(connection, fleet.live, now=now, start=now)
        case "pending_mapping":
            return imported(connection, fleet.live, now=now, vehicle={"unitNumber": "999"})
        case "pending_window":
            return imported(connection, fleet.live, now=now, start=now + timedelta(days=30))
    route_id = imported(connection, fleet.live, now=now)
    if status == "canceled":
        transitions.cancel_route(connection, fleet.live, route_id, now=now)
    elif status != "draft":
        stand_at(connection, settings, fleet, JOLIET, now)
        if status == "error":
            transitions.planning_failed(connection, route_id, max_attempts=1, now=now)
        elif status == "planned":
            planned_by_hand(connection, route_id, now=now)
        elif status != "arrived":
            activate(connection, settings, route_id, now=now + timedelta(minutes=3))
            if status == "completed":
                stand_at(connection, settings, fleet, NEWARK, now + LATER)
    return route_id


def wrong(found: list[Finding], route_id: UUID) -> list[str]:
    """The findings that name the route."""
    return [one.what.rpartition(":")[0] for one in found if any(route_id.hex in example for example in one.examples)]


@pytest.mark.parametrize("status", [*RouteStatus, "arrived"])
def test_a_healthy_route_keeps_every_rule(
    connection: Connection, own_settings: Settings, fleet: Fleet, now: datetime, examine: Examine, status: str
) -> None:
    route_id = route_with(connection, own_settings, fleet, status, now)
    row = connection.execute("SELECT status FROM routes WHERE id = %s", (route_id,)).fetchone()
    assert row == ("draft" if status == "arrived" else status,)

    assert examine(check_routes) == []


class Planted(NamedTuple):
    """A fault: the status of the route that gets it, the rule that finds it, and the change that makes it."""

    status: str
    rule: str
    change: str


_ROUTE = "UPDATE routes SET {} WHERE id = %(id)s"
_OTHERS = "(SELECT id FROM {} WHERE company_id = %(stranger)s LIMIT 1)"
PLANTED = [
    Planted("pending", "next-attempt", _ROUTE.format("retry_at = NULL")),
    Planted("pending", "pending-reason", _ROUTE.format("pending_reason = 'vehicle_unmapped'")),
    Planted("pending_mapping", "mapping-reason", _ROUTE.format("pending_reason = NULL")),
    Planted("pending_window", "window-reason", _ROUTE.format("pending_reason = 'error'")),
    Planted("pending_window", "held-with-plan", _ROUTE.format("plan_id = id")),
    Planted("draft", "held-no-more", _ROUTE.format("pending_reason = 'error'")),
    Planted("draft", "unmatched", _ROUTE.format("driver_id = NULL")),
    Planted("draft", "vehicle", _ROUTE.format(f"vehicle_id = {_OTHERS.format('vehicles')}")),
    Planted("completed", "driver", _ROUTE.format(f"driver_id = {_OTHERS.format('drivers')}")),
    Planted("completed", "vehicle", _ROUTE.format("vehicle_id = id")),
    Planted("draft", "draft-with-plan", _ROUTE.format("plan_id = id")),
    Planted("arrived", "plan-never-due", _ROUTE.format("retry_at = NULL")),
    Planted("active", "replan-never-due", _ROUTE.format("replan = '{}'")),
    Planted("planned", "no-plan", _ROUTE.format("plan_id = NULL")),
    Planted("active", "no-plan", "UPDATE plans SET route_id = %(other)s WHERE route_id = %(id)s"),
    Planted("active", "plan-of-other-input", _ROUTE.format("revision = 7")),
    Planted("active", "empty-plan", "UPDATE plans SET document = NULL WHERE route_id = %(id)s"),
    Planted("planned", "not-arrived", _ROUTE.format("arrived_at = NULL")),
    Planted("planned", "no-message", "DELETE FROM messages WHERE route_id = %(id)s"),
    Planted("completed", "no-message", "DELETE FROM messages WHERE route_id = %(id)s"),
    Planted("active", "unsent", "UPDATE messages SET status = 'pending' WHERE route_id = %(id)s"),
    Planted("active", "wrong-delivery", "UPDATE messages SET status = 'suppressed' WHERE route_id = %(id)s"),
    Planted("active", "savings", "DELETE FROM savings WHERE route_id = %(id)s"),
    Planted("completed", "savings", "UPDATE savings SET plan_id = %(other)s WHERE route_id = %(id)s"),
    Planted("active", "savings-kept", _ROUTE.format("status = 'error', closed_reason = 'a hand'")),
    Planted("completed", "completed", "DELETE FROM visits WHERE route_id = %(id)s AND stop = 1"),
    Planted("completed", "completed", _ROUTE.format("completed_at = NULL")),
    Planted("active", "completed-too-early", _ROUTE.format("completed_at = now()")),
    Planted("canceled", "closed-reason", _ROUTE.format("closed_reason = NULL")),
    Planted("draft", "closed-reason-kept", _ROUTE.format("closed_reason = 'a hand'")),
    Planted("active", "arrival", _ROUTE.format("arrived_at = arrived_at + interval '1 s'")),
    Planted("active", "arrival", "DELETE FROM visits WHERE route_id = %(id)s"),
    Planted("active", "stops", "UPDATE visits SET stop = 7 WHERE route_id = %(id)s"),
    Planted("draft", "correction", _ROUTE.format("correction_id = id")),
    Planted("active", "correction-message", _ROUTE.format("correction_id = id")),
    Planted("active", "owners", "UPDATE plans SET environment = 'sandbox' WHERE route_id = %(id)s"),
    Planted("active", "owners", "UPDATE visits SET company_id = %(stranger)s WHERE route_id = %(id)s"),
    Planted("active", "owners", "UPDATE messages SET company_id = %(stranger)s WHERE route_id = %(id)s"),
    Planted("completed", "owners", "UPDATE savings SET company_id = %(stranger)s WHERE route_id = %(id)s"),
]


@pytest.mark.parametrize("planted", PLANTED, ids=lambda one: f"{one.status}: {one.rule}: {one.change[:40]}")
def test_a_rule_finds_its_fault(
    connection: Connection,
    own_settings: Settings,
    fleet: Fleet,
    now: datetime,
    examine: Examine,
    planted: Planted,
) -> None:
    stranger = make_fleet(connection)
    other = route_with(connection, own_settings, stranger, "draft", now)
    route_id = route_with(connection, own_settings, fleet, planted.status, now)

    connection.execute(planted.change, {"id": route_id, "other": other, "stranger": stranger.company_id})
    found = examine(check_routes)

    assert ROUTE_RULES[planted.rule].what in wrong(found, route_id)
    assert wrong(found, other) == []
    assert all(one.is_problem and one.what_to_do for one in found)


def test_each_rule_is_tried() -> None:
    assert {planted.rule for planted in PLANTED} == set(ROUTE_RULES)


def test_routes_of_all_portions_are_checked(
    connection: Connection,
    own_settings: Settings,
    fleet: Fleet,
    now: datetime,
    examine: Examine,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(route_facts, "PORTION", 2)
    ids = [route_with(connection, own_settings, fleet, "draft", now) for _ in range(7)]
    connection.execute("UPDATE routes SET closed_reason = 'a hand' WHERE id = ANY(%s)", (ids,))

    (found,) = examine(check_routes)

    assert len(found.examples) == 7
    assert found.what.endswith(": 7")


def test_a_child_without_its_route_is_found(
    connection: Connection, own_settings: Settings, fleet: Fleet, now: datetime, examine: Examine
) -> None:
    route_with(connection, own_settings, fleet, "active", now)
    connection.execute("ALTER TABLE visits DROP CONSTRAINT visits_route_id_fkey")
    gone = new_id()
    connection.execute("UPDATE visits SET route_id = %s", (gone,))

    found = examine(check_routes)

    orphans = [one for one in found if one.what.startswith("Rows of visits.route_id name a row of routes that is gone")]
    assert [one.examples for one in orphans] == [(str(gone),)]


def test_a_check_that_runs_out_of_time_says_what_it_has_looked_at(
    connection: Connection,
    own_settings: Settings,
    fleet: Fleet,
    now: datetime,
    examine: Examine,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(route_facts, "PORTION", 2)
    for _ in range(5):
        route_with(connection, own_settings, fleet, "draft", now)
    left = iter([1.0, 1.0])
    monkeypatch.setattr(Examined, "seconds_left", lambda _: next(left, 0.0))

    with pytest.raises(NotFinished, match="the newest 4 of about"):
        examine(check_routes)
