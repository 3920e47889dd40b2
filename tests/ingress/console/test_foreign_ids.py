"""The console answers an id of another company as one that never existed: every address, every kind of id, drawn by
hypothesis. Nothing of the other company is changed."""

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from domain.accounts.keys import create_key
from domain.accounts.users import create_user
from domain.connectors.vendor import VendorVehicle
from domain.connectors.vendor_vehicles import match_vehicles
from domain.contract.shapes import SCOPES
from domain.database.connections import Connection
from domain.ids import IdKind, new_id, shown_id
from domain.lifecycle import Environment, Role
from domain.operations import import_records
from domain.webhooks.delivery_log import send_test
from ingress.console.app import PAGES
from tests.domain.connectors.helpers import added
from tests.domain.helpers import imported
from tests.domain.notices.subscriptions import subscribe
from tests.domain.planted import TABLES, insert, row_of
from tests.domain.webhooks.endpoints import end_deliveries, make_endpoint
from tests.factories import DOT, Fleet
from tests.ingress.console.conftest import Browser, World
from tests.repeatable import examples

LEFT_OUT = {
    "/sign-in": "takes no id; each attempt hashes a password",
    "/set-password/{token}": "takes no id",
    "/sign-out": "ends the session of the test",
    "/sign-out-everywhere": "ends the session of the test",
    "/account": "takes no id; shows a new secret each time",
    "/account/codes": "takes no id; shows a new secret each time",
    "/account/recovery-codes": "takes no id; shows new codes each time",
    "/account/codes/remove": "takes no id; shows a new secret each time",
    "/account/password": "takes no id; hashes a password",
    "/account/openid/remove": "takes no id; ends the session of the test",
}
ADDRESSES = sorted(
    (method, route.path)
    for page in PAGES
    for route in page.ADDRESSES
    for method in sorted((route.methods or set()) - {"HEAD"})
    if route.path not in LEFT_OUT
)
FIELDS = (
    "id",
    "choice",
    "company",
    "company_id",
    "driver",
    "holder",
    "key",
    "message",
    "route",
    "run",
    "source",
    "station",
    "target_id",
    "unit",
    "value",
    "vehicle",
)
"""The fields of forms and addresses that take an id, or a text that names a record."""

PLANTED: dict[IdKind, str] = {
    "pln": "plans",
    "cho": "plan_choices",
    "msg": "messages",
    "hld": "held_prices",
    "src": "price_sources",
    "rpl": "replays",
    "ntc": "notices",
}
"""Kinds of which another company has a row with the columns that it must have; no page of its own could show it."""

_OTHER_PARTS: dict[str, str] = {"subject": "vehicles", "figure": "held", "queue": "imports", "place": "waiting"}
_CHANGING = re.compile(
    r'name="form_token" value="\w+"|\b\d+ seconds? ago\b|\bin \d+ seconds?\b|\d\d:\d\d:\d\d|"(?:at|now)":[\d.]+'
    r'| <span class="count">\d+\+?<span class="unseen"> needs? you</span></span>'
)
"""Two looks at one page differ in these. The counts of the navigation do: processes beside the console change what
needs a person, and a page that has waited too long for its counts is shown without them."""


class House(NamedTuple):
    """A company, an owner's browser, and an id of each kind."""

    fleet: Fleet
    browser: Browser
    ids: Mapping[IdKind, UUID]


@pytest.fixture
def houses(world: World) -> Iterator[tuple[House, House, House]]:
    """An older company's, our own, and a newer company's."""
    older, own, newer = _house(world, planted=True), _house(world), _house(world, planted=True)
    yield older, own, newer
    with world.database.transaction() as connection:
        for table in reversed(PLANTED.values()):  # no process of another test could work with such rows
            others = [older.fleet.company_id, newer.fleet.company_id]
            connection.execute(f"DELETE FROM {table} WHERE company_id = ANY(%s)", (others,))


def _house(world: World, *, planted: bool = False) -> House:
    fleet, now = world.new_fleet(), datetime.now(UTC)
    with world.database.transaction() as connection:
        endpoint = make_endpoint(connection, fleet.live).endpoint
        ids: dict[IdKind, UUID] = {
            "cmp": fleet.company_id,
            "veh": fleet.trucks[0],
            "drv": fleet.drivers[0],
            "rte": imported(connection, fleet.live, now=now),
            "key": create_key(
                connection, fleet.company_id, DOT, name="k", environment=Environment.LIVE, scopes=list(SCOPES)
            ).id,
            "usr": create_user(
                connection, DOT, email=f"{new_id().hex}@example.com", role=Role.VIEWER, company_id=fleet.company_id
            ),
            "whe": endpoint.id,
            "evt": send_test(connection, fleet.company_id, endpoint.id, DOT, now=now),
            "sub": subscribe(connection, fleet.company_id).id,
            "fil": _fill(connection, fleet),
            "con": _connector(connection, fleet),
            "imp": import_records.begin(connection, fleet.company_id, "drivers", "a@b.c", rows_total=9, now=now).id,
        }
        end_deliveries(connection, fleet.company_id)
        if planted:
            _plant(connection, fleet, ids)
    return House(fleet, world.browser(Role.OWNER, fleet), ids)


def _plant(connection: Connection, fleet: Fleet, ids: dict[IdKind, UUID]) -> None:
    rows: dict[str, Any] = {"companies": fleet.company_id, "routes": ids["rte"], "drivers": ids["drv"]}
    for kind, table in PLANTED.items():
        ids[kind] = rows[table] = new_id()
        insert(connection, table, row_of(TABLES[table], fleet.company_id, Environment.LIVE, rows) | {"id": ids[kind]})


def _fill(connection: Connection, fleet: Fleet) -> UUID:
    """A fill that waits for a person."""
    fill_id = new_id()
    connection.execute(
        "INSERT INTO fills (id, company_id, environment, profile, key, bought_at, time_zone, has_time, state, fuel,"
        " gallons, paid_cents, currency, score, review)"
        " VALUES (%s, %s, 'live', 'efs', 'k', now(), 'UTC', true, 'IN', 'unknown', 90, 33000, 'USD', 0, '{unit}')",
        (fill_id, fleet.company_id),
    )
    return fill_id


def _connector(connection: Connection, fleet: Fleet) -> UUID:
    """A connector that has named a vehicle without a match."""
    credentials = {"forward_token": "a-token-of-forwarding"}
    connector = added(connection, fleet.live, "traccar", "http://127.0.0.1:9", credentials)
    named = [VendorVehicle("7", "Truck seven")]
    match_vehicles(connection, fleet.company_id, connector.id, named, now=datetime.now(UTC))
    return connector.id


def _answer(browser: Browser, method: str, path: str, shown: str, hex: str) -> tuple[int, str, str]:
    parts = {"id": hex if path.startswith("/requests") else shown, **_OTHER_PARTS}
    address = re.sub(r"{(\w+)}", lambda part: parts.get(part[1], shown), path)
    fields: dict[str, Any] = dict.fromkeys(FIELDS, shown)
    if method == "GET":
        answer = browser.get(address, params=fields)
    else:
        answer = browser.submit(address, **fields, reason="it is a test", kind="unit_number", what="arrival", stop="0")
    text, location = (
        _CHANGING.sub("", part).replace(shown, "ID").replace(hex, "ID")
        for part in (answer.text, answer.headers.get("location", ""))
    )
    return answer.status_code, text, location


def _rows(world: World, company_id: UUID) -> list[tuple[str]]:
    """All that the company has and that the console can change."""
    tables = (
        "routes",
        "vehicles",
        "drivers",
        "mappings",
        "spelling_rules",
        "api_keys",
        "csv_imports",
        "deals",
        "audit_log",
        "users",
        "webhook_events",
        "notice_subscriptions",
        "notices",
        "fills",
        "connectors",
        "connector_vehicles",
        *PLANTED.values(),
    )
    query = " UNION ALL ".join(f"SELECT it::text FROM {table} it WHERE company_id = %(id)s" for table in tables)
    with world.database.transaction() as connection:
        return sorted(connection.execute(query, {"id": company_id}).fetchall())


@settings(
    max_examples=examples(30),
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    address=st.sampled_from(ADDRESSES),
    kind=st.sampled_from(
        ["cmp", "veh", "drv", "rte", "key", "imp", "usr", "whe", "evt", "sub", "fil", "con", *PLANTED]
    ),
    newer=st.booleans(),
)
def test_an_id_of_another_company_is_answered_as_one_that_never_existed(
    world: World, houses: tuple[House, House, House], address: tuple[str, str], kind: IdKind, newer: bool
) -> None:
    own, other = houses[1], houses[2 if newer else 0]
    foreign, unknown = other.ids[kind], new_id()
    before = _rows(world, other.fleet.company_id)
    foreign_answer, unknown_answer = (
        _answer(own.browser, *address, shown_id(kind, one), one.hex) for one in (foreign, unknown)
    )
    assert foreign_answer == unknown_answer
    assert foreign_answer[0] != 500
    assert _rows(world, other.fleet.company_id) == before
