"""Imports truck stops with their prices, companies' deals and diesel taxes from CSV files, or edits single rows.

Each import is one transaction and adds a row to `price_sets`, so that a plan knows which prices it has seen. The rows
of a file are first read and copied into a temporary table, while others change prices; only then does the import begin
its price set, and others wait. The SQL on that table is composed when it runs. It is no constant `Statement`, because
the table does not exist when the tests prepare all statements."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from datetime import date, datetime
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any, NamedTuple
from uuid import UUID

import msgspec
from msgspec import Meta, Struct
from psycopg import sql
from psycopg.errors import UniqueViolation
from psycopg.rows import args_row

from domain.audit.actions import Action
from domain.audit.entries import Actor, audit_subject, record_action
from domain.contract.captions import Caption
from domain.contract.shapes import Latitude, Longitude, Reference, SentMoment, Text, in_utc
from domain.database.connections import Connection
from domain.database.staging import stage
from domain.database.statements import Command, NotNull, Scalar, Statement
from domain.errors import FuelrouteError
from domain.files.csvfiles import (
    FileRow,
    ImportReport,
    Progress,
    RowShape,
    UnreadableFile,
    read_rows,
    without_repeats,
)
from domain.settings import get_settings
from domain.stations.believed_prices import (
    NO_OPTION,
    PriceJudge,
    RetiredFinder,
    RetiredPlaces,
    SentPrice,
    UnbelievablePrice,
    UnitOption,
    says_checked,
)
from domain.stations.price_outliers import MOST_TIMES
from domain.stations.price_sets import begin_price_set
from domain.stations.price_units import unit_of_price
from domain.stations.prices import STALE_AFTER
from domain.stations.state_names import US_STATES, code_of_state

Words = Annotated[Text, Meta(max_length=400)]
PricePerGallon = Annotated[float, Meta(gt=0, lt=100)]


class StationRow(Struct, frozen=True):
    station_id: Annotated[Reference, Caption("Id", "cannot be changed")]
    name: Annotated[Reference, Caption("Name")]
    latitude: Annotated[Latitude, Caption("Latitude")]
    longitude: Annotated[Longitude, Caption("Longitude")]
    brand: Annotated[Words | None, Caption("Brand")] = None
    address: Annotated[Words | None, Caption("Address")] = None
    city: Annotated[Words | None, Caption("City")] = None
    state: Annotated[Words | None, Caption("State")] = None
    retail_price: Annotated[PricePerGallon | None, Caption("Retail price, dollars a gallon")] = None
    priced_at: SentMoment | None = None

    def __post_init__(self) -> None:
        if self.latitude == 0 and self.longitude == 0:
            raise ValueError("latitude and longitude are both 0: no place for a truck stop")
        if self.priced_at is not None:
            in_utc(self.priced_at)  # raises


class StationFileRow(StationRow, frozen=True):
    """A station in a file or a form: its price may be in the money and unit of its country."""

    retail_price: Annotated[
        Annotated[float, Meta(gt=0, lt=1_000)] | None,
        Caption("Retail price, dollars a gallon", "or in the currency and unit below"),
    ] = None
    currency: Annotated[Words | None, Caption("Currency", "USD, CAD or MXN; empty: of the country")] = None
    unit: Annotated[Words | None, Caption("Unit", "gallon or litre; empty: of the country")] = None
    checked_price: Words | None = None
    """The price again, or `yes`, if a person has checked it. Exports have it."""

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_unit(self.currency, self.unit, self.retail_price)


def _check_unit(currency: str | None, unit: str | None, price: float | None) -> None:
    """Check currency, unit and price together. Raises ValueError, with the reason, if they do not fit."""
    told, _ = unit_of_price(currency or "", unit or "", "US")
    if price is not None and price >= _MOST_DOLLARS and not told.is_cents and told.currency != "MXN":
        raise ValueError(f"a price of {price:,.2f} is no price of a gallon in dollars: is it in cents?")


_MOST_DOLLARS = 100


class DealRow(Struct, frozen=True):
    station_id: Annotated[Reference | None, Caption("Station id", "or a brand")] = None
    brand: Annotated[Reference | None, Caption("Brand", "or a station")] = None
    discount_per_gallon: Annotated[
        Annotated[float, Meta(gt=0, lt=100)] | None, Caption("Discount, dollars a gallon", "or a net price")
    ] = None
    net_price: Annotated[PricePerGallon | None, Caption("Net price, dollars a gallon", "or a discount")] = None
    valid_from: Annotated[date | None, Caption("First day")] = None
    valid_to: Annotated[date | None, Caption("Last day")] = None

    def __post_init__(self) -> None:
        if (self.station_id is None) == (self.brand is None):
            raise ValueError("exactly one of station_id and brand is needed")
        if (self.discount_per_gallon is None) == (self.net_price is None):
            raise ValueError("exactly one of discount_per_gallon and net_price is needed")
        if self.valid_from is not None and self.valid_to is not None and self.valid_to < self.valid_from:
            raise ValueError("valid_to is before valid_from")


class DealFileRow(DealRow, frozen=True):
    """A deal in a file or a form: its price may be in the money and unit of its country."""

    currency: Annotated[Words | None, Caption("Currency", "USD, CAD or MXN; empty: of the country")] = None
    unit: Annotated[Words | None, Caption("Unit", "gallon or litre; empty: of the country")] = None
    checked_price: Words | None = None
    """The net price or the discount again, or `yes`, if a person has checked it."""

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_unit(self.currency, self.unit, self.net_price)


class UnknownStation(FuelrouteError):
    def __init__(self, station_id: str) -> None:
        super().__init__(f"there is no station {station_id!r}: see `fuelroute stations list`")


class AlreadyPriced(FuelrouteError):
    def __init__(self, what: str, valid_from: date | None) -> None:
        super().__init__(
            f"there is a {what} {f'from {valid_from} on' if valid_from else 'without a first day'} already"
        )


class StationExists(FuelrouteError):
    def __init__(self, station_id: str) -> None:
        super().__init__(f"there is a station with the id {station_id!r} already: search for it, and edit it there")


class TaxRow(Struct, frozen=True):
    """The rate is part of the pump's price. A surcharge is owed by miles driven, and no purchase is credited for it."""

    state: Annotated[str, Meta(pattern="^[A-Z]{2}$"), Caption("State", "two capital letters")]
    rate_per_gallon: Annotated[float, Meta(ge=0, lt=10), Caption("Rate, dollars a gallon")]
    valid_from: Annotated[date, Caption("First day")]
    surcharge_per_gallon: Annotated[
        float, Meta(ge=0, lt=10), Caption("Surcharge, dollars a gallon", "0 unless given")
    ] = 0.0


class _Key(NamedTuple):
    """The columns that identify a row."""

    always: Sequence[str]
    optional: Sequence[str] = ()
    """Columns in which NULL counts as a value."""


_STATION_KEY = _Key(["station_id"])
_DEAL_KEY = _Key(["company_id"], ["station_id", "brand", "valid_from"])
_TAX_KEY = _Key(["state", "valid_from"])


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
    dollars a gallon, or is unlike known ones, is not stored unless a person has checked it (`believe`). A retired
    station comes back only under its own id. `progress` is called for every row. Raises UnreadableFile if the file is
    refused as a whole."""
    report = ImportReport()
    lines = without_repeats(read_rows(path, StationFileRow, report, progress=progress), report, "station_id")
    judge = PriceJudge(connection, now=now, believe=believe, option=unit)
    _store_stations(connection, lines, report, judge, RetiredPlaces(connection).finder(), now=now)
    return report


def insert_station(connection: Connection, row: StationRow, by: Actor, *, now: datetime, believe: bool = False) -> None:
    """Add one station. Raises StationExists, also where the station is retired, and UnbelievablePrice."""
    if not _store_one(connection, row, now=now, believe=believe).created:
        raise StationExists(row.station_id)
    _record(connection, by, "add", "station", row.station_id)


def store_station(connection: Connection, row: StationRow, by: Actor, *, now: datetime, believe: bool = False) -> None:
    """Change one station, as an import of this row does. Raises UnbelievablePrice."""
    _store_one(connection, row, now=now, believe=believe)
    _record(connection, by, "change", "station", row.station_id)


def _record(
    connection: Connection, by: Actor, action: Action, kind: str, key: object, company_id: UUID | None = None
) -> None:
    """Write to the audit log what was done to a station, a deal or a tax. Stations and taxes belong to no company."""
    subject = audit_subject(kind, str(key))
    record_action(connection, by.with_reason("by hand"), action, subject, company_id=company_id)


def _store_one(connection: Connection, row: StationRow, *, now: datetime, believe: bool) -> ImportReport:
    if not isinstance(row, StationFileRow):
        row = StationFileRow(*msgspec.structs.astuple(row))
    report, judge = ImportReport(), PriceJudge(connection, now=now, believe=believe)
    _store_stations(connection, [FileRow(1, row)], report, judge, None, now=now)
    if report.rejected:
        raise UnbelievablePrice(report.rejected[0].message.removesuffix(_NOT_STORED))
    return report


def _store_stations(
    connection: Connection,
    lines: Iterable[FileRow[Any]],
    report: ImportReport,
    judge: PriceJudge,
    retired: RetiredFinder | None,
    *,
    now: datetime,
) -> None:
    columns = (*StationRow.__struct_fields__, "retired_at")  # a retired station that is named again is back
    told = _ToldStations(lines, report, judge, retired)

    stored = attrgetter(*columns[:-2])
    state_place = columns.index("state")

    def values(row: StationRow) -> tuple[Any, ...]:
        told = stored(row)
        if row.state is not None and row.state not in US_STATES:
            told = (*told[:state_place], code_of_state(row.state), *told[state_place + 1 :])
        return (*told, row.priced_at or now, None)

    absent = _stage(connection, "stations", columns, told, values) - {"currency", "unit", "checked_price"}
    begin_price_set(connection, "stations", None, now=now)
    kept = absent - {"priced_at"}  # without the column, a price is of now
    if "retail_price" in absent:
        kept |= {"priced_at"}
    _pass_retired(connection, told, report)
    _keep_stored(connection, "stations", _STATION_KEY, kept)
    _keep_newer_prices(connection, now=now)
    _keep_doubted(connection, told, report, judge, now=now)
    # An equal price at a later time does not count as a change, but the time is stored.
    _count(connection, "stations", _STATION_KEY, [name for name in columns if name != "priced_at"], report)
    assignments = sql.SQL(", ").join(
        sql.SQL("{0} = excluded.{0}").format(sql.Identifier(name)) for name in columns if name != "station_id"
    )
    connection.execute(
        sql.SQL(
            "INSERT INTO stations ({0}) SELECT {0} FROM staged_stations ON CONFLICT (station_id) DO UPDATE SET {1}"
        ).format(sql.SQL(", ").join(map(sql.Identifier, columns)), assignments)
    )


class _ToldStations:
    """The rows with their prices in US dollars a gallon. A doubtful price is left out, and listed in the report."""

    def __init__(
        self, lines: Iterable[FileRow[Any]], report: ImportReport, judge: PriceJudge, retired: RetiredFinder | None
    ) -> None:
        self._lines, self._report, self._judge, self._retired = lines, report, judge, retired
        self.doubted: list[str] = []
        self.numbers: dict[str, int] = {}
        """The line of each station with an unchecked price."""
        self.once_retired: dict[str, tuple[int, str]] = {}
        """Stations at the place of a retired one: the line, and the retired one's id."""

    def __iter__(self) -> Iterator[FileRow[Any]]:
        for line in self._lines:
            row = line.row
            if self._retired is not None:
                same = self._retired(row.station_id, row.name, row.brand, row.city, row.latitude, row.longitude)
                if same is not None:
                    self.once_retired[row.station_id] = line.number, same
            if row.retail_price is None:
                yield line
            elif self._judge.is_plain(row.retail_price, row.state) and row.currency is row.unit is None:
                self.numbers[row.station_id] = line.number
                yield line
            else:
                yield self._told(line)

    def _told(self, line: FileRow[Any]) -> FileRow[Any]:
        row = line.row
        sent = _sent(row, row.retail_price)
        price, doubt = self._judge.station_price(sent, row.state, (row.latitude, row.longitude))
        if doubt:
            self.doubted.append(row.station_id)
            self._report.reject(line.number, _doubted(doubt))
            return line._replace(row=msgspec.structs.replace(row, retail_price=None))
        if not sent.is_checked:
            self.numbers[row.station_id] = line.number
        return (
            line if price == row.retail_price else line._replace(row=msgspec.structs.replace(row, retail_price=price))
        )


_NOT_STORED = ": the station is stored without this price"


def _sent(row: StationRow | DealRow, price: float) -> SentPrice:
    """The price of the row."""
    if not isinstance(row, StationFileRow | DealFileRow):
        return SentPrice(price)
    return SentPrice(price, row.currency or "", row.unit or "", says_checked(row.checked_price, price))


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
            told.numbers.pop(station_id, None)
            report.reject(line, f"this station is retired as {same!r}: import it by that id to bring it back")


def _keep_doubted(
    connection: Connection, told: _ToldStations, report: ImportReport, judge: PriceJudge, *, now: datetime
) -> None:
    """Keep the stored prices where the new ones are in doubt, also by their distance from the stored ones."""
    leaps = [] if judge.believes else _leaps(connection, now=now)
    for station_id, price, before in leaps:
        if station_id in told.numbers:
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
    """Keep a stored price that is newer than the file's. A stored time in the future keeps nothing."""
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
        _record(connection, by, "retire", "station", station_id)


def store_deal_rows(
    connection: Connection,
    company_id: UUID,
    path: Path,
    *,
    now: datetime,
    unit: UnitOption = NO_OPTION,
    believe: bool = False,
    progress: Progress = lambda _: None,
) -> ImportReport:
    """Add and update a company's deals by station or brand and first day. A deal for a station that is not stored yet
    is kept. A price or discount unlike known ones is refused unless a person has checked it (`believe`). Raises
    UnreadableFile if the file is refused as a whole, and TooManyDeals beyond the company's limit."""
    report = ImportReport()
    rows: Iterator[FileRow[Any]] = read_rows(path, DealFileRow, report, progress=progress)
    read = list(_within_quota(without_repeats(rows, report, "station_id", "brand", "valid_from")))
    named = (line.row.station_id for line in read if line.row.station_id is not None)
    judge = PriceJudge(connection, now=now, believe=believe, option=unit, stations=named)
    lines = _told_deals(read, judge, report)
    columns = DealRow.__struct_fields__
    absent = _stage(
        connection,
        "deals",
        ["company_id", *columns],
        lines,
        lambda row: (company_id, *(getattr(row, name) for name in columns)),
    )
    begin_price_set(connection, "deals", company_id, now=now)
    _keep_stored(connection, "deals", _DEAL_KEY, absent & {"valid_to"})  # a discount and a net price exclude each other
    _count(connection, "deals", _DEAL_KEY, columns, report)
    _require_room(connection, company_id, more=report.created)
    # New deals get the next numbers; known deals keep theirs.
    connection.execute(
        sql.SQL(
            """
            INSERT INTO deals (company_id, station_id, brand, discount_per_gallon, net_price, valid_from, valid_to,
                               number)
            SELECT new.company_id, new.station_id, new.brand, new.discount_per_gallon, new.net_price, new.valid_from,
                   new.valid_to, %s + row_number() OVER (ORDER BY stored.id NULLS FIRST)
            FROM staged_deals new LEFT JOIN deals stored ON {}
            ON CONFLICT ON CONSTRAINT deals_key DO UPDATE SET discount_per_gallon = excluded.discount_per_gallon,
                net_price = excluded.net_price, valid_to = excluded.valid_to
            """
        ).format(_same_key(_DEAL_KEY)),
        (_DEALS_NOW.one(connection, (company_id,)).last_number,),
    )
    return report


def _told_deals(
    lines: Iterable[FileRow[DealRow]], judge: PriceJudge, report: ImportReport
) -> Iterator[FileRow[DealRow]]:
    for line in lines:
        row, doubt = _told_deal(line.row, judge)
        if doubt:
            report.reject(line.number, doubt)
        else:
            yield FileRow(line.number, row, line.cleared, line.absent)


def _told_deal(row: DealRow, judge: PriceJudge) -> tuple[DealRow, str]:
    """The deal in US dollars a gallon, and the doubt, empty without one."""
    if row.net_price is not None:
        price, doubt = judge.net_price(_sent(row, row.net_price), row.station_id)
        return msgspec.structs.replace(row, net_price=price), doubt
    assert row.discount_per_gallon is not None  # noqa: S101
    discount, doubt = judge.discount(_sent(row, row.discount_per_gallon), row.station_id)
    return msgspec.structs.replace(row, discount_per_gallon=discount), doubt


class TooManyDeals(UnreadableFile):
    """The company would have too many deals: the file, or the single deal, is refused."""

    def __init__(self, most: int) -> None:
        super().__init__(
            f"a company has {most:,} deals at most: remove those that are over, or give one for a brand instead of one"
            " for each of its stations"
        )


class _DealsNow(NamedTuple):
    deals: int
    last_number: int


_DEALS_NOW = Statement(
    _DealsNow,
    "SELECT count(*)::int AS deals, coalesce(max(coalesce(number, id)), 0) AS last_number FROM deals"
    " WHERE company_id = %s",
)


def _within_quota(lines: Iterable[FileRow[DealRow]]) -> Iterator[FileRow[DealRow]]:
    """The rows. Raises TooManyDeals at the first one beyond the limit of a company."""
    most = get_settings().deals_per_company
    for count, line in enumerate(lines, 1):
        if count > most:
            raise TooManyDeals(most)
        yield line


def _require_room(connection: Connection, company_id: UUID, *, more: int) -> None:
    """Check the number of deals. Raises TooManyDeals if more do not fit. A company that has too many already may change
    them."""
    most = get_settings().deals_per_company
    if more and _DEALS_NOW.one(connection, (company_id,)).deals + more > most:
        raise TooManyDeals(most)


_ADD_DEAL = Scalar(
    NotNull[int],
    "INSERT INTO deals (company_id, station_id, brand, discount_per_gallon, net_price, valid_from, valid_to, number)"
    " VALUES (%s, %s, %s, %s, %s, %s, %s, %s) RETURNING number",
)
_CHANGE_DEAL = Scalar(
    NotNull[int],
    "UPDATE deals SET station_id = %s, brand = %s, discount_per_gallon = %s, net_price = %s, valid_from = %s,"
    " valid_to = %s WHERE company_id = %s AND coalesce(number, id) = %s RETURNING coalesce(number, id)",
)
_DELETE_DEAL = Command("DELETE FROM deals WHERE company_id = %s AND coalesce(number, id) = %s")


def store_deal(
    connection: Connection,
    company_id: UUID,
    deal_id: int | None,
    row: DealRow,
    by: Actor,
    *,
    now: datetime,
    believe: bool = False,
) -> int | None:
    """Change one deal, or for None add one. Returns its id, or None if the company has no such deal. Raises
    TooManyDeals, UnbelievablePrice, and AlreadyPriced if another deal has this place and first day; the transaction
    must then roll back."""
    judge = PriceJudge(connection, now=now, believe=believe, stations=[row.station_id] if row.station_id else [])
    row, doubt = _told_deal(row, judge)
    if doubt:
        raise UnbelievablePrice(doubt)
    begin_price_set(connection, "deals", company_id, now=now)
    values = tuple(getattr(row, name) for name in DealRow.__struct_fields__)
    try:
        if deal_id is None:
            _require_room(connection, company_id, more=1)
            number = _DEALS_NOW.one(connection, (company_id,)).last_number + 1
            stored = _ADD_DEAL.first(connection, (company_id, *values, number))
        else:
            stored = _CHANGE_DEAL.first(connection, (*values, company_id, deal_id))
    except UniqueViolation:
        raise AlreadyPriced("deal for this place", row.valid_from) from None
    if stored is None:
        return None
    _record(connection, by, "add" if deal_id is None else "change", "deal", stored, company_id)
    return stored


def delete_deal(connection: Connection, company_id: UUID, deal_id: int, by: Actor, *, now: datetime) -> bool:
    """Delete one deal. False: the company has no such deal."""
    begin_price_set(connection, "deals", company_id, now=now)
    if _DELETE_DEAL.execute(connection, (company_id, deal_id)).rowcount == 0:
        return False
    _record(connection, by, "remove", "deal", deal_id, company_id)
    return True


def store_tax_rows(
    connection: Connection, path: Path, *, now: datetime, progress: Progress = lambda _: None
) -> ImportReport:
    """Add and update states' diesel taxes by state and first day. Raises UnreadableFile if the file is refused as a
    whole."""
    report = ImportReport()
    rows = read_rows(path, TaxRow, report, progress=progress)
    lines = without_repeats(rows, report, "state", "valid_from")
    columns = TaxRow.__struct_fields__
    absent = _stage(connection, "fuel_taxes", columns, lines, msgspec.structs.astuple)
    begin_price_set(connection, "taxes", None, now=now)
    _keep_stored(connection, "fuel_taxes", _TAX_KEY, absent)
    _count(connection, "fuel_taxes", _TAX_KEY, columns, report)
    connection.execute(
        "INSERT INTO fuel_taxes (state, rate_per_gallon, valid_from, surcharge_per_gallon)"
        " SELECT state, rate_per_gallon, valid_from, surcharge_per_gallon FROM staged_fuel_taxes"
        " ON CONFLICT (state, valid_from) DO UPDATE SET rate_per_gallon = excluded.rate_per_gallon,"
        " surcharge_per_gallon = excluded.surcharge_per_gallon"
    )
    return report


_ADD_TAX = Command(
    "INSERT INTO fuel_taxes (state, rate_per_gallon, valid_from, surcharge_per_gallon) VALUES (%s, %s, %s, %s)"
)
_CHANGE_TAX = Command(
    "UPDATE fuel_taxes SET state = %s, rate_per_gallon = %s, valid_from = %s, surcharge_per_gallon = %s"
    " WHERE state = %s AND valid_from = %s"
)
_DELETE_TAX = Command("DELETE FROM fuel_taxes WHERE state = %s AND valid_from = %s")


def store_tax(connection: Connection, old: tuple[str, date] | None, row: TaxRow, by: Actor, *, now: datetime) -> bool:
    """Change the tax of a state from a day on, or for None add one. False: there is no such tax. Raises AlreadyPriced
    when there is another one of the same state and day. The transaction must then roll back."""
    begin_price_set(connection, "taxes", None, now=now)
    values = msgspec.structs.astuple(row)
    try:
        done = _ADD_TAX.execute(connection, values) if old is None else _CHANGE_TAX.execute(connection, (*values, *old))
    except UniqueViolation:
        raise AlreadyPriced(f"tax of {row.state}", row.valid_from) from None
    if done.rowcount == 0:
        return False
    _record(connection, by, "add" if old is None else "change", "tax", tax_key(row.state, row.valid_from))
    return True


def delete_tax(connection: Connection, state: str, valid_from: date, by: Actor, *, now: datetime) -> bool:
    """Delete one tax. False: there is no such tax."""
    begin_price_set(connection, "taxes", None, now=now)
    if _DELETE_TAX.execute(connection, (state, valid_from)).rowcount == 0:
        return False
    _record(connection, by, "remove", "tax", tax_key(state, valid_from))
    return True


def tax_key(state: str, valid_from: date) -> str:
    """The name of a tax for people, by which addresses find it."""
    return f"{state} {valid_from}"


def _stage(
    connection: Connection,
    table: str,
    columns: Sequence[str],
    lines: Iterable[FileRow[RowShape]],
    values: Callable[[RowShape], tuple[Any, ...]],
) -> frozenset[str]:
    """Stage the rows. Returns the columns that the file lacks."""
    absent: frozenset[str] = frozenset()

    def rows() -> Iterator[tuple[Any, ...]]:
        nonlocal absent
        for line in lines:
            absent = line.absent
            yield values(line.row)

    stage(connection, table, columns, rows())
    return absent


def _keep_stored(connection: Connection, table: str, key: _Key, columns: Collection[str]) -> None:
    """Give staged rows the stored values of these columns."""
    if columns:
        connection.execute(
            sql.SQL("UPDATE {} new SET {} FROM {} stored WHERE {}").format(
                sql.Identifier(f"staged_{table}"),
                sql.SQL(", ").join(sql.SQL("{0} = stored.{0}").format(sql.Identifier(name)) for name in columns),
                sql.Identifier(table),
                _same_key(key),
            )
        )


def _same_key(key: _Key) -> sql.Composed:
    """An equality that PostgreSQL can hash: with `IS NOT DISTINCT FROM` it would compare each row with each. No text of
    a key is empty, so an empty one can stand for NULL."""
    always = [sql.SQL("stored.{0} = new.{0}").format(sql.Identifier(name)) for name in key.always]
    optional = [
        sql.SQL("coalesce(stored.{0}::text, '') = coalesce(new.{0}::text, '')").format(sql.Identifier(name))
        for name in key.optional
    ]
    return sql.SQL(" AND ").join([*always, *optional])


class _Counts(NamedTuple):
    created: int
    updated: int
    total: int


def _count(connection: Connection, table: str, key: _Key, columns: Sequence[str], report: ImportReport) -> None:
    """Count the staged rows that are new, changed and unchanged."""
    different = sql.SQL("({}) IS DISTINCT FROM ({})").format(
        sql.SQL(", ").join(sql.SQL("stored.{}").format(sql.Identifier(name)) for name in columns),
        sql.SQL(", ").join(sql.SQL("new.{}").format(sql.Identifier(name)) for name in columns),
    )
    counts = (
        connection.cursor(row_factory=args_row(_Counts))
        .execute(
            sql.SQL(
                "SELECT count(*) FILTER (WHERE stored.ctid IS NULL) AS created,"
                " count(*) FILTER (WHERE stored.ctid IS NOT NULL AND {different}) AS updated,"
                " count(*) AS total FROM {staged} new LEFT JOIN {table} stored ON {same_key}"
            ).format(
                different=different,
                staged=sql.Identifier(f"staged_{table}"),
                table=sql.Identifier(table),
                same_key=_same_key(key),
            )
        )
        .fetchone()
    )
    assert counts is not None  # noqa: S101
    report.created, report.updated = counts.created, counts.updated
    report.unchanged = counts.total - counts.created - counts.updated
