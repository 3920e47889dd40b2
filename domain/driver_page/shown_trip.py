"""The values that the page of a driver's trip shows, in no language."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, NamedTuple
from uuid import UUID

import msgspec

from domain.driver_page.links import DriverLink
from domain.lifecycle import AnswerKind, ChoiceKind, ChoiceStatus, RefusalReason
from domain.roads import Point

TripState = Literal["waiting", "underway", "infeasible", "completed", "canceled", "ended"]
"""waiting: the trip has no plan yet. underway: it has one. infeasible: no plan keeps the truck going. ended: it was
given up."""


class ShownTruck(NamedTuple):
    """The values of a page that change with each fix of the truck."""

    at: datetime | None
    """When the truck was where the page says; None where no position is known."""
    miles_away: tuple[float | None, ...]
    """Miles from the truck to each fuel stop ahead; None where its place is not known."""


class ShownWayOut(msgspec.Struct, frozen=True):
    """The way out of a fuel stop that is closed: a station, or the end of the plan where `name` is None."""

    name: str | None
    mile: float
    latitude: float | None = None
    longitude: float | None = None


class ShownTown(msgspec.Struct, rename="camel", frozen=True):
    """The nearest other town to a fuel stop."""

    name: str
    miles: float
    is_ahead: bool


class ShownPriceChange(msgspec.Struct, frozen=True):
    """A price that changes about when the truck comes."""

    at: datetime
    before: float
    after: float


class ShownAnswer(msgspec.Struct, frozen=True):
    """The driver's newest answer to a fuel stop."""

    kind: AnswerKind
    reason: RefusalReason | None
    at: datetime
    number: int | None = None
    """The number of the fuel stop in the plan that is shown; None where it was given to another plan."""


class ShownFuelStopBehind(NamedTuple):
    """A fuel stop that is behind the truck."""

    name: str
    is_reached: bool
    """False where the truck is not known to have halted there."""


@dataclass(frozen=True, slots=True)
class ShownFuelStop:
    """A fuel stop of the plan."""

    number: int
    """Its `sequence` in the plan, from 0."""
    name: str
    address: str | None
    place: Point
    mile: float
    miles_away: float | None
    """Miles from the truck; None where its place is not known."""
    gallons: float
    fill_to_percent: int | None
    price_per_gallon: float
    cost: float
    arrival_fuel_percent: int
    arrival: datetime | None
    heading: str | None
    road: str | None
    exit: str | None
    town: ShownTown | None
    is_on_left: bool | None
    off_road_miles: float
    way_out: ShownWayOut | None
    price_change: ShownPriceChange | None
    hours: str | None
    """When the station is open, in the words of a file of stations; None where that is not known."""
    priced_at: datetime
    """The time of the pump price; the plan's own where the price is made from none, or is one to come."""
    answer: ShownAnswer | None
    """The driver's newest answer to this stop; None where he has not answered."""


class ShownChoice(msgspec.Struct, frozen=True):
    """A choice of the plan's menu, with its first fuel stop; without one the plan needs no purchase."""

    id: UUID
    kind: ChoiceKind
    status: ChoiceStatus
    extra_cents: int
    fuel_stops: int
    name: str | None = None
    mile: float | None = None
    parking_spaces: int | None = None
    showers: int | None = None


@dataclass(frozen=True, slots=True)
class ShownStop:
    """A stop of the trip."""

    name: str
    address: str | None
    place: Point
    window_start: datetime | None
    window_end: datetime | None
    arrival: datetime | None
    """The planned arrival."""
    is_reached: bool


@dataclass(frozen=True, slots=True)
class PlanChanges:
    """A new plan, beside the plan that the driver had before."""

    cause: str | None
    """The kind of `PlanCause`."""
    added: tuple[str, ...]
    """Names of fuel stops that the plan before did not have."""
    dropped: tuple[str, ...]
    """Names of fuel stops that only the plan before had."""
    levels: tuple[tuple[str, int, int], ...]
    """Fuel stops with another level to fill to: name, the level before, the level now."""


@dataclass(frozen=True, slots=True)
class ShownPlan:
    """The plan of a trip. `fuel_stops` are those ahead, the next one first; `behind` has the others."""

    id: UUID
    made_at: datetime
    fuel_stops: tuple[ShownFuelStop, ...]
    behind: tuple[ShownFuelStopBehind, ...]
    ends_at_mile: float
    road_miles: float
    """The mile of the destination, which the plan itself may not reach."""
    total_gallons: float
    total_cost: float
    is_low_on_fuel: bool
    choices: tuple[ShownChoice, ...]
    """Other plans in place of this one, while its first fuel stop is ahead."""
    allowance_cents: int
    """Cents that the driver may still spend on choices by himself; a dispatcher decides on dearer ones."""
    changes: PlanChanges | None
    """None for the first plan of the trip."""


@dataclass(frozen=True, slots=True)
class ShownTrip:
    """Everything on the page of a trip."""

    link: DriverLink
    state: TripState
    name: str
    unit_number: str | None
    company: str
    time_zone: str
    language: str | None
    """The language of the driver; see `languages.tags`."""
    map_link: str
    tells_prices: bool
    """False where the company's policy leaves prices and costs out. The extra costs of choices stay."""
    ended_at: datetime | None
    stops: tuple[ShownStop, ...]
    plan: ShownPlan | None
    is_changing: bool
    """True while a new plan is being made."""
    truck_at: datetime | None
    """When the truck was where the page says; None where no position is known."""
    fuel_percent: float | None
    """The level that the plan was made with."""
    fuel_at: datetime | None
    """When the truck measured it."""
    answers: int
    """Number of the driver's answers so far."""

    @property
    def truck(self) -> ShownTruck:
        fuel_stops = self.plan.fuel_stops if self.plan is not None else ()
        return ShownTruck(self.truck_at, tuple(stop.miles_away for stop in fuel_stops))
