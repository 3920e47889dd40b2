"""GET /v1/me: the key, its company and its rate limit."""

from datetime import UTC, datetime, timedelta

import httpx
import pytest

from domain.accounts.keys import create_key
from domain.contract.shapes import SCOPES
from domain.ids import shown_id
from domain.lifecycle import Environment
from tests.contract.conftest import Clients
from tests.factories import DOT
from tests.service import Client


def test_me_shows_the_key_its_company_and_the_limit(clients: Clients) -> None:
    """Me, every field."""
    client = clients.tenant(time_zone="America/Chicago")

    answer = client.get("/v1/me")

    assert answer.status_code == 200
    assert answer.headers["Content-Type"] == "application/json"
    me = answer.json()
    created_at = me["key"].pop("createdAt")
    assert me == {
        "company": {"id": client.fleet.shown_company_id, "name": "Acme", "timeZone": "America/Chicago"},
        "key": {
            "id": shown_id("key", client.key_id),
            "name": "test",
            "prefix": client.key[:17],
            "environment": "live",
            "scopes": sorted(SCOPES),
            "expiresAt": None,
        },
        "rateLimit": {"limit": 600, "window": "1m"},
    }
    assert created_at.endswith("Z")
    assert abs(datetime.fromisoformat(created_at) - datetime.now(UTC)) < timedelta(minutes=1)


@pytest.mark.parametrize("environment", list(Environment))
def test_me_shows_name_environment_scopes_and_expiry_of_the_key(
    client: Client, anonymous: httpx.Client, environment: Environment
) -> None:
    """Authentication 3: a name, an environment, the scopes and an optional expiry."""
    expires_at = datetime(2099, 1, 1, tzinfo=UTC)
    with client.service.database.transaction() as connection:
        made = create_key(
            connection,
            client.fleet.company_id,
            DOT,
            name="Nightly sync – «TMS»",
            environment=environment,
            scopes=["routes:write", "routes:read"],
            expires_at=expires_at,
        )

    key = anonymous.get("/v1/me", headers={"Authorization": f"Bearer {made.key}"}).json()["key"]

    assert key["name"] == "Nightly sync – «TMS»"
    assert key["environment"] == environment.value
    assert key["scopes"] == ["routes:read", "routes:write"]
    assert key["expiresAt"] == "2099-01-01T00:00:00Z"
    assert made.key.startswith(key["prefix"])
    assert len(key["prefix"]) < len(made.key) / 2


def test_a_company_without_a_time_zone_of_its_own_is_in_utc(client: Client) -> None:
    """company.timeZone is never null."""
    assert client.get("/v1/me").json()["company"]["timeZone"] == "UTC"


def test_me_ignores_parameters_and_a_body(client: Client) -> None:
    """GET /v1/me: no parameters, no body."""
    plain = client.get("/v1/me").json()

    assert client.get("/v1/me", params={"limit": "x"}).json() == plain
    assert client.request("GET", "/v1/me", content=b"no JSON").json() == plain
