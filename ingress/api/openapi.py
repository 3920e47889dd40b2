"""The description of the API, OpenAPI 3.1, made from the shapes that check the bodies."""

from collections.abc import Mapping, Sequence
from importlib import metadata
from inspect import cleandoc
from typing import Any

import msgspec

from domain.contract import shapes
from domain.contract.shapes import (
    API_VERSION,
    RATE_LIMIT_REQUESTS,
    DriverList,
    DriverQuery,
    Me,
    Problem,
    Route,
    RouteInput,
    RouteList,
    RouteQuery,
    VehicleList,
    VehicleQuery,
)
from domain.previews.shapes import LoadPreview, PreviewInput
from ingress.http.problems import KINDS, PROBLEM_TYPE

Json = dict[str, Any]

_REF = "#/components/schemas/{name}"

ROUTE_EXAMPLE: Json = {
    "externalId": "LOAD-4711",
    "reference": "PO-88120",
    "vehicle": {"unitNumber": "4101"},
    "driver": {"name": "Maria Villanueva"},
    "scheduledStart": "2026-12-01T08:00:00-06:00",
    "stops": [
        {
            "name": "Joliet intermodal terminal",
            "address": "3000 Centerpoint Way, Joliet, IL",
            "latitude": 41.462,
            "longitude": -88.125,
        },
        {
            "name": "Port Newark",
            "latitude": 40.695,
            "longitude": -74.155,
            "arrivalWindow": {"start": "2026-12-02T08:00:00-05:00", "end": "2026-12-02T12:00:00-05:00"},
        },
    ],
}


PREVIEW_EXAMPLE: Json = {
    "stops": [{"town": "Joliet, IL"}, {"town": "Newark, NJ"}],
    "scheduledStart": "2026-12-01T08:00:00-06:00",
    "vehicle": {"unitNumber": "4101", "fuelPercent": 40},
    "policy": {"reservePercent": 12, "stopCost": 15},
}


def describe() -> Json:
    """The whole document of `/v1`."""
    scopes = {scope: meaning for scope, meaning in shapes.SCOPES.items() if scope not in shapes.OWN_SCOPES}
    info = {
        "title": "Dispatch Route and Fuel Plan API",
        "summary": "Push dispatch routes; read back routes, fuel plans, vehicles and drivers.",
        "description": "Every request carries `Authorization: Bearer <API_KEY>`. A key belongs to one company and "
        "one environment, `live` or `sandbox`, and only sees that data. Errors are RFC 9457 problem documents; "
        f"branch on `code`. The rate limit is {RATE_LIMIT_REQUESTS} requests per minute and key. Guides with "
        "examples are at [/docs](/docs). `x-build` is the build that answers.",
    }
    return _document(info, scopes, _paths(), _schemas(), list(KINDS))


def describe_planning() -> Json:
    """The document of `/planning`, which is no part of `/v1`."""
    info = {
        "title": "Load Preview",
        "summary": "Preview the fuel of a load before anybody takes it. Nothing is stored.",
        "description": "It takes the keys of the API with the scope `plans:preview`, and has a rate limit of its own: "
        "`X-RateLimit-Limit` and `X-RateLimit-Remaining` are of previews alone. Errors are those of the API. The guide "
        "with examples is at [/docs/previews](/docs/previews). `x-build` is the build that answers.",
    }
    scopes = {"plans:preview": shapes.SCOPES["plans:preview"]}
    preview = _operation(
        "previewLoad",
        "Preview the fuel of a load",
        "plans:preview",
        {"200": _json("The plan of the load, its cost by state and by mile, and what was assumed.", LoadPreview)},
        errors=("validation_error", "not_found", "method_not_allowed", "content_too_large", "unsupported_media_type"),
        description="Give `stops`, or a `routeId`. The body of a pushed route is a valid one.",
        body=PreviewInput,
        examples={"load": {"value": PREVIEW_EXAMPLE}},
    )
    codes = [code for code in KINDS if code != "route_active"]
    return _document(info, scopes, {"/planning/preview": {"post": preview}}, _preview_schemas(), codes)


def _document(info: Json, scopes: Mapping[str, str], paths: Json, schemas: Json, codes: Sequence[str]) -> Json:
    return {
        "openapi": "3.1.0",
        "info": {"version": API_VERSION, "x-build": metadata.version("fuelroute"), **info},
        "servers": [{"url": "/"}],
        "security": [{"apiKey": []}],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "responses": {code: _problem_response(code) for code in codes},
            "headers": _headers(),
            "securitySchemes": {
                "apiKey": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "`svc_live_…` or `svc_test_…`. Scopes: "
                    + "; ".join(f"`{scope}`: {meaning}" for scope, meaning in scopes.items()),
                }
            },
        },
    }


def _paths() -> Json:
    me = {"200": _json("The key, its company and its rate limit.", Me)}
    return {
        "/v1/me": {"get": _operation("getMe", "Verify a key", None, me)},
        "/v1/routes": _routes(),
        "/v1/routes/{id}": _one_route(),
        "/v1/vehicles": {
            "get": _listing("listVehicles", "List vehicles", "vehicles:read", VehicleList, VehicleQuery),
        },
        "/v1/drivers": {
            "get": _listing("listDrivers", "List drivers", "drivers:read", DriverList, DriverQuery),
        },
    }


def _routes() -> Json:
    return {
        "post": _operation(
            "createOrUpdateRoute",
            "Push a route",
            "routes:write",
            {
                "201": _json("Created; vehicle and driver matched at once.", Route),
                "200": _json("The externalId already existed; the route was updated.", Route),
                "202": _json("Accepted and held; `pending` says why. Nothing needs to be resent.", Route),
            },
            errors=("validation_error", "content_too_large", "unsupported_media_type", "route_active"),
            description="Idempotent by `externalId`.",
            body=RouteInput,
        ),
        "get": _listing(
            "listRoutes", "List routes, newest scheduled start first", "routes:read", RouteList, RouteQuery
        ),
    }


def _one_route() -> Json:
    route_id = {
        "name": "id",
        "in": "path",
        "required": True,
        "description": "The route id returned on push.",
        "schema": {"type": "string"},
    }
    return {
        "parameters": [route_id],
        "get": _operation(
            "getRoute",
            "Read a route and its fuel plan",
            "routes:read",
            _tagged(_json("The route as it is now.", Route)),
            errors=("not_found",),
            parameters=[_IF_NONE_MATCH],
        ),
        "delete": _operation(
            "cancelRoute",
            "Cancel a route",
            "routes:write",
            {"204": {"description": "Canceled.", "headers": _rate_headers()}},
            errors=("not_found", "route_active"),
        ),
    }


def _listing(name: str, summary: str, scope: str, page: type[msgspec.Struct], query: type[msgspec.Struct]) -> Json:
    return _operation(
        name,
        summary,
        scope,
        _tagged(_json("One page.", page)),
        errors=("validation_error",),
        parameters=[*_query_parameters(query), _IF_NONE_MATCH],
    )


_IF_NONE_MATCH: Json = {
    "name": "If-None-Match",
    "in": "header",
    "required": False,
    "description": "The `ETag` of an earlier answer: 304 when nothing has changed.",
    "schema": {"type": "string"},
}


def _tagged(answer: Json) -> Json:
    """The answers of a read, with its tag, or 304 for a caller who names that tag."""
    headers = {**answer["headers"], "ETag": {"$ref": "#/components/headers/ETag"}}
    return {
        "200": {**answer, "headers": headers},
        "304": {"description": "Not changed since the `ETag` in `If-None-Match`."},
    }


def _operation(
    name: str,
    summary: str,
    scope: str | None,
    answers: Json,
    *,
    errors: tuple[str, ...] = (),
    description: str | None = None,
    parameters: list[Json] | None = None,
    body: type[msgspec.Struct] | None = None,
    examples: Json | None = None,
) -> Json:
    needed = f"Scope: `{scope}`." if scope else "Any valid key."
    codes = [
        "unauthorized",
        *(["insufficient_scope"] if scope else []),
        *errors,
        "rate_limited",
        "internal_error",
    ]
    operation: Json = {
        "operationId": name,
        "summary": summary,
        "description": f"{description} {needed}" if description else needed,
        "responses": {
            **answers,
            **{str(KINDS[code].status): {"$ref": f"#/components/responses/{code}"} for code in codes},
        },
    }
    if parameters:
        operation["parameters"] = parameters
    if body is not None:
        operation["requestBody"] = {
            "required": True,
            "content": {
                "application/json": {
                    "schema": {"$ref": _REF.format(name=body.__name__)},
                    "examples": examples or {"route": {"value": ROUTE_EXAMPLE}},
                }
            },
        }
    return operation


def _json(description: str, shape: type[msgspec.Struct]) -> Json:
    return {
        "description": description,
        "headers": _rate_headers(),
        "content": {"application/json": {"schema": {"$ref": _REF.format(name=shape.__name__)}}},
    }


def _rate_headers() -> Json:
    return {
        name: {"$ref": f"#/components/headers/{name}"}
        for name in ("X-Request-Id", "X-RateLimit-Limit", "X-RateLimit-Remaining")
    }


def _headers() -> Json:
    integer = {"type": "integer", "minimum": 0}
    return {
        "X-Request-Id": {"description": "The request's id, as sent or made.", "schema": {"type": "string"}},
        "X-RateLimit-Limit": {"description": "Requests allowed in any minute.", "schema": integer},
        "X-RateLimit-Remaining": {"description": "Requests left now.", "schema": integer},
        "Link": {"description": "The page that tells the code's cause and cure.", "schema": {"type": "string"}},
        "Retry-After": {"description": "Seconds to wait.", "schema": {"type": "integer", "minimum": 1}},
        "WWW-Authenticate": {"description": "Always `Bearer`.", "schema": {"type": "string"}},
        "ETag": {"description": "Changes whenever the answer does.", "schema": {"type": "string"}},
    }


def _problem_response(code: str) -> Json:
    status, title = KINDS[code]
    headers = {name: {"$ref": f"#/components/headers/{name}"} for name in ("X-Request-Id", "Link")}
    if code == "rate_limited":
        headers |= {**_rate_headers(), "Retry-After": {"$ref": "#/components/headers/Retry-After"}}
    if code == "unauthorized":
        headers["WWW-Authenticate"] = {"$ref": "#/components/headers/WWW-Authenticate"}
    example: Json = {
        "type": "about:blank",
        "title": title,
        "status": status,
        "code": code,
        "detail": f"{title}.",
    }
    if code == "validation_error":
        example["errors"] = [{"field": "stops[1].latitude", "message": "Expected a number <= 90.0"}]
    return {
        "description": f"{title} (`{code}`).",
        "headers": headers,
        "content": {
            PROBLEM_TYPE: {
                "schema": {"$ref": _REF.format(name="Problem")},
                "examples": {code: {"value": example}},
            }
        },
    }


def _query_parameters(shape: type[msgspec.Struct]) -> list[Json]:
    schema = _components([shape])[shape.__name__]
    parameters = []
    for name, property_ in schema["properties"].items():
        kind = dict(property_)
        description = kind.pop("description", "")
        if "anyOf" in kind:  # in a query, null is leaving it out
            (some, _) = kind.pop("anyOf")
            kind |= some
        if kind.get("default", 0) is None:
            del kind["default"]
        parameters.append({"name": name, "in": "query", "required": False, "description": description, "schema": kind})
    return parameters


def _schemas() -> Json:
    schemas = _components([RouteInput, Me, Route, RouteList, VehicleList, DriverList, Problem])
    # Rules between fields, which the shapes check in code.
    schemas["VehicleRef"]["anyOf"] = [_given("unitNumber"), _given("vin")]
    schemas["DriverRef"]["anyOf"] = [_given("name"), _given("externalId")]
    schemas["Problem"]["properties"]["code"]["enum"] = list(KINDS)
    return schemas


def _preview_schemas() -> Json:
    schemas = _components([PreviewInput, LoadPreview, Problem])
    # Rules between fields, which the shapes check in code.
    schemas["PreviewInput"]["oneOf"] = [_given("stops", "array"), _given("routeId")]
    schemas["Problem"]["properties"]["code"]["enum"] = list(KINDS)
    return schemas


def _given(name: str, kind: str = "string") -> Json:
    return {"required": [name], "properties": {name: {"type": kind}}}


def _components(shapes: list[type[msgspec.Struct]]) -> Json:
    _, components = msgspec.json.schema_components(shapes, ref_template=_REF)
    for schema in components.values():
        if "description" in schema:  # a docstring, of which Python removes the indentation from 3.13 on
            schema["description"] = cleandoc(schema["description"])
    return components
