"""A cursor belongs to the source that it came from: another source begins anew, and people are told."""

import asyncio
from datetime import datetime, timedelta
from typing import Any

import pytest

from domain.accounts.contacts import IN_CLEAR
from domain.connectors.connectors import (
    CONNECTORS,
    NO_POSITION_FOR,
    Connector,
    change_access,
    state_of,
)
from domain.connectors.kinds import VENDORS
from domain.connectors.vendor import Access, VendorFix, VendorPage, VendorVehicle
from domain.database.connections import Connection
from tests.domain.connectors.cases import Answers
from tests.domain.connectors.helpers import LOOPBACK, added, leased, polled, taken
from tests.factories import DOT, JOLIET, Fleet
from tests.rows import named
from tests.vendors.traccar import running_traccar


def test_a_traccar_that_is_set_up_anew_is_read_from_its_beginning(
    connection: Connection, fleet: Fleet, now: datetime
) -> None:
    with running_traccar() as old:
        lease = leased(connection, added(connection, fleet.live, "traccar", old.url, {"token": old.token}), now=now)
        old.report("101", JOLIET["latitude"], JOLIET["longitude"], now - timedelta(minutes=5))
        taken(connection, lease, polled(lease, "5000000"), now=now)
        connection.execute("UPDATE connectors SET cursor = '5000000' WHERE id = %s", (lease.id,))
        page = polled(lease, "5000000")
        assert (len(page.fixes), page.cursor) == (1, "1")
        old.report("101", JOLIET["latitude"], JOLIET["longitude"], now)
        assert taken(connection, lease, polled(lease, "5000000"), now=now).stored == 1
        assert polled(lease, "2").remark is None
    (row,) = named(connection).execute("SELECT * FROM connectors WHERE id = %s", (lease.id,))
    assert row.cursor == "2"
    assert "began anew" in row.remark
    assert row.remarked_at == now


GEOTAB = {"database": "old_fleet", "username": "u", "password": "p"}


@pytest.mark.parametrize(
    ("kind", "before", "after", "url", "kept", "doubted"),
    [
        ("geotab", GEOTAB, {**GEOTAB, "database": "new_fleet"}, "", False, False),
        ("geotab", GEOTAB, {**GEOTAB, "database": "OLD_FLEET", "password": "q"}, "", True, True),
        ("geotab", GEOTAB, GEOTAB, "https://my3.geotab.com", False, False),
        ("samsara", {"token": "one"}, {"token": "two"}, "", True, True),
        ("samsara", {"token": "one"}, {"token": "one"}, "", True, False),
        ("samsara", {"token": "one"}, {"token": "one"}, "https://api.eu.samsara.com", False, False),
    ],
)
def test_a_cursor_is_kept_only_for_the_source_that_it_came_from(
    connection: Connection,
    fleet: Fleet,
    kind: str,
    before: dict[str, str],
    after: dict[str, str],
    url: str,
    kept: bool,
    doubted: bool,
) -> None:
    connector = added(connection, fleet.live, kind, "", before)
    connection.execute("UPDATE connectors SET cursor = 'a b' WHERE id = %s", (connector.id,))
    change_access(
        connection, fleet.company_id, connector.id, DOT, credentials=after, url=url, allowed=LOOPBACK, contacts=IN_CLEAR
    )
    (row,) = named(connection).execute("SELECT * FROM connectors WHERE id = %s", (connector.id,))
    assert (row.cursor, row.cursor_doubted) == ("a b" if kept else None, doubted)


def test_a_connector_that_hears_of_no_position_for_a_day_hears_nothing(
    connection: Connection, fleet: Fleet, now: datetime
) -> None:
    made = added(connection, fleet.live, "samsara", "", {"token": "one"})

    def shown(newest_at: datetime | None) -> str:
        connector: Connector = CONNECTORS.find(connection, fleet.company_id, made.id)._replace(
            created_at=now - timedelta(days=9), answered_at=now, newest_at=newest_at, leased_until=now + NO_POSITION_FOR
        )
        return state_of(connector, now=now)

    assert shown(now - timedelta(hours=23)) == "working"
    assert shown(now - timedelta(hours=25)) == shown(None) == shown(now + timedelta(days=400)) == "silent"


def test_a_tracker_s_clock_that_runs_ahead_is_counted_and_is_not_the_newest_position(
    connection: Connection, fleet: Fleet, now: datetime
) -> None:
    lease = leased(connection, added(connection, fleet.live, "samsara", "", {"token": "one"}), now=now)
    fixes = [VendorFix("7", now + ahead, 41.0, -88.0) for ahead in (timedelta(days=365), -timedelta(minutes=3))]
    outcome = taken(connection, lease, VendorPage([VendorVehicle("7", "101")], fixes, "a"), now=now)
    assert (outcome.stored, outcome.left_out) == (1, {"in_the_future": 1})
    assert outcome.newest_at == now - timedelta(minutes=3)


@pytest.mark.parametrize("answer", [[], [{"id": 10**30, "deviceId": 1}], [{"id": True}], ["x"]])
def test_traccar_without_readable_ids_forgets_no_place(answer: list[Any]) -> None:
    access = Access("http://vendor", {"token": "t"})
    page = asyncio.run(VENDORS["traccar"]().poll("77", access, Answers([answer, []])))
    assert page.cursor in ("77", "0")
    assert page.fixes == []
