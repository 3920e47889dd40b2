"""A fake of Motive: current locations, drivers' messages, and signed webhooks.

Locations: `GET /v1/vehicle_locations?per_page=&page_no=` with `X-Api-Key`, developer.gomotive.com/reference. Messages:
`POST /v1/messages` with `X-User-Id`, developer.gomotive.com/reference/send-a-message-to-a-user. Webhooks:
`X-KT-Webhook-Signature`, HMAC-SHA1 of the body in hex, developer.gomotive.com/reference/company-webhooks-overview."""

import hashlib
import hmac
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from tests.vendors.vendor import Answer, Fix, Request, Vendor, in_zulu, running


@dataclass
class SentByMotive:
    recipient_id: int
    body: str
    sender: str | None
    at: datetime


@dataclass
class Motive(Vendor):
    """`messages`: what its drivers got. `users`: the ids that it knows; empty: any."""

    messages: list[SentByMotive] = field(default_factory=list)
    users: set[int] = field(default_factory=set)
    webhook_secret: str = "a-shared-secret-of-20"

    def may_enter(self, request: Request) -> bool:
        return request.headers.get("x-api-key") == self.token

    def answer(self, request: Request) -> Answer:
        match request.method, request.path:
            case "GET", "/v1/vehicle_locations":
                return self._locations(request.query)
            case "POST", "/v1/messages":
                return self._take(request)
        return Answer({"error_message": "not found"}, 404)

    def _locations(self, query: dict[str, str]) -> Answer:
        size, number = min(int(query.get("per_page", 25)), self.page_size), int(query.get("page_no", 1))
        newest = self.newest()
        vehicles = [{"vehicle": self._vehicle(fix)} for fix in newest[(number - 1) * size : number * size]]
        return Answer({"vehicles": vehicles, "pagination": {"per_page": size, "page_no": number, "total": len(newest)}})

    def _vehicle(self, fix: Fix) -> dict[str, Any]:
        return {
            "id": self.vehicle_number(fix.unit_number),
            "number": fix.unit_number,
            "year": "2021",
            "make": "Volvo",
            "model": "VNL",
            "vin": self.vins.get(fix.unit_number),
            "current_location": {
                "id": f"location-{fix.number}",
                "lat": fix.latitude,
                "lon": fix.longitude,
                "located_at": in_zulu(fix.at),
                "bearing": 90.0,
                "type": "vehicle_moving",
                "description": "somewhere",
                "speed": fix.speed_mph,
                "odometer": None,
                "fuel": 54321.0,
                "fuel_primary_remaining_percentage": fix.fuel_percent,
                "fuel_secondary_remaining_percentage": None,
            },
            "current_driver": None,
        }

    def _take(self, request: Request) -> Answer:
        document = request.document
        recipient, body = document.get("recipient_id"), document.get("body")
        if not isinstance(recipient, int) or not isinstance(body, str) or not body:
            return Answer({"error_message": "invalid message"}, 400)
        if self.users and recipient not in self.users:
            return Answer({"error_message": "recipient not found"}, 404)
        self.messages.append(SentByMotive(recipient, body, request.headers.get("x-user-id"), datetime.now(UTC)))
        return Answer({"success": True}, 201)

    def webhook(self, fix: Fix, *, named: bool = True) -> tuple[bytes, dict[str, str]]:
        """Body and headers of the webhook with which Motive tells of a fix. Not `named`: by the vehicle's id alone."""
        document: dict[str, Any] = {
            "action": "vehicle_location_updated",
            "id": f"location-{fix.number}",
            "vehicle_id": self.vehicle_number(fix.unit_number),
            **({"vehicle_number": fix.unit_number} if named else {}),
            "located_at": in_zulu(fix.at),
            "lat": fix.latitude,
            "lon": fix.longitude,
            "bearing": 90.0,
            "speed": fix.speed_mph,
            "fuel_primary_remaining_percentage": fix.fuel_percent,
        }
        return self.signed(json.dumps(document).encode())

    def signed(self, body: bytes) -> tuple[bytes, dict[str, str]]:
        signature = hmac.new(self.webhook_secret.encode(), body, hashlib.sha1).hexdigest()
        return body, {"Content-Type": "application/json", "X-KT-Webhook-Signature": signature}


@contextmanager
def running_motive() -> Iterator[Motive]:
    with running(Motive()) as vendor:
        yield vendor
