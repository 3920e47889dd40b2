"""Nothing that may say who a driver is, and nothing that the contract does not have, gets into the request log."""

import json
from copy import deepcopy
from typing import Any
from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.contract import shapes
from domain.contract.checking import Invalid, read_body
from domain.contract.shapes import Problem, RouteInput
from domain.encoding import write
from domain.ids import new_id
from domain.requests.log import Entry, text_of
from domain.requests.redaction import (
    MOST_BYTES,
    MOST_CHARACTERS,
    PERSONAL,
    external_id_in_body,
    external_id_in_query,
    redacted_body,
    redacted_query,
)
from tests.domain.requests.entries import entry_of

MARK = "Quartermain"
"""Stands in everything that must not be kept, and in nothing else."""

VALID: dict[str, Any] = {
    "externalId": "LOAD-1",
    "reference": "PO-1",
    "vehicle": {"unitNumber": "101", "vin": "1XKAD49X0CJ000001"},
    "driver": {"name": f"Zoë {MARK}", "externalId": f"EMP-{MARK}"},
    "scheduledStart": "2026-12-01T08:00:00-06:00",
    "stops": [
        {"name": "Joliet", "latitude": 41.462, "longitude": -88.125, "address": f"ask for {MARK}"},
        {"name": "Newark", "latitude": 40.695, "longitude": -74.155, "arrivalWindow": {"start": None}},
    ],
}

marked = st.text(max_size=8).map(lambda text: f"{text}{MARK}{text}")
whatever = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | marked,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(marked, inner, max_size=3),
    max_leaves=8,
)
not_a_text = st.lists(marked, min_size=1, max_size=3) | st.dictionaries(marked, whatever, min_size=1, max_size=3)
"""In the place of a text that is shown."""


@st.composite
def bodies(draw: st.DrawFn) -> bytes:
    """Pushes with personal values of any kind, fields that nobody knows, and objects where texts should be."""
    body = deepcopy(VALID)
    places: list[dict[str, Any]] = [body, body["vehicle"], body["driver"], *body["stops"]]
    for place in places:
        place |= draw(st.dictionaries(marked, whatever, max_size=2))
    body["driver"] |= draw(st.fixed_dictionaries({}, optional={"name": whatever, "externalId": whatever}))
    body["stops"][0]["address"] = draw(whatever)
    for name in draw(st.lists(st.sampled_from(sorted(VALID)), max_size=2)):
        body[name] = draw(not_a_text)
    if isinstance(body["stops"], list) and draw(st.booleans()):
        body["stops"] += draw(st.lists(not_a_text, max_size=2))
    text = json.dumps(body, ensure_ascii=draw(st.booleans()))
    return text[: draw(st.integers(0, len(text)) | st.just(len(text)))].encode(errors="surrogatepass")


def cells_of(entry: Entry, sampled: set[UUID] | None = None) -> list[str]:
    (row,) = text_of([entry], sampled if sampled is not None else set()).split("\x1e")
    return row.split("\x1f")


def problem_of(body: bytes) -> bytes:
    """The problem document that refuses the push."""
    try:
        read_body(body, RouteInput)
    except Invalid as invalid:
        return write(
            Problem(title="-", status=400, code="validation_error", detail="The body is bad", errors=invalid.faults)
        )
    return b""


@pytest.mark.slow
@given(bodies())
def test_no_personal_or_unknown_value_is_logged(body: bytes) -> None:
    problem = problem_of(body)
    cells = cells_of(entry_of(body, status=400 if problem else 201, problem=problem))
    assert len(cells) == 15
    assert MARK.lower() not in " ".join(cells).lower()


@given(st.binary(max_size=200) | whatever.map(lambda value: json.dumps(value).encode()))
def test_any_bytes_make_one_row_of_fifteen_cells(body: bytes) -> None:
    for path in ("/v1/routes", "/telematics/positions", "(none)"):
        assert len(cells_of(entry_of(body, path=path, status=400, problem=problem_of(body)))) == 15


def test_fields_of_the_contract_are_shown() -> None:
    shown = msgspec.json.decode(redacted_body("/v1/routes", write(VALID)) or "")
    wanted = deepcopy(VALID)
    wanted["driver"] = {"name": "*** a string", "externalId": "*** a string"}
    wanted["stops"][0]["address"] = "*** a string"
    assert shown == wanted


@pytest.mark.parametrize(
    ("given_body", "shown"),
    [
        ({"driver": "Zoë"}, {"driver": "*** a string"}),
        ({"driver": {"name": None, "phone": "555"}}, {"driver": {"name": None, "***": "1 other field"}}),
        ({"externalId": 7, "notes": "x", "x": 1}, {"externalId": 7, "***": "2 other fields"}),
        ({"externalId": {"a": 1}, "stops": "all"}, {"externalId": "*** an object", "stops": "*** a string"}),
        ({"stops": [{"latitude": "north"}, 5]}, {"stops": [{"latitude": "north"}, "*** a number"]}),
        ({"reference": "svc_live_abcdefghSECRET"}, {"reference": "svc_live_abcdefgh***"}),
        ({"reference": "a\x00b"}, {"reference": "a\ufffdb"}),
        ({"externalId": "x" * 500}, {"externalId": f"{'x' * 400}…"}),
    ],
)
def test_values_that_break_the_contract_are_masked(given_body: dict[str, Any], shown: dict[str, Any]) -> None:
    assert msgspec.json.decode(redacted_body("/v1/routes", write(given_body)) or "") == shown


def test_positions_are_shown_and_unknown_fields_beside_them_are_masked() -> None:
    body = {"positions": [{"unitNumber": "101", "latitude": 1.5, "driverName": MARK}], "sender": MARK}
    assert msgspec.json.decode(redacted_body("/telematics/positions", write(body)) or "") == {
        "positions": [{"unitNumber": "101", "latitude": 1.5, "***": "1 other field"}],
        "***": "1 other field",
    }


@pytest.mark.parametrize(
    ("path", "query", "shown"),
    [
        ("/v1/routes", b"status=draft&x=Zoe", '{"status":"draft","***":"1 other field"}'),
        ("/v1/drivers", b"name=Zoe&limit=5", '{"limit":"5","name":"*** a string"}'),
        ("/v1/vehicles", b"unitNumber=", '{"unitNumber":""}'),
        ("/v1/me", b"a=1", None),
        ("/v1/routes", b"\xff&" * 60, None),
    ],
)  # fmt: skip
def test_query_parameters_are_shown_or_masked_like_fields(path: str, query: bytes, shown: str | None) -> None:
    assert redacted_query(path, query) == shown


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"not JSON",
        b"\xff\xfe",
        b'{"externalId": "\xff"}',
        b'{"externalId": "\\ud800"}',
        b"[" * 50_000,
        b'{"a":' * 10_000,
        b'{"externalId": ' + b"9" * 5_000 + b"}",
        b'{"externalId": "' + b"x" * MOST_BYTES + b'"}',
    ],
)
def test_a_hostile_body_is_not_logged(body: bytes) -> None:
    assert redacted_body("/v1/routes", body) is None
    assert external_id_in_body(body) == "" or len(body) > MOST_BYTES
    assert len(cells_of(entry_of(body, status=400))) == 15


def test_a_long_body_is_cut() -> None:
    body = {**VALID, "stops": VALID["stops"] * 25}
    text = redacted_body("/v1/routes", write(body))
    assert text is not None
    assert len(text) == MOST_CHARACTERS


SENT = (
    *(shapes.RouteInput, shapes.VehicleRef, shapes.DriverRef, shapes.RouteStopInput, shapes.ArrivalWindow),
    *(shapes.PositionBatch, shapes.Position, shapes.RouteQuery, shapes.VehicleQuery, shapes.DriverQuery),
)


def test_every_text_field_of_the_contract_is_declared_personal_or_not() -> None:
    """A new field of the contract needs a decision here: may it say who a driver is?"""
    texts = {
        f"{shape.__name__}.{field.encode_name}"
        for shape in SENT
        for field in msgspec.structs.fields(shape)
        if field.encode_name not in PERSONAL.get(shape, ())
    }  # fmt: skip
    assert texts == {
        *(f"RouteInput.{name}" for name in ("externalId", "reference", "vehicle", "driver", "scheduledStart", "stops")),
        *("VehicleRef.unitNumber", "VehicleRef.vin", "ArrivalWindow.start", "ArrivalWindow.end"),
        *(f"RouteStopInput.{name}" for name in ("name", "latitude", "longitude", "arrivalWindow")),
        *(f"Position.{name}" for name in ("unitNumber", "vin", "vehicleId", "latitude", "longitude", "recordedAt")),
        *(f"Position.{name}" for name in ("speedMph", "fuelPercent", "accuracyMeters")),
        "PositionBatch.positions",
        *(f"{query}.{name}" for query in ("RouteQuery", "VehicleQuery", "DriverQuery") for name in ("limit", "offset")),
        *(f"RouteQuery.{name}" for name in ("status", "externalId", "vehicleId", "from", "to")),
        *("RouteQuery.updatedSince", "RouteQuery.cursor"),
        *("VehicleQuery.unitNumber", "VehicleQuery.vin"),
    }  # fmt: skip


def test_the_log_names_a_route_by_the_external_id_or_id_that_was_sent() -> None:
    assert external_id_in_body(write(VALID)) == "LOAD-1"
    assert external_id_in_body(b'{"externalId": 5}') == ""
    assert external_id_in_query(b"limit=1&externalId=LOAD%2F1") == "LOAD/1"
    assert external_id_in_query(b"x_externalId=1") == ""
    route_id = f"rte_{new_id().hex}"
    assert cells_of(entry_of(path="/v1/routes/{id}", path_id=route_id))[11] == route_id
    assert cells_of(entry_of(path="/v1/routes/{id}", path_id=f"rte_{MARK}"))[11] == ""
    assert cells_of(entry_of(write({**VALID, "externalId": "a\tb\\c\nd"})))[11] == "a\tb\\c\nd"
    assert cells_of(entry_of(write({**VALID, "externalId": "svc_live_abcdefghSECRET"})))[11] == ""


def test_one_request_that_succeeded_is_logged_with_its_body() -> None:
    sampled: set[UUID] = set()
    entry = entry_of(write(VALID))
    assert cells_of(entry, sampled)[13].startswith('{"externalId":"LOAD-1"')
    assert cells_of(entry, sampled)[13] == ""
    entry.status = 409
    assert cells_of(entry, sampled)[13].startswith('{"externalId":"LOAD-1"')
