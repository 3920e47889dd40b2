"""Truck stops with their retail prices: imported from CSV files, edited row by row, retired.

Each import is one transaction and adds a row to `price_sets`, so that a plan knows which prices it has seen.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct
from psycopg import sql

from domain.audit.entries import Actor
from domain.contract.captions import Caption
from domain.contract.shapes import Latitude, Longitude, Reference, SentMoment, Text, in_utc
from domain.contract.wrong_places import wrong_place
from domain.database.connections import Connection
from domain.database.statements import Scalar
from domain.errors import FuelrouteError
from domain.files.csvfiles import ColumnNames, FileRow, ImportReport, Progress, read_rows, without_repeats
from domain.stations.believed_prices import (
    NO_OPTION,
    NotBelieved,
    PriceJudge,
    RetiredFinder,
    RetiredPlaces,
    UnitOption,
)
from domain.stations.closures import fault_of_moment, store_told_closures
from domain.stations.places import UnknownStation
from domain.stations.price_columns import CellText, CurrencyCell, PricePerGallon, UnitCell, check_unit, sent_price
from domain.stations.price_outliers import MOST_TIMES
from domain.stations.price_sets import begin_price_set, record_by_hand
from domain.stations.prices import STALE_AFTER
from domain.stations.staged_rows import RowKey, count_outcomes, keep_stored, stage_rows
from domain.stations.state_names import US_STATES, code_of_state
from domain.stations.station_finding import miles_between


class StationRow(Struct, frozen=True):
    station_id: Annotated[Reference, Caption("Id", "cannot be changed")]
    name: Annotated[Reference, Caption("Name")]
    latitude: Annotated[Latitude, Caption("Latitude")]
    longitude: Annotated[Longitude, Caption("Longitude")]
    brand: Annotated[CellText | None, Caption("Brand")] = None
    address: Annotated[CellText | None, Caption("Address")] = None
    city: Annotated[CellText | None, Caption("City")] = None
    state: Annotated[CellText | None, Caption("State")] = None
    parking_spaces: Annotated[CellText | None, Caption("Places to park a truck", "a number, yes or no")] = None
    showers: Annotated[CellText | None, Caption("Showers", "a number, yes or no")] = None
    hours: Annotated[Text | None, Caption("Hours", "as drivers read it, 120 characters")] = None
    retail_price: Annotated[PricePerGallon | None, Caption("Retail price, dollars a gallon")] = None
    priced_at: SentMoment | None = None

    def __post_init__(self) -> None:
        if (wrong := wrong_place(self.latitude, self.longitude)) is not None:
            raise ValueError(": ".join(wrong))
        if self.priced_at is not None:
            in_utc(self.priced_at)  # raises


class StationFileRow(StationRow, frozen=True):
    """A station in a file or a form: its price may be in the money and unit of its country."""

    retail_price: Annotated[
        Annotated[float, Meta(gt=0, lt=1_000)] | None,
        Caption("Retail price, dollars a gallon", "or in the currency and unit below"),
    ] = None
    currency: CurrencyCell = None
    unit: UnitCell = None
    checked_price: CellText | None = None
    """The price again, or `yes`, if a person has checked it. Exports have it."""
    closed_until: SentMoment | None = None
    """The station is closed for all companies until then."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.closed_until is not None:
            in_utc(self.closed_until)  # raises
        check_unit(self.currency, self.unit, self.retail_price)


_YES, _NO = frozenset({"yes", "y", "true", "x"}), frozenset({"no", "n", "false", "none"})
STATION_FILE_COLUMNS = ColumnNames(
    {
        **dict.fromkeys(("parkingspacescount", "truckparkingspaces", "truckparking", "parking"), "parking_spaces"),
        **dict.fromkeys(("showercount", "showerscount", "numberofshowers", "shower"), "showers"),
        **dict.fromkeys(("openinghours", "hoursofoperation", "operatinghours", "storehours"), "hours"),
        **dict.fromkeys(("lat", "gpslatitude"), "latitude"),
        **dict.fromkeys(("lon", "lng", "long", "gpslongitude"), "longitude"),
        **dict.fromkeys(("stationname", "truckstopname", "storename", "locationname", "sitename"), "name"),
        **dict.fromkeys(("streetaddress", "address1", "addrstreet"), "address"),
        **dict.fromkeys(("stateprovince", "provincestate", "province", "addrstate"), "state"),
        "addrcity": "city",
    },
    passed_over={
        **dict.fromkeys(("sellsdiesel", "hasdiesel", "fueldiesel", "hgv"), _NO | {"0"}),
        "storetype": frozenset({"country store"}),
    },
)
"""Names of columns in lists that people have; tests/cases/kinds has examples. None stands for the id: numbers of stores
and of lists begin at 1 in each of them, and a station would move to another one's place. A place without diesel, or
without pumps for trucks, is passed over."""

MOST_AMENITIES = 10_000


def count_of(cell: str | int | None) -> int | None:
    """The places to park or the showers in a cell of a file: `yes` is one, since their number is not known. None for
    anything else, because such a cell is no reason to refuse a station."""
    word = str(cell or "").strip().lower().removesuffix(".0")
    if word.isascii() and word.isdecimal():
        return min(int(word[:9]), MOST_AMENITIES)
    return 1 if word in _YES else 0 if word in _NO else None


_MOST_HOURS = 120


def hours_of(cell: str | None) -> str | None:
    """The hours in a cell of a file, in its own words. None for an empty cell, and for one that nobody would read in a
    cab, such as a list of all days in JSON."""
    words = " ".join((cell or "").split())
    return words if words and len(words) <= _MOST_HOURS and words[0] not in "[{" else None


class StationExists(FuelrouteError):
    def __init__(self, station_id: str) -> None:
        super().__init__(f"there is a station with the id {station_id!r} already: search for it, and edit it there")


_STATION_KEY = RowKey(["station_id"])
_REMOVABLE = [
    field.name for field in msgspec.structs.fields(StationRow) if not field.required and field.name != "priced_at"
]
"""The columns that an empty cell removes, and that are told. The time of a price goes with the price."""
_NOT_COLUMNS = ("currency", "unit", "checked_price", "closed_until")
"""Fields of a file's row that are no columns of the table."""


def store_station_rows(
    connection: Connection,
    path: Path,
    *,
    now: datetime,
    unit: UnitOption = NO_OPTION,
    believe: bool = False,
    progress: Progress = lambda _: None,
) -> ImportReport:
    """Add and update stations by id, in the caller's transaction, so that no reader sees half of it. A row without
    `priced_at` was priced now. A price older than the stored one is ignored. A price that cannot be converted to US
    dollars a gallon, or is unlike known ones, is not stored unless a person has checked it (`believe`), and neither is
    a row whose place is far from where its station is known. A retired station comes back only under its own id.
    `progress` is called for every row. Raises UnreadableFile if the file is refused as a whole. A column `closed_until`
    closes stations for all companies, and opens those where it is empty."""
    report = ImportReport()
    rows = read_rows(path, StationFileRow, report, progress=progress, names=STATION_FILE_COLUMNS)
    lines = without_repeats(rows, report, "station_id")
    judge = PriceJudge(connection, now=now, believe=believe, option=unit)
    closures = _ToldClosures(lines, report, now=now)
    far = _store_stations(
        connection, closures, report, judge, RetiredPlaces(connection).finder(), now=now, believe_places=believe
    )
    store_told_closures(connection, {one: until for one, until in closures.told.items() if one not in far}, now=now)
    return report


class _ToldClosures:
    """The rows of a file, whose closures are noted as they pass: each station with the moment until which it is closed,
    or None. Nothing is noted of a file without that column."""

    def __init__(self, lines: Iterable[FileRow[StationFileRow]], report: ImportReport, *, now: datetime) -> None:
        self._lines, self._report, self._now = lines, report, now
        self.told: dict[str, datetime | None] = {}

    def __iter__(self) -> Iterator[FileRow[StationFileRow]]:
        for line in self._lines:
            if "closed_until" not in line.absent:
                self._note(line.number, line.row.station_id, line.row.closed_until)
            yield line

    def _note(self, number: int, station_id: str, closed_until: datetime | None) -> None:
        fault = fault_of_moment(closed_until, now=self._now) if closed_until is not None else None
        if fault is not None and closed_until is not None and closed_until > self._now:
            self._report.reject(number, f"closed_until: {fault}: the station is stored without it")
        else:
            self.told[station_id] = closed_until


def insert_station(connection: Connection, row: StationRow, by: Actor, *, now: datetime, believe: bool = False) -> None:
    """Add one station. Raises StationExists, also where the station is retired, and NotBelieved."""
    if not _store_one(connection, row, now=now, believe=believe, believe_place=True).created:
        raise StationExists(row.station_id)
    record_by_hand(connection, by, "add", "station", row.station_id)


def store_station(
    connection: Connection,
    row: StationRow,
    by: Actor,
    *,
    now: datetime,
    believe: bool = False,
    believe_place: bool = False,
) -> None:
    """Change one station, as an import of this row does. Raises NotBelieved."""
    _store_one(connection, row, now=now, believe=believe, believe_place=believe_place)
    record_by_hand(connection, by, "change", "station", row.station_id)


def _store_one(
    connection: Connection, row: StationRow, *, now: datetime, believe: bool, believe_place: bool
) -> ImportReport:
    if not isinstance(row, StationFileRow):
        row = StationFileRow(*msgspec.structs.astuple(row))
    report, judge = ImportReport(), PriceJudge(connection, now=now, believe=believe)
    _store_stations(connection, [FileRow(1, row)], report, judge, None, now=now, believe_places=believe_place)
    if report.rejected:
        raise NotBelieved(report.rejected[0].message.removesuffix(_NOT_STORED).removesuffix(_LEFT))
    return report


def _store_stations(
    connection: Connection,
    lines: Iterable[FileRow[Any]],
    report: ImportReport,
    judge: PriceJudge,
    retired: RetiredFinder | None,
    *,
    now: datetime,
    believe_places: bool,
) -> set[str]:
    """Returns the stations that were left as they are, because the file has them far away."""
    columns = (*StationRow.__struct_fields__, "retired_at")  # a retired station that is named again is back
    told = _ToldStations(lines, report, judge, retired)

    stored = attrgetter(*columns[:-2])
    state_place, first_amenity = columns.index("state"), columns.index("parking_spaces")

    def values(row: StationRow) -> tuple[Any, ...]:
        told = stored(row)
        if row.state is not None and row.state not in US_STATES:
            told = (*told[:state_place], code_of_state(row.state), *told[state_place + 1 :])
        if row.parking_spaces is not None or row.showers is not None or row.hours is not None:
            amenities = count_of(row.parking_spaces), count_of(row.showers), hours_of(row.hours)
            told = (*told[:first_amenity], *amenities, *told[first_amenity + 3 :])
        return (*told, row.priced_at or now, None)

    absent = stage_rows(connection, "stations", columns, told, values).difference(_NOT_COLUMNS)
    begin_price_set(connection, "stations", None, now=now)
    kept = absent - {"priced_at"}  # without the column, a price is of now
    if "retail_price" in absent:
        kept |= {"priced_at"}
    _pass_retired(connection, told, report)
    far = set() if believe_places else _pass_far_places(connection, told, report)
    keep_stored(connection, "stations", _STATION_KEY, kept)
    _keep_newer_prices(connection, now=now)
    _keep_doubted(connection, told, report, judge, now=now)
    # An equal price at a later time does not count as a change, but the time is stored.
    compared = [name for name in columns if name != "priced_at"]
    count_outcomes(connection, "stations", _STATION_KEY, compared, report, _REMOVABLE)
    assignments = sql.SQL(", ").join(
        sql.SQL("{0} = excluded.{0}").format(sql.Identifier(name)) for name in columns if name != "station_id"
    )
    connection.execute(
        sql.SQL(
            "INSERT INTO stations ({0}) SELECT {0} FROM staged_stations ON CONFLICT (station_id) DO UPDATE SET {1}"
        ).format(sql.SQL(", ").join(map(sql.Identifier, columns)), assignments)
    )
    return far


class _ToldStations:
    """The rows with their prices in US dollars a gallon. A doubtful price is left out, and listed in the report."""

    def __init__(
        self, lines: Iterable[FileRow[Any]], report: ImportReport, judge: PriceJudge, retired: RetiredFinder | None
    ) -> None:
        self._lines, self._report, self._judge, self._retired = lines, report, judge, retired
        self.doubted: list[str] = []
        self.numbers: dict[str, int] = {}
        """The line of each station."""
        self.checked: set[str] = set()
        """Stations whose price a person has checked."""
        self.once_retired: dict[str, tuple[int, str]] = {}
        """Stations at the place of a retired one: the line, and the retired one's id."""

    def __iter__(self) -> Iterator[FileRow[Any]]:
        for line in self._lines:
            row = line.row
            self.numbers[row.station_id] = line.number
            if self._retired is not None:
                same = self._retired(row.station_id, row.name, row.brand, row.city, row.latitude, row.longitude)
                if same is not None:
                    self.once_retired[row.station_id] = line.number, same
            if row.retail_price is None or (
                self._judge.is_plain(row.retail_price, row.state)
                and not self._judge.time_doubt(row.priced_at)
                and row.currency is row.unit is row.checked_price is None
            ):
                yield line
            else:
                yield self._in_dollars(line)

    def _in_dollars(self, line: FileRow[Any]) -> FileRow[Any]:
        row = line.row
        sent = sent_price(row, row.retail_price)
        price, doubt = self._judge.station_price(sent, row.state, (row.latitude, row.longitude))
        doubt = doubt or self._judge.time_doubt(row.priced_at)
        if doubt:
            self.doubted.append(row.station_id)
            self._report.reject(line.number, _doubted(doubt))
            return line._replace(row=msgspec.structs.replace(row, retail_price=None))
        if sent.is_checked:
            self.checked.add(row.station_id)
        return (
            line if price == row.retail_price else line._replace(row=msgspec.structs.replace(row, retail_price=price))
        )


_NOT_STORED = ": the station is stored without this price"


def _doubted(doubt: str) -> str:
    return f"{doubt}{_NOT_STORED}"


def _pass_retired(connection: Connection, told: _ToldStations, report: ImportReport) -> None:
    """Pass over stations that were retired under another id."""
    if not told.once_retired:
        return
    known = set(_KNOWN.all(connection, (list(told.once_retired),)))
    for station_id, (line, same) in told.once_retired.items():
        if station_id not in known:
            connection.execute("DELETE FROM staged_stations WHERE station_id = %s", (station_id,))
            report.reject(line, f"this station is retired as {same!r}: import it by that id to bring it back")


MOST_MOVED_MILES = 5
"""Farthest move of a station that counts as a correction, such as from the middle of its town to its own entrance. A
place farther away is mostly that of another station under the same id."""

_LEFT = ": the station is left as it is"


def _pass_far_places(connection: Connection, told: _ToldStations, report: ImportReport) -> set[str]:
    """Pass over the rows whose place is far from where their station is known. Returns the ids of those stations."""
    degree = MOST_MOVED_MILES / 100  # one way a move has at least 0.7 of its miles, and a degree has at most 69.5
    moved = connection.execute(
        "SELECT new.station_id, new.latitude, new.longitude, stored.latitude, stored.longitude FROM staged_stations new"
        " JOIN stations stored ON stored.station_id = new.station_id"
        " WHERE greatest(abs(new.latitude - stored.latitude), abs(new.longitude - stored.longitude)) > %s",
        (degree,),
    ).fetchall()
    far = set()
    for station_id, *place in moved:
        if miles_between(*place) > MOST_MOVED_MILES:
            far.add(station_id)
            new, known = f"{place[0]:g}, {place[1]:g}", f"{place[2]:g}, {place[3]:g}"
            doubt = f"{new} is more than {MOST_MOVED_MILES} miles from where this station is known, {known}"
            report.reject(told.numbers[station_id], f"{doubt}{_LEFT}")
    connection.execute("DELETE FROM staged_stations WHERE station_id = ANY(%s)", (list(far),))
    return far


def _keep_doubted(
    connection: Connection, told: _ToldStations, report: ImportReport, judge: PriceJudge, *, now: datetime
) -> None:
    """Keep the stored prices where the new ones are in doubt, also by their distance from the stored ones."""
    leaps = [] if judge.believes else _leaps(connection, now=now)
    for station_id, price, before in leaps:
        if station_id not in told.checked:
            told.doubted.append(station_id)
            doubt = f"{price:.3f} is too unlike the price before, {before:.3f}"
            report.reject(told.numbers[station_id], _doubted(doubt))
    if told.doubted:
        connection.execute(
            "UPDATE staged_stations new SET retail_price = stored.retail_price, priced_at = stored.priced_at"
            " FROM stations stored WHERE stored.station_id = new.station_id AND new.station_id = ANY(%s)",
            (told.doubted,),
        )


def _leaps(connection: Connection, *, now: datetime) -> list[tuple[str, float, float]]:
    """Stations with a new price far from a fresh stored one: the id, the new price and the stored one."""
    return connection.execute(
        "SELECT new.station_id, new.retail_price, stored.retail_price FROM staged_stations new JOIN stations stored"
        " ON stored.station_id = new.station_id WHERE stored.priced_at > %(since)s AND stored.priced_at <= %(now)s"
        " AND new.retail_price NOT BETWEEN stored.retail_price / %(most)s AND stored.retail_price * %(most)s",
        {"since": now - STALE_AFTER, "now": now, "most": MOST_TIMES},
    ).fetchall()


def _keep_newer_prices(connection: Connection, *, now: datetime) -> None:
    """Keep a stored price that is newer than the file's, unless its time lies in the future."""
    connection.execute(
        "UPDATE staged_stations new SET retail_price = stored.retail_price, priced_at = stored.priced_at"
        " FROM stations stored WHERE stored.station_id = new.station_id"
        " AND stored.priced_at > new.priced_at AND stored.priced_at <= %s",
        (now,),
    )
    connection.execute("UPDATE staged_stations SET priced_at = NULL WHERE retail_price IS NULL")


_KNOWN = Scalar(str, "SELECT station_id FROM stations WHERE station_id = ANY(%s)")
_RETIRE = Scalar(
    str, "UPDATE stations SET retired_at = coalesce(retired_at, %s) WHERE station_id = ANY(%s) RETURNING station_id"
)


def set_stations_retired(connection: Connection, station_ids: Sequence[str], by: Actor, *, now: datetime) -> None:
    """Retire stations: no plan stops there until an import names them again. Raises UnknownStation."""
    begin_price_set(connection, "stations", None, now=now)  # so that every process reads its index again
    retired = _RETIRE.all(connection, (now, list(station_ids)))
    unknown = set(station_ids).difference(retired)
    if unknown:
        raise UnknownStation(min(unknown))
    for station_id in retired:
        record_by_hand(connection, by, "retire", "station", station_id)
