"""The shapes of the public API take what the contract allows, refuse the rest, and name every fault."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from domain.contract.checking import Invalid, read_body, read_query
from domain.contract.shapes import PUSHED_FIELDS, Paging, Position, RouteInput, RouteQuery, VehicleQuery
from tests.factories import JOLIET, NEWARK, route_body
from tests.repeatable import examples

START = datetime(2026, 3, 1, 14, tzinfo=UTC)


def faults(body: object) -> dict[str, str]:
    """Field -> message, of a refused body."""
    with pytest.raises(Invalid) as refusal:
        read_body(body if isinstance(body, bytes) else json.dumps(body).encode(), RouteInput)
    return {fault.field: fault.message for fault in refusal.value.faults}


def without(name: str) -> dict[str, Any]:
    return {field: value for field, value in route_body(START).items() if field != name}


# --- Route bodies ----------------------------------------------------------------------------------------------


def test_a_valid_body_is_read_as_it_was_written() -> None:
    body = route_body(START, reference="PO 1", driver={"externalId": "D-1"})
    body["stops"][0] = {**JOLIET, "address": "Dock 4", "arrivalWindow": {"start": "2026-03-01T08:00:00-06:00"}}

    route = read_body(json.dumps(body).encode(), RouteInput)

    assert (route.external_id, route.reference) == (body["externalId"], "PO 1")
    assert (route.vehicle.unit_number, route.vehicle.vin) == ("101", None)
    assert (route.driver.name, route.driver.external_id) == (None, "D-1")
    assert route.scheduled_start == START
    assert route.stops[0].arrival_window is not None
    assert route.stops[0].arrival_window.start == START
    assert route.stops[0].arrival_window.end is None


def test_every_fault_is_listed_with_its_path() -> None:
    body = {
        "externalId": "",
        "reference": "r" * 201,
        "vehicle": {"vin": "short"},
        "driver": {},
        "scheduledStart": "2026-03-01T08:00:00",
        "stops": [
            {"name": "n" * 201, "latitude": 90.1, "longitude": -180.1, "address": "a" * 401},
            {"latitude": "1", "longitude": None, "arrivalWindow": {"start": 5, "end": "soon"}},
        ],
    }

    assert set(faults(body)) == {
        "externalId",
        "reference",
        "vehicle.vin",
        "driver",
        "scheduledStart",
        "stops[0].name",
        "stops[0].latitude",
        "stops[0].longitude",
        "stops[0].address",
        "stops[1].name",
        "stops[1].latitude",
        "stops[1].longitude",
        "stops[1].arrivalWindow.start",
        "stops[1].arrivalWindow.end",
    }


@pytest.mark.parametrize("name", ["externalId", "vehicle", "driver", "scheduledStart", "stops"])
def test_a_missing_field_is_named(name: str) -> None:
    assert faults(without(name)) == {name: "Required"}
    assert set(faults({**route_body(START), name: None})) == {name}


@pytest.mark.parametrize(("count", "good"), [(0, False), (1, False), (2, True), (50, True), (51, False)])
def test_a_route_has_two_to_fifty_stops(count: int, good: bool) -> None:
    body = route_body(START, stops=[NEWARK] * count)

    if good:
        assert len(read_body(json.dumps(body).encode(), RouteInput).stops) == count
    else:
        assert set(faults(body)) == {"stops"}


def test_a_wrong_number_of_stops_does_not_hide_the_faults_inside() -> None:
    assert set(faults(route_body(START, stops=[{**NEWARK, "latitude": 91}]))) == {"stops", "stops[0].latitude"}


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"externalId": 4711}, "externalId"),
        ({"externalId": True}, "externalId"),
        ({"externalId": "x" * 201}, "externalId"),
        ({"externalId": "a\x00b"}, "externalId"),
        ({"reference": ["x"]}, "reference"),
        ({"reference": "a\x00b"}, "reference"),
        ({"vehicle": {}}, "vehicle"),
        ({"vehicle": {"unitNumber": None, "vin": None}}, "vehicle"),
        ({"vehicle": "101"}, "vehicle"),
        ({"vehicle": {"unitNumber": ""}}, "vehicle.unitNumber"),
        ({"vehicle": {"unitNumber": 101}}, "vehicle.unitNumber"),
        ({"vehicle": {"unitNumber": "u" * 201}}, "vehicle.unitNumber"),
        ({"vehicle": {"vin": "1XKAD49X0CJ00000"}}, "vehicle.vin"),
        ({"vehicle": {"vin": "1XKAD49X0CJ0000001"}}, "vehicle.vin"),
        ({"vehicle": {"unitNumber": "101", "vin": ""}}, "vehicle.vin"),
        ({"driver": {"name": ""}}, "driver.name"),
        ({"driver": {"externalId": "e" * 201}}, "driver.externalId"),
        ({"scheduledStart": 1772366400}, "scheduledStart"),
        ({"scheduledStart": "tomorrow"}, "scheduledStart"),
        ({"stops": {}}, "stops"),
        ({"stops": [NEWARK, None]}, "stops[1]"),
        ({"stops": [NEWARK, {**NEWARK, "name": ""}]}, "stops[1].name"),
        ({"stops": [NEWARK, {**NEWARK, "latitude": True}]}, "stops[1].latitude"),
        ({"stops": [NEWARK, {**NEWARK, "latitude": "40"}]}, "stops[1].latitude"),
        ({"stops": [NEWARK, {**NEWARK, "longitude": 180.0001}]}, "stops[1].longitude"),
        ({"stops": [NEWARK, {**NEWARK, "address": "a\x00"}]}, "stops[1].address"),
        ({"stops": [NEWARK, {**NEWARK, "arrivalWindow": "noon"}]}, "stops[1].arrivalWindow"),
    ],
)
def test_a_field_that_breaks_a_rule_is_refused_and_named(changes: dict[str, Any], field: str) -> None:
    found = faults(route_body(START, **changes))

    assert set(found) == {field}
    assert found[field]


@pytest.mark.parametrize(
    "changes",
    [
        {"externalId": "x" * 200},
        {"externalId": "😀" * 200},
        {"externalId": " "},
        {"reference": None},
        {"reference": ""},
        {"reference": "r" * 200},
        {"vehicle": {"unitNumber": None, "vin": "1XKAD49X0CJ000101"}},
        {"driver": {"name": "Ann Lee", "externalId": None}},
        {"stops": [{**NEWARK, "latitude": 90, "longitude": -180}, {**NEWARK, "latitude": -90, "longitude": 180}]},
        {"stops": [{**NEWARK, "name": "n" * 200, "address": "a" * 400}, {**NEWARK, "address": None}]},
        {"stops": [{**NEWARK, "arrivalWindow": None}, {**NEWARK, "arrivalWindow": {}}]},
        {"stops": [NEWARK, {**NEWARK, "arrivalWindow": {"start": None, "end": "2020-01-01T00:00:00Z"}}]},
        {"unknown": {"fields": ["are", "ignored", "\x00"]}},
    ],
)
def test_values_that_the_contract_allows_are_accepted(changes: dict[str, Any]) -> None:
    body = route_body(START, **changes)

    route = read_body(json.dumps(body).encode(), RouteInput)

    assert (route.external_id, route.reference) == (body["externalId"], body.get("reference"))
    assert (route.vehicle.unit_number, route.driver.name) == (body["vehicle"]["unitNumber"], body["driver"]["name"])
    assert [(stop.name, stop.address) for stop in route.stops] == [
        (stop["name"], stop.get("address")) for stop in body["stops"]
    ]


# --- Bodies that are hardly JSON -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"not json",
        b"\xff\xfe",
        b'{"externalId": NaN}',
        b'{"externalId": Infinity}',
        b'{"x": "\\ud800"}',
        b'{"x": "\\u0000\xff"}',
        b"[]",
        b"null",
        b"4",
    ],
)
def test_an_unreadable_body_is_refused_with_an_empty_field(body: bytes) -> None:
    assert set(faults(body)) == {""}


@pytest.mark.parametrize(
    ("text", "half"),
    [
        (r"\ud800", r"\ud800"),
        (r"\uD83D smile", r"\uD83D"),
        (r"\ud83d\u0041", r"\ud83d"),
        (r"\ud83d\ud83d\ude00", r"\ud83d"),
        (r"\ud83d\ude00\ude00", r"\ude00"),
        (r"\\\ud800", r"\ud800"),
    ],
)
@pytest.mark.parametrize("field", ["externalId", "x"])
def test_half_of_a_surrogate_pair_is_named(field: str, text: str, half: str) -> None:
    told = f"The body is not JSON: {half} is half of a surrogate pair; send both halves, or the character"
    assert faults(f'{{"{field}": "{text}"}}'.encode()) == {"": told}


@pytest.mark.parametrize("text", [r"\ud83d\ude00", r"\\ud800"])
def test_a_whole_surrogate_pair_and_its_spelling_as_text_are_no_fault_of_a_body_that_is_cut_off(text: str) -> None:
    assert faults(f'{{"x": "{text}"'.encode()) == {"": "The body is not JSON: Input data was truncated"}


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b'{"externalId": 5, "x": "\\ud800"}', id="a lone surrogate after the fault"),
        pytest.param(b'{"externalId": 5,', id="cut off after the fault"),
        pytest.param(b'{"externalId": 5} trailing', id="trailing text after the fault"),
        pytest.param(b'{"externalId": 5, "x": ' + b"[" * 5000 + b"]" * 5000 + b"}", id="deep nesting after the fault"),
        pytest.param(b"{} {}", id="two bodies"),
        pytest.param(b"[" * 100_000, id="an array instead of an object, nested deeply"),
        pytest.param(b'{"externalId": 5, "x": 1e999}', id="a number out of range after the fault"),
        pytest.param(
            json.dumps(route_body(START)).encode().replace(b'"reference"', b'"x"')[:-1]
            + b', "reference": 5, "reference": "x"}',
            id="a name twice, first wrong and then right",
        ),
    ],
)
def test_a_body_with_a_fault_before_unreadable_text_is_refused(body: bytes) -> None:
    assert faults(body)


def test_a_number_out_of_range_is_refused() -> None:
    body = json.dumps(route_body(START)).encode().replace(b"41.462", b"1e400")

    assert faults(body)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
paths = st.sampled_from(
    [
        ("externalId",),
        ("reference",),
        ("vehicle",),
        ("vehicle", "vin"),
        ("driver",),
        ("driver", "name"),
        ("scheduledStart",),
        ("stops",),
        ("stops", 1),
        ("stops", 0, "latitude"),
        ("stops", 1, "arrivalWindow"),
        ("stops", 1, "name"),
    ]
)


@pytest.mark.slow
@hypothesis_settings(deadline=None, max_examples=examples(150))
@given(st.lists(st.tuples(paths, json_values), min_size=1, max_size=4))
def test_a_body_is_read_or_refused_with_at_least_one_fault(changes: list[tuple[tuple[Any, ...], Any]]) -> None:
    body: Any = json.loads(json.dumps(route_body(START)))
    for path, value in changes:
        holder = body
        for step in path[:-1]:
            try:
                holder = holder[step]
            except (KeyError, IndexError, TypeError):
                break
        if isinstance(holder, dict) or (
            isinstance(holder, list) and isinstance(path[-1], int) and path[-1] < len(holder)
        ):
            holder[path[-1]] = value

    refused = None
    try:
        read_body(json.dumps(body).encode(), RouteInput)
    except Invalid as refusal:
        refused = refusal

    if refused is not None:
        assert refused.faults
        assert len({fault.field for fault in refused.faults}) == len(refused.faults)


# --- Positions and queries -------------------------------------------------------------------------------------


def position(**changes: Any) -> bytes:
    fix = {"unitNumber": "101", "latitude": 41.1, "longitude": -87.2, "recordedAt": "2026-03-01T08:00:00Z"}
    return json.dumps({**fix, **changes}).encode()


@pytest.mark.parametrize(
    "changes",
    [
        {"unitNumber": None},
        {"latitude": None},
        {"latitude": -91},
        {"recordedAt": "2026-03-01T08:00:00"},
        {"speedMph": -1},
        {"speedMph": 1001},
        {"fuelPercent": -0.1},
        {"accuracyMeters": -1},
        {"accuracyMeters": "8"},
        {"unitNumber": "a\x00"},
    ],
)
def test_a_position_that_breaks_a_rule_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(Invalid):
        read_body(position(**changes), Position)


def test_the_measurements_of_a_position_may_be_missing_or_null() -> None:
    read = read_body(position(speedMph=None), Position)

    assert (read.speed_mph, read.fuel_percent, read.accuracy_meters) == (None, None, None)


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"limit": "0"}, "limit"),
        ({"limit": "101"}, "limit"),
        ({"limit": "many"}, "limit"),
        ({"limit": ""}, "limit"),
        ({"limit": "2.5"}, "limit"),
        ({"offset": "-1"}, "offset"),
        ({"status": "finished"}, "status"),
        ({"from": "yesterday"}, "from"),
        ({"to": "2026-03-01T08:00:00"}, "to"),
        ({"externalId": "a\x00"}, "externalId"),
        *(({name: "a\udcff"}, name) for name in ("limit", "status", "from", "externalId", "cursor")),
    ],
)
def test_a_query_parameter_that_is_out_of_bounds_or_unreadable_is_named(query: dict[str, str], field: str) -> None:
    with pytest.raises(Invalid) as refusal:
        read_query(query, RouteQuery)

    assert [fault.field for fault in refusal.value.faults] == [field]


def test_query_parameters_have_their_defaults_and_unknown_ones_are_ignored() -> None:
    assert read_query({"sort": "name"}, Paging) == Paging(limit=25, offset=0)
    assert read_query({"limit": "100", "offset": "7"}, Paging) == Paging(limit=100, offset=7)


def test_a_vin_in_a_query_has_17_characters() -> None:
    with pytest.raises(Invalid):
        read_query({"vin": "1XK"}, VehicleQuery)


def paths_in(shape: type[msgspec.Struct], before: str = "") -> Iterator[str]:
    for field in msgspec.structs.fields(shape):
        if isinstance(field.type, type) and issubclass(field.type, msgspec.Struct):
            yield from paths_in(field.type, f"{before}{field.encode_name}.")
        else:
            yield before + field.encode_name


def test_every_value_of_a_pushed_route_has_a_column_and_a_name_in_files() -> None:
    assert {field.path for field in PUSHED_FIELDS} == set(paths_in(RouteInput)) - {"stops"}
