"""Checks of the data: references, counts, partitions, stored plans, keys and work that does not move."""

import base64
from datetime import datetime, timedelta
from typing import Any

import pytest

from domain.accounts.contacts import Contacts
from domain.accounts.keys import create_key, revoke_key
from domain.database.connections import Connection, as_json
from domain.ids import new_id, shown_id
from domain.lifecycle import Environment
from domain.operations.doctor import examination
from domain.operations.doctor.machines import check_time_zones
from domain.operations.doctor.partitions import check_partitions
from domain.operations.doctor.references import CHECKED_REFERENCES, check_references
from domain.operations.doctor.retraced_plans import check_plans
from domain.operations.doctor.stored_keys import check_api_keys, check_contact_key
from domain.operations.doctor.work import check_alerts, check_steps
from domain.requests.log import maintain_request_partitions
from domain.settings import Settings
from domain.telematics.position_partitions import maintain_partitions
from tests.domain.helpers import pushed
from tests.domain.operations.doctor.conftest import Examine, texts
from tests.domain.planning.plans import feasible, inputs, meridian, priced
from tests.domain.trucks import active_route
from tests.factories import DOT, Fleet, make_fleet

# --- References and counts ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("column", "change"),
    [
        ("api_keys.company_id", "UPDATE api_keys SET company_id = %(nobody)s"),
        ("tracks.vehicle_id", "UPDATE tracks SET company_id = %(stranger)s"),
        ("mappings.target_id", "UPDATE mappings SET target_id = %(strangers_truck)s WHERE kind = 'unit_number'"),
        ("mappings.target_id", "UPDATE mappings SET target_id = %(nobody)s WHERE kind = 'driver_name'"),
        ("positions.vehicle_id", "UPDATE positions SET company_id = %(stranger)s"),
        ("route_counts.company_id", "UPDATE route_counts SET company_id = %(nobody)s"),
    ],
)
def test_an_orphan_is_found(
    connection: Connection,
    own_settings: Settings,
    fleet: Fleet,
    now: datetime,
    examine: Examine,
    column: str,
    change: str,
) -> None:
    stranger = make_fleet(connection)
    active_route(connection, own_settings, fleet, now=now)
    create_key(connection, fleet.company_id, DOT, name="k", environment=Environment.LIVE, scopes=["routes:read"])
    for kind, target in (("unit_number", fleet.trucks[0]), ("driver_name", fleet.drivers[0])):
        connection.execute(
            "INSERT INTO mappings (company_id, kind, value, target_id) VALUES (%s, %s, 'X', %s)",
            (fleet.company_id, kind, target),
        )
    connection.execute(
        "INSERT INTO route_counts (company_id, environment, status, day, routes)"
        " VALUES (%s, 'live', 'draft', now(), 1)",
        (fleet.company_id,),
    )
    assert examine(check_references) == []
    connection.execute("ALTER TABLE api_keys DROP CONSTRAINT api_keys_company_id_fkey")

    connection.execute(
        change, {"nobody": new_id(), "stranger": stranger.company_id, "strangers_truck": stranger.trucks[0]}
    )

    (found,) = examine(check_references)
    assert found.what.startswith(f"Rows of {column} name a row of ")
    assert found.what.endswith(": 1")
    assert len(found.examples) == 1


def test_the_foreign_keys_of_all_tables_are_checked() -> None:
    checked = {one.name for one in CHECKED_REFERENCES}
    assert {"sessions.user_id", "drivers.company_id", "former_names.driver_id", "audit_log.company_id"} <= checked


def test_wrong_counts_are_found_and_not_corrected(
    connection: Connection, fleet: Fleet, now: datetime, examine: Examine
) -> None:
    pushed(connection, fleet.live, now=now, start=now)
    check = next(one for one in examination.CHECKS if one.name == "counts of routes")
    assert examine(check.find) == []
    connection.execute("UPDATE route_count_deltas SET routes = routes + 2 WHERE company_id = %s", (fleet.company_id,))

    for _ in range(2):
        (found,) = examine(check.find)
        assert found.examples == (f"{fleet.shown_company_id} live pending: -2",)


# --- Partitions --------------------------------------------------------------------------------------------------


def test_missing_and_old_partitions_are_found(connection: Connection, now: datetime, examine: Examine) -> None:
    assert texts(examine(check_partitions)) == [
        "Partitions of positions_live for the next days are missing: 6",
        "Partitions of request_log for the next days are missing: 6",
    ]
    for moment in (now - timedelta(days=60), now):
        maintain_partitions(connection, retention_days=90, now=moment)
        maintain_request_partitions(connection, days=90, now=moment)

    assert examine(check_partitions, position_retention_days=90, request_log_days=90) == []
    old = examine(check_partitions, position_retention_days=30, request_log_days=7)

    assert texts(old) == [
        "Partitions of positions_live are older than 30 days: 8",
        "Partitions of request_log are older than 7 days: 7",
    ]


@pytest.mark.parametrize("environment", Environment)
def test_positions_beyond_their_retention_are_found(
    connection: Connection, fleet: Fleet, now: datetime, examine: Examine, environment: str
) -> None:
    long_ago = now - timedelta(days=40)
    connection.execute(
        "INSERT INTO positions (company_id, vehicle_id, environment, recorded_at, latitude, longitude, received_at)"
        " VALUES (%s, %s, %s, %s, 41, -88, %s)",
        (fleet.company_id, fleet.trucks[0], environment, long_ago, long_ago),
    )

    table = "positions_live_other" if environment == "live" else "positions_sandbox"
    assert f"{table} keeps rows beyond their retention: 1" in texts(examine(check_partitions))


def test_requests_beyond_their_retention_are_found(connection: Connection, now: datetime, examine: Examine) -> None:
    connection.execute(
        "INSERT INTO request_log (key_id, id, company_id, environment, method, path, status, milliseconds, size, times)"
        " VALUES (%(id)s, %(old)s, %(id)s, 'live', 'GET', '/v1/me', 200, 1, 0, 1)",
        {"id": new_id(), "old": "01000000-0000-7000-8000-000000000000"},
    )

    assert "request_log_other keeps rows beyond their retention: 1" in texts(examine(check_partitions))


# --- Stored plans ------------------------------------------------------------------------------------------------


def store_real_plan(connection: Connection, route_id: Any, **changes: Any) -> None:
    plan = feasible(inputs(meridian(600.0), *(priced(mile, 3.5 + mile / 9000) for mile in (50, 150, 300, 450))))
    connection.execute(
        "UPDATE plans SET document = %s, explanation = %s WHERE route_id = %s",
        (as_json({**plan.document(), **changes}), plan.packed_explanation, route_id),
    )


def test_a_plan_that_holds_gives_no_finding(
    connection: Connection, own_settings: Settings, fleet: Fleet, now: datetime, examine: Examine
) -> None:
    store_real_plan(connection, active_route(connection, own_settings, fleet, now=now))
    assert examine(check_plans) == []


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ("document = jsonb_set(document, '{totalCost}', '1.23')", "its totalCost is 1.23, the sum of its stops"),
        ("document = jsonb_set(document, '{stops,0,totalCost}', '1.23')", "stop 0 costs 1.23, its gallons cost"),
        ("document = jsonb_set(document, '{stops,0,sequence}', '3')", "its stops are not numbered from 0"),
        ("document = jsonb_set(document, '{stops,0,arrivalFuelPercent}', '99')", "stop 0 shows 99 % on arrival"),
        (
            "document = jsonb_set(document, '{stops,0,milesFromOrigin}', '1')",
            "its stops are not the purchases",
        ),
        ("document = document - 'stops'", "it cannot be read: KeyError 'stops'"),
        ("explanation = 'no zip'", "it cannot be read: error"),
    ],
)
def test_a_plan_that_does_not_hold_is_found(
    connection: Connection,
    own_settings: Settings,
    fleet: Fleet,
    now: datetime,
    examine: Examine,
    change: str,
    fault: str,
) -> None:
    route_id = active_route(connection, own_settings, fleet, now=now)
    store_real_plan(connection, route_id)
    connection.execute(f"UPDATE plans SET {change} WHERE route_id = %s", (route_id,))

    (found,) = examine(check_plans)

    assert found.what == "Of 1 stored plans, 1 do not hold when they are driven again"
    assert found.examples[0].startswith(f"{shown_id('rte', route_id)}: ")
    assert fault in found.examples[0]


# --- Keys and time zones -----------------------------------------------------------------------------------------


def key() -> str:
    return base64.urlsafe_b64encode(new_id().bytes * 2).decode()


def test_contacts_are_compared_with_the_key(connection: Connection, fleet: Fleet, examine: Examine) -> None:
    ours, older, lost = key(), key(), key()

    def contact(text: str | None) -> None:
        connection.execute("UPDATE drivers SET contact = %s WHERE id = %s", (text, fleet.drivers[0]))

    def told(keys: str | None) -> list[str]:
        more = {"contact_key": None} if keys is None else {"contact_key": Settings(contact_key=keys).contact_key}
        return texts(examine(check_contact_key, **more))

    assert told(ours) == []
    contact("json://a.example")
    assert told(None) == ["1 contacts, message URLs or secrets of one-time codes are stored in the clear"]
    assert told(ours) == ["1 stored secrets are not sealed with the newest key yet"]
    contact(Contacts(ours).seal("json://a.example"))
    assert told(ours) == []
    assert told(f"{older},{ours}") == ["1 stored secrets are not sealed with the newest key yet"]
    for keys in (lost, None):
        (text,) = told(keys)
        assert text.endswith("are sealed with a key that FUELROUTE_CONTACT_KEY does not have")


def test_companies_without_a_usable_key_are_named(
    connection: Connection, fleet: Fleet, now: datetime, examine: Examine
) -> None:
    assert texts(examine(check_api_keys)) == ["Companies have no API key: 1"]
    made = create_key(connection, fleet.company_id, DOT, name="k", environment=Environment.LIVE, scopes=["routes:read"])
    assert examine(check_api_keys) == []

    revoke_key(connection, made.id, DOT)

    (found,) = examine(check_api_keys)
    assert (found.is_problem, found.what) == (False, "Companies have keys, and all are expired or revoked: 1")
    assert found.examples == (fleet.shown_company_id,)


def test_unknown_time_zones_are_named(connection: Connection, fleet: Fleet, examine: Examine) -> None:
    assert examine(check_time_zones) == []
    connection.execute("UPDATE companies SET time_zone = 'Mars/Base' WHERE id = %s", (fleet.company_id,))

    python, postgres = examine(check_time_zones)

    assert (python.is_problem, python.examples) == (True, ("Mars/Base",))
    assert postgres.what == "PostgreSQL does not know the time zones of companies"


def test_time_zones_that_changed_on_one_side_are_named(
    connection: Connection, fleet: Fleet, examine: Examine, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection.execute("UPDATE companies SET time_zone = 'America/Chicago' WHERE id = %s", (fleet.company_id,))
    assert examine(check_time_zones) == []
    monkeypatch.setattr("domain.operations.doctor.machines._offset", lambda zone, moment: -6 * 3600.0)

    (found,) = examine(check_time_zones)

    assert "disagree about the clocks" in found.what
    assert found.examples == ("America/Chicago",)


# --- Work that does not move -------------------------------------------------------------------------------------


def test_alerts_are_findings_with_examples(
    connection: Connection, fleet: Fleet, now: datetime, examine: Examine
) -> None:
    route_id = pushed(connection, fleet.live, now=now - timedelta(minutes=9), start=now)

    found = {one.what: one for one in examine(check_alerts)}

    late = found["Routes wait too long for their import: 1"]
    assert (late.is_problem, late.examples) == (True, (shown_id("rte", route_id),))
    assert found["No scheduler has run a pass"].is_problem


def test_late_reviews_and_positions_are_found(
    connection: Connection, own_settings: Settings, fleet: Fleet, now: datetime, examine: Examine
) -> None:
    route_id = active_route(connection, own_settings, fleet, now=now)
    assert examine(check_steps) == []
    long_ago = now - timedelta(minutes=11)
    connection.execute("UPDATE routes SET review_at = %s WHERE id = %s", (long_ago, route_id))
    connection.execute("UPDATE tracks SET unprocessed_from = %s, unprocessed_since = %s", (long_ago, long_ago))

    reviews, trucks = examine(check_steps)

    assert reviews.examples == (shown_id("rte", route_id),)
    assert trucks.examples == (fleet.shown_trucks[0],)
