"""The JSON documents of the tables' jsonb columns, as they are read: stops and fuel plans.

Names and times are written as in the API's answers, so times are text (RFC 3339).
"""

from typing import Literal, NotRequired, TypedDict


class ArrivalWindowDocument(TypedDict, total=False):
    """Either end may be missing."""

    start: str
    end: str


class StopDocument(TypedDict):
    """An entry of `routes.stops`, as it was pushed."""

    name: str
    latitude: float
    longitude: float
    address: NotRequired[str]
    arrivalWindow: NotRequired[ArrivalWindowDocument]


class FuelStopDocument(TypedDict):
    """One purchase of a fuel plan."""

    sequence: int
    name: str
    address: str | None
    latitude: float
    longitude: float
    milesFromOrigin: float
    gallonsToFill: float
    pricePerGallon: float
    totalCost: float
    arrivalFuelPercent: int
    estimatedArrival: str | None


class FuelPlanDocument(TypedDict):
    """`plans.document`: the API's fuel plan without its status, which follows the route's."""

    generatedAt: str
    totalDistanceMiles: float
    totalGallons: float
    totalCost: float
    averagePricePerGallon: float
    savingsPerGallon: float | None
    savingsTotal: float | None
    stops: list[FuelStopDocument]


class PlanCause(TypedDict):
    """`plans.cause`: why a plan was made although the route had one. `routes.replan` while it is being made."""

    kind: Literal["fuel", "prices", "dispatcher", "off_road", "stop_passed"]
    """The fuel at the first stop had changed; prices had; a dispatcher asked for it; the truck was found off the plan's
    road; it had passed a planned stop without fueling."""
    at: str
    """The time of the fix that showed it, RFC 3339; of a review, when it was made."""
    text: str
    """The same for people."""
    fuelStopsPassed: NotRequired[int]
    """The number of fuel stops of the plan before that were behind the truck, where a plan was made anew on the way."""


class TimelineEntry(TypedDict):
    """An entry of `plans.timeline`: where a stop lies on the plan's road, and when the truck is planned to be there."""

    stop: int
    """Position in `routes.stops`, from 0."""
    mile: float | None
    """None for the first stop, where the road begins."""
    plannedArrival: str | None
