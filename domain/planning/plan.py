"""The finished fuel plan: from a road, a truck, a policy and priced stations to what the driver gets.

Miles and prices are rounded before anything is decided, so that the numbers shown are the very numbers the plan was
made and checked with: replaying it from them keeps every limit.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np

from domain.planning.corridor import Station, StationIndex
from domain.planning.optimizer import (
    Candidate,
    Infeasible,
    Trip,
    replay,
    round_and_replay,
    solve,
)
from domain.planning.prices import PRICE_DECIMALS
from domain.roads import Road

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


class PricedStation(NamedTuple):
    """A station, and what the company pays there."""

    station: Station
    net_price: float


@dataclass(frozen=True, slots=True)
class PlanInputs:
    """What a plan is made from.

    `fuel_percent` is the truck's reading where it is fresh enough, else None: then the policy's assumed level is taken.
    `stations` may hold any beside those in the corridor. `departure` is when the road's first point is left.
    """

    road: Road
    fuel_percent: float | None
    policy: Policy
    stations: Sequence[PricedStation]
    departure: datetime
    capacity_gallons: float | None = None
    mpg: float | None = None

    @property
    def rated_gallons(self) -> float:
        return self.capacity_gallons or DEFAULT_CAPACITY_GALLONS

    def gallons_of(self, percent: float) -> float:
        return round(self.rated_gallons * percent / 100, GALLON_DECIMALS)

    @property
    def usable_gallons(self) -> float:
        return round(self.rated_gallons * USABLE_SHARE, GALLON_DECIMALS)

    @property
    def start_gallons(self) -> float:
        percent = self.policy.assumed_fuel_percent if self.fuel_percent is None else self.fuel_percent
        return min(self.gallons_of(percent), self.usable_gallons)


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
    estimated_arrival: datetime

    def document(self) -> dict[str, Any]:
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
            "estimatedArrival": _moment(self.estimated_arrival),
        }


@dataclass(frozen=True, slots=True)
class FuelPlan:
    """The cheapest feasible way to fuel a trip, with all it was made from. Totals are sums of the rows."""

    inputs: PlanInputs
    generated_at: datetime
    trip: Trip
    objective: float
    stops: tuple[FuelPlanStop, ...]
    gallons: tuple[float, ...]
    """Bought at each candidate of the trip, 0 at those not chosen."""

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
        corridor_price = fmean(candidate.net_price for candidate in self.trip.candidates)
        return round(corridor_price - self.average_price_per_gallon, AVERAGE_DECIMALS)

    @property
    def savings_total(self) -> float | None:
        saved = self.savings_per_gallon
        return None if saved is None else float(_cents(Decimal(str(saved)) * Decimal(str(self.total_gallons))))

    def arrival_at(self, mile: float) -> datetime:
        """When the truck reaches a mile of the road: driving, and the fuel stops up to there."""
        return _arrival(self.inputs, mile, sum(stop.miles_from_origin <= mile for stop in self.stops))

    def document(self) -> dict[str, Any]:
        """The contract's FuelPlan as JSON values, without its `status`, which follows the route's."""
        return {
            "generatedAt": _moment(self.generated_at),
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
        trip = self.trip
        return {
            "inputs": {
                "capacity_gallons": self.inputs.rated_gallons,
                "usable_gallons": trip.usable_gallons,
                "reserve_gallons": trip.reserve_gallons,
                "start_gallons": trip.start_gallons,
                "end_gallons": trip.end_gallons,
                "min_purchase_gallons": trip.min_purchase_gallons,
                "stop_cost": trip.stop_cost,
                "mpg": trip.mpg,
                "distance_miles": trip.distance_miles,
                "max_detour_miles": self.inputs.policy.max_detour_miles,
                "max_stops": trip.max_stops,
                "roads": self.inputs.road.source,
            },
            "candidates": [
                {
                    "station_id": candidate.station_id,
                    "mile": candidate.mile,
                    "detour_miles_in": candidate.detour_miles_in,
                    "detour_miles_out": candidate.detour_miles_out,
                    "net_price": candidate.net_price,
                    "gallons": gallons,
                }
                for candidate, gallons in zip(trip.candidates, self.gallons, strict=True)
            ],
            "objective": round(self.objective, AVERAGE_DECIMALS),
            "line": np.round(self.inputs.road.line, DEGREE_DECIMALS).tolist(),
        }


def build_plan(inputs: PlanInputs, *, now: datetime | None = None) -> FuelPlan | Infeasible:
    """The plan, generated at `now` (else at the departure); or the leg that cannot be driven, and why."""
    trip, stations = _trip(inputs)
    solution = solve(trip)
    if not isinstance(solution, Infeasible):
        solution = round_and_replay(trip, solution)
    if isinstance(solution, Infeasible):
        return solution
    stops = []
    gallons = [0.0] * len(trip.candidates)
    for sequence, (purchase, arriving) in enumerate(
        zip(solution.purchases, replay(trip, solution.purchases), strict=False)
    ):
        candidate = trip.candidates[purchase.candidate_index]
        gallons[purchase.candidate_index] = purchase.gallons
        stops.append(
            FuelPlanStop(
                sequence=sequence,
                station=stations[purchase.candidate_index],
                miles_from_origin=candidate.mile,
                gallons_to_fill=purchase.gallons,
                price_per_gallon=candidate.net_price,
                total_cost=_cents(Decimal(str(purchase.gallons)) * Decimal(str(candidate.net_price))),
                # A fall short of a whole percent by less than the error of the sums is none.
                arrival_fuel_percent=math.floor(100 * arriving / inputs.rated_gallons + 1e-6),
                estimated_arrival=_arrival(inputs, candidate.mile, sequence),
            )
        )
    return FuelPlan(inputs, now or inputs.departure, trip, solution.objective, tuple(stops), tuple(gallons))


def _trip(inputs: PlanInputs) -> tuple[Trip, list[Station]]:
    """What the optimizer is asked, and the station of each candidate."""
    policy = inputs.policy
    index = StationIndex.build([priced.station for priced in inputs.stations])
    candidates, stations = [], []
    for station_index, mile, detour_miles in index.passes(inputs.road, policy.max_detour_miles):
        station, net_price = inputs.stations[station_index]
        detour_miles = round(detour_miles, MILE_DECIMALS)
        candidates.append(
            Candidate(
                station.station_id,
                round(mile, MILE_DECIMALS),
                detour_miles,
                detour_miles,
                round(net_price, PRICE_DECIMALS),
            )
        )
        stations.append(station)
    trip = Trip(
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
    )
    return trip, stations


def _arrival(inputs: PlanInputs, mile: float, fuel_stops_before: int) -> datetime:
    hours = float(np.interp(mile, inputs.road.stop_miles, inputs.road.stop_hours))
    return inputs.departure + timedelta(hours=hours) + fuel_stops_before * FUEL_STOP


def _cents(dollars: Decimal) -> Decimal:
    return dollars.quantize(Decimal("0.01"), ROUND_HALF_UP)


def _moment(time: datetime) -> str:
    """RFC 3339 in UTC, to the second."""
    return time.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
