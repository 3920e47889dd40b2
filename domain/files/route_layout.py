"""The columns of a table of routes: the field of each, by its name or by a mapping."""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from domain.contract.shapes import PUSHED_FIELDS
from domain.files.csvfiles import UnreadableFile
from domain.files.profiles import plain_name
from domain.files.route_names import (
    DELIVERY,
    DEPARTURES,
    PICKUP,
    ROW,
    STOP_NUMBER,
    Meaning,
    clock_beside,
    is_status,
    meaning_of,
)

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

TIME_FIELDS = frozenset(("scheduledStart", "windowStart", "windowEnd"))
_ORDERING = frozenset((SEQUENCE, STOP_NUMBER))
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


class ColumnsNotTold(UnreadableFile):
    """The columns of some fields are missing or in doubt, and a person can name them."""

    def __init__(self, message: str, asked: Mapping[str, Sequence[str]]) -> None:
        super().__init__(message)
        self.asked = asked
        """The columns that each field may have, the likeliest first; none if a mapping is not enough."""


class Layout(NamedTuple):
    """The columns of a table: the fields of routes, and the unused ones."""

    columns: dict[TableField, int]
    names: list[str]
    unused: list[str]
    clocks: Mapping[TableField, int] = {}
    """The columns with the times of day of columns that have days."""
    statuses: Sequence[int] = ()
    """The columns that may say that a load is canceled."""

    @property
    def is_row_a_stop(self) -> bool:
        return any(place.stop == 0 and place.field not in _ORDERING for place in self.columns)

    @property
    def is_start_of_stops(self) -> bool:
        """True if one column has a time of every stop, and that of the first stop is the start: its departure, or what
        a mapping calls so."""
        start = self.columns[TableField(None, "scheduledStart")]
        if start == self.columns.get(TableField(0, "windowStart")):
            return True
        return self.is_row_a_stop and plain_name(self.names[start]) in DEPARTURES

    @property
    def pickups(self) -> int:
        """The number of pickups that a row may have, before its deliveries; 0 if its stops have no such names."""
        stops = [(place.stop or 0, meaning_of(self.name_of(place))) for place in self.columns]
        return max((number for number, one in stops if number and one is not None and one.whose == PICKUP), default=0)

    def name_of(self, place: TableField) -> str:
        return self.names[self.columns[place]]


def layout_of(names: list[str], mapping: Mapping[str, str], fields: Sequence[str] | None = None) -> Layout:
    """The fields of these columns: those in `fields`, one or several for each column, or else by `mapping` and by their
    names. Capitals, spaces and signs do not count. Raises UnreadableFile if a needed column is missing, or one is there
    twice."""
    columns, doubts = _columns_by_name(names, mapping) if fields is None else (_columns_of_fields(names, fields), _SURE)
    statuses = [index for index, name in enumerate(names) if is_status(name) and index not in columns.values()]
    clocks = {place: at for place, index in columns.items() if (at := _clock(place, index, names)) is not None}
    used = {*columns.values(), *clocks.values(), *statuses}
    unused = [name for index, name in enumerate(names) if name and index not in used]
    layout = Layout(columns, names, unused, clocks, statuses)
    _check_layout(layout, doubts)
    return layout


def fields_of(names: list[str]) -> list[str]:
    """The fields of each column by its name, as `layout_of` takes them; empty for a column of none."""
    found: dict[int, list[str]] = {}
    try:
        for place, index in _columns_by_name(names, {})[0].items():
            found.setdefault(index, []).append(str(place))
    except UnreadableFile:
        return [field_named(name) for name in names]  # two columns are one field: a person chooses
    return [_AND.join(found.get(index, [])) for index in range(len(names))]


def are_fields(text: str) -> bool:
    """True if the text names a field, or several for one column: `scheduledStart+stop_windowStart`."""
    return all(_place_of_field(one) is not None for one in text.split(_AND))


_AND = "+"
START_OF_STOPS = "scheduledStart+stop_windowStart"
"""A column with a time of every stop, of which that of the first is the start."""


def _place_of_field(text: str) -> TableField | None:
    number = TableField(0, STOP_NUMBER)
    return number if text.strip() == str(number) else _place_of(text)


def _columns_of_fields(names: list[str], fields: Sequence[str]) -> dict[TableField, int]:
    columns: dict[TableField, int] = {}
    for index, text in enumerate(fields[: len(names)]):
        for place in map(_place_of_field, text.split(_AND)):
            if place is not None and columns.setdefault(place, index) != index:
                raise UnreadableFile(
                    f"the columns {names[columns[place]]!r} and {names[index]!r} are both the field {place}"
                )
    return columns


class _Doubts(NamedTuple):
    """The columns that may be one field, by the field, and a doubt about the order or the places of the stops."""

    columns: dict[str, list[str]]
    stops: str


_SURE = _Doubts({}, "")


def _columns_by_name(names: list[str], mapping: Mapping[str, str]) -> tuple[dict[TableField, int], _Doubts]:
    """The columns of fields, and what is in doubt. Further names count where a needed column is missing, so that a file
    which was read without them is read as before."""
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
    return columns, _add_further(columns, names) if _missing(columns) else _SURE


def _clock(place: TableField, index: int, names: list[str]) -> int | None:
    return clock_beside(index, names) if place.field in TIME_FIELDS else None


def _add_further(columns: dict[TableField, int], names: list[str]) -> _Doubts:
    """Adds the columns that are known by further names. Returns what is in doubt."""
    found = {index: meaning for index, name in enumerate(names) if (meaning := meaning_of(name)) is not None}
    known = set(columns.values()) | {clock_beside(index, names) for index in found}
    whose, about_stops = _whose_stops(columns, [one for index, one in found.items() if index not in known])
    pickups = max((one.number for one in found.values() if one.whose == PICKUP), default=0)
    start = columns.get(TableField(None, "scheduledStart"))
    places: dict[TableField, list[int]] = {}
    doubts: dict[str, list[str]] = {}
    for index, one in sorted(found.items(), key=lambda item: item[1].rank):
        is_start = index == start and one.field == "windowStart"  # an appointment that is mapped as the start
        is_day = plain_name(names[index]).endswith("date") and clock_beside(index, names) is None
        if one.whose not in ("", *whose) or ((index in known or is_day) and not is_start):
            continue
        place = TableField(_stop_of(one, pickups), one.field)
        same = places.setdefault(place, [])
        if place not in columns and (not same or found[same[0]].rank == one.rank):
            same.append(index)
    for place, indexes in places.items():
        if not indexes or TableField(None, _OTHER_WAYS.get(place.field, "")) in columns:
            continue
        if len(indexes) == 1 or place.field in ("name", "address"):  # which are only shown
            columns[place] = indexes[0]
        else:
            doubts[str(place)] = [_mapped_name(index, names) for index in indexes]
    return _Doubts(doubts, about_stops)


_OTHER_WAYS = {"unitNumber": "vin", "driverName": "driverExternalId"}
"""Another field that names the truck, or the driver."""


def _stop_of(one: Meaning, pickups: int) -> int | None:
    """The number of a stop: deliveries come behind the pickups."""
    if not one.whose:
        return None
    return 0 if one.whose == ROW else one.number + (pickups if one.whose == DELIVERY else 0)


def _whose_stops(columns: Mapping[TableField, int], found: Collection[Meaning]) -> tuple[Collection[str], str]:
    """The kinds of stops that the further names are about, and the doubt about them. Coordinates decide, because rows
    of stops often repeat the names of the origin and the destination."""
    kinds = {one.whose for one in found if one.field in ("latitude", "longitude")}
    if numbers := _stop_numbers(columns):
        if numbers == {0}:
            return [ROW], ""
        is_mixed = 0 not in numbers and kinds & {PICKUP, DELIVERY}
        return [], "the order of numbered stops and others is not told" if is_mixed else ""
    if ROW in kinds and len(kinds) > 1:
        return [], "the coordinates of stops may be those of the row, or those of pickups and deliveries"
    if {one.whose for one in found if one.number > 1} >= {PICKUP, DELIVERY} and ROW not in kinds:
        return [], "the order of several pickups and several deliveries is not told"
    is_wide = bool(kinds) or any(one.whose in (PICKUP, DELIVERY) for one in found)
    return ([PICKUP, DELIVERY] if is_wide and ROW not in kinds else [ROW]), ""


def _mapped_column(column: str, names: list[str]) -> int:
    """The place of the column; `Date (2)` is the second of its name. Raises UnreadableFile if it is not there."""
    same = [index for index, name in enumerate(names) if name and plain_name(name) == plain_name(column)]
    numbered = _NUMBERED.fullmatch(column.strip())
    if not same and numbered is not None:
        named = [index for index, name in enumerate(names) if name and plain_name(name) == plain_name(numbered[1])]
        same = named[int(numbered[2]) - 1 : int(numbered[2])]
    if len(same) > 1:
        raise UnreadableFile(f"the file has {len(same)} columns {column!r}: name one of them as {column + ' (2)'!r}")
    if not same:
        raise UnreadableFile(f"the file has no column {column!r}; its columns are: {listed_names(names)}")
    return same[0]


def _mapped_name(index: int, names: Sequence[str]) -> str:
    """The name of the column in a mapping."""
    same = [at for at, name in enumerate(names) if plain_name(name) == plain_name(names[index])]
    return names[index] if len(same) == 1 else f"{names[index]} ({same.index(index) + 1})"


def listed_names(names: Sequence[str]) -> str:
    """The first names of columns, in a sentence."""
    there = [name[:MOST_NAME_CHARACTERS] for name in names if name]
    return ", ".join(there[:_MOST_LISTED]) + (" and more" if len(there) > _MOST_LISTED else "") if there else "none"


_PLAIN_ROUTE_FIELDS = {plain_name(name): name for name in ROUTE_FIELDS}
_PLAIN_STOP_FIELDS = {plain_name(name): name for name in STOP_FIELDS} | {
    "lat": "latitude",
    "lng": "longitude",
    "lon": "longitude",
    "long": "longitude",
}


def _place_of(name: str) -> TableField | None:
    plain = plain_name(name)
    if plain in _PLAIN_ROUTE_FIELDS:
        return TableField(None, _PLAIN_ROUTE_FIELDS[plain])
    if plain in _SEQUENCE_NAMES:
        return TableField(0, SEQUENCE)
    if plain == plain_name(TIME_ZONE):
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
    mapped = {plain_name(column) for column in mapping.values()}
    return lambda name: plain_name(name) in mapped or _place_of(name) is not None or meaning_of(name) is not None


def _fields_in_words() -> str:
    stops = ", ".join(f"stop1_{name}" for name in STOP_FIELDS)
    return (
        f"the fields are {', '.join(ROUTE_FIELDS)}, {stops} and so on, or stop_name in a file with a row for each stop"
    )


def _missing(columns: Mapping[TableField, int]) -> list[str]:
    """The fields without a column that every file needs."""
    numbers = _stop_numbers(columns)
    missing = [name for name in ("externalId", "scheduledStart") if TableField(None, name) not in columns]
    for one, other in (("unitNumber", "vin"), ("driverName", "driverExternalId")):
        if not {TableField(None, one), TableField(None, other)} & columns.keys():
            missing.append(f"{one} (or {other})")
    for number in (0,) if 0 in numbers else (1, 2):
        needed = [TableField(number, name) for name in ("name", "latitude", "longitude")]
        missing += [str(place) for place in needed if place not in columns]
    return missing


def _stop_numbers(columns: Mapping[TableField, int]) -> set[int]:
    return {place.stop for place in columns if place.stop is not None and place.field not in _ORDERING}


def _check_layout(layout: Layout, doubts: _Doubts) -> None:
    numbers, missing = _stop_numbers(layout.columns), _missing(layout.columns)
    if 0 in numbers and len(numbers) > 1:
        raise UnreadableFile("the file has columns such as stop_name and such as stop1_name: leave out one kind")
    if not missing and not doubts.columns:
        return
    free = _free_names(layout)
    words = {field.partition(" ")[0]: words for field, words in _LIKELY.items() if field in missing}
    may_be = {field: [name for name in free if said.search(name)] for field, said in words.items()} | doubts.columns
    advice = [doubts.stops] if doubts.stops else []
    for field, names in may_be.items():
        if names:
            advice.append(f"{field} may be {' or '.join(map(repr, names[:_MOST_CANDIDATES]))}")
    if not any(plain_name(name).endswith(("lat", "latitude")) for name in layout.names):
        advice.append("addresses are not looked up, so each stop needs its latitude and longitude")
    asked = {
        field: names if field in doubts.columns else [*dict.fromkeys(names + free)] for field, names in may_be.items()
    }
    can_map = all(name.partition(" ")[0] in asked for name in missing)
    if not numbers:
        missing = [name for name in missing if not name.startswith("stop")] + [_STOPS_IN_WORDS]
    fault = f"lacks columns for {', '.join(missing)}" if missing else "may be read in two ways"
    raise ColumnsNotTold(
        f"the file {fault}; its columns are: {listed_names(layout.names)}. Rename them, or map each field to its column"
        f"{': ' if advice else ''}{'; '.join(advice)}",
        asked if can_map else {},
    )


_STOPS_IN_WORDS = (
    "the stops (stop_name, stop_latitude and stop_longitude where a row is a stop, else stop1_name and so on)"
)

_FIELD_WORDS = {
    "externalId": "the load's number",
    "scheduledStart": "the start",
    "unitNumber": "the truck's unit number",
    "driverName": "the driver's name",
}


def field_in_words(field: str) -> str:
    """A field as a dispatcher says it, with its name: `the start (scheduledStart)`."""
    return f"{_FIELD_WORDS[field]} ({field})" if field in _FIELD_WORDS else field


_LIKELY = {
    "externalId": re.compile(r"load|order|trip|shipment|route|dispatch|movement|job", re.IGNORECASE),
    "scheduledStart": re.compile(r"start|depart|date|time|appt|appointment|arriv|pick ?up$", re.IGNORECASE),
    "unitNumber (or vin)": re.compile(r"truck|tractor|unit|vehicle|equipment|asset|power", re.IGNORECASE),
    "driverName (or driverExternalId)": re.compile(r"driver|operator", re.IGNORECASE),
}
_MOST_CANDIDATES = 6


def _free_names(layout: Layout) -> list[str]:
    """The columns that may be another field, in the words of a mapping."""
    used = {index for place, index in layout.columns.items() if place.field not in TIME_FIELDS}
    used |= {at for index in range(len(layout.names)) if (at := clock_beside(index, layout.names)) is not None}
    return [_mapped_name(index, layout.names) for index, name in enumerate(layout.names) if name and index not in used]
