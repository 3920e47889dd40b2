"""Traccar, a server of the fleet's own: it forwards positions to us, or we ask it for the newest ones.

- Forwarding: `forward.type` json posts `{"position": {...}, "device": {...}}`, one position each, with the lines of
  `forward.header` as headers: github.com/traccar/traccar, forward/PositionForwarderJson.java and PositionData.java.
- `GET /api/positions` gives the newest position of each device, `GET /api/devices` their names: PositionResource.java
  and www.traccar.org/api-reference. `Authorization: Bearer TOKEN` or the cookie of `POST /api/session`:
  api/security/SecurityRequestFilter.java.
- `speed` in knots, `accuracy` in meters (0: unknown), `fixTime`, `valid`, `attributes.fuelLevel` in percent:
  model/Position.java; `fuelLevelPercentage` in versions before (pull request 5131). `attributes.fuel` is in liters, a
  part of the device's attribute `fuelCapacity` (pull request 5670); without that no tank is known. A tracker's own
  input, such as `io3`, may be named.
- Times are texts, or numbers of milliseconds where Traccar forwards by a mapper without its own settings. `outdated`:
  the tracker reported without a place, which is copied from its last fix; what it measured is of `deviceTime`. Since
  6.10 it is not told (commit 720b1de of September 2025); such a report is later than its `fixTime`.

Positions have ids that count up. A Traccar that is set up anew begins at 1 again: when its newest id lies behind the
cursor, all positions are new.
"""

import re
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from urllib.parse import urlencode

from domain.connectors.values import (
    at_path,
    first_of,
    is_false,
    moment_or_none,
    number_or_none,
    percent_or_none,
    read_document,
    text_or_none,
)
from domain.connectors.vendor import (
    MPH_PER_KNOT,
    Access,
    CredentialField,
    FieldName,
    ForgedRequest,
    InboundRequest,
    UnreadableAnswer,
    Vendor,
    VendorFix,
    VendorHttp,
    VendorLevel,
    VendorPage,
    VendorRefusal,
    VendorVehicle,
    is_same_secret,
)

_IDS_OVERLAP = 1_000
"""Positions numbered up to this far before the newest one may be committed after it. They are read again; fixes that
are stored already are dropped."""

_PLACE_HOLDS = timedelta(minutes=1)
"""Longest time between a fix and its report. A later report has the place of an earlier one."""

_NAMES_HOLD_SECONDS = 600.0
"""Time for which names count. A device may move to another truck and get its name."""

_COOKIE = re.compile(r"(?:^|, )([^\s;,=]+=[^;,]*)")
"""A cookie among several, whose dates have commas, too. A load balancer before Traccar sets its own, and has to get
them back."""

TOKEN_HEADER = "x-fuelroute-token"  # noqa: S105 (the name of a header)


class _Session(NamedTuple):
    url: str
    cookies: str


class Traccar(Vendor):
    kind = "traccar"
    title = "Traccar"
    fields = (
        CredentialField(
            "token",
            "Access token",
            "For polling. Traccar: Settings, Preferences, Token, Generate. Leave it out to give e-mail and password, or"
            " when Traccar only forwards.",
            required=False,
        ),
        CredentialField("email", "E-mail", "Of a user of Traccar, instead of a token.", secret=False, required=False),
        CredentialField("password", "Password", "Of that user.", required=False),
        CredentialField(
            "forward_token",
            "Token of forwarding",
            "A text of at least 16 characters that you choose. Traccar sends it along with each position.",
            required=False,
        ),
        CredentialField(
            "fuel_attribute",
            "Attribute of the fuel level",
            "Only if it is not `fuelLevel`: the attribute that has the level in percent, such as `io89`, or `fuel` of a"
            " tracker that plugs into the diagnostic port.",
            secret=False,
            required=False,
        ),
    )
    receives = True
    least_wait_seconds = 1.0  # it is the fleet's own server

    def __init__(self) -> None:
        self._devices: dict[str, VendorVehicle] = {}
        self._tank_liters: Mapping[str, float] = {}
        self._named_at = float("-inf")
        self._session: _Session | None = None

    def faults_of(self, credentials: Mapping[FieldName, str]) -> str | None:
        forwarding, signing_in = credentials.get("forward_token"), credentials.get("email")
        if not forwarding and not credentials.get("token") and not signing_in:
            return "give a token of forwarding, an access token, or e-mail and password"
        if forwarding and (len(forwarding) < 16 or not forwarding.isascii()):
            return "the token of forwarding has at least 16 characters of ASCII: it is what keeps others out"
        if bool(signing_in) != bool(credentials.get("password")):
            return "give both e-mail and password, or neither"
        return None

    def asks(self, credentials: Mapping[FieldName, str]) -> bool:
        return bool(credentials.get("token") or credentials.get("email"))

    async def poll(self, cursor: str | None, access: Access, http: VendorHttp) -> VendorPage:
        positions = await self._ask("positions", access, http)
        last = int(cursor) if cursor is not None and cursor.isdecimal() and len(cursor) < 20 else 0
        newest = max((_id_of(one) for one in positions), default=last)
        is_anew = newest < last
        since = 0 if is_anew else last - _IDS_OVERLAP
        new = [one for one in positions if _id_of(one) > since or last == 0]
        named = {key for one in new if (key := _key_of(one)) is not None}
        if named - self._devices.keys() or (named and time.monotonic() - self._named_at > _NAMES_HOLD_SECONDS):
            devices = await self._ask("devices", access, http)
            self._devices = {one.key: one for one in map(_vehicle_of, devices) if one is not None}
            self._tank_liters = _tank_liters(devices)
            self._named_at = time.monotonic()
        page = _Positions(access.credentials.get("fuel_attribute"), self._tank_liters)
        for one in new:
            page.take(one)
        vehicles = [self._devices.get(key, VendorVehicle(key)) for key in sorted(named)]
        remark = f"the ids of its positions began anew: the newest is {newest}, behind {last}" if is_anew else None
        return page.page(vehicles, str(newest), remark)

    async def _ask(self, what: str, access: Access, http: VendorHttp) -> list[Any]:
        """A list from Traccar. Raises VendorFault if it does not answer with one."""
        url = f"{access.url}/api/{what}"
        if token := access.credentials.get("token"):
            return await self._list(url, {"Authorization": f"Bearer {token}"}, http)
        if self._session is not None and self._session.url == access.url:
            try:
                return await self._list(url, {"Cookie": self._session.cookies}, http)
            except VendorRefusal:  # sessions end
                self._session = None
        self._session = await self._sign_in(access, http)
        return await self._list(url, {"Cookie": self._session.cookies}, http)

    async def _list(self, url: str, headers: Mapping[str, str], http: VendorHttp) -> list[Any]:
        answer = await http.get(url, headers={**headers, "Accept": "application/json"})
        found = await http.read(lambda body: read_document(self.title, body), answer.body)
        if not isinstance(found, list):
            raise UnreadableAnswer(self.title)
        return found

    async def _sign_in(self, access: Access, http: VendorHttp) -> _Session:
        form = {name: access.credentials.get(name, "") for name in ("email", "password")}
        answer = await http.request(
            "POST",
            f"{access.url}/api/session",
            headers={"Content-Type": "application/x-www-form-urlencoded"},
            body=urlencode(form).encode(),
        )
        cookies = _COOKIE.findall(answer.headers.get("set-cookie", ""))
        if not any(one.startswith("JSESSIONID=") for one in cookies):
            raise UnreadableAnswer(self.title)
        return _Session(access.url, "; ".join(cookies))

    def verify(self, request: InboundRequest, access: Access, *, now: datetime) -> None:
        """Checks our token in a header (`forward.header`) or in the address, since Traccar signs nothing. Raises
        ForgedRequest without it."""
        bearer = request.headers.get("authorization", "").removeprefix("Bearer ")
        given = request.headers.get(TOKEN_HEADER) or bearer or request.query.get("token")
        if not is_same_secret(given, access.credentials.get("forward_token")):
            raise ForgedRequest

    def read_inbound(self, request: InboundRequest, access: Access) -> VendorPage:
        document = read_document(self.title, request.body)
        position, device = at_path(document, "position"), at_path(document, "device")
        if isinstance(at_path(document, "event"), dict) and position is None:
            return VendorPage([], [])  # an event without a place, such as of a device that went offline
        if isinstance(device, dict) and device.get("id") is None:
            device = {**device, "id": at_path(position, "deviceId")}
        vehicle = _vehicle_of(device)
        if not isinstance(position, dict) or vehicle is None:
            raise UnreadableAnswer(self.title)
        page = _Positions(access.credentials.get("fuel_attribute"), _tank_liters([device]))
        page.take({**position, "deviceId": vehicle.key})
        return page.page([vehicle], None, None)


def _vehicle_of(device: Any) -> VendorVehicle | None:
    """The vehicle of a device. Its `uniqueId` is the tracker's number, not the truck's."""
    key = _key(at_path(device, "id"))
    if key is None:
        return None
    attributes = at_path(device, "attributes")
    attributes = attributes if isinstance(attributes, dict) else {}
    vin, unit_number = text_or_none(attributes.get("vin")), text_or_none(attributes.get("unitNumber"))
    unique_id = text_or_none(at_path(device, "uniqueId"))
    ours = [unit_number] if unit_number is not None else []
    others = [unique_id] if unique_id is not None else []
    return VendorVehicle(key, text_or_none(at_path(device, "name")), vin, ours, others)


def _tank_liters(devices: Iterable[Any]) -> dict[str, float]:
    """The capacities of tanks that devices have as an attribute."""
    found = {_key(at_path(one, "id")): number_or_none(at_path(one, "attributes", "fuelCapacity")) for one in devices}
    return {key: liters for key, liters in found.items() if key is not None and liters is not None and liters > 0}


def _key(value: object) -> str | None:
    """The number of a device as text; None if it is no integer."""
    text = text_or_none(value)
    return text if text is not None and text.isdecimal() else None


def _key_of(position: Any) -> str | None:
    return _key(at_path(position, "deviceId"))


def _id_of(position: Any) -> int:
    number = at_path(position, "id")
    return number if isinstance(number, int) and not isinstance(number, bool) and 0 <= number < 1 << 63 else 0


def _is_old_place(position: Mapping[str, Any], fixed_at: datetime | None) -> bool:
    """True if the tracker reported without a place, and has that of its last fix."""
    if position.get("outdated") is not None:
        return position["outdated"] is True
    reported_at = moment_or_none(position.get("deviceTime"))
    return fixed_at is not None and reported_at is not None and reported_at - fixed_at > _PLACE_HOLDS


class _Positions:
    """Collects fixes from positions, and levels that were measured without a fix."""

    def __init__(self, fuel_attribute: str | None, tank_liters: Mapping[str, float]) -> None:
        self._fuel_attribute = fuel_attribute
        self._tank_liters = tank_liters
        self._fixes: list[VendorFix] = []
        self._levels: list[VendorLevel] = []
        self._refused = Counter[str]()

    def take(self, position: Any) -> None:
        key, at = _key_of(position), moment_or_none(at_path(position, "fixTime"))
        latitude, longitude = (number_or_none(at_path(position, name)) for name in ("latitude", "longitude"))
        if key is None:
            self._refused["unreadable"] += 1
            return
        level = self._level_of(key, at_path(position, "attributes"))
        is_placed = at is not None and latitude is not None and longitude is not None
        if level is not None and (_is_old_place(position, at) or not is_placed or is_false(position.get("valid"))):
            self._keep_level(key, position, level)
            level = None
        if at is None or latitude is None or longitude is None:
            self._refused["unreadable"] += 1
        elif is_false(position.get("valid")):  # the device had no satellites
            self._refused["invalid"] += 1
        else:
            speed, accuracy = number_or_none(position.get("speed")), number_or_none(position.get("accuracy"))
            mph = None if speed is None else speed * MPH_PER_KNOT
            meters = accuracy if accuracy is not None and accuracy > 0 else None
            self._fixes.append(VendorFix(key, at, latitude, longitude, mph, level, meters))

    def _level_of(self, key: str, attributes: Any) -> float | None:
        """The fuel level in percent."""
        names = (self._fuel_attribute,) if self._fuel_attribute else ("fuelLevel", "fuelLevelPercentage")
        given = first_of(attributes, names) if isinstance(attributes, dict) else None
        if given is not None:
            level = percent_or_none(given)
            self._refused["unreadable_fuel"] += level is None
            return level
        liters, tank = number_or_none(at_path(attributes, "fuel")), self._tank_liters.get(key)
        return None if liters is None or tank is None else liters / tank * 100

    def _keep_level(self, key: str, position: Mapping[str, Any], level: float) -> None:
        at = moment_or_none(first_of(position, ("deviceTime", "serverTime")))
        if at is not None:
            self._levels.append(VendorLevel(key, at, level))

    def page(self, vehicles: Iterable[VendorVehicle], cursor: str | None, remark: str | None) -> VendorPage:
        return VendorPage(list(vehicles), self._fixes, cursor, False, +self._refused, self._levels, remark)
