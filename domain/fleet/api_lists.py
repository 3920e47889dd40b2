"""The API's lists of vehicles and drivers, and the records that the matching screens offer."""

from itertools import chain, combinations
from operator import attrgetter
from typing import NamedTuple
from uuid import UUID

import msgspec

from domain.contract.shapes import Driver, DriverList, DriverQuery, Vehicle, VehicleList, VehicleQuery
from domain.database.connections import Connection
from domain.database.statements import Scalar, Statement
from domain.fleet.matching import MappingKind, Matched
from domain.fleet.vehicles import StoredVehicle
from domain.ids import shown_id, with_shown_ids

_MOST_SKIPPED = 2**62
"""An offset beyond any table, within a bigint."""


_VEHICLE_FILTERS = ("unit_number", "vin")
_VEHICLES = {
    names: "FROM vehicles WHERE "
    + " AND ".join(("company_id = %(company_id)s", "retired_at IS NULL", *(f"{name} = %({name})s" for name in names)))
    for names in chain.from_iterable(combinations(_VEHICLE_FILTERS, size) for size in range(3))
}
"""The vehicles that a query asks for, by the names of its filters."""

_VEHICLE_PAGE = {
    names: Statement(
        StoredVehicle,
        f"SELECT {', '.join(StoredVehicle._fields)} {source} ORDER BY id LIMIT %(limit)s OFFSET %(offset)s",
    )
    for names, source in _VEHICLES.items()
}
_VEHICLE_COUNT = {names: Scalar(int, f"SELECT count(*) {source}") for names, source in _VEHICLES.items()}


def list_vehicles(connection: Connection, company_id: UUID, query: VehicleQuery) -> VehicleList:
    """One page of the company's vehicles, oldest first, without retired ones."""
    filters = tuple(name for name in _VEHICLE_FILTERS if getattr(query, name) is not None)
    parameters = {
        "company_id": company_id,
        **msgspec.structs.asdict(query),
        "offset": min(query.offset, _MOST_SKIPPED),
    }
    data = [_vehicle(row) for row in _VEHICLE_PAGE[filters].all(connection, parameters)]
    total = _VEHICLE_COUNT[filters].one(connection, parameters)
    return VehicleList(data=data, total=total, limit=query.limit, offset=query.offset)


_shown_columns = attrgetter(*Vehicle.__struct_fields__[1:])
"""The stored columns that the API shows under their own names: all fields but the id."""


def _vehicle(row: StoredVehicle) -> Vehicle:
    return Vehicle(shown_id("veh", row.id), *_shown_columns(row))


class _DriverRow(NamedTuple):
    """The columns of the API's `Driver`, without the contact."""

    id: UUID
    name: str | None
    display_name: str | None
    external_id: str | None
    language: str | None


_ALL_DRIVERS = "FROM drivers WHERE company_id = %(company_id)s AND retired_at IS NULL"
_DRIVERS_CALLED = f"{_ALL_DRIVERS} AND strpos(lower(name), lower(%(name)s)) > 0"
"""No LIKE: a `%` or `_` in the query means itself."""

_DRIVER_PAGE, _DRIVER_PAGE_CALLED = (
    Statement(
        _DriverRow,
        f"SELECT {', '.join(_DriverRow._fields)} {source} ORDER BY id LIMIT %(limit)s OFFSET %(offset)s",
    )
    for source in (_ALL_DRIVERS, _DRIVERS_CALLED)
)
_DRIVER_COUNT, _DRIVER_COUNT_CALLED = (
    Scalar(int, f"SELECT count(*) {source}") for source in (_ALL_DRIVERS, _DRIVERS_CALLED)
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
    total = count.one(connection, parameters)
    return DriverList(data=data, total=total, limit=query.limit, offset=query.offset)


class FleetRecord(NamedTuple):
    """A vehicle or driver in service, as people tell it from others."""

    id: UUID
    name: str | None
    """The unit number, or the driver's name."""
    other: str | None
    """The VIN, or the driver's external id; None where there is none."""
    about: str

    def stored(self, kind: MappingKind) -> str | None:
        """The value that a reference of that kind is compared with."""
        return self.name if kind in ("unit_number", "driver_name") else self.other


_RECORDS: dict[Matched, Statement[FleetRecord]] = {
    "vehicle": Statement(
        FleetRecord,
        "SELECT id, unit_number AS name, vin AS other, concat_ws(', ', nullif(concat_ws(' ', year, make, model), ''),"
        " license_plate) AS about FROM vehicles WHERE company_id = %s AND retired_at IS NULL ORDER BY unit_number, id",
    ),
    "driver": Statement(
        FleetRecord,
        "SELECT id, name, external_id AS other, coalesce(nullif(display_name, name), '') AS about"
        " FROM drivers WHERE company_id = %s AND retired_at IS NULL ORDER BY name, id",
    ),
}


def list_records(connection: Connection, company_id: UUID, subject: Matched) -> list[FleetRecord]:
    """The vehicles or drivers in service, as targets for mappings."""
    return _RECORDS[subject].all(connection, (company_id,))
