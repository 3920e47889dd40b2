"""Samsara's feed, from a fake of it over real HTTP into the tables."""

import asyncio
from datetime import datetime, timedelta

import pytest

from domain.connectors.kinds.samsara import Samsara as SamsaraVendor
from domain.connectors.levels import fuel_level_near
from domain.connectors.vendor import (
    Access,
    ForgottenCursor,
    UnreadableAnswer,
    VendorFault,
    VendorHurried,
    VendorPage,
    VendorRefusal,
)
from domain.database.connections import Connection
from tests.domain.connectors.cases import Answers
from tests.domain.connectors.helpers import added, leased, polled, taken
from tests.factories import JOLIET, Fleet
from tests.rows import named
from tests.vendors.samsara import Samsara, running_samsara
from tests.vendors.vendor import Answer


def credentials(vendor: Samsara) -> dict[str, str]:
    return {"token": vendor.token}


def test_pages_follow_the_cursor_and_each_fix_is_stored_once(
    connection: Connection, fleet: Fleet, now: datetime
) -> None:
    with running_samsara() as vendor:
        vendor.page_size = 2
        lease = leased(connection, added(connection, fleet.live, "samsara", vendor.url, credentials(vendor)), now=now)
        vendor.report("101", JOLIET["latitude"], JOLIET["longitude"], now - timedelta(minutes=5), speed_mph=61.0)
        first = polled(lease, None)
        assert taken(connection, lease, first, now=now).stored == 1
        for minute in range(4, 0, -1):
            vendor.report("101", JOLIET["latitude"], JOLIET["longitude"], now - timedelta(minutes=minute))
        vendor.report("999", JOLIET["latitude"], JOLIET["longitude"], now)

        pages: list[VendorPage] = []
        cursor = first.cursor
        while not pages or pages[-1].has_more:
            pages.append(polled(lease, cursor))
            cursor = pages[-1].cursor
        outcomes = [taken(connection, lease, page, now=now) for page in pages]
        again = taken(connection, lease, pages[0], now=now)

    assert [one.stored for one in outcomes] == [2, 2, 0]
    assert outcomes[2].left_out == {"unmatched": 1}
    assert (again.stored, again.left_out) == (0, {"repeated": 2})
    rows = named(connection).execute(
        "SELECT * FROM positions WHERE vehicle_id = %s ORDER BY recorded_at", (fleet.trucks[0],)
    )
    found = rows.fetchall()
    assert [row.recorded_at for row in found] == [now - timedelta(minutes=minute) for minute in range(5, 0, -1)]
    assert (found[0].speed_mph, found[0].fuel_percent) == (61.0, 60.0)
    row = named(connection).execute("SELECT * FROM connectors WHERE id = %s", (lease.id,)).fetchone()
    assert row is not None
    assert (row.fixes, row.cursor) == (5, pages[0].cursor)  # the repeated page was the last that was stored
    assert row.left_out == {"unmatched": 1, "repeated": 2}


def test_a_cursor_is_kept_as_it_came_however_long_it_is() -> None:
    """It is opaque, and for a stream of several series it is a token of some hundred characters: DESIGN.md of
    github.com/andrewjordan3/fleetpull. Cut off at 200 it is none, so that each second poll was refused."""
    cursor = "eyJncHMiOiI0MTFk/+==" * 25
    answers = Answers([{"data": [], "pagination": {"endCursor": cursor, "hasNextPage": True}}])
    page = asyncio.run(SamsaraVendor().poll(None, Access("http://vendor", {"token": "t"}), answers))
    assert (page.cursor, page.has_more) == (cursor, True)


def test_a_fix_gets_the_fuel_level_that_was_measured_nearest_to_it() -> None:
    """Samsara's two series have times of their own."""
    noon = datetime.fromisoformat("2026-11-24T12:00:00Z")
    levels = [(noon, 80.0), (noon + timedelta(minutes=10), 70.0)]
    assert fuel_level_near(levels, noon + timedelta(minutes=4)) == 80
    assert fuel_level_near(levels, noon + timedelta(minutes=6)) == 70
    assert fuel_level_near(levels, noon + timedelta(minutes=26)) is None
    assert fuel_level_near([], noon) is None


def test_a_vendor_under_maintenance_says_when_to_ask_again(
    connection: Connection, fleet: Fleet, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running_samsara() as vendor:
        lease = leased(connection, added(connection, fleet.live, "samsara", vendor.url, credentials(vendor)), now=now)
        answers = iter([Answer({}, 503, {"Retry-After": "600"}), Answer({}, 503)])
        monkeypatch.setattr(vendor, "too_fast", lambda: next(answers))
        vendor.fail("limit", "limit")
        with pytest.raises(VendorHurried, match="asked later") as hurried:
            polled(lease, None)
        assert (hurried.value.retry_after_seconds, hurried.value.status) == (600, 503)
        with pytest.raises(VendorFault, match="it answered 503"):
            polled(lease, None)


def test_faults_are_told_apart(connection: Connection, fleet: Fleet, now: datetime) -> None:
    with running_samsara() as vendor:
        lease = leased(connection, added(connection, fleet.live, "samsara", vendor.url, credentials(vendor)), now=now)
        vendor.fail("limit", "forbidden", "not json", "error", "cut")
        with pytest.raises(VendorHurried) as hurried:
            polled(lease, None)
        assert hurried.value.retry_after_seconds == 1
        for fault in (VendorRefusal, UnreadableAnswer, VendorFault, VendorFault):
            with pytest.raises(fault):
                polled(lease, None)
        with pytest.raises(ForgottenCursor):
            polled(lease, "gone")
        vendor.fail("hang")
        with pytest.raises(VendorFault, match=r"within 0\.3 s"):
            polled(lease, None, seconds=0.3)
        vendor.report("101", 41.0, -88.0, now)
        with pytest.raises(VendorFault, match="more than"):
            polled(lease, None, most_bytes=100)
