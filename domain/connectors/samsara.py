"""Samsara: the feed of vehicle stats.

- `GET /fleet/vehicles/stats/feed?types=gps,fuelPercents&after=`, `pagination.endCursor` and `hasNextPage`, and the 5
  seconds to wait when there is no next page: developers.samsara.com/reference/getvehiclestatsfeed-1 and
  developers.samsara.com/docs/vehicle-stats-feed. Without `after` it gives the last known stats of each vehicle.
- `gps[]` has `time`, `latitude`, `longitude`, `speedMilesPerHour` (mph already); `fuelPercents[]` has `time` and
  `value` in percent: the same pages. Each series has its own times, so a fix gets the level measured nearest to it.
- `id`, `name`, `externalIds` with `samsara.vin`: developers.samsara.com/docs/external-ids.
- 429 with `Retry-After`: developers.samsara.com/docs/rate-limits.

Fleets in Europe are at https://api.eu.samsara.com.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from operator import itemgetter
from typing import Any

import msgspec

from domain.connectors.vendor import (
    POSITIONS_FIELD,
    Access,
    CredentialField,
    ForgottenCursor,
    Vendor,
    VendorFault,
    VendorFix,
    VendorHttp,
    VendorPage,
    VendorVehicle,
    moment_or_none,
    read_document,
)

_FUEL_NEAR = timedelta(minutes=15)
"""A fuel level that was measured further from a fix says nothing of it."""

_VIN = "samsara.vin"
_SERIAL = "samsara.serial"


class _Vehicle(msgspec.Struct, rename="camel"):
    id: str
    name: str | None = None
    external_ids: dict[str, Any] | None = None
    gps: list[dict[str, Any]] | None = None
    fuel_percents: list[dict[str, Any]] | None = None


class _Pagination(msgspec.Struct, rename="camel"):
    end_cursor: str
    has_next_page: bool


class _Feed(msgspec.Struct):
    data: list[_Vehicle]
    pagination: _Pagination


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
        POSITIONS_FIELD,
    )

    async def poll(self, cursor: str | None, access: Access, http: VendorHttp) -> VendorPage:
        try:
            answer = await http.get(
                f"{access.url}/fleet/vehicles/stats/feed",
                headers={"Authorization": f"Bearer {access.credentials['token']}"},
                query={"types": "gps,fuelPercents", "after": cursor},
            )
        except VendorFault as fault:
            if fault.status == 400 and cursor is not None:
                raise ForgottenCursor("Samsara does not know the place any more where the last poll ended") from None
            raise
        feed: _Feed = read_document(self.title, answer.body, _Feed)
        refused: Counter[str] = Counter()
        fixes = [fix for vehicle in feed.data for fix in _fixes_of(vehicle, refused)]
        vehicles = [_vehicle_of(one) for one in feed.data]
        return VendorPage(vehicles, fixes, feed.pagination.end_cursor, feed.pagination.has_next_page, refused)


def _vehicle_of(vehicle: _Vehicle) -> VendorVehicle:
    ids = {name: value for name, value in (vehicle.external_ids or {}).items() if isinstance(value, str)}
    vin = ids.pop(_VIN, None)
    ids.pop(_SERIAL, None)
    return VendorVehicle(vehicle.id, vehicle.name, vin, tuple(ids.values()))


def _fixes_of(vehicle: _Vehicle, refused: Counter[str]) -> list[VendorFix]:
    levels = [
        (at, level["value"])
        for level in vehicle.fuel_percents or ()
        if (at := moment_or_none(level.get("time"))) is not None and isinstance(level.get("value"), int | float)
    ]
    levels.sort(key=itemgetter(0))
    fixes = []
    for gps in vehicle.gps or ():
        at, latitude, longitude = moment_or_none(gps.get("time")), gps.get("latitude"), gps.get("longitude")
        if at is None or not isinstance(latitude, int | float) or not isinstance(longitude, int | float):
            refused["unreadable"] += 1
            continue
        speed = gps.get("speedMilesPerHour")
        speed = speed if isinstance(speed, int | float) else None
        fixes.append(VendorFix(vehicle.id, at, latitude, longitude, speed, fuel_level_near(levels, at)))
    return fixes


def fuel_level_near(levels: Sequence[tuple[datetime, float]], at: datetime) -> float | None:
    """The fuel level that was measured nearest to a time; `levels` are in order. None: there is none near it."""
    if not levels:
        return None
    place = bisect_left(levels, at, key=itemgetter(0))
    moment, level = min(levels[max(place - 1, 0) : place + 1], key=lambda one: abs(one[0] - at))
    return level if abs(moment - at) <= _FUEL_NEAR else None
