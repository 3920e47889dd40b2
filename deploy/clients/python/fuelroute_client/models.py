"""The shapes of the API. Made by deploy/clients/generate: change nothing here."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType, field

from .open_values import StrEnum


class ArrivalWindow(Struct, kw_only=True):
    """
    Appointment window at a stop. Either end may be missing.
    """

    start: datetime | UnsetType | None = UNSET
    end: datetime | UnsetType | None = UNSET


class Driver(Struct, kw_only=True):
    id: str
    name: str | None
    display_name: str | None = field(name="displayName")
    external_id: str | None = field(name="externalId")
    language: (
        Annotated[
            str,
            Meta(
                description="Added to version 1.0.0. The language that the driver reads, such as `es` or `fr-CA`; absent where none is stored."
            ),
        ]
        | UnsetType
        | None
    ) = UNSET


class DriverList(Struct, kw_only=True):
    """
    One page of drivers.
    """

    data: list[Driver]
    total: int
    limit: int
    offset: int


class DriverRef(Struct, kw_only=True):
    """
    The driver of the route. Provide `name` or `externalId`; given both, both must name the same driver.
    """

    name: Annotated[str, Meta(description="Full name as stored by the service.")] | UnsetType | None = UNSET
    external_id: Annotated[str, Meta(description="The telematics provider's driver id.")] | UnsetType | None = field(
        name="externalId", default=UNSET
    )


class Environment(StrEnum):
    live = "live"
    sandbox = "sandbox"


class FieldFault(Struct, kw_only=True):
    """
    One invalid field: a JSON path into the body (`stops[1].latitude`), or a query parameter's name.
    """

    field: str
    message: str


class FuelPlan(Struct, kw_only=True):
    """
    The cheapest feasible way to fuel the trip.
    """

    status: FuelPlanStatus
    generated_at: datetime | None = field(name="generatedAt")
    total_distance_miles: float = field(name="totalDistanceMiles")
    total_gallons: float = field(name="totalGallons")
    total_cost: float = field(name="totalCost")
    average_price_per_gallon: float = field(name="averagePricePerGallon")
    savings_per_gallon: (
        Annotated[float, Meta(description="Average corridor price minus the plan's average price.")] | None
    ) = field(name="savingsPerGallon")
    savings_total: float | None = field(name="savingsTotal")
    stops: list[FuelPlanStop]


class FuelPlanStatus(StrEnum):
    active = "active"
    completed = "completed"
    planned = "planned"


class FuelPlanStop(Struct, kw_only=True):
    sequence: int
    name: str
    address: str | None
    latitude: float
    longitude: float
    miles_from_origin: float = field(name="milesFromOrigin")
    gallons_to_fill: float = field(name="gallonsToFill")
    price_per_gallon: Annotated[float, Meta(description="Net price including tax.")] = field(name="pricePerGallon")
    total_cost: float = field(name="totalCost")
    arrival_fuel_percent: int = field(name="arrivalFuelPercent")
    estimated_arrival: datetime | None = field(name="estimatedArrival")


class Me(Struct, kw_only=True):
    """
    The key that made the request: its company, scopes, environment and rate limit.
    """

    company: MeCompany
    key: MeKey
    rate_limit: MeRateLimit = field(name="rateLimit")


class MeCompany(Struct, kw_only=True):
    id: str
    name: str | None
    time_zone: str = field(name="timeZone")


class MeKey(Struct, kw_only=True):
    id: str
    name: str
    prefix: Annotated[str, Meta(description="First characters of the key; safe to log.")]
    environment: Environment
    scopes: list[str]
    created_at: datetime = field(name="createdAt")
    expires_at: datetime | None = field(name="expiresAt")


class MeRateLimit(Struct, kw_only=True):
    limit: int
    window: str


class PendingReason(StrEnum):
    driver_unmapped = "driver_unmapped"
    error = "error"
    not_attempted = "not_attempted"
    outside_import_window = "outside_import_window"
    vehicle_unmapped = "vehicle_unmapped"


class Route(Struct, kw_only=True):
    id: str
    external_id: str = field(name="externalId")
    reference: str | None
    name: str
    status: RouteStatus
    environment: Environment
    pending: RoutePending | None
    vehicle: RouteVehicle
    driver: RouteDriver
    scheduled_start: datetime = field(name="scheduledStart")
    stops: list[RouteStop]
    distance_miles: float | None = field(name="distanceMiles")
    fuel_plan: FuelPlan | None = field(name="fuelPlan")
    created_at: datetime = field(name="createdAt")


class RouteDriver(Struct, kw_only=True):
    id: str | None
    name: str | None


class RouteInput(Struct, kw_only=True):
    """
    A dispatch route as a TMS pushes it.
    """

    external_id: Annotated[str, Meta(description="The caller's identifier for the load.")] = field(name="externalId")
    vehicle: VehicleRef
    driver: DriverRef
    scheduled_start: Annotated[datetime, Meta(description="When the truck should leave the first stop.")] = field(
        name="scheduledStart"
    )
    stops: Annotated[list[RouteStopInput], Meta(description="In driving order; the last one is the destination.")]
    reference: Annotated[str, Meta(description="The load number as dispatchers know it.")] | UnsetType | None = UNSET


class RouteList(Struct, kw_only=True):
    """
    One page of routes, newest scheduled start first; with `updatedSince` or `cursor`, in the order of their last
        changes.
    """

    data: list[Route]
    total: int
    limit: int
    offset: int
    next_cursor: (
        Annotated[
            str,
            Meta(
                description="Added to version 1.0.0. Only with `updatedSince` or `cursor`: send it as `cursor` to get the next changes. `total` is then the number of changes from here on, 1,000 at most."
            ),
        ]
        | UnsetType
    ) = field(name="nextCursor", default=UNSET)


class RoutePending(Struct, kw_only=True):
    """
    Why a route is held.
    """

    reason: PendingReason
    detail: str


class RouteStatus(StrEnum):
    active = "active"
    canceled = "canceled"
    completed = "completed"
    draft = "draft"
    error = "error"
    pending = "pending"
    pending_mapping = "pending_mapping"
    pending_window = "pending_window"
    planned = "planned"


class RouteStop(Struct, kw_only=True):
    sequence: int
    name: str
    address: str | None
    latitude: float | None
    longitude: float | None
    type: StopType
    planned_arrival: datetime | None = field(name="plannedArrival")
    actual_arrival: datetime | None = field(name="actualArrival")
    actual_departure: datetime | None = field(name="actualDeparture")


class RouteStopInput(Struct, kw_only=True):
    name: Annotated[str, Meta(description="Shown to the driver and on the route timeline.")]
    latitude: float
    longitude: float
    address: Annotated[str, Meta(description="Display only; it is not geocoded.")] | UnsetType | None = UNSET
    arrival_window: ArrivalWindow | UnsetType | None = field(name="arrivalWindow", default=UNSET)


class RouteVehicle(Struct, kw_only=True):
    id: str | None
    unit_number: str | None = field(name="unitNumber")


class StopType(StrEnum):
    destination = "destination"
    fuel_stop = "fuel_stop"
    waypoint = "waypoint"


class Vehicle(Struct, kw_only=True):
    id: str
    unit_number: str | None = field(name="unitNumber")
    vin: str | None
    license_plate: str | None = field(name="licensePlate")
    make: str | None
    model: str | None
    year: str | None
    fuel_tank_capacity_gallons: float | None = field(name="fuelTankCapacityGallons")


class VehicleList(Struct, kw_only=True):
    """
    One page of vehicles.
    """

    data: list[Vehicle]
    total: int
    limit: int
    offset: int


class VehicleRef(Struct, kw_only=True):
    """
    The vehicle that drives the route. Provide `unitNumber` or `vin`; given both, both must name the same vehicle.
    """

    unit_number: Annotated[str, Meta(description="The unit number as stored by the service.")] | UnsetType | None = (
        field(name="unitNumber", default=UNSET)
    )
    vin: Annotated[str, Meta(description="For use when unit numbers differ between systems.")] | UnsetType | None = (
        UNSET
    )
