"""A fuel level that comes without a position is kept for the next one, and each measurement goes to one fix."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.connectors.connectors import Connector
from domain.connectors.kinds import VENDORS
from domain.connectors.leases import ConnectorRow
from domain.connectors.levels import KeptLevel, LevelMemory, give_levels
from domain.connectors.vendor import Access, Vendor, VendorFix, VendorLevel, VendorPage
from domain.database.connections import Connection
from tests.domain.connectors.cases import Answers, case
from tests.domain.connectors.helpers import added, leased, taken
from tests.factories import Fleet
from tests.rows import named

EIGHT = datetime(2026, 11, 25, 20, tzinfo=UTC)
ACCESS = Access("http://vendor", {"token": "t", "api_key": "k"})


def moved(document: Any, now: datetime) -> Any:
    """The documents of a case, with its day at now."""
    if isinstance(document, dict):
        return {name: moved(one, now) for name, one in document.items()}
    if isinstance(document, list):
        return [moved(one, now) for one in document]
    if isinstance(document, str) and document.endswith("Z") and ":" in document:
        return (now + (datetime.fromisoformat(document) - EIGHT)).isoformat()
    return document


def asked(vendor: Vendor, answer: Any) -> VendorPage:
    return asyncio.run(vendor.poll(None, ACCESS, Answers([answer])))


def stored(connection: Connection, fleet: Fleet) -> list[tuple[datetime, float | None]]:
    rows = named(connection).execute(
        "SELECT * FROM positions WHERE vehicle_id = %s ORDER BY recorded_at", (fleet.trucks[0],)
    )
    return [(row.recorded_at, row.fuel_percent) for row in rows]


@pytest.fixture
def connector(connection: Connection, fleet: Fleet) -> Connector:
    return added(connection, fleet.live, "samsara", "", {"token": "a-token"})


@pytest.fixture
def lease(connection: Connection, connector: Connector, now: datetime) -> ConnectorRow:
    return leased(connection, connector, now=now)


@pytest.mark.parametrize("restarts", [False, True])
def test_a_level_in_a_page_without_a_position_is_kept_for_the_next_one(
    connection: Connection, fleet: Fleet, lease: ConnectorRow, now: datetime, restarts: bool
) -> None:
    at = now - timedelta(minutes=10)
    vendor: Vendor = VENDORS["samsara"]()
    for page in moved(case("samsara_pages.json")["pages"], at):
        page["data"][0]["name"] = "101"
        vendor = VENDORS["samsara"]() if restarts else vendor
        taken(connection, lease, asked(vendor, page), now=now)
    assert stored(connection, fleet)[-1] == (at + timedelta(minutes=6), 95)
    rows = named(connection).execute("SELECT * FROM connector_vehicles WHERE connector_id = %s", (lease.id,))
    assert [(row.fuel_percent, row.fuel_measured_at) for row in rows] == [(None, at + timedelta(minutes=5))]


def located(at: datetime, **changes: Any) -> dict[str, Any]:
    location = {"lat": 41.462, "lon": -88.125, "located_at": at.isoformat(), "speed": 0, **changes}
    vehicle = {"id": 7, "number": "101", "current_location": location}
    return {"vehicles": [{"vehicle": vehicle}], "pagination": {"per_page": 25, "page_no": 1, "total": 1}}


def position(at: datetime, **changes: Any) -> list[dict[str, Any]]:
    """Traccar's position."""
    times = {"fixTime": at.isoformat(), "deviceTime": at.isoformat()}
    place = {"latitude": 41.462, "longitude": -88.125, "valid": True, "outdated": False}
    return [{"id": 7, "deviceId": 1, **times, **place, "attributes": {}, **changes}]


def unit(at: datetime, **changes: Any) -> dict[str, Any]:
    return {
        "units": [
            {"truck_number": "101", "coordinates": {"lat": 41.462, "lng": -88.125}, "timestamp": at.isoformat()}
            | changes
        ]
    }


MINUTE = timedelta(minutes=1)
LEVEL = {"attributes": {"fuelLevel": 95}}
PAGES: dict[str, tuple[str, Callable[[datetime], list[Any]]]] = {
    "a location without a place": (
        "motive",
        lambda at: [located(at, lat=None, lon=None, fuel_primary_remaining_percentage=95), located(at + MINUTE)],
    ),
    "a tracker without satellites": ("traccar", lambda at: [position(at, valid=False, **LEVEL), position(at + MINUTE)]),
    "the place of before": (
        "traccar",
        lambda at: [
            position(at, fixTime=(at - 30 * MINUTE).isoformat(), outdated=True, **LEVEL),
            position(at + MINUTE),
        ],
    ),
    "the place of before, which Traccar 6.10 does not tell": (
        "traccar",
        lambda at: [
            position(at - 30 * MINUTE, outdated=None),
            position(at, fixTime=(at - 30 * MINUTE).isoformat(), outdated=None, **LEVEL),
            position(at + MINUTE, outdated=None),
        ],
    ),
    "a unit without a place": ("eld", lambda at: [unit(at, coordinates=None, fuel_percent=95), unit(at + MINUTE)]),
}


@pytest.mark.parametrize("name", PAGES)
def test_levels_without_a_place_are_kept_from_every_vendor(
    connection: Connection, fleet: Fleet, lease: ConnectorRow, now: datetime, name: str
) -> None:
    kind, pages = PAGES[name]
    at = now - timedelta(minutes=5)
    for page in pages(at):
        found = asked(VENDORS[kind](), page)
        called = [vehicle._replace(name="101") for vehicle in found.vehicles]
        taken(connection, lease, found._replace(vehicles=called), now=now)
    assert stored(connection, fleet)[-1] == (at + MINUTE, 95)


def test_a_level_waits_two_hours_and_no_longer(connection: Connection, fleet: Fleet, now: datetime) -> None:
    measured_at = now - timedelta(hours=3)
    for minutes, expected in ((119, 95), (121, None)):
        fix = VendorFix("7", measured_at + timedelta(minutes=minutes), 41.0, -88.0)
        (found,), _ = give_levels([fix], [], {"7": KeptLevel(measured_at, 95)}, {}, now=now)
        assert found.fuel_percent == expected


def test_a_waiting_level_goes_to_no_fix_that_is_stored_already() -> None:
    """Vendors that tell of each truck's newest position tell of a parked one again and again."""
    old, new = (VendorFix("7", EIGHT + timedelta(minutes=minutes), 41.0, -88.0) for minutes in (0, 20))
    waiting = {"7": KeptLevel(EIGHT + timedelta(minutes=5), 95)}
    fixes, changed = give_levels([old], [], waiting, {"7": EIGHT}, now=new.recorded_at)
    assert (fixes, changed) == ([old], {})
    fixes, changed = give_levels([old, new], [], waiting, {"7": EIGHT}, now=new.recorded_at)
    assert [fix.fuel_percent for fix in fixes] == [None, 95]
    assert changed == {"7": KeptLevel(waiting["7"].measured_at, None)}


def test_a_measurement_that_an_earlier_page_told_is_no_second_reading(
    connection: Connection, fleet: Fleet, lease: ConnectorRow, now: datetime
) -> None:
    """Nothing is written for it either: ten thousand trucks tell their level every few seconds."""
    vendor, at = VENDORS["samsara"](), now - timedelta(minutes=5)
    gps = {"latitude": 41.462, "longitude": -88.125}
    for minutes, fuel in ((0, [{"time": at.isoformat(), "value": 0}]), (1, []), (2, [])):
        moment = (at + timedelta(minutes=minutes)).isoformat()
        vehicle = {"id": "1", "name": "101", "gps": [{"time": moment, **gps}], "fuelPercents": fuel}
        page = {"data": [vehicle], "pagination": {"endCursor": str(minutes), "hasNextPage": False}}
        taken(connection, lease, asked(vendor, page), now=now)
    assert [percent for _, percent in stored(connection, fleet)] == [0, None, None]
    rows = named(connection).execute("SELECT * FROM connector_vehicles WHERE connector_id = %s", (lease.id,))
    assert [row.fuel_measured_at for row in rows] == [None]


def test_a_measurement_from_the_future_keeps_no_true_one_away(now: datetime) -> None:
    levels = [VendorLevel("7", now + timedelta(days=1), 5), VendorLevel("7", now, 95)]
    (found,), _ = give_levels([VendorFix("7", now, 41.0, -88.0)], levels, {}, {}, now=now)
    assert found.fuel_percent == 95


@given(
    fixes=st.lists(st.integers(0, 200), max_size=8, unique=True),
    levels=st.lists(st.tuples(st.integers(0, 200), st.integers(0, 100)), max_size=8, unique_by=lambda one: one[0]),
)
def test_each_measurement_goes_to_one_fix_and_the_newest_is_never_lost(
    fixes: list[int], levels: list[tuple[int, int]]
) -> None:
    memory = LevelMemory()
    told = [VendorLevel("7", EIGHT + timedelta(minutes=at), percent) for at, percent in levels]
    for level in told:
        memory.keep(level)
    given_fixes = [VendorFix("7", EIGHT + timedelta(minutes=at), 41.0, -88.0) for at in fixes]
    found, changed = give_levels(given_fixes, told, {}, {}, now=EIGHT + timedelta(hours=4))
    measured = [fix.fuel_measured_at for fix in found if fix.fuel_measured_at is not None]
    assert len(measured) == len(set(measured))
    assert [fix._replace(fuel_percent=None, fuel_measured_at=None) for fix in found] == given_fixes
    if told:
        newest = max(told, key=lambda one: one.measured_at)
        waits = changed.get("7") == KeptLevel(newest.measured_at, newest.percent)
        assert waits or newest.measured_at in measured
