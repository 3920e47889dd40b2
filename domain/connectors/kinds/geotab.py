"""Geotab: the feeds of positions and of fuel levels.

- JSON-RPC at `/apiv1`: `Authenticate`, `GetFeed` with `fromVersion` and `toVersion`, `Get` of `Device`; an error comes
  with status 200, `InvalidUserException` and `OverLimitException` among them:
  geotab.github.io/sdk/software/api/reference, and the client `mygeotab` (api.py, exceptions.py). Its name stands in
  `data.type`, and mostly again in `errors`: captures in tests of github.com/andrewjordan3/fleetpull, and public guides.
- `LogRecord` has `device`, `dateTime`, `latitude`, `longitude` and `speed` in km/h; `StatusData` of
  `DiagnosticFuelLevelId` has `data` in percent: the same reference. They are two feeds with a version each. The cursor
  holds both, so it is stored with the positions that it brought. A fix gets the level that was measured nearest to it.
- `Get` gives 5,000 records and does not say that there are more; `sort` by `id` with `offset`, the last id, gives the
  next ones: captured in DESIGN.md of github.com/andrewjordan3/fleetpull.

The client opens connections that know neither judged addresses nor a bound on bytes. So its serializer of questions is
used, over our own connections. A cursor belongs to its database: another one begins anew.
"""

import re
import time
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from domain import clock
from domain.connectors.levels import LevelMemory, fuel_level_near, with_level
from domain.connectors.values import (
    at_path,
    moment_or_none,
    number_or_none,
    read_document,
    text_or_none,
    wait_or_none,
)
from domain.connectors.vendor import (
    MPH_PER_KMH,
    Access,
    CredentialField,
    FieldName,
    ForgottenCursor,
    UnreadableAnswer,
    Vendor,
    VendorFault,
    VendorFix,
    VendorHttp,
    VendorHurried,
    VendorLevel,
    VendorPage,
    VendorRefusal,
    VendorVehicle,
)

_FUEL_LEVEL = {"diagnosticSearch": {"id": "DiagnosticFuelLevelId"}}
_RESULTS = 2_000
"""Most records of one feed in a page; Geotab allows 50,000."""

_BEGIN = timedelta(minutes=15)
"""Age of the oldest records in the first page."""

_MOST_OF_GET = 5_000
"""Most devices in an answer. Geotab leaves the others out and does not say so; retired ones count, too."""

_MOST_ANSWERS = 20
"""Most answers with devices that are asked for in a row."""

_NAMES_AGAIN_SECONDS = 600.0
_NAMES_HOLD_SECONDS = 3600.0
_WAIT_SECONDS = 60.0
"""Geotab counts calls by the minute."""

_SERVERS = re.compile(r"[a-z0-9.-]+\.geotab\.com", re.IGNORECASE)
_THIS_SERVER = "ThisServer"
_VINS = ("vehicleIdentificationNumber", "engineVehicleIdentificationNumber")
"""The number that people entered, and the one that the engine reports."""


class Geotab(Vendor):
    kind = "geotab"
    title = "Geotab"
    default_url = "https://my.geotab.com"
    fields = (
        CredentialField("database", "Database", "The name of the company's database at MyGeotab.", secret=False),
        CredentialField(
            "username", "User", "A user that may see devices and engine data; best a service account.", secret=False
        ),
        CredentialField("password", "Password", "The password of that user."),
    )

    def __init__(self) -> None:
        self._session: tuple[str, dict[str, Any]] | None = None
        """The server that Authenticate named, and the credentials of the session; None before it."""
        self._vehicles: dict[str, VendorVehicle] = {}
        self._named_at = float("-inf")
        self._levels = LevelMemory()

    def source_of(self, credentials: Mapping[FieldName, str]) -> str:
        return credentials.get("database", "").casefold()

    async def poll(self, cursor: str | None, access: Access, http: VendorHttp) -> VendorPage:
        versions = (cursor or "").split(" ")
        log_version, fuel_version = versions if len(versions) == 2 else ("", "")
        measured = await self._feed("StatusData", fuel_version, _FUEL_LEVEL, access, http)
        logged = await self._feed("LogRecord", log_version, {}, access, http)
        levels = [level for record in measured["data"] if (level := _level_of(record)) is not None]
        for level in levels:
            self._levels.keep(level)
        read = [fix for record in logged["data"] if (fix := _fix_of(record)) is not None]
        fixes = [with_level(fix, fuel_level_near(self._levels.of(fix.vehicle_key), fix.recorded_at)) for fix in read]
        keys = {fix.vehicle_key for fix in fixes} | {level.vehicle_key for level in levels}
        vehicles = await self._vehicles_of(keys, access, http) if keys else []
        full = max(len(logged["data"]), len(measured["data"])) >= _RESULTS
        unreadable = {
            "unreadable": len(logged["data"]) - len(fixes),
            "unreadable_fuel": len(measured["data"]) - len(levels),
        }
        refused = {reason: count for reason, count in unreadable.items() if count}
        cursor = f"{logged['toVersion']} {measured['toVersion']}"
        return VendorPage(vehicles, fixes, cursor, full, refused, levels)

    async def _feed(
        self, kind: str, version: str, search: Mapping[str, Any], access: Access, http: VendorHttp
    ) -> dict[str, Any]:
        params: dict[str, Any] = {"typeName": kind, "resultsLimit": _RESULTS}
        if version:
            params["fromVersion"] = version
        else:
            search = {**search, "fromDate": clock.now() - _BEGIN}
        if search:
            params["search"] = search
        try:
            page = await self._call("GetFeed", params, access, http)
        except _Failed as failed:
            if version and failed.name in ("ArgumentException", "ArgumentOutOfRangeException"):
                raise ForgottenCursor("Geotab does not know the place any more where the last poll ended") from None
            raise
        if not isinstance(page, dict) or not isinstance(page.get("data"), list) or not page.get("toVersion"):
            raise UnreadableAnswer(self.title)
        return page

    async def _vehicles_of(self, keys: set[str], access: Access, http: VendorHttp) -> list[VendorVehicle]:
        """The vehicles with their names. Geotab is asked for names when there is a new device, at most every ten
        minutes, and each hour: a device may move to another truck and get its name."""
        age = time.monotonic() - self._named_at
        if age > _NAMES_HOLD_SECONDS or (keys - self._vehicles.keys() and age > _NAMES_AGAIN_SECONDS):
            devices = await self._devices(access, http)
            self._vehicles = {one.key: one for one in map(_vehicle_of, devices) if one is not None}
            self._named_at = time.monotonic()
        return [self._vehicles.get(key, VendorVehicle(key)) for key in sorted(keys)]

    async def _devices(self, access: Access, http: VendorHttp) -> list[Any]:
        """All devices. If one answer cannot have them all, they are asked for in the order of their ids, each time
        behind the last one."""
        fields = {"fields": ["id", "name", *_VINS], "isIncluded": True}
        params: dict[str, Any] = {"typeName": "Device", "propertySelector": fields}
        devices: list[Any] = []
        for _ in range(_MOST_ANSWERS):
            part = await self._call("Get", params, access, http)
            if not isinstance(part, list):
                raise UnreadableAnswer(self.title)
            devices += part
            if len(part) < _MOST_OF_GET:
                break
            last = at_path(part[-1], "id") if "sort" in params else None
            params |= {"resultsLimit": _MOST_OF_GET, "sort": {"sortBy": "id", "sortDirection": "asc", "offset": last}}
        return devices

    async def _call(self, method: str, params: Mapping[str, Any], access: Access, http: VendorHttp) -> Any:
        """A call in the session, which is opened again once if Geotab has ended it."""
        is_old = self._session is not None
        server, credentials = self._session or await self._sign_in(access, http)
        try:
            return await _exchange(server, method, {**params, "credentials": credentials}, http)
        except VendorRefusal:
            self._session = None
            if not is_old:
                raise
        server, credentials = await self._sign_in(access, http)
        return await _exchange(server, method, {**params, "credentials": credentials}, http)

    async def _sign_in(self, access: Access, http: VendorHttp) -> tuple[str, dict[str, Any]]:
        given = access.credentials
        params = {"database": given["database"], "userName": given["username"], "password": given["password"]}
        server = f"{access.url}/apiv1"
        answer = await _exchange(server, "Authenticate", params, http)
        credentials, path = at_path(answer, "credentials"), at_path(answer, "path")
        if not isinstance(credentials, dict) or not isinstance(path, str):
            raise UnreadableAnswer(self.title)
        if path != _THIS_SERVER:
            if not _SERVERS.fullmatch(path):
                raise VendorFault(
                    "Geotab names a server that is not its own", what_to_do="check the address; my.geotab.com fits most"
                )
            server = f"https://{path}/apiv1"
        self._session = server, credentials
        return self._session


class _Failed(VendorFault):
    """An error of Geotab, with its name."""

    def __init__(self, name: str) -> None:
        super().__init__(f"Geotab answered with the error {name}")
        self.name = name


async def _exchange(server: str, method: str, params: Mapping[str, Any], http: VendorHttp) -> Any:
    """One call. Raises VendorFault if it fails; the connector shows the fault."""
    from mygeotab.serializers import json_serialize  # here: it takes long to load, and few processes need it

    body = json_serialize({"id": -1, "method": method, "params": params})
    headers = {"Content-Type": "application/json; charset=UTF-8"}
    answer = await http.request("POST", server, headers=headers, body=body.encode())
    document = await http.read(lambda body: read_document(Geotab.title, body), answer.body)
    try:
        if "error" not in document:
            return document["result"]
        error = document["error"]
        name = str(at_path(error, "data", "type") or error["errors"][0]["name"])[:100]
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError, OverflowError):
        raise UnreadableAnswer(Geotab.title) from None
    if name in ("InvalidUserException", "SecurityException"):
        raise VendorRefusal(f"Geotab does not take the credentials ({name})")
    if name == "DbUnavailableException":
        raise VendorRefusal(
            f"the database is not available at Geotab ({name})",
            what_to_do="nothing, if it was there before: Fuelroute tries again by itself; else check its name",
        )
    if name == "OverLimitException":
        wait = wait_or_none(answer.headers.get("retry-after")) or _WAIT_SECONDS
        raise VendorHurried("Geotab asks to be asked less often", wait)
    raise _Failed(name if name.isidentifier() else "unknown")


def _device(record: Any) -> str | None:
    """The id of a record's device, which is an object or the id itself."""
    device = at_path(record, "device")
    return text_or_none(device.get("id") if isinstance(device, dict) else device)


def _level_of(record: Any) -> VendorLevel | None:
    key, at = _device(record), moment_or_none(at_path(record, "dateTime"))
    percent = number_or_none(at_path(record, "data"))
    return None if key is None or at is None or percent is None else VendorLevel(key, at, percent)


def _fix_of(record: Any) -> VendorFix | None:
    key, at = _device(record), moment_or_none(at_path(record, "dateTime"))
    latitude, longitude = (number_or_none(at_path(record, name)) for name in ("latitude", "longitude"))
    if key is None or at is None or latitude is None or longitude is None:
        return None
    speed = number_or_none(at_path(record, "speed"))
    return VendorFix(key, at, latitude, longitude, None if speed is None else speed * MPH_PER_KMH)


def _vehicle_of(device: Any) -> VendorVehicle | None:
    key = text_or_none(at_path(device, "id"))
    if key is None:
        return None
    vin = next((text for name in _VINS if (text := text_or_none(at_path(device, name))) not in (None, "?")), None)
    return VendorVehicle(key, text_or_none(at_path(device, "name")), vin)
