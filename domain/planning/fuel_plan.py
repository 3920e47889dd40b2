"""The finished fuel plan, computed from a road, a truck, a policy and the offers along the road.

Miles and prices are rounded before anything is decided. So the plan is made and checked with the very numbers that it
shows, and a truck that drives it by these numbers keeps every limit.
"""

import math
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from functools import cached_property
from typing import NamedTuple

from domain.documents import FuelPlanDocument, FuelStopDocument
from domain.encoding import utc_text
from domain.lifecycle import Objective
from domain.planning.explained_plans import explain_plan
from domain.planning.explanation import (
    ExplainedChoice,
    ExplainedWayOut,
    Explanation,
    pack_explanation,
)
from domain.planning.floors import with_floors, with_growing_floors
from domain.planning.plan_inputs import GALLON_DECIMALS, MILE_DECIMALS, PlanInputs, by_policy
from domain.planning.relaxation import PlanLimits, RelaxedLimit, least_relaxation
from domain.planning.rounding import rounded_optimum, solve_rounded
from domain.planning.schedule import arrivals_along
from domain.planning.trips import BurnedBy, Candidate, Infeasible, Purchase, Solution, Trip, drive_trip
from domain.planning.ways_out import WayOut, floors_for_ways_out, highest_kept, way_out_of
from domain.roads.road_signs import Sign, default_road_signs
from domain.stations.offers import Station
from domain.stations.prices import PRICE_DECIMALS

FUEL_STOP_TIME = timedelta(minutes=30)

AVERAGE_DECIMALS = 6
"""Decimals of average prices. Times some hundred gallons they still give the totals to the cent."""


@dataclass(frozen=True, slots=True)
class PlannedFuelStop:
    """One purchase, as the contract's FuelPlanStop shows it, and the level that the driver fills to."""

    sequence: int
    station: Station
    miles_from_origin: float
    gallons_to_fill: float
    price_per_gallon: float
    total_cost: Decimal
    arrival_fuel_percent: int
    estimated_arrival: datetime | None
    fill_to_percent: int | None = None
    """The level to fill to by the truck's gauge; None where the gauge does not tell it."""
    price_rises_at: datetime | None = None
    """When a higher price begins, for a truck that comes later; None where none is known."""
    way_out: WayOut | None = None
    """The place to go to if the station is closed; None where nothing is in reach."""

    @property
    def explained_way_out(self) -> ExplainedWayOut | None:
        return self.way_out.document() if self.way_out is not None else None

    def document(self) -> FuelStopDocument:
        station = self.station
        address = ", ".join(part for part in (station.address, station.city, station.state) if part)
        document: FuelStopDocument = {
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
        if self.fill_to_percent is not None:
            document["fillToPercent"] = self.fill_to_percent
        if self.price_rises_at is not None:
            document["priceRisesAt"] = utc_text(self.price_rises_at)
        return document


class PlannedPoint(NamedTuple):
    """One of the road's points: its mile, rounded like the fuel stops' miles, and the truck's arrival. A fuel stop at
    the same mile comes before it. The arrival is None after the year 9999."""

    mile: float
    arrival: datetime | None


@dataclass(frozen=True)
class NoPlan:
    """No plan is feasible: the trip that was tried, and the leg that the truck cannot drive."""

    inputs: PlanInputs
    limits: PlanLimits
    trip: Trip
    infeasible: Infeasible

    def explanation(self) -> Explanation:
        """The document that says why no plan is feasible."""
        return explain_plan(self.inputs, self.limits, self.trip, {}, self.infeasible)

    @cached_property
    def packed_explanation(self) -> bytes:
        return pack_explanation(self.explanation())


@dataclass(frozen=True)
class ComputedPlan:
    """The cheapest feasible way to fuel a trip, with everything it was made from. Totals are the sums of the stops. The
    plan keeps `limits`: the policy's, or relaxed ones."""

    inputs: PlanInputs
    limits: PlanLimits
    generated_at: datetime
    trip: Trip
    objective: float
    purchases: tuple[Purchase, ...]
    stops: tuple[PlannedFuelStop, ...]
    points: tuple["PlannedPoint", ...]
    """The road's points after the first."""
    chosen: "Chosen | None" = None
    """Why the driver has this plan and not the cheapest one; None for the cheapest."""
    given_up: str | None = None
    """Why the plan does not keep the choice that the driver had."""

    @property
    def total_gallons(self) -> float:
        return float(sum(Decimal(str(stop.gallons_to_fill)) for stop in self.stops))

    @property
    def total_cost(self) -> float:
        return float(sum(stop.total_cost for stop in self.stops))

    @property
    def average_price_per_gallon(self) -> float:
        return round(self.total_cost / self.total_gallons, AVERAGE_DECIMALS) if self.stops else 0.0

    @cached_property
    def savings_per_gallon(self) -> float | None:
        """The mean price of the corridor's offers less the plan's average price. None without a purchase. Negative when
        the truck could only buy where fuel is dear.
        """
        if not self.stops:
            return None
        return round(self.inputs.corridor_price - self.average_price_per_gallon, AVERAGE_DECIMALS)

    @property
    def relaxed(self) -> list[RelaxedLimit]:
        """The limits of the policy that were relaxed."""
        return self.limits.relaxed_from(self.inputs.limits)

    @property
    def is_low_on_fuel(self) -> bool:
        """True if the truck has to use some of its reserve."""
        kept = min(self.limits.reserve_gallons, self.limits.later_reserve_gallons)
        return kept < self.inputs.limits.reserve_gallons

    @property
    def savings_total(self) -> float | None:
        saved = self.savings_per_gallon
        return None if saved is None else float(cents(Decimal(str(saved)) * Decimal(str(self.total_gallons))))

    @cached_property
    def signs(self) -> list[Sign | None]:
        """The sign of the road and the exit to each fuel stop; None where they are not known."""
        signs = default_road_signs()
        if signs is None:
            return [None for _ in self.purchases]
        miles = (self.inputs.offers[purchase.candidate_index].mile for purchase in self.purchases)
        return [signs.sign_for(self.inputs.road, mile) for mile in miles]

    def document(self) -> FuelPlanDocument:
        """The contract's FuelPlan as JSON values. Its `status` follows the route's and is added later."""
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

    def explanation(self) -> Explanation:
        """The document that says what the plan was made from, with every candidate and the value of the objective."""
        explanation = explain_plan(self.inputs, self.limits, self.trip, dict(self.purchases), self.objective)
        for purchase, stop, sign in zip(self.purchases, self.stops, self.signs, strict=True):
            bought = explanation["candidates"][purchase.candidate_index]
            if stop.fill_to_percent is not None:
                bought["fill_to_percent"] = stop.fill_to_percent
            if sign is not None:
                bought["sign"] = sign.in_words()
            bought["way_out"] = stop.explained_way_out
        if self.chosen is not None:
            explanation["choice"] = self.chosen.explained
        return explanation

    @cached_property
    def packed_explanation(self) -> bytes:
        """The explanation as it is stored. For a long trip it takes a second on a busy machine, so callers read it
        before they begin a transaction."""
        return pack_explanation(self.explanation())


class Chosen(NamedTuple):
    """The plan that would be the cheapest, and what the one that was chosen from its menu costs more."""

    cheapest: ComputedPlan
    explained: ExplainedChoice


def compute_plan(inputs: PlanInputs, *, now: datetime | None = None) -> ComputedPlan | NoPlan:
    """The plan, generated at `now` (the departure if not given), or the leg that cannot be driven and why."""
    limits = inputs.limits
    trip, solution = _with_ways_out(inputs, limits)
    if isinstance(solution, Infeasible) and inputs.further_offers is not None:
        without_ways_out = least_relaxation(limits, lambda given: rounded_optimum(_trip(inputs, given, 0.0)))
        limits = without_ways_out or limits.relaxed_entirely
        trip, solution = _with_ways_out(inputs, limits)
    inputs = inputs.within(limits.max_detour_miles)
    if isinstance(solution, Infeasible):
        return NoPlan(inputs, limits, trip, solution)
    return finished_plan(inputs, limits, trip, solution, generated_at=now or inputs.departure)


def finished_plan(
    inputs: PlanInputs, limits: PlanLimits, trip: Trip, solution: Solution, *, generated_at: datetime
) -> ComputedPlan:
    """The plan with these purchases. `inputs` have the offers of the trip's candidates."""
    miles = [trip.candidates[index].mile for index, _ in solution.purchases]
    at_stations, at_points = arrivals_along(inputs.road, inputs.departure, inputs.opens, miles, stay=FUEL_STOP_TIME)
    points = tuple(
        PlannedPoint(round(mile, MILE_DECIMALS), arrival)
        for mile, arrival in zip(inputs.road.stop_miles[1:], at_points, strict=False)
    )
    stops = tuple(
        _stop(inputs, trip, sequence, purchase, arriving_gallons, arrival)
        for sequence, (purchase, arriving_gallons, arrival) in enumerate(
            zip(solution.purchases, drive_trip(trip, solution.purchases), at_stations, strict=False)
        )
    )
    return ComputedPlan(inputs, limits, generated_at, trip, solution.objective, solution.purchases, stops, points)


def _with_ways_out(inputs: PlanInputs, limits: PlanLimits) -> tuple[Trip, Solution | Infeasible]:
    """The trip with these limits and as many ways out as a plan can keep, and its solution."""
    trip = _trip(inputs, limits)
    solution = solve_rounded(trip)
    if isinstance(solution, Solution):
        return trip, solution
    floors = [one.floor_gallons for one in trip.candidates]
    trip = _trip(inputs, limits, highest_kept(floors, lambda highest: rounded_optimum(_trip(inputs, limits, highest))))
    return trip, solve_rounded(trip)


def _trip(inputs: PlanInputs, limits: PlanLimits, highest_way_out: float = math.inf) -> Trip:
    """The trip for the optimizer, with these limits, the offers within their detour, and those floors for ways out that
    are not above the highest."""
    policy = inputs.policy
    offers = inputs.within(limits.max_detour_miles).offers
    is_pump, candidates = policy.objective == Objective.PUMP, []
    for offer in offers:
        station, mile, off_road_miles, price, *_ = offer
        detour_miles = round(off_road_miles, MILE_DECIMALS)
        counted = round(price if is_pump else offer.adjusted_price, PRICE_DECIMALS)
        candidates.append(
            Candidate(station.station_id, round(mile, MILE_DECIMALS), detour_miles, detour_miles, counted)
        )
    trip = Trip(
        distance_miles=round(inputs.road.distance_miles, MILE_DECIMALS),
        start_gallons=inputs.start_gallons,
        usable_gallons=inputs.usable_gallons,
        mpg=inputs.burn.mpg,
        candidates=tuple(candidates),
        burned=_burned(inputs),
        **by_policy(policy, limits),
    )
    if trip.burned:
        trip = replace(trip, mpg=trip.distance_miles / trip.gallons_to(trip.distance_miles))
    floors = floors_for_ways_out(trip, offers, inputs.hard_floor_gallons)
    trip = with_floors(trip, [one if one <= highest_way_out else 0.0 for one in floors], math.inf)
    return with_growing_floors(trip, limits, inputs.trips_below_reserve_percent, inputs.mileage_error)


def _burned(inputs: PlanInputs) -> tuple[BurnedBy, ...]:
    """The gallons burned by the end of each leg, one for each rounded mile. A road without a mile has no leg."""
    by = {round(mile, MILE_DECIMALS): round(gallons, GALLON_DECIMALS) for mile, gallons in inputs.burned}
    return tuple(BurnedBy(mile, gallons) for mile, gallons in sorted(by.items())) if len(by) > 1 else ()


def _stop(
    inputs: PlanInputs,
    trip: Trip,
    sequence: int,
    purchase: Purchase,
    arriving_gallons: float,
    arrival: datetime | None,
) -> PlannedFuelStop:
    offer = inputs.offers[purchase.candidate_index]
    price = round(offer.net_price, PRICE_DECIMALS)
    return PlannedFuelStop(
        sequence=sequence,
        station=offer.station,
        miles_from_origin=round(offer.mile, MILE_DECIMALS),
        gallons_to_fill=purchase.gallons,
        price_per_gallon=price,
        total_cost=cents(Decimal(str(purchase.gallons)) * Decimal(str(price))),
        # Rounded down, but not because of the error of floating-point sums.
        arrival_fuel_percent=math.floor(100 * arriving_gallons / inputs.rated_gallons + 1e-6),
        estimated_arrival=arrival,
        fill_to_percent=inputs.fill_to_percent(arriving_gallons + purchase.gallons),
        price_rises_at=offer.rises_at,
        way_out=way_out_of(trip, inputs.offers, purchase.candidate_index, arriving_gallons, inputs.hard_floor_gallons),
    )


def cents(dollars: Decimal) -> Decimal:
    """The amount rounded to the cent, halves up."""
    return dollars.quantize(Decimal("0.01"), ROUND_HALF_UP)
