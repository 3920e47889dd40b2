"""A company's day at a glance: today's routes by status, and what the company still lacks for its first plan."""

from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from domain.database.connections import Connection, Tenant
from domain.database.statements import Statement
from domain.savings.spans import Span
from domain.stations.price_presence import has_prices


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
    """The things that a company needs for its first plan, in the usual order; True for those that it has."""

    time_zone: bool | None
    """False for UTC, which a new company has: no fleet of North America goes by it."""
    vehicles: bool | None
    drivers: bool | None
    """True for a driver whose messages have an address: his own, or the company's."""
    stations: bool | None
    positions: bool | None
    keys: bool | None
    routes: bool | None
    plans: bool | None
    """True once the message of a plan was made, sent or not."""


class _Made(NamedTuple):
    time_zone: bool | None
    vehicles: bool | None
    drivers: bool | None
    positions: bool | None
    keys: bool | None
    routes: bool | None
    plans: bool | None


_MADE = Statement(
    _Made,
    """
    SELECT EXISTS (SELECT FROM companies WHERE id = %(company)s AND time_zone <> 'UTC') AS time_zone,
           EXISTS (SELECT FROM vehicles WHERE company_id = %(company)s AND retired_at IS NULL) AS vehicles,
           EXISTS (SELECT FROM drivers d JOIN companies c ON c.id = d.company_id WHERE d.company_id = %(company)s
               AND d.retired_at IS NULL AND (d.contact <> '' OR c.message_url <> '')) AS drivers,
           EXISTS (SELECT FROM connectors WHERE company_id = %(company)s) OR EXISTS (SELECT
               FROM vehicles v JOIN tracks t ON t.vehicle_id = v.id WHERE v.company_id = %(company)s) AS positions,
           EXISTS (SELECT FROM api_keys WHERE company_id = %(company)s AND revoked_at IS NULL) AS keys,
           EXISTS (SELECT FROM routes WHERE company_id = %(company)s) AS routes,
           EXISTS (SELECT FROM messages WHERE company_id = %(company)s) AS plans
    """,
)


def read_set_up(connection: Connection, company_id: UUID, *, now: datetime) -> SetUp:
    """The things that the company has so far. `stations` is True if there are prices that count, without which no plan
    can be made."""
    made = _MADE.one(connection, {"company": company_id})
    return SetUp(**made._asdict(), stations=has_prices(connection, company_id, now=now))
