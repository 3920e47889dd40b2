"""Companies' deals: imported from CSV files, or edited one by one.

Each import is one transaction and adds a row to `price_sets`, so that a plan knows which prices it has seen.
"""

from collections.abc import Iterable, Iterator
from datetime import date, datetime
from operator import attrgetter
from pathlib import Path
from typing import Annotated, NamedTuple
from uuid import UUID

import msgspec
from msgspec import Meta, Struct
from psycopg import sql
from psycopg.errors import UniqueViolation

from domain.accounts.companies import require_company
from domain.audit.entries import Actor
from domain.contract.captions import Caption
from domain.contract.shapes import Reference
from domain.database.connections import Connection
from domain.database.statements import Command, NotNull, Scalar, Statement
from domain.files.csvfiles import FileRow, ImportReport, Progress, UnreadableFile, read_rows, without_repeats
from domain.settings import get_settings
from domain.stations.believed_prices import (
    NO_OPTION,
    NotBelieved,
    PriceJudge,
    UnitOption,
)
from domain.stations.price_columns import CellText, CurrencyCell, PricePerGallon, UnitCell, check_unit, sent_price
from domain.stations.price_sets import begin_price_set, record_by_hand
from domain.stations.staged_rows import AlreadyPriced, RowKey, count_outcomes, keep_stored, same_key, stage_rows


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

    currency: CurrencyCell = None
    unit: UnitCell = None
    checked_price: CellText | None = None
    """The net price or the discount again, or `yes`, if a person has checked it."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_unit(self.currency, self.unit, self.net_price)


_OF_PLACE = ("station_id", "brand", "valid_from")
_DEAL_KEY = RowKey(["company_id"], _OF_PLACE)


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
    UnreadableFile if the file is refused as a whole, TooManyDeals beyond the company's limit, UnknownCompany and
    RetiredCompany."""
    require_company(connection, company_id)
    report = ImportReport()
    rows = read_rows(path, DealFileRow, report, progress=progress)
    read = list(_within_quota(rows))
    named = (line.row.station_id for line in read if line.row.station_id is not None)
    judge = PriceJudge(connection, now=now, believe=believe, option=unit, stations=named)
    told = _told_deals(read, judge, report)  # first: the next row of a place may be the right one
    lines = without_repeats(told, report, *_OF_PLACE)
    columns = DealRow.__struct_fields__
    absent = stage_rows(
        connection,
        "deals",
        ["company_id", *columns],
        lines,
        lambda row: (company_id, *(getattr(row, name) for name in columns)),
    )
    begin_price_set(connection, "deals", company_id, now=now)
    keep_stored(connection, "deals", _DEAL_KEY, absent & {"valid_to"})  # a discount and a net price exclude each other
    count_outcomes(connection, "deals", _DEAL_KEY, columns, report, ["valid_to"])
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
        ).format(same_key(_DEAL_KEY)),
        (_DEALS_NOW.one(connection, (company_id,)).last_number,),
    )
    return report


def _told_deals(
    lines: Iterable[FileRow[DealFileRow]], judge: PriceJudge, report: ImportReport
) -> Iterator[FileRow[DealRow]]:
    for line in lines:
        row, doubt = _told_deal(line.row, judge)
        if doubt:
            report.reject(line.number, doubt)
        else:
            yield FileRow(line.number, row, line.cleared, line.absent)


def _told_deal(row: DealFileRow, judge: PriceJudge) -> tuple[DealRow, str]:
    """The deal in US dollars a gallon, and the doubt, empty without one."""
    if row.net_price is not None:
        price, doubt = judge.net_price(sent_price(row, row.net_price), row.station_id)
        return msgspec.structs.replace(row, net_price=price), doubt
    assert row.discount_per_gallon is not None  # noqa: S101
    discount, doubt = judge.discount(sent_price(row, row.discount_per_gallon), row.station_id)
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


def _within_quota(lines: Iterable[FileRow[DealFileRow]]) -> Iterator[FileRow[DealFileRow]]:
    """The rows. Raises TooManyDeals at the first deal beyond the limit of a company. Repeats do not count."""
    most, deals, deal_of = get_settings().deals_per_company, set(), attrgetter(*_OF_PLACE)
    for line in lines:
        deals.add(deal_of(line.row))
        if len(deals) > most:
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
    TooManyDeals, NotBelieved, and AlreadyPriced if another deal has this place and first day; the transaction
    must then roll back. Raises UnknownCompany and RetiredCompany, too."""
    require_company(connection, company_id)
    judge = PriceJudge(connection, now=now, believe=believe, stations=[row.station_id] if row.station_id else [])
    sent = row if isinstance(row, DealFileRow) else DealFileRow(*msgspec.structs.astuple(row))
    told, doubt = _told_deal(sent, judge)
    if doubt:
        raise NotBelieved(doubt)
    begin_price_set(connection, "deals", company_id, now=now)
    values = tuple(getattr(told, name) for name in DealRow.__struct_fields__)
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
    record_by_hand(connection, by, "add" if deal_id is None else "change", "deal", stored, company_id)
    return stored


def delete_deal(connection: Connection, company_id: UUID, deal_id: int, by: Actor, *, now: datetime) -> bool:
    """Delete one deal. False: the company has no such deal."""
    begin_price_set(connection, "deals", company_id, now=now)
    if _DELETE_DEAL.execute(connection, (company_id, deal_id)).rowcount == 0:
        return False
    record_by_hand(connection, by, "remove", "deal", deal_id, company_id)
    return True
