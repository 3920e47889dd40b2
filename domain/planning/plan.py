"""The finished fuel plan: from a road, a truck, a policy and the offers along the road to what the driver gets.

Miles and prices are rounded before anything is decided, so that the numbers shown are the very numbers the plan was
made and checked with: replaying it from them keeps every limit.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np

from domain.documents import FuelPlanDocument, FuelStopDocument
from domain.lifecycle import Objective
from domain.planning.optimizer import solve
from domain.planning.rounding import round_and_replay
from domain.planning.schedule import Call, arrivals
from domain.planning.trips import Candidate, Infeasible, Purchase, Trip, replay
from domain.roads import Road
from domain.stations.offers import Offer, Station
from domain.stations.prices import PRICE_DECIMALS

USABLE_SHARE = 0.95
"""Of the rated capacity: tanks are filled to 95 %, the rest is room for the fuel to expand (49 CFR 393.67(c))."""

DEFAULT_CAPACITY_GALLONS = 200.0
DEFAULT_MPG = 6.5
FUEL_STOP = timedelta(minutes=30)

MILE_DECIMALS = 2
GALLON_DECIMALS = 6
AVERAGE_DECIMALS = 6
"""Of prices that are quotients: times some hundred gallons they still give the totals to the cent."""
DEGREE_DECIMALS = 6


@dataclass(frozen=True, slots=True)
class Policy:
    """How a company wants its trucks fueled. Percents are of the rated capacity."""

    reserve_percent: float = 15.0
    end_fuel_percent: float = 25.0
    assumed_fuel_percent: float = 50.0
    min_purchase_gallons: float = 30.0
    stop_cost: float = 20.0
    max_detour_miles: float = 5.0
    max_stops: int | None = None
    leftover_value_per_gallon: float = 0.0
    objective: Objective = Objective.PUMP


@dataclass(frozen=True, slots=True)
class PlanInputs:
    """What a plan is made from.

    `fuel_percent` is the truck's reading where it is fresh enough, else None: then the policy's assumed level is taken.
    `offers` are those of the road's corridor, in driving order. `departure` is when the road's first point is left;
    `opens` tells when each point after it may be arrived at, where that is known. `sources` says for people where the
    inputs came from and how old they are; nothing is decided by it.
    """

    road: Road
    fuel_percent: float | None
    policy: Policy
    offers: Sequence[Offer]
    departure: datetime
    opens: Sequence[datetime | None] = ()
    capacity_gallons: float | None = None
    mpg: float | None = None
    sources: Mapping[str, Any] = field(default_factory=dict)

    @property
    def rated_gallons(self) -> float:
        return self.capacity_gallons or DEFAULT_CAPACITY_GALLONS

    def gallons_of(self, percent: float) -> float:
        return round(self.rated_gallons * percent / 100, GALLON_DECIMALS)

    @property
    def usable_gallons(self) -> float:
        return round(self.rated_gallons * USABLE_SHARE, GALLON_DECIMALS)

    @property
    def start_percent(self) -> float:
        return self.policy.assumed_fuel_percent if self.fuel_percent is None else self.fuel_percent

    @property
    def start_gallons(self) -> float:
        return min(self.gallons_of(self.start_percent), self.usable_gallons)


@dataclass(frozen=True, slots=True)
class FuelPlanStop:
    """One purchase, as the contract's FuelPlanStop shows it."""

    sequence: int
    station: Station
    miles_from_origin: float
    gallons_to_fill: float
    price_per_gallon: float
    total_cost: Decimal
    arrival_fuel_percent: int
    estimated_arrival: datetime | None

    def document(self) -> FuelStopDocument:
        station = self.station
        address = ", ".join(part for part in (station.address, station.city, station.state) if part)
        return {
            "sequence": self.sequence,
            "name": station.name,
            "address": address or None,
            "latitude": station.latitude,
            "longitude": station.longitude,
            "milesFromOrigin": self.miles_from_origin,
            "gallonsToFill": self.gallons_to_fill,
            "pricePerGallon": self.price_per_gallon,
            "totalCost": float(self.total_cost),
            "arrivalFuelPercent": self.arrival_fuel_percent,
            "estimatedArrival": utc_text(self.estimated_arrival) if self.estimated_arrival is not None else None,
        }


class PlannedPoint(NamedTuple):
    """A point of the road on the scale of the fuel stops' `miles_from_origin`, and when the truck comes there. Fuel
    stops at the same mile come before it. None after the year 9999.
    """

    mile: float
    arrival: datetime | None


@dataclass(frozen=True, slots=True)
class NoPlan:
    """There is no feasible plan: what it was tried with, and the leg that fails."""

    inputs: PlanInputs
    trip: Trip
    infeasible: Infeasible

    def explanation(self) -> dict[str, Any]:
        """Why there is none, as JSON values."""
        return _explanation(self.inputs, self.trip, {}) | {
            "objective": None,
            "infeasible": {
                "from_mile": self.infeasible.from_mile,
                "to_mile": self.infeasible.to_mile,
                "reason": self.infeasible.reason,
            },
        }


@dataclass(frozen=True, slots=True)
class FuelPlan:
    """The cheapest feasible way to fuel a trip, with all it was made from. Totals are sums of the rows."""

    inputs: PlanInputs
    generated_at: datetime
    trip: Trip
    objective: float
    purchases: tuple[Purchase, ...]
    stops: tuple[FuelPlanStop, ...]
    points: tuple["PlannedPoint", ...]
    """The road's points after the first."""

    @property
    def total_gallons(self) -> float:
        return float(sum(Decimal(str(stop.gallons_to_fill)) for stop in self.stops))

    @property
    def total_cost(self) -> float:
        return float(sum(stop.total_cost for stop in self.stops))

    @property
    def average_price_per_gallon(self) -> float:
        return round(self.total_cost / self.total_gallons, AVERAGE_DECIMALS) if self.stops else 0.0

    @property
    def savings_per_gallon(self) -> float | None:
        """The mean price of the corridor less the plan's; None without a purchase. Negative where fuel could only be
        bought where it is dear.
        """
        if not self.stops:
            return None
        corridor_price = fmean(round(offer.net_price, PRICE_DECIMALS) for offer in self.inputs.offers)
        return round(corridor_price - self.average_price_per_gallon, AVERAGE_DECIMALS)

    @property
    def savings_total(self) -> float | None:
        saved = self.savings_per_gallon
        return None if saved is None else float(_cents(Decimal(str(saved)) * Decimal(str(self.total_gallons))))

    def document(self) -> FuelPlanDocument:
        """The contract's FuelPlan as JSON values, without its `status`, which follows the route's."""
        return {
            "generatedAt": utc_text(self.generated_at),
            "totalDistanceMiles": self.trip.distance_miles,
            "totalGallons": self.total_gallons,
            "totalCost": self.total_cost,
            "averagePricePerGallon": self.average_price_per_gallon,
            "savingsPerGallon": self.savings_per_gallon,
            "savingsTotal": self.savings_total,
            "stops": [stop.document() for stop in self.stops],
        }

    def explanation(self) -> dict[str, Any]:
        """Why this plan, as JSON values: what it was made from, every candidate, the value of the objective."""
        explanation = _explanation(self.inputs, self.trip, dict(self.purchases))
        return explanation | {"objective": round(self.objective, AVERAGE_DECIMALS), "infeasible": None}


def build_plan(inputs: PlanInputs, *, now: datetime | None = None) -> FuelPlan | NoPlan:
    """The plan, generated at `now` (else at the departure); or the leg that cannot be driven, and why."""
    trip = _trip(inputs)
    solution = solve(trip)
    if not isinstance(solution, Infeasible):
        solution = round_and_replay(trip, solution)
    if isinstance(solution, Infeasible):
        return NoPlan(inputs, trip, solution)
    at_stations, points = _arrivals(inputs, trip, solution.purchases)
    stops = tuple(
        _stop(inputs, sequence, purchase, arriving_gallons, arrival)
        for sequence, (purchase, arriving_gallons, arrival) in enumerate(
            zip(solution.purchases, replay(trip, solution.purchases), at_stations, strict=False)
        )
    )
    return FuelPlan(inputs, now or inputs.departure, trip, solution.objective, solution.purchases, stops, points)


def _trip(inputs: PlanInputs) -> Trip:
    """What the optimizer is asked."""
    policy = inputs.policy
    candidates = []
    for offer in inputs.offers:
        price = offer.net_price if policy.objective is Objective.PUMP else offer.adjusted_price
        detour_miles = round(offer.detour_miles, MILE_DECIMALS)
        candidates.append(
            Candidate(
                offer.station.station_id,
                round(offer.mile, MILE_DECIMALS),
                detour_miles,
                detour_miles,
                round(price, PRICE_DECIMALS),
            )
        )
    return Trip(
        distance_miles=round(inputs.road.distance_miles, MILE_DECIMALS),
        start_gallons=inputs.start_gallons,
        end_gallons=inputs.gallons_of(policy.end_fuel_percent),
        reserve_gallons=inputs.gallons_of(policy.reserve_percent),
        usable_gallons=inputs.usable_gallons,
        min_purchase_gallons=policy.min_purchase_gallons,
        stop_cost=policy.stop_cost,
        mpg=inputs.mpg or DEFAULT_MPG,
        max_stops=policy.max_stops,
        candidates=tuple(candidates),
        leftover_value_per_gallon=policy.leftover_value_per_gallon,
    )


def _arrivals(
    inputs: PlanInputs, trip: Trip, purchases: Sequence[Purchase]
) -> tuple[tuple[datetime | None, ...], tuple[PlannedPoint, ...]]:
    """When the truck comes to each station it buys at, and to each of the road's points after the first.

    Stations and points are put in order by the same rounded miles: with the exact mile of a point, a station rounded up
    would come after a destination that it lies before.
    """
    road = inputs.road
    point_miles = [round(mile, MILE_DECIMALS) for mile in road.stop_miles]
    miles = [trip.candidates[index].mile for index, _ in purchases]
    calls = [Call(float(np.interp(mile, point_miles, road.stop_hours)), stay=FUEL_STOP) for mile in miles]
    opens = inputs.opens or [None] * len(road.stop_hours[1:])
    miles += point_miles[1:]
    calls += map(Call, road.stop_hours[1:], opens)
    driven = sorted(range(len(calls)), key=miles.__getitem__)  # at one mile fuel comes first
    times = dict(zip(driven, arrivals(inputs.departure, (calls[call] for call in driven)), strict=True))
    ordered = [times[call] for call in range(len(calls))]
    points = map(PlannedPoint, point_miles[1:], ordered[len(purchases) :])
    return tuple(ordered[: len(purchases)]), tuple(points)


def _stop(
    inputs: PlanInputs, sequence: int, purchase: Purchase, arriving_gallons: float, arrival: datetime | None
) -> FuelPlanStop:
    offer = inputs.offers[purchase.candidate_index]
    price = round(offer.net_price, PRICE_DECIMALS)
    return FuelPlanStop(
        sequence=sequence,
        station=offer.station,
        miles_from_origin=round(offer.mile, MILE_DECIMALS),
        gallons_to_fill=purchase.gallons,
        price_per_gallon=price,
        total_cost=_cents(Decimal(str(purchase.gallons)) * Decimal(str(price))),
        # A fall short of a whole percent by less than the error of the sums is none.
        arrival_fuel_percent=math.floor(100 * arriving_gallons / inputs.rated_gallons + 1e-6),
        estimated_arrival=arrival,
    )


def _explanation(inputs: PlanInputs, trip: Trip, gallons: Mapping[int, float]) -> dict[str, Any]:
    policy = inputs.policy
    return {
        "inputs": {
            "capacity_gallons": inputs.rated_gallons,
            "usable_gallons": trip.usable_gallons,
            "reserve_gallons": trip.reserve_gallons,
            "start_gallons": trip.start_gallons,
            "end_gallons": trip.end_gallons,
            "min_purchase_gallons": trip.min_purchase_gallons,
            "stop_cost": trip.stop_cost,
            "leftover_value_per_gallon": trip.leftover_value_per_gallon,
            "mpg": trip.mpg,
            "distance_miles": trip.distance_miles,
            "max_detour_miles": policy.max_detour_miles,
            "max_stops": trip.max_stops,
            "objective": policy.objective,
            "roads": inputs.road.source,
        },
        "sources": dict(inputs.sources),
        "candidates": [
            {
                "station_id": candidate.station_id,
                "name": offer.station.name,
                "state": offer.station.state,
                "mile": candidate.mile,
                "detour_miles_in": candidate.detour_miles_in,
                "detour_miles_out": candidate.detour_miles_out,
                "net_price": round(offer.net_price, PRICE_DECIMALS),
                "adjusted_price": offer.adjusted_price,
                "gallons": gallons.get(index, 0.0),
            }
            for index, (candidate, offer) in enumerate(zip(trip.candidates, inputs.offers, strict=True))
        ],
        "line": np.round(inputs.road.line, DEGREE_DECIMALS).tolist(),
    }


def _cents(dollars: Decimal) -> Decimal:
    return dollars.quantize(Decimal("0.01"), ROUND_HALF_UP)


def utc_text(time: datetime) -> str:
    """RFC 3339 in UTC. Not cut to seconds: a fuel stop would seem to be reached before the stop that it comes after."""
    return time.astimezone(UTC).isoformat().replace("+00:00", "Z")
