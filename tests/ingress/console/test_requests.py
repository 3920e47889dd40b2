"""The pages Requests: the requests of a company's keys, who may see them, and nothing in them is markup."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from domain.accounts.keys import Caller
from domain.ids import shown_id
from domain.lifecycle import Role
from tests.domain.helpers import imported
from tests.domain.requests.entries import entry_of, new_caller, push_of, refusal, store
from tests.factories import Fleet, route_body
from tests.ingress.console.conftest import Fields, World, words
from tests.service import Service, eventually


def key_of(world: World, fleet: Fleet) -> Caller:
    with world.database.transaction() as connection:
        return new_caller(connection, fleet.company_id)


def test_the_page_shows_a_request_within_seconds(world: World, service: Service) -> None:
    with service.new_tenant() as client:
        body = {**route_body(datetime.now(UTC)), "driver": {"name": "Ann Lee"}, "notes": "gate 5"}
        pushed = client.push(body)
        refused = client.push({**body, "stops": []})
        browser = world.browser(Role.DISPATCHER, client.fleet)
        refused_id = refused.headers["x-request-id"]
        html = eventually(lambda: browser.look("/requests"), lambda html: refused_id in html)
        page = words(html)
        assert "POST /v1/routes" in page
        assert "stops: Expected" in page
        assert 'href="/requests" aria-current="page"' in html

        one = browser.look(f"/requests/{refused_id}")
        page = words(one)
        assert "The request is not valid" in page
        assert body["externalId"] in page
        assert "1 other field" in page
        assert "Ann Lee" not in page
        assert "gate 5" not in page
        assert f'href="/routes/{pushed.json()["id"]}"' in one

        assert "POST" in browser.look(f"/requests/{pushed.headers['x-request-id']}")
        world.browser(Role.OWNER).look(f"/requests/{pushed.headers['x-request-id']}", status=404)
        other = world.browser(Role.OWNER).look("/requests", q=body["externalId"])
        assert body["externalId"] not in other.replace(f'value="{body["externalId"]}"', ""), "only the field has it"


@pytest.mark.parametrize(
    ("role", "status"), [(Role.VIEWER, 403), (Role.DISPATCHER, 200), (Role.OWNER, 200), (Role.OPERATOR, 200)]
)
def test_only_some_roles_see_requests(world: World, role: Role, status: int) -> None:
    fleet = world.new_fleet()
    caller, entry = key_of(world, fleet), entry_of(push_of("LOAD-1"))
    entry.caller = caller
    with world.database.transaction() as connection:
        store(connection, [entry])
    browser = world.browser(role, fleet)
    if role is Role.OPERATOR:
        browser.look("/companies")
        browser.submit("/companies", company_id=fleet.shown_company_id)
    for path in ("/requests", f"/requests/{entry.id}"):
        html = browser.look(path, status=status)
        assert ("LOAD-1" in html) == (status == 200)
    assert ('href="/requests"' in browser.look("/routes")) == (status == 200)


def test_requests_are_filtered_and_paged(world: World) -> None:
    fleet, now = world.new_fleet(), datetime.now(UTC).replace(microsecond=0)
    caller, other = key_of(world, fleet), key_of(world, fleet)
    bad = refusal("validation_error", "Expected a number")
    with world.database.transaction() as connection:
        imported(connection, fleet.live, now=now, externalId="LOAD-7")
        pushes = [entry_of(push_of(f"LOAD-{n}"), caller=caller, at=now - timedelta(hours=n)) for n in range(60)]
        failed = entry_of(push_of("BAD-1"), caller=other, at=now, status=400, problem=bad)
        store(connection, [*pushes, failed])
    browser = world.browser(Role.OWNER, fleet)

    def loads(**query: Any) -> list[str]:
        page = words(browser.get("/requests", params=query).text.split("<main")[1])
        return [load for load in ("LOAD-7", "LOAD-59", "BAD-1") if f" {load} " in page]

    first = browser.look("/requests")
    assert loads() == ["LOAD-7", "BAD-1"]
    older = first.partition('href="/requests?before=')[2].partition('"')[0]
    assert loads(before=older) == ["LOAD-59"]
    cases: list[tuple[Fields, list[str]]] = [
        ({"key": shown_id("key", other.key_id)}, ["BAD-1"]),
        ({"status": "4xx"}, ["BAD-1"]),
        ({"status": "2xx", "q": "load-59"}, ["LOAD-59"]),
        ({"code": "validation_error"}, ["BAD-1"]),
        ({"q": "LOAD-7"}, ["LOAD-7"]),
        ({"q": pushes[59].id}, ["LOAD-59"]),
        ({"to": f"{now - timedelta(hours=30):%Y-%m-%dT%H:%M}"}, ["LOAD-59"]),
        ({"from": f"{now - timedelta(hours=3):%Y-%m-%dT%H:%M}"}, ["BAD-1"]),
        ({"from": "2100-01-01T00:00"}, []),
        ({"key": "key_nothing", "status": "no such"}, ["LOAD-7", "BAD-1"]),
    ]
    for query, wanted in cases:
        assert loads(**query) == wanted, query
    browser.look("/requests", before="no id", status=404)


@pytest.mark.parametrize(
    "query",
    [
        {"from": "no time"},
        {"from": "0001-01-01T00:00"},
        {"to": "9999-12-31T23:59"},
        {"q": "\x00"},
        {"q": "a" * 201},
        {"q": "%_'\"\\"},
        {"code": "x\x00", "before": "f" * 32},
    ],
)
def test_no_query_causes_a_server_error(world: World, query: dict[str, str]) -> None:
    answer = world.browser(Role.OWNER).get("/requests", params=query)
    assert answer.status_code in (200, 400), answer.text


def test_a_sent_body_is_escaped(world: World) -> None:
    fleet, evil = world.new_fleet(), '<script>alert("1")</script>'
    entry = entry_of(push_of(evil), caller=key_of(world, fleet), status=400, problem=refusal("validation_error", evil))
    with world.database.transaction() as connection:
        store(connection, [entry])
    browser = world.browser(Role.OWNER, fleet)
    for html in (browser.look("/requests"), browser.look(f"/requests/{entry.id}"), browser.look("/requests", q=evil)):
        assert "<script>alert" not in html
        assert html.count("<script") == html.count('<script src="/static/'), "our own"
        assert evil in words(html)
    for address in ("nothing", "f" * 32, shown_id("key", entry.caller.key_id)):
        browser.look(f"/requests/{address}", status=404)
