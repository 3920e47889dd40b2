"""The JSON shapes of `POST /planning/preview`: what is asked, and what is answered. They are no part of `/v1`."""

from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from domain.accounts.policy import PlanPolicy, Policy
from domain.contract.captions import captioned_fields
from domain.contract.shapes import (
    ArrivalWindow,
    FuelPlan,
    Latitude,
    Longitude,
    Moment,
    Reference,
    SentMoment,
    Shape,
    Text,
    Vin,
    in_utc,
)
from domain.fleet.vehicles import MOST_MPG, MOST_TANK_GALLONS
from domain.lifecycle import ChoiceKind, Environment

LONGEST_MILES = 5_000
"""Furthest that the stops of a preview may lie apart, in straight miles along all of them."""
MOST_PASSES = 1_500
"""Most truck stops that the road of a preview may pass. An ordinary trip of 1,000 miles passes a hundred."""


# --- What callers send -----------------------------------------------------------------------------------------


class PreviewStopInput(Shape, omit_defaults=True):
    """A stop of the load: a place, or a town by its name. `address` is not looked up, and never sent anywhere."""

    name: Annotated[Reference | None, Meta(description="As in a pushed route; the town's name unless given.")] = None
    latitude: Latitude | None = None
    longitude: Longitude | None = None
    town: Annotated[
        Reference | None,
        Meta(
            description="A town of North America by its name and state; its middle counts. Not with coordinates.",
            examples=["Joliet, IL"],
        ),
    ] = None
    address: Annotated[Annotated[Text, Meta(max_length=400)] | None, Meta(description="It is not geocoded.")] = None
    arrival_window: ArrivalWindow | None = None

    def __post_init__(self) -> None:
        if (self.latitude is None) != (self.longitude is None):
            raise ValueError("Provide both `latitude` and `longitude`")
        if self.latitude is None and self.town is None:
            raise ValueError("Provide `latitude` and `longitude`, or a `town`; an address is not geocoded")
        if self.latitude is not None and self.town is not None:
            raise ValueError("Provide either `latitude` and `longitude`, or a `town`")


class PreviewVehicleInput(Shape, omit_defaults=True):
    """The truck: one of the fleet, by `unitNumber` or `vin`, or any, by its tank, mileage and level. What is given here
    counts before what the fleet knows."""

    unit_number: Reference | None = None
    vin: Vin | None = None
    fuel_tank_capacity_gallons: Annotated[float, Meta(ge=1, le=MOST_TANK_GALLONS)] | None = None
    mpg: Annotated[float, Meta(ge=0.5, le=MOST_MPG)] | None = None
    fuel_percent: Annotated[
        Annotated[float, Meta(ge=0, le=100)] | None, Meta(description="The level at the start, of the rated capacity.")
    ] = None
    fuel_gallons: Annotated[
        Annotated[float, Meta(ge=0, le=MOST_TANK_GALLONS)] | None, Meta(description="The level, in gallons.")
    ] = None

    def __post_init__(self) -> None:
        if self.fuel_percent is not None and self.fuel_gallons is not None:
            raise ValueError("Provide either `fuelPercent` or `fuelGallons`")


def _overrides() -> type[Struct]:
    """The values of the policy by which plans are made, with the limits that the policy itself has."""
    types = {field.name: field.type for field in msgspec.structs.fields(Policy)}
    fields = [
        (one.name, Annotated[types[one.name], Meta(description=": ".join(filter(None, (one.label, one.hint))))], None)
        for one in captioned_fields(Policy, *PlanPolicy._fields)
    ]
    about = {"__doc__": "Values of the company's policy, by which plans are made."}
    return msgspec.defstruct(
        "PolicyOverrides", fields, rename="camel", omit_defaults=True, kw_only=True, namespace=about
    )


if TYPE_CHECKING:
    PolicyOverrides = Struct
else:
    PolicyOverrides = _overrides()


def policy_with(policy: PlanPolicy, overrides: "PolicyOverrides | None") -> PlanPolicy:
    """The policy with the values that were given."""
    given = msgspec.structs.asdict(overrides) if overrides is not None else {}
    return policy._replace(**{name: value for name, value in given.items() if value is not None})


def policy_in_force(policy: PlanPolicy) -> "PolicyOverrides":
    """All values of the policy, as the answer shows them."""
    return PolicyOverrides(**policy._asdict())


class PreviewInput(Shape, omit_defaults=True):
    """The load: `stops`, or `routeId`. The body of a pushed route is a valid one; what it has beyond that is
    ignored."""

    stops: Annotated[
        Annotated[list[PreviewStopInput], Meta(min_length=2, max_length=50)] | None,
        Meta(description="In driving order; the truck begins at the first one."),
    ] = None
    route_id: Annotated[
        Reference | None,
        Meta(description="A route of the key's company and environment, in place of `stops`.", examples=["rte_..."]),
    ] = None
    scheduled_start: Annotated[
        SentMoment | None, Meta(description="When the truck leaves the first stop; now unless given.")
    ] = None
    vehicle: PreviewVehicleInput | None = None
    policy: Annotated[
        PolicyOverrides | None, Meta(description="Values that count in place of the company's policy.")
    ] = None
    line: Annotated[bool, Meta(description="True for the line of the road in the answer.")] = False

    def __post_init__(self) -> None:
        if (self.stops is None) == (self.route_id is None):
            raise ValueError("Provide either `stops` or `routeId`")
        if self.scheduled_start is not None:
            self.scheduled_start = in_utc(self.scheduled_start)


# --- What the service answers ----------------------------------------------------------------------------------


class PreviewVehicle(Shape):
    id: str | None
    unit_number: str | None
    fuel_tank_capacity_gallons: float
    mpg: float
    fuel_percent: Annotated[float, Meta(description="The level at the start.")]


class PreviewStop(Shape):
    sequence: int
    name: str
    latitude: float
    longitude: float
    miles_from_origin: float
    planned_arrival: Moment | None


class PreviewState(Shape):
    """A state on the way. The tax is that of a fuel tax return: by the gallons burned less those bought there, and the
    surcharge by the gallons burned. It is null where no rate is known."""

    state: str
    miles: float
    gallons_burned: float
    gallons_bought: float
    dollars: float
    tax_per_gallon: float | None
    surcharge_per_gallon: float | None
    tax_dollars: float | None


class RelaxedPolicyLimit(Shape):
    """A limit of the policy that no plan could keep, and the value that was used in its place."""

    limit: str
    policy: float | None
    used: float | None


class InfeasibleLeg(Shape):
    """The first part of the trip that cannot be driven."""

    from_mile: float
    to_mile: float
    reason: str


class PreviewSecondWay(Shape):
    """A road that takes little longer than the one of the plan."""

    from_mile: float
    to_mile: float
    longer_percent: float
    longer_miles: float
    shared_percent: float
    stations: int
    stations_shared: int
    text: str


class PreviewAlternative(Shape):
    """Another plan, the cheapest under one condition, and the dollars that it costs more."""

    kind: ChoiceKind
    extra_cost: float
    extra_cost_at_pumps: float
    fuel_plan: FuelPlan


class SimpleWay(Shape):
    """The cost of a simple way of fueling, by the prices that the plan compares: stops included, and less the worth of
    the fuel that it leaves in the tank. Null where the truck runs dry."""

    name: str
    cost: float | None
    cost_less_leftover: float | None
    stops: int


class Assumption(Shape):
    """A value that was not given, and where it comes from."""

    field: str
    text: str


class LoadPreview(Shape, omit_defaults=True):
    """The fuel of a load. Nothing of it is stored, and no driver is told."""

    environment: Environment
    generated_at: Moment
    departure: Moment
    arrival: Moment | None
    distance_miles: float
    driving_hours: float
    hours: Annotated[float | None, Meta(description="With rests, fuel stops and waits for arrival windows.")]
    vehicle: PreviewVehicle
    policy: Annotated[PolicyOverrides, Meta(description="The values of the policy that counted.")]
    stops: list[PreviewStop]
    fuel_plan: Annotated[FuelPlan | None, Meta(description="Null where no plan is feasible.")]
    infeasible: InfeasibleLeg | None
    gallons_burned: float
    end_fuel_percent: Annotated[float | None, Meta(description="The level at the destination.")]
    cost_per_mile: Annotated[
        float | None,
        Meta(description="Dollars of the fuel burned, at the plan's average price, and of the detours to its stops."),
    ]
    tax_dollars: Annotated[float | None, Meta(description="The sum of all; null where a member's rate is missing.")]
    states: list[PreviewState]
    relaxed: list[RelaxedPolicyLimit]
    second_ways: list[PreviewSecondWay]
    alternatives: list[PreviewAlternative]
    simple_ways: list[SimpleWay]
    assumed: list[Assumption]
    line: Annotated[list[list[float]] | UnsetType, Meta(description="Latitude and longitude of each point.")] = UNSET
