"""A fake of Traccar: `GET /api/positions` by token or session, `GET /api/devices`, and position forwarding as JSON.

Paths: www.traccar.org/api-reference. Fields: github.com/traccar/traccar, model/Position.java (speed in knots; the
attribute `fuelLevel` in percent, `fuel` in liters). Forwarding: www.traccar.org/forward, `forward.type` json."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs

from tests.vendors.vendor import Answer, Fix, Request, Vendor, in_zulu, running

KNOTS_PER_MPH = 0.868976
_SESSION = "node0session"


@dataclass
class Traccar(Vendor):
    email: str = "fleet@example.com"
    password: str = "password-of-the-test"
    balancer: str = ""
    """The cookie of a load balancer before Traccar, which leads every request without it to a server that does not know
    the session."""

    def may_enter(self, request: Request) -> bool:
        if request.path == "/api/session":
            form = {name: values[0] for name, values in parse_qs(request.body.decode()).items()}
            return request.query.get("token") == self.token or (
                form.get("email") == self.email and form.get("password") == self.password
            )
        if request.headers.get("authorization") == f"Bearer {self.token}":
            return True
        cookies = request.headers.get("cookie", "").split("; ")
        return {f"JSESSIONID={_SESSION}", *filter(None, [self.balancer])} <= set(cookies)

    def answer(self, request: Request) -> Answer:
        match request.path:
            case "/api/session":
                headers = {"Set-Cookie": f"JSESSIONID={_SESSION}; Path=/"}
                if self.balancer:
                    headers["set-cookie"] = f"{self.balancer}; Expires=Sat, 05 Dec 2026 20:00:00 GMT; Path=/"
                return Answer({"id": 1, "email": self.email}, headers=headers)
            case "/api/positions":
                return Answer([self._position(fix) for fix in self.newest()])
            case "/api/devices":
                return Answer([self._device(fix) for fix in self.newest()])
        return Answer({"message": "not found"}, 404)

    def _device(self, fix: Fix) -> dict[str, Any]:
        number = self.vehicle_number(fix.unit_number)
        return {
            "id": number,
            "name": fix.unit_number,
            "uniqueId": f"86000000000{number}",
            "status": "online",
            "lastUpdate": in_zulu(fix.at),
            "attributes": {},
        }

    def _position(self, fix: Fix) -> dict[str, Any]:
        return {
            "id": fix.number,
            "deviceId": self.vehicle_number(fix.unit_number),
            "protocol": "osmand",
            "serverTime": in_zulu(fix.at),
            "deviceTime": in_zulu(fix.at),
            "fixTime": in_zulu(fix.at),
            "outdated": False,
            "valid": True,
            "latitude": fix.latitude,
            "longitude": fix.longitude,
            "altitude": 200.0,
            "speed": None if fix.speed_mph is None else fix.speed_mph * KNOTS_PER_MPH,
            "course": 90.0,
            "accuracy": 8.0,
            "attributes": {} if fix.fuel_percent is None else {"fuelLevel": fix.fuel_percent},
        }

    def forwarded(self, fix: Fix) -> bytes:
        """The body that Traccar posts for a fix."""
        return json.dumps({"position": self._position(fix), "device": self._device(fix)}).encode()


@contextmanager
def running_traccar() -> Iterator[Traccar]:
    with running(Traccar()) as vendor:
        yield vendor
