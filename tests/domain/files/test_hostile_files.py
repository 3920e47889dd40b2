"""No file takes the machine's memory: lines, cells, columns and refused rows are bounded while they are read."""

import struct
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from zoneinfo import ZoneInfo

import openpyxl
import pytest

from domain.files import csvfiles
from domain.files.csvfiles import MOST_REFUSED_KEPT, ImportReport, UnreadableFile, read_rows
from domain.files.profiles import FileProfile, RecordField, RecordFields, plain_profile
from domain.files.reading import open_profiled, read_sample, recognize
from domain.files.reading_ends import ReadingEnded, reading_ends, reading_within
from domain.files.route_files import open_route_file, read_columns
from domain.files.spreadsheets import excel_rows
from domain.fleet.vehicles import VehicleRow

CHICAGO = ZoneInfo("America/Chicago")
FIELDS = RecordFields("things", (RecordField("code", "Code", "code"),), (("code",),))
PROFILE: FileProfile = plain_profile(FIELDS)
MOST_BYTES_IN_MEMORY = 30_000_000
"""A row with all the cells that it may have, a few times over, and what Python needs to begin."""

Reader = Callable[[Path], object]


def read_vehicles(path: Path) -> object:
    return list(read_rows(path, VehicleRow, ImportReport()))


def read_routes(path: Path) -> object:
    with open_route_file(path, {}, CHICAGO, kind="csv") as file:
        return sum(1 for _ in file.routes)


def read_columns_of(path: Path) -> object:
    return read_columns(path, "csv")


def read_profiled(path: Path) -> object:
    with open_profiled(path, PROFILE, FIELDS, CHICAGO, ImportReport()) as file:
        return list(file.records)


def read_json(path: Path) -> object:
    with open_route_file(path, {}, CHICAGO, kind="jsonl") as file:
        return sum(1 for _ in file.routes)


READERS: list[Reader] = [
    read_vehicles,
    read_routes,
    read_columns_of,
    read_profiled,
    read_json,
    read_sample,
    lambda path: recognize(path, [PROFILE], FIELDS),
]
LINES = [
    (b"", b"name,", 800_000),
    (b"", b"x", 4_000_000),
    (b"", b'"', 4_000_001),
    (b"", b'"x\n', 20_000),
    (b"unit_number\n", b"a,", 2_000_000),
    (b"", b"[{},", 1_000_000),
]
"""A beginning, a piece, and how often the piece follows."""


@pytest.mark.slow
@pytest.mark.parametrize("read", READERS, ids=range(len(READERS)))
@pytest.mark.parametrize(("begin", "piece", "times"), LINES, ids=range(len(LINES)))
def test_a_huge_line_takes_little_memory(tmp_path: Path, read: Reader, begin: bytes, piece: bytes, times: int) -> None:
    path = tmp_path / "huge.csv"
    path.write_bytes(begin + piece * times)

    tracemalloc.start()
    fault = ""
    try:
        read(path)
    except UnreadableFile as error:
        fault = str(error)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert (most < MOST_BYTES_IN_MEMORY, len(fault) < 20_000) == (True, True)


def test_a_spreadsheet_with_a_row_wider_than_any_table_is_refused(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    book.active.append(["Code", *range(2_000)])
    book.save(tmp_path / "wide.xlsx")

    with pytest.raises(UnreadableFile, match="more than 1,000 columns"):
        read_profiled(tmp_path / "wide.xlsx")


def test_many_refused_rows_are_counted_and_the_first_are_kept() -> None:
    report = ImportReport()
    for line in range(MOST_REFUSED_KEPT + 5):
        report.reject(line, "x" * 5_000)

    assert (report.refused, len(report.rejected)) == (MOST_REFUSED_KEPT + 5, MOST_REFUSED_KEPT)
    assert report.as_json()["refused"] == MOST_REFUSED_KEPT + 5
    assert len(report.rejected[0].message) == 2_000


def test_a_file_of_more_rows_than_are_stored_at_once_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(csvfiles, "MOST_FILE_ROWS", 3)
    path = tmp_path / "many.csv"
    path.write_text("unit_number\n" + "1\n" * 4)

    with pytest.raises(UnreadableFile, match="more than 3 rows: divide it"):
        read_vehicles(path)


@pytest.mark.parametrize("read", READERS, ids=range(len(READERS)))
def test_the_reading_ends_when_nobody_waits_for_it(tmp_path: Path, read: Reader) -> None:
    path = tmp_path / "long.csv"
    path.write_text("code,unit_number\n" + "1,2\n" * 5_000)

    with reading_ends(lambda: "nobody waits"), pytest.raises(ReadingEnded, match="nobody waits"):
        read(path)


def test_a_spreadsheet_ends_when_nobody_waits_for_it(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    book.active.append(["Code"])
    book.save(tmp_path / "file.xlsx")

    with reading_ends(lambda: "nobody waits"), pytest.raises(ReadingEnded):
        read_profiled(tmp_path / "file.xlsx")


def spoiled_book(path: Path, part: str, old: str, new: str) -> None:
    """A file of two sheets with a table each, with other text in one of its parts."""
    book = openpyxl.Workbook()
    book.create_sheet("Further")
    for sheet in book.worksheets:
        for line in range(3):
            sheet.append(["a", "b", line])
    book.save(path)
    with zipfile.ZipFile(path) as file:
        parts = {name: file.read(name).decode() for name in file.namelist()}
    assert old in parts[part]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, text in parts.items():
            file.writestr(name, text.replace(old, new) if name == part else text)


def test_an_archive_of_countless_parts_is_refused_before_it_takes_memory(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "file.xlsx", "w") as file:
        file.writestr("a", b"")
    content = (tmp_path / "file.xlsx").read_bytes()
    begins, ends = content.index(b"PK\x01\x02"), content.index(b"PK\x05\x06")
    parts = content[begins:ends] * 100_000
    lengths = struct.pack("<HHLL", 65_535, 65_535, len(parts), begins)
    content = content[:begins] + parts + content[ends : ends + 8] + lengths + content[ends + 20 :]
    (tmp_path / "file.xlsx").write_bytes(content)

    tracemalloc.start()
    with pytest.raises(UnreadableFile, match="has more than 10,000 parts"):
        list(excel_rows(tmp_path / "file.xlsx"))
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < MOST_BYTES_IN_MEMORY


def test_a_sheet_with_an_endless_name_holds_nobody_up(tmp_path: Path) -> None:
    spoiled_book(tmp_path / "file.xlsx", "xl/workbook.xml", 'name="Further"', f'name="{"Further" * 30_000}"')
    told: list[str] = []

    with reading_within(8):
        assert len(list(excel_rows(tmp_path / "file.xlsx", tells_sheet=told.append))) == 3
    assert told == [("Further" * 9)[:60]]


def test_a_file_whose_fault_has_no_end_holds_nobody_up(tmp_path: Path) -> None:
    spoiled_book(tmp_path / "file.xlsx", "xl/worksheets/sheet1.xml", 't="n"', f't="{"x" * 200_000}"')

    with reading_within(8), pytest.raises(UnreadableFile, match="no Excel file that can be read") as caught:
        list(excel_rows(tmp_path / "file.xlsx"))
    assert len(str(caught.value)) < 3_000
