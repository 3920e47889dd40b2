"""The kinds of files that people bring, each with everything that is special about it.

A file of a fleet, of stations, deals or taxes is stored as a whole. Routes and fills are stored in batches, each a
transaction with the figures of its record, so the record tells exactly what is stored, even if the process dies. Such a
file may be sent again: a route is recognized by its `externalId`, a fill by its key."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import ClassVar, NamedTuple
from uuid import UUID
from zoneinfo import ZoneInfo

from domain.accounts.companies import require_company
from domain.accounts.contacts import IN_CLEAR, Contacts
from domain.audit.entries import Action, AnyAction
from domain.database.connections import Connection, Tenant
from domain.files.csvfiles import ImportReport, Progress, Rejected, count_rows
from domain.files.profiles import FileProfile
from domain.files.route_files import FileFormat, open_route_file
from domain.files.route_rows import FileRoute
from domain.fills.card_files import FileFill, Volume, open_fill_file
from domain.fills.importing import BATCH_FILLS, finish_fills, read_stations, store_fills
from domain.fills.matching import KnownStations
from domain.lifecycle import Environment
from domain.queue.jobs import after_commit, import_routes_job, in_batches
from domain.routes.intake import fleet_changes
from domain.routes.intake.pushes import Push, store_pushes
from domain.routes.plans.closed_stations import make_new_plans
from domain.stations.believed_prices import NO_OPTION, UnitOption
from domain.stations.deals import store_deal_rows
from domain.stations.price_files import store_price_file
from domain.stations.price_outliers import OutlierLimits
from domain.stations.price_rows import PriceReport
from domain.stations.price_runs import RunFile, file_hash_of, record_run
from domain.stations.stations import store_station_rows
from domain.stations.taxes import store_tax_rows


class StoredRows(NamedTuple):
    """The outcome of a batch."""

    created: int
    updated: int
    unchanged: int
    refused: Sequence[Rejected] = ()


StoreBatch = Callable[[Connection, datetime], StoredRows]
"""Stores a batch in the caller's transaction, at the given time."""


@dataclass(kw_only=True)
class ImportFile(ABC):
    """An uploaded file of one kind, and the way to store it."""

    name: ClassVar[str]
    """The word for its rows, in the plural."""
    broke_off: ClassVar[str] = "Nothing of the file is imported: send it again."
    """The sentence about the file if its process dies."""
    is_one_transaction: ClassVar[bool] = True
    most_tries: ClassVar[int] = 1
    """Attempts at a batch that meets a deadlock."""

    path: Path
    company_id: UUID | None = None
    """The company; None if all companies share the rows."""
    report: ImportReport = field(default_factory=ImportReport)

    @property
    def kind(self) -> str:
        return self.name

    @classmethod
    def kinds(cls) -> list[str]:
        """The names of this class's kinds in `csv_imports`."""
        return [cls.name]

    @property
    def audited_as(self) -> tuple[AnyAction, str]:
        """The action and its subject in the audit log."""
        return "import", self.kind

    def rows_total(self) -> int:
        """The approximate number of rows; 0 if it is not known before."""
        return count_rows(self.path)

    def batches(self, now: datetime, progress: Progress) -> Iterator[StoreBatch]:
        """The parts that are stored one by one; none if `finish` stores the whole file. Raises UnreadableFile if the
        file is refused as a whole."""
        yield from ()

    @abstractmethod
    def finish(self, connection: Connection, now: datetime, progress: Progress) -> None:
        """The last transaction. Raises UnreadableFile if the file is refused as a whole."""


# --- Stored as a whole -------------------------------------------------------------------------------------------


@dataclass(kw_only=True)
class VehiclesFile(ImportFile):
    name = "vehicles"
    company_id: UUID

    def finish(self, connection: Connection, now: datetime, progress: Progress) -> None:
        self.report = fleet_changes.import_vehicles(connection, self.company_id, self.path, progress=progress)


@dataclass(kw_only=True)
class DriversFile(ImportFile):
    name = "drivers"
    company_id: UUID
    contacts: Contacts = IN_CLEAR

    def finish(self, connection: Connection, now: datetime, progress: Progress) -> None:
        self.report = fleet_changes.import_drivers(
            connection, self.company_id, self.path, contacts=self.contacts, progress=progress
        )


@dataclass(kw_only=True)
class StationsFile(ImportFile):
    name = "stations"
    unit: UnitOption = NO_OPTION
    believe: bool = False

    def finish(self, connection: Connection, now: datetime, progress: Progress) -> None:
        self.report = store_station_rows(
            connection, self.path, unit=self.unit, believe=self.believe, now=now, progress=progress
        )
        make_new_plans(connection, None, now=now)


@dataclass(kw_only=True)
class DealsFile(ImportFile):
    name = "deals"
    company_id: UUID
    unit: UnitOption = NO_OPTION
    believe: bool = False

    def finish(self, connection: Connection, now: datetime, progress: Progress) -> None:
        self.report = store_deal_rows(
            connection, self.company_id, self.path, unit=self.unit, believe=self.believe, now=now, progress=progress
        )


@dataclass(kw_only=True)
class TaxesFile(ImportFile):
    name = "taxes"

    def finish(self, connection: Connection, now: datetime, progress: Progress) -> None:
        self.report = store_tax_rows(connection, self.path, now=now, progress=progress)


@dataclass(kw_only=True)
class PricesFile(ImportFile):
    """Prices of a chain or a card. Its result is a price run, beside those of the company's sources."""

    name = "prices"
    company_id: UUID
    profile: FileProfile
    takes_retail: bool
    limits: OutlierLimits
    file_name: str
    sender: str
    priced_at: datetime | None = None
    """The time of rows without one; None for that of the import."""
    report: PriceReport = field(default_factory=PriceReport)
    run_id: UUID = field(init=False)

    @property
    def audited_as(self) -> tuple[AnyAction, str]:
        return Action("prices.import"), f"profile {self.profile.name}"

    def finish(self, connection: Connection, now: datetime, progress: Progress) -> None:
        self.report = store_price_file(
            connection,
            self.company_id,
            self.path,
            self.profile,
            takes_retail=self.takes_retail,
            limits=self.limits,
            now=now,
            priced_at=self.priced_at,
            progress=progress,
        )
        run = RunFile(None, self.file_name, file_hash_of(self.path), self.profile.name, self.sender)
        self.run_id = record_run(connection, self.company_id, run, self.report, None, now=now)


# --- Stored in batches -------------------------------------------------------------------------------------------


@dataclass(kw_only=True)
class EnvironmentFile(ImportFile):
    """A file that belongs to one environment of a company."""

    is_one_transaction = False
    company_id: UUID
    environment: Environment

    @property
    def kind(self) -> str:
        return self.kind_in(self.environment)

    @property
    def tenant(self) -> Tenant:
        return Tenant(self.company_id, self.environment)

    @classmethod
    def kinds(cls) -> list[str]:
        return [cls.kind_in(environment) for environment in Environment]

    @classmethod
    def kind_in(cls, environment: Environment) -> str:
        return f"{environment} {cls.name}"


BATCH_ROUTES = 64

STARTED = "the route has started: it cannot change any more"


@dataclass(kw_only=True)
class RoutesFile(EnvironmentFile):
    """Routes, pushed as a TMS would push them. Imports wait in the company's backlog, so that a large file delays no
    other company."""

    name = "routes"
    broke_off = "Send the file again: pushed routes stay as they are."
    most_tries = 3
    format: FileFormat
    fields: Sequence[str] | None = None
    """The fields of its columns; None to go by their names."""
    mapping: Mapping[str, str] = field(default_factory=dict)
    """The columns of the fields that their names do not tell."""
    zone: ZoneInfo

    def rows_total(self) -> int:
        return 0 if self.format == "excel" else count_rows(self.path)

    def batches(self, now: datetime, progress: Progress) -> Iterator[StoreBatch]:
        with open_route_file(self.path, self.mapping, self.zone, fields=self.fields, kind=self.format) as file:
            for routes in in_batches((one._replace(body=None) for one in file.routes), BATCH_ROUTES):
                yield partial(self.push, routes)
                progress(len(routes))

    def push(self, routes: Sequence[FileRoute], connection: Connection, now: datetime) -> StoredRows:
        """Stores a batch of routes, and has the new ones imported. Raises RetiredCompany if the company was retired
        meanwhile; the import then ends."""
        require_company(connection, self.company_id)
        sound = [(one.line, one.route) for one in routes if one.route is not None]
        pushed = store_pushes(connection, [Push(self.tenant, route) for _, route in sound], now=now)
        effects = Counter(result.effect for result in pushed)
        started = [line for (line, _), result in zip(sound, pushed, strict=True) if result.effect == "refuse"]
        changed = dict.fromkeys(result.route_id for result in pushed if result.effect in ("create", "replace"))
        after_commit(connection, *(import_routes_job(ids, self.company_id) for ids in in_batches(changed)))
        return StoredRows(
            effects["create"],
            effects["replace"],
            effects["unchanged"],
            [
                *(Rejected(one.line, one.fault) for one in routes if one.route is None),
                *(Rejected(line, STARTED) for line in started),
            ],
        )

    def finish(self, connection: Connection, now: datetime, progress: Progress) -> None:
        pass


@dataclass(kw_only=True)
class FillsFile(EnvironmentFile):
    """Purchases of a fuel card, in CSV or Excel."""

    name = "fills"
    broke_off = "Send the file again: stored fills stay as they are."
    profile: FileProfile
    volume: Volume = ""
    currency: str = ""
    far_miles: float
    report: ImportReport = field(default_factory=lambda: ImportReport(passed_over=0))
    _stations: KnownStations = field(default_factory=lambda: KnownStations(()))

    def batches(self, now: datetime, progress: Progress) -> Iterator[StoreBatch]:
        yield self._read_stations
        with open_fill_file(
            self.path,
            self.profile,
            self.report,
            now=now,
            volume=self.volume,
            currency=self.currency,
            state_of=self._stations.state_of,
            progress=progress,
        ) as file:
            for fills in in_batches(file.fills, BATCH_FILLS):
                yield partial(self._store, fills)

    def _read_stations(self, connection: Connection, now: datetime) -> StoredRows:
        self._stations = read_stations(connection, self.company_id)
        return StoredRows(0, 0, 0)

    def _store(self, fills: Sequence[FileFill], connection: Connection, now: datetime) -> StoredRows:
        done = store_fills(connection, self.tenant, self.profile.name, fills, self._stations, far_miles=self.far_miles)
        return StoredRows(*done)

    def finish(self, connection: Connection, now: datetime, progress: Progress) -> None:
        finish_fills(connection, self.tenant)


IMPORT_FILES: tuple[type[ImportFile], ...] = (
    VehiclesFile,
    DriversFile,
    StationsFile,
    DealsFile,
    TaxesFile,
    PricesFile,
    RoutesFile,
    FillsFile,
)
