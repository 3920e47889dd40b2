"""Samsara: the feed of vehicle stats.

- `GET /fleet/vehicles/stats/feed?types=gps,fuelPercents&after=`, `pagination.endCursor` and `hasNextPage`, and the 5
  seconds to wait when there is no next page: developers.samsara.com/reference/getvehiclestatsfeed-1 and
  developers.samsara.com/docs/vehicle-stats-feed. Without `after` it gives the last known stats of each vehicle.
- `gps[]` has `time`, `latitude`, `longitude`, `speedMilesPerHour` (mph already); `fuelPercents[]` has `time` and
  `value` in percent: the same pages. Each series has its own times, so a fix gets the level measured nearest to it, and
  a level that comes alone waits for the next fix. Snapshots of stats have one object, `fuelPercent`, for the list.
- `id`, `name`, `externalIds` with `samsara.vin`: developers.samsara.com/docs/external-ids. Other keys are the
  company's own: `maintenanceId` and `payrollId` are the examples there. One counts as a unit number only if its key
  says so, or the company does.
- 429 with `Retry-After`: developers.samsara.com/docs/rate-limits.

Fleets in Europe are at https://api.eu.samsara.com.
"""

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

from domain.connectors.levels import LevelMemory, fuel_level_near, with_level
from domain.connectors.values import (
    at_path,
    moment_or_none,
    number_or_none,
    percent_or_none,
    read_document,
    records_of,
    text_or_none,
)
from domain.connectors.vendor import (
    POSITIONS_FIELD,
    Access,
    CredentialField,
    ForgottenCursor,
    UnreadableAnswer,
    Vendor,
    VendorFault,
    VendorFix,
    VendorHttp,
    VendorLevel,
    VendorPage,
    VendorVehicle,
)

_VIN = "samsara.vin"
_SERIAL = "samsara.serial"
_OF_UNITS = re.compile(r"fuelroute.*|(truck|unit|tractor|vehicle|powerunit)[ _.-]?(number|no|num|id)?", re.IGNORECASE)
"""Keys of external ids that say by themselves that they are unit numbers."""


class Samsara(Vendor):
    kind = "samsara"
    title = "Samsara"
    default_url = "https://api.samsara.com"
    fields = (
        CredentialField(
            "token",
            "API token",
            "Samsara: Settings, API Tokens, Add an API token, with Read Vehicle Statistics under Vehicles; for messages"
            " to drivers also Read and Write Messages under Driver Workflow.",
        ),
        CredentialField(
            "unit_number_id",
            "External id of the unit number",
            "Only if your unit numbers are an external id at Samsara and not the name: the key of that id.",
            secret=False,
            required=False,
        ),
        POSITIONS_FIELD,
    )

    def __init__(self) -> None:
        self._levels = LevelMemory()

    async def poll(self, cursor: str | None, access: Access, http: VendorHttp) -> VendorPage:
        try:
            answer = await http.get(
                f"{access.url}/fleet/vehicles/stats/feed",
                headers={"Authorization": f"Bearer {access.credentials['token']}"},
                query={"types": "gps,fuelPercents", "after": cursor},
            )
        except VendorFault as fault:
            if fault.status in (400, 422) and cursor is not None:
                raise ForgottenCursor("Samsara does not know the place any more where the last poll ended") from None
            raise
        return await http.read(lambda body: self._page_of(body, access), answer.body)

    def _page_of(self, body: bytes, access: Access) -> VendorPage:
        document = read_document(self.title, body)
        data, more = at_path(document, "data"), at_path(document, "pagination", "hasNextPage") is True
        given = at_path(document, "pagination", "endCursor")
        end = (given if isinstance(given, str) else text_or_none(given)) or None  # a part of a cursor would be none
        if not isinstance(data, list) or (more and end is None):
            raise UnreadableAnswer(self.title)
        vehicles, fixes, levels, refused = list[VendorVehicle](), list[VendorFix](), list[VendorLevel](), Counter[str]()
        for one in data:
            key = text_or_none(at_path(one, "id"))
            if key is None:
                refused["unreadable"] += 1
                continue
            vehicles.append(_vehicle_of(key, one, access.credentials.get("unit_number_id")))
            for level in _levels_of(key, one, refused):
                self._levels.keep(level)
                levels.append(level)
            known = self._levels.of(key)
            fixes += [with_level(fix, fuel_level_near(known, fix.recorded_at)) for fix in _fixes_of(key, one, refused)]
        return VendorPage(vehicles, fixes, end, more, refused, levels)


def _vehicle_of(key: str, vehicle: Mapping[str, Any], unit_number_id: str | None) -> VendorVehicle:
    given = vehicle.get("externalIds")
    given = given if isinstance(given, dict) else {}
    ids = {name: text for name, value in given.items() if (text := text_or_none(value))}
    vin = ids.pop(_VIN, None) or text_or_none(vehicle.get("vin"))
    ids.pop(_SERIAL, None)
    name = text_or_none(vehicle.get("name"))
    if not ids:
        return VendorVehicle(key, name, vin)
    named = {name for name in ids if name == unit_number_id or (not unit_number_id and _OF_UNITS.fullmatch(name))}
    ours = [text for name, text in ids.items() if name in named or text.startswith("veh_")]
    return VendorVehicle(key, name, vin, ours, [text for text in ids.values() if text not in ours])


def _levels_of(key: str, vehicle: Mapping[str, Any], refused: Counter[str]) -> list[VendorLevel]:
    levels = []
    for one in (*records_of(vehicle.get("fuelPercents")), *records_of(vehicle.get("fuelPercent"))):
        at, percent = moment_or_none(one.get("time")), percent_or_none(one.get("value"))
        if at is None or percent is None:
            refused["unreadable_fuel"] += 1
            continue
        levels.append(VendorLevel(key, at, percent))
    return levels


def _fixes_of(key: str, vehicle: Mapping[str, Any], refused: Counter[str]) -> list[VendorFix]:
    fixes = []
    for one in records_of(vehicle.get("gps")):
        at = moment_or_none(one.get("time"))
        latitude, longitude = number_or_none(one.get("latitude")), number_or_none(one.get("longitude"))
        if at is None or latitude is None or longitude is None:
            refused["unreadable"] += 1
            continue
        fixes.append(VendorFix(key, at, latitude, longitude, number_or_none(one.get("speedMilesPerHour"))))
    return fixes
