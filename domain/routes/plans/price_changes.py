"""Changes of stations, deals and taxes, and the plans that they may change: those of trucks that are still at their
first stop are reviewed.

Each function returns the jobs that review them, to enqueue after the commit.
"""

from collections.abc import Sequence
from datetime import date, datetime
from pathlib import Path
from uuid import UUID
from zoneinfo import ZoneInfo

from domain.accounts.companies import require_company, time_zone_of
from domain.database.connections import Connection
from domain.files.csvfiles import ImportReport, Progress
from domain.files.profiles import FileProfile
from domain.queue.jobs import Job
from domain.routes.plans.review_requests import (
    after_new_prices,
    after_new_prices_of,
    companies_with_waiting_trucks,
)
from domain.stations import held_prices, price_imports
from domain.stations.believed_prices import NO_OPTION, UnitOption
from domain.stations.price_files import (
    PriceReport,
    apply_coming_prices,
    store_price_file,
)
from domain.stations.price_imports import DealRow, StationRow, TaxRow
from domain.stations.price_moments import begin_moments
from domain.stations.price_outliers import OutlierLimits
from domain.stations.price_units import NO_RATES, ExchangeRates


def import_stations(
    connection: Connection,
    path: Path,
    *,
    now: datetime,
    unit: UnitOption = NO_OPTION,
    believe: bool = False,
    progress: Progress = lambda _: None,
) -> tuple[ImportReport, list[Job]]:
    """Raises UnreadableFile."""
    report = price_imports.store_station_rows(connection, path, now=now, unit=unit, believe=believe, progress=progress)
    return report, after_new_prices(connection, None, now=now)


def import_deals(
    connection: Connection,
    company_id: UUID,
    path: Path,
    *,
    now: datetime,
    unit: UnitOption = NO_OPTION,
    believe: bool = False,
    progress: Progress = lambda _: None,
) -> tuple[ImportReport, list[Job]]:
    """Raises UnknownCompany, RetiredCompany, UnreadableFile."""
    require_company(connection, company_id)
    report = price_imports.store_deal_rows(
        connection, company_id, path, now=now, unit=unit, believe=believe, progress=progress
    )
    return report, after_new_prices(connection, company_id, now=now)


def import_taxes(
    connection: Connection, path: Path, *, now: datetime, progress: Progress = lambda _: None
) -> tuple[ImportReport, list[Job]]:
    """Raises UnreadableFile."""
    report = price_imports.store_tax_rows(connection, path, now=now, progress=progress)
    return report, after_new_prices(connection, None, now=now)


def import_price_file(
    connection: Connection,
    company_id: UUID,
    path: Path,
    profile: FileProfile,
    *,
    takes_retail: bool,
    limits: OutlierLimits,
    now: datetime,
    priced_at: datetime | None = None,
    progress: Progress = lambda _: None,
) -> tuple[PriceReport, list[Job]]:
    """Raises UnknownCompany, RetiredCompany, UnreadableFile."""
    require_company(connection, company_id)
    report = store_price_file(
        connection,
        company_id,
        path,
        profile,
        ZoneInfo(time_zone_of(connection, company_id)),
        takes_retail=takes_retail,
        limits=limits,
        now=now,
        priced_at=priced_at,
        progress=progress,
    )
    return report, after_new_prices(connection, None if takes_retail else company_id, now=now)


def accept_held_price(
    connection: Connection,
    company_id: UUID,
    held_id: UUID,
    *,
    station_id: str = "",
    may_change_retail: bool,
    by: str,
    now: datetime,
    rates: ExchangeRates = NO_RATES,
) -> list[Job]:
    """Raises UnknownHeldPrice, NeedsStation, NeedsOperator, NeedsRate, UnknownStation."""
    held = held_prices.accept_price(
        connection,
        company_id,
        held_id,
        station_id=station_id,
        may_change_retail=may_change_retail,
        by=by,
        now=now,
        rates=rates,
    )
    return after_new_prices(connection, None if held.kind == "retail" else company_id, now=now)


def wake_prices(connection: Connection, *, since: datetime, now: datetime) -> list[Job]:
    """Prices whose time has come begin to hold: retail prices are stored, and the plans of waiting trucks are reviewed
    where prices change by the clock alone; see `stations/price_moments.py`. `since` is the last time that this was
    done."""
    if apply_coming_prices(connection, now=now):
        return after_new_prices(connection, None, now=now)
    changed = begin_moments(connection, companies_with_waiting_trucks(connection), since=since, now=now)
    return after_new_prices_of(connection, changed, now=now) if changed else []


def add_station(connection: Connection, row: StationRow, *, now: datetime, believe: bool = False) -> list[Job]:
    """Raises StationExists, UnbelievablePrice."""
    price_imports.insert_station(connection, row, now=now, believe=believe)
    return after_new_prices(connection, None, now=now)


def edit_station(connection: Connection, row: StationRow, *, now: datetime, believe: bool = False) -> list[Job]:
    """Changes one station; a retired one is back. Raises UnbelievablePrice."""
    price_imports.store_station(connection, row, now=now, believe=believe)
    return after_new_prices(connection, None, now=now)


def retire_stations(connection: Connection, station_ids: Sequence[str], *, now: datetime) -> list[Job]:
    """Raises UnknownStation."""
    price_imports.set_stations_retired(connection, station_ids, now=now)
    return after_new_prices(connection, None, now=now)


def edit_deal(
    connection: Connection,
    company_id: UUID,
    deal_id: int | None,
    row: DealRow,
    *,
    now: datetime,
    believe: bool = False,
) -> tuple[int | None, list[Job]]:
    """Changes one deal, or for `deal_id` None adds one. Returns its id, too; None: the company has no such deal. Raises
    UnknownCompany, RetiredCompany, AlreadyPriced."""
    require_company(connection, company_id)
    stored_id = price_imports.store_deal(connection, company_id, deal_id, row, now=now, believe=believe)
    return stored_id, after_new_prices(connection, company_id, now=now)


def remove_deal(connection: Connection, company_id: UUID, deal_id: int, *, now: datetime) -> list[Job] | None:
    """None: the company has no such deal."""
    if not price_imports.delete_deal(connection, company_id, deal_id, now=now):
        return None
    return after_new_prices(connection, company_id, now=now)


def edit_tax(connection: Connection, old: tuple[str, date] | None, row: TaxRow, *, now: datetime) -> list[Job] | None:
    """Changes the tax of a state from a day on, or for `old` None adds one. None: there is no such tax. Raises
    AlreadyPriced."""
    if not price_imports.store_tax(connection, old, row, now=now):
        return None
    return after_new_prices(connection, None, now=now)


def remove_tax(connection: Connection, state: str, valid_from: date, *, now: datetime) -> list[Job] | None:
    """None: there is no such tax."""
    if not price_imports.delete_tax(connection, state, valid_from, now=now):
        return None
    return after_new_prices(connection, None, now=now)
