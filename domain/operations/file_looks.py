"""A look at a file before it is imported: what it is, how its first rows are read, what is unclear; and the file as it
is stored, once a person has decided.

The answers of a person are kept by company for files with the same columns. Profiles of prices and of cards are kept
where they always were: an answer only names one."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID
from zoneinfo import ZoneInfo

import msgspec

from domain.accounts.companies import require_company, time_zone_of
from domain.accounts.contacts import IN_CLEAR, Contacts
from domain.database.connections import Connection
from domain.errors import FuelrouteError
from domain.files.csvfiles import ImportReport, Rejected, UnreadableFile, without_repeats
from domain.files.kept_profiles import keep_answer, kept_profiles, read_answer
from domain.files.profiles import FileProfile
from domain.files.reading import AUTO, first_rows, open_profiled
from domain.files.route_files import FileFormat, open_route_file
from domain.files.route_layout import ColumnsNotTold
from domain.files.spreadsheets import Row, is_excel_file
from domain.fills.card_files import FillFile, Volume, open_fill_file
from domain.fills.importing import states_by_stations
from domain.fills.local_times import CANADA
from domain.fills.profiles import card_profile_of
from domain.lifecycle import Environment
from domain.operations.file_kinds import FILE_KINDS, ColumnTable, KindFit, Recognized, layout_digest, recognize_kind
from domain.operations.import_kinds import (
    DealsFile,
    DriversFile,
    FillsFile,
    ImportFile,
    PricesFile,
    RoutesFile,
    StationsFile,
    TaxesFile,
    VehiclesFile,
)
from domain.settings import Settings
from domain.stations.believed_prices import unit_option
from domain.stations.price_outliers import OutlierLimits
from domain.stations.price_polling import price_profile_of
from domain.stations.price_profiles import PRICE_FIELDS, with_unit, with_usual_columns
from domain.stations.price_rows import PriceLook
from domain.stations.price_units import ExchangeRates, unit_in_heading

LOOKED_AT = 1_000
"""The first rows of a table that are read for a look."""
_SHOWN = 5


class FileAnswer(msgspec.Struct, frozen=True, omit_defaults=True):
    """A person's decisions about a file. They are kept for files with the same columns."""

    kind: str
    profile: str = AUTO
    """The profile of prices or of a card."""
    volume: Volume = ""
    currency: str = ""
    unit: str = ""
    mapping: dict[str, str] = {}
    """The columns of the fields of routes that their names do not tell."""


class NotDecided(FuelrouteError):
    """Nothing tells for sure what the file is; the text says what to choose from."""


class MissingCompany(FuelrouteError):
    def __init__(self, kind: str) -> None:
        super().__init__(f"a file of {FILE_KINDS[kind].title} belongs to a company: say which one")


class UnknownKind(FuelrouteError):
    def __init__(self, name: str) -> None:
        super().__init__(f"there is no kind {name[:40]!r} of files: choose one of {', '.join(FILE_KINDS)}")


@dataclass(frozen=True, kw_only=True)
class Import:
    """Everything about an import beside the file's kind."""

    path: Path
    file_name: str
    sender: str
    settings: Settings
    company_id: UUID | None
    environment: Environment
    takes_retail: bool
    believe: bool = False
    priced_at: datetime | None = None
    contacts: Contacts = IN_CLEAR


class FileLook(NamedTuple):
    """The outcome of a look at a file."""

    answer: FileAnswer | None
    """The way to read the file; None if nothing tells."""
    is_sure: bool
    why: str
    choices: Sequence[str]
    """The kinds that may be meant."""
    layout: str | None
    """A text that is equal for files with the same columns; None for a file without columns."""
    profiles: Sequence[str] = ()
    """The profiles that read it equally well; a person chooses if there are several."""
    rows: Sequence[dict[str, str]] = ()
    """The first rows as they would be read, each with its line."""
    refused: Sequence[Rejected] = ()
    """The first rows that would be refused."""
    unclear: Sequence[str] = ()
    """Sentences about doubts that a person should settle or know."""
    asked: Mapping[str, Sequence[str]] = {}
    """The fields of routes whose column a person names, each with the columns that it may be."""

    @property
    def title(self) -> str:
        return FILE_KINDS[self.answer.kind].title if self.answer is not None else "an unknown kind"

    def as_json(self) -> dict[str, Any]:
        return {
            "kind": self.answer.kind if self.answer is not None else None,
            "profile": self.answer.profile if self.answer is not None else None,
            "sure": self.is_sure,
            "why": self.why,
            "choices": list(self.choices),
            "profiles": list(self.profiles),
            "rows": list(self.rows),
            "would_be_refused": [row._asdict() for row in self.refused],
            "unclear": list(self.unclear),
            "asked": {field: list(columns) for field, columns in self.asked.items()},
        }


def look_at_file(connection: Connection, wanted: Import, given: FileAnswer | None, *, now: datetime) -> FileLook:
    """Look at a file. `given` is what a person has decided already. Raises UnreadableFile, which says what to do, if
    the file can be nothing, UnknownKind, UnknownCompany, RetiredCompany."""
    if wanted.company_id is not None:
        require_company(connection, wanted.company_id)
    beginning = None if is_json_lines(wanted.path) else first_rows(wanted.path)
    layout = layout_digest(beginning) if beginning else None
    found, kept = _recognized(connection, wanted, beginning, layout)
    answer, is_sure, why = _decided(found, kept, given)
    if answer is None:
        return FileLook(None, False, why, list(FILE_KINDS), layout)
    fit = next((one for one in found.fits if one.kind == answer.kind), None)
    look = FileLook(answer, is_sure, why, [one.kind for one in found.fits], layout, _profiles(fit, answer))
    if len(look.profiles) > 1:
        unclear = [f"its columns fit the profiles {' and '.join(look.profiles)}: choose one"]
        return look._replace(is_sure=False, unclear=unclear)
    if FILE_KINDS[answer.kind].needs_company and wanted.company_id is None:
        return look._replace(unclear=[str(MissingCompany(answer.kind))])
    if fit is not None and fit.profiles:
        answer = _named(answer, look.profiles[0])  # so that the file is not opened once more to find it
    report, unclear = ImportReport(), list[str]()
    try:
        answer, rows = _first_rows(connection, wanted, answer, report, unclear, now)
    except UnreadableFile as error:
        asked = error.asked if isinstance(error, ColumnsNotTold) else {}
        return look._replace(is_sure=False, unclear=[str(error).replace(str(wanted.path), "the file")], asked=asked)
    if report.unused_columns:
        unclear.append(f"columns that are not used: {', '.join(report.unused_columns[:30])}")
    asked = {field: [column, *report.unused_columns] for field, column in answer.mapping.items()}
    refused = sorted(report.rejected)[:_SHOWN]
    return look._replace(answer=answer, rows=rows, refused=refused, unclear=unclear, asked=asked)


def require_decided(look: FileLook, *, is_told: bool) -> FileAnswer:
    """The answer by which the file is imported. Raises NotDecided if it is a guess, unless a person has told the kind
    (`is_told`)."""
    if look.answer is None or (not look.is_sure and not is_told):
        choices = ", ".join(look.choices) or ", ".join(FILE_KINDS)
        raise NotDecided(f"it is not sure what this file is, for {look.why}: choose one of {choices}")
    if len(look.profiles) > 1:
        raise NotDecided(f"the columns of this file fit the profiles {' and '.join(look.profiles)}: choose one of them")
    if not look.rows and look.unclear and not look.refused:
        raise UnreadableFile(look.unclear[0])
    return look.answer


def remember(connection: Connection, wanted: Import, layout: str | None, answer: FileAnswer, *, now: datetime) -> None:
    """Keep the decisions for the company's next file with the same columns, whose `layout` a look has told."""
    if wanted.company_id is not None and layout is not None:
        keep_answer(connection, wanted.company_id, layout, msgspec.to_builtins(answer), now=now)


# --- The kind ----------------------------------------------------------------------------------------------------


def is_json_lines(path: Path) -> bool:
    """True for a file that begins with an object: a body of a push on each line."""
    try:
        with path.open("rb") as file:
            return file.read(64).lstrip(b"\xef\xbb\xbf \r\n\t")[:1] == b"{"
    except OSError as error:
        raise UnreadableFile(f"cannot read {path}: {error.strerror}") from None


def _recognized(
    connection: Connection, wanted: Import, rows: Sequence[Row] | None, layout: str | None
) -> tuple[Recognized, FileAnswer | None]:
    """The kind by the columns in the first rows, and what was decided about such a file before. JSON lines have no
    rows."""
    if rows is None:
        return Recognized([KindFit("routes", ["externalId"], 1)], True, "each line is the body of a push"), None
    if wanted.company_id is None:
        return recognize_kind(rows), None
    kept = [one for name in ("prices", "fills") for one in kept_profiles(connection, wanted.company_id, name)]
    return recognize_kind(rows, kept), _kept_answer(connection, wanted.company_id, layout)


def _kept_answer(connection: Connection, company_id: UUID, layout: str | None) -> FileAnswer | None:
    kept = read_answer(connection, company_id, layout) if layout is not None else None
    answer = msgspec.convert(kept, FileAnswer) if kept is not None else None
    return answer if answer is not None and answer.kind in FILE_KINDS else None


def _decided(
    found: Recognized, kept: FileAnswer | None, given: FileAnswer | None
) -> tuple[FileAnswer | None, bool, str]:
    if given is not None:
        if given.kind not in FILE_KINDS:
            raise UnknownKind(given.kind)
        if kept is not None and kept.kind == given.kind and given == FileAnswer(given.kind):
            given = kept
        return given, True, "somebody has said so"
    if kept is not None:
        return kept, True, "a file with these columns was imported so before"
    return (FileAnswer(found.best.kind) if found.best is not None else None), found.is_sure, found.why


def _profiles(fit: KindFit | None, answer: FileAnswer) -> list[str]:
    if answer.profile != AUTO:
        return [answer.profile]
    return [one.name for one in fit.profiles] if fit is not None else []


# --- Rows --------------------------------------------------------------------------------------------------------


def _first_rows(
    connection: Connection, wanted: Import, answer: FileAnswer, report: ImportReport, unclear: list[str], now: datetime
) -> tuple[FileAnswer, list[dict[str, str]]]:
    """The answer with its profile, and the first rows as they would be read."""
    kind = FILE_KINDS[answer.kind]
    if kind.table is not None:
        rows = [_shown(line, values) for line, values in _table_rows(wanted.path, kind.table, report)]
        unclear += [f"line {line} is passed over: {message}" for line, message in report.passed_rows[:_SHOWN]]
        return answer, rows
    zone = ZoneInfo(time_zone_of(connection, _company_of(wanted, answer)))
    if answer.kind == "prices":
        profile = _price_profile(connection, wanted, answer)
        look = PriceLook(connection, _company_of(wanted, answer), profile, ExchangeRates.of(wanted.settings))
        return _named(answer, profile.name), list(_price_rows(wanted, profile, zone, look, report, unclear))
    if answer.kind == "fills":
        profile = card_profile_of(wanted.path, answer.profile)
        states = states_by_stations(connection, _company_of(wanted, answer))
        with open_fill_file(
            wanted.path,
            profile,
            report,
            now=now,
            volume=answer.volume,
            currency=answer.currency,
            state_of=states,
        ) as file:
            return _named(answer, profile.name), list(_fill_rows(file, answer, report, unclear))
    return answer, list(_route_rows(wanted.path, answer.mapping, zone, report, unclear, now))


def _named(answer: FileAnswer, profile: str) -> FileAnswer:
    return msgspec.structs.replace(answer, profile=profile)


def _company_of(wanted: Import, answer: FileAnswer) -> UUID:
    if wanted.company_id is None:
        raise MissingCompany(answer.kind)
    return wanted.company_id


def _table_rows(path: Path, table: ColumnTable, report: ImportReport) -> list[tuple[int, dict[str, Any]]]:
    rows: Iterator[Any] = islice(table.rows(path, report), LOOKED_AT)
    rows = without_repeats(rows, report, *table.key) if table.key else rows
    read = list(rows)[:_SHOWN]
    return [(one.number, msgspec.structs.asdict(one.row)) for one in read]


def _price_profile(connection: Connection, wanted: Import, answer: FileAnswer) -> FileProfile:
    found = price_profile_of(connection, wanted.company_id, answer.profile, wanted.path)
    return with_unit(found, answer.currency, answer.unit)


def _price_rows(
    wanted: Import, profile: FileProfile, zone: ZoneInfo, look: PriceLook, report: ImportReport, unclear: list[str]
) -> Iterator[dict[str, str]]:
    usual = with_usual_columns(profile)
    with open_profiled(wanted.path, usual, PRICE_FIELDS, zone, report, tell=report.pass_row) as file:
        report.unused_columns = file.unused
        if "effective_at" not in file.fields and "effective_at" not in file.above and wanted.priced_at is None:
            unclear.append("nothing says from when the prices hold: they hold from the import on")
        if not wanted.takes_retail and "net_price" not in file.fields:
            raise UnreadableFile("the file has retail prices only, which all companies share: an operator imports it")
        if wanted.takes_retail and "retail_price" in file.fields:
            unclear.append("its retail prices hold for all companies")
        for record in islice(file.records, _SHOWN):
            try:
                foreign = look.foreign_prices(record.values, file.fields)
            except ValueError as error:
                report.reject(record.line, str(error))
            else:
                yield _shown(record.line, record.values | foreign, zone)


def _fill_rows(
    file: FillFile, answer: FileAnswer, report: ImportReport, unclear: list[str]
) -> Iterator[dict[str, str]]:
    report.unused_columns = file.table.unused
    fills = list(islice(file.fills, _SHOWN))
    if fills and not any(fill.has_time for fill in fills):
        unclear.append("the first rows have no time of day: a fill without one is matched by its day alone")
    columns = file.table.fields
    is_told = answer.currency or "currency" in columns or any(unit_in_heading(name)[0] for name in columns.values())
    if not is_told and any(fill.state in CANADA and fill.currency == "USD" for fill in fills):
        unclear.append(
            "nothing says the currency of purchases in Canada: they are taken to be in US dollars, unless you say it"
            " for the file"
        )
    names = ("local_time", "unit_number", "location_name", "city", "state", "fuel", "gallons")
    for fill in fills:
        paid = {"paid": f"{fill.paid_cents / 100:.2f}", "currency": fill.currency}
        at_the_place = {"local_time": fill.local_time.replace(tzinfo=None)}
        yield _shown(fill.line, {name: getattr(fill, name) for name in names} | paid | at_the_place)


_LONG_PAST = timedelta(days=2)


def _route_rows(
    path: Path, mapping: Mapping[str, str], zone: ZoneInfo, report: ImportReport, unclear: list[str], now: datetime
) -> Iterator[dict[str, str]]:
    with open_route_file(path, mapping, zone, kind=route_format(path)) as file:
        if file.layout is not None:
            report.unused_columns = file.layout.unused
        routes = list(islice(file.routes, _SHOWN))
        if any(one.route is not None and one.route.scheduled_start < now - _LONG_PAST for one in routes):
            unclear.append("routes that started days ago are among the first: loads that are delivered are pushed, too")
        for one in routes:
            if one.route is None:
                report.reject(one.line, one.fault)
                continue
            route = one.route
            read = {
                "load": route.external_id,
                "truck": route.vehicle.unit_number or route.vehicle.vin,
                "driver": route.driver.name or route.driver.external_id,
                "start": route.scheduled_start,
                "stops": ", ".join(stop.name for stop in route.stops),
            }
            yield _shown(one.line, read, zone)


def route_format(path: Path) -> FileFormat:
    """The format of a file of routes by its first bytes."""
    if is_json_lines(path):
        return "jsonl"
    return "excel" if is_excel_file(path) else "csv"


_LONGEST_SHOWN = 100


def _shown(line: int, values: dict[str, Any], zone: tzinfo = UTC) -> dict[str, str]:
    """The values of a row for people; times are those of the company's clocks."""
    there = {name: value for name, value in values.items() if value is not None and value != ""}
    return {"line": str(line)} | {name: _text(name, value, zone) for name, value in there.items() if name != "contact"}


def _text(name: str, value: Any, zone: tzinfo) -> str:
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M}" if value.tzinfo is None else f"{value.astimezone(zone):%Y-%m-%d %H:%M %Z}"
    if isinstance(value, float):
        return f"{value:g}" if name not in ("latitude", "longitude") else f"{value:.4f}"
    return str(value)[:_LONGEST_SHOWN]


# --- The import --------------------------------------------------------------------------------------------------


def file_to_import(connection: Connection, wanted: Import, answer: FileAnswer) -> ImportFile:
    """The file as the import of its kind stores it. Raises MissingCompany, and UnreadableFile if its columns do not
    fit."""
    path, settings = wanted.path, wanted.settings
    unit = unit_option(answer.currency, answer.unit)
    if answer.kind == "stations":
        return StationsFile(path=path, unit=unit, believe=wanted.believe)
    if answer.kind == "taxes":
        return TaxesFile(path=path)
    company_id = _company_of(wanted, answer)
    match answer.kind:
        case "vehicles":
            return VehiclesFile(path=path, company_id=company_id)
        case "drivers":
            return DriversFile(path=path, company_id=company_id, contacts=wanted.contacts)
        case "deals":
            return DealsFile(path=path, company_id=company_id, unit=unit, believe=wanted.believe)
        case "prices":
            return _prices_file(wanted, company_id, _price_profile(connection, wanted, answer))
        case "fills":
            return FillsFile(
                path=path,
                company_id=company_id,
                environment=wanted.environment,
                profile=card_profile_of(path, answer.profile),
                volume=answer.volume,
                currency=answer.currency,
                far_miles=settings.fill_far_miles,
            )
        case "routes":
            return RoutesFile(
                path=path,
                company_id=company_id,
                environment=wanted.environment,
                format=route_format(path),
                mapping=answer.mapping,
                zone=ZoneInfo(time_zone_of(connection, company_id)),
            )
    raise UnknownKind(answer.kind)


def _prices_file(wanted: Import, company_id: UUID, profile: FileProfile) -> PricesFile:
    return PricesFile(
        path=wanted.path,
        company_id=company_id,
        profile=profile,
        takes_retail=wanted.takes_retail,
        limits=OutlierLimits.of(wanted.settings),
        file_name=wanted.file_name,
        sender=wanted.sender,
        priced_at=wanted.priced_at,
    )
