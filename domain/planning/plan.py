"""The finished plan: from a road, a truck, a policy and priced stations to what the driver and the API are told."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from typing import Any, NamedTuple

import numpy as np

from domain.planning.corridor import Station, StationIndex
from domain.planning.optimizer import Candidate, Infeasible, Trip, replay, round_and_replay, solve
from domain.roads import Road

DEFAULT_CAPACITY_GALLONS = 200.0
DEFAULT_MPG = 6.5
USABLE_SHARE = 0.95
"""Of rated capacity: a tank is not filled to the brim."""
FUEL_STOP = timedelta(minutes=30)


@dataclass(frozen=True, slots=True)
class Policy:
    """A company's planning policy; percentages are of rated capacity."""

    reserve_percent: float = 15.0
    end_fuel_percent: float = 25.0
    assumed_fuel_percent: float = 50.0
    min_purchase_gallons: float = 30.0
    stop_cost: float = 20.0
    max_detour_miles: float = 5.0
    max_stops: int | None = None


class PricedStation(NamedTuple):
    station: Station
    net_price: float


@dataclass(frozen=True, slots=True, eq=False)
class PlanInputs:
    """Everything a plan is made from. None of the truck's values means that nobody knows it."""

    road: Road
    capacity_gallons: float | None
    mpg: float | None
    fuel_percent: float | None
    policy: Policy
    stations: Sequence[PricedStation]
    departure: datetime


class PlanStop(NamedTuple):
    """One purchase."""

    station: Station
    mile: float
    gallons: float
    price: float
    cost: Decimal
    arrival_fuel_percent: int
    estimated_arrival: datetime


@dataclass(frozen=True, slots=True, eq=False)
class FuelPlan:
    """A feasible plan: it can be driven with the very numbers it shows."""

    inputs: PlanInputs
    trip: Trip
    stops: tuple[PlanStop, ...]
    gallons: dict[int, float]
    """Bought at each chosen candidate, by its index in `trip.candidates`."""
    objective: float

    @property
    def total_gallons(self) -> float:
        return round(sum(stop.gallons for stop in self.stops), 3)

    @property
    def total_cost(self) -> Decimal:
        return sum((stop.cost for stop in self.stops), Decimal(0))

    @property
    def average_price_per_gallon(self) -> float:
        return round(float(self.total_cost) / self.total_gallons, 4) if self.stops else 0.0

    @property
    def savings_per_gallon(self) -> float | None:
        """What the mean of the corridor's prices is above the plan's average; None when nothing is bought."""
        if not self.stops:
            return None
        mean = float(np.mean([candidate.net_price for candidate in self.trip.candidates]))
        return round(mean - self.average_price_per_gallon, 4)

    def document(self) -> dict[str, Any]:
        """The contract's FuelPlan, without its status."""
        savings = self.savings_per_gallon
        return {
            "generatedAt": self.inputs.departure,
            "totalDistanceMiles": round(self.inputs.road.distance_miles, 1),
            "totalGallons": self.total_gallons,
            "totalCost": float(self.total_cost),
            "averagePricePerGallon": self.average_price_per_gallon,
            "savingsPerGallon": savings,
            "savingsTotal": float(_cents(savings * self.total_gallons)) if savings is not None else None,
            "stops": [
                {
                    "sequence": sequence,
                    "name": stop.station.name,
                    "address": _address(stop.station),
                    "latitude": stop.station.latitude,
                    "longitude": stop.station.longitude,
                    "milesFromOrigin": round(stop.mile, 1),
                    "gallonsToFill": stop.gallons,
                    "pricePerGallon": stop.price,
                    "totalCost": float(stop.cost),
                    "arrivalFuelPercent": stop.arrival_fuel_percent,
                    "estimatedArrival": stop.estimated_arrival,
                }
                for sequence, stop in enumerate(self.stops)
            ],
        }

    def explanation(self) -> dict[str, Any]:
        """Inputs, every candidate, the objective and the line, as `fuelroute explain --json` gives them."""
        trip = self.trip
        return {
            "inputs": {
                "capacity_gallons": self.inputs.capacity_gallons or DEFAULT_CAPACITY_GALLONS,
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
                    "gallons": self.gallons.get(index, 0.0),
                }
                for index, candidate in enumerate(trip.candidates)
            ],
            "objective": self.objective,
            "line": self.inputs.road.line.tolist(),
        }

    def arrival_at(self, mile: float) -> datetime:
        """When a mile of the road is reached, the fuel stops before it included."""
        return _arrival(self.inputs, mile, sum(stop.mile < mile for stop in self.stops))


def build_plan(inputs: PlanInputs) -> FuelPlan | Infeasible:
    """The cheapest feasible plan."""
    capacity = inputs.capacity_gallons or DEFAULT_CAPACITY_GALLONS
    policy = inputs.policy
    stations = StationIndex.build([priced.station for priced in inputs.stations])
    found = stations.passes(inputs.road, policy.max_detour_miles)
    usable = USABLE_SHARE * capacity
    percent = inputs.fuel_percent if inputs.fuel_percent is not None else policy.assumed_fuel_percent
    trip = Trip(
        distance_miles=inputs.road.distance_miles,
        start_gallons=min(percent / 100 * capacity, usable),
        end_gallons=policy.end_fuel_percent / 100 * capacity,
        reserve_gallons=policy.reserve_percent / 100 * capacity,
        usable_gallons=usable,
        min_purchase_gallons=policy.min_purchase_gallons,
        stop_cost=policy.stop_cost,
        mpg=inputs.mpg or DEFAULT_MPG,
        max_stops=policy.max_stops,
        candidates=tuple(
            Candidate(
                station_id=inputs.stations[one.station_index].station.station_id,
                mile=one.mile,
                detour_miles_in=one.detour_miles,
                detour_miles_out=one.detour_miles,
                net_price=inputs.stations[one.station_index].net_price,
            )
            for one in found
        ),
    )
    solution = solve(trip)
    if not isinstance(solution, Infeasible):
        solution = round_and_replay(trip, solution)
    if isinstance(solution, Infeasible):
        return solution
    levels = replay(trip, solution.purchases)
    stops = []
    for number, ((index, gallons), level) in enumerate(zip(solution.purchases, levels, strict=False)):
        station, price = inputs.stations[found[index].station_index]
        stops.append(
            PlanStop(
                station=station,
                mile=found[index].mile,
                gallons=gallons,
                price=price,
                cost=_cents(gallons * price),
                arrival_fuel_percent=int(level / capacity * 100 + 1e-9),
                estimated_arrival=_arrival(inputs, found[index].mile, number),
            )
        )
    return FuelPlan(inputs, trip, tuple(stops), dict(solution.purchases), solution.objective)


def _arrival(inputs: PlanInputs, mile: float, fuel_stops_before: int) -> datetime:
    hours = float(np.interp(mile, inputs.road.stop_miles, inputs.road.stop_hours))
    arrival = inputs.departure + timedelta(hours=hours) + fuel_stops_before * FUEL_STOP
    return arrival.replace(microsecond=0)


def _address(station: Station) -> str | None:
    return ", ".join(part for part in (station.address, station.city, station.state) if part) or None


def _cents(dollars: float) -> Decimal:
    return Decimal(repr(round(dollars, 6))).quantize(Decimal("0.01"), ROUND_HALF_UP)
