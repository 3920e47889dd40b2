"""ELD gateways: units with positions under `x-api-key` and `provider-token`; a description covers any other JSON.

`GET /api/v2/units-by-usdot/{usdot}` gives `{"units": [{"truck_number", "vin", "coordinates": {"lat", "lng"},
"timestamp"}]}`: public clients of TT ELD (read.tteld.com), Evo ELD (read.evoeld.com) and Five ELD. That answer needs no
description. Another gateway is described by JSON pointers (RFC 6901): `units` leads to the list of units in the answer,
the others lead from a unit to its fields; -1 is the last of a list. A gateway has no cursor: each answer has the newest
position of each unit.

    {"units": "/payload/assets", "name": "/label/no", "latitude": "/pos/0", "longitude": "/pos/1", "time": "/epoch",
     "speed": "/kmh", "speed_unit": "km/h", "fuel_percent": "/tank"}
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Literal, NamedTuple
from zoneinfo import ZoneInfo

import msgspec

from domain.connectors.values import moment_or_none as unit_moment
from domain.connectors.values import number_or_none, read_document, text_or_none
from domain.connectors.vendor import (
    MPH_PER_KMH,
    MPH_PER_KNOT,
    Access,
    CredentialField,
    FieldName,
    UnreadableAnswer,
    Vendor,
    VendorFix,
    VendorHttp,
    VendorLevel,
    VendorPage,
    VendorVehicle,
)

_PREVIEWED = 3
_MPH = {"mph": 1.0, "km/h": MPH_PER_KMH, "knots": MPH_PER_KNOT, "meters per second": 3.6 * MPH_PER_KMH}
_PERCENT = {"percent": 1.0, "fraction": 100.0}
_NO_POINTERS = ("speed_unit", "fuel_unit", "time_zone")


class UnitDescription(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """JSON pointers to the fields of a gateway's answer. The defaults fit TT ELD, Evo ELD and Five ELD."""

    units: str = "/units"
    name: str = "/truck_number"
    latitude: str = "/coordinates/lat"
    longitude: str = "/coordinates/lng"
    time: str = "/timestamp"
    time_zone: str = "UTC"
    """The zone of times without an offset, such as America/Chicago."""
    vin: str = "/vin"
    key: str = ""
    """The unit's id at the gateway, which never changes; empty: its name."""
    speed: str = "/speed"
    speed_unit: Literal["mph", "km/h", "knots", "meters per second"] = "mph"
    fuel_percent: str = "/fuel_percent"
    fuel_unit: Literal["percent", "fraction"] = "percent"
    fuel_time: str = ""
    """When the fuel level was measured; empty: with the position."""

    def __post_init__(self) -> None:
        for field in self.__struct_fields__:
            pointer = getattr(self, field)
            if field not in _NO_POINTERS and pointer and not _is_pointer(pointer):
                raise ValueError(f"`{field}` is not a JSON pointer, such as /units or /coordinates/lat")
        if not all((self.name, self.latitude, self.longitude, self.time)):
            raise ValueError("`name`, `latitude`, `longitude` and `time` are needed")
        if _zone(self.time_zone) is None:
            raise ValueError("`time_zone` is no name of a zone, such as America/Chicago")


class EldGateway(Vendor):
    kind = "eld"
    title = "ELD gateway"
    fields = (
        CredentialField("api_key", "API key", "Sent as `x-api-key`."),
        CredentialField("provider_token", "Provider token", "Sent as `provider-token`, if given.", required=False),
        CredentialField(
            "authorization",
            "Authorization",
            "Sent as `Authorization`, if given, such as `Bearer ...` or `Basic ...`.",
            required=False,
        ),
        CredentialField(
            "description",
            "Description of the answer",
            "JSON pointers to the fields of a unit; leave it empty for TT ELD, Evo ELD and Five ELD.",
            secret=False,
            required=False,
            many_lines=True,
        ),
    )

    def faults_of(self, credentials: Mapping[FieldName, str]) -> str | None:
        try:
            _description(credentials.get("description") or "")
        except msgspec.MsgspecError as error:
            return f"the description cannot be used: {str(error)[:200].replace('`$.', '`')}"
        return None

    async def poll(self, cursor: str | None, access: Access, http: VendorHttp) -> VendorPage:
        description = _description(access.credentials.get("description") or "")
        body = await self._ask(access, http)
        return await http.read(lambda body: _page_of(description, body), body)

    async def test(self, access: Access, http: VendorHttp) -> str:
        """Shows the first units as they are read, so that a description can be corrected."""
        description = _description(access.credentials.get("description") or "")
        body = await self._ask(access, http)
        return await http.read(lambda body: _told(description, body), body)

    async def _ask(self, access: Access, http: VendorHttp) -> bytes:
        given = access.credentials
        headers = {"x-api-key": given["api_key"], "Accept": "application/json"}
        named = {"provider-token": given.get("provider_token"), "Authorization": given.get("authorization")}
        headers |= {name: value for name, value in named.items() if value}
        return (await http.get(access.url, headers=headers)).body


def _page_of(description: UnitDescription, body: bytes) -> VendorPage:
    vehicles, fixes, levels, unreadable = [], list[VendorFix](), list[VendorLevel](), 0
    for one in _units(description, body):
        unit = _read_unit(description, one)
        unreadable += unit is None or unit.fix is None
        if unit is None:
            continue
        vehicles.append(unit.vehicle)
        fixes += [unit.fix] if unit.fix is not None else []
        levels += [unit.level] if unit.level is not None else []
    return VendorPage(vehicles, fixes, refused={"unreadable": unreadable} if unreadable else {}, levels=levels)


def _told(description: UnitDescription, body: bytes) -> str:
    units = _units(description, body)
    read = [unit for one in units if (unit := _read_unit(description, one)) is not None and unit.fix is not None]
    shown = "; ".join(_preview(one) for one in read[:_PREVIEWED])
    sentence = f"{len(units)} units, of which {len(read)} can be read"
    return f"{sentence}. The first: {shown}" if read else f"{sentence}: correct the pointers of the description"


def _units(description: UnitDescription, body: bytes) -> list[Any]:
    """The list of units, or the values of an object that holds each under its id. Raises UnreadableAnswer."""
    units = _at(read_document(EldGateway.title, body), description.units)
    if isinstance(units, dict) and units and all(isinstance(one, dict) for one in units.values()):
        return list(units.values())
    if not isinstance(units, list):
        raise UnreadableAnswer(EldGateway.title)
    return units


class _Unit(NamedTuple):
    vehicle: VendorVehicle
    fix: VendorFix | None
    """None: it has no position, or none that can be read."""
    level: VendorLevel | None
    """The fuel level, where it has a time of its own, or no position."""


@lru_cache(maxsize=256)
def _description(text: str) -> UnitDescription:
    """Raises MsgspecError."""
    if not text.strip():
        return UnitDescription()
    try:
        return msgspec.json.decode(text.encode(), type=UnitDescription)
    except RecursionError:
        raise msgspec.DecodeError("it is nested too deeply") from None


@lru_cache(maxsize=256)
def _zone(name: str) -> ZoneInfo | None:
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, KeyError):  # ZoneInfoNotFoundError is a KeyError
        return None


def _is_pointer(text: str) -> bool:
    return text.startswith("/") and len(text) <= 200


def _at(document: Any, pointer: str) -> Any:
    """The value at a JSON pointer; None where there is none."""
    for part in pointer.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(document, dict):
            document = document.get(name)
        elif isinstance(document, list) and document and name == "-1":
            document = document[-1]
        elif isinstance(document, list) and name.isdecimal() and int(name) < len(document):
            document = document[int(name)]
        else:
            return None
    return document


def _read_unit(description: UnitDescription, unit: Any) -> _Unit | None:
    """None: it has no name."""

    def value(pointer: str) -> Any:
        return _at(unit, pointer) if pointer else None

    name, zone = text_or_none(value(description.name)), _zone(description.time_zone) or UTC
    key = text_or_none(value(description.key)) if description.key else name
    if name is None or key is None:
        return None
    vehicle = VendorVehicle(key, name, text_or_none(value(description.vin)))
    latitude, longitude = number_or_none(value(description.latitude)), number_or_none(value(description.longitude))
    at = unit_moment(value(description.time), zone)
    share = number_or_none(_without_sign(value(description.fuel_percent)))
    percent = None if share is None else share * _PERCENT[description.fuel_unit]
    measured_at = unit_moment(value(description.fuel_time), zone) if description.fuel_time else None
    if at is None or latitude is None or longitude is None:
        return _Unit(vehicle, None, _level(key, measured_at or at, percent))
    speed = number_or_none(value(description.speed))
    fix = VendorFix(
        key,
        at,
        latitude,
        longitude,
        None if speed is None else speed * _MPH[description.speed_unit],
        percent,
        fuel_measured_at=measured_at,
    )
    return _Unit(vehicle, fix, _level(key, measured_at, percent))


def _level(key: str, at: datetime | None, percent: float | None) -> VendorLevel | None:
    return None if at is None or percent is None else VendorLevel(key, at, percent)


def _without_sign(value: object) -> object:
    """A level such as "62 %" without its sign."""
    return value.strip().removesuffix("%") if isinstance(value, str) else value


def _preview(unit: _Unit) -> str:
    fix = unit.fix
    if fix is None:
        return f"{unit.vehicle.name} without a position"
    speed = "no speed" if fix.speed_mph is None else f"{fix.speed_mph:.0f} mph"
    fuel = "no fuel level" if fix.fuel_percent is None else f"fuel {fix.fuel_percent:.0f} %"
    at = f"{fix.recorded_at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
    return f"{unit.vehicle.name} at {fix.latitude:.4f}, {fix.longitude:.4f}, {at}, {speed}, {fuel}"
