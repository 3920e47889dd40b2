"""Lists of a company's vehicles and drivers for the console. The API's lists are in `api_lists`."""

from domain.fleet.drivers import StoredDriver
from domain.fleet.vehicles import StoredVehicle
from domain.listing import Listing

VEHICLES = Listing(
    StoredVehicle,
    "vehicles",
    scope="company_id = %(company_id)s",
    key="id = %(id)s",
    order="unit_number, id",
    searched=("unit_number", "vin", "license_plate", "year", "make", "model"),
    retires=True,
)
DRIVERS = Listing(
    StoredDriver,
    "drivers",
    scope="company_id = %(company_id)s",
    key="id = %(id)s",
    order="name, id",
    searched=("name", "display_name", "external_id"),
    retires=True,
)
