"""Files of routes: JSON lines, CSV and Excel. Each route in a file becomes the body of a push, checked as the ingress
does. A route with a fault costs only itself.

A line of a `.jsonl` file is a body. A table has one row for a route, with columns such as `stop1_name`, or one row for
each stop, with columns such as `stop_name`. The rows of one route then follow one another and name its `externalId`.
"""

import re
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal, NamedTuple
from zoneinfo import ZoneInfo

import msgspec

from domain.contract.checking import Invalid, read_body
from domain.contract.csvfiles import ImportReport, UnreadableFile
from domain.contract.shapes import MAX_BODY_BYTES, RouteInput
from domain.contract.spreadsheets import Cell, Row, read_table

MOST_STOPS_READ = 99
"""More stops than a route may have, so that the check tells of too many."""

ROUTE_FIELDS = {
    "externalId": "externalId",
    "reference": "reference",
    "unitNumber": "vehicle.unitNumber",
    "vin": "vehicle.vin",
    "driverName": "driver.name",
    "driverExternalId": "driver.externalId",
    "scheduledStart": "scheduledStart",
}
"""The fields of a table that belong to a route, and their paths in the body of a push."""

STOP_FIELDS = {
    "name": "name",
    "address": "address",
    "latitude": "latitude",
    "longitude": "longitude",
    "windowStart": "arrivalWindow.start",
    "windowEnd": "arrivalWindow.end",
}
"""The fields of a stop: `stop_name` or `stop1_name`, and so on."""

_NUMBERS = frozenset(("latitude", "longitude"))
_TIMES = frozenset(("scheduledStart", "windowStart", "windowEnd"))
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)", re.ASCII)
_LOCAL_TIME = re.compile(r"(\d{4}-\d{2}-\d{2})[Tt ](\d{2}:\d{2})(:\d{2})?(\.\d+)?", re.ASCII)
_STOP = re.compile(r"stop(\d{0,2})(\w+)", re.ASCII)


class TableField(NamedTuple):
    """A field of the table. `stop` is the stop's number, 0 for that of a row, None for a field of the route."""

    stop: int | None
    field: str

    def __str__(self) -> str:
        return self.field if self.stop is None else f"stop{self.stop or ''}_{self.field}"


class FileRoute(NamedTuple):
    """A route of a file: the body to push, or the fault of it."""

    line: int
    external_id: str
    """Empty when it could not be read."""
    body: dict[str, Any] | None
    route: RouteInput | None
    """The body as its shape, when it has no fault."""
    fault: str = ""


class Layout(NamedTuple):
    """The columns of a table: which are fields of routes, and which are not used."""

    columns: dict[TableField, int]
    names: list[str]
    unused: list[str]

    @property
    def is_row_a_stop(self) -> bool:
        return any(place.stop == 0 for place in self.columns)

    def name_of(self, place: TableField) -> str:
        return self.names[self.columns[place]]


@dataclass(slots=True)
class RouteFile:
    """An open file of routes. `routes` may be read once."""

    routes: Iterator[FileRoute]
    layout: Layout | None = None
    """None: JSON lines have no columns."""


FileFormat = Literal["jsonl", "csv", "excel"]
_FORMATS: dict[str, FileFormat] = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".csv": "csv",
    ".xlsx": "excel",
    ".xlsm": "excel",
}


def format_of(name: str) -> FileFormat:
    """Raises UnreadableFile for a name that ends otherwise."""
    found = _FORMATS.get(Path(name).suffix.lower())
    if found is None:
        raise UnreadableFile(f"{name}: the file must be .jsonl, .csv or .xlsx")
    return found


@contextmanager
def open_route_file(
    path: Path,
    mapping: Mapping[str, str],
    zone: ZoneInfo | None,
    *,
    names: Sequence[str] | None = None,
    kind: FileFormat | None = None,
) -> Iterator[RouteFile]:
    """The file's routes, in its order. `mapping` names the column of a field where it has another name; `names` stand
    in place of all names of columns. `zone` is that of times without an offset in a table. The format is that of the
    path unless given. Raises UnreadableFile, also while the routes are read."""
    kind = kind or format_of(path.name)
    if kind == "jsonl":
        if mapping:
            raise UnreadableFile("JSON lines have no columns: a mapping is for CSV and Excel files")
        with closing(_json_routes(path)) as routes:
            yield RouteFile(_without_repeats(routes))
        return
    report = ImportReport()
    mapped = {_plain(column) for column in mapping.values()}

    def is_known(name: str) -> bool:
        return _plain(name) in mapped or _is_field(name)

    with closing(read_table(path, report, is_known, is_excel=kind == "excel")) as rows:
        there = [_text(cell) for cell in next(rows).cells]
        layout = layout_of(there if names is None else list(names), mapping)
        yield RouteFile(_without_repeats(_table_routes(rows, layout, zone, report)), layout)


def read_columns(path: Path, kind: FileFormat) -> list[str]:
    """The names of a table's columns; none for JSON lines. Raises UnreadableFile."""
    if kind == "jsonl":
        return []
    with closing(read_table(path, ImportReport(), _is_field, is_excel=kind == "excel")) as rows:
        return [_text(cell) for cell in next(rows).cells]


# --- JSON lines ------------------------------------------------------------------------------------------------


def _json_routes(path: Path) -> Generator[FileRoute]:
    try:
        with path.open("rb") as file:
            number = 0
            while line := file.readline(MAX_BODY_BYTES + 1):
                number += 1
                if len(line) > MAX_BODY_BYTES:
                    while line and not line.endswith(b"\n"):
                        line = file.readline(MAX_BODY_BYTES)
                    yield FileRoute(number, "", None, None, "The line is longer than 1 MiB, the most of a push")
                elif text := line.removeprefix(b"\xef\xbb\xbf").strip():
                    yield _json_route(number, text)
    except OSError as error:
        raise UnreadableFile(f"cannot read {path}: {error.strerror}") from None


def _json_route(number: int, text: bytes) -> FileRoute:
    external_id, body = "", None
    try:
        body = msgspec.json.decode(text)
        given = body.get("externalId") if isinstance(body, dict) else None
        external_id = given if isinstance(given, str) else ""
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        pass  # the check says what is wrong
    try:
        return FileRoute(number, external_id, body, read_body(text, RouteInput))
    except Invalid as invalid:
        return FileRoute(number, external_id, body if isinstance(body, dict) else None, None, str(invalid))


# --- Tables ----------------------------------------------------------------------------------------------------


def layout_of(names: list[str], mapping: Mapping[str, str]) -> Layout:
    """The fields that these columns are: by `mapping`, else by their names. Capitals, spaces and signs in names do not
    count. Raises UnreadableFile when a needed column is missing, or one is there twice."""
    columns: dict[TableField, int] = {}
    by_name = {_plain(name): index for index, name in reversed(list(enumerate(names)))}
    for field_name, column in mapping.items():
        place = _place_of(field_name)
        if place is None:
            raise UnreadableFile(f"there is no field {field_name!r}: {_fields_in_words()}")
        if _plain(column) not in by_name:
            raise UnreadableFile(
                f"the file has no column {column!r}; its columns are: {', '.join(filter(None, names))}"
            )
        columns[place] = by_name[_plain(column)]
    mapped, places = set(columns.values()), set(columns)
    for index, name in enumerate(names):
        place = _place_of(name)
        if index in mapped or place is None or place in places:
            continue
        if place in columns:
            raise UnreadableFile(f"the columns {names[columns[place]]!r} and {name!r} are both the field {place}")
        columns[place] = index
    used = set(columns.values())
    layout = Layout(columns, names, [name for index, name in enumerate(names) if name and index not in used])
    _check_layout(layout)
    return layout


def _plain(name: str) -> str:
    return re.sub(r"[\W_]", "", name.casefold())


_PLAIN_ROUTE_FIELDS = {_plain(name): name for name in ROUTE_FIELDS}
_PLAIN_STOP_FIELDS = {_plain(name): name for name in STOP_FIELDS}


def _place_of(name: str) -> TableField | None:
    plain = _plain(name)
    if plain in _PLAIN_ROUTE_FIELDS:
        return TableField(None, _PLAIN_ROUTE_FIELDS[plain])
    stop = _STOP.fullmatch(plain)
    if stop is None or stop[2] not in _PLAIN_STOP_FIELDS or (stop[1] and int(stop[1]) == 0):
        return None
    return TableField(int(stop[1] or 0), _PLAIN_STOP_FIELDS[stop[2]])


def field_named(name: str) -> str:
    """The field that a column of this name is; empty when it is none."""
    place = _place_of(name)
    return str(place) if place is not None else ""


def _is_field(name: str) -> bool:
    return _place_of(name) is not None


def _fields_in_words() -> str:
    stops = ", ".join(f"stop1_{name}" for name in STOP_FIELDS)
    return (
        f"the fields are {', '.join(ROUTE_FIELDS)}, {stops} and so on, or stop_name in a file with a row for each stop"
    )


def _check_layout(layout: Layout) -> None:
    numbers = {place.stop for place in layout.columns if place.stop is not None}
    if 0 in numbers and len(numbers) > 1:
        raise UnreadableFile("the file has columns such as stop_name and such as stop1_name: leave out one kind")
    missing = [name for name in ("externalId", "scheduledStart") if TableField(None, name) not in layout.columns]
    for one, other in (("unitNumber", "vin"), ("driverName", "driverExternalId")):
        if not {TableField(None, one), TableField(None, other)} & layout.columns.keys():
            missing.append(f"{one} (or {other})")
    for number in (0,) if 0 in numbers else (1, 2):
        needed = [TableField(number, name) for name in ("name", "latitude", "longitude")]
        missing += [str(place) for place in needed if place not in layout.columns]
    if missing:
        there = ", ".join(filter(None, layout.names)) or "none"
        raise UnreadableFile(
            f"the file lacks columns for {', '.join(missing)}; its columns are: {there}. Rename them, or map "
            "each field to its column"
        )


@dataclass(slots=True)
class _Draft:
    """The body of a route while its rows are read."""

    line: int
    external_id: str
    body: dict[str, Any] = field(default_factory=lambda: {"stops": []})
    sources: dict[str, str] = field(default_factory=dict)
    """The columns that paths of the body come from, for people."""
    faults: dict[str, str] = field(default_factory=dict)
    """Faults that only the table can have, by path."""


def _table_routes(
    rows: Iterable[Row], layout: Layout, zone: ZoneInfo | None, report: ImportReport
) -> Iterator[FileRoute]:
    read = _rows_of_stops if layout.is_row_a_stop else _rows_of_routes
    for draft in read(rows, layout, zone):
        yield from _refused(report)
        yield _finished(draft)
    yield from _refused(report)


def _refused(report: ImportReport) -> Iterator[FileRoute]:
    """The rows that could not be read."""
    while report.rejected:
        line, message = report.rejected.pop(0)
        yield FileRoute(line, "", None, None, message)


def _rows_of_routes(rows: Iterable[Row], layout: Layout, zone: ZoneInfo | None) -> Iterator[_Draft]:
    numbers = sorted({place.stop for place in layout.columns if place.stop})
    for row in rows:
        draft = _begin(row, layout, zone)
        for number in numbers:
            _add_stop(draft, row, layout, number, zone)
        yield draft


def _rows_of_stops(rows: Iterable[Row], layout: Layout, zone: ZoneInfo | None) -> Iterator[_Draft]:
    """A row without an `externalId` belongs to the route of the row before it."""
    draft: _Draft | None = None
    for row in rows:
        external_id = _text(_cell(row, layout, TableField(None, "externalId")))
        if draft is None or (external_id and external_id != draft.external_id):
            if draft is not None:
                yield draft
            draft = _begin(row, layout, zone)
        else:
            _compare(draft, row, layout, zone)
        if len(draft.body["stops"]) < MOST_STOPS_READ:
            _add_stop(draft, row, layout, 0, zone)
    if draft is not None:
        yield draft


def _begin(row: Row, layout: Layout, zone: ZoneInfo | None) -> _Draft:
    draft = _Draft(row.line, _text(_cell(row, layout, TableField(None, "externalId"))))
    for name, path in ROUTE_FIELDS.items():
        if TableField(None, name) in layout.columns:
            draft.sources.setdefault(path.partition(".")[0], layout.name_of(TableField(None, name)))
        _set(draft, draft.body, path, path, row, layout, TableField(None, name), zone)
    return draft


def _compare(draft: _Draft, row: Row, layout: Layout, zone: ZoneInfo | None) -> None:
    """A further row of a route may leave its fields empty, but not say something else."""
    other = _begin(row, layout, zone)
    for path in ROUTE_FIELDS.values():
        value = _at(other.body, path)
        if value is None:
            continue
        if _at(draft.body, path) is None:
            _put(draft.body, path, value)
            draft.sources[path] = other.sources[path]
        elif _at(draft.body, path) != value:
            draft.faults[path] = f"line {row.line} says something else than line {draft.line} of the same route"


def _add_stop(draft: _Draft, row: Row, layout: Layout, number: int, zone: ZoneInfo | None) -> None:
    """A stop whose cells are all empty is none."""
    stop: dict[str, Any] = {}
    at = f"stops[{len(draft.body['stops'])}]"
    for name, path in STOP_FIELDS.items():
        _set(draft, stop, path, f"{at}.{path}", row, layout, TableField(number, name), zone)
    if stop:
        draft.body["stops"].append(stop)


def _set(
    draft: _Draft,
    part: dict[str, Any],
    path: str,
    whole_path: str,
    row: Row,
    layout: Layout,
    place: TableField,
    zone: ZoneInfo | None,
) -> None:
    """Puts a cell, if it has something, into its part of the body."""
    if place not in layout.columns:
        return
    where = f" (line {row.line})" if row.line != draft.line else ""
    draft.sources[whole_path] = f"{layout.name_of(place)}{where}"
    cell = _cell(row, layout, place)
    if cell is None or cell == "":
        return
    if place.field in _TIMES:
        value, fault = _time(cell, zone)
        if fault:
            draft.faults[whole_path] = fault
        _put(part, path, value)
    elif place.field in _NUMBERS:
        _put(part, path, _number(cell))
    else:
        _put(part, path, _text(cell))


def _cell(row: Row, layout: Layout, place: TableField) -> Cell:
    index = layout.columns.get(place)
    return row.cells[index] if index is not None and index < len(row.cells) else None


def _put(part: dict[str, Any], path: str, value: object) -> None:
    *way, last = path.split(".")
    for name in way:
        part = part.setdefault(name, {})
    part[last] = value


def _at(part: dict[str, Any], path: str) -> Any:
    *way, last = path.split(".")
    for name in way:
        part = part.get(name, {})
    return part.get(last)


def _text(cell: Cell) -> str:
    """A number in a spreadsheet may be meant as a name: unit number 101."""
    if cell is None:
        return ""
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    return cell.isoformat() if isinstance(cell, datetime) else str(cell)


def _number(cell: Cell) -> object:
    if isinstance(cell, str) and _NUMBER.fullmatch(cell):
        return float(cell)
    return cell if isinstance(cell, (int, float)) and not isinstance(cell, bool) else _text(cell)


def _time(cell: Cell, zone: ZoneInfo | None) -> tuple[str, str]:
    """The time as the API takes it, and what is wrong with it, if only the table can know. The check finds the rest."""
    if isinstance(cell, datetime):
        local = (cell + timedelta(milliseconds=500)).replace(microsecond=0)
    else:
        text = _text(cell)
        written = _LOCAL_TIME.fullmatch(text)
        if written is None:
            return text, ""
        try:
            local = datetime.fromisoformat(f"{written[1]}T{written[2]}{written[3] or ':00'}")
        except ValueError:
            return text, "There is no such date and time"
    if zone is None:
        return local.isoformat(), "The time has no UTC offset: write it with one, or give the time zone"
    return _in_zone(local, zone)


def _in_zone(local: datetime, zone: ZoneInfo) -> tuple[str, str]:
    """The local time with its offset. When clocks go back a time comes twice: the first one is meant."""
    try:
        moment = local.replace(tzinfo=zone)
        if moment.astimezone(UTC).astimezone(zone).replace(tzinfo=None) != local:
            return local.isoformat(), f"There is no such time in {zone}: clocks went forward"
        return moment.isoformat(), ""
    except OverflowError:
        return local.isoformat(), "There is no such date and time"


def _finished(draft: _Draft) -> FileRoute:
    """Checks the body. Faults are named by the columns where they are."""
    faults, route = dict(draft.faults), None
    try:
        route = read_body(msgspec.json.encode(draft.body), RouteInput)
    except Invalid as invalid:
        for fault in invalid.faults:
            faults.setdefault(fault.field, fault.message)
    if faults:
        named = [f"{draft.sources.get(path, path)}: {message}" for path, message in faults.items()]
        return FileRoute(draft.line, draft.external_id, draft.body, None, "; ".join(named))
    return FileRoute(draft.line, draft.external_id, draft.body, route)


def _without_repeats(routes: Iterable[FileRoute]) -> Iterator[FileRoute]:
    """Refuses a route whose `externalId` an earlier one has: two pushes of one load at a time would come in any order.

    It keeps a hash of each, not the text: of a million routes no two are likely to have the same one."""
    first: dict[int, int] = {}
    for one in routes:
        if one.route is not None and first.setdefault(hash(one.external_id), one.line) != one.line:
            line = first[hash(one.external_id)]
            yield one._replace(route=None, fault=f"externalId: the route is already on line {line}")
        else:
            yield one
