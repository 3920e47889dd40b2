"""A client of the last release goes on working: the API only grows. The description of the last release is stored, and
any incompatible change from it to today's fails here."""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ingress.api.openapi import describe
from tests.contract.compatibility import breaks

Json = dict[str, Any]
Change = Callable[[Json], object]

RELEASED: Json = json.loads(Path(__file__).with_name("openapi-1.0.0.json").read_text(encoding="utf-8"))


def test_the_api_breaks_no_client_of_the_last_release() -> None:
    assert breaks(RELEASED, describe()) == []


def operation(document: Json, method: str = "get", path: str = "/v1/routes") -> Json:
    return dict(document["paths"][path])[method]  # type: ignore[no-any-return]


def schema(document: Json, name: str) -> Json:
    return document["components"]["schemas"][name]  # type: ignore[no-any-return]


def field(document: Json, shape: str, name: str) -> Json:
    return schema(document, shape)["properties"][name]  # type: ignore[no-any-return]


def parameter(document: Json, name: str) -> Json:
    (found,) = (one for one in operation(document)["parameters"] if one["name"] == name)
    return found  # type: ignore[no-any-return]


BREAKING: dict[str, tuple[Change, str]] = {
    "path": (lambda d: d["paths"].pop("/v1/me"), "GET /v1/me: the operation is gone"),
    "operation": (lambda d: d["paths"]["/v1/routes/{id}"].pop("delete"), "the operation is gone"),
    "operation id": (lambda d: operation(d).update(operationId="routes"), "another operationId"),
    "security": (lambda d: d.update(security=[]), "another way to authenticate"),
    "parameter": (lambda d: operation(d)["parameters"].remove(parameter(d, "limit")), "limit: the parameter is gone"),
    "required parameter": (lambda d: parameter(d, "from").update(required=True), "from: the parameter is required now"),
    "new required parameter": (
        lambda d: operation(d)["parameters"].append({"name": "a", "in": "query", "required": True, "schema": {}}),
        "a: a new parameter is required",
    ),
    "maximum of a parameter": (
        lambda d: parameter(d, "limit")["schema"].update(maximum=50),
        "limit: maximum was 100 and is 50",
    ),
    "default of a parameter": (
        lambda d: parameter(d, "limit")["schema"].update(default=50),
        "limit: the default was 25 and is 50",
    ),
    "media type of a body": (
        lambda d: operation(d, "post")["requestBody"]["content"].pop("application/json"),
        "bodies of application/json are not taken any more",
    ),
    "status": (lambda d: operation(d, "post")["responses"].pop("202"), "the status 202 is gone"),
    "new status": (lambda d: operation(d)["responses"].update({"422": {}}), "the status 422 is new"),
    "header": (
        lambda d: d["components"]["responses"]["rate_limited"]["headers"].pop("Retry-After"),
        "429: the header Retry-After is gone",
    ),
    "field of a body": (
        lambda d: schema(d, "RouteInput")["properties"].pop("reference"),
        "reference: the field is gone",
    ),
    "required field of a body": (
        lambda d: schema(d, "RouteInput")["required"].append("reference"),
        "RouteInput.reference: the field is required now",
    ),
    "length in a body": (
        lambda d: field(d, "RouteInput", "externalId").update(maxLength=100),
        "maxLength was 200 and is 100",
    ),
    "items in a body": (lambda d: field(d, "RouteInput", "stops").update(maxItems=40), "maxItems was 50 and is 40"),
    "new limit of a body": (lambda d: field(d, "RouteStopInput", "name").update(minLength=3), "minLength was"),
    "type in a body": (
        lambda d: field(d, "RouteInput", "externalId").update(type="integer"),
        "not taken any more: string",
    ),
    "null in a body": (
        lambda d: field(d, "RouteInput", "reference").update(anyOf=[{"type": "string", "maxLength": 200}]),
        "RouteInput.reference: alternative 2 is not taken any more",
    ),
    "condition of a body": (lambda d: schema(d, "VehicleRef")["anyOf"].pop(), "alternative 2 is not taken any more"),
    "unknown fields": (lambda d: schema(d, "RouteInput").update(additionalProperties=False), "are refused now"),
    "field of an answer": (lambda d: schema(d, "Route")["properties"].pop("name"), "Route.name: the field is gone"),
    "optional field of an answer": (
        lambda d: schema(d, "Route")["required"].remove("name"),
        "Route.name: the field may be missing now",
    ),
    "type in an answer": (
        lambda d: field(d, "Route", "name").update(type=["string", "null"]),
        "answers may now be null",
    ),
    "null in an answer": (
        lambda d: schema(d, "Route")["properties"].update(name={"anyOf": [{"type": "string"}, {"type": "null"}]}),
        "answers may now be any type",
    ),
    "new value in an answer": (
        lambda d: schema(d, "RouteStatus")["enum"].append("paused"),
        "answers may now be paused",
    ),
    "value in a request": (
        lambda d: schema(d, "RouteStatus")["enum"].remove("draft"),
        "not taken any more: draft",
    ),
}


@pytest.mark.parametrize(("change", "told"), BREAKING.values(), ids=BREAKING)
def test_a_change_that_breaks_clients_is_found(change: Change, told: str) -> None:
    changed = copy.deepcopy(RELEASED)
    change(changed)

    assert any(told in sentence for sentence in breaks(RELEASED, changed)), breaks(RELEASED, changed)


ADDING: dict[str, Change] = {
    "path": lambda d: d["paths"].update({"/v1/trips": d["paths"]["/v1/me"]}),
    "optional parameter": lambda d: operation(d)["parameters"].append({"name": "a", "in": "query", "schema": {}}),
    "wider parameter": lambda d: parameter(d, "limit")["schema"].update(maximum=500),
    "optional field of a body": lambda d: schema(d, "RouteInput")["properties"].update(color={"type": "string"}),
    "wider field of a body": lambda d: field(d, "RouteInput", "externalId").update(maxLength=300),
    "condition of a body": lambda d: schema(d, "VehicleRef")["anyOf"].append({"required": ["plate"]}),
    "field of an answer": lambda d: schema(d, "Route")["properties"].update(color={"type": "string"}),
    "certain field of an answer": lambda d: schema(d, "Problem")["required"].append("type"),
    "fewer values of an answer": lambda d: field(d, "Route", "environment").update(enum=["live"]),
    "description": lambda d: operation(d).update(summary="All routes", description="More words."),
    "deprecation": lambda d: operation(d).update(deprecated=True),
}


@pytest.mark.parametrize("change", ADDING.values(), ids=ADDING)
def test_a_change_that_adds_is_compatible(change: Change) -> None:
    changed = copy.deepcopy(RELEASED)
    change(changed)

    assert changed != RELEASED
    assert breaks(RELEASED, changed) == []
