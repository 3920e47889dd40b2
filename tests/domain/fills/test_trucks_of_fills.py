"""A fill belongs to the truck that had its unit number on that day, whoever has the number now."""

from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

import pytest

from domain.database.connections import Connection
from domain.fills.fill_lists import FillList, list_fills
from domain.fills.importing import read_stations
from domain.fills.matching_again import match_fills_again
from domain.fills.reviewing import Decision, UnusableDecision, decide
from domain.fleet.records import retire_record
from domain.ids import new_id, shown_id
from domain.ifta.driven_routes import find_quarter_routes
from domain.ifta.quarters import Quarter
from domain.ifta.report import make_quarter_report
from tests.domain.fills.cards import NOW, efs, import_fills, trucks, write_efs
from tests.factories import DOT, Fleet

TENTH = datetime(2026, 11, 10, 18, tzinfo=UTC)
"""When truck 101 was retired: one in the afternoon in Elkhart."""


def retire(connection: Connection, fleet: Fleet, *, at: datetime = TENTH) -> None:
    retire_record(connection, fleet.company_id, "vehicle", fleet.trucks[0], now=at)


def successor(connection: Connection, fleet: Fleet) -> UUID:
    vehicle_id = new_id()
    connection.execute(
        "INSERT INTO vehicles (id, company_id, unit_number) VALUES (%s, %s, '101')", (vehicle_id, fleet.company_id)
    )
    return vehicle_id


def changed_on(connection: Connection, fleet: Fleet, at: datetime) -> None:
    """Move the moment of a change that was just stored."""
    connection.execute("UPDATE former_units SET until = %s WHERE company_id = %s", (at, fleet.company_id))


def map_to(connection: Connection, fleet: Fleet, truck: UUID, *, since: datetime = TENTH) -> None:
    connection.execute(
        "INSERT INTO mappings (company_id, kind, value, target_id, created_at)"
        " VALUES (%s, 'unit_number', 'TRK 1', %s, %s)"
        " ON CONFLICT (company_id, kind, value) DO UPDATE SET target_id = excluded.target_id",
        (fleet.company_id, truck, since),
    )


def import_days(connection: Connection, fleet: Fleet, path: Path, *days: int, unit: str = "101") -> None:
    lines = [efs(date=f"2026-11-{day:02}", invoice=f"77{day}", unit=unit, qty="150", amount="518.25") for day in days]
    import_fills(connection, fleet.live, write_efs(path / "efs.csv", *lines))


def decide_truck(connection: Connection, fleet: Fleet, fill_id: UUID, decision: Decision) -> None:
    decide(connection, fleet.company_id, fill_id, decision, DOT, far_miles=5, now=NOW)


def again(connection: Connection, fleet: Fleet) -> None:
    match_fills_again(connection, fleet.live, read_stations(connection, fleet.company_id), far_miles=5, now=NOW)


def test_a_truck_that_was_traded_in_keeps_its_purchases(connection: Connection, fleet: Fleet, tmp_path: Path) -> None:
    retire(connection, fleet)
    new = successor(connection, fleet)

    import_days(connection, fleet, tmp_path, 5, 20)

    assert trucks(connection, fleet) == [fleet.trucks[0], new]
    routes = find_quarter_routes(connection, fleet.company_id, Quarter(2026, 4))
    report = make_quarter_report(connection, routes, now=NOW)
    assert {one.vehicle_id: one.gallons_credited for one in report.vehicles} == {
        fleet.shown_trucks[0]: 150,
        shown_id("veh", new): 150,
    }


def test_late_fills_of_a_truck_that_was_sold_are_its_own(connection: Connection, fleet: Fleet, tmp_path: Path) -> None:
    retire(connection, fleet)
    import_days(connection, fleet, tmp_path, 5, 10, 11)
    assert trucks(connection, fleet) == [fleet.trucks[0], fleet.trucks[0], None]
    (waiting,) = list_fills(connection, fleet.live, FillList.REVIEW, limit=10)
    decide_truck(connection, fleet, waiting.id, Decision(shown_id("veh", fleet.trucks[0])))
    assert trucks(connection, fleet) == [fleet.trucks[0]] * 3


def test_numbers_that_were_exchanged_count_from_that_day(connection: Connection, fleet: Fleet, tmp_path: Path) -> None:
    old, other = fleet.trucks
    for truck, number in ((old, "201"), (other, "101")):
        connection.execute("UPDATE vehicles SET unit_number = %s WHERE id = %s", (number, truck))
    changed_on(connection, fleet, TENTH)

    import_days(connection, fleet, tmp_path, 5, 20)
    assert trucks(connection, fleet) == [old, other]
    import_days(connection, fleet, tmp_path, 4, unit="102")
    assert trucks(connection, fleet) == [other, old, other]


def test_a_purchase_on_the_day_of_the_change_waits_for_a_person(
    connection: Connection, fleet: Fleet, tmp_path: Path
) -> None:
    retire(connection, fleet)
    new = successor(connection, fleet)
    import_days(connection, fleet, tmp_path, 10)
    (fill,) = list_fills(connection, fleet.live, FillList.REVIEW, limit=10)
    assert (fill.review, fill.vehicle_id) == (["unit"], None)

    with pytest.raises(UnusableDecision, match=f"changed hands.*{shown_id('veh', new)}"):
        decide_truck(connection, fleet, fill.id, Decision("101"))
    decide_truck(connection, fleet, fill.id, Decision(shown_id("veh", new)))
    assert trucks(connection, fleet) == [new]


def test_fills_that_were_matched_before_keep_their_truck(connection: Connection, fleet: Fleet, tmp_path: Path) -> None:
    import_days(connection, fleet, tmp_path, 5, 10)
    retire(connection, fleet)
    successor(connection, fleet)
    again(connection, fleet)
    import_days(connection, fleet, tmp_path, 5, 10)
    assert trucks(connection, fleet) == [fleet.trucks[0]] * 2


def test_a_fill_that_went_to_the_successor_by_mistake_is_given_back(
    connection: Connection, fleet: Fleet, tmp_path: Path
) -> None:
    retire(connection, fleet)
    new = successor(connection, fleet)
    import_days(connection, fleet, tmp_path, 5)
    connection.execute("UPDATE fills SET vehicle_id = %s WHERE company_id = %s", (new, fleet.company_id))
    again(connection, fleet)
    assert trucks(connection, fleet) == [fleet.trucks[0]]


def test_a_mapping_counts_as_long_as_it_was_there(connection: Connection, fleet: Fleet, tmp_path: Path) -> None:
    map_to(connection, fleet, fleet.trucks[0])
    map_to(connection, fleet, fleet.trucks[1])
    changed_on(connection, fleet, TENTH)
    import_days(connection, fleet, tmp_path, 5, 20, unit="TRK 1")
    assert trucks(connection, fleet) == [*fleet.trucks]


def test_the_mapping_of_a_truck_that_was_sold_leads_to_it_still(
    connection: Connection, fleet: Fleet, tmp_path: Path
) -> None:
    map_to(connection, fleet, fleet.trucks[0])
    retire(connection, fleet)
    import_days(connection, fleet, tmp_path, 5, 20, unit="TRK 1")
    assert trucks(connection, fleet) == [fleet.trucks[0], None]


def test_a_mapping_that_was_a_slip_is_forgotten(connection: Connection, fleet: Fleet, tmp_path: Path) -> None:
    map_to(connection, fleet, fleet.trucks[0], since=datetime.now(UTC))
    map_to(connection, fleet, fleet.trucks[1])
    import_days(connection, fleet, tmp_path, 5, unit="TRK 1")
    assert trucks(connection, fleet) == [fleet.trucks[1]]
    connection.execute("DELETE FROM mappings WHERE company_id = %s", (fleet.company_id,))
    again(connection, fleet)
    assert trucks(connection, fleet) == [fleet.trucks[1]], "a fill that was matched keeps its truck"
