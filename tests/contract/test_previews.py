"""POST /planning/preview, which is no part of /v1: the fuel of a load, and an error for everything that is none."""

from typing import Any

import httpx
import pytest

from domain.lifecycle import Environment
from tests.contract.checks import accepted, invalid_fields, problem
from tests.contract.conftest import Clients
from tests.contract.schema import faults
from tests.domain.previews.loads import load
from tests.factories import JOLIET, NEWARK, route_body
from tests.service import Client, eventually

PATH = "/planning/preview"


def preview(client: httpx.Client, **body: Any) -> httpx.Response:
    """The answer to a preview, asked for again while the machine is too busy for it."""
    return eventually(
        lambda: client.post(PATH, json=body, timeout=120), lambda answer: answer.status_code != 429, seconds=120
    )


@pytest.fixture(scope="module")
def document(service: Any) -> dict[str, Any]:
    answer = httpx.get(f"{service.url}/planning/openapi.json", verify=False, trust_env=False, timeout=120)
    assert answer.status_code == 200
    return dict(answer.json())


def test_a_load_is_answered_as_it_is_described(client: Client, document: dict[str, Any]) -> None:
    answer = preview(client, **load(line=True, policy={"reservePercent": 12}))

    assert answer.status_code == 200, answer.text
    body = answer.json()
    described = document["components"]["schemas"]["LoadPreview"]
    assert faults(body, described, document) == []
    assert body["environment"] == "live"
    assert body["distanceMiles"] == pytest.approx(800, abs=30)
    assert body["policy"]["reservePercent"] == 12
    assert body["line"][0] == pytest.approx([JOLIET["latitude"], JOLIET["longitude"]], abs=0.1)
    assert answer.headers["X-RateLimit-Limit"] == "300"
    assert int(answer.headers["X-RateLimit-Remaining"]) < 300
    assert client.get("/v1/me").headers["X-RateLimit-Remaining"] == "599"


def test_a_pushed_route_is_previewed_by_its_body_or_by_its_id(client: Client, now: Any) -> None:
    body = route_body(now)
    route = accepted(client.push(body), 201)

    by_body, by_id = preview(client, **body), preview(client, routeId=route["id"])

    assert by_body.status_code == by_id.status_code == 200
    assert by_body.json()["distanceMiles"] == by_id.json()["distanceMiles"]
    assert by_id.json()["vehicle"]["id"] == client.fleet.shown_trucks[0]
    assert client.route(route["id"])["fuelPlan"] is None


def test_a_foreign_route_or_truck_is_as_one_that_never_existed(clients: Clients, client: Client, now: Any) -> None:
    other = clients.tenant()
    theirs = accepted(other.push(route_body(now)), 201)["id"]
    mine = accepted(client.push(route_body(now)), 201)["id"]
    sandbox = clients.colleague(client, environment=Environment.SANDBOX)

    seen = [
        preview(one, routeId=route_id).json()
        for one, route_id in (
            (client, theirs),
            (sandbox, mine),
            (client, "rte_0123456789abcdefghjkmnpqrs"),
            (client, "x"),
        )
    ]

    assert all(one == seen[0] for one in seen)
    assert seen[0]["code"] == "not_found"
    assert invalid_fields(preview(client, **load(vehicle={"unitNumber": "T-9"}))) == ["vehicle.unitNumber"]


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        ({}, [""]),
        ({"stops": [JOLIET]}, ["stops"]),
        ({"stops": [JOLIET, NEWARK], "routeId": "rte_x"}, [""]),
        ({"stops": [JOLIET, {"name": "no place", "address": "1 Main St"}]}, ["stops[1]"]),
        ({"stops": [JOLIET, {"town": "Nowhere"}]}, ["stops[1].town"]),
        ({"stops": [{**JOLIET, "latitude": 91}, NEWARK]}, ["stops[0].latitude"]),
        ({"stops": [JOLIET, NEWARK], "scheduledStart": "tomorrow"}, ["scheduledStart"]),
        (
            {"stops": [JOLIET, NEWARK], "vehicle": {"mpg": 0, "fuelPercent": 101}},
            ["vehicle.fuelPercent", "vehicle.mpg"],
        ),
        ({"stops": [JOLIET, NEWARK], "vehicle": {"fuelPercent": 10, "fuelGallons": 20}}, ["vehicle"]),
        (
            {"stops": [JOLIET, NEWARK], "policy": {"reservePercent": -1, "maxStops": "2"}},
            ["policy.maxStops", "policy.reservePercent"],
        ),
        ({"stops": [JOLIET, {"latitude": -40, "longitude": 175}, JOLIET]}, ["stops"]),
        ({"stops": [JOLIET] * 51}, ["stops"]),
    ],
)
def test_what_is_no_load_is_refused_by_its_fields(client: Client, body: dict[str, Any], fields: list[str]) -> None:
    assert invalid_fields(preview(client, **body)) == fields


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b"\xff", b'{"stops":' + b"[" * 100_000, b"NaN", b"null"])
def test_bytes_that_are_no_load_are_refused(client: Client, body: bytes) -> None:
    answer = client.post(PATH, content=body, headers={"Content-Type": "application/json"})
    problem(answer, 400, "validation_error")


def test_the_scope_of_previews_is_needed_and_enough(clients: Clients, client: Client, anonymous: httpx.Client) -> None:
    without, alone = (
        clients.colleague(client, "routes:read", "routes:write"),
        clients.colleague(client, "plans:preview"),
    )

    refused = problem(without.post(PATH, json={}), 403, "insufficient_scope")["detail"]
    assert "page API keys" in refused
    assert "fuelroute keys create --scope plans:preview" in refused
    assert problem(anonymous.post(PATH, json={}), 401, "unauthorized")
    assert invalid_fields(alone.post(PATH, json={})) == [""]
    assert problem(alone.get("/v1/routes"), 403, "insufficient_scope")
    assert problem(alone.get(PATH), 405, "method_not_allowed")


def test_the_description_names_every_answer(document: dict[str, Any]) -> None:
    (path,) = document["paths"]
    operation = document["paths"][path]["post"]
    assert path == PATH
    assert operation["responses"].keys() == {"200", "400", "401", "403", "404", "405", "413", "415", "429", "500"}
    assert "plans:preview" in operation["description"]
