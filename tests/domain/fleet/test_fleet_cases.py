"""Lists of vehicles and drivers are read in the layouts that people have (tests/cases/fleet)."""

from pathlib import Path

from domain.database.connections import Connection
from domain.routes.intake.fleet_changes import import_drivers, import_vehicles
from tests.domain.csv_files import drivers, rejected, vehicles
from tests.factories import Fleet

CASES = Path(__file__).parents[2] / "cases" / "fleet"


def test_a_list_of_trucks_by_unit(connection: Connection, fleet: Fleet) -> None:
    report = import_vehicles(connection, fleet.company_id, CASES / "trucks.csv")

    stored = vehicles(connection, fleet)
    assert (stored["201"].vin, stored["208"].license_plate) == ("1FUJGBDV8NLBT2011", "TX-208")
    assert rejected(report) == {3: "11 cells, but the header names 10 columns"}
    assert report.unused_columns == ["State", "Mileage", "Status", "Location"]


def test_a_fleet_master(connection: Connection, fleet: Fleet) -> None:
    import_vehicles(connection, fleet.company_id, CASES / "fleet_master.csv")

    stored = vehicles(connection, fleet)["301"]
    assert (stored.vin, stored.license_plate) == ("1FUJGBDV8NLBT3011", "TX-301")


def test_drivers_by_their_full_name(connection: Connection, fleet: Fleet) -> None:
    report = import_drivers(connection, fleet.company_id, CASES / "drivers.csv")

    assert (report.created + report.unchanged + report.updated, rejected(report)) == (1, {})


def test_drivers_with_their_languages(connection: Connection, fleet: Fleet) -> None:
    report = import_drivers(connection, fleet.company_id, CASES / "drivers_languages.csv")

    assert rejected(report) == {}
    languages = {row.name: row.language for row in drivers(connection, fleet).values()}
    assert languages["Ana Reyes"] == "es"
    assert languages["Marc Tremblay"] == "fr-CA"
    assert languages["Gurpreet Sandhu"] == "pa"
    assert languages["Hodan Warsame"] == "Somali"
    assert languages["Lee Ford"] is None


def test_drivers_by_first_and_last_name(connection: Connection, fleet: Fleet) -> None:
    import_drivers(connection, fleet.company_id, CASES / "drivers_first_last.txt")

    assert drivers(connection, fleet)["D-77"].name == "José Peña"
