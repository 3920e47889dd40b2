"""GET /v1/openapi.json: the interface description, held against the contract and against real answers."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import httpx
import pytest

from domain.contract.checking import read_body
from domain.contract.shapes import RouteInput
from domain.encoding import write
from ingress.http.problems import KINDS
from tests.contract.checks import PROBLEM_TYPE, put_in_status
from tests.contract.conftest import Clients
from tests.contract.schema import faults, resolve
from tests.contract.shapes import STATUSES
from tests.factories import PLAN, route_body
from tests.service import Client

Json = dict[str, Any]

# Operations, and "Possible errors per endpoint" of the contract with what decisions 12 and 13 add
OPERATIONS: dict[str, tuple[str, str, str | None, set[str], set[str]]] = {
    "getMe": ("get", "/v1/me", None, {"200"}, {"401", "429"}),
    "createOrUpdateRoute": (
        "post",
        "/v1/routes",
        "routes:write",
        {"200", "201", "202"},
        {"400", "401", "403", "409", "413", "415", "429"},
    ),
    "listRoutes": ("get", "/v1/routes", "routes:read", {"200", "304"}, {"400", "401", "403", "429"}),
    "getRoute": ("get", "/v1/routes/{id}", "routes:read", {"200", "304"}, {"401", "403", "404", "429"}),
    "cancelRoute": ("delete", "/v1/routes/{id}", "routes:write", {"204"}, {"401", "403", "404", "409", "429"}),
    "listVehicles": ("get", "/v1/vehicles", "vehicles:read", {"200", "304"}, {"400", "401", "403", "429"}),
    "listDrivers": ("get", "/v1/drivers", "drivers:read", {"200", "304"}, {"400", "401", "403", "429"}),
}
METHODS = {"get", "put", "post", "delete", "options", "head", "patch", "trace"}


@pytest.fixture
def document(anonymous: httpx.Client) -> Json:
    """The description, fetched without a key (decision 17)."""
    answer = anonymous.get("/v1/openapi.json")
    assert answer.status_code == 200
    assert answer.headers["Content-Type"] == "application/json"
    return dict(answer.json())


def operations(document: Json) -> Iterator[tuple[str, str, Json]]:
    for path, item in document["paths"].items():
        for method in item.keys() & METHODS:
            yield method, path, item[method]


def nodes(value: Any) -> Iterator[Json]:
    """Every object inside the document."""
    if isinstance(value, dict):
        yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from nodes(inner)


# --- the document ----------------------------------------------------------------------------------------------


def test_the_document_is_openapi_3_1_and_has_version_1_0_0(document: Json) -> None:
    """Versioning: the interface description is versioned 1.0.0; decision 17: OpenAPI 3.1."""
    assert document["openapi"].startswith("3.1.")
    assert document["info"]["version"] == "1.0.0"
    assert document["info"]["title"]
    assert document["servers"]
    allowed = {"openapi", "info", "jsonSchemaDialect", "servers", "paths", "webhooks", "components", "security", "tags"}
    assert document.keys() <= allowed
    assert "webhooks" not in document  # Events: the service sends none today


def test_every_operation_is_described_and_no_other(document: Json) -> None:
    """Operations: method, path and operationId; the eighth is not described in the contract (decision 21)."""
    described = {(operation["operationId"], method, path) for method, path, operation in operations(document)}

    assert described == {(name, method, path) for name, (method, path, *_) in OPERATIONS.items()}


@pytest.mark.parametrize("name", OPERATIONS)
def test_every_operation_names_its_responses_and_its_scope(document: Json, name: str) -> None:
    """Endpoints: responses and scope of each; Errors: possible errors per endpoint, and 500."""
    method, path, scope, answers, errors = OPERATIONS[name]
    operation = document["paths"][path][method]

    assert operation["responses"].keys() == answers | errors | {"500"}
    assert operation["summary"]
    assert (scope or "Any valid key") in operation["description"]
    for status, response in operation["responses"].items():
        response = resolve(response["$ref"], document) if "$ref" in response else response
        assert response["description"], status
        media_types = set(response.get("content", {}))
        if status in errors | {"500"}:
            assert media_types == {PROBLEM_TYPE}
        else:
            assert media_types == (set() if status in ("204", "304") else {"application/json"})


def test_every_path_parameter_is_declared(document: Json) -> None:
    """OpenAPI: each `{name}` of a path is a required parameter; none is declared twice."""
    for _, path, operation in operations(document):
        parameters = [*document["paths"][path].get("parameters", []), *operation.get("parameters", [])]
        named = [(parameter["name"], parameter["in"]) for parameter in parameters]
        assert len(named) == len(set(named))
        in_path = {parameter["name"] for parameter in parameters if parameter["in"] == "path"}
        assert in_path == ({"id"} if "{id}" in path else set())
        assert all(parameter["required"] for parameter in parameters if parameter["in"] == "path")
        assert all("schema" in parameter for parameter in parameters)


@pytest.mark.parametrize(
    ("path", "names"),
    [
        (
            "/v1/routes",
            {"status", "externalId", "vehicleId", "from", "to", "limit", "offset", "updatedSince", "cursor"},
        ),
        ("/v1/vehicles", {"unitNumber", "vin", "limit", "offset"}),
        ("/v1/drivers", {"name", "limit", "offset"}),
    ],
)
def test_list_parameters_carry_their_bounds(document: Json, path: str, names: set[str]) -> None:
    """Shared query parameters and those of each list: names, types, defaults and bounds."""
    parameters = {parameter["name"]: parameter for parameter in document["paths"][path]["get"]["parameters"]}

    assert parameters.pop("If-None-Match")["in"] == "header"
    assert parameters.keys() == names
    for parameter in parameters.values():
        assert parameter["in"] == "query"
        assert not parameter.get("required", False)
        assert parameter["description"]
        assert "anyOf" not in parameter["schema"]
        assert "null" not in str(parameter["schema"].get("type"))
    limit, offset = parameters["limit"]["schema"], parameters["offset"]["schema"]
    assert (limit["type"], limit["minimum"], limit["maximum"], limit["default"]) == ("integer", 1, 100, 25)
    assert (offset["type"], offset["minimum"], offset["default"]) == ("integer", 0, 0)
    if path == "/v1/routes":
        for name in ("from", "to", "updatedSince"):
            schema = parameters[name]["schema"]
            assert (schema["type"], schema["format"]) == ("string", "date-time")
        status = parameters["status"]["schema"]
        status = resolve(status["$ref"], document) if "$ref" in status else status
        assert set(status["enum"]) == STATUSES
    if path == "/v1/vehicles":
        vin = parameters["vin"]["schema"]
        assert (vin["minLength"], vin["maxLength"]) == (17, 17)


def test_every_reference_leads_somewhere_and_every_component_is_used(document: Json) -> None:
    """OpenAPI: no dangling `$ref`; nothing is described that no operation mentions."""
    references = {node["$ref"] for node in nodes(document) if isinstance(node.get("$ref"), str)}
    for reference in references:
        resolve(reference, document)

    described = {f"#/components/schemas/{name}" for name in document["components"]["schemas"]}
    assert described <= references


def test_security_is_a_bearer_key_on_every_operation(document: Json) -> None:
    """Authentication: every request carries `Authorization: Bearer <API_KEY>`."""
    (requirement,) = document["security"]
    (name,) = requirement
    scheme = document["components"]["securitySchemes"][name]

    assert (scheme["type"], scheme["scheme"]) == ("http", "bearer")
    assert all("security" not in operation for _, _, operation in operations(document))


def test_problem_responses_carry_their_headers(document: Json) -> None:
    """Errors: Retry-After and the rate headers of 429; WWW-Authenticate of 401."""
    responses = document["components"]["responses"]

    assert responses["rate_limited"]["headers"].keys() >= {"Retry-After", "X-RateLimit-Limit", "X-RateLimit-Remaining"}
    assert "WWW-Authenticate" in responses["unauthorized"]["headers"]
    for code, response in responses.items():
        assert "X-Request-Id" in response["headers"]
        example = response["content"][PROBLEM_TYPE]["examples"][code]["value"]
        assert (example["code"], example["status"]) == (code, KINDS[code].status)
        assert faults(example, response["content"][PROBLEM_TYPE]["schema"], document) == []


# --- the schemas -----------------------------------------------------------------------------------------------

FIELDS = {
    "RouteInput": "externalId reference vehicle driver scheduledStart stops",
    "VehicleRef": "unitNumber vin",
    "DriverRef": "name externalId",
    "RouteStopInput": "name address latitude longitude arrivalWindow",
    "ArrivalWindow": "start end",
    "Route": "id externalId reference name status environment pending vehicle driver scheduledStart stops distanceMiles"
    " fuelPlan createdAt",
    "RoutePending": "reason detail",
    "RouteVehicle": "id unitNumber",
    "RouteDriver": "id name",
    "RouteStop": "sequence name address latitude longitude type plannedArrival actualArrival actualDeparture",
    "FuelPlan": "status generatedAt totalDistanceMiles totalGallons totalCost averagePricePerGallon savingsPerGallon"
    " savingsTotal stops",
    "FuelPlanStop": "sequence name address latitude longitude milesFromOrigin gallonsToFill pricePerGallon totalCost"
    " arrivalFuelPercent estimatedArrival",
    "Vehicle": "id unitNumber vin licensePlate make model year fuelTankCapacityGallons",
    "Driver": "id name displayName externalId language",
    "RouteList": "data total limit offset nextCursor",
    "VehicleList": "data total limit offset",
    "DriverList": "data total limit offset",
    "Me": "company key rateLimit",
    "Problem": "type title status code detail errors",
}
ADDED = {"RouteList": {"nextCursor"}, "Driver": {"language"}}
"""Fields that were added to version 1.0.0: their descriptions say so, and no answer of old has them."""
REQUIRED_OF_INPUT = {
    "RouteInput": {"externalId", "vehicle", "driver", "scheduledStart", "stops"},
    "VehicleRef": set(),
    "DriverRef": set(),
    "RouteStopInput": {"name", "latitude", "longitude"},
    "ArrivalWindow": set(),
    "Problem": {"title", "status", "code", "detail"},
}


@pytest.mark.parametrize("name", FIELDS)
def test_every_schema_has_exactly_the_fields_of_the_contract(document: Json, name: str) -> None:
    """Resources and their fields: names, and which are required; of an answer all are, null or not."""
    schema = document["components"]["schemas"][name]

    assert schema["properties"].keys() == set(FIELDS[name].split())
    required = set(schema.get("required", []))
    if name == "Problem":
        assert REQUIRED_OF_INPUT[name] <= required
    else:
        assert required == REQUIRED_OF_INPUT.get(name, set(FIELDS[name].split()) - ADDED.get(name, set()))
    for field in ADDED.get(name, ()):
        assert schema["properties"][field]["description"].startswith("Added to version 1.0.0.")


def test_the_limits_of_a_push_are_in_the_schemas(document: Json) -> None:
    """Limits: stops per route, texts, VIN, latitude and longitude."""
    schemas = document["components"]["schemas"]
    route, stop, vehicle = (schemas[name]["properties"] for name in ("RouteInput", "RouteStopInput", "VehicleRef"))

    assert (route["stops"]["minItems"], route["stops"]["maxItems"]) == (2, 50)
    assert route["externalId"]["maxLength"] == 200
    assert limit_of(route["reference"], "maxLength") == 200
    assert stop["name"]["maxLength"] == 200
    assert limit_of(stop["address"], "maxLength") == 400
    assert (limit_of(vehicle["vin"], "minLength"), limit_of(vehicle["vin"], "maxLength")) == (17, 17)
    assert (stop["latitude"]["minimum"], stop["latitude"]["maximum"]) == (-90, 90)
    assert (stop["longitude"]["minimum"], stop["longitude"]["maximum"]) == (-180, 180)
    assert route["scheduledStart"]["format"] == "date-time"


def limit_of(schema: Json, name: str) -> Any:
    """A limit of a nullable string."""
    (limit,) = {option[name] for option in schema.get("anyOf", [schema]) if name in option}
    return limit


def test_the_enumerations_are_the_contracts(document: Json) -> None:
    """RouteStatus, RoutePending.reason, RouteStop.type, FuelPlan.status and Problem.code."""
    schemas = document["components"]["schemas"]

    def values(name: str, field: str) -> set[str]:
        schema = schemas[name]["properties"][field]
        return set((resolve(schema["$ref"], document) if "$ref" in schema else schema)["enum"])

    assert values("Route", "status") == STATUSES
    assert values("Route", "environment") == {"live", "sandbox"}
    assert values("RoutePending", "reason") == {
        "vehicle_unmapped",
        "driver_unmapped",
        "outside_import_window",
        "not_attempted",
        "error",
    }
    assert values("RouteStop", "type") == {"waypoint", "destination", "fuel_stop"}
    assert values("FuelPlan", "status") == {"planned", "active", "completed"}
    assert values("Problem", "code") >= {
        "validation_error",
        "unauthorized",
        "insufficient_scope",
        "not_found",
        "route_active",
        "rate_limited",
        "internal_error",
    }


def test_the_examples_of_a_push_are_valid(document: Json, client: Client) -> None:
    """Every example body passes our own check and our own schema, and can be pushed."""
    content = document["paths"]["/v1/routes"]["post"]["requestBody"]["content"]["application/json"]
    assert content["examples"]
    for example in content["examples"].values():
        assert read_body(write(example["value"]), RouteInput)
        assert faults(example["value"], content["schema"], document) == []
        assert client.push(example["value"]).status_code in (201, 202)


def test_the_schema_of_a_push_agrees_with_the_check(document: Json, now: datetime) -> None:
    """The schema refuses what the check refuses, as far as a schema can say it."""
    schema = document["paths"]["/v1/routes"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    good = route_body(now)

    assert faults(good, schema, document) == []
    bad: Json
    for bad in (
        {"externalId": "x" * 201},
        {"externalId": ""},
        {"externalId": None},
        {"vehicle": {}},
        {"vehicle": {"unitNumber": None}},
        {"vehicle": {"vin": "short"}},
        {"driver": {}},
        {"driver": {"name": None, "externalId": None}},
        {"stops": []},
        {"scheduledStart": 5},
    ):
        assert faults({**good, **bad}, schema, document), bad


# --- real answers ----------------------------------------------------------------------------------------------


def check_answer(document: Json, name: str, answer: httpx.Response) -> None:
    """An answer is described: its status, its media type, its headers, and exactly the properties of its schema."""
    method, path, *_ = OPERATIONS[name]
    response = document["paths"][path][method]["responses"][str(answer.status_code)]
    response = resolve(response["$ref"], document) if "$ref" in response else response
    for header in response.get("headers", {}):
        assert header in answer.headers, (name, answer.status_code, header)
    assert answer.headers["X-Request-Id"]
    if "content" not in response:
        assert answer.content == b""
        return
    content = response["content"][answer.headers["Content-Type"]]
    assert faults(answer.json(), content["schema"], document) == []


def test_every_answer_has_exactly_the_properties_of_its_schema(
    document: Json, client: Client, clients: Clients, anonymous: httpx.Client, now: datetime
) -> None:
    """Real answers of every operation, good ones and refusals, fit the description."""
    body = route_body(now)
    created = client.push(body)
    path = f"/v1/routes/{created.json()['id']}"
    unscoped = clients.colleague(client, "positions:write")
    check_answer(document, "createOrUpdateRoute", created)
    check_answer(document, "createOrUpdateRoute", client.push(body))
    check_answer(document, "createOrUpdateRoute", client.push(route_body(now, vehicle={"unitNumber": "999"})))
    check_answer(document, "createOrUpdateRoute", client.push({}))
    check_answer(document, "createOrUpdateRoute", client.post("/v1/routes", content=b" " * (2**20 + 1)))
    check_answer(
        document, "createOrUpdateRoute", client.post("/v1/routes", content=b"x", headers={"Content-Type": "text/plain"})
    )
    check_answer(document, "getRoute", client.get(path, headers={"If-None-Match": "*"}))
    check_answer(document, "getRoute", client.get("/v1/routes/x"))
    check_answer(document, "cancelRoute", client.delete("/v1/routes/x"))
    for status in sorted(STATUSES):
        put_in_status(client, created.json()["id"], status, plan=PLAN)
        check_answer(document, "getRoute", client.get(path))
        check_answer(document, "listRoutes", client.get("/v1/routes"))
    put_in_status(client, created.json()["id"], "active")
    check_answer(document, "createOrUpdateRoute", client.push(body))
    check_answer(document, "cancelRoute", client.delete(path))
    put_in_status(client, created.json()["id"], "draft")
    check_answer(document, "cancelRoute", client.delete(path))
    check_answer(document, "getMe", client.get("/v1/me"))
    for name in ("listRoutes", "listVehicles", "listDrivers"):
        check_answer(document, name, client.get(OPERATIONS[name][1]))
        check_answer(document, name, client.get(OPERATIONS[name][1], params={"limit": 0}))
        check_answer(document, name, client.get(OPERATIONS[name][1], headers={"If-None-Match": "*"}))
    check_answer(document, "listRoutes", client.get("/v1/routes", params={"updatedSince": now.isoformat()}))
    for name, (method, template, scope, *_) in OPERATIONS.items():
        where = template.format(id="x")
        check_answer(document, name, anonymous.request(method, where))
        if scope is not None:
            check_answer(document, name, unscoped.request(method, where))


@pytest.mark.parametrize(
    "path",
    [
        "/v1/openapi.json",
        "/v1/me",
        "/v1/nothing",
        "/nothing",
        "/healthz",
        "/readyz",
        "/metrics",
        "/telematics/positions",
    ],
)
def test_every_answer_has_a_request_id(anonymous: httpx.Client, path: str) -> None:
    """X-Request-Id stands on every answer, whatever the address."""
    assert anonymous.get(path).headers["X-Request-Id"]
