"""Cards that name no unit: their fills wait, are credited once a person says whose card it is, and are forgotten with
the driver."""

from contextlib import nullcontext
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from domain.database.connections import Connection
from domain.fills.card_holders import CardHolder, UnusableCard, assign_card, list_assignments, waiting_cards
from domain.fills.fill_lists import FillList, count_fills, list_fills, reasons_of
from domain.fills.matching_again import match_card_again
from domain.housekeeping.erasure import erase_driver
from domain.settings import Settings
from tests.domain.fills.cards import NOW, efs, fills, import_fills, trucks, write_efs
from tests.domain.fills.test_importing import driven
from tests.factories import Fleet

CASE = Path(__file__).parents[2] / "cases" / "fills_identity" / "efs_nounit.csv"


def assign(connection: Connection, fleet: Fleet, card: str, **more: Any) -> None:
    assign_card(connection, fleet.company_id, card, CardHolder(**more), "dot", now=NOW)
    match_card_again(connection, fleet.live, card, far_miles=5)


def test_rows_without_a_unit_wait_with_card_and_name(connection: Connection, fleet: Fleet) -> None:
    assert import_fills(connection, fleet.live, CASE) == ((3, 0, 0), {})
    waiting = list_fills(connection, fleet.live, FillList.REVIEW, limit=10)
    assert [(one.vehicle_id, one.review) for one in waiting] == [(None, ["unit"])] * 3
    assert "card …0541 of SAMPLE DRIVER" in reasons_of(waiting[0])[0]
    assert sorted(one.fuel for one in waiting) == ["def", "tractor", "tractor"]
    (card,) = waiting_cards(connection, fleet.live)
    assert (card.card_last_four, card.driver_name, card.fills) == ("0541", "SAMPLE DRIVER", 3)


def test_a_card_is_assigned_once(connection: Connection, fleet: Fleet, tmp_path: Path) -> None:
    import_fills(connection, fleet.live, CASE)
    assign(connection, fleet, "0541", vehicle_id=fleet.trucks[0])
    assert trucks(connection, fleet) == [fleet.trucks[0]] * 3
    later = efs(card="*0541", unit="0", driver="DRIVER, SAMPLE".replace(",", ""))
    import_fills(connection, fleet.live, write_efs(tmp_path / "efs.csv", later))
    assert trucks(connection, fleet) == [fleet.trucks[0]] * 4
    assert count_fills(connection, fleet.live, FillList.REVIEW) == 0


def test_a_card_moves_on_a_day(connection: Connection, fleet: Fleet) -> None:
    import_fills(connection, fleet.live, CASE)
    assign(connection, fleet, "0541", vehicle_id=fleet.trucks[0])
    assign(connection, fleet, "0541", vehicle_id=fleet.trucks[1], first_day=date(2025, 1, 10))
    assert trucks(connection, fleet) == [fleet.trucks[0], fleet.trucks[0], fleet.trucks[1]]
    assign(connection, fleet, "0541", first_day=date(2025, 1, 10))
    assert trucks(connection, fleet) == [fleet.trucks[0], fleet.trucks[0], None]


def test_one_person_s_name_in_two_spellings_is_assigned_by_one_of_them_each_time(
    connection: Connection, fleet: Fleet, tmp_path: Path
) -> None:
    names = ("LEE ANN", "ANN LEE", "LEE  ANN", "Ann Lee", "Lee Ann")
    lines = [efs(card="*0541", unit="", driver=name, invoice=str(at)) for at, name in enumerate(names)]
    import_fills(connection, fleet.live, write_efs(tmp_path / "efs.csv", *lines))
    stored = connection.execute("SELECT max(driver_name) FROM fills").fetchall()
    connection.execute("SET LOCAL enable_sort = off")  # among many fills, PostgreSQL finds the names by their hashes
    for truck in fleet.trucks[:2]:
        assign(connection, fleet, "0541", vehicle_id=truck)
    assert [(one.driver_name, one.vehicle_id) for one in list_assignments(connection, fleet.company_id)] == [
        (stored[0][0], fleet.trucks[1])
    ]


def test_another_person_s_card_with_the_same_digits_waits(connection: Connection, fleet: Fleet, tmp_path: Path) -> None:
    import_fills(connection, fleet.live, CASE)
    assign(connection, fleet, "0541", vehicle_id=fleet.trucks[0])
    other = efs(card="*0541", unit="", driver="OTHER PERSON")
    import_fills(connection, fleet.live, write_efs(tmp_path / "efs.csv", other))
    assert trucks(connection, fleet)[-1] is None
    with pytest.raises(UnusableCard, match="OTHER PERSON"):
        assign(connection, fleet, "0541", vehicle_id=fleet.trucks[1])
    assign(connection, fleet, "0541", vehicle_id=fleet.trucks[1], driver_name="OTHER PERSON")
    assert trucks(connection, fleet) == [fleet.trucks[0]] * 3 + [fleet.trucks[1]]


@pytest.mark.parametrize("by_name", [True, False])
def test_a_driver_s_fill_goes_to_the_truck_that_a_route_proves(
    connection: Connection, fleet: Fleet, settings: Settings, tmp_path: Path, by_name: bool
) -> None:
    driven(connection, settings, fleet, at=datetime(2026, 11, 20, 9, tzinfo=UTC))
    name = "LEE ANN" if by_name else "CARD 12"
    lines = [efs(card="*0541", unit="", driver=name), efs(card="*0541", unit="", driver=name, date="2026-11-18")]
    import_fills(connection, fleet.live, write_efs(tmp_path / "efs.csv", *lines))
    if not by_name:
        assign(connection, fleet, "0541", driver_id=fleet.drivers[0])
    assert trucks(connection, fleet) == [None, fleet.trucks[0]]


def test_names_and_cards_go_with_the_driver(connection: Connection, fleet: Fleet, tmp_path: Path) -> None:
    lines = [efs(card="*0541", unit="", driver="LEE ANN"), efs(card="*9999", unit="", driver="BO DIAZ", invoice="2")]
    import_fills(connection, fleet.live, write_efs(tmp_path / "efs.csv", *lines))
    assign(connection, fleet, "0541", driver_id=fleet.drivers[0])
    erase_driver(
        lambda: nullcontext(connection),
        fleet.company_id,
        fleet.drivers[0],
        force=True,
        now=NOW + timedelta(days=1),
    )
    assert list_assignments(connection, fleet.company_id) == []
    assert sorted(one.driver_name or "" for one in fills(connection, fleet.live)) == ["", "BO DIAZ"]
