"""The request log of real processes: what gets into it, and that it costs nobody a request."""

import asyncio
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest
from prometheus_client import REGISTRY
from psycopg_pool import PoolTimeout

from domain.accounts.keys import Caller
from domain.database.connections import Database
from domain.ids import new_id, shown_id
from domain.lifecycle import Environment
from domain.requests.log import Entry
from domain.requests.search import LoggedRequest, RequestSearch, search_requests
from domain.settings import Settings
from ingress.api import request_log
from ingress.api.access import AuthResult
from ingress.api.request import REQUEST, Answer, Request
from ingress.api.request_log import RequestLog
from ingress.http.problems import ApiError, document_of
from tests.factories import route_body
from tests.service import Client, Service, eventually


def logged(database: Database, company_id: UUID, **wanted: Any) -> list[LoggedRequest]:
    with database.transaction() as connection:
        return search_requests(connection, company_id, RequestSearch(**wanted), limit=100).requests


def of(client: Client, count: int, **wanted: Any) -> list[LoggedRequest]:
    """A client's requests, oldest first, once there are so many. On an idle machine that takes a second."""
    return eventually(
        lambda: logged(client.service.database, client.fleet.company_id, **wanted)[::-1],
        lambda found: len(found) >= count,
        wanted=f"{count} entries",
    )


def test_each_request_of_a_key_is_logged_and_another_company_sees_none(client: Client, service: Service) -> None:
    before = datetime.now(UTC)
    body = {**route_body(before), "driver": {"name": "Ann Lee", "phone": "555-1234"}}
    pushed = client.push(body)
    route_id = pushed.json()["id"]
    client.get(f"/v1/routes/{route_id}", headers={"X-Request-Id": "mine-1"})
    client.get("/v1/routes", params={"externalId": body["externalId"], "page": 2})
    client.get("/v1/drivers", params={"name": "Ann", "limit": "many"})
    refused = client.push({**body, "driver": {"name": ""}, "stops": []})
    client.delete("/v1/routes/rte_nothing")
    client.get("/v1/nothing/at/Ann")
    found = of(client, 7)

    assert [(one.method, one.path, one.status, one.code) for one in found] == [
        ("POST", "/v1/routes", 201, None),
        ("GET", "/v1/routes/{id}", 200, None),
        ("GET", "/v1/routes", 200, None),
        ("GET", "/v1/drivers", 400, "validation_error"),
        ("POST", "/v1/routes", 400, "validation_error"),
        ("DELETE", "/v1/routes/{id}", 404, "not_found"),
        ("GET", "(none)", 404, "not_found"),
    ]
    push, get, listing, drivers, bad, missing, nothing = found
    assert {one.key_id for one in found} == {client.key_id}
    assert all(one.milliseconds > 0 for one in found)
    assert before - timedelta(milliseconds=1) < push.at <= datetime.now(UTC), "an id knows whole milliseconds"
    assert push.shown_request_id == pushed.headers["x-request-id"] == push.id.hex
    assert get.shown_request_id == "mine-1"
    assert (push.subject, get.subject, listing.subject) == (body["externalId"], route_id, body["externalId"])
    assert (missing.subject, nothing.subject) == (None, None)
    assert push.size == len(pushed.request.content)
    sent = json.loads(push.sent or "")
    assert sent["driver"] == {"name": "*** a string", "***": "1 other field"}
    assert sent["vehicle"] == body["vehicle"]
    assert listing.sent is None, "one that succeeded is kept as it was sent in a minute: the push was"
    assert json.loads(drivers.sent or "") == {"limit": "many", "name": "*** a string"}
    assert drivers.faults == "limit: Expected a whole number"
    assert [line.partition(":")[0] for line in (bad.faults or "").splitlines()] == ["driver.name", "stops"]
    assert refused.json()["errors"][1]["message"] in (bad.faults or "")

    with service.new_tenant() as other:
        other.get("/v1/me")
        (own,) = of(other, 1)
        assert own.company_id == other.fleet.company_id
        for text in (body["externalId"], route_id, "mine-1", push.id.hex):
            assert logged(service.database, other.fleet.company_id, text=text) == []
            assert logged(service.database, client.fleet.company_id, text=text) != []
        assert logged(service.database, other.fleet.company_id, key_id=client.key_id) == []


def test_a_request_without_a_valid_key_is_not_logged(client: Client, database: Database) -> None:
    other = "y" if client.key.endswith("x") else "x"
    client.get("/v1/me", headers={"Authorization": f"Bearer {client.key[:-1]}{other}"})
    client.get("/v1/me", headers={"Authorization": ""})
    client.get("/healthz")
    client.get("/v1/me")
    assert [one.path for one in of(client, 1)] == ["/v1/me"]


@pytest.mark.parametrize(
    "body",
    [
        b"\xff\xfe\xfd",
        b'{"externalId": "\x00"}',
        b'{"externalId": "\\u0000"}',
        b'{"externalId": "\\ud800"}',
        b"[" * 100_000,
        b'{"externalId": "a\\tb\\\\.\\n\\\\N", "driver": {"name": "\\\\"}}',
        b'{"externalId": ' + b"9" * 10_000 + b"}",
        b'{"x": "' + b"y" * 1_000_000 + b'"}',
        b"{}" + b" " * (1 << 20),
        b"\\.\n",
        b"",
    ],
)
def test_a_hostile_body_is_refused_and_logged(client: Client, body: bytes) -> None:
    answer = client.post("/v1/routes", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code in (400, 413), answer.text
    assert client.get("/v1/me").status_code == 200
    found = of(client, 2)
    assert [one.status for one in found] == [answer.status_code, 200]
    assert found[0].shown_request_id == answer.headers["x-request-id"]


def test_requests_with_hostile_heads_are_logged(client: Client) -> None:
    for path in ("/v1/routes?externalId=%00%FF%5C%09", "/v1/routes?%ff=%ff&status=%00", f"/v1/routes/{'%5Ct' * 300}"):
        assert client.get(path).status_code in (200, 400, 404), path
    client.request("PROPFIND", "/v1/routes")
    assert [one.status for one in of(client, 4)][-1] == 405


def test_an_unknown_method_is_logged_as_it_was_sent(client: Client) -> None:
    methods = ["BREW", "X-'$`|~", "PROPFIND", "M" * 64, "UNLINK"]
    for method in methods:
        assert client.request(method, "/v1/me").status_code == 405, method
    assert client.request("M" * 65, "/v1/me").status_code == 400
    assert [one.method for one in of(client, len(methods))] == methods


def test_requests_are_found_by_external_id_and_by_route_id(client: Client) -> None:
    body = route_body(datetime.now(UTC))
    route_id = client.push(body).json()["id"]
    client.get(f"/v1/routes/{route_id}")
    client.get("/v1/me")
    of(client, 3)
    for text in (body["externalId"], route_id):
        assert {one.path for one in of(client, 2, text=text)} == {"/v1/routes", "/v1/routes/{id}"}


# --- The writer --------------------------------------------------------------------------------------------------

ANSWERED = Answer(201)


def counted(outcome: str) -> float:
    return REGISTRY.get_sample_value("fuelroute_request_log_entries_total", {"outcome": outcome}) or 0.0


def request_of(caller: Caller | None, *, body: bytes = b"") -> Request:
    async def receive() -> Any:
        raise AssertionError("nobody reads")

    scope: dict[str, Any] = {"type": "http", "method": "POST", "path": "/v1/routes", "query_string": b"", "headers": []}
    request = scope[REQUEST] = Request(scope, receive)
    request.auth_result = AuthResult(caller, None)
    request.received = body
    return request


def any_caller() -> Caller:
    return Caller(new_id(), new_id(), Environment.LIVE, frozenset())


def entries_of(log: RequestLog) -> list[Entry]:
    return list(log._entries)


@pytest.fixture
def away(settings: Settings) -> Settings:
    """PostgreSQL is not there."""
    return settings.model_copy(
        update={"database_url": "postgresql://fuelroute@127.0.0.1:9/fuelroute", "database_timeout_seconds": 0.05}
    )


def run(settings: Settings, work: Callable[[RequestLog], Any]) -> None:
    async def working() -> None:
        async with RequestLog(settings) as log:
            outcome = work(log)
            if asyncio.iscoroutine(outcome):
                await outcome

    asyncio.run(working())


def stored(database: Database, caller: Caller) -> list[tuple[Any, ...]]:
    with database.transaction() as connection:
        return connection.execute(
            "SELECT subject, times FROM request_log WHERE key_id = %s ORDER BY id", (caller.key_id,)
        ).fetchall()


def note(log: RequestLog, caller: Caller, number: int = 0, *, status: int = 201) -> None:
    body = json.dumps({"externalId": f"LOAD-{number}"}).encode()
    log.note(request_of(caller, body=body), "/v1/routes", status, 0.001, ANSWERED)


def test_a_full_buffer_drops_the_oldest_and_counts(away: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_log, "_MOST_ENTRIES", 20)
    before = counted("dropped")

    async def work(log: RequestLog) -> None:
        for number in range(30):
            note(log, any_caller(), number)
        assert counted("dropped") - before == 10
        async with asyncio.timeout(120):
            await log.write()  # PostgreSQL is away
        note(log, any_caller(), 30)
        assert [json.loads(one.body)["externalId"] for one in entries_of(log)] == [f"LOAD-{n}" for n in range(11, 31)]
        assert counted("dropped") - before == 11
        assert log._held == sum(one.held for one in entries_of(log))

    run(away, work)


def test_bodies_that_wait_are_bounded(away: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_log, "_MOST_HELD", 100)

    def work(log: RequestLog) -> None:
        for _ in range(3):
            log.note(request_of(any_caller(), body=b"x" * 40), "/v1/routes", 400, 0.001, ANSWERED)
        assert [(len(one.body), one.size) for one in entries_of(log)] == [(40, 40), (40, 40), (0, 40)]

    run(away, work)


def test_entries_that_could_not_be_written_are_written_when_postgres_is_back(
    settings: Settings, database: Database
) -> None:
    caller = any_caller()

    async def work(log: RequestLog) -> None:
        pool = log._database._pool
        with pytest.MonkeyPatch.context() as away:
            away.setattr(log._database, "_pool", _Away(pool))
            note(log, caller, 1)
            await log.write()
            note(log, caller, 2)
            assert stored(database, caller) == []
        async with asyncio.timeout(180):
            while not stored(database, caller):
                await asyncio.sleep(0.1)

    run(settings, work)
    assert stored(database, caller) == [("LOAD-1", 1), ("LOAD-2", 1)]


def test_entries_whose_commit_had_no_answer_take_no_others_with_them(settings: Settings, database: Database) -> None:
    caller, before = any_caller(), counted("dropped")

    async def work(log: RequestLog) -> None:
        execute = log._database.execute

        async def without_answer(*arguments: Any) -> None:
            await execute(*arguments)
            raise psycopg.OperationalError("the connection broke")

        with pytest.MonkeyPatch.context() as broken:
            broken.setattr(log._database, "execute", without_answer)
            note(log, caller, 1)
            await log.write()
        note(log, caller, 2)
        await log.write()

    run(settings, work)
    assert stored(database, caller) == [("LOAD-1", 1), ("LOAD-2", 1)]
    assert counted("dropped") == before


class _Away:
    """A pool that has no connection to give."""

    def __init__(self, pool: Any) -> None:
        self.close = pool.close

    def connection(self, **_: Any) -> Any:
        raise PoolTimeout("nobody is there")


def test_the_last_entries_are_written_when_the_process_stops(settings: Settings, database: Database) -> None:
    caller = any_caller()

    def work(log: RequestLog) -> None:
        for number in range(1_200):
            note(log, caller, number)

    run(settings, work)
    assert len(stored(database, caller)) == 600, "as many as the rate limit lets through in a minute"


def test_requests_beyond_the_rate_limit_are_one_entry(settings: Settings, database: Database) -> None:
    caller, other = any_caller(), any_caller()
    refused = Answer(429, document_of(ApiError("rate_limited", "-")))

    async def work(log: RequestLog) -> None:
        for _ in range(40):
            log.note(request_of(caller), "/v1/routes", 429, 0.001, refused)
        log.note(request_of(other), "/v1/routes", 429, 0.001, refused)
        await log.write()
        log.note(request_of(caller), "/v1/routes", 429, 0.001, refused)

    run(settings, work)
    assert stored(database, caller) == [(None, 40), (None, 1)]
    assert stored(database, other) == [(None, 1)]


def test_the_request_log_can_be_turned_off(settings: Settings, database: Database) -> None:
    caller = any_caller()

    def work(log: RequestLog) -> None:
        note(log, caller)
        assert entries_of(log) == []

    run(settings.model_copy(update={"request_log_days": 0}), work)
    assert stored(database, caller) == []


def test_a_request_that_was_broken_off_is_logged(settings: Settings, database: Database) -> None:
    caller = any_caller()
    run(settings, lambda log: log.note(request_of(caller), "/v1/routes", 499, 0.001, None))
    assert len(stored(database, caller)) == 1
    assert shown_id("key", caller.key_id).startswith("key_")
