"""Reads tables that people make, row by row: the first visible sheet of an Excel file, or a CSV file.

No CSV file is held in memory whole. A bounded process of its own holds an Excel file."""

import re
import select
import subprocess
import sys
import zipfile
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime, time
from functools import partial
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeAlias

import msgspec

from domain.files import excel_process
from domain.files.column_names import heading_delimiter, named_rows, named_width
from domain.files.reading_ends import UnreadableFile, go_on
from domain.files.text_rows import MOST_COLUMNS, Refuse, RefusedRow, armed, file_text_rows
from domain.wording import counted

Cell: TypeAlias = str | int | float | bool | datetime | None
"""A cell. In a CSV file it is a text. A time in Excel has no zone."""

MOST_UNPACKED_BYTES = 512 << 20
"""Most bytes of an unpacked Excel file. A small packed one may unpack to more than any disk has."""
MOST_BYTES_IN_MEMORY = 64 << 20
"""Most bytes of unpacked parts other than sheets: shared texts, styles, names."""

_MOST_PARTS = 10_000
"""Most parts of an Excel file, counted before a list of them is made: 32 MB have room for 700,000 empty ones."""
_PART = b"PK\x01\x02"
"""The first bytes of each part's entry in the archive's list."""

_LOOK_SECONDS = 0.25

_EXCEL_BEGINNINGS = (b"PK\x03\x04", b"\xd0\xcf\x11\xe0")
"""The first bytes of Excel files since 2007, and of older ones."""


class Row(NamedTuple):
    line: int
    cells: Sequence[Cell]


def is_excel_file(path: Path) -> bool:
    """True if the file begins like one of Excel, whatever its name. Raises UnreadableFile if it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(4) in _EXCEL_BEGINNINGS
    except OSError as error:
        raise UnreadableFile(f"cannot read {path}: {error.strerror}") from None


TellsSheet = Callable[[str], None]
"""Called with the name of each further sheet with rows, once those of the first one are read."""


def _tell_nobody(name: str) -> None:
    """Nobody wants to know of further sheets."""


def file_rows(
    path: Path,
    refuse: Refuse,
    delimiter_of: Callable[[str], str],
    *,
    is_excel: bool,
    stored: IO[bytes] | None = None,
    tells_sheet: TellsSheet = _tell_nobody,
) -> Generator[Row]:
    """The rows of a table that are not empty: of text, whose delimiter the beginning tells, or of the first sheet of
    Excel. `refuse` is told the rows that cannot be read. `stored` is an empty file that gets the rows of Excel, or
    one that has them. Raises UnreadableFile, also while the rows are read."""
    return excel_rows(path, stored, tells_sheet) if is_excel else _text_rows(path, refuse, delimiter_of)


def _text_rows(path: Path, refuse: Refuse, delimiter_of: Callable[[str], str]) -> Generator[Row]:
    for line, cells in file_text_rows(path, refuse, delimiter_of):
        texts = list(map(str.strip, cells))
        written = "".join(texts)
        if "'" in written or "=" in written:
            texts = list(map(armed, texts))
        if written:
            yield Row(line, texts)


def read_table(
    path: Path, refuse: Refuse, known: Callable[[str], bool], *, is_excel: bool, stored: IO[bytes] | None = None
) -> Generator[Row]:
    """The row of the columns' names, which may be empty, and then the rows below it, as `file_rows` gives them. A row
    with cells beyond the columns is refused, too. `known` tells whether a name is that of a column of ours."""
    delimiter_of = partial(heading_delimiter, known=known)

    def open_rows(refuse: Refuse) -> Generator[Row]:
        return file_rows(path, refuse, delimiter_of, is_excel=is_excel, stored=stored)

    names, rows = named_rows(open_rows, refuse, known)
    width = named_width(names)
    yield Row(1, names[:width] if is_excel else names)
    for row in rows:
        if beyond := _cells_beyond(row, names, width, is_excel=is_excel):
            fault = f"{width + beyond} cells, but the header names {counted(width, 'column')}"
            refuse(RefusedRow(row.line, fault, row.cells, beyond))
        else:
            yield row


def _cells_beyond(row: Row, names: Sequence[Cell], width: int, *, is_excel: bool) -> int:
    """The number of cells too many. In text an empty cell is one, too: a delimiter stands before it."""
    more = row.cells[width:]
    if is_excel:
        return len(more) - sum(cell is None for cell in more)
    return len(more) if len(row.cells) > len(names) or any(more) else 0


def excel_rows(path: Path, stored: IO[bytes] | None = None, tells_sheet: TellsSheet = _tell_nobody) -> Generator[Row]:
    """The nonempty rows of the first sheet. `stored` is an empty file that gets them, or one that has them. Raises
    UnreadableFile, also while they are read, if the file is refused as a whole."""
    if stored is not None and stored.tell():
        stored.seek(0)
        yield from _portion_rows(stored)
        return
    _check_size(path)
    limits = (str(excel_process.MOST_READER_BYTES), str(excel_process.MOST_READER_SECONDS))
    command = [sys.executable, "-I", excel_process.__file__, str(path), *limits]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as reader:  # noqa: S603
        assert reader.stdout is not None  # noqa: S101
        assert reader.stderr is not None  # noqa: S101
        try:
            _await(reader.stdout)
            yield from _portion_rows(reader.stdout, stored)
            _await(reader.stderr)
            fault = reader.stderr.read(10_000).decode(errors="replace").strip()
            code = reader.wait()
        finally:
            with suppress(ProcessLookupError):
                reader.kill()
    if not code:
        for name in fault.splitlines():
            tells_sheet(name)
    if code == excel_process.NO_FILE:
        raise UnreadableFile(f"cannot read {path}: {fault}")
    if code == excel_process.NO_EXCEL:
        raise UnreadableFile(f"{path} is no Excel file that can be read ({fault}): save it as .xlsx or CSV")
    if code == excel_process.TOO_WIDE:
        raise UnreadableFile(f"{path} has a row of more than {MOST_COLUMNS:,} columns, or a huge cell")
    if code:  # the system ended it, because it asked for more memory or time than it may have
        raise UnreadableFile(f"{path} has more cells than can be read: save it as CSV")


def unread_sheet(name: str) -> str:
    """A sentence about a further sheet with a table."""
    return f"the sheet {name[:60]!r} has rows, too, and only the first is read: save it as a file of its own"


def excel_text_rows(path: Path, tells_sheet: TellsSheet) -> Iterator[tuple[int, list[str]]]:
    """The nonempty rows of the first sheet as texts: a whole number without decimals, a day without a time."""
    for row in excel_rows(path, tells_sheet=tells_sheet):
        yield row.line, [_text_of(cell) for cell in row.cells]


def _text_of(cell: Cell) -> str:
    if isinstance(cell, str):
        return cell
    if isinstance(cell, datetime):
        return cell.date().isoformat() if cell.time() == time() else cell.isoformat()
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    return "" if cell is None else str(cell)


_WHOLE = re.compile(r"\d+\.0", re.ASCII)


def number_as_name(text: str) -> str:
    """The text of a cell in which a number is a name, without the decimal that programs give to whole numbers once a
    cell of their column is empty: `101.0` is unit 101."""
    return text[:-2] if text.endswith(".0") and _WHOLE.fullmatch(text) else text


_ROUNDED = re.compile(r"\d(?:[.,]\d+)?E\+\d+", re.ASCII | re.IGNORECASE)
_ERROR = re.compile(r"#(?:N/A|REF!|VALUE!|NAME\?|NUM!|NULL!|DIV/0!)")
_MOST_EXACT = 10**15


def spreadsheet_fault(cell: Cell, *, is_exact: bool) -> str:
    """The fault of a cell that a spreadsheet has spoiled: an error of a formula, or, if the cell `is_exact`, a long
    number, of which a spreadsheet keeps 15 digits, so that two loads may look like one. Empty without a fault."""
    text = _text_of(cell)
    if is_exact and (_ROUNDED.fullmatch(text) or (isinstance(cell, (int, float)) and cell >= _MOST_EXACT)):
        return f"a spreadsheet has rounded this number ({text}): make it a column of text"
    return f"{text} is an error of a spreadsheet" if _ERROR.fullmatch(text) else ""


def _await(output: IO[bytes]) -> None:
    """Waits until the process writes or ends: it loads the whole sheet before its first row, and the other sheets after
    its last one. Raises ReadingEnded or ReadingTooLong once the rows are no longer wanted."""
    while not select.select([output], [], [], _LOOK_SECONDS)[0]:
        go_on()


def _portion_rows(portions: Iterable[bytes], stored: IO[bytes] | None = None) -> Iterator[Row]:
    for portion in portions:
        go_on()
        if stored is not None:
            stored.write(portion)
        for number, cells in msgspec.json.decode(portion):
            yield Row(number, [_cell(cell) for cell in cells])


def _check_size(path: Path) -> None:
    """Check the unpacked size before anything is unpacked. Raises UnreadableFile if it is too large. A file that is no
    archive has only its own size."""
    try:
        with path.open("rb") as packed:
            count = sum(portion.count(_PART) for portion in iter(lambda: packed.read(1 << 20), b""))
        if count > _MOST_PARTS:
            raise UnreadableFile(f"{path} has more than {_MOST_PARTS:,} parts: save it as CSV")
        with zipfile.ZipFile(path) as file:
            parts = file.infolist()
    except OSError as error:
        raise UnreadableFile(f"cannot read {path}: {error.strerror or error}") from None
    except (zipfile.BadZipFile, ValueError, NotImplementedError):
        return  # of Excel before 2007, or broken: the reader tells
    if not any(part.filename.startswith("xl/") for part in parts):
        raise UnreadableFile(f"{path} is a ZIP archive, not a file of Excel: unpack it, and send the file in it")
    in_memory = sum(part.file_size for part in parts if not part.filename.startswith("xl/worksheets/"))
    if sum(part.file_size for part in parts) > MOST_UNPACKED_BYTES or in_memory > MOST_BYTES_IN_MEMORY:
        raise UnreadableFile(f"{path} unpacks to more than can be read: save it as CSV")


def _cell(value: Any) -> Cell:
    if isinstance(value, list):
        return datetime.fromisoformat(value[0])
    return value if value is None or isinstance(value, (str, int, float, bool)) else str(value)
