"""The routes of a table with a row for each route, or a row for each stop.

An unreadable row spoils its route, which without one of its stops would look right and lead astray. So a table with a
row for each stop is read twice: first to see which routes are complete, then to make them. The first reading keeps a
number for each route, so a file of a million rows needs little memory."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple, TypeAlias
from zoneinfo import ZoneInfo

from domain.files.csvfiles import UnreadableFile
from domain.files.route_doubts import Doubts
from domain.files.route_layout import EXTERNAL_ID, Layout
from domain.files.route_rows import (
    FileRoute,
    RouteDraft,
    add_row,
    add_stop,
    add_stops,
    begin_route,
    compare_route,
    finished_route,
    row_id,
)
from domain.files.route_times import plain_text
from domain.files.spreadsheets import Row
from domain.files.text_rows import DELIMITERS, RefusedRow

TableEntry: TypeAlias = Row | RefusedRow
"""A row of the table, or an unreadable one, in the order of the file."""

MOST_TABLE_ROWS = 2_000_000
MOST_OPEN_ROUTES = 10_000
"""Most routes that have begun and whose last row has not come."""
MOST_UNSURE_ROWS = 10_000
"""Most rows with too many cells; the routes to which they may belong are searched at the end."""


# --- A row for each route ----------------------------------------------------------------------------------------


def divided_loads(entries: Iterable[TableEntry], layout: Layout) -> set[int]:
    """The hashes of the `externalId` that several different rows have: none of them has all stops of its load."""
    first: dict[int, int] = {}
    divided: set[int] = set()
    for entry in entries:
        if isinstance(entry, RefusedRow):
            divided.update(map(hash, _named_by(entry, layout) or ()))
        elif first.setdefault(load := hash(row_id(entry, layout)), row := hash(tuple(entry.cells))) != row:
            divided.add(load)
    return divided


def routes_of_rows(
    entries: Iterable[TableEntry], layout: Layout, zone: ZoneInfo | None, divided: Collection[int] = ()
) -> Iterator[FileRoute]:
    """The routes, one from each row, except for `divided` loads."""
    numbers = sorted({place.stop for place in layout.columns if place.stop})
    name = layout.name_of(EXTERNAL_ID)
    for entry in entries:
        if isinstance(entry, RefusedRow):
            yield _refused(entry)
            continue
        draft = begin_route(entry, layout, zone)
        if hash(draft.external_id) in divided:
            fault = f"{name}: several rows have this load, so none tells all of its stops: write a row for each stop"
            yield FileRoute(entry.line, draft.external_id, None, None, fault)
            continue
        filled = [number for number in numbers if add_stop(draft, entry, layout, number)]
        if layout.pickups and not (filled and filled[0] <= layout.pickups < filled[-1]):
            draft.faults["stops"] = "the load needs a pickup and a delivery"
        yield finished_route(draft)


def _refused(row: RefusedRow) -> FileRoute:
    return FileRoute(row.line, "", None, None, row.message)


# --- A row for each stop -----------------------------------------------------------------------------------------


@dataclass(slots=True)
class Survey:
    """The outcome of the first reading, by the hash of the `externalId`."""

    rows: dict[int, int] = field(default_factory=dict)
    """The number of rows of each route."""
    spoiled: dict[int, str] = field(default_factory=dict)
    """The routes that lack a row, with the reason."""
    lowest: float = inf
    """The lowest number of a stop in the file."""


class _Unsure(NamedTuple):
    """A row with too many cells, and the texts that may be its `externalId`."""

    row: RefusedRow
    candidates: frozenset[int]
    before: int | None
    """The route of the row before, if this row may name none."""


def survey_of(entries: Iterable[TableEntry], layout: Layout) -> Survey:
    """Reads all rows. Raises UnreadableFile if a row of the file may belong to any route."""
    return _Surveyor(layout, Doubts(layout)).read(entries)


@dataclass(slots=True)
class _Surveyor:
    layout: Layout
    doubts: Doubts
    found: Survey = field(default_factory=Survey)
    unsure: list[_Unsure] = field(default_factory=list)
    route: int | None = None
    """The route of the row before; None if not known."""
    named: int | None = None
    """The route named last."""
    lost: RefusedRow | None = None
    """A row that may belong to the next route."""
    belongs_anywhere: RefusedRow | None = None
    is_apart: int = 0
    """The line where a route goes on after another one."""

    def read(self, entries: Iterable[TableEntry]) -> Survey:
        for count, entry in enumerate(entries):
            if count >= MOST_TABLE_ROWS:
                raise UnreadableFile(f"the file has more than {MOST_TABLE_ROWS:,} rows: divide it")
            if isinstance(entry, RefusedRow):
                self._refused(entry)
            else:
                self._row(entry)
        for one in self.unsure:
            self._decide(one)
        for route, why in list(self.doubts.spoiled(self.found.rows, self.found.spoiled)):
            self.found.spoiled.setdefault(route, why)
        self.found.lowest = self.doubts.lowest
        if self.belongs_anywhere is not None and self.is_apart:
            row = self.belongs_anywhere
            raise UnreadableFile(
                f"line {row.line} cannot be read ({row.message}). It may belong to any route, since the rows of "
                f"routes do not follow one another (line {self.is_apart}): mend that line"
            )
        return self.found

    def _row(self, row: Row) -> None:
        external_id = row_id(row, self.layout)
        if external_id:
            route = hash(external_id)
            if self.lost is not None:
                self._spoil(route, self.lost, "may be a stop of this route")
            if route != self.named and route in self.found.rows:
                self.is_apart = self.is_apart or row.line
            self.route, self.named, self.lost = route, route, None
        if self.route is not None:
            self.found.rows[self.route] = self.found.rows.get(self.route, 0) + 1
            self.doubts.see(row, self.route, external_id)

    def _refused(self, row: RefusedRow) -> None:
        """Notes a refused row. Rows after it that name no route are refused as well."""
        named = _named_by(row, self.layout)
        if row.shifted_by:
            if len(self.unsure) == MOST_UNSURE_ROWS:
                raise UnreadableFile(f"more than {MOST_UNSURE_ROWS:,} rows cannot be read: {row.message}")
            texts = named or [""]
            self.unsure.append(_Unsure(row, frozenset(map(hash, texts)), None if all(texts) else self.route))
        elif named is None:
            self._spoil(self.route, row, "may be a stop of this route")
            self.lost = self.belongs_anywhere = row
        else:
            self._spoil(hash(named[0]) if named[0] else self.route, row, "is a stop of this route")
        self.route = None

    def _decide(self, one: _Unsure) -> None:
        known = [route for route in one.candidates if route in self.found.rows]
        for route in [*known, one.before]:
            self._spoil(route, one.row, "may be a stop of this route")

    def _spoil(self, route: int | None, row: RefusedRow, how: str) -> None:
        if route is not None:
            self.found.spoiled.setdefault(route, f"Line {row.line} cannot be read and {how}: {row.message}")


def _named_by(row: RefusedRow, layout: Layout) -> list[str] | None:
    """The texts that may be the `externalId` of a refused row; None if nothing is known. One with a delimiter in it may
    have lost its quotes."""
    at = layout.columns[EXTERNAL_ID]
    if len(row.cells) <= at:
        return None
    found = [plain_text(cell) for cell in row.cells[at : at + row.shifted_by + 1]][:_MOST_CANDIDATES]
    whole = [sign.join(found[: end + 1]) for end in range(1, len(found)) for sign in _JOINTS]
    return found + whole


_MOST_CANDIDATES = 10
_JOINTS = [sign + space for sign in DELIMITERS for space in ("", " ")]


@dataclass(slots=True)
class _Open:
    draft: RouteDraft
    rows_to_come: int


def routes_of_stops(
    entries: Iterable[TableEntry], layout: Layout, zone: ZoneInfo | None, survey: Survey
) -> Iterator[FileRoute]:
    """The routes, each from the rows with its `externalId`, as soon as the last of them is read. A row without an id
    belongs to the route of the row before it. Raises UnreadableFile if too many routes are open."""
    under_way: dict[int, _Open] = {}
    route: int | None = None
    why_lost = f"{layout.name_of(EXTERNAL_ID)}: Required"
    for entry in entries:
        if isinstance(entry, RefusedRow):
            yield _refused(entry)
            route, why_lost = None, _lost_behind(entry, layout)
            continue
        external_id = row_id(entry, layout)
        route = hash(external_id) if external_id else route
        if route is None:
            if why_lost:
                yield FileRoute(entry.line, "", None, None, why_lost)
            why_lost = ""
            continue
        one = _taken(under_way, route, entry, layout, zone, survey)
        if one.rows_to_come == 0:
            del under_way[route]
            yield _whole(one.draft, layout, survey.spoiled.get(route, ""), survey.lowest)


def _lost_behind(row: RefusedRow, layout: Layout) -> str:
    name = layout.name_of(EXTERNAL_ID)
    return f"{name}: it is empty, and line {row.line} before it, which may tell the route, cannot be read"


def _taken(
    under_way: dict[int, _Open], route: int, row: Row, layout: Layout, zone: ZoneInfo | None, survey: Survey
) -> _Open:
    """The route of the row, after adding the row."""
    one = under_way.get(route)
    if one is None:
        if len(under_way) >= MOST_OPEN_ROUTES:
            raise UnreadableFile(
                f"more than {MOST_OPEN_ROUTES:,} routes have rows that stand apart: sort the file by externalId"
            )
        one = under_way[route] = _Open(begin_route(row, layout, zone), survey.rows[route])
    else:
        compare_route(one.draft, row, layout)
    add_row(one.draft, row)
    one.rows_to_come -= 1
    return one


def _whole(draft: RouteDraft, layout: Layout, why_spoiled: str, lowest: float) -> FileRoute:
    if why_spoiled:
        return FileRoute(draft.line, draft.external_id, None, None, why_spoiled)
    add_stops(draft, layout, lowest)
    return finished_route(draft)
