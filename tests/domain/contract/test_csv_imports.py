"""CSV files that people bring: good rows are kept, bad ones are listed by line; what an upsert keeps and changes."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from domain.contract.csvfiles import ImportReport, UnreadableFile
from domain.database import Connection, Database
from domain.jobs import import_routes as import_job
from domain.routes.intake.fleet_changes import import_drivers, import_vehicles
from domain.stations.price_imports import store_deal_rows, store_station_rows, store_tax_rows
from tests.domain.helpers import imported
from tests.factories import Fleet, make_fleet
from tests.rows import named

pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")  # Apprise's, when it loads

CsvFile = Callable[..., Path]


@pytest.fixture
def csv_file(tmp_path: Path) -> CsvFile:
    """Writes the lines to a file."""

    def write(*lines: str, encoding: str = "utf-8", end: str = "\n") -> Path:
        path = tmp_path / f"{uuid4().hex}.csv"
        path.write_bytes(end.join([*lines, ""]).encode(encoding))
        return path

    return write


def counts(report: ImportReport) -> tuple[int, int, int]:
    return report.created, report.updated, report.unchanged


def rejected(report: ImportReport) -> dict[int, str]:
    return {row["line"]: row["message"] for row in report.as_json()["rejected"]}


def vehicles(connection: Connection, fleet: Fleet) -> dict[str | None, Any]:
    rows = named(connection).execute("SELECT * FROM vehicles WHERE company_id = %s", (fleet.company_id,)).fetchall()
    return {row.unit_number: row for row in rows}


def drivers(connection: Connection, fleet: Fleet) -> dict[str | None, Any]:
    rows = named(connection).execute("SELECT * FROM drivers WHERE company_id = %s", (fleet.company_id,)).fetchall()
    return {row.external_id: row for row in rows}


# --- Files -----------------------------------------------------------------------------------------------------


def test_good_rows_are_kept_and_bad_ones_are_listed_by_line(
    connection: Connection, fleet: Fleet, csv_file: CsvFile
) -> None:
    path = csv_file(
        "unit_number,vin,mpg",
        "201,1XKAD49X0CJ000201,6.5",
        "202,short,6.5",
        "",
        "203,,fast",
        ",,6.5",
        "204,,-1",
        "205,,6.5,and more",
        "206",
    )

    report, _ = import_vehicles(connection, fleet.company_id, path)

    assert counts(report) == (2, 0, 0)
    assert set(rejected(report)) == {3, 5, 6, 7, 8}
    assert "vin" in rejected(report)[3]
    assert "mpg" in rejected(report)[5]
    assert "unit_number or vin is needed" in rejected(report)[6]
    assert rejected(report)[8] == "4 cells, but the header names 3 columns"
    assert {"201", "206"} <= set(vehicles(connection, fleet))


def test_a_file_from_excel_with_a_mark_at_its_start_and_other_line_ends_is_read(
    connection: Connection, fleet: Fleet, csv_file: CsvFile
) -> None:
    path = csv_file(" Unit_Number , VIN", "201, 1XKAD49X0CJ000201 ", encoding="utf-8-sig", end="\r\n")

    report, _ = import_vehicles(connection, fleet.company_id, path)

    assert counts(report) == (1, 0, 0)
    assert vehicles(connection, fleet)["201"].vin == "1XKAD49X0CJ000201"


def test_quoted_cells_may_span_lines_and_line_numbers_stay_true(
    connection: Connection, fleet: Fleet, csv_file: CsvFile
) -> None:
    path = csv_file("name,external_id", '"Lee, ""Ann""\nMarie",D-9', ",D-10", "Bo,D-11", ",D-12")

    report, _ = import_drivers(connection, fleet.company_id, path)

    assert set(rejected(report)) == {4, 6}
    assert drivers(connection, fleet)["D-9"].name == 'Lee, "Ann"\nMarie'


def test_columns_in_any_order_and_unknown_ones_are_fine(
    connection: Connection, fleet: Fleet, csv_file: CsvFile
) -> None:
    report, _ = import_drivers(connection, fleet.company_id, csv_file("depot,external_id,name", "Joliet,D-9,Cy Oh"))

    assert counts(report) == (1, 0, 0)
    assert drivers(connection, fleet)["D-9"].name == "Cy Oh"


def test_a_file_without_the_needed_columns_is_refused_as_a_whole(connection: Connection, csv_file: CsvFile) -> None:
    for path in (csv_file("station_id;name;latitude;longitude", "1;a;1;1"), csv_file("station_id,name"), csv_file()):
        with pytest.raises(UnreadableFile, match="lacks the columns"), connection.transaction():
            store_station_rows(connection, path, now=datetime.now(UTC))


def test_a_file_that_is_not_utf_8_is_refused_with_what_to_do(
    connection: Connection, fleet: Fleet, csv_file: CsvFile
) -> None:
    for encoding in ("latin-1", "utf-16"):
        with pytest.raises(UnreadableFile, match="save it as CSV UTF-8"):
            import_drivers(connection, fleet.company_id, csv_file("name", "Jürgen", encoding=encoding))


def test_a_file_that_is_not_there_or_no_file_is_refused(connection: Connection, fleet: Fleet, tmp_path: Path) -> None:
    for path in (tmp_path / "nowhere.csv", tmp_path):
        with pytest.raises(UnreadableFile, match=r"^cannot read"):
            import_vehicles(connection, fleet.company_id, path)


def test_a_cell_with_nul_costs_only_its_row(connection: Connection, fleet: Fleet, csv_file: CsvFile) -> None:
    report, _ = import_drivers(connection, fleet.company_id, csv_file("name", "A\x00B", "Cy Oh"))

    assert counts(report) == (1, 0, 0)
    assert set(rejected(report)) == {2}


def test_a_misplaced_quote_costs_only_its_row(connection: Connection, fleet: Fleet, csv_file: CsvFile) -> None:
    path = csv_file("name,external_id", "Cy Oh,D-8", '"Jo"hn,D-9', "Di Yu,D-10")

    report, _ = import_drivers(connection, fleet.company_id, path)

    assert counts(report) == (2, 0, 0)
    assert set(rejected(report)) == {3}


def test_an_import_of_nothing_changes_nothing(connection: Connection, fleet: Fleet, csv_file: CsvFile) -> None:
    report, jobs = import_vehicles(connection, fleet.company_id, csv_file("unit_number"))

    assert (counts(report), jobs) == ((0, 0, 0), [])


# --- Vehicles and drivers --------------------------------------------------------------------------------------


def test_vehicles_are_found_by_unit_number_and_else_by_vin(
    connection: Connection, fleet: Fleet, csv_file: CsvFile
) -> None:
    path = csv_file("unit_number,vin,make", "101,,Volvo", ",1XKAD49X0CJ000102,Mack")

    report, _ = import_vehicles(connection, fleet.company_id, path)

    assert counts(report) == (0, 2, 0)
    stored = vehicles(connection, fleet)
    assert (stored["101"].make, stored["102"].make) == ("Volvo", "Mack")


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

    assert counts(import_vehicles(connection, fleet.company_id, vehicle_rows)[0]) == (0, 2, 0)
    assert counts(import_vehicles(connection, fleet.company_id, vehicle_rows)[0]) == (0, 0, 2)
    assert counts(import_drivers(connection, fleet.company_id, driver_rows)[0]) == (1, 1, 0)

    stored = vehicles(connection, fleet)
    assert (stored["101"].vin, stored["101"].mpg, stored["101"].fuel_tank_capacity_gallons) == (None, None, 200)
    assert (stored["102"].vin, stored["102"].mpg) == (None, 6.5)
    assert (drivers(connection, fleet)["D-1"].contact, drivers(connection, fleet)["D-1"].name) == (None, "Ann Lee")
    assert drivers(connection, fleet)["D-9"].name == "-"  # a column that is required has nothing to clear


@pytest.mark.parametrize("heir", ["Bo Diaz", "Cy Oh"])
def test_an_external_id_passes_from_one_driver_to_another_in_one_file(
    connection: Connection, fleet: Fleet, csv_file: CsvFile, heir: str
) -> None:
    connection.execute("UPDATE drivers SET external_id = NULL WHERE id = %s", (fleet.drivers[1],))

    report, _ = import_drivers(
        connection, fleet.company_id, csv_file("name,external_id", "Ann Lee,-", f"{heir},D-1", "Ann Lee,D-3")
    )

    assert rejected(report) == {4: "the same one is already on line 2"}
    stored = drivers(connection, fleet)
    assert stored["D-1"].name == heir
    assert stored[None].name in ("Ann Lee", "Bo Diaz")


def test_a_dash_in_both_references_of_a_vehicle_costs_its_row(
    connection: Connection, fleet: Fleet, csv_file: CsvFile
) -> None:
    report, _ = import_vehicles(connection, fleet.company_id, csv_file("unit_number,vin", "-,-"))

    assert "unit_number or vin is needed" in rejected(report)[2]


def test_the_same_file_again_changes_nothing_and_wakes_nobody(
    connection: Connection, fleet: Fleet, csv_file: CsvFile
) -> None:
    path = csv_file("unit_number,vin,mpg", "201,1XKAD49X0CJ000201,6.5", "202,,")
    import_vehicles(connection, fleet.company_id, path)

    report, jobs = import_vehicles(connection, fleet.company_id, path)

    assert (counts(report), jobs) == ((0, 0, 2), [])


def test_a_vehicle_that_had_only_a_vin_gets_its_unit_number(
    connection: Connection, fleet: Fleet, csv_file: CsvFile
) -> None:
    import_vehicles(connection, fleet.company_id, csv_file("vin", "1XKAD49X0CJ000201"))

    report, _ = import_vehicles(connection, fleet.company_id, csv_file("unit_number,vin", "201,1XKAD49X0CJ000201"))

    assert counts(report) == (0, 1, 0)
    assert len(vehicles(connection, fleet)) == 3


def test_a_truck_with_a_known_vin_gets_its_new_unit_number_and_another_may_take_the_old_one(
    connection: Connection, fleet: Fleet, csv_file: CsvFile
) -> None:
    path = csv_file("unit_number,vin", "301,1XKAD49X0CJ000301")
    import_vehicles(connection, fleet.company_id, path)
    truck = vehicles(connection, fleet)["301"].id

    path = csv_file("unit_number,vin", "302,1XKAD49X0CJ000301", "301,1XKAD49X0CJ000302")
    report, _ = import_vehicles(connection, fleet.company_id, path)

    assert counts(report) == (1, 1, 0)
    stored = vehicles(connection, fleet)
    assert (stored["302"].id, stored["302"].vin) == (truck, "1XKAD49X0CJ000301")
    assert (stored["301"].id == truck, stored["301"].vin) == (False, "1XKAD49X0CJ000302")


def test_a_vin_that_fits_several_vehicles_gives_none_of_them_a_new_unit_number(
    connection: Connection, fleet: Fleet, csv_file: CsvFile
) -> None:
    import_vehicles(connection, fleet.company_id, csv_file("unit_number,vin", "101,1XKAD49X0CJ000301"))
    import_vehicles(connection, fleet.company_id, csv_file("unit_number,vin", "102,1XKAD49X0CJ000301"))

    report, _ = import_vehicles(connection, fleet.company_id, csv_file("unit_number,vin", "302,1XKAD49X0CJ000301"))

    assert rejected(report) == {2: "fits 2 stored records: correct their vin first"}


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

    report, _ = import_vehicles(connection, fleet.company_id, path)

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

    report, _ = import_drivers(connection, fleet.company_id, path)

    assert counts(report) == (0, 2, 0)
    stored = drivers(connection, fleet)
    assert (stored["D-1"].name, stored["D-1"].display_name) == ("Ann Smith", "Annie")
    assert (stored["D-2"].name, stored["D-2"].display_name) == ("Bo Diaz", "Bobo")


def test_two_drivers_of_one_name_are_told_apart_by_their_ids(
    connection: Connection, fleet: Fleet, csv_file: CsvFile
) -> None:
    report, _ = import_drivers(connection, fleet.company_id, csv_file("name,external_id", "Ann Lee,D-77", "Ann Lee,"))

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

    report, _ = import_drivers(connection, fleet.company_id, path)

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

    _, vehicle_jobs = import_vehicles(
        connection, fleet.company_id, csv_file("unit_number,vin", "201,1XKAD49X0CJ000201", "101,")
    )
    _, driver_jobs = import_drivers(connection, fleet.company_id, csv_file("name,external_id", "Cy Oh,D-9"))

    assert vehicle_jobs == [import_job([by_unit, by_vin])]
    assert driver_jobs == [import_job([by_driver])]


# --- Stations and deals ----------------------------------------------------------------------------------------

HEADER = "station_id,name,brand,address,city,state,latitude,longitude,retail_price,priced_at"


@pytest.fixture
def stations_of(database: Database, csv_file: CsvFile, now: datetime) -> Callable[..., ImportReport]:
    """Imports stations in a transaction of their own; `{}` in a row is an id that no other test has."""
    unique = uuid4().hex

    def load(*rows: str, at: datetime = now, header: str = HEADER) -> ImportReport:
        path = csv_file(header, *(row.replace("{}", unique) for row in rows))
        with database.transaction() as connection:
            return store_station_rows(connection, path, now=at)

    load.unique = unique  # type: ignore[attr-defined]
    return load


def station(database: Database, stations_of: Any, suffix: str = "") -> Any:
    with database.transaction() as connection:
        (row,) = (
            named(connection)
            .execute("SELECT * FROM stations WHERE station_id = %s", (stations_of.unique + suffix,))
            .fetchall()
        )
        return row


def test_a_station_without_a_time_of_its_price_was_priced_now(
    database: Database, stations_of: Callable[..., ImportReport], now: datetime
) -> None:
    stations_of(
        "{},A,Pilot,,Gary,IN,41.6,-87.3,3.899,",
        "{}-2,B,,,,,41.6,-87.4,3.899,2026-03-01T08:00:00-06:00",
        "{}-3,C,,,,,41.6,-87.5,,2026-03-01T08:00:00-06:00",
    )

    assert (station(database, stations_of).retail_price, station(database, stations_of).priced_at) == (3.899, now)
    assert station(database, stations_of, "-2").priced_at == datetime(2026, 3, 1, 14, tzinfo=UTC)
    assert station(database, stations_of, "-3").priced_at is None


def test_a_price_seen_again_is_unchanged_and_its_time_is_kept(
    database: Database, stations_of: Callable[..., ImportReport], now: datetime
) -> None:
    row = "{},A,Pilot,,Gary,IN,41.6,-87.3,3.899,"
    later = now + timedelta(hours=6)

    assert counts(stations_of(row)) == (1, 0, 0)
    assert counts(stations_of(row, at=later)) == (0, 0, 1)
    assert station(database, stations_of).priced_at == later
    assert counts(stations_of(row.replace("3.899", "3.799"), "{}-2,B,,,,,41.6,-87.4,,")) == (1, 1, 0)


def test_a_file_changes_only_the_columns_that_it_has(
    database: Database, stations_of: Callable[..., ImportReport], now: datetime
) -> None:
    stations_of("{},A,Pilot,1 Exit Rd,Gary,IN,41.6,-87.3,3.899,")
    later = now + timedelta(hours=6)

    places = stations_of(
        "{},A Plaza,41.6,-87.3", "{}-2,B,41.7,-87.3", at=later, header="station_id,name,latitude,longitude"
    )
    row, new = station(database, stations_of), station(database, stations_of, "-2")
    assert counts(places) == (1, 1, 0)
    assert (row.name, row.brand, row.address, row.city, row.state) == ("A Plaza", "Pilot", "1 Exit Rd", "Gary", "IN")
    assert (row.retail_price, row.priced_at) == (3.899, now)
    assert (new.brand, new.retail_price, new.priced_at) == (None, None, None)

    prices = "station_id,name,latitude,longitude,retail_price"
    assert counts(stations_of("{},A Plaza,41.6,-87.3,3.899", at=later, header=prices)) == (0, 0, 1)
    row = station(database, stations_of)
    assert (row.brand, row.retail_price, row.priced_at) == ("Pilot", 3.899, later)
    times = "station_id,name,latitude,longitude,priced_at"
    assert counts(stations_of("{},A Plaza,41.6,-87.3,2020-01-01T00:00:00Z", header=times)) == (0, 0, 1)
    assert station(database, stations_of).priced_at == later
    emptied = "station_id,name,latitude,longitude,brand,retail_price"
    assert counts(stations_of("{},A Plaza,41.6,-87.3,,", at=later, header=emptied)) == (0, 1, 0)
    row = station(database, stations_of)
    assert (row.brand, row.city, row.retail_price, row.priced_at) == (None, "Gary", None, None)


def test_an_older_price_does_not_replace_a_newer_one(
    database: Database, stations_of: Callable[..., ImportReport], now: datetime
) -> None:
    row = "{},A,Pilot,,Gary,IN,41.6,-87.3,%s,%s"
    older, newer = now - timedelta(days=2), now - timedelta(days=1)
    stations_of(row % ("3.899", newer.isoformat()))

    for price in ("3.5", ""):
        report = stations_of((row % (price, older.isoformat())).replace("Pilot", "Love's"))
        assert counts(report) == ((0, 1, 0) if price else (0, 0, 1)), "the brand has no time"
        stored = station(database, stations_of)
        assert (stored.brand, stored.retail_price, stored.priced_at) == ("Love's", 3.899, newer)
    stations_of(row % ("3.6", newer.isoformat()))
    assert station(database, stations_of).retail_price == 3.6, "of the same time, the last one counts"
    stations_of(row % ("3.7", (now + timedelta(days=300)).isoformat()))
    stations_of(row % ("3.8", ""))
    stored = station(database, stations_of)
    assert (stored.retail_price, stored.priced_at) == (3.8, now), "a time that has not come yet is a mistake"


def test_stations_that_break_a_rule_are_listed_by_line(stations_of: Callable[..., ImportReport]) -> None:
    report = stations_of(
        "{},A,,,,,41.6,-87.3,3.899,",
        "{}-2,B,,,,,0,0,3.899,",
        "{}-3,C,,,,,91,-87.3,3.899,",
        "{}-4,D,,,,,41.6,-87.3,-1,",
        "{}-5,E,,,,,41.6,-87.3,100,",
        "{}-6,F,,,,,41.6,-87.3,3.9,yesterday",
        "{}-7,,,,,,41.6,-87.3,3.9,",
        "{}-8,H,,,,,north,-87.3,3.9,",
        "{}-9,I,,,,,41.6,-87.3,nan,",
        "{},A again,,,,,41.6,-87.3,3.9,",
    )

    assert counts(report) == (1, 0, 0)
    assert set(rejected(report)) == set(range(3, 12))
    assert "is already on line 2" in rejected(report)[11]


def test_a_deal_keeps_its_last_day_when_the_file_has_no_such_column(
    connection: Connection, csv_file: CsvFile, now: datetime
) -> None:
    fleet = make_fleet(connection)

    def load(header: str, row: str) -> tuple[int, int, int]:
        return counts(store_deal_rows(connection, fleet.company_id, csv_file(header, row), now=now))

    assert load("station_id,discount_per_gallon,valid_to", "S1,0.25,2026-12-31") == (1, 0, 0)
    assert load("station_id,net_price", "S1,3.10") == (0, 1, 0)

    query = "SELECT discount_per_gallon, net_price, valid_to FROM deals WHERE company_id = %s"
    assert [tuple(row) for row in named(connection).execute(query, (fleet.company_id,)).fetchall()] == [
        (None, 3.1, date(2026, 12, 31))
    ]
    assert load("station_id,net_price,valid_to", "S1,3.10,") == (0, 1, 0)
    assert [row.valid_to for row in named(connection).execute(query, (fleet.company_id,)).fetchall()] == [None]


def test_deals_are_upserted_by_station_or_brand(database: Database, csv_file: CsvFile, now: datetime) -> None:
    with database.transaction() as connection:
        fleet, other = make_fleet(connection), make_fleet(connection)

    def load(company: Fleet, *rows: str) -> ImportReport:
        with database.transaction() as connection:
            path = csv_file("station_id,brand,discount_per_gallon,net_price", *rows)
            return store_deal_rows(connection, company.company_id, path, now=now)

    assert counts(load(fleet, "S1,,0.25,", "S2,,,3.10", ",Pilot,0.40,")) == (3, 0, 0)
    assert counts(load(fleet, "S1,,0.25,", "S2,,0.30,", ",Pilot,,3.20")) == (0, 2, 1)
    assert counts(load(other, "S1,,0.10,")) == (1, 0, 0)

    report = load(fleet, "S1,Pilot,0.1,", ",,0.1,", "S1,,,", "S1,,0.1,3.0", "S1,,-0.1,", "S3,,0.1,", "S3,,0.2,")
    assert counts(report) == (1, 0, 0)
    assert set(rejected(report)) == {2, 3, 4, 5, 6, 8}

    with database.transaction() as connection:
        rows = (
            named(connection)
            .execute(
                "SELECT station_id, brand, discount_per_gallon, net_price FROM deals WHERE company_id = %s"
                " ORDER BY station_id, brand",
                (fleet.company_id,),
            )
            .fetchall()
        )
    assert [tuple(row) for row in rows] == [
        ("S1", None, 0.25, None),
        ("S2", None, 0.3, None),
        ("S3", None, 0.1, None),
        (None, "Pilot", None, 3.2),
    ]


def test_two_imports_of_prices_at_once_wait_for_one_another(
    database: Database, csv_file: CsvFile, now: datetime
) -> None:
    with database.transaction() as connection:
        fleet = make_fleet(connection)
    path = csv_file("brand,net_price", *(f"brand {number},3.1" for number in range(50)))

    def one(_: int) -> tuple[int, int, int]:
        with database.transaction() as connection:
            return counts(store_deal_rows(connection, fleet.company_id, path, now=now))

    with ThreadPoolExecutor(3) as threads:
        assert sorted(threads.map(one, range(3))) == [(0, 0, 50), (0, 0, 50), (50, 0, 0)]


def test_a_deal_may_have_days_and_several_periods(connection: Connection, fleet: Fleet, csv_file: CsvFile) -> None:
    header = "station_id,brand,discount_per_gallon,net_price,valid_from,valid_to"
    rows = ("S1,,0.25,,2026-01-01,2026-06-30", "S1,,0.30,,2026-07-01,", "S1,,0.10,,,")

    def load(*rows: str) -> ImportReport:
        return store_deal_rows(connection, fleet.company_id, csv_file(header, *rows), now=datetime.now(UTC))

    assert counts(load(*rows)) == (3, 0, 0)
    assert counts(load(*rows)) == (0, 0, 3)
    assert counts(load("S1,,0.30,,2026-07-01,2026-12-31")) == (0, 1, 0)

    report = load("S1,,0.1,,2026-02-01,2026-01-31", "S2,,0.1,,tomorrow,", "S3,,0.1,,2026-02-01,", rows[1], rows[1])
    assert counts(report) == (1, 1, 0)
    assert set(rejected(report)) == {2, 3, 6}
    assert "valid_to is before valid_from" in rejected(report)[2]
    assert "valid_from" in rejected(report)[3]
    assert rejected(report)[6] == "station_id 'S1', valid_from '2026-07-01' is already on line 5"


def test_taxes_are_upserted_by_state_and_first_day(connection: Connection, csv_file: CsvFile, now: datetime) -> None:
    connection.execute("DELETE FROM fuel_taxes")

    def load(*rows: str, header: str = "state,rate_per_gallon,valid_from") -> ImportReport:
        return store_tax_rows(connection, csv_file(header, *rows), now=now)

    assert counts(load("IL,0.738,2026-01-01", "IN,0.59,2026-01-01", "IL,0.744,2026-07-01")) == (3, 0, 0)
    assert counts(load("IL,0.738,2026-01-01", "IN,0.61,2026-01-01")) == (0, 1, 1)

    report = load("Illinois,0.7,2026-01-01", "OH,-0.1,2026-01-01", "OH,0.47,", "OH,,2026-01-01", "PA,0,2026-01-01")
    assert counts(report) == (1, 0, 0)
    assert set(rejected(report)) == {2, 3, 4, 5}

    with_surcharge = "state,rate_per_gallon,surcharge_per_gallon,valid_from"
    report = load("VA,0.32,0.14,2026-01-01", "PA,0,,2026-01-01", "KY,0.23,-0.1,2026-01-01", header=with_surcharge)
    assert counts(report) == (1, 0, 1)
    assert set(rejected(report)) == {4}
    assert counts(load("VA,0.32,0.15,2026-01-01", header=with_surcharge)) == (0, 1, 0)
    rows = named(connection).execute("SELECT * FROM fuel_taxes WHERE state IN ('PA', 'VA') ORDER BY state").fetchall()
    assert [(row.rate_per_gallon, row.surcharge_per_gallon) for row in rows] == [(0, 0), (0.32, 0.15)]

    assert counts(load("VA,0.33,2026-01-01", "MD,0.4,2026-01-01")) == (1, 1, 0)
    rows = named(connection).execute("SELECT * FROM fuel_taxes WHERE state IN ('MD', 'VA') ORDER BY state").fetchall()
    assert [(row.rate_per_gallon, row.surcharge_per_gallon) for row in rows] == [(0.4, 0), (0.33, 0.15)]


def test_readers_see_all_of_an_import_or_nothing(
    database: Database, stations_of: Callable[..., ImportReport], csv_file: CsvFile, now: datetime
) -> None:
    row = "{},A,Pilot,,Gary,IN,41.6,-87.3,3.899,"
    stations_of(row)

    with database.transaction() as writing:
        path = csv_file(HEADER, row.replace("{}", stations_of.unique).replace("3.899", "3.1"))  # type: ignore[attr-defined]
        store_station_rows(writing, path, now=now)
        assert station(database, stations_of).retail_price == 3.899

    assert station(database, stations_of).retail_price == 3.1


def test_a_hundred_thousand_stations_take_seconds(
    connection: Connection, csv_file: CsvFile, now: datetime, record_property: Callable[[str, object], None]
) -> None:
    unique = uuid4().hex
    path = csv_file(
        HEADER,
        *(
            f"{unique}-{number},Stop {number},Pilot,1 Exit Rd,Gary,IN,{25 + number % 2000 / 100},"
            f"{-120 + number % 500 / 10},{3 + number % 100 / 100},"
            for number in range(100_000)
        ),
        "bad,row",
    )
    seen: list[int] = []

    started = time.monotonic()
    report = store_station_rows(connection, path, now=now, progress=seen.append)
    seconds = time.monotonic() - started

    record_property("seconds", seconds)
    assert counts(report) == (100_000, 0, 0)
    assert set(rejected(report)) == {100_002}
    assert sum(seen) == 100_001
    assert seconds < 60  # about 2 s on an idle machine; this machine may be busy
