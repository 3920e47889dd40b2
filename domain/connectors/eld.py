"""ELD gateways: units with positions under `x-api-key` and `provider-token`; a description covers any other JSON.

`GET /api/v2/units-by-usdot/{usdot}` gives `{"units": [{"truck_number", "vin", "coordinates": {"lat", "lng"},
"timestamp"}]}`: public clients of TT ELD (read.tteld.com), Evo ELD (read.evoeld.com) and Five ELD. That answer needs no
description. Another gateway is described by JSON pointers (RFC 6901): `units` leads to the list of units in the answer,
the others lead from a unit to its fields. A gateway has no cursor: each answer has the newest position of each unit.

    {"units": "/payload/assets", "name": "/label/no", "latitude": "/pos/0", "longitude": "/pos/1", "time": "/epoch",
     "speed": "/kmh", "speed_unit": "km/h", "fuel_percent": "/tank"}
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import msgspec

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
    VendorPage,
    VendorVehicle,
    number_or_none,
    read_document,
)

_PREVIEWED = 3
_MPH = {"mph": 1.0, "km/h": MPH_PER_KMH, "knots": MPH_PER_KNOT}
_MILLISECONDS = 1e11
"""A number of seconds as large as this would lie in the year 5138: it counts milliseconds."""


class UnitDescription(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """JSON pointers to the fields of a gateway's answer. The defaults fit TT ELD, Evo ELD and Five ELD."""

    units: str = "/units"
    name: str = "/truck_number"
    latitude: str = "/coordinates/lat"
    longitude: str = "/coordinates/lng"
    time: str = "/timestamp"
    vin: str = "/vin"
    key: str = ""
    """The unit's id at the gateway, which never changes; empty: its name."""
    speed: str = "/speed"
    speed_unit: Literal["mph", "km/h", "knots"] = "mph"
    fuel_percent: str = "/fuel_percent"

    def __post_init__(self) -> None:
        for field in self.__struct_fields__:
            pointer = getattr(self, field)
            if field != "speed_unit" and pointer and not _is_pointer(pointer):
                raise ValueError(f"`{field}` is not a JSON pointer, such as /units or /coordinates/lat")
        if not all((self.name, self.latitude, self.longitude, self.time)):
            raise ValueError("`name`, `latitude`, `longitude` and `time` are needed")


class EldGateway(Vendor):
    kind = "eld"
    title = "ELD gateway"
    fields = (
        CredentialField("api_key", "API key", "Sent as `x-api-key`."),
        CredentialField("provider_token", "Provider token", "Sent as `provider-token`, if given.", required=False),
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
        vehicles, fixes, refused = [], [], {"unreadable": 0}
        for unit in await self._units(description, access, http):
            read = _read_unit(description, unit)
            if read is None:
                refused["unreadable"] += 1
                continue
            vehicles.append(read.vehicle)
            fixes.append(read.fix)
        return VendorPage(vehicles, fixes, refused=refused if refused["unreadable"] else {})

    async def test(self, access: Access, http: VendorHttp) -> str:
        """Shows the first units as they are read, so that a description can be corrected."""
        description = _description(access.credentials.get("description") or "")
        units = await self._units(description, access, http)
        read = [_read_unit(description, unit) for unit in units]
        good = [one for one in read if one is not None]
        shown = "; ".join(_preview(one) for one in good[:_PREVIEWED])
        sentence = f"{len(units)} units, of which {len(good)} can be read"
        return f"{sentence}. The first: {shown}" if good else f"{sentence}: correct the pointers of the description"

    async def _units(self, description: UnitDescription, access: Access, http: VendorHttp) -> list[Any]:
        headers = {"x-api-key": access.credentials["api_key"], "Accept": "application/json"}
        if token := access.credentials.get("provider_token"):
            headers["provider-token"] = token
        answer = await http.get(access.url, headers=headers)
        units = _at(read_document(self.title, answer.body), description.units)
        if not isinstance(units, list):
            raise UnreadableAnswer(self.title)
        return units


class _Unit(NamedTuple):
    vehicle: VendorVehicle
    fix: VendorFix


@lru_cache(maxsize=256)
def _description(text: str) -> UnitDescription:
    """Raises MsgspecError."""
    if not text.strip():
        return UnitDescription()
    try:
        return msgspec.json.decode(text.encode(), type=UnitDescription)
    except RecursionError:
        raise msgspec.DecodeError("it is nested too deeply") from None


def _is_pointer(text: str) -> bool:
    return text.startswith("/") and len(text) <= 200


def _at(document: Any, pointer: str) -> Any:
    """The value at a JSON pointer; None where there is none."""
    for part in pointer.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(document, dict):
            document = document.get(name)
        elif isinstance(document, list) and name.isdecimal() and int(name) < len(document):
            document = document[int(name)]
        else:
            return None
    return document


def _read_unit(description: UnitDescription, unit: Any) -> _Unit | None:
    """None: it has no name, no position or no time."""
    name, vin = _text(_at(unit, description.name)), _text(_at(unit, description.vin) if description.vin else None)
    key = _text(_at(unit, description.key)) if description.key else name
    latitude, longitude = _number(_at(unit, description.latitude)), _number(_at(unit, description.longitude))
    at = unit_moment(_at(unit, description.time))
    if name is None or key is None or latitude is None or longitude is None or at is None:
        return None
    speed = _number(_at(unit, description.speed)) if description.speed else None
    fix = VendorFix(
        key,
        at,
        latitude,
        longitude,
        None if speed is None else speed * _MPH[description.speed_unit],
        _number(_at(unit, description.fuel_percent)) if description.fuel_percent else None,
    )
    return _Unit(VendorVehicle(key, name, vin), fix)


def _text(value: object) -> str | None:
    if isinstance(value, bool) or not isinstance(value, str | int):
        return None
    return str(value).strip()[:200] or None


def _number(value: object) -> float | None:
    """A finite number, which may come as a text."""
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    return number_or_none(value)


def unit_moment(value: object) -> datetime | None:
    """A time as RFC 3339, which is UTC without a zone, or in seconds or milliseconds since 1970."""
    try:
        if isinstance(value, str) and not value.strip().isdecimal():
            moment = datetime.fromisoformat(value.strip())
            return moment.astimezone(UTC) if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
        seconds = _number(value)
        if seconds is None:
            return None
        return datetime.fromtimestamp(seconds / 1000 if seconds > _MILLISECONDS else seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return None


def _preview(unit: _Unit) -> str:
    fix = unit.fix
    speed = "no speed" if fix.speed_mph is None else f"{fix.speed_mph:.0f} mph"
    fuel = "no fuel level" if fix.fuel_percent is None else f"fuel {fix.fuel_percent:.0f} %"
    at = f"{fix.recorded_at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
    return f"{unit.vehicle.name} at {fix.latitude:.4f}, {fix.longitude:.4f}, {at}, {speed}, {fuel}"
