"""Reads a CSV or Excel file by its profile: rows become records, and faults are reported by line.

Files of vendors come as Excel or as CSV with commas, semicolons, tabs or bars, in UTF-8, UTF-16 or the encoding of
Windows, often with titles above the columns' names. The reader recognizes all of them."""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from msgspec import Struct

from domain.files.cells import cell_text, columns_values, converter, says_nothing
from domain.files.column_names import MOST_LINES_ABOVE, usual_delimiter
from domain.files.csvfiles import ImportReport, Progress, UnreadableFile
from domain.files.day_order import refuse_days_first
from domain.files.headings import FieldPlace, Heading, field_places, find_heading, heading_of, values_above
from domain.files.profiles import FileProfile, RecordField, RecordFields, plain_name
from domain.files.spreadsheets import Cell, Row, file_rows, is_excel_file
from domain.files.text_rows import Refuse

AUTO = "auto"
"""The name that stands for the profile that fits the headings of a file."""

MOST_FILE_RECORDS = 1_000_000
"""Most records of a file. A chain has a thousand stations, a large fleet a hundred thousand fills a month."""


PassesOver = Callable[[dict[str, Any]], bool]
"""True for the values of a row about something else. Unreadable cells are there as texts."""


class FileRecord(Struct, frozen=True, gc=False):
    """A row of the file as fields of ours. Columns that the file lacks are left out; an empty cell is None."""

    line: int
    values: dict[str, Any]


@dataclass(slots=True)
class ProfiledFile:
    """An open file. `records` may be read once."""

    heading: Heading
    fields: dict[str, str]
    """The used columns, by field."""
    records: Iterator[FileRecord]
    above: dict[str, Any] = field(default_factory=dict)
    """The values above the heading, by field. They count for every record whose row has no value of its own."""

    @property
    def unused(self) -> list[str]:
        used = set(self.fields.values())
        return [name for name in self.heading.names if name and name not in used]


@contextmanager
def open_profiled(
    path: Path,
    profile: FileProfile,
    record: RecordFields,
    zone: ZoneInfo,
    report: ImportReport,
    *,
    progress: Progress = lambda _: None,
    passes_over: PassesOver = lambda _: False,
    tell: Callable[[int, str], None] = lambda line, message: None,
) -> Iterator[ProfiledFile]:
    """The file's records. Rows with a fault go into the report, unless `passes_over` recognizes them as lines of
    another kind; so does a repeated heading. `zone` is that of times without an offset, unless the profile has one.
    `tell` gets the line and a sentence about other contents of the file. Raises UnreadableFile, also while the records
    are read, if the file is refused as a whole."""
    zone = ZoneInfo(profile.time_zone) if profile.time_zone else zone
    with closing(_rows(path, report.refuse, tell)) as rows:
        first = list(islice(rows, MOST_LINES_ABOVE))
        heading, places = find_heading(first, profile, record)
        above = values_above(
            [row for row in first if row.line < heading.line],
            profile,
            record,
            lambda field, column, cell: converter(field, column, zone)(cell),
        )
        readers = [_reader(place, profile, zone, has_marks=record.has_marks) for place in places]
        named = next(row for row in first if row.line == heading.line)
        sample = [row for row in first if row.line > heading.line]
        _refuse_ambiguous(heading, readers, sample)
        for place in places:
            if _holds_dates(place.field) and not profile.columns[place.field.name].date_format:
                refuse_days_first(place.name, (cell for row in sample for cell in _cells_at(row, place.indexes)))
        width = _width(heading, [row for row in sample if not _is_heading(row, named, _first_name(named))])
        yield ProfiledFile(
            heading,
            {reader.field: reader.column for reader in readers},
            _records(
                _without_headings(chain(sample, rows), named, report, progress),
                readers,
                profile.constants | above,
                width,
                report,
                progress,
                passes_over,
            ),
            above,
        )


def _holds_dates(field: RecordField) -> bool:
    return field.kind in ("moment", "day") or field.name == "date"


def _cells_at(row: Row, indexes: Sequence[int]) -> Iterator[Cell]:
    return (row.cells[index] for index in indexes if index < len(row.cells))


def recognize(
    path: Path, profiles: Sequence[FileProfile], record: RecordFields, *, kept: Sequence[FileProfile] = ()
) -> FileProfile:
    """The profile that fits the file's headings: the one that knows most of its columns. A profile of `kept`, which
    people made, comes before the others if the file has all of its columns. Raises UnreadableFile, which says what to
    do, if none fits or several fit equally well."""
    further: list[str] = []
    with closing(_rows(path, lambda row: None, lambda line, message: further.append(message))) as rows:
        first = list(islice(rows, MOST_LINES_ABOVE))
    if not first:
        raise UnreadableFile("the file is empty")
    complete = [one for one in _fits(first, kept, record) if len(one.places) == len(one.profile.columns)]
    known = [one for one in profiles if _is_recognized(first, one)]
    fits = complete or _fits(first, known, record) or _fits(first, kept, record)
    if not fits:
        told = "; ".join([*further, _nearest_fault(first, [*kept, *profiles], record)])
        raise UnreadableFile(f"no profile fits this file; {told}")
    most = max(len(one.places) for one in fits)
    best = [one for one in fits if len(one.places) == most]
    best = [one for one in best if one.profile.name != "generic"] or best
    if any(one.reading != best[0].reading for one in best):
        names = " and ".join(repr(one.profile.name) for one in best)
        raise UnreadableFile(f"the columns of this file fit the profiles {names}: choose one of them")
    return best[0].profile


_FEWEST_LETTERS = 5
"""Fewest letters of a single word by which a vendor is recognized; a shorter one may be part of another. Several words
are the name of a column."""


def _is_recognized(rows: Sequence[Row], profile: FileProfile) -> bool:
    """True if a cell at the beginning is one of the names of the vendor, or contains a word of them."""
    if not profile.recognized_by:
        return True
    cells = {cell_text(cell).strip().casefold() for row in rows for cell in row.cells if isinstance(cell, str)}
    plain = {plain_name(cell) for cell in cells}
    for name in profile.recognized_by:
        letters = plain_name(name)
        if name.casefold() in cells or (letters and letters in plain):
            return True
        if " " not in name and len(letters) >= _FEWEST_LETTERS and any(letters in one for one in plain):
            return True
    return False


class _Fit(NamedTuple):
    profile: FileProfile
    places: list[FieldPlace]

    @property
    def reading(self) -> object:
        """A value that is equal for profiles that read this file alike."""
        ways = [(place.field.name, place.indexes, _way(self.profile, place)) for place in self.places]
        return ways, self.profile.constants, self.profile.code_set, self.profile.time_zone, self.profile.above


def _way(profile: FileProfile, place: FieldPlace) -> tuple[str, bool, str]:
    column = profile.columns[place.field.name]
    return column.unit, column.is_negated, column.date_format


def _fits(rows: Sequence[Row], profiles: Sequence[FileProfile], record: RecordFields) -> list[_Fit]:
    """The profiles that find everything they need in these rows."""
    fits = []
    for profile in profiles:
        try:
            fits.append(_Fit(profile, find_heading(rows, profile, record)[1]))
        except UnreadableFile:
            continue
    return fits


def _nearest_fault(rows: Sequence[Row], profiles: Sequence[FileProfile], record: RecordFields) -> str:
    """The missing part of the profile that knows most columns of these rows."""

    def known(profile: FileProfile) -> int:
        return max(len(field_places(heading_of(row), profile, record)) for row in rows)

    try:
        find_heading(rows, max(profiles, key=known), record)
    except UnreadableFile as error:
        return str(error)
    raise AssertionError  # none fits


class Sample(NamedTuple):
    """The beginning of a file, by which a person maps its columns."""

    heading: Heading
    rows: list[Row]


def read_sample(path: Path, *, limit: int = 5) -> Sample:
    """The columns' names, from the first row as wide as the table, and the first rows below it. Raises UnreadableFile
    if the file cannot be read."""
    with closing(_rows(path, lambda row: None)) as rows:
        first = list(islice(rows, MOST_LINES_ABOVE + limit))
    if not first:
        raise UnreadableFile(f"{path.name} is empty")
    heading = _widest(first[:MOST_LINES_ABOVE])
    return Sample(heading, [row for row in first if row.line > heading.line][:limit])


def _widest(rows: Sequence[Row]) -> Heading:
    widths = [sum(isinstance(cell, str) and cell != "" for cell in row.cells) for row in rows]
    return heading_of(rows[widths.index(max(widths))])


# --- Rows --------------------------------------------------------------------------------------------------------


def _rows(path: Path, refuse: Refuse, tell: Callable[[int, str], None] = lambda line, message: None) -> Generator[Row]:
    def tell_sheet(name: str) -> None:
        tell(1, f"the sheet {name[:60]!r} has rows, too, and only the first is read: save it as a file of its own")

    return file_rows(path, refuse, usual_delimiter, is_excel=is_excel_file(path), tells_sheet=tell_sheet)


# --- Records -----------------------------------------------------------------------------------------------------


class _FieldReader(NamedTuple):
    field: str
    place: int
    column: str
    convert: Callable[[Cell], Any]
    """Converts a cell, or raises ValueError with a text that follows the cell."""
    convert_all: Callable[[Sequence[Cell], Any], list[Any] | None]
    """Converts many cells; None if one of them needs `convert`."""
    others: tuple[int, ...]
    """Further columns of that name, whose cells must agree."""
    has_marks: bool
    """True if a mark such as `N/A` counts as an empty cell."""


def _reader(place: FieldPlace, profile: FileProfile, zone: ZoneInfo, *, has_marks: bool) -> _FieldReader:
    column = profile.columns[place.field.name]
    convert = converter(place.field, column, zone)
    first, *others = place.indexes
    convert_all = partial(columns_values, place.field, column, convert)
    return _FieldReader(place.field.name, first, place.name, convert, convert_all, tuple(others), has_marks)


def _refuse_ambiguous(heading: Heading, readers: Sequence[_FieldReader], sample: Sequence[Row]) -> None:
    """Check columns of one name. Raises UnreadableFile if two of them differ wherever both have a value."""
    for reader in readers:
        said = [_values_of(reader, row.cells) for row in sample] if reader.others else []
        told = [values for values in said if len(values) > 1]
        if told and all(len(set(map(_comparable, values))) > 1 for values in told):
            name = reader.column.removesuffix(" (1)")
            raise UnreadableFile(
                f"line {heading.line} has several columns {name!r}, which say different things: map one of them as "
                f"{name + ' (1)'!r} or {name + ' (2)'!r}"
            )


def _values_of(reader: _FieldReader, cells: Sequence[Cell]) -> list[Any]:
    """The values of a field's columns that are not empty. An unreadable one stands for itself."""
    given = (cells[place] for place in (reader.place, *reader.others) if place < len(cells))
    values = []
    for cell in given:
        if cell is not None and cell != "":
            try:
                values.append(reader.convert(cell))
            except ValueError:
                values.append(cell)
    return values


def _comparable(value: Any) -> Any:
    return value.casefold() if isinstance(value, str) else value


class _Width(NamedTuple):
    """The number of cells that a row may have, and of those with a name."""

    most: int
    named: int

    def fault(self, cells: Sequence[Cell]) -> str:
        """The fault of a row with more cells, which is shifted by a delimiter inside a cell; empty without a fault."""
        if len(cells) > self.most or any(cell not in (None, "") for cell in cells[self.named :]):
            return (
                f"{len(cells)} cells, but the heading names {self.named} columns: a cell with a delimiter needs quotes"
            )
        return ""


def _width(heading: Heading, sample: Sequence[Row]) -> _Width:
    """The width of the table. If every row ends with one empty cell too many, rows may. Titles between the rows are
    shorter, and a repeated heading is as long as the first."""
    named = max((index for index, name in enumerate(heading.names, start=1) if name), default=0)
    there = len(heading.names)
    return _Width(min((len(row.cells) for row in sample if len(row.cells) >= there), default=there), named)


def _without_headings(rows: Iterator[Row], heading: Row, report: ImportReport, progress: Progress) -> Iterator[Row]:
    """The rows without repeated headings, as reports have them on each page or for each group."""
    place, name = first = _first_name(heading)
    begins = tuple({name[:1].lower(), name[:1].upper(), name[:1]}) if isinstance(name, str) else ()
    for row in rows:
        cells = row.cells
        cell = cells[place] if place < len(cells) else None
        if isinstance(cell, str) and cell.startswith(begins) and _is_heading(row, heading, first):
            progress(1)
            report.pass_over()
        else:
            yield row


def _first_name(heading: Row) -> tuple[int, Cell]:
    """The first nonempty cell of a heading, with its place."""
    return next((one for one in enumerate(heading.cells) if one[1] not in (None, "")), (0, None))


def _is_heading(row: Row, heading: Row, first_name: tuple[int, Cell]) -> bool:
    place, name = first_name
    cell = row.cells[place] if place < len(row.cells) else None
    if not isinstance(cell, str) or not isinstance(name, str) or cell[:1].casefold() != name[:1].casefold():
        return False  # nearly all rows
    return plain_name(cell) == plain_name(name) and _plain_cells(row) == _plain_cells(heading)


def _plain_cells(row: Row) -> list[str]:
    plain = [plain_name(cell_text(cell)) for cell in row.cells]
    while plain and not plain[-1]:
        plain.pop()
    return plain


def _disagreements(doubled: Sequence[_FieldReader], cells: Sequence[Cell], values: dict[str, Any]) -> Iterator[str]:
    """Sets the fields that have several columns, and reports where their cells differ."""
    for reader in doubled:
        said = _values_of(reader, cells)
        if len(set(map(_comparable, said))) > 1:
            yield f"{reader.column}: the columns of this name say {' and '.join(repr(one)[:60] for one in said)}"
        elif said:
            values[reader.field] = said[0]


_MOST_ROWS_AT_ONCE = 128


def _portions(rows: Iterator[Row]) -> Iterator[list[Row]]:
    """The rows in portions that grow: whoever wants the first five rows has the others not read."""
    size = 1
    while portion := list(islice(rows, size)):
        yield portion
        size = min(2 * size, _MOST_ROWS_AT_ONCE)


def _records(
    rows: Iterator[Row],
    readers: Sequence[_FieldReader],
    common: dict[str, Any],
    width: _Width,
    report: ImportReport,
    progress: Progress,
    passes_over: PassesOver,
) -> Iterator[FileRecord]:
    doubled = [reader for reader in readers if reader.others]
    names = [reader.field for reader in readers]
    read = 0
    for portion in _portions(rows):
        faults = _Faults(
            (number, width.fault(row.cells)) for number, row in enumerate(portion) if len(row.cells) > width.named
        )
        columns = list(zip_longest(*(row.cells for row in portion)))
        values_of = [
            _column_values(reader, columns, len(portion), common.get(reader.field), faults) for reader in readers
        ]
        for number, (row, told) in enumerate(zip(portion, zip(*values_of, strict=True), strict=True)):
            read += 1
            if read > MOST_FILE_RECORDS:
                raise UnreadableFile(f"the file has more than {MOST_FILE_RECORDS:,} rows: divide it")
            values = common | dict(zip(names, told, strict=True))
            if doubled:
                faults.add(number, *_disagreements(doubled, row.cells, values))
            found = faults.of(number)
            if not found:
                yield FileRecord(row.line, values)
            elif passes_over(values):
                report.pass_over()
            else:
                report.reject(row.line, "; ".join(found))
        progress(len(portion))


class _Faults:
    """The faults of some rows, by the row's number among them."""

    def __init__(self, first: Iterable[tuple[int, str]]) -> None:
        self._by_row: dict[int, list[str]] = {}
        for number, fault in first:
            self.add(number, fault)

    def add(self, number: int, *faults: str) -> None:
        for fault in filter(None, faults):
            self._by_row.setdefault(number, []).append(fault)

    def of(self, number: int) -> Sequence[str]:
        return self._by_row.get(number, ()) if self._by_row else ()


def _column_values(
    reader: _FieldReader, columns: Sequence[Sequence[Cell]], rows: int, empty: Any, faults: _Faults
) -> list[Any]:
    """A field's value in each of the rows, `empty` where its cell is empty, and its text where that cannot be read."""
    cells = columns[reader.place] if reader.place < len(columns) else [None] * rows
    values = reader.convert_all(cells, empty)
    return (
        values
        if values is not None
        else [_value(reader, cell, number, empty, faults) for number, cell in enumerate(cells)]
    )


def _value(reader: _FieldReader, cell: Cell, number: int, empty: Any, faults: _Faults) -> Any:
    if cell is None or cell == "":
        return empty
    try:
        return reader.convert(cell)
    except ValueError as error:
        if reader.has_marks and says_nothing(cell):
            return empty
        faults.add(number, f"{reader.column}: {cell_text(cell)[:60]!r} {error}")
        return cell_text(cell)
