"""The part `feed`: positions as no truck sends them. A bad one never costs the good one beside it."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from hypothesis import strategies as st

from domain.contract.shapes import MAX_POSITIONS
from tests.factories import JOLIET, NEWARK, route_body
from tests.fuzz.clients import Keys
from tests.fuzz.engine import Fault, Part

GOOD = "good"
"""It stands in the list of positions where the good one is to be."""

_NOW = datetime.now(UTC).replace(microsecond=0)
numbers = (
    st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from([0, -0.0, 90, -90, 90.0000001, 180, -180, 1e308, 5e-324, 2**63, -(2**63), 10**30, 10**400,
        1e-400, 1000, 1001])
)  # fmt: skip
moments = st.sampled_from([
    *(((_NOW + timedelta(seconds=seconds)).isoformat()) for seconds in (-10**7, -86_400 * 40, -3600, -60, 0, 60, 301,
    10**7)),
    "0001-01-01T00:00:00+14:00", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999-14:00", "9999-12-31T23:59:59Z",
    "1970-01-01T00:00:00Z",
    "2026-02-29T00:00:00Z", "2026-11-23T24:00:00Z", "2026-11-23T10:00:60Z", "2016-12-31T23:59:60Z",
    "2026-11-23T10:00:00+23:59",
    "2026-11-23T10:00:00.123456789Z", "2026-11-23 10:00:00Z", "2026-11-23T10:00:00", "20261123T100000Z",
    "+002026-11-23T10:00:00Z",
    "2026-W48-1T10:00:00Z", "２０２６-11-23T10:00:00Z", "2026-11-23T10:00:00+0600", "",
]) | st.datetimes(timezones=st.none() | st.just(UTC)).map(datetime.isoformat)  # fmt: skip
texts = st.text(max_size=12) | st.sampled_from(["101", "102", "", "\0", "x" * 201, "1XKAD49X0CJ000101",
    "\u202e", "é", "e\u0301", "veh_", " 101", "1e5", "-"])  # fmt: skip
scalars = st.none() | st.booleans() | numbers | texts
documents = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
_FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "unitNumber": texts,
    "vin": texts,
    "vehicleId": texts,
    "latitude": numbers,
    "longitude": numbers,
    "recordedAt": moments,
    "speedMph": numbers,
    "fuelPercent": numbers,
    "accuracyMeters": numbers,
}


class Batch(NamedTuple):
    """The positions of a request, and how its text is damaged: what comes in, where, and how much goes out."""

    positions: list[Any]
    splice: bytes = b""
    at: float = 0
    skip: int = 0


@st.composite
def positions(draw: st.DrawFn) -> Any:
    """One position: a good one after some changes, or anything."""
    if draw(st.integers(0, 9)) == 0:
        return draw(documents)
    position: dict[str, Any] = {
        "unitNumber": draw(st.sampled_from(["101", "102", "TMS-1"])),
        "latitude": draw(st.sampled_from([JOLIET["latitude"], 41.1, 0, NEWARK["latitude"]])),
        "longitude": draw(st.sampled_from([JOLIET["longitude"], -87.2, 0, NEWARK["longitude"]])),
        "recordedAt": (_NOW + timedelta(seconds=draw(st.integers(-3600, 300)))).isoformat(),
        "speedMph": draw(st.sampled_from([0, 3, 60])),
    }
    for name in draw(st.lists(st.sampled_from([*_FIELDS, "x"]), max_size=3)):
        change = draw(st.integers(0, 5))
        if change == 0:
            position.pop(name, None)
        else:
            position[name] = draw(documents if change == 1 or name == "x" else _FIELDS[name])
    return position


@st.composite
def batches(draw: st.DrawFn) -> Batch:
    """The positions of a request; a few are very many, and a few texts are damaged."""
    entries = draw(st.lists(positions(), max_size=6))
    entries.insert(draw(st.integers(0, len(entries))), GOOD)
    if draw(st.integers(0, 30)) == 0:
        entries = (entries * MAX_POSITIONS)[: draw(st.sampled_from([MAX_POSITIONS, MAX_POSITIONS + 1]))]
    if draw(st.integers(0, 9)):
        return Batch(entries)
    splice = draw(
        st.sampled_from([b"\0", b"\xff", b'"', b"{", b"]", b"NaN", b"1e999", b"-", b"\\ud800", b",", b"[" * 5000])
    )
    return Batch(entries, splice, draw(st.floats(0, 1)), draw(st.integers(0, 5)))


class Feed(Part):
    """Posts batches of positions for trucks with routes under way."""

    name = "feed"

    def __init__(self, keys: Keys) -> None:
        super().__init__()
        self._keys = keys
        self._sent = 0
        for number in (1, 2):  # so that positions are compared with stops
            start = _NOW + timedelta(hours=number)
            keys.client().push(route_body(start, externalId=f"FUZZ-{number}", vehicle={"unitNumber": f"10{number}"}))

    def cases(self) -> st.SearchStrategy[Batch]:
        return batches()

    def check(self, case: Batch) -> None:
        count = len(case.positions)
        body = json.dumps(
            {"positions": [self._good() if entry == GOOD else entry for entry in case.positions]}
        ).encode()
        at = int(case.at * len(body))
        content = body[:at] + case.splice + body[at + case.skip :]
        is_damaged = content != body or count > MAX_POSITIONS
        headers = {"Content-Type": "application/json"}
        answer = self._keys.ask("POST", "/telematics/positions", content=content, headers=headers)
        self.counts[str(answer.status_code)] += 1
        if answer.status_code == 400 and is_damaged:
            return
        if answer.status_code != 202:
            raise Fault(f"{answer.status_code} {answer.text[:500]} to {content[:2000]!r}")
        said = answer.json()
        rejected = [entry["index"] for entry in said["rejected"]]
        if is_damaged:
            return
        if said["accepted"] + len(rejected) != count or len(set(rejected)) != len(rejected):
            raise Fault(f"{count} positions, but the answer is {answer.text[:500]}")
        if any(case.positions[index] == GOOD for index in rejected):
            raise Fault(f"a good position was rejected: {answer.text[:500]}; all: {content[:2000]!r}")
        self.counts["positions rejected"] += len(rejected)
        self.counts["positions accepted"] += said["accepted"]

    def _good(self) -> dict[str, Any]:
        self._sent += 1
        at = _NOW - timedelta(hours=2) + timedelta(milliseconds=self._sent)
        return {"unitNumber": "102", "latitude": 40.0, "longitude": -90.0, "recordedAt": at.isoformat(), "speedMph": 50}
