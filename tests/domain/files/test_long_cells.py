"""No cell, however long and odd, keeps a processor busy: patterns that divide a text in every way take minutes."""

import time
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from domain.files.csvfiles import ImportReport, UnreadableFile, read_rows
from domain.files.profiles import FileProfile
from domain.files.reading import open_profiled
from domain.files.route_files import open_route_file
from domain.fills.card_files import open_fill_file
from domain.fills.profiles import CARDS
from domain.stations.chains import number_in_id, store_number
from domain.stations.price_profiles import BUILT_IN, PRICE_FIELDS
from ingress.console.record_kinds import DRIVERS, STATION_LIST, VEHICLES, AnyRecordKind

LONG = 32_000
EVIL = {
    "digits": "1" * LONG,
    "zeros": "0" * LONG + "x",
    "spaces": "1" + " " * LONG + "x",
    "dashes": "1-" * (LONG // 2),
    "days": "1 to " * (LONG // 5),
}
ROUTE_COLUMNS = [
    *("externalId", "unitNumber", "driverName", "scheduledStart", "timeZone", "stop1_name", "stop1_latitude"),
    *("stop1_longitude", "stop1_arrivalFrom", "stop2_name", "stop2_latitude", "stop2_longitude"),
]
MOST_SECONDS = 10.0
"""Processor time, since the machine may be busy. What was wrong took minutes."""


def rows_with(path: Path, columns: list[str], evil: str) -> list[Path]:
    """A file for each column, in whose only row that cell is odd."""
    files = []
    for number, odd in enumerate(columns):
        file = path / f"{number}.csv"
        cells = [evil if column == odd else "1" for column in columns]
        file.write_text(",".join(f'"{column}"' for column in columns) + "\n" + ",".join(cells) + "\n")
        files.append(file)
    return files


def columns_of(profile: FileProfile) -> list[str]:
    return [column.names[0] for column in profile.columns.values()]


@pytest.mark.slow
@pytest.mark.parametrize("evil", EVIL)
@pytest.mark.parametrize("profile", BUILT_IN)
def test_cells_of_prices(tmp_path: Path, profile: str, evil: str) -> None:
    for path in rows_with(tmp_path, columns_of(BUILT_IN[profile]), EVIL[evil]):
        began = time.process_time()
        try:
            with open_profiled(path, BUILT_IN[profile], PRICE_FIELDS, ZoneInfo("UTC"), ImportReport()) as file:
                list(file.records)
        except UnreadableFile:
            pass
        assert time.process_time() - began < MOST_SECONDS, path.read_text()[:200]


@pytest.mark.slow
@pytest.mark.parametrize("evil", EVIL)
@pytest.mark.parametrize("profile", CARDS)
def test_cells_of_fills(tmp_path: Path, profile: str, evil: str) -> None:
    for path in rows_with(tmp_path, columns_of(CARDS[profile].profile), EVIL[evil]):
        began = time.process_time()
        try:
            with open_fill_file(path, CARDS[profile].profile, ImportReport(), now=datetime.now(UTC)) as file:
                list(file.fills)
        except UnreadableFile:
            pass
        assert time.process_time() - began < MOST_SECONDS, path.read_text()[:200]


@pytest.mark.slow
@pytest.mark.parametrize("evil", EVIL)
def test_cells_of_routes(tmp_path: Path, evil: str) -> None:
    for path in rows_with(tmp_path, ROUTE_COLUMNS, EVIL[evil]):
        began = time.process_time()
        with open_route_file(path, {}, ZoneInfo("UTC"), kind="csv") as file:
            list(file.routes)
        assert time.process_time() - began < MOST_SECONDS, path.read_text()[:200]


@pytest.mark.slow
@pytest.mark.parametrize("evil", EVIL)
@pytest.mark.parametrize("subject", [VEHICLES, DRIVERS, STATION_LIST], ids=lambda subject: subject.name)
def test_cells_of_the_fleet_and_of_stations(tmp_path: Path, subject: AnyRecordKind, evil: str) -> None:
    for path in rows_with(tmp_path, list(subject.shape.__struct_fields__), EVIL[evil]):
        began = time.process_time()
        list(read_rows(path, subject.shape, ImportReport()))
        assert time.process_time() - began < MOST_SECONDS, path.read_text()[:200]


def test_a_line_above_the_columns_of_prices(tmp_path: Path) -> None:
    path = tmp_path / "prices.csv"
    path.write_text(f'"Effective Date{" " * 3_000}Thursday\nof November"\nSite,City,State,Retail Price,Your Price\n')
    began = time.process_time()

    with open_profiled(path, BUILT_IN["pilot"], PRICE_FIELDS, ZoneInfo("UTC"), ImportReport()) as file:
        list(file.records)

    assert time.process_time() - began < MOST_SECONDS


def test_spaces_in_a_row_with_a_wrong_quote(tmp_path: Path) -> None:
    path, report = tmp_path / "vehicles.csv", ImportReport()
    path.write_text("unit_number,make\n" + f'"1",{" " * 100_000}"b"c\n' + "2,Volvo\n")
    began = time.process_time()

    rows = [one.number for one in read_rows(path, VEHICLES.shape, report)]

    assert (rows, [one.line for one in report.rejected]) == ([3], [2])
    assert time.process_time() - began < MOST_SECONDS


@pytest.mark.parametrize("evil", ["0" * LONG, *EVIL.values()])
def test_numbers_in_names_and_ids(evil: str) -> None:
    began = time.process_time()
    store_number(evil)
    number_in_id(evil)
    assert time.process_time() - began < MOST_SECONDS
