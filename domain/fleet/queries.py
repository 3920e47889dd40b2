"""What the API answers about a fleet: lists of vehicles and of drivers."""

from itertools import chain, combinations
from typing import NamedTuple
from uuid import UUID

import msgspec

from domain.contract.shapes import Driver, DriverList, DriverQuery, Vehicle, VehicleList, VehicleQuery
from domain.database import Connection
from domain.ids import with_shown_ids
from domain.statements import Statement

_MOST_SKIPPED = 2**62
"""An offset beyond any table that still is a bigint."""


class _Total(NamedTuple):
    total: int


class _VehicleRow(NamedTuple):
    id: UUID
    unit_number: str | None
    vin: str | None
    license_plate: str | None
    make: str | None
    model: str | None
    year: str | None
    fuel_tank_capacity_gallons: float | None


_VEHICLE_FILTERS = ("unit_number", "vin")
_VEHICLES = {
    names: "FROM vehicles WHERE "
    + " AND ".join(("company_id = %(company_id)s", "retired_at IS NULL", *(f"{name} = %({name})s" for name in names)))
    for names in chain.from_iterable(combinations(_VEHICLE_FILTERS, size) for size in range(3))
}
"""The vehicles that a query asks for, by the names of the filters that it gives."""

_VEHICLE_PAGE = {
    names: Statement(
        _VehicleRow,
        "SELECT id, unit_number, vin, license_plate, make, model, year, fuel_tank_capacity_gallons"
        f" {source} ORDER BY id LIMIT %(limit)s OFFSET %(offset)s",
    )
    for names, source in _VEHICLES.items()
}
_VEHICLE_COUNT = {names: Statement(_Total, f"SELECT count(*) AS total {source}") for names, source in _VEHICLES.items()}


def list_vehicles(connection: Connection, company_id: UUID, query: VehicleQuery) -> VehicleList:
    """One page of the company's vehicles, oldest first, without retired ones."""
    filters = tuple(name for name in _VEHICLE_FILTERS if getattr(query, name) is not None)
    parameters = {
        "company_id": company_id,
        **msgspec.structs.asdict(query),
        "offset": min(query.offset, _MOST_SKIPPED),
    }
    data = [
        Vehicle(**with_shown_ids(row._asdict(), id="veh")) for row in _VEHICLE_PAGE[filters].all(connection, parameters)
    ]
    total = _VEHICLE_COUNT[filters].one(connection, parameters).total
    return VehicleList(data=data, total=total, limit=query.limit, offset=query.offset)


class _DriverRow(NamedTuple):
    id: UUID
    name: str | None
    display_name: str | None
    external_id: str | None


_ALL_DRIVERS = "FROM drivers WHERE company_id = %(company_id)s AND retired_at IS NULL"
_DRIVERS_CALLED = f"{_ALL_DRIVERS} AND strpos(lower(name), lower(%(name)s)) > 0"
"""Not with LIKE: a `%` or `_` in the query means itself."""

_DRIVER_PAGE, _DRIVER_PAGE_CALLED = (
    Statement(
        _DriverRow,
        f"SELECT id, name, display_name, external_id {source} ORDER BY id LIMIT %(limit)s OFFSET %(offset)s",
    )
    for source in (_ALL_DRIVERS, _DRIVERS_CALLED)
)
_DRIVER_COUNT, _DRIVER_COUNT_CALLED = (
    Statement(_Total, f"SELECT count(*) AS total {source}") for source in (_ALL_DRIVERS, _DRIVERS_CALLED)
)


def list_drivers(connection: Connection, company_id: UUID, query: DriverQuery) -> DriverList:
    """One page of the company's drivers, oldest first, without retired ones."""
    page, count = (_DRIVER_PAGE, _DRIVER_COUNT) if query.name is None else (_DRIVER_PAGE_CALLED, _DRIVER_COUNT_CALLED)
    parameters = {
        "company_id": company_id,
        **msgspec.structs.asdict(query),
        "offset": min(query.offset, _MOST_SKIPPED),
    }
    data = [Driver(**with_shown_ids(row._asdict(), id="drv")) for row in page.all(connection, parameters)]
    total = count.one(connection, parameters).total
    return DriverList(data=data, total=total, limit=query.limit, offset=query.offset)
