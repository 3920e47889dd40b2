"""Imports give their turn up to others between rows, and a file of nonsense, or too large, delays no other company."""

import io
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from domain.files import csvfiles
from domain.files.csvfiles import ImportReport, TooManyRefused
from domain.files.reading_ends import ReadingTooLong, reading_in_turns, reading_within
from domain.files.spreadsheets import excel_rows, read_table
from domain.lifecycle import Role
from ingress.console.browser import MAX_FILE_BYTES
from ingress.console.import_turns import LARGE_BYTES, MOST_LARGE, ImportTurns
from tests.ingress.console.conftest import Browser, World, words
from tests.ingress.console.uploads import import_file, send
from tests.service import eventually, one_below

LARGE, SMALL = LARGE_BYTES + 1, 1_000


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(20) as pool:
        yield pool


def import_rows(turns: ImportTurns, size: int, is_done: Callable[[], bool], *, holds_connection: bool = True) -> None:
    """Work with rows until all of them are done."""
    with turns.turn(holds_connection=holds_connection, file_bytes=size) as turn:
        while not is_done():
            time.sleep(0.01)
            turn.give_way()


@pytest.mark.parametrize("holds_connection", [True, False])
def test_a_small_import_does_not_wait_for_large_ones(threads: ThreadPoolExecutor, holds_connection: bool) -> None:
    turns, small_is_done = ImportTurns(turn_seconds=0.1), threading.Event()
    large = [
        threads.submit(import_rows, turns, LARGE, small_is_done.is_set, holds_connection=holds_connection)
        for _ in range(4)
    ]
    time.sleep(0.2)

    try:
        threads.submit(import_rows, turns, SMALL, iter([False] * 5 + [True]).__next__).result(timeout=180)
    finally:
        small_is_done.set()
    for one in large:
        one.result()


def test_few_large_imports_hold_a_connection(threads: ThreadPoolExecutor) -> None:
    turns = ImportTurns(turn_seconds=0.01)
    begun, most, lock = 0, 0, threading.Lock()

    def run() -> None:
        nonlocal begun, most
        with turns.turn(holds_connection=True, file_bytes=LARGE) as turn:
            with lock:
                begun += 1
                most = max(most, begun)
            until = time.monotonic() + 180
            while most < MOST_LARGE and time.monotonic() < until:
                time.sleep(0.01)
                turn.give_way()
            with lock:
                begun -= 1

    for one in [threads.submit(run) for _ in range(8)]:
        one.result()
    assert most == MOST_LARGE


def test_a_file_of_refused_rows_ends_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csvfiles, "MOST_REFUSED", 100)
    report = ImportReport()
    for line in range(2, 102):
        report.reject(line, "no")
    with pytest.raises(TooManyRefused, match=r"more than 100 rows that are refused.* line 2: no"):
        report.reject(102, "no")


def sheet_of_ones(rows: int, columns: int) -> bytes:
    """An Excel file whose every cell is 1."""
    parts = {
        "[Content_Types].xml": '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
        '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        '<Default Extension="xml" ContentType="application/xml"/><Override PartName="/xl/workbook.xml" ContentType='
        '"application/vnd.openxmlformats-officedocument.spreadsheetml.sheet.main+xml"/></Types>',
        "_rels/.rels": '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship'
        ' Id="r1" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument"'
        ' Target="xl/workbook.xml"/></Relationships>',
        "xl/workbook.xml": '<workbook xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main" xmlns:r='
        '"http://schemas.openxmlformats.org/officeDocument/2006/relationships"><sheets><sheet name="a" sheetId="1"'
        ' r:id="r1"/></sheets></workbook>',
        "xl/_rels/workbook.xml.rels": '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/'
        'relationships"><Relationship Id="r1" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/'
        'worksheet" Target="worksheets/sheet1.xml"/></Relationships>',
    }
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, text in parts.items():
            archive.writestr(name, text)
        with archive.open("xl/worksheets/sheet1.xml", "w", force_zip64=True) as sheet:
            sheet.write(b'<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData>')
            row = b"<row>" + b"<c><v>1</v></c>" * columns + b"</row>"
            for _ in range(rows // 1_000):
                sheet.write(row * 1_000)
            sheet.write(b"</sheetData></worksheet>")
    return file.getvalue()


@pytest.mark.slow
def test_a_sheet_that_takes_long_is_given_up_in_time(tmp_path: Path) -> None:
    path = tmp_path / "ones.xlsx"
    path.write_bytes(sheet_of_ones(100_000, 24))
    began = time.monotonic()
    with reading_within(0.5), pytest.raises(ReadingTooLong):
        list(excel_rows(path))
    assert time.monotonic() - began < 60


@pytest.mark.slow
def test_a_text_that_takes_long_is_given_up_in_time(tmp_path: Path) -> None:
    path = tmp_path / "ones.csv"
    path.write_bytes(b"name\n" + b"1\n" * 2_000_000)
    with reading_within(0.2), pytest.raises(ReadingTooLong):
        list(read_table(path, lambda _: None, lambda _: True, is_excel=False))


def test_a_file_without_rows_gives_its_turn_up_too(tmp_path: Path) -> None:
    path, times = tmp_path / "empty.csv", list[int]()
    path.write_bytes(b"name\n" + b"\n" * 20_000)
    with reading_in_turns(lambda: times.append(1)):
        assert len(list(read_table(path, lambda _: None, lambda _: True, is_excel=False))) == 1
    assert len(times) > 10


def test_without_a_limit_a_file_is_read_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "ones.xlsx"
    path.write_bytes(sheet_of_ones(2_000, 3))
    assert len(list(excel_rows(path))) == 2_000


@pytest.fixture
def dispatchers(world: World) -> list[Browser]:
    browsers = [world.browser(Role.DISPATCHER, world.new_fleet()) for _ in range(2)]
    for browser in browsers:
        browser.look("/vehicles")
    return browsers


def test_a_file_of_nonsense_and_a_look_at_many_cells_delay_no_other_company(
    world: World, dispatchers: list[Browser]
) -> None:
    """Both end with a sentence."""
    importing, looking = dispatchers
    ones = sheet_of_ones(1_000_000, 24)
    assert len(ones) < MAX_FILE_BYTES

    def send_nonsense() -> str:
        importing.look("/vehicles")
        return send(importing, "vehicles", b"unit_number,vin\n" + b"1,1\n" * (MAX_FILE_BYTES // 4 - 10))

    def look_at_many_cells() -> tuple[int, str]:
        headers = {"Content-Type": "text/csv", "X-Form-Token": looking.token, "HX-Request": "true"}
        query = {"act": "preview", "filename": "ones.xlsx"}
        answer = looking.post("/route-files", params=query, content=ones, headers=headers)
        return answer.status_code, words(answer.text)

    def seconds_of_another_company() -> float:
        with ThreadPoolExecutor(1) as threads:
            look = threads.submit(look_at_many_cells)
            page = send_nonsense()
            other = world.browser(Role.DISPATCHER, world.new_fleet())
            other.look("/vehicles")
            began = time.monotonic()
            rows = "".join(f"{number}\n" for number in range(201, 209))
            assert "8 rows added" in import_file(other, "vehicles", f"unit_number\n{rows}")
            assert other.get("/vehicles.csv", timeout=600).status_code == 200
            took = time.monotonic() - began
        status, said = look.result()
        assert (status, "too long to read" in said or "more cells than can be read" in said) == (400, True), said
        ended = eventually(partial(importing.look, page), lambda said: "You may leave this page" not in words(said))
        assert "more than 100,000 rows that are refused" in ended
        return took

    assert one_below(15, seconds_of_another_company)
