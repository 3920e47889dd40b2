"""The JSON shapes of the public API: the one source of the checks of bodies and queries, of answers and of OpenAPI.

msgspec decodes and checks in one pass and stops at the first fault; the contract lists every invalid field. So a
body that fails is walked once more, field by field, against the same types (`_faults`).
"""

import functools
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from types import NoneType, UnionType
from typing import Annotated, Any, Generic, TypeVar, Union, get_args, get_origin

import msgspec
from msgspec import UNSET, Meta, Struct

from domain.lifecycle import Environment, PendingReason, RouteStatus

API_VERSION = "1.0.0"
RATE_LIMIT_REQUESTS = 600
RATE_LIMIT_WINDOW_SECONDS = 60
RATE_LIMIT_WINDOW = "1m"
MAX_BODY_BYTES = 1024 * 1024
MAX_POSITIONS = 1000

SCOPES = {
    "routes:write": "Push and cancel routes",
    "routes:read": "Read routes and their fuel plans",
    "vehicles:read": "Read vehicles",
    "drivers:read": "Read drivers",
    "positions:write": "Post GPS positions to the telematics feed",
}

# PostgreSQL's text cannot hold NUL; lone surrogates are no text at all and fail in the decoder.
NO_NUL = "^[^\\u0000]*$"

_RFC3339 = re.compile(
    r"\d{4}-\d{2}-\d{2}[Tt ]\d{2}:\d{2}:\d{2}(\.\d+)?([Zz]|[+-]\d{2}:\d{2})",
    re.ASCII,
)


class Instant(datetime):
    """A moment in UTC, written in RFC 3339 with an offset; anything looser is refused."""

    @classmethod
    def parse(cls, text: object) -> "Instant":
        """Raises ValueError with a text for people."""
        if not isinstance(text, str):
            raise ValueError(f"Expected an RFC 3339 date-time in a string, got {_json_name(text)}")
        if _RFC3339.fullmatch(text) is None:
            raise ValueError("Expected an RFC 3339 date-time with an offset, such as 2026-03-01T08:00:00-06:00")
        try:
            moment = msgspec.convert(text, datetime).astimezone(UTC)
        except (msgspec.ValidationError, OverflowError):
            raise ValueError("No such date and time") from None
        return cls.fromtimestamp_utc(moment)

    @classmethod
    def fromtimestamp_utc(cls, moment: datetime) -> "Instant":
        return cls(
            moment.year,
            moment.month,
            moment.day,
            moment.hour,
            moment.minute,
            moment.second,
            moment.microsecond,
            UTC,
        )


def text(*, most: int, least: int = 0, **more: Any) -> Meta:
    """The limits of a string, in characters."""
    return Meta(max_length=most, min_length=least or None, pattern=NO_NUL, **more)


Reference = Annotated[str, text(least=1, most=200)]
Vin = Annotated[str, Meta(min_length=17, max_length=17, pattern=NO_NUL, examples=["1XKAD49X0CJ000001"])]
Moment = Annotated[datetime, Meta(tz=True)]
Latitude = Annotated[float, Meta(ge=-90, le=90)]
Longitude = Annotated[float, Meta(ge=-180, le=180)]


class Shape(Struct, rename="camel"):
    """A JSON object of the API: camelCase outside, snake_case inside; unknown fields are ignored."""


# --- What callers send -----------------------------------------------------------------------------------------


class VehicleRef(Shape):
    """Which vehicle drives the route. Provide `unitNumber` or `vin`; given both, both must name the same vehicle."""

    unit_number: Annotated[
        Reference | None, Meta(description="The unit number as stored by the service.", examples=["101"])
    ] = None
    vin: Annotated[Vin | None, Meta(description="For use when unit numbers differ between systems.")] = None

    def __post_init__(self) -> None:
        if self.unit_number is None and self.vin is None:
            raise ValueError("Provide `unitNumber` or a 17-character `vin`")


class DriverRef(Shape):
    """Who drives the route. Provide `name` or `externalId`; given both, both must name the same driver."""

    name: Annotated[
        Reference | None, Meta(description="Full name as stored by the service.", examples=["Maria Lopez"])
    ] = None
    external_id: Annotated[Reference | None, Meta(description="The telematics provider's driver id.")] = None

    def __post_init__(self) -> None:
        if self.name is None and self.external_id is None:
            raise ValueError("Provide `name` or `externalId`")


class ArrivalWindow(Shape, omit_defaults=True):
    """Appointment window at a stop. Either end may be missing."""

    start: Instant | None = None
    end: Instant | None = None


class RouteStopInput(Shape, omit_defaults=True):
    name: Annotated[str, text(least=1, most=200, description="Shown to the driver and on the route timeline.")]
    latitude: Latitude
    longitude: Longitude
    address: Annotated[Annotated[str, text(most=400)] | None, Meta(description="Display only; it is not geocoded.")] = (
        None
    )
    arrival_window: ArrivalWindow | None = None


class RouteInput(Shape):
    """A dispatch route as a TMS pushes it."""

    external_id: Annotated[
        str,
        text(least=1, most=200, description="The caller's identifier for the load.", examples=["LOAD-4711"]),
    ]
    vehicle: VehicleRef
    driver: DriverRef
    scheduled_start: Annotated[Instant, Meta(description="When the truck should leave the first stop.")]
    stops: Annotated[
        list[RouteStopInput],
        Meta(min_length=2, max_length=50, description="In driving order; the last one is the destination."),
    ]
    reference: Annotated[
        Annotated[str, text(most=200)] | None, Meta(description="The load number as dispatchers know it.")
    ] = None


class Position(Shape):
    """One GPS fix of one vehicle, named by exactly what the fleet knows it by."""

    latitude: Latitude
    longitude: Longitude
    recorded_at: Instant
    unit_number: Reference | None = None
    vin: Vin | None = None
    vehicle_id: Reference | None = None
    speed_mph: Annotated[float, Meta(ge=0, le=1000)] | None = None
    fuel_percent: Annotated[float, Meta(ge=0)] | None = None
    accuracy_meters: Annotated[float, Meta(ge=0)] | None = None

    def __post_init__(self) -> None:
        if self.unit_number is None and self.vin is None and self.vehicle_id is None:
            raise ValueError("Provide `unitNumber`, `vin` or `vehicleId`")


class PositionBatch(Shape):
    """Entries are checked one by one, so that a bad one never costs the others."""

    positions: Annotated[list[Any], Meta(min_length=1, max_length=MAX_POSITIONS)]


class Paging(Shape):
    limit: Annotated[int, Meta(ge=1, le=100, description="Page size.")] = 25
    offset: Annotated[int, Meta(ge=0, description="Entries to skip.")] = 0


class RouteQuery(Paging):
    status: Annotated[RouteStatus | None, Meta(description="Only routes in this status.")] = None
    external_id: Annotated[
        Annotated[str, Meta(pattern=NO_NUL)] | None,
        Meta(description="The newest route with this externalId; at most one."),
    ] = None
    vehicle_id: Annotated[
        Annotated[str, Meta(pattern=NO_NUL)] | None,
        Meta(description="Only routes assigned to this vehicle id."),
    ] = None
    start_from: Annotated[Instant | None, Meta(description="Scheduled start at or after this time.")] = msgspec.field(
        name="from", default=None
    )
    start_to: Annotated[Instant | None, Meta(description="Scheduled start before this time.")] = msgspec.field(
        name="to", default=None
    )


class VehicleQuery(Paging):
    unit_number: Annotated[Annotated[str, Meta(pattern=NO_NUL)] | None, Meta(description="Exact unit number.")] = None
    vin: Annotated[Vin | None, Meta(description="Exact VIN, 17 characters.")] = None


class DriverQuery(Paging):
    name: Annotated[
        Annotated[str, Meta(pattern=NO_NUL)] | None,
        Meta(description="Case-insensitive substring of the full name."),
    ] = None


# --- What the service answers ----------------------------------------------------------------------------------


class RoutePending(Shape):
    """Why a route is held."""

    reason: PendingReason
    detail: str


class RouteVehicle(Shape):
    id: str | None
    unit_number: str | None


class RouteDriver(Shape):
    id: str | None
    name: str | None


class StopType(StrEnum):
    WAYPOINT = "waypoint"
    DESTINATION = "destination"
    FUEL_STOP = "fuel_stop"


class RouteStop(Shape):
    sequence: Annotated[int, Meta(ge=0)]
    name: str
    address: str | None
    latitude: float | None
    longitude: float | None
    type: StopType
    planned_arrival: Moment | None
    actual_arrival: Moment | None
    actual_departure: Moment | None


class FuelPlanStop(Shape):
    sequence: Annotated[int, Meta(ge=0)]
    name: str
    address: str | None
    latitude: float
    longitude: float
    miles_from_origin: float
    gallons_to_fill: float
    price_per_gallon: Annotated[float, Meta(description="Net price including tax.")]
    total_cost: float
    arrival_fuel_percent: int
    estimated_arrival: Moment | None


class FuelPlanStatus(StrEnum):
    PLANNED = "planned"
    ACTIVE = "active"
    COMPLETED = "completed"


class FuelPlan(Shape):
    """The cheapest feasible way to fuel the trip."""

    status: FuelPlanStatus
    generated_at: Moment | None
    total_distance_miles: float
    total_gallons: float
    total_cost: float
    average_price_per_gallon: float
    savings_per_gallon: Annotated[
        float | None, Meta(description="Average corridor price minus the plan's average price.")
    ]
    savings_total: float | None
    stops: list[FuelPlanStop]


class Route(Shape):
    id: str
    external_id: str
    reference: str | None
    name: str
    status: RouteStatus
    environment: Environment
    pending: RoutePending | None
    vehicle: RouteVehicle
    driver: RouteDriver
    scheduled_start: Moment
    stops: list[RouteStop]
    distance_miles: float | None
    fuel_plan: FuelPlan | None
    created_at: Moment


class Vehicle(Shape):
    id: str
    unit_number: str | None
    vin: str | None
    license_plate: str | None
    make: str | None
    model: str | None
    year: str | None
    fuel_tank_capacity_gallons: float | None


class Driver(Shape):
    id: str
    name: str | None
    display_name: str | None
    external_id: str | None


Item = TypeVar("Item")


class Page(Shape, Generic[Item]):
    data: list[Item]
    total: int
    limit: int
    offset: int


class RouteList(Page[Route]):
    """One page of routes, newest scheduled start first."""


class VehicleList(Page[Vehicle]):
    """One page of vehicles."""


class DriverList(Page[Driver]):
    """One page of drivers."""


class MeCompany(Shape):
    id: str
    name: str | None
    time_zone: str


class MeKey(Shape):
    id: str
    name: str
    prefix: Annotated[str, Meta(description="First characters of the key; safe to log.")]
    environment: Environment
    scopes: list[str]
    created_at: Moment
    expires_at: Moment | None


class MeRateLimit(Shape):
    limit: int
    window: str


class Me(Shape):
    """The key that made the request: its company, scopes, environment and rate limit."""

    company: MeCompany
    key: MeKey
    rate_limit: MeRateLimit


class RejectedPosition(Shape):
    index: int
    message: str


class PositionsAccepted(Shape):
    accepted: int
    rejected: list[RejectedPosition]


class FieldFault(Shape):
    """One invalid field: a JSON path into the body (`stops[1].latitude`), or a query parameter's name."""

    field: str
    message: str


class Problem(Shape, kw_only=True):
    """An RFC 9457 problem document. Branch on `code` and `status`; the texts are for people."""

    type: Annotated[str, Meta(description="Always `about:blank`.")] = "about:blank"
    title: str
    status: int
    code: str
    detail: str
    errors: list[FieldFault] | msgspec.UnsetType = UNSET


# --- Checking --------------------------------------------------------------------------------------------------

S = TypeVar("S", bound=Struct)


class Invalid(Exception):
    """Input that does not fit its shape, with every fault in it."""

    def __init__(self, faults: list[FieldFault]) -> None:
        super().__init__("; ".join(f"{fault.field}: {fault.message}" for fault in faults))
        self.faults = faults


def read_body(body: bytes, shape: type[S]) -> S:
    """The body as `shape`. Raises Invalid."""
    try:
        fitting: S = _decode(body, shape)
        return fitting
    except msgspec.ValidationError as error:
        first = error
    try:
        document = _decode(body, Any)
    except msgspec.ValidationError:  # a number beyond any type
        raise Invalid([_fault_at(first)]) from None
    raise Invalid(list(_faults(document, shape, "")) or [_fault_at(first)])


def _decode(body: bytes, kind: Any) -> Any:
    """Raises Invalid for a body that cannot be read as a whole, msgspec.ValidationError for one that does not fit."""
    try:
        body.decode()  # fields that the shape ignores must be text as well
        return msgspec.json.decode(body, type=kind, dec_hook=_read_instant)
    except msgspec.ValidationError:
        raise
    except UnicodeDecodeError:
        fault = "The body is not UTF-8 text"
    except RecursionError:
        fault = "The body is nested too deeply"
    except msgspec.DecodeError as error:
        fault = f"The body is not JSON: {error}"
    raise Invalid([FieldFault(field="", message=fault)])


def _fault_at(error: msgspec.ValidationError) -> FieldFault:
    """msgspec's own words: `Expected `str`, got `int` - at `$.stops[0].name`` -> `stops[0].name`."""
    message, _, path = str(error).partition(" - at `")
    return FieldFault(field=path.removesuffix("`").removeprefix("$").removeprefix("."), message=message)


def read_value(value: object, shape: type[S]) -> S:
    """One element of a decoded body as `shape`. Raises Invalid."""
    try:
        return msgspec.convert(value, shape, dec_hook=_read_instant)
    except msgspec.ValidationError:
        raise Invalid(list(_faults(value, shape, ""))) from None


def read_query(parameters: Mapping[str, str], shape: type[S]) -> S:
    """The query parameters, or the cells of a table, as `shape`; unknown ones are ignored. Raises Invalid."""
    values: dict[str, object] = dict(parameters)
    for name, kind in _numbers_of(shape):
        text = parameters.get(name, "")
        if _NUMBERS[kind].fullmatch(text):
            values[name] = kind(text)
    return read_value(values, shape)


@functools.cache
def _numbers_of(shape: type[Struct]) -> list[tuple[str, Any]]:
    """The names of its numeric fields, and which kind of number each is."""
    kinds = {
        field.encode_name: _without_limits(_without_none(field.type)[0]) for field in msgspec.structs.fields(shape)
    }
    return [(name, kind) for name, kind in kinds.items() if kind in _NUMBERS]


_NUMBERS: dict[Any, re.Pattern[str]] = {
    int: re.compile(r"-?\d{1,400}", re.ASCII),
    float: re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.ASCII | re.IGNORECASE),
}
"""How numbers are written where everything is text."""


def write(value: object) -> bytes:
    """`value` as JSON; times in UTC with `Z`."""
    return _encoder.encode(value)


def _write_instant(value: object) -> object:
    if isinstance(value, Instant):
        return value.isoformat().replace("+00:00", "Z")
    raise NotImplementedError(type(value))


_encoder = msgspec.json.Encoder(enc_hook=_write_instant)


def _read_instant(kind: type, value: object) -> object:
    if kind is Instant:
        return Instant.parse(value)
    raise NotImplementedError(kind)


def _faults(value: Any, kind: Any, path: str) -> Iterator[FieldFault]:
    """Every fault of `value` measured against the type `kind`, innermost first."""
    kind, optional = _without_none(kind)
    if optional and value is None:
        return
    bare = _without_limits(kind)
    if isinstance(bare, type) and issubclass(bare, Struct):
        yield from _faults_of_object(value, bare, path)
    elif get_origin(bare) is list and isinstance(value, list):
        (element_kind,) = get_args(bare)
        limits = [meta.max_length for meta in get_args(kind)[1:] if isinstance(meta, Meta) and meta.max_length]
        # what is beyond the limit is refused as a whole: a body of a million faults must not cost a second
        looked_at = value[: min(limits, default=len(value))] if element_kind is not Any else []
        yield from _fault_of(value, Annotated[list[Any], *get_args(kind)[1:]], path)
        for index, element in enumerate(looked_at):
            yield from _faults(element, element_kind, f"{path}[{index}]")
    else:
        yield from _fault_of(value, kind, path)


def _faults_of_object(value: Any, shape: type[Struct], path: str) -> Iterator[FieldFault]:
    if not isinstance(value, dict):
        yield FieldFault(field=path, message=f"Expected an object, got {_json_name(value)}")
        return
    clean = True
    for field in msgspec.structs.fields(shape):
        inner = f"{path}.{field.encode_name}" if path else field.encode_name
        if field.encode_name not in value:
            if field.required:
                clean = False
                yield FieldFault(field=inner, message="Required")
            continue
        for fault in _faults(value[field.encode_name], field.type, inner):
            clean = False
            yield fault
    if clean:  # what remains is a rule between fields
        yield from _fault_of(value, shape, path)


def _fault_of(value: Any, kind: Any, path: str) -> Iterator[FieldFault]:
    try:
        msgspec.convert(value, kind, dec_hook=_read_instant)
    except msgspec.ValidationError as error:
        yield FieldFault(field=path, message=_fault_at(error).message)


def _without_limits(kind: Any) -> Any:
    """`Annotated[str, ...]` -> `str`."""
    while get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    return kind


def _without_none(kind: Any) -> tuple[Any, bool]:
    """`Annotated[Annotated[str, ...] | None, ...]` -> (`Annotated[str, ...]`, True)."""
    bare = _without_limits(kind)
    if get_origin(bare) not in (Union, UnionType):
        return kind, False
    (some,) = (member for member in get_args(bare) if member is not NoneType)
    return some, True


def _json_name(value: object) -> str:
    names = {dict: "an object", list: "an array", str: "a string", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")
