"""Further names of the columns of routes, as a TMS and dispatchers write them.

A name is here only if it means one thing in a file of routes. `Load` alone may be a quantity, `Unit` is `mi` in exports
of Amazon Relay, `Truck ID` may be a key elsewhere, and a `Route` comes again every week: a person maps those."""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from domain.files.profiles import plain_name

ROW, PICKUP, DELIVERY = "row", "pickup", "delivery"
"""The stop of a column: the row's own, or a pickup or a delivery of the row's route."""

STOP_NUMBER = "number"
"""The field with the number of a stop, which may also be that of a store."""


class Meaning(NamedTuple):
    """The meaning of a column's name. `whose` is empty for a field of the route. `number` counts pickups or deliveries.
    Of several names for one field those with the lowest `rank` count."""

    field: str
    whose: str = ""
    number: int = 0
    rank: int = 0


DEPARTURES = frozenset(
    f"{planned}{time}" for planned in ("scheduleddeparture", "planneddeparture") for time in ("", "time", "date")
)
"""When a truck leaves a stop. That of the first stop is the start of its route."""
_STARTS = " ".join(
    f"{what}start{time}" for what in ("scheduled", "planned", "route", "trip") for time in ("", "time", "date")
)

_OF_ROUTES = {
    name: field
    for field, names in {
        "externalId": "loadnumber loadid ordernumber orderid shipmentnumber shipmentid tripnumber tripid pronumber"
        " movementnumber movementid dispatchnumber dispatchid",
        "unitNumber": "unitnumber truck trucknumber truckname tractor tractornumber vehicle vehiclenumber vehiclename"
        " powerunit powerunitnumber tractorvehicleid assignedvehiclename",
        "driverName": "driver driver1 driver1name primarydriver leaddriver assigneddriver driverfullname",
        "scheduledStart": f"{_STARTS} {' '.join(DEPARTURES)}",
        "timeZone": "tz stoptimezone locationtimezone",
    }.items()
    for name in names.split()
}
_OF_ANY_STOP = {
    "latitude": "latitude lat locationlatitude locationlat addresslatitude addresslat",
    "longitude": "longitude lng lon long locationlongitude locationlng locationlon locationlong addresslongitude"
    " addresslng addresslon addresslong",
    "name": "locationname facilityname|facility location|city cityname citystate",
    "address": "fulladdress locationaddress|address|streetaddress street address1 addressline1",
    "windowStart": "windowstart timewindowstart arrivalwindowstart appointmentstart appointmentstarttime apptstart"
    " apptstarttime schedarriveearly scheduledarriveearly earliestarrival earliestarrivaltime appointmentdatetime"
    " apptdatetime",
    "windowEnd": "windowend timewindowend arrivalwindowend appointmentend appointmentendtime apptend apptendtime"
    " schedarrivelate scheduledarrivelate latestarrival latestarrivaltime",
}


def _ranked(names: Mapping[str, str]) -> dict[str, tuple[str, int]]:
    """The field of each name. Names behind a `|` are of a higher rank."""
    return {
        name: (field, rank)
        for field, groups in names.items()
        for rank, group in enumerate(groups.split("|"))
        for name in group.split()
    }


_OF_ROWS = _ranked(
    {
        **_OF_ANY_STOP,
        "sequence": "sequence seq stopsequencenumber movementsequence",
        STOP_NUMBER: "stopnumber",
    }
)
_OF_PLACES = _ranked({**_OF_ANY_STOP, "name": "name companyname company " + _OF_ANY_STOP["name"]})
_PLACE = re.compile(
    r"(?:(?P<pickup>pickup|pu|origin|orig|shipper)|(?:delivery|del|dropoff|drop|destination|dest|consignee|receiver))"
    r"(?P<number>\d{0,2})(?P<field>[a-z]\w*)?",
    re.ASCII,
)
_NAMES_BY_THEMSELVES = frozenset(("origin", "destination", "shipper", "consignee", "receiver"))
_APPOINTMENT_DAYS = frozenset(("appointmentdate", "apptdate"))
"""Days of appointments, which are windows if another column has the time, or if a mapping calls them the start."""
_NUMBER_ENDS = re.compile(r"(?:num|no|nbr)$")
_MOST_CHARACTERS = 60


def _spelled_out(name: str) -> str:
    """The plain name with `number` for `#`, `No.` and the like at its end."""
    return _NUMBER_ENDS.sub("number", plain_name(name.replace("#", " number ")))


@lru_cache(maxsize=10_000)  # each of the first rows is compared
def meaning_of(name: str) -> Meaning | None:
    """The meaning of a column's name; None if it has none, or more than one."""
    if len(name) > _MOST_CHARACTERS:
        return None
    said = _spelled_out(name)
    if said in _OF_ROUTES:
        return Meaning(_OF_ROUTES[said])
    if said in _OF_ROWS:
        field, rank = _OF_ROWS[said]
        return Meaning(field, ROW, rank=rank)
    if said in _APPOINTMENT_DAYS:
        return Meaning("windowStart", ROW, rank=1)
    found = _PLACE.fullmatch(said)
    if found is None:
        return None
    whose, number = PICKUP if found["pickup"] else DELIVERY, int(found["number"] or 1)
    if found["field"] is None:
        return Meaning("name", whose, number, rank=1) if said in _NAMES_BY_THEMSELVES else None
    if found["field"] not in _OF_PLACES or not number:
        return None
    field, rank = _OF_PLACES[found["field"]]
    return Meaning(field, whose, number, rank)


def clock_beside(column: int, names: Sequence[str]) -> int | None:
    """The column with the time of day of a column with days: `Appt Time` of `Appt Date`; None without one."""
    said = plain_name(names[column])
    if not said.endswith("date"):
        return None
    found = [index for index, name in enumerate(names) if plain_name(name) == f"{said.removesuffix('date')}time"]
    return found[0] if len(found) == 1 else None


_STATUS = re.compile(
    r"(?:load|order|ord|shipment|trip|route|dispatch|movement|stop|loadexecution)?status|lghoutstatus|tripstage"
)


def is_status(name: str) -> bool:
    """True if a column says how far a load is, or that it is canceled."""
    return _STATUS.fullmatch(plain_name(name)) is not None
