"""Files as people have them: rows that say nothing, rows twice, prices in the wrong column, states by their names."""

import json
from datetime import datetime
from pathlib import Path

import openpyxl
import pytest

from domain.database.connections import Connection
from domain.files.csvfiles import UnreadableFile
from domain.files.reading import first_rows, recognize
from domain.stations.price_files import store_price_file
from domain.stations.price_outliers import OutlierLimits
from domain.stations.price_profiles import BUILT_IN, PRICE_FIELDS
from domain.stations.price_rows import PriceReport
from domain.stations.price_units import country_of
from domain.stations.state_names import US_STATES
from domain.stations.stations import store_station_rows
from tests.domain.stations.price_lists import Import, of_chicago, reasons, stations
from tests.factories import Fleet

HEADER = "Store No.,City,State,Retail Price,Best Discounted Price,Latitude,Longitude"
ELKHART = "305,Elkhart,IN,3.999,3.499,41.735,-85.97"


def told(report: PriceReport) -> tuple[int, int, int, int]:
    return report.created, report.held, len(report.passed_rows), len(report.rejected)


def test_across_a_state_line_prices_differ(imported: Import) -> None:
    blythe = [f"{100 + i},Blythe,CA,6.29,5.80,33.6{i},-114.55" for i in range(3)]
    ehrenberg = [f"{200 + i},Ehrenberg,AZ,3.99,3.50,33.6{i},-114.51" for i in range(5)]

    assert told(imported(*blythe, *ehrenberg, header=HEADER)) == (8, 0, 0, 0)


def test_swapped_prices_wait_both(connection: Connection, fleet: Fleet, imported: Import) -> None:
    report = imported("305,Elkhart,IN,3.499,3.899,41.735,-85.97", header=HEADER)

    assert told(report) == (0, 2, 0, 0)
    assert {"may be swapped" in reason for reason in reasons(connection, fleet)} == {True}
    assert stations(connection)["loves-305"] is None


def test_a_contract_by_cost_may_lie_a_little_above_the_sign(imported: Import) -> None:
    assert told(imported("305,Elkhart,IN,3.499,3.599,41.735,-85.97", header=HEADER)) == (1, 0, 0, 0)


def test_remarks_and_rules_between_the_rows_are_passed_over(imported: Import) -> None:
    rule, remark = "-----,----,--,-----,-----,----,----", "Printed on 11/26/2026 for ACME"

    report = imported(rule, ELKHART, "Total", remark, "*** End of file ***", header=HEADER)

    assert (told(report), report.passed_over) == ((1, 0, 3, 0), 4)


def test_a_store_without_a_price_is_refused(imported: Import) -> None:
    assert told(imported("305,,,,,,", "LV305", header=HEADER)) == (0, 0, 0, 2)


def test_a_store_in_china_is_no_new_station(connection: Connection, imported: Import) -> None:
    town = "Nowhere"  # where no test has stored a station
    report = imported(f"305,{town},IN,3.999,3.499,41.735,85.97", header=HEADER)

    assert (told(report), "loves-305" in stations(connection)) == ((0, 0, 0, 1), False)


@pytest.mark.parametrize("nothing", ["N/A", "-", "#N/A", "null"])
def test_a_mark_for_nothing_is_an_empty_cell(connection: Connection, imported: Import, nothing: str) -> None:
    report = imported(f"305,Elkhart,IN,3.999,{nothing},41.735,-85.97", header=HEADER)

    assert told(report) == (1, 0, 0, 0)
    assert stations(connection)["loves-305"] == 3.999


def test_a_row_that_comes_again_is_passed_over_unless_its_price_differs(imported: Import) -> None:
    assert told(imported(ELKHART, ELKHART, header=HEADER)) == (1, 0, 1, 0)
    assert told(imported(ELKHART, ELKHART.replace("3.999", "4.009"), header=HEADER))[2:] == (0, 1)


def test_days_as_databases_write_them(imported: Import, now: datetime) -> None:
    row = f"{ELKHART},{now:%d-%b-%y}".upper()

    assert told(imported(row, header=f"{HEADER},Effective Date")) == (1, 0, 0, 0)


def test_states_by_their_names_are_stored_as_codes(
    connection: Connection, imported: Import, tmp_path: Path, now: datetime
) -> None:
    imported(ELKHART.replace("IN", "Indiana"), header=HEADER)
    path = tmp_path / "stations.csv"
    path.write_text("station_id,name,state,latitude,longitude\nA,A,Ohio,41,-83\nB,B,tx,32,-97\nC,C,Somewhere,32,-97\n")
    store_station_rows(connection, path, now=now)

    rows = connection.execute("SELECT station_id, state FROM stations").fetchall()
    expected = {("A", "OH"), ("B", "TX"), ("C", "Somewhere"), ("loves-305", "IN")}
    assert expected <= {tuple(row) for row in rows}


def workbook(path: Path, **sheets: list[str]) -> Path:
    book = openpyxl.Workbook()
    del book["Sheet"]
    for name, rows in sheets.items():
        sheet = book.create_sheet(name)
        for row in rows:
            sheet.append(row.split(","))
    book.save(path)
    return path


def test_a_further_sheet_with_rows_is_told(connection: Connection, fleet: Fleet, tmp_path: Path, now: datetime) -> None:
    path = workbook(
        tmp_path / "prices.xlsx",
        US=[HEADER, ELKHART],
        Legend=["Retail,the price on the sign", "Best,yours"],
        Canada=[HEADER, ELKHART.replace("305", "306")],
    )

    report = store_price_file(
        connection,
        of_chicago(connection, fleet),
        path,
        BUILT_IN["loves"],
        takes_retail=True,
        limits=OutlierLimits(),
        now=now,
    )

    assert report.created == 1
    (row,) = report.passed_rows
    assert row.message.startswith("the sheet 'Canada' has rows, too")


@pytest.mark.parametrize("state", ["hidden", "veryHidden"])
def test_the_first_sheet_that_a_person_sees_is_read(tmp_path: Path, state: str) -> None:
    """Templates have hidden sheets in front, with lists or old rows: issues 513 and 533 of tidyverse/readxl."""
    path = workbook(tmp_path / "prices.xlsx", Old=[HEADER, ELKHART], New=[HEADER, ELKHART.replace("305", "306")])
    book = openpyxl.load_workbook(path)
    book["Old"].sheet_state, book.active = state, book["New"]
    book.save(path)

    assert [row.cells[0] for row in first_rows(path)] == ["Store No.", "306"]


def test_a_cover_sheet_tells_where_the_rows_are(tmp_path: Path) -> None:
    path = workbook(tmp_path / "prices.xlsx", Cover=["ACME"], Prices=[HEADER, ELKHART])

    with pytest.raises(UnreadableFile, match="the sheet 'Prices' has rows, too"):
        recognize(path, list(BUILT_IN.values()), PRICE_FIELDS)


def test_a_table_behind_an_empty_sheet_is_read_if_there_is_only_one(tmp_path: Path) -> None:
    path = workbook(tmp_path / "prices.xlsx", Old=[], Legend=["Retail,the price on the sign"], New=[HEADER, ELKHART])
    assert [row.line for row in first_rows(path)] == [1, 2]

    path = workbook(tmp_path / "prices.xlsx", Old=[], US=[HEADER, ELKHART], Canada=[HEADER, ELKHART])
    with pytest.raises(UnreadableFile, match=r"the first sheet is empty; the sheet 'US' has rows.*'Canada' has rows"):
        recognize(path, list(BUILT_IN.values()), PRICE_FIELDS)


@pytest.mark.parametrize("state", sorted(US_STATES))
def test_no_code_of_a_state_means_another_country(state: str) -> None:
    assert country_of(state, "", 30.0, -100.0) == country_of(state) == "US"
    assert country_of(state, "Canada") == "CA"


CASES = Path(__file__).parents[2] / "cases" / "kinds"


def test_parking_and_showers_are_read_from_a_chain_s_list(connection: Connection, now: datetime) -> None:
    """0 is none; a cell that is no number is not known, and its station is stored all the same."""
    report = store_station_rows(connection, CASES / "stations_with_amenities.csv", now=now, believe=True)
    assert (report.created, report.rejected) == (3, [])
    stored = connection.execute(
        "SELECT parking_spaces, showers FROM stations WHERE station_id LIKE 'PFJ-900_' ORDER BY station_id"
    )
    assert stored.fetchall() == [(120, 12), (0, 0), (1, None)]


def test_lists_with_the_usual_names_of_columns(connection: Connection, now: datetime) -> None:
    osm = store_station_rows(connection, CASES / "stations_of_osm.csv", now=now)
    stores = store_station_rows(connection, CASES / "stations_by_state.csv", now=now)

    assert (osm.created, [row.line for row in osm.rejected]) == (2, [4])
    assert (stores.created, [row.message for row in stores.rejected]) == (
        1,
        [
            "latitude: there are no roads so far south: are latitude and longitude exchanged?",
            "longitude: the place is in Asia: is a minus missing?",
        ],
    )
    stored = connection.execute(
        "SELECT name, address, city, state, latitude FROM stations WHERE station_id IN ('node/9000000001', 'FJ-9101')"
        " ORDER BY name"
    )
    assert stored.fetchall() == [
        ("Flying J", "Invented Road", "Amarillo", "TX", 35.191),
        ("Flying J Winnipeg", "1 Invented Rd", "Headingley", "MB", 49.872),
    ]


def test_a_store_without_diesel_is_no_truck_stop(connection: Connection, now: datetime) -> None:
    report = store_station_rows(connection, CASES / "stations_without_diesel.csv", now=now)

    assert (report.created, report.rejected) == (1, [])
    assert [tuple(row) for row in report.passed_rows] == [(3, "its Sells Diesel is No")]


@pytest.mark.parametrize(
    ("column", "cell", "is_passed"),
    [
        ("fuel:diesel", "no", True),
        ("fuel:diesel", "yes", False),
        ("hgv", "no", True),
        ("hgv", "designated", False),
        ("StoreType", "Country Store", True),
        ("StoreType", "Travel Stop", False),
        ("Has Diesel", "", False),
    ],
)
def test_columns_tell_where_a_truck_cannot_fuel(
    connection: Connection, now: datetime, tmp_path: Path, column: str, cell: str, is_passed: bool
) -> None:
    path = tmp_path / "stations.csv"
    path.write_text(f"station_id,name,latitude,longitude,{column}\nS-1,Stop,35.1,-101.7,{cell}\n", encoding="utf-8")

    report = store_station_rows(connection, path, now=now)

    assert (report.created, len(report.passed_rows)) == (int(not is_passed), int(is_passed))


@pytest.mark.parametrize("column", ["Hours", "opening_hours", "Hours of Operation", "Store Hours"])
def test_hours_are_kept_in_the_words_of_the_file(
    connection: Connection, now: datetime, tmp_path: Path, column: str
) -> None:
    """The names are those of public lists of stations and of OpenStreetMap; no chain's own file with hours was seen. A
    cell that nobody would read in a cab is not known, and its station is stored all the same."""
    week = json.dumps([{"day": day, "open": "06:00", "close": "22:00"} for day in range(7)]).replace('"', '""')
    told = ["24/7", "  Mon-Fri 6am - 10pm\u00a0", f'"{week}"', "x" * 500, ""]
    path = tmp_path / "hours.csv"
    rows = [f"HRS-{number},Stop {number},35.{number},-101.7,{cell}" for number, cell in enumerate(told)]
    path.write_text("\n".join([f"station_id,name,latitude,longitude,{column}", *rows]), encoding="utf-8")

    report = store_station_rows(connection, path, now=now)

    assert (report.created, report.rejected) == (5, [])
    stored = connection.execute("SELECT hours FROM stations WHERE station_id LIKE 'HRS-_' ORDER BY station_id")
    assert [hours for (hours,) in stored] == ["24/7", "Mon-Fri 6am - 10pm", None, None, None]


def test_a_file_without_these_columns_keeps_them(connection: Connection, now: datetime, tmp_path: Path) -> None:
    store_station_rows(connection, CASES / "stations_with_amenities.csv", now=now, believe=True)
    prices = tmp_path / "prices.csv"
    prices.write_text("station_id,name,latitude,longitude,retail_price\nPFJ-9001,Flying J,35.191,-101.752,3.609\n")
    store_station_rows(connection, prices, now=now, believe=True)
    stored = connection.execute("SELECT parking_spaces, showers FROM stations WHERE station_id = 'PFJ-9001'")
    assert stored.fetchone() == (120, 12)
