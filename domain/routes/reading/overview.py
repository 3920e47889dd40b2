"""A company's day at a glance: today's routes by status, and what waits for a person."""

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Literal, NamedTuple, get_args
from uuid import UUID

from domain.database.connections import Connection, Tenant
from domain.database.statements import Statement
from domain.savings.spans import Span
from domain.stations.price_presence import has_prices

TRUCK_SILENT_AFTER = timedelta(hours=1)
"""A truck that drives a route and has sent no position for so long is silent. Gateways send one every minute or so."""

RECENT = timedelta(days=7)
"""Older errors and messages are history: nobody does anything about them."""

OFF_ROAD_SHOWN_FOR = timedelta(hours=1)
"""A truck that was found off the road of its plan counts as off its road for this time, by the times of its own fixes.
Whoever is still off the road then has been found so again."""

MOST_OF_A_NEED = 1_000
"""No need counts further: the page says `1,000`, and whoever sees that has enough to do."""

MOST_NAMED = 5
"""So many routes of each need are named; their page lists the others."""

NeedKind = Literal[
    "vehicle_unmapped", "driver_unmapped", "error", "low_fuel", "late", "off_road", "silent", "message_failed"
]
NEED_KINDS: Collection[NeedKind] = get_args(NeedKind)


class NamedRoute(NamedTuple):
    """One of the routes of a need. `detail` is the reason, or the name of the stop; `at` the time of it."""

    id: UUID
    external_id: str
    at: datetime | None
    detail: str | None
    routes: int
    """The number of routes of the same need, at most MOST_OF_A_NEED."""


class Need(NamedTuple):
    kind: NeedKind
    named: list[NamedRoute]

    @property
    def routes(self) -> int:
        """The number of its routes, at most MOST_OF_A_NEED."""
        return self.named[0].routes


def _need(columns: str, source: str, order: str) -> str:
    return f"""
        SELECT id, external_id, at, detail, count(*) OVER () AS routes
        FROM (SELECT r.id, r.external_id, {columns} {source} LIMIT {MOST_OF_A_NEED}) AS found
        ORDER BY {order}, id LIMIT {MOST_NAMED}
    """


ON_ITS_WAY = "r.status = ANY('{planned,active}')"
IS_SILENT = "t.newest_at < %(silent)s::timestamptz"
"""SQL of a truck's track `t`; `silent` is TRUCK_SILENT_AFTER ago."""
BEGINS_LOW = "m.text LIKE 'LOW FUEL%%'"
"""SQL of the message `m` of a plan that begins low on fuel."""
NEXT_STOP = "(SELECT coalesce(max(reached.stop) + 1, 0) FROM visits reached WHERE reached.route_id = r.id)"
"""SQL for the number of the first stop of a route `r` that was not reached; past the last one where all were."""
IS_OFF_ROAD = """(coalesce(r.replan->>'kind' = 'off_road', false) OR EXISTS (
    SELECT FROM plans n WHERE n.route_id = r.id AND n.revision = r.revision AND n.cause->>'kind' = 'off_road'
      AND (n.cause->>'at')::timestamptz > t.newest_at - %(off_road)s::interval))"""
"""SQL of a route `r` and its truck's track `t`; `off_road` is OFF_ROAD_SHOWN_FOR. The driver need not have been told of
the plan that was made because of it."""
IS_LATE = "(next.stop->'arrivalWindow'->>'end')::timestamptz < %(now)s::timestamptz"
"""SQL of a route's `next` stop."""

_OF_TENANT = "r.company_id = %(company_id)s AND r.environment = %(environment)s"
_MESSAGES = f"""
    FROM messages m JOIN routes r ON r.id = m.route_id AND r.plan_id = m.plan_id
    WHERE m.company_id = %(company_id)s AND m.created_at > %(recent)s::timestamptz AND {_OF_TENANT}
"""
_UNMAPPED = f"""
    FROM routes r WHERE {_OF_TENANT} AND r.status = 'pending_mapping' AND r.pending_reason
"""

_TRUCKS_ON_THEIR_WAY = f"""
    FROM routes r JOIN tracks t ON t.vehicle_id = r.vehicle_id AND t.environment = r.environment
    JOIN vehicles v ON v.id = r.vehicle_id
    WHERE {_OF_TENANT} AND {ON_ITS_WAY}
"""

_NEEDS: dict[NeedKind, Statement[NamedRoute]] = {
    "vehicle_unmapped": Statement(
        NamedRoute,
        _need("r.scheduled_start AS at, r.pending_detail AS detail", f"{_UNMAPPED} = 'vehicle_unmapped'", "at"),
    ),
    "driver_unmapped": Statement(
        NamedRoute,
        _need("r.scheduled_start AS at, r.pending_detail AS detail", f"{_UNMAPPED} = 'driver_unmapped'", "at"),
    ),
    "error": Statement(
        NamedRoute,
        _need(
            "r.updated_at AS at, r.closed_reason AS detail",
            f"FROM routes r WHERE {_OF_TENANT} AND r.status = 'error' AND r.scheduled_start > %(recent)s::timestamptz",
            "at DESC",
        ),
    ),
    "low_fuel": Statement(
        NamedRoute,
        _need(
            "m.created_at AS at, split_part(m.text, E'\\n', 1) AS detail",
            f"{_MESSAGES} AND {ON_ITS_WAY} AND {BEGINS_LOW}",
            "at DESC",
        ),
    ),
    "late": Statement(
        NamedRoute,
        _need(
            "(next.stop->'arrivalWindow'->>'end')::timestamptz AS at, next.stop->>'name' AS detail",
            f"""
        FROM routes r CROSS JOIN LATERAL (SELECT r.stops->{NEXT_STOP} AS stop) AS next
        WHERE {_OF_TENANT} AND {ON_ITS_WAY} AND {IS_LATE}
        """,
            "at",
        ),
    ),
    "off_road": Statement(
        NamedRoute,
        _need("t.newest_at AS at, v.unit_number AS detail", f"{_TRUCKS_ON_THEIR_WAY} AND {IS_OFF_ROAD}", "at DESC"),
    ),
    "silent": Statement(
        NamedRoute,
        _need("t.newest_at AS at, v.unit_number AS detail", f"{_TRUCKS_ON_THEIR_WAY} AND {IS_SILENT}", "at"),
    ),
    "message_failed": Statement(
        NamedRoute,
        _need(
            "m.created_at AS at, m.error AS detail",
            f"{_MESSAGES} AND m.status = 'failed' AND r.status = 'planned'",
            "at",
        ),
    ),
}
"""The needs, in the order in which a dispatcher looks at them: first what keeps a route from being driven."""


def find_needs(
    connection: Connection, tenant: Tenant, *, kinds: Collection[NeedKind] = NEED_KINDS, now: datetime
) -> list[Need]:
    """The needs of these kinds that there are, each with a few of its routes."""
    asked = {
        **tenant._asdict(),
        "now": now,
        "recent": now - RECENT,
        "silent": now - TRUCK_SILENT_AFTER,
        "off_road": OFF_ROAD_SHOWN_FOR,
    }
    found = (Need(kind, statement.all(connection, asked)) for kind, statement in _NEEDS.items() if kind in kinds)
    return [need for need in found if need.named]


class StatusCount(NamedTuple):
    status: str
    routes: int


_BY_STATUS = Statement(
    StatusCount,
    """
    SELECT status, count(*) AS routes FROM routes
    WHERE company_id = %s AND environment = %s AND scheduled_start >= %s AND scheduled_start < %s GROUP BY status
    """,
)


def routes_by_status(connection: Connection, tenant: Tenant, span: Span) -> dict[str, int]:
    """The number of routes of each status that start in the span."""
    rows = _BY_STATUS.all(connection, (tenant.company_id, tenant.environment, span.start, span.end))
    return {row.status: row.routes for row in rows}


class SetUp(NamedTuple):
    """The things that a company needs, in the order in which it makes them: whether it has them."""

    vehicles: bool | None
    drivers: bool | None
    stations: bool | None
    keys: bool | None
    routes: bool | None

    @property
    def is_complete(self) -> bool:
        return all(self)


class _Made(NamedTuple):
    vehicles: bool | None
    drivers: bool | None
    keys: bool | None
    routes: bool | None


_MADE = Statement(
    _Made,
    """
    SELECT EXISTS (SELECT FROM vehicles WHERE company_id = %(company)s AND retired_at IS NULL) AS vehicles,
           EXISTS (SELECT FROM drivers WHERE company_id = %(company)s AND retired_at IS NULL) AS drivers,
           EXISTS (SELECT FROM api_keys WHERE company_id = %(company)s AND revoked_at IS NULL) AS keys,
           EXISTS (SELECT FROM routes WHERE company_id = %(company)s) AS routes
    """,
)


def read_set_up(connection: Connection, company_id: UUID, *, now: datetime) -> SetUp:
    """`stations`: there are prices that count, without which no plan can be made."""
    made = _MADE.one(connection, {"company": company_id})
    return SetUp(**made._asdict(), stations=has_prices(connection, company_id, now=now))
