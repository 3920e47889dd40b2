"""Reads a CSV or Excel file by its profile: rows become records, and faults are reported by line.

Files of vendors come as Excel or as CSV with commas, semicolons, tabs or bars, in UTF-8, UTF-16 or the encoding of
Windows, often with titles above the columns' names. All of this is found out here.
"""

import csv
import math
import re
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from domain.contract.csvfiles import ImportReport, Progress, UnreadableFile, armed
from domain.contract.spreadsheets import Cell, Row, excel_rows, is_excel_file
from domain.file_profiles.profiles import Column, FileProfile, RecordField, RecordFields, plain_name

MOST_LINES_ABOVE = 30
"""So many rows are searched for the one that names the columns."""

MOST_FILE_RECORDS = 1_000_000
"""A chain has a thousand stations, a large fleet a hundred thousand fills a month."""

MOST_COLUMNS = 500

MOST_CELL_CHARACTERS = 400


class FileRecord(NamedTuple):
    """A row of the file, as fields of ours. Columns that the file lacks are not there; an empty cell is None."""

    line: int
    values: dict[str, Any]


class Heading(NamedTuple):
    """The row that names the columns."""

    line: int
    names: list[str]
    """Names that come twice are numbered: `Price (1)`, `Price (2)`."""


@dataclass(slots=True)
class ProfiledFile:
    """An open file. `records` may be read once."""

    heading: Heading
    fields: dict[str, str]
    """The columns that are used, by field."""
    records: Iterator[FileRecord]

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
) -> Iterator[ProfiledFile]:
    """The file's records. Rows with a fault go into the report. `zone` is that of times without an offset, unless the
    profile has one. Raises UnreadableFile, also while the records are read."""
    zone = ZoneInfo(profile.time_zone) if profile.time_zone else zone
    with closing(_rows(path)) as rows:
        above = list(islice(rows, MOST_LINES_ABOVE))
        heading, columns = _find_heading(above, profile, record)
        readers = [
            _FieldReader(
                field.name,
                index,
                heading.names[index],
                _converter(field, profile.columns[field.name], zone),
            )
            for field, index in columns
        ]
        below = chain((row for row in above if row.line > heading.line), rows)
        yield ProfiledFile(
            heading,
            {reader.field: reader.column for reader in readers},
            _records(below, readers, profile.constants, report, progress),
        )


class Sample(NamedTuple):
    """The beginning of a file, to map its columns by hand."""

    heading: Heading
    rows: list[Row]


def read_sample(path: Path, *, limit: int = 5) -> Sample:
    """The columns' names, taken from the first row that is as wide as the table, and the first rows below it. Raises
    Raises UnreadableFile."""
    with closing(_rows(path)) as rows:
        above = list(islice(rows, MOST_LINES_ABOVE + limit))
    if not above:
        raise UnreadableFile(f"{path.name} is empty")
    widths = [sum(isinstance(cell, str) and cell != "" for cell in row.cells) for row in above[:MOST_LINES_ABOVE]]
    best = widths.index(max(widths))
    return Sample(_heading(above[best]), above[best + 1 : best + 1 + limit])


def cell_text(cell: Cell) -> str:
    """The cell as people read it. A number in a spreadsheet may be meant as a name: store 305."""
    if cell is None:
        return ""
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    return cell.isoformat(sep=" ") if isinstance(cell, datetime) else str(cell)


# --- Rows --------------------------------------------------------------------------------------------------------


def _rows(path: Path) -> Generator[Row]:
    return excel_rows(path) if is_excel_file(path) else _text_rows(path)


def _text_rows(path: Path) -> Generator[Row]:
    encoding = _encoding(path)
    try:
        with path.open(encoding=encoding, newline="") as file:
            beginning = file.read(8_192)
            file.seek(0)
            reader = csv.reader(file, delimiter=_delimiter(beginning))
            for cells in reader:
                texts: list[Cell] = [armed(cell.strip()) for cell in cells]
                if any(texts):
                    yield Row(reader.line_num, texts)
    except OSError as error:
        raise UnreadableFile(f"cannot read {path.name}: {error.strerror}") from None
    except UnicodeError:
        raise UnreadableFile(f"{path.name} is no text: save it as CSV UTF-8 or as .xlsx") from None
    except csv.Error as error:
        raise UnreadableFile(f"{path.name} is not a CSV file: {error}") from None


_MARKS = ((b"\xef\xbb\xbf", "utf-8-sig"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))


def _encoding(path: Path) -> str:
    """The encoding by the mark at the beginning; else UTF-8 if all of it is, else that of Windows in America.
    Raises UnreadableFile."""
    try:
        with path.open("rb") as file:
            beginning = file.read(4)
            for mark, encoding in _MARKS:
                if beginning.startswith(mark):
                    return encoding
            if b"\0" in beginning + file.read(4_096):
                raise UnreadableFile(f"{path.name} is no text: save it as CSV UTF-8 or as .xlsx")
        with path.open(encoding="utf-8") as text:
            while text.read(1 << 20):
                pass
    except UnicodeError:
        return "cp1252"
    except OSError as error:
        raise UnreadableFile(f"cannot read {path.name}: {error.strerror}") from None
    return "utf-8"


def _delimiter(beginning: str) -> str:
    """The sign that divides most lines into most cells."""
    lines = beginning.splitlines()[:MOST_LINES_ABOVE] or [""]
    counts = {sign: sorted(line.count(sign) for line in lines)[len(lines) // 2] for sign in ",;\t|"}
    return max(counts, key=lambda sign: (counts[sign], sign == ","))


# --- Heading -----------------------------------------------------------------------------------------------------


def _heading(row: Row) -> Heading:
    if len(row.cells) > MOST_COLUMNS:
        raise UnreadableFile(f"line {row.line} has {len(row.cells):,} columns: a file may have {MOST_COLUMNS}")
    names = [cell_text(cell)[:200] for cell in row.cells]
    plain = [plain_name(name) for name in names]
    numbered = [
        f"{name} ({plain[: index + 1].count(plain[index])})" if name and plain.count(plain[index]) > 1 else name
        for index, name in enumerate(names)
    ]
    return Heading(row.line, numbered)


def _find_heading(
    rows: Sequence[Row], profile: FileProfile, record: RecordFields
) -> tuple[Heading, list[tuple[RecordField, int]]]:
    """The first row that has all the columns that are needed."""
    best: tuple[int, Heading] | None = None
    for row in rows:
        heading = _heading(row)
        columns = _columns(heading, profile, record)
        if not _missing({field.name for field, _ in columns}, profile, record):
            return heading, columns
        if best is None or len(columns) > best[0]:
            best = len(columns), heading
    if best is None:
        raise UnreadableFile("the file is empty")
    heading = best[1]
    _refuse_ambiguous(heading, profile)
    found = {field.name for field, _ in _columns(heading, profile, record)}
    missing = " and ".join(
        " or ".join(
            " / ".join(repr(name) for name in profile.columns[field].names[:3])
            if field in profile.columns
            else f"for the {_label(field, record)}"
            for field in group
        )
        for group in _missing(found, profile, record)
    )
    there = ", ".join(filter(None, heading.names[:40])) or "none"
    raise UnreadableFile(
        f"the profile {profile.name!r} needs a column {missing}; line {heading.line} names: {there}. Choose another "
        "profile, or map the columns and keep them as a profile"
    )


def _label(name: str, record: RecordFields) -> str:
    field = record.field(name)
    return field.label if field is not None else name


def _columns(heading: Heading, profile: FileProfile, record: RecordFields) -> list[tuple[RecordField, int]]:
    by_name = {plain_name(name): index for index, name in reversed(list(enumerate(heading.names))) if name}
    found = []
    for field in record.fields:
        column = profile.columns.get(field.name)
        for name in column.names if column is not None else ():
            if plain_name(name) in by_name:
                found.append((field, by_name[plain_name(name)]))
                break
    return found


def _missing(found: set[str], profile: FileProfile, record: RecordFields) -> list[tuple[str, ...]]:
    there = found | set(profile.constants)
    return [group for group in record.required if not there.intersection(group)]


def _refuse_ambiguous(heading: Heading, profile: FileProfile) -> None:
    """A column that the profile needs is there twice."""
    numbered = {plain_name(name) for name in heading.names}
    for column in profile.columns.values():
        for name in column.names:
            if plain_name(f"{name} (2)") in numbered:
                raise UnreadableFile(
                    f"line {heading.line} has several columns {name!r}: map one of them as {name + ' (1)'!r} or "
                    f"{name + ' (2)'!r}"
                )


# --- Cells -------------------------------------------------------------------------------------------------------


class _FieldReader(NamedTuple):
    field: str
    place: int
    column: str
    convert: Callable[[Cell], Any]
    """Raises ValueError, with a text that follows the cell."""


def _records(
    rows: Iterator[Row],
    readers: Sequence[_FieldReader],
    constants: dict[str, str],
    report: ImportReport,
    progress: Progress,
) -> Iterator[FileRecord]:
    read = 0
    for row in rows:
        read += 1
        if read > MOST_FILE_RECORDS:
            raise UnreadableFile(f"the file has more than {MOST_FILE_RECORDS:,} rows: divide it")
        progress(1)
        values: dict[str, Any] = dict(constants)
        faults = []
        cells = row.cells
        for field, place, column, convert in readers:
            cell = cells[place] if place < len(cells) else None
            if cell is None or cell == "":
                values.setdefault(field, None)
                continue
            try:
                values[field] = convert(cell)
            except ValueError as error:
                faults.append(f"{column}: {cell_text(cell)[:60]!r} {error}")
        if faults:
            report.reject(row.line, "; ".join(faults))
        else:
            yield FileRecord(row.line, values)


def _converter(field: RecordField, column: Column, zone: ZoneInfo) -> Callable[[Cell], Any]:
    sign = -1.0 if column.is_negated else 1.0
    if field.kind in ("text", "code"):
        return _text
    if field.kind == "amount":
        scale = sign / 100 if column.unit == "cents" else sign
        return lambda cell: round(_number(cell) * scale, 6)
    if field.kind == "number":
        return lambda cell: _number(cell) * sign
    if field.kind == "day":
        return lambda cell: _local_time(cell, column.date_format).date()
    return lambda cell: _moment(cell, column.date_format, zone)


def _text(cell: Cell) -> str:
    text = cell_text(cell)
    if len(text) > MOST_CELL_CHARACTERS:
        raise ValueError(f"has more than {MOST_CELL_CHARACTERS} characters")
    if "\0" in text:
        raise ValueError("has a NUL")
    return text


_AMOUNT = re.compile(r"\$?(\d{1,3}(?:,\d{3})+(?:\.\d*)?|\d+\.?\d*|\.\d+)", re.ASCII)


def _number(cell: Cell) -> float:
    """A number as spreadsheets and reports write it: `$1,234.50`, `(12.00)`, `12.00-`."""
    if isinstance(cell, (int, float)) and not isinstance(cell, bool):
        if not math.isfinite(cell):
            raise ValueError("is no number")
        return float(cell)
    text = cell_text(cell).replace(" ", "").replace("\N{NO-BREAK SPACE}", "")
    negative = False
    if text.startswith("(") and text.endswith(")"):
        negative, text = True, text[1:-1]
    elif text[:1] in "+-":
        negative, text = text[0] == "-", text[1:]
    elif text.endswith("-"):
        negative, text = True, text[:-1]
    written = _AMOUNT.fullmatch(text)
    if written is None or len(text) > 40:
        raise ValueError("is no number")
    number = float(written[1].replace(",", ""))
    return -number if negative else number


_FORMATS = (
    "%m/%d/%Y",
    "%m/%d/%y",
    "%Y%m%d",
    "%m-%d-%Y",
    "%m/%d/%Y %H:%M",
    "%m/%d/%Y %H:%M:%S",
    "%m/%d/%Y %I:%M %p",
    "%m/%d/%Y %I:%M:%S %p",
    "%m/%d/%y %H:%M",
    "%d-%b-%Y",
    "%b %d, %Y",
)


def _local_time(cell: Cell, date_format: str) -> datetime:
    """The time as it is written, with its offset if it has one."""
    if isinstance(cell, datetime):
        return (cell + timedelta(milliseconds=500)).replace(microsecond=0)
    if isinstance(cell, float) and cell.is_integer():
        return _parsed(str(int(cell)), date_format)
    return _parsed(cell_text(cell), date_format)


@lru_cache(maxsize=10_000)  # a file has the same few days in all its rows
def _parsed(text: str, date_format: str) -> datetime:
    if date_format:
        try:
            return datetime.strptime(text, date_format)
        except (ValueError, re.error):
            raise ValueError(f"is no date like {date_format}") from None
    if not (text.isdigit() and len(text) != 8):
        try:
            return datetime.fromisoformat(text)
        except ValueError:
            pass
        for one in _FORMATS:
            try:
                return datetime.strptime(text, one)
            except ValueError:
                continue
    raise ValueError("is no date: write it as 11/24/2026 or 2026-11-24")


def _moment(cell: Cell, date_format: str, zone: ZoneInfo) -> datetime:
    try:
        local = _local_time(cell, date_format)
        moment = (local if local.tzinfo is not None else local.replace(tzinfo=zone)).astimezone(UTC)
    except OverflowError:
        raise ValueError("is no date that can be") from None
    if not date(1990, 1, 1) <= moment.date() <= date(2100, 1, 1):
        raise ValueError("lies too far away")
    return moment
