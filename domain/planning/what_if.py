"""Solves a trip that was planned once more, under another policy or other prices.

The road, the truck and the fuel on board stay as they are kept with its plan. Ways out of fuel stops are left aside:
they cost nothing where stations are as dense as on highways. The preview of a policy and the replay of a quarter both
ask here, so they cannot differ."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from domain.accounts.policy import PlanPolicy
from domain.burn.figures import seen_spread_percent
from domain.lifecycle import Objective
from domain.planning.cheap_margins import first_that_is_cheap, shares_to_try
from domain.planning.explanation import FUEL_BY_POLICY, ExplainedCandidate, Explanation
from domain.planning.floors import MileageError, explained_error, with_growing_floors
from domain.planning.plan_inputs import by_policy, gallons_at, limits_of
from domain.planning.relaxation import PlanLimits, RelaxedLimit, least_relaxation
from domain.planning.rounding import solve_rounded
from domain.planning.trips import BurnedBy, Candidate, Infeasible, Purchase, Solution, Trip
from domain.stations.prices import PRICE_DECIMALS, Deal, adjusted_price


class Left(StrEnum):
    """The reason why a trip is left out."""

    FORGOTTEN = "explanation no longer kept"
    TOO_LARGE = "too many stations along the road"
    TOO_FAR = "stations so far from the road were not looked at"
    INFEASIBLE = "no plan is feasible"
    TOO_LATE = "not computed in time"


class PassedStation(NamedTuple):
    """One pass of the road by a station with a price, as it was when the plan was made.

    `tax` is the state's fuel tax in the net price that is credited. `retail_price` is None where there was none.
    `deals` are the numbers of the deals that held, `quote` is the net price by the company's price files."""

    station_id: str
    brand: str | None
    state: str | None
    mile: float
    miles_in: float
    miles_out: float
    net_price: float
    tax: float
    retail_price: float | None = None
    deals: tuple[int, ...] = ()
    quote: float | None = None


@dataclass(frozen=True, slots=True)
class KeptTrip:
    """Everything of a planned trip that another policy or another price does not change.

    - `level_is_assumed`: the truck had sent no level, so the policy decides what is on board.
    - `looked_at_miles`: the furthest detour to stations that the plan looked at.
    - `error`: the error of its mileage; `spread_percent`: how much its burn has been seen to differ, None if never.
    - `deals`: the company's deals that held, by number. None: the plan does not tell them apart from retail prices.
    """

    capacity_gallons: float
    usable_gallons: float
    start_gallons: float
    level_is_assumed: bool
    distance_miles: float
    mpg: float
    burned: tuple[BurnedBy, ...]
    looked_at_miles: float
    error: MileageError
    spread_percent: float | None
    stations: tuple[PassedStation, ...]
    deals: Mapping[int, Deal] | None = field(default_factory=dict)

    def start_under(self, policy: PlanPolicy) -> float:
        """The fuel at the start. The policy decides it only if the truck had sent no level."""
        if not self.level_is_assumed:
            return self.start_gallons
        return min(gallons_at(policy.assumed_fuel_percent, self.capacity_gallons), self.usable_gallons)


def inputs_of(explanation: Explanation) -> KeptTrip:
    """The inputs in a plan's explanation."""
    inputs, fuel = explanation["inputs"], explanation["sources"].get("fuel")
    relaxed_from = (one["policy"] or 0.0 for one in explanation["relaxed"] if one["limit"] == "max_detour_miles")
    told = explanation.get("deals")
    return KeptTrip(
        capacity_gallons=inputs["capacity_gallons"],
        usable_gallons=inputs["usable_gallons"],
        start_gallons=inputs["start_gallons"],
        level_is_assumed=fuel is not None and fuel["source"] == FUEL_BY_POLICY,
        distance_miles=inputs["distance_miles"],
        mpg=inputs["mpg"],
        burned=tuple(BurnedBy(*by) for by in explanation.get("burned", ())),
        looked_at_miles=max(inputs["max_detour_miles"], *relaxed_from, 0.0),
        error=explained_error(explanation),
        spread_percent=seen_spread_percent(inputs.get("burn")),
        stations=tuple(map(_passed, explanation["candidates"])),
        deals=None
        if told is None
        else {
            one["number"]: Deal(one["discount_per_gallon"], one["net_price"], one["number"], one["brand"])
            for one in told
        },
    )


def _passed(one: ExplainedCandidate) -> PassedStation:
    return PassedStation(
        one["station_id"],
        one.get("brand"),
        one["state"],
        one["mile"],
        one["detour_miles_in"],
        one["detour_miles_out"],
        one["net_price"],
        round(one["net_price"] - one["adjusted_price"], PRICE_DECIMALS),
        one.get("retail_price", one["net_price"]),
        tuple(one.get("deals", ())),
        one.get("quote"),
    )


Solver = Callable[[Trip, Sequence[Purchase] | None], Solution | Infeasible]
"""Solves a trip. The purchases may be a plan of it, and only make the search shorter."""


class SolvedTrip(NamedTuple):
    """A trip under a policy and its cheapest purchases. `kept` has the place of each of the trip's candidates among the
    inputs' stations. `relaxed` are the limits of the policy that no plan keeps."""

    trip: Trip
    kept: Sequence[int]
    solution: Solution
    relaxed: Sequence[RelaxedLimit]

    @property
    def purchases(self) -> Sequence[Purchase]:
        """The purchases, by the places of their stations among the inputs' stations."""
        return [Purchase(self.kept[index], gallons) for index, gallons in self.solution.purchases]

    def purchases_among(self, kept: Sequence[int]) -> Sequence[Purchase] | None:
        """The purchases by the places of their stations among these; None where one is not there."""
        places = {station: place for place, station in enumerate(kept)}
        if any(station not in places for station, _ in self.purchases):
            return None
        return [Purchase(places[station], gallons) for station, gallons in self.purchases]


def solve_under(
    inputs: KeptTrip,
    policy: PlanPolicy,
    prices: Sequence[float | None] | None = None,
    *,
    solver: Solver = solve_rounded,
    known: SolvedTrip | None = None,
) -> SolvedTrip | Left:
    """The trip under a policy, or why it is left out. `prices` are the net prices of the stations, None at those where
    the truck may not buy; without them the stations' own count. Limits are relaxed as little as needed, as in any
    plan. `known` is the same trip solved otherwise before: it makes the search shorter and changes nothing."""
    if policy.max_detour_miles > inputs.looked_at_miles:
        return Left.TOO_FAR
    candidates = _candidates(inputs, policy, prices)
    limits = limits_of(policy, inputs.capacity_gallons)
    start_gallons = inputs.start_under(policy)

    def attempt(given: PlanLimits, share_percent: float) -> tuple[Trip, Sequence[int]]:
        near = [
            (index, one)
            for index, one in candidates
            if max(one.detour_miles_in, one.detour_miles_out) <= given.max_detour_miles
        ]
        trip = Trip(
            distance_miles=inputs.distance_miles,
            start_gallons=start_gallons,
            usable_gallons=inputs.usable_gallons,
            mpg=inputs.mpg,
            candidates=tuple(one for _, one in near),
            burned=inputs.burned,
            **by_policy(policy, given),
        )
        return with_growing_floors(trip, given, share_percent, inputs.error), [index for index, _ in near]

    def solved(share_percent: float) -> SolvedTrip | None:
        trip, kept = attempt(limits, share_percent)
        solution = solver(trip, known.purchases_among(kept) if known is not None else None)
        relaxed: Sequence[RelaxedLimit] = ()
        if isinstance(solution, Infeasible):
            least = least_relaxation(limits, lambda given: solver(attempt(given, share_percent)[0], None))
            if least is None:
                return None
            relaxed = least.relaxed_from(limits)
            trip, kept = attempt(least, share_percent)
            solution = solver(trip, None)
        return SolvedTrip(trip, kept, solution, relaxed) if isinstance(solution, Solution) else None

    return _with_margin(policy, inputs.spread_percent, solved) or Left.INFEASIBLE


def _candidates(
    inputs: KeptTrip, policy: PlanPolicy, prices: Sequence[float | None] | None
) -> list[tuple[int, Candidate]]:
    """The stations where the truck may buy, each with its place among the inputs' stations."""
    less_tax = policy.objective == Objective.TAX_ADJUSTED
    found = []
    for index, one in enumerate(inputs.stations):
        price = one.net_price if prices is None else prices[index]
        if price is not None:
            counted = adjusted_price(price, one.tax) if less_tax else price
            counted = round(counted, PRICE_DECIMALS)
            found.append((index, Candidate(one.station_id, one.mile, one.miles_in, one.miles_out, counted)))
    return found


def _with_margin(
    policy: PlanPolicy, spread_percent: float | None, solved: Callable[[float], SolvedTrip | None]
) -> SolvedTrip | None:
    """The solution with the largest margin that costs no more than the policy says, as plans have it: no limit is
    relaxed for a margin."""
    cheapest = solved(policy.trips_below_reserve_percent)
    if cheapest is None:
        return None
    most = cheapest.solution.objective + policy.margin_dollars

    def attempt(share_percent: float) -> SolvedTrip | None:
        other = solved(share_percent)
        is_cheap = other is not None and not other.relaxed and other.solution.objective <= most
        return other if is_cheap else None

    return first_that_is_cheap(shares_to_try(policy, spread_percent), attempt) or cheapest
