"""Whoever asks, an id or a name of another company or environment is answered as one that never existed. hypothesis
draws the operation of the OpenAPI document, the caller, and whose id it is."""

import re
from datetime import UTC, datetime
from typing import Any, NamedTuple
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from domain.ids import new_id
from domain.lifecycle import Environment
from ingress.api.openapi import describe
from tests.contract.checks import accepted
from tests.contract.conftest import Clients
from tests.factories import route_body
from tests.repeatable import examples
from tests.service import Client

OPERATIONS = [
    (path, method, [one["name"] for one in operation.get("parameters", ())])
    for path, item in describe()["paths"].items()
    for method, operation in item.items()
    if method != "parameters"
]

_ID = re.compile(r"\b[a-z]{3}_[0-9a-f]{32}\b")
_CREATED_AT = re.compile(r'"createdAt": ?"[^"]+"')


class Tenant(NamedTuple):
    client: Client
    own: dict[str, str]
    """Ids and names that only this company and environment has, by kind."""
    of_fleet: dict[str, str]
    """Ids and names that only this company has."""


@pytest.fixture
def tenants(clients: Clients) -> list[Tenant]:
    """Two companies, each in both environments."""
    found = []
    for _ in range(2):
        live = clients.tenant()
        names = {"unitNumber": uuid4().hex, "vin": uuid4().hex[:17].upper().translate(str.maketrans("IOQ", "XXX"))}
        people = {"name": f"Ann {uuid4().hex}", "externalId": uuid4().hex}
        with live.service.database.transaction() as connection:
            connection.execute(
                "UPDATE vehicles SET unit_number = %s, vin = %s WHERE id = %s", (*names.values(), live.fleet.trucks[0])
            )
            connection.execute(
                "UPDATE drivers SET name = %s, external_id = %s WHERE id = %s",
                (*people.values(), live.fleet.drivers[0]),
            )
        ids = {"veh": live.fleet.shown_trucks[0], "drv": live.fleet.shown_drivers[0]}
        for client in (live, clients.colleague(live, environment=Environment.SANDBOX)):
            body = route_body(datetime.now(UTC), externalId=uuid4().hex, reference=uuid4().hex)
            own = client.push({**body, "vehicle": {"unitNumber": names["unitNumber"]}, "driver": people})
            route = {"rte": accepted(own, 201)["id"], "load": body["externalId"], "reference": body["reference"]}
            found.append(
                Tenant(client, route, {**ids, **names, **{f"driver {key}": one for key, one in people.items()}})
            )
    return found


def unknown_like(kind: str, text: str) -> str:
    """An id or a name that nobody has."""
    return f"{kind}_{new_id().hex}" if len(kind) == 3 and kind != "vin" else uuid4().hex[: len(text)]


def answer_of(caller: Client, operation: tuple[str, str, list[str]], kind: str, text: str, load: str) -> Any:
    """Status, headers and body of the answer, without what each answer has of its own."""
    path, method, parameters = operation
    more: dict[str, Any] = {}
    if method == "post":
        more["json"] = body_of(kind, text, load)
    elif parameters:
        wanted = {"vehicleId": "veh", "externalId": "load"}
        more["params"] = {name: text for name in parameters if wanted.get(name) == kind}
        if "If-None-Match" in parameters:
            more = {"headers": {"If-None-Match": text}}
    answer = caller.request(method, path.replace("{id}", text), **more)
    body = _CREATED_AT.sub("", _ID.sub("ID", answer.text.replace(text, "TEXT").replace(load, "LOAD")))
    return answer.status_code, sorted(answer.headers), body


def body_of(kind: str, text: str, load: str) -> dict[str, Any]:
    """A push that names something by this text; it is a load of its own unless the text is its name."""
    given: dict[str, Any] = {"externalId": text if kind == "load" else load}
    if kind in ("unitNumber", "vin"):
        given["vehicle"] = {kind: text}
    elif kind.startswith("driver "):
        given["driver"] = {kind.removeprefix("driver "): text}
    elif kind == "reference":
        given["reference"] = text
    return route_body(START, **given)


START = datetime.now(UTC).replace(microsecond=0)


@settings(
    max_examples=examples(40),
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    operation=st.sampled_from(OPERATIONS),
    caller=st.integers(0, 3),
    other=st.integers(1, 3),
    kind=st.sampled_from(["rte", "load", "reference", "veh", "drv", "unitNumber", "vin", "driver name"]),
)
def test_an_id_or_name_of_another_company_or_environment_is_as_one_that_never_existed(
    tenants: list[Tenant], operation: tuple[str, str, list[str]], caller: int, other: int, kind: str
) -> None:
    own, whose = tenants[caller], tenants[(caller + other) % 4]
    same_company = own.client.fleet == whose.client.fleet
    foreign = whose.own.get(kind) or (None if same_company else whose.of_fleet[kind])
    if foreign is None:  # the fleet is of both environments
        return
    unknown = unknown_like(kind, foreign)
    answers = [answer_of(own.client, operation, kind, text, uuid4().hex) for text in (foreign, unknown)]
    assert answers[0] == answers[1]
    assert whose.client.route(whose.own["rte"])["status"] == "draft"
