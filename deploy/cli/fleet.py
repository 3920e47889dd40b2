"""Vehicles, drivers, and mappings of names in the TMS to them."""

from collections.abc import Sequence
from enum import StrEnum
from functools import partial
from typing import Annotated, Any, cast
from uuid import UUID

import typer

from deploy.cli.arguments import (
    AsJson,
    CompanyId,
    CsvFile,
    DriverArgument,
    Force,
    VehicleArgument,
    Yes,
    acting,
    columns_of,
    confirm,
    read_record_id,
)
from deploy.cli.failures import CommandFailed
from deploy.cli.output import finish_import, print_table, screen, show, show_sentence
from deploy.cli.records import Records, add_commands, by_id
from deploy.cli.reports import LinesFile, write_file
from deploy.cli.storing import transaction
from domain import clock
from domain.accounts import companies
from domain.accounts.contacts import Contacts
from domain.burn.stored_figures import known_figures
from domain.database.connections import Connection, Tenant
from domain.fleet.drivers import DriverRow
from domain.fleet.listings import DRIVERS, VEHICLES
from domain.fleet.matching import MAPPING_KINDS, MATCHED_BY, MappingKind, Matched
from domain.fleet.records import shown_record
from domain.fleet.vehicles import LISTED, StoredVehicle, VehicleRow
from domain.ids import read_id
from domain.lifecycle import Environment
from domain.settings import get_settings
from domain.wording import counted

vehicles_app = typer.Typer(no_args_is_help=True)
drivers_app = typer.Typer(no_args_is_help=True)
mappings_app = typer.Typer(no_args_is_help=True)


def _burns(connection: Connection, company_id: UUID, rows: Sequence[StoredVehicle]) -> list[dict[str, Any]]:
    """The figure with which live plans of each vehicle are made, and the trips that it was learned from."""
    known = known_figures(connection, Tenant(company_id, Environment.LIVE), [row.id for row in rows])
    return [{"burn": known[row.id].burn.document()} for row in rows]


add_commands(
    vehicles_app,
    Records(
        "vehicle",
        "vehicles",
        VEHICLES,
        ("id", *LISTED),
        by_id("vehicle", partial(read_id, "veh")),
        id_kind="veh",
        shape=VehicleRow,
        more=_burns,
    ),
)
add_commands(
    drivers_app,
    Records(
        "driver",
        "drivers",
        DRIVERS,
        ("id", "name", "display_name", "external_id", "language", "has_contact"),
        by_id("driver", partial(read_id, "drv")),
        id_kind="drv",
        shape=DriverRow,
    ),
)


@vehicles_app.command("import", epilog=columns_of(VehicleRow))
def vehicles_import(company_id: CompanyId, file: CsvFile, as_json: AsJson = False) -> None:
    """Adds and updates vehicles, found by unit number, else by VIN.

    An empty cell leaves a value as it is, a `-` removes it.
    """
    from deploy.cli.importing import store_file
    from domain.operations.import_kinds import VehiclesFile

    finish_import(as_json, "vehicles", store_file(VehiclesFile(path=file, company_id=company_id), as_json=as_json))


@vehicles_app.command("trips")
def vehicles_trips(
    company_id: CompanyId,
    environment: Annotated[
        Environment, typer.Option("--environment", help="The environment of the trips.")
    ] = Environment.LIVE,
    csv_file: LinesFile = None,
    as_json: AsJson = False,
) -> None:
    """Lists completed trips with the fuel that they burned, those that count, and the figure of each truck's plans."""
    from domain.burn.history import TRIP_COLUMNS, trips_of_company
    from domain.files.csvfiles import write_records

    with transaction() as connection:
        companies.require_company(connection, company_id, even_retired=True)
        rows = trips_of_company(connection, Tenant(company_id, environment))
    write_file(csv_file, lambda file: write_records(file, TRIP_COLUMNS, rows))

    def text() -> None:
        print_table(rows, *(name for name in TRIP_COLUMNS if not name.endswith("_id") or name == "external_id"))
        screen.print(counted(len(rows), "trip"))

    show(as_json, {"data": rows}, text)


@drivers_app.command("import", epilog=columns_of(DriverRow))
def drivers_import(company_id: CompanyId, file: CsvFile, as_json: AsJson = False) -> None:
    """Adds and updates drivers, found by external id, else by name.

    An empty cell leaves a value as it is, a `-` removes it.
    """
    from deploy.cli.importing import store_file
    from domain.operations.import_kinds import DriversFile

    drivers = DriversFile(path=file, company_id=company_id, contacts=Contacts.of(get_settings()))
    finish_import(as_json, "drivers", store_file(drivers, as_json=as_json))


@vehicles_app.command("retire")
def vehicles_retire(
    company_id: CompanyId,
    vehicle_id: VehicleArgument,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Takes a vehicle out of the fleet. Its routes that have not started are matched again."""
    _retire(company_id, "vehicle", vehicle_id, force, as_json)


@drivers_app.command("retire")
def drivers_retire(
    company_id: CompanyId,
    driver_id: DriverArgument,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Takes a driver out of the fleet. The driver's routes that have not started are matched again."""
    _retire(company_id, "driver", driver_id, force, as_json)


def _retire(company_id: UUID, kind: Matched, record_id: UUID, force: bool, as_json: bool) -> None:
    from domain.routes.intake.retiring import retire

    with transaction() as connection:
        done = retire(connection, company_id, kind, record_id, acting(), force=force, now=clock.now())
    shown = shown_record(kind, record_id)
    show_sentence(
        as_json,
        {"id": shown, "retired": True, "matched_again_routes": done.matched_again, "ended_routes": done.ended},
        f"retired {shown}; {counted(done.matched_again, 'route is', 'routes are')} matched again, "
        f"{counted(done.ended, 'was', 'were')} ended",
    )


@drivers_app.command("erase")
def drivers_erase(
    company_id: CompanyId,
    driver_id: DriverArgument,
    force: Force = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Deletes everything that identifies a driver, for good. Miles, gallons and cost stay. Safe to run again."""
    from domain.housekeeping import erasure

    shown = shown_record("driver", driver_id)
    confirm(yes, f"{shown} will be removed for good, from every route too")
    routes = erasure.erase_driver(transaction, company_id, driver_id, force=force, now=clock.now())
    show_sentence(
        as_json,
        {"id": shown, "erased": True, "routes": routes},
        f"erased {shown}, from {counted(routes, 'route')} too",
    )


MappingKindOption = StrEnum("MappingKindOption", {kind: kind for kind in MAPPING_KINDS})  # type: ignore[misc]


@mappings_app.command("add")
def mappings_add(
    company_id: CompanyId,
    kind: Annotated[MappingKindOption, typer.Option("--kind", help="The kind of the value.")],
    value: Annotated[str, typer.Option("--value", metavar="V", help="The value as the TMS sends it.")],
    target_id: Annotated[
        str, typer.Option("--to", metavar="ID", help="The id of the vehicle or driver that the value means.")
    ],
    as_json: AsJson = False,
) -> None:
    """Stores which vehicle or driver a value of the TMS means. Routes that wait for it are imported at once."""
    from domain.routes.intake import fleet_changes

    if not 1 <= len(value) <= 200:  # as `Reference` of the contract
        raise CommandFailed("--value: give the value as the TMS sends it, 1 to 200 characters")
    mapping_kind = cast(MappingKind, kind.value)
    with transaction() as connection:
        companies.require_company(connection, company_id)
        waiting = fleet_changes.add_mapping(
            connection, company_id, mapping_kind, value, read_record_id(MATCHED_BY[mapping_kind], target_id), acting()
        )
    show_sentence(
        as_json,
        {"kind": kind, "value": value, "to": target_id, "waiting_routes": len(waiting)},
        f"{value!r} now means {target_id}; {counted(len(waiting), 'held route is', 'held routes are')} imported",
    )
