"""Habits of fueling, driven over the trip of a plan: how a driver without a plan fuels who follows a simple rule.

A habit sees the pumps that the tank reaches and nothing beyond them, so it never knows how prices go on. It keeps the
limits of the plan, except for the most stops: no driver counts them. It stops no more once the destination is in reach
with the fuel that the plan must leave.
"""

import math
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from domain.planning.trips import GALLON_TOLERANCE, Purchase, Trip, drive_trip


class PumpInReach(NamedTuple):
    """A candidate that the truck can reach and buy at, and the tank on arriving there."""

    candidate_index: int
    price: float
    arriving_gallons: float
    room_gallons: float
    smallest_gallons: float

    @property
    def full(self) -> Purchase:
        return Purchase(self.candidate_index, self.room_gallons)


Habit = Callable[[Sequence[PumpInReach]], Purchase]
"""Chooses the next purchase among the pumps in reach, which stand in driving order; there is at least one."""


class Fueling(NamedTuple):
    """The purchases of a habit. `arrives` is False where no pump was in reach any more before the destination."""

    purchases: Sequence[Purchase]
    arrives: bool


def fuel_by_habit(trip: Trip, habit: Habit) -> Fueling:
    """Drive the trip, and fuel by the habit until the destination is in reach."""
    purchases: list[Purchase] = []
    mile, fuel, first = 0.0, trip.start_usable_gallons, 0
    while True:
        lowest = max(trip.end_gallons, trip.lowest_gallons(len(purchases))) - GALLON_TOLERANCE
        if trip.gallons_left(from_mile=mile, gallons=fuel) >= lowest:
            return Fueling(purchases, arrives=True)
        reached = _in_reach(trip, first, len(purchases), mile, fuel)
        if not reached:
            return Fueling(purchases, arrives=False)
        bought = habit(reached)
        purchases.append(bought)
        one = trip.candidates[bought.candidate_index]
        arriving = trip.arriving_gallons(one, from_mile=mile, gallons=fuel)
        fuel = arriving + bought.gallons - trip.gallons_back_to_road(one)
        mile, first = one.mile, bought.candidate_index + 1


def _in_reach(trip: Trip, first: int, stops_made: int, mile: float, fuel: float) -> list[PumpInReach]:
    found = []
    least, burned = trip.lowest_gallons(stops_made) - GALLON_TOLERANCE, trip.gallons_to(mile)
    for index in range(first, len(trip.candidates)):
        one = trip.candidates[index]
        at_mile, into, _ = trip.burned_at(one)
        passing = fuel - (at_mile - burned)
        if passing < least:
            break  # neither is any further one in reach
        arriving = passing - into
        room, smallest = trip.usable_gallons - arriving, trip.smallest_purchase(one)
        lowest = trip.lowest_on_arriving(one, stops_made) - GALLON_TOLERANCE
        if arriving >= lowest and room >= max(smallest, GALLON_TOLERANCE):
            found.append(PumpInReach(index, one.price, arriving, room, smallest))
    return found


# --- The habits ------------------------------------------------------------------------------------------------


def at_every_need(pumps: Sequence[PumpInReach]) -> Purchase:
    """Fill up at the last pump in reach."""
    return pumps[-1].full


def cheapest_in_reach(pumps: Sequence[PumpInReach]) -> Purchase:
    """Fill up at the cheapest pump in reach; of equal ones, at the furthest."""
    return min(pumps, key=lambda pump: (pump.price, -pump.candidate_index)).full


def fills_up_below(gallons: float) -> Habit:
    """Fill up at the first pump where no more than these gallons are left; where none is in reach, at the last one
    before."""

    def choose(pumps: Sequence[PumpInReach]) -> Purchase:
        return next((pump for pump in pumps if pump.arriving_gallons <= gallons), pumps[-1]).full

    return choose


def buys_usual_gallons(gallons: float, chain: Collection[int]) -> Habit:
    """Buy these gallons at the first pump of a chain, by the numbers of its candidates, whose tank has room for them.
    Without one in reach, fill up at the last pump of the chain, or at the last one of any."""

    def choose(pumps: Sequence[PumpInReach]) -> Purchase:
        own = [pump for pump in pumps if pump.candidate_index in chain]
        roomy = next((pump for pump in own if pump.room_gallons >= gallons), None)
        if roomy is None:
            return (own or pumps)[-1].full
        return Purchase(roomy.candidate_index, max(gallons, roomy.smallest_gallons))

    return choose


# --- What a habit would have paid ------------------------------------------------------------------------------


def habit_dollars(trip: Trip, fueling: Fueling, *, left_gallons: float, price_without_stop: float) -> float | None:
    """The dollars that a habit pays at the pumps for the trip that ends with `left_gallons` in the tank. The fuel that
    it leaves beyond them counts at its own average price, and so does fuel that it lacks; at `price_without_stop` where
    it buys none. None if it does not arrive. Raises BrokenPlan if it breaks a limit of the trip."""
    if not fueling.arrives:
        return None
    *_, left = drive_trip(trip, fueling.purchases)
    paid, price = paid_at_pumps(trip, fueling.purchases)
    return paid - (price if price is not None else price_without_stop) * (left - left_gallons)


def paid_at_pumps(trip: Trip, purchases: Sequence[Purchase]) -> tuple[float, float | None]:
    """The dollars of purchases, and their average price; None without any."""
    bought = math.fsum(gallons for _, gallons in purchases)
    paid = math.fsum(trip.candidates[index].price * gallons for index, gallons in purchases)
    return paid, paid / bought if bought else None
