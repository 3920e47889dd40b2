"""Pushes in batches, and what the tests of pushes look up."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from domain.database.connections import Connection, Tenant
from domain.routes.intake.pushes import Push, Pushed, store_pushes
from tests.factories import route_input
from tests.rows import named

BOSTON = {"name": "Boston dock", "latitude": 42.361, "longitude": -71.057}


def push(connection: Connection, tenant: Tenant, *bodies: dict[str, Any], now: datetime) -> list[Pushed]:
    """These changes of a valid body as one batch."""
    return store_pushes(connection, [Push(tenant, route_input(now, **body)) for body in bodies], now=now)


def effects(results: Sequence[Pushed]) -> list[str]:
    return [result.effect for result in results]


def open_routes(connection: Connection, tenant: Tenant) -> list[str]:
    rows = (
        named(connection)
        .execute(
            "SELECT external_id FROM routes WHERE company_id = %s AND environment = %s AND status <> 'canceled'"
            " ORDER BY external_id",
            tenant,
        )
        .fetchall()
    )
    return [row.external_id for row in rows]


def visit(connection: Connection, route_id: UUID, stop: int, arrived_at: datetime) -> None:
    connection.execute(
        "INSERT INTO visits (company_id, environment, route_id, stop, vehicle_id, arrived_at, arrival_evidence)"
        " SELECT company_id, environment, id, %s, vehicle_id, %s, '{}' FROM routes WHERE id = %s",
        (stop, arrived_at, route_id),
    )
    connection.execute("UPDATE routes SET arrived_at = least(arrived_at, %s) WHERE id = %s", (arrived_at, route_id))
