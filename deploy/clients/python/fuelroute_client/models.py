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


class Assumption(Struct, kw_only=True):
    """
    A value that was not given, and where it comes from.
    """

    field: str
    text: str


class ChoiceKind(StrEnum):
    """
    The condition of a choice, another plan that the driver may take in place of his.

    CHEAPEST is the plan without a condition, for a driver who has chosen another one before. The stations of
    OTHER_CHAIN, EARLIER, LATER and AMENITIES are those of the first fuel stop; AMENITIES are parking and showers that
    the planned one lacks.
    """

    amenities = "amenities"
    cheapest = "cheapest"
    earlier = "earlier"
    fewer_stops = "fewer_stops"
    later = "later"
    other_chain = "other_chain"


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


class InfeasibleLeg(Struct, kw_only=True):
    """
    The first part of the trip that cannot be driven.
    """

    from_mile: float = field(name="fromMile")
    to_mile: float = field(name="toMile")
    reason: str


class LoadPreview(Struct, kw_only=True):
    """
    The fuel of a load. Nothing of it is stored, and no driver is told.
    """

    environment: Environment
    generated_at: datetime = field(name="generatedAt")
    departure: datetime
    arrival: datetime | None
    distance_miles: float = field(name="distanceMiles")
    driving_hours: float = field(name="drivingHours")
    hours: Annotated[float, Meta(description="With rests, fuel stops and waits for arrival windows.")] | None
    vehicle: PreviewVehicle
    policy: Annotated[PolicyOverrides, Meta(description="The values of the policy that counted.")]
    stops: list[PreviewStop]
    fuel_plan: Annotated[FuelPlan, Meta(description="Null where no plan is feasible.")] | None = field(name="fuelPlan")
    infeasible: InfeasibleLeg | None
    gallons_burned: float = field(name="gallonsBurned")
    end_fuel_percent: Annotated[float, Meta(description="The level at the destination.")] | None = field(
        name="endFuelPercent"
    )
    cost_per_mile: (
        Annotated[
            float,
            Meta(
                description="Dollars of the fuel burned, at the plan's average price, and of the detours to its stops."
            ),
        ]
        | None
    ) = field(name="costPerMile")
    tax_dollars: Annotated[float, Meta(description="The sum of all; null where a member's rate is missing.")] | None = (
        field(name="taxDollars")
    )
    states: list[PreviewState]
    relaxed: list[RelaxedPolicyLimit]
    second_ways: list[PreviewSecondWay] = field(name="secondWays")
    alternatives: list[PreviewAlternative]
    simple_ways: list[SimpleWay] = field(name="simpleWays")
    assumed: list[Assumption]
    line: Annotated[list[list[float]], Meta(description="Latitude and longitude of each point.")] | UnsetType = UNSET


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


class Objective(StrEnum):
    """
    The sum that a plan keeps as small as possible.

    Fuel tax is owed by miles driven in a state, wherever the fuel was bought. The tax paid at the pump is credited
    (International Fuel Tax Agreement). So the cost of a gallon for the company is the price less the tax in it, and
    TAX_ADJUSTED compares that cost.
    """

    pump = "pump"
    tax_adjusted = "tax-adjusted"


class PendingReason(StrEnum):
    driver_unmapped = "driver_unmapped"
    error = "error"
    not_attempted = "not_attempted"
    outside_import_window = "outside_import_window"
    vehicle_unmapped = "vehicle_unmapped"


class PolicyOverrides(Struct, kw_only=True):
    """
    Values of the company's policy, by which plans are made.
    """

    reserve_percent: (
        Annotated[float, Meta(description="Reserve, percent: the tank never falls below it")] | UnsetType | None
    ) = field(name="reservePercent", default=UNSET)
    end_fuel_percent: Annotated[float, Meta(description="Fuel at the destination, percent")] | UnsetType | None = field(
        name="endFuelPercent", default=UNSET
    )
    assumed_fuel_percent: (
        Annotated[
            float, Meta(description="Assumed fuel, percent: the level of a truck that has sent none for 24 hours")
        ]
        | UnsetType
        | None
    ) = field(name="assumedFuelPercent", default=UNSET)
    trips_below_reserve_percent: (
        Annotated[
            float,
            Meta(
                description="Trips that may fall below the reserve, percent: plans keep more fuel the more they have burned, because mileages are never exact, such as 5; 100: no more than the reserve"
            ),
        ]
        | UnsetType
        | None
    ) = field(name="tripsBelowReservePercent", default=UNSET)
    margin_dollars: (
        Annotated[
            float,
            Meta(
                description="Margin for at most, dollars a plan: plans of trucks whose burn has been seen to differ keep more than the reserve where that costs no more; 0: never"
            ),
        ]
        | UnsetType
        | None
    ) = field(name="marginDollars", default=UNSET)
    min_purchase_gallons: Annotated[float, Meta(description="Smallest purchase, gallons")] | UnsetType | None = field(
        name="minPurchaseGallons", default=UNSET
    )
    stop_cost: Annotated[float, Meta(description="Cost of a stop, dollars")] | UnsetType | None = field(
        name="stopCost", default=UNSET
    )
    max_detour_miles: (
        Annotated[float, Meta(description="Longest detour, miles: to a truck stop, each way")] | UnsetType | None
    ) = field(name="maxDetourMiles", default=UNSET)
    max_stops: Annotated[int, Meta(description="Most fuel stops of a plan: no limit unless set")] | UnsetType | None = (
        field(name="maxStops", default=UNSET)
    )
    objective: Annotated[Objective, Meta(description="Prices that plans compare")] | UnsetType | None = UNSET
    leftover_value_per_gallon: (
        Annotated[float, Meta(description="Value of leftover fuel, dollars a gallon")] | UnsetType | None
    ) = field(name="leftoverValuePerGallon", default=UNSET)


class PreviewAlternative(Struct, kw_only=True):
    """
    Another plan, the cheapest under one condition, and the dollars that it costs more.
    """

    kind: ChoiceKind
    extra_cost: float = field(name="extraCost")
    extra_cost_at_pumps: float = field(name="extraCostAtPumps")
    fuel_plan: FuelPlan = field(name="fuelPlan")


class PreviewInput(Struct, kw_only=True):
    """
    The load: `stops`, or `routeId`. The body of a pushed route is a valid one; what it has beyond that is
    ignored.
    """

    stops: (
        Annotated[list[PreviewStopInput], Meta(description="In driving order; the truck begins at the first one.")]
        | UnsetType
        | None
    ) = UNSET
    route_id: (
        Annotated[str, Meta(description="A route of the key's company and environment, in place of `stops`.")]
        | UnsetType
        | None
    ) = field(name="routeId", default=UNSET)
    scheduled_start: (
        Annotated[datetime, Meta(description="When the truck leaves the first stop; now unless given.")]
        | UnsetType
        | None
    ) = field(name="scheduledStart", default=UNSET)
    vehicle: PreviewVehicleInput | UnsetType | None = UNSET
    policy: (
        Annotated[PolicyOverrides, Meta(description="Values that count in place of the company's policy.")]
        | UnsetType
        | None
    ) = UNSET
    line: Annotated[bool, Meta(description="True for the line of the road in the answer.")] | UnsetType = False


class PreviewSecondWay(Struct, kw_only=True):
    """
    A road that takes little longer than the one of the plan.
    """

    from_mile: float = field(name="fromMile")
    to_mile: float = field(name="toMile")
    longer_percent: float = field(name="longerPercent")
    longer_miles: float = field(name="longerMiles")
    shared_percent: float = field(name="sharedPercent")
    stations: int
    stations_shared: int = field(name="stationsShared")
    text: str


class PreviewState(Struct, kw_only=True):
    """
    A state on the way. The tax is that of a fuel tax return: by the gallons burned less those bought there, and the
    surcharge by the gallons burned. It is null where no rate is known.
    """

    state: str
    miles: float
    gallons_burned: float = field(name="gallonsBurned")
    gallons_bought: float = field(name="gallonsBought")
    dollars: float
    tax_per_gallon: float | None = field(name="taxPerGallon")
    surcharge_per_gallon: float | None = field(name="surchargePerGallon")
    tax_dollars: float | None = field(name="taxDollars")


class PreviewStop(Struct, kw_only=True):
    sequence: int
    name: str
    latitude: float
    longitude: float
    miles_from_origin: float = field(name="milesFromOrigin")
    planned_arrival: datetime | None = field(name="plannedArrival")


class PreviewStopInput(Struct, kw_only=True):
    """
    A stop of the load: a place, or a town by its name. `address` is not looked up, and never sent anywhere.
    """

    name: Annotated[str, Meta(description="As in a pushed route; the town's name unless given.")] | UnsetType | None = (
        UNSET
    )
    latitude: float | UnsetType | None = UNSET
    longitude: float | UnsetType | None = UNSET
    town: (
        Annotated[
            str,
            Meta(description="A town of North America by its name and state; its middle counts. Not with coordinates."),
        ]
        | UnsetType
        | None
    ) = UNSET
    address: Annotated[str, Meta(description="It is not geocoded.")] | UnsetType | None = UNSET
    arrival_window: ArrivalWindow | UnsetType | None = field(name="arrivalWindow", default=UNSET)


class PreviewVehicle(Struct, kw_only=True):
    id: str | None
    unit_number: str | None = field(name="unitNumber")
    fuel_tank_capacity_gallons: float = field(name="fuelTankCapacityGallons")
    mpg: float
    fuel_percent: Annotated[float, Meta(description="The level at the start.")] = field(name="fuelPercent")


class PreviewVehicleInput(Struct, kw_only=True):
    """
    The truck: one of the fleet, by `unitNumber` or `vin`, or any, by its tank, mileage and level. What is given here
    counts before what the fleet knows.
    """

    unit_number: str | UnsetType | None = field(name="unitNumber", default=UNSET)
    vin: str | UnsetType | None = UNSET
    fuel_tank_capacity_gallons: float | UnsetType | None = field(name="fuelTankCapacityGallons", default=UNSET)
    mpg: float | UnsetType | None = UNSET
    fuel_percent: (
        Annotated[float, Meta(description="The level at the start, of the rated capacity.")] | UnsetType | None
    ) = field(name="fuelPercent", default=UNSET)
    fuel_gallons: Annotated[float, Meta(description="The level, in gallons.")] | UnsetType | None = field(
        name="fuelGallons", default=UNSET
    )


class RelaxedPolicyLimit(Struct, kw_only=True):
    """
    A limit of the policy that no plan could keep, and the value that was used in its place.
    """

    limit: str
    policy: float | None
    used: float | None


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


class SimpleWay(Struct, kw_only=True):
    """
    The cost of a simple way of fueling, by the prices that the plan compares: stops included, and less the worth of
    the fuel that it leaves in the tank. Null where the truck runs dry.
    """

    name: str
    cost: float | None
    cost_less_leftover: float | None = field(name="costLessLeftover")
    stops: int


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
