"""Rows of text files, with commas, semicolons, tabs or bars: the only reader of such files.

A quote that is misplaced or never closed costs the line where its row begins. The reader goes on with the next line, so
every lost row is reported. Lines, cells and columns are bounded while they are read, so a hostile file takes no
memory."""

import csv
import itertools
import re
from collections import deque
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from itertools import islice
from operator import methodcaller
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from domain.files.reading_ends import UnreadableFile, go_on

MOST_ROW_CHARACTERS = 131_072
"""Most characters of a row, over all of its lines."""
MOST_ROW_LINES = 100
"""Most lines of a row; a cell in quotes may have several."""
MOST_COLUMNS = 1_000
"""Most columns; a route of 99 stops in one row has 600."""
MOST_CELL_CHARACTERS = 32_767
"""Most characters of a cell, as in Excel."""

DELIMITERS = ",;\t|"
MOST_UNREADABLE = 100_000
"""Most rows with misplaced quotes; then the reading ends, because each may cost the reading of many lines."""
_UNREADABLE_AT_ONCE = 50
_SKIPPED_AT_ONCE = 1 << 16
_ROWS_AT_ONCE = 1_000
"""The rows between two looks at the clock, and whether somebody still waits."""
_LINES_AT_ONCE = 64
_BEGINNING_CHARACTERS = 8_192
"""The part of a file that is looked at to find its delimiter."""


class RefusedRow(NamedTuple):
    """An unreadable row. Every one is reported, and may be a part of something that other rows make."""

    line: int
    message: str
    cells: Sequence[Any] = ()
    """The cells that could be read."""
    shifted_by: int = 0
    """The number of cells too many. Each cell may stand up to this many places after its own."""


Refuse = Callable[[RefusedRow], object]

_MARKS = ((b"\xef\xbb\xbf", "utf-8-sig"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))


def encoding_of(path: Path) -> str:
    """The encoding by the mark at the beginning. Without one: UTF-16 if every other byte is NUL, UTF-8 if all of it is,
    or else that of Windows in America. Raises OSError, and UnicodeError for a file that is no text."""
    go_on()
    with path.open("rb") as file:
        beginning = file.read(4_096)
    for mark, encoding in _MARKS:
        if beginning == mark != b"\xef\xbb\xbf":
            raise UnicodeError("it is empty")
        if beginning.startswith(mark):
            return encoding
    if beginning and beginning.count(0) * 4 >= len(beginning):
        return _encoding_of_nuls(beginning)
    try:
        with path.open(encoding="utf-8", newline="") as text:
            while text.read(1 << 20):
                go_on()
    except UnicodeError:
        return _encoding_of_windows(path)
    return "utf-8"


def _encoding_of_windows(path: Path) -> str:
    """The encoding of Windows in America. Raises UnicodeError for a byte 254 or 255, which no name has and most other
    encodings do."""
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            go_on()
            if b"\xff" in chunk or b"\xfe" in chunk:
                raise UnicodeError("it is no text of Windows")
    return "cp1252"


def _encoding_of_nuls(beginning: bytes) -> str:
    """UTF-16 without a mark, by the places of NUL. Raises UnicodeError if it is neither order of bytes."""
    even, odd = beginning[::2].count(0), beginning[1::2].count(0)
    if max(even, odd) * 3 < len(beginning) or min(even, odd) * 10 > max(even, odd):
        raise UnicodeError("it has many NULs")
    return "utf-16-le" if odd > even else "utf-16-be"


def file_text_rows(path: Path, refuse: Refuse, delimiter_of: Callable[[str], str]) -> Generator[tuple[int, list[str]]]:
    """The rows of a text file, as `text_rows` gives them. `delimiter_of` tells the delimiter by the file's beginning.
    Raises UnreadableFile."""
    try:
        _refuse_other_contents(path)
        with path.open(encoding=encoding_of(path), newline="") as file:
            beginning = file.read(_BEGINNING_CHARACTERS)
            file.seek(0)
            yield from text_rows(file, delimiter_of(beginning), refuse)
    except OSError as error:
        raise UnreadableFile(f"cannot read {path}: {error.strerror}") from None
    except UnicodeError:
        raise UnreadableFile(f"{path} is not UTF-8 text, nor that of a spreadsheet: save it as CSV UTF-8") from None


_OTHER_CONTENTS = (
    (b"\x1f\x8b", "is packed with gzip: unpack it, and send the file in it"),
    (b"7z\xbc\xaf", "is a 7z archive: unpack it, and send the file in it"),
    (b"Rar!", "is a RAR archive: unpack it, and send the file in it"),
    (b"%PDF", "is a PDF, which has no columns: export the table as CSV or Excel"),
    (b"\x7fELF", "is a program, not a table"),
    (b"\x89PNG", "is a picture, not a table"),
    (b"\xff\xd8\xff", "is a picture, not a table"),
    (b"{\\rtf", "is a text document, not a table: save the table as CSV or Excel"),
)
"""The first bytes of files that people send by mistake, and what to do."""
_HTML = re.compile(rb"\s*(?:<!--.*?-->\s*)?<(?:!doctype\s+html|html|head|body)\b", re.IGNORECASE | re.DOTALL)


def _refuse_other_contents(path: Path) -> None:
    """Check the first bytes. Raises UnreadableFile, which says what to do, for a file that is known to be no table."""
    with path.open("rb") as file:
        beginning = file.read(1_024)
    for mark, told in _OTHER_CONTENTS:
        if beginning.startswith(mark):
            raise UnreadableFile(f"{path} {told}")
    if _HTML.match(beginning.removeprefix(b"\xef\xbb\xbf")):
        raise UnreadableFile(
            f"{path} is a web page, perhaps one that asks to sign in: download the file again from its site, as CSV or"
            " Excel"
        )


def text_rows(file: TextIO, delimiter: str, refuse: Refuse) -> Iterator[tuple[int, list[str]]]:
    """The cells of each row with the number of its first line; an empty line has none. `file` is opened with
    `newline=""`. Unreadable rows are refused. Raises UnreadableFile if there are too many of them."""
    lines, seen = _Lines(file), _Seen()
    one_by_one = _OneByOne(lines, delimiter, refuse, seen)
    while lines.read_on():
        go_on()
        line = lines.begin_row()
        rows = lines.rows_of_a_line_each(delimiter, seen)
        yield from one_by_one.rows() if rows is None else enumerate(rows, start=line)


def _reader(lines: Iterable[str], delimiter: str) -> Iterator[list[str]]:
    return csv.reader(lines, delimiter=delimiter, strict=True, skipinitialspace=True)


_ENDS = "\r\n"
_FEWEST_ROWS = 2
"""Fewest rows, the heading included, that show how many cells a row has."""
_TIMES_AS_WIDE = 2
"""A table has so many times more cells than the titles above it, at least."""
_CUT = "the file ends within this row, as if it was cut: import the whole file"
_BELOW_TABLE = re.compile(
    r"\b(?:(?:sub)?totals?|sums?|averages?|page \d+|(?:printed|generated|exported|created) (?:by|on|at|\d)|run date"
    r"|end of (?:report|file|list)|\d+ (?:routes|loads|stops|rows|records|trips|orders|shipments|lines|entries))\b",
    re.ASCII | re.IGNORECASE,
)
"""Words of a line below a table, which has fewer cells than its rows though nothing was cut."""


@dataclass(slots=True)
class _Seen:
    """The shape of the rows so far that have one line."""

    width: int = 0
    all_quoted: bool = False
    """True once a row began with a quote: then a line without one is no row."""
    rows: int = 0
    widths: set[int] = field(default_factory=set)
    """The numbers of cells that rows of several cells have."""

    def note(self, widths: Sequence[int], *, begins_with_quote: bool) -> None:
        widest = max(widths)
        above = widths[: widths.index(widest)]
        if widest >= _TIMES_AS_WIDE * max(self.width, *above, 1):  # titles stand above the table
            widths, self.rows, self.widths = widths[len(above) :], 0, set()
        self.width = max(self.width, widest)
        self.rows += len(widths)
        self.widths = (self.widths | set(widths)) - {0, 1}
        self.all_quoted = self.all_quoted or begins_with_quote

    def is_cut(self, width: int, line: str) -> bool:
        """True for the last line of a file that ends within a row: it has no end of a line, fewer cells than the rows
        before, which all have as many, and no words of a line below a table."""
        if line[-1] in _ENDS or not 1 < width < self.width or len(self.widths) != 1 or self.rows < _FEWEST_ROWS:
            return False
        return _BELOW_TABLE.search(line) is None


class _OneByOne:
    """The rows of lines among which quotes may be wrong."""

    def __init__(self, lines: "_Lines", delimiter: str, refuse: Refuse, seen: _Seen) -> None:
        self._lines, self._delimiter, self._refuse, self._seen = lines, delimiter, refuse, seen
        self._reader = _reader(lines, delimiter)
        self._unreadable = 0

    def rows(self) -> Iterator[tuple[int, list[str]]]:
        """The rows that begin in the lines that were read."""
        lines = self._lines
        for count in itertools.count(1):
            if not lines.are_waiting:
                return
            if count % _ROWS_AT_ONCE == 0:
                go_on()
            line = lines.begin_row()
            try:
                cells = next(self._reader)
            except csv.Error as error:
                self._refuse(RefusedRow(line, _fault(error), lines.first_cells(self._delimiter)))
                lines.read_again()
                self._unreadable += 1
                _check_unreadable(self._unreadable, line)
                continue
            if self._is_refused(line, cells):
                continue
            if fault := _excess(cells, lines.characters):
                self._refuse(RefusedRow(line, fault))
            else:
                yield line, cells

    def _is_refused(self, line: int, cells: list[str]) -> bool:
        """True for a row that a stray quote makes of several rows, or that the end of the file cuts. It is refused."""
        lines, seen = self._lines, self._seen
        if lines.is_one and seen.is_cut(len(cells), lines.first_line):
            self._refuse(RefusedRow(line, _CUT, cells[:-1]))
            return True
        if lines.is_one:
            seen.note([len(cells)], begins_with_quote=lines.begins_with_quote)
            return False
        if seen.all_quoted or not lines.hide_rows(len(cells), seen.width, self._delimiter):
            return False
        fault = f"a quote opens here and closes on line {lines.last}, as if these rows were one: remove it"
        several = lines.last == line + 1
        self._refuse(RefusedRow(line, fault, () if several else lines.first_cells(self._delimiter)))
        if not several:
            lines.read_again()
        return True


def _check_unreadable(count: int, line: int) -> None:
    if count % _UNREADABLE_AT_ONCE == 0:
        go_on()
    if count > MOST_UNREADABLE:
        raise UnreadableFile(f"more than {MOST_UNREADABLE:,} rows cannot be read, the last one on line {line}")


def _fault(error: csv.Error) -> str:
    said = str(error)
    if said.startswith("unexpected end of data"):
        return "a quote is opened and never closed"
    return f"{said}: a quote inside a cell in quotes is written twice" if "expected after" in said else said


def _excess(cells: Collection[str], characters: int) -> str:
    if len(cells) > MOST_COLUMNS:
        return f"{len(cells):,} cells: a row may have {MOST_COLUMNS:,}"
    if characters > MOST_CELL_CHARACTERS and any(len(cell) > MOST_CELL_CHARACTERS for cell in cells):
        return f"a cell has more than {MOST_CELL_CHARACTERS:,} characters"
    return ""


@lru_cache
def _whole_cell(delimiter: str) -> re.Pattern[str]:
    sign = re.escape(delimiter)
    # Spaces are not given back: where no sign follows, each division of them would be tried.
    return re.compile(rf' *+(?:"((?:[^"]|"")*)"|([^"{sign}]*)){sign}')


_BEGINS_WITH_QUOTE = methodcaller("startswith", '"')


class _Lines:
    """The lines of a file. The lines of an unreadable row are read again, without the first."""

    def __init__(self, file: TextIO) -> None:
        self._readline = file.readline
        self._again: deque[str] = deque()
        self._row: list[str] = []
        self._before = 0
        """The number of lines before the row."""
        self.characters = 0
        """The number of characters of the row."""

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = self._again.popleft() if self._again else self._next_line()
        self._row.append(line)
        self.characters += len(line)
        if self.characters > MOST_ROW_CHARACTERS:
            what = "line" if self.is_one else "row"
            raise csv.Error(f"the {what} has more than {MOST_ROW_CHARACTERS:,} characters")
        if len(self._row) > MOST_ROW_LINES:
            raise csv.Error(f"a quote is opened and not closed within {MOST_ROW_LINES} lines")
        return line

    def read_on(self) -> bool:
        """Reads the next lines, unless some are waiting. Returns False at the end of the file."""
        if not self._again:
            some = islice(iter(partial(self._readline, MOST_ROW_CHARACTERS + 1), ""), _LINES_AT_ONCE)
            for line in some:
                self._again.append(line)
                if len(line) > MOST_ROW_CHARACTERS:
                    self._skip_rest(line)
        return bool(self._again)

    @property
    def are_waiting(self) -> bool:
        """True while lines that were read belong to no row yet."""
        return bool(self._again)

    def rows_of_a_line_each(self, delimiter: str, seen: _Seen) -> list[list[str]] | None:
        """The rows of all waiting lines, which nearly all files allow to read at once; None if a quote may be wrong, a
        row has several lines, something is too long, or the last line has no end. Then the lines go on waiting."""
        lines = list(self._again)
        if max(map(len, lines)) > MOST_CELL_CHARACTERS or lines[-1][-1] not in _ENDS:
            return None
        try:
            rows = list(_reader(lines, delimiter))
        except csv.Error:
            return None
        widths = list(map(len, rows))
        if len(rows) != len(lines) or max(widths) > MOST_COLUMNS:
            return None
        seen.note(widths, begins_with_quote=any(map(_BEGINS_WITH_QUOTE, lines)))
        self._again.clear()
        self._row = lines
        return rows

    def _next_line(self) -> str:
        """A line, or the beginning of one that is too long; its rest is skipped."""
        line = self._readline(MOST_ROW_CHARACTERS + 1)
        if not line:
            raise StopIteration
        if len(line) > MOST_ROW_CHARACTERS:
            self._skip_rest(line)
        return line

    def _skip_rest(self, line: str) -> None:
        rest = line
        while rest and rest[-1] not in "\r\n":
            go_on()
            rest = self._readline(_SKIPPED_AT_ONCE)

    def begin_row(self) -> int:
        """Begins a row. Returns the number of its first line."""
        self._before += len(self._row)
        self._row = []
        self.characters = 0
        return self._before + 1

    def read_again(self) -> None:
        self._again.extendleft(reversed(self._row[1:]))
        del self._row[1:]

    def first_cells(self, delimiter: str) -> list[str]:
        """The cells before the first wrong one."""
        line, at, cells = self._row[0], 0, list[str]()
        while (cell := _whole_cell(delimiter).match(line, at)) and len(cells) < MOST_COLUMNS:
            cells.append((cell[1].replace('""', '"') if cell[1] is not None else cell[2]).strip())
            at = cell.end()
        return cells

    @property
    def is_one(self) -> bool:
        """True if the row has one line."""
        return len(self._row) == 1

    @property
    def first_line(self) -> str:
        return self._row[0]

    @property
    def begins_with_quote(self) -> bool:
        """True if the row begins with a quote. If other rows do, a line without one is no row."""
        return self._row[0][:1] == '"'

    @property
    def last(self) -> int:
        """The number of the row's last line."""
        return self._before + len(self._row)

    def hide_rows(self, cells: int, width: int, delimiter: str) -> bool:
        """True if lines of the row are rows by themselves: a stray quote opens it, and another one closes it. `width`
        is the number of cells of the rows before."""
        if width < 2:
            return False
        first, *inner, last = [line.count(delimiter) + 1 for line in self._row]
        if inner:
            return all(one == width for one in inner) or (cells != width and max(inner) >= width)
        return last == width and (cells < width or (width > 3 and first == width))


_DEFUSED = re.compile(r"(?:^|(?<=[;|\t]))'(?='*[=+\-@\t\r])|^'(?='*\d+$)", re.ASCII)


def armed(cell: str) -> str:
    """The text from which `write_rows` made the cell. Other exports write `="00123"` or `'00123`, so that a spreadsheet
    keeps the zeros."""
    if cell[:2] == '="' and cell[-1:] == '"' and len(cell) > 2:
        return cell[2:-1].strip()
    return _DEFUSED.sub("", cell) if "'" in cell else cell
