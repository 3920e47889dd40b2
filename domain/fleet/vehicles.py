"""A company's vehicles, as imported from CSV files or edited by hand.

Whatever changes a fleet holds the lock of its company's row (`lock_company`), so that changes happen one after the
other.
"""

from pathlib import Path
from typing import Annotated, NamedTuple
from uuid import UUID

from msgspec import Meta, Struct
from msgspec.structs import asdict

from domain.accounts.companies import lock_company
from domain.contract.csvfiles import ImportReport, Progress, read_rows
from domain.contract.shapes import Reference, ShortText, Vin
from domain.database import Connection
from domain.fleet.merging import CellValue, Record, merge_rows
from domain.fleet.records import AlreadyInFleet, copy_rows, require_in_service
from domain.ids import new_id
from domain.statements import Command, Statement


class VehicleRow(Struct, frozen=True):
    """A row of the CSV file: its fields are the columns of the file and of the table."""

    unit_number: Reference | None = None
    vin: Vin | None = None
    license_plate: ShortText | None = None
    make: ShortText | None = None
    model: ShortText | None = None
    year: ShortText | None = None
    fuel_tank_capacity_gallons: Annotated[float, Meta(gt=0, le=1000)] | None = None
    mpg: Annotated[float, Meta(gt=0, le=50)] | None = None

    def __post_init__(self) -> None:
        if self.unit_number is None and self.vin is None:
            raise ValueError("unit_number or vin is needed")


class _Stored(NamedTuple):
    """The id, then the fields of `VehicleRow`."""

    id: UUID
    unit_number: str | None
    vin: str | None
    license_plate: str | None
    make: str | None
    model: str | None
    year: str | None
    fuel_tank_capacity_gallons: float | None
    mpg: float | None


_COLUMNS = VehicleRow.__struct_fields__

_IN_SERVICE = Statement(
    _Stored,
    f"SELECT {', '.join(_Stored._fields)} FROM vehicles"  # noqa: S608
    " WHERE company_id = %s AND retired_at IS NULL ORDER BY id",
)
_UPDATE = Command(
    f"UPDATE vehicles SET {', '.join(f'{name} = %s' for name in _COLUMNS)}"  # noqa: S608
    " WHERE company_id = %s AND id = %s"
)
_INSERT = Command(
    f"INSERT INTO vehicles (id, company_id, {', '.join(_COLUMNS)})"  # noqa: S608
    f" VALUES (%s, %s, {', '.join(['%s'] * len(_COLUMNS))})"
)

_COPY = Command(f"COPY vehicles (id, company_id, {', '.join(_COLUMNS)}) FROM STDIN")


def store_vehicles(
    connection: Connection, company_id: UUID, path: Path, *, progress: Progress = lambda _: None
) -> tuple[ImportReport, list[VehicleRow]]:
    """Adds and updates vehicles, found by unit number, else by VIN. A row that names a retired vehicle makes a new one.
    Returns the rows that changed something, too.

    `routes.fleet_changes` calls it, and finds the routes that waited for these vehicles. Raises UnknownCompany,
    RetiredCompany, UnreadableFile.
    """
    report = ImportReport()
    lock_company(connection, company_id)
    stored = [Record(row.id, row._asdict()) for row in _IN_SERVICE.all(connection, (company_id,))]
    rows = read_rows(path, VehicleRow, report, clearing=True, progress=progress)
    merged = merge_rows(rows, stored, ("unit_number", "vin"), report, second_is_own=True)
    with connection.cursor() as cursor:
        if merged.updates:
            cursor.executemany(_UPDATE.text, [(*_values(record), company_id, record.id) for record in merged.updates])
        copy_rows(cursor, _COPY, ((record.id, company_id, *_values(record)) for record in merged.inserts))
    return report, merged.rows


_UNIT_NUMBER_TAKEN = Command(
    "SELECT FROM vehicles WHERE company_id = %s AND unit_number = %s AND id <> %s AND retired_at IS NULL"
)


def store_vehicle(connection: Connection, company_id: UUID, row: VehicleRow) -> UUID:
    """Adds one vehicle and returns its id. `routes.fleet_changes` calls it. Raises UnknownCompany, RetiredCompany,
    AlreadyInFleet."""
    lock_company(connection, company_id)
    record = Record(new_id(), asdict(row))
    _require_free(connection, company_id, record)
    _INSERT.execute(connection, (record.id, company_id, *_values(record)))
    return record.id


def change_vehicle(connection: Connection, company_id: UUID, vehicle_id: UUID, row: VehicleRow) -> None:
    """From now on the vehicle is what `row` says. `routes.fleet_changes` calls it. Raises UnknownCompany,
    RetiredCompany, UnknownTarget, AlreadyInFleet."""
    lock_company(connection, company_id)
    require_in_service(connection, company_id, "vehicle", vehicle_id)
    record = Record(vehicle_id, asdict(row))
    _require_free(connection, company_id, record)
    _UPDATE.execute(connection, (*_values(record), company_id, vehicle_id))


def _require_free(connection: Connection, company_id: UUID, record: Record) -> None:
    """Raises AlreadyInFleet when another vehicle has the unit number. The company is locked."""
    unit_number = record.values["unit_number"]
    if _UNIT_NUMBER_TAKEN.first(connection, (company_id, unit_number, record.id)) is not None:
        raise AlreadyInFleet("vehicle", "unit number", str(unit_number))


def _values(record: Record) -> list[CellValue]:
    return [record.values[name] for name in _COLUMNS]
