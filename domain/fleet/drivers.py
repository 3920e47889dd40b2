"""A company's drivers, as imported from CSV files or edited by hand. Their contacts are stored sealed.

Like every change of a fleet, an import holds the lock of the company's row (`lock_company`).
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, NamedTuple
from uuid import UUID

from msgspec import Meta, Struct

from domain.accounts.companies import lock_company
from domain.accounts.contact_urls import fault_of
from domain.accounts.contacts import IN_CLEAR, Contacts, Sealed, StoredContact
from domain.contract.csvfiles import ImportReport, Progress, read_rows
from domain.contract.shapes import Reference, ShortText, Text
from domain.database import Connection
from domain.fleet.former_names import forget_former_names, keep_stored_names
from domain.fleet.merging import CellValue, Record, merge_rows
from domain.fleet.records import AlreadyInFleet, copy_rows, require_in_service
from domain.ids import new_id
from domain.statements import Command, Statement


class DriverRow(Struct, frozen=True):
    """A row of the CSV file: its fields are the columns of the file and of the table."""

    name: Reference
    display_name: ShortText | None = None
    external_id: Reference | None = None
    contact: Annotated[Text, Meta(max_length=2000)] | None = None

    def __post_init__(self) -> None:
        if self.contact is not None and (fault := fault_of(self.contact)) is not None:
            raise ValueError(f"contact {fault}")


class _Stored(NamedTuple):
    """The id, then the fields of `DriverRow`."""

    id: UUID
    name: str | None
    display_name: str | None
    external_id: str | None
    contact: str | None


_NAMES = [(_Stored._fields.index(name), name) for name in ("name", "display_name", "external_id")]

_IN_SERVICE = Statement(
    _Stored,
    "SELECT id, name, display_name, external_id, contact FROM drivers"
    " WHERE company_id = %s AND retired_at IS NULL ORDER BY id",
)
_UPDATE = Command(
    "UPDATE drivers SET name = %s, display_name = %s, external_id = %s, contact = %s WHERE company_id = %s AND id = %s"
)
_INSERT = Command(
    "INSERT INTO drivers (id, company_id, name, display_name, external_id, contact) VALUES (%s, %s, %s, %s, %s, %s)"
)

_COPY = Command("COPY drivers (id, company_id, name, display_name, external_id, contact) FROM STDIN")


def store_drivers(
    connection: Connection,
    company_id: UUID,
    path: Path,
    *,
    contacts: Contacts = IN_CLEAR,
    progress: Progress = lambda _: None,
) -> tuple[ImportReport, list[DriverRow]]:
    """Adds and updates drivers, found by external id, else by name. A row that names a retired driver makes a new one.
    Returns the rows that changed something, too.

    `routes.fleet_changes` calls it, and finds the routes that waited for these drivers. Raises UnknownCompany,
    RetiredCompany, UnreadableFile.
    """
    report = ImportReport()
    lock_company(connection, company_id)
    before = {row.id: row for row in _IN_SERVICE.all(connection, (company_id,))}
    stored = [
        Record(row.id, row._replace(contact=contacts.open_or_keep(row.contact))._asdict()) for row in before.values()
    ]
    rows = read_rows(path, DriverRow, report, clearing=True, progress=progress)
    merged = merge_rows(rows, stored, ("external_id", "name"), report, second_is_own=False)

    def values(record: Record) -> tuple[CellValue, ...]:
        name, display_name, external_id, contact = (record.values[column] for column in DriverRow.__struct_fields__)
        return name, display_name, external_id, None if contact is None else contacts.seal(str(contact))

    renamed = [one.id for one in merged.updates if any(before[one.id][at] != one.values[name] for at, name in _NAMES)]
    keep_stored_names(connection, company_id, renamed)
    with connection.cursor() as cursor:
        if merged.updates:
            cursor.executemany(_UPDATE.text, [(*values(record), company_id, record.id) for record in merged.updates])
        copy_rows(cursor, _COPY, ((record.id, company_id, *values(record)) for record in merged.inserts))
    return report, merged.rows


_EXTERNAL_ID_TAKEN = Command(
    "SELECT FROM drivers WHERE company_id = %s AND external_id = %s AND id <> %s AND retired_at IS NULL"
)
_CHANGE = Command(
    "UPDATE drivers SET name = %s, display_name = %s, external_id = %s,"
    " contact = CASE WHEN %s THEN contact ELSE %s END WHERE company_id = %s AND id = %s"
)


def store_driver(connection: Connection, company_id: UUID, row: DriverRow, *, contacts: Contacts = IN_CLEAR) -> UUID:
    """Adds one driver and returns the id. Two drivers may have the same name.

    `routes.fleet_changes` calls it. Raises UnknownCompany, RetiredCompany, AlreadyInFleet.
    """
    lock_company(connection, company_id)
    driver_id = new_id()
    _require_free(connection, company_id, driver_id, row)
    _INSERT.execute(
        connection,
        (driver_id, company_id, row.name, row.display_name, row.external_id, contacts.seal(row.contact)),
    )
    return driver_id


def change_driver(
    connection: Connection,
    company_id: UUID,
    driver_id: UUID,
    row: DriverRow,
    *,
    keep_contact: bool,
    contacts: Contacts = IN_CLEAR,
) -> None:
    """From now on the driver is what `row` says; with `keep_contact` the stored contact stays, which nobody is shown.

    `routes.fleet_changes` calls it. Raises UnknownCompany, RetiredCompany, UnknownTarget, AlreadyInFleet.
    """
    lock_company(connection, company_id)
    require_in_service(connection, company_id, "driver", driver_id)
    _require_free(connection, company_id, driver_id, row)
    keep_stored_names(connection, company_id, [driver_id])
    values = (row.name, row.display_name, row.external_id, keep_contact, contacts.seal(row.contact))
    _CHANGE.execute(connection, (*values, company_id, driver_id))


def _require_free(connection: Connection, company_id: UUID, driver_id: UUID, row: DriverRow) -> None:
    """Raises AlreadyInFleet when another driver has the external id. The company is locked."""
    if _EXTERNAL_ID_TAKEN.first(connection, (company_id, row.external_id, driver_id)) is not None:
        raise AlreadyInFleet("driver", "external id", str(row.external_id))


_TO_SEAL = Statement(
    StoredContact,
    "SELECT id, contact FROM drivers WHERE company_id = ANY(%s)"
    " AND NOT starts_with(contact, %s) ORDER BY id FOR NO KEY UPDATE",
)
_SET_CONTACT = Command("UPDATE drivers SET contact = %s WHERE id = %s")


def seal_contacts(connection: Connection, company_ids: Sequence[UUID], contacts: Contacts) -> Sealed:
    """Those of the drivers of locked companies that are not sealed with the newest key."""
    stored = _TO_SEAL.all(connection, (list(company_ids), contacts.mark))
    sealed = contacts.seal_anew(stored)
    with connection.cursor() as cursor:
        cursor.executemany(_SET_CONTACT.text, sealed)
    return Sealed(len(sealed), len(stored) - len(sealed))


_BLANK = Command(
    "UPDATE drivers SET name = NULL, display_name = NULL, external_id = NULL, contact = NULL WHERE id = %s"
)


def forget_driver(connection: Connection, company_id: UUID, driver_id: UUID) -> None:
    """Nothing is left of a retired driver but the id, which routes name."""
    forget_former_names(connection, company_id, driver_id)
    _BLANK.execute(connection, (driver_id,))
