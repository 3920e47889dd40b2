"""Stored prices: quotes of companies, retail prices of stations, and those whose time is still to come."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from itertools import chain
from typing import Any
from uuid import UUID

from domain.database.connections import Connection
from domain.database.staging import stage
from domain.database.statements import Command, Scalar
from domain.stations.price_sets import begin_price_set

_StoredPrices = Iterable[tuple[str, datetime, float]]
"""Station, time, price."""


def _stage_any(connection: Connection, table: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> bool:
    """Stages the rows. Returns False if there are none."""
    there = iter(rows)
    first = next(there, None)
    if first is None:
        return False
    stage(connection, table, columns, chain((first,), there))
    return True


def store_quotes(connection: Connection, company_id: UUID, profile: str, rows: _StoredPrices) -> None:
    if not _stage_any(connection, "quotes", ("station_id", "effective_at", "net_price"), rows):
        return
    connection.execute(
        "INSERT INTO quotes (company_id, station_id, effective_at, net_price, profile)"
        " SELECT %s, station_id, effective_at, net_price, %s FROM staged_quotes ORDER BY station_id, effective_at"
        " ON CONFLICT (company_id, station_id, effective_at) DO UPDATE SET net_price = excluded.net_price,"
        " profile = excluded.profile WHERE quotes.net_price <> excluded.net_price",
        (company_id, profile),
    )


def store_retail_prices(connection: Connection, rows: _StoredPrices, *, now: datetime) -> None:
    """Store retail prices that hold already and are not older than the stored ones."""
    if not _stage_any(connection, "stations", ("station_id", "priced_at", "retail_price"), rows):
        return
    connection.execute(
        """
        UPDATE stations stored SET retail_price = newest.retail_price, priced_at = newest.priced_at
        FROM (SELECT DISTINCT ON (station_id) station_id, retail_price, priced_at FROM staged_stations
              ORDER BY station_id, priced_at DESC) AS newest
        WHERE stored.station_id = newest.station_id
          AND (stored.priced_at IS NULL OR stored.priced_at <= newest.priced_at OR stored.priced_at > %s)
        """,
        (now,),
    )


def store_coming_prices(connection: Connection, rows: _StoredPrices) -> None:
    if not _stage_any(connection, "coming_prices", ("station_id", "effective_at", "retail_price"), rows):
        return
    connection.execute(
        "INSERT INTO coming_prices (station_id, effective_at, retail_price)"
        " SELECT station_id, effective_at, retail_price FROM staged_coming_prices"
        " ON CONFLICT (station_id, effective_at) DO UPDATE SET retail_price = excluded.retail_price"
    )


_ANY_DUE = Scalar(str, "SELECT station_id FROM coming_prices WHERE effective_at <= %s LIMIT 1")
_APPLY_DUE = Command(
    """
    WITH due AS (DELETE FROM coming_prices WHERE effective_at <= %(now)s
                 RETURNING station_id, effective_at, retail_price),
    newest AS (SELECT DISTINCT ON (station_id) station_id, effective_at, retail_price FROM due
               ORDER BY station_id, effective_at DESC)
    UPDATE stations stored SET retail_price = newest.retail_price, priced_at = newest.effective_at
    FROM newest WHERE stored.station_id = newest.station_id
      AND (stored.priced_at IS NULL OR stored.priced_at <= newest.effective_at OR stored.priced_at > %(now)s)
    """
)


def apply_coming_prices(connection: Connection, *, now: datetime) -> int:
    """Store retail prices whose time has come. Returns the number of stations."""
    if _ANY_DUE.first(connection, (now,)) is None:
        return 0
    begin_price_set(connection, "stations", None, now=now)
    return _APPLY_DUE.execute(connection, {"now": now}).rowcount


_FORGET_QUOTES = Command(
    "DELETE FROM quotes WHERE (company_id, station_id, effective_at) IN ("
    " SELECT company_id, station_id, effective_at FROM quotes WHERE effective_at < %s LIMIT %s)"
)


def forget_quotes(connection: Connection, *, days: float, now: datetime, limit: int) -> int:
    """Deletes old quotes. Returns how many."""
    return _FORGET_QUOTES.execute(connection, (now - timedelta(days=days), limit)).rowcount
