"""POST /v1/routes: the fields of RouteInput, the values at their limits, and the import window."""

from datetime import UTC, datetime, timedelta

import pytest

from tests.contract.bodies import MISSING, changed, full_body, many_stops
from tests.contract.checks import accepted
from tests.contract.conftest import Clients
from tests.factories import JOLIET, NEWARK, PERRYSBURG, route_body
from tests.service import Client

# --- accepted bodies --------------------------------------------------------------------------------------------


def test_a_matched_route_inside_the_window_is_created_as_a_draft(client: Client, now: datetime) -> None:
    """Transitions: (no route) -> POST, matched and inside the window -> draft, 201."""
    route = accepted(client.push(full_body(now)), 201)

    assert route["status"] == "draft"
    assert route["pending"] is None
    assert route["vehicle"] == {"id": client.fleet.shown_trucks[0], "unitNumber": "101"}
    assert route["driver"] == {"id": client.fleet.shown_drivers[0], "name": "Ann Lee"}
    assert route["fuelPlan"] is None
    assert client.route(route["id"]) == route


def test_the_answer_echoes_what_was_pushed(client: Client, now: datetime) -> None:
    """Route: externalId, reference, name, scheduledStart and stops of the input; `reference` becomes the name."""
    body = full_body(now)

    route = accepted(client.push(body), 201)

    assert route["externalId"] == body["externalId"]
    assert route["reference"] == route["name"] == "PO-1"
    assert datetime.fromisoformat(route["scheduledStart"]) == now + timedelta(days=1)
    assert [stop["name"] for stop in route["stops"]] == ["Joliet terminal", "Port Newark"]
    assert [stop["address"] for stop in route["stops"]] == ["1 Depot Way", "2 Port St"]
    assert [(stop["latitude"], stop["longitude"]) for stop in route["stops"]] == [
        (41.462, -88.125),
        (40.695, -74.155),
    ]
    assert [stop["sequence"] for stop in route["stops"]] == [0, 1]
    assert [stop["type"] for stop in route["stops"]] == ["waypoint", "destination"]


def test_a_route_without_a_reference_is_named_by_its_external_id(client: Client, now: datetime) -> None:
    """Decision 19: a route's name is its reference, else its externalId."""
    route = accepted(client.push(route_body(now)), 201)

    assert route["reference"] is None
    assert route["name"] == route["externalId"]


def test_the_last_stop_is_the_destination(client: Client, now: datetime) -> None:
    """RouteInput.stops: in driving order, the last one is the destination."""
    route = accepted(client.push(route_body(now, stops=[JOLIET, PERRYSBURG, NEWARK])), 201)

    assert [(stop["sequence"], stop["name"], stop["type"]) for stop in route["stops"]] == [
        (0, "Joliet terminal", "waypoint"),
        (1, "Perrysburg yard", "waypoint"),
        (2, "Port Newark", "destination"),
    ]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("externalId", "x"),
        ("externalId", "x" * 200),
        ("externalId", "\U0001f69a" * 200),
        ("externalId", " /?#%&\"'\\\t\n<é漢>"),
        ("reference", "x" * 200),
        ("reference", "\U0001f69a" * 200),
        ("reference", ""),
        ("reference", None),
        ("reference", MISSING),
        ("vehicle.unitNumber", None),
        ("vehicle.unitNumber", MISSING),
        ("vehicle.vin", None),
        ("vehicle.vin", MISSING),
        ("driver.name", None),
        ("driver.name", MISSING),
        ("driver.externalId", None),
        ("driver.externalId", MISSING),
        ("stops", many_stops(2)),
        ("stops", many_stops(50)),
        ("stops.0.name", "x"),
        ("stops.0.name", "x" * 200),
        ("stops.1.name", "漢" * 200),
        ("stops.0.address", "x" * 400),
        ("stops.1.address", "漢" * 400),
        ("stops.0.address", ""),
        ("stops.0.address", None),
        ("stops.0.address", MISSING),
        ("stops.0.latitude", -90),
        ("stops.0.latitude", 90),
        ("stops.0.latitude", -89.99999999),
        ("stops.0.longitude", -180),
        ("stops.1.longitude", 180.0),
        ("stops.1.longitude", -0.0),
        ("stops.0.arrivalWindow", None),
        ("stops.0.arrivalWindow", MISSING),
        ("stops.0.arrivalWindow", {}),
        ("stops.0.arrivalWindow.start", None),
        ("stops.0.arrivalWindow.start", MISSING),
        ("stops.0.arrivalWindow.end", None),
        ("stops.0.arrivalWindow.end", MISSING),
        ("stops.0.arrivalWindow.end", "2001-01-01T00:00:00Z"),  # before its start: not judged
        ("unknown", {"nested": [1, None]}),
        ("stops.0.unknown", "ignored"),
        ("vehicle.unknown", 5),
    ],
)
def test_every_value_at_its_limit_is_accepted(client: Client, now: datetime, path: str, value: object) -> None:
    """RouteInput and Limits, at and below each bound; decision 13: unknown fields, null and empty optional texts."""
    body = changed(full_body(now), path, value)

    route = accepted(client.push(body), 201)

    assert route["externalId"] == body["externalId"]
    assert route["reference"] == body.get("reference")
    assert len(route["stops"]) == len(body["stops"])
    for shown, pushed in zip(route["stops"], body["stops"], strict=True):
        assert shown["name"] == pushed["name"]
        assert shown["address"] == pushed.get("address")
        assert (shown["latitude"], shown["longitude"]) == (pushed["latitude"], pushed["longitude"])


@pytest.mark.parametrize(
    ("vehicle", "driver"),
    [
        ({"unitNumber": "x" * 200}, {"name": "Ann Lee"}),
        ({"unitNumber": "101"}, {"name": "x" * 200}),
        ({"unitNumber": "101"}, {"externalId": "x" * 200}),
        ({"vin": "1XKAD49X0CJ999999"}, {"name": "Ann Lee"}),
    ],
)
def test_references_at_their_limit_are_accepted_and_held(
    client: Client, now: datetime, vehicle: dict[str, str], driver: dict[str, str]
) -> None:
    """VehicleRef, DriverRef; decision 13: references have at most 200 characters; VIN exactly 17."""
    assert accepted(client.push(route_body(now, vehicle=vehicle, driver=driver)), 202)["status"] == "pending_mapping"


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("2026-11-21T08:00:00Z", "2026-11-21T08:00:00Z"),
        ("2026-11-21t08:00:00z", "2026-11-21T08:00:00Z"),
        ("2026-11-21T08:00:00+00:00", "2026-11-21T08:00:00Z"),
        ("2026-11-21T08:00:00-00:00", "2026-11-21T08:00:00Z"),
        ("2026-11-21T08:00:00-06:00", "2026-11-21T14:00:00Z"),
        ("2026-11-21T08:00:00+05:45", "2026-11-21T02:15:00Z"),
        ("2026-11-21T23:30:00-23:59", "2026-11-22T23:29:00Z"),
        ("2024-02-29T12:00:00.5Z", "2024-02-29T12:00:00.500000Z"),
        ("2026-11-21T08:00:00.123456Z", "2026-11-21T08:00:00.123456Z"),
        ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00Z"),
    ],
)
def test_every_form_of_rfc_3339_is_accepted_and_shown_in_utc(
    client: Client, written: str, shown: str, now: datetime
) -> None:
    """scheduledStart: RFC 3339 with a UTC offset; decision 19: answered in UTC with `Z`."""
    route = accepted(client.push({**route_body(now), "scheduledStart": written}), 201)

    assert route["scheduledStart"] == shown


def test_a_start_at_the_end_of_time_is_held(client: Client, now: datetime) -> None:
    """scheduledStart: the latest RFC 3339 time is no failure."""
    answer = client.push({**route_body(now), "scheduledStart": "9999-12-31T23:59:59Z"})

    assert accepted(answer, 202)["scheduledStart"] == "9999-12-31T23:59:59Z"


# --- the import window -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("days", "code", "status"),
    [(-30, 201, "draft"), (0, 201, "draft"), (6.99, 201, "draft"), (7.01, 202, "pending_window")],
)
def test_the_import_window_is_seven_days(client: Client, days: float, code: int, status: str) -> None:
    """POST rule 3 and Limits: 7 days by default; decision 10: a start in the past is imported as a draft."""
    start = datetime.now(UTC) + timedelta(days=days)

    assert accepted(client.push(route_body(start)), code)["status"] == status


@pytest.mark.parametrize(
    ("window", "days", "status"), [(2, 1.9, "draft"), (2, 2.1, "pending_window"), (30, 29, "draft")]
)
def test_the_import_window_is_the_companys(clients: Clients, window: float, days: float, status: str) -> None:
    """Limits: the import window is set for each company."""
    client = clients.tenant(import_window_days=window)

    answer = client.push(route_body(datetime.now(UTC) + timedelta(days=days)))

    assert answer.json()["status"] == status
