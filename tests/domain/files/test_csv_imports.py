"""Good rows of a CSV file are kept, and bad ones are listed by line."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from domain.database.connections import Connection
from domain.files.csvfiles import UnreadableFile
from domain.routes.intake.fleet_changes import import_drivers, import_vehicles
from domain.stations.stations import store_station_rows
from tests.domain.csv_files import CsvFile, counts, drivers, rejected, vehicles
from tests.factories import Fleet
from tests.jobs import jobs_of

pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")  # Apprise's, when it loads


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

    report = import_vehicles(connection, fleet.company_id, path)

    assert counts(report) == (2, 0, 0)
    assert set(rejected(report)) == {3, 5, 6, 7, 8}
    assert "vin" in rejected(report)[3]
    assert "mpg" in rejected(report)[5]
    assert "unit_number or vin is needed" in rejected(report)[6]
    assert rejected(report)[8] == "4 cells, but the header names 3 columns"
    assert {"201", "206"} <= set(vehicles(connection, fleet))


def test_a_row_beyond_a_single_column_is_told_in_the_singular(
    connection: Connection, fleet: Fleet, csv_file: CsvFile
) -> None:
    report = import_vehicles(connection, fleet.company_id, csv_file("unit_number", "201,and more"))

    assert rejected(report) == {2: "2 cells, but the header names 1 column"}


def test_a_file_from_excel_with_a_byte_order_mark_and_other_line_ends_is_read(
    connection: Connection, fleet: Fleet, csv_file: CsvFile
) -> None:
    path = csv_file(" Unit_Number , VIN", "201, 1XKAD49X0CJ000201 ", encoding="utf-8-sig", end="\r\n")

    report = import_vehicles(connection, fleet.company_id, path)

    assert counts(report) == (1, 0, 0)
    assert vehicles(connection, fleet)["201"].vin == "1XKAD49X0CJ000201"


def test_quoted_cells_may_span_lines_and_line_numbers_stay_true(
    connection: Connection, fleet: Fleet, csv_file: CsvFile
) -> None:
    path = csv_file("name,external_id", '"Lee, ""Ann""\nMarie",D-9', ",D-10", "Bo,D-11", ",D-12")

    report = import_drivers(connection, fleet.company_id, path)

    assert set(rejected(report)) == {4, 6}
    assert drivers(connection, fleet)["D-9"].name == 'Lee, "Ann"\nMarie'


def test_columns_in_any_order_and_unknown_ones_are_fine(
    connection: Connection, fleet: Fleet, csv_file: CsvFile
) -> None:
    report = import_drivers(connection, fleet.company_id, csv_file("depot,external_id,name", "Joliet,D-9,Cy Oh"))

    assert counts(report) == (1, 0, 0)
    assert drivers(connection, fleet)["D-9"].name == "Cy Oh"


def test_a_file_without_the_needed_columns_is_refused_as_a_whole(connection: Connection, csv_file: CsvFile) -> None:
    for path in (csv_file("station_id;name;price", "1;a;1"), csv_file("station_id,name")):
        with pytest.raises(UnreadableFile, match="lacks the columns"), connection.transaction():
            store_station_rows(connection, path, now=datetime.now(UTC))


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp1252", "utf-16", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_encodings_and_delimiters_of_spreadsheets_are_found_out(
    connection: Connection, fleet: Fleet, csv_file: CsvFile, encoding: str, delimiter: str
) -> None:
    lines = [line.replace(",", delimiter) for line in ("depot,name,external_id", "Joliet,Jürgen Ott,D-9")]

    import_drivers(connection, fleet.company_id, csv_file(*lines, encoding=encoding))

    assert drivers(connection, fleet)["D-9"].name == "Jürgen Ott"


def test_a_file_that_is_no_text_is_refused_with_what_to_do(
    connection: Connection, fleet: Fleet, tmp_path: Path
) -> None:
    for content in (b"\0\1\2\3", b"\xff\xfe", b"name\n\x81\n"):
        (tmp_path / "file.csv").write_bytes(content)
        with pytest.raises(UnreadableFile, match="save it as CSV UTF-8"):
            import_drivers(connection, fleet.company_id, tmp_path / "file.csv")


def test_a_known_column_that_comes_twice_must_say_the_same(
    connection: Connection, fleet: Fleet, csv_file: CsvFile
) -> None:
    path = csv_file("name,external_id,name", "Cy Oh,D-8,Cy Oh", "Di Yu,D-9,Ed Lee", "Fay Ash,D-10,")

    report = import_drivers(connection, fleet.company_id, path)

    assert rejected(report) == {3: "the column name is there 2 times, with 'Di Yu' and 'Ed Lee'"}
    assert {"D-8", "D-10"} <= set(drivers(connection, fleet))


def test_a_file_that_is_not_there_or_no_file_is_refused(connection: Connection, fleet: Fleet, tmp_path: Path) -> None:
    for path in (tmp_path / "nowhere.csv", tmp_path):
        with pytest.raises(UnreadableFile, match=r"^cannot read"):
            import_vehicles(connection, fleet.company_id, path)


def test_a_cell_with_nul_refuses_only_its_row(connection: Connection, fleet: Fleet, csv_file: CsvFile) -> None:
    report = import_drivers(connection, fleet.company_id, csv_file("name", "A\x00B", "Cy Oh"))

    assert counts(report) == (1, 0, 0)
    assert set(rejected(report)) == {2}


def test_a_misplaced_quote_refuses_only_its_row(connection: Connection, fleet: Fleet, csv_file: CsvFile) -> None:
    path = csv_file("name,external_id", "Cy Oh,D-8", '"Jo"hn,D-9', "Di Yu,D-10")

    report = import_drivers(connection, fleet.company_id, path)

    assert counts(report) == (2, 0, 0)
    assert set(rejected(report)) == {3}


@pytest.mark.parametrize(
    "bad",
    ['"6 inch Jo,D-9', f'"{"y" * 200_000}",D-9', f'{"y" * 200_000},"\r",D-9', '"6 inch Jo,D-9\r"x'],
    ids=["a quote that is never closed", "a cell too long", "the rest of such a row opens a quote", "two bad lines"],
)
def test_a_row_that_cannot_be_read_takes_no_other_with_it(
    connection: Connection, fleet: Fleet, csv_file: CsvFile, bad: str
) -> None:
    path = csv_file("name,external_id", "Cy Oh,D-8", bad, "Di Yu,D-10", '"Lee, Ed",D-11', "Fay Ash,D-12")

    report = import_drivers(connection, fleet.company_id, path)

    assert {"D-8", "D-10", "D-11", "D-12"} <= set(drivers(connection, fleet))
    assert 3 in rejected(report)
    assert set(rejected(report)) <= {3, 4}


def test_an_import_of_nothing_changes_nothing(connection: Connection, fleet: Fleet, csv_file: CsvFile) -> None:
    report = import_vehicles(connection, fleet.company_id, csv_file("unit_number"))
    jobs = jobs_of(connection)

    assert (counts(report), jobs) == ((0, 0, 0), [])
