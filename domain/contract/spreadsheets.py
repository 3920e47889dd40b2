"""Tables that people make: the first sheet of an Excel file, or a CSV file. They are read row by row, so that no file
is held in memory whole."""

import zipfile
from collections.abc import Generator
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import NamedTuple, TypeAlias

from domain.contract.csvfiles import ImportReport, UnreadableFile, armed, numbered_rows, opened

Cell: TypeAlias = str | int | float | bool | datetime | None
"""A cell of a CSV file is a text. A time in a cell of Excel has no zone."""

MOST_UNPACKED_BYTES = 512 << 20
"""An Excel file is packed, and a small one may unpack to more than any disk has."""
MOST_BYTES_IN_MEMORY = 64 << 20
"""The same for the parts that openpyxl reads at once: the texts that cells share, styles, names."""
MOST_ROWS, MOST_COLUMNS = 1 << 20, 1 << 14
"""A sheet of Excel has no more. A file may say that it has, and openpyxl would count through them."""


class Row(NamedTuple):
    line: int
    cells: list[Cell]


def read_table(path: Path, report: ImportReport, *, is_excel: bool) -> Generator[Row]:
    """The row of the columns' names, which may be empty, and then the rows that are not. Rows of a CSV file that cannot
    be read go into the report. Raises UnreadableFile, also while the rows are read."""
    return _excel_rows(path) if is_excel else _csv_rows(path, report)


def _csv_rows(path: Path, report: ImportReport) -> Generator[Row]:
    with opened(path) as file:
        names, rows = numbered_rows(file, report)
        yield Row(1, list(names))
        for line, cells in rows:
            texts = [cell.strip() for cell in cells]
            if len(cells) > len(names):
                report.reject(line, f"{len(cells)} cells, but the header names {len(names)} columns")
            elif any(texts):
                yield Row(line, [armed(text) for text in texts])


def _excel_rows(path: Path) -> Generator[Row]:
    try:
        yield from _sheet_rows(path)
    except UnreadableFile:
        raise
    except OSError as error:
        raise UnreadableFile(f"cannot read {path}: {error.strerror or error}") from None
    except Exception as error:  # a broken file may raise anything: openpyxl has no error of its own
        raise UnreadableFile(f"{path} is no Excel file that can be read ({error}): save it as .xlsx or CSV") from None


def _sheet_rows(path: Path) -> Generator[Row]:
    import openpyxl  # it takes a fifth of a second, which other commands need not

    _check_size(path)
    with path.open("rb") as file, closing(openpyxl.load_workbook(file, read_only=True, data_only=True)) as book:
        sheet = book.worksheets[0]
        sheet.reset_dimensions()  # the file may say anything about its size
        names = [_cell(value) for value in next(sheet.iter_rows(max_row=1, max_col=MOST_COLUMNS, values_only=True), ())]
        while names and names[-1] in (None, ""):
            names.pop()
        yield Row(1, names)
        for line, values in enumerate(sheet.iter_rows(min_row=2, max_col=len(names) or 1, values_only=True), start=2):
            if line > MOST_ROWS:
                raise UnreadableFile(f"{path} has more than {MOST_ROWS:,} rows: save it as CSV")
            if any(value not in (None, "") for value in values):
                yield Row(line, [_cell(value) for value in values])


def _check_size(path: Path) -> None:
    """Raises UnreadableFile. Python's zipfile unpacks no more of a part than the file says here."""
    with zipfile.ZipFile(path) as file:
        parts = file.infolist()
    in_memory = sum(part.file_size for part in parts if not part.filename.startswith("xl/worksheets/"))
    if sum(part.file_size for part in parts) > MOST_UNPACKED_BYTES or in_memory > MOST_BYTES_IN_MEMORY:
        raise UnreadableFile(f"{path} unpacks to more than can be read: save it as CSV")


def _cell(value: object) -> Cell:
    if isinstance(value, str):
        return value.strip()
    if value is None or isinstance(value, (int, float, bool, datetime)):
        return value
    return str(value)  # a time of day, a duration
