"""A fake of a white-label ELD gateway: units with positions under `x-api-key` and `provider-token`.

`GET /api/v2/units-by-usdot/{usdot}` gives `{"units": [{"truck_number", "vin", "coordinates": {"lat", "lng"},
"timestamp"}]}`: clients of TT ELD, Evo ELD and Five ELD in public repositories. `speed` stands in their answers about
one truck. `nested` answers as a gateway that nobody knows, to be described by JSON pointers."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tests.vendors.vendor import Answer, Fix, Request, Vendor, in_zulu, running


@dataclass
class EldGateway(Vendor):
    provider_token: str = "provider-token-of-the-test"
    usdot: str = "1234567"
    nested: bool = False

    def may_enter(self, request: Request) -> bool:
        return (
            request.headers.get("x-api-key") == self.token
            and request.headers.get("provider-token") == self.provider_token
        )

    def answer(self, request: Request) -> Answer:
        if request.path != f"/api/v2/units-by-usdot/{self.usdot}":
            return Answer({"message": "not found"}, 404)
        if self.nested:
            return Answer({"payload": {"assets": [self._asset(fix) for fix in self.newest()]}})
        return Answer({"units": [self._unit(fix) for fix in self.newest()]})

    def _unit(self, fix: Fix) -> dict[str, Any]:
        return {
            "truck_number": fix.unit_number,
            "vin": self.vins.get(fix.unit_number, ""),
            "coordinates": {"lat": fix.latitude, "lng": fix.longitude},
            "timestamp": in_zulu(fix.at),
            "speed": fix.speed_mph,
        }

    def _asset(self, fix: Fix) -> dict[str, Any]:
        """Times in seconds since 1970, speed in km/h, numbers as texts."""
        return {
            "label": {"no": fix.unit_number},
            "pos": [str(fix.latitude), str(fix.longitude)],
            "epoch": int(fix.at.timestamp()),
            "kmh": None if fix.speed_mph is None else fix.speed_mph * 1.609344,
            "tank": fix.fuel_percent,
        }


@contextmanager
def running_eld() -> Iterator[EldGateway]:
    with running(EldGateway()) as vendor:
        yield vendor
