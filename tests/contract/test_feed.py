"""The telematics feed, POST /telematics/positions: good entries are taken, bad ones named, none costs another."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from domain.ids import new_id, shown_id
from domain.lifecycle import Environment
from tests.contract.checks import accepted, invalid_fields, problem
from tests.contract.conftest import Clients
from tests.factories import JOLIET, NEWARK, route_body
from tests.rows import named
from tests.service import Client


def fix(now: datetime, **changes: Any) -> dict[str, Any]:
    """A valid entry of truck 101, with every field but one reference."""
    return {
        "unitNumber": "101",
        "latitude": 41.1,
        "longitude": -87.2,
        "recordedAt": now.isoformat(),
        "speedMph": 0.0,
        "fuelPercent": 62,
        "accuracyMeters": 8,
        **changes,
    }


def post(client: Client, *entries: Any) -> httpx.Response:
    return client.post("/telematics/positions", json={"positions": list(entries)})


def outcome(answer: httpx.Response) -> tuple[int, list[int]]:
    """The number of accepted positions, and the indexes of the others."""
    assert answer.status_code == 202, answer.text
    body = answer.json()
    assert body.keys() == {"accepted", "rejected"}
    for entry in body["rejected"]:
        assert entry.keys() == {"index", "message"}
        assert entry["message"]
    return body["accepted"], [entry["index"] for entry in body["rejected"]]


def stored(client: Client, environment: str = "live") -> list[Any]:
    """The stored fixes of the company's trucks, oldest first."""
    with client.service.database.transaction() as connection:
        return (
            named(connection)
            .execute(
                "SELECT * FROM positions WHERE vehicle_id = ANY(%s) AND environment = %s ORDER BY recorded_at",
                (list(client.fleet.trucks), environment),
            )
            .fetchall()
        )


# --- good entries ----------------------------------------------------------------------------------------------


def test_a_fix_is_stored_as_it_came(client: Client, now: datetime) -> None:
    """The feed's body, every field."""
    assert outcome(post(client, fix(now))) == (1, [])

    (row,) = stored(client)
    assert row.vehicle_id == client.fleet.trucks[0]
    assert (row.latitude, row.longitude, row.recorded_at) == (41.1, -87.2, now)
    assert (row.speed_mph, row.fuel_percent, row.accuracy_meters) == (0, 62, 8)


@pytest.mark.parametrize(
    "reference",
    [
        {"unitNumber": "101"},
        {"vin": "1XKAD49X0CJ000101"},
        {"vehicleId": "{truck}"},
        {"unitNumber": "101", "vin": "1XKAD49X0CJ000101", "vehicleId": "{truck}"},
        {"unitNumber": "TMS-1"},
        {"unitNumber": None, "vin": None, "vehicleId": "{truck}"},
    ],
)
def test_every_kind_of_reference_finds_the_vehicle(client: Client, now: datetime, reference: dict[str, Any]) -> None:
    """The feed names a vehicle by unit number, VIN or id, through the same mappings."""
    truck = client.fleet.trucks[0]
    with client.service.database.transaction() as connection:
        connection.execute(
            "INSERT INTO mappings (company_id, kind, value, target_id) VALUES (%s, 'unit_number', 'TMS-1', %s)",
            (client.fleet.company_id, truck),
        )
    entry = fix(now) | {"unitNumber": None}
    entry |= {name: value.format(truck=shown_id("veh", truck)) if value else None for name, value in reference.items()}

    assert outcome(post(client, entry)) == (1, [])
    assert [row.vehicle_id for row in stored(client)] == [truck]


@pytest.mark.parametrize("name", ["speedMph", "fuelPercent", "accuracyMeters"])
@pytest.mark.parametrize("value", [None, 0, 0.5, ...])
def test_measurements_may_be_missing(client: Client, now: datetime, name: str, value: object) -> None:
    """The last three fields may be missing."""
    entry = fix(now, **{name: value})
    if value is ...:
        del entry[name]

    assert outcome(post(client, entry)) == (1, [])


def test_a_thousand_entries_are_taken(client: Client, now: datetime) -> None:
    """1 to 1,000 entries."""
    entries = [fix(now - timedelta(seconds=number)) for number in range(1000)]

    assert outcome(post(client, *entries)) == (1000, [])
    assert len(stored(client)) == 1000


@pytest.mark.parametrize(
    "drop",
    [{"accuracyMeters": 201}, {"recordedAt": (datetime.now(UTC) + timedelta(hours=1)).isoformat()}],
    ids=["inaccurate", "ahead"],
)
def test_a_useless_fix_is_accepted_and_dropped(client: Client, now: datetime, drop: dict[str, Any]) -> None:
    """A fix dropped by decision 11 is accepted and counted."""
    assert outcome(post(client, fix(now), fix(now) | drop)) == (2, [])

    assert len(stored(client)) == 1
    with client.service.database.transaction() as connection:
        rows = (
            named(connection)
            .execute("SELECT reason, count FROM dropped_fixes WHERE company_id = %s", (client.fleet.company_id,))
            .fetchall()
        )
    assert [row.count for row in rows] == [1]


def test_a_repeated_fix_is_accepted_and_stored_once(client: Client, now: datetime) -> None:
    """Decision 11: repeats (same vehicle and `recordedAt`) are dropped and counted, within a request and across."""
    assert outcome(post(client, fix(now), fix(now, latitude=50))) == (2, [])
    assert outcome(post(client, fix(now))) == (1, [])

    assert len(stored(client)) == 1


# --- bad entries -----------------------------------------------------------------------------------------------

BAD: list[tuple[str, dict[str, Any]]] = [
    ("latitude", {"latitude": 90.001}),
    ("latitude", {"latitude": "41"}),
    ("latitude", {"latitude": None}),
    ("longitude", {"longitude": -180.001}),
    ("longitude", {"longitude": True}),
    ("recordedAt", {"recordedAt": "2026-12-01T08:00:00"}),
    ("recordedAt", {"recordedAt": 1764576000}),
    ("recordedAt", {"recordedAt": None}),
    ("speedMph", {"speedMph": -1}),
    ("speedMph", {"speedMph": "55"}),
    ("fuelPercent", {"fuelPercent": -1}),
    ("fuelPercent", {"fuelPercent": "half"}),
    ("accuracyMeters", {"accuracyMeters": -1}),
    ("unitNumber", {"unitNumber": ""}),
    ("unitNumber", {"unitNumber": 101}),
    ("unitNumber", {"unitNumber": "x" * 201}),
    ("unitNumber", {"unitNumber": "1\0"}),
    ("unitNumber", {"unitNumber": None}),
    ("unitNumber", {"unitNumber": "999"}),
    ("999", {"unitNumber": "999"}),
    ("vin", {"vin": "short"}),
    ("vin", {"vin": "1XKAD49X0CJ999999"}),
    ("vehicleId", {"vehicleId": "veh_" + "0" * 32}),
    ("vehicleId", {"vehicleId": "\0"}),
    ("different", {"vin": "1XKAD49X0CJ000102"}),
]


@pytest.mark.parametrize(("named", "changes"), BAD)
def test_a_bad_entry_is_rejected_by_index_and_the_others_are_stored(
    client: Client, now: datetime, named: str, changes: dict[str, Any]
) -> None:
    """One bad entry never costs the others; an unknown vehicle is rejected; the message says what is wrong."""
    good = [fix(now - timedelta(minutes=minute)) for minute in range(3)]

    answer = post(client, good[0], good[1], fix(now) | changes, good[2])

    assert outcome(answer) == (3, [2])
    assert named in answer.json()["rejected"][0]["message"]
    assert len(stored(client)) == 3


@pytest.mark.parametrize("entry", [None, 5, "x", [], {}, True, {"unitNumber": "101"}])
def test_an_entry_that_is_no_fix_is_rejected(client: Client, now: datetime, entry: object) -> None:
    """One bad entry never costs the others, whatever it is."""
    assert outcome(post(client, entry, fix(now), entry)) == (1, [0, 2])


@pytest.mark.parametrize("raw", ["1e999", "-1e999", "1" * 400 + ".5"])
@pytest.mark.parametrize("field", ["latitude", "fuelPercent", "accuracyMeters", "unitNumber", "recordedAt"])
def test_a_number_of_any_size_rejects_only_its_own_entry(client: Client, now: datetime, field: str, raw: str) -> None:
    """One bad entry never costs the others."""
    good, bad = json.dumps(fix(now)), json.dumps(fix(now, **{field: "HERE"})).replace('"HERE"', raw)

    answer = client.post("/telematics/positions", content=f'{{"positions": [{bad}, {good}, {raw}, [{raw}]]}}'.encode())

    assert outcome(answer) == (1, [0, 2, 3])
    assert answer.json()["rejected"][0]["message"].startswith(f"{field}: ")
    assert len(stored(client)) == 1


def test_a_number_of_any_size_in_an_unknown_field_is_ignored(client: Client, now: datetime) -> None:
    """Decision 13: unknown fields are ignored."""
    entry = json.dumps(fix(now))[:-1] + ', "odometer": 1e999}'

    assert outcome(client.post("/telematics/positions", content=f'{{"positions": [{entry}]}}'.encode())) == (1, [])


def test_an_integer_of_thousands_of_digits_is_no_server_error(client: Client, now: datetime) -> None:
    """Python reads no more than 4,300 digits: then the body is a 400 as a whole."""
    content = f'{{"positions": [{json.dumps(fix(now))}, {{"latitude": {"1" * 5000}}}]}}'.encode()

    problem(client.post("/telematics/positions", content=content), 400, "validation_error")


def test_an_entry_whose_references_fit_two_vehicles_is_rejected(client: Client, now: datetime) -> None:
    """Decision 1, for the feed."""
    with client.service.database.transaction() as connection:
        connection.execute(
            "INSERT INTO vehicles (id, company_id, unit_number, vin) VALUES (%s, %s, '301', '1XKAD49X0CJ000101')",
            (new_id(), client.fleet.company_id),
        )

    answer = post(client, fix(now, unitNumber=None, vin="1XKAD49X0CJ000101"), fix(now, unitNumber="102"))

    assert outcome(answer) == (1, [0])
    assert "more than one" in answer.json()["rejected"][0]["message"]


@pytest.mark.parametrize("count", [0, 1001])
def test_the_number_of_entries_is_bounded(client: Client, now: datetime, count: int) -> None:
    """1 to 1,000 entries."""
    assert invalid_fields(post(client, *[fix(now)] * count)) == ["positions"]
    assert stored(client) == []


@pytest.mark.parametrize("body", [{}, {"positions": None}, {"positions": {}}, {"positions": "x"}])
def test_the_envelope_is_checked(client: Client, body: dict[str, Any]) -> None:
    """The body is an object with a list of positions."""
    assert invalid_fields(client.post("/telematics/positions", json=body)) == ["positions"]


# --- scopes ---------------------------------------------------------------------------------------------------


def test_the_feed_needs_its_own_scope(client: Client, clients: Clients, now: datetime) -> None:
    """The feed takes a key with the additional scope `positions:write`."""
    tms = clients.colleague(client, "routes:write", "routes:read", "vehicles:read", "drivers:read")

    document = problem(post(tms, fix(now)), 403, "insufficient_scope")

    assert "positions:write" in document["detail"]
    assert stored(client) == []


def test_the_environment_of_the_key_decides_which_routes_move(client: Client, clients: Clients, now: datetime) -> None:
    """Decision 9: a live position never moves a sandbox route, nor the other way round."""
    sandbox = clients.colleague(client, environment=Environment.SANDBOX)
    live_route = accepted(client.push(route_body(now)), 201)["id"]
    sandbox_route = accepted(sandbox.push(route_body(now)), 201)["id"]

    assert outcome(client.post_fixes(JOLIET)) == (3, [])

    arrived = client.wait_for(live_route, "planned", "active", "error")
    assert arrived["stops"][0]["actualArrival"] is not None
    assert sandbox.route(sandbox_route)["status"] == "draft"
    assert sandbox.route(sandbox_route)["stops"][0]["actualArrival"] is None
    assert len(stored(client)) == 3
    assert stored(client, "sandbox") == []


# --- extremes --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("start", ["0001-01-01T00:00:00Z", "0001-01-01T11:59:59Z"])
def test_a_route_that_starts_in_the_year_one_stops_no_other_truck(client: Client, now: datetime, start: str) -> None:
    """Any RFC 3339 start is accepted (scheduledStart), so that none may break the judging of positions."""
    accepted(client.push({**route_body(now), "scheduledStart": start}), 201)
    other = accepted(client.push(route_body(now, vehicle={"unitNumber": "102"}, stops=[JOLIET, NEWARK])), 201)["id"]
    fixes = [
        fix(now - timedelta(seconds=15 * number), unitNumber=unit, latitude=41.462, longitude=-88.125)
        for number in range(3)
        for unit in ("101", "102")
    ]

    assert outcome(post(client, *fixes)) == (6, [])

    client.wait_for(other, "planned", "active", "error")


@pytest.mark.parametrize("moment", ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"])
def test_fixes_from_the_ends_of_the_calendar_stop_no_other_truck(clients: Clients, now: datetime, moment: str) -> None:
    """Any RFC 3339 `recordedAt` is accepted; in the sandbox also one far ahead."""
    client = clients.tenant(Environment.SANDBOX)
    accepted(client.push(route_body(now)), 201)
    other = accepted(client.push(route_body(now, vehicle={"unitNumber": "102"})), 201)["id"]
    strange = [fix(now, recordedAt=moment), fix(now, recordedAt=moment, unitNumber="102", latitude=0)]
    fixes = [
        fix(now - timedelta(seconds=15 * number), unitNumber="102", latitude=41.462, longitude=-88.125)
        for number in range(3)
    ]

    assert outcome(post(client, *strange[:1], *fixes)) == (4, [])

    client.wait_for(other, "planned", "active", "error")
    assert outcome(post(client, *strange)) == (2, [])
