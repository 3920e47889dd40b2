"""The pages Webhooks: endpoints are added, changed and watched there; only owners change anything."""

import re
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from domain.database.connections import Connection
from domain.ids import read_id, shown_id
from domain.lifecycle import Role
from domain.settings import Settings
from domain.webhooks.deliveries import Outcome, claim_deliveries, settle_deliveries
from domain.webhooks.endpoints import ENDPOINTS, Endpoint
from domain.webhooks.events import EVENT_TYPES
from tests.domain.helpers import imported
from tests.domain.webhooks.endpoints import events_of, make_endpoint
from tests.factories import DOT, Fleet
from tests.ingress.console.conftest import Browser, Fields, World, words
from tests.ingress.console.records import seen_on
from tests.rows import named

URL = "https://tms.example.com/hooks?code=receivers-own-secret"
_SECRET = re.compile(r'id="secret">(whsec_[\w+/=]+)<')
ALL_TYPES = list(EVENT_TYPES)


@pytest.fixture
def owner(world: World, fleet: Fleet) -> Browser:
    browser = world.browser(Role.OWNER, fleet)
    browser.look("/webhooks")
    return browser


def endpoints_of(world: World, fleet: Fleet) -> list[Endpoint]:
    with world.database.transaction() as connection:
        return ENDPOINTS.all(connection, fleet.company_id)


def planted(world: World, fleet: Fleet) -> UUID:
    with world.database.transaction() as connection:
        return make_endpoint(connection, fleet.live, URL).endpoint.id


def path_of(endpoint_id: UUID) -> str:
    return f"/webhooks/{shown_id('whe', endpoint_id)}"


def audited(world: World, fleet: Fleet) -> list[str]:
    with world.database.transaction() as connection:
        query = "SELECT * FROM audit_log WHERE company_id = %s AND actor <> %s ORDER BY id"
        return [row.action for row in named(connection).execute(query, (fleet.company_id, DOT.name)).fetchall()]


def attempted(world: World, endpoint_id: UUID, settings: Settings, now: datetime, *, status: int, answer: str) -> Any:
    """The one event of an endpoint, after an attempt with this answer."""
    with world.database.transaction() as connection:
        later = now.replace(year=now.year + 1)
        batch = claim_deliveries(connection, endpoint_id, most=9, settings=settings, now=later)
        assert batch is not None
        error = None if status < 300 else f"it answered {status}"
        outcomes = [Outcome(one, now, 12.0, status, error, answer) for one in batch.claimed]
        settle_deliveries(connection, endpoint_id, outcomes, settings=settings, now=later)
        return event_of(connection, endpoint_id)


def event_of(connection: Connection, endpoint_id: UUID) -> Any:
    (event,) = events_of(connection, endpoint_id)
    return event


def test_an_owner_adds_an_endpoint_and_sees_its_secret_once(world: World, fleet: Fleet, owner: Browser) -> None:
    answer = owner.submit("/webhooks", url=URL, environment="live", type=ALL_TYPES, description="our TMS")

    assert answer.status_code == 200, words(answer.text)
    secret = _SECRET.search(answer.text)
    assert secret is not None
    (endpoint,) = endpoints_of(world, fleet)
    assert (endpoint.url, endpoint.event_types, endpoint.description) == (URL, None, "our TMS")
    for path in ("/webhooks", path_of(endpoint.id), "/audit"):
        page = owner.look(path)
        assert secret[1] not in page
        assert "receivers-own-secret" not in page
    assert audited(world, fleet) == ["webhooks.add"]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"url": "https://169.254.169.254/latest"}, "is not on the public internet"),
        ({"url": "https://localhost/"}, "is not on the public internet"),
        ({"url": "http://tms.example.com/"}, "give one that begins with https://"),
        ({"url": "ftp://tms.example.com/"}, "names no host by https"),
        ({"url": "https://user:pass@tms.example.com/"}, "leave them out"),
        ({"url": "https://tms.example.com/<script>alert(1)</script> x"}, "without spaces"),
        ({"url": ""}, "Give the address"),
        ({"environment": "moon"}, "Choose an environment"),
        ({"type": []}, "Choose at least one type"),
        ({"type": ["route.exploded"]}, "there is no event type"),
        ({"description": "x" * 201}, "200 characters are the limit"),
    ],
    ids=lambda value: "",
)
def test_a_bad_endpoint_is_refused_with_a_sentence(
    world: World, fleet: Fleet, owner: Browser, changes: dict[str, Any], said: str
) -> None:
    fields = {"url": URL, "environment": "live", "type": ALL_TYPES, **changes}
    answer = owner.submit("/webhooks", **fields)

    assert answer.status_code == 400
    assert said.lower() in words(answer.text).lower()
    assert "<script>" not in answer.text
    assert endpoints_of(world, fleet) == []


def test_an_endpoint_is_changed_disabled_enabled_rotated_and_removed(
    world: World, fleet: Fleet, owner: Browser
) -> None:
    path = path_of(planted(world, fleet))
    seen = seen_on(owner, path)

    changed: Fields = {"url": "", "type": ["route.planned"], "description": "new", "seen": seen}
    assert owner.submit(f"{path}/change", **changed).status_code == 303
    (endpoint,) = endpoints_of(world, fleet)
    assert (endpoint.url, endpoint.event_types, endpoint.description) == (URL, ["route.planned"], "new")
    stale = owner.submit(f"{path}/change", **changed | {"type": ALL_TYPES})
    assert (stale.status_code, endpoints_of(world, fleet)) == (409, [endpoint]), "it is another one by now"

    assert owner.submit(f"{path}/disable", reason="we move").status_code == 303
    (endpoint,) = endpoints_of(world, fleet)
    assert endpoint.disabled_reason == "we move"
    assert owner.submit(f"{path}/test").status_code == 409
    assert owner.submit(f"{path}/enable").status_code == 303

    rotated = owner.submit(f"{path}/rotate-secret")
    assert _SECRET.search(rotated.text) is not None
    assert "also signed with the former secrets until" in words(rotated.text)

    assert owner.submit(f"{path}/remove").status_code == 303
    assert endpoints_of(world, fleet) == []
    actions = ["change", "disable", "enable", "rotate_secret", "remove"]
    assert audited(world, fleet) == [f"webhooks.{action}" for action in actions]


def test_a_delivery_shows_its_payload_and_the_answers_and_is_replayed(
    world: World, fleet: Fleet, owner: Browser, settings: Settings, now: datetime
) -> None:
    endpoint_id = planted(world, fleet)
    with world.database.transaction() as connection:
        route_id = imported(connection, fleet.live, now=now)
    event = attempted(world, endpoint_id, settings, now, status=503, answer="<b>busy</b>")
    assert (event.status, event.error) == ("failed", "it answered 503")  # a year is more than a day

    page = owner.look(path_of(endpoint_id), status=200)
    assert "route.imported" in page
    assert "it answered 503" in words(page)
    detail = f"{path_of(endpoint_id)}/{shown_id('evt', event.id)}"
    page = owner.look(detail)
    assert "<b>busy</b>" not in page
    assert "<b>busy</b>" in words(page)
    assert shown_id("rte", route_id) in page

    assert owner.submit(f"{detail}/replay").status_code == 303
    with world.database.transaction() as connection:
        assert event_of(connection, endpoint_id).status == "pending"


def test_failed_events_since_a_time_are_replayed(
    world: World, fleet: Fleet, owner: Browser, settings: Settings, now: datetime
) -> None:
    endpoint_id = planted(world, fleet)
    with world.database.transaction() as connection:
        imported(connection, fleet.live, now=now)
    attempted(world, endpoint_id, settings, now, status=503, answer="")
    path = path_of(endpoint_id)
    owner.look(path)

    assert owner.submit(f"{path}/replay-failed", since="then").status_code == 400
    assert owner.submit(f"{path}/replay-failed", since="2026-01-01T00:00").status_code == 303
    with world.database.transaction() as connection:
        assert event_of(connection, endpoint_id).status == "pending"


@pytest.mark.parametrize("role", [Role.VIEWER, Role.DISPATCHER])
def test_others_look_and_change_nothing(world: World, fleet: Fleet, role: Role) -> None:
    endpoint_id = planted(world, fleet)
    path = path_of(endpoint_id)
    browser = world.browser(role, fleet)

    assert "Add an endpoint" not in browser.look("/webhooks")
    assert '<form method="post" action="/webhooks' not in browser.look(path)
    for address in (
        "/webhooks",
        *(f"{path}/{one}" for one in ("change", "disable", "remove", "rotate-secret", "test")),
    ):
        answer = browser.submit(address, url=URL, environment="live", type=ALL_TYPES)
        assert answer.status_code == 403, address
    (endpoint,) = endpoints_of(world, fleet)
    assert endpoint.disabled_at is None


def test_the_list_of_deliveries_has_pages(world: World, fleet: Fleet, owner: Browser) -> None:
    endpoint_id = planted(world, fleet)
    with world.database.transaction() as connection:
        for _ in range(60):
            imported(connection, fleet.live, now=datetime.now(UTC))
    path = path_of(endpoint_id)

    first = owner.look(path)
    older = re.search(r'href="([^"]*before=\d+)"', first)
    assert older is not None
    second = owner.look(older[1].replace("&amp;", "&"))

    shown = [set(re.findall(r"/evt_(\w+)\"", page)) for page in (first, second)]
    assert [len(one) for one in shown] == [50, 10]
    assert shown[0].isdisjoint(shown[1])
    assert all(read_id("evt", f"evt_{one}") for one in shown[0])
    owner.look(path, before="9" * 60, status_code="x")
    assert owner.get(f"{path}?before=x").status_code == 404
