"""Lists of vehicles and drivers are read in the layouts that people have (tests/cases/fleet)."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import openpyxl
import pytest

from domain.database.connections import Connection
from domain.files.csvfiles import UnreadableFile
from domain.routes.intake.fleet_changes import import_drivers, import_vehicles
from tests.domain.csv_files import CsvFile, drivers, rejected, vehicles
from tests.factories import Fleet

CASES = Path(__file__).parents[2] / "cases" / "fleet"


def test_a_list_of_trucks_by_unit(connection: Connection, fleet: Fleet) -> None:
    report = import_vehicles(connection, fleet.company_id, CASES / "trucks.csv")

    stored = vehicles(connection, fleet)
    assert (stored["201"].vin, stored["208"].license_plate) == ("1FUJGBDV8NLBT2011", "TX-208")
    assert rejected(report) == {3: "11 cells, but the header names 10 columns"}
    assert report.unused_columns == ["State", "Mileage", "Location"]


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


def test_cells_that_are_formulas_of_a_text_are_that_text(
    connection: Connection, fleet: Fleet, csv_file: CsvFile
) -> None:
    """Reports write `="0012"` or `'012`, so that a spreadsheet keeps the zeros. A truck that was sold came into
    service, and a driver was called `="Ann" ="Lee"`."""
    trucks = csv_file("Unit,VIN,Status", '="0012","=""1FUJGBDV8NLBT0012""","=""Sold"""', '="0013",,="Active"', "'014,,")
    people = csv_file("First Name,Last Name,Driver ID", '="Ann",="Lee",="007"')

    assert rejected(import_vehicles(connection, fleet.company_id, trucks)) == {}
    assert rejected(import_drivers(connection, fleet.company_id, people)) == {}

    assert {"0012", "0013", "014"} & vehicles(connection, fleet).keys() == {"0013", "014"}
    assert drivers(connection, fleet)["007"].name == "Ann Lee"


@pytest.mark.parametrize(
    "line",
    ["Tractor,Make", "-------,----", "Total,2", "Sub-Total,", "Total vehicles: 2,", "2 trucks", "Page 1 of 2,"],
)
def test_a_line_of_a_report_is_no_truck(connection: Connection, fleet: Fleet, csv_file: CsvFile, line: str) -> None:
    """Each of them came into service as a truck. A list that is pasted below another has its names again."""
    report = import_vehicles(connection, fleet.company_id, csv_file("Tractor,Make", "4901,Volvo", line, "TOTAL 2,Mack"))

    assert (report.created, report.passed_over, rejected(report)) == (2, 1, {})
    assert {"4901", "TOTAL 2"} <= vehicles(connection, fleet).keys()


def test_empty_rows_of_a_spreadsheet_refuse_no_driver(connection: Connection, fleet: Fleet, csv_file: CsvFile) -> None:
    """Below the drivers a spreadsheet may have hundreds. Beside first and last names each was refused for its name."""
    path = csv_file("First Name,Last Name,Driver ID", "Ann,Lee,7", ",,", ",,8")

    report = import_drivers(connection, fleet.company_id, path)

    assert (report.created, rejected(report)) == (1, {4: "name: Required"})


def test_lists_of_vendors_whose_name_for_a_truck_is_its_number(connection: Connection, fleet: Fleet) -> None:
    for name in ("fleetio_vehicles.csv", "motive_vehicles.csv", "geotab_assets.csv"):
        assert rejected(import_vehicles(connection, fleet.company_id, CASES / name)) == {}

    stored = vehicles(connection, fleet)
    assert stored["4101"].vin == "1FUJGBDV8NLBT4101"
    assert (stored["4201"].vin, stored["4201"].fuel_tank_capacity_gallons) == ("1FUJGBDV8NLBT4201", 240)
    assert stored["4301"].vin == "1FUJGBDV8NLBT4301"


def test_a_vendors_name_does_not_replace_a_unit_number(connection: Connection, fleet: Fleet, csv_file: CsvFile) -> None:
    import_vehicles(connection, fleet.company_id, csv_file("unit_number,vin", "4102,1FUJGBDV8NLBT4102"))

    import_vehicles(connection, fleet.company_id, CASES / "fleetio_vehicles.csv")

    stored = vehicles(connection, fleet)
    assert (stored["4102"].license_plate, "4102 - Bo Diaz" in stored) == ("TX-4102", False)


def test_cells_that_a_spreadsheet_has_spoiled(connection: Connection, fleet: Fleet) -> None:
    report = import_vehicles(connection, fleet.company_id, CASES / "looked_up.csv")

    stored = vehicles(connection, fleet)
    assert (stored["4401"].license_plate, stored["4401"].fuel_tank_capacity_gallons) == (None, 240)
    assert list(rejected(report)) == [3, 4]
    assert rejected(report)[3] == "vin: #REF! is an error of a spreadsheet"
    assert "has rounded this number (4.4E+03)" in rejected(report)[4]
    assert report.unused_columns == ["Fuel Capacity (L)"]


def test_ids_that_a_spreadsheet_has_rounded_are_refused(connection: Connection, fleet: Fleet) -> None:
    report = import_drivers(connection, fleet.company_id, CASES / "drivers_rounded.csv")

    assert list(rejected(report)) == [2, 3]
    assert drivers(connection, fleet)["5119"].name == "Cy Oh"


def test_a_list_passes_over_trailers(connection: Connection, fleet: Fleet) -> None:
    report = import_vehicles(connection, fleet.company_id, CASES / "trucks_and_trailers.csv")

    assert (rejected(report), report.passed_rows) == (
        {},
        [(2, "its Type is Trailer"), (4, "its Type is Reefer Trailer")],
    )
    assert vehicles(connection, fleet)["4601"].vin == "1FUJGBDV8NLBT4601"


def test_a_list_passes_over_trailers_by_their_kind(connection: Connection, fleet: Fleet) -> None:
    report = import_vehicles(connection, fleet.company_id, CASES / "assets_by_kind.csv")

    kinds = [(2, "its asset_kind is Trailer"), (4, "its asset_kind is Trailer")]
    assert (report.created, rejected(report), report.passed_rows) == (1, {}, kinds)
    assert vehicles(connection, fleet)["4611"].vin == "1FUJGBDV8NLBT4611"


def test_a_list_of_trailers_is_refused(connection: Connection, fleet: Fleet) -> None:
    with pytest.raises(UnreadableFile, match="column trailer_no: the file lists trailers"):
        import_vehicles(connection, fleet.company_id, CASES / "loadsmart_trailers.csv")


def test_a_truck_may_have_the_number_of_its_trailer_beside_its_own(
    connection: Connection, fleet: Fleet, tmp_path: Path
) -> None:
    path = tmp_path / "trucks.csv"
    path.write_text("Trailer #,Asset,VIN,Make\nT5301,4701,1FUJGBDV8NLBT4701,Volvo\n")

    import_vehicles(connection, fleet.company_id, path)

    assert vehicles(connection, fleet)["4701"].make == "Volvo"


@pytest.mark.parametrize(
    ("column", "kind", "is_passed"),
    [
        ("Equipment Type", "DRY_VAN", False),
        ("Vehicle Type", "Tractor-Trailer", False),
        ("Asset Type", "Trailer - Flatbed", True),
        ("Category", "Semi-Trailers", True),
        ("Type", "Truck", False),
        ("Unit Type", "Chassis", True),
        ("Unit Type", "Cab & Chassis", False),
        ("Asset Class", "Trailers", True),
        ("Class", "8", False),
    ],
)
def test_a_trailer_is_no_vehicle(
    connection: Connection, fleet: Fleet, csv_file: CsvFile, column: str, kind: str, is_passed: bool
) -> None:
    report = import_vehicles(connection, fleet.company_id, csv_file(f"Unit Number,{column}", f"4701,{kind}"))

    assert (report.created, len(report.passed_rows)) == (int(not is_passed), int(is_passed))


@pytest.mark.parametrize("column", ["Power Unit", "Power Unit #", "power_unit_number"])
def test_a_list_of_power_units_beside_their_trailers_is_one_of_trucks(
    connection: Connection, fleet: Fleet, csv_file: CsvFile, column: str
) -> None:
    path = csv_file(f"{column},VIN,Make,Year,Trailer", "4901,1FUJGBDV8NLBT4901,Volvo,2024,T-7")

    assert rejected(import_vehicles(connection, fleet.company_id, path)) == {}
    assert vehicles(connection, fleet)["4901"].vin == "1FUJGBDV8NLBT4901"


def test_a_number_that_a_program_has_given_a_decimal_is_the_number(
    connection: Connection, fleet: Fleet, csv_file: CsvFile
) -> None:
    """Python's pandas writes whole numbers so once a cell of the column is empty. The truck was 4721.0."""
    import_vehicles(
        connection, fleet.company_id, csv_file("Unit Number,Make,Model", "4721.0,Volvo,VNL", "4722,Volvo,7.0")
    )
    import_drivers(connection, fleet.company_id, csv_file("Name,Driver ID", "Ann Ode,77.0"))

    stored = vehicles(connection, fleet)
    assert (stored["4721"].make, stored["4722"].model) == ("Volvo", "7.0")
    assert drivers(connection, fleet)["77"].name == "Ann Ode"


def test_a_further_sheet_with_trucks_is_told(connection: Connection, fleet: Fleet, tmp_path: Path) -> None:
    """The trucks on it were left out without a word."""
    book = openpyxl.Workbook()
    for sheet, unit in ((book.active, "4711"), (book.create_sheet("Leased"), "4712")):
        for row in ("Unit Number,Make,Model", f"{unit},Volvo,VNL"):
            sheet.append(row.split(","))
    book.save(tmp_path / "trucks.xlsx")

    report = import_vehicles(connection, fleet.company_id, tmp_path / "trucks.xlsx")

    told = "the sheet 'Leased' has rows, too, and only the first is read: save it as a file of its own"
    assert (report.created, rejected(report)) == (1, {1: told})


def test_a_list_passes_over_who_and_what_has_gone(connection: Connection, fleet: Fleet) -> None:
    people = import_drivers(connection, fleet.company_id, CASES / "loadsmart_drivers.csv")
    trucks = import_vehicles(connection, fleet.company_id, CASES / "sold_trucks.csv")

    assert (rejected(people), people.passed_rows) == ({}, [(3, "its active is FALSE")])
    assert (rejected(trucks), trucks.passed_rows) == ({}, [(2, "its Status is Sold"), (5, "its Is Active is FALSE")])
    stored = vehicles(connection, fleet)
    assert stored["4501"].vin == "1FUJGBDV8NLBT4511"
    assert "4502" in stored
    assert "4503" not in stored
    assert trucks.unused_columns == []


def test_a_list_passes_over_those_whose_day_of_leaving_is_past(connection: Connection, fleet: Fleet) -> None:
    people = import_drivers(connection, fleet.company_id, CASES / "drivers_left.csv")
    trucks = import_vehicles(connection, fleet.company_id, CASES / "rta_sold_assets.csv")

    assert (rejected(people), people.passed_rows) == ({}, [(3, "its termination_date is 2024-02-29")])
    assert {"D-91", "D-93", "D-94"} <= set(drivers(connection, fleet))
    assert (rejected(trucks), trucks.passed_rows) == ({}, [(2, "its Sale Date is 2-29-2024")])
    assert vehicles(connection, fleet)["4801"].vin == "1FUJGBDV8NLBT4811"


def test_lists_of_tmw_have_a_record_for_nobody(connection: Connection, fleet: Fleet) -> None:
    trucks = import_vehicles(connection, fleet.company_id, CASES / "tmw_tractors.csv")
    people = import_drivers(connection, fleet.company_id, CASES / "tmw_drivers.csv")

    assert (rejected(trucks), trucks.passed_rows) == ({}, [(2, "its ActiveYN is N"), (4, "its Tractor is UNKNOWN")])
    assert (rejected(people), people.passed_rows) == ({}, [(3, "its ActiveYN is N"), (4, "its Driver ID is UNKNOWN")])
    assert "4902" in vehicles(connection, fleet)
    assert "LEEANN" in drivers(connection, fleet)


@pytest.mark.parametrize(("days_ago", "is_passed"), [(-30, False), (0, False), (1, False), (2, True), (400, True)])
@pytest.mark.parametrize("written", ["%m/%d/%Y", "%Y-%m-%d", "%Y%m%d", "%m/%d/%Y %H:%M"])
def test_who_leaves_today_is_still_there_in_every_time_zone(
    connection: Connection, fleet: Fleet, csv_file: CsvFile, written: str, days_ago: int, is_passed: bool
) -> None:
    day = datetime.now(UTC) - timedelta(days=days_ago)

    report = import_drivers(connection, fleet.company_id, csv_file("Name,Term Date", f"Eve Ray,{day:{written}}"))

    assert len(report.passed_rows) == int(is_passed)


@pytest.mark.parametrize(
    "nothing",
    [
        *("", "-", "N/A", "00/00/0000", "01/01/1900", "1899-12-30 00:00:00", "12/31/2049"),
        *("1970-01-01T00:00:00Z", "12/31/1969 6:00:00 PM"),
    ],
)
def test_a_day_of_leaving_may_say_that_there_is_none(
    connection: Connection, fleet: Fleet, csv_file: CsvFile, nothing: str
) -> None:
    report = import_drivers(connection, fleet.company_id, csv_file("Name,Termination Date", f"Eve Ray,{nothing}"))

    assert (report.created, report.passed_rows) == (1, [])
