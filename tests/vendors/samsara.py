"""A fake of Samsara: the feed of vehicle stats, and drivers' messages.

The feed: `GET /fleet/vehicles/stats/feed?types=gps,fuelPercents&after=`, developers.samsara.com/docs/telematics-sync.
Messages: `POST` and `GET /v1/fleet/messages`, github.com/samsarahq/samsara-sdks python-sdk/docs/MessagesApi.md and
V1MessageResponse.md. Signatures of webhooks: developers.samsara.com/docs/webhooks#webhook-signatures."""

import base64
import hashlib
import hmac
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from tests.vendors.vendor import Answer, Request, Vendor, in_zulu, running

MOST_CHARACTERS = 2500


@dataclass
class SentToDriver:
    driver_id: int
    text: str
    at: datetime
    is_read: bool = False


@dataclass
class Samsara(Vendor):
    """`messages`: what its drivers got. `drivers`: the ids that it knows; empty: any. `reads_at_once`: its drivers read
    each message as it comes."""

    messages: list[SentToDriver] = field(default_factory=list)
    drivers: set[int] = field(default_factory=set)
    reads_at_once: bool = False

    def may_enter(self, request: Request) -> bool:
        return request.headers.get("authorization") == f"Bearer {self.token}"

    def answer(self, request: Request) -> Answer:
        match request.method, request.path:
            case "GET", "/fleet/vehicles/stats/feed":
                return self._feed(request.query)
            case "POST", "/v1/fleet/messages":
                return self._take(request.document)
            case "GET", "/v1/fleet/messages":
                return self._list(request.query)
        return Answer({"message": "not found"}, 404)

    def _feed(self, query: dict[str, str]) -> Answer:
        """Without `after` it gives the newest stats of each truck, with it all that came since."""
        wanted = set(query.get("types", "").split(","))
        if not wanted <= {"gps", "fuelPercents"} or not wanted:
            return Answer({"message": "invalid types"}, 400)
        after = query.get("after")
        if after is None:
            part, end, more = self.newest(), len(self.fixes), False
        elif after.startswith("cursor-") and after[7:].isdecimal():
            start = int(after[7:])
            part = self.fixes[start : start + self.page_size]
            end, more = start + len(part), start + len(part) < len(self.fixes)
        else:
            return Answer({"message": "invalid cursor"}, 400)
        vehicles: dict[str, dict[str, Any]] = {}
        for fix in part:
            one = vehicles.setdefault(
                fix.unit_number,
                {
                    "id": str(281474976710656 + self.vehicle_number(fix.unit_number)),
                    "name": fix.unit_number,
                    "externalIds": {"samsara.vin": self.vins[fix.unit_number]} if fix.unit_number in self.vins else {},
                },
            )
            one.setdefault("gps", []).append(
                {
                    "time": in_zulu(fix.at),
                    "latitude": fix.latitude,
                    "longitude": fix.longitude,
                    "headingDegrees": 90,
                    "speedMilesPerHour": fix.speed_mph,
                    "reverseGeo": {"formattedLocation": "somewhere"},
                }
            )
            if fix.fuel_percent is not None and "fuelPercents" in wanted:
                one.setdefault("fuelPercents", []).append({"time": in_zulu(fix.at), "value": round(fix.fuel_percent)})
        pagination = {"endCursor": f"cursor-{end}", "hasNextPage": more}
        return Answer({"data": list(vehicles.values()), "pagination": pagination})

    def _take(self, document: Any) -> Answer:
        ids, text = document.get("driverIds"), document.get("text")
        if not isinstance(text, str) or not 0 < len(text) <= MOST_CHARACTERS or not ids:
            return Answer({"message": "invalid message"}, 400)
        if not all(isinstance(one, int) for one in ids) or (self.drivers and not set(ids) <= self.drivers):
            return Answer({"message": "invalid driver ids"}, 400)
        self.messages += [SentToDriver(one, text, datetime.now(UTC), self.reads_at_once) for one in ids]
        return Answer({"data": [{"driverId": one, "text": text} for one in ids]})

    def _list(self, query: dict[str, str]) -> Answer:
        """The messages of a time, the newest first."""
        end = int(query.get("endMs", datetime.now(UTC).timestamp() * 1000))
        start = end - int(query.get("durationMs", 86_400_000))
        shown = [
            {
                "driverId": one.driver_id,
                "text": one.text,
                "isRead": one.is_read,
                "sentAtMs": int(one.at.timestamp() * 1000),
                "sender": {"name": "Dispatch", "type": "dispatch"},
            }
            for one in reversed(self.messages)
            if start <= one.at.timestamp() * 1000 <= end
        ]
        return Answer({"data": shown})


def signed_headers(secret: str, body: bytes, at: datetime) -> dict[str, str]:
    """The headers with which Samsara signs a webhook. The dashboard shows the secret in Base64."""
    timestamp = str(int(at.timestamp()))
    signed = b"v1:" + timestamp.encode() + b":" + body
    signature = hmac.new(base64.b64decode(secret), signed, hashlib.sha256).hexdigest()
    return {"X-Samsara-Timestamp": timestamp, "X-Samsara-Signature": f"v1={signature}"}


@contextmanager
def running_samsara() -> Iterator[Samsara]:
    with running(Samsara()) as vendor:
        yield vendor
