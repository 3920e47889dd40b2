"""Motive: current locations of vehicles, and its webhooks.

- `GET /v1/vehicle_locations?per_page=&page_no=` under `X-Api-Key`: developer.gomotive.com/reference. Each `vehicle` has
  `id`, `number`, `vin` and `current_location` with `lat`, `lon`, `located_at`, `speed` and
  `fuel_primary_remaining_percentage`, which is often null. `pagination` has `per_page`, `page_no` and `total`.
- Webhooks `vehicle_location_updated` and `vehicle_location_received` with `vehicle_id`, `lat`, `lon`, `located_at`:
  developer.gomotive.com/reference/company-webhooks-overview. `X-KT-Webhook-Signature` is the body's HMAC-SHA1 in hex.
  Motive waits 3 seconds for the answer, repeats for a day, and once posts `{"action": "test"}`. The unit of a webhook's
  `speed` is not documented, so only 0 is taken, which is the same in all.

Motive has no cursor: each round asks for all pages, and positions that were stored before are recognized by their time.
"""

import hashlib
import hmac
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

from domain.connectors.vendor import (
    POSITIONS_FIELD,
    Access,
    CredentialField,
    ForgedRequest,
    InboundRequest,
    Vendor,
    VendorFix,
    VendorHttp,
    VendorPage,
    VendorVehicle,
    is_same_secret,
    moment_or_none,
    number_or_none,
    read_document,
)

_PER_PAGE = 100
_ACTIONS = ("vehicle_location_updated", "vehicle_location_received")


class _Located(msgspec.Struct):
    vehicle: dict[str, Any]


class _Paging(msgspec.Struct):
    total: int
    per_page: int
    page_no: int


class _Locations(msgspec.Struct):
    vehicles: list[_Located]
    pagination: _Paging


class Motive(Vendor):
    kind = "motive"
    title = "Motive"
    default_url = "https://api.gomotive.com"
    receives = True
    fields = (
        CredentialField("token", "API key", "Motive: Admin, Developers, API keys. It may read vehicles and locations."),
        CredentialField(
            "webhook_secret",
            "Secret of webhooks",
            "Only for webhooks: the shared secret that Motive shows for the webhook.",
            required=False,
        ),
        POSITIONS_FIELD,
    )

    async def poll(self, cursor: str | None, access: Access, http: VendorHttp) -> VendorPage:
        number = int(cursor) if cursor is not None and cursor.isdecimal() else 1
        answer = await http.get(
            f"{access.url}/v1/vehicle_locations",
            headers={"X-Api-Key": access.credentials["token"], "X-Metric-Units": "false"},
            query={"per_page": str(_PER_PAGE), "page_no": str(number)},
        )
        found: _Locations = read_document(self.title, answer.body, _Locations)
        more = bool(found.vehicles) and number * max(found.pagination.per_page, 1) < found.pagination.total
        vehicles, fixes, unreadable = [], [], 0
        for one in found.vehicles:
            location = one.vehicle.get("current_location")
            if one.vehicle.get("id") is None or not isinstance(location, dict):
                continue  # a vehicle without a tracker
            vehicles.append(_vehicle_of(one.vehicle))
            fix = _fix_of(str(one.vehicle["id"]), location, location.get("speed"))
            fixes += [fix] if fix is not None else []
            unreadable += fix is None
        refused = {"unreadable": unreadable} if unreadable else {}
        return VendorPage(vehicles, fixes, str(number + 1) if more else None, more, refused)

    def verify(self, request: InboundRequest, access: Access, *, now: datetime) -> None:
        secret = access.credentials.get("webhook_secret") or ""
        expected = hmac.new(secret.encode(), request.body, hashlib.sha1).hexdigest()
        if not secret or not is_same_secret(request.headers.get("x-kt-webhook-signature"), expected):
            raise ForgedRequest

    def read_inbound(self, request: InboundRequest, access: Access) -> VendorPage:
        document = read_document(self.title, request.body)
        if not isinstance(document, dict) or document.get("action") not in _ACTIONS:
            return VendorPage([], [])  # a test, or an event that we did not ask for
        key = document.get("vehicle_id")
        speed = 0.0 if document.get("speed") == 0 else None
        fix = _fix_of(str(key), document, speed) if isinstance(key, int | str) else None
        if fix is None:
            return VendorPage([], [], refused={"unreadable": 1})
        number = document.get("vehicle_number")
        return VendorPage([VendorVehicle(fix.vehicle_key, number if isinstance(number, str) else None)], [fix])


def _vehicle_of(vehicle: Mapping[str, Any]) -> VendorVehicle:
    number, vin = vehicle.get("number"), vehicle.get("vin")
    return VendorVehicle(
        str(vehicle["id"]), number if isinstance(number, str) else None, vin if isinstance(vin, str) and vin else None
    )


def _fix_of(key: str, location: Mapping[str, Any], speed: object) -> VendorFix | None:
    """The fix of a location; None where it cannot be read."""
    at = moment_or_none(location.get("located_at"))
    latitude, longitude = number_or_none(location.get("lat")), number_or_none(location.get("lon"))
    if at is None or latitude is None or longitude is None:
        return None
    level = location.get("fuel_primary_remaining_percentage")
    return VendorFix(key, at, latitude, longitude, number_or_none(speed), number_or_none(level))
