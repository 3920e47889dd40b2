"""A company's drivers, as imported from CSV files or edited by hand. Their contacts are stored sealed.

Like every change of a fleet, an import holds the lock of the company's row (`lock_company`).
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, NamedTuple
from uuid import UUID

from msgspec import Meta, Struct
from msgspec.structs import asdict, force_setattr

from domain.accounts.companies import lock_company
from domain.accounts.contact_urls import fault_of
from domain.accounts.contacts import IN_CLEAR, Contacts, SealedColumn, is_sealed
from domain.audit.entries import Actor, audit_subject, record_action
from domain.contract.captions import Caption
from domain.contract.shapes import Reference, ShortText, Text
from domain.database.connections import Connection
from domain.database.statements import Command
from domain.files.csvfiles import ColumnNames, ImportReport, Progress, read_rows
from domain.fleet.former_names import keep_stored_names
from domain.fleet.listings import DRIVERS, StoredDriver
from domain.fleet.merging import Record, merge_rows
from domain.fleet.records import NOBODY, PAST_COLUMNS, AlreadyInFleet, FleetTable, require_in_service
from domain.ids import new_id
from domain.languages.tags import tidy_language


class DriverRow(Struct, frozen=True):
    """A driver as people enter it: in the CSV file, the table and the form."""

    name: Annotated[Reference, Caption("Name", "as your TMS sends it")]
    display_name: Annotated[ShortText | None, Caption("Display name")] = None
    external_id: Annotated[Reference | None, Caption("External id", "the telematics provider's")] = None
    contact: Annotated[
        Annotated[Text, Meta(max_length=2000)] | None,
        Caption("Contact", "a message address, such as mailtos://… or samsara://4242", is_secret=True),
    ] = None
    language: Annotated[
        ShortText | None, Caption("Language", "en, es, fr or pa; a country tells the units: fr-CA has litres")
    ] = None

    def __post_init__(self) -> None:
        if self.language is not None:
            force_setattr(self, "language", tidy_language(self.language))
        if self.contact is not None and (fault := fault_of(self.contact, in_cab=True)) is not None:
            raise ValueError(f"contact {fault}")


DRIVER_COLUMNS = ColumnNames(
    {
        **dict.fromkeys(("drivername", "fullname", "driverfullname", "driver"), "name"),
        **dict.fromkeys(("driverid", "referenceid"), "external_id"),
        **dict.fromkeys(("lang", "languagecode", "preferredlanguage", "primarylanguage", "driverlanguage"), "language"),
        **dict.fromkeys(("languagepreference", "idioma", "langue"), "language"),
    },
    ("name", ("firstname", "lastname")),
    passed_over={**PAST_COLUMNS, **dict.fromkeys(("driverid", "externalid", "name", "drivername"), NOBODY)},
)
"""Names of columns in lists of telematics vendors and spreadsheets of fleets; tests/cases/fleet has examples."""

_DRIVERS = FleetTable("drivers", StoredDriver, DriverRow)
_NAMES = ("name", "display_name", "external_id")
"""The columns that tell who a driver is."""
_SHOWN = (*_NAMES, "language")
"""The columns that a form shows."""


class StoredDrivers(NamedTuple):
    """The outcome of an import of drivers."""

    report: ImportReport
    rows: list[DriverRow]
    """The rows that changed something."""
    with_new_contact: list[UUID]
    """The drivers that had another contact before, or none."""


def store_drivers(
    connection: Connection,
    company_id: UUID,
    path: Path,
    *,
    contacts: Contacts = IN_CLEAR,
    progress: Progress = lambda _: None,
) -> StoredDrivers:
    """Adds and updates drivers, found by external id, or by name. A row that names a retired driver makes a new one.
    `routes.intake.fleet_changes` calls it, and finds the routes that waited for these drivers. Raises UnknownCompany,
    RetiredCompany, and UnreadableFile for a file that is refused as a whole."""
    report = ImportReport()
    lock_company(connection, company_id)
    before = {row.id: row for row in _DRIVERS.in_service(connection, company_id)}
    contact_before = {row.id: contacts.open_or_keep(row.contact) for row in before.values()}
    stored = [Record(row.id, row._replace(contact=contact_before[row.id])._asdict()) for row in before.values()]
    rows = read_rows(path, DriverRow, report, clearing=True, progress=progress, names=DRIVER_COLUMNS)
    merged = merge_rows(rows, stored, ("external_id", "name"), report, second_is_own=False)
    renamed = [
        one.id for one in merged.updates if any(getattr(before[one.id], name) != one.values[name] for name in _NAMES)
    ]
    keep_stored_names(connection, company_id, renamed)
    with_new_contact = [one.id for one in merged.updates if one.values["contact"] != contact_before[one.id]]
    for record in (*merged.updates, *merged.inserts):
        if (contact := record.values["contact"]) is not None:
            record.values["contact"] = contacts.seal(str(contact))
    _DRIVERS.write(connection, company_id, merged)
    return StoredDrivers(report, merged.rows, with_new_contact)


_EXTERNAL_ID_TAKEN = Command(
    "SELECT FROM drivers WHERE company_id = %s AND external_id = %s AND id <> %s AND retired_at IS NULL"
)
_CHANGE_SHOWN = Command(
    f"UPDATE drivers SET {', '.join(f'{name} = %s' for name in _SHOWN)} WHERE company_id = %s AND id = %s"
)


def store_driver(connection: Connection, company_id: UUID, row: DriverRow, *, contacts: Contacts = IN_CLEAR) -> UUID:
    """Adds one driver and returns the id. Two drivers may have the same name. `routes.intake.fleet_changes` calls it.
    Raises UnknownCompany, RetiredCompany, and AlreadyInFleet if another driver has the external id."""
    lock_company(connection, company_id)
    record = _record(new_id(), row, contacts)
    _require_free(connection, company_id, record.id, row)
    _DRIVERS.insert(connection, company_id, record)
    return record.id


def change_driver(
    connection: Connection,
    company_id: UUID,
    driver_id: UUID,
    row: DriverRow,
    *,
    keep_contact: bool,
    contacts: Contacts = IN_CLEAR,
) -> None:
    """Stores the driver's values from `row`. With `keep_contact` the stored contact stays, because forms never show it.
    `routes.intake.fleet_changes` calls it. Raises UnknownCompany, RetiredCompany, UnknownTarget, and AlreadyInFleet if
    another driver has the external id."""
    lock_company(connection, company_id)
    require_in_service(connection, company_id, "driver", driver_id)
    _require_free(connection, company_id, driver_id, row)
    keep_stored_names(connection, company_id, [driver_id])
    if keep_contact:
        _CHANGE_SHOWN.execute(connection, (*(getattr(row, name) for name in _SHOWN), company_id, driver_id))
    else:
        _DRIVERS.update(connection, company_id, _record(driver_id, row, contacts))


def _record(driver_id: UUID, row: DriverRow, contacts: Contacts) -> Record:
    return Record(driver_id, asdict(row) | {"contact": contacts.seal(row.contact)})


def _require_free(connection: Connection, company_id: UUID, driver_id: UUID, row: DriverRow) -> None:
    """Check that no other driver has the external id. Raises AlreadyInFleet, whose text people see. The company is
    locked."""
    if _EXTERNAL_ID_TAKEN.first(connection, (company_id, row.external_id, driver_id)) is not None:
        raise AlreadyInFleet("driver", "external id", str(row.external_id))


DRIVER_CONTACTS = SealedColumn("drivers", "contact")

_BLANK = Command(
    f"UPDATE drivers SET {', '.join(f'{name} = NULL' for name in DriverRow.__struct_fields__)} WHERE id = %s"
)


def blank_driver(connection: Connection, company_id: UUID, driver_id: UUID) -> None:
    """Removes all values of a retired driver except the id, because routes name it. The names are kept as former ones,
    until an erasure has found them everywhere."""
    keep_stored_names(connection, company_id, [driver_id])
    _BLANK.execute(connection, (driver_id,))


def export_contacts(
    connection: Connection, company_id: UUID, by: Actor, *, contacts: Contacts
) -> Iterator[StoredDriver]:
    """The drivers in service with their contacts in clear, which are secrets. A contact that cannot be opened is left
    out."""
    by = by._replace(reason="The contacts were taken away as a CSV file")
    record_action(connection, by, "export contacts", audit_subject("driver", "all"), company_id=company_id)
    rows = DRIVERS.all(connection, {"company_id": company_id})
    return (row._replace(contact=_readable(row.contact, contacts)) for row in rows)


def _readable(contact: str | None, contacts: Contacts) -> str | None:
    opened = contacts.open_or_keep(contact)
    return None if opened is None or is_sealed(opened) else opened
