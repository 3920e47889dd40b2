"""Mappings: decisions of dispatchers in the matching screens, such as "`TRUCK-9` is our vehicle 4102"."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from domain.accounts.companies import lock_company
from domain.audit.entries import Action, Actor, record_action
from domain.database.connections import Connection
from domain.database.statements import Command, Scalar, Statement
from domain.fleet.former_names import keep_mapped_value
from domain.fleet.matching import KINDS, MATCHED_BY, MappingKind, Matched
from domain.fleet.records import require_in_service, shown_record
from domain.text import printable

KIND_NAMES: dict[MappingKind, str] = {
    "unit_number": "unit number",
    "vin": "VIN",
    "driver_name": "name",
    "driver_external_id": "external id",
}


def reference_in_words(kind: MappingKind, value: str) -> str:
    """The reference as the audit log names it. A driver's name is left out: an erasure would not find it there."""
    name = KIND_NAMES[kind]
    return f"{name} {printable(value)}" if MATCHED_BY[kind] == "vehicle" else f"a driver's {name}"


_STORE = Command(
    "INSERT INTO mappings (company_id, kind, value, target_id) VALUES (%s, %s, %s, %s)"
    " ON CONFLICT (company_id, kind, value) DO UPDATE SET target_id = excluded.target_id, created_at ="
    " CASE WHEN mappings.target_id = excluded.target_id THEN mappings.created_at ELSE clock_timestamp() END"
)


def store_mapping(connection: Connection, company_id: UUID, kind: MappingKind, value: str, target_id: UUID) -> None:
    """Stores that `value` means this vehicle or driver, in place of an earlier mapping of the value.
    `routes.intake.fleet_changes` calls it, and finds the routes that waited for it. Raises UnknownCompany,
    RetiredCompany, UnknownTarget."""
    lock_company(connection, company_id)
    require_in_service(connection, company_id, MATCHED_BY[kind], target_id)
    keep_mapped_value(connection, company_id, kind, value)
    _STORE.execute(connection, (company_id, kind, value, target_id))


class StoredMapping(NamedTuple):
    """A mapping and the record that it leads to."""

    kind: str
    value: str
    target_id: UUID
    target_name: str | None
    target_other: str | None
    """The VIN or the driver's external id; the field before has the unit number or name."""
    created_at: datetime


_COLUMNS: tuple[tuple[Matched, str, str], ...] = (
    ("vehicle", "unit_number", "vin"),
    ("driver", "name", "external_id"),
)
_LIST: dict[Matched, Statement[StoredMapping]] = {
    subject: Statement(
        StoredMapping,
        f"SELECT m.kind, m.value, m.target_id, t.{name} AS target_name, t.{other} AS target_other, m.created_at"
        f" FROM mappings m JOIN {subject}s t ON t.company_id = m.company_id AND t.id = m.target_id"
        " WHERE m.company_id = %(company_id)s AND m.kind = ANY(%(kinds)s) AND"
        f" strpos(lower(concat_ws(' ', m.value, t.{name}, t.{other})), lower(%(text)s)) > 0"
        " ORDER BY m.created_at DESC, m.value, m.kind LIMIT %(limit)s OFFSET %(offset)s",
    )
    for subject, name, other in _COLUMNS
}


def list_mappings(
    connection: Connection, company_id: UUID, subject: Matched, text: str, *, limit: int, offset: int
) -> list[StoredMapping]:
    """The mappings with `text` in their value or in their record's names, the newest first."""
    return _LIST[subject].all(
        connection,
        {"company_id": company_id, "kinds": list(KINDS[subject]), "text": text, "limit": limit, "offset": offset},
    )


class MappedValue(NamedTuple):
    kind: str
    value: str
    target_id: UUID


_OF_VALUES = Statement(
    MappedValue,
    "SELECT kind, value, target_id FROM mappings WHERE company_id = %s AND kind = ANY(%s) AND value = ANY(%s)",
)


def mappings_of(
    connection: Connection, company_id: UUID, subject: Matched, values: Sequence[str]
) -> dict[tuple[str, str], UUID]:
    """The records to which these values are mapped, by kind and value."""
    rows = _OF_VALUES.all(connection, (company_id, list(KINDS[subject]), list(values)))
    return {(row.kind, row.value): row.target_id for row in rows}


_REMOVE = Scalar(UUID, "DELETE FROM mappings WHERE company_id = %s AND kind = %s AND value = %s RETURNING target_id")


def remove_mapping(connection: Connection, company_id: UUID, kind: MappingKind, value: str, by: Actor) -> bool:
    """Removes a mapping. Routes that were matched through it stay as they are. Returns False if there is no such
    mapping. Raises UnknownCompany, RetiredCompany."""
    lock_company(connection, company_id)
    keep_mapped_value(connection, company_id, kind, value)
    target_id = _REMOVE.first(connection, (company_id, kind, value))
    if target_id is None:
        return False
    subject = f"{reference_in_words(kind, value)} was {shown_record(MATCHED_BY[kind], target_id)}"
    record_action(connection, by, Action("mappings.remove"), subject, company_id=company_id)
    return True
