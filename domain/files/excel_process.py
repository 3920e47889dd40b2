"""Reads the first visible sheet of an Excel file in a process of its own, and writes its rows to the standard output.
If it is empty, and one other sheet has a table, that one is read.

python-calamine holds a sheet whole. A file of five kilobytes may say that its last cell is XFD1048576, and the reader
then asks for half a terabyte, which ends its process. So the process is not ours, and the system bounds its memory and
its time. It imports nothing of Fuelroute, so that it starts within a tenth of a second."""

import resource
import sys
from collections.abc import Iterator
from datetime import date, datetime, time
from itertools import islice
from typing import Any

import msgspec
import python_calamine

MOST_READER_BYTES = 2 << 30
"""A sheet of a million rows and eight columns needs less than half of it."""
MOST_READER_SECONDS = 120
PORTION_ROWS = 1_000
"""Rows in one line of the output."""

PORTION_CHARACTERS = 1 << 20
PORTION_CELLS = 50_000
_MOST_CHARACTERS = 1 << 30
"""Most characters written of all cells: a text stands once in the file and in any number of cells."""
_MOST_COLUMNS = 1_000
_MOST_FURTHER_SHEETS = 20
_FEWEST_CELLS = 3
"""Fewest cells of a row in a table; a row of a legend has fewer."""
_MOST_CELL_CHARACTERS = 32_767
_LONGEST_NAME = 60
"""Most characters told of a sheet's name. Excel allows 31, other programs any number."""
_MOST_TOLD_CHARACTERS = 2_000

NO_FILE, NO_EXCEL, TOO_MUCH, TOO_WIDE = 3, 4, 5, 6
"""Exit codes: the file cannot be opened; it is no Excel file; it needs more memory than there is; a row has too many
cells, or a cell too many characters."""


class TooWide(Exception):
    """A row is wider than any table."""


def main(path: str, most_bytes: int, most_seconds: int) -> int:
    resource.setrlimit(resource.RLIMIT_AS, (most_bytes, most_bytes))
    resource.setrlimit(resource.RLIMIT_CPU, (most_seconds, most_seconds))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        with python_calamine.load_workbook(path) as book:
            further = None
            first, *others = _sheets(book)
            if not _write(book.get_sheet_by_name(first)):
                further = list(_further_sheets(book, others))
                if len(further) == 1:  # a vendor has moved the table, and left its old sheet empty
                    _write(book.get_sheet_by_name(further.pop()))
            sys.stdout.close()  # the other sheets may take long, and the caller does not wait for ever
            names = _further_sheets(book, others) if further is None else further
            _tell("\n".join(" ".join(name[:_LONGEST_NAME].split()) for name in names))
    except OSError as error:
        _tell(error.strerror or error)
        return NO_FILE
    except MemoryError:
        return TOO_MUCH
    except TooWide:
        return TOO_WIDE
    except Exception as error:  # a broken file may raise anything
        _tell(error)
        return NO_EXCEL
    return 0


def _tell(text: object) -> None:
    """Write a text that the file may have chosen. The caller first waits for the rows, so a text that fills the pipe
    would hold both up for ever."""
    print(str(text)[:_MOST_TOLD_CHARACTERS], file=sys.stderr)


def _write(sheet: Any) -> bool:
    """Write the rows of a sheet. True if it has some."""
    has_rows = False
    for portion in _portions(sheet.iter_rows()):
        sys.stdout.buffer.write(msgspec.json.encode(portion) + b"\n")
        has_rows = has_rows or bool(portion)
    return has_rows


_FEWEST_ROWS = 2
"""Fewest rows of a table: a heading and a row. Sheets with fewer are notes."""


def _sheets(book: Any) -> list[str]:
    """The names of the sheets that a person sees; of all sheets if there are none."""
    visible, table = python_calamine.SheetVisibleEnum.Visible, python_calamine.SheetTypeEnum.WorkSheet
    seen = [one.name for one in book.sheets_metadata if (one.visible, one.typ) == (visible, table)]
    return seen or list(book.sheet_names)


def _further_sheets(book: Any, names: list[str]) -> Iterator[str]:
    """The names of these sheets that have a table."""
    for name in names[:_MOST_FURTHER_SHEETS]:
        rows = book.get_sheet_by_name(name).iter_rows()
        wide = (row for row in rows if sum(cell != "" for cell in row) >= _FEWEST_CELLS)
        if sum(1 for _ in islice(wide, _FEWEST_ROWS)) == _FEWEST_ROWS:
            yield name


def _portions(rows: Iterator[list[Any]]) -> Iterator[list[tuple[int, list[Any]]]]:
    """The rows that are not empty, with their numbers in the sheet. Raises TooWide for a row with too many cells, and
    TooMuch for too many characters."""
    portion: list[tuple[int, list[Any]]] = []
    characters, held_cells, all_characters = 0, 0, 0
    for line, cells in enumerate(rows, start=1):
        named = next((count for count in range(len(cells), 0, -1) if cells[count - 1] != ""), 0)
        if not named:
            continue
        portion.append((line, [_cell(cell) for cell in cells[:named]]))
        characters += _characters(portion[-1][1])
        held_cells += named
        if len(portion) == PORTION_ROWS or characters > PORTION_CHARACTERS or held_cells > PORTION_CELLS:
            yield portion
            all_characters += characters
            portion, characters, held_cells = [], 0, 0
            if all_characters > _MOST_CHARACTERS:
                raise MemoryError
    yield portion


def _characters(cells: list[Any]) -> int:
    """The characters of a row. Raises TooWide if a cell has too many."""
    texts = [len(cell) for cell in cells if isinstance(cell, str)]
    if len(cells) > _MOST_COLUMNS or max(texts, default=0) > _MOST_CELL_CHARACTERS:
        raise TooWide
    return sum(texts)


def _cell(value: Any) -> Any:
    """The cell as JSON. A time is a list of one text, so that the reader tells it from a text."""
    if isinstance(value, datetime):
        return [value.isoformat()]
    if isinstance(value, date):
        return [datetime.combine(value, time()).isoformat()]
    if isinstance(value, str):
        return value.strip() or None
    return value if isinstance(value, (bool, int, float)) else str(value)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
