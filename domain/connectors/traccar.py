"""Traccar, a server of the fleet's own: it forwards positions to us, or we ask it for the newest ones.

- Forwarding: `forward.type` json posts `{"position": {...}, "device": {...}}`, one position each, with the lines of
  `forward.header` as headers: github.com/traccar/traccar, forward/PositionForwarderJson.java and PositionData.java.
- `GET /api/positions` gives the newest position of each device, `GET /api/devices` their names: PositionResource.java
  and www.traccar.org/api-reference. `Authorization: Bearer TOKEN` or the cookie of `POST /api/session`:
  api/security/SecurityRequestFilter.java.
- `speed` in knots, `accuracy` in meters (0: unknown), `fixTime`, `valid`, `attributes.fuel` in liters (left alone: no
  tank is known) and `attributes.fuelLevel` in percent: model/Position.java.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, NamedTuple
from urllib.parse import urlencode

import msgspec

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
    VendorPage,
    VendorRefusal,
    VendorVehicle,
    is_same_secret,
    moment_or_none,
    read_document,
)

_IDS_OVERLAP = 1_000
"""Positions that Traccar numbered so long before the newest one may be committed after it. They are read again: a fix
that is stored already is dropped."""

TOKEN_HEADER = "x-fuelroute-token"  # noqa: S105 (the name of a header)


class _Session(NamedTuple):
    url: str
    cookie: str


class _Device(msgspec.Struct, rename="camel"):
    id: int
    name: str | None = None
    unique_id: str | None = None
    attributes: dict[str, Any] | None = None


class _Forwarded(msgspec.Struct):
    position: dict[str, Any]
    device: _Device


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
    )
    receives = True
    least_wait_seconds = 1.0  # it is the fleet's own server

    def __init__(self) -> None:
        self._devices: dict[int, VendorVehicle] = {}
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
        positions = await self._ask("positions", list[dict[str, Any]], access, http)
        last = int(cursor) if cursor is not None and cursor.isdecimal() else 0
        new = [one for one in positions if _number(one.get("id")) > last - _IDS_OVERLAP or last == 0]
        if any(_number(one.get("deviceId")) not in self._devices for one in new):
            devices = await self._ask("devices", list[_Device], access, http)
            self._devices = {one.id: _vehicle_of(one) for one in devices}
        refused: Counter[str] = Counter()
        fixes = _fixes_of(new, refused)
        named = {_number(one.get("deviceId")) for one in new}
        vehicles = [vehicle for number, vehicle in self._devices.items() if number in named]
        newest = max((_number(one.get("id")) for one in positions), default=last)
        return VendorPage(vehicles, fixes, str(max(newest, last)), refused=refused)

    async def _ask(self, what: str, shape: Any, access: Access, http: VendorHttp) -> Any:
        url = f"{access.url}/api/{what}"
        if token := access.credentials.get("token"):
            headers = {"Authorization": f"Bearer {token}", "Accept": "application/json"}
            return read_document(self.title, (await http.get(url, headers=headers)).body, shape)
        if self._session is not None and self._session.url == access.url:
            try:
                return await self._ask_in_session(url, shape, self._session, http)
            except VendorRefusal:  # sessions end
                self._session = None
        self._session = await self._sign_in(access, http)
        return await self._ask_in_session(url, shape, self._session, http)

    async def _ask_in_session(self, url: str, shape: Any, session: _Session, http: VendorHttp) -> Any:
        headers = {"Cookie": session.cookie, "Accept": "application/json"}
        return read_document(self.title, (await http.get(url, headers=headers)).body, shape)

    async def _sign_in(self, access: Access, http: VendorHttp) -> _Session:
        form = {name: access.credentials.get(name, "") for name in ("email", "password")}
        answer = await http.request(
            "POST",
            f"{access.url}/api/session",
            headers={"Content-Type": "application/x-www-form-urlencoded"},
            body=urlencode(form).encode(),
        )
        cookie = answer.headers.get("set-cookie", "").partition(";")[0]
        if not cookie.startswith("JSESSIONID="):
            raise UnreadableAnswer(self.title)
        return _Session(access.url, cookie)

    def verify(self, request: InboundRequest, access: Access, *, now: datetime) -> None:
        """A token of ours in a header (`forward.header`) or in the address: Traccar signs nothing."""
        bearer = request.headers.get("authorization", "").removeprefix("Bearer ")
        given = request.headers.get(TOKEN_HEADER) or bearer or request.query.get("token")
        if not is_same_secret(given, access.credentials.get("forward_token")):
            raise ForgedRequest

    def read_inbound(self, request: InboundRequest, access: Access) -> VendorPage:
        forwarded: _Forwarded = read_document(self.title, request.body, _Forwarded)
        refused: Counter[str] = Counter()
        position = {**forwarded.position, "deviceId": forwarded.device.id}
        return VendorPage([_vehicle_of(forwarded.device)], _fixes_of([position], refused), refused=refused)


def _vehicle_of(device: _Device) -> VendorVehicle:
    vin = (device.attributes or {}).get("vin")
    ids = (device.unique_id,) if device.unique_id else ()
    return VendorVehicle(str(device.id), device.name, vin if isinstance(vin, str) else None, ids)


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0


def _fixes_of(positions: Iterable[Mapping[str, Any]], refused: Counter[str]) -> list[VendorFix]:
    fixes = []
    for one in positions:
        at, latitude, longitude = moment_or_none(one.get("fixTime")), one.get("latitude"), one.get("longitude")
        if at is None or not isinstance(latitude, int | float) or not isinstance(longitude, int | float):
            refused["unreadable"] += 1
            continue
        if one.get("valid") is False:  # the device had no satellites
            refused["invalid"] += 1
            continue
        speed, accuracy = one.get("speed"), one.get("accuracy")
        attributes = one.get("attributes")
        level = attributes.get("fuelLevel") if isinstance(attributes, dict) else None
        fixes.append(
            VendorFix(
                str(one.get("deviceId")),
                at,
                latitude,
                longitude,
                speed * MPH_PER_KNOT if isinstance(speed, int | float) else None,
                level if isinstance(level, int | float) else None,
                accuracy if isinstance(accuracy, int | float) and accuracy > 0 else None,
            )
        )
    return fixes
