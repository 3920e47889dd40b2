"""Overdue work according to the database, whatever the queues show. Each figure is one statement, and counts its
rows."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Literal, NamedTuple
from uuid import UUID

from domain.database.connections import Connection
from domain.database.statements import Statement
from domain.ids import IdKind, first_id_of, shown_id
from domain.stations.price_sources import TOLD_AFTER
from domain.stations.prices import STALE_AFTER

Figure = Literal[
    "pending",
    "unplanned",
    "unsent",
    "withheld-messages",
    "failed-messages",
    "silent-trucks",
    "held",
    "stale-prices",
    "waiting-webhooks",
    "failing-webhooks",
    "unpolled-connectors",
    "failing-connectors",
    "late-price-files",
]

_OF_CONNECTORS: tuple[Figure, ...] = ("unpolled-connectors", "failing-connectors")

COUNTED = 10_000
"""A figure counts up to this number. Larger counts are all shown as "or more"."""

PENDING_FOR = timedelta(minutes=1)
UNPLANNED_FOR = timedelta(minutes=10)
UNSENT_FOR = timedelta(minutes=10)
TRUCK_SILENT_FOR = timedelta(hours=1)
FAILED_WITHIN = timedelta(hours=24)
ENDPOINT_FAILING_FOR = timedelta(hours=1)
UNPOLLED_FOR = timedelta(minutes=3)
CONNECTOR_FAILING_FOR = timedelta(minutes=30)


class Overdue(NamedTuple):
    """One row behind a figure."""

    id: str
    """The id of a route; for stale prices a station's, for webhooks an endpoint's, for connectors and sources of price
    files their own."""
    company_id: UUID | None
    about: str
    since: datetime | None
    detail: str


class Count(NamedTuple):
    """A figure: how many, up to `COUNTED`, and since when the first one is overdue."""

    rows: int
    since: datetime | None


class HeldCount(NamedTuple):
    """Held routes whose start has passed, by what they wait for."""

    reason: str
    routes: int


# Each starts from a partial index of what is in that state, which holds few rows in a healthy service.
_TEXTS: Mapping[Figure, str] = {
    "pending": """
        SELECT id::text AS id, company_id, external_id AS about, retry_at AS since,
               coalesce(pending_detail, '') AS detail
        FROM routes WHERE status = 'pending' AND retry_at < %(now)s::timestamptz - %(pending)s::interval
        ORDER BY retry_at
    """,
    "unplanned": """
        SELECT id::text AS id, company_id, external_id AS about, arrived_at AS since,
               'failed attempts: ' || attempts AS detail
        FROM routes WHERE status = 'draft' AND arrived_at < %(now)s::timestamptz - %(unplanned)s::interval
        ORDER BY arrived_at
    """,
    "unsent": """
        SELECT route_id::text AS id, company_id, coalesce(channel, '') AS about, created_at AS since,
               coalesce(error, '') AS detail
        FROM messages WHERE status = 'pending' AND withheld_since IS NULL
          AND created_at < %(now)s::timestamptz - %(unsent)s::interval
        ORDER BY created_at
    """,
    "withheld-messages": """
        SELECT route_id::text AS id, company_id, coalesce(channel, '') AS about, withheld_since AS since,
               coalesce(error, '') AS detail
        FROM messages WHERE status = 'pending' AND withheld_since IS NOT NULL
        ORDER BY created_at
    """,
    "failed-messages": """
        SELECT route_id::text AS id, company_id, coalesce(channel, '') AS about, created_at AS since,
               coalesce(error, '') AS detail
        FROM messages WHERE id >= %(failed)s AND status = 'failed'
        ORDER BY created_at DESC
    """,
    "silent-trucks": """
        SELECT route.id::text AS id, route.company_id, coalesce(vehicle_unit_number, vehicle_vin, '') AS about,
               track.newest_at AS since, route.status AS detail
        FROM routes route
        LEFT JOIN tracks track ON track.vehicle_id = route.vehicle_id AND track.environment = route.environment
        WHERE (status IN ('planned','active') OR status = 'draft' AND arrived_at IS NOT NULL)
          AND (track.newest_at IS NULL OR track.newest_at < %(now)s::timestamptz - %(silent)s::interval)
        ORDER BY track.newest_at NULLS FIRST
    """,
    "held": """
        SELECT id::text AS id, company_id, external_id AS about, scheduled_start AS since,
               coalesce(pending_reason, '') AS detail
        FROM routes WHERE status IN ('pending_mapping','pending_window') AND scheduled_start < %(now)s
        ORDER BY scheduled_start
    """,
    "stale-prices": """
        SELECT station_id AS id, NULL::uuid AS company_id, name AS about, priced_at AS since,
               coalesce(state, '') AS detail
        FROM stations WHERE retired_at IS NULL AND retail_price IS NOT NULL
          AND (priced_at IS NULL OR priced_at < %(now)s::timestamptz - %(stale)s::interval)
        ORDER BY priced_at NULLS FIRST
    """,
    "waiting-webhooks": """
        SELECT e.id::text AS id, e.company_id, split_part(e.url, '?', 1) AS about, d.retry_at AS since,
               'attempts: ' || d.attempts AS detail
        FROM webhook_endpoints e CROSS JOIN LATERAL (
            SELECT retry_at, attempts FROM webhook_deliveries it
            WHERE endpoint_id = e.id AND status = 'pending' AND retry_at < %(now)s::timestamptz - %(unsent)s::interval
              AND (route_id IS NULL OR number = (
                  SELECT min(first.number) FROM webhook_deliveries first
                  WHERE first.endpoint_id = it.endpoint_id AND first.route_id = it.route_id
                    AND first.status = 'pending'))
            ORDER BY retry_at, number LIMIT 1) AS d
        WHERE e.disabled_at IS NULL AND e.failing_since IS NULL
        ORDER BY d.retry_at
    """,
    "failing-webhooks": """
        SELECT id::text AS id, company_id, split_part(url, '?', 1) AS about, failing_since AS since,
               coalesce('disabled: ' || disabled_reason, 'failing') AS detail
        FROM webhook_endpoints WHERE failing_since < %(now)s::timestamptz - %(endpoint_failing)s::interval
        ORDER BY failing_since
    """,
    "unpolled-connectors": """
        SELECT id::text AS id, company_id, name AS about, coalesce(leased_until, created_at) AS since,
               'no process polls it' AS detail
        FROM connectors WHERE asks AND paused_at IS NULL
          AND greatest(leased_until, created_at, answered_at) < %(now)s::timestamptz - %(unpolled)s::interval
        ORDER BY since
    """,
    "failing-connectors": """
        SELECT id::text AS id, company_id, name AS about, failing_since AS since, coalesce(last_error, '') AS detail
        FROM connectors WHERE paused_at IS NULL
          AND failing_since < %(now)s::timestamptz - %(connector_failing)s::interval
        ORDER BY failing_since
    """,
    "late-price-files": """
        SELECT id::text AS id, company_id, name AS about,
               least(coalesce(file_at, created_at) + expected_hours * interval '1 hour', failing_since) AS since,
               coalesce(fault, 'no file came') AS detail
        FROM price_sources WHERE paused_at IS NULL
          AND (coalesce(file_at, created_at) + expected_hours * interval '1 hour' < %(now)s
               OR failing_since < %(now)s::timestamptz - %(source_failing)s::interval)
        ORDER BY since
    """,
}
FIGURES: tuple[Figure, ...] = tuple(_TEXTS)

_ROWS = {
    figure: Statement(
        Overdue,
        "SELECT id, company_id, about, since, detail"
        f" FROM ({text} LIMIT %(searched)s) AS overdue"
        " WHERE %(detail)s::text IS NULL OR detail = %(detail)s LIMIT %(limit)s",
    )
    for figure, text in _TEXTS.items()
}
_COUNTS = {
    figure: Statement(Count, f"SELECT count(*) AS rows, min(since) AS since FROM ({text} LIMIT %(limit)s) AS overdue")
    for figure, text in _TEXTS.items()
}
_HELD_BY_REASON = Statement(
    HeldCount,
    f"SELECT detail AS reason, count(*) AS routes FROM ({_TEXTS['held']} LIMIT %(limit)s) AS held"
    " GROUP BY detail ORDER BY count(*) DESC, detail",
)


def count(connection: Connection, *, now: datetime) -> dict[Figure, Count]:
    """The figures of all companies."""
    return {figure: statement.one(connection, _moment(now, COUNTED)) for figure, statement in _COUNTS.items()}


def held_by_reason(connection: Connection, *, now: datetime) -> list[HeldCount]:
    return _HELD_BY_REASON.all(connection, _moment(now, COUNTED))


def rows(
    connection: Connection, figure: Figure, *, limit: int, now: datetime, detail: str | None = None
) -> list[Overdue]:
    """The rows that the figure counts, longest overdue first; failed messages newest first. `detail`: only rows with
    it."""
    return _ROWS[figure].all(
        connection, {**_moment(now, limit), "detail": detail, "searched": limit if detail is None else COUNTED}
    )


def _moment(now: datetime, limit: int) -> dict[str, object]:
    return {
        "now": now,
        "pending": PENDING_FOR,
        "unplanned": UNPLANNED_FOR,
        "unsent": UNSENT_FOR,
        "failed": first_id_of(now - FAILED_WITHIN),
        "silent": TRUCK_SILENT_FOR,
        "stale": STALE_AFTER,
        "endpoint_failing": ENDPOINT_FAILING_FOR,
        "unpolled": UNPOLLED_FOR,
        "connector_failing": CONNECTOR_FAILING_FOR,
        "source_failing": TOLD_AFTER,
        "limit": limit,
    }


def shown_row_id(figure: Figure, row: Overdue) -> str:
    """The id as people see it: with its prefix, but a station's as it is."""
    if figure == "stale-prices":
        return row.id
    kind: IdKind = "rte"
    if figure in _OF_CONNECTORS:
        kind = "con"
    elif figure == "late-price-files":
        kind = "src"
    elif not is_of_routes(figure):
        kind = "whe"
    return shown_id(kind, UUID(row.id))


def is_of_routes(figure: Figure) -> bool:
    """True when the rows of the figure are routes."""
    return figure not in ("stale-prices", "waiting-webhooks", "failing-webhooks", "late-price-files", *_OF_CONNECTORS)
