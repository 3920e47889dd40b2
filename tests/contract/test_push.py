"""POST /v1/routes: RouteInput and its limits, idempotency, what a push does in every status, superseding."""

from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from domain.lifecycle import Environment
from tests.contract.checks import (
    accepted,
    count_routes,
    invalid_fields,
    problem,
    put_in_status,
    stored_route,
)
from tests.contract.conftest import Clients
from tests.factories import JOLIET, NEWARK, PERRYSBURG, PLAN, route_body
from tests.service import Client

MISSING = object()
"""Stands for a field that is left out."""


def changed(body: dict[str, Any], path: str, value: object) -> dict[str, Any]:
    """A copy of a body with one field set, or left out; `path` reads like `stops.1.name`."""
    body = deepcopy(body)
    *way, last = [int(step) if step.isdigit() else step for step in path.split(".")]
    place: Any = body
    for step in way:
        place = place[step]
    if value is MISSING:
        del place[last]
    else:
        place[last] = value
    return body


def json_path(path: str) -> str:
    """`stops.1.name` as the contract writes it: `stops[1].name`."""
    return "".join(f"[{step}]" if step.isdigit() else f".{step}" for step in path.split(".")).removeprefix(".")


def full_body(now: datetime) -> dict[str, Any]:
    """A body with every field of RouteInput."""
    start = (now + timedelta(days=1)).isoformat()
    return route_body(
        now + timedelta(days=1),
        reference="PO-1",
        vehicle={"unitNumber": "101", "vin": "1XKAD49X0CJ000101"},
        driver={"name": "Ann Lee", "externalId": "D-1"},
        stops=[
            {**JOLIET, "address": "1 Depot Way", "arrivalWindow": {"start": start, "end": start}},
            {**NEWARK, "address": "2 Port St", "arrivalWindow": {"start": start, "end": start}},
        ],
    )


def many_stops(count: int) -> list[dict[str, Any]]:
    return [{"name": f"Stop {number}", "latitude": 41.0 + number / 100, "longitude": -88} for number in range(count)]


# --- what is accepted ------------------------------------------------------------------------------------------


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


def test_without_a_reference_the_external_id_is_the_name(client: Client, now: datetime) -> None:
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


# --- what is refused -------------------------------------------------------------------------------------------

NOT_A_STRING = [5, True, 1.5, ["x"], {"x": 1}]
NOT_A_NUMBER = ["41.5", True, None, [41.5], {"x": 1}]
NOT_AN_OBJECT = ["x", 5, True, None, []]
NO_TIMES = [
    "2026-12-01T08:00:00",
    "2026-12-01",
    "2026-12-01T08:00Z",
    "2026-12-01T08:00:00+0600",
    "2026-12-01T08:00:00+06",
    "2026-12-01T08:00:00+24:00",
    "2026-12-01T08:00:00 +06:00",
    "2026-13-01T08:00:00Z",
    "2026-02-29T08:00:00Z",
    "2026-12-01T24:00:00Z",
    "2026-12-01T08:60:00Z",
    "20261201T080000Z",
    "26-12-01T08:00:00Z",
    "12026-12-01T08:00:00Z",
    "0000-01-01T00:00:00Z",
    "0001-01-01T00:00:00+01:00",
    "9999-12-31T23:59:59-01:00",
    "2026-12-01T08:00:00Z\n",
    " 2026-12-01T08:00:00Z",
    "2026-12-01T08:00:00.Z",
    "\u0662\u0660\u0662\u0666-12-01T08:00:00Z",
    "1764576000",
    "tomorrow",
    "",
    1764576000,
    1764576000.5,
    True,
    ["2026-12-01T08:00:00Z"],
]

INVALID: list[tuple[str, list[object]]] = [
    ("externalId", [MISSING, None, "", "x" * 201, "a\0b", *NOT_A_STRING]),
    ("reference", ["x" * 201, "a\0b", *NOT_A_STRING]),
    ("vehicle", [MISSING, {}, {"unitNumber": None}, {"vin": None, "unitNumber": None}, {"x": 1}, *NOT_AN_OBJECT]),
    ("vehicle.unitNumber", ["", "x" * 201, "a\0b", *NOT_A_STRING]),
    ("vehicle.vin", ["", "x" * 16, "x" * 18, "x" * 16 + "\0", *NOT_A_STRING]),
    ("driver", [MISSING, {}, {"name": None}, {"name": None, "externalId": None}, {"x": 1}, *NOT_AN_OBJECT]),
    ("driver.name", ["", "x" * 201, "a\0b", *NOT_A_STRING]),
    ("driver.externalId", ["", "x" * 201, "a\0b", *NOT_A_STRING]),
    ("scheduledStart", [MISSING, None, *NO_TIMES]),
    ("stops", [MISSING, None, "x", 5, {}, {"0": JOLIET}, [], many_stops(1), many_stops(51)]),
    ("stops.1", NOT_AN_OBJECT),
    ("stops.1.name", [MISSING, None, "", "x" * 201, "a\0b", *NOT_A_STRING]),
    ("stops.1.address", ["x" * 401, "a\0b", *NOT_A_STRING]),
    ("stops.1.latitude", [MISSING, -90.0000001, 90.0000001, -91, 91, 10**30, *NOT_A_NUMBER]),
    ("stops.0.longitude", [MISSING, -180.0000001, 180.0000001, -181, 181, -(10**30), *NOT_A_NUMBER]),
    ("stops.1.arrivalWindow", ["x", 5, True, [], ["2026-12-01T08:00:00Z"]]),
    ("stops.1.arrivalWindow.start", NO_TIMES),
    ("stops.0.arrivalWindow.end", NO_TIMES),
]


@pytest.mark.parametrize(("path", "values"), INVALID, ids=[path for path, _ in INVALID])
def test_every_value_beyond_its_limit_is_refused_by_name(
    client: Client, now: datetime, path: str, values: list[object]
) -> None:
    """Validation rules 1 to 6 and decision 13: 400 `validation_error` that names the field, and nothing else."""
    for value in values:
        answer = client.push(changed(full_body(now), path, value))

        assert invalid_fields(answer) == [json_path(path)], repr(value)
    assert count_routes(client) == 0


def test_all_faults_of_a_body_are_listed_at_once(client: Client, now: datetime) -> None:
    """validation_error: `errors` lists each invalid field."""
    body = {
        "externalId": "x" * 201,
        "reference": 5,
        "vehicle": {"vin": "short"},
        "scheduledStart": "tomorrow",
        "stops": [
            {"name": "", "latitude": 91, "longitude": "-88"},
            "no stop",
            {**JOLIET, "address": "x" * 401, "arrivalWindow": {"start": "noon", "end": 12}},
        ],
    }

    assert invalid_fields(client.push(body)) == sorted(
        [
            "externalId",
            "reference",
            "vehicle.vin",
            "driver",
            "scheduledStart",
            "stops[0].name",
            "stops[0].latitude",
            "stops[0].longitude",
            "stops[1]",
            "stops[2].address",
            "stops[2].arrivalWindow.start",
            "stops[2].arrivalWindow.end",
        ]
    )


def test_too_many_stops_do_not_hide_what_is_wrong_in_them(client: Client, now: datetime) -> None:
    """validation_error: the list's own fault and those of its entries, together."""
    stops = [*many_stops(3), {"name": "x", "latitude": 91, "longitude": 0}, *many_stops(47)]

    assert invalid_fields(client.push(route_body(now, stops=stops))) == ["stops", "stops[3].latitude"]


def test_an_empty_object_lists_every_required_field(client: Client) -> None:
    """Validation rule 1: externalId, vehicle, driver, scheduledStart and stops are required."""
    assert invalid_fields(client.push({})) == ["driver", "externalId", "scheduledStart", "stops", "vehicle"]


# --- idempotency -----------------------------------------------------------------------------------------------


def test_an_identical_push_answers_200_and_the_same_route(client: Client, now: datetime) -> None:
    """POST rule 1: the same externalId updates the route and returns 200."""
    body = full_body(now)
    first = accepted(client.push(body), 201)

    assert accepted(client.push(body), 200) == first
    assert count_routes(client) == 1


def test_an_identical_push_may_be_written_differently(client: Client, now: datetime) -> None:
    """Decision 4: key order, unknown fields, null for nothing and another offset make no other body."""
    body = route_body(now, stops=[{**JOLIET, "latitude": 41}, NEWARK])
    first = accepted(client.push(body), 201)
    put_in_status(client, first["id"], "planned", plan=PLAN)
    planned = client.route(first["id"])
    other = dict(reversed(body.items())) | {"note": "ignored", "reference": None}
    other["vehicle"] = {"vin": None, "unitNumber": "101"}
    other["scheduledStart"] = (now.replace(tzinfo=None) - timedelta(hours=6)).isoformat() + ".000-06:00"
    other["stops"] = [{**JOLIET, "latitude": 41.0, "address": None, "arrivalWindow": None}, NEWARK]

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
def test_a_started_route_takes_no_push(client: Client, now: datetime, status: str, change: dict[str, str]) -> None:
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
def test_a_held_route_takes_identical_and_changed_pushes(client: Client, now: datetime, status: str) -> None:
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


def test_a_pending_route_takes_an_identical_push(client: Client, now: datetime) -> None:
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


# --- superseding -----------------------------------------------------------------------------------------------


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
