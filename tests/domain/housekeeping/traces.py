"""A company of its own with the driver Zoë, and a search of every table for traces of them."""

from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg import sql

from domain.database.connections import Connection, Tenant
from domain.routes import events
from domain.routes.progress.tracking import process_vehicles
from domain.settings import Settings
from tests.domain.helpers import deliver, imported, planned_by_hand, positions_at, post
from tests.factories import JOLIET, Fleet
from tests.rows import named

PERSON = ("Zoë Quartermain", "Zoë Q.", "EMP-4711", "zoe@example.org", "Q. ZOE")
"""Name, display name, external id, contact, and what a mapping calls her."""
COMPANY = (
    "Quartermain Haulage",
    "dispatch-secret",
    "QH-UNIT-7",
    "QH-LOAD",
    "QH-REF",
    "qh key",
    "qh-boss@example.com",
)


def traces(connection: Connection, *marks: str | UUID) -> list[tuple[str, str | UUID]]:
    """Every table that holds one of these texts or ids anywhere in a row, and which."""
    tables = (
        named(connection)
        .execute(
            "SELECT table_name FROM information_schema.tables"
            " WHERE table_schema = 'public' AND table_type = 'BASE TABLE'"
        )
        .fetchall()
    )
    mark_of = {text: mark for mark in marks for text in ([str(mark), mark.hex] if isinstance(mark, UUID) else [mark])}
    found = named(connection).execute(
        sql.SQL(" UNION ").join(
            sql.SQL(
                "SELECT {} AS table_name, written FROM {} AS it, unnest(%(texts)s::text[]) AS written"
                " WHERE strpos(it::text, written) > 0"
            ).format(table.table_name, sql.Identifier(table.table_name))
            for table in tables
        ),
        {"texts": list(mark_of)},
    )
    return list(dict.fromkeys((row.table_name, mark_of[row.written]) for row in found))


def ids_of(connection: Connection, table: str, company_id: UUID) -> list[UUID]:
    rows = (
        named(connection).execute(f"SELECT id FROM {table} WHERE company_id = %s ORDER BY id", (company_id,)).fetchall()
    )
    return [row.id for row in rows]


def driven(connection: Connection, tenant: Tenant, fleet: Fleet, settings: Settings, *, now: datetime) -> UUID:
    """A completed route of Zoë with a plan, a message and visits."""
    route_id = route_of(connection, tenant, now=now)
    post(connection, tenant, positions_at(JOLIET, now, unit_number="QH-UNIT-7"), now=now)
    process_vehicles(connection, tenant.environment, fleet.trucks, settings=settings, now=now)
    message_id = planned_by_hand(connection, route_id, now=now, generatedAt=None)
    deliver(connection, message_id, settings=settings, now=now)
    events.record_event(connection, route_id, "send_again", "Zoë Quartermain called", by="dot@example.com", now=now)
    connection.execute("UPDATE routes SET status = 'completed' WHERE id = %s", (route_id,))
    return route_id


def route_of(connection: Connection, tenant: Tenant, *, now: datetime, **changes: Any) -> UUID:
    given: dict[str, Any] = {
        "vehicle": {"unitNumber": "QH-UNIT-7"},
        "driver": {"name": "Zoë Quartermain", "externalId": "EMP-4711"},
        "reference": "QH-REF",
        **changes,
    }
    return imported(connection, tenant, now=now, **given)
