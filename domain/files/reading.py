"""Reads a CSV or Excel file by its profile: rows become records, and faults are reported by line.

Files of vendors come as Excel or as CSV with commas, semicolons, tabs or bars, in UTF-8, UTF-16 or the encoding of
Windows, often with titles above the columns' names. The reader recognizes all of them."""

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from domain.files.cells import cell_text, converter, first_currency, writes_commas
from domain.files.column_names import MOST_LINES_ABOVE, usual_delimiter
from domain.files.csvfiles import ImportReport, Progress, UnreadableFile
from domain.files.day_order import refuse_days_first
from domain.files.file_records import (
    FilePortion,
    FileRecord,
    PassesOver,
    field_reader,
    file_portions,
    file_records,
    first_name_of,
    is_heading,
    is_numeric,
    refuse_ambiguous,
    width_of,
    with_following,
    without_headings,
)
from domain.files.headings import FieldPlace, Heading, field_places, find_heading, heading_of, values_above
from domain.files.profiles import FileProfile, RecordField, RecordFields, plain_name
from domain.files.spreadsheets import Cell, Row, file_rows, is_excel_file, unread_sheet
from domain.files.text_rows import Refuse

AUTO = "auto"
"""The name that stands for the profile that fits the headings of a file."""


@dataclass(slots=True)
class ProfiledFile:
    """An open file. Its rows may be read once: by `portions`, or one by one as `records`."""

    heading: Heading
    fields: dict[str, str]
    """The used columns, by field."""
    portions: Iterator[FilePortion]
    records: Iterator[FileRecord]
    """The rows without those that have a fault."""
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
        named = next(row for row in first if row.line == heading.line)
        sample = [row for row in first if row.line > heading.line]
        numeric = [index for place in places if is_numeric(place.field) for index in place.indexes]
        written = (cell for row in sample for cell in _cells_at(row, numeric))
        has_commas = writes_commas(written, has_thousands=record.has_thousands)
        amounts = [place for place in places if place.field.kind == "amount"]
        named_by = {place.field.name: first_currency(_column_cells(sample, place)) for place in amounts}
        currency = _currency_of_amounts(places, named_by, record, above)
        readers = [
            field_reader(
                place,
                profile,
                zone,
                has_marks=record.has_marks,
                has_commas=has_commas,
                # A column of bare dollars is in those of the others, and names no other ones itself.
                currency="" if currency and named_by.get(place.field.name) == "$" else currency,
            )
            for place in places
        ]
        refuse_ambiguous(heading, readers, sample)
        for place in places:
            if _holds_dates(place.field) and not profile.columns[place.field.name].date_format:
                _refuse_days_first(place, sample, None if len(first) < MOST_LINES_ABOVE else path)
        width = width_of(heading, [row for row in sample if not is_heading(row, named, first_name_of(named))])
        rows_below = without_headings(chain(sample, rows), named, report, progress)
        common = profile.constants | above | ({"currency": currency} if currency else {})
        portions = file_portions(rows_below, readers, common, width, progress)
        columns = {reader.field: reader.column for reader in readers}
        for one in record.follows:
            if one.field not in columns and all(part in columns for part in one.parts):
                portions = with_following(portions, one)
                columns = {one.field: columns[one.parts[0]], **columns}
        yield ProfiledFile(heading, columns, portions, file_records(portions, report, passes_over), above)


def _holds_dates(field: RecordField) -> bool:
    return field.kind in ("moment", "day") or field.name == "date"


def _refuse_days_first(place: FieldPlace, sample: Sequence[Row], longer: Path | None) -> None:
    """Check a column of dates; `longer` is a file with more rows. Purchases are listed in the order of their days, so
    the first rows may all be of days that can be months: then all rows are looked at. Raises UnreadableFile for days
    before months."""
    is_open = refuse_days_first(place.name, _column_cells(sample, place))
    if is_open and longer is not None and place.field.name == "date":
        with closing(_rows(longer, lambda row: None)) as rows:
            refuse_days_first(place.name, _column_cells(rows, place))


def _column_cells(rows: Iterable[Row], place: FieldPlace) -> Iterator[Cell]:
    return (cell for row in rows for cell in _cells_at(row, place.indexes))


def _currency_of_amounts(
    places: Sequence[FieldPlace], named_by: Mapping[str, str], record: RecordFields, above: Mapping[str, Any]
) -> str | None:
    """The currency that the amounts of a file name in their cells, as `CA$630.00`; empty if it is none but US dollars.
    None if it does not matter, or another place names it. `named_by` has the currency of each column."""
    if not record.is_in_dollars or "currency" in above or any(one.field.name == "currency" for one in places):
        return None
    return "CAD" if "CAD" in named_by.values() else ""


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
    best = best_fits(first, profiles, record, kept=kept, further=further)
    if len(best) > 1:
        names = " and ".join(repr(one.profile.name) for one in best)
        raise UnreadableFile(f"the columns of this file fit the profiles {names}: choose one of them")
    return best[0].profile


def best_fits(
    first: Sequence[Row],
    profiles: Sequence[FileProfile],
    record: RecordFields,
    *,
    kept: Sequence[FileProfile] = (),
    further: Sequence[str] = (),
) -> "list[ProfileFit]":
    """The profiles that fit the first rows of a file best: one, or several that read it differently. `further` tells
    of other sheets. Raises UnreadableFile, which says what to do, if none fits."""
    if not first:
        raise UnreadableFile("; ".join(["the first sheet is empty", *further] if further else ["the file is empty"]))
    complete = [one for one in _fits(first, kept, record) if len(one.places) == len(one.profile.columns)]
    known = [one for one in profiles if _is_recognized(first, one)]
    fits = complete or _fits(first, known, record) or _fits(first, kept, record)
    if not fits:
        told = "; ".join([*further, _nearest_fault(first, [*kept, *known], record)])
        raise UnreadableFile(f"no profile fits this file; {told}")
    most = max(len(one.places) for one in fits)
    best = [one for one in fits if len(one.places) == most]
    best = [one for one in best if one.profile.name != "generic"] or best
    return best if any(one.reading != best[0].reading for one in best) else best[:1]


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


class ProfileFit(NamedTuple):
    """A profile that finds everything it needs in a file, and the columns that it reads."""

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


def _fits(rows: Sequence[Row], profiles: Sequence[FileProfile], record: RecordFields) -> list[ProfileFit]:
    """The profiles that find everything they need in these rows."""
    fits = []
    for profile in profiles:
        try:
            fits.append(ProfileFit(profile, find_heading(rows, profile, record)[1]))
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


def first_rows(path: Path) -> list[Row]:
    """The first rows of a file that are not empty. Raises UnreadableFile if it cannot be read."""
    with closing(_rows(path, lambda row: None)) as rows:
        return list(islice(rows, MOST_LINES_ABOVE))


def _rows(path: Path, refuse: Refuse, tell: Callable[[int, str], None] = lambda line, message: None) -> Generator[Row]:
    def tell_sheet(name: str) -> None:
        tell(1, unread_sheet(name))

    return file_rows(path, refuse, usual_delimiter, is_excel=is_excel_file(path), tells_sheet=tell_sheet)
