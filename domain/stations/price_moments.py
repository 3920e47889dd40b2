"""The moments at which a company's prices change by the clock alone, without an import: a net price begins or ceases to
count, a deal or a tax begins or ends with a day of the company, a retail price becomes too old.

A company has seen such a moment once it has a later price set, because each set has the plans reviewed. So no moment is
missed while the scheduler was away or the company was paused, and none is seen twice."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from domain.database.connections import Connection
from domain.database.fence import is_at_work
from domain.database.statements import Scalar
from domain.stations.price_sets import begin_price_set
from domain.stations.prices import STALE_AFTER

_TODAY = "(%(now)s::timestamptz AT TIME ZONE c.time_zone)::date"
_SEEN_DAY = "(seen.at AT TIME ZONE c.time_zone)::date"
_CHANGED = Scalar(
    UUID,
    f"""
    SELECT c.id
    FROM companies c
    CROSS JOIN LATERAL (
        SELECT coalesce((SELECT imported_at FROM price_sets WHERE company_id IS NULL OR company_id = c.id
                         ORDER BY id DESC LIMIT 1), %(since)s) AS at) AS seen
    WHERE c.id = ANY(%(companies)s) AND c.retired_at IS NULL AND {is_at_work("c.id")}
      AND (EXISTS (SELECT FROM quotes q WHERE q.company_id = c.id
                   AND q.effective_at > seen.at AND q.effective_at <= %(now)s)
        OR EXISTS (SELECT FROM quotes q WHERE q.company_id = c.id
                   AND q.effective_at >= seen.at - %(stale)s::interval
                   AND q.effective_at < %(now)s::timestamptz - %(stale)s::interval
                   AND NOT EXISTS (SELECT FROM quotes newer WHERE newer.company_id = c.id
                                   AND newer.station_id = q.station_id AND newer.effective_at > q.effective_at
                                   AND newer.effective_at <= %(now)s))
        OR seen.at - %(stale)s::interval <= (SELECT max(priced_at) FROM stations
            WHERE priced_at < %(now)s::timestamptz - %(stale)s::interval AND retired_at IS NULL)
        OR {_SEEN_DAY} < {_TODAY} AND (
            EXISTS (SELECT FROM deals d WHERE d.company_id = c.id
                    AND (d.valid_from > {_SEEN_DAY} AND d.valid_from <= {_TODAY}
                         OR d.valid_to >= {_SEEN_DAY} AND d.valid_to < {_TODAY}))
            OR EXISTS (SELECT FROM fuel_taxes t WHERE t.valid_from > {_SEEN_DAY} AND t.valid_from <= {_TODAY})))
    ORDER BY c.id
    """,
)
"""`since` counts for a company without any price set."""


def begin_moments(connection: Connection, company_ids: Sequence[UUID], *, since: datetime, now: datetime) -> None:
    """Gives each of the companies whose prices have changed by the clock alone a price set. Companies that are paused,
    or behind the fence, are left for later."""
    asked = {"companies": list(company_ids), "since": since, "now": now, "stale": STALE_AFTER}
    changed = _CHANGED.all(connection, asked) if company_ids else []
    for company_id in changed:
        begin_price_set(connection, "deals", company_id, now=now)
