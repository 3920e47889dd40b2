"""Changes of a fleet. Held routes that waited for them are imported at once, after the commit.

Each function raises UnknownCompany if there is no such company, and RetiredCompany if it is retired."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from uuid import UUID

from domain.accounts.contacts import IN_CLEAR, Contacts
from domain.audit.entries import Action, Actor, record_about, record_action
from domain.database.connections import Connection
from domain.files.csvfiles import ImportReport, Progress
from domain.fleet.drivers import DriverRow, change_driver, store_driver, store_drivers
from domain.fleet.mappings import KIND_NAMES, reference_in_words, store_mapping
from domain.fleet.matching import MATCHED_BY, MappingKind
from domain.fleet.records import shown_record
from domain.fleet.shared_spellings import Spelling
from domain.fleet.spelling_rules import SpellingRule, list_spelling_rules, spellings_of, store_spelling_rule
from domain.fleet.vehicles import VehicleRow, change_vehicle, store_vehicle, store_vehicles
from domain.messages.due_messages import send_refused_messages
from domain.queue.jobs import after_commit, import_routes_job, in_batches
from domain.routes.intake.holds import routes_spelled_by, routes_waiting_for
from domain.text import printable
from domain.wording import counted


def import_vehicles(
    connection: Connection, company_id: UUID, path: Path, *, progress: Progress = lambda _: None
) -> ImportReport:
    """Adds and updates vehicles from a CSV file. Raises UnreadableFile for a file that is refused as a whole."""
    report, rows = store_vehicles(connection, company_id, path, progress=progress)
    _import_waiting(
        connection, company_id, {"unit_number": [row.unit_number for row in rows], "vin": [row.vin for row in rows]}
    )
    return report


def import_drivers(
    connection: Connection,
    company_id: UUID,
    path: Path,
    *,
    contacts: Contacts = IN_CLEAR,
    progress: Progress = lambda _: None,
) -> ImportReport:
    """Adds and updates drivers from a CSV file. Raises UnreadableFile for a file that is refused as a whole."""
    report, rows, with_new_contact = store_drivers(connection, company_id, path, contacts=contacts, progress=progress)
    _import_waiting(
        connection,
        company_id,
        {"driver_external_id": [row.external_id for row in rows], "driver_name": [row.name for row in rows]},
    )
    send_refused_messages(connection, company_id, with_new_contact)
    return report


def add_mapping(
    connection: Connection, company_id: UUID, kind: MappingKind, value: str, target_id: UUID, by: Actor
) -> list[UUID]:
    """Makes `value` mean that vehicle or driver from now on. Returns the held routes that waited for it. Raises
    UnknownTarget if the company has no such record in service."""
    waiting = _map(connection, company_id, kind, {value: target_id})
    action = Action("matching.map_reference")
    _record_mapping(connection, company_id, kind, value, target_id, by, waiting, action=action)
    return waiting


def add_mappings(
    connection: Connection, company_id: UUID, spelling: Spelling, targets: Mapping[str, UUID], by: Actor
) -> None:
    """Maps several values of one spelling at once. Raises UnknownTarget if the company lacks one of the records."""
    waiting = _map(connection, company_id, spelling.kind, targets)
    before = ""
    if spelling.before and MATCHED_BY[spelling.kind] == "vehicle":
        before = f" with “{printable(spelling.before)}” before them"
    record_action(
        connection,
        by.with_reason(f"{counted(len(waiting), 'route')} waited for them"),
        Action("matching.map_together"),
        f"{counted(len(targets), KIND_NAMES[spelling.kind])}{before}",
        company_id=company_id,
        affected=len(waiting),
    )


def make_record(
    connection: Connection,
    company_id: UUID,
    kind: MappingKind,
    value: str,
    row: VehicleRow | DriverRow,
    by: Actor,
    *,
    contacts: Contacts = IN_CLEAR,
) -> list[UUID]:
    """Adds a vehicle or driver for a reference that fits no record, and maps the reference where the fleet calls it
    something else. Returns the held routes that waited for it. Raises AlreadyInFleet."""
    waiting = routes_waiting_for(connection, company_id, kind, [value])
    if isinstance(row, VehicleRow):
        stored = row.unit_number if kind == "unit_number" else row.vin
        record_id = store_vehicle(connection, company_id, row)
        _import_for_vehicle(connection, company_id, row)
    else:
        stored = row.name if kind == "driver_name" else row.external_id
        record_id = store_driver(connection, company_id, row, contacts=contacts)
        _import_for_driver(connection, company_id, row)
    if stored != value:
        _map(connection, company_id, kind, {value: record_id})
    _record_mapping(connection, company_id, kind, value, record_id, by, waiting, action=Action("matching.make_record"))
    return waiting


def _map(connection: Connection, company_id: UUID, kind: MappingKind, targets: Mapping[str, UUID]) -> list[UUID]:
    """Stores the mappings. Returns the held routes that waited for them, which are imported."""
    for value, target_id in sorted(targets.items()):
        store_mapping(connection, company_id, kind, value, target_id)
    waiting = routes_waiting_for(connection, company_id, kind, list(targets))
    _import(connection, company_id, waiting)
    return waiting


def _record_mapping(
    connection: Connection,
    company_id: UUID,
    kind: MappingKind,
    value: str,
    target_id: UUID,
    by: Actor,
    waiting: Sequence[UUID],
    *,
    action: Action,
) -> None:
    subject = f"{reference_in_words(kind, value)} is {shown_record(MATCHED_BY[kind], target_id)}"
    by = by.with_reason(f"{counted(len(waiting), 'route')} waited for it" if waiting else "")
    record_action(connection, by, action, subject, company_id=company_id, affected=len(waiting))


def add_spelling_rule(connection: Connection, company_id: UUID, rule: SpellingRule, by: Actor) -> None:
    """From now on unit numbers spelled so mean the unit between. Raises UnusableRule."""
    store_spelling_rule(connection, company_id, rule)
    waiting = routes_spelled_by(connection, company_id, rule)
    _import(connection, company_id, waiting)
    record_action(
        connection,
        by.with_reason(f"{counted(len(waiting), 'route')} waited for it"),
        Action("rules.add"),
        f"spelling rule {rule.in_words()}",
        company_id=company_id,
        affected=len(waiting),
    )


def add_vehicle(connection: Connection, company_id: UUID, row: VehicleRow, by: Actor) -> UUID:
    """Adds one vehicle. Returns its id. Raises AlreadyInFleet if another vehicle has the unit number or the VIN."""
    vehicle_id = store_vehicle(connection, company_id, row)
    record_about(connection, by, "add", "veh", vehicle_id, company_id=company_id)
    _import_for_vehicle(connection, company_id, row)
    return vehicle_id


def edit_vehicle(connection: Connection, company_id: UUID, vehicle_id: UUID, row: VehicleRow, by: Actor) -> None:
    """Changes one vehicle. Routes that it was matched to keep it. Raises UnknownTarget, and AlreadyInFleet if another
    vehicle has the unit number or the VIN."""
    change_vehicle(connection, company_id, vehicle_id, row)
    record_about(connection, by, "change", "veh", vehicle_id, company_id=company_id)
    _import_for_vehicle(connection, company_id, row)


def add_driver(
    connection: Connection, company_id: UUID, row: DriverRow, by: Actor, *, contacts: Contacts = IN_CLEAR
) -> UUID:
    """Adds one driver. Returns the id. Raises AlreadyInFleet if another driver has the external id."""
    driver_id = store_driver(connection, company_id, row, contacts=contacts)
    record_about(connection, by, "add", "drv", driver_id, company_id=company_id)
    _import_for_driver(connection, company_id, row)
    return driver_id


def edit_driver(
    connection: Connection,
    company_id: UUID,
    driver_id: UUID,
    row: DriverRow,
    by: Actor,
    *,
    keep_contact: bool,
    contacts: Contacts = IN_CLEAR,
) -> None:
    """Changes one driver. Routes that the driver was matched to keep the driver. Raises UnknownTarget, and
    AlreadyInFleet if another driver has the external id."""
    change_driver(connection, company_id, driver_id, row, keep_contact=keep_contact, contacts=contacts)
    record_about(connection, by, "change", "drv", driver_id, company_id=company_id)
    _import_for_driver(connection, company_id, row)
    if not keep_contact:
        send_refused_messages(connection, company_id, [driver_id])


def _import_for_vehicle(connection: Connection, company_id: UUID, row: VehicleRow) -> None:
    _import_waiting(connection, company_id, {"unit_number": [row.unit_number], "vin": [row.vin]})


def _import_for_driver(connection: Connection, company_id: UUID, row: DriverRow) -> None:
    names: dict[MappingKind, list[str | None]] = {"driver_external_id": [row.external_id], "driver_name": [row.name]}
    _import_waiting(connection, company_id, names)


def _import_waiting(
    connection: Connection, company_id: UUID, names: Mapping[MappingKind, Sequence[str | None]]
) -> None:
    """Has the routes that wait for these names imported; a route that waits for several is imported once."""
    waiting: dict[UUID, None] = {}
    for kind, given in names.items():
        if values := [value for value in given if value is not None]:
            if kind == "unit_number":
                values = spellings_of(list_spelling_rules(connection, company_id), values)
            waiting |= dict.fromkeys(routes_waiting_for(connection, company_id, kind, values))
    _import(connection, company_id, waiting)


def _import(connection: Connection, company_id: UUID, route_ids: Iterable[UUID]) -> None:
    after_commit(connection, *(import_routes_job(batch, company_id) for batch in in_batches(route_ids)))
