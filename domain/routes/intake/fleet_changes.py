"""Changes of a fleet. Held routes that waited for them are imported at once, after the commit.

Each function raises UnknownCompany if there is no such company, and RetiredCompany if it is retired."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from uuid import UUID

from domain.accounts.contacts import IN_CLEAR, Contacts
from domain.database.connections import Connection
from domain.files.csvfiles import ImportReport, Progress
from domain.fleet.drivers import DriverRow, change_driver, store_driver, store_drivers
from domain.fleet.mappings import store_mapping
from domain.fleet.matching import MappingKind
from domain.fleet.spelling_rules import SpellingRule, list_spelling_rules, spellings_of, store_spelling_rule
from domain.fleet.vehicles import VehicleRow, change_vehicle, store_vehicle, store_vehicles
from domain.queue.jobs import after_commit, import_routes_job, in_batches
from domain.routes.intake.holds import routes_spelled_by, routes_waiting_for


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
    report, rows = store_drivers(connection, company_id, path, contacts=contacts, progress=progress)
    _import_waiting(
        connection,
        company_id,
        {"driver_external_id": [row.external_id for row in rows], "driver_name": [row.name for row in rows]},
    )
    return report


def add_mapping(connection: Connection, company_id: UUID, kind: MappingKind, value: str, target_id: UUID) -> int:
    """Makes `value` mean that vehicle or driver from now on. Returns how many held routes waited for it. Raises
    UnknownTarget if the company has no such record in service."""
    return add_mappings(connection, company_id, kind, {value: target_id})


def add_mappings(connection: Connection, company_id: UUID, kind: MappingKind, targets: Mapping[str, UUID]) -> int:
    """Maps several values at once. Returns how many held routes waited for them. Raises UnknownTarget if the company
    lacks one of the records."""
    for value, target_id in sorted(targets.items()):
        store_mapping(connection, company_id, kind, value, target_id)
    waiting = routes_waiting_for(connection, company_id, kind, list(targets))
    _import(connection, company_id, waiting)
    return len(waiting)


def add_spelling_rule(connection: Connection, company_id: UUID, rule: SpellingRule) -> int:
    """Makes unit numbers with this spelling mean the unit inside. Returns how many held routes waited for it. Raises
    UnusableRule if the company has too many rules."""
    store_spelling_rule(connection, company_id, rule)
    waiting = routes_spelled_by(connection, company_id, rule)
    _import(connection, company_id, waiting)
    return len(waiting)


def add_vehicle(connection: Connection, company_id: UUID, row: VehicleRow) -> UUID:
    """Adds one vehicle. Returns its id. Raises AlreadyInFleet if another vehicle has the unit number."""
    vehicle_id = store_vehicle(connection, company_id, row)
    _import_for_vehicle(connection, company_id, row)
    return vehicle_id


def edit_vehicle(connection: Connection, company_id: UUID, vehicle_id: UUID, row: VehicleRow) -> None:
    """Changes one vehicle. Routes that it was matched to keep it. Raises UnknownTarget, and AlreadyInFleet if another
    vehicle has the unit number."""
    change_vehicle(connection, company_id, vehicle_id, row)
    _import_for_vehicle(connection, company_id, row)


def add_driver(connection: Connection, company_id: UUID, row: DriverRow, *, contacts: Contacts = IN_CLEAR) -> UUID:
    """Adds one driver. Returns the id. Raises AlreadyInFleet if another driver has the external id."""
    driver_id = store_driver(connection, company_id, row, contacts=contacts)
    _import_for_driver(connection, company_id, row)
    return driver_id


def edit_driver(
    connection: Connection,
    company_id: UUID,
    driver_id: UUID,
    row: DriverRow,
    *,
    keep_contact: bool,
    contacts: Contacts = IN_CLEAR,
) -> None:
    """Changes one driver. Routes that the driver was matched to keep the driver. Raises UnknownTarget, and
    AlreadyInFleet if another driver has the external id."""
    change_driver(connection, company_id, driver_id, row, keep_contact=keep_contact, contacts=contacts)
    _import_for_driver(connection, company_id, row)


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
