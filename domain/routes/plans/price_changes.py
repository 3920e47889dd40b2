"""Changes of stations, deals and taxes, with a review of the plans that they may change: those of trucks still at their
first stop."""

from collections.abc import Sequence
from datetime import date, datetime
from pathlib import Path
from uuid import UUID
from zoneinfo import ZoneInfo

from domain.accounts.companies import require_company, time_zone_of
from domain.audit.entries import Actor
from domain.database.connections import Connection
from domain.files.csvfiles import ImportReport, Progress
from domain.files.profiles import FileProfile
from domain.routes.plans.review_requests import (
    after_new_prices,
    after_new_prices_of,
    companies_with_waiting_trucks,
)
from domain.stations import deals, held_prices, stations, taxes
from domain.stations.believed_prices import NO_OPTION, UnitOption
from domain.stations.deals import DealRow
from domain.stations.price_files import store_price_file
from domain.stations.price_moments import begin_moments
from domain.stations.price_outliers import OutlierLimits
from domain.stations.price_rows import PriceReport
from domain.stations.price_units import NO_RATES, ExchangeRates
from domain.stations.stations import StationRow
from domain.stations.stored_prices import apply_coming_prices
from domain.stations.taxes import TaxRow


def import_stations(
    connection: Connection,
    path: Path,
    *,
    now: datetime,
    unit: UnitOption = NO_OPTION,
    believe: bool = False,
    progress: Progress = lambda _: None,
) -> ImportReport:
    """Imports stations with retail prices. Raises UnreadableFile for a file that is refused as a whole."""
    report = stations.store_station_rows(connection, path, now=now, unit=unit, believe=believe, progress=progress)
    after_new_prices(connection, None, now=now)
    return report


def import_deals(
    connection: Connection,
    company_id: UUID,
    path: Path,
    *,
    now: datetime,
    unit: UnitOption = NO_OPTION,
    believe: bool = False,
    progress: Progress = lambda _: None,
) -> ImportReport:
    """Imports a company's deals. Raises UnknownCompany, RetiredCompany, and UnreadableFile for a file that is refused
    as a whole."""
    require_company(connection, company_id)
    report = deals.store_deal_rows(connection, company_id, path, now=now, unit=unit, believe=believe, progress=progress)
    after_new_prices(connection, company_id, now=now)
    return report


def import_taxes(
    connection: Connection, path: Path, *, now: datetime, progress: Progress = lambda _: None
) -> ImportReport:
    """Imports fuel taxes. Raises UnreadableFile for a file that is refused as a whole."""
    report = taxes.store_tax_rows(connection, path, now=now, progress=progress)
    after_new_prices(connection, None, now=now)
    return report


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
) -> PriceReport:
    """Imports a company's price file. Raises UnknownCompany, RetiredCompany, and UnreadableFile for a file that is
    refused as a whole."""
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
    after_new_prices(connection, None if takes_retail else company_id, now=now)
    return report


def accept_held_price(
    connection: Connection,
    company_id: UUID,
    held_id: UUID,
    by: Actor,
    *,
    station_id: str = "",
    may_change_retail: bool,
    now: datetime,
    rates: ExchangeRates = NO_RATES,
) -> None:
    """Accepts a held price. Raises UnknownHeldPrice, UnknownStation, and NeedsStation, NeedsOperator or NeedsRate for
    what the person still has to give."""
    held = held_prices.accept_price(
        connection,
        company_id,
        held_id,
        by,
        station_id=station_id,
        may_change_retail=may_change_retail,
        now=now,
        rates=rates,
    )
    after_new_prices(connection, None if held.kind == "retail" else company_id, now=now)


def apply_due_prices(connection: Connection, *, since: datetime, now: datetime) -> None:
    """Applies prices whose time has come: stores retail prices, and has the plans of waiting trucks reviewed where
    prices change by the clock alone; see `stations/price_moments.py`. `since` is the last call."""
    if apply_coming_prices(connection, now=now):
        after_new_prices(connection, None, now=now)
    elif changed := begin_moments(connection, companies_with_waiting_trucks(connection), since=since, now=now):
        after_new_prices_of(connection, changed, now=now)


def add_station(connection: Connection, row: StationRow, by: Actor, *, now: datetime, believe: bool = False) -> None:
    """Adds one station. Raises StationExists, and UnbelievablePrice for a price that looks wrong, unless `believe` is
    set."""
    stations.insert_station(connection, row, by, now=now, believe=believe)
    after_new_prices(connection, None, now=now)


def edit_station(connection: Connection, row: StationRow, by: Actor, *, now: datetime, believe: bool = False) -> None:
    """Changes one station; a retired one is back. Raises UnbelievablePrice for a price that looks wrong, unless
    `believe` is set."""
    stations.store_station(connection, row, by, now=now, believe=believe)
    after_new_prices(connection, None, now=now)


def retire_stations(connection: Connection, station_ids: Sequence[str], by: Actor, *, now: datetime) -> None:
    """Retires stations. Raises UnknownStation if one of them does not exist."""
    stations.set_stations_retired(connection, station_ids, by, now=now)
    after_new_prices(connection, None, now=now)


def edit_deal(
    connection: Connection,
    company_id: UUID,
    deal_id: int | None,
    row: DealRow,
    by: Actor,
    *,
    now: datetime,
    believe: bool = False,
) -> int | None:
    """Changes one deal, or for a `deal_id` of None adds one. Returns its id; None if the company has no such deal.
    Raises UnknownCompany, RetiredCompany, and AlreadyPriced if another deal has the place and the days."""
    require_company(connection, company_id)
    stored_id = deals.store_deal(connection, company_id, deal_id, row, by, now=now, believe=believe)
    after_new_prices(connection, company_id, now=now)
    return stored_id


def remove_deal(connection: Connection, company_id: UUID, deal_id: int, by: Actor, *, now: datetime) -> bool:
    """Removes a deal. Returns False if the company has no such deal."""
    if not deals.delete_deal(connection, company_id, deal_id, by, now=now):
        return False
    after_new_prices(connection, company_id, now=now)
    return True


def edit_tax(connection: Connection, old: tuple[str, date] | None, row: TaxRow, by: Actor, *, now: datetime) -> bool:
    """Changes the tax of a state from a day on, or for an `old` of None adds one. Returns False if there is no such
    tax. Raises AlreadyPriced if there is one for that state and day."""
    if not taxes.store_tax(connection, old, row, by, now=now):
        return False
    after_new_prices(connection, None, now=now)
    return True


def remove_tax(connection: Connection, state: str, valid_from: date, by: Actor, *, now: datetime) -> bool:
    """Removes a tax. Returns False if there is no such tax."""
    if not taxes.delete_tax(connection, state, valid_from, by, now=now):
        return False
    after_new_prices(connection, None, now=now)
    return True
