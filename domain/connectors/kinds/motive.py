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
from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from domain.connectors.values import (
    at_path,
    first_of,
    moment_or_none,
    number_or_none,
    percent_or_none,
    read_document,
    text_or_none,
)
from domain.connectors.vendor import (
    POSITIONS_FIELD,
    Access,
    CredentialField,
    ForgedRequest,
    InboundRequest,
    UnreadableAnswer,
    Vendor,
    VendorFix,
    VendorHttp,
    VendorLevel,
    VendorPage,
    VendorVehicle,
    is_same_secret,
)

_PER_PAGE = 100
_ACTIONS = ("vehicle_location_updated", "vehicle_location_received")


class Motive(Vendor):
    kind = "motive"
    title = "Motive"
    default_url = "https://api.gomotive.com"
    receives = True
    counts_pages = True
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
        number = int(cursor) if cursor is not None and cursor.isdecimal() and len(cursor) < 10 else 1
        answer = await http.get(
            f"{access.url}/v1/vehicle_locations",
            headers={"X-Api-Key": access.credentials["token"], "X-Metric-Units": "false"},
            query={"per_page": str(_PER_PAGE), "page_no": str(number)},
        )
        return await http.read(lambda body: self._page_of(body, number), answer.body)

    def _page_of(self, body: bytes, number: int) -> VendorPage:
        document = read_document(self.title, body)
        found = at_path(document, "vehicles")
        if not isinstance(found, list):
            raise UnreadableAnswer(self.title)
        per_page = max(number_or_none(at_path(document, "pagination", "per_page")) or _PER_PAGE, 1)
        total = number_or_none(at_path(document, "pagination", "total"))
        more = bool(found) and (number * per_page < total if total is not None else len(found) >= per_page)
        page = _Located()
        for one in found:
            vehicle = one["vehicle"] if isinstance(at_path(one, "vehicle"), dict) else one
            key, location = text_or_none(at_path(vehicle, "id")), at_path(vehicle, "current_location")
            if key is None:
                page.refused["unreadable"] += 1
            elif isinstance(location, dict):  # else a vehicle without a tracker
                page.take(_vehicle_of(key, vehicle), location, location.get("speed"))
        return page.page(str(number + 1) if more else None, more)

    def verify(self, request: InboundRequest, access: Access, *, now: datetime) -> None:
        secret = access.credentials.get("webhook_secret") or ""
        expected = hmac.new(secret.encode(), request.body, hashlib.sha1).hexdigest()
        if not secret or not is_same_secret(request.headers.get("x-kt-webhook-signature"), expected):
            raise ForgedRequest

    def read_inbound(self, request: InboundRequest, access: Access) -> VendorPage:
        """A request has one event, or a list of them. Tests, and events that we did not ask for, bring nothing."""
        document = read_document(self.title, request.body)
        page = _Located()
        for one in document if isinstance(document, list) else [document]:
            if isinstance(one, dict) and one.get("action") in _ACTIONS:
                page.take_event(one)
        return page.page(None, False)


class _Located:
    """Collects fixes and levels from the locations of a page."""

    def __init__(self) -> None:
        self.refused = Counter[str]()
        self._vehicles: list[VendorVehicle] = []
        self._fixes: list[VendorFix] = []
        self._levels: list[VendorLevel] = []

    def take(self, vehicle: VendorVehicle, location: Mapping[str, Any], speed: object) -> None:
        """Adds a location. One without a place may still have a fuel level."""
        at = moment_or_none(location.get("located_at"))
        latitude, longitude = number_or_none(location.get("lat")), number_or_none(location.get("lon"))
        told = location.get("fuel_primary_remaining_percentage")
        level = percent_or_none(told)
        if told is not None and level is None:
            self.refused["unreadable_fuel"] += 1
        if at is None or latitude is None or longitude is None:
            self.refused["unreadable"] += 1
            if at is not None and level is not None:
                self._vehicles.append(vehicle)
                self._levels.append(VendorLevel(vehicle.key, at, level))
            return
        self._vehicles.append(vehicle)
        self._fixes.append(VendorFix(vehicle.key, at, latitude, longitude, number_or_none(speed), level))

    def take_event(self, event: Mapping[str, Any]) -> None:
        key = text_or_none(event.get("vehicle_id")) or text_or_none(at_path(event, "vehicle", "id"))
        if key is None:
            self.refused["unreadable"] += 1
            return
        number = first_of(event, ("vehicle_number",)) or at_path(event, "vehicle", "number")
        vehicle = VendorVehicle(key, text_or_none(number), text_or_none(at_path(event, "vehicle", "vin")))
        self.take(vehicle, event, 0.0 if number_or_none(event.get("speed")) == 0 else None)

    def page(self, cursor: str | None, has_more: bool) -> VendorPage:
        return VendorPage(self._vehicles, self._fixes, cursor, has_more, self.refused, self._levels)


def _vehicle_of(key: str, vehicle: Mapping[str, Any]) -> VendorVehicle:
    return VendorVehicle(key, text_or_none(vehicle.get("number")), text_or_none(vehicle.get("vin")))
