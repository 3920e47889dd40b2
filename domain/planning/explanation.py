"""The explanation of a plan, or of its absence: the document of `plans.explanation`, and what `explain` adds to it.

Names are the planner's. Times are text (RFC 3339). The document is stored as JSON packed by zlib. As jsonb it is four
times as large before PostgreSQL compresses it, and compressing took longer than all other steps of storing a plan. So a
reader unpacks the document and takes what it needs from it.
"""

import zlib
from collections.abc import Iterable, Sequence
from typing import Any, Generic, NotRequired, TypedDict, TypeVar, cast

import msgspec

from domain.accounts.policy import PlanPolicy
from domain.burn.figures import ExplainedBurn
from domain.documents import PlanCause
from domain.encoding import write
from domain.planning.trips import NUMBERS, Trip

MOST_CANDIDATES = 5_000
"""The candidates on one page of an explanation: more than an ordinary trip has."""

FUEL_BY_POLICY = "the company's policy"
FUEL_BY_READING = "the truck's reading"
FUEL_BEFORE_DRIVE = "the truck's last reading, less the fuel burned since"
"""The source of the fuel level where the truck has sent none."""


class ExplainedInputs(TypedDict):
    """The trip and the limits that were used, relaxed ones included. `distance_miles` is the mile where the plan ends.
    `road_miles` is the whole way, which is longer where the plan ends early. `burn` tells where `mpg` comes from. Plans
    of earlier versions have neither `burn` nor `road_miles`."""

    capacity_gallons: float
    usable_gallons: float
    reserve_gallons: float
    margin_gallons: float
    start_gallons: float
    end_gallons: float
    min_purchase_gallons: float
    stop_cost: float
    leftover_value_per_gallon: float
    mpg: float
    burn: NotRequired[ExplainedBurn]
    distance_miles: float
    road_miles: NotRequired[float]
    max_detour_miles: float
    hard_floor_gallons: NotRequired[float]
    max_stops: int | None
    objective: str
    roads: str


def explained_inputs(policy: PlanPolicy, trip: Trip, **others: Any) -> ExplainedInputs:
    """The inputs as they are explained: the values of the policy that are declared, those of the trip, and others."""
    declared = ExplainedInputs.__annotations__
    by_policy = {name: value for name, value in policy._asdict().items() if name in declared}
    in_trip = {name: getattr(trip, name) for name in NUMBERS}
    return cast("ExplainedInputs", {**dict.fromkeys(declared), **by_policy, **in_trip, **others})


class ExplainedLimit(TypedDict):
    """A limit that was relaxed: its name among the inputs, the policy's value, and the value that was used."""

    limit: str
    policy: float | None
    used: float | None


class ExplainedPriceChange(TypedDict):
    """A change of a net price before the truck arrives, or within an hour after. `at` is in the company's time zone."""

    at: str
    before: float
    after: float


class ExplainedDeal(TypedDict):
    """A deal of the company that held at some candidates: a discount on the retail price, or a net price. `brand` is
    None for a deal of one station."""

    number: int
    brand: str | None
    discount_per_gallon: float | None
    net_price: float | None


class ExplainedWayOut(TypedDict):
    """The station to which a truck goes if its fuel stop is closed; the end of the plan where it has no id."""

    station_id: str | None
    name: str | None
    mile: float


class ExplainedCandidate(TypedDict):
    """One pass of the road by a station, its price on arrival, and the gallons bought there: 0 where the truck passes
    by. A purchase has the level to fill to, where the truck's gauge tells it, and the `sign` of the road and the exit,
    such as `I-80 E, exit 122`, where they are known. `floor_gallons` is the least fuel on
    arriving there to buy, where that is more than the reserve.

    `retail_price` is there where it is not the net price, and None where there was none. `deals` are the numbers of the
    deals that held, the cheapest or not, and `quote` is the net price by the company's price files."""

    station_id: str
    name: str
    brand: NotRequired[str]
    state: str | None
    mile: float
    detour_miles_in: float
    detour_miles_out: float
    net_price: float
    adjusted_price: float
    gallons: float
    retail_price: NotRequired[float | None]
    deals: NotRequired[list[int]]
    quote: NotRequired[float]
    fill_to_percent: NotRequired[int]
    sign: NotRequired[str]
    way_out: NotRequired[ExplainedWayOut | None]
    floor_gallons: NotRequired[float]
    price_change: NotRequired[ExplainedPriceChange]


class ExplainedFailure(TypedDict):
    """The first part of the trip that cannot be driven."""

    from_mile: float
    to_mile: float
    reason: str


class ExplainedMileageError(TypedDict):
    """The share of trips that may fall below the reserve, the error of the mileage by which floors were raised, and the
    gallons kept beyond the reserve for each 100 that the plan burns since the level was last known: `by_level`, since
    the stop before; else since its start. `beyond_policy`: the policy lets more trips fall below the reserve, but this
    share costs little more."""

    share_percent: float
    mean_percent: float
    spread_percent: float
    by_level: bool
    margin_percent: float
    beyond_policy: NotRequired[bool]


class ExplainedChoice(TypedDict):
    """The choice for which a plan was made: its kind, and the dollars that it costs more than the cheapest plan, in all
    and at the pumps alone. `cheapest_cost` is paid at the pumps by the cheapest plan."""

    kind: str
    extra_cost: float
    extra_at_pumps: float
    cheapest_cost: float


class Origin(TypedDict):
    """The source of an input."""

    source: str


class DatedOrigin(Origin):
    """The source of an input and the time `at` which it was measured, None where that is unknown."""

    at: str | None


class FuelOrigin(DatedOrigin):
    """The source of the fuel level. A reading also has its distance from the level expected `miles_since` an earlier
    one, the part of it burned since, and a newer reading that waits for a second one because miles and time do not
    explain it."""

    percent: float
    believed: NotRequired[bool]
    expected_percent: NotRequired[float]
    off_percent: NotRequired[float]
    known_at: NotRequired[str]
    miles_since: NotRequired[float]
    burned_percent: NotRequired[float]
    burned_miles: NotRequired[float]
    doubted_percent: NotRequired[float]
    doubted_at: NotRequired[str]


class ExplainedTruck(TypedDict, total=False):
    """The dimensions and cargo of the vehicle as far as they were known; fields as in `TruckDimensions`."""

    height_feet: float
    width_feet: float
    length_feet: float
    weight_pounds: float
    axle_weight_pounds: float
    axle_count: int
    hazmat: bool


class ExplainedTrip(TypedDict):
    """A completed route on which the truck took the road of the plan, and when it ended."""

    route_id: str
    ended_at: str


class ExplainedSecondWay(TypedDict):
    """Another way that takes little longer than the road from one mile to another, as a `ComparedWay` has it."""

    from_mile: float
    to_mile: float
    by: str | None
    longer_percent: float
    longer_miles: float
    shared_percent: float
    stations: int
    stations_shared: int


class ExplainedSign(TypedDict):
    """The name of the road from a mile on, as on its shield: `I-80 E`."""

    mile: float
    name: str


class RoadOrigin(Origin):
    """The source of the road. `fallback_reason` says why the preferred source did not answer, None where it did.
    Plans of earlier versions have neither `truck` nor `second_ways`. The road of a driven lane has the `trips` that
    agree on it; roads with known names have `signs`."""

    fallback_reason: str | None
    truck: NotRequired[ExplainedTruck]
    second_ways: NotRequired[list[ExplainedSecondWay]]
    trips: NotRequired[list[ExplainedTrip]]
    signs: NotRequired[list[ExplainedSign]]


class ExplainedClosure(TypedDict):
    """A pass of the road by a station that is closed when the truck arrives there."""

    station_id: str
    name: str
    mile: float
    closed_until: str
    refused: NotRequired[bool]
    """True if the driver said that he cannot fuel there."""


class PriceOrigin(TypedDict):
    """When prices were imported, how old those of the candidates are, how many stations have none, and the stations
    that are left out because they are closed. Plans of earlier versions do not have the last."""

    imported_at: str | None
    oldest_at: str | None
    newest_at: str | None
    stations_left_out: dict[str, int]
    stations_without_tax_rate: int
    closed: NotRequired[list[ExplainedClosure]]


class Sources(TypedDict, total=False):
    """The sources of a route's plan inputs, as of `made_at`. They are for people and decide nothing. A plan without a
    route has none."""

    made_at: str
    departure: str
    position: DatedOrigin
    fuel: FuelOrigin
    capacity_gallons: Origin
    mpg: Origin
    roads: RoadOrigin
    prices: PriceOrigin


class ReasonedCandidate(ExplainedCandidate):
    """A candidate, and why it was chosen or not, as a `Reason` of `reasons.py`."""

    why: str
    detail: str
    extra_cost: float | None


class ExplainedWay(TypedDict):
    """The cost of a way of fueling by the plan's objective, and that cost less the worth of the fuel left beyond what
    is wanted, at this way's own average price. Both are None where the truck runs dry."""

    name: str
    objective: float | None
    objective_less_leftover: float | None
    stops: int
    gallons: float
    left_gallons: float | None


class ExplainedVersion(TypedDict):
    """One of the plans made for a route. `cause` says why, None for the first one. `fuel_stops` and `total_cost` are
    None where no plan was feasible. `told`: the driver has it. `current`: the route shows it."""

    generated_at: str
    as_of: str | None
    cause: PlanCause | None
    fuel_stops: int | None
    total_cost: float | None
    told: bool
    current: bool


class OfferedChoice(TypedDict):
    """A choice of the plan's menu: the stations of its fuel stops, its cost at the pumps, and the dollars that it costs
    more than the cheapest plan, in all and at the pumps alone. `status` is a `ChoiceStatus`; `reason` says why it was
    refused, or that it is dearer than before."""

    id: str
    kind: str
    text: str
    station_ids: list[str]
    total_cost: float
    extra_cost: float
    extra_at_pumps: float
    status: str
    reason: str | None


OneCandidate = TypeVar("OneCandidate")


class _Explanation(TypedDict, Generic[OneCandidate]):
    inputs: ExplainedInputs
    relaxed: list[ExplainedLimit]
    sources: Sources
    candidates: list[OneCandidate]
    deals: NotRequired[list[ExplainedDeal]]
    line: list[list[float]]
    line_miles: list[float]
    burned: NotRequired[list[list[float]]]
    mileage_error: NotRequired[ExplainedMileageError]
    choice: NotRequired[ExplainedChoice]
    objective: float | None
    infeasible: ExplainedFailure | None


class Explanation(_Explanation[ExplainedCandidate]):
    """The stored document. `line` is the road as pairs of latitude and longitude, `line_miles` the mile of each pair.
    `burned` has the pairs of mile and gallons of a trip whose burn differs by leg; `mileage_error` is there where the
    company keeps more fuel because of it. `deals` are those that held at a candidate; plans of earlier versions do not
    tell retail prices and deals apart, and have none. Either there is an `objective`, in dollars, or the plan is
    `infeasible`."""


def pack_explanation(explanation: Explanation) -> bytes:
    return zlib.compress(write(explanation), level=1)


def unpack_explanation(stored: bytes) -> Explanation:
    return cast(Explanation, msgspec.json.decode(zlib.decompress(stored)))


class _Bought(msgspec.Struct, gc=False):
    gallons: float


class StoredExplanation:
    """A stored explanation from which a reader takes some candidates. The others are not decoded."""

    def __init__(self, stored: bytes) -> None:
        text = zlib.decompress(stored)
        parts = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
        stored = parts.pop("candidates")
        self._rest = {name: msgspec.json.decode(part) for name, part in parts.items()}
        self._candidates = msgspec.json.decode(stored, type=list[msgspec.Raw])
        bought = msgspec.json.decode(stored, type=list[_Bought])
        self.chosen: Sequence[int] = [index for index, one in enumerate(bought) if one.gallons]
        """The indexes of the candidates at which fuel is bought."""

    def __len__(self) -> int:
        """The number of candidates."""
        return len(self._candidates)

    def part(self, indexes: Iterable[int]) -> Explanation:
        """The explanation with these candidates alone, in the order of the road."""
        candidates = [msgspec.json.decode(self._candidates[index]) for index in sorted(set(indexes))]
        return cast(Explanation, {**self._rest, "candidates": candidates})


class FullExplanation(_Explanation[ReasonedCandidate]):
    """An explanation, and what is computed from it. `ends_early` says where the plan ends and why, if not at the
    destination."""

    ends_early: str | None
    alternatives: list[ExplainedWay]


class RouteExplanation(FullExplanation):
    """The full explanation of a route's current plan, with all versions of the plan, the oldest first, and its menu.

    `candidates` may be a page of all `candidates_total`. A page that does not begin with the first one has no line.
    """

    candidates_total: int
    versions: list[ExplainedVersion]
    menu: list[OfferedChoice]
