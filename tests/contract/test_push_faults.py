"""A push with faults is refused, and the answer lists every fault."""

from datetime import datetime

import pytest

from tests.contract.bodies import MISSING, changed, full_body, json_path, many_stops
from tests.contract.checks import count_routes, invalid_fields
from tests.factories import JOLIET, route_body
from tests.service import Client

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


def test_too_many_stops_do_not_hide_the_faults_inside_them(client: Client, now: datetime) -> None:
    """validation_error: the list's own fault and those of its entries, together."""
    stops = [*many_stops(3), {"name": "x", "latitude": 91, "longitude": 0}, *many_stops(47)]

    assert invalid_fields(client.push(route_body(now, stops=stops))) == ["stops", "stops[3].latitude"]


def test_an_empty_object_lists_every_required_field(client: Client) -> None:
    """Validation rule 1: externalId, vehicle, driver, scheduledStart and stops are required."""
    assert invalid_fields(client.push({})) == ["driver", "externalId", "scheduledStart", "stops", "vehicle"]
