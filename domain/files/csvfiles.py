"""CSV files: imports keep good rows and list bad ones by line; exports can be imported again.

Spreadsheets run a cell that begins like a formula. Such a text is written with an apostrophe before it, which marks it
as a text for spreadsheets, and reading removes the apostrophe again. Every cell stands in quotes."""

import csv
import re
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any, Generic, NamedTuple, TextIO, TypeVar

import msgspec

from domain.contract.checking import Invalid, read_query, without_limits, without_none
from domain.files.cells import first_currency, says_nothing, written_number, written_time
from domain.files.column_names import heading_delimiter, named_rows, named_width
from domain.files.day_order import DayOrder
from domain.files.footers import is_line_alone, is_rule_of_dashes, is_total
from domain.files.reading_ends import UnreadableFile as UnreadableFile
from domain.files.spreadsheets import (
    excel_text_rows,
    is_excel_file,
    number_as_name,
    spreadsheet_fault,
    unread_sheet,
)
from domain.files.text_rows import RefusedRow, armed, file_text_rows
from domain.text import printable
from domain.wording import counted

RowShape = TypeVar("RowShape", bound=msgspec.Struct)


MOST_REFUSED_KEPT = 10_000
_MOST_MESSAGE_CHARACTERS = 2_000

MOST_FILE_ROWS = 300_000
"""Most rows of a file that is stored as a whole. A hostile file has millions, of three bytes each."""


class Rejected(NamedTuple):
    line: int
    message: str


MOST_REFUSED = 100_000
"""After this many refused rows an import ends: the file is of another kind."""


class TooManyRefused(UnreadableFile):
    def __init__(self, first: Rejected) -> None:
        super().__init__(
            f"it has more than {MOST_REFUSED:,} rows that are refused, and the rest is not read; the first is line"
            f" {first.line}: {first.message}"
        )


@dataclass(slots=True)
class ImportReport:
    """The outcome of an import."""

    created: int = 0
    updated: int = 0
    unchanged: int = 0
    rejected: list[Rejected] = field(default_factory=list)
    """The first refused rows."""
    refused: int = 0
    """The number of refused rows."""
    passed_over: int | None = None
    """The number of lines about something else: totals, titles, things that are not stored. None for kinds of files
    without such lines."""
    passed_rows: list[Rejected] = field(default_factory=list)
    """The first rows that are passed over with a reason, such as those of other products."""
    unused_columns: list[str] = field(default_factory=list)
    """The columns of the file that match no field."""
    has_vague: bool = False
    """True if a column counted whose name may mean other things (`ColumnNames.vague`)."""
    removed: dict[str, int] = field(default_factory=dict)
    """The number of stored values that the file removed, by column."""
    hides: Callable[[str], str] = str
    """Takes out of the reason of a refused row what must not be kept of its cells."""

    def pass_over(self) -> None:
        self.passed_over = (self.passed_over or 0) + 1

    def pass_row(self, line: int, message: str) -> None:
        self.pass_over()
        if len(self.passed_rows) < MOST_REFUSED_KEPT:
            self.passed_rows.append(Rejected(line, message))

    def told(self) -> str:
        """The rows that were stored, in words."""
        return f"{self.created} created, {self.updated} updated, {self.unchanged} unchanged"

    def told_removed(self) -> str:
        """The stored values that the file removed, in words: `retail_price of 3 rows`. Empty if there are none."""
        return ", ".join(f"{column} of {counted(count, 'row')}" for column, count in self.removed.items())

    def reject(self, line: int, message: str) -> None:
        """Count a refused row, and keep the first ones. Raises TooManyRefused, which ends the import, after too
        many."""
        self.refused += 1
        if self.refused <= MOST_REFUSED_KEPT:
            self.rejected.append(Rejected(line, self.hides(message)[:_MOST_MESSAGE_CHARACTERS]))
        if self.refused > MOST_REFUSED:
            raise TooManyRefused(self.rejected[0])

    def refuse(self, row: RefusedRow) -> None:
        self.reject(row.line, row.message)

    def as_json(self) -> dict[str, Any]:
        return {
            "created": self.created,
            "updated": self.updated,
            "unchanged": self.unchanged,
            **({"passed_over": self.passed_over} if self.passed_over is not None else {}),
            **({"unused_columns": self.unused_columns} if self.unused_columns else {}),
            **({"removed": self.removed} if self.removed else {}),
            "refused": self.refused,
            "rejected": [row._asdict() for row in sorted(self.rejected)],
        }


class FileRow(NamedTuple, Generic[RowShape]):
    number: int
    row: RowShape
    cleared: frozenset[str] = frozenset()
    """Columns whose stored value is removed."""
    absent: frozenset[str] = frozenset()
    """Columns that the file does not have, so that stored values stay."""


CLEARED = "-"
"""A cell that clears the stored value. An empty cell leaves it."""

Progress = Callable[[int], object]
"""Called with the number of rows read since the last call."""

_FORMULA = re.compile(r"(?:^|(?<=[;|\t]))(?='*[=+\-@\t\r])|^(?='+\d+$)", re.ASCII)
"""The beginning of a text that a spreadsheet would run, or of one that looks defused because apostrophes come first. A
spreadsheet may divide the file at semicolons, tabs or bars, so a formula may also begin after them."""


class _Parts(NamedTuple):
    """A field whose text is divided over several columns, such as the first and the last name."""

    field: str = ""
    places: tuple[int, ...] = ()


class OtherThings(NamedTuple):
    """Tells a file that lists things of another kind, in nearly the same columns."""

    lacks: str = ""
    """The field that such a file has no column for."""
    columns: Collection[str] = ()
    """Names of the column that it has instead."""
    told: str = ""
    """The things, and what to do, in words."""


class ColumnNames(NamedTuple):
    """People's names for the columns of a kind of file, in small letters and digits."""

    others: Mapping[str, str] = {}
    """Fields by further names of their columns. A column with the field's own name comes first."""
    divided: tuple[str, tuple[str, ...]] = ("", ())
    """A field, and the columns with its parts, for files without a column for it."""
    vague: tuple[str, tuple[str, ...]] = ("", ())
    """A field, and names of its column that may mean other things, such as `Name`. The first of them that a file has
    counts, if no other column is the field and at least two are fields for sure."""
    passed_over: Mapping[str, Container[str]] = {}
    """Columns such as `Status`, each with the words in small letters that tell that a row is of the past, or no matter
    of the file. Such rows are passed over."""
    other_things: OtherThings = OtherThings()
    """A file that lists them is refused."""

    def is_known(self, name: str, known: Collection[str]) -> bool:
        plain = _plain(name)
        return self._other(name) is not None or plain in self.divided[1] or plain in map(_plain, known)

    def fields(self, names: Sequence[str], known: Collection[str]) -> list[str]:
        """The field of each column, or its name in small letters if it is none."""
        found = self._sure_fields(names, known)
        if (place := self._vague_place(names, found, known)) is not None:
            found[place] = self.vague[0]
        return found

    def has_vague(self, names: Sequence[str], fields: Sequence[str]) -> bool:
        """True if a column counts whose name may mean other things. `fields` are those of the columns."""
        field, vague = self.vague
        return any(one == field and _plain(name) in vague for name, one in zip(names, fields, strict=True))

    def fault(self, names: Sequence[str], fields: Collection[str]) -> str:
        """The column that tells that a file lists other things, in words; empty if none does. `fields` are those of the
        columns."""
        if self.other_things.lacks in fields:
            return ""
        told = (printable(name) for name in names if _plain(name) in self.other_things.columns)
        return next((f"column {name}: {self.other_things.told}" for name in told), "")

    def _sure_fields(self, names: Sequence[str], known: Collection[str]) -> list[str]:
        own = {_plain(field): field for field in known}
        found = [own.get(_plain(name), name.lower()) for name in names]
        there = set(found)
        others = map(self._other, names)
        return [
            other if field not in known and other is not None and other not in there else field
            for field, other in zip(found, others, strict=True)
        ]

    def _other(self, name: str) -> str | None:
        """The field by a further name of its column. A column `Driver #` has numbers of drivers, not their names."""
        field = self.others.get(_plain(name))
        return None if field == "name" and "#" in name else field

    def _vague_place(self, names: Sequence[str], found: Sequence[str], known: Collection[str]) -> int | None:
        field, vague = self.vague
        there = set(found).intersection(known)
        if field in there or len(there) < _FEWEST_SURE:
            return None
        plain = [_plain(name) for name in names]
        return next((plain.index(name) for name in vague if name in plain), None)

    def parts(self, names: Sequence[str], header: Collection[str]) -> _Parts:
        field, wanted = self.divided
        plain = [_plain(name) for name in names]
        if not field or field in header or not all(name in plain for name in wanted):
            return _Parts()
        return _Parts(field, tuple(plain.index(name) for name in wanted))


_OWN_NAMES = ColumnNames()
_FEWEST_SURE = 2
"""Fewest columns that are fields for sure in a file in which a name such as `Name` may be one, too."""


def _plain(name: str) -> str:
    return "".join(filter(str.isalnum, name.casefold()))


def read_rows(
    path: Path,
    shape: type[RowShape],
    report: ImportReport,
    *,
    clearing: bool = False,
    progress: Progress = lambda _: None,
    names: ColumnNames = _OWN_NAMES,
) -> Iterator[FileRow[RowShape]]:
    """The rows of a CSV or Excel file that fit `shape`, whose field names are its columns; the others go into the
    report. `names` has further names of columns; capitals, spaces and signs do not count. An empty cell is a missing
    value.
    With `clearing` a `-` clears a column that is not required. `progress` is called for every row. Raises
    UnreadableFile if there is no such file, no header with the columns that `shape` requires, or no text."""
    fields = msgspec.structs.fields(shape)
    known = [field.encode_name for field in fields]
    required = {field.encode_name for field in fields if field.required}

    def is_known(name: str) -> bool:
        return names.is_known(name, known)

    if is_excel_file(path):
        told = partial(excel_text_rows, path, lambda name: report.reject(1, unread_sheet(name)))
        found, rows = named_rows(lambda _: told(), report.refuse, is_known)
    else:
        open_rows = partial(file_text_rows, path, delimiter_of=partial(heading_delimiter, known=is_known))
        found, rows = named_rows(open_rows, report.refuse, is_known)
    if not any(found):
        raise UnreadableFile(f"{path} is empty; its first line must name the columns: {', '.join(known)}")
    columns = _columns_of(found, names, known, set(known) - required if clearing else set())
    report.unused_columns, report.has_vague = columns.unused(found), names.has_vague(found, columns.header)
    if fault := names.fault(found, columns.header):
        raise UnreadableFile(f"{path}: {fault}")
    absent = frozenset(set(known) - set(columns.header) - {columns.parts.field})
    if missing := absent & required:
        raise UnreadableFile(
            f"{path} lacks the column{'s' if len(missing) > 1 else ''} {', '.join(sorted(missing))}; "
            f"its first line must name the columns: {', '.join(known)}"
        )
    spelled, heading = _Spelled(shape), list(filter(None, found))
    for count, (line, cells) in enumerate(rows):
        if count >= MOST_FILE_ROWS:
            raise UnreadableFile(f"{path} has more than {MOST_FILE_ROWS:,} rows: divide it")
        progress(1)
        values = columns.values(cells)
        if not values and not any(map(str.strip, cells)):
            continue
        if fault := _other_line(cells, heading, has_numbers=not spelled.numbers.isdisjoint(values)):
            report.pass_row(line, fault)
            continue
        if columns.passed_over and (fault := columns.why_passed_over(found, cells)):
            report.pass_row(line, fault)
            continue
        if (len(cells) > columns.width or columns.repeated) and (fault := columns.fault(cells)):
            report.reject(line, fault)
            continue
        if fault := _spreadsheet_faults(values):
            report.reject(line, fault)
            continue
        values |= {name: number_as_name(values[name]) for name in _NUMBERS_OF_THINGS & values.keys()}
        cleared = columns.clear(cells, values) if columns.clearable else _NO_COLUMNS
        try:
            yield FileRow(line, spelled.row(values), cleared, absent)
        except Invalid as invalid:
            report.reject(line, str(invalid))
    spelled.refuse_days_first()


def _other_line(cells: Sequence[str], heading: Sequence[str], *, has_numbers: bool) -> str:
    """The reason why a line is no row of the table, in words; empty for a row. `heading` has the names of the columns
    that have one. `has_numbers`: the line has numbers of ours, as a deal of the brand Total has."""
    if next(filter(None, map(str.strip, cells)), "").isdecimal():
        return ""  # most rows
    texts = [text for cell in cells if (text := cell.strip())]
    if texts == heading:
        return "the names of the columns come again"
    is_other = is_line_alone(texts) or is_rule_of_dashes(texts) or (is_total(texts) and not has_numbers)
    return "it is a line of a report, and no row" if is_other else ""


class _Spelled(Generic[RowShape]):
    """Reads rows whose numbers and days may be spelled as spreadsheets and people do: `$0.45`, `80,000`, `12/1/2026`.
    The spelling of our exports goes first."""

    def __init__(self, shape: type[RowShape]) -> None:
        kinds = {one.encode_name: without_limits(without_none(one.type)[0]) for one in msgspec.structs.fields(shape)}
        self._shape = shape
        self.numbers = frozenset(name for name, kind in kinds.items() if kind is float)
        """The fields that are numbers."""
        self._days = [name for name, kind in kinds.items() if kind is date]
        self._order = DayOrder(" and ".join(self._days))  # one for all: whoever writes a file has one order

    def row(self, values: dict[str, str]) -> RowShape:
        """The row. Raises Invalid."""
        try:
            return read_query(values, self._shape)
        except Invalid:
            return read_query(self._respelled(values), self._shape)

    def _respelled(self, values: dict[str, str]) -> dict[str, str]:
        """The values as our exports write them, as far as they can be read. A dash in place of a number is none."""
        found = dict(values)
        for name in self.numbers & values.keys():
            if says_nothing(found[name], has_marks=False):
                del found[name]
            elif first_currency([found[name]]) in ("", "$"):  # another one has a column of its own
                with suppress(ValueError):
                    found[name] = repr(written_number(found[name]))
        for name in filter(values.__contains__, self._days):
            self._order.note(found[name])
            with suppress(ValueError):
                found[name] = written_time(found[name]).date().isoformat()
        return found

    def refuse_days_first(self) -> None:
        """Refuse the file with UnreadableFile if its days stand before the months."""
        self._order.refuse()


_NO_COLUMNS: frozenset[str] = frozenset()

_MARKS = frozenset({"N/A", "#N/A", "N.A.", "NULL"})
"""Cells that say that there is no value. `#N/A` is Excel's word for a look-up that found nothing."""
_NUMBERS_OF_THINGS = frozenset({"unit_number", "vin", "external_id", "station_id"})
"""Columns in which a number is a name, so that one which a spreadsheet has rounded may be another thing's."""


def _spreadsheet_faults(values: Mapping[str, str]) -> str:
    """The values that a spreadsheet has spoiled; empty if there are none."""
    found = (
        (name, spreadsheet_fault(value, is_exact=name in _NUMBERS_OF_THINGS))
        for name, value in values.items()
        if "#" in value or "+" in value
    )
    return "; ".join(f"{name}: {fault}" for name, fault in found if fault)


class _Columns(NamedTuple):
    """The columns of a file."""

    header: list[str]
    """The field of each; its name where it is none."""
    fields: list[tuple[int, str]]
    """The columns that are fields, each with its place."""
    parts: _Parts
    clearable: set[str]
    width: int
    """The columns without those at the end that have no name."""
    repeated: set[str]
    """The fields that several columns are."""
    passed_over: list[tuple[int, Container[str]]]
    """The columns that tell which rows are passed over, each with the words for it."""

    def unused(self, names: Sequence[str]) -> list[str]:
        used = {place for place, _ in (*self.fields, *self.passed_over)}.union(self.parts.places)
        return [printable(name) for place, name in enumerate(names) if name and place not in used]

    def values(self, cells: Sequence[str]) -> dict[str, str]:
        """The cells that are not empty, by field."""
        width = len(cells)
        values = {
            name: armed(cell) if "'" in cell or cell[:1] == "=" else cell
            for place, name in self.fields
            if place < width and (cell := cells[place].strip()) and not self._says_nothing(cell)
        }
        if self.parts.places:
            texts = (armed(cells[at].strip()) for at in self.parts.places if at < width)
            if whole := " ".join(filter(None, texts)):
                values[self.parts.field] = whole
        return values

    def _says_nothing(self, cell: str) -> bool:
        """True for a mark where an empty cell leaves the stored value. Elsewhere it removes one, such as a price."""
        return bool(self.clearable) and cell.upper() in _MARKS

    def why_passed_over(self, names: Sequence[str], cells: Sequence[str]) -> str:
        """The cell that tells that a row is passed over, in words; empty if none does."""
        told = (
            (names[place], word)
            for place, words in self.passed_over
            if place < len(cells) and (word := armed(cells[place].strip())).casefold() in words
        )
        return next((f"its {name} is {word}" for name, word in told), "")

    def clear(self, cells: Sequence[str], values: dict[str, str]) -> frozenset[str]:
        """Takes the fields that the row clears out of the values."""
        cleared = frozenset(
            name
            for place, name in self.fields
            if name in values and name in self.clearable and place < len(cells) and cells[place].strip() == CLEARED
        )
        for name in cleared:
            del values[name]
        return cleared

    def fault(self, cells: Sequence[str]) -> str:
        """The fault of a row as a whole: too many cells, or columns that disagree. Empty without a fault."""
        if len(cells) > self.width and (len(cells) > len(self.header) or any(map(str.strip, cells[self.width :]))):
            return f"{len(cells)} cells, but the header names {counted(self.width, 'column')}"
        for name in self.repeated:
            told = {cell.strip() for other, cell in zip(self.header, cells, strict=False) if other == name} - {""}
            if len(told) > 1:
                times, values = self.header.count(name), " and ".join(map(repr, sorted(told)))
                return f"the column {name} is there {times} times, with {values}"
        return ""


def _columns_of(names: list[str], known_names: ColumnNames, known: Sequence[str], clearable: set[str]) -> _Columns:
    header = known_names.fields(names, known)
    fields = [(place, name) for place, name in enumerate(header) if name in known]
    repeated = {name for name in known if header.count(name) > 1}
    passed_over = [
        (place, words) for place, name in enumerate(names) if (words := known_names.passed_over.get(_plain(name)))
    ]
    parts = known_names.parts(names, header)
    return _Columns(header, fields, parts, clearable, named_width(header), repeated, passed_over)


def without_repeats(lines: Iterable[FileRow[RowShape]], report: ImportReport, *key: str) -> Iterator[FileRow[RowShape]]:
    """The rows without those whose `key`, one column or several, appeared on an earlier line; these go into the
    report."""
    first: dict[Any, int] = {}
    key_of = attrgetter(*key)
    nothing = (None,) * len(key) if len(key) > 1 else None
    for line in lines:
        values = key_of(line.row)
        if values != nothing and first.setdefault(values, line.number) != line.number:
            parts = zip(key, values if len(key) > 1 else (values,), strict=True)
            named = ", ".join(f"{name} {str(value)!r}" for name, value in parts if value is not None)
            report.reject(line.number, f"{named} is already on line {first[values]}")
        else:
            yield line


def count_rows(path: Path) -> int:
    """The approximate number of rows, for a progress bar: a row may have several lines. 0 if the file cannot be
    read."""
    try:
        with path.open("rb") as file:
            return max(sum(chunk.count(b"\n") for chunk in iter(lambda: file.read(1 << 20), b"")) - 1, 0)
    except OSError:
        return 0


def write_rows(file: TextIO, columns: Sequence[str], rows: Iterable[Iterable[object]]) -> None:
    """Writes what `read_rows` reads. `file` is opened with `newline=""`."""
    append_rows(file, [columns])
    append_rows(file, rows)


def write_records(file: TextIO, columns: Sequence[str], records: Iterable[Mapping[str, object]]) -> None:
    """Writes rows of named values, each with all columns in their order."""
    write_rows(file, columns, (record.values() for record in records))


def append_rows(file: TextIO, rows: Iterable[Iterable[object]]) -> None:
    """Adds rows to a file that `write_rows` began."""
    writer = csv.writer(file, quoting=csv.QUOTE_ALL)
    for row in rows:
        writer.writerow([_cell(value) for value in row])


def _cell(value: object) -> str:
    """The cell in the file. Numbers and days keep their meaning for a spreadsheet."""
    match value:
        case None:
            return ""
        case str():
            return _FORMULA.sub("'", value)
        case float() if value.is_integer() and abs(value) < 1e15:
            return str(int(value))
        case date():  # a moment too
            return value.isoformat()
    return str(value)
