"""The kinds of files that people bring, in one table, and how each is recognized by the columns that it knows.

A kind declares no columns of its own: it asks those that read it, the tables of a fleet or of stations, the profiles of
prices and cards, the layout of routes."""

import hashlib
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from domain.accounts.users import MAY_DISPATCH, MAY_EDIT_FLEET, MAY_EDIT_POLICY, MAY_EDIT_STATIONS
from domain.files.cells import cell_text
from domain.files.column_names import heading_row_at
from domain.files.csvfiles import ColumnNames, FileRow, ImportReport, UnreadableFile, read_rows
from domain.files.headings import field_places, heading_of
from domain.files.profiles import FileProfile, RecordFields, plain_name
from domain.files.reading import best_fits
from domain.files.route_layout import field_named, is_known_column, layout_of
from domain.files.route_names import meaning_of
from domain.files.spreadsheets import Row
from domain.fills.fields import FILL_FIELDS
from domain.fills.profiles import CARDS
from domain.fleet.drivers import DRIVER_COLUMNS, DriverRow
from domain.fleet.vehicles import VEHICLE_COLUMNS, VehicleRow
from domain.lifecycle import Role
from domain.stations.deals import DealFileRow
from domain.stations.price_profiles import BUILT_IN, PRICE_FIELDS
from domain.stations.stations import STATION_FILE_COLUMNS, StationFileRow
from domain.stations.tax_matrix import matrix_names
from domain.stations.taxes import TaxRow, read_taxes


class KindFit(NamedTuple):
    """The columns of a file that one kind of files knows."""

    kind: str
    known: Sequence[str]
    """The columns that it reads."""
    own: int
    """The number of columns with the very name of our field."""
    missing: str = ""
    """The fault of the file for this kind, in words; empty if the kind can read it."""
    profiles: Sequence[FileProfile] = ()
    """The profiles that read it equally well; several ask for a choice."""
    is_marked: bool = False
    """True if a column is there that no other kind has, such as the name of a stop or the number of a trailer."""


class OtherLayout(NamedTuple):
    """A layout of a table's rows in which a publisher has them, with other columns."""

    names: Callable[[Sequence[Row]], Sequence[str]]
    """The names of the columns in the first rows of such a file; empty for another one."""
    read: Callable[[Path, ImportReport], Iterator[FileRow[Any]]]
    """The rows of a file in this layout or in the table's own."""


class ColumnTable(NamedTuple):
    """A table whose columns have the names of our fields, or other known names."""

    shape: type[msgspec.Struct]
    names: ColumnNames = ColumnNames()
    needed: Sequence[Sequence[str]] = ()
    """Groups of fields of which a file needs one, besides those that `shape` requires."""
    key: Sequence[str] = ()
    """The columns that are there once."""
    clearing: bool = False
    """True if a `-` clears a value, and an empty cell leaves the stored one."""
    other: OtherLayout | None = None

    def rows(self, path: Path, report: ImportReport) -> Iterator[FileRow[Any]]:
        """The rows of a file; those that do not fit go into the report. Raises UnreadableFile."""
        if self.other is not None:
            return self.other.read(path, report)
        return read_rows(path, self.shape, report, clearing=self.clearing, names=self.names)


class FileKind(NamedTuple):
    """A kind of file that is imported. It has a table, or the record of vendors with profiles, or neither: routes."""

    name: str
    title: str
    """The kind in words that follow "a file of"."""
    may_import: Collection[Role]
    table: ColumnTable | None = None
    record: RecordFields | None = None
    profiles: Sequence[FileProfile] = ()
    """The built-in profiles that are recognized."""
    needs_company: bool = True
    has_environments: bool = False
    """True if its rows belong to the live environment or to the sandbox."""

    def fit(self, rows: Sequence[Row], kept: Sequence[FileProfile]) -> KindFit:
        """Compares the first rows of a file with the columns of this kind. `kept` are profiles of the company."""
        if self.table is not None:
            return _table_fit(self.name, self.table, rows)
        if self.record is not None:
            return _profiled_fit(self.name, self.record, self.profiles, rows, kept)
        return _routes_fit(rows)


def _table_fit(name: str, table: ColumnTable, rows: Sequence[Row]) -> KindFit:
    if table.other is not None and (other := table.other.names(rows)):
        return KindFit(name, other, 0)
    fields = msgspec.structs.fields(table.shape)
    known = [field.encode_name for field in fields]
    groups = [*((field.encode_name,) for field in fields if field.required), *table.needed]
    names = _names(rows, lambda column: table.names.is_known(column, known))
    found = table.names.fields(names, known)
    parts = table.names.parts(names, found)
    there = set(found) | ({parts.field} if parts.places else set())
    missing = " and ".join(" or ".join(group) for group in groups if not there.intersection(group))
    other_things = table.names.fault(names, found)
    fault = f"it lacks {missing}" if missing else other_things
    used = [one for place, one in enumerate(names) if found[place] in known or place in parts.places]
    return KindFit(name, list(dict.fromkeys(used)), _named_as(known, used), fault, is_marked=bool(other_things))


def _profiled_fit(
    name: str, record: RecordFields, built_in: Sequence[FileProfile], rows: Sequence[Row], kept: Sequence[FileProfile]
) -> KindFit:
    try:
        fits = best_fits(rows, built_in, record, kept=[one for one in kept if one.subject == record.subject])
    except UnreadableFile as error:
        generic = next(one for one in built_in if one.name == "generic")
        nearest = max((field_places(heading_of(row), generic, record) for row in rows), key=len, default=[])
        return KindFit(name, [place.name for place in nearest], 0, str(error))
    used = list(dict.fromkeys(place.name for place in fits[0].places))
    own = _named_as([field.name for field in record.fields], used)
    return KindFit(name, used, own, "", [one.profile for one in fits])


def _routes_fit(rows: Sequence[Row]) -> KindFit:
    """A column of stops shows that the others, such as Latitude, are of stops, too; and so does the number of a load
    beside a place, in names that other kinds have as well."""
    names = _names(rows, is_known_column({}))
    fields = {name: field_named(name) for name in names if name}
    own = [name for name, field in fields.items() if field]
    further = {name: meaning for name in fields if (meaning := meaning_of(name)) is not None}
    has_stops = any(one.whose for one in further.values()) or any(name.casefold().startswith("stop") for name in fields)
    is_load = has_stops and any(one.field == "externalId" for one in further.values())
    if is_marked := is_load or any(field.startswith("stop") for field in fields.values()):
        fields = {name: field or field_named(f"stop_{name}") for name, field in fields.items()}
    used = [name for name, field in fields.items() if field or (is_load and name in further)]
    try:
        layout = layout_of(names, {})
    except UnreadableFile as error:
        return KindFit("routes", used, 0, str(error), is_marked=is_marked)
    read = set(layout.columns.values())
    return KindFit("routes", [name for index, name in enumerate(names) if index in read], len(own), is_marked=is_marked)


def _named_as(fields: Sequence[str], columns: Sequence[str]) -> int:
    own = {plain_name(field) for field in fields}
    return sum(plain_name(one) in own for one in columns)


def _names(rows: Sequence[Row], known: Callable[[str], bool]) -> list[str]:
    """The names of the columns, in the row that knows most of them."""
    row = rows[heading_row_at([row.cells for row in rows], known)]
    return [cell_text(cell).strip() for cell in row.cells]


FILE_KINDS: dict[str, FileKind] = {
    one.name: one
    for one in (
        FileKind(
            "vehicles",
            "vehicles",
            MAY_EDIT_FLEET,
            ColumnTable(VehicleRow, VEHICLE_COLUMNS, key=("unit_number",), clearing=True),
        ),
        FileKind("drivers", "drivers", MAY_EDIT_FLEET, ColumnTable(DriverRow, DRIVER_COLUMNS, clearing=True)),
        FileKind(
            "stations",
            "truck stops",
            MAY_EDIT_STATIONS,
            ColumnTable(StationFileRow, STATION_FILE_COLUMNS, key=("station_id",)),
            needs_company=False,
        ),
        FileKind(
            "deals",
            "negotiated prices",
            MAY_EDIT_POLICY,
            ColumnTable(
                DealFileRow,
                needed=(("station_id", "brand"), ("discount_per_gallon", "net_price")),
                key=("station_id", "brand", "valid_from"),
            ),
        ),
        FileKind(
            "taxes",
            "diesel taxes",
            MAY_EDIT_STATIONS,
            ColumnTable(TaxRow, key=("state", "valid_from"), other=OtherLayout(matrix_names, read_taxes)),
            needs_company=False,
        ),
        FileKind(
            "prices",
            "prices of a chain or a card",
            MAY_EDIT_POLICY,
            record=PRICE_FIELDS,
            profiles=tuple(BUILT_IN.values()),
        ),
        FileKind(
            "fills",
            "purchases of a fuel card",
            MAY_DISPATCH,
            record=FILL_FIELDS,
            profiles=tuple(one.profile for one in CARDS.values() if one.is_recognized),
            has_environments=True,
        ),
        FileKind("routes", "routes", MAY_DISPATCH, has_environments=True),
    )
}
"""Every kind of file that can be imported. A new one is one more entry here, and one in `import_kinds.py`."""


# --- Recognition -------------------------------------------------------------------------------------------------

_FEWEST_SURE = 3
"""Fewest known columns by which a file is recognized for sure, unless it has no others."""
_TIMES_AS_MANY = 2
"""A file is of one kind for sure when no other kind that can read it knows more than a half as many columns."""
_TIMES_OF_A_MISFIT = 3
"""A kind that cannot read the file is meant all the same when it knows so many times more columns than those that can,
and half of all or one that is its own: the file then needs other names."""


class Recognized(NamedTuple):
    """The kinds that a file may be of, by its columns."""

    fits: Sequence[KindFit]
    """The kinds that may be meant, the likeliest first; empty if the columns are of none."""
    is_sure: bool
    why: str

    @property
    def best(self) -> KindFit | None:
        return self.fits[0] if self.fits else None


def recognize_kind(rows: Sequence[Row], kept: Sequence[FileProfile] = ()) -> Recognized:
    """The kind of a file by its first rows. A file that two kinds can read alike is not sure: a person chooses."""
    if not rows:
        raise UnreadableFile("the file has no row that can be read")
    named = sum(map(bool, _widest_names(rows)))
    fits = [fit for fit in (kind.fit(rows, kept) for kind in FILE_KINDS.values()) if fit.known]
    complete = sorted((fit for fit in fits if not fit.missing), key=_rank, reverse=True)
    most = len(complete[0].known) if complete else 0
    misfits = [
        fit for fit in fits if fit.missing and _is_meant(fit, named) and len(fit.known) >= _TIMES_OF_A_MISFIT * most
    ]
    if misfits:
        misfit = max(misfits, key=lambda fit: (fit.is_marked, _rank(fit)))
        return Recognized([misfit, *complete], False, f"its columns are nearly those of {_title(misfit)}")
    if not complete:
        return Recognized([], False, "its columns are of no kind that is known")
    best = complete[0]
    told = f"{len(best.known)} of its {named} columns are those of {_title(best)}"
    rivals = [one for one in complete[1:] if len(one.known) * _TIMES_AS_MANY > len(best.known)]
    rivals = [one for one in rivals if not (best.own >= named > one.own)]  # the columns are all ours
    if rivals:
        others = " and ".join(f"{len(one.known)} those of {_title(one)}" for one in rivals)
        return Recognized([best, *rivals], False, f"{told}, and {others}")
    is_sure = len(best.known) >= min(_FEWEST_SURE, named) and len(best.profiles) < 2
    return Recognized([best, *(one for one in complete[1:] if not is_sure)], is_sure, told)


def _is_meant(misfit: KindFit, named: int) -> bool:
    return len(misfit.known) >= _FEWEST_SURE and (misfit.is_marked or len(misfit.known) * 2 >= named)


def _rank(fit: KindFit) -> tuple[int, int]:
    return len(fit.known), fit.own


def _title(fit: KindFit) -> str:
    return FILE_KINDS[fit.kind].title


def _widest_names(rows: Sequence[Row]) -> list[str]:
    names = [[cell_text(cell).strip() for cell in row.cells if isinstance(cell, str)] for row in rows]
    return max(names, key=lambda one: sum(map(bool, one)))


def layout_digest(rows: Sequence[Row]) -> str:
    """A text that is equal for files with the same columns."""
    names = "|".join(map(plain_name, _widest_names(rows)))
    return hashlib.sha256(names.encode()).hexdigest()[:32]
