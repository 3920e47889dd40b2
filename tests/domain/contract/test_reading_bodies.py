"""Bodies are read in C, and those with a fault are walked field by field: the two never disagree (decision 13)."""

import gzip
import json
import re
from contextlib import suppress
from datetime import UTC, datetime
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from domain.contract.checking import Invalid, find_faults, read_body, read_query, read_value
from domain.contract.shapes import (
    ArrivalWindow,
    DriverRef,
    Position,
    PositionBatch,
    RouteInput,
    RouteQuery,
    RouteStopInput,
    VehicleRef,
    moment_of,
)
from domain.stations.stations import StationRow
from tests.factories import JOLIET, NEWARK, route_body
from tests.repeatable import examples

START = datetime(2026, 3, 1, 14, tzinfo=UTC)
WINDOW = {"start": "2026-03-01T08:00:00Z", "end": "2026-03-01T09:00:00-06:00"}
BODY = route_body(
    START,
    externalId="LOAD-1",
    reference="PO-1",
    vehicle={"unitNumber": "101", "vin": "1XKAD49X0CJ000101"},
    driver={"name": "Ann Lee", "externalId": "D-1"},
    stops=[{**JOLIET, "address": "Dock 4", "arrivalWindow": WINDOW}, {**NEWARK, "arrivalWindow": {}}],
    other={"ignored": "x"},
)

escapes, seeds = st.sampled_from([0, 0.03, 0.3]), st.integers(0, 9)
dates = st.sampled_from(
    ["2026-03-01", "2024-02-29", "2026-02-29", "0000-01-01", "0001-01-01", "9999-12-31", "2026-3-1"]
)
hours = st.sampled_from(["08:00:00", "00:00:00", "23:59:59", "23:59:60", "24:00:00", "08:60:00", "08:00"])
fractions = st.sampled_from(["", "", "", ".5", ".", ",5", ".999999", ".9999999", ".00000049", "." + "1" * 40])
rfc_3339 = ["Z", "z", "+00:00", "-00:00", "-06:00", "+14:00", "-12:00", "+23:59"]
loose = ["+0000", "-0600", "+0530", "+24:00", "+06:60", "+06", "", " Z", "\0", "Z\0", "-06:00\n", "-0600x", "−06:00"]
offsets = st.sampled_from(rfc_3339 + loose)
times = st.builds("".join, st.tuples(dates, st.sampled_from(["T", "t", " ", "_"]), hours, fractions, offsets))
lengths = st.sampled_from([0, 1, 17, 200, 201, 400, 401]).flatmap(
    lambda length: st.sampled_from(["x", "😀"]).map(lambda c: c * length)
)
nuls = st.sampled_from(["a\0", "\0", "\\u0000", "1XKAD49X0CJ000\0"])
texts = lengths | nuls | st.text(st.characters(exclude_categories=["Cs"]))
numbers = st.sampled_from([0, -0.0, 90, 90.0000001, -180, 180.1, 1e300, 10**30, 1e-320]) | st.floats(-200, 200)
values = times | texts | numbers | st.sampled_from([None, True, [], {}, [None], {"start": None}])
PATHS: list[tuple[str | int, ...]] = [
    ("externalId",),
    ("reference",),
    ("vehicle",),
    ("vehicle", "unitNumber"),
    ("vehicle", "vin"),
    ("driver", "name"),
    ("driver", "externalId"),
    ("scheduledStart",),
    ("stops",),
    ("stops", 0, "name"),
    ("stops", 0, "address"),
    ("stops", 1, "latitude"),
    ("stops", 1, "longitude"),
    ("stops", 1, "arrivalWindow"),
    ("stops", 0, "arrivalWindow", "start"),
    ("stops", 1, "arrivalWindow", "end"),
    ("other",),
]
TIMES = [path for path in PATHS if path[-1] in ("scheduledStart", "start", "end")]
changes = st.lists(
    st.tuples(st.sampled_from(TIMES), times) | st.tuples(st.sampled_from(PATHS), values), min_size=1, max_size=3
)


def changed(changes: list[tuple[tuple[Any, ...], Any]]) -> dict[str, Any]:
    """A copy of `BODY`. A change that an earlier one left no place for is left out."""
    body: dict[str, Any] = json.loads(json.dumps(BODY))
    for (*way, last), value in changes:
        holder: Any = body
        with suppress(LookupError, TypeError):
            for step in way:
                holder = holder[step]
            holder[last] = value
    return body


def escaped(value: Any, often: float, random: Random) -> str:
    """`value` as JSON in which characters are escaped as often as that; 1 means each."""
    if isinstance(value, dict):
        members = (f"{escaped(name, often, random)}: {escaped(inner, often, random)}" for name, inner in value.items())
        return f"{{{', '.join(members)}}}"
    if isinstance(value, list):
        return f"[{','.join(escaped(inner, often, random) for inner in value)}]"
    if not isinstance(value, str):
        return json.dumps(value)
    written = []
    for character in value:
        if ord(character) < 0x20 or character in '"\\' or (ord(character) < 0x10000 and random.random() < often):
            written.append(random.choice([f"\\u{ord(character):04x}", f"\\u{ord(character):04X}"]))
        else:
            written.append(character)
    return f'"{"".join(written)}"'


def carefully_read(document: dict[str, Any]) -> RouteInput:
    """A body without faults, read without msgspec."""

    def moment(text: str | None) -> datetime | None:
        return moment_of(text) if text is not None else None

    def window(given: dict[str, Any] | None) -> ArrivalWindow | None:
        return ArrivalWindow(moment(given.get("start")), moment(given.get("end"))) if given is not None else None

    return RouteInput(
        document["externalId"],
        VehicleRef(document["vehicle"].get("unitNumber"), document["vehicle"].get("vin")),
        DriverRef(document["driver"].get("name"), document["driver"].get("externalId")),
        moment_of(document["scheduledStart"]),
        [
            RouteStopInput(
                stop["name"],
                stop["latitude"],
                stop["longitude"],
                stop.get("address"),
                window(stop.get("arrivalWindow")),
            )
            for stop in document["stops"]
        ],
        document.get("reference"),
    )


@pytest.mark.slow
@hypothesis_settings(deadline=None, max_examples=examples(200))
@given(changes, escapes, seeds)
@example([(("scheduledStart",), "2026-03-01T08:00:00+0600")], 0, 0)
@example([(("stops", 0, "arrivalWindow", "end"), "0001-01-01T00:00:00+14:00")], 0, 0)
@example([(("stops", 1, "name"), "2026-03-01T08:00:00+0600")], 0, 0)
@example([(("stops", 1, "name"), "a\0")], 0, 0)
@example([(("other",), "a\0")], 0, 0)
def test_a_body_is_read_exactly_when_it_has_no_fault(
    changes: list[tuple[tuple[Any, ...], Any]], often: float, seed: int
) -> None:
    document = changed(changes)
    body = escaped(document, often, Random(seed)).encode()
    faults = list(find_faults(document, RouteInput))

    if faults:
        with pytest.raises(Invalid) as refusal:
            read_body(body, RouteInput)
        assert refusal.value.faults == faults
    else:
        read = read_body(body, RouteInput)
        assert read == carefully_read(document)
        assert read.scheduled_start.tzinfo is UTC


@pytest.mark.slow
@hypothesis_settings(deadline=None, max_examples=examples(200))
@given(times, escapes, seeds)
@example("2026-03-01T08:00:00.5-0600", 0, 0)
@example("9999-12-31T23:59:59-00:01", 0, 0)
def test_a_time_is_accepted_everywhere_or_nowhere(time: str, often: float, seed: int) -> None:
    try:
        moment: datetime | None = moment_of(time)
    except ValueError:
        moment = None
    position = {"unitNumber": "101", "latitude": 41.0, "longitude": -87.0, "recordedAt": time}
    station = {"station_id": "S", "name": "S", "latitude": "41", "longitude": "-87", "priced_at": time}
    body = escaped(changed([(path, time) for path in TIMES]), often, Random(seed)).encode()

    assert taken(lambda: read_body(body, RouteInput).scheduled_start) == moment
    assert taken(lambda: read_value(position, Position).recorded_at) == moment
    assert taken(lambda: read_query({"from": time}, RouteQuery).start_from) == moment
    assert taken(lambda: read_query({"to": time}, RouteQuery).start_to) == moment
    assert taken(lambda: read_query(station, StationRow).priced_at) == moment


@pytest.mark.parametrize("time", ["2026-03-01T08:00:00.5+0600", "2026-03-01T08:00:00-0600"])
@pytest.mark.parametrize("code", ["{:04x}", "{:04X}"])
def test_an_offset_without_a_colon_is_refused_whichever_character_is_escaped(time: str, code: str) -> None:
    for position, character in enumerate(time):
        written = f"{time[:position]}\\u{code.format(ord(character))}{time[position + 1 :]}"
        body = json.dumps(changed([(("scheduledStart",), "@")])).replace("@", written).encode()

        with pytest.raises(Invalid) as refusal:
            read_body(body, RouteInput)
        assert [fault.field for fault in refusal.value.faults] == ["scheduledStart"]


def taken(read: Any) -> datetime | None:
    """The moment that was read; None if it was refused."""
    try:
        moment: datetime = read()
    except Invalid:
        return None
    return moment


@pytest.mark.parametrize("path", [path for path in PATHS if path[-1] in ("externalId", "reference", "name", "address")])
@pytest.mark.parametrize("nul", [b"\\u0000", b'\\u0000\\"', b"\\\\\\u0000", b"\\u0000 \\u0000"])
def test_nul_is_refused_in_every_text_and_named(path: tuple[Any, ...], nul: bytes) -> None:
    body = json.dumps(changed([(path, "a@")])).encode().replace(b"a@", nul)

    with pytest.raises(Invalid) as refusal:
        read_body(body, RouteInput)

    (fault,) = refusal.value.faults
    assert fault.field == "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).lstrip(".")
    assert fault.message == "Expected a text without NUL"


@pytest.mark.parametrize(
    "text", ["\\u0000", "08:00:00-0600", 'O"Hare', "O'Hare & Sons", "C:\\30\\u0030", "+\u00e9", "12:00:00.5+0000"]
)
def test_text_that_only_resembles_a_fault_is_accepted(text: str) -> None:
    for written in json.dumps(text), escaped(text, 1, Random(0)):
        body = json.dumps(changed([(("stops", 0, "name"), "@")])).replace('"@"', written).encode()

        assert read_body(body, RouteInput).stops[0].name == text


def test_a_name_given_twice_needs_two_valid_values_and_the_last_one_counts() -> None:
    body = json.dumps(BODY).encode()[:-1]

    assert read_body(body + b', "reference": "PO-2"}', RouteInput).reference == "PO-2"
    for more in b'"reference": 5, "reference": "PO-2"', b'"scheduledStart": "soon", "scheduledStart": "%b"' % b"Z":
        with pytest.raises(Invalid):
            read_body(body + b", " + more + b"}", RouteInput)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("stops", 1, "latitude"), "41", "Expected a number, got a text"),
        (("stops", 1, "latitude"), True, "Expected a number, got a boolean"),
        (("stops", 1, "latitude"), 90.5, "Expected a number <= 90.0"),
        (("stops",), [], "Expected at least 2 entries"),
        (("stops",), {}, "Expected an array, got an object"),
        (("externalId",), 5, "Expected a text, got a whole number"),
        (("externalId",), None, "Expected a text, got null"),
        (("externalId",), "", "Expected a text of at least 1 character"),
        (("reference",), 1.5, "Expected a text, got a number"),
        (("reference",), "x" * 201, "Expected a text of at most 200 characters"),
        (("vehicle",), "101", "Expected an object, got a string"),
    ],
)
def test_a_fault_is_told_in_words_of_json_not_of_python(
    path: tuple[str | int, ...], value: object, message: str
) -> None:
    with pytest.raises(Invalid) as refusal:
        read_body(json.dumps(changed([(path, value)])).encode(), RouteInput)

    assert [fault.message for fault in refusal.value.faults] == [message]


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"limit": "many"}, "Expected a whole number"),
        ({"limit": "101"}, "Expected a whole number <= 100"),
        ({"from": "2026-03-01T08:00:00 06:00"}, r".* RFC 3339 .*; write its `\+` as `%2B` in an address"),
        ({"status": "`int`"}, "Expected one of `pending`, `pending_mapping`, .*, `canceled`"),
    ],
)
def test_a_fault_of_a_query_says_what_the_parameter_may_be(parameters: dict[str, str], message: str) -> None:
    with pytest.raises(Invalid) as refusal:
        read_query(parameters, RouteQuery)

    (fault,) = refusal.value.faults
    assert re.fullmatch(message, fault.message), fault.message


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "The body is empty"),
        (b" \n", "The body is empty"),
        (b"\xef\xbb\xbf{}", "The body begins with a byte order mark; send UTF-8 without it"),
        (gzip.compress(b"{}"), "The body is not UTF-8 text; send it uncompressed"),
    ],
)
def test_a_body_that_cannot_be_read_is_told_with_its_cure(body: bytes, message: str) -> None:
    with pytest.raises(Invalid, match=f"^{message}$"):
        read_body(body, RouteInput)


def test_a_number_of_any_size_hides_no_fault_and_is_accepted_where_it_is_ignored() -> None:
    def written(**changes: Any) -> bytes:
        return json.dumps({**BODY, **changes}).encode().replace(b'"@"', b"1e999")

    assert read_body(written(other="@"), RouteInput) == read_body(written(), RouteInput)
    assert read_body(written(other="@", reference="08:00:00-0600"), RouteInput).reference == "08:00:00-0600"
    with pytest.raises(Invalid) as refusal:
        read_body(written(other="@", reference=5, externalId=""), RouteInput)
    assert {fault.field for fault in refusal.value.faults} == {"reference", "externalId"}


def test_a_number_of_any_size_in_an_entry_is_a_fault_of_that_entry() -> None:
    entry = {"unitNumber": "101", "latitude": 41, "longitude": -88, "recordedAt": "2026-12-01T08:00:00Z"}
    body = json.dumps({"positions": [{**entry, "fuelPercent": "@"}, {**entry, "x": "@"}]}).encode()

    bad, good = read_body(body.replace(b'"@"', b"1e999"), PositionBatch).positions

    assert read_value(good, Position) == read_value(entry, Position)
    with pytest.raises(Invalid, match="fuelPercent: Number out of range"):
        read_value(bad, Position)


def test_the_tables_get_the_pushed_values() -> None:
    """`content.py` takes the columns from it."""
    read = read_body(json.dumps(BODY).encode(), RouteInput)

    written = msgspec.json.decode(msgspec.json.encode(read))

    expected = {name: value for name, value in BODY.items() if name != "other"}
    expected["scheduledStart"] = "2026-03-01T14:00:00Z"
    first = {**BODY["stops"][0], "arrivalWindow": {"start": "2026-03-01T08:00:00Z", "end": "2026-03-01T15:00:00Z"}}
    assert written == {**expected, "stops": [first, BODY["stops"][1]]}
