"""Imports of vehicles and drivers from CSV files: which record a row means, and what it keeps and changes."""

from collections.abc import Sequence
from datetime import datetime
from itertools import permutations
from typing import Any

import pytest

from domain.database.connections import Connection
from domain.files.csvfiles import ImportReport
from domain.fleet.records import AlreadyInFleet
from domain.fleet.vehicles import VehicleRow, change_vehicle, store_vehicle
from domain.queue.jobs import import_routes_job
from domain.routes.intake.fleet_changes import import_drivers, import_vehicles
from tests.domain.csv_files import CsvFile, counts, drivers, rejected, vehicles
from tests.domain.helpers import imported
from tests.factories import Fleet, make_fleet
from tests.jobs import jobs_of

pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")  # Apprise's, when it loads


def test_vehicles_are_found_by_unit_number_and_else_by_vin(
    connection: Connection, fleet: Fleet, csv_file: CsvFile
) -> None:
    path = csv_file("unit_number,vin,make", "101,,Volvo", ",1XKAD49X0CJ000102,Mack")

    report = import_vehicles(connection, fleet.company_id, path)

    assert counts(report) == (0, 2, 0)
    stored = vehicles(connection, fleet)
    assert (stored["101"].make, stored["102"].make) == ("Volvo", "Mack")


def dimensions(truck: Any) -> tuple[Any, ...]:
    names = ("height_feet", "width_feet", "length_feet", "weight_pounds", "axle_weight_pounds", "axle_count", "hazmat")
    return tuple(getattr(truck, name) for name in names)


def test_dimensions_and_cargo_are_imported_and_cleared(connection: Connection, fleet: Fleet, csv_file: CsvFile) -> None:
    columns = "unit_number,height_feet,width_feet,length_feet,weight_pounds,axle_weight_pounds,axle_count,hazmat"
    import_vehicles(
        connection, fleet.company_id, csv_file(columns, '101,13.5,8.5,72,"80,000",17000,5,yes', "102,-,,,46000,,2,no")
    )

    stored = vehicles(connection, fleet)
    assert dimensions(stored["101"]) == (13.5, 8.5, 72.0, 80_000.0, 17_000.0, 5, "yes")
    assert (stored["102"].weight_pounds, stored["102"].axle_count, stored["102"].hazmat) == (46_000, 2, "no")
    again = csv_file(columns, "101,-,,,,,,-")
    assert counts(import_vehicles(connection, fleet.company_id, again)) == (0, 1, 0)
    assert counts(import_vehicles(connection, fleet.company_id, again)) == (0, 0, 1)
    assert dimensions(vehicles(connection, fleet)["101"]) == (None, 8.5, 72.0, 80_000.0, 17_000.0, 5, None)


def test_a_row_may_end_before_a_column_that_is_there_twice(
    connection: Connection, fleet: Fleet, csv_file: CsvFile
) -> None:
    """The whole file failed."""
    report = import_vehicles(connection, fleet.company_id, csv_file("unit_number,make,make", "101,Volvo"))
    assert counts(report) == (0, 1, 0)
    assert vehicles(connection, fleet)["101"].make == "Volvo"


@pytest.mark.parametrize(
    ("column", "cell", "fault"),
    [
        ("height_feet", "411", "Expected a number <= 30"),
        ("height_feet", "4.11", "Expected a number >= 5"),
        ("weight_pounds", "40", "Expected a number >= 1000"),
        ("axle_count", "5.5", "Expected a whole number"),
        ("hazmat", "3", "Expected one of `"),
        ("mpg", "36", "is it in liters per 100 km?"),
        ("mpg", "65", "Expected a number <= 50"),
        ("fuel_tank_capacity_gallons", "757", "is it in liters?"),
        ("fuel_tank_capacity_gallons", "2000", "Expected a number <= 1000"),
    ],
)
def test_dimensions_in_other_units_are_refused(
    connection: Connection, fleet: Fleet, csv_file: CsvFile, column: str, cell: str, fault: str
) -> None:
    report = import_vehicles(connection, fleet.company_id, csv_file(f"unit_number,{column}", f"101,{cell}"))

    assert fault in rejected(report)[2]


def test_an_empty_cell_leaves_the_stored_value(connection: Connection, fleet: Fleet, csv_file: CsvFile) -> None:
    import_vehicles(connection, fleet.company_id, csv_file("unit_number,vin,mpg,year", "101,,7.25,2021"))

    stored = vehicles(connection, fleet)["101"]
    assert (stored.vin, stored.mpg, stored.year, stored.fuel_tank_capacity_gallons) == (
        "1XKAD49X0CJ000101",
        7.25,
        "2021",
        200,
    )


def test_a_dash_clears_a_stored_value(connection: Connection, fleet: Fleet, csv_file: CsvFile) -> None:
    vehicle_rows = csv_file("unit_number,vin,mpg,year", "101,-,-,-", "102,-,,")
    connection.execute("UPDATE drivers SET contact = 'mailto://a:b@example.org' WHERE id = %s", (fleet.drivers[0],))
    driver_rows = csv_file("name,external_id,display_name,contact", "Ann Lee,D-1,-,-", "-,D-9,,")

    assert counts(import_vehicles(connection, fleet.company_id, vehicle_rows)) == (0, 2, 0)
    assert counts(import_vehicles(connection, fleet.company_id, vehicle_rows)) == (0, 0, 2)
    assert counts(import_drivers(connection, fleet.company_id, driver_rows)) == (1, 1, 0)

    stored = vehicles(connection, fleet)
    assert (stored["101"].vin, stored["101"].mpg, stored["101"].fuel_tank_capacity_gallons) == (None, None, 200)
    assert (stored["102"].vin, stored["102"].mpg) == (None, 6.5)
    assert (drivers(connection, fleet)["D-1"].contact, drivers(connection, fleet)["D-1"].name) == (None, "Ann Lee")
    assert drivers(connection, fleet)["D-9"].name == "-"  # a column that is required has nothing to clear


@pytest.mark.parametrize("heir", ["Bo Diaz", "Cy Oh"])
def test_an_external_id_moves_from_one_driver_to_another_in_one_file(
    connection: Connection, fleet: Fleet, csv_file: CsvFile, heir: str
) -> None:
    connection.execute("UPDATE drivers SET external_id = NULL WHERE id = %s", (fleet.drivers[1],))

    report = import_drivers(
        connection, fleet.company_id, csv_file("name,external_id", "Ann Lee,-", f"{heir},D-1", "Ann Lee,D-3")
    )

    assert rejected(report) == {4: "the same one is already on line 2"}
    stored = drivers(connection, fleet)
    assert stored["D-1"].name == heir
    assert stored[None].name in ("Ann Lee", "Bo Diaz")


def test_a_dash_in_both_references_of_a_vehicle_refuses_its_row(
    connection: Connection, fleet: Fleet, csv_file: CsvFile
) -> None:
    report = import_vehicles(connection, fleet.company_id, csv_file("unit_number,vin", "-,-"))

    assert "unit_number or vin is needed" in rejected(report)[2]


def test_the_same_file_again_changes_nothing_and_enqueues_no_import(
    connection: Connection, fleet: Fleet, csv_file: CsvFile
) -> None:
    path = csv_file("unit_number,vin,mpg", "201,1XKAD49X0CJ000201,6.5", "202,,")
    import_vehicles(connection, fleet.company_id, path)

    report = import_vehicles(connection, fleet.company_id, path)
    jobs = jobs_of(connection)

    assert (counts(report), jobs) == ((0, 0, 2), [])


def test_a_vehicle_that_had_only_a_vin_gets_its_unit_number(
    connection: Connection, fleet: Fleet, csv_file: CsvFile
) -> None:
    import_vehicles(connection, fleet.company_id, csv_file("vin", "1XKAD49X0CJ000201"))

    report = import_vehicles(connection, fleet.company_id, csv_file("unit_number,vin", "201,1XKAD49X0CJ000201"))

    assert counts(report) == (0, 1, 0)
    assert len(vehicles(connection, fleet)) == 3


@pytest.mark.parametrize("order", [1, -1])
def test_a_truck_with_a_known_vin_gets_its_new_unit_number_and_another_may_take_the_old_one(
    connection: Connection, fleet: Fleet, csv_file: CsvFile, order: int
) -> None:
    path = csv_file("unit_number,vin", "301,1XKAD49X0CJ000301")
    import_vehicles(connection, fleet.company_id, path)
    truck = vehicles(connection, fleet)["301"].id

    path = csv_file("unit_number,vin", *["302,1XKAD49X0CJ000301", "301,1XKAD49X0CJ000302"][::order])
    report = import_vehicles(connection, fleet.company_id, path)

    assert counts(report) == (1, 1, 0)
    stored = vehicles(connection, fleet)
    assert (stored["302"].id, stored["302"].vin) == (truck, "1XKAD49X0CJ000301")
    assert (stored["301"].id == truck, stored["301"].vin) == (False, "1XKAD49X0CJ000302")


@pytest.mark.parametrize(
    ("rows", "units", "refused"),
    [
        *((rows, {"301": "new", "302": "X", "303": "Y"}, {}) for rows in permutations(["301,Z", "302,X", "303,Y"])),
        (("304,X", "301,Y", "302,X"), {"301": "Y", "304": "X"}, {4: "the same one is already on line 2"}),
    ],
)
def test_trucks_that_hand_their_numbers_on_are_renumbered_in_any_order_of_the_rows(
    connection: Connection,
    fleet: Fleet,
    csv_file: CsvFile,
    rows: Sequence[str],
    units: dict[str, str],
    refused: dict[int, str],
) -> None:
    def imported_rows(*short: str) -> ImportReport:
        lines = (f"{row[:-1]}1XKAD49X0CJ00000{row[-1]}" for row in short)
        return import_vehicles(connection, fleet.company_id, csv_file("unit_number,vin", *lines))

    imported_rows("301,X", "302,Y")
    known = {one.id: one.vin[-1] for one in vehicles(connection, fleet).values() if one.vin and one.vin[-1] in "XY"}

    report = imported_rows(*rows)

    stored = vehicles(connection, fleet)
    assert {unit: known.get(stored[unit].id, "new") for unit in stored if (unit or "") > "300"} == units
    assert rejected(report) == refused


@pytest.mark.parametrize("vin", ["1xkad49x0cj000301", "1XKAD49XOCJOOO3OI", "1XKAD49XQCJ00o30i"])
def test_a_vin_is_known_in_any_case_and_with_letters_for_its_digits(
    connection: Connection, fleet: Fleet, csv_file: CsvFile, vin: str
) -> None:
    """A list that was typed, and then the list of a vendor of telematics, whose names of trucks are no numbers."""
    import_vehicles(connection, fleet.company_id, csv_file("unit_number,vin", f"301,{vin}"))
    truck = vehicles(connection, fleet)["301"].id

    report = import_vehicles(connection, fleet.company_id, csv_file("Name,VIN", "301 - Ann Lee,1XKAD49X0CJ000301"))

    assert counts(report) == (0, 1, 0)
    stored = vehicles(connection, fleet)["301"]
    assert (stored.id, stored.vin) == (truck, "1XKAD49X0CJ000301")
    rows = csv_file("unit_number,vin", f"302,{vin}", f"101,{vin}")
    assert rejected(import_vehicles(connection, fleet.company_id, rows))[3].startswith(f"the vin {vin} is that of unit")
    stored = vehicles(connection, fleet)["302"]
    assert (stored.id, stored.vin) == (truck, "1XKAD49X0CJ000301"), "the feed names it by the right VIN"
    with pytest.raises(AlreadyInFleet):
        store_vehicle(connection, fleet.company_id, VehicleRow(unit_number="303", vin="1XKAD49X0CJ000301"))


def test_two_spellings_of_a_vin_that_older_releases_stored_are_told_apart(
    connection: Connection, fleet: Fleet, csv_file: CsvFile
) -> None:
    import_vehicles(connection, fleet.company_id, csv_file("unit_number,vin", "301,1XKAD49X0CJ000301", "302,"))
    twin = vehicles(connection, fleet)["302"].id
    connection.execute("UPDATE vehicles SET vin = '1xkad49x0cj000301' WHERE id = %s", (twin,))

    rows = csv_file("vin,make", "1xkad49x0cj000301,Mack", "1XKAD49X0CJ000301,Volvo", "1Xkad49x0cj000301,Ford")
    report = import_vehicles(connection, fleet.company_id, rows)
    change_vehicle(connection, fleet.company_id, twin, VehicleRow(unit_number="304", vin="1xkad49x0cj000301"))

    named = import_vehicles(connection, fleet.company_id, csv_file("Name,VIN,year", "Ann,1XKAD49X0CJ000301,2019"))

    assert counts(named) == (0, 1, 0)
    assert rejected(report) == {4: "fits 2 stored records: give its unit_number"}
    stored = vehicles(connection, fleet)
    assert (stored["301"].make, stored["304"].id) == ("Volvo", twin)


def test_a_vin_that_fits_several_vehicles_gives_none_of_them_a_new_unit_number(
    connection: Connection, fleet: Fleet, csv_file: CsvFile
) -> None:
    connection.execute("UPDATE vehicles SET vin = '1XKAD49X0CJ000301' WHERE company_id = %s", (fleet.company_id,))

    report = import_vehicles(connection, fleet.company_id, csv_file("unit_number,vin", "302,1XKAD49X0CJ000301"))

    assert rejected(report) == {2: "fits 2 stored records: correct their vin first"}


@pytest.mark.parametrize(
    ("rows", "vins", "refused"),
    [
        (["101,Y"], "101 X, 102 Y, 103 Z", {2: "102"}),
        (["104,Y", "102,W"], "101 X, 102 W, 103 Z, 104 Y", {}),
        (["101,Y", "102,X"], "101 Y, 102 X, 103 Z", {}),
        (["101,Y", "102,W"], "101 Y, 102 W, 103 Z", {}),
        (["101,Y", "102,-"], "101 Y, 102 -, 103 Z", {}),
        (["101,W", "102,W"], "101 W, 102 Y, 103 Z", {3: "101"}),
        (["104,W", "101,W"], "101 X, 102 Y, 103 Z, 104 W", {3: "104"}),
        (["101,Y", "102,Z"], "101 X, 102 Y, 103 Z", {2: "102", 3: "103"}),
        (["101,Y", "104,X"], "101 Y, 103 Z, 104 X", {}),
    ],
)
def test_no_row_gives_a_vehicle_the_vin_that_another_one_has_in_the_end(
    connection: Connection, fleet: Fleet, csv_file: CsvFile, rows: list[str], vins: str, refused: dict[int, str]
) -> None:
    def imported_rows(*short: str) -> ImportReport:
        lines = (f"{row[:-1]}{'1XKAD49X0CJ00000' if row[-1] != '-' else ''}{row[-1]}" for row in short)
        return import_vehicles(connection, fleet.company_id, csv_file("unit_number,vin", *lines))

    imported_rows("101,X", "102,Y", "103,Z")

    report = imported_rows(*rows)

    stored = [f"{unit} {(one.vin or '-')[-1]}" for unit, one in vehicles(connection, fleet).items()]
    assert ", ".join(sorted(stored)) == vins
    told = rejected(report)
    assert sum(counts(report)) == len(rows) - len(refused) == len(rows) - len(told)
    for line, owner in refused.items():
        assert f"is that of unit_number {owner}: correct that one first, or retire it" in told[line]


def test_a_vehicle_named_twice_in_a_file_is_refused_the_second_time(
    connection: Connection, fleet: Fleet, csv_file: CsvFile
) -> None:
    path = csv_file(
        "unit_number,vin,make",
        "201,1XKAD49X0CJ000201,Volvo",
        "201,,Mack",
        ",1XKAD49X0CJ000201,Ford",
        "101,,",
        ",1XKAD49X0CJ000101,Ford",
    )

    report = import_vehicles(connection, fleet.company_id, path)

    assert counts(report) == (1, 0, 1)
    assert rejected(report) == {
        3: "the same one is already on line 2",
        4: "the same one is already on line 2",
        6: "the same one is already on line 5",
    }
    assert vehicles(connection, fleet)["201"].make == "Volvo"


def test_drivers_are_found_by_external_id_and_else_by_name(
    connection: Connection, fleet: Fleet, csv_file: CsvFile
) -> None:
    path = csv_file("name,external_id,display_name", "Ann Smith,D-1,Annie", "Bo Diaz,,Bobo")

    report = import_drivers(connection, fleet.company_id, path)

    assert counts(report) == (0, 2, 0)
    stored = drivers(connection, fleet)
    assert (stored["D-1"].name, stored["D-1"].display_name) == ("Ann Smith", "Annie")
    assert (stored["D-2"].name, stored["D-2"].display_name) == ("Bo Diaz", "Bobo")


def test_two_drivers_of_one_name_are_distinguished_by_their_external_ids(
    connection: Connection, fleet: Fleet, csv_file: CsvFile
) -> None:
    report = import_drivers(connection, fleet.company_id, csv_file("name,external_id", "Ann Lee,D-77", "Ann Lee,"))

    assert counts(report) == (1, 0, 0)
    assert "fits 2 stored records" in rejected(report)[3]


def test_a_contact_must_be_one_that_apprise_can_use(connection: Connection, fleet: Fleet, csv_file: CsvFile) -> None:
    path = csv_file(
        "name,contact",
        "Cy Oh,json://gateway.example/x",
        "Di Yu,+1 555 0100",
        "Ed Fu,json://169.254.169.254/555",
        "Gi Ho,json://gateway.example/?template=/etc/555",
        '"Jo Ki","json://gateway.example/,json://gateway.example/555"',
    )

    report = import_drivers(connection, fleet.company_id, path)

    assert counts(report) == (1, 0, 0)
    assert set(rejected(report)) == {3, 4, 5, 6}
    assert all("contact " in told and "555" not in told for told in rejected(report).values())


def test_an_import_touches_no_other_company(connection: Connection, fleet: Fleet, csv_file: CsvFile) -> None:
    other = make_fleet(connection)

    import_vehicles(connection, fleet.company_id, csv_file("unit_number,make", "101,Volvo"))

    assert vehicles(connection, other)["101"].make is None


def test_routes_that_waited_for_a_vehicle_or_driver_are_imported_at_once(
    connection: Connection, fleet: Fleet, csv_file: CsvFile, now: datetime
) -> None:
    by_unit = imported(connection, fleet.live, now=now, vehicle={"unitNumber": "201"})
    by_vin = imported(connection, fleet.sandbox, now=now, vehicle={"vin": "1XKAD49X0CJ000201"})
    by_driver = imported(connection, fleet.live, now=now, driver={"externalId": "D-9"})
    imported(connection, fleet.live, now=now, vehicle={"unitNumber": "999"})

    import_vehicles(connection, fleet.company_id, csv_file("unit_number,vin", "201,1XKAD49X0CJ000201", "101,"))
    vehicle_jobs = jobs_of(connection)
    import_drivers(connection, fleet.company_id, csv_file("name,external_id", "Cy Oh,D-9"))
    driver_jobs = jobs_of(connection)

    assert vehicle_jobs == [import_routes_job([by_unit, by_vin])]
    assert driver_jobs == [import_routes_job([by_driver])]
