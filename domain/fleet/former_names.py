"""Names that a driver had before: earlier names and external ids, and the values of removed mappings.

Only an erasure reads them, because routes that were never matched still hold such a name. They go with the driver."""

from collections.abc import Sequence
from uuid import UUID

from domain.database.connections import Connection
from domain.database.statements import Command

_KEEP_STORED = Command(
    """
    INSERT INTO former_names (company_id, driver_id, kind, value)
    SELECT d.company_id, d.id, it.kind, it.value FROM drivers d CROSS JOIN LATERAL (
        VALUES ('driver_name', d.name), ('driver_external_id', d.external_id), ('display_name', d.display_name)
    ) AS it (kind, value)
    WHERE d.company_id = %s AND d.id = ANY(%s) AND it.value IS NOT NULL ON CONFLICT DO NOTHING
    """
)
_KEEP_MAPPED = """
    INSERT INTO former_names (company_id, driver_id, kind, value) SELECT company_id, target_id, kind, value
    FROM mappings WHERE company_id = %s AND kind IN ('driver_name', 'driver_external_id')
"""
_KEEP_MAPPED_TO = Command(f"{_KEEP_MAPPED} AND target_id = %s ON CONFLICT DO NOTHING")
_KEEP_MAPPED_VALUE = Command(f"{_KEEP_MAPPED} AND kind = %s AND value = %s ON CONFLICT DO NOTHING")
_FORGET = Command(
    "DELETE FROM former_names WHERE company_id = %(company_id)s AND (driver_id = %(driver_id)s OR (kind, value) IN ("
    "SELECT kind, value FROM former_names WHERE company_id = %(company_id)s AND driver_id = %(driver_id)s))"
)


def keep_stored_names(connection: Connection, company_id: UUID, driver_ids: Sequence[UUID]) -> None:
    """Keeps the present names of drivers. Call it before they get other names."""
    _KEEP_STORED.execute(connection, (company_id, list(driver_ids)))


def keep_names_mapped_to(connection: Connection, company_id: UUID, record_id: UUID) -> None:
    """Keeps the values that are mapped to a driver. Call it before these mappings are removed; for a vehicle it keeps
    nothing."""
    _KEEP_MAPPED_TO.execute(connection, (company_id, record_id))


def keep_mapped_value(connection: Connection, company_id: UUID, kind: str, value: str) -> None:
    """Keeps a mapped value as a name of its driver. Call it before the mapping is removed, or leads to another
    record."""
    _KEEP_MAPPED_VALUE.execute(connection, (company_id, kind, value))


def forget_former_names(connection: Connection, company_id: UUID, driver_id: UUID) -> None:
    """Removes the driver's former names, also where a name was mapped to another driver for a while."""
    _FORGET.execute(connection, {"company_id": company_id, "driver_id": driver_id})
