"""Leases: the right of one process to poll a connector.

A lease has an end, which its process moves on, and a number, which counts up with each lease. A process stores anything
for a connector under the lock of its row, and only if the number is still its own. So a process that was away for
longer than its lease, and does not know yet, stores nothing any more."""

from collections.abc import Collection, Iterable
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from domain.database import fence
from domain.database.connections import Connection, Tenant
from domain.database.statements import Command, Scalar, Statement
from domain.lifecycle import Environment

LEASE_SECONDS = 30.0
RENEW_SECONDS = 8.0
"""The time between renewals; a lease outlives two that fail."""


class LeaseLost(Exception):
    """Another process has the connector, or it was paused, changed or removed."""


class ConnectorRow(NamedTuple):
    """A connector at work: this process polls it, or a request of its vendor came."""

    id: UUID
    company_id: UUID
    environment: str
    kind: str
    url: str
    credentials: str
    """The credentials, sealed."""
    cursor: str | None
    lease_number: int
    due_at: datetime | None
    failures: int
    cursor_doubted: bool
    paused_at: datetime | None

    @property
    def tenant(self) -> Tenant:
        return Tenant(self.company_id, Environment(self.environment))


CONNECTOR_COLUMNS = ", ".join(ConnectorRow._fields)
_LEASE = Statement(
    ConnectorRow,
    f"""
    UPDATE connectors SET lease_number = lease_number + 1, leased_by = %s, leased_until = %s
    WHERE id = ANY(ARRAY(
        SELECT c.id FROM connectors c
        WHERE c.asks AND c.paused_at IS NULL AND c.kind = ANY(%s) AND (c.leased_until IS NULL OR c.leased_until < %s)
          AND {fence.is_at_work("c.company_id")}
          AND NOT EXISTS (SELECT FROM companies WHERE companies.id = c.company_id AND companies.retired_at IS NOT NULL)
        ORDER BY c.leased_until NULLS FIRST, c.id LIMIT %s FOR NO KEY UPDATE SKIP LOCKED))
    RETURNING {CONNECTOR_COLUMNS}
    """,
)


def lease_connectors(
    connection: Connection, *, by: str, kinds: Collection[str], most: int, now: datetime
) -> list[ConnectorRow]:
    """Takes connectors that no process polls. For connections that see all companies."""
    until = now + timedelta(seconds=LEASE_SECONDS)
    return _LEASE.all(connection, (by, until, list(kinds), now, most))


_RENEW = Scalar(
    UUID,
    f"""
    UPDATE connectors SET leased_until = %s
    WHERE id = ANY(ARRAY(
        SELECT c.id FROM unnest(%s::uuid[], %s::bigint[]) AS mine (id, lease_number)
        JOIN connectors c ON c.id = mine.id AND c.lease_number = mine.lease_number
        WHERE c.leased_until IS NOT NULL AND c.paused_at IS NULL AND {fence.is_at_work("c.company_id")}
        ORDER BY c.id FOR NO KEY UPDATE OF c SKIP LOCKED))
    RETURNING id
    """,
)


def renew_leases(connection: Connection, held: Iterable[ConnectorRow], *, now: datetime) -> set[UUID]:
    """Moves the ends of leases on. A connector that is not in the result is lost, or locked while a page of it is
    stored: waiting for that could cost the other leases."""
    mine = list(held)
    until = now + timedelta(seconds=LEASE_SECONDS)
    parameters = (until, [one.id for one in mine], [one.lease_number for one in mine])
    return set(_RENEW.all(connection, parameters))


_RELEASE = Command(
    "UPDATE connectors c SET leased_until = NULL, leased_by = NULL FROM unnest(%s::uuid[], %s::bigint[])"
    " AS mine (id, lease_number) WHERE c.id = mine.id AND c.lease_number = mine.lease_number"
)


def release_leases(connection: Connection, held: Iterable[ConnectorRow]) -> None:
    """Ends leases, so that other processes take them at once."""
    mine = list(held)
    _RELEASE.execute(connection, ([one.id for one in mine], [one.lease_number for one in mine]))
