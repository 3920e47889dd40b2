"""A vendor's vehicle is one of ours by a person's link, an external id, the VIN or the name: exactly, and one alone."""

from datetime import datetime, timedelta

import pytest

from domain.connectors.connectors import Connector, UnusableConnector
from domain.connectors.vendor import VendorVehicle
from domain.connectors.vendor_vehicles import (
    MOST_UNMATCHED,
    count_connector_vehicles,
    link_vehicle,
    list_connector_vehicles,
    match_vehicles,
)
from domain.database import Connection
from domain.fleet.records import UnknownTarget
from domain.ids import new_id
from tests.domain.connectors.helpers import added
from tests.factories import Fleet, make_fleet

VIN_OF_102 = "1XKAD49X0CJ000102"


@pytest.fixture
def connector(connection: Connection, fleet: Fleet) -> Connector:
    return added(connection, fleet.live, "samsara", "", {"token": "a-token"})


def test_the_surest_exact_sign_decides(
    connection: Connection, fleet: Fleet, connector: Connector, now: datetime
) -> None:
    named = [
        VendorVehicle("by name", "101"),
        VendorVehicle("by vin", "101", VIN_OF_102.lower()),
        VendorVehicle("by external id", "102", None, ("101",)),
        VendorVehicle("by our id", "nobody", None, (fleet.shown_trucks[1],)),
        VendorVehicle("nearly", "TRK 101"),
        VendorVehicle("nothing", None),
        VendorVehicle("bad \x00 key", "101"),
        VendorVehicle("", "101"),
    ]
    matched = match_vehicles(connection, fleet.company_id, connector.id, named, now=now)
    assert matched == {
        "by name": fleet.trucks[0],
        "by vin": fleet.trucks[1],
        "by external id": fleet.trucks[0],
        "by our id": fleet.trucks[1],
        "nearly": None,
        "nothing": None,
    }
    counts = count_connector_vehicles(connection, fleet.company_id, now=now)[connector.id]
    assert (counts.matched, counts.unmatched, counts.silent) == (4, 2, 4)


def test_a_link_goes_before_all_and_outlives_a_new_name(
    connection: Connection, fleet: Fleet, connector: Connector, now: datetime
) -> None:
    match_vehicles(connection, fleet.company_id, connector.id, [VendorVehicle("7", "101")], now=now)
    link_vehicle(connection, fleet.company_id, connector.id, "7", fleet.trucks[1], now=now)
    for name, at in (("101", now), ("renamed", now + timedelta(minutes=1)), ("101", now + timedelta(hours=1))):
        found = match_vehicles(connection, fleet.company_id, connector.id, [VendorVehicle("7", name)], now=at)
        assert found == {"7": fleet.trucks[1]}
    link_vehicle(connection, fleet.company_id, connector.id, "7", None, now=now)
    found = match_vehicles(connection, fleet.company_id, connector.id, [VendorVehicle("7", "101")], now=now)
    assert found == {"7": fleet.trucks[0]}

    with pytest.raises(UnusableConnector):
        link_vehicle(connection, fleet.company_id, connector.id, "never named", fleet.trucks[0], now=now)
    other = make_fleet(connection)
    for stranger in (other.trucks[0], new_id()):
        with pytest.raises(UnknownTarget):
            link_vehicle(connection, fleet.company_id, connector.id, "7", stranger, now=now)


def test_a_link_to_a_retired_vehicle_leads_nowhere_any_more(
    connection: Connection, fleet: Fleet, connector: Connector, now: datetime
) -> None:
    match_vehicles(connection, fleet.company_id, connector.id, [VendorVehicle("7", "x")], now=now)
    link_vehicle(connection, fleet.company_id, connector.id, "7", fleet.trucks[1], now=now)
    connection.execute("UPDATE vehicles SET retired_at = now() WHERE id = %s", (fleet.trucks[1],))
    later = now + timedelta(hours=1)
    assert match_vehicles(connection, fleet.company_id, connector.id, [VendorVehicle("7", "x")], now=later) == {
        "7": None
    }


def test_a_vehicle_that_is_added_later_matches_at_the_next_page(
    connection: Connection, fleet: Fleet, connector: Connector, now: datetime
) -> None:
    named = [VendorVehicle("7", "103")]
    assert match_vehicles(connection, fleet.company_id, connector.id, named, now=now) == {"7": None}
    vehicle_id = new_id()
    connection.execute(
        "INSERT INTO vehicles (id, company_id, unit_number) VALUES (%s, %s, '103')", (vehicle_id, fleet.company_id)
    )
    assert match_vehicles(connection, fleet.company_id, connector.id, named, now=now) == {"7": vehicle_id}


def test_strangers_are_kept_up_to_a_bound(
    connection: Connection, fleet: Fleet, connector: Connector, now: datetime
) -> None:
    for start in (0, MOST_UNMATCHED):
        named = [VendorVehicle(f"{number:06}", f"x{number}") for number in range(start, start + MOST_UNMATCHED)]
        match_vehicles(connection, fleet.company_id, connector.id, named, now=now)
    kept = list_connector_vehicles(connection, fleet.company_id, connector.id, now=now, limit=2 * MOST_UNMATCHED)
    assert len(kept) == MOST_UNMATCHED
