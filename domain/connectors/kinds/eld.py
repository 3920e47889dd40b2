"""ELD gateways: units with positions under `x-api-key` and `provider-token`; a description covers any other JSON.

`GET /api/v2/units-by-usdot/{usdot}` gives `{"units": [{"truck_number", "vin", "coordinates": {"lat", "lng"},
"timestamp", "fuelLevelPercent"}]}`, where the engine tells the fuel level: public clients of TT ELD (read.tteld.com),
Evo ELD (read.evoeld.com) and Five ELD. That answer needs no description. Another gateway is described by JSON pointers
(RFC 6901): `units` leads to the list of units in the answer, the others lead from a unit to its fields; -1 is the last
of a list, and `/lat|/latitude` is the first of two that is there. A gateway has no cursor: each answer has the newest
position of each unit, in pages if `page` and `pages` are given.

    {"units": "/payload/assets", "name": "/label/no", "latitude": "/pos/0", "longitude": "/pos/1", "time": "/epoch",
     "speed": "/kmh", "speed_unit": "km/h", "fuel_percent": "/tank"}
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import Any, Literal, NamedTuple
from urllib.parse import parse_qsl, urlencode
from zoneinfo import ZoneInfo

import msgspec

from domain import clock
from domain.connectors.values import (
    is_false,
    moment_or_none,
    number_or_none,
    percent_or_none,
    read_document,
    text_or_none,
)
from domain.connectors.vendor import (
    MPH_PER_KMH,
    MPH_PER_KNOT,
    Access,
    CredentialField,
    FieldName,
    UnreadableAnswer,
    Vendor,
    VendorFault,
    VendorFix,
    VendorHttp,
    VendorLevel,
    VendorPage,
    VendorVehicle,
)

_NO_SUCH_PAGE = (400, 404, 422)
"""Answers to a page behind the last one, which was there when the page before it was asked for. So the list has ended:
github.com/encode/django-rest-framework, pagination.py, answers 404."""

_PREVIEWED = 3
_ABOUT_NOW = timedelta(minutes=15)
_MPH = {"mph": 1.0, "km/h": MPH_PER_KMH, "knots": MPH_PER_KNOT, "meters per second": 3.6 * MPH_PER_KMH}
_PERCENT = {"percent": 1.0, "fraction": 100.0}
_NO_POINTERS = ("speed_unit", "fuel_unit", "time_zone", "page")
_HEADER = re.compile(r"([A-Za-z0-9-]{1,100}):\s*([!-~](?:[ -~]{0,4000}[!-~])?)")


class UnitDescription(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """JSON pointers to the fields of a gateway's answer. The defaults fit TT ELD, Evo ELD and Five ELD."""

    units: str = "/units|"
    """The list of units. The default also takes an answer that is the list itself."""
    name: str = "/truck_number|/truckNumber|/unit_number|/unitNumber|/name"
    latitude: str = "/coordinates/lat|/coordinates/latitude|/lat|/latitude"
    longitude: str = "/coordinates/lng|/coordinates/lon|/coordinates/longitude|/lng|/lon|/longitude"
    time: str = "/timestamp"
    time_zone: str = "UTC"
    """The zone of times without an offset, such as America/Chicago."""
    vin: str = "/vin"
    key: str = ""
    """The unit's id at the gateway, which never changes; empty if its name is the id."""
    speed: str = "/speed"
    speed_unit: Literal["mph", "km/h", "knots", "meters per second"] = "mph"
    fuel_percent: str = "/fuel_percent|/fuelLevelPercent|/fuel_level_percent"
    fuel_unit: Literal["percent", "fraction"] = "percent"
    fuel_time: str = ""
    """When the fuel level was measured; empty if with the position."""
    valid: str = ""
    """A value that is False where the position is none."""
    page: str = ""
    """The name of the parameter that asks for a page, from 1; empty if there is one answer."""
    pages: str = ""
    """The number of pages, in the answer."""

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
    is_url_whole = True
    counts_pages = True
    fields = (
        CredentialField("api_key", "API key", "Sent as `x-api-key`.", required=False),
        CredentialField("provider_token", "Provider token", "Sent as `provider-token`, if given.", required=False),
        CredentialField(
            "headers",
            "Further headers",
            "Lines such as `Authorization: Bearer ...`, for gateways that want other headers than these.",
            required=False,
            many_lines=True,
        ),
        CredentialField(
            "query", "Query", "What follows the question mark of the address, such as `usdot=1234567`.", required=False
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
        if not any(credentials.get(name) for name in ("api_key", "headers", "query")):
            return "give the API key (api_key), or headers or a query that the gateway knows you by"
        if any(_HEADER.fullmatch(line) is None for line in _lines(credentials.get("headers"))):
            return "each line of the headers is a name, a colon and a value"
        try:
            _description(credentials.get("description") or "")
        except msgspec.MsgspecError as error:
            return f"the description cannot be used: {str(error)[:200].replace('`$.', '`')}"
        return None

    async def poll(self, cursor: str | None, access: Access, http: VendorHttp) -> VendorPage:
        description = _description(access.credentials.get("description") or "")
        number = int(cursor) if cursor is not None and cursor.isdecimal() and len(cursor) < 7 else 1
        try:
            body = await self._ask(description, number, access, http)
        except VendorFault as fault:
            if description.page and number > 1 and fault.status in _NO_SUCH_PAGE:
                return VendorPage([], [])
            raise
        return await http.read(lambda body: _page_of(description, body, number), body)

    async def test(self, access: Access, http: VendorHttp) -> str:
        """Shows the first units as they are read, so that a description can be corrected."""
        description = _description(access.credentials.get("description") or "")
        body = await self._ask(description, 1, access, http)
        return await http.read(lambda body: _test_sentence(description, body), body)

    async def _ask(self, description: UnitDescription, number: int, access: Access, http: VendorHttp) -> bytes:
        given = access.credentials
        headers = {"Accept": "application/json"}
        named = {"x-api-key": given.get("api_key"), "provider-token": given.get("provider_token")}
        headers |= {name: value for name, value in named.items() if value}
        found = [_HEADER.fullmatch(line) for line in _lines(given.get("headers"))]
        headers |= {one[1]: one[2] for one in found if one is not None}
        query = parse_qsl(given.get("query") or "", keep_blank_values=True)  # a name may come twice
        if description.page:
            query = [one for one in query if one[0] != description.page] + [(description.page, str(number))]
        mark = "&" if "?" in access.url else "?"
        url = f"{access.url}{mark}{urlencode(query)}" if query else access.url
        return (await http.get(url, headers=headers)).body


def _lines(text: str | None) -> list[str]:
    return [line.strip() for line in (text or "").splitlines() if line.strip()]


def _page_of(description: UnitDescription, body: bytes, number: int) -> VendorPage:
    document = read_document(EldGateway.title, body)
    read = [_read_unit(description, one) for one in _units(description, document)]
    units = _told_apart([unit for unit in read if unit is not None])
    fixes = [unit.fix for unit in units if unit.fix is not None]
    levels = [unit.level for unit in units if unit.level is not None]
    unreadable = {
        "unreadable": len(read) - len(fixes),
        "unreadable_fuel": sum(_has_unreadable_fuel(description, one) for one in _units(description, document)),
    }
    refused = {reason: count for reason, count in unreadable.items() if count}
    pages = number_or_none(_at(document, description.pages)) if description.page and description.pages else None
    more = pages is not None and number < pages and bool(read)
    return VendorPage([unit.vehicle for unit in units], fixes, str(number + 1) if more else None, more, refused, levels)


def _told_apart(units: list["_Unit"]) -> list["_Unit"]:
    """The units, with keys of their own where one name stands for several VINs: a sold truck's number may now be its
    successor's."""
    vins: dict[str, set[str | None]] = {}
    for unit in units:
        vins.setdefault(unit.vehicle.key, set()).add(unit.vehicle.vin)
    return [
        unit
        if len(vins[unit.vehicle.key]) == 1
        else unit.with_key(f"{unit.vehicle.key} {unit.vehicle.vin or ''}".strip())
        for unit in units
    ]


def _test_sentence(description: UnitDescription, body: bytes) -> str:
    units = _units(description, read_document(EldGateway.title, body))
    read = [unit for one in units if (unit := _read_unit(description, one)) is not None and unit.fix is not None]
    shown = "; ".join(_preview(one) for one in read[:_PREVIEWED])
    sentence = f"{len(units)} units, of which {len(read)} can be read"
    return f"{sentence}. The first: {shown}" if read else f"{sentence}: correct the pointers of the description"


def _units(description: UnitDescription, document: Any) -> list[Any]:
    """The list of units, or the values of an object that holds each under its id. A unit alone is a list of one, as in
    JSON made from XML. Raises UnreadableAnswer if there is no list."""
    units = _at(document, description.units)
    if isinstance(units, dict) and units:
        if _at(units, description.name) is not None:
            return [units]
        if all(isinstance(one, dict) for one in units.values()):
            return list(units.values())
    if not isinstance(units, list):
        raise UnreadableAnswer(EldGateway.title)
    return units


class _Unit(NamedTuple):
    vehicle: VendorVehicle
    fix: VendorFix | None
    """The position; None if there is none, or none that can be read."""
    level: VendorLevel | None
    """The fuel level, if it has a time of its own, or no position."""

    def with_key(self, key: str) -> "_Unit":
        fix = None if self.fix is None else self.fix._replace(vehicle_key=key)
        level = None if self.level is None else self.level._replace(vehicle_key=key)
        return _Unit(self.vehicle._replace(key=key), fix, level)


@lru_cache(maxsize=256)
def _description(text: str) -> UnitDescription:
    """The description in a text; the default for an empty one. Raises MsgspecError, with the fault, if it cannot be
    read."""
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
    return len(text) <= 200 and all(one.startswith("/") or not one for one in text.split("|")) and text != "|"


def _at(document: Any, pointers: str) -> Any:
    """The value at the first of several JSON pointers that leads to one; None if none does."""
    found = (_at_one(document, pointer) for pointer in pointers.split("|"))
    return next((value for value in found if value is not None), None)


def _at_one(document: Any, pointer: str) -> Any:
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
    """A unit of an answer; None if it has no name."""

    def value(pointer: str) -> Any:
        return _at(unit, pointer) if pointer else None

    name, zone = text_or_none(value(description.name)), _zone(description.time_zone) or UTC
    key = text_or_none(value(description.key)) if description.key else name
    if name is None or key is None:
        return None
    vehicle = VendorVehicle(key, name, text_or_none(value(description.vin)))
    latitude, longitude = number_or_none(value(description.latitude)), number_or_none(value(description.longitude))
    at = _moment_of_unit(value(description.time), zone)
    share = percent_or_none(value(description.fuel_percent))
    percent = None if share is None else share * _PERCENT[description.fuel_unit]
    measured_at = _moment_of_unit(value(description.fuel_time), zone) if description.fuel_time else None
    if at is None or latitude is None or longitude is None or is_false(value(description.valid)):
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


def _moment_of_unit(value: object, zone: tzinfo) -> datetime | None:
    """The moment in a value. While clocks go back, a local time without an offset has two: the later one counts, unless
    it is still to come."""
    from domain.telematics.arrivals import FURTHEST_AHEAD  # loads numpy, which commands about connectors do not need

    at = moment_or_none(value, zone)
    if at is None or moment_or_none(value) == at:  # its offset is written
        return at
    return clock.second_of_two(at, zone, latest=clock.now() + FURTHEST_AHEAD)


def _has_unreadable_fuel(description: UnitDescription, unit: Any) -> bool:
    """True for a fuel level that is no number; an empty text is none."""
    told = _at(unit, description.fuel_percent) if description.fuel_percent else None
    return told not in (None, "") and percent_or_none(told) is None


def _level(key: str, at: datetime | None, percent: float | None) -> VendorLevel | None:
    return None if at is None or percent is None else VendorLevel(key, at, percent)


def _preview(unit: _Unit) -> str:
    fix = unit.fix
    if fix is None:
        return f"{unit.vehicle.name} without a position"
    speed = "no speed" if fix.speed_mph is None else f"{fix.speed_mph:.0f} mph"
    fuel = "no fuel level" if fix.fuel_percent is None else f"fuel {fix.fuel_percent:.0f} %"
    at = f"{fix.recorded_at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC{_shown_age(clock.now() - fix.recorded_at)}"
    return f"{unit.vehicle.name} at {fix.latitude:.4f}, {fix.longitude:.4f}, {at}, {speed}, {fuel}"


def _shown_age(age: timedelta) -> str:
    """Words for a time far from now, by which a person sees that its zone is wrong."""
    if abs(age) < _ABOUT_NOW:
        return ""
    hours = abs(age) / timedelta(hours=1)
    return f" ({hours:.1f} h {'ago' if age > timedelta() else 'ahead'})"
