"""The lists of vehicles and drivers for the console and the commands. The API's lists are in `api_lists`."""

from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from domain.database.listing import Listing
from domain.fleet.vehicles import StoredVehicle


class StoredDriver(NamedTuple):
    """A stored driver with the contact sealed: the fields of `DriverRow`, with the id and the time when it was
    retired."""

    id: UUID
    name: str | None
    display_name: str | None
    external_id: str | None
    contact: str | None
    language: str | None
    retired_at: datetime | None


VEHICLES = Listing(
    StoredVehicle,
    "vehicles",
    scope="company_id = %(company_id)s",
    key="id = %(id)s",
    order="unit_number, id",
    searched=("unit_number", "vin", "license_plate", "year", "make", "model"),
    sorted_by=[name for name in StoredVehicle._fields if name not in ("id", "retired_at")],
    retires=True,
)
DRIVERS = Listing(
    StoredDriver,
    "drivers",
    scope="company_id = %(company_id)s",
    key="id = %(id)s",
    order="name, id",
    searched=("name", "display_name", "external_id"),
    sorted_by=("name", "display_name", "external_id", "language"),
    retires=True,
)
