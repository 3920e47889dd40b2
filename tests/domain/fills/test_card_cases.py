"""The files of `tests/cases/fills`, read as their owners would bring them: without naming the card."""

import csv
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple
from zoneinfo import ZoneInfo

import openpyxl
import pytest
from msgspec.structs import replace

from domain.database.connections import Connection
from domain.files.csvfiles import ImportReport, UnreadableFile
from domain.files.profiles import Column
from domain.fills.card_files import open_fill_file
from domain.fills.importing import read_stations, states_by_stations
from domain.fills.matching import KnownStation, KnownStations
from domain.fills.matching_again import match_fills_again
from domain.fills.profiles import CARDS, card_profile, card_profile_of
from domain.lifecycle import Environment
from domain.operations.file_looks import Import, look_at_file
from domain.operations.import_kinds import FillsFile
from domain.roads import Point
from domain.settings import Settings
from tests.domain.csv_files import CsvFile
from tests.domain.fills.cards import add_station, fills, import_fills
from tests.factories import Fleet

CASES = Path(__file__).parents[2] / "cases" / "fills"
NOW = datetime(2026, 12, 1, tzinfo=UTC)


class Read(NamedTuple):
    """A file's fills, each with its unit, state, fuel, gallons and dollars."""

    profile: str
    fills: list[tuple[str | None, str, str, float, float]]
    passed_over: int
    refused: dict[int, str]
    doubtful: list[int]


STATIONS = KnownStations(
    KnownStation(station_id, name, None, city, state, Point(39.0, -95.0))
    for station_id, name, city, state in (
        ("pilot-335", "Pilot Travel Center #335", "Rayville", "LA"),
        ("flying-j-335", "Flying J #335", "Rayville", "LA"),
        ("pilot-507", "Pilot #507", "Fernley", "NV"),
        ("loves-269", "Love's #269", "Abilene", "TX"),
        ("pilot-66", "Pilot #66", "Dodge City", "KS"),
        ("pilot-88", "Pilot #88", "Elko", "NV"),
        ("flying-j-88", "Flying J #88", "Boise", "ID"),
        ("circle-k-4411", "Circle K #4411", "Elkhart", "IN"),
        ("pilot-99", "Pilot #99", "Somewhere", None),
    )
)


def read(path: Path, name: str = "auto", stations: KnownStations = STATIONS) -> Read:
    report, profile = ImportReport(), card_profile_of(path, name)
    with open_fill_file(path, profile, report, now=NOW, state_of=stations.state_of) as file:
        fills = list(file.fills)
    return Read(
        profile.name,
        [(one.unit_number, one.state, str(one.fuel), one.gallons, one.paid_cents / 100) for one in fills],
        report.passed_over or 0,
        {one.line: one.message for one in report.rejected},
        [one.line for one in fills if one.doubts],
    )


NO_STATE = "the state is missing: it tells the tax"

CLEAN: list[tuple[str, Read]] = [
    (
        "comdata.csv",
        Read(
            "comdata",
            [
                ("1104", "OH", "tractor", 140.14, 430.67),
                ("1150", "OK", "tractor", 206.29, 593.67),
                ("1150", "OK", "other", 8.24, 34.53),
            ],
            *(0, {}, []),
        ),
    ),
    (
        "efs_nounit.csv",
        Read(
            "efs",
            [
                (None, "AZ", "tractor", 97.9, 342.54),
                (None, "AZ", "def", 2.95, 13.17),
                (None, "TX", "tractor", 101.85, 375.71),
            ],
            *(0, {}, []),
        ),
    ),
    (
        "efs_transexport.csv",
        Read("efs", [("637", "MT", "tractor", 90.0, 369.0), ("637", "MT", "def", 5.24, 26.15)], 0, {}, []),
    ),
    ("efs_transexport_52.csv", Read("efs", [("574", "LA", "tractor", 190.0, 865.94)], 0, {}, [])),
    (
        "efs_grouped.csv",
        Read("efs", [("2101", "AZ", "tractor", 97.9, 322.97), ("2101", "TX", "tractor", 101.85, 355.34)], 17, {}, []),
    ),
    (
        "wex.csv",
        Read("efs", [("1104", "CA", "tractor", 94.6, 394.39), ("1104", "LA", "other", 19.26, 75.12)], 0, {}, []),
    ),
    (
        "bvd_canada.csv",
        Read(
            "bvd",
            [
                ("31", "MB", "tractor", 105.669, 642.18),
                ("31", "TX", "tractor", 150.0, 779.85),
            ],
            *(0, {}, []),
        ),
    ),
    (
        "bvd_invoice.csv",
        Read(
            "bvd",
            [
                ("101", "TX", "tractor", 50.0, 256.17),
                ("101", "TX", "def", 5.0, 22.5),
                ("1012", "MO", "tractor", 80.0, 416.0),
            ],
            *(19, {}, []),
        ),
    ),
    (
        "fuelman.csv",
        Read(
            "generic",
            [
                ("8812", "OH", "tractor", 71.33, 270.99),
                ("8812", "IA", "other", 14.2, 45.43),
                ("8812", "IA", "tractor", 70.0, 258.93),
            ],
            *(0, {}, []),
        ),
    ),
    (
        "kwiktrip.csv",
        Read(
            "generic",
            [
                ("13304K", "WI", "unknown", 45.775, 171.2),
            ],
            *(0, {}, []),
        ),
    ),
    (
        "loadsmart_template.csv",
        Read(
            "generic",
            [
                ("112", "CO", "tractor", 167.83, 604.95),
                ("112", "CO", "def", 6.1, 21.3),
            ],
            *(0, {}, []),
        ),
    ),
    (
        "motive_template.csv",
        Read(
            "generic",
            [
                ("637", "MT", "tractor", 90.0, 369.0),
                ("637", "AB", "tractor", 89.818, 520.0),
            ],
            *(0, {}, []),
        ),
    ),
    (
        "pilot_codes.csv",
        Read(
            "generic",
            [
                ("637", "UT", "tractor", 110.5, 489.96),
                ("637", "UT", "unknown", 8.1, 36.44),
                ("637", "UT", "reefer", 20.0, 89.98),
            ],
            *(0, {}, []),
        ),
    ),
    (
        "pilot_monthly.csv",
        Read(
            "generic",
            [
                ("637", "UT", "tractor", 110.5, 489.96),
                ("637", "UT", "def", 8.1, 36.44),
                ("637", "UT", "reefer", 20.0, 89.98),
            ],
            *(1, {}, []),
        ),
    ),
    (
        "quarles.csv",
        Read(
            "generic",
            [
                ("410", "VA", "reefer", 40.1, 121.06),
                ("410", "VA", "tractor", 88.204, 305.1),
            ],
            *(0, {}, []),
        ),
    ),
    (
        "samsara_purchases.csv",
        Read(
            "generic",
            [
                ("637", "CA", "tractor", 100.0, 489.9),
            ],
            *(0, {}, []),
        ),
    ),
    (
        "tch_export.csv",
        Read(
            "efs",
            [
                ("637", "AZ", "tractor", 97.9, 322.97),
            ],
            *(0, {}, []),
        ),
    ),
    (
        "tms_export.csv",
        Read(
            "generic",
            [
                ("637", "MT", "tractor", 90.0, 369.0),
            ],
            *(0, {}, []),
        ),
    ),
    ("flying_j.csv", Read("efs", [("4002", "UT", "tractor", 30.0, 101.97)], 0, {}, [])),
    (
        "corpay.csv",
        Read("corpay", [(None, "MD", "tractor", 78.0, 347.1), (None, "MA", "other", 7.8, 23.4)], 3, {}, []),
    ),
    ("atob.csv", Read("generic", [("Truck 1", "NV", "tractor", 90.345, 490.48)], 1, {}, [])),
    (
        "audit_export.csv",
        Read("generic", [("4101", "IN", "tractor", 100.5, 420.0), ("4101", "IN", "other", 20.0, 70.4)], 0, {}, [2, 3]),
    ),
    (
        "invoice_columns.csv",
        Read(
            "invoices",
            [
                ("98", "TX", "tractor", 120.5, 381.02),
                ("99", "TX", "tractor", 100.0, 400.0),
                ("99", "TX", "reefer", 10.0, 40.0),
                ("99", "TX", "def", 5.0, 20.0),
            ],
            *(1, {}, [3, 3, 3]),
        ),
    ),
    (
        "petro_canada.csv",
        Read(
            "generic",
            [],
            0,
            {2: "a purchase in Canada, and the file does not say whether gallons or litres: say it for the file"},
            [],
        ),
    ),
    (
        "bvd_fuels.csv",
        Read(
            "bvd-fuels",
            [
                ("101", "IN", "tractor", 100.0, 340.0),
                ("101", "IN", "reefer", 10.0, 34.0),
                ("101", "IN", "def", 5.0, 20.0),
                ("101", "MB", "tractor", 105.669, 640.0),
                ("101", "IN", "tractor", 100.0, 380.0),
            ],
            *(0, {}, [4]),
        ),
    ),
    ("dispatch_columns.csv", Read("generic", [("4101", "NE", "tractor", 100.5, 391.85)], 0, {}, [])),
    (
        "fleetio.csv",
        Read(
            "generic",
            [("637", "LA", "tractor", 100.5, 351.75), ("637", "LA", "tractor", 100.0, 350.0)],
            0,
            {4: "the unit of the quantity is 'UK_GALLONS': G and L are known", 5: NO_STATE},
            [],
        ),
    ),
    (
        "relay.csv",
        Read(
            "relay",
            [
                ("574", "LA", "tractor", 100.25, 410.92),
                ("574", "LA", "reefer", 20.0, 85.52),
                ("574", "LA", "def", 5.1, 24.98),
                ("574", "LA", "def", 10.0, 48.99),
            ],
            *(2, {5: "it cancels transaction 5004 and tells no gallons: say by hand that it is no purchase"}, []),
        ),
    ),
    (
        "quebec.csv",
        Read(
            "generic",
            [
                ("31", "QC", "tractor", 105.702, 758.62),
                ("31", "QC", "def", 2.774, 14.49),
                ("31", "QC", "other", 5.316, 33.55),
                ("31", "QC", "tractor", -105.702, -758.62),
            ],
            *(1, {}, []),
        ),
    ),
    (
        "wex_customer.csv",
        Read("efs", [("1104", "LA", "tractor", 100.0, 350.0), ("1104", "LA", "def", 8.0, 32.0)], 0, {}, []),
    ),
    ("wex_titles.csv", Read("generic", [("TRUCK 3", "SC", "tractor", 24.31, 84.09)], 1, {}, [])),
    (
        "loves_transactions.csv",
        Read("generic", [("55", "TX", "def", 13.63, 68.01), ("55", "TX", "tractor", 206.22, 1059.97)], 0, {}, []),
    ),
    (
        "comdata_def.csv",
        Read(
            "comdata",
            [
                ("1104", "OH", "tractor", 90.0, 405.0),
                ("1104", "OH", "def", 6.0, 24.42),
                ("1104", "OK", "tractor", 120.0, 528.0),
                ("1104", "OK", "reefer", 25.0, 112.0),
            ],
            *(0, {}, []),
        ),
    ),
    (
        "statement_units.csv",
        Read(
            "generic",
            [
                ("T-201", "MO", "tractor", 102.5, 410.0),
                ("T-201", "MO", "reefer", 20.0, 80.0),
                ("T-201", "MB", "tractor", 26.417, 150.0),
            ],
            *(1, {}, []),
        ),
    ),
    (
        "unit_of_quantity.csv",
        Read(
            "generic",
            [("T-201", "LA", "tractor", 102.5, 410.0), ("T-202", "MB", "tractor", 100.0, 560.0)],
            *(1, {}, []),
        ),
    ),
    ("units_in_names.csv", Read("generic", [("31", "MB", "tractor", 105.669, 600.0)], 0, {}, [])),
    (
        "midnight_days.csv",
        Read("fleet-one", [("41", "TX", "tractor", 100.5, 402.0), ("41", "TX", "tractor", 90.0, 360.0)], 0, {}, []),
    ),
    ("eroad_transactions.csv", Read("generic", [("T-41", "NV", "tractor", 100.5, 402.0)], 0, {}, [])),
    ("quarles_portal.csv", Read("generic", [("41", "VA", "tractor", 100.5, 402.0)], 0, {}, [])),
    ("mobile_refuels.csv", Read("generic", [("41", "FL", "tractor", 100.5, 402.0)], 0, {}, [])),
    (
        "mcleod_fuel.csv",
        Read(
            "generic",
            [
                ("41", "NV", "tractor", 100.5, 356.77),
                ("42", "TX", "tractor", 90.0, 360.0),
                ("42", "TX", "def", 5.0, 20.0),
                ("43", "TX", "reefer", 20.0, 65.0),
            ],
            *(0, {}, [3, 3]),
        ),
    ),
    (
        "relay_report.csv",
        Read(
            "generic",
            [
                ("574", "LA", "tractor", 100.25, 410.92),
                ("574", "LA", "unknown", 20.0, 82.0),
                ("574", "LA", "def", 5.0, 20.0),
            ],
            *(2, {}, []),
        ),
    ),
    (
        "tmw_fuel_bill.csv",
        Read(
            "generic",
            [
                ("1104", "OH", "tractor", 100.5, 371.85),
                ("1104", "OH", "tractor", 100.5, 402.0),
                ("1104", "OH", "reefer", 20.0, 80.0),
            ],
            0,
            {4: "a purchase in Canada, and the file does not say whether gallons or litres: say it for the file"},
            [3, 3],
        ),
    ),
]


@pytest.mark.parametrize(("name", "expected"), CLEAN, ids=[name for name, _ in CLEAN])
def test_a_file_that_people_have_is_read(name: str, expected: Read) -> None:
    assert read(CASES / name) == expected


@pytest.mark.parametrize(
    ("heading", "cells", "unit"),
    [
        ("Unit,Vehicle", "GAL,T-201", "T-201"),
        ("Unit,Vehicle", "201,T-202", "201"),
        ("Unit,Card Number", "L,1191", "L"),
        ("Unit,Truck", ",T-201", None),
    ],
)
def test_the_truck_is_the_first_column_that_is_no_unit_of_the_quantity(
    csv_file: CsvFile, heading: str, cells: str, unit: str | None
) -> None:
    """A column without another one names the trucks, whatever it says."""
    path = csv_file(
        f"Date,City,State,Product,Quantity,Net Amount,{heading}",
        ",".join(["-----"] * 8),  # as programs for databases write
        f"11/16/2026,Joplin,MO,Diesel,100,400,{cells}",
    )

    assert read(path).fills == [(unit, "MO", "tractor", 100.0, 400.0)]


@pytest.mark.parametrize(
    ("name", "city", "state"),
    [
        ("PILOT_00507", "", "NV"),
        ("WALLIS OIL CO", "Cuba", None),
        ("Smith Fuels Co.", "", None),
        ("SMITH & CO", "Cuba", None),
        ("MA AND PA", "Cuba", None),
        ("WALLIS OIL CO", "Cuba MO", "MO"),
        ('"WALLIS OIL CO, LIMON, CO"', "", "CO"),
        ("LOVES 305 LIMON CO", "", "CO"),
        ("Love's #0269 C Outside", "", "TX"),
        ("PILOT RAYVILLE 335", "Rayville", "LA"),
        ("FLYING J 335", "", "LA"),
        ("PILOT_00507", "Reno", None),
        ("PILOT ROUTE 66", "", None),
        ("PILOT 66TH STREET", "", None),
        ("PILOT #88", "", None),
        ("PILOT #88", "Elko", None),
        ("CIRCLE K #4411", "Elkhart", None),
        ("MART #507", "", None),
        ("PILOT #99", "", None),
        ("PILOT 335 PUMP 507", "", None),
        ("PILOT TRAVEL CENTER", "Fernley", None),
        ("", "Fernley", None),
    ],
)
def test_only_a_chains_number_tells_the_state_of_a_place_and_only_if_one_store_has_it(
    csv_file: CsvFile, name: str, city: str, state: str | None
) -> None:
    path = csv_file("Date,Unit,Merchant,City,Product,Gallons,Amount", f"11/21/2026,7,{name},{city},ULSD,100,350")
    found = read(path)
    assert [one[1] for one in found.fills] == ([] if state is None else [state])
    assert found.refused == ({2: NO_STATE} if state is None else {})


@pytest.mark.parametrize(
    ("names", "cells", "currency"),
    [
        ("GST", "MB,21.40", "CAD"),
        ("HST", "ON,68.00", "CAD"),
        ("GST/HST", "MB,21.40", "CAD"),
        ("GST Amount", "MB,21.40", "CAD"),
        ("HST Amt", "ON,68.00", "CAD"),
        ("Total QST", "QC,68.00", "CAD"),
        ("GST", "MB,", "USD"),
        ("GST", "TX,0.00", "USD"),
        ("GST,Currency", "MB,21.40,USD", "USD"),
        ("CCY", "MB,CAD", "CAD"),
    ],
)
def test_the_taxes_of_canada_are_in_canadian_dollars(csv_file: CsvFile, names: str, cells: str, currency: str) -> None:
    """A tax of Canada tells the currency of a row that has none."""
    state, _, told = cells.partition(",")
    path = csv_file(f"Date,Unit,State,Product,Litres,Total,{names}", f"11/21/2026,7,{state},ULSD,400.000,642.18,{told}")
    with open_fill_file(path, card_profile_of(path, "auto"), ImportReport(), now=NOW) as file:
        assert [one.currency for one in file.fills] == [currency]


def test_taxes_of_canada_are_on_top_of_the_net_unit_price() -> None:
    path = CASES / "petro_canada.csv"
    profile = card_profile_of(path, "auto")
    with open_fill_file(path, profile, ImportReport(), now=NOW, volume="litres") as file:
        (fill,) = file.fills
    assert (fill.gallons, fill.paid_cents, fill.currency, fill.doubts) == (105.669, 70560, "CAD", ())
    assert (f"{fill.local_time:%d %H:%M}", fill.driver_name) == ("20 09:10", "ANN LEE")


@pytest.mark.parametrize(
    ("names", "cells", "said", "currency"),
    [
        ("Place", "MB,Anywhere", "CAD", "CAD"),
        ("Place", "TX,Anywhere", "cad", "CAD"),
        ("GST", "MB,21.40", "USD", "USD"),
        ("Currency", "MB,USD", "CAD", "USD"),
        ("Currency", "MB,", "CAD", "CAD"),
    ],
)
def test_a_person_says_the_currency_of_rows_that_do_not(
    csv_file: CsvFile, names: str, cells: str, said: str, currency: str
) -> None:
    state, _, told = cells.partition(",")
    path = csv_file(f"Date,Unit,State,Product,Litres,Total,{names}", f"11/21/2026,7,{state},ULSD,400.000,642.18,{told}")
    with open_fill_file(path, card_profile_of(path, "auto"), ImportReport(), now=NOW, currency=said) as file:
        assert [one.currency for one in file.fills] == [currency]


@pytest.mark.parametrize(
    ("first", "second", "names", "currencies"),
    [
        ("CA$642.18", "CA$642.18", "Total", ["CAD", "CAD"]),
        ("C$642.18", "642.18", "Total", ["CAD", "CAD"]),
        ("642.18 CAD", "CAD 642.18", "Total", ["CAD", "CAD"]),
        ("CA$642.18", "$642.18", "Total", ["CAD"]),
        ("$642.18", "CA$642.18", "Total", ["USD"]),
        ("642.18", "US$642.18", "Total", ["USD", "USD"]),
        ("$642.18", "$642.18", "Total (CAD)", ["CAD", "CAD"]),
        ("CA$642.18", "$642.18", "Currency,Total", ["CAD", "USD"]),
        ("$1.605,CA$642.18", "$1.605,CA$642.18", "Price,Total", ["CAD", "CAD"]),
        ("US$1.605,CA$642.18", "US$1.605,CA$642.18", "Price,Total", []),
        ("$1.605,CA$642.18", "$1.605,$642.18", "Price,Total", ["CAD"]),
    ],
)
def test_an_amount_may_name_its_currency(
    csv_file: CsvFile, first: str, second: str, names: str, currencies: list[str]
) -> None:
    """Spreadsheets and portals format the amounts of a Canadian fleet so: JavaScript's `Intl.NumberFormat` writes CA$
    in the United States. They counted as US dollars."""
    has_column = names.startswith("Currency")
    told = [f"{'CAD' if 'CA$' in one else 'USD'},{one}" if has_column else one for one in (first, second)]
    path = csv_file(f"Date,Unit,State,Product,Litres,{names}", *(f"11/21/2026,7,MB,ULSD,400.000,{one}" for one in told))
    report = ImportReport()
    with open_fill_file(path, card_profile_of(path, "auto"), report, now=NOW) as file:
        assert [one.currency for one in file.fills] == currencies
    refused = ["is in another currency than the first amounts" in one.message for one in report.rejected]
    assert refused == [True] * (2 - len(currencies))


def test_a_file_that_says_no_currency_changes_none(connection: Connection, fleet: Fleet, csv_file: CsvFile) -> None:
    path = csv_file("Date,Unit,State,Product,Litres,Total,Invoice", "11/21/2026,101,MB,ULSD,400.000,642.18,7")
    import_fills(connection, fleet.live, path, profile="generic", currency="CAD")

    again, _ = import_fills(connection, fleet.live, path, profile="generic")
    assert again == (0, 0, 1)
    of_another_truck = csv_file(
        "Date,Unit,State,Product,Litres,Total,Invoice", "11/21/2026,102,MB,ULSD,400.000,642.18,7"
    )
    corrected, _ = import_fills(connection, fleet.live, of_another_truck, profile="generic")
    assert corrected == (0, 1, 0)
    assert [(one.unit_number, one.currency) for one in fills(connection, fleet.live)] == [("102", "CAD")]


def test_a_file_of_purchases_in_another_currency_is_refused(csv_file: CsvFile) -> None:
    path = csv_file("Date,Unit,State,Product,Litres,Total", "11/21/2026,7,TX,ULSD,400.000,642.18")
    opening = open_fill_file(path, card_profile_of(path, "auto"), ImportReport(), now=NOW, currency="MXN")
    with pytest.raises(UnreadableFile, match="purchases are in USD or CAD, not in MXN"), opening:
        pass


def test_currency_and_zone_may_stand_in_the_names_of_columns() -> None:
    path = CASES / "units_in_names.csv"
    with open_fill_file(path, card_profile_of(path, "auto"), ImportReport(), now=NOW) as file:
        assert [(one.currency, f"{one.local_time:%d %H:%M}") for one in file.fills] == [("CAD", "20 22:05")]


def test_midnight_behind_a_day_is_no_time_of_day() -> None:
    path = CASES / "midnight_days.csv"
    with open_fill_file(path, card_profile_of(path, "auto"), ImportReport(), now=NOW) as file:
        assert [(f"{one.local_time:%d %H}", one.has_time) for one in file.fills] == [("21 12", False), ("22 12", False)]


@pytest.mark.parametrize(
    ("column", "cell", "local"),
    [
        ("Transaction Date (GMT)", "11/21/2026 04:05:10", "20 22:05"),
        ("Transaction Date (UTC)", "2026-11-21 4:05 AM", "20 22:05"),
        ("Date (UTC)", "2026-11-21", "21 12:00"),
        ("Date (UTC)", "2026-11-21T04:05:10Z", "20 22:05"),
        ("Date (UTC)", "11/21/2026 0405", "20 22:05"),
        ("Time (UTC),Date", "0405,11/21/2026", "20 22:05"),
        ("Time (GMT),Date", "4:05 AM,11/21/2026", "20 22:05"),
        ("Date (UTC),Time", "11/21/2026,04:05", "20 22:05"),
        ("Date (UTC),Time", "11/21/2026,04:05 CST", "21 04:05"),
        ("Date (MM/DD/YYYY)", "11/21/2026 04:05", "21 04:05"),
    ],
)
def test_times_are_of_the_zone_that_their_column_names(csv_file: CsvFile, column: str, cell: str, local: str) -> None:
    path = csv_file(f"{column},Unit,State,Product,Gallons (US),Amount ($)", f"{cell},7,IL,ULSD,100,350")
    with open_fill_file(path, card_profile_of(path, "auto"), ImportReport(), now=NOW) as file:
        assert [f"{one.local_time:%d %H:%M}" for one in file.fills] == [local]


@pytest.mark.parametrize(
    ("cell", "at"),
    [
        ("11/21/2026 04:05", "2026-11-21T04:05"),
        ("11/20/2026 22:05 CST", "2026-11-21T04:05"),
        ("11/21/2026 06:30", "2026-11-21T06:30"),  # the next day in Chicago, not in El Paso
        ("11/01/2026 08:30", "2026-11-01T08:30"),  # half past one for the second time
    ],
)
def test_a_moment_of_a_file_stays_where_the_station_is_in_the_second_zone_of_its_state(
    connection: Connection, fleet: Fleet, settings: Settings, csv_file: CsvFile, cell: str, at: str
) -> None:
    add_station(connection, "EP", name="Desert Plaza", city="El Paso", state="TX", latitude=31.77, longitude=-106.5)
    path = csv_file(
        "Transaction Date (UTC),Unit,Location Name,City,State,Product,Gallons (US),Amount ($)",
        f"{cell},101,Desert Plaza,El Paso,TX,ULSD,100,350",
    )

    for outcome in ((1, 0, 0), (0, 0, 1)):
        assert import_fills(connection, fleet.live, path, profile="generic") == (outcome, {})

    (fill,) = fills(connection, fleet.live)
    assert (fill.station_id, fill.time_zone) == ("EP", "America/Denver")
    moment = datetime.fromisoformat(f"{at}+00:00")
    assert fill.bought_at == moment
    wanted = Import(
        path=path,
        file_name=path.name,
        sender="",
        settings=settings,
        company_id=fleet.company_id,
        environment=Environment.LIVE,
        takes_retail=False,
    )
    (row,) = look_at_file(connection, wanted, None, now=NOW).rows
    assert row["local_time"] == f"{moment.astimezone(ZoneInfo('America/Chicago')):%Y-%m-%d %H:%M}"


@pytest.mark.parametrize(
    ("column", "at"),
    [
        ("Transaction Date (UTC)", "2026-11-21T04:05"),
        ("Transaction Date", "2026-11-21T11:05"),  # a local time is that of El Paso once the station is known
    ],
)
def test_a_moment_of_a_file_stays_when_its_station_is_found_later(
    connection: Connection, fleet: Fleet, csv_file: CsvFile, column: str, at: str
) -> None:
    path = csv_file(
        f"{column},Unit,Location Name,City,State,Product,Gallons (US),Amount ($)",
        "11/21/2026 04:05,101,Desert Plaza,El Paso,TX,ULSD,100,350",
    )
    assert import_fills(connection, fleet.live, path, profile="generic") == ((1, 0, 0), {})
    (fill,) = fills(connection, fleet.live)
    assert (fill.station_id, fill.time_zone) == (None, "America/Chicago")

    add_station(connection, "EP", name="Desert Plaza", city="El Paso", state="TX", latitude=31.77, longitude=-106.5)
    match_fills_again(connection, fleet.live, read_stations(connection, fleet.company_id), far_miles=5, now=NOW)

    (fill,) = fills(connection, fleet.live)
    assert (fill.station_id, fill.time_zone) == ("EP", "America/Denver")
    assert fill.bought_at == datetime.fromisoformat(f"{at}+00:00")


@pytest.mark.parametrize("name", ["Quantity Unit", "Qty Unit", "Unit Measure"])
def test_litres_in_a_column_of_units_are_no_gallons(csv_file: CsvFile, name: str) -> None:
    # Names of trenova's importer. The 400 litres were gallons, in a state that sells gallons.
    found = read(csv_file(f"Date,Unit,State,Qty,{name},Amount", "11/21/2026,7,WA,400,L,600.00"))
    assert [one[3] for one in found.fills] == [105.669]


@pytest.mark.parametrize(
    ("names", "cells"),
    [
        ("Retail Price,Unit Price,Amount", "4.20,4.00,400.00"),
        ("Retail Price,PPG,Fee,Total", "4.20,4.00,1.00,401.00"),
        ("Retail Price,PPG", "4.20,4.00"),
        ("Fuel Price,Retail Price,Amount", "3.90,4.00,400.00"),
    ],
)
def test_a_price_beside_the_retail_price_is_the_one_that_was_paid(csv_file: CsvFile, names: str, cells: str) -> None:
    columns = f"Date,Card Number,Invoice,Unit,Location,City,State,Item,Quantity,{names}"
    found = read(csv_file(columns, f"11/21/2026,1234,99,7,Pilot 1,Gary,IN,ULSD,100,{cells}"))
    assert ([one[4] for one in found.fills], found.doubtful) == ([400.0], [])


@pytest.mark.parametrize("names", ["Gallons (imp),Amount", "Gallons,Amount (MXN)", "Gallons,Amount (USD),Amount (CAD)"])
def test_units_that_are_not_read_and_columns_that_differ_in_them_alone_are_left_to_a_person(
    csv_file: CsvFile, names: str
) -> None:
    with pytest.raises(UnreadableFile, match="no profile fits this file"):
        read(csv_file(f"Date,Unit,State,Product,{names}", "11/21/2026,7,IL,ULSD,100,350,480"))


def test_a_day_before_the_month_is_not_read_as_a_month(csv_file: CsvFile) -> None:
    with pytest.raises(UnreadableFile, match="no profile fits this file"):
        read(csv_file("Date (DD/MM/YYYY),Unit,State,Product,Gallons,Amount", "05/11/2026,7,IL,ULSD,100,350"))


@pytest.mark.parametrize(
    ("names", "cells"),
    [
        ("Liters,Price per Gallon", "378.541,3.50"),
        ("Liters,Price per Gallon,Total", "378.541,3.50,350.00"),
        ("Quantity (L),Price ($/gal),Total Cost", "378.541,3.50,350.00"),
        ("Gallons,Price per Litre,Total", "100,0.9246,350.00"),
        ("Liters,Price per Litre,Total", "378.541,0.9246,350.00"),
    ],
)
def test_a_price_may_be_of_another_unit_than_the_quantity(csv_file: CsvFile, names: str, cells: str) -> None:
    found = read(csv_file(f"Date,Unit,State,Product,{names}", f"11/21/2026,7,IL,ULSD,{cells}"))
    assert (found.fills, found.doubtful) == ([("7", "IL", "tractor", 100.0, 350.0)], [])


def test_a_name_of_a_product_goes_before_its_id(csv_file: CsvFile) -> None:
    path = csv_file("Date,Unit,State,Product ID,Fuel Type,Gallons,Amount", "11/21/2026,7,IL,4417,ULSD,100,350")
    assert [one[2] for one in read(path).fills] == ["tractor"]


def test_gallons_of_other_fuels_beside_those_of_the_row_hide_nothing(csv_file: CsvFile) -> None:
    path = csv_file(
        "Date,Unit,State,Product,Gallons,Reefer Gallons,Reefer Cost,Amount",
        "11/21/2026,7,IL,ULSD,100,0,,350",
        "11/22/2026,7,IL,,0,20,70,",
        "11/23/2026,7,IL,,0,0,0,",
        "11/24/2026,7,IL,ULSD,0,0,,350",
    )
    found = read(path)
    assert found.fills == [("7", "IL", "tractor", 100.0, 350.0), ("7", "IL", "reefer", 20.0, 70.0)]
    assert (found.passed_over, found.refused) == (1, {5: "the quantity is missing or zero"})


def test_a_quantity_beside_one_of_another_fuel_is_refused(csv_file: CsvFile) -> None:
    """Nothing tells whether the 100 gallons include the 20; the 20 went away untold."""
    path = csv_file(
        "Date,Unit,State,Product,Gallons,Reefer Gallons,Reefer Cost,Amount", "11/21/2026,7,IL,ULSD,100,20,70,350"
    )
    found = read(path)
    said = "it has a quantity of its own and one of reefer fuel: if the first is without the others, map its column to"
    assert (found.fills, found.refused) == ([], {2: f"{said} tractor_quantity"})


def test_a_quantity_may_be_the_sum_of_those_of_the_fuels(csv_file: CsvFile) -> None:
    path = csv_file(
        "Date,Unit,State,Total Gallons,Diesel Gallons,Diesel Cost,Reefer Gallons,Reefer Cost,Total Amount",
        "11/21/2026,7,IL,120,100,350,20,70,420",
    )
    assert read(path).fills == [("7", "IL", "tractor", 100.0, 350.0), ("7", "IL", "reefer", 20.0, 70.0)]


def test_the_amount_of_a_row_is_that_of_its_only_fuel(csv_file: CsvFile) -> None:
    path = csv_file(
        "Date,Unit,State,Diesel Gallons,Reefer Gallons,Total Amount",
        "11/21/2026,7,IL,100,0,350",
        "11/22/2026,7,IL,100,20,420",
    )
    found = read(path)
    assert found.fills == [("7", "IL", "tractor", 100.0, 350.0)]
    assert found.refused == {3: "the amount is missing, and so is the price"}


@pytest.mark.parametrize(
    ("diesel", "beside"),
    [
        ("Diesel Gallons,Diesel Total", "DEF Gallons,DEF Total"),
        ("Diesel Qty,Diesel Cost", "DEF Qty,DEF Cost"),
        ("diesel_gallons,diesel_price", "def_gallons,def_price"),
        ("Diesel 2 Gallons,Diesel 2 Amount", "Bulk DEF Gallons,Bulk DEF Amount"),
        ("Tractor Qty,Tractor Amt", "DEF Qty,DEF Amt"),
    ],
)
def test_fuels_side_by_side_are_called_as_public_programs_call_them(
    csv_file: CsvFile, diesel: str, beside: str
) -> None:
    """Seen in importers of fuel cards' files, which look for each of these names (FleetNeuron's, a report of diesel).
    Without the names the diesel of such a file was refused, or passed over as no fuel."""
    is_price = diesel.endswith("price")
    path = csv_file(
        f"Date,Unit,State,{diesel},{beside}",
        f"11/21/2026,7,IL,100,{3.5 if is_price else 350},5,{4 if is_price else 20}",
    )
    found = read(path)
    assert found.fills == [("7", "IL", "tractor", 100.0, 350.0), ("7", "IL", "def", 5.0, 20.0)]
    assert (found.passed_over, found.refused, found.doubtful) == (0, {}, [])


@pytest.mark.parametrize(
    "names",
    [
        "Trans Date,Truck Unit,Driver,Vendor,ST,Vol,Total,PPG,Product,Ref #",
        "transaction_date,truck_unit,driver_name,vendor_name,state,gallons,total_amount,price_per_gallon,product_type,uuid",
        "transaction_datetime,unit_no,employee_name,merchant,location_state,fuel_qty,purchase_amount,unit_cost,item,auth_code",
        "Date,Asset Code,Driver,Station,State,Fuel Qty,Cost,Price/Gal,Fuel Type,Auth Number",
        "Activity Date,Power Unit,Cardholder,Merchant Location,Vendor State,Fuel Gallons,Invoice Amount,Fuel Price,"
        "Commodity,Confirmation Number",
        "Trans Date,Equipment Number,Driver,Supplier,Merchant ST,Qty Gallons,Line Total,PPG,Fuel Product,Tran ID",
    ],
)
def test_columns_are_called_as_public_programs_call_them(csv_file: CsvFile, names: str) -> None:
    """The names that FleetNeuron's, IH35-TMS's and trenova's importers look for, and those of EROAD's example file.
    Without the truck's name the purchase was that of a card without a unit; without the amount's it was figured."""
    path = csv_file(names, "11/21/2026,7,ANN LEE,PILOT 206,IN,100,350.00,3.50,ULSD,T1")
    with open_fill_file(path, card_profile_of(path, "auto"), ImportReport(), now=NOW) as file:
        (fill,) = file.fills
        assert file.table.unused == []
    assert (fill.unit_number, fill.gallons, fill.paid_cents, fill.transaction_number) == ("7", 100.0, 35000, "T1")


@pytest.mark.parametrize(
    ("row", "paid", "is_doubtful"),
    [
        ("100,400,5,20,,420", [400.0, 20.0], False),
        ("100,400,5,20,,370", [400.0, 20.0], True),
        ("100,400,0,0,,350", [400.0], True),
        ("100,400,0,0,-50,350", [350.0], False),
        ("100,400,0,0,,520", [400.0], False),  # with an advance
        ("-100,-400,0,0,,-350", [-400.0], True),
    ],
)
def test_fuels_that_cost_more_than_the_whole_row_wait(
    csv_file: CsvFile, row: str, paid: list[float], is_doubtful: bool
) -> None:
    """The report of diesel (`invoice_columns.csv`) has the discount of the row in `Fuel Discount Amount`, which was
    not read: the amount before it counted."""
    path = csv_file(
        "Date,Unit,State,Diesel Gallons,Diesel Amount,DEF Gallons,DEF Amount,Fuel Discount Amount,Total Amount",
        f"11/21/2026,7,IL,{row}",
    )
    found = read(path)
    assert ([one[4] for one in found.fills], bool(found.doubtful)) == (paid, is_doubtful)


@pytest.mark.parametrize(
    ("row", "paid", "is_doubtful"),
    [
        ("350.00,0.00,0.00,350.00", 350.0, False),
        ("350.00,0.00,1.50,351.50", 350.0, False),
        ("350.00,0.00,0.00,320.00", 320.0, False),
        ("350.00,100.00,1.50,451.50", 451.5, True),
        (",0.00,0.00,350.00", 350.0, False),
    ],
)
def test_a_total_above_the_cost_of_the_fuel_waits(csv_file: CsvFile, row: str, paid: float, is_doubtful: bool) -> None:
    """In the fuel export of a portal for TCH and EFS the total of the invoice has the cash advance in it, as its help
    page says (IIM Fleet Manager). The advance counted as diesel."""
    names = "Date,Unit,State,Product,Gallons,Fuel Cost,Cash Adv,Fee,Total Cost"
    path = csv_file(names, f"11/21/2026,7,IL,ULSD,100,{row}")
    found = read(path)
    assert ([one[4] for one in found.fills], bool(found.doubtful)) == ([paid], is_doubtful)


@pytest.mark.parametrize(
    ("names", "row", "paid", "is_doubtful"),
    [
        ("Retail Price,Discount", "3.80,0.30", 379.7, True),
        ("Retail Price,Discount", "3.80,30.00", 350.0, False),
        ("Retail Price,Discount,Net Price", "3.80,0.30,3.50", 379.7, True),
        ("Retail Price,Discount,Net Price", "3.80,3.00,3.77", 377.0, False),
        ("Retail Price,Discount,Amount", "3.80,0.30,379.70", 379.7, False),
        ("Retail Price,Discount,Amount", "3.80,0.30,350.00", 350.0, True),
        ("Retail Price,Discount,Gross Amount", "3.80,0.30,380.00", 379.7, True),
    ],
)
def test_a_discount_that_may_be_of_one_gallon_waits(
    csv_file: CsvFile, names: str, row: str, paid: float, is_doubtful: bool
) -> None:
    """Price lists have the discount of a gallon, and so do logs that copy it: 350.00 was paid, and 379.70 counted."""
    path = csv_file(f"Date,Unit,State,Product,Gallons,{names}", f"11/21/2026,7,IL,ULSD,100,{row}")
    found = read(path)
    assert ([one[4] for one in found.fills], bool(found.doubtful)) == ([paid], is_doubtful)


def test_the_cost_of_the_fuel_is_the_amount_where_no_total_is(csv_file: CsvFile) -> None:
    path = csv_file("Date,Unit,State,Product,Gallons,Fuel Cost", "11/21/2026,7,IL,ULSD,100,350")
    assert [one[4] for one in read(path).fills] == [350.0]


def test_a_file_in_which_no_column_may_be_the_diesel_is_refused(csv_file: CsvFile) -> None:
    """Its rows of diesel alone were passed over as no fuel."""
    path = csv_file("Date,Unit,State,Clear Gallons,Reefer Gallons,Reefer Cost", "11/21/2026,7,IL,100,0,0")
    with pytest.raises(UnreadableFile, match=r"needs a column 'quantity' .* or 'tractor_quantity'"):
        read(path)


def test_diesel_of_one_kind_that_cost_money_without_gallons_is_refused(csv_file: CsvFile) -> None:
    """It was passed over as no fuel."""
    path = csv_file(
        "Date,Unit,State,Diesel 1 Gallons,Diesel 1 Amount,Diesel 2 Gallons,Diesel 2 Amount,DEF Gallons",
        "11/21/2026,7,IL,0,0,,350.00,0",
    )
    found = read(path)
    assert (found.fills, found.passed_over, found.refused) == ([], 0, {2: "the quantity is missing or zero"})


@pytest.mark.parametrize(
    ("litres", "amount", "read_as"),
    [
        ("400,125", "659,81", (105.702, 659.81)),
        ("1 400,125", "2 308,81", (369.874, 2308.81)),
        ("1.400,125", "2.308,81", (369.874, 2308.81)),
        ("400.125", "659,81", None),
        ("400,125", "660", None),
        ("1,234", "2034.87", (325.988, 2034.87)),
        ("1,234", "2,034.87", (325.988, 2034.87)),
    ],
)
def test_three_digits_behind_a_comma_are_decimals_where_other_numbers_have_decimals_behind_one(
    csv_file: CsvFile, litres: str, amount: str, read_as: tuple[float, float] | None
) -> None:
    found = read(csv_file("Date;Unit;State;Product;Litres;Amount", f"2026-11-21;7;QC;ULSD;{litres};{amount}"))
    assert [one[3:] for one in found.fills] == ([] if read_as is None else [read_as])
    assert list(found.refused) == ([2] if read_as is None else [])


@pytest.mark.parametrize(
    ("cells", "passed_over", "refused"),
    [
        (",,,", 1, None),
        ("0,,,", 1, None),
        (",350.00,,", 0, "the quantity is missing or zero"),
        ("0,350.00,,", 0, "the quantity is missing or zero"),
        (",,,350.00", 0, "the quantity is missing or zero"),
    ],
)
def test_a_row_of_several_fuels_without_gallons_is_no_purchase_unless_fuel_was_paid(
    csv_file: CsvFile, cells: str, passed_over: int, refused: str | None
) -> None:
    found = read(csv_file("Date,Unit,State,Diesel Gallons,Diesel Cost,DEF Gallons,Total", f"11/21/2026,7,IL,{cells}"))
    assert (found.fills, found.passed_over) == ([], passed_over)
    assert found.refused == ({} if refused is None else {2: refused})


@pytest.mark.parametrize(("kind", "fuel"), [("Diesel", "tractor"), ("Reefer Fuel", "reefer"), ("Purchase", "unknown")])
def test_a_kind_of_transaction_may_be_the_product(csv_file: CsvFile, kind: str, fuel: str) -> None:
    path = csv_file("Date,Unit,State,Type,Gallons,Amount", f"11/21/2026,7,IL,{kind},100,350")
    assert [one[2] for one in read(path).fills] == [fuel]


def test_codes_of_pilot_are_products_by_its_profile() -> None:
    assert [one[2] for one in read(CASES / "pilot_codes.csv", "pilot").fills] == ["tractor", "def", "reefer"]


def test_every_card_has_a_case() -> None:
    """`fleet-one`: no file of it was found."""
    assert set(CARDS) - {expected.profile for _, expected in CLEAN} - {"pilot", "fleet-one"} == set()


REFUSED = {
    "dkv.csv": "needs a column",
    "efs_rejects.csv": "needs a column",
    "deliveries.csv": "needs a column 'state'",
    "posting_date.csv": r"\. 'Posting Date' is the day of booking, maybe days after the purchase",
}


@pytest.mark.parametrize(("name", "fault"), REFUSED.items(), ids=list(REFUSED))
def test_a_file_that_is_about_no_purchases_here_is_refused_as_a_whole(name: str, fault: str) -> None:
    with pytest.raises(UnreadableFile, match=f"no profile fits this file.*{fault}"):
        read(CASES / name)


@pytest.mark.parametrize(
    ("names", "told"),
    [("Post Date,Invoice Date", "'Post Date' and 'Invoice Date' is"), ("posted_date,Time", "'posted_date' is")],
)
def test_a_day_of_booking_is_no_day_of_purchase(csv_file: CsvFile, names: str, told: str) -> None:
    path = csv_file(f"{names},Unit,State,Product,Gallons,Amount", "11/21/2026,11/21/2026,7,IL,ULSD,100,350")
    with pytest.raises(UnreadableFile, match=told):
        read(path)


@pytest.mark.parametrize(
    ("names", "local"),
    [
        ("Post Date,Tran Date", "21 12:00"),
        ("Invoice Date,Tran Date,Invoice Time", "21 15:31"),
        ("Invoice Date,Tran Date,Invoice Time,Tran Time", "21 09:10"),
        ("Post Date,Invoice Date,Invoice Time", "21 15:31"),
    ],
)
def test_a_day_of_booking_beside_one_of_the_purchase_is_not_read(csv_file: CsvFile, names: str, local: str) -> None:
    """The day of an invoice that has a time is that of the purchase, unless another one is."""
    times = ["11/23/2026", "11/21/2026", "3:31 PM", "9:10"][: names.count(",") + 1]
    path = csv_file(f"{names},Unit,State,Product,Gallons,Amount", f"{','.join(times)},7,IL,ULSD,100,350")
    with open_fill_file(path, card_profile_of(path, "auto"), ImportReport(), now=NOW) as file:
        assert [f"{one.local_time:%d %H:%M}" for one in file.fills] == [local]


def test_a_day_of_booking_counts_if_a_person_says_so(csv_file: CsvFile) -> None:
    path = csv_file("Post Date,Unit,State,Product,Gallons,Amount", "11/23/2026,7,IL,ULSD,100,350")
    profile = card_profile("generic")
    profile = replace(profile, columns={**profile.columns, "date": Column(("Post Date",))})
    with open_fill_file(path, profile, ImportReport(), now=NOW) as file:
        assert [(f"{one.local_time:%d}", one.has_time) for one in file.fills] == [("23", False)]


def test_a_name_of_flying_j_leads_to_its_station(connection: Connection, fleet: Fleet) -> None:
    with (CASES / "flying_j_station.csv").open() as file:
        (row,) = csv.DictReader(file)
    columns = ("station_id", "name", "brand", "city", "state", "latitude", "longitude")
    connection.execute(
        f"INSERT INTO stations ({', '.join(columns)}) VALUES (%s, %s, %s, %s, %s, %s, %s)",
        [row[name] for name in columns],
    )
    assert import_fills(connection, fleet.live, CASES / "flying_j.csv", now=NOW) == ((1, 0, 0), {})
    (fill,) = fills(connection, fleet.live)
    assert (fill.station_id, fill.score, fill.time_zone) == ("TS00000", 0, "America/Denver")
    assert fill.review == ["unit"]


def test_known_stations_tell_the_state_of_an_imported_file(connection: Connection, fleet: Fleet) -> None:
    path = CASES / "atob.csv"
    add_station(connection, "pilot-507", name="Pilot #507", brand="Pilot", city="Fernley", state="NV")
    assert states_by_stations(connection, fleet.company_id)("PILOT_00507", "") == "NV"
    file = FillsFile(
        path=path,
        company_id=fleet.company_id,
        environment=Environment.LIVE,
        profile=card_profile_of(path, "auto"),
        far_miles=5,
    )
    assert [store(connection, NOW) for store in file.batches(NOW, lambda _: None)][-1].created == 1
    (fill,) = fills(connection, fleet.live)
    assert (fill.state, fill.station_id, fill.time_zone) == ("NV", "pilot-507", "America/Los_Angeles")


def test_a_whole_number_that_a_program_has_given_a_decimal_is_the_number(csv_file: CsvFile) -> None:
    """Python's pandas writes whole numbers so once a cell of the column is empty, as in the data of `kwiktrip.csv`. The
    card of 7890 was that of 8900."""
    path = csv_file(
        "Card Number,Date,Unit,State,Product,Gallons,Amount,Trans ID",
        "7083051234567890.0,11/21/2026,101.0,IN,ULSD,100.0,350.0,10051.0",
    )
    with open_fill_file(path, card_profile_of(path, "auto"), ImportReport(), now=NOW) as file:
        (fill,) = file.fills
    assert (fill.card_last_four, fill.unit_number, fill.transaction_number) == ("7890", "101", "10051")


def test_a_dash_in_place_of_a_zero_is_no_fault(csv_file: CsvFile) -> None:
    """Excel writes zeros so into CSV files, where a column has its format Accounting (`$-`) or Comma (`-`). Each such
    row was refused, also those of a card without fees."""
    path = csv_file(
        "Date,Unit,State,Product,Gallons,Amount,Fees,Discount,GST",
        '11/21/2026,7,IL,ULSD,100.0, $350.00 , $-   , -   ," $-   "',
        "11/21/2026,8,IL,ULSD,100.0, $-   ,-,-,-",
    )
    found = read(path)
    assert [one[3:] for one in found.fills] == [(100.0, 350.0)]
    assert found.refused == {3: "the amount is missing, and so is the price"}


def test_a_further_sheet_with_purchases_is_told(tmp_path: Path) -> None:
    """A workbook with a sheet for each truck: those of the second truck were left out without a word."""
    book = openpyxl.Workbook()
    for sheet, unit in ((book.active, "101"), (book.create_sheet("Truck 102"), "102")):
        for row in ("Date,Unit,State,Product,Gallons,Amount", f"11/21/2026,{unit},IN,ULSD,100,350"):
            sheet.append(row.split(","))
    book.save(tmp_path / "fills.xlsx")

    found = read(tmp_path / "fills.xlsx")

    assert [one[0] for one in found.fills] == ["101"]
    told = "the sheet 'Truck 102' has rows, too, and only the first is read: save it as a file of its own"
    assert found.refused == {1: told}


def test_every_case_has_its_line_and_its_test() -> None:
    described = (CASES / "README.md").read_text()
    files = {path.name for path in CASES.iterdir()} - {"README.md", "flying_j_station.csv"}
    assert {name for name in files if f"`{name}`" not in described} == set()
    assert files - {name for name, _ in CLEAN} - set(REFUSED) == set()


def test_headings_and_totals_inside_a_report_are_passed_over_and_broken_rows_are_not(csv_file: CsvFile) -> None:
    heading = "Card,Date,Unit,Location,City,State,Item,Gallons,Amount"
    path = csv_file(
        heading,
        "*0541,11/03/2026,12,TA,ELOY,AZ,ULSD,100,350.00",
        "Sub-total for card *0541,,,,,,ULSD,100,350.00",
        ",,,,,,,,",
        "Group 2,,,,,,,,",
        heading.upper(),
        "*0542,11/04/2026,13,TA,ELOY,AZ,ULSD,90,315.00",
        "11/04/2026,45000.50,,,,,,90,315.00",
        "*0542,11/04/2026,13,TA,ELOY,AZ,Total Fuel,190,665.00",
        "*0542,11/44/2026,13,TA,ELOY,AZ,ULSD,90,315.00",
        "*0542,,13,TA,ELOY,AZ,ULSD,9O,315.00",
        "*0542,11/05/2026,13,TA,ELOY,AZ,ULSD,0.00,0.00",
        "GRAND TOTAL,,,,,,,190 gal,665.00",
    )
    found = read(path)
    assert [one[3] for one in found.fills] == [100, 90]
    assert found.passed_over == 7
    assert list(found.refused) == [10, 11]


def test_a_further_line_of_an_invoice_without_day_and_place_is_refused(csv_file: CsvFile) -> None:
    # EFS's transaction report is printed so; a public program reads the further lines with what stands above them.
    path = csv_file(
        "Card #,Tran Date,Invoice,Unit,Location Name,City,State/ Prov,Item,Unit Price,Qty,Amt,Currency",
        "94507,2026-11-20,801,691,PILOT JAMESTOWN 305,JAMESTOWN,NM,DEFD,4.999,5.24,26.18,USD/Gallons",
        ",,,,,,,ULSD,4.227,141.70,598.91,USD/Gallons",
        ",,,,,,,SCLE,15.25,1.00,15.25,USD/Gallons",
        ",,,,,,,ULSD,4.227,141.70,598.91,USD/Gallons",
        "GRAND TOTAL,,,,,,,,,,1239.25,",
        ",,,,,,,ULSD,4.227,283.40,1197.82,USD/Gallons",
    )
    found = read(path)
    assert [one[3] for one in found.fills] == [5.24]
    assert list(found.refused) == [3, 5]
    assert found.passed_over == 3


@pytest.mark.parametrize(
    ("column", "unit", "state", "gallons"),
    [
        ("Qty", "GA", "TX", 100),
        ("Qty", "Gal", "TX", 100),
        ("Qty", "US Gallons", "TX", 100),
        ("Qty", "us_gallons", "TX", 100),
        ("Qty", "Gallons (US)", "TX", 100),
        ("Qty", "GL", "TX", 100),
        ("Qty", "GLL", "TX", 100),  # of Recommendation 20 of the United Nations, whose GLI is imperial
        ("Qty", "GLI", "ON", None),
        ("Qty", "LTR", "ON", 26.417),
        ("Qty", "LIT", "ON", 26.417),
        ("Qty", "litres", "ON", 26.417),
        ("Litres", "", "ON", 26.417),
        ("Liters Purchased", "", "TX", 26.417),
        ("Gallons", "", "ON", 100),
        ("Gallons", "L", "ON", 26.417),
        ("Qty", "", "TX", 100),
        ("Qty", "", "ON", None),
        ("Qty", "LB", "TX", None),
        ("Qty", "IMP GAL", "ON", None),
        ("Qty", "uk_gallons", "TX", None),
    ],
)
def test_the_unit_of_the_quantity_is_told_by_its_column_or_cell(
    csv_file: CsvFile, column: str, unit: str, state: str, gallons: float | None
) -> None:
    path = csv_file(f"Date,Unit,City,State,Product,{column},UOM,Amount", f"11/20/2026,7,X,{state},ULSD,100,{unit},350")
    found = read(path)
    assert [one[3] for one in found.fills] == ([] if gallons is None else [gallons])
    assert len(found.refused) == (gallons is None)


@pytest.mark.parametrize("card", ["****21915", "•••• 1915", "*1915", "500000XXXXXX1915", "'1915", "1915"])
def test_of_a_card_its_last_four_digits_are_read_however_it_is_masked(csv_file: CsvFile, card: str) -> None:
    path = csv_file("Card,Date,Unit,State,Product,Gallons,Amount", f"{card},11/20/2026,7,TX,ULSD,100,350")
    with open_fill_file(path, card_profile_of(path, "auto"), ImportReport(), now=NOW) as file:
        assert [one.card_last_four for one in file.fills] == ["1915"]


def test_a_spreadsheet_keeps_fifteen_digits_of_a_card(tmp_path: Path) -> None:
    """It writes zeros for the others, so two cards would be one: 0000, or 7890 of 7891."""
    book = openpyxl.Workbook()
    book.active.append(["Transaction Date", "Card Number", "Unit", "State", "Units", "Net Cost"])
    for card in (7083050030485890000, 7083051234567890, "7083050030485897149", "7083050030485890000", "7.08305E+18"):
        book.active.append(["11/20/2026", card, "101", "LA", 100, 400])
    book.save(tmp_path / "cards.xlsx")
    with open_fill_file(tmp_path / "cards.xlsx", card_profile("generic"), ImportReport(), now=NOW) as file:
        assert [one.card_last_four for one in file.fills] == [None, None, "7149", None, None]


def test_a_cards_number_stays_in_no_other_cell_of_its_row(csv_file: CsvFile) -> None:
    path = csv_file(
        "Transaction Date,Card Number,Unit,Driver Name,Location,State,Item,Qty,Amt,Invoice",
        "11/20/2026,7083051234567890,7083051234567890,LEE 7083051234567890,PILOT,LA,ULSD,100,400.00,7083051234567890",
    )
    with open_fill_file(path, card_profile_of(path, "auto"), ImportReport(), now=NOW) as file:
        (fill,) = file.fills
    assert (fill.unit_number, fill.driver_name, fill.transaction_number) == (None, "LEE *7890", None)


def test_a_refusal_quotes_no_whole_number_of_a_card(csv_file: CsvFile) -> None:
    heading = "Transaction Date,Card Number,Unit,Location,State,Item,Qty,Amt"
    found = read(
        csv_file(
            heading,
            "11/20/2026,101,PILOT 335,LA,7083051234567890,ULSD,100,400.00",
            "11/20/2026,7083051234567890,101,PILOT 335,LA,ULSD,7083-0512-3456-7890,400.00",
            "11/20/2026,12345678901,101,PILOT 335,LA,ULSD,1234567890123 gal,400.00",
        )
    )
    assert list(found.refused) == [2, 3, 4]
    assert not any(re.search("70830512|7083-0512|123456789012", message) for message in found.refused.values())
    with pytest.raises(UnreadableFile, match=r"11/20/2026, \*7890, 101"):
        read(csv_file("11/20/2026,7083051234567890,101,PILOT 335,LA,ULSD,100,400.00"))
