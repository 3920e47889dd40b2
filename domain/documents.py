"""The JSON documents of the tables' jsonb columns: stops and fuel plans. Names and times are written as in the API's
answers, so times are text (RFC 3339)."""

from typing import Literal, NotRequired, TypedDict

EXTRACT_GRAPH = "extract-graph"
"""The source of roads from an extract; those of the package are `highway-graph`."""

DRIVEN_LANE = "driven-lane"
"""The source of a plan's road that follows a driven lane."""


class ArrivalWindowDocument(TypedDict, total=False):
    """The appointment at a stop. Either end may be missing."""

    start: str
    end: str


class PlaceDocument(TypedDict):
    """The place of a stop or fuel stop, whatever else is known of it."""

    latitude: float
    longitude: float


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
    fillToPercent: NotRequired[int]
    """The level to fill to by the truck's gauge, in percent of the rated capacity. Missing where the gauge does not
    tell it. The API shows neither this nor the next field."""
    priceRisesAt: NotRequired[str]
    """When a higher price begins, for a truck that comes later than planned."""


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


class WayOutDocument(TypedDict):
    """The way out of a fuel stop that is closed: a station, or the end of the plan where `name` is None."""

    name: str | None
    mile: float
    latitude: NotRequired[float]
    longitude: NotRequired[float]


class PriceChangeDocument(TypedDict):
    """A price that changes before a truck comes, or within an hour after."""

    at: str
    before: float
    after: float


class TownDocument(TypedDict):
    """The nearest other town to a fuel stop, ahead of it or behind."""

    name: str
    miles: float
    isAhead: bool


class FuelStopFacts(TypedDict):
    """Facts of a fuel stop for its driver, beside the plan's document."""

    heading: str | None
    """One of eight English words, such as `northeast`."""
    road: str | None
    exit: str | None
    town: TownDocument | None
    isOnLeft: bool | None
    """The side of the road as it is driven; None where it is not certain."""
    offRoadMiles: float
    wayOut: WayOutDocument | None
    priceChange: PriceChangeDocument | None
    hours: str | None
    """When the station is open, in the words of a file."""
    pricedAt: str | None
    """The time of the pump price that the price is made from; None where it is made from none, or changes by then."""


class DriverFacts(TypedDict):
    """`plans.driver_facts`: the driver's page shows them beside the plan; they are in no language."""

    lowFuel: bool
    """True if the truck has to use some of its reserve."""
    fuelStops: list[FuelStopFacts]


class PlanCause(TypedDict):
    """`plans.cause`: why a plan was made for a route that had one. It is in `routes.replan` while the plan is being
    made."""

    kind: Literal[
        "fuel",
        "prices",
        "dispatcher",
        "off_road",
        "stop_passed",
        "station_closed",
        "refused",
        "burn",
        "level",
        "choice",
    ]
    """Changed fuel at the first stop; changed prices; a dispatcher's request; a truck found off the plan's road; a
    truck that passed a planned stop without fueling; a station ahead that was marked closed; a fuel stop ahead that the
    driver refused; a truck whose fuel does not last to its next purchase; a truck that reaches its next purchase below
    the reserve, or needs a higher level there than the plan says; a driver's choice."""
    at: str
    """The time of the fix that showed it, or of the review; RFC 3339."""
    text: str
    """The cause in a sentence for people."""
    fuelStopsPassed: NotRequired[int]
    """Number of fuel stops of the plan before that were behind the truck, where a plan was made again on the way."""
    closures: NotRequired[dict[str, str]]
    """The closures that the plan was made for, and the answers of a driver who cannot fuel there: their ids, each with
    its station."""
    choice: NotRequired[str]
    """The id of the choice that the plan was made for."""
    takenByDriver: NotRequired[bool]
    """Present where the driver asked for the plan himself, by that choice or by a refusal: his page shows it to him as
    soon as it is made. And where he answered to it on his page before its message was out."""
    insteadOf: NotRequired[str]
    """The station where the driver would fuel next without any choice."""
    agreedCents: NotRequired[int]
    """The extra cost of the choice when it was taken. Plans that keep the choice are measured by it."""


class TimelineEntry(TypedDict):
    """An entry of `plans.timeline`: the place of a stop on the plan's road, and the planned arrival."""

    stop: int
    """Position in `routes.stops`, from 0."""
    mile: float | None
    """The road mile; None for the first stop, where the road begins."""
    plannedArrival: str | None
