"""The JSON shapes of the public API: the one source of the checks of bodies and queries, of answers and of OpenAPI."""

import re
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any, Generic, NamedTuple, TypeVar

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

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
    "plans:preview": "Preview the fuel of loads",
}
OWN_SCOPES = ("positions:write", "plans:preview")
"""Scopes of addresses that are no part of `/v1`."""

_NO_SUCH_TIME = "No such date and time"

_RFC3339 = re.compile(
    r"\d{4}-\d{2}-\d{2}[Tt ]\d{2}:\d{2}:\d{2}(\.\d+)?([Zz]|[+-]\d{2}:\d{2})",
    re.ASCII,
)
_LOST_PLUS = re.compile(r":\d{2} \d{2}:\d{2}\Z", re.ASCII)
"""The end of a time whose `+` a query has made a space."""


def moment_of(text: object) -> datetime:
    """A time as RFC 3339 writes it, with an offset, in UTC. Raises ValueError with a text for people."""
    if not isinstance(text, str):
        raise ValueError(f"Expected an RFC 3339 date-time in a string, got {json_name(text)}")
    if _RFC3339.fullmatch(text) is None:
        hint = "; write its `+` as `%2B` in an address" if _LOST_PLUS.search(text) is not None else ""
        raise ValueError(f"Expected an RFC 3339 date-time with an offset, such as 2026-03-01T08:00:00-06:00{hint}")
    try:
        return in_utc(msgspec.convert(text, datetime))
    except msgspec.ValidationError:
        raise ValueError(_NO_SUCH_TIME) from None


def in_utc(moment: datetime) -> datetime:
    """The moment in UTC. Raises ValueError when that is before the year 1 or after 9999."""
    try:
        return moment if moment.tzinfo is UTC else moment.astimezone(UTC)
    except OverflowError:
        raise ValueError(_NO_SUCH_TIME) from None


def json_name(value: object) -> str:
    """JSON's name for the kind of a decoded value."""
    names = {dict: "an object", list: "an array", str: "a string", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")


Text = Annotated[str, Meta(extra_json_schema={"pattern": "^[^\\u0000]*$"})]
"""A text of the API. PostgreSQL's text cannot hold NUL, so `checking` refuses it in every text. It looks for NUL once
in a body: a pattern that msgspec tries on each text takes six times as long as everything else that it does with a
body."""

Reference = Annotated[Text, Meta(min_length=1, max_length=200)]
ShortText = Annotated[Text, Meta(max_length=200)]
Vin = Annotated[Text, Meta(min_length=17, max_length=17, examples=["1XKAD49X0CJ000001"])]
Moment = Annotated[datetime, Meta(tz=True)]
SentMoment = Annotated[Moment, Meta(examples=["2026-12-01T08:00:00-06:00"])]
"""A time that a caller sends, with any offset. The shape that has it takes it to UTC (`in_utc`)."""
Latitude = Annotated[float, Meta(ge=-90, le=90)]
Longitude = Annotated[float, Meta(ge=-180, le=180)]


class Shape(Struct, rename="camel", gc=False):
    """A JSON object of the API: camelCase outside, snake_case inside; unknown fields are ignored. None refers back to
    itself, so the garbage collector need not look at them."""


# --- What callers send -----------------------------------------------------------------------------------------


class VehicleRef(Shape, omit_defaults=True):
    """The vehicle that drives the route. Provide `unitNumber` or `vin`; given both, both must name the same vehicle."""

    unit_number: Annotated[
        Reference | None, Meta(description="The unit number as stored by the service.", examples=["101"])
    ] = None
    vin: Annotated[Vin | None, Meta(description="For use when unit numbers differ between systems.")] = None

    def __post_init__(self) -> None:
        if self.unit_number is None and self.vin is None:
            raise ValueError("Provide `unitNumber` or a 17-character `vin`")


class DriverRef(Shape, omit_defaults=True):
    """The driver of the route. Provide `name` or `externalId`; given both, both must name the same driver."""

    name: Annotated[
        Reference | None, Meta(description="Full name as stored by the service.", examples=["Maria Lopez"])
    ] = None
    external_id: Annotated[Reference | None, Meta(description="The telematics provider's driver id.")] = None

    def __post_init__(self) -> None:
        if self.name is None and self.external_id is None:
            raise ValueError("Provide `name` or `externalId`")


class ArrivalWindow(Shape, omit_defaults=True):
    """Appointment window at a stop. Either end may be missing."""

    start: SentMoment | None = None
    end: SentMoment | None = None

    def __post_init__(self) -> None:
        if self.start is not None:
            self.start = in_utc(self.start)
        if self.end is not None:
            self.end = in_utc(self.end)


class RouteStopInput(Shape, omit_defaults=True):
    name: Annotated[Reference, Meta(description="Shown to the driver and on the route timeline.")]
    latitude: Latitude
    longitude: Longitude
    address: Annotated[
        Annotated[Text, Meta(max_length=400)] | None, Meta(description="Display only; it is not geocoded.")
    ] = None
    arrival_window: ArrivalWindow | None = None


class RouteInput(Shape, omit_defaults=True):
    """A dispatch route as a TMS pushes it."""

    external_id: Annotated[Reference, Meta(description="The caller's identifier for the load.", examples=["LOAD-4711"])]
    vehicle: VehicleRef
    driver: DriverRef
    scheduled_start: Annotated[SentMoment, Meta(description="When the truck should leave the first stop.")]
    stops: Annotated[
        list[RouteStopInput],
        Meta(min_length=2, max_length=50, description="In driving order; the last one is the destination."),
    ]
    reference: Annotated[ShortText | None, Meta(description="The load number as dispatchers know it.")] = None

    def __post_init__(self) -> None:
        self.scheduled_start = in_utc(self.scheduled_start)


class PushedField(NamedTuple):
    """A value of a pushed route."""

    name: str
    """Its name in a table of routes, as files have it."""
    path: str
    """Its place in the body."""
    column: str
    """Its column of `routes`."""
    type: str = "text"
    """The type of the column."""


PUSHED_FIELDS = (
    PushedField("externalId", "externalId", "external_id"),
    PushedField("reference", "reference", "reference"),
    PushedField("unitNumber", "vehicle.unitNumber", "vehicle_unit_number"),
    PushedField("vin", "vehicle.vin", "vehicle_vin"),
    PushedField("driverName", "driver.name", "driver_name"),
    PushedField("driverExternalId", "driver.externalId", "driver_external_id"),
    PushedField("scheduledStart", "scheduledStart", "scheduled_start", "timestamptz"),
)
"""The values of `RouteInput`, except its stops."""


class Position(Shape):
    """One GPS fix of one vehicle, named by exactly what the fleet knows it by."""

    latitude: Latitude
    longitude: Longitude
    recorded_at: SentMoment
    unit_number: Reference | None = None
    vin: Vin | None = None
    vehicle_id: Reference | None = None
    speed_mph: Annotated[float, Meta(ge=0, le=1000)] | None = None
    fuel_percent: Annotated[float, Meta(ge=0)] | None = None
    accuracy_meters: Annotated[float, Meta(ge=0)] | None = None

    def __post_init__(self) -> None:
        if self.unit_number is None and self.vin is None and self.vehicle_id is None:
            raise ValueError("Provide `unitNumber`, `vin` or `vehicleId`")
        self.recorded_at = in_utc(self.recorded_at)


class PositionBatch(Shape):
    """Entries are checked one by one, so that a bad one never costs the others."""

    positions: Annotated[list[Any], Meta(min_length=1, max_length=MAX_POSITIONS)]


class Paging(Shape):
    limit: Annotated[int, Meta(ge=1, le=100, description="Page size.")] = 25
    offset: Annotated[int, Meta(ge=0, description="Entries to skip.")] = 0


class RouteQuery(Paging):
    status: Annotated[RouteStatus | None, Meta(description="Only routes in this status.")] = None
    external_id: Annotated[
        Text | None,
        Meta(description="The newest route with this externalId; at most one."),
    ] = None
    vehicle_id: Annotated[
        Text | None,
        Meta(description="Only routes assigned to this vehicle id."),
    ] = None
    start_from: Annotated[SentMoment | None, Meta(description="Scheduled start at or after this time.")] = (
        msgspec.field(name="from", default=None)
    )
    start_to: Annotated[SentMoment | None, Meta(description="Scheduled start before this time.")] = msgspec.field(
        name="to", default=None
    )
    updated_since: Annotated[
        SentMoment | None,
        Meta(
            description="Added to version 1.0.0. Routes that have changed at or after this time, in the order of their "
            "last changes. It goes with `limit` and nothing else; go on with the answer's `nextCursor`."
        ),
    ] = None
    cursor: Annotated[
        Text | None,
        Meta(
            description="Added to version 1.0.0. The `nextCursor` of an earlier answer: the routes that have changed "
            "since. It goes with `limit` and nothing else."
        ),
    ] = None

    def __post_init__(self) -> None:
        if self.start_from is not None:
            self.start_from = in_utc(self.start_from)
        if self.start_to is not None:
            self.start_to = in_utc(self.start_to)
        if self.updated_since is not None:
            self.updated_since = in_utc(self.updated_since)


class VehicleQuery(Paging):
    unit_number: Annotated[Text | None, Meta(description="Exact unit number.")] = None
    vin: Annotated[Vin | None, Meta(description="Exact VIN, 17 characters.")] = None


class DriverQuery(Paging):
    name: Annotated[
        Text | None,
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


class Driver(Shape, omit_defaults=True):
    id: str
    name: str | None
    display_name: str | None
    external_id: str | None
    language: Annotated[
        str | None,
        Meta(
            description="Added to version 1.0.0. The language that the driver reads, such as `es` or `fr-CA`; absent"
            " where none is stored.",
            examples=["es"],
        ),
    ] = None


Item = TypeVar("Item")


class Page(Shape, Generic[Item]):
    data: list[Item]
    total: int
    limit: int
    offset: int


class RouteList(Page[Route]):
    """One page of routes, newest scheduled start first; with `updatedSince` or `cursor`, in the order of their last
    changes."""

    next_cursor: Annotated[
        str | UnsetType,
        Meta(
            description="Added to version 1.0.0. Only with `updatedSince` or `cursor`: send it as `cursor` to get the "
            "next changes. `total` is then the number of changes from here on, 1,000 at most."
        ),
    ] = UNSET


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
