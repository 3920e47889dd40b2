"""Makes a route from one or several rows of a table: the body of a push, or its faults, named by the columns."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf, isfinite
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import msgspec

from domain.contract.checking import Invalid, read_body
from domain.contract.shapes import RouteInput
from domain.contract.wrong_places import wrong_place
from domain.files.route_doubts import missing_number
from domain.files.route_layout import (
    EXTERNAL_ID,
    ROUTE_FIELDS,
    SEQUENCE,
    STOP_FIELDS,
    TIME_FIELDS,
    TIME_ZONE,
    Layout,
    TableField,
)
from domain.files.route_names import STOP_NUMBER
from domain.files.route_times import at_clock, cell_time, plain_text, zone_named
from domain.files.spreadsheets import Cell, Row, number_as_name, spreadsheet_fault

MOST_STOPS_READ = 99
"""More stops than a route may have, so that the check reports too many."""
MOST_FAULTS_TOLD = 10

_NEVER = ("1900-01-01T", "1950-01-01T", "2049-12-31T")
"""Times that databases have for none: TMW writes the last two as both ends of a window without an appointment."""
_NUMBERS = frozenset(("latitude", "longitude"))
_NUMBERS_OF_THINGS = frozenset(("externalId", "reference", "unitNumber", "vin", "driverExternalId"))
"""Fields in which a number is a name, so that one which a spreadsheet has rounded may be another thing's."""
_NUMBER = re.compile(r"[+-]?(\d+(?:\.\d*)?|\.\d+)", re.ASCII)


class FileRoute(NamedTuple):
    """A route of a file: the body to push, or its fault."""

    line: int
    external_id: str
    """The id; empty if it could not be read."""
    body: dict[str, Any] | None
    route: RouteInput | None
    """The checked body; None if it has a fault."""
    fault: str = ""


@dataclass(slots=True)
class RouteDraft:
    """The body of a route while its rows are read."""

    line: int
    external_id: str
    zone: ZoneInfo | None
    """The zone of its times without an offset."""
    first_cells: tuple[Cell, ...] = ()
    """The cells of its first row about the route."""
    body: dict[str, Any] = field(default_factory=lambda: {"stops": []})
    rows: list[Row] = field(default_factory=list)
    """Its rows with stops."""
    sources: dict[str, str] = field(default_factory=dict)
    """The columns of the body's paths, for people."""
    faults: dict[str, str] = field(default_factory=dict)
    """Faults that only the table shows, by path."""
    statuses: dict[str, tuple[int, str]] = field(default_factory=dict)
    """The words of its rows for how far the load is, each with its first line and column."""


def begin_route(row: Row, layout: Layout, zone: ZoneInfo | None) -> RouteDraft:
    draft = RouteDraft(row.line, row_id(row, layout), zone)
    draft.first_cells = _route_cells(row, layout)
    draft.zone = _row_zone(draft, row, layout)
    for name, path in ROUTE_FIELDS.items():
        if TableField(None, name) in layout.columns:
            draft.sources.setdefault(path.partition(".")[0], layout.name_of(TableField(None, name)))
        _set(draft, draft.body, path, path, row, layout, TableField(None, name), draft.zone)
    _see_statuses(draft, row, layout)
    return draft


_CANCELED = re.compile(
    r".*\b(?:cancel+(?:ed|ation)?|void(?:ed)?|tonu|declined|rejected|deleted)\b.*|\s*(?:can|ico|v)\s*",
    re.IGNORECASE | re.DOTALL,
)
"""TONU: truck ordered, not used. CAN and ICO are TMW's codes of canceled orders, and V is McLeod's."""


_FINISHED = re.compile(
    r"\s*(?:(?:delivered|invoiced|billed|(?:partially[\s_]+)?paid|pod[\s_]+(?:ready|received))(?:[\W_].*)?"
    r"|completed?|finished|closed|cmp|d)\s*",
    re.IGNORECASE | re.DOTALL,
)
"""CMP is TMW's code, D is McLeod's. `Loading completed` ends no load."""


def _see_statuses(draft: RouteDraft, row: Row, layout: Layout) -> None:
    for index in layout.statuses:
        name, status = layout.names[index], plain_text(row.cells[index] if index < len(row.cells) else None)
        if status.strip() or "stop" in name.casefold():  # nobody has been yet at a stop without a status
            draft.statuses.setdefault(status, (row.line, name))


def _find_status_fault(draft: RouteDraft) -> None:
    """A load is canceled if one of its statuses says so, and finished if all do: the first stops of a load under way
    are completed."""
    canceled = [one for one in draft.statuses if _CANCELED.fullmatch(one)]
    finished = list(draft.statuses) if all(map(_FINISHED.fullmatch, draft.statuses)) else []
    for status in (canceled or finished)[:1]:
        line, draft.sources["status"] = draft.statuses[status]
        ended = "canceled" if canceled else "finished"
        draft.faults["status"] = f"line {line} says {status[:60]!r}: a {ended} load is not imported"


_START = TableField(None, "scheduledStart")
_ROUTE_PLACES = [TableField(None, name) for name in (*ROUTE_FIELDS, TIME_ZONE)]


def _route_cells(row: Row, layout: Layout) -> tuple[Cell, ...]:
    return *[_cell(row, layout, place) for place in _ROUTE_PLACES], _clock(row, layout, _START)


def row_id(row: Row, layout: Layout) -> str:
    """The `externalId` in the row; empty if it has none."""
    return number_as_name(plain_text(_cell(row, layout, EXTERNAL_ID)))


def compare_route(draft: RouteDraft, row: Row, layout: Layout) -> None:
    """Checks a further row of a route, which may leave fields empty but not contradict the first."""
    _see_statuses(draft, row, layout)
    if all(
        cell is None or cell == "" or cell == first
        for cell, first in zip(_route_cells(row, layout), draft.first_cells, strict=True)
    ):
        return
    other = begin_route(row, layout, draft.zone)
    for path in ROUTE_FIELDS.values():
        if path == "scheduledStart" and layout.is_start_of_stops:
            continue
        value = _at(other.body, path)
        if value is None:
            continue
        if _at(draft.body, path) is None:
            _put(draft.body, path, value)
            draft.sources[path] = other.sources[path]
        elif _at(draft.body, path) != value:
            draft.faults[path] = f"line {row.line} says something else than line {draft.line} of the same route"
            if path == _START.field:
                draft.faults[path] += "; if it is the time of each stop, map stop_windowStart to this column, too"


def add_row(draft: RouteDraft, row: Row) -> None:
    """Keeps a row with a stop."""
    if len(draft.rows) < MOST_STOPS_READ:
        draft.rows.append(row)


def add_stops(draft: RouteDraft, layout: Layout, lowest: float = 1) -> None:
    """Adds the stops of the kept rows, in their sequence if a column has it. `lowest` is the lowest number of a stop in
    the file."""
    place = _ordering(draft.rows, layout)
    if place is not None:
        draft.rows.sort(key=lambda row: _sequence(draft, row, layout, place))
        numbers = [_sequence(draft, row, layout, place) for row in draft.rows]
        if len(set(numbers)) < len(numbers):
            draft.faults.setdefault(SEQUENCE, "two stops of the route have the same number")
        elif (missing := missing_number(numbers, lowest)) is not None:
            draft.faults.setdefault(SEQUENCE, f"the route has no stop number {missing}")
    if layout.is_start_of_stops:
        _start_at_first_stop(draft, layout)
    for row in draft.rows:
        add_stop(draft, row, layout, 0)


def _ordering(rows: Sequence[Row], layout: Layout) -> TableField | None:
    """The field that orders the stops of the rows. `Stop #` does if it counts from 1; else it may number stores."""
    sure, perhaps = TableField(0, SEQUENCE), TableField(0, STOP_NUMBER)
    if sure in layout.columns or perhaps not in layout.columns:
        return sure if sure in layout.columns else None
    numbers = [number_of_stop(row, layout, perhaps) for row in rows]
    counts = all(number is not None and number in range(1, MOST_STOPS_READ + 1) for number in numbers) and 1 in numbers
    return perhaps if counts else None


def _start_at_first_stop(draft: RouteDraft, layout: Layout) -> None:
    """Takes the start from the row of the first stop, which may not be the first row."""
    path, row = _START.field, draft.rows[0]
    draft.body.pop(path, None)
    draft.faults.pop(path, None)
    _set(draft, draft.body, path, path, row, layout, _START, _row_zone(draft, row, layout))


def _sequence(draft: RouteDraft, row: Row, layout: Layout, place: TableField) -> float:
    draft.sources[SEQUENCE] = layout.name_of(place)
    number = number_of_stop(row, layout, place)
    if number is None:
        draft.faults[SEQUENCE] = f"line {row.line} has no number"
    return inf if number is None else number


def number_of_stop(row: Row, layout: Layout, place: TableField) -> float | None:
    """The number of the stop within its route."""
    number = _number(_cell(row, layout, place))
    return number if isinstance(number, (int, float)) and isfinite(number) else None


def add_stop(draft: RouteDraft, row: Row, layout: Layout, number: int) -> bool:
    """Adds a stop, unless all its cells are empty. Returns True if it is there."""
    stop: dict[str, Any] = {}
    at = f"stops[{len(draft.body['stops'])}]"
    zone = _row_zone(draft, row, layout)
    for name, path in STOP_FIELDS.items():
        _set(draft, stop, path, f"{at}.{path}", row, layout, TableField(number, name), zone)
    if stop:
        draft.body["stops"].append(stop)
    return bool(stop)


def _row_zone(draft: RouteDraft, row: Row, layout: Layout) -> ZoneInfo | None:
    """The zone in the row, or else that of the route."""
    place = _ROUTE_PLACES[-1]
    if place not in layout.columns or not (named := plain_text(_cell(row, layout, place))):
        return draft.zone
    found = zone_named(named)
    if found is None:
        draft.sources[TIME_ZONE] = layout.name_of(place)
        draft.faults[TIME_ZONE] = f"there is no time zone {named[:60]!r}: write it like America/Chicago"
    return found


def _set(
    draft: RouteDraft,
    part: dict[str, Any],
    path: str,
    whole_path: str,
    row: Row,
    layout: Layout,
    place: TableField,
    zone: ZoneInfo | None,
) -> None:
    """Puts a nonempty cell into its part of the body."""
    if place not in layout.columns:
        return
    where = f" (line {row.line})" if row.line != draft.line else ""
    draft.sources[whole_path] = f"{layout.name_of(place)}{where}"
    cell = _cell(row, layout, place)
    if cell is None or cell == "":
        return
    if place.field in TIME_FIELDS:
        if place in layout.clocks:
            cell = at_clock(cell, _clock(row, layout, place))
        value, fault = cell_time(cell, zone)
        if place.field != _START.field and value.startswith(_NEVER):
            return
        if fault:
            draft.faults[whole_path] = fault
        _put(part, path, value)
    elif place.field in _NUMBERS:
        _put(part, path, _degrees(cell))
    else:
        if fault := spreadsheet_fault(cell, is_exact=place.field in _NUMBERS_OF_THINGS):
            draft.faults[whole_path] = fault
        text = plain_text(cell)
        _put(part, path, number_as_name(text) if place.field in _NUMBERS_OF_THINGS else text)


def _cell(row: Row, layout: Layout, place: TableField) -> Cell:
    index = layout.columns.get(place)
    return row.cells[index] if index is not None and index < len(row.cells) else None


def _clock(row: Row, layout: Layout, place: TableField) -> Cell:
    """The time of day in a column of its own."""
    index = layout.clocks.get(place)
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


def _number(cell: Cell) -> object:
    if isinstance(cell, str) and _NUMBER.fullmatch(cell):
        return float(cell)
    return cell if isinstance(cell, (int, float)) and not isinstance(cell, bool) else plain_text(cell)


_DEGREES = re.compile(r"([+-]?)(\d{1,3}(?:[.,]\d*)?) ?(?:°|º)? ?([NSEW]?)", re.IGNORECASE)


def _degrees(cell: Cell) -> object:
    """A latitude or longitude, also written as 41,462 or 41.462° N: a comma cannot be one of thousands."""
    written = _DEGREES.fullmatch(cell) if isinstance(cell, str) else None
    if written is None:
        return _number(cell)
    degrees = float(written[2].replace(",", "."))
    return -degrees if written[1] == "-" or written[3].upper() in ("S", "W") else degrees


_MOST_DEGREES_OF_A_LEG = 90
"""Furthest distance in degrees between two stops; from Alaska to Maine it is 83."""


def _find_wrong_places(draft: RouteDraft) -> None:
    """Finds places that no truck drives to: a sign is missing, or latitude and longitude are exchanged."""
    before: float | None = None
    for number, stop in enumerate(draft.body["stops"]):
        latitude, longitude = stop.get("latitude"), stop.get("longitude")
        if not isinstance(latitude, (int, float)) or not isinstance(longitude, (int, float)):
            continue
        if (wrong := wrong_place(latitude, longitude)) is not None:
            draft.faults.setdefault(f"stops[{number}].{wrong[0]}", wrong[1])
        elif before is not None and abs(longitude - before) > _MOST_DEGREES_OF_A_LEG:
            draft.faults.setdefault(
                f"stops[{number}].longitude",
                f"no truck drives here from the stop before, at {before}: is a minus missing?",
            )
        before = longitude


def finished_route(draft: RouteDraft) -> FileRoute:
    """Checks the body. Faults are named by their columns."""
    _find_wrong_places(draft)
    _find_status_fault(draft)
    faults, route = dict(draft.faults), None
    try:
        route = read_body(msgspec.json.encode(draft.body), RouteInput)
    except Invalid as invalid:
        for fault in invalid.faults:
            faults.setdefault(fault.field, fault.message)
    if faults:
        told = list(faults.items())[:MOST_FAULTS_TOLD]
        named = [f"{draft.sources.get(path, path)}: {message}" for path, message in told]
        return FileRoute(draft.line, draft.external_id, draft.body, None, "; ".join(named))
    return FileRoute(draft.line, draft.external_id, draft.body, route)
