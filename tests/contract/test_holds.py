"""Held routes: why, what the detail says, and how they are imported by themselves."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from domain.fleet.matching import MappingKind
from domain.ids import new_id, shown_id
from domain.routes.intake.fleet_changes import add_mapping
from tests.contract.checks import accepted, stored_route
from tests.factories import DOT, route_body
from tests.rows import stored_id
from tests.service import Client, eventually

FAR = "2099-01-01T00:00:00Z"
NO_TRUCK = {"unitNumber": "999"}
NOBODY = {"name": "Nobody"}


def held(client: Client, now: datetime, **changes: Any) -> dict[str, Any]:
    """A push that must be held: 202 with `pending` filled."""
    route = accepted(client.push(route_body(now) | changes), 202)
    assert route["status"] in ("pending_mapping", "pending_window")
    assert route["pending"]["detail"]
    return route


def reason(route: dict[str, Any]) -> tuple[str, str]:
    return route["status"], route["pending"]["reason"]


def execute(client: Client, statement: str, *values: Any) -> None:
    with client.service.database.transaction() as connection:
        connection.execute(statement, values)


def map_to(client: Client, kind: MappingKind, value: str, target: UUID) -> None:
    """Adds a mapping like the matching screens, jobs included."""
    with client.service.database.transaction() as connection:
        add_mapping(connection, client.fleet.company_id, kind, value, target, DOT)


def add_vehicle(client: Client, unit_number: str | None, vin: str | None = None) -> UUID:
    vehicle_id = new_id()
    execute(
        client,
        "INSERT INTO vehicles (id, company_id, unit_number, vin) VALUES (%s, %s, %s, %s)",
        vehicle_id,
        client.fleet.company_id,
        unit_number,
        vin,
    )
    return vehicle_id


def add_driver(client: Client, name: str | None, external_id: str | None = None) -> UUID:
    driver_id = new_id()
    execute(
        client,
        "INSERT INTO drivers (id, company_id, name, external_id) VALUES (%s, %s, %s, %s)",
        driver_id,
        client.fleet.company_id,
        name,
        external_id,
    )
    return driver_id


# --- why -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"vehicle": NO_TRUCK, "driver": NOBODY, "scheduledStart": FAR}, ("pending_mapping", "vehicle_unmapped")),
        ({"vehicle": NO_TRUCK, "driver": NOBODY}, ("pending_mapping", "vehicle_unmapped")),
        ({"vehicle": NO_TRUCK, "scheduledStart": FAR}, ("pending_mapping", "vehicle_unmapped")),
        ({"vehicle": NO_TRUCK}, ("pending_mapping", "vehicle_unmapped")),
        ({"driver": NOBODY, "scheduledStart": FAR}, ("pending_mapping", "driver_unmapped")),
        ({"driver": NOBODY}, ("pending_mapping", "driver_unmapped")),
        ({"scheduledStart": FAR}, ("pending_window", "outside_import_window")),
    ],
)
def test_the_vehicle_is_checked_first_then_the_driver_then_the_window(
    client: Client, now: datetime, changes: dict[str, Any], expected: tuple[str, str]
) -> None:
    """Transitions: (no route) -> POST -> pending_mapping or pending_window, 202; decision 1: the order of reasons."""
    route = held(client, now, **changes)

    assert reason(route) == expected
    assert client.route(route["id"]) == route


@pytest.mark.parametrize(
    ("field", "reference"),
    [
        ("vehicle", {"unitNumber": "UNIT-77 'x'"}),
        ("vehicle", {"vin": "1XKAD49X0CJ999999"}),
        ("driver", {"name": "Núria O'Neil"}),
        ("driver", {"externalId": "D-404"}),
    ],
)
def test_the_detail_names_the_reference_that_failed(
    client: Client, now: datetime, field: str, reference: dict[str, str]
) -> None:
    """Decision 1: `pending.detail` names the reference that failed and what to do about it."""
    detail = held(client, now, **{field: reference})["pending"]["detail"]

    (value,) = reference.values()
    assert value in detail
    assert field in detail
    assert "map it" in detail


def test_the_detail_names_the_days_of_the_import_window(client: Client, now: datetime) -> None:
    """Decision 1, for the window."""
    assert "7 days" in held(client, now, scheduledStart=FAR)["pending"]["detail"]


@pytest.mark.parametrize(
    ("field", "reference", "why"),
    [
        ("vehicle", {"unitNumber": "101", "vin": "1XKAD49X0CJ000102"}, "different"),
        ("vehicle", {"unitNumber": "101", "vin": "1XKAD49X0CJ999999"}, "1XKAD49X0CJ999999"),
        ("vehicle", {"unitNumber": "999", "vin": "1XKAD49X0CJ000101"}, "999"),
        ("driver", {"name": "Ann Lee", "externalId": "D-2"}, "different"),
        ("driver", {"name": "Ann Lee", "externalId": "D-9"}, "D-9"),
        ("driver", {"name": "Nobody", "externalId": "D-1"}, "Nobody"),
    ],
)
def test_two_references_must_lead_to_the_same_record(
    client: Client, now: datetime, field: str, reference: dict[str, str], why: str
) -> None:
    """Decision 1: both given, both must lead to the same vehicle or driver, else unmapped with that detail."""
    route = held(client, now, **{field: reference})

    assert reason(route) == ("pending_mapping", f"{field}_unmapped")
    assert why in route["pending"]["detail"]
    if why == "different":
        assert all(value in route["pending"]["detail"] for value in reference.values())


def test_a_reference_that_fits_two_records_is_not_guessed(client: Client, now: datetime) -> None:
    """Decision 1: a reference that fits two records is unmapped; a mapping settles it."""
    vin = "1XKAD49X0CJ000101"
    add_vehicle(client, "301", vin)
    add_driver(client, "Bo Diaz")

    vehicle = held(client, now, vehicle={"vin": vin})
    driver = held(client, now, vehicle={"unitNumber": "102"}, driver={"name": "Bo Diaz"})
    map_to(client, "vin", vin, client.fleet.trucks[0])

    assert reason(vehicle) == ("pending_mapping", "vehicle_unmapped")
    assert f"'{vin}'" in vehicle["pending"]["detail"]
    assert "more than one" in vehicle["pending"]["detail"]
    assert reason(driver) == ("pending_mapping", "driver_unmapped")
    assert "Bo Diaz" in driver["pending"]["detail"]
    assert client.wait_for(vehicle["id"], "draft")["vehicle"]["id"] == client.fleet.shown_trucks[0]


def test_an_ambiguous_reference_is_not_resolved_by_the_other_one(client: Client, now: datetime) -> None:
    """Decision 1: a reference that fits two records is unmapped, whatever else is given."""
    add_vehicle(client, "301", "1XKAD49X0CJ000101")

    route = held(client, now, vehicle={"unitNumber": "101", "vin": "1XKAD49X0CJ000101"})

    assert reason(route) == ("pending_mapping", "vehicle_unmapped")


@pytest.mark.parametrize(
    "changes",
    [
        {"vehicle": {"unitNumber": "101 "}},
        {"vehicle": {"unitNumber": "0101"}},
        {"vehicle": {"vin": "1xkad49x0cj000101"}},
        {"driver": {"name": "ann lee"}},
        {"driver": {"name": "Ann  Lee"}},
        {"driver": {"name": "Ann"}},
        {"driver": {"externalId": "d-1"}},
        {"vehicle": {"unitNumber": "%"}},
    ],
)
def test_references_compare_exactly(client: Client, now: datetime, changes: dict[str, Any]) -> None:
    """VehicleRef, DriverRef: as stored by the service; decision 2: exactly."""
    assert held(client, now, **changes)["status"] == "pending_mapping"


def test_a_matched_vehicle_shows_while_the_driver_is_unmapped(client: Client, now: datetime) -> None:
    """RouteVehicle.id: vehicle id once matched; `null` while unmatched."""
    route = held(client, now, driver=NOBODY)

    assert route["vehicle"] == {"id": client.fleet.shown_trucks[0], "unitNumber": "101"}
    assert route["driver"] == {"id": None, "name": "Nobody"}


# --- mappings --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "field", "reference"),
    [
        ("unit_number", "vehicle", {"unitNumber": "TMS-7"}),
        ("vin", "vehicle", {"vin": "TMS00000000000007"}),
        ("driver_name", "driver", {"name": "Lee, Ann"}),
        ("driver_external_id", "driver", {"externalId": "TMS-7"}),
    ],
)
def test_a_mapping_imports_at_once_the_routes_that_wait_for_it(
    client: Client, now: datetime, kind: MappingKind, field: str, reference: dict[str, str]
) -> None:
    """Transitions: pending_mapping -> mapped in the matching screens -> draft; nothing needs to be resent."""
    waiting = [held(client, now, **{field: reference})["id"] for _ in range(2)]
    _, target = client.fleet.trucks if field == "vehicle" else client.fleet.drivers
    (value,) = reference.values()

    map_to(client, kind, value, target)

    for route_id in waiting:
        route = client.wait_for(route_id, "draft")
        assert stored_id(route[field]["id"]) == target
        assert route["pending"] is None
    later = accepted(client.push(route_body(now) | {field: reference}), 201)
    assert stored_id(later[field]["id"]) == target


def test_a_mapping_comes_before_the_stored_value(client: Client, now: datetime) -> None:
    """Decision 2: first a mapping, then the stored value itself."""
    map_to(client, "unit_number", "101", client.fleet.trucks[1])

    route = accepted(client.push(route_body(now)), 201)

    assert route["vehicle"] == {"id": client.fleet.shown_trucks[1], "unitNumber": "102"}


def test_the_next_hold_reason_replaces_the_first(client: Client, now: datetime) -> None:
    """Decision 1: once the vehicle is mapped the driver is the reason, then the window."""
    route_id = held(client, now, vehicle=NO_TRUCK, driver=NOBODY, scheduledStart=FAR)["id"]

    map_to(client, "unit_number", "999", client.fleet.trucks[0])
    by_driver = wait_for_reason(client, route_id, "driver_unmapped")
    map_to(client, "driver_name", "Nobody", client.fleet.drivers[0])
    by_window = wait_for_reason(client, route_id, "outside_import_window")

    assert by_driver["vehicle"]["id"] == client.fleet.shown_trucks[0]
    assert by_window["driver"]["id"] == client.fleet.shown_drivers[0]
    assert by_window["status"] == "pending_window"


def wait_for_reason(client: Client, route_id: str, wanted: str) -> dict[str, Any]:
    return eventually(
        lambda: client.route(route_id),
        lambda route: route["pending"] is not None and route["pending"]["reason"] == wanted,
        wanted=wanted,
    )


# --- the pass --------------------------------------------------------------------------------------------------


def test_a_vehicle_added_later_is_found_by_the_pass(client: Client, now: datetime) -> None:
    """Transitions: pending_mapping -> import pass -> draft, also where the record itself has come."""
    by_vehicle, by_driver = held(client, now, vehicle=NO_TRUCK)["id"], held(client, now, driver=NOBODY)["id"]

    vehicle_id, driver_id = add_vehicle(client, "999"), add_driver(client, "Nobody")

    assert client.wait_for(by_vehicle, "draft")["vehicle"] == {"id": shown_id("veh", vehicle_id), "unitNumber": "999"}
    assert client.wait_for(by_driver, "draft")["driver"] == {"id": shown_id("drv", driver_id), "name": "Nobody"}


def push_soon(client: Client, seconds: float) -> dict[str, Any]:
    """A route that enters the window so soon. A machine that stands still meanwhile imports it at once."""
    return dict(client.push(route_body(datetime.now(UTC) + timedelta(days=7, seconds=seconds))).json())


def test_a_start_that_enters_the_window_is_imported_by_the_pass(client: Client) -> None:
    """Transitions: pending_window -> the scheduled start has entered the import window -> draft."""
    answers = (push_soon(client, seconds) for seconds in (2, 30, 120))
    entering = next(route["id"] for route in answers if route["status"] == "pending_window")
    staying = held(client, datetime.now(UTC) + timedelta(days=8))["id"]

    client.wait_for(entering, "draft")

    assert client.route(staying)["status"] == "pending_window"


def test_a_wider_window_imports_held_routes(client: Client, now: datetime) -> None:
    """The window is the company's at the time of the pass."""
    route_id = held(client, now + timedelta(days=20))["id"]

    execute(client, "UPDATE companies SET import_window_days = 30 WHERE id = %s", client.fleet.company_id)

    client.wait_for(route_id, "draft")


@pytest.mark.parametrize("changes", [{"vehicle": NO_TRUCK}, {"driver": NOBODY}])
def test_a_route_held_long_past_its_start_becomes_an_error(
    client: Client, now: datetime, changes: dict[str, Any]
) -> None:
    """Decision 3: a held route whose start is more than 7 days past goes to `error`; a re-push starts it again."""
    body = route_body(now - timedelta(days=7, minutes=1)) | changes
    late = client.push(body).json()["id"]
    in_time = held(client, now - timedelta(days=6, hours=23), **changes)["id"]

    route = client.wait_for(late, "error")

    assert route["pending"] is None
    assert "7" in stored_route(client, late).closed_reason
    assert client.route(in_time)["status"] == "pending_mapping"
    matched = {"vehicle": {"unitNumber": "101"}, "driver": {"name": "Ann Lee"}}
    assert accepted(client.push({**body, **matched}), 200)["status"] == "draft"


def test_a_matched_route_with_an_old_start_stays_a_draft(client: Client, now: datetime) -> None:
    """Decision 10: a matched route with a start in the past is still imported as a draft."""
    route_id = accepted(client.push(route_body(now - timedelta(days=100))), 201)["id"]
    gone = client.push(route_body(now - timedelta(days=100), vehicle=NO_TRUCK)).json()["id"]

    client.wait_for(gone, "error")

    assert client.route(route_id)["status"] == "draft"
