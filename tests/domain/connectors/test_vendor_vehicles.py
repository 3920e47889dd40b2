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
from domain.database.connections import Connection
from domain.fleet.records import UnknownTarget
from domain.ids import new_id
from tests.domain.connectors.helpers import added
from tests.factories import DOT, Fleet, make_fleet

VIN_OF_102 = "1XKAD49X0CJ000102"
VIN_OF_101 = "1XKAD49X0CJ000101"


@pytest.fixture
def connector(connection: Connection, fleet: Fleet) -> Connector:
    return added(connection, fleet.live, "samsara", "", {"token": "a-token"})


def test_what_is_exactly_the_same_decides(
    connection: Connection, fleet: Fleet, connector: Connector, now: datetime
) -> None:
    named = [
        VendorVehicle("by name", "101"),
        VendorVehicle("by vin", "Big Red", f" {VIN_OF_102.lower()}"),
        VendorVehicle("by external id", "nobody", None, ("101",)),
        VendorVehicle("by our id", "nobody", None, (fleet.shown_trucks[1],)),
        VendorVehicle("by all", "102", VIN_OF_102, ("102", fleet.shown_trucks[1]), ("payroll-7",)),
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
        "by all": fleet.trucks[1],
        "nearly": None,
        "nothing": None,
    }
    counts = count_connector_vehicles(connection, fleet.company_id, now=now)[connector.id]
    assert (counts.matched, counts.unmatched, counts.silent) == (5, 2, 5)


def test_a_vehicle_that_is_named_twice_keeps_the_names_that_the_second_lacks(
    connection: Connection, fleet: Fleet, connector: Connector, now: datetime
) -> None:
    named = [VendorVehicle("7", "102"), VendorVehicle("7"), VendorVehicle("8", "101"), VendorVehicle("8", "102")]
    matched = match_vehicles(connection, fleet.company_id, connector.id, named, names_parts=True, now=now)
    assert matched == {"7": fleet.trucks[1], "8": fleet.trucks[1]}


def test_a_vin_that_a_list_has_in_small_letters_is_the_same(
    connection: Connection, fleet: Fleet, connector: Connector, now: datetime
) -> None:
    connection.execute("UPDATE vehicles SET vin = lower(vin) WHERE id = %s", (fleet.trucks[1],))
    named = [VendorVehicle("7", "Big Red", VIN_OF_102)]
    assert match_vehicles(connection, fleet.company_id, connector.id, named, now=now) == {"7": fleet.trucks[1]}


@pytest.mark.parametrize(
    ("named", "doubt"),
    [
        (VendorVehicle("7", "101", VIN_OF_102), "references disagree: the VIN"),
        (VendorVehicle("7", "101", VIN_OF_101, ("102",)), "references disagree: the number 102 is your 102"),
        (VendorVehicle("7", "101", VIN_OF_101, (), ("102",)), "references disagree"),
        (VendorVehicle("7", "102", None, ("101",)), "references disagree"),
        (VendorVehicle("7", "101", "3AKJHHDR5JSJV4321"), f"your 101 has {VIN_OF_101}"),
        (VendorVehicle("7", "Big Red", None, (), ("102",)), "an id of another system, 102"),
        (VendorVehicle("7", "x" * 197 + "\n102"), None),
        (VendorVehicle("7", "Big Red", None, ("y" * 198 + "1012",)), None),
    ],
)
def test_references_that_disagree_lead_to_no_vehicle_and_say_why(
    connection: Connection, fleet: Fleet, connector: Connector, now: datetime, named: VendorVehicle, doubt: str | None
) -> None:
    assert match_vehicles(connection, fleet.company_id, connector.id, [named], now=now) == {"7": None}
    (shown,) = list_connector_vehicles(connection, fleet.company_id, connector.id, only="unmatched", now=now)
    assert shown.doubt is None if doubt is None else doubt in (shown.doubt or "")


@pytest.mark.parametrize("vin", ["", "?", "UNKNOWN", "00000000000000000", "1xkad49xocj000101", None])
def test_a_vin_that_is_none_or_has_a_letter_for_a_digit_speaks_against_nothing(
    connection: Connection, fleet: Fleet, connector: Connector, now: datetime, vin: str | None
) -> None:
    named = [VendorVehicle("7", "101", vin)]
    assert match_vehicles(connection, fleet.company_id, connector.id, named, now=now) == {"7": fleet.trucks[0]}


def test_a_webhook_that_names_no_vin_does_not_hide_that_the_vin_contradicts(
    connection: Connection, fleet: Fleet, connector: Connector, now: datetime
) -> None:
    polled = [VendorVehicle("7", "101", VIN_OF_102)]
    sent = [VendorVehicle("7", "101")]
    match_vehicles(connection, fleet.company_id, connector.id, polled, now=now)
    found = match_vehicles(connection, fleet.company_id, connector.id, sent, names_parts=True, now=now)
    assert found == {"7": None}


def test_a_link_wins_and_a_vin_that_contradicts_it_is_told(
    connection: Connection, fleet: Fleet, connector: Connector, now: datetime
) -> None:
    named = [VendorVehicle("7", "101", VIN_OF_102)]
    match_vehicles(connection, fleet.company_id, connector.id, named, now=now)
    link_vehicle(connection, fleet.company_id, connector.id, "7", fleet.trucks[0], DOT, now=now)
    later = now + timedelta(hours=1)
    found = match_vehicles(connection, fleet.company_id, connector.id, named, now=later)
    assert found == {"7": fleet.trucks[0]}
    (shown,) = list_connector_vehicles(connection, fleet.company_id, connector.id, only="doubtful", now=later)
    assert shown.doubt == "a person linked it to 101, and its VIN is that of 102"


def test_two_vehicles_of_the_vendor_that_are_one_of_ours_are_told(
    connection: Connection, fleet: Fleet, connector: Connector, now: datetime
) -> None:
    named = [VendorVehicle("7", "101"), VendorVehicle("8", "101", VIN_OF_101), VendorVehicle("9", "102")]
    match_vehicles(connection, fleet.company_id, connector.id, named, now=now)
    doubtful = list_connector_vehicles(connection, fleet.company_id, connector.id, only="doubtful", now=now)
    assert {one.vehicle_key: one.doubt for one in doubtful} == {
        "7": "101 (8) is the same vehicle of yours",
        "8": "101 (7) is the same vehicle of yours",
    }


def test_two_vehicles_that_are_one_of_ours_are_told_although_the_vendor_sends_each_by_itself(
    connection: Connection, fleet: Fleet, connector: Connector, now: datetime
) -> None:
    def doubtful(at: datetime) -> list[str]:
        found = list_connector_vehicles(connection, fleet.company_id, connector.id, only="doubtful", now=at)
        return [one.vehicle_key for one in found]

    for named in (VendorVehicle("7", "101"), VendorVehicle("8", "101"), VendorVehicle("9", "102")):
        match_vehicles(connection, fleet.company_id, connector.id, [named], names_parts=True, now=now)
    assert doubtful(now) == ["7", "8"]

    next_day = now + timedelta(days=1, minutes=1)
    assert doubtful(next_day) == []
    newer = [VendorVehicle("8", "101")]
    match_vehicles(connection, fleet.company_id, connector.id, newer, names_parts=True, now=next_day)
    assert doubtful(next_day) == [], "the old tracker is silent"


def test_a_match_by_any_external_id_that_held_before_goes_on_while_nothing_contradicts(
    connection: Connection, fleet: Fleet, connector: Connector, now: datetime
) -> None:
    match_vehicles(connection, fleet.company_id, connector.id, [VendorVehicle("7", "Red", None, ("102",))], now=now)
    later, told_apart = now + timedelta(hours=1), [VendorVehicle("7", "Red", None, (), ("102",))]
    found = match_vehicles(connection, fleet.company_id, connector.id, told_apart, now=later)
    assert found == {"7": fleet.trucks[1]}


def test_a_link_goes_before_all_and_outlives_a_new_name(
    connection: Connection, fleet: Fleet, connector: Connector, now: datetime
) -> None:
    match_vehicles(connection, fleet.company_id, connector.id, [VendorVehicle("7", "101")], now=now)
    link_vehicle(connection, fleet.company_id, connector.id, "7", fleet.trucks[1], DOT, now=now)
    for name, at in (("101", now), ("renamed", now + timedelta(minutes=1)), ("101", now + timedelta(hours=1))):
        found = match_vehicles(connection, fleet.company_id, connector.id, [VendorVehicle("7", name)], now=at)
        assert found == {"7": fleet.trucks[1]}
    link_vehicle(connection, fleet.company_id, connector.id, "7", None, DOT, now=now)
    found = match_vehicles(connection, fleet.company_id, connector.id, [VendorVehicle("7", "101")], now=now)
    assert found == {"7": fleet.trucks[0]}

    with pytest.raises(UnusableConnector):
        link_vehicle(connection, fleet.company_id, connector.id, "never named", fleet.trucks[0], DOT, now=now)
    other = make_fleet(connection)
    for stranger in (other.trucks[0], new_id()):
        with pytest.raises(UnknownTarget):
            link_vehicle(connection, fleet.company_id, connector.id, "7", stranger, DOT, now=now)


def test_a_link_to_a_retired_vehicle_leads_nowhere_any_more(
    connection: Connection, fleet: Fleet, connector: Connector, now: datetime
) -> None:
    match_vehicles(connection, fleet.company_id, connector.id, [VendorVehicle("7", "x")], now=now)
    link_vehicle(connection, fleet.company_id, connector.id, "7", fleet.trucks[1], DOT, now=now)
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
