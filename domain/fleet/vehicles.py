"""A company's vehicles, imported from CSV files or edited by hand. Each change of a fleet holds the lock of its
company's row (`lock_company`), so changes happen one after the other."""

import re
from collections.abc import Iterable, Iterator
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated, NamedTuple
from uuid import UUID

from msgspec import Meta, Struct
from msgspec.structs import asdict, replace

from domain.accounts.companies import lock_company
from domain.contract.captions import Caption
from domain.contract.shapes import Reference, ShortText, Vin
from domain.database.connections import Connection
from domain.database.statements import Command
from domain.files.csvfiles import ColumnNames, FileRow, ImportReport, OtherThings, Progress, read_rows
from domain.fleet.merging import Record, merge_rows
from domain.fleet.records import NOBODY, PAST_COLUMNS, AlreadyInFleet, FleetTable, require_in_service
from domain.ids import new_id

TankGallons = Annotated[float, Meta(gt=0, le=1000)]
MilesPerGallon = Annotated[float, Meta(gt=0, le=50)]

MOST_TANK_GALLONS, MOST_MPG = 600.0, 25.0
"""Largest believable values. A larger one is in another unit, or a slip, and a plan with it would send the truck past
its range. A value that is too small only sends it to a pump early, and vans and yard trucks have small tanks."""

# Valhalla's limits: beyond these it silently falls back to its defaults.
HeightFeet = Annotated[float, Meta(ge=5, le=30)]
WidthFeet = Annotated[float, Meta(ge=5, le=30)]
LengthFeet = Annotated[float, Meta(ge=10, le=160)]
WeightPounds = Annotated[float, Meta(ge=1_000, le=220_000)]
AxleWeightPounds = Annotated[float, Meta(ge=500, le=80_000)]
AxleCount = Annotated[int, Meta(ge=2, le=20)]


class Hazmat(StrEnum):
    """Hazardous cargo that must be placarded (49 CFR 172.504)."""

    YES = "yes"
    NO = "no"


_NO_LETTERS_OF_VINS, _MEANT = "OQI", "001"
_VIN_AS_MEANT = f"translate(upper({{}}), '{_NO_LETTERS_OF_VINS}', '{_MEANT}')".format
"""SQL of `vin_as_meant`."""


def vin_as_meant(vin: str) -> str:
    """The VIN that the writer meant: in capitals, and with digits for the letters that no VIN has."""
    return vin.upper().translate(str.maketrans(_NO_LETTERS_OF_VINS, _MEANT))


class VehicleRow(Struct, frozen=True):
    """A vehicle as people enter it: in the CSV file, the table and the form."""

    unit_number: Annotated[Reference | None, Caption("Unit number", "as your TMS sends it")] = None
    vin: Annotated[Vin | None, Caption("VIN", "17 characters")] = None
    license_plate: Annotated[ShortText | None, Caption("License plate")] = None
    make: Annotated[ShortText | None, Caption("Make")] = None
    model: Annotated[ShortText | None, Caption("Model")] = None
    year: Annotated[ShortText | None, Caption("Year")] = None
    fuel_tank_capacity_gallons: Annotated[TankGallons | None, Caption("Tank, gallons")] = None
    mpg: Annotated[MilesPerGallon | None, Caption("Miles per gallon")] = None
    height_feet: Annotated[HeightFeet | None, Caption("Height, feet", "with its trailer, as 13.5")] = None
    width_feet: Annotated[WidthFeet | None, Caption("Width, feet")] = None
    length_feet: Annotated[LengthFeet | None, Caption("Length, feet", "with its trailer")] = None
    weight_pounds: Annotated[WeightPounds | None, Caption("Weight, pounds", "loaded, with its trailer")] = None
    axle_weight_pounds: Annotated[AxleWeightPounds | None, Caption("Heaviest axle, pounds")] = None
    axle_count: Annotated[AxleCount | None, Caption("Axles", "with its trailer")] = None
    hazmat: Annotated[Hazmat | None, Caption("Hazardous cargo", "yes or no")] = None

    def __post_init__(self) -> None:
        if self.unit_number is None and self.vin is None:
            raise ValueError("unit_number or vin is needed")
        tank, mpg = self.fuel_tank_capacity_gallons, self.mpg
        if tank is not None and tank > MOST_TANK_GALLONS:
            raise ValueError(f"fuel_tank_capacity_gallons: {tank:g} gallons is no tank of a truck: is it in liters?")
        if mpg is not None and mpg > MOST_MPG:
            raise ValueError(f"mpg: no truck drives {mpg:g} miles with a gallon: is it in liters per 100 km?")


class StoredVehicle(NamedTuple):
    """A stored vehicle: the fields of `VehicleRow`, with its id and the time when it was retired."""

    id: UUID
    unit_number: str | None
    vin: str | None
    license_plate: str | None
    make: str | None
    model: str | None
    year: str | None
    fuel_tank_capacity_gallons: float | None
    mpg: float | None
    height_feet: float | None
    width_feet: float | None
    length_feet: float | None
    weight_pounds: float | None
    axle_weight_pounds: float | None
    axle_count: int | None
    hazmat: str | None
    retired_at: datetime | None


LISTED = ("unit_number", "vin", "license_plate", "make", "model", "fuel_tank_capacity_gallons", "mpg")
"""The columns of the list in the console and on the command line."""

_GALLONS_NAMES = tuple(
    f"{tank}{unit}"
    for tank in ("fueltankcapacity", "fuelcapacity", "tankcapacity", "fueltanksize", "tanksize", "fueltank", "tank")
    for unit in ("gal", "gals", "gallons", "usgal", "usgallons")
)
"""Names of a column of tanks that say the unit. Others may be in liters, and a plan would send the truck past its
range."""

_TRAILER = re.compile(r"trailers?|chassis|dolly", re.IGNORECASE)
_TRUCK = re.compile(r"truck|tractor|\bcab\b", re.IGNORECASE)


class _Trailers:
    """The types of assets that are pulled. A `Tractor-Trailer` and a `Cab Chassis` are trucks."""

    def __contains__(self, cell: object) -> bool:
        return bool(_TRAILER.search(str(cell))) and not _TRUCK.search(str(cell))


_UNIT_NAMES = (
    *("unit", "unitno", "unitnum", "vehicle", "vehicleno", "vehiclenumber", "vehiclename"),
    *("truck", "truckno", "trucknumber", "truckname", "truckcode", "currenttruck"),
    *("tractor", "tractorno", "tractornumber", "powerunit", "powerunitno", "powerunitnumber", "powerunitid"),
)
VEHICLE_COLUMNS = ColumnNames(
    {
        **dict.fromkeys(_UNIT_NAMES, "unit_number"),
        **dict.fromkeys(("vinnumber", "vinno", "vinsn", "vehicleidentificationnumber"), "vin"),
        "vehicleidentificationnumbervin": "vin",
        **dict.fromkeys(("plate", "plateno", "platenumber", "licenseplatenumber", "licenceplate"), "license_plate"),
        **dict.fromkeys(("modelyear", "vehicleyear"), "year"),
        **dict.fromkeys(_GALLONS_NAMES, "fuel_tank_capacity_gallons"),
        **dict.fromkeys(("avgmpg", "averagempg"), "mpg"),
    },
    vague=(
        "unit_number",
        ("assetnumber", "equipmentnumber", "assetname", "name", "vehicleid", "assetid", "equipmentid", "asset"),
    ),
    passed_over={
        **PAST_COLUMNS,
        **dict.fromkeys(("unitnumber", *_UNIT_NAMES), NOBODY),
        **dict.fromkeys(("type", "vehicletype", "assettype", "equipmenttype", "unittype"), _Trailers()),
        **dict.fromkeys(("category", "assetcategory", "vehiclecategory"), _Trailers()),
        **dict.fromkeys(("kind", "assetkind", "vehiclekind", "equipmentkind", "unitkind"), _Trailers()),
        **dict.fromkeys(("class", "assetclass", "vehicleclass", "equipmentclass", "unitclass"), _Trailers()),
    },
    other_things=OtherThings(
        "unit_number",
        [f"trailer{number}" for number in ("", "no", "num", "number", "id", "name", "code", "unit", "unitnumber")],
        "the file lists trailers; import a list of the trucks that pull them, with their unit numbers",
    ),
)
"""Names of columns in lists of telematics vendors and spreadsheets of fleets; tests/cases/fleet has examples. Trailers
among the trucks, which may have their numbers, are passed over."""

_VEHICLES = FleetTable("vehicles", StoredVehicle, VehicleRow)


def store_vehicles(
    connection: Connection, company_id: UUID, path: Path, *, progress: Progress = lambda _: None
) -> tuple[ImportReport, list[VehicleRow]]:
    """Adds and updates vehicles, found by unit number, or by VIN. A row that names a retired vehicle makes a new one.
    Returns the report, and the rows that changed something. `routes.intake.fleet_changes` calls it, and finds the
    routes that waited for these vehicles. Raises UnknownCompany, RetiredCompany, and UnreadableFile for a file that is
    refused as a whole."""
    report = ImportReport()
    lock_company(connection, company_id)
    stored = [Record(row.id, row._asdict()) for row in _VEHICLES.in_service(connection, company_id)]
    rows = read_rows(path, VehicleRow, report, clearing=True, progress=progress, names=VEHICLE_COLUMNS)
    merged = merge_rows(
        _as_numbered(rows, stored, report),
        stored,
        ("unit_number", "vin"),
        report,
        second_is_own=True,
        as_meant=vin_as_meant,
    )
    _VEHICLES.write(connection, company_id, merged)
    return report, merged.rows


def _as_numbered(
    rows: Iterable[FileRow[VehicleRow]], stored: Iterable[Record], report: ImportReport
) -> Iterator[FileRow[VehicleRow]]:
    """The rows, with the unit number that a truck has already in place of a vendor's name for it, such as
    `101 - Ann Lee`: routes and purchases name the truck by its number."""
    spelled = {str(one.values["vin"]): one.values["unit_number"] for one in stored if one.values["unit_number"]}
    numbers = {vin_as_meant(vin): number for vin, number in spelled.items()} | spelled
    for line in rows:
        vin = line.row.vin if report.has_vague else None
        number = numbers.get(vin, numbers.get(vin_as_meant(vin))) if vin else None
        yield line if number is None else line._replace(row=replace(line.row, unit_number=str(number)))


_UNIT_NUMBER_TAKEN = Command(
    "SELECT FROM vehicles WHERE company_id = %s AND unit_number = %s AND id <> %s AND retired_at IS NULL"
)
_VIN_TAKEN = Command(
    f"SELECT FROM vehicles one WHERE company_id = %s AND {_VIN_AS_MEANT('vin')} = {_VIN_AS_MEANT('%s::text')}"
    " AND id <> %s AND retired_at IS NULL AND NOT EXISTS ("
    "SELECT FROM vehicles same WHERE same.company_id = one.company_id AND same.id = %s"
    f" AND {_VIN_AS_MEANT('same.vin')} = {_VIN_AS_MEANT('one.vin')})"
)
"""Another vehicle has the VIN. One that has it already keeps it: older releases stored VINs twice."""


def store_vehicle(connection: Connection, company_id: UUID, row: VehicleRow) -> UUID:
    """Adds one vehicle and returns its id. `routes.intake.fleet_changes` calls it. Raises UnknownCompany,
    RetiredCompany, and AlreadyInFleet if another vehicle has the unit number or the VIN."""
    lock_company(connection, company_id)
    record = Record(new_id(), asdict(row))
    _require_free(connection, company_id, record)
    _VEHICLES.insert(connection, company_id, record)
    return record.id


def change_vehicle(connection: Connection, company_id: UUID, vehicle_id: UUID, row: VehicleRow) -> None:
    """Stores the vehicle's values from `row`. `routes.intake.fleet_changes` calls it. Raises UnknownCompany,
    RetiredCompany, UnknownTarget, and AlreadyInFleet if another vehicle has the unit number or the VIN."""
    lock_company(connection, company_id)
    require_in_service(connection, company_id, "vehicle", vehicle_id)
    record = Record(vehicle_id, asdict(row))
    _require_free(connection, company_id, record)
    _VEHICLES.update(connection, company_id, record)


_CHANGE_TANK = Command("UPDATE vehicles SET fuel_tank_capacity_gallons = %s WHERE company_id = %s AND id = %s")


def change_tank(connection: Connection, company_id: UUID, vehicle_id: UUID, gallons: float) -> None:
    """Stores the tank of a vehicle; `burn.tank_proposals` calls it. Raises UnknownCompany, RetiredCompany and
    UnknownTarget."""
    lock_company(connection, company_id)
    require_in_service(connection, company_id, "vehicle", vehicle_id)
    _CHANGE_TANK.execute(connection, (gallons, company_id, vehicle_id))


def _require_free(connection: Connection, company_id: UUID, record: Record) -> None:
    """Check that no other vehicle has the unit number or the VIN. Raises AlreadyInFleet, whose text people see. The
    company is locked."""
    unit_number, vin = record.values["unit_number"], record.values["vin"]
    if _UNIT_NUMBER_TAKEN.first(connection, (company_id, unit_number, record.id)) is not None:
        raise AlreadyInFleet("vehicle", "unit number", str(unit_number))
    if _VIN_TAKEN.first(connection, (company_id, vin, record.id, record.id)) is not None:
        raise AlreadyInFleet("vehicle", "VIN", str(vin))
