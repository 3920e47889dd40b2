"""A trip to fuel: truck, limits and candidates. Its purchases are priced and checked against the limits here.

`optimizer` finds the cheapest purchases, `rounding` rounds them to what a pump shows.
"""

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import NamedTuple

DOLLAR_TOLERANCE = 1e-9
"""Costs nearer than this are equal."""

GALLON_TOLERANCE = 1e-9
"""Fuel may exceed a limit by this much: the error of floating-point sums."""

PUMP_STEP_GALLONS = 0.1
"""The smallest amount that a pump shows. Less is no purchase."""


class BurnedBy(NamedTuple):
    """The gallons that the road alone has burned by a mile, from the start of the trip."""

    mile: float
    gallons: float


class Candidate(NamedTuple):
    """One pass of the road by a station. The detour runs from the road to the station and back to the same mile."""

    station_id: str
    mile: float
    detour_miles_in: float
    detour_miles_out: float
    price: float
    """Dollars a gallon as the objective counts them. Money that comes back for a gallon is taken off, so the price may
    be negative."""
    floor_gallons: float = 0.0
    """The least fuel on arriving at the station if the truck buys there. Where the reserve is more, the reserve
    counts."""


@dataclass(frozen=True, slots=True)
class Trip:
    """The problem that the optimizer solves, with the candidates in driving order. The limits:

    - the fuel in the tank is never below `reserve_gallons`, before the first stop never below that plus
      `margin_gallons`, and never above `usable_gallons`. The margin is negative where the truck may use some of the
      reserve until it reaches fuel;
    - on arriving at a station where the truck buys, the fuel is never below the candidate's `floor_gallons`. A truck
      that drives past has no floor there;
    - at the destination at least `end_gallons` are left, and each gallon above that is worth
      `leftover_value_per_gallon`;
    - each stop costs `stop_cost` dollars, and buys no less than `smallest_purchase`;
    - where there are `first_stops`, the truck stops, and at one of these candidates first.

    Each gallon takes the truck `mpg` miles. Where its burn differs by leg, `burned` says how many gallons the road has
    burned by the end of each leg, and `mpg` is the mean. The first is at mile 0, the last at the destination or beyond
    it; miles rise, and gallons do not fall. A detour burns what its leg burns a mile.
    """

    distance_miles: float
    start_gallons: float
    end_gallons: float
    reserve_gallons: float
    usable_gallons: float
    min_purchase_gallons: float
    stop_cost: float
    mpg: float
    max_stops: int | None
    candidates: tuple[Candidate, ...]
    leftover_value_per_gallon: float = 0.0
    margin_gallons: float = 0.0
    burned: tuple[BurnedBy, ...] = ()
    first_stops: frozenset[int] | None = None

    def may_begin_at(self, index: int) -> bool:
        """True if the truck's first stop may be at this candidate."""
        return self.first_stops is None or index in self.first_stops

    def gallons_to(self, mile: float) -> float:
        """The gallons that the road burns from the start to this mile."""
        if not self.burned:
            return mile / self.mpg
        before, after = self._leg(mile)
        return before.gallons + (after.gallons - before.gallons) * (mile - before.mile) / (after.mile - before.mile)

    def detour_gallons(self, mile: float, detour_miles: float) -> float:
        """The gallons that so many miles beside the road burn at this mile."""
        if not self.burned:
            return detour_miles / self.mpg
        before, after = self._leg(mile)
        return detour_miles * (after.gallons - before.gallons) / (after.mile - before.mile)

    def _leg(self, mile: float) -> tuple[BurnedBy, BurnedBy]:
        """Beginning and end of the leg that leads to this mile."""
        end = bisect_left(self.burned, mile, lo=1, hi=len(self.burned) - 1, key=lambda by: by.mile)
        return self.burned[end - 1], self.burned[end]

    def burned_at(self, candidate: Candidate) -> tuple[float, float, float]:
        """The gallons that a candidate's mile takes from the start, its way into the station, and the way back."""
        _, mile, into, out, *_ = candidate
        if not self.burned:
            return mile / self.mpg, into / self.mpg, out / self.mpg
        return self.gallons_to(mile), self.detour_gallons(mile, into), self.detour_gallons(mile, out)

    def arriving_gallons(self, candidate: Candidate, *, from_mile: float, gallons: float) -> float:
        """The fuel on arriving at a station, after leaving the road's `from_mile` with these gallons."""
        road = self.gallons_to(candidate.mile) - self.gallons_to(from_mile)
        return gallons - road - self.detour_gallons(candidate.mile, candidate.detour_miles_in)

    def gallons_back_to_road(self, candidate: Candidate) -> float:
        return self.detour_gallons(candidate.mile, candidate.detour_miles_out)

    def gallons_left(self, *, from_mile: float, gallons: float) -> float:
        """The fuel on arriving at the destination, after leaving the road's `from_mile` with these gallons."""
        return gallons - (self.gallons_to(self.distance_miles) - self.gallons_to(from_mile))

    def lowest_gallons(self, stops_made: int) -> float:
        """The least fuel allowed in the tank after this many stops."""
        return self.reserve_gallons if stops_made else self.reserve_gallons + self.margin_gallons

    def lowest_on_arriving(self, candidate: Candidate, stops_made: int) -> float:
        """The least fuel with which the truck may arrive at a station where it buys. A truck that may use some of its
        reserve until it reaches fuel has no floor there."""
        lowest = self.lowest_gallons(stops_made)
        return lowest if lowest < self.reserve_gallons else max(lowest, candidate.floor_gallons)

    @property
    def start_usable_gallons(self) -> float:
        return min(self.start_gallons, self.usable_gallons)

    @property
    def smallest_on_road(self) -> float:
        """The smallest purchase at a station on the road itself."""
        return max(self.min_purchase_gallons, PUMP_STEP_GALLONS)

    def smallest_purchase(self, candidate: Candidate) -> float:
        """Gallons, the largest of three: the policy's smallest purchase; one step of the pump, since a stop that ends
        the margin must buy something; and what the detour burns. The last rules out nothing sensible and keeps the
        optimizer fast: pointless detours would multiply the levels from station to station."""
        _, mile, into, out, *_ = candidate
        least = self.smallest_on_road
        burned = (into + out) / self.mpg if not self.burned else self.detour_gallons(mile, into + out)
        return burned if burned > least else least


NUMBERS = tuple(one.name for one in fields(Trip) if one.name not in ("candidates", "burned", "first_stops"))
"""The values of a trip that are one number each. The inputs of an explanation have the same names."""


class Purchase(NamedTuple):
    candidate_index: int
    gallons: float


@dataclass(frozen=True, slots=True)
class Solution:
    """Purchases in driving order, and their cost with the cost of the stops, less the worth of the fuel left."""

    purchases: tuple[Purchase, ...]
    objective: float


@dataclass(frozen=True, slots=True)
class Infeasible:
    """The trip cannot be made; the miles are its first part that cannot be driven."""

    from_mile: float
    to_mile: float
    reason: str


class BrokenPlan(Exception):
    """A plan breaks its own limits: a bug, or its numbers were changed after it was made."""


def objective_of(trip: Trip, purchases: Sequence[Purchase]) -> float:
    """The cost of purchases and stops, less the worth of the fuel left at the destination."""
    fuel = math.fsum(trip.candidates[index].price * gallons for index, gallons in purchases)
    left = fuel_without_purchases(trip, purchases)[-1] + math.fsum(gallons for _, gallons in purchases)
    worth = trip.leftover_value_per_gallon * (left - trip.end_gallons)
    return fuel + trip.stop_cost * len(purchases) - worth


def fuel_without_purchases(trip: Trip, purchases: Sequence[Purchase]) -> list[float]:
    """The fuel on arriving at each of these stations, and last at the destination, if nothing were bought. It may be
    negative. The fuel in the tank is this plus the purchases before.
    """
    arriving = []
    fuel, mile = trip.start_usable_gallons, 0.0
    for index, _ in purchases:
        candidate = trip.candidates[index]
        arriving.append(trip.arriving_gallons(candidate, from_mile=mile, gallons=fuel))
        fuel = arriving[-1] - trip.gallons_back_to_road(candidate)
        mile = candidate.mile
    return [*arriving, trip.gallons_left(from_mile=mile, gallons=fuel)]


def drive_trip(trip: Trip, purchases: Sequence[Purchase], *, tolerance_gallons: float = 1e-6) -> tuple[float, ...]:
    """Drive the trip with these purchases. Returns the fuel on arriving at each station, and last at the destination.

    Raises BrokenPlan where a limit is not kept.
    """

    def check(kept: bool, what: str) -> None:
        if not kept:
            raise BrokenPlan(what)

    arrivals = []
    mile, fuel = 0.0, trip.start_usable_gallons
    check(trip.max_stops is None or len(purchases) <= trip.max_stops, "more stops than allowed")
    check(fuel >= trip.lowest_gallons(0) - tolerance_gallons, "the start is below the reserve")
    check(trip.may_begin_at(purchases[0].candidate_index if purchases else -1), "another first stop than allowed")
    for stops_made, (index, gallons) in enumerate(purchases):
        candidate = trip.candidates[index]
        check(candidate.mile >= mile, f"station {candidate.station_id} is behind the truck")
        fuel = trip.arriving_gallons(candidate, from_mile=mile, gallons=fuel)
        arrivals.append(fuel)
        lowest = trip.lowest_gallons(stops_made)
        check(fuel >= lowest - tolerance_gallons, f"below the reserve at {candidate.station_id}")
        lowest = trip.lowest_on_arriving(candidate, stops_made)
        check(fuel >= lowest - tolerance_gallons, f"below the floor at {candidate.station_id}")
        check(gallons >= trip.smallest_purchase(candidate) - tolerance_gallons, f"too little at {candidate.station_id}")
        fuel += gallons
        check(fuel <= trip.usable_gallons + tolerance_gallons, f"too much at {candidate.station_id}")
        fuel -= trip.gallons_back_to_road(candidate)
        mile = candidate.mile
        check(fuel >= trip.reserve_gallons - tolerance_gallons, f"below the reserve after {candidate.station_id}")
    fuel = trip.gallons_left(from_mile=mile, gallons=fuel)
    needed = max(trip.lowest_gallons(len(purchases)), trip.end_gallons)
    check(fuel >= needed - tolerance_gallons, "too little at the destination")
    return (*arrivals, fuel)
