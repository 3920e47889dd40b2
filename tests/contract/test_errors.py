"""Errors: every refusal is a problem document with its own code, and a refused request leaves nothing behind."""

import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import httpx
import pytest

from tests.contract.checks import accepted, count_routes, invalid_fields, problem, put_in_status
from tests.contract.conftest import Clients
from tests.factories import route_body
from tests.rows import stored_id
from tests.service import Client, takes_less

MEBIBYTE = 1024 * 1024
NO_ROUTE = "rte_" + "0" * 32


def post(client: httpx.Client, content: bytes, path: str = "/v1/routes", **headers: str) -> httpx.Response:
    return client.post(path, content=content, headers={"Content-Type": "application/json", **headers})


def encoded(body: dict[str, Any]) -> bytes:
    return json.dumps(body).encode()


def with_raw(body: dict[str, Any], raw: str) -> bytes:
    """The body with a further field `extra` whose JSON text is `raw`, valid or not."""
    return encoded(body)[:-1] + b', "extra": ' + raw.encode() + b"}"


# --- each code -------------------------------------------------------------------------------------------------


def test_a_faulty_body_is_answered_with_validation_error(client: Client) -> None:
    """Errors: validation_error 400, body failed validation."""
    document = problem(client.push({}), 400, "validation_error")

    assert "5" in document["detail"]


def test_a_request_without_a_key_is_answered_with_unauthorized(anonymous: httpx.Client) -> None:
    """Errors: unauthorized 401, key missing."""
    problem(anonymous.get("/v1/me"), 401, "unauthorized")


def test_a_missing_scope_is_answered_with_insufficient_scope(client: Client, clients: Clients) -> None:
    """Errors: insufficient_scope 403, key lacks the scope the endpoint needs."""
    problem(clients.colleague(client, "drivers:read").get("/v1/vehicles"), 403, "insufficient_scope")


@pytest.mark.parametrize("method", ["GET", "DELETE"])
@pytest.mark.parametrize(
    "route_id",
    [
        NO_ROUTE,
        "rte_" + "f" * 32,
        "rte_x",
        "1",
        "veh_" + "0" * 32,
        "rte_" + "0" * 33,
        "RTE_" + "0" * 32,
        "%00",
        "%FF%FE",
        "%2e%2e",
        "a%2Fb",
        "'%20OR%201=1--",
        "x" * 2000,
        "%F0%9F%9A%9A",
        "null",
    ],
)
def test_an_unknown_id_is_answered_with_not_found(client: Client, method: str, route_id: str) -> None:
    """Errors: not_found 404, no route with that id belongs to this company."""
    problem(client.request(method, f"/v1/routes/{route_id}"), 404, "not_found")


@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_an_id_is_found_in_one_spelling_only(client: Client, now: datetime, method: str) -> None:
    """An id is text for a TMS, which compares it: whatever PostgreSQL would read as the same is another id."""
    shown = client.push(route_body(now)).json()["id"]
    stored = stored_id(shown)

    for other in (
        stored.hex,
        str(stored),
        f"rte_{stored}",
        shown.upper(),
        f"rte_{stored.hex.upper()}",
        f"veh_{stored.hex}",
    ):
        problem(client.request(method, f"/v1/routes/{other}"), 404, "not_found")
    assert client.route(shown)["status"] == "draft"


def test_a_push_or_cancel_of_a_started_route_is_answered_with_route_active(client: Client, now: datetime) -> None:
    """Errors: route_active 409, for a push and for a cancel."""
    body = route_body(now)
    route_id = accepted(client.push(body), 201)["id"]
    put_in_status(client, route_id, "active")

    problem(client.push(body), 409, "route_active")
    problem(client.delete(f"/v1/routes/{route_id}"), 409, "route_active")


@pytest.mark.parametrize(
    "path",
    ["/", "/v1", "/v1/", "/v2/routes", "/v1/routes/", "/v1/me/", "/v1/nothing", "/v1/routes/a/b", "/V1/me", "//v1/me"],
)
def test_an_unknown_path_is_not_found(client: Client, path: str) -> None:
    """Decision 13: unknown path, 404 `not_found`."""
    problem(client.get(path), 404, "not_found")


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("POST", "/v1/me", {"GET"}),
        ("DELETE", "/v1/me", {"GET"}),
        ("PUT", "/v1/routes", {"GET", "POST"}),
        ("PATCH", "/v1/routes", {"GET", "POST"}),
        ("DELETE", "/v1/routes", {"GET", "POST"}),
        ("OPTIONS", "/v1/routes", {"GET", "POST"}),
        ("POST", f"/v1/routes/{NO_ROUTE}", {"GET", "DELETE"}),
        ("PUT", f"/v1/routes/{NO_ROUTE}", {"GET", "DELETE"}),
        ("PATCH", f"/v1/routes/{NO_ROUTE}", {"GET", "DELETE"}),
        ("POST", "/v1/vehicles", {"GET"}),
        ("POST", "/v1/drivers", {"GET"}),
        ("GET", "/telematics/positions", {"POST"}),
        ("POST", "/v1/openapi.json", {"GET"}),
    ],
)
def test_a_wrong_method_names_the_right_ones(client: Client, method: str, path: str, allowed: set[str]) -> None:
    """Decision 13: wrong method, 405 `method_not_allowed` with `Allow`."""
    answer = client.request(method, path)

    problem(answer, 405, "method_not_allowed")
    assert {name.strip() for name in answer.headers["Allow"].split(",")} - {"HEAD"} == allowed


# --- media types and sizes -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "media_type",
    [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data",
        "application/xml",
        "application/jsonx",
        "x",
    ],
)
def test_another_media_type_is_refused(client: Client, now: datetime, media_type: str) -> None:
    """Decision 13: not JSON by its media type, 415 `unsupported_media_type`."""
    answer = client.post("/v1/routes", content=encoded(route_body(now)), headers={"Content-Type": media_type})

    problem(answer, 415, "unsupported_media_type")
    assert count_routes(client) == 0


@pytest.mark.parametrize(
    "headers",
    [
        {"Content-Type": "application/json"},
        {"Content-Type": "application/json; charset=utf-8"},
        {"Content-Type": "Application/JSON"},
        {"Content-Type": "application/vnd.tms.route+json"},
        {},
    ],
)
def test_json_media_types_are_accepted(client: Client, now: datetime, headers: dict[str, str]) -> None:
    """Bodies are JSON; a client that does not say so is believed."""
    accepted(client.post("/v1/routes", content=encoded(route_body(now)), headers=headers), 201)


def test_a_body_of_exactly_one_mebibyte_is_accepted(client: Client, now: datetime) -> None:
    """Decision 13: over 1 MiB, 413; not before."""
    body = with_raw(route_body(now), '"%s"')
    padded = body.replace(b"%s", b"x" * (MEBIBYTE - len(body) + 2))
    assert len(padded) == MEBIBYTE

    accepted(post(client, padded), 201)


@pytest.mark.parametrize("path", ["/v1/routes", "/telematics/positions"])
@pytest.mark.parametrize("chunked", [False, True], ids=["declared", "chunked"])
def test_a_body_over_one_mebibyte_is_refused(client: Client, path: str, chunked: bool) -> None:
    """Decision 13: over 1 MiB, 413 `content_too_large`, whether or not the length was announced."""

    def in_chunks() -> Iterator[bytes]:
        for _ in range(17):
            yield b" " * (MEBIBYTE // 16)

    content: Any = in_chunks() if chunked else b" " * (MEBIBYTE + 1)

    answer = client.post(path, content=content, headers={"Content-Type": "application/json"})

    problem(answer, 413, "content_too_large")
    assert client.get("/v1/me").status_code == 200


# --- bodies that are no JSON, or strange JSON ------------------------------------------------------------------

NO_JSON = {
    "empty": b"",
    "blank": b"  \n",
    "word": b"route",
    "truncated": b'{"externalId": "x"',
    "truncated after a bad field": b'{"externalId": 5, "vehicle',
    "followed by more": b"{} {}",
    "bad field, followed by more": b'{"externalId": 5} x',
    "single quotes": b"{'externalId': 'x'}",
    "comment": b"{} // nothing",
    "trailing comma": b'{"externalId": "x",}',
    "NaN": b'{"externalId": NaN}',
    "NaN after a bad field": b'{"externalId": 5, "x": NaN}',
    "Infinity": b'{"x": Infinity}',
    "invalid UTF-8": b'{"externalId": "\xff"}',
    "invalid UTF-8 in an unknown field": b'{"x": "\xc3\x28"}',
    "surrogate in UTF-8": b'{"externalId": "\xed\xa0\x80"}',
    "byte order mark": b"\xef\xbb\xbf{}",
    "UTF-16": '{"externalId": "x"}'.encode("utf-16"),
    "NUL bytes": b"\0\0\0\0",
    "raw control character": b'{"externalId": "a\nb"}',
    "bad escape": b'{"externalId": "\\q"}',
    "lone surrogate": b'{"externalId": "\\ud83d"}',
    "lone surrogate in an unknown field": b'{"x": "\\ud800"}',
    "bad field, then a lone surrogate": b'{"externalId": 5, "x": "\\ud800"}',
    "lone surrogate as a name": b'{"\\udc00": 1}',
    "deep": b"[" * 100_000,
    "deep and closed": b"[" * 100_000 + b"]" * 100_000,
    "deep objects": b'{"a":' * 50_000 + b"1" + b"}" * 50_000,
    "deep in an unknown field": b'{"x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "bad field, then deep": b'{"externalId": 5, "x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "gzip": b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03",
}


@pytest.mark.parametrize("content", NO_JSON.values(), ids=NO_JSON.keys())
@pytest.mark.parametrize("path", ["/v1/routes", "/telematics/positions"])
def test_an_unreadable_body_is_refused_as_a_whole(client: Client, path: str, content: bytes) -> None:
    """Decision 13: `field` is "" when the body as a whole is unreadable; 400, never 500."""
    assert invalid_fields(post(client, content, path)) == [""]


@pytest.mark.parametrize("content", [b"null", b"true", b"5", b'"x"', b"[]", b"[{}]"])
@pytest.mark.parametrize("path", ["/v1/routes", "/telematics/positions"])
def test_a_body_that_is_no_object_is_refused(client: Client, path: str, content: bytes) -> None:
    """RouteInput is an object."""
    assert invalid_fields(post(client, content, path)) == [""]


@pytest.mark.parametrize("depth", [100, 400, 800, 900, 950, 980, 990, 1000, 1010, 1100, 1500, 3000])
@pytest.mark.parametrize("valid", [True, False], ids=["valid", "invalid"])
def test_nesting_of_any_depth_causes_no_server_error(client: Client, now: datetime, depth: int, valid: bool) -> None:
    """Decision 13: unknown fields are ignored; deep nesting is at worst a 400."""
    body = route_body(now) if valid else {"externalId": 5}

    answer = post(client, with_raw(body, "[" * depth + "]" * depth))

    if not valid or answer.status_code != 201:
        problem(answer, 400, "validation_error")


@pytest.mark.parametrize(
    "raw", ["1" * 400, "1" * 5000, "-" + "1" * 5000, "1e999", "-1e999", "1e-999", "0." + "1" * 5000, "1" * 400 + ".5"]
)
@pytest.mark.parametrize("place", ["unknown field", "with a bad field", "latitude", "externalId", "list entry"])
def test_numbers_of_any_size_cause_no_server_error(client: Client, now: datetime, raw: str, place: str) -> None:
    """Decision 13: strict JSON; a number too large for the field is a 400 at most."""
    text = json.dumps(route_body(now))
    content = {
        "unknown field": text[:-1] + f', "x": {raw}}}',
        "with a bad field": f'{{"externalId": 5, "x": {raw}}}',
        "latitude": text.replace("41.462", raw),
        "externalId": text.replace('"LOAD-', f'{raw}, "y": "', 1),
        "list entry": text.replace('"stops": [', f'"stops": [{raw}, ', 1),
    }[place]
    assert raw in content

    answer = post(client, content.encode())

    if answer.status_code != 201:
        problem(answer, 400, "validation_error")
    assert answer.status_code == 400 or place in ("unknown field", "latitude")


@pytest.mark.parametrize("bad_first", [True, False])
def test_a_body_refused_for_a_field_given_twice_names_that_field(
    client: Client, now: datetime, bad_first: bool
) -> None:
    """validation_error: `errors` lists each invalid field, also where a name stands twice in an object."""
    good, bad = '"externalId": "twice"', '"externalId": 5'
    pair = f"{bad}, {good}" if bad_first else f"{good}, {bad}"
    text = json.dumps({**route_body(now), "externalId": "HERE"}).replace('"externalId": "HERE"', pair)

    answer = post(client, text.encode())

    if answer.status_code != 201:
        assert "externalId" in invalid_fields(answer)


@pytest.mark.parametrize(
    ("path", "field", "entry"),
    [("/v1/routes", "stops", b"{},"), ("/v1/routes", "stops", b"1,"), ("/telematics/positions", "positions", b"1,")],
)
def test_a_body_full_of_faults_is_checked_as_fast_as_a_good_one(
    client: Client, path: str, field: str, entry: bytes
) -> None:
    """Limits: 2 to 50 stops; what lies far beyond a limit is refused at once, and does not stop the whole process."""
    start = b'{"' + field.encode() + b'": ['
    content = start + entry * ((MEBIBYTE - len(start) - 10) // len(entry)) + b"1]}"

    answer = post(client, content, path)

    fields = invalid_fields(answer)
    assert field in fields
    assert takes_less(1, lambda: post(client, content, path))
    assert len(answer.content) < MEBIBYTE / 4


def test_nothing_is_stored_after_a_refusal(client: Client, now: datetime) -> None:
    """Errors: a request that is refused has no effect, whatever else in it is good."""
    accepted(client.push(body := route_body(now)), 201)
    before = client.get("/v1/routes").json()

    problem(client.push({**body, "reference": 5}), 400, "validation_error")
    problem(client.push({**route_body(now), "stops": []}), 400, "validation_error")
    problem(post(client, with_raw(route_body(now), "NaN")), 400, "validation_error")

    assert client.get("/v1/routes").json() == before
    assert count_routes(client) == 1


# --- texts -----------------------------------------------------------------------------------------------------


def test_nul_is_refused_wherever_text_is_stored(client: Client, now: datetime) -> None:
    r"""Decision 13: text with NUL is refused with 400; `\u0000` in JSON as well."""
    text = json.dumps({**route_body(now), "reference": "a\0b"})
    assert "\\u0000" in text

    assert invalid_fields(post(client, text.encode())) == ["reference"]


def test_nul_in_an_unknown_field_is_ignored(client: Client, now: datetime) -> None:
    """Decision 13: unknown fields are ignored."""
    accepted(client.push({**route_body(now), "x": "\0", "\0": 1}), 201)


def test_text_comes_back_as_it_was_sent(client: Client, now: datetime) -> None:
    """Text is stored exactly: no trimming, no folding, no normal forms."""
    name = " e\u0301\u00e9 \ufeff\u200f\U0010ffff\uffff \u2028\x01\x7f'\"\\; DROP TABLE routes --\t "

    route = accepted(client.push(route_body(now, externalId=name, reference=name)), 201)

    assert (route["externalId"], route["reference"], route["name"]) == (name, name, name)
    assert client.get("/v1/routes", params={"externalId": name}).json()["data"] == [route]


# --- headers ---------------------------------------------------------------------------------------------------


def test_an_answer_has_the_request_id_that_was_sent_or_a_new_one(client: Client, anonymous: httpx.Client) -> None:
    """X-Request-Id stands on every answer: the caller's own where it is a plain one."""
    assert client.get("/v1/me", headers={"X-Request-Id": "tms-42"}).headers["X-Request-Id"] == "tms-42"
    assert anonymous.get("/v1/me", headers={"X-Request-Id": "tms-43"}).headers["X-Request-Id"] == "tms-43"
    for strange in ("", "a b", "x" * 129, "<script>", "\u00e9"):
        answer = client.get("/v1/me", headers=[(b"X-Request-Id", strange.encode())])
        assert answer.headers["X-Request-Id"] not in ("", strange)
    first, second = (client.get("/v1/me").headers["X-Request-Id"] for _ in range(2))
    assert first != second
