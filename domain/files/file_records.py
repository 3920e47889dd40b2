"""The rows below a heading become records: cells are converted by columns, and faults are reported by line."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice, zip_longest
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from msgspec import Struct

from domain.files.cells import cell_text, columns_values, converter, says_nothing
from domain.files.csvfiles import ImportReport, Progress, UnreadableFile
from domain.files.headings import FieldPlace, Heading, is_universal
from domain.files.profiles import FileProfile, FollowingField, RecordField, plain_name
from domain.files.spreadsheets import Cell, Row
from domain.wording import counted

MOST_FILE_RECORDS = 1_000_000
"""Most records of a file. A chain has a thousand stations, a large fleet a hundred thousand fills a month."""


PassesOver = Callable[[dict[str, Any]], bool]
"""True for the values of a row about something else. Unreadable cells are there as texts."""


class FileRecord(Struct, frozen=True, gc=False):
    """A row of the file as fields of ours. Columns that the file lacks are left out; an empty cell is None."""

    line: int
    values: dict[str, Any]


class FieldReader(NamedTuple):
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


def field_reader(
    place: FieldPlace,
    profile: FileProfile,
    zone: ZoneInfo,
    *,
    has_marks: bool,
    has_commas: bool,
    currency: str | None = None,
) -> FieldReader:
    column = profile.columns[place.field.name]
    zone = ZoneInfo("UTC") if is_universal(place.name) else zone
    convert = converter(place.field, column, zone, has_commas=has_commas, currency=currency)
    first, *others = place.indexes
    at_once = not (has_commas and is_numeric(place.field))
    convert_all = partial(columns_values, place.field, column, convert) if at_once else lambda cells, empty: None
    return FieldReader(place.field.name, first, place.name, convert, convert_all, tuple(others), has_marks)


def is_numeric(field: RecordField) -> bool:
    return field.kind in ("amount", "number")


def refuse_ambiguous(heading: Heading, readers: Sequence[FieldReader], sample: Sequence[Row]) -> None:
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


def _values_of(reader: FieldReader, cells: Sequence[Cell]) -> list[Any]:
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


class Width(NamedTuple):
    """The number of cells that a row may have, and of those with a name."""

    most: int
    named: int

    def fault(self, cells: Sequence[Cell]) -> str:
        """The fault of a row with more cells, which is shifted by a delimiter inside a cell; empty without a fault."""
        if len(cells) > self.most or any(cell not in (None, "") for cell in cells[self.named :]):
            return (
                f"{len(cells)} cells, but the heading names {counted(self.named, 'column')}: a cell with a delimiter "
                "needs quotes"
            )
        return ""


def width_of(heading: Heading, sample: Sequence[Row]) -> Width:
    """The width of the table. If every row ends with one empty cell too many, rows may. Titles between the rows are
    shorter, and a repeated heading is as long as the first."""
    named = max((index for index, name in enumerate(heading.names, start=1) if name), default=0)
    there = len(heading.names)
    return Width(min((len(row.cells) for row in sample if len(row.cells) >= there), default=there), named)


def without_headings(rows: Iterator[Row], heading: Row, report: ImportReport, progress: Progress) -> Iterator[Row]:
    """The rows without repeated headings, as reports have them on each page or for each group."""
    place, name = first = first_name_of(heading)
    begins = tuple({name[:1].lower(), name[:1].upper(), name[:1]}) if isinstance(name, str) else ()
    for row in rows:
        cells = row.cells
        cell = cells[place] if place < len(cells) else None
        if isinstance(cell, str) and cell.startswith(begins) and is_heading(row, heading, first):
            progress(1)
            report.pass_over()
        else:
            yield row


def first_name_of(heading: Row) -> tuple[int, Cell]:
    """The first nonempty cell of a heading, with its place."""
    return next((one for one in enumerate(heading.cells) if one[1] not in (None, "")), (0, None))


def is_heading(row: Row, heading: Row, first_name: tuple[int, Cell]) -> bool:
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


def _disagreements(doubled: Sequence[FieldReader], cells: Sequence[Cell], values: dict[str, Any]) -> Iterator[str]:
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


class FilePortion(NamedTuple):
    """Some rows of the file by columns: what is alike in all of them is then looked at once."""

    lines: Sequence[int]
    columns: Mapping[str, list[Any]]
    """The values of each field that has a column; an empty cell is the common value, or None."""
    common: Mapping[str, Any]
    """The values of fields that every row has."""
    faults: "_Faults"

    def column(self, field: str) -> Sequence[Any]:
        found = self.columns.get(field)
        return found if found is not None else [self.common.get(field)] * len(self.lines)

    def values(self, number: int) -> dict[str, Any]:
        """The values of one row, by field. Unreadable cells are there as texts."""
        return {**self.common, **{field: values[number] for field, values in self.columns.items()}}

    def leaves_out(self, number: int, report: ImportReport, passes_over: PassesOver) -> bool:
        """True for a row with a fault; it is refused, or passed over as one about something else."""
        found = self.faults.of(number)
        if not found:
            return False
        if passes_over(self.values(number)):
            report.pass_over()
        else:
            report.reject(self.lines[number], "; ".join(found))
        return True


def file_portions(
    rows: Iterator[Row],
    readers: Sequence[FieldReader],
    common: Mapping[str, Any],
    width: Width,
    progress: Progress,
) -> Iterator[FilePortion]:
    doubled = [reader for reader in readers if reader.others]
    read = 0
    for portion in _portions(rows):
        read += len(portion)
        if read > MOST_FILE_RECORDS:
            raise UnreadableFile(f"the file has more than {MOST_FILE_RECORDS:,} rows: divide it")
        faults = _Faults(
            (number, width.fault(row.cells)) for number, row in enumerate(portion) if len(row.cells) > width.named
        )
        columns = list(zip_longest(*(row.cells for row in portion)))
        values_of = {
            reader.field: _column_values(reader, columns, len(portion), common.get(reader.field), faults)
            for reader in readers
        }
        if doubled:
            _set_doubled(doubled, portion, values_of, faults)
        yield FilePortion([row.line for row in portion], values_of, common, faults)
        progress(len(portion))


def with_following(portions: Iterable[FilePortion], one: FollowingField) -> Iterator[FilePortion]:
    """The portions with a field that follows from others, except in rows with a fault."""
    for portion in portions:
        parts = zip(*map(portion.column, one.parts), strict=True)
        values = [None if portion.faults.of(number) else one.of_parts(*given) for number, given in enumerate(parts)]
        yield portion._replace(columns={**portion.columns, one.field: values})


def _set_doubled(
    doubled: Sequence[FieldReader], portion: Sequence[Row], values_of: Mapping[str, list[Any]], faults: "_Faults"
) -> None:
    """Set the fields that have several columns in each of the rows."""
    for number, row in enumerate(portion):
        values: dict[str, Any] = {}
        faults.add(number, *_disagreements(doubled, row.cells, values))
        for field, value in values.items():
            values_of[field][number] = value


def file_records(
    portions: Iterable[FilePortion], report: ImportReport, passes_over: PassesOver
) -> Iterator[FileRecord]:
    """The rows one by one, without those that have a fault."""
    for portion in portions:
        common, names = dict(portion.common), list(portion.columns)
        for number, told in enumerate(zip(*portion.columns.values(), strict=True)):
            if not (portion.faults and portion.leaves_out(number, report, passes_over)):
                yield FileRecord(portion.lines[number], common | dict(zip(names, told, strict=True)))


class _Faults:
    """The faults of some rows, by the row's number among them."""

    def __init__(self, first: Iterable[tuple[int, str]]) -> None:
        self._by_row: dict[int, list[str]] = {}
        for number, fault in first:
            self.add(number, fault)

    def add(self, number: int, *faults: str) -> None:
        for fault in filter(None, faults):
            self._by_row.setdefault(number, []).append(fault)

    def __bool__(self) -> bool:
        return bool(self._by_row)

    def of(self, number: int) -> Sequence[str]:
        return self._by_row.get(number, ())


def _column_values(
    reader: FieldReader, columns: Sequence[Sequence[Cell]], rows: int, empty: Any, faults: _Faults
) -> list[Any]:
    """A field's value in each of the rows, `empty` where its cell is empty, and its text where that cannot be read."""
    cells = columns[reader.place] if reader.place < len(columns) else [None] * rows
    values = reader.convert_all(cells, empty)
    return (
        values
        if values is not None
        else [_value(reader, cell, number, empty, faults) for number, cell in enumerate(cells)]
    )


def _value(reader: FieldReader, cell: Cell, number: int, empty: Any, faults: _Faults) -> Any:
    if cell is None or cell == "":
        return empty
    try:
        return reader.convert(cell)
    except ValueError as error:
        if says_nothing(cell, has_marks=reader.has_marks):
            return empty
        faults.add(number, f"{reader.column}: {cell_text(cell)[:60]!r} {error}")
        return cell_text(cell)
