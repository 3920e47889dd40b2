"""The columns of a table of routes: the field of each, by its name or by a mapping."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from domain.contract.shapes import PUSHED_FIELDS
from domain.files.csvfiles import UnreadableFile

ROUTE_FIELDS = {one.name: one.path for one in PUSHED_FIELDS}
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

SEQUENCE = "sequence"
"""The field of a stop that orders the rows of its route: `stop_sequence`. Without it their order in the file counts."""

TIME_ZONE = "timeZone"
"""The field with the time zone of a row's times that have no offset."""

_SEQUENCE_NAMES = frozenset(("stopsequence", "stopseq", "stoporder"))
"""Names of the column that orders stops. `Stop Number` is left out: it may be the number of a store."""
_NUMBERED = re.compile(r"(.+?) ?\(([1-9])\)", re.DOTALL)
MOST_NAME_CHARACTERS = 200
_MOST_LISTED = 60
_STOP = re.compile(r"stop(\d{0,2})(\w+)", re.ASCII)


class TableField(NamedTuple):
    """A field of the table. `stop` is the stop's number, 0 for the row's own stop, None for a field of the route."""

    stop: int | None
    field: str

    def __str__(self) -> str:
        return self.field if self.stop is None else f"stop{self.stop or ''}_{self.field}"


EXTERNAL_ID = TableField(None, "externalId")


class Layout(NamedTuple):
    """The columns of a table: the fields of routes, and the unused ones."""

    columns: dict[TableField, int]
    names: list[str]
    unused: list[str]

    @property
    def is_row_a_stop(self) -> bool:
        return any(place.stop == 0 and place.field != SEQUENCE for place in self.columns)

    @property
    def is_start_of_stops(self) -> bool:
        """True if one column has the time of every stop, and that of the first stop is the start. Only a mapping can
        say so."""
        start = self.columns[TableField(None, "scheduledStart")]
        return start == self.columns.get(TableField(0, "windowStart"))

    def name_of(self, place: TableField) -> str:
        return self.names[self.columns[place]]


def layout_of(names: list[str], mapping: Mapping[str, str]) -> Layout:
    """The fields of these columns, by `mapping`, or else by their names. Capitals, spaces and signs do not count.
    Raises UnreadableFile if a needed column is missing, or one is there twice."""
    columns: dict[TableField, int] = {}
    for field_name, column in mapping.items():
        place = _place_of(field_name)
        if place is None:
            raise UnreadableFile(f"there is no field {field_name!r}: {_fields_in_words()}")
        columns[place] = _mapped_column(column, names)
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


def _mapped_column(column: str, names: list[str]) -> int:
    """The place of the column; `Date (2)` is the second of its name. Raises UnreadableFile if it is not there."""
    same = [index for index, name in enumerate(names) if name and _plain(name) == _plain(column)]
    numbered = _NUMBERED.fullmatch(column.strip())
    if not same and numbered is not None:
        named = [index for index, name in enumerate(names) if name and _plain(name) == _plain(numbered[1])]
        same = named[int(numbered[2]) - 1 : int(numbered[2])]
    if len(same) > 1:
        raise UnreadableFile(f"the file has {len(same)} columns {column!r}: name one of them as {column + ' (2)'!r}")
    if not same:
        raise UnreadableFile(f"the file has no column {column!r}; its columns are: {listed_names(names)}")
    return same[0]


def listed_names(names: Sequence[str]) -> str:
    """The first names of columns, in a sentence."""
    there = [name[:MOST_NAME_CHARACTERS] for name in names if name]
    return ", ".join(there[:_MOST_LISTED]) + (" and more" if len(there) > _MOST_LISTED else "") if there else "none"


def _plain(name: str) -> str:
    return re.sub(r"[\W_]", "", name.casefold())


_PLAIN_ROUTE_FIELDS = {_plain(name): name for name in ROUTE_FIELDS}
_PLAIN_STOP_FIELDS = {_plain(name): name for name in STOP_FIELDS} | {
    "lat": "latitude",
    "lng": "longitude",
    "lon": "longitude",
    "long": "longitude",
}


def _place_of(name: str) -> TableField | None:
    plain = _plain(name)
    if plain in _PLAIN_ROUTE_FIELDS:
        return TableField(None, _PLAIN_ROUTE_FIELDS[plain])
    if plain in _SEQUENCE_NAMES:
        return TableField(0, SEQUENCE)
    if plain == _plain(TIME_ZONE):
        return TableField(None, TIME_ZONE)
    stop = _STOP.fullmatch(plain)
    if stop is None or stop[2] not in _PLAIN_STOP_FIELDS or (stop[1] and int(stop[1]) == 0):
        return None
    return TableField(int(stop[1] or 0), _PLAIN_STOP_FIELDS[stop[2]])


def field_named(name: str) -> str:
    """The field of a column with this name; empty if it is none."""
    place = _place_of(name)
    return str(place) if place is not None else ""


def is_known_column(mapping: Mapping[str, str]) -> Callable[[str], bool]:
    """A function that recognizes the names of fields, and of columns in the mapping."""
    mapped = {_plain(column) for column in mapping.values()}
    return lambda name: _plain(name) in mapped or _place_of(name) is not None


def _fields_in_words() -> str:
    stops = ", ".join(f"stop1_{name}" for name in STOP_FIELDS)
    return (
        f"the fields are {', '.join(ROUTE_FIELDS)}, {stops} and so on, or stop_name in a file with a row for each stop"
    )


def _check_layout(layout: Layout) -> None:
    numbers = {place.stop for place in layout.columns if place.stop is not None and place.field != SEQUENCE}
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
        raise UnreadableFile(
            f"the file lacks columns for {', '.join(missing)}; its columns are: {listed_names(layout.names)}. Rename "
            "them, or map each field to its column"
        )
