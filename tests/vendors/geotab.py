"""A fake of Geotab: JSON-RPC at `/apiv1` with Authenticate, GetFeed and Get, as the client `mygeotab` calls it.

Methods and fields: geotab.github.io/sdk/software/api/reference (GetFeed, LogRecord, StatusData, Device), and
mygeotab/api.py. LogRecord's speed is in km/h; DiagnosticFuelLevelId is in percent. Errors come with status
200. The client takes `{url}/apiv1` as the server. `Get` leaves out what is more than its cap, as DESIGN.md of
github.com/andrewjordan3/fleetpull captured it, with `sort` by id and `offset`."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tests.vendors.vendor import HURRY_SECONDS, Answer, Fix, Request, Vendor, in_zulu, running

KM_PER_MILE = 1.609344
FUEL_LEVEL = "DiagnosticFuelLevelId"


@dataclass
class Geotab(Vendor):
    """`path`: the server that Authenticate names; `ThisServer` is this one."""

    username: str = "fuelroute@example.com"
    database: str = "test_fleet"
    path: str = "ThisServer"
    session: str = "session-1"
    most_of_get: int = 5_000
    """Most records in an answer to Get, which does not say that there are more."""

    def may_enter(self, request: Request) -> bool:
        params = request.document.get("params", {})
        if request.document.get("method") == "Authenticate":
            return (params.get("userName"), params.get("password")) == (self.username, self.token)
        return bool(params.get("credentials", {}).get("sessionId") == self.session)

    def no_entry(self) -> Answer:
        return _failed("InvalidUserException", "Incorrect login credentials")

    def too_fast(self) -> Answer:
        refused = _failed("OverLimitException", "API calls quota exceeded. Maximum admitted 60 per Minute.")
        return refused._replace(headers={"Retry-After": str(HURRY_SECONDS)})

    def answer(self, request: Request) -> Answer:
        if request.path != "/apiv1":
            return Answer({"message": "not found"}, 404)
        document = request.document
        params = document.get("params", {})
        match document.get("method"), params.get("typeName"):
            case "Authenticate", _:
                credentials = {"userName": self.username, "sessionId": self.session, "database": self.database}
                return _result({"credentials": credentials, "path": self.path})
            case "GetFeed", "LogRecord":
                return self._feed(params, self.fixes, self._log_record)
            case "GetFeed", "StatusData":
                assert params["search"]["diagnosticSearch"]["id"] == FUEL_LEVEL
                return self._feed(params, [fix for fix in self.fixes if fix.fuel_percent is not None], self._status)
            case "Get", "Device":
                sort = params.get("sort", {})
                assert not sort or (sort["sortBy"], sort["sortDirection"]) == ("id", "asc")
                names = dict.fromkeys(fix.unit_number for fix in self.fixes)
                devices = [
                    {
                        "id": f"b{self.vehicle_number(name)}",
                        "name": name,
                        "vehicleIdentificationNumber": self.vins.get(name, ""),
                    }
                    for name in (names if sort else reversed(names))
                ]
                behind = [one for one in devices if one["id"] > (sort.get("offset") or "")]
                return _result(behind[: self.most_of_get])
        return _failed("MissingMethodException", "no such method")

    def _feed(self, params: dict[str, Any], found: list[Fix], shown: Any) -> Answer:
        """The records after a version; without one those from now on, or from `search.fromDate`."""
        version = params.get("fromVersion")
        start = int(version, 16) if version else 0
        since = (params.get("search") or {}).get("fromDate") if not version else None
        part = [fix for fix in found if fix.number > start and (since is None or in_zulu(fix.at) >= since)]
        part = part[: min(params.get("resultsLimit") or 50000, self.page_size)]
        last = part[-1].number if part else max(start, len(self.fixes))
        return _result({"data": [shown(fix) for fix in part], "toVersion": f"{last:016x}"})

    def _log_record(self, fix: Fix) -> dict[str, Any]:
        return {
            "id": f"l{fix.number}",
            "device": {"id": f"b{self.vehicle_number(fix.unit_number)}"},
            "dateTime": in_zulu(fix.at),
            "latitude": fix.latitude,
            "longitude": fix.longitude,
            "speed": None if fix.speed_mph is None else round(fix.speed_mph * KM_PER_MILE),
        }

    def _status(self, fix: Fix) -> dict[str, Any]:
        return {
            "id": f"s{fix.number}",
            "device": {"id": f"b{self.vehicle_number(fix.unit_number)}"},
            "diagnostic": {"id": FUEL_LEVEL},
            "dateTime": in_zulu(fix.at),
            "data": fix.fuel_percent,
        }


def _result(document: Any) -> Answer:
    return Answer({"result": document, "jsonrpc": "2.0"})


def _failed(name: str, message: str) -> Answer:
    errors = [{"name": name, "message": message}]
    data = {"id": "00000000-0000-0000-0000-000000000001", "type": name, "requestIndex": 0}
    error = {"name": "JSONRPCError", "message": message, "code": -32000, "data": data, "errors": errors}
    return Answer({"error": error})


@contextmanager
def running_geotab() -> Iterator[Geotab]:
    with running(Geotab()) as vendor:
        yield vendor
