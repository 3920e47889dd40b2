"""Stored prices: quotes of companies, retail prices of stations, and those whose time is still to come."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from uuid import UUID

from domain.database.connections import Connection
from domain.database.staging import stage
from domain.database.statements import Command, Scalar
from domain.stations.price_sets import begin_price_set

ToldPrices = tuple[str, str, float | None, float | None]
"""A station, a moment in ISO 8601, and the net price and the retail price there from that moment on."""

_NEWEST_NOW = """
    SELECT DISTINCT ON (station_id) station_id, retail_price, effective_at FROM staged_prices
    WHERE retail_price IS NOT NULL AND effective_at <= %(now)s ORDER BY station_id, effective_at DESC
"""
"""The newest of the staged retail prices of each station that hold already."""


def stage_prices(connection: Connection, rows: Iterable[ToldPrices]) -> None:
    """Stage prices for `add_stations` and `store_staged_prices`. The net prices of a station, and its retail prices,
    have different moments."""
    columns = ("station_id", "effective_at", "net_price", "retail_price")
    stage(connection, "prices", columns, rows, like="quotes NATURAL JOIN coming_prices")


ADDED_COLUMNS = ("station_id", "name", "brand", "address", "city", "state", "latitude", "longitude")

_NAMES = ", ".join(ADDED_COLUMNS)
_ADD_STATIONS = f"""
    INSERT INTO stations ({_NAMES}, retail_price, priced_at) SELECT {_NAMES}, retail_price, effective_at
    FROM staged_stations LEFT JOIN ({_NEWEST_NOW}) AS newest USING (station_id)
    ORDER BY station_id ON CONFLICT (station_id) DO NOTHING
"""


def add_stations(connection: Connection, rows: Iterable[tuple[object, ...]], *, now: datetime) -> None:
    """Add stations, each with its newest staged retail price. The rows have the columns of `ADDED_COLUMNS`."""
    stage(connection, "stations", ADDED_COLUMNS, rows)
    connection.execute(_ADD_STATIONS, {"now": now})


_STORE_QUOTES = """
    INSERT INTO quotes (company_id, station_id, effective_at, net_price, profile)
    SELECT %(company_id)s, station_id, effective_at, net_price, %(profile)s FROM staged_prices
    WHERE net_price IS NOT NULL ORDER BY station_id, effective_at
    ON CONFLICT (company_id, station_id, effective_at) DO UPDATE
    SET net_price = excluded.net_price, profile = excluded.profile WHERE quotes.net_price <> excluded.net_price
"""
_STORE_RETAIL_PRICES = f"""
    UPDATE stations stored SET retail_price = newest.retail_price, priced_at = newest.effective_at
    FROM ({_NEWEST_NOW}) AS newest WHERE stored.station_id = newest.station_id
      AND (stored.priced_at IS NULL OR stored.priced_at <= newest.effective_at OR stored.priced_at > %(now)s)
      AND (stored.retail_price, stored.priced_at) IS DISTINCT FROM (newest.retail_price, newest.effective_at)
"""
_STORE_COMING_PRICES = """
    INSERT INTO coming_prices (station_id, effective_at, retail_price)
    SELECT station_id, effective_at, retail_price FROM staged_prices
    WHERE retail_price IS NOT NULL AND effective_at > %(now)s
    ON CONFLICT (station_id, effective_at) DO UPDATE SET retail_price = excluded.retail_price
"""


def store_staged_prices(connection: Connection, company_id: UUID, profile: str, *, now: datetime) -> None:
    """Store the staged prices: net prices as quotes of the company, retail prices that hold already with their
    stations unless those have newer ones, and later retail prices until their time comes."""
    for text in (_STORE_QUOTES, _STORE_RETAIL_PRICES, _STORE_COMING_PRICES):
        connection.execute(text, {"company_id": company_id, "profile": profile, "now": now})


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
