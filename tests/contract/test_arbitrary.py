"""Whatever is sent, the answer is no 5xx, and a 400 says what is wrong. Found with hypothesis, bounded in number."""

import json
from copy import deepcopy
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote_from_bytes

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.contract.checks import invalid_fields, problem
from tests.factories import JOLIET, NEWARK, route_body
from tests.repeatable import examples
from tests.service import Client

bounded = settings(
    max_examples=examples(75),
    deadline=None,
    database=None,
    derandomize=True,  # the same examples for everybody; a new one that fails becomes a test of its own
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)

START = datetime.now(UTC).replace(microsecond=0)
FULL = route_body(
    START,
    reference="PO-1",
    vehicle={"unitNumber": "101", "vin": "1XKAD49X0CJ000101"},
    driver={"name": "Ann Lee", "externalId": "D-1"},
    stops=[
        {**JOLIET, "address": "1 Way", "arrivalWindow": {"start": START.isoformat(), "end": START.isoformat()}},
        NEWARK,
    ],
)

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=20)
    | st.sampled_from(
        [
            "",
            "\0",
            "x" * 201,
            "x" * 401,
            "1XKAD49X0CJ000101",
            START.isoformat(),
            "2026-12-01",
            90.5,
            -1,
            10**30,
            2**63,
            1.7e308,
            "null",
        ]
    )
)
documents = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


def paths_into(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """Every place inside a document."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, part in inner for place in paths_into(part, (*path, key)))]


PLACES = [path for path in paths_into(FULL) if path]


@st.composite
def mutated(draw: st.DrawFn) -> dict[str, Any]:
    """The full body after up to three changes: a value replaced, a field removed or a stop repeated."""
    body = deepcopy(FULL)
    for place in draw(st.lists(st.sampled_from(PLACES), min_size=1, max_size=3)):
        *way, last = place
        where: Any = body
        try:
            for step in way:
                where = where[step]
            change = draw(st.sampled_from(["replace", "remove", "grow"]))
            if change == "replace":
                where[last] = draw(documents)
            elif change == "remove":
                del where[last]
            elif isinstance(where[last], list):
                where[last] = where[last] * draw(st.integers(0, 60))
            else:
                where[str(last) + draw(st.text(max_size=3))] = draw(documents)
        except (KeyError, IndexError, TypeError):  # an earlier change took the place away
            continue
    return body


def good_enough(answer: httpx.Response, *accepted: int) -> None:
    """An accepted request, or a 400 that names its faults."""
    if answer.status_code not in accepted:
        invalid_fields(answer)


def as_json(document: Any) -> bytes:
    return json.dumps(document).encode()  # lone surrogates and huge numbers included


@bounded
@given(documents)
def test_any_json_document_may_be_pushed(client: Client, document: Any) -> None:
    """Errors: arbitrary JSON is at worst a 400 with `field` and `message`."""
    answer = client.post("/v1/routes", content=as_json(document))

    assert problem(answer, 400, "validation_error")["errors"]


@bounded
@given(mutated())
def test_any_change_of_a_valid_body_may_be_pushed(client: Client, body: dict[str, Any]) -> None:
    """Errors: a body that is nearly right is accepted or a 400 that names each invalid field once."""
    good_enough(client.post("/v1/routes", content=as_json(body)), 200, 201, 202, 409)


@bounded
@given(st.binary(max_size=60) | st.text(max_size=60).map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_any_bytes_may_be_pushed(client: Client, content: bytes) -> None:
    """Errors: bytes that are no JSON are a 400."""
    problem(client.post("/v1/routes", content=content), 400, "validation_error")


@bounded
@given(st.data())
def test_any_damage_to_the_text_of_a_body_may_be_pushed(client: Client, data: st.DataObject) -> None:
    """Errors: a truncated, spliced or overwritten body is accepted or a 400, never a 5xx."""
    content = as_json(FULL)
    at = data.draw(st.integers(0, len(content)))
    splice = data.draw(
        st.sampled_from([b"", b"\0", b"\xff", b'"', b"{", b"}", b"NaN", b"1e999", b"\\ud800", b",", b"/**/"])
    )
    skip = data.draw(st.integers(0, 5) | st.just(len(content)))

    good_enough(client.post("/v1/routes", content=content[:at] + splice + content[at + skip :]), 200, 201, 202, 409)


@bounded
@given(
    st.lists(
        documents | st.fixed_dictionaries({"unitNumber": scalars, "latitude": scalars, "x": documents}), max_size=5
    )
)
def test_any_positions_may_be_posted(client: Client, entries: list[Any]) -> None:
    """The feed: arbitrary entries are rejected by index."""
    answer = client.post("/telematics/positions", content=as_json({"positions": entries}))

    good_enough(answer, 202)
    if answer.status_code == 202:
        assert [rejected["index"] for rejected in answer.json()["rejected"]] == list(range(len(entries)))


NAMES = ["limit", "offset", "status", "externalId", "vehicleId", "from", "to", "unitNumber", "vin", "name", "x"]
values = st.binary(max_size=12) | st.sampled_from(
    [
        b"0",
        b"1",
        b"100",
        b"101",
        b"-1",
        b"draft",
        b"null",
        b"2026-12-01T08:00:00Z",
        b"\0",
        b"9" * 400,
        b"1e400",
        b"true",
    ]
)


@pytest.mark.parametrize("path", ["/v1/routes", "/v1/vehicles", "/v1/drivers", "/v1/me", "/v1/routes/x"])
@settings(bounded, max_examples=examples(30))
@given(st.lists(st.tuples(st.sampled_from(NAMES), values), max_size=4))
def test_any_query_may_be_asked(client: Client, path: str, query: list[tuple[str, bytes]]) -> None:
    """Decision 12: any query string is answered, or a 400 that names the parameter."""
    text = "&".join(f"{name}={quote_from_bytes(value)}" for name, value in query)

    answer = client.get(f"{path}?{text}")

    if answer.status_code == 400:
        assert set(invalid_fields(answer)) <= {name for name, _ in query}
    else:
        assert answer.status_code in (200, 404)


@bounded
@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30))
def test_any_route_id_may_be_asked_for(client: Client, route_id: str) -> None:
    """GET /v1/routes/{id}: what is no id is `not_found`."""
    path = quote_from_bytes(route_id.encode(), safe="")
    if path in (".", ".."):  # the client resolves them
        return

    problem(client.get(f"/v1/routes/{path}"), 404, "not_found")
