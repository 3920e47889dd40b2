"""Tells whether a company has any price at all; without one no plan can be made."""

from datetime import datetime
from uuid import UUID

from domain.database.connections import Connection
from domain.database.statements import NotNull, Scalar
from domain.stations.prices import STALE_AFTER

_TODAY = "(%(now)s::timestamptz AT TIME ZONE c.time_zone)::date"
_BRAND_KEY = (
    r"nullif(btrim(regexp_replace("
    r"regexp_replace(lower(regexp_replace({}, '[''\u2019]', '', 'g')), '[^a-z0-9]+', ' ', 'g'),"
    r" '\m([a-z0-9]{{2,}}[a-rt-z0-9])s\M', '\1', 'g')), '')"
)
"""SQL of the words of a brand, as `chains.brand_key` has them where no letter has an accent."""
_NET_DEALS = f"""
    FROM companies c JOIN deals d ON d.company_id = c.id
    WHERE c.id = %(company_id)s AND d.net_price > 0
      AND coalesce(d.valid_from, {_TODAY}) <= {_TODAY} AND coalesce(d.valid_to, {_TODAY}) >= {_TODAY}
"""
HAS_PRICES = f"""
    EXISTS (SELECT FROM stations WHERE retired_at IS NULL AND retail_price > 0
            AND priced_at >= %(now)s::timestamptz - %(stale)s::interval)
    OR EXISTS (SELECT FROM quotes q JOIN stations s ON s.station_id = q.station_id AND s.retired_at IS NULL
               WHERE q.company_id = %(company_id)s AND q.effective_at <= %(now)s
                 AND q.effective_at >= %(now)s::timestamptz - %(stale)s::interval)
    OR EXISTS (SELECT {_NET_DEALS} AND d.brand IS NOT NULL) AND EXISTS (
        SELECT FROM (SELECT DISTINCT brand FROM stations WHERE retired_at IS NULL) AS s
        WHERE s.brand IN (SELECT d.brand {_NET_DEALS})
           OR {_BRAND_KEY.format("s.brand")} IN (SELECT {_BRAND_KEY.format("d.brand")} {_NET_DEALS}))
    OR EXISTS (SELECT FROM stations s
               WHERE s.retired_at IS NULL AND s.station_id IN (SELECT d.station_id {_NET_DEALS}))
"""
"""SQL that is true where a company has one of the prices that `corridor_offers` gives to plans: retail prices of the
last seven days, quotes that hold, and deals with a fixed net price, which need no retail price. A discount alone is no
price."""
_HAS_PRICES = Scalar(NotNull[bool], f"SELECT {HAS_PRICES}")


def has_prices(connection: Connection, company_id: UUID, *, now: datetime) -> bool:
    """True if some truck stop has a price for the company."""
    return _HAS_PRICES.one(connection, {"company_id": company_id, "now": now, "stale": STALE_AFTER})
