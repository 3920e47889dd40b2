"""A company that is moved: requests are answered 429, which clients repeat, and never 401, after which they stop."""

from datetime import UTC, datetime, timedelta

import httpx

from domain.accounts.keys import create_key
from domain.contract.shapes import SCOPES
from domain.database import fence
from domain.lifecycle import Environment
from tests.factories import DOT, route_body
from tests.service import Client


def test_a_pause_is_429_with_the_headers_of_the_contract(client: Client) -> None:
    body = route_body(datetime.now(UTC) + timedelta(hours=1))
    assert client.push(body).status_code == 201
    company_id = client.fleet.company_id
    with client.service.database.transaction() as connection:
        fence.begin_copying(connection, company_id, to_cell=2)
    assert client.push(body).status_code == 200
    with client.service.database.transaction() as connection:
        fence.pause_company(connection, company_id, holds=timedelta(seconds=60))
    for closes in (False, True):
        if closes:
            with client.service.database.transaction() as connection:
                fence.close_fence(connection, company_id)
        fixes = client.post_fixes({"latitude": 1, "longitude": 1})
        for answer in (client.push(body), client.get("/v1/me"), client.get("/v1/routes"), fixes):
            assert answer.status_code == 429, answer.text
            assert answer.json()["code"] == "rate_limited"
            assert answer.headers["retry-after"] == "2"
            assert answer.headers["x-ratelimit-remaining"] == "0"
    with client.service.database.transaction() as connection:
        fence.resume_company(connection, company_id)
        fence.forget_move(connection, company_id)
    assert client.push(body).status_code == 200


def test_a_key_that_another_cell_made_is_unknown_here_or_known(client: Client, anonymous: httpx.Client) -> None:
    def me(key: str) -> httpx.Response:
        return anonymous.get("/v1/me", headers={"Authorization": f"Bearer {key}"})

    stranger, unknown = me("svc_live_c2_" + "x" * 40), me("svc_live_" + "x" * 40)
    assert stranger.status_code == unknown.status_code == 401
    assert stranger.json() == unknown.json()
    with client.service.database.transaction() as connection:  # as of a company that came from cell 2
        made = create_key(
            connection,
            client.fleet.company_id,
            DOT,
            name="c2",
            environment=Environment.LIVE,
            scopes=list(SCOPES),
            cell=2,
        )
    assert made.key.startswith("svc_live_c2_")
    assert me(made.key).json()["key"]["prefix"] == made.key[: len("svc_live_c2_") + 8]
