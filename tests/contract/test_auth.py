"""Authentication: keys, scopes, and the walls between companies and between environments."""

from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from domain.accounts.keys import create_key, revoke_key
from domain.contract.shapes import SCOPES
from domain.lifecycle import Environment
from tests.contract.checks import accepted, count_routes, problem
from tests.contract.conftest import Clients
from tests.factories import DOT, JOLIET, route_body
from tests.rows import named
from tests.service import Client

NO_ROUTE = "rte_" + "0" * 32
OPERATIONS = [
    ("GET", "/v1/me", None),
    ("POST", "/v1/routes", "routes:write"),
    ("GET", "/v1/routes", "routes:read"),
    ("GET", f"/v1/routes/{NO_ROUTE}", "routes:read"),
    ("DELETE", f"/v1/routes/{NO_ROUTE}", "routes:write"),
    ("GET", "/v1/vehicles", "vehicles:read"),
    ("GET", "/v1/drivers", "drivers:read"),
    ("POST", "/telematics/positions", "positions:write"),
]
operations = pytest.mark.parametrize(
    ("method", "path", "scope"), OPERATIONS, ids=[f"{m} {p}" for m, p, _ in OPERATIONS]
)


def refused(answer: httpx.Response) -> None:
    """401 as the contract has it, with the header that RFC 9110 asks for (decision 13)."""
    problem(answer, 401, "unauthorized")
    assert answer.headers["WWW-Authenticate"] == "Bearer"
    assert "X-RateLimit-Limit" not in answer.headers


def with_key(client: httpx.Client, authorization: str | bytes | None) -> httpx.Response:
    """GET /v1/me with that Authorization header."""
    headers = [] if authorization is None else [("Authorization", authorization)]
    return client.get("/v1/me", headers=headers)  # type: ignore[arg-type]


# --- keys ------------------------------------------------------------------------------------------------------


@operations
def test_every_operation_needs_a_key(anonymous: httpx.Client, method: str, path: str, scope: str | None) -> None:
    """Failures: 401 `unauthorized`, header missing."""
    refused(anonymous.request(method, path))


@operations
def test_every_operation_refuses_an_unknown_key(
    anonymous: httpx.Client, method: str, path: str, scope: str | None
) -> None:
    """Failures: 401 `unauthorized` comes before any look at the request itself."""
    key = "svc_live_" + "x" * 40
    refused(anonymous.request(method, path, headers={"Authorization": f"Bearer {key}"}, content=b"no JSON"))


@pytest.mark.parametrize(
    "authorization",
    [
        "",
        "Bearer",
        "{key}",
        "Basic {key}",
        "Token {key}",
        "Bearer: {key}",
        "Bearer{key}",
        "Bearer {key} {key}",
        "Bearer {key},",
        'Bearer "{key}"',
        "Bearer {short}",
        "Bearer {key}x",
        "Bearer {upper}",
        "Bearer svc_live_",
        "Bearer svc_live_{rest}\u00e9",
        "Bearer " + "x" * 5000,
        "Bearer svc_live_%00",
        "Bearer ' OR '1'='1",
    ],
)
def test_a_malformed_header_is_unauthorized(client: Client, anonymous: httpx.Client, authorization: str) -> None:
    """Failures: 401 `unauthorized`, header malformed."""
    text = authorization.format(key=client.key, short=client.key[:-1], upper=client.key.upper(), rest=client.key[9:-1])

    refused(with_key(anonymous, text.encode()))


@pytest.mark.parametrize("keys", [("{key}", "{key}"), ("{key}", "svc_live_x"), ("svc_live_x", "{key}")])
def test_two_authorization_headers_are_malformed(
    client: Client, anonymous: httpx.Client, keys: tuple[str, str]
) -> None:
    """Failures: 401 `unauthorized`, header malformed. A proxy may have looked at the other one."""
    headers = [("Authorization", f"Bearer {key.format(key=client.key)}") for key in keys]

    refused(anonymous.get("/v1/me", headers=headers))


def test_an_authorization_header_that_is_not_text_is_unauthorized(anonymous: httpx.Client) -> None:
    """Failures: 401 `unauthorized`, header malformed."""
    refused(with_key(anonymous, b"Bearer svc_live_\xff\xfe" + b"x" * 38))


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER", "bEaReR"])
def test_the_authorization_scheme_may_have_any_case(client: Client, anonymous: httpx.Client, scheme: str) -> None:
    """Decision 13: the scheme's case is free."""
    assert with_key(anonymous, f"{scheme} {client.key}").status_code == 200


def test_the_key_of_another_environment_s_prefix_is_unknown(client: Client, anonymous: httpx.Client) -> None:
    """Key formats: the prefix belongs to the key."""
    refused(with_key(anonymous, f"Bearer {client.key.replace('svc_live_', 'svc_test_')}"))


def test_keys_are_not_taken_from_the_query_a_cookie_or_another_header(client: Client, anonymous: httpx.Client) -> None:
    """Authentication 6: only in the Authorization header."""
    for name in ("api_key", "key", "access_token", "Authorization"):
        refused(anonymous.get("/v1/me", params={name: client.key}))
    refused(anonymous.get("/v1/me", headers={"X-API-Key": client.key}))
    refused(anonymous.get("/v1/me", headers={"Cookie": f"Authorization=Bearer {client.key}"}))


def test_revocation_takes_effect_immediately(client: Client, now: datetime) -> None:
    """Authentication 4 and decision 15: no cache outlives a revocation."""
    accepted(client.push(route_body(now)), 201)
    with client.service.database.transaction() as connection:
        assert revoke_key(connection, client.key_id, DOT)

    refused(client.push(route_body(now, externalId="LATER")))
    refused(client.push({}))
    for method, path, _ in OPERATIONS:
        refused(client.request(method, path))
    assert count_routes(client) == 1


def test_an_expired_key_is_unauthorized(client: Client, anonymous: httpx.Client) -> None:
    """Failures: 401 `unauthorized`, key expired; one that expires later is valid."""
    now = datetime.now(UTC)
    with client.service.database.transaction() as connection:
        expired, valid = (
            create_key(
                connection,
                client.fleet.company_id,
                DOT,
                name="partner",
                environment=Environment.LIVE,
                scopes=[],
                expires_at=now + remaining,
            ).key
            for remaining in (timedelta(seconds=-1), timedelta(minutes=5))
        )

    refused(with_key(anonymous, f"Bearer {expired}"))
    assert with_key(anonymous, f"Bearer {valid}").status_code == 200


def test_a_key_that_expires_after_it_was_used_is_refused_by_every_operation(client: Client, now: datetime) -> None:
    """Failures: 401 `unauthorized`, key expired, whichever statement reads the key."""
    route = accepted(client.push(route_body(now)), 201)
    path = f"/v1/routes/{route['id']}"
    tag = client.get(path).headers["ETag"]
    with client.service.database.transaction() as connection:
        connection.execute("UPDATE api_keys SET expires_at = now() WHERE id = %s", (client.key_id,))

    for method, operation, _ in OPERATIONS:
        refused(client.request(method, operation, json={}))
    refused(client.push(route_body(now)))
    refused(client.get(path, headers={"If-None-Match": tag}))
    refused(client.get("/v1/routes", params={"externalId": route["externalId"]}))
    refused(client.delete(path))
    assert count_routes(client) == 1


@pytest.mark.parametrize(
    ("environment", "prefix"), [(Environment.LIVE, "svc_live_"), (Environment.SANDBOX, "svc_test_")]
)
def test_keys_show_their_environment(clients: Clients, environment: Environment, prefix: str, now: datetime) -> None:
    """Key formats and environments: the prefix, the environment of the key and of its routes."""
    client = clients.tenant(environment)

    assert client.key.startswith(prefix)
    assert client.get("/v1/me").json()["key"]["environment"] == environment.value
    assert accepted(client.push(route_body(now)), 201)["environment"] == environment.value


# --- scopes ----------------------------------------------------------------------------------------------------


@operations
def test_every_operation_needs_its_scope_and_no_other(
    client: Client, clients: Clients, method: str, path: str, scope: str | None
) -> None:
    """Scopes: each endpoint's own; 403 `insufficient_scope` whose detail names the missing one; GET /v1/me none."""
    others = [name for name in SCOPES if name != scope]
    without = clients.colleague(client, *others)
    answer = without.request(method, path, json={})
    if scope is None:
        assert answer.status_code == 200
        return
    document = problem(answer, 403, "insufficient_scope")
    assert scope in document["detail"]

    alone = clients.colleague(client, scope).request(method, path, json={})

    assert alone.status_code not in (401, 403)


def test_me_needs_no_scope(client: Client, anonymous: httpx.Client) -> None:
    """Scopes: GET /v1/me needs no particular scope, not even one."""
    with client.service.database.transaction() as connection:
        made = create_key(
            connection, client.fleet.company_id, DOT, name="bare", environment=Environment.LIVE, scopes=[]
        )

    answer = with_key(anonymous, f"Bearer {made.key}")

    assert answer.status_code == 200
    assert answer.json()["key"]["scopes"] == []


def test_a_push_without_the_scope_stores_nothing(client: Client, clients: Clients, now: datetime) -> None:
    """Failures: 403 comes before the body is looked at."""
    reader = clients.colleague(client, "routes:read")
    assert reader.get("/v1/me").status_code == 200

    problem(reader.push(route_body(now)), 403, "insufficient_scope")
    for content, media_type in ((b"no JSON", "application/json"), (b"x" * 2**21, "x+json"), (b"{}", "text/plain")):
        answer = reader.post("/v1/routes", content=content, headers={"Content-Type": media_type})
        problem(answer, 403, "insufficient_scope")

    assert count_routes(client) == 0


def test_a_cancel_without_the_scope_changes_nothing(client: Client, clients: Clients, now: datetime) -> None:
    """Scopes: DELETE needs routes:write, reading does not give it."""
    route_id = accepted(client.push(route_body(now)), 201)["id"]

    problem(clients.colleague(client, "routes:read").delete(f"/v1/routes/{route_id}"), 403, "insufficient_scope")

    assert client.route(route_id)["status"] == "draft"


# --- walls -----------------------------------------------------------------------------------------------------


def sees_nothing(stranger: Client, owner: Client, route: dict[str, Any]) -> None:
    """Another's route is `not_found` everywhere, and stays as it is."""
    path = f"/v1/routes/{route['id']}"
    problem(stranger.get(path), 404, "not_found")
    problem(stranger.get(path, headers={"If-None-Match": owner.get(path).headers["ETag"]}), 404, "not_found")
    problem(stranger.get(path, headers={"If-None-Match": "*"}), 404, "not_found")
    problem(stranger.delete(path), 404, "not_found")
    for query in ({}, {"externalId": route["externalId"]}, {"vehicleId": route["vehicle"]["id"]}, {"status": "draft"}):
        page = stranger.get("/v1/routes", params=query).json()
        assert (page["data"], page["total"]) == ([], 0)
    assert owner.route(route["id"]) == route


def test_routes_of_another_company_are_not_found(client: Client, clients: Clients, now: datetime) -> None:
    """Errors, not_found: an id of another company is also `not_found`."""
    route = accepted(client.push(route_body(now)), 201)

    sees_nothing(clients.tenant(), client, route)


@pytest.mark.parametrize("environment", list(Environment))
def test_routes_of_the_other_environment_are_not_found(
    clients: Clients, now: datetime, environment: Environment
) -> None:
    """Authentication: sandbox keys act on a sandbox copy, live keys on the fleet, in both directions."""
    owner = clients.tenant(environment)
    (other,) = set(Environment) - {environment}
    stranger = clients.colleague(owner, environment=other)
    route = accepted(owner.push(route_body(now)), 201)

    sees_nothing(stranger, owner, route)


def test_vehicles_and_drivers_of_another_company_are_not_found(client: Client, clients: Clients, now: datetime) -> None:
    """A key belongs to one company and only sees that company's data."""
    stranger = clients.tenant()

    for path, own in (("/v1/vehicles", stranger.fleet.shown_trucks), ("/v1/drivers", stranger.fleet.shown_drivers)):
        page = stranger.get(path).json()
        assert [entry["id"] for entry in page["data"]] == own
        assert page["total"] == 2


def test_fleet_and_mappings_of_another_company_match_nothing(client: Client, clients: Clients, now: datetime) -> None:
    """Matching stays within the company: neither stored values nor mappings of another one count."""
    with client.service.database.transaction() as connection:
        connection.execute(
            "INSERT INTO mappings (company_id, kind, value, target_id) VALUES (%s, 'unit_number', 'OURS', %s)",
            (client.fleet.company_id, client.fleet.trucks[0]),
        )
        connection.execute("UPDATE vehicles SET unit_number = 'ALSO-OURS' WHERE id = %s", (client.fleet.trucks[1],))
    stranger = clients.tenant()

    for unit_number in ("OURS", "ALSO-OURS"):
        assert client.push(route_body(now, vehicle={"unitNumber": unit_number})).status_code == 201
        held = accepted(stranger.push(route_body(now, vehicle={"unitNumber": unit_number})), 202)
        assert held["pending"]["reason"] == "vehicle_unmapped"


def test_positions_of_another_company_s_vehicles_are_rejected(client: Client, clients: Clients) -> None:
    """The feed resolves vehicles within the company of the key, ids included."""
    stranger = clients.tenant()

    answer = stranger.post_fixes(JOLIET, unitNumber=None, vehicleId=client.fleet.shown_trucks[0], count=1)

    assert answer.status_code == 202
    assert answer.json()["accepted"] == 0


def test_both_environments_share_the_fleet(client: Client, clients: Clients) -> None:
    """Vehicles and drivers are the company's, read with a key of either environment."""
    sandbox = clients.colleague(client, environment=Environment.SANDBOX)

    for path in ("/v1/vehicles", "/v1/drivers"):
        assert sandbox.get(path).json() == client.get(path).json()


def test_keys_are_stored_as_a_hash_only(client: Client) -> None:
    """Authentication 4: the service stores only a hash."""
    with client.service.database.transaction() as connection:
        row = (
            named(connection)
            .execute("SELECT api_keys::text AS stored FROM api_keys WHERE id = %s", (client.key_id,))
            .fetchone()
        )
    assert row is not None
    assert client.key not in row.stored
    assert client.key[20:] not in row.stored
