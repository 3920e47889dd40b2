"""Files of routes: JSON lines, CSV and Excel. Each route in a file becomes the body of a push, checked as the ingress
does. A route with a fault costs only itself.

A line of a `.jsonl` file is a body. A table has one row for a route, with columns such as `stop1_name`, or one row for
each stop, with columns such as `stop_name`. The rows of one route name its `externalId`, or leave it empty after the
first one."""

from collections import deque
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Literal
from zoneinfo import ZoneInfo

import msgspec

from domain.contract.checking import Invalid, read_body
from domain.contract.shapes import MAX_BODY_BYTES, RouteInput
from domain.files.csvfiles import UnreadableFile
from domain.files.day_order import DayOrder
from domain.files.reading_ends import go_on
from domain.files.route_footers import WithoutFooters
from domain.files.route_layout import MOST_NAME_CHARACTERS, TIME_FIELDS, Layout, is_known_column, layout_of
from domain.files.route_rows import FileRoute
from domain.files.route_tables import TableEntry, divided_loads, routes_of_rows, routes_of_stops, survey_of
from domain.files.route_times import plain_text
from domain.files.spreadsheets import Row, read_table
from domain.files.text_rows import RefusedRow


@dataclass(slots=True)
class RouteFile:
    """An open file of routes. `routes` may be read once."""

    routes: Iterator[FileRoute]
    layout: Layout | None = None
    """The columns; None for JSON lines, which have none."""
    passed_over: list[int] = field(default_factory=list)
    """The lines of totals and the like, so far."""


FileFormat = Literal["jsonl", "csv", "excel"]
_FORMATS: dict[str, FileFormat] = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".csv": "csv",
    ".xlsx": "excel",
    ".xlsm": "excel",
}


def format_of(name: str) -> FileFormat:
    """The format by the file's name. Raises UnreadableFile for a name with another ending."""
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
    fields: Sequence[str] | None = None,
    kind: FileFormat | None = None,
) -> Iterator[RouteFile]:
    """The file's routes, in its order. `mapping` has the column of a field under another name; `fields`, a text for
    each column, leave nothing to names. `zone` is that of times without an offset in a table. The format is that of the
    path unless given. Raises UnreadableFile, also while the routes are read, if the file is refused as a whole."""
    kind = kind or format_of(path.name)
    if kind == "jsonl":
        if mapping:
            raise UnreadableFile("JSON lines have no columns: a mapping is for CSV and Excel files")
        with closing(_json_routes(path)) as routes:
            yield RouteFile(_without_repeats(routes))
        return
    with ExitStack() as life:
        table = _Table(path, mapping, kind == "excel", life)
        layout = layout_of(table.names, mapping, fields)
        without = WithoutFooters(layout, table.names)
        yield RouteFile(_table_routes(table, layout, zone, without), layout, without.lines)


def read_columns(path: Path, kind: FileFormat) -> list[str]:
    """The names of a table's columns; none for JSON lines. Raises UnreadableFile if the file cannot be read."""
    if kind == "jsonl":
        return []
    with ExitStack() as life:
        return _Table(path, {}, kind == "excel", life).names


@contextmanager
def _spool() -> Iterator[IO[bytes]]:
    with TemporaryFile() as file:
        yield file


class _Table:
    """An open table. Excel's rows are stored at the first reading, because Excel takes long."""

    def __init__(self, path: Path, mapping: Mapping[str, str], is_excel: bool, life: ExitStack) -> None:
        self._path, self._is_excel, self._life = path, is_excel, life
        self._is_known = is_known_column(mapping)
        self._stored = life.enter_context(_spool()) if is_excel else None
        self._refused: deque[RefusedRow] = deque()
        self._rows = self._open()
        self.names = [plain_text(cell)[:MOST_NAME_CHARACTERS] for cell in next(self._rows).cells]

    def _open(self) -> Generator[Row]:
        rows = read_table(
            self._path, self._refused.append, self._is_known, is_excel=self._is_excel, stored=self._stored
        )
        return self._life.enter_context(closing(rows))

    def entries(self) -> Iterator[TableEntry]:
        """All rows below the names, and the unreadable ones, in the order of the file."""
        for row in self._rows:
            while self._refused:
                yield self._refused.popleft()
            yield row
        while self._refused:
            yield self._refused.popleft()

    def again(self) -> None:
        """Begin again, once all entries have been read."""
        self._rows.close()
        self._refused.clear()
        self._rows = self._open()
        next(self._rows)


_DATED_ROWS = 100
"""The first rows, by which a file with the day before the month is recognized."""


def _dated(table: _Table, layout: Layout) -> Iterator[TableEntry]:
    """The entries. Raises UnreadableFile if they have the day before the month: the first ones, or others if the first
    leave it open."""
    times = {index: layout.name_of(place) for place, index in layout.columns.items() if place.field in TIME_FIELDS}
    orders = {index: DayOrder(name) for index, name in times.items()}
    entries = table.entries()
    first = list(islice(entries, _DATED_ROWS))
    _refuse_days_first(first, orders)
    is_open = {index: order for index, order in orders.items() if order.is_open}
    if len(first) < _DATED_ROWS or not is_open:
        return chain(first, entries)
    _refuse_days_first(entries, is_open)
    table.again()
    return table.entries()


def _refuse_days_first(entries: Iterable[TableEntry], orders: Mapping[int, DayOrder]) -> None:
    for row in entries:
        for index, order in orders.items() if isinstance(row, Row) else ():
            if index < len(row.cells):
                order.note(row.cells[index])
    for order in orders.values():
        order.refuse()


def _table_routes(table: _Table, layout: Layout, zone: ZoneInfo | None, without: WithoutFooters) -> Iterator[FileRoute]:
    entries = without.footers(_dated(table, layout))
    if not layout.is_row_a_stop:
        divided = set[int]()
        if layout.pickups:
            divided = divided_loads(entries, layout)
            table.again()
            entries = without.footers(table.entries())
        yield from _without_repeats(routes_of_rows(entries, layout, zone, divided))
        return
    survey = survey_of(entries, layout)
    table.again()
    yield from routes_of_stops(without.footers(table.entries()), layout, zone, survey)


# --- JSON lines ------------------------------------------------------------------------------------------------


def _json_routes(path: Path) -> Generator[FileRoute]:
    try:
        with path.open("rb") as file:
            number = 0
            while line := file.readline(MAX_BODY_BYTES + 1):
                number += 1
                if number % 100 == 0:
                    go_on()
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


def _without_repeats(routes: Iterable[FileRoute]) -> Iterator[FileRoute]:
    """Refuses a route whose `externalId` an earlier one has: two pushes of one load at a time would come in any order.
    It keeps a hash of each id in place of the text; even among a million routes no two are likely to be equal."""
    first: dict[int, int] = {}
    for one in routes:
        if one.route is not None and first.setdefault(hash(one.external_id), one.line) != one.line:
            line = first[hash(one.external_id)]
            yield one._replace(route=None, fault=f"externalId: the route is already on line {line}")
        else:
            yield one
