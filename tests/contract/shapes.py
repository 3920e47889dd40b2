"""The contract's resource tables, field by field, to hold answers against: exact field sets, types, nullability."""

import re
from collections.abc import Callable
from typing import Any

Check = Callable[[Any], bool]

UTC_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
STATUSES = {
    "pending",
    "pending_mapping",
    "pending_window",
    "draft",
    "planned",
    "active",
    "completed",
    "error",
    "canceled",
}
REASONS = {"vehicle_unmapped", "driver_unmapped", "outside_import_window", "not_attempted", "error"}


def string(value: Any) -> bool:
    return isinstance(value, str)


def number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def time(value: Any) -> bool:
    """A date-time in UTC with `Z` (decision 19)."""
    return isinstance(value, str) and UTC_TIME.fullmatch(value) is not None


def one_of(*values: str) -> Check:
    return lambda value: value in values


def nullable(check: Check) -> Check:
    return lambda value: value is None or check(value)


def array(check: Check) -> Check:
    return lambda value: isinstance(value, list) and all(check(entry) for entry in value)


def shape(**fields: Check) -> Check:
    """An object with exactly these fields. Fails with the name of the field that does not fit."""

    def check(value: Any) -> bool:
        assert isinstance(value, dict), value
        assert value.keys() == fields.keys(), value.keys() ^ fields.keys()
        for name, field in fields.items():
            assert field(value[name]), f"{name}: {value[name]!r}"
        return True

    return check


def page(of: Check) -> Check:
    return shape(data=array(of), total=integer, limit=integer, offset=integer)


FUEL_PLAN_STOP = shape(
    sequence=integer,
    name=string,
    address=nullable(string),
    latitude=number,
    longitude=number,
    milesFromOrigin=number,
    gallonsToFill=number,
    pricePerGallon=number,
    totalCost=number,
    arrivalFuelPercent=integer,
    estimatedArrival=nullable(time),
)
FUEL_PLAN = shape(
    status=one_of("planned", "active", "completed"),
    generatedAt=nullable(time),
    totalDistanceMiles=number,
    totalGallons=number,
    totalCost=number,
    averagePricePerGallon=number,
    savingsPerGallon=nullable(number),
    savingsTotal=nullable(number),
    stops=array(FUEL_PLAN_STOP),
)
ROUTE_STOP = shape(
    sequence=integer,
    name=string,
    address=nullable(string),
    latitude=nullable(number),
    longitude=nullable(number),
    type=one_of("waypoint", "destination", "fuel_stop"),
    plannedArrival=nullable(time),
    actualArrival=nullable(time),
    actualDeparture=nullable(time),
)
ROUTE = shape(
    id=string,
    externalId=string,
    reference=nullable(string),
    name=string,
    status=one_of(*STATUSES),
    environment=one_of("live", "sandbox"),
    pending=nullable(shape(reason=one_of(*REASONS), detail=string)),
    vehicle=shape(id=nullable(string), unitNumber=nullable(string)),
    driver=shape(id=nullable(string), name=nullable(string)),
    scheduledStart=time,
    stops=array(ROUTE_STOP),
    distanceMiles=nullable(number),
    fuelPlan=nullable(FUEL_PLAN),
    createdAt=time,
)
VEHICLE = shape(
    id=string,
    unitNumber=nullable(string),
    vin=nullable(string),
    licensePlate=nullable(string),
    make=nullable(string),
    model=nullable(string),
    year=nullable(string),
    fuelTankCapacityGallons=nullable(number),
)
DRIVER = shape(id=string, name=nullable(string), displayName=nullable(string), externalId=nullable(string))
ME = shape(
    company=shape(id=string, name=nullable(string), timeZone=string),
    key=shape(
        id=string,
        name=string,
        prefix=string,
        environment=one_of("live", "sandbox"),
        scopes=array(string),
        createdAt=time,
        expiresAt=nullable(time),
    ),
    rateLimit=shape(limit=integer, window=string),
)
